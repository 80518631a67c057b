//! Commands that set sysctls, now and at each boot.

use rdma_health_node::platform::{Cluster, Distribution, Platform};

use super::machine_config;

/// The commands, each on its own line; `None` if too little is known about the node. The name of the subject is part of the names of files, because
/// the remedy of another rule must not overwrite them.
pub(crate) fn commands(subject: &str, settings: &[(&str, &str)], platform: Platform) -> Option<String> {
    let lines = |form: fn(&str, &str) -> String| -> Vec<String> {
        settings.iter().map(|(key, value)| form(key, value)).collect()
    };
    let file = format!("/etc/sysctl.d/90-rdma-{subject}.conf");
    let plain = |key: &str, value: &str| format!("{key}={value}");
    let quoted = |key: &str, value: &str| format!("\"{key}\" = \"{value}\"");
    if platform.cluster == Some(Cluster::OpenShift) {
        return Some(machine_config::file(
            &format!("rdma-sysctls-{subject}"),
            &file,
            &lines(plain),
        ));
    }
    if platform.cluster.is_none() && platform.may_be_openshift {
        // It may be a node of OpenShift. The parts of the catalogue's remedy say what to do where.
        return None;
    }
    Some(match platform.distribution? {
        Distribution::Talos => format!(
            "talosctl -n NODE patch machineconfig --patch '{{\"machine\":{{\"sysctls\":{{{}}}}}}}'",
            lines(|key, value| format!("\"{key}\":\"{value}\"")).join(",")
        ),
        Distribution::Bottlerocket => format!(
            "apiclient apply <<'EOF'\n[settings.kernel.sysctl]\n{}\nEOF",
            lines(quoted).join("\n")
        ),
        Distribution::ContainerOptimized => format!(
            "# the system restores /etc at each boot: run this in the startup script of the instance, too\nsysctl -w {}",
            lines(plain).join(" ")
        ),
        _ => format!(
            "printf '%s\\n' {} > {file}\nsysctl -p {file}",
            lines(plain).join(" ")
        ),
    })
}
