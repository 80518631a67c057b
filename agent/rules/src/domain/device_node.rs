//! The device nodes through which programs open RDMA devices.

use rdma_health_node::Node;

use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Severity, Subject, Writer, draft::Draft,
    policy::Exception,
};

/// `uverbs-node-missing`.
pub static UVERBS_NODE_MISSING: Rule = Rule {
    id: "uverbs-node-missing",
    domain: Domain::Modules,
    policy: Policy::of(Severities::WARNING.rdma_expected(Severity::Critical)).except(&[&FOR_A_GROUP]),
    title: "An RDMA device has no device node that programs can open",
    explanation: "Programs open an RDMA device through /dev/infiniband/uverbsN. The kernel has the device \
        (/sys/class/infiniband_verbs/uverbsN), but the file is not there: something removed it, or /dev is not a devtmpfs and its manager did \
        not create it. libibverbs leaves the device out or fails to open it (ENOENT), and device plugins do not offer it. Or its mode lets only root \
        open it (EACCES for all others): the kernel creates it with 0666, and rules of udev can change that. The same holds for \
        /dev/infiniband/rdma_cm, and for /dev/hfi1_N, which PSM2 opens.",
    remedy: Remedy::all(
        "Create the device node again: mknod -m 666 /dev/infiniband/UVERBS c $(tr : ' ' < /sys/class/infiniband_verbs/UVERBS/dev). A \
        reboot also does, if /dev is a devtmpfs (findmnt /dev). Find out what removes it: rules in /etc/udev/rules.d, or a container that \
        mounts /dev of the host for writing. Then restart the device plugin.",
    ),
    false_alarms: "Not judged in a container without the verbs helper, which has only the nodes that it was given, and in a tree without \
        /dev/infiniband; modes only of device nodes, and not of files in their place. If most devices have no node, the facts were probably read where only some devices were given, and nothing is \
        reported.",
    inputs: &[Writer::HostRoot],
    judge: uverbs_node_missing,
};

static FOR_A_GROUP: Exception = Exception {
    condition: "if the device node is there, and the members of a group can open it",
    severities: Severities::INFO,
};

/// What to do about a device node that only some can open.
const OPEN: Remedy = Remedy {
    any: "Let programs open the device node: chmod 666. Then find the rule of udev that sets another mode, and change its MODE to 0666 (the permissions of the \
        node give no access to other memory), or add the users of jobs to its group.",
    host: "ls -l /dev/infiniband /dev/hfi1_*; grep -r -e infiniband -e uverbs -e hfi1 /etc/udev/rules.d /usr/lib/udev/rules.d; udevadm control --reload; udevadm \
        trigger",
    ..Remedy::all("")
};

/// Device nodes that not every user can open.
fn closed(node: &Node) -> Vec<Draft> {
    let nodes = node.modules.node_modes.known().into_iter().flatten();
    let of_known = |device: &String| {
        node.hcas
            .known()
            .is_some_and(|hcas| hcas.contains_key(device.as_str()))
    };
    let closed = nodes.filter(|found| !found.is_for_all() && found.device.as_ref().is_none_or(of_known));
    let finding = closed.map(|found| {
        let (path, mode) = (&found.path, found.mode);
        let who = if found.is_for_group() {
            format!("only root and the group with number {}", found.group)
        } else {
            "only root".to_owned()
        };
        let message =
            format!("{who} can open {path} (mode {mode:04o}); programs of other users fail with EACCES");
        let subject = found.device.as_ref().map_or_else(Subject::node, Subject::device);
        Draft::new(&UVERBS_NODE_MISSING, subject, message)
            .exception(found.is_for_group().then_some(&FOR_A_GROUP))
            .remedy(OPEN)
            .evidence(path, format!("mode {mode:04o}, group {}", found.group))
    });
    finding.collect()
}

fn uverbs_node_missing(node: &Node, _: &Expectations) -> Vec<Draft> {
    missing(node).into_iter().chain(closed(node)).collect()
}

/// Devices without a device node.
fn missing(node: &Node) -> Vec<Draft> {
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
