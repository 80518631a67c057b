//! The device nodes through which programs open RDMA devices.

use rdma_health_node::Node;

use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Severity, Subject, Writer, draft::Draft,
};

/// `uverbs-node-missing`.
pub static UVERBS_NODE_MISSING: Rule = Rule {
    id: "uverbs-node-missing",
    domain: Domain::Modules,
    policy: Policy::of(Severities::WARNING.rdma_expected(Severity::Critical)),
    title: "An RDMA device has no device node",
    explanation: "Programs open an RDMA device through /dev/infiniband/uverbsN. The kernel has the device \
        (/sys/class/infiniband_verbs/uverbsN), but the file is not there: something removed it, or /dev is not a devtmpfs and its manager did \
        not create it. libibverbs leaves the device out or fails to open it (ENOENT), and device plugins do not offer it.",
    remedy: Remedy::all(
        "Create the device node again: mknod -m 666 /dev/infiniband/UVERBS c $(tr : ' ' < /sys/class/infiniband_verbs/UVERBS/dev). A \
        reboot also does, if /dev is a devtmpfs (findmnt /dev). Find out what removes it: rules in /etc/udev/rules.d, or a container that \
        mounts /dev of the host for writing. Then restart the device plugin.",
    ),
    false_alarms: "Not judged in a container without the verbs helper, which has only the nodes that it was given, and in a tree without \
        /dev/infiniband. If most devices have no node, the facts were probably read where only some devices were given, and nothing is \
        reported.",
    inputs: &[Writer::HostRoot],
    judge: uverbs_node_missing,
};

fn uverbs_node_missing(node: &Node, _: &Expectations) -> Vec<Draft> {
    let Some(nodes) = node.modules.device_nodes.known() else {
        return Vec::new();
    };
    let hcas = node.hcas.known();
    let is_known = |device: &String| hcas.is_some_and(|hcas| hcas.contains_key(device.as_str()));
    let (with, without): (Vec<_>, Vec<_>) = nodes
        .iter()
        .filter(|(device, _)| is_known(device))
        .partition(|(_, node)| node.exists);
    if with.len() <= without.len() {
        return Vec::new();
    }
    let found = without.into_iter().map(|(device, missing)| {
        let name = &missing.name;
        let message = format!(
            "{device} has no device node: /dev/infiniband/{name} is missing, so no program can open the device; {} of {} devices have theirs",
            with.len(),
            nodes.len()
        );
        Draft::new(&UVERBS_NODE_MISSING, Subject::device(device), message)
            .fill("UVERBS", name)
            .evidence(format!("/sys/class/infiniband_verbs/{name}/ibdev"), device)
            .evidence(format!("/dev/infiniband/{name}"), "no such file")
    });
    found.collect()
}
