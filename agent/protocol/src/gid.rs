//! Which GID a RoCE connection should use.

use crate::{Gid, GidType};

/// The GID that an expert would choose on an Ethernet port; `None` on InfiniBand and where the table is empty.
///
/// RoCE v2 comes before v1, because only v2 is routed. IPv4 comes before IPv6, because switches and peers are usually
/// configured for it. A global IPv6 address comes before a link-local one. Among equals the port's own network device comes
/// before those stacked on it (VLANs), then the lowest index.
///
/// `gids` is the port's table in ascending order of index, from libibverbs or from sysfs. Entry 0 is the default GID of the
/// port's own network device; a process in another network namespace may not see it, and then the lowest index decides.
pub fn best_gid(gids: &[Gid]) -> Option<&Gid> {
    let default = gids.first().filter(|gid| gid.index == 0);
    let own = default.map(network_device);
    gids.iter()
        .filter_map(|gid| Some((rank(gid)?, gid)))
        .min_by_key(|(rank, gid)| (*rank, own != Some(network_device(gid)), gid.index))
        .map(|(_, gid)| gid)
}

/// The network device of an entry, as libibverbs or sysfs names it.
fn network_device(gid: &Gid) -> (Option<u32>, Option<&str>) {
    (gid.netdev_index, gid.netdev.as_deref())
}

fn rank(gid: &Gid) -> Option<u8> {
    match gid.kind {
        GidType::RoceV2 if gid.is_ipv4_mapped() => Some(0),
        GidType::RoceV2 if !gid.gid.is_unicast_link_local() => Some(1),
        GidType::RoceV2 => Some(2),
        GidType::RoceV1 => Some(3),
        GidType::Ib => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn gid(index: u32, address: &str, kind: GidType, netdev: u32) -> Gid {
        Gid {
            index,
            gid: address.parse().unwrap(),
            kind,
            netdev_index: Some(netdev),
            netdev: None,
        }
    }

    fn table() -> Vec<Gid> {
        vec![
            gid(0, "fe80::1", GidType::RoceV1, 2),
            gid(1, "fe80::1", GidType::RoceV2, 2),
            gid(2, "::ffff:10.1.0.1", GidType::RoceV1, 7),
            gid(3, "::ffff:10.1.0.1", GidType::RoceV2, 7),
            gid(4, "2001:db8::1", GidType::RoceV2, 2),
            gid(5, "::ffff:10.0.0.1", GidType::RoceV2, 2),
            gid(6, "::ffff:10.0.0.2", GidType::RoceV2, 2),
        ]
    }

    #[test]
    fn each_choice_falls_back_on_the_next() {
        let mut gids = table();
        let mut order = Vec::new();
        while let Some(chosen) = best_gid(&gids).cloned() {
            order.push(chosen.index);
            // Entry 0 names the port's own device and is chosen last.
            gids.retain(|gid| gid.index != chosen.index);
            if chosen.index == 0 {
                break;
            }
        }
        assert_eq!(order, [5, 6, 3, 4, 1, 0]);
    }

    #[test]
    fn sysfs_and_libibverbs_lead_to_the_same_choice() {
        let by_name = table().into_iter().map(|gid| Gid {
            netdev: gid.netdev_index.map(|index| format!("eth{index}")),
            netdev_index: None,
            ..gid
        });
        let by_name: Vec<_> = by_name.collect();
        let index = |gids: &[Gid]| best_gid(gids).map(|gid| gid.index);
        assert_eq!((index(&by_name), index(&table())), (Some(5), Some(5)));
    }

    #[test]
    fn an_infiniband_or_empty_table_has_none() {
        assert_eq!(best_gid(&[]), None);
        assert_eq!(best_gid(&[gid(0, "fe80::1", GidType::Ib, 0)]), None);
    }

    prop_compose! {
        fn any_gid()(index in 0u32..512, kind in 0usize..3, netdev in prop::option::of(1u32..4), address in prop_oneof![
            any::<u32>().prop_map(|a| std::net::Ipv4Addr::from(a).to_ipv6_mapped()),
            any::<u64>().prop_map(|a| std::net::Ipv6Addr::from((0xfe80 << 112) | u128::from(a))),
            any::<u128>().prop_map(std::net::Ipv6Addr::from),
        ]) -> Gid {
            let kind = [GidType::Ib, GidType::RoceV1, GidType::RoceV2][kind];
            Gid { index, gid: address, kind, netdev_index: netdev, netdev: None }
        }
    }

    proptest! {
        #[test]
        fn a_roce_table_has_a_choice_and_nothing_outranks_it(gids in prop::collection::vec(any_gid(), 0..40)) {
            match best_gid(&gids) {
                Some(chosen) => prop_assert!(gids.iter().filter_map(rank).all(|r| Some(r) >= rank(chosen))),
                None => prop_assert!(gids.iter().all(|gid| gid.kind == GidType::Ib)),
            }
        }
    }
}
