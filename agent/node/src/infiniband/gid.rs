//! The GID table of a port, through sysfs.
//!
//! Source: `ports/N/gids/I` and `ports/N/gid_attrs/types/I`. The table has hundreds of entries, mostly empty; the type
//! is read of those in use only, since that of an empty one fails with `EINVAL`.

use std::net::Ipv6Addr;

use rdma_health_protocol::{Gid, GidType};

use crate::{fact::Fact, root::Scope};

/// The most entries that are looked at; no device has more.
const MAX_ENTRIES: usize = 1024;

/// The entries in use, in order of index. One that cannot be read is told and left out.
pub(super) fn table(scope: &Scope<'_>, port: &str, link_layer: Option<&str>) -> Fact<Vec<Gid>> {
    let directory = format!("{port}/gids");
    scope.entries(&directory).map(|names| {
        let mut indices: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
        indices.sort_unstable();
        let used = indices.into_iter().take(MAX_ENTRIES).filter_map(|index| {
            // Some drivers fail for an empty entry, which is no failure of the node: hence a scope of its own.
            let aside = Scope::new(scope.root());
            let path = format!("{directory}/{index}");
            let gid = match aside.parsed(&path, "a GID", |text| text.parse::<Ipv6Addr>().ok()) {
                Fact::Unread { unread } if unread.kind != "EINVAL" => {
                    let _: Fact<()> = scope.fail(*unread);
                    return None;
                }
                fact => fact.known().copied().filter(|gid| !gid.is_unspecified())?,
            };
            let path = format!("{port}/gid_attrs/types/{index}");
            let kind = match aside.parsed(&path, "a GID type", |text| kind(text, link_layer)) {
                // The entry was in use just now: its address was taken away meanwhile.
                Fact::Unread { unread } if unread.kind == "EINVAL" => return None,
                Fact::Unread { unread } => {
                    let _: Fact<()> = scope.fail(*unread);
                    return None;
                }
                fact => fact.known().copied()?,
            };
            Some(Gid {
                index,
                gid,
                kind,
                netdev_index: None,
            })
        });
        used.collect()
    })
}

/// The kernel has one word for InfiniBand and RoCE v1; the link layer tells them apart.
fn kind(text: &str, link_layer: Option<&str>) -> Option<GidType> {
    match (text, link_layer) {
        ("RoCE v2", _) => Some(GidType::RoceV2),
        ("IB/RoCE v1", Some("Ethernet")) | ("RoCE v1", _) => Some(GidType::RoceV1),
        ("IB/RoCE v1" | "IB", _) => Some(GidType::Ib),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_layer_tells_infiniband_and_roce_v1_apart() {
        assert_eq!(kind("IB/RoCE v1", Some("Ethernet")), Some(GidType::RoceV1));
        assert_eq!(kind("IB/RoCE v1", Some("InfiniBand")), Some(GidType::Ib));
        assert_eq!(kind("RoCE v2", Some("Ethernet")), Some(GidType::RoceV2));
        assert_eq!(kind("", None), None);
    }
}
