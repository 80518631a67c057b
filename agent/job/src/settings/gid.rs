//! How the libraries find the right GID of each port.

use std::net::{Ipv4Addr, Ipv6Addr};

use rdma_health_protocol::Gid;

use super::{Draft, NcclVersion, remedy};
use crate::rails::Rails;

/// How the libraries find the GID: by address family, version and range, never by an index that differs between devices.
pub(super) fn gid(draft: &mut Draft<'_>, rails: &Rails<'_>, nccl: Option<NcclVersion>) {
    let chosen: Vec<_> = rails.rails.iter().filter_map(|rail| rail.gid).collect();
    if chosen.is_empty() {
        return;
    }
    let is_old = nccl.is_some_and(|version| version < NcclVersion::CHOOSES_GID);
    if is_old {
        gid_index(draft, rails);
    }
    // The rails agree on one family.
    let ipv4 = chosen.iter().any(|gid| gid.is_ipv4_mapped());
    let range = range(rails, ipv4);
    if !is_old {
        of_family(
            draft,
            ("NCCL_IB_ADDR_FAMILY", "NCCL"),
            rails,
            ipv4,
            "the address family of the GIDs; NCCL then finds the index on each port",
        );
        let version = draft.user.value("NCCL_IB_ROCE_VERSION_NUM");
        let wrong = version.filter(|value| *value != "2").map(|_| {
            format!(
                "NCCL then looks for GIDs of another version; RoCE v1 does not pass routers; {}",
                remedy(draft, "NCCL_IB_ROCE_VERSION_NUM")
            )
        });
        let reason = "RoCE v2, which is routable".to_owned();
        draft.set_unless("NCCL_IB_ROCE_VERSION_NUM", "2".into(), reason, wrong);
        if let Some((range, reason)) = &range {
            draft.set("NCCL_IB_ADDR_RANGE", range.clone(), *reason);
        }
    }
    of_family(
        draft,
        ("NVSHMEM_IB_ADDR_FAMILY", "NVSHMEM"),
        rails,
        ipv4,
        "NVSHMEM finds the index in the same way",
    );
    if let Some((range, reason)) = range {
        draft.set("NVSHMEM_IB_ADDR_RANGE", range, reason);
    }
}

/// For an NCCL that does not find the GID itself: one index, if it is right for all ports.
fn gid_index(draft: &mut Draft<'_>, rails: &Rails<'_>) {
    let chosen: Vec<_> = rails.rails.iter().filter_map(|rail| rail.gid).collect();
    let Some(first) = chosen.first() else { return };
    if chosen.iter().all(|gid| gid.index == first.index) {
        draft.set(
            "NCCL_IB_GID_INDEX",
            first.index.to_string(),
            "NCCL before 2.21 needs it; this index is right for every port here",
        );
        return;
    }
    let all: Vec<_> = rails
        .rails
        .iter()
        .filter_map(|rail| Some(format!("{} needs {}", rail.port, rail.gid?.index)))
        .collect();
    let text = format!(
        "NCCL before 2.21 uses one GID index for all ports, and no index is right for all: {}. Update NCCL, or use one port",
        all.join(", ")
    );
    // The user's own index has its own remark.
    if draft.user.value("NCCL_IB_GID_INDEX").is_some() {
        draft.remark(text);
    } else {
        draft.stop(text);
    }
}

/// Sets the address family. One that the user has set, and of which a port has no routable GID, leads to a link-local one.
fn of_family(
    draft: &mut Draft<'_>,
    (name, library): (&'static str, &str),
    rails: &Rails<'_>,
    ipv4: bool,
    reason: &str,
) {
    let word = |ipv4: bool| if ipv4 { "AF_INET" } else { "AF_INET6" };
    let user = draft.user.value(name).filter(|value| *value != word(ipv4));
    let wrong = user.map(|value| {
        let of_user = |gid: &Gid| gid.is_global() && word(gid.is_ipv4_mapped()) == value;
        let without: Vec<_> = rails
            .rails
            .iter()
            .filter(|rail| rail.gid.is_some() && !rail.gids.iter().any(of_user))
            .map(|rail| rail.port.to_string())
            .collect();
        let remedy = remedy(draft, name);
        if !["AF_INET", "AF_INET6"].contains(&value) {
            (format!("{library} does not know this value; {remedy}"), false)
        } else if without.is_empty() {
            (format!("most ports of this job have addresses of {}", word(ipv4)), false)
        } else {
            let have = if without.len() == 1 { "has" } else { "have" };
            let why = format!(
                "{} {have} no routable GID of this family, so {library} uses a link-local one, which other subnets do not reach; {remedy}",
                without.join(", ")
            );
            (why, library == "NCCL")
        }
    });
    if let Some((why, true)) = &wrong
        && let Some(set) = draft.user.as_set(name)
    {
        draft.stopped.push(format!("{set}: {why}"));
    }
    let why = wrong.map(|(why, _)| why);
    draft.set_unless(name, word(ipv4).into(), reason.to_owned(), why);
}

/// The smallest network with the chosen GIDs of all ports, if some port has other GIDs that it excludes.
fn range(rails: &Rails<'_>, ipv4: bool) -> Option<(String, &'static str)> {
    let address = |gid: &Gid| gid.gid;
    let chosen: Vec<_> = rails
        .rails
        .iter()
        .filter_map(|rail| rail.gid.map(address))
        .collect();
    let others: Vec<_> = rails
        .rails
        .iter()
        .flat_map(|rail| &rail.gids)
        .filter(|gid| gid.is_ipv4_mapped() == ipv4 && !gid.gid.is_unicast_link_local())
        .map(address)
        .filter(|address| !chosen.contains(address))
        .collect();
    let first = u128::from(*chosen.first()?);
    if others.is_empty() {
        return None;
    }
    let common = chosen
        .iter()
        .map(|address| (u128::from(*address) ^ first).leading_zeros())
        .min()?;
    // Peers on other nodes are in the same subnet: no narrower than a /24 or a /64.
    let common = common.min(if ipv4 { 96 + 24 } else { 64 });
    let network = first & u128::MAX.checked_shl(128 - common).unwrap_or(0);
    let within = |address: &Ipv6Addr| (u128::from(*address) ^ network).leading_zeros() >= common;
    if others.iter().any(within) || (ipv4 && common < 96) {
        return None;
    }
    let network = Ipv6Addr::from(network);
    let text = match (ipv4, network.to_ipv4_mapped()) {
        (true, Some(network)) => format!("{}/{}", network as Ipv4Addr, common - 96),
        _ => format!("{network}/{common}"),
    };
    Some((
        text,
        "the ports have addresses of other networks as well, for example of VLANs, which must not be chosen",
    ))
}
