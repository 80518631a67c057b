//! Publishes the node's state to Kubernetes while the agent runs.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use rdma_health_config::{Alias, Config, NodeName};
use rdma_health_time::now;
use rdma_health_view::View;
use tokio::{select, sync::watch, time::sleep_until};
use tracing::info;

use super::{
    Metrics, NodeLabels,
    api::{Access, Api},
    condition::{self, ConditionContext},
    kind::ConditionType,
    labels,
    ready::{self, Aggregate},
    session::{LabelsAndTaint, Session, SessionConfig},
};

/// A port that is not probed yet does not make a condition unknown for this time after the start.
const STARTING: Duration = Duration::from_secs(60);
/// Conditions are reevaluated this often even without a new view, because facts become stale.
const REEVALUATE: Duration = Duration::from_secs(30);

/// What publishing needs from the agent.
#[derive(Debug)]
pub struct Publisher {
    /// The Node's name.
    pub node: NodeName,
    /// The views to publish.
    pub views: watch::Receiver<Option<Arc<View>>>,
    /// The configuration. Its Kubernetes settings are read once, when publishing starts.
    pub config: watch::Receiver<Config>,
    /// Receives the Node's labels.
    pub labels: NodeLabels,
    /// Metrics of the requests.
    pub metrics: Arc<Metrics>,
}

impl Publisher {
    /// Publishes until the agent ends.
    pub async fn run(mut self) {
        let started = Instant::now();
        let settings = self.config.borrow().kubernetes.clone();
        info!(node = %self.node, "publishing Node conditions");
        self.metrics.enabled();
        let access = Access {
            kubeconfig: settings.kubeconfig.clone(),
            ..Access::default()
        };
        let config = SessionConfig {
            node: self.node.to_string(),
            events: settings.events,
            force: settings.force,
            types: ConditionType::all(&settings.aliases),
        };
        let mut session = Session::new(Api::new(access, Arc::clone(&self.metrics)), config, started);
        loop {
            let view = self.views.borrow_and_update().clone();
            if let Some(view) = view {
                self.observe(&mut session, &view, &settings.aliases, started);
            }
            let next = session.drive().await;
            for (condition, contested) in session.contested() {
                self.metrics.contested(condition, contested);
            }
            if session.is_well() {
                self.metrics.succeeded();
            }
            if let Some(labels) = session.labels() {
                self.labels.update(labels);
            }
            let next = next.min(Instant::now() + REEVALUATE);
            select! {
                changed = self.views.changed() => if changed.is_err() { return },
                () = sleep_until(next.into()) => {}
            }
        }
    }

    fn observe(&self, session: &mut Session, view: &View, aliases: &[Alias], started: Instant) {
        let config = self.config.borrow();
        let settings = &config.kubernetes;
        let context = ConditionContext {
            now: now(),
            interval: config.interval,
            probe_interval: config.probe.enabled.then_some(config.probe.interval),
            threshold: settings.severity.into(),
            starting: started.elapsed() < STARTING,
        };
        let labels_and_taint = LabelsAndTaint {
            labels: if settings.labels {
                labels::labels(view, &context)
            } else {
                BTreeMap::new()
            },
            taint: settings.taint.map(|effect| labels::taint(view, effect, &context)),
        };
        // An invalid label is reported where the node is judged.
        let expect = self.labels.over(config.expect.clone());
        let expect = expect.unwrap_or_else(|_| config.expect.clone());
        let aggregate = Aggregate::new(&config, expect, aliases);
        let mut conditions = condition::conditions(view, &context);
        conditions.extend(ready::conditions(view, &context, &aggregate));
        session.observe(conditions, labels_and_taint, Instant::now());
    }
}
