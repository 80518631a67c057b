//! Which GID a RoCE connection should use.

use rdma_health_protocol::{Gid, GidType};

/// The GID that an expert would choose on an Ethernet port; `gids` is the port's table in ascending order of index.
///
/// RoCE v2 before v1, since only v2 is routed; IPv4 before IPv6, since that is what switches and peers are set up
/// for; a global IPv6 address before a link-local one. Among equals the port's own network device goes before those
/// stacked on it (VLANs), then the lowest index.
pub fn choose(gids: &[Gid]) -> Option<&Gid> {
    // The table starts with the default GIDs of the port's own device.
    let own = gids.first().and_then(|gid| gid.netdev_index);
    gids.iter()
        .filter_map(|gid| Some((rank(gid)?, gid)))
        .min_by_key(|(rank, gid)| (*rank, gid.netdev_index != own, gid.index))
        .map(|(_, gid)| gid)
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
        while let Some(chosen) = choose(&gids).cloned() {
            order.push(chosen.index);
            // Entry 0 tells the port's own device; it goes last in any case.
            gids.retain(|gid| gid.index != chosen.index);
            if chosen.index == 0 {
                break;
            }
        }
        assert_eq!(order, [5, 6, 3, 4, 1, 0]);
    }

    #[test]
    fn an_infiniband_or_empty_table_has_none() {
        assert_eq!(choose(&[]), None);
        assert_eq!(choose(&[gid(0, "fe80::1", GidType::Ib, 0)]), None);
    }

    prop_compose! {
        fn any_gid()(index in 0u32..512, kind in 0usize..3, netdev in prop::option::of(1u32..4), address in prop_oneof![
            any::<u32>().prop_map(|a| std::net::Ipv4Addr::from(a).to_ipv6_mapped()),
            any::<u64>().prop_map(|a| std::net::Ipv6Addr::from((0xfe80 << 112) | u128::from(a))),
            any::<u128>().prop_map(std::net::Ipv6Addr::from),
        ]) -> Gid {
            let kind = [GidType::Ib, GidType::RoceV1, GidType::RoceV2][kind];
            Gid { index, gid: address, kind, netdev_index: netdev }
        }
    }

    proptest! {
        #[test]
        fn a_roce_table_has_a_choice_and_nothing_outranks_it(gids in prop::collection::vec(any_gid(), 0..40)) {
            match choose(&gids) {
                Some(chosen) => prop_assert!(gids.iter().filter_map(rank).all(|r| Some(r) >= rank(chosen))),
                None => prop_assert!(gids.iter().all(|gid| gid.kind == GidType::Ib)),
            }
        }
    }
}
