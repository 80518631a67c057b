//! Tests of the history, with the node modelled on the field.

use std::time::{Duration, Instant};

use rdma_health_tests::tree::Tree;

use rdma_health_kernel::{
    Root,
    collector::{Collector, Refresh},
};

use rdma_health_protocol::{Bandwidth, Path, Peer, ProbeReport, RemotePort, Stage};

use super::*;
use crate::{Fact, Node, node::Probe};

fn node() -> Node {
    let tree = Tree::fixture("connectx7-gpu").unwrap().unpack().unwrap();
    let mut collector = Collector::new(Root::open(tree.path()).unwrap(), Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(5));
    Node::new(collector.facts())
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
fn the_rise_of_a_counter_has_its_period_and_a_reset_is_not_a_rise() {
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
fn link_downs_are_remembered_across_a_reboot() {
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
    assert_eq!(downs(&history), [300, 300], "the counter restarted with the boot");
    assert_eq!(history.boots.len(), 2);
}

#[test]
fn link_downs_during_a_pause_are_not_recent() {
    let node = node();
    let mut history = History::default();
    for (now, count_now) in [
        (NOW - 7 * DAY, 1),
        (NOW - 7 * DAY + 60, 2),
        (NOW, 6),
        (NOW + 60, 7),
    ] {
        history.record(
            &with_port(&node, |port| count(port, "link_downed", count_now)),
            now,
        );
    }
    let past = &history.ports["0000:18:00.0:1"];
    assert_eq!(past.downs_within(DAY, NOW + 60), 1, "only the one that was seen");
    assert_eq!(past.downs.len(), 6, "the others are not forgotten");
}

#[test]
fn a_network_device_that_moves_to_a_pod_and_back_is_not_a_link_down() {
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
fn link_downs_during_boot_are_ignored() {
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
        (boot.id.as_str(), boot.domains["0000:18:00.0"].as_str()),
        ("boot-98", "DMA-FQ")
    );
}

#[test]
fn a_clock_that_is_set_back_loses_only_samples() {
    let node = node();
    let mut history = History::default();
    for now in [1_000_000, 500, 501, u64::MAX, 0] {
        history.record(&node, now);
    }
    assert_eq!(history.boots.len(), 1);
}

type Change<'a> = &'a dyn Fn(&mut History);

#[test]
fn a_history_beyond_the_limits_is_refused() {
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
    let cases: [(Change<'_>, &str); 10] = [
        (&|history| history.schema = 2, "version 2"),
        (
            &|history| history.boots = vec![Boot::default(); 9],
            "9 boots, at most 8 are allowed",
        ),
        (
            &|history| history.boots[0].id = long.clone(),
            "300 bytes in a text",
        ),
        (
            &|history| drop(history.boots[0].domains.insert(long.clone(), DomainType::Strict)),
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
                let links = (0..9).map(|n| (n.to_string(), SeenLink::default()));
                history.ports.get_mut(port).unwrap().links = links.collect();
            },
            "9 links of a port",
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
                let values = (0..289).map(|n| (n.to_string(), n)).collect();
                let past = history.functions.entry("x".into()).or_default();
                past.samples.push(Sample { time: 0, values });
            },
            "289 values",
        ),
    ];
    for (change, words) in cases {
        let why = refused(change);
        assert!(why.contains(words), "{why}");
    }
}

#[test]
fn measurements_of_two_paths_from_a_port_are_kept_apart() {
    let loopback = Path::loopback("mlx5_0", 1);
    let between = |peer: String| Path {
        to: Peer::Remote(RemotePort {
            node: peer,
            port: loopback.from.clone(),
        }),
        ..loopback.clone()
    };
    let (mut node, mut history) = (node(), History::default());
    // Every path is measured as often as can be remembered, to more nodes than can.
    for hour in 0..60_u64 {
        let time = 1_000_000 + hour * 3600;
        let others = (0..6).map(|peer| (between(format!("node-{peer}")), 40.0));
        for (path, bytes_per_second) in [(loopback.clone(), 50.0)].into_iter().chain(others) {
            node.probes = vec![std::sync::Arc::new(probe(path, time, bytes_per_second))];
            history.record(&node, time);
        }
    }
    let past = &history.ports["0000:18:00.0:1"];
    let median = |to: &Peer| past.median(to, u64::MAX, |measured| measured.bytes_per_second);
    assert_eq!(median(&Peer::Loopback), Some((50.0, MAX_MEASURED)));
    assert_eq!(
        median(&between("node-5".into()).to).map(|(median, _)| median),
        Some(40.0)
    );
    assert_eq!(past.measured.len(), MAX_MEASURED_IN_ALL);
    assert_eq!(history.check(), Ok(()));
}

fn probe(path: Path, time: u64, bytes_per_second: f64) -> Probe {
    let report = ProbeReport {
        path,
        stage: Stage::Done,
        failure: None,
        gid: None,
        numa_node: None,
        bandwidth: Some(Bandwidth {
            bytes: 1,
            seconds: 1.0,
            bytes_per_second,
            message_size: 1,
            queue_pairs: 1,
        }),
        latency: None,
        elapsed_us: 1,
    };
    Probe { time, report }
}

/// The present, in seconds since 1970, and three years.
const NOW: u64 = 1_800_000_000;
const YEARS: u64 = 3 * 365 * 86_400;
const DAY: u64 = 86_400;

/// The node as a running machine, `uptime` seconds after its boot, with a number of link downs.
fn running(node: &Node, boot: &str, uptime: u64, downs: u64) -> Node {
    let mut node = with_port(node, |port| {
        count(port, "link_downed", downs);
        count(port, "symbol_error", downs);
    });
    node.live = true;
    let host = std::sync::Arc::make_mut(&mut node.host);
    (host.boot_id, host.uptime) = (Fact::Known(boot.into()), Fact::Known(uptime));
    node
}

fn downs(history: &History) -> Vec<u64> {
    history.ports["0000:18:00.0:1"].downs.clone()
}

#[test]
fn a_clock_that_was_ahead_or_behind_for_a_while_leaves_no_trace() {
    let node = node();
    for wrong in [NOW + YEARS, 1000, NOW - YEARS] {
        let mut history = History::default();
        history.record(&running(&node, "a", 10_000, 0), NOW);
        history.record(&running(&node, "a", 10_100, 1), NOW + 100);
        // The clock is set wrong, one link down is recorded, and the clock is set right again.
        history.record(&running(&node, "a", 10_200, 2), wrong);
        history.record(&running(&node, "a", 10_300, 3), wrong + 100);
        history.record(&running(&node, "a", 10_400, 3), NOW + 400);
        assert_eq!(downs(&history), [NOW + 100, NOW + 200, NOW + 300], "{wrong}");
        let past = &history.ports["0000:18:00.0:1"];
        assert_eq!(past.downs_within(DAY, NOW + 400), 3);
        assert_eq!((history.boots[0].first, history.boots[0].last), (NOW, NOW + 400));
        assert_eq!(history.check(), Ok(()));
    }
}

#[test]
fn what_an_earlier_boot_recorded_in_the_future_is_ignored_and_then_dropped() {
    let node = node();
    let mut history = History::default();
    for n in 0..5 {
        history.record(&running(&node, "a", 10_000 + n, n), NOW + YEARS + n);
    }
    let past = |history: &History| history.ports["0000:18:00.0:1"].clone();
    assert_eq!(past(&history).downs_within(DAY, NOW + YEARS + 4), 4);
    for (uptime, kept) in [(60, 4), (3000, 4), (4000, 0)] {
        history.record(&running(&node, "b", uptime, 0), NOW + uptime);
        for later in [0, 7 * DAY, 300 * DAY] {
            assert_eq!(past(&history).downs_within(DAY, NOW + uptime + later), 0);
        }
        assert_eq!(past(&history).downs.len(), kept, "{uptime}");
    }
    assert_eq!(past(&history).last_down(NOW + 4000), None);
}

#[test]
fn a_device_that_was_seen_in_the_future_was_not_seen_just_now() {
    let mut history = History::default();
    history.record(&running(&node(), "a", 10_000, 0), NOW + YEARS);
    assert!(!history.boots[0].hcas.is_empty());
    history.drop_future(NOW);
    assert!(history.boots[0].hcas.is_empty());
    assert_eq!(history.boots[0].last, NOW);
}

#[test]
fn a_clock_that_is_behind_after_boot_forgets_nothing() {
    let node = node();
    let mut history = History::default();
    history.record(&running(&node, "a", 10_000, 0), NOW);
    history.record(&running(&node, "a", 10_100, 1), NOW + 100);
    // No battery: the clock starts in 1970, and is set after ten minutes.
    history.record(&running(&node, "b", 2000, 0), 2000);
    history.record(&running(&node, "b", 2060, 1), 2060);
    history.record(&running(&node, "b", 2600, 1), NOW + 3600);
    assert_eq!(downs(&history), [NOW + 100, NOW + 3060]);
}

#[test]
fn a_clock_that_stays_unset_after_boot_forgets_nothing() {
    let node = node();
    let mut history = History::default();
    history.record(&running(&node, "a", 10_000, 0), NOW);
    history.record(&running(&node, "a", 10_100, 1), NOW + 100);
    for uptime in [60, 5000, 50_000] {
        history.record(&running(&node, "b", uptime, 0), uptime);
    }
    assert_eq!(downs(&history), [NOW + 100]);
}

#[test]
fn a_small_step_back_hides_no_link_down() {
    let past = PortHistory {
        downs: vec![NOW, NOW + 20, NOW + 3600],
        ..PortHistory::default()
    };
    assert_eq!(past.downs_within(DAY, NOW), 2);
}

#[test]
fn a_step_back_moves_what_was_seen_in_a_tree_too() {
    let node = node();
    let with = |count_now| with_port(&node, |port| count(port, "link_downed", count_now));
    let mut history = History::default();
    let ahead = NOW + 7200;
    for n in 0..3 {
        history.record(&with(n), ahead + (n * 60) - 60);
    }
    let step = history.step(&with(2), NOW + 62).unwrap();
    history.record(&with(2), NOW + 62);
    // How long ago the last reading was is not known: not long.
    let moved = |mut time| {
        step.apply(&mut time);
        time
    };
    assert_eq!(downs(&history), [NOW + 2, NOW + 62]);
    assert_eq!(moved(ahead + 60), NOW + 62);
    assert_eq!(moved(ahead + 1000), ahead + 1000, "recorded after the step");
    let past = &history.ports["0000:18:00.0:1"];
    assert_eq!(past.downs_within(DAY, NOW + 62), 2);
}

#[test]
fn what_the_kernel_logged_in_this_boot_is_remembered_by_a_new_agent() {
    let event = |kind, order| crate::kmsg::Event {
        kind,
        device: crate::kmsg::Device::Pci("0000:19:00.0".into()),
        driver: "NVRM".into(),
        count: 2,
        first: Some(10),
        last: Some(20),
        message: "x".repeat(1000),
        order,
    };
    let with_log = |boot: &str, events: Vec<crate::kmsg::Event>| {
        let mut node = running(&node(), boot, 100, 0);
        let log = crate::kmsg::Log {
            events,
            ..crate::kmsg::Log::default()
        };
        node.kernel_log = std::sync::Arc::new(Fact::Known(log));
        node
    };
    let failed = event(crate::kmsg::EventKind::GpuFailed, 0);
    let mut history = History::default();
    history.record(&with_log("a", vec![failed]), NOW);
    assert_eq!(history.check(), Ok(()));
    let json = serde_json::to_string(&history).unwrap();
    let saved: std::sync::Arc<History> = std::sync::Arc::new(serde_json::from_str(&json).unwrap());
    let kinds = |boot: &str| {
        let mut node = with_log(boot, vec![event(crate::kmsg::EventKind::GpuError, 0)]);
        node.see_history(saved.clone());
        let log = node.kernel_log.known().unwrap();
        log.events
            .iter()
            .map(|event| event.kind.name())
            .collect::<Vec<_>>()
    };
    assert_eq!(kinds("a"), ["gpu-failed", "gpu-error"]);
    assert_eq!(kinds("b"), ["gpu-error"]);
}

#[test]
fn measurements_go_on_after_the_clock_was_ahead() {
    let node = node();
    let mut history = History::default();
    let path = || Path::loopback("mlx5_0", 1);
    let measured = |boot: &str, uptime: u64, now: u64| {
        let mut node = running(&node, boot, uptime, 0);
        node.probes = vec![std::sync::Arc::new(probe(path(), now, 50.0))];
        node
    };
    history.record(&measured("a", 10_000, NOW + YEARS), NOW + YEARS);
    for n in 1..=3 {
        history.record(&measured("b", n * 60, NOW + n * 60), NOW + n * 60);
    }
    let past = &history.ports["0000:18:00.0:1"];
    let times: Vec<_> = past.measured.iter().map(|measured| measured.time).collect();
    assert_eq!(times, [NOW + 60, NOW + 120, NOW + 180, NOW + YEARS]);
    let bandwidth = |measured: &Measured| measured.bytes_per_second;
    let known = past.median(&Peer::Loopback, NOW + 200, bandwidth).unwrap();
    assert_eq!(known.1, 3, "one in the future is not compared");
}

#[test]
fn too_many_ports_drop_those_that_were_not_seen_for_the_longest_time() {
    let node = node();
    let mut history = History::default();
    for n in 0..MAX_SUBJECTS as u64 {
        let port = PortHistory {
            last: NOW - n,
            ..PortHistory::default()
        };
        history.ports.insert(format!("zz{n:05}:1"), port);
    }
    history.record(&node, NOW);
    assert_eq!(history.ports.len(), MAX_SUBJECTS);
    assert!(history.ports.contains_key("zz00000:1") && !history.ports.contains_key("zz02047:1"));
}
