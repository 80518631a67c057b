//! Probes every active port in turn: at jittered intervals, and soon after a port came up or changed its GIDs.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use rdma_health_helper::Helper;
use rdma_health_node::pattern;
use rdma_health_protocol::{Gid, PortKey, ProbeFailure, ProbeReport};
use rdma_health_time::Jitter;
use rdma_health_view::View;
use tokio::{
    select,
    time::{Instant, sleep_until},
};
use tracing::{debug, warn};

use super::{Agent, metrics::ProbeRun, state::Late};
use crate::helper::{probe_request, rate_of};

/// A port that came up is given this long to settle (addresses, GIDs) before it is probed.
const AFTER_CHANGE: Duration = Duration::from_secs(1);

/// When a port is to be probed, and what it looked like when that was decided.
#[derive(Debug)]
struct ProbeSlot {
    due: Instant,
    gids: Vec<Gid>,
    /// Whether it was probed, or could not be.
    is_done: bool,
}

/// Runs as long as the agent does.
pub(super) async fn run(agent: Arc<Agent>, helper: Helper) {
    let mut views = agent.state.subscribe();
    let mut config = agent.config.subscribe();
    let mut slots: BTreeMap<PortKey, ProbeSlot> = BTreeMap::new();
    // So that the nodes of a cluster do not probe in step.
    let mut jitter = Jitter::default();
    loop {
        let settings = config.borrow_and_update().probe.clone();
        agent
            .metrics
            .probes_every(settings.enabled.then_some(settings.interval));
        if settings.enabled {
            if let Some(view) = views.borrow_and_update().as_deref() {
                schedule(&mut slots, view, &settings.devices);
                if slots.values().all(|slot| slot.is_done) {
                    agent.state.has_come(Late::Probes);
                }
            }
        } else {
            slots.clear();
            agent.state.has_come(Late::Probes);
        }
        let next = slots
            .iter()
            .min_by_key(|(_, slot)| slot.due)
            .map(|(key, slot)| (key.clone(), slot.due));
        select! {
            changed = views.changed() => if changed.is_err() { return },
            changed = config.changed() => if changed.is_err() { return },
            () = sleep_until(next.as_ref().map_or_else(Instant::now, |(_, due)| *due)), if next.is_some() => {
                let Some((key, _)) = next else { continue };
                // Set before the probe, so that a failing one is not repeated at once.
                if let Some(slot) = slots.get_mut(&key) {
                    slot.due = Instant::now() + jitter.around(settings.interval);
                    slot.is_done = true;
                }
                let rate = views
                    .borrow()
                    .as_ref()
                    .and_then(|view| rate_of(&view.node, &key.device, key.port));
                let request = probe_request(&settings, &key.device, key.port, rate);
                match helper.probe(request).await {
                    Ok(report) => take(&agent, report),
                    Err(failure) => {
                        agent.metrics.probe_ran(ProbeRun::Helper);
                        warn!(device = key.device, port = key.port, %failure, "port not probed");
                    }
                }
            }
        }
    }
}

fn take(agent: &Agent, report: ProbeReport) {
    let result = report.failure.as_ref().map_or("passed", ProbeFailure::kind);
    let PortKey { device, port } = &report.path.from;
    debug!(device, port, result, "probed");
    agent.metrics.probe_ran(match &report.failure {
        None => ProbeRun::Success,
        Some(failure) if failure.is_not_probed() => ProbeRun::Skipped,
        Some(_) => ProbeRun::Failure,
    });
    agent.state.probe(report);
}

/// Adds ports that are active, drops those that are not, and hurries those whose GIDs changed.
fn schedule(slots: &mut BTreeMap<PortKey, ProbeSlot>, view: &View, patterns: &[String]) {
    let mut active = BTreeMap::new();
    let wanted = |name: &str| patterns.iter().any(|pattern| pattern::matches(pattern, name));
    for port in view.node.active_ports().filter(|port| wanted(&port.hca.name)) {
        // One table or the other: that libibverbs answers a moment after sysfs is not a change.
        let gids = port.verbs.map(|verbs| verbs.gids.clone());
        let key = PortKey {
            device: port.hca.name.clone(),
            port: port.number,
        };
        active.insert(key, gids);
    }
    slots.retain(|key, _| active.contains_key(key));
    for (n, (key, gids)) in active.into_iter().enumerate() {
        // One after the other from the start; later, jitter spreads them.
        let soon = Instant::now() + AFTER_CHANGE + Duration::from_millis(n as u64);
        match slots.get_mut(&key) {
            None => drop(slots.insert(
                key,
                ProbeSlot {
                    due: soon,
                    gids: gids.unwrap_or_default(),
                    is_done: false,
                },
            )),
            Some(slot) => {
                if let Some(gids) = gids.filter(|gids| *gids != slot.gids) {
                    // At the start the GIDs become known a moment after the port.
                    if !slot.gids.is_empty() {
                        slot.due = slot.due.min(soon);
                    }
                    slot.gids = gids;
                }
            }
        }
    }
}
