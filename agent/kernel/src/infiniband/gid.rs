//! The GID table of a port, through sysfs.
//!
//! Source: `ports/N/gids/I`, `ports/N/gid_attrs/types/I` and `ports/N/gid_attrs/ndevs/I`. The table has hundreds of
//! entries, mostly empty; the type is read of those in use only, since that of an empty one fails with `EINVAL`.

use std::net::Ipv6Addr;

use rdma_health_protocol::{Gid, GidType, LinkLayer};

use crate::{
    fact::{Errno, Fact, Unread, UnreadKind},
    root::Scope,
};

/// Maximum number of entries that are read; no device has more.
const MAX_ENTRIES: usize = 1024;

/// The error of some drivers for an empty entry.
const EMPTY: UnreadKind = UnreadKind::Errno(Errno::INVAL);

/// The entries in use, in order of index. An entry that cannot be read is reported and left out; if no other is left, the table is unread.
pub(crate) fn table(scope: &Scope<'_>, port: &str, link_layer: Option<&LinkLayer>) -> Fact<Vec<Gid>> {
    let directory = format!("{port}/gids");
    let mut failed = None;
    let mut leave_out = |unread: Box<Unread>| {
        failed.get_or_insert_with(|| unread.clone());
        let _: Fact<()> = scope.fail(*unread);
        None
    };
    let table = scope.entries(&directory).map(|names| {
        let mut indices: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
        indices.sort_unstable();
        let used = indices.into_iter().take(MAX_ENTRIES).filter_map(|index| {
            // Some drivers fail for an empty entry, which is not a failure of the node, so use a separate scope.
            let aside = Scope::new(scope.root());
            let path = format!("{directory}/{index}");
            let gid = match aside.parsed(&path, "a GID", |text| text.parse::<Ipv6Addr>().ok()) {
                Fact::Unread { unread } if unread.kind != EMPTY => {
                    return leave_out(unread);
                }
                fact => fact.known().copied().filter(|gid| !gid.is_unspecified())?,
            };
            let path = format!("{port}/gid_attrs/types/{index}");
            let kind = match aside.parsed(&path, "a GID type", |text| kind(text, link_layer)) {
                // The address of the entry was removed meanwhile.
                Fact::Unread { unread } if unread.kind == EMPTY => return None,
                Fact::Unread { unread } => {
                    return leave_out(unread);
                }
                fact => fact.known().copied()?,
            };
            Some(Gid {
                index,
                gid,
                kind,
                netdev_index: None,
                netdev: netdev(&aside, &format!("{port}/gid_attrs/ndevs/{index}")),
            })
        });
        used.collect::<Vec<_>>()
    });
    match failed {
        Some(unread) if table.known().is_some_and(Vec::is_empty) => Fact::Unread { unread },
        _ => table,
    }
}

/// The network device of an entry. InfiniBand has none (`EINVAL`), and it may have been removed meanwhile.
fn netdev(aside: &Scope<'_>, path: &str) -> Option<String> {
    /// `IFNAMSIZ` without the final zero byte.
    const LONGEST: usize = 15;
    let fits = |name: &&String| (1..=LONGEST).contains(&name.len());
    aside.optional(path).known().filter(fits).cloned()
}

/// The kernel uses one name for InfiniBand and RoCE v1; the link layer distinguishes them.
fn kind(text: &str, link_layer: Option<&LinkLayer>) -> Option<GidType> {
    match (text, link_layer) {
        ("RoCE v2", _) => Some(GidType::RoceV2),
        ("IB/RoCE v1", Some(LinkLayer::Ethernet)) | ("RoCE v1", _) => Some(GidType::RoceV1),
        ("IB/RoCE v1" | "IB", _) => Some(GidType::Ib),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_layer_distinguishes_infiniband_and_roce_v1() {
        assert_eq!(
            kind("IB/RoCE v1", Some(&LinkLayer::Ethernet)),
            Some(GidType::RoceV1)
        );
        assert_eq!(
            kind("IB/RoCE v1", Some(&LinkLayer::InfiniBand)),
            Some(GidType::Ib)
        );
        assert_eq!(kind("RoCE v2", Some(&LinkLayer::Ethernet)), Some(GidType::RoceV2));
        assert_eq!(kind("", None), None);
    }
}
