//! Which devices a value of `UCX_NET_DEVICES` names, as UCX reads it (`ucp_is_resource_in_device_list` in `src/ucp/core/ucp_context.c`).

use rdma_health_node::access::Access;

use super::{Draft, is_same_list, remedy};
use crate::rails::Rails;

const NAME: &str = "UCX_NET_DEVICES";

/// Sets it to `ports`. What the user has set is kept, with the reason why it is wrong.
pub(super) fn set(draft: &mut Draft<'_>, rails: &Rails<'_>, access: &Access, ports: String, reason: &str) {
    let reason = format!("{reason}; UCX needs the port number");
    let differs = draft.user.value(NAME).filter(|list| !is_same_list(list, &ports));
    let why = differs.map(|list| wrong(draft, list, rails, access).unwrap_or_else(|| reason.clone()));
    draft.set_unless(NAME, ports, reason, why);
}

/// What is wrong with a list; `None` if it names a port with its number, or has a pattern.
fn wrong(draft: &Draft<'_>, list: &str, rails: &Rails<'_>, access: &Access) -> Option<String> {
    let items: Vec<_> = list
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .collect();
    let has_pattern = |item: &&str| *item == "all" || item.contains(['*', '?', '[']);
    if list.starts_with('^') || items.iter().any(has_pattern) {
        return None;
    }
    let own = rails.rails.iter().map(|rail| &rail.port);
    let ports: Vec<_> = own.chain(&rails.others).collect();
    let is_port = |item: &&str| ports.iter().any(|port| port.to_string() == *item);
    if items.iter().any(is_port) {
        return None;
    }
    let remedy = remedy(draft, NAME);
    let is_device = |item: &&str| ports.iter().any(|port| port.hca.name == *item);
    if items.iter().any(is_device) {
        return Some(format!(
            "this value has no port number, without which older versions of UCX find no device; {remedy}"
        ));
    }
    let netdevs = access.netdevs.known().into_iter().flatten();
    let netdevs: Vec<_> = netdevs.chain(access.default_netdev.known()).collect();
    let is_netdev = |item: &&str| netdevs.iter().any(|netdev| netdev == item);
    if items.iter().any(is_netdev) {
        return Some(format!(
            "this value names no RDMA port, so UCX uses TCP although RDMA would work; {remedy}"
        ));
    }
    Some(format!(
        "this value matches no device that this container can open, so UCX reaches no other node; {remedy}"
    ))
}
