//! Network devices of IP over InfiniBand for a partition that their port is not in.

use rdma_health_node::{Node, Port, ipoib::Child};

use crate::{Remedy, Subject, draft::Draft};

use super::{DEFAULT_PARTITION, with_keys};

const JOIN: Remedy = Remedy {
    any: "Add the GUID of the port to partition KEY in the subnet manager (partitions.conf of opensm, or UFM). CHILD gets its carrier when the port has the key. If the \
        partition is no longer used, remove the network device: ip link delete CHILD, and its configuration.",
    host: "ip -d link show CHILD; grep . /sys/class/infiniband/DEVICE/ports/1/pkeys/* | grep -v 0x0000",
    ..Remedy::all("")
};

/// The findings about an ACTIVE port, one for each network device that is set up and has no carrier.
pub(super) fn without_key(node: &Node, port: &Port<'_>) -> Option<Draft> {
    let keys = port.partition_keys.known()?;
    let own = &port.kernel.netdev.known()?.name;
    let is_missing = |child: &&Child| {
        let is_of_port = &child.parent == own && child.is_up && child.has_carrier.known() == Some(&false);
        let has_key = keys
            .iter()
            .any(|key| key & DEFAULT_PARTITION == child.key & DEFAULT_PARTITION);
        is_of_port && !has_key
    };
    let mut children = node.ipoib.children.known()?.iter().filter(is_missing);
    let child = children.next()?;
    let more = match children.count() {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    let message = format!(
        "{} is for partition key (P_Key) {:#06x}, which {port} does not have: it has no carrier{more}",
        child.name, child.key
    );
    let finding = with_keys(port, keys, message)
        .remedy(JOIN)
        .fill("KEY", format!("{:#06x}", child.key))
        .fill("CHILD", &child.name);
    debug_assert_eq!(finding.subject(), &Subject::of_port(port));
    Some(finding.evidence(
        format!("/sys/class/net/{}/pkey", child.name),
        format!("{:#06x}", child.key),
    ))
}
