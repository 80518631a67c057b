//! Command-line flags, which take precedence over the file.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use rdma_health_rules::Profile;
use rdma_health_yaml::Error;

use super::{Config, Helper, NodeName, parse};

/// The values of flags; `None` keeps the file's value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Address and port of the HTTP server.
    pub listen: Option<SocketAddr>,
    /// Root directory of the node's file system.
    pub root: Option<PathBuf>,
    /// RDMA devices to ignore; replaces the file's list.
    pub exclude: Option<Vec<String>>,
    /// Interval between complete readings.
    pub interval: Option<Duration>,
    /// Whether to probe ports.
    pub probe_enabled: Option<bool>,
    /// Interval between probes of a port.
    pub probe_interval: Option<Duration>,
    /// The purpose of the node.
    pub profile: Option<Profile>,
    /// Whether to export metrics also under the names of the Prometheus node exporter.
    pub node_exporter_names: Option<bool>,
    /// Whether to export metrics that do not change while the node runs.
    pub fixed_metrics: Option<bool>,
    /// File that stores the node's history.
    pub state: Option<PathBuf>,
    /// Location of the verbs helper; replaces the file's.
    pub helper: Option<Helper>,
    /// Whether to publish the node's state to Kubernetes.
    pub kubernetes: Option<bool>,
    /// The Node's name.
    pub node_name: Option<NodeName>,
    /// The kubeconfig.
    pub kubeconfig: Option<PathBuf>,
}

impl Overrides {
    /// Applies the flags and validates the configuration. `text` is the file's, for line numbers in errors.
    pub(super) fn apply(&self, mut config: Config, text: Option<&str>) -> Result<Config, Error> {
        fn set<T: Clone>(place: &mut T, value: Option<&T>) {
            if let Some(value) = value {
                *place = value.clone();
            }
        }
        set(&mut config.listen, self.listen.as_ref());
        set(&mut config.root, self.root.as_ref());
        set(&mut config.exclude, self.exclude.as_ref());
        set(&mut config.interval, self.interval.as_ref());
        set(&mut config.probe.enabled, self.probe_enabled.as_ref());
        set(&mut config.probe.interval, self.probe_interval.as_ref());
        set(&mut config.expect.profile, self.profile.as_ref());
        set(&mut config.node_exporter_names, self.node_exporter_names.as_ref());
        set(&mut config.fixed_metrics, self.fixed_metrics.as_ref());
        if self.state.is_some() {
            config.state.clone_from(&self.state);
        }
        set(&mut config.helper, self.helper.as_ref());
        set(&mut config.kubernetes.enabled, self.kubernetes.as_ref());
        if self.node_name.is_some() {
            config.kubernetes.node.clone_from(&self.node_name);
        }
        if self.kubeconfig.is_some() {
            config.kubernetes.kubeconfig.clone_from(&self.kubeconfig);
        }
        parse::check(&config, text)?;
        Ok(config)
    }
}
