//! The labels of the Node with which an administrator sets expectations.
//!
//! Every response about the Node contains its labels, so they need no extra request.

use std::collections::BTreeMap;

use rdma_health_rules::{Expectations, LabelError};
use tokio::sync::watch;

/// The Node's labels in the API server's last response; empty before the first one.
#[derive(Debug, Clone, Default)]
pub struct NodeLabels(watch::Sender<BTreeMap<String, String>>);

impl NodeLabels {
    /// Sets the current labels of the Node.
    pub(crate) fn update(&self, labels: &BTreeMap<String, String>) {
        self.0.send_if_modified(|known| {
            let changed = known != labels;
            if changed {
                known.clone_from(labels);
            }
            changed
        });
    }

    /// Calls `changed` whenever the labels change.
    pub async fn follow(&self, mut changed: impl FnMut()) {
        let mut labels = self.0.subscribe();
        while labels.changed().await.is_ok() {
            changed();
        }
    }

    /// The configured expectations with those of the labels, which take precedence.
    ///
    /// # Errors
    /// If the value of an expectation label is invalid.
    pub fn over(&self, configured: Expectations) -> Result<Expectations, LabelError> {
        let labels = self.0.borrow();
        configured.with_labels(labels.iter().map(|(key, value)| (key.as_str(), value.as_str())))
    }
}
