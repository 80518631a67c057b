//! Probes every active port in turn: at jittered intervals, and soon after a port came up or changed its GIDs.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use rdma_health_node::pattern;
use rdma_health_protocol::{Gid, ProbeFailure, ProbeReport, ProbeRequest};
use tokio::{
    select,
    time::{Instant, sleep_until},
};
use tracing::{debug, warn};

use super::Agent;
use crate::{config, metrics::ProbeRun, view::View};

/// A port that came up is given this long to settle (addresses, GIDs) before it is probed.
const AFTER_CHANGE: Duration = Duration::from_secs(1);

/// A port, by device name and number.
type PortKey = (String, u8);

/// When a port is to be probed, and what it looked like when that was decided.
#[derive(Debug)]
struct Turn {
    due: Instant,
    gids: Vec<Gid>,
}

/// Runs as long as the agent does.
pub(super) async fn run(agent: Arc<Agent>) {
    let mut views = agent.state.subscribe();
    let mut config = agent.config.subscribe();
    let mut turns: BTreeMap<PortKey, Turn> = BTreeMap::new();
    loop {
        let settings = config.borrow_and_update().probe.clone();
        if settings.enabled {
            if let Some(view) = views.borrow_and_update().as_deref() {
                schedule(&mut turns, view, &settings.devices);
            }
        } else {
            turns.clear();
        }
        let next = turns
            .iter()
            .min_by_key(|(_, turn)| turn.due)
            .map(|(key, turn)| (key.clone(), turn.due));
        select! {
            changed = views.changed() => if changed.is_err() { return },
            changed = config.changed() => if changed.is_err() { return },
            () = sleep_until(next.as_ref().map_or_else(Instant::now, |(_, due)| *due)), if next.is_some() => {
                let Some((key, _)) = next else { continue };
                // Decided anew before the probe, so that one that fails is not repeated at once.
                if let Some(turn) = turns.get_mut(&key) {
                    turn.due = Instant::now() + jittered(settings.interval);
                }
                let request = request(&settings, &key.0, key.1);
                match agent.helper.probe(request).await {
                    Ok(report) => take(&agent, report),
                    Err(failure) => {
                        agent.own.probe_ran(ProbeRun::Helper);
                        warn!(device = key.0, port = key.1, %failure, "no probe");
                    }
                }
            }
        }
    }
}

fn take(agent: &Agent, report: ProbeReport) {
    let result = report.failure.as_ref().map_or("passed", ProbeFailure::kind);
    debug!(device = report.device, port = report.port, result, "probed");
    agent.own.probe_ran(match &report.failure {
        None => ProbeRun::Success,
        Some(failure) if failure.is_not_probed() => ProbeRun::Skipped,
        Some(_) => ProbeRun::Failure,
    });
    agent.state.probe(report);
}

/// Adds ports that are active, drops those that are not, and hurries those whose GIDs changed.
fn schedule(turns: &mut BTreeMap<PortKey, Turn>, view: &View, patterns: &[String]) {
    let mut active = BTreeMap::new();
    let wanted = |name: &str| patterns.iter().any(|pattern| pattern::matches(pattern, name));
    for (hca, number, _) in view.node.active_ports().filter(|(hca, ..)| wanted(&hca.name)) {
        let verbs = view.node.verbs_device(&hca.name);
        let gids = verbs.and_then(|device| device.ports.iter().find(|port| port.number == number));
        active.insert((hca.name.clone(), number), gids.map(|port| port.gids.clone()));
    }
    turns.retain(|key, _| active.contains_key(key));
    for (n, (key, gids)) in active.into_iter().enumerate() {
        // One after the other from the start; jitter keeps them apart later.
        let soon = Instant::now() + AFTER_CHANGE + Duration::from_millis(n as u64);
        match turns.get_mut(&key) {
            None => drop(turns.insert(
                key,
                Turn {
                    due: soon,
                    gids: gids.unwrap_or_default(),
                },
            )),
            Some(turn) => {
                if let Some(gids) = gids.filter(|gids| *gids != turn.gids) {
                    // At the start the GIDs become known a moment after the port.
                    if !turn.gids.is_empty() {
                        turn.due = turn.due.min(soon);
                    }
                    turn.gids = gids;
                }
            }
        }
    }
}

/// What is asked of the helper.
pub(crate) fn request(settings: &config::Probe, device: &str, port: u8) -> ProbeRequest {
    // The configuration bounds both sizes well below this.
    let size = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
    ProbeRequest {
        device: device.to_owned(),
        port,
        message_size: size(settings.message_size),
        depth: settings.depth,
        byte_budget: settings.byte_budget,
        time_budget_ms: u64::try_from(settings.time_budget.as_millis()).unwrap_or(u64::MAX),
        latency_samples: settings.latency_samples,
        latency_size: size(settings.latency_size),
        gid_index: None,
        even_if_busy: false,
        busy_bytes_per_second: settings.busy_bytes_per_second,
    }
}

/// The interval, up to a tenth longer or shorter, so that the nodes of a cluster do not probe in step.
fn jittered(interval: Duration) -> Duration {
    use std::hash::{BuildHasher, RandomState};
    // The standard library's only source of randomness; each state has keys of its own.
    let random = RandomState::new().hash_one(0_u8) % 2001;
    interval.mul_f64(0.9 + f64::from(u32::try_from(random).unwrap_or_default()) / 10_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_stays_within_a_tenth_and_differs() {
        let interval = Duration::from_secs(1000);
        let all: Vec<_> = (0..100).map(|_| jittered(interval)).collect();
        assert!(
            all.iter()
                .all(|jittered| (900..=1100).contains(&jittered.as_secs()))
        );
        assert!(all.iter().any(|jittered| *jittered != all[0]));
    }
}
