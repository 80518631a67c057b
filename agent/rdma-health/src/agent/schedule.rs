//! When the node is read: at intervals, and as soon as an event reports a change.

use std::{sync::Arc, time::Duration};

use rdma_health_config::Config;
use rdma_health_kernel::collector::Refresh;
use rdma_health_protocol::{AsyncEvent, AsyncEventKind};
use tokio::{
    select,
    sync::{mpsc, watch},
    time::{MissedTickBehavior, interval, sleep},
};

use super::{Agent, events::Event};

/// How long a full reading waits for sources that do not answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Changes that come together are read once: a device that appears sends a dozen messages.
const SETTLE: Duration = Duration::from_millis(150);

/// Reads everything at intervals, and what changed as soon as an event reports it.
pub(super) async fn keep_reading(
    agent: Arc<Agent>,
    mut kernel: mpsc::Receiver<Event>,
    mut verbs: mpsc::Receiver<AsyncEvent>,
) {
    let mut config = agent.config.subscribe();
    let mut interval = full_interval(&mut config);
    let mut pending: Option<Refresh> = Some(Refresh::All);
    // A reading because of the helper's answer must not ask for the next answer.
    let mut ask = true;
    loop {
        if let Some(what) = pending.take() {
            if ask {
                agent.ask_helper.notify_one();
            }
            ask = true;
            let Some(reading) = agent.read(what, PATIENCE).await else {
                return;
            };
            agent.state.remember(reading);
        }
        select! {
            _ = interval.tick() => pending = Some(Refresh::All),
            () = agent.read_again.notified() => {
                pending = Some(Refresh::All);
                ask = false;
            }
            Some(event) = kernel.recv() => {
                agent.metrics.event(event.name());
                pending = Some(if event == Event::Device { Refresh::All } else { Refresh::Ports });
            }
            event = verbs.recv() => match event {
                Some(event) => {
                    agent.metrics.event("verbs");
                    pending = Some(scope_of(event.kind));
                }
                None => return,
            },
            changed = config.changed() => {
                if changed.is_err() {
                    return;
                }
                interval = full_interval(&mut config);
                pending = Some(Refresh::All);
            }
        }
        // Let the rest of a burst arrive, and read as much as the widest message asks for.
        sleep(SETTLE).await;
        while let Ok(event) = kernel.try_recv() {
            ask = true;
            agent.metrics.event(event.name());
            if event == Event::Device {
                pending = Some(Refresh::All);
            }
        }
        while let Ok(event) = verbs.try_recv() {
            ask = true;
            agent.metrics.event("verbs");
            if scope_of(event.kind) == Refresh::All {
                pending = Some(Refresh::All);
            }
        }
    }
}

fn full_interval(config: &mut watch::Receiver<Config>) -> tokio::time::Interval {
    let mut interval = interval(config.borrow_and_update().interval);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval.reset();
    interval
}

/// How much an event of libibverbs asks to be read again.
fn scope_of(kind: AsyncEventKind) -> Refresh {
    match kind {
        AsyncEventKind::DeviceAdded | AsyncEventKind::DeviceRemoved | AsyncEventKind::DeviceFatal => {
            Refresh::All
        }
        _ => Refresh::Ports,
    }
}
