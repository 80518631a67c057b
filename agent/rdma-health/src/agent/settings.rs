//! What applies as the configuration and the labels of the Node change.

use std::{path::PathBuf, sync::Arc};

use rdma_health_config::{self as config, Config, Overrides};
use tokio::sync::watch;
use tracing::{info, warn};

use super::Agent;

/// Applies expectations that the labels of the Node set, as they change.
pub(super) async fn follow_labels(agent: Arc<Agent>) {
    agent.labels.follow(|| expect(&agent)).await;
}

/// Sets what is expected of the node: the configuration, overridden by labels.
fn expect(agent: &Agent) {
    let configured = agent.config.borrow().expect.clone();
    let labelled = agent.labels.over(configured.clone());
    agent.state.expect(labelled.unwrap_or_else(|error| {
        warn!(%error, "labels of the Node ignored; the expectations of the configuration stay active");
        configured
    }));
}

/// Applies new configurations as they come; after a bad one the previous one stays active.
pub(super) async fn follow_config(
    agent: Arc<Agent>,
    file: PathBuf,
    overrides: Overrides,
    requests: watch::Receiver<()>,
) {
    let current = agent.config.borrow().clone();
    let reloads = agent.metrics.config.clone();
    let mut changes = config::watch(file.clone(), overrides, current, requests, reloads);
    while let Some(change) = changes.recv().await {
        match change {
            Ok(config) => {
                agent.metrics.config.reloaded(true);
                info!(file = %file.display(), "configuration reloaded");
                let later = needs_restart(&agent.config.borrow(), &config);
                if !later.is_empty() {
                    warn!(
                        settings = later.join(", "),
                        "these settings have changed and take effect at the next start"
                    );
                }
                agent.reader.exclude(config.exclude.clone()).await;
                agent.config.send_replace(config);
                expect(&agent);
            }
            Err(error) => {
                agent.metrics.config.reloaded(false);
                warn!(%error, "configuration not reloaded; the previous one stays active");
            }
        }
    }
}

/// The settings that differ and are read at the start only.
fn needs_restart(before: &Config, after: &Config) -> Vec<&'static str> {
    let changed = [
        ("listen", before.listen != after.listen),
        ("root", before.root != after.root),
        ("state", before.state != after.state),
        ("helper.program", before.helper.program != after.helper.program),
        ("helper.socket", before.helper.socket != after.helper.socket),
    ];
    changed
        .into_iter()
        .filter_map(|(name, is_changed)| is_changed.then_some(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_are_read_at_the_start_only_are_named() {
        let before = Config::default();
        let mut after = before.clone();
        assert!(needs_restart(&before, &after).is_empty());
        after.node_exporter_names = !before.node_exporter_names;
        assert!(needs_restart(&before, &after).is_empty(), "it applies at once");
        after.state = Some("/var/lib/other".into());
        after.helper.socket = Some("/run/other".into());
        assert_eq!(needs_restart(&before, &after), ["state", "helper.socket"]);
    }
}
