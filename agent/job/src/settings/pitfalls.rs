//! What the user has set that works differently than it looks.

use std::net::{IpAddr, Ipv6Addr};

use super::{
    Draft, NcclVersion,
    number::{NotRead, number},
    remedy,
};
use crate::rails::{Rail, Rails};

/// Transports of UCX that use RDMA, and aliases that include one (`ucx_info -d`, `ucs_tl_aliases`).
const UCX_RDMA: [&str; 12] = [
    "all", "ib", "rc", "rc_v", "rc_x", "rc_verbs", "rc_mlx5", "dc", "dc_x", "dc_mlx5", "ud", "gga_mlx5",
];

/// Remarks on what the user has set, for a job that uses RDMA.
pub(super) fn pitfalls(draft: &mut Draft<'_>, rails: &Rails<'_>, nccl: Option<NcclVersion>) {
    let user = draft.user;
    let is_old = nccl.is_some_and(|version| version < NcclVersion::CHOOSES_GID);
    if !rails.rails.is_empty() {
        if let Some(index) = user.value("NCCL_IB_GID_INDEX") {
            pinned_index(draft, rails, index, is_old);
        }
        for (name, library) in [("UCX_IB_GID_INDEX", "UCX"), ("NVSHMEM_IB_GID_INDEX", "NVSHMEM")] {
            if let Some(index) = user
                .value(name)
                .and_then(|text| number(text).ok())
                .filter(|index| *index >= 0)
            {
                other_index(draft, rails, name, index, library);
            }
        }
        if !is_old && let Some(range) = user.value("NCCL_IB_ADDR_RANGE") {
            address_range(draft, rails, range);
        }
        match user.value("NCCL_IB_DISABLE") {
            Some(value) if number(value).is_ok_and(|number| number != 0) => {
                tcp_although(draft, "NCCL_IB_DISABLE");
            }
            Some(value) if !value.is_empty() && number(value) == Err(NotRead::NoNumber) => {
                let remedy = remedy(draft, "NCCL_IB_DISABLE");
                draft.remark(format!(
                    "NCCL_IB_DISABLE is '{value}', which is not a number: NCCL reads it as 0 and uses RDMA; set it to 1 for TCP, or {remedy}"
                ));
            }
            _ => {}
        }
        two_networks(draft, rails);
    }
    if user
        .value("NCCL_NET")
        .is_some_and(|value| value.eq_ignore_ascii_case("socket"))
    {
        tcp_although(draft, "NCCL_NET");
    }
    network_without_name(draft);
    if let Some(list) = user.value("UCX_TLS").filter(|list| !has_rdma(list)) {
        draft.remark(format!(
            "UCX_TLS={list} has no RDMA transport: UCX uses TCP or shared memory although RDMA would work"
        ));
    }
}

/// An empty `NCCL_NET`, which NCCL compares with the names of its networks all the same.
fn network_without_name(draft: &mut Draft<'_>) {
    if draft.user.value("NCCL_NET") == Some("") {
        let remedy = remedy(draft, "NCCL_NET");
        draft.stop(format!(
            "NCCL_NET is set but empty: no network of NCCL has this name, so NCCL does not start; {remedy}"
        ));
    }
}

/// Ports of InfiniBand and of `RoCE`, which do not reach each other.
fn two_networks(draft: &mut Draft<'_>, rails: &Rails<'_>) {
    let (infiniband, roce): (Vec<_>, Vec<_>) = rails.rails.iter().partition(|rail| rail.port.is_infiniband());
    if infiniband.is_empty() || roce.is_empty() {
        return;
    }
    let names = |rails: &[&Rail<'_>]| {
        let names: Vec<_> = rails.iter().map(|rail| rail.port.to_string()).collect();
        names.join(", ")
    };
    draft.remark(format!(
        "{} use InfiniBand and {} RoCE: NCCL cannot connect one to the other. If the job fails with \"Attempted to connect incompatible \
         devices\", set NCCL_IB_HCA to the ports of one network",
        names(&infiniband),
        names(&roce)
    ));
}

/// Remarks on what the user has set, for a job that uses TCP.
pub(super) fn of_tcp(draft: &mut Draft<'_>) {
    let user = draft.user;
    let named = |name: &str, value: &str| {
        user.value(name)
            .is_some_and(|set| set.eq_ignore_ascii_case(value))
    };
    let disabled = user.value("NCCL_IB_DISABLE").map(number) != Some(Ok(0));
    if named("NCCL_NET", "ib") && disabled {
        let remedy = remedy(draft, "NCCL_NET");
        draft.remark(format!(
            "NCCL_NET=IB is set: with NCCL_IB_DISABLE=1 NCCL fails to start; {remedy} to use TCP"
        ));
    }
    network_without_name(draft);
    // On a node with EFA, NCCL_NET is among the settings, with its own remark.
    let is_settled = draft.settings.iter().any(|setting| setting.name == "NCCL_NET");
    let is_plugin = !["", "ib", "socket"].iter().any(|name| named("NCCL_NET", name));
    if let Some(set) = user.as_set("NCCL_NET").filter(|_| is_plugin && !is_settled) {
        let remedy = remedy(draft, "NCCL_NET");
        draft.remark(format!(
            "{set} and is kept: NCCL then uses only the network of this name, which comes from a plugin and can be RDMA, or does not \
             start without the plugin; {remedy}, or set it to Socket"
        ));
    }
    let only_rdma = |list: &&str| {
        let mut items = list.split(',').map(str::trim).filter(|item| !item.is_empty());
        let no_network = |item: &str| {
            let own = ["self", "sm", "shm", "cma", "knem", "xpmem", "posix", "sysv", "mm"];
            own.contains(&item) || item.starts_with("cuda") || item.starts_with("rocm") || item == "gdr_copy"
        };
        !list.starts_with('^')
            && has_rdma(list)
            && items.all(|item| item != "all" && (is_rdma(item) || no_network(item)))
    };
    if let Some(list) = user.value("UCX_TLS").filter(only_rdma) {
        draft.remark(format!(
            "UCX_TLS={list} is set: it has no TCP transport, so UCX does not reach other nodes without RDMA; unset it or add tcp"
        ));
    }
}

/// NCCL uses TCP for what the user has set.
fn tcp_although(draft: &mut Draft<'_>, name: &str) {
    if let Some((value, file)) = draft.user.get(name) {
        let place = file.map_or_else(|| "is set".to_owned(), |file| format!("is set in {file}"));
        draft.overrule(format!(
            "{name}={value} {place}: NCCL uses TCP although RDMA would work; unset it to use RDMA"
        ));
    }
}

/// Whether UCX may use RDMA with this list of transports.
fn has_rdma(list: &str) -> bool {
    match list.strip_prefix('^') {
        Some(excluded) => !excluded
            .split(',')
            .any(|item| matches!(item.trim(), "all" | "ib")),
        None => list.split(',').any(|item| is_rdma(item.trim())),
    }
}

fn is_rdma(item: &str) -> bool {
    // A backslash: the name itself and not an alias.
    let item = item.strip_prefix('\\').unwrap_or(item);
    // `rc:aux` is a transport that only helps others.
    !item.is_empty() && (UCX_RDMA.contains(&item) || item.starts_with("ud_"))
}

/// A GID index for all ports. NCCL ignores an empty one, and reads what is not a number as 0.
fn pinned_index(draft: &mut Draft<'_>, rails: &Rails<'_>, value: &str, is_old: bool) {
    const ZERO: &str = "0, usually a link-local RoCE v1 GID";
    let remedy = remedy(draft, "NCCL_IB_GID_INDEX");
    if value.is_empty() {
        return draft.remark(if is_old {
            format!("NCCL_IB_GID_INDEX is set but empty: NCCL before 2.21 then uses {ZERO}; {remedy}")
        } else {
            format!(
                "NCCL_IB_GID_INDEX is set but empty: NCCL from 2.21 on ignores it, and older versions use {ZERO}; {remedy}"
            )
        });
    }
    let index = match number(value) {
        Ok(index) => index,
        Err(NotRead::NoNumber) => {
            return draft.remark(format!(
                "NCCL_IB_GID_INDEX is '{value}', which is not a number: NCCL reads it as {ZERO}; {remedy}"
            ));
        }
        Err(NotRead::OutOfRange) => {
            return draft.remark(format!(
                "NCCL_IB_GID_INDEX is '{value}', which is out of range: NCCL ignores it; {remedy}"
            ));
        }
    };
    // A negative index leaves the choice to NCCL.
    if index < 0 && !is_old {
        return;
    }
    if let Some(wrong) = other_indices(rails, index) {
        let without = without_gid(rails, index);
        let but = format!("NCCL_IB_GID_INDEX is {index}, but {wrong}");
        let so = format!("{remedy}, so that NCCL finds the index on each port");
        if without.is_empty() {
            draft.remark(format!("{but}; {so}"));
        } else {
            let have = if without.len() == 1 { "has" } else { "have" };
            draft.stop(format!(
                "{but}; {} {have} no GID at this index, so NCCL does not connect; {so}",
                without.join(", ")
            ));
        }
    } else if !is_old && rails.rails.iter().any(|rail| rail.gid.is_some()) {
        draft.note(format!(
            "NCCL_IB_GID_INDEX={index} is right for every port now, but an index changes when addresses change, and it differs between \
             nodes; {remedy}: NCCL 2.21 and later find the index on each port"
        ));
    }
}

/// A GID index that the user has set for another library.
fn other_index(draft: &mut Draft<'_>, rails: &Rails<'_>, name: &str, index: i64, library: &str) {
    if let Some(wrong) = other_indices(rails, index) {
        draft.remark(format!(
            "{name} is {index}, but {wrong}; unset it, so that {library} finds the index on each port"
        ));
    }
}

/// The ports that have no GID at an index.
fn without_gid(rails: &Rails<'_>, index: i64) -> Vec<String> {
    let has = |rail: &Rail<'_>| {
        let all = rail.port.gids().unwrap_or_default();
        all.iter().any(|gid| i64::from(gid.index) == index)
    };
    let roce = rails.rails.iter().filter(|rail| rail.gid.is_some());
    roce.filter(|rail| !has(rail))
        .map(|rail| rail.port.to_string())
        .collect()
}

/// Which ports need another index: `mlx5_1:1 needs 3, mlx5_2:1 needs 5`.
fn other_indices(rails: &Rails<'_>, index: i64) -> Option<String> {
    let wrong: Vec<_> = rails
        .rails
        .iter()
        .filter_map(|rail| Some((rail.port, rail.gid?.index)))
        .filter(|(_, right)| i64::from(*right) != index)
        .map(|(port, right)| format!("{port} needs {right}"))
        .collect();
    (!wrong.is_empty()).then(|| wrong.join(", "))
}

/// A range of addresses that no GID of some port is in.
fn address_range(draft: &mut Draft<'_>, rails: &Rails<'_>, text: &str) {
    let Some(range) = Range::parse(text) else {
        return draft.remark(format!(
            "NCCL_IB_ADDR_RANGE is '{text}', which is not a network such as 10.0.0.0/16: NCCL ignores it"
        ));
    };
    let outside: Vec<_> = rails
        .rails
        .iter()
        .filter(|rail| {
            rail.gid.is_some()
                && !rail
                    .gids
                    .iter()
                    .any(|gid| gid.is_global() && range.contains(gid.gid))
        })
        .map(|rail| rail.port.to_string())
        .collect();
    if !outside.is_empty() {
        let remedy = remedy(draft, "NCCL_IB_ADDR_RANGE");
        draft.remark(format!(
            "NCCL_IB_ADDR_RANGE is {text}, which contains no RoCE v2 GID of {}: NCCL does not find the right index there; {remedy}",
            outside.join(", ")
        ));
    }
}

/// A network: its address as a GID, and the number of bits that count.
struct Range(u128, u32);

impl Range {
    /// `10.0.0.0/16` or `2001:db8::/32`.
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.trim().split_once('/')?;
        let bits: u32 = bits.parse().ok()?;
        match address.parse().ok()? {
            IpAddr::V4(address) => (bits <= 32).then(|| Self(address.to_ipv6_mapped().into(), 96 + bits)),
            IpAddr::V6(address) => (bits <= 128).then(|| Self(address.into(), bits)),
        }
    }

    fn contains(&self, gid: Ipv6Addr) -> bool {
        (u128::from(gid) ^ self.0).leading_zeros() >= self.1
    }
}

#[cfg(test)]
#[path = "pitfalls_tests.rs"]
mod tests;
