//! Commands that load kernel modules, now and at each boot.

use rdma_health_node::platform::{Cluster, Distribution, Platform};

use super::machine_config;

/// The commands, each on its own line; `None` if too little is known about the node.
pub(crate) fn commands(modules: &[&str], platform: Platform) -> Option<String> {
    // The last one is what the adapter needs; the remedy of another adapter has another one.
    let (last, all) = (*modules.last()?, modules.join(" "));
    if platform.cluster == Some(Cluster::OpenShift) {
        let lines: Vec<_> = modules.iter().map(|module| (*module).to_owned()).collect();
        return Some(machine_config::file(
            &format!("rdma-module-{}", last.replace('_', "-")),
            &format!("/etc/modules-load.d/rdma-{last}.conf"),
            &lines,
        ));
    }
    if platform.cluster.is_none() && platform.may_be_openshift {
        // The parts of the catalogue's remedy say what to do where.
        return None;
    }
    Some(match platform.distribution? {
        Distribution::Talos => {
            let entries: Vec<_> = modules
                .iter()
                .map(|module| format!("{{\"name\":\"{module}\"}}"))
                .collect();
            format!(
                "talosctl -n NODE patch machineconfig --patch '{{\"machine\":{{\"kernel\":{{\"modules\":[{}]}}}}}}'",
                entries.join(",")
            )
        }
        Distribution::Bottlerocket => {
            let settings: Vec<String> = modules
                .iter()
                .map(|module| {
                    let setting = format!("settings.kernel.modules.{module}");
                    format!(" {setting}.allowed=true {setting}.autoload=true")
                })
                .collect();
            let settings = settings.concat();
            format!("apiclient set{settings}")
        }
        Distribution::ContainerOptimized => format!(
            "# the system restores /etc at each boot: run this in the startup script of the instance, too\nmodprobe -a {all}"
        ),
        _ => {
            let lines = modules.join("\\n");
            format!("modprobe -a {all}\nprintf '{lines}\\n' > /etc/modules-load.d/rdma-{last}.conf")
        }
    })
}
