//! Kubernetes: the view as Node conditions and Events, in a cluster of thousands of such agents.
//!
//! What to say ([`condition`]) and when ([`schedule`]) are pure; [`session`] speaks with the API server. Nothing of this
//! runs unless the configuration enables it, and nothing that the API server does or fails to do holds the agent up.

mod api;
mod bucket;
mod condition;
mod events;
mod failure;
mod jitter;
mod labels;
mod remove;
mod schedule;
mod session;
mod text;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use tokio::{select, sync::watch, time::sleep_until};
use tracing::info;

use crate::{config::Config, metrics::OwnMetrics, view::View};
pub(crate) use api::{Access, is_node_name};
use condition::Circumstances;
pub(crate) use failure::Permission;
pub(crate) use remove::remove;
use session::{Extras, Manner, Session};

/// For so long after the start a port that was not probed yet is no reason to say that nobody knows.
const STARTING: Duration = Duration::from_secs(60);
/// Without anything new conditions are judged anew this often: facts grow stale by themselves.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Labels of the Node, as the API server tells them.
pub(crate) type Labels = BTreeMap<String, String>;

/// What publishing needs of the agent.
#[derive(Debug)]
pub(crate) struct Publisher {
    /// The Node's name.
    pub(crate) node: String,
    /// What is shown.
    pub(crate) views: watch::Receiver<Option<Arc<View>>>,
    /// The configuration; what it says of Kubernetes is taken when publishing starts.
    pub(crate) config: watch::Receiver<Config>,
    /// Where the Node's labels go, by which an administrator says what is expected of it.
    pub(crate) labels: watch::Sender<Labels>,
    /// Where requests are counted.
    pub(crate) own: Arc<OwnMetrics>,
}

impl Publisher {
    /// Publishes for as long as the agent runs.
    pub(crate) async fn run(mut self) {
        let started = Instant::now();
        let settings = self.config.borrow().kubernetes.clone();
        info!(node = self.node, "publishing Node conditions");
        self.own.kubernetes_enabled();
        let access = Access {
            kubeconfig: settings.kubeconfig.clone(),
        };
        let manner = Manner {
            node: self.node.clone(),
            events: settings.events,
            force: settings.force,
        };
        let mut session = Session::new(api::Api::new(access, Arc::clone(&self.own)), manner, started);
        loop {
            let view = self.views.borrow_and_update().clone();
            if let Some(view) = view {
                self.observe(&mut session, &view, started);
            }
            let next = session.drive().await;
            if session.is_well() {
                self.own.kubernetes_succeeded();
            }
            if let Some(labels) = session.labels() {
                self.labels.send_if_modified(|known| {
                    let changed = known != labels;
                    if changed {
                        known.clone_from(labels);
                    }
                    changed
                });
            }
            let next = next.min(Instant::now() + LOOK_AGAIN);
            select! {
                changed = self.views.changed() => if changed.is_err() { return },
                () = sleep_until(next.into()) => {}
            }
        }
    }

    fn observe(&self, session: &mut Session, view: &View, started: Instant) {
        let config = self.config.borrow();
        let settings = &config.kubernetes;
        let around = Circumstances {
            now: SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
            interval: config.interval,
            probe_interval: config.probe.enabled.then_some(config.probe.interval),
            threshold: settings.severity.into(),
            starting: started.elapsed() < STARTING,
        };
        let extras = Extras {
            labels: if settings.labels {
                labels::labels(view, &around)
            } else {
                BTreeMap::new()
            },
            taint: settings.taint.map(|effect| labels::taint(view, effect, &around)),
        };
        session.observe(condition::conditions(view, &around), extras, Instant::now());
    }
}
