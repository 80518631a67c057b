//! Priorities of RoCE, flow control on them, and pause frames.

use rdma_health_node::{history::History, process::Process};
use serde_json::{Value, json};

use super::{
    netlink::{BEGIN, NETDEVS, RAILS, answering, of_rails, risen},
    *,
};

/// Flow control on priority 3, and DSCP 26 on this priority.
fn priorities(dscp: impl Fn(usize) -> Value) -> Node {
    let bridging = |n| json!({"ieee": {"pfc": {"pfc-en": 8}, "app-table": {"app": dscp(n)}}});
    answering(RAILS, &of_rails("dcb", "ieee-get", bridging), |_| {})
}

#[test]
fn flow_control_that_no_dscp_reaches_is_reported() {
    let entry = |dscp: u8, priority: u8| json!([{"selector": 5, "protocol": dscp, "priority": priority}]);
    let healthy = priorities(|_| entry(26, 3));
    assert_eq!(of(&healthy, &auto(), "pfc-unreachable"), [""; 0]);
    let by_vlan = priorities(|_| json!([]));
    assert_eq!(of(&by_vlan, &auto(), "pfc-unreachable"), [""; 0]);
    let one = priorities(|n| if n == 2 { entry(26, 4) } else { entry(26, 3) });
    assert_eq!(of(&one, &auto(), "pfc-unreachable"), ["mlx5_2:1 warning"]);
    let finding = findings(&one, &auto(), "pfc-unreachable").remove(0);
    assert!(
        finding
            .message
            .ends_with("leads to a priority with flow control (3)"),
        "{}",
        finding.message
    );
    assert_eq!(finding.evidence[1].value, "26:4");
    let other = priorities(|n| if n == 2 { entry(24, 3) } else { entry(26, 3) });
    assert_eq!(of(&other, &auto(), "pfc-unreachable"), ["mlx5_2:1 info"]);
}

/// Entries of the application table: selector, protocol, priority.
fn table(entries: &[(u8, u16, u8)]) -> Value {
    let entry = |(selector, protocol, priority): &(u8, u16, u8)| json!({"selector": selector, "protocol": protocol, "priority": priority});
    entries.iter().map(entry).collect()
}

#[test]
fn flow_control_is_also_reached_by_port_by_ethernet_type_and_by_default() {
    for roce in [(3, 4791, 3), (4, 4791, 3), (1, 0x8915, 3), (1, 0, 3)] {
        // CNPs have a DSCP of their own.
        let node = priorities(|_| table(&[roce, (5, 48, 6)]));
        assert_eq!(of(&node, &auto(), "pfc-unreachable"), [""; 0], "{roce:?}");
    }
    for other in [(3, 4791, 5), (3, 53, 3), (1, 0x0800, 3), (1, 0, 0)] {
        let node = priorities(|_| table(&[other, (5, 48, 6)]));
        assert_eq!(of(&node, &auto(), "pfc-unreachable").len(), 8, "{other:?}");
    }
    let finding = findings(
        &priorities(|_| table(&[(3, 4791, 5), (5, 48, 6)])),
        &auto(),
        "pfc-unreachable",
    )
    .remove(0);
    assert_eq!(finding.evidence[2].value, "UDP port 4791: 5");
}

/// RoCE with the default traffic class has DSCP 0.
#[test]
fn a_dscp_without_an_entry_uses_priority_0() {
    let with = |on: u8, entries: &[(u8, u16, u8)]| {
        let bridging = |_| json!({"ieee": {"pfc": {"pfc-en": on}, "app-table": {"app": table(entries)}}});
        let node = answering(RAILS, &of_rails("dcb", "ieee-get", bridging), |_| {});
        of(&node, &auto(), "pfc-unreachable").len()
    };
    let cnp = (5, 48, 6);
    let all: Vec<_> = (0..64).map(|dscp| (5, dscp, 3)).collect();
    assert_eq!(with(0b0001, &[cnp]), 0, "flow control on 0");
    assert_eq!(with(0b1001, &[cnp]), 0, "flow control on 0 and 3");
    assert_eq!(with(0b0001, &all), 8, "no DSCP is left for 0");
    assert_eq!(with(0b0001, &[cnp, (1, 0, 5)]), 8, "another default");
    assert_eq!(with(0b1000, &[cnp]), 8, "flow control on 3 only");
}

#[test]
fn a_port_whose_map_is_gone_or_leads_elsewhere_than_that_of_its_equals_is_reported() {
    let equals = [(5, 24, 3), (5, 26, 3)];
    let without = priorities(|n| if n == 2 { json!([]) } else { table(&equals) });
    assert_eq!(of(&without, &auto(), "pfc-unreachable"), ["mlx5_2:1 warning"]);
    let shown = message(&without, &auto(), "pfc-unreachable");
    assert!(
        shown.contains("trust pcp") && shown.ends_with("7 of 8 equal ports DSCP 24, 26 (priority 3)"),
        "{shown}"
    );
    // Each port for itself is consistent.
    let moved = |n| {
        let (on, priority) = if n == 2 { (16, 4) } else { (8, 3) };
        json!({"ieee": {"pfc": {"pfc-en": on}, "app-table": {"app": table(&[(5, 24, priority), (5, 26, priority)])}}})
    };
    let moved = answering(RAILS, &of_rails("dcb", "ieee-get", moved), |_| {});
    assert_eq!(of(&moved, &auto(), "pfc-unreachable"), ["mlx5_2:1 warning"]);
    let shown = message(&moved, &auto(), "pfc-unreachable");
    assert!(
        shown.contains("sends DSCP 24, 26 (priority 4) with flow control"),
        "{shown}"
    );
    let by_port = priorities(|n| table(&[(3, 4791, if n == 2 { 0 } else { 3 }), (5, 26, 3)]));
    assert_eq!(of(&by_port, &auto(), "pfc-unreachable"), ["mlx5_2:1 warning"]);
}

#[test]
fn one_port_without_flow_control_among_equals_that_have_it_is_reported() {
    let with = |on: &dyn Fn(usize) -> u8| {
        let app = json!([{"selector": 5, "protocol": 26, "priority": 3}]);
        let bridging = |n| json!({"ieee": {"pfc": {"pfc-en": on(n)}, "app-table": {"app": app}}});
        answering(RAILS, &of_rails("dcb", "ieee-get", bridging), |_| {})
    };
    let one = with(&|n| if n == 2 { 0 } else { 8 });
    assert_eq!(of(&one, &auto(), "pfc-unreachable"), ["mlx5_2:1 warning"]);
    let shown = message(&one, &auto(), "pfc-unreachable");
    assert!(shown.contains("sends nothing with flow control"), "{shown}");
    let finding = findings(&one, &auto(), "pfc-unreachable").remove(0);
    assert_eq!(finding.evidence[0].value, "off for all priorities");
    assert_eq!(of(&with(&|_| 0), &auto(), "pfc-unreachable"), [""; 0]);
}

/// In a virtual machine, nothing shows which adapters serve the GPUs.
#[test]
fn several_ports_that_share_other_settings_may_be_another_network() {
    let with = |others: usize, flags: &str| {
        let settings = |n: usize| {
            let (on, dscp, priority) = if n < others { (16, 34, 4) } else { (8, 26, 3) };
            json!({"ieee": {"pfc": {"pfc-en": on}, "app-table": {"app": table(&[(5, dscp, priority)])}}})
        };
        let node = answering(RAILS, &of_rails("dcb", "ieee-get", settings), |tree| {
            set(tree, "proc/cpuinfo", flags);
        });
        of(&node, &auto(), "pfc-unreachable")
    };
    assert_eq!(with(1, "flags\t: fpu hypervisor"), ["mlx5_0:1 warning"]);
    assert_eq!(
        with(2, "flags\t: fpu hypervisor"),
        ["mlx5_0:1 info", "mlx5_1:1 info"]
    );
    assert_eq!(with(2, "flags\t: fpu"), ["mlx5_0:1 warning", "mlx5_1:1 warning"]);
}

#[test]
fn the_traffic_class_of_the_named_job_is_compared_with_the_priorities() {
    let mut node = priorities(|_| json!([{"selector": 5, "protocol": 26, "priority": 3}]));
    let mut job = |class: &str| {
        let variables = [("NCCL_IB_TC".to_owned(), class.to_owned())];
        node.job = Some(Arc::new(Process {
            pid: 77,
            name: Fact::Absent,
            memlock: Fact::Absent,
            ipc_lock: Fact::Absent,
            host_network: Fact::Absent,
            netdevs: Fact::Absent,
            addresses: Fact::Absent,
            device_files: Fact::Absent,
            gids: Fact::Absent,
            environment: Fact::Known(variables.into()),
            libraries: Fact::Absent,
        }));
        findings(&node, &auto(), "pfc-unreachable")
    };
    assert!(
        job("106").is_empty(),
        "DSCP 26 and two bits of congestion notification"
    );
    let other = job("96");
    assert!(!other.is_empty());
    assert!(
        other[0]
            .message
            .contains("the job sends DSCP 24 (NCCL_IB_TC=96), which leads to priority 0"),
        "{}",
        other[0].message
    );
    assert!(job("no number").is_empty());
}

#[test]
fn a_pause_frame_of_several_priorities_counts_once() {
    let at = |time: u64, frames: u64| {
        let all = json!([0, 0, 0, frames, frames, 0, 0, 0]);
        let bridging = |n| {
            let sent = if n == 1 {
                all.clone()
            } else {
                json!([0, 0, 0, 0, 0, 0, 0, 0])
            };
            json!({"ieee": {"pfc": {"pfc-en": 0b11000, "requests": sent}}})
        };
        let mut node = answering(RAILS, &of_rails("dcb", "ieee-get", bridging), |_| {});
        node.facts.time = time;
        node
    };
    let after = |per_second: u64| {
        let mut history = History::default();
        history.record(&at(BEGIN, 0), BEGIN);
        let mut node = at(BEGIN + 600, 600 * per_second);
        node.history = Some(Arc::new(history));
        node
    };
    // At 400 Gb/s, 11 921 frames per second stop a priority all the time.
    assert_eq!(of(&after(4000), &auto(), "pause-storm"), [""; 0]);
    assert_eq!(of(&after(9000), &auto(), "pause-storm"), ["mlx5_1:1 warning"]);
    assert!(message(&after(9000), &auto(), "pause-storm").contains("sends 9000 pause frames per second"));
}

#[test]
fn a_port_that_stops_its_switch_is_reported_and_a_congested_fabric_is_not() {
    let pause = |direction: &'static str| {
        move |_: usize, frames: u64| {
            (
                "pause-get",
                json!({"rx": 1, "tx": 1, "stats": {direction: frames}}),
            )
        }
    };
    // At 400 Gb/s, 11 921 frames per second stop a link all the time.
    let storm = |n: usize| if n == 1 { 600 * 9000 } else { 600 * 10 };
    let node = risen(pause("tx-frames"), storm);
    assert_eq!(of(&node, &auto(), "pause-storm"), ["mlx5_1:1 warning"]);
    let message = message(&node, &auto(), "pause-storm");
    assert!(
        message.contains(
            "sends 9000 pause frames per second, at most 75 % of the time (limit 50 %), on average"
        ),
        "{message}"
    );
    assert_eq!(
        of(&risen(pause("rx-frames"), storm), &auto(), "pause-storm"),
        ["mlx5_1:1 info"]
    );
    assert_eq!(
        of(&risen(pause("rx-frames"), |_| 600 * 9000), &auto(), "pause-storm"),
        [""; 0]
    );
    // What makes all ports of a node send them is in the node.
    let all = of(&risen(pause("tx-frames"), |_| 600 * 9000), &auto(), "pause-storm");
    assert!(
        all.len() > 2 && all.iter().all(|port| port.ends_with(" info")),
        "{all:?}"
    );
    assert_eq!(
        of(
            &risen(pause("tx-frames"), |n| u64::try_from(n).unwrap() * 600),
            &auto(),
            "pause-storm"
        ),
        [""; 0]
    );
}

#[test]
fn a_storm_that_only_the_driver_counts_is_found() {
    let stopped = |name: &str, seconds: &dyn Fn(usize) -> u64| {
        let at = |time: u64, since: u64| {
            let mut node = answering(RAILS, &[], |_| {});
            node.facts.time = time;
            let of_netdev = NETDEVS.iter().enumerate().map(|(n, netdev)| {
                let time = 7 + seconds(n) * 1_000_000 * since / 600;
                ((*netdev).to_owned(), [(name.to_owned(), time)].into())
            });
            node.facts.drivers = Arc::new(rdma_health_kernel::drivers::Drivers {
                netdevs: Fact::Known(of_netdev.collect()),
            });
            node
        };
        let mut history = History::default();
        history.record(&at(BEGIN, 0), BEGIN);
        let mut node = at(BEGIN + 600, 600);
        node.history = Some(Arc::new(history));
        node
    };
    for (driver, sent) in [
        ("bnxt_en", "pfc_pri3_tx_duration_us"),
        ("ionic", "tx_pripause_3_1us_count"),
    ] {
        let storm = stopped(sent, &|n| if n == 1 { 400 } else { 0 });
        assert_eq!(
            of(&storm, &auto(), "pause-storm"),
            ["mlx5_1:1 warning"],
            "{driver}"
        );
        let found = findings(&storm, &auto(), "pause-storm").remove(0);
        assert!(found.message.contains("on priority 3"), "{}", found.message);
        assert!(found.evidence[0].source.ends_with(sent), "{:?}", found.evidence);
    }
    let all = stopped("tx_global_pause_duration", &|_| 400);
    assert_eq!(
        of(&all, &auto(), "pause-storm").len(),
        8,
        "each of them stops its switch"
    );
    let words = message(&all, &auto(), "pause-storm");
    assert!(
        words.contains("sends pause frames for 67 % of the time (limit 50 %)"),
        "{words}"
    );
    let sent = "tx_prio3_pause_duration";
    let storm = stopped(sent, &|n| if n == 1 { 400 } else { 0 });
    assert_eq!(of(&storm, &auto(), "pause-storm"), ["mlx5_1:1 warning"]);
    let message = message(&storm, &auto(), "pause-storm");
    assert!(
        message.contains("sends pause frames for 67 % of the time on priority 3 (limit 50 %), on average over the last 10 min")
            && message.ends_with("median of equal ports 0 %"),
        "{message}"
    );
    // A counter that cannot be right.
    let wrong = stopped(sent, &|_| 3600);
    let found = findings(&wrong, &auto(), "pause-storm");
    assert!(
        found[0].message.contains("for 100 % of the time")
            && found[0].message.ends_with("median of equal ports 100 %"),
        "{found:?}"
    );
    assert_eq!(of(&stopped(sent, &|_| 200), &auto(), "pause-storm"), [""; 0]);
    let received = "rx_prio3_pause_duration";
    let elsewhere = stopped(received, &|n| if n == 1 { 400 } else { 0 });
    assert_eq!(of(&elsewhere, &auto(), "pause-storm"), ["mlx5_1:1 info"]);
    assert_eq!(
        of(&stopped(received, &|_| 400), &auto(), "pause-storm"),
        [""; 0],
        "a congested fabric"
    );
}

/// The node with one 25 Gb/s port that sends so many frames for priority 3 per second, of which the driver counts so many microseconds of pause
/// per second. It has no equal port.
fn alone(frames: u64, microseconds: Option<u64>) -> Vec<Finding> {
    let of_priority = |frames: u64| {
        let sent = json!([0, 0, 0, frames, 0, 0, 0, 0]);
        (
            "dcb",
            "ieee-get",
            json!([{"ieee": {"pfc": {"pfc-en": 8, "requests": sent}}}]),
        )
    };
    alone_with("tx_prio3_pause_duration", of_priority, frames, microseconds)
}

/// The same with another statistic, and the answer of the kernel about the frames.
fn alone_with(
    statistic: &str,
    shown: impl Fn(u64) -> (&'static str, &'static str, Value),
    frames: u64,
    microseconds: Option<u64>,
) -> Vec<Finding> {
    let at = |time: u64, seconds: u64| {
        let (family, command, answer) = shown(frames * seconds);
        let speed = json!([{"speed": 25_000, "lanes": 1}]);
        let answers = [
            (family, command, NETDEVS[0], answer),
            ("ethtool", "linkmodes-get", NETDEVS[0], speed),
        ];
        let mut node = answering(RAILS, &answers, |_| {});
        node.facts.time = time;
        let statistics = microseconds.map(|microseconds| {
            let name = statistic.to_owned();
            (NETDEVS[0].to_owned(), [(name, microseconds * seconds)].into())
        });
        node.facts.drivers = Arc::new(rdma_health_kernel::drivers::Drivers {
            netdevs: Fact::Known(statistics.into_iter().collect()),
        });
        node
    };
    let mut history = History::default();
    history.record(&at(BEGIN, 0), BEGIN);
    let mut node = at(BEGIN + 600, 600);
    node.history = Some(Arc::new(history));
    findings(&node, &auto(), "pause-storm")
}

#[test]
fn a_pause_that_the_next_frame_ends_is_not_a_full_one() {
    let words = |found: &[Finding]| -> Vec<_> {
        let words = |finding: &Finding| format!("{} {}", finding.severity.name(), finding.message);
        found.iter().map(words).collect()
    };
    // 200 pairs of frames per second.
    let unknown = words(&alone(400, None));
    assert_eq!(unknown.len(), 1, "{unknown:?}");
    assert!(
        unknown[0].starts_with("info")
            && unknown[0].ends_with("sends 400 pause frames per second, at most 54 % of the time (limit 50 %), on average over the last 10 min"),
        "{unknown:?}"
    );
    assert_eq!(words(&alone(400, Some(2_000))), [""; 0], "0.2 % of the time");
    let long = words(&alone(400, Some(700_000)));
    assert!(
        long[0].starts_with("warning") && long[0].contains("for 70 % of the time"),
        "{long:?}"
    );
    assert!(words(&alone(400, Some(0)))[0].starts_with("info"), "not counted");
    let of_all = |frames: u64| {
        let sent = json!([{"rx": 1, "tx": 1, "stats": {"tx-frames": frames}}]);
        ("ethtool", "pause-get", sent)
    };
    let all = |duration| words(&alone_with("tx_global_pause_duration", of_all, 400, duration));
    assert_eq!(all(Some(8_000)), [""; 0], "all traffic, for 0.8 % of the time");
    let long = all(Some(830_000));
    assert!(
        long[0].starts_with("warning") && long[0].contains("for 83 % of the time"),
        "{long:?}"
    );
}
