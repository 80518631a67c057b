//! Flags of the command line: what they give wins over the file.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use rdma_health_rules::Profile;

use super::{Config, Error, Helper, parse};

/// What the command line gives; `None` leaves the file's word.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Overrides {
    /// Address and port of the HTTP server.
    pub(crate) listen: Option<SocketAddr>,
    /// The root of the node's file system.
    pub(crate) root: Option<PathBuf>,
    /// RDMA devices that are not read at all, in place of the file's.
    pub(crate) exclude: Option<Vec<String>>,
    /// How often everything is read.
    pub(crate) interval: Option<Duration>,
    /// Whether ports are probed at all.
    pub(crate) probe_enabled: Option<bool>,
    /// How often each port is probed.
    pub(crate) probe_interval: Option<Duration>,
    /// What the node is for.
    pub(crate) profile: Option<Profile>,
    /// Whether the metrics appear under the names of the Prometheus node exporter, too.
    pub(crate) node_exporter_names: Option<bool>,
    /// File that keeps what is remembered of the node.
    pub(crate) state: Option<PathBuf>,
    /// Where the verbs helper is, in place of the file's.
    pub(crate) helper: Option<Helper>,
    /// Whether the node's state is published to Kubernetes.
    pub(crate) kubernetes: Option<bool>,
    /// The Node's name.
    pub(crate) node_name: Option<String>,
    /// The kubeconfig.
    pub(crate) kubeconfig: Option<PathBuf>,
}

impl Overrides {
    /// The configuration with the flags applied, if it makes sense. `text` is the file's, to tell the line.
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
