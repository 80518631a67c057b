//! Changes over time.

use rdma_health_node::{
    history::{History, Measured},
    infiniband::PortCode,
    node::Probe,
    pci::AerCount,
};
use rdma_health_protocol::{Path, Peer, ProbeReport, Stage};
use rdma_health_rules::{FindingCase, Profile};
use rdma_health_tests::measured;

use super::*;

const START: u64 = 1_790_000_000;
const HOUR: u64 = 3600;

fn count(port: &mut Port, name: &str, value: u64) {
    let mut all = port.counters.iter_mut().chain(&mut port.hw_counters);
    all.find(|counter| &*counter.name == name).unwrap().value = Fact::Known(value);
}

/// The node as it is after a counter went through these values, one every `step` seconds.
fn after(fixture: &str, device: &str, counter: &str, step: u64, values: &[u64]) -> Node {
    let mut node = node(fixture, |_| {});
    let mut history = History::default();
    for (n, value) in (0..).zip(values) {
        node.time = START + n * step;
        with_port(&mut node, device, |port| count(port, counter, *value));
        node.history = Some(Arc::new(history.clone()));
        history.record(&node, node.time);
    }
    node
}

#[test]
fn counters_are_judged_by_their_rate_and_never_by_what_they_hold() {
    let device = "mlx5_0";
    let rises = |counter, step, values: &[u64]| {
        let node = after("infiniband-ndr", device, counter, step, values);
        of(&node, &auto(), "counter-errors")
    };
    assert_eq!(
        rises("symbol_error", 600, &[0, 30, 60, 90, 100, 110, 119]),
        [""; 0],
        "119 an hour"
    );
    assert_eq!(
        rises("symbol_error", 600, &[0, 30, 60, 90, 130, 160, 200]),
        ["mlx5_0:1 warning"]
    );
    assert_eq!(
        rises("symbol_error", 600, &[9_000_000, 9_000_000]),
        [""; 0],
        "old news"
    );
    assert_eq!(rises("symbol_error", 600, &[9_000_000, 5]), [""; 0], "a reset");
    assert_eq!(
        rises("local_link_integrity_errors", 300, &[0, 0, 1]),
        ["mlx5_0:1 warning"],
        "any rise"
    );
    assert_eq!(
        rises("port_rcv_errors", 300, &[0, 2900]),
        [""; 0],
        "below ten a second"
    );
    assert_eq!(rises("port_rcv_errors", 300, &[0, 3100]), ["mlx5_0:1 warning"]);
    assert_eq!(rises("roce_slow_restart", 300, &[0, 9000]), ["mlx5_0:1 warning"]);
    let node = after("infiniband-ndr", device, "port_rcv_errors", 300, &[0, 31_000]);
    assert!(message(&node, &auto(), "counter-errors").contains("port_rcv_errors by 31000 in 5 min"));
    assert_eq!(of(&node, &profile(Profile::TcpOnly), "counter-errors"), [""; 0]);
    let patient = Expectations {
        thresholds: rdma_health_rules::Thresholds {
            receive_errors_per_second: 1000,
            ..Default::default()
        },
        ..auto()
    };
    assert_eq!(of(&node, &patient, "counter-errors"), [""; 0]);
}

/// A node without earlier readings whose kernel logged, at these seconds before now, that the link of a port went down and came up.
fn logged(ago: &[u64]) -> Node {
    const UPTIME: u64 = 100 * 24 * HOUR;
    let mut node = node("h100-connectx7", |tree| {
        let lines = ago.iter().map(|ago| {
            let time = (UPTIME - ago) * 1_000_000;
            ["down", "up"]
                .map(|state| format!("6,1,{time},-;mlx5_core 0000:33:00.0 rdma2: Link {state}\n"))
                .concat()
        });
        tree.write("dev/kmsg", lines.collect::<String>()).unwrap();
    });
    Arc::make_mut(&mut node.host).uptime = Fact::Known(UPTIME);
    node
}

#[test]
fn a_port_flaps_that_the_kernel_logged_to_go_down_again_and_again() {
    let flapping = logged(&[1200, 900, 600, 300]);
    assert_eq!(of(&flapping, &auto(), "port-flapping"), ["mlx5_2:1 warning"]);
    let text = message(&flapping, &auto(), "port-flapping");
    assert!(text.contains("4 times in the last 20 min,"), "{text}");
    assert_eq!(of(&logged(&[HOUR]), &auto(), "port-flapping"), ["mlx5_2:1 info"]);
    for long_ago in [&[90 * 24 * HOUR, 60 * 24 * HOUR, 7 * HOUR][..], &[24 * HOUR; 5]] {
        assert_eq!(
            of(&logged(long_ago), &auto(), "port-flapping"),
            [""; 0],
            "{long_ago:?}"
        );
    }
}

#[test]
fn a_port_that_went_down_often_since_a_boot_long_ago_is_information() {
    let after = |downs: u64, hours: u64| {
        let mut node = node("h100-connectx7", |_| {});
        with_port(&mut node, "mlx5_2", |port| {
            if let Fact::Known(netdev) = &mut port.netdev {
                netdev.carrier_downs = Fact::Known(downs);
            }
        });
        Arc::make_mut(&mut node.host).uptime = Fact::Known(hours * HOUR);
        of(&node, &auto(), "port-flapping")
    };
    assert_eq!(after(25, 24), ["mlx5_2:1 info"]);
    assert_eq!(after(8, 24), [""; 0], "the boot and a day's maintenance");
    assert_eq!(after(9, 240), [""; 0], "about one a day");
    assert_eq!(
        after(25, 240),
        ["mlx5_2:1 info"],
        "ten times as often as its equals"
    );
    assert_eq!(after(160, 240), ["mlx5_2:1 info"]);
}

#[test]
fn the_counter_of_the_adapter_is_judged_without_earlier_readings() {
    let after = |fixture: &str, name: &str, counts: [u64; 4], hours: u64| {
        let mut node = node(fixture, |_| {});
        for (at, downs) in counts.into_iter().cycle().take(8).enumerate() {
            let device = format!("mlx5_{at}");
            if node.hcas().any(|hca| hca.name == device) {
                with_port(&mut node, &device, |port| count(port, "link_downed", downs));
            }
        }
        Arc::make_mut(&mut node.host).uptime = Fact::Known(hours * HOUR);
        let found = of(&node, &auto(), "port-flapping");
        found
            .into_iter()
            .filter(|words| words.starts_with(name))
            .collect::<Vec<_>>()
    };
    for fixture in ["h100-connectx7", "infiniband-ndr"] {
        assert_eq!(
            after(fixture, "mlx5_1", [0, 14, 0, 0], 5),
            ["mlx5_1:1 warning"],
            "{fixture}"
        );
        // Before the boot, or the switch was started again.
        assert_eq!(
            after(fixture, "mlx5_1", [14, 14, 14, 14], 5),
            [""; 0],
            "{fixture}"
        );
    }
    assert_eq!(
        after("h100-connectx7", "mlx5_1", [0, 14, 0, 0], 240),
        ["mlx5_1:1 info"]
    );
    assert_eq!(after("h100-connectx7", "mlx5_1", [3, 14, 3, 3], 240), [""; 0]);
    assert_eq!(
        after("h100-connectx7", "mlx5_1", [14, 14, 0, 0], 240),
        ["mlx5_1:1 info"],
        "nor does another port that goes down"
    );
    assert_eq!(after("h100-connectx7", "mlx5_1", [0, 9, 0, 0], 240), [""; 0]);
}

/// The node after its network device lost its carrier so often, the last time at the end.
fn flapped(times: &[u64]) -> Node {
    let mut node = node("h100-connectx7", |_| {});
    let mut history = History::default();
    for (n, time) in (0_u64..).zip(times) {
        node.time = START + time;
        with_port(&mut node, "mlx5_2", |port| {
            if let Fact::Known(netdev) = &mut port.netdev {
                netdev.carrier_downs = Fact::Known(1 + n);
            }
        });
        node.history = Some(Arc::new(history.clone()));
        history.record(&node, node.time);
    }
    // The next reading finds it as it was.
    node.time += 60;
    node.history = Some(Arc::new(history));
    node
}

#[test]
fn a_port_that_goes_down_again_and_again_flaps() {
    assert_eq!(
        of(&flapped(&[0, HOUR, 2 * HOUR, 5 * HOUR]), &auto(), "port-flapping"),
        ["mlx5_2:1 warning"]
    );
    assert!(
        message(&flapped(&[0, 10, 20, 30]), &auto(), "port-flapping").contains("3 times within 12 hours")
    );
    assert_eq!(
        of(&flapped(&[0, HOUR]), &auto(), "port-flapping"),
        ["mlx5_2:1 info"]
    );
    assert_eq!(of(&flapped(&[0]), &auto(), "port-flapping"), [""; 0]);
    let mut lent = flapped(&[0, 10, 20, 30]);
    with_hca(&mut lent, "mlx5_2", |hca| {
        hca.physical_function = Fact::Known("0000:2a:00.0".into());
    });
    assert_eq!(
        of(&lent, &auto(), "port-flapping"),
        [""; 0],
        "a virtual function goes down with each pod that ends"
    );
    let mut later = flapped(&[0, 10, 20, 30]);
    later.time += 13 * HOUR;
    assert_eq!(
        of(&later, &auto(), "port-flapping"),
        [""; 0],
        "it has stayed up since"
    );
    let mut down = flapped(&[0, HOUR]);
    with_port(&mut down, "mlx5_2", |port| {
        if let Fact::Known(state) = &mut port.state {
            (state.code, state.name) = (1, "DOWN".into());
        }
    });
    let before = message(&down, &auto(), "port-flapping");
    assert!(
        before.contains("went down once within 6 hours"),
        "without this time: {before}"
    );
    assert_eq!(of(&down, &auto(), "port-down"), ["mlx5_2:1 critical"]);
}

#[test]
fn without_history_a_counter_far_above_that_of_equal_ports_is_found() {
    let with = |value: u64, other: u64| {
        let mut node = node("infiniband-ndr", |_| {});
        with_port(&mut node, "mlx5_1", |port| count(port, "symbol_error", value));
        with_port(&mut node, "mlx5_0", |port| count(port, "symbol_error", other));
        node
    };
    assert_eq!(
        of(&with(918_221, 0), &auto(), "counter-errors"),
        ["mlx5_1:1 warning"]
    );
    assert_eq!(
        of(&with(65_535, 0), &auto(), "counter-errors"),
        ["mlx5_1:1 warning"],
        "the counter has 16 bits"
    );
    assert_eq!(
        of(&with(9_000, 0), &auto(), "counter-errors"),
        [""; 0],
        "in all the time since the counter was reset"
    );
    let mut jobs = node("infiniband-ndr", |_| {});
    with_port(&mut jobs, "mlx5_1", |port| {
        count(port, "local_ack_timeout_err", 50_000);
    });
    with_port(&mut jobs, "mlx5_0", |port| {
        count(port, "local_ack_timeout_err", 0);
    });
    assert_eq!(of(&jobs, &auto(), "counter-errors"), [""; 0], "one failed job");
    assert_eq!(
        of(&with(918_221, 918_221), &auto(), "counter-errors"),
        ["mlx5_0:1 warning", "mlx5_1:1 warning"],
        "two bad ports do not hide each other"
    );
    let mut most = with(918_221, 20_000);
    with_port(&mut most, "mlx5_2", |port| count(port, "symbol_error", 20_000));
    assert_eq!(
        of(&most, &auto(), "counter-errors"),
        [""; 0],
        "equal ports count, too"
    );
    let mut watched = with(918_221, 0);
    let mut history = History::default();
    history.record(&watched, START);
    watched.time = START + 600;
    watched.history = Some(Arc::new(history));
    assert_eq!(of(&watched, &auto(), "counter-errors"), [""; 0], "it rests");
}

#[test]
fn without_history_flapping_is_only_found_on_a_recently_booted_node() {
    let with = |downs: &str, uptime: &str| {
        node("h100-connectx7", |tree| {
            set(tree, "/net/ens3f0np0/carrier_down_count", downs);
            set(tree, "proc/uptime", uptime);
        })
    };
    assert_eq!(
        of(&with("9", "7200.00 1.00"), &auto(), "port-flapping"),
        ["mlx5_2:1 warning"]
    );
    assert_eq!(
        of(&with("4", "7200.00 1.00"), &auto(), "port-flapping"),
        [""; 0],
        "drivers do that"
    );
    assert_eq!(
        of(&with("9", "864000.00 1.00"), &auto(), "port-flapping"),
        [""; 0],
        "within ten days"
    );
    assert_eq!(
        of(&with("214", "864000.00 1.00"), &auto(), "port-flapping"),
        ["mlx5_2:1 info"],
        "the counter does not say when"
    );
}

#[test]
fn corrected_pcie_errors_are_judged_by_their_rate_and_old_errors_are_forgotten() {
    let address = "0000:13:00.0";
    let mut node = node("h100-connectx7", |_| {});
    let mut history = History::default();
    let errors = |node: &mut Node, corrected: u64, nonfatal: u64| {
        let pci = Arc::make_mut(&mut node.pci);
        let Fact::Known(functions) = &mut pci.functions else {
            panic!("no functions")
        };
        let Fact::Known(aer) = &mut functions.get_mut(address).unwrap().aer else {
            panic!("no AER")
        };
        let count = |total| {
            Fact::Known(AerCount {
                total,
                kinds: vec![("TLP".into(), total)],
            })
        };
        (aer.correctable, aer.nonfatal) = (count(corrected), count(nonfatal));
    };
    errors(&mut node, 10, 1);
    node.time = START;
    history.record(&node, START);
    node.history = Some(Arc::new(history.clone()));
    errors(&mut node, 80, 1);
    node.time = START + HOUR;
    assert_eq!(
        of(&node, &auto(), "pci-aer-errors"),
        ["mlx5_0 warning"],
        "one lost packet, an hour ago or before"
    );
    errors(&mut node, 150, 0);
    assert!(message(&node, &auto(), "pci-aer-errors").contains("140 correctable in 60 min"));
    errors(&mut node, 80, 0);
    assert_eq!(of(&node, &auto(), "pci-aer-errors"), [""; 0], "70 an hour");
    errors(&mut node, 10, 1);
    node.time = START + 20 * HOUR;
    assert_eq!(
        of(&node, &auto(), "pci-aer-errors"),
        [""; 0],
        "no new one for a day"
    );
}

/// A probe of `mlx5_0` on top of earlier ones.
fn probed(fixture: &str, device: &str, earlier: &[(f64, f64)], (gigabits, micros): (f64, f64)) -> Node {
    let mut node = node(fixture, |_| {});
    let mut history = History::default();
    let hca = node.hcas().find(|hca| hca.name == device).unwrap().clone();
    let past = history.ports.entry(History::port_key(&hca, 1)).or_default();
    past.measured = (0..)
        .zip(earlier)
        .map(|(n, (gigabits, micros))| Measured {
            to: Peer::Loopback,
            time: START + n,
            bytes_per_second: Some(gigabits * 1e9 / 8.0),
            latency: Some(micros * 1e-6),
        })
        .collect();
    let (bandwidth, latency) = measured(gigabits, micros);
    let report = ProbeReport {
        path: Path::loopback(device, 1),
        stage: Stage::Done,
        failure: None,
        gid: None,
        numa_node: None,
        bandwidth: Some(bandwidth),
        latency: Some(latency),
        elapsed_us: 1,
    };
    let time = START + 1000;
    node.time = time;
    node.probes = vec![Arc::new(Probe { time, report })];
    node.history = Some(Arc::new(history));
    node
}

#[test]
fn bandwidth_is_compared_with_what_port_and_slot_can_carry() {
    let rule = "probe-bandwidth-low";
    let measured = |gigabits| probed("h100-connectx7", "mlx5_0", &[], (gigabits, 2.0));
    assert_eq!(of(&measured(375.0), &auto(), rule), [""; 0]);
    assert_eq!(of(&measured(300.0), &auto(), rule), ["mlx5_0:1 info"]);
    assert_eq!(
        of(&measured(300.0), &profile(Profile::Rdma), rule),
        ["mlx5_0:1 warning"]
    );
    assert_eq!(
        of(&measured(150.0), &auto(), rule),
        ["mlx5_0:1 warning"],
        "less than half"
    );
    assert!(message(&measured(300.0), &auto(), rule).contains("its rate allows 400 Gb/s"));
    // A degraded link has its own finding; the probe is measured by what the link leaves.
    let mut narrow = measured(106.0);
    let pci = Arc::make_mut(&mut narrow.pci);
    if let Fact::Known(functions) = &mut pci.functions {
        functions.get_mut("0000:13:00.0").unwrap().link.width = Fact::Known(4);
    }
    assert_eq!(of(&narrow, &profile(Profile::Rdma), rule), [""; 0]);
    assert_eq!(of(&narrow, &auto(), "pci-link-degraded"), ["mlx5_0 warning"]);
}

#[test]
fn a_port_is_not_accused_before_the_probe_used_enough_queue_pairs() {
    let mut node = probed("h100-connectx7", "mlx5_0", &[], (150.0, 2.0));
    let with = |node: &mut Node, queue_pairs| {
        let probe = Arc::make_mut(&mut node.probes[0]);
        probe.report.bandwidth.as_mut().unwrap().queue_pairs = queue_pairs;
        of(node, &auto(), "probe-bandwidth-low")
    };
    assert_eq!(with(&mut node, 3), [""; 0]);
    assert_eq!(with(&mut node, 4), ["mlx5_0:1 warning"]);
}

#[test]
fn bandwidth_is_compared_with_equal_ports() {
    let mut node = probed("h100-connectx7", "mlx5_0", &[], (170.0, 2.0));
    let equals = |node: &mut Node, devices: &[&str]| {
        for device in devices {
            let other = probed("h100-connectx7", device, &[], (390.0, 2.0));
            node.probes.extend(other.probes);
        }
        // One queue pair, so that the rate of the port is not a reason.
        for probe in &mut node.probes {
            Arc::make_mut(probe)
                .report
                .bandwidth
                .as_mut()
                .unwrap()
                .queue_pairs = 1;
        }
        of(node, &auto(), "probe-bandwidth-low")
    };
    assert_eq!(equals(&mut node, &["mlx5_1"]), [""; 0], "two ports show nothing");
    assert_eq!(equals(&mut node, &["mlx5_2"]), ["mlx5_0:1 warning"]);
    let message = message(&node, &auto(), "probe-bandwidth-low");
    assert!(
        message.contains("the median of 2 equal ports is 390 Gb/s"),
        "{message}"
    );
}

#[test]
fn bandwidth_and_latency_are_compared_with_earlier_probes() {
    let usual = [(380.0, 2.0); 6];
    let measured = |probe| probed("h100-connectx7", "mlx5_0", &usual, probe);
    assert_eq!(
        of(&measured((379.0, 2.1)), &auto(), "probe-bandwidth-low"),
        [""; 0]
    );
    assert_eq!(
        of(&measured((379.0, 2.1)), &auto(), "probe-latency-high"),
        [""; 0]
    );
    assert_eq!(
        of(&measured((300.0, 2.1)), &auto(), "probe-bandwidth-low"),
        ["mlx5_0:1 warning"]
    );
    assert_eq!(
        of(&measured((379.0, 4.5)), &auto(), "probe-latency-high"),
        ["mlx5_0:1 warning"]
    );
    let message = message(&measured((379.0, 4.5)), &auto(), "probe-latency-high");
    assert!(
        message.contains("is 4.50 µs; the median of 6 earlier probes is 2.00 µs"),
        "{message}"
    );
    let few = probed("h100-connectx7", "mlx5_0", &usual[..3], (379.0, 9.0));
    assert_eq!(
        of(&few, &auto(), "probe-latency-high"),
        [""; 0],
        "three are too few to compare with"
    );
    let software = probed("virtual-node-no-iommu", "rxe0", &[(10.0, 9.0); 6], (2.0, 90.0));
    assert_eq!(of(&software, &auto(), "probe-latency-high"), [""; 0]);
    assert_eq!(of(&software, &auto(), "probe-bandwidth-low"), ["rxe0:1 info"]);
}

#[test]
fn an_expected_bandwidth_holds_for_every_device() {
    let rule = "probe-bandwidth-low";
    let expected = |gigabits| Expectations {
        bandwidth_gbps: Some(gigabits),
        ..auto()
    };
    let hardware = probed("h100-connectx7", "mlx5_0", &[], (375.0, 2.0));
    assert_eq!(of(&hardware, &expected(370), rule), [""; 0]);
    assert_eq!(of(&hardware, &expected(380), rule), ["mlx5_0:1 warning"]);
    assert!(message(&hardware, &expected(380), rule).contains("expected 380 Gb/s"));
    let software = probed("virtual-node-passthrough", "rxe0", &[], (2.0, 30.0));
    assert_eq!(of(&software, &auto(), rule), [""; 0]);
    assert_eq!(of(&software, &expected(100), rule), ["rxe0:1 warning"]);
    let tcp_only = Expectations {
        profile: Profile::TcpOnly,
        ..expected(100)
    };
    assert_eq!(of(&software, &tcp_only, rule), [""; 0]);
}

#[test]
fn symbol_errors_without_an_equal_port_are_compared_with_the_time_since_boot() {
    let with = |errors: &str, uptime: &str| {
        node("hfi1-opa", |tree| {
            let files: Vec<_> = tree.entries().map(|(path, _)| path.to_owned()).collect();
            for file in files
                .iter()
                .filter(|file| file.ends_with("/counters/symbol_error"))
            {
                tree.write(file, format!("{errors}\n")).unwrap();
            }
            tree.write("proc/uptime", format!("{uptime} 1.00\n")).unwrap();
        })
    };
    let bad = with("65535", "864000.00");
    assert!(!of(&bad, &auto(), "counter-errors").is_empty());
    assert!(message(&bad, &auto(), "counter-errors").contains("symbol_error 65535 in "));
    assert_eq!(
        of(&with("65535", "31536000.00"), &auto(), "counter-errors"),
        [""; 0]
    );
    assert_eq!(of(&with("9000", "3600.00"), &auto(), "counter-errors"), [""; 0]);
}

#[test]
fn a_rise_that_is_over_is_not_stated_as_the_present() {
    let words = |values: &[u64]| {
        let node = after("infiniband-ndr", "mlx5_0", "symbol_error", 300, values);
        message(&node, &auto(), "counter-errors")
    };
    let over = words(&[0, 300, 300, 300, 300]);
    assert!(
        over.contains("symbol_error by 300 in 20 min (limit 120, none in the last 10 min)"),
        "{over}"
    );
    let rising = words(&[0, 300, 600, 900, 1200]);
    assert!(
        rising.ends_with("symbol_error by 1200 in 20 min (limit 120)"),
        "{rising}"
    );
}

#[test]
fn no_cable_is_to_blame_for_congestion_and_missing_acknowledgements() {
    let remedy = |fixture, device, counter| {
        let node = after(fixture, device, counter, 300, &[0, 100_000]);
        let finding = findings(&node, &auto(), "counter-errors").remove(0);
        (finding.case, finding.remedy)
    };
    let case = |(case, remedy): (Option<FindingCase>, String)| {
        assert!(
            !remedy.contains("reseat") && remedy.contains("leave the cable as it is"),
            "{remedy}"
        );
        case
    };
    let [roce, infiniband] = [
        ("connectx7-restricted", "rocep97s0f0"),
        ("infiniband-ndr", "mlx5_0"),
    ];
    assert_eq!(
        case(remedy(roce.0, roce.1, "port_xmit_discards")),
        Some(FindingCase::Congested)
    );
    assert_eq!(
        case(remedy(infiniband.0, infiniband.1, "port_xmit_discards")),
        Some(FindingCase::Unanswered)
    );
    assert_eq!(
        case(remedy(roce.0, roce.1, "local_ack_timeout_err")),
        Some(FindingCase::Unanswered)
    );
    let (case, remedy) = remedy(infiniband.0, infiniband.1, "symbol_error");
    assert_eq!(case, Some(FindingCase::LinkErrors));
    assert!(remedy.contains("reseat"), "{remedy}");
}

/// What the events of an agent are made of: a finding that a port went down is there as long as anything is to be said of it.
#[test]
fn a_port_that_goes_down_again_does_not_resolve_that_it_went_down_before() {
    let mut node = node("h100-connectx7", |_| {});
    let mut history = History::default();
    let mut downs = 0;
    let mut found = Vec::new();
    for (n, up) in (0_u64..).zip([true, false, true, false, false, true]) {
        node.time = START + 60 * n;
        with_port(&mut node, "mlx5_2", |port| {
            let was_up = port.is_active() == Some(true);
            downs += u64::from(was_up && !up);
            if let Fact::Known(state) = &mut port.state {
                state.code = if up { PortCode::ACTIVE } else { 1 };
            }
            if let Fact::Known(netdev) = &mut port.netdev {
                netdev.carrier_downs = Fact::Known(downs);
            }
        });
        node.history = Some(Arc::new(history.clone()));
        let mut messages = findings(&node, &auto(), "port-flapping").into_iter();
        found.push(
            messages
                .next()
                .map_or_else(String::new, |finding| finding.message),
        );
        history.record(&node, node.time);
    }
    let times: Vec<_> = found
        .iter()
        .map(|message| match message {
            message if message.contains("once within 6 hours") => 1,
            message if message.contains("2 times within 6 hours") => 2,
            _ => 0,
        })
        .collect();
    // A reading sees a change before the history has it.
    assert_eq!(times, [0, 0, 1, 1, 1, 2], "{found:?}");
}

#[test]
fn a_link_that_recovers_is_no_port_that_is_down() {
    let mut node = node("infiniband-ndr", |tree| {
        set(tree, "/mlx5_0/ports/1/state", "5: ACTIVE_DEFER");
    });
    assert_eq!(of(&node, &auto(), "port-down"), ["mlx5_0:1 warning"]);
    let remedy = findings(&node, &auto(), "port-down").remove(0).remedy;
    assert!(remedy.contains("recovers from an error"), "{remedy}");
    // Seen for the first time, it may be over in a moment.
    let mut history = History::default();
    let mut before = node.clone();
    before.time = START;
    with_port(&mut before, "mlx5_0", |port| {
        if let Fact::Known(state) = &mut port.state {
            state.code = PortCode::ACTIVE;
        }
    });
    history.record(&before, START);
    node.time = START + 60;
    node.history = Some(Arc::new(history.clone()));
    assert_eq!(of(&node, &auto(), "port-down"), [""; 0]);
    history.record(&node, START + 60);
    node.time = START + 120;
    node.history = Some(Arc::new(history));
    assert_eq!(of(&node, &auto(), "port-down"), ["mlx5_0:1 warning"]);
}
