use std::net::Ipv6Addr;

use proptest::prelude::*;

use super::*;

/// An address of this node that clients connect to.
const OWN: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 200));

fn address(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

/// Connections of one address for which slots are free.
fn fill(slots: &Slots, from: IpAddr, count: usize) -> Vec<Slot> {
    let free = |_| match slots.admit(from, OWN) {
        Admission::Free(slot) => slot,
        other => panic!("{from}: {other:?}"),
    };
    (0..count).map(free).collect()
}

/// How many connections other addresses can have next to a full one.
const REST: usize = MAX_CONNECTIONS - LOCAL_SLOTS - MAX_PER_NETWORK;

/// Whether the connection has been asked to close.
fn is_evicted(slot: &Slot) -> bool {
    !slot.slots.lock().connections.contains_key(&slot.id)
}

#[test]
fn a_full_server_closes_the_connection_of_the_greediest_client_that_has_waited_longest() {
    let slots = Slots::default();
    let scraper = fill(&slots, address(1), 1);
    let greedy = fill(&slots, address(2), MAX_PER_NETWORK);
    let other = fill(&slots, address(3), REST - 1);
    greedy[0].answering();

    let Admission::Evicted(new) = slots.admit(address(4), OWN) else {
        panic!("the newcomer has no slot")
    };
    // The first one is served at the moment, the second has waited longest; the scraper waited longer still.
    assert!(!is_evicted(&greedy[0]) && is_evicted(&greedy[1]) && !is_evicted(&greedy[2]));
    assert!(!is_evicted(&scraper[0]) && other.iter().all(|slot| !is_evicted(slot)));
    drop((scraper, greedy, other, new));
    assert_eq!(slots.open(), 0);
}

#[test]
fn a_client_closes_its_own_connections_at_its_limit_and_none_of_others() {
    let slots = Slots::default();
    let scraper = fill(&slots, address(1), 1);
    let greedy = fill(&slots, address(2), MAX_PER_NETWORK);
    let Admission::Evicted(new) = slots.admit(address(2), OWN) else {
        panic!("the client's oldest connection is in the way")
    };
    assert!(!is_evicted(&scraper[0]) && is_evicted(&greedy[0]));
    for slot in greedy.iter().chain([&new]) {
        slot.answering();
    }
    assert!(matches!(slots.admit(address(2), OWN), Admission::Refused));
}

#[test]
fn requests_that_are_served_for_ever_do_not_keep_a_new_client_out() {
    let slots = Slots::default();
    let mut greedy = fill(&slots, address(2), MAX_PER_NETWORK);
    greedy.extend(fill(&slots, address(3), REST));
    for slot in &greedy {
        slot.answering();
    }
    let Admission::Evicted(new) = slots.admit(address(1), OWN) else {
        panic!("the newcomer has no slot")
    };
    assert!(is_evicted(&greedy[0]) && !is_evicted(&new));
    assert!(matches!(slots.admit(address(2), OWN), Admission::Refused));
}

#[test]
fn the_addresses_of_one_ipv6_network_share_a_limit_and_those_of_ipv4_do_not() {
    let slots = Slots::default();
    let inside = |host: u16| IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, host]);
    let held: Vec<_> = (0..100).map(|host| slots.admit(inside(host), OWN)).collect();
    assert_eq!(slots.open(), MAX_PER_NETWORK);
    drop(held);
    let mapped = |last| IpAddr::V6(Ipv4Addr::new(192, 0, 2, last).to_ipv6_mapped());
    let held: Vec<_> = (0..40).map(|last| slots.admit(mapped(last), OWN)).collect();
    assert!(
        held.iter()
            .all(|admission| matches!(admission, Admission::Free(_)))
    );
}

#[test]
fn slots_for_this_node_stay_free_and_not_for_one_user() {
    let slots = Slots::default();
    let remote: Vec<_> = (1..100).map(|last| slots.admit(address(last), OWN)).collect();
    assert_eq!(slots.open(), MAX_CONNECTIONS - LOCAL_SLOTS);
    // A user of the node takes all that are left.
    let local = fill(&slots, "127.0.0.2".parse().unwrap(), LOCAL_SLOTS);
    // The kubelet's connection comes from the node's own address.
    let newcomers = [
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        OWN,
        IpAddr::V6(Ipv6Addr::LOCALHOST),
    ];
    let newcomers = newcomers.map(|from| slots.admit(from, OWN));
    assert!(
        newcomers
            .iter()
            .all(|admission| matches!(admission, Admission::Evicted(_))),
        "{newcomers:?}"
    );
    let evicted = |of: &[Slot]| of.iter().filter(|slot| is_evicted(slot)).count();
    assert_eq!((evicted(&local), remote.len()), (3, 99));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn no_limit_is_exceeded_and_a_client_without_a_connection_is_never_refused(
        steps in prop::collection::vec((0..4u8, 0..6u8, 0..4u8, 0..64usize), 1..300),
    ) {
        let slots = Slots::default();
        let mut held: Vec<Slot> = Vec::new();
        for (kind, network, host, stage) in steps {
            let from = match kind {
                0 => IpAddr::from([127, 0, 0, host + 1]),
                1 => IpAddr::from([10, 0, network, host]),
                _ => IpAddr::from([0x2001, 0xdb8, 0, network.into(), 0, 0, 0, host.into()]),
            };
            let had = slots.lock().of_address(from);
            match slots.admit(from, OWN) {
                Admission::Free(slot) | Admission::Evicted(slot) => held.push(slot),
                Admission::Refused => prop_assert!(had > 0),
            }
            let slot = &held[stage % held.len()];
            if stage % 3 == 0 { slot.answered() } else { slot.answering() }
            let open = slots.lock();
            let local = open.of_network(Network::ThisNode);
            prop_assert!(open.connections.len() <= MAX_CONNECTIONS);
            prop_assert!(open.connections.len() - local <= MAX_CONNECTIONS - LOCAL_SLOTS);
            prop_assert!(open.connections.values().all(|one| open.of_network(one.network) <= MAX_PER_NETWORK));
        }
        drop(held);
        prop_assert_eq!(slots.open(), 0);
    }
}
