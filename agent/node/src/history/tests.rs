//! Tests of what is remembered, on the node modelled on the field.

use std::time::{Duration, Instant};

use rdma_health_tests::tree::Tree;

use super::*;
use crate::{
    Fact, Node, Root,
    collector::{Collector, Refresh},
};

fn node() -> Node {
    let tree = Tree::fixture("connectx7-gpu").unwrap().unpack().unwrap();
    let mut collector = Collector::new(Root::open(tree.path()).unwrap(), Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(5));
    collector.node()
}

/// The node with changes to the port of its physical function.
fn with_port(node: &Node, change: impl FnOnce(&mut crate::infiniband::Port)) -> Node {
    let mut node = node.clone();
    if let Fact::Known(hcas) = &mut node.hcas {
        let hca = std::sync::Arc::make_mut(hcas.get_mut("mlx5_0").unwrap());
        change(hca.ports.get_mut(&1).unwrap());
    }
    node
}

fn count(port: &mut crate::infiniband::Port, name: &str, value: u64) {
    let counter = port.counters.iter_mut().find(|counter| &*counter.name == name);
    counter.unwrap().value = Fact::Known(value);
}

#[test]
fn a_counters_rise_is_told_with_its_time_and_a_reset_is_no_rise() {
    let node = node();
    let mut history = History::default();
    for minute in 0..120 {
        let now = 1_000_000 + minute * 60;
        history.record(&with_port(&node, |port| count(port, "symbol_error", minute)), now);
    }
    let now = 1_000_000 + 120 * 60;
    let past = &history.ports["0000:18:00.0:1"];
    let (rise, seconds) = past.counters.rise("symbol_error", 120, now, 60, 3600).unwrap();
    assert!((3000..=3600).contains(&seconds), "{seconds}");
    assert_eq!(rise, seconds / 60);
    assert_eq!(past.counters.rise("symbol_error", 0, now, 60, 3600), None);
    assert!(
        past.counters.samples.len() <= 16,
        "{}",
        past.counters.samples.len()
    );
}

#[test]
fn links_that_go_down_are_remembered_even_where_the_node_reboots_in_between() {
    let node = node();
    let mut history = History::default();
    let downs = |history: &History| history.ports["0000:18:00.0:1"].downs.clone();
    for (now, count_now) in [(100, 1), (200, 1), (300, 3), (400, 3)] {
        history.record(
            &with_port(&node, |port| count(port, "link_downed", count_now)),
            now,
        );
    }
    assert_eq!(downs(&history), [300, 300]);
    let mut rebooted = with_port(&node, |port| count(port, "link_downed", 9));
    std::sync::Arc::make_mut(&mut rebooted.host).boot_id = Fact::Known("another".into());
    history.record(&rebooted, 500);
    assert_eq!(
        downs(&history),
        [300, 300],
        "the counter began anew with the boot"
    );
    assert_eq!(history.boots.len(), 2);
}

#[test]
fn a_network_device_that_goes_to_a_pod_and_comes_back_is_no_link_that_went_down() {
    let node = node();
    let mut history = History::default();
    for (now, carrier_downs) in [(100, Some(5)), (200, None), (300, Some(5)), (400, Some(6))] {
        let node = with_port(&node, |port| {
            count(port, "link_downed", 0);
            if let Fact::Known(netdev) = &mut port.netdev {
                netdev.carrier_downs = carrier_downs.into();
            }
        });
        history.record(&node, now);
    }
    assert_eq!(history.ports["0000:18:00.0:1"].downs, [400]);
}

#[test]
fn what_happens_while_a_node_boots_is_left_out() {
    let mut history = History::default();
    for (now, value) in [(100, 0), (160, 5)] {
        let mut node = with_port(&node(), |port| count(port, "link_downed", value));
        std::sync::Arc::make_mut(&mut node.host).uptime = Fact::Known(now);
        history.record(&node, now);
    }
    assert!(history.ports["0000:18:00.0:1"].downs.is_empty());
}

#[test]
fn a_history_stays_small_and_survives_json() {
    let node = node();
    let mut history = History::default();
    for n in 0..1000_u64 {
        let mut node = with_port(&node, |port| count(port, "link_downed", n));
        std::sync::Arc::make_mut(&mut node.host).boot_id = Fact::Known(format!("boot-{}", n / 10));
        history.record(&node, n * 300);
    }
    let json = serde_json::to_string(&history).unwrap();
    assert!(json.len() < 64 << 10, "{}", json.len());
    assert_eq!(serde_json::from_str::<History>(&json).unwrap(), history);
    assert_eq!(history.check(), Ok(()));
    assert_eq!(history.boots.len(), 8);
    let boot = history.boots_before("boot-99").next().unwrap();
    assert_eq!(
        (boot.id.as_str(), &*boot.domains["0000:18:00.0"]),
        ("boot-98", "DMA-FQ")
    );
}

#[test]
fn a_clock_that_is_set_back_loses_samples_and_nothing_else() {
    let node = node();
    let mut history = History::default();
    for now in [1_000_000, 500, 501, u64::MAX, 0] {
        history.record(&node, now);
    }
    assert_eq!(history.boots.len(), 1);
}

type Change<'a> = &'a dyn Fn(&mut History);

#[test]
fn a_history_that_nobody_could_have_recorded_is_refused() {
    let node = node();
    let mut good = History::default();
    good.record(&node, 1000);
    assert_eq!(good.check(), Ok(()));
    let refused = |change: Change<'_>| {
        let mut history = good.clone();
        change(&mut history);
        history.check().unwrap_err()
    };
    let port = "0000:18:00.0:1";
    let sample = |n: u64| Sample {
        time: n,
        values: BTreeMap::new(),
    };
    let long = "x".repeat(300);
    let cases: [(Change<'_>, &str); 9] = [
        (&|history| history.schema = 2, "version 2"),
        (
            &|history| history.boots = vec![Boot::default(); 9],
            "9 boots, 8 are the most",
        ),
        (
            &|history| history.boots[0].id = long.clone(),
            "300 bytes in a text",
        ),
        (
            &|history| drop(history.boots[0].domains.insert(long.clone(), "DMA".into())),
            "in an address",
        ),
        (
            &|history| drop(history.ports.insert(long.clone(), PortHistory::default())),
            "port's name",
        ),
        (
            &|history| history.ports.get_mut(port).unwrap().downs = vec![0; 65],
            "65 times",
        ),
        (
            &|history| history.ports.get_mut(port).unwrap().counters.samples = (0..33).map(sample).collect(),
            "33 samples",
        ),
        (
            &|history| {
                history.ports = (0..2049)
                    .map(|n| (n.to_string(), PortHistory::default()))
                    .collect();
            },
            "2049 ports",
        ),
        (
            &|history| {
                let values = (0..17).map(|n| (n.to_string(), n)).collect();
                let past = history.functions.entry("x".into()).or_default();
                past.samples.push(Sample { time: 0, values });
            },
            "17 values",
        ),
    ];
    for (change, words) in cases {
        let why = refused(change);
        assert!(why.contains(words), "{why}");
    }
}
