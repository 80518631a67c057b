//! Which containers of a pod use RDMA, and those that see the node's device files without the right to open them.

use rdma_health_rules::Severity;
use serde_json::Value;

use super::list;
use crate::{
    cluster::Cluster,
    pod,
    report::Report,
    workload::{Workload, is_rdma},
};

/// The annotation with which CRI-O gives a container devices of the node.
const CRIO_DEVICES: &str = "io.kubernetes.cri-o.Devices";

/// The containers that get RDMA devices or see the node's device files; all of them if that shows of none, because a webhook or a claim can give
/// the devices to any.
pub(super) fn users<'a>(cluster: &Cluster, spec: &'a Value) -> Vec<&'a Value> {
    let found: Vec<_> = pod::containers(spec)
        .filter(|one| has_rdma(cluster, one) || pod::mounts_devices(spec, one))
        .collect();
    if found.is_empty() {
        return pod::containers(spec).collect();
    }
    found
}

/// Whether a container requests an RDMA device.
fn has_rdma(cluster: &Cluster, container: &Value) -> bool {
    let devices = pod::of_container(container);
    devices
        .keys()
        .any(|name| is_rdma(name) || cluster.is_of_an_attachment(name))
}

/// Whether the container has all rights, and so the node's devices.
pub(super) fn is_privileged(container: &Value) -> bool {
    container["securityContext"]["privileged"] == true
}

pub(super) fn check(cluster: &Cluster, workload: &Workload, report: &mut Report) {
    let spec = &workload.spec;
    let others_give = spec["resourceClaims"]
        .as_array()
        .is_some_and(|claims| !claims.is_empty())
        || !workload.annotations[CRIO_DEVICES].is_null();
    let is_refused = |one: &Value| {
        pod::mounts_devices(spec, one) && !is_privileged(one) && !has_rdma(cluster, one) && !others_give
    };
    let names = pod::names_of(spec, is_refused);
    let mut found = report.about(workload.subject());
    if !names.is_empty() {
        found.add(
            "device-files-without-right",
            Severity::Critical,
            format!(
                "container {} sees the node's /dev/infiniband but is not privileged: the kernel refuses to open the devices (EPERM), so \
                 RDMA does not work",
                list(&names)
            ),
            vec!["hostPath volume with /dev/infiniband; no RDMA resource in limits".into()],
            "request the resource of a device plugin (SR-IOV or k8s-rdma-shared-dev-plugin), which gives the right to open the devices, and \
             leave the volume out; or set securityContext.privileged: true",
        );
    }
    let has_prefix = |one: &Value| {
        let added = one["securityContext"]["capabilities"]["add"].as_array();
        let mut added = added.into_iter().flatten().filter_map(Value::as_str);
        added.any(|name| name.starts_with("CAP_"))
    };
    let names = pod::names_of(spec, has_prefix);
    if !names.is_empty() {
        found.add(
            "capability-prefix",
            Severity::Warning,
            format!(
                "container {} adds a capability with CAP_ before its name: Kubernetes writes IPC_LOCK, and containerd does not know CAP_CAP_IPC_LOCK",
                list(&names)
            ),
            vec!["securityContext.capabilities.add".into()],
            "write the capability without CAP_: IPC_LOCK",
        );
    }
}
