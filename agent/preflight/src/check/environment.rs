//! Variables of communication libraries that are written into a pod's specification although they depend on what the pod is given.

use rdma_health_rules::Severity;
use serde_json::Value;

use super::{count, list};
use crate::{
    pod::{self, NETWORKS},
    report::{Finding, Report},
    workload::{self, Workload},
};

/// The interfaces that every pod has: the one of the cluster's network, by the name that container runtimes give it, and loopback.
const OWN: [&str; 2] = ["eth0", "lo"];

pub(super) fn check(workload: &Workload, report: &mut Report) {
    for container in pod::containers(&workload.spec) {
        let name = container["name"].as_str().unwrap_or("?");
        sockets(workload, container, name, report);
        devices(workload, container, name, report);
    }
}

/// A value that the specification sets itself, not one from a field or a `ConfigMap`.
fn value<'a>(container: &'a Value, name: &str) -> Option<&'a str> {
    let variables = container["env"].as_array()?;
    let variable = variables.iter().find(|one| one["name"] == name)?;
    variable["value"].as_str().filter(|value| !value.contains("$("))
}

/// `NCCL_SOCKET_IFNAME=net1,net2` in a pod without these interfaces. NCCL needs one that exists.
fn sockets(workload: &Workload, container: &Value, name: &str, report: &mut Report) {
    const VARIABLE: &str = "NCCL_SOCKET_IFNAME";
    let Some(text) = value(container, VARIABLE).filter(|text| !text.is_empty() && !text.starts_with('^'))
    else {
        return;
    };
    // The names of a node's interfaces, and those that a DRA driver chooses, are not known here.
    let claims = &workload.spec["resourceClaims"];
    if workload.spec["hostNetwork"] == true || claims.as_array().is_some_and(|claims| !claims.is_empty()) {
        return;
    }
    let Ok(networks) = workload.networks() else { return };
    let attached = networks.iter().enumerate().map(|(n, network)| {
        let default = || format!("net{}", n + 1);
        network.interface.clone().unwrap_or_else(default)
    });
    let interfaces: Vec<String> = OWN.map(str::to_owned).into_iter().chain(attached).collect();
    let (exact, names) = match text.strip_prefix('=') {
        Some(names) => (true, names),
        None => (false, text),
    };
    let is_there = |wanted: &str| {
        // NCCL ignores a port after the name.
        let wanted = wanted.split(':').next().unwrap_or_default();
        interfaces.iter().any(|interface| {
            if exact {
                interface == wanted
            } else {
                interface.starts_with(wanted)
            }
        })
    };
    if names.split(',').any(is_there) {
        return;
    }
    report.add(Finding {
        rule: "socket-interface-missing",
        severity: Severity::Critical,
        subject: workload.subject(),
        summary: format!(
            "container {name} sets {VARIABLE}={text}, but its pod has no such interface: NCCL fails with \"Bootstrap : no socket interface found\""
        ),
        evidence: vec![
            format!("annotation {NETWORKS}: {}", count(networks.len() as u64, "network")),
            format!("interfaces of the pod: {}", list(&interfaces)),
        ],
        remedy: format!(
            "add the network attachments to the annotation, or leave {VARIABLE} out: rdma-health run sets it for the interfaces of the pod"
        ),
    });
}

/// Variables that name devices, and what happens if the device plugin gives others.
const DEVICES: [(&str, &str); 3] = [
    ("NCCL_IB_HCA", "NCCL falls back to TCP"),
    ("UCX_NET_DEVICES", "UCX reaches no other node"),
    ("NVSHMEM_HCA_LIST", "NVSHMEM does not start"),
];
/// Variables with one index of the GID table for all devices.
const INDICES: [&str; 3] = ["NCCL_IB_GID_INDEX", "UCX_IB_GID_INDEX", "NVSHMEM_IB_GID_INDEX"];

/// `NCCL_IB_HCA=mlx5_6` and `NCCL_IB_GID_INDEX=3` although a device plugin chooses the devices.
fn devices(workload: &Workload, container: &Value, name: &str, report: &mut Report) {
    let requested = pod::devices(&workload.spec);
    let chosen: Vec<_> = requested.keys().filter(|name| workload::is_rdma(name)).collect();
    if chosen.is_empty() {
        return;
    }
    let evidence = vec![format!("resources: {}", list(chosen))];
    // `mlx5` stands for all its devices, whatever their numbers are.
    let is_numbered = |item: &str| {
        let device = item.split(':').next().unwrap_or_default();
        device.contains('_') && device.ends_with(|c: char| c.is_ascii_digit())
    };
    let names_devices = |text: &str| {
        !text.starts_with('^')
            && text
                .trim_start_matches('=')
                .split(',')
                .any(|item| is_numbered(item.trim()))
    };
    for (variable, consequence) in DEVICES {
        let Some(text) = value(container, variable).filter(|text| names_devices(text)) else {
            continue;
        };
        report.add(Finding {
            rule: "devices-pinned",
            severity: Severity::Warning,
            subject: workload.subject(),
            summary: format!(
                "container {name} sets {variable}={text}, but the device plugin chooses the devices: their names differ between pods and \
                 nodes, and with other devices {consequence}"
            ),
            evidence: evidence.clone(),
            remedy: format!(
                "leave {variable} out: rdma-health run sets it for the devices that the pod was given"
            ),
        });
    }
    for variable in INDICES {
        let Some(index) = value(container, variable).filter(|text| text.trim().parse::<u32>().is_ok()) else {
            continue;
        };
        report.add(Finding {
            rule: "gid-index-pinned",
            severity: Severity::Info,
            subject: workload.subject(),
            summary: format!(
                "container {name} sets {variable}={index} for all devices, but the right index differs between devices and changes when \
                 addresses change"
            ),
            evidence: evidence.clone(),
            remedy: format!(
                "leave {variable} out: NCCL 2.21 and later, UCX and NVSHMEM find the index on each port, and rdma-health run sets what they \
                 need for it"
            ),
        });
    }
}
