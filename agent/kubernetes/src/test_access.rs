//! Access of tests to a server of their own.

use std::{net::SocketAddr, path::Path};

use serde_json::json;

use crate::Access;

/// Writes a kubeconfig for this server into a directory, and names it.
pub(crate) fn access(directory: &Path, server: SocketAddr) -> Access {
    let kubeconfig = directory.join("kubeconfig");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{server}")}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
    });
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    Access {
        kubeconfig: Some(kubeconfig),
        ..Access::default()
    }
}
