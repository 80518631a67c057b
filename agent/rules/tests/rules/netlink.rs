//! What netlink shows of virtual functions, rates, light and neighbours.

use std::collections::BTreeMap;

use rdma_health_kernel::recording::{Answer, Question};
use rdma_health_node::{history::History, infiniband::Rate};
use serde_json::{Value, json};

use super::*;

pub(super) const RAILS: &str = "h100-connectx7";
/// The network device of each rail.
pub(super) const NETDEVS: [&str; 8] = [
    "ens1f0np0",
    "ens2f0np0",
    "ens3f0np0",
    "ens4f0np0",
    "ens5f0np0",
    "ens6f0np0",
    "ens7f0np0",
    "ens8f0np0",
];

/// A node whose kernel answers so: family, command, object, messages.
pub(super) fn answering(
    fixture: &str,
    answers: &[(&str, &str, &str, Value)],
    change: impl FnOnce(&mut Tree),
) -> Node {
    let mut archive = Tree::fixture(fixture).unwrap();
    change(&mut archive);
    let question = |family: &str, command: &str, object: &str| Question::Netlink {
        family: family.to_owned(),
        command: command.to_owned(),
        object: object.to_owned(),
    };
    // The drivers of the other network devices report nothing.
    let netdevs = archive.entries().map(|(path, _)| path);
    let netdevs: Vec<_> = netdevs
        .filter_map(|path| path.strip_prefix("sys/class/net/"))
        .map(str::to_owned)
        .collect();
    let asked = answers.iter().map(|(family, command, ..)| (*family, *command));
    for (family, command) in asked.chain([("ethtool", "linkstate-get")]) {
        for netdev in netdevs.iter().filter(|netdev| !netdev.contains('/')) {
            let nothing = Answer::Bytes(b"[]".as_slice().into());
            archive
                .answer(question(family, command, netdev), nothing)
                .unwrap();
        }
    }
    for (family, command, object, answer) in answers {
        let bytes = answer.to_string().into_bytes();
        let question = question(family, command, object);
        archive.answer(question, Answer::Bytes(bytes.into())).unwrap();
    }
    let (_folder, root) = archive.open().unwrap();
    let mut collector = Collector::new(root, Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(5));
    Node::new(collector.facts())
}

/// One answer for each rail.
pub(super) fn of_rails(
    family: &'static str,
    command: &'static str,
    answer: impl Fn(usize) -> Value,
) -> Vec<(&'static str, &'static str, &'static str, Value)> {
    let numbered = NETDEVS.iter().enumerate();
    numbered
        .map(|(n, netdev)| (family, command, *netdev, json!([answer(n)])))
        .collect()
}

#[test]
fn a_physical_function_that_blocks_a_virtual_one_is_reported_with_any_driver() {
    let judged = |link_state: u32, mac: &str, trust: u32| {
        let vf = json!({"mac": {"vf": 0, "mac": mac}, "spoofchk": {"vf": 0, "setting": 1},
            "link-state": {"vf": 0, "link-state": link_state}, "trust": {"vf": 0, "setting": trust}});
        let link = json!([{"ifi-index": 2, "vfinfo-list": {"info": [vf]}}]);
        answering(
            "connectx6-vfs",
            &[("rt-link", "getlink", "ens1f0np0", link)],
            |_| {},
        )
    };
    let zero = "00:00:00:00:00:00";
    assert_eq!(of(&judged(0, zero, 0), &auto(), "vf-trust"), [""; 0]);
    let down = judged(2, zero, 0);
    let finding = findings(&down, &auto(), "vf-trust").remove(0);
    assert!(
        finding.message.contains("holds the link of mlx5_1 (VF 0) down"),
        "{}",
        finding.message
    );
    assert_eq!(
        finding.evidence[0].source,
        "ip link show ens1f0np0, vf 0: link state"
    );
    let other = "02:00:00:00:00:99";
    assert!(message(&judged(0, other, 0), &auto(), "vf-trust").contains("spoofcheck drops its frames"));
    assert_eq!(of(&judged(0, other, 1), &auto(), "vf-trust"), [""; 0]);
}

#[test]
fn the_remedy_of_a_port_that_is_down_fits_the_reason_that_its_driver_gives() {
    let down = |reason: u8| {
        let state = json!([{"link": 0, "ext-state": reason}]);
        let node = answering(
            RAILS,
            &[("ethtool", "linkstate-get", NETDEVS[2], state)],
            |tree| {
                set(tree, "/mlx5_2/ports/1/state", "1: DOWN");
                set(tree, "/mlx5_2/ports/1/phys_state", "3: Disabled");
            },
        );
        findings(&node, &auto(), "port-down").remove(0)
    };
    let without_cable = down(4);
    assert!(
        without_cable.message.contains("reason: No cable"),
        "{}",
        without_cable.message
    );
    assert!(
        without_cable.remedy.contains("sees no cable"),
        "{}",
        without_cable.remedy
    );
    assert!(down(9).remedy.contains("too hot"));
    assert!(!down(77).remedy.contains("too hot"));
    assert!(down(11).remedy.contains("Set a lower speed"));
    assert!(down(12).remedy.contains("management controller"));
}

pub(super) const BEGIN: u64 = 1_790_000_000;

/// The node after ten minutes in which the counters of rails rose so.
pub(super) fn risen(
    document: impl Fn(usize, u64) -> (&'static str, Value),
    rise: impl Fn(usize) -> u64,
) -> Node {
    let at = |time: u64, value: &dyn Fn(usize) -> u64| {
        let answers: Vec<_> = (0..NETDEVS.len())
            .map(|n| {
                let (command, message) = document(n, value(n));
                ("ethtool", command, NETDEVS[n], json!([message]))
            })
            .collect();
        let mut node = answering(RAILS, &answers, |_| {});
        node.facts.time = time;
        node
    };
    let mut history = History::default();
    history.record(&at(BEGIN, &|_| 1000), BEGIN);
    let mut node = at(BEGIN + 600, &|n| 1000 + rise(n));
    node.history = Some(Arc::new(history));
    node
}

#[test]
fn a_port_with_more_bit_errors_than_its_equals_is_reported() {
    let fec = |_, bits: u64| ("fec-get", json!({"active": 50, "stats": {"corr-bits": [bits]}}));
    // 400 Gb/s for 600 s: 2.4e14 bits.
    assert_eq!(
        of(&risen(fec, |_| 240_000_000), &auto(), "bit-errors-high"),
        [""; 0]
    );
    let one = |n: usize| if n == 5 { 240_000_000 } else { 240_000 };
    let node = risen(fec, one);
    assert_eq!(of(&node, &auto(), "bit-errors-high"), ["mlx5_5:1 warning"]);
    let message = message(&node, &auto(), "bit-errors-high");
    assert!(
        message.ends_with(
            "1.0e-6 before correction, median of equal ports 1.0e-9, on average over the last 10 min"
        ),
        "{message}"
    );
    let small = |n: usize| if n == 5 { 12_000_000 } else { 240 };
    assert_eq!(of(&risen(fec, small), &auto(), "bit-errors-high"), [""; 0]);
    assert_eq!(
        of(&risen(fec, |_| 72_000_000_000), &auto(), "bit-errors-high").len(),
        8
    );
}

#[test]
fn the_code_of_a_lane_of_25_gigabits_is_specified_for_fewer_errors() {
    let fec = |_, bits: u64| ("fec-get", json!({"active": 50, "stats": {"corr-bits": [bits]}}));
    // So many errors in a million bits of 100 Gb/s.
    let at = |lanes: u32, errors: u64| {
        let mut node = risen(fec, |_| errors * 100_000 * 600);
        for n in 0..8 {
            with_port(&mut node, &format!("mlx5_{n}"), |port| {
                port.rate = Fact::Known(Rate {
                    bits_per_second: 100_000_000_000,
                    lanes: Some(lanes),
                    speed: None,
                });
            });
        }
        of(&node, &auto(), "bit-errors-high").len()
    };
    // All ports have the same, so they are not compared.
    assert_eq!([at(4, 40), at(4, 60)], [0, 8], "four lanes of NRZ");
    assert_eq!([at(2, 60), at(2, 250)], [0, 8], "two lanes of PAM4");
}

/// The kernel guesses rate and lanes of the RDMA device of `bnxt_re` from the speed; ethtool knows them.
#[test]
fn speed_and_lanes_are_those_that_ethtool_reports() {
    const RS: u8 = 50;
    const LLRS: u8 = 74;
    let judged = |driver: &str, mode: u8, speed: Value| {
        let answers = |bits: u64| -> Vec<_> {
            let fec = |bits: u64| json!([{"active": mode, "stats": {"corr-bits": [bits]}}]);
            let of_netdev = |netdev| {
                [
                    ("ethtool", "fec-get", netdev, fec(bits)),
                    ("ethtool", "linkmodes-get", netdev, json!([speed])),
                ]
            };
            NETDEVS.into_iter().flat_map(of_netdev).collect()
        };
        let at = |time: u64, bits: u64| {
            let mut node = answering(RAILS, &answers(bits), |_| {});
            node.facts.time = time;
            for n in 0..8 {
                with_hca(&mut node, &format!("mlx5_{n}"), |hca| {
                    hca.driver = Fact::Known(driver.to_owned());
                    hca.ports.get_mut(&1).unwrap().rate = Fact::Known(Rate {
                        bits_per_second: 100_000_000_000,
                        lanes: Some(4),
                        speed: None,
                    });
                });
            }
            node
        };
        let mut history = History::default();
        history.record(&at(BEGIN, 0), BEGIN);
        // 6e-5 of 100 Gb/s.
        let mut node = at(BEGIN + 600, 6_000_000 * 600);
        node.history = Some(Arc::new(history));
        of(&node, &auto(), "bit-errors-high").len()
    };
    let (nrz, pam4) = (
        json!({"speed": 100_000, "lanes": 4}),
        json!({"speed": 100_000, "lanes": 2}),
    );
    assert_eq!(judged("bnxt_en", RS, nrz.clone()), 8, "RS(528,514)");
    assert_eq!(judged("bnxt_en", RS, pam4), 0, "RS(544,514)");
    assert_eq!(
        judged("bnxt_en", RS, json!({"speed": 100_000})),
        0,
        "its lanes are not known"
    );
    assert_eq!(
        judged("bnxt_en", RS, json!({"speed": 200_000, "lanes": 4})),
        0,
        "half the ratio"
    );
    assert_eq!(judged("bnxt_en", RS, json!({"speed": 25_000})), 8, "one lane");
    assert_eq!(
        judged("mlx5_core", RS, json!({"speed": 100_000})),
        8,
        "mlx5 knows its lanes"
    );
    assert_eq!(judged("mlx5_core", LLRS, nrz), 0, "another code");
}

#[test]
fn frames_with_a_wrong_checksum_are_reported() {
    let errors = |group: u64, number: &'static str| {
        move |_: usize, count: u64| {
            (
                "stats-get",
                json!({"grp": [{"id": group, "stat": {number: count}}]}),
            )
        }
    };
    let fcs = || errors(1, "4");
    // 400 Gb/s may have 0.4 per second.
    let one = |rise: u64| move |n: usize| if n == 4 { rise } else { 0 };
    assert_eq!(of(&risen(fcs(), |_| 200), &auto(), "counter-errors"), [""; 0]);
    assert_eq!(of(&risen(fcs(), one(20)), &auto(), "counter-errors"), [""; 0]);
    let node = risen(fcs(), one(60));
    assert_eq!(of(&node, &auto(), "counter-errors"), ["mlx5_4:1 warning"]);
    let words = message(&node, &auto(), "counter-errors");
    assert!(
        words.ends_with(
            "fcs_errors by 0.10 per second (limit 0.04, median of equal ports 0.00) on average over the last 10 min"
        ),
        "{words}"
    );
    assert_eq!(of(&risen(fcs(), |_| 600), &auto(), "counter-errors").len(), 8);
    let symbols = risen(errors(0, "0"), one(6000));
    assert_eq!(of(&symbols, &auto(), "counter-errors"), ["mlx5_4:1 warning"]);
    assert!(
        message(&symbols, &auto(), "counter-errors")
            .contains("physical_symbol_errors by 10.00 per second (IEEE 802.3 allows 0.40,")
    );
}

/// A node whose ports count their errors.
fn counting() -> Node {
    let fec = |_| json!({"active": 50, "stats": {"uncorr": [7], "corr-bits": [7]}});
    let errors = |_| json!({"grp": [{"id": 1, "stat": {"4": 7}}, {"id": 0, "stat": {"0": 7}}]});
    let mut answers = of_rails("ethtool", "fec-get", fec);
    answers.extend(of_rails("ethtool", "stats-get", errors));
    answering(RAILS, &answers, |_| {})
}

/// What is found at the last reading of a node, if from one to the next, 300 seconds later, the counters of `mlx5_1` rise by so much and its
/// link goes down so often.
fn flapping(node: &Node, steps: &[(u64, u64)]) -> Vec<String> {
    let mut node = node.clone();
    let mut history = History::default();
    let (mut errors, mut downs) = (7, 1);
    for (n, (rise, down)) in (0_u64..).zip(steps) {
        (errors, downs) = (errors + rise, downs + down);
        node.facts.time = BEGIN + n * 300;
        let links = Arc::make_mut(&mut node.facts.links);
        let Fact::Known(links) = &mut links.netdevs else {
            panic!("no links")
        };
        let link = links.get_mut(NETDEVS[1]).unwrap();
        if let (Fact::Known(fec), Fact::Known(counts)) = (&mut link.fec, &mut link.errors) {
            fec.uncorrectable = Some(errors);
            fec.corrected_bits = Some(errors * 1_000_000_000);
            for count in counts.values_mut() {
                *count = errors;
            }
        }
        with_port(&mut node, "mlx5_1", |port| {
            if let Fact::Known(netdev) = &mut port.netdev {
                netdev.carrier_downs = Fact::Known(downs);
            }
            let mut counters = port.counters.iter_mut();
            let symbols = counters.find(|counter| &*counter.name == "symbol_error");
            symbols.unwrap().value = Fact::Known(errors);
        });
        node.history = Some(Arc::new(history.clone()));
        history.record(&node, node.facts.time);
    }
    let all = judge(&node, &auto()).findings.into_iter();
    let words = |finding: Finding| {
        let judged = ["counter-errors", "bit-errors-high", "port-flapping"].contains(&finding.rule.id);
        judged.then(|| {
            format!(
                "{} {} {}",
                finding.rule.id,
                finding.subject,
                finding.severity.name()
            )
        })
    };
    let mut found: Vec<_> = all.filter_map(words).collect();
    found.sort();
    found
}

#[test]
fn what_a_port_counts_while_its_link_goes_down_is_not_an_error_of_the_running_link() {
    let node = counting();
    let flapping = |steps: &[(u64, u64)]| flapping(&node, steps);
    let errors = [
        "bit-errors-high mlx5_1:1 warning",
        "counter-errors mlx5_1:1 warning",
    ];
    assert_eq!(
        flapping(&[(0, 0), (5000, 0)]),
        errors,
        "the link has not been down"
    );
    let flap = "port-flapping mlx5_1:1 info";
    assert_eq!(
        flapping(&[(0, 0), (5000, 1)]),
        [""; 0],
        "it was up at both readings"
    );
    assert_eq!(flapping(&[(0, 0), (5000, 1), (0, 0)]), [flap]);
    assert_eq!(flapping(&[(0, 0), (5000, 1), (0, 0), (0, 0), (0, 0)]), [flap]);
    let again = flapping(&[(0, 0), (5000, 1), (0, 0), (5000, 0)]);
    assert_eq!(
        again,
        [errors[0], errors[1], flap],
        "errors of the link as it is up"
    );
    assert_eq!(
        flapping(&[(0, 0), (5000, 1), (5000, 1), (5000, 1), (0, 0)]),
        ["port-flapping mlx5_1:1 warning"],
        "errors take the link down again and again"
    );
}

/// The memory of a QSFP28 at this temperature, whose first lane receives this light in units of 0.1 microwatts.
pub(super) fn qsfp(degrees: u8, light: u16) -> Value {
    let mut lower = [0_u8; 64];
    lower[0] = 0x11;
    lower[22] = degrees;
    for lane in 0..4 {
        let light = if lane == 0 { light } else { 9000 };
        lower[34 + 2 * lane..36 + 2 * lane].copy_from_slice(&light.to_be_bytes());
    }
    let mut upper = [0_u8; 64];
    upper[20..36].copy_from_slice(b"NVIDIA          ");
    upper[63] = upper[..63]
        .iter()
        .fold(0, |sum: u8, byte| sum.wrapping_add(*byte));
    let mut limits = [0_u8; 72];
    limits[0] = 80;
    limits[48..52].copy_from_slice(&[0x55, 0xf0, 0x01, 0xf4]);
    let digits = |bytes: &[u8]| {
        let digits: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        digits.concat()
    };
    json!([
        {"address": 80, "page": 0, "offset": 0, "data": digits(&lower)},
        {"address": 80, "page": 0, "offset": 128, "data": digits(&upper)},
        {"address": 80, "page": 3, "offset": 128, "data": digits(&limits)},
    ])
}

#[test]
fn heat_and_light_are_judged_by_the_limits_of_the_module() {
    let with = |memory: Value| {
        answering(
            RAILS,
            &[("ethtool", "module-eeprom-get", NETDEVS[0], memory)],
            |_| {},
        )
    };
    let healthy = with(qsfp(50, 9000));
    assert!(
        healthy
            .transceivers
            .netdevs
            .known()
            .is_some_and(|all| all.len() == 1)
    );
    for rule in ["module-hot", "module-light-low"] {
        assert_eq!(of(&healthy, &auto(), rule), [""; 0]);
    }
    let hot = with(qsfp(81, 9000));
    assert_eq!(of(&hot, &auto(), "module-hot"), ["mlx5_0:1 warning"]);
    assert!(message(&hot, &auto(), "module-hot").ends_with("has 81.0 °C, expected less than 80.0 °C"));
    // The low alarm is 50 microwatts, -13 dBm.
    let low = with(qsfp(50, 400));
    assert_eq!(of(&low, &auto(), "module-light-low"), ["mlx5_0:1 warning"]);
    let words = message(&low, &auto(), "module-light-low");
    assert!(
        words.contains("lane 1 of the QSFP28")
            && words.contains("-14.0 dBm, below its low alarm of -13.0 dBm"),
        "{words}"
    );
    assert_eq!(
        of(&with(qsfp(50, 600)), &auto(), "module-light-low"),
        ["mlx5_0:1 info"]
    );
    assert!(message(&with(qsfp(50, 0)), &auto(), "module-light-low").contains("receives no light"));
    // The page with its limits fails: 78 degrees are normal for a module with a higher limit.
    let mut failed = qsfp(78, 400);
    failed[2] = json!({"address": 80, "page": 3, "offset": 128, "data": "", "errno": 5});
    let node = with(failed);
    assert_eq!(of(&node, &auto(), "module-hot"), ["mlx5_0:1 info"]);
    let finding = findings(&node, &auto(), "module-hot").remove(0);
    let whose = &finding.evidence.last().unwrap().source;
    assert!(
        whose.contains("could not be read") && whose.contains("EIO"),
        "{whose}"
    );
    let unread = node.sources["transceivers"].unread[0].to_string();
    assert!(unread.contains("page 0x03") && unread.contains("EIO"), "{unread}");
    // The cable is split, and the link uses the other lanes.
    let memory = [("ethtool", "module-eeprom-get", NETDEVS[0], qsfp(50, 0))];
    let split = answering(RAILS, &memory, |tree| {
        set(tree, "/mlx5_0/ports/1/rate", "75 Gb/sec (3X EDR)");
    });
    assert_eq!(of(&split, &auto(), "module-light-low"), [""; 0]);
    // A link that is up has light: a module that shows none on any lane does not measure it.
    let mut unmeasured = qsfp(50, 0);
    let lower = unmeasured[0]["data"].as_str().unwrap().replace("2328", "0000");
    unmeasured[0]["data"] = lower.into();
    assert_eq!(of(&with(unmeasured), &auto(), "module-light-low"), [""; 0]);
    // A driver that returns garbage: reported as unread, and no number.
    let garbage = json!([{"address": 80, "page": 0, "offset": 0, "data": "11ff42"}]);
    let node = with(garbage);
    assert_eq!(node.transceivers.netdevs.known(), Some(&BTreeMap::new()));
    let unread = &node.sources["transceivers"].unread[0];
    assert!(
        unread.to_string().contains("neither SFF-8636, CMIS nor SFF-8472"),
        "{unread}"
    );
}

#[test]
fn an_answer_without_the_neighbour_table_is_unread() {
    let other = json!({"name": "ndisc_cache", "thresh2": 512, "thresh3": 1024, "config": {"entries": 1}});
    let cut = json!({"name": "arp_cache", "thresh2": 512, "thresh3": 1024});
    for answer in [json!([]), json!([other]), json!([cut, other])] {
        let node = answering(RAILS, &[("rt-neigh", "getneightbl", "", answer)], |_| {});
        let unread: Vec<_> = node.sources["neighbours"]
            .unread
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(unread.len(), 1, "{unread:?}");
        assert!(unread[0].contains("no table arp_cache"), "{unread:?}");
    }
}

#[test]
fn a_neighbour_table_without_room_is_reported() {
    let with = |entries: u64, overflows: u64| {
        let table = json!([{"name": "arp_cache", "thresh2": 512, "thresh3": 1024, "config": {"entries": entries},
            "stats": {"table-fulls": overflows}}]);
        answering(RAILS, &[("rt-neigh", "getneightbl", "", table)], |_| {})
    };
    assert_eq!(of(&with(900, 0), &auto(), "neighbour-table-full"), [""; 0]);
    assert_eq!(
        of(&with(930, 0), &auto(), "neighbour-table-full"),
        ["node warning"]
    );
    assert_eq!(of(&with(20, 7), &auto(), "neighbour-table-full"), ["node info"]);
    // Without any room, it is full from the beginning.
    for entries in [0, 20] {
        let table =
            json!([{"name": "arp_cache", "thresh2": 0, "thresh3": 0, "config": {"entries": entries}}]);
        let none = answering(RAILS, &[("rt-neigh", "getneightbl", "", table)], |_| {});
        assert_eq!(of(&none, &auto(), "neighbour-table-full"), ["node warning"]);
    }
    // Eight rails and a bond, each with an entry for each node.
    let fleet = |nodes: u32| Expectations {
        fleet_nodes: Some(nodes),
        ..auto()
    };
    assert_eq!(of(&with(20, 0), &fleet(113), "neighbour-table-full"), [""; 0]);
    assert_eq!(
        of(&with(20, 0), &fleet(114), "neighbour-table-full"),
        ["node warning"]
    );
    let shown = message(&with(20, 0), &fleet(400), "neighbour-table-full");
    assert!(shown.contains("400 nodes on 9 RoCE ports need 3600"), "{shown}");
}

#[test]
fn a_neighbour_table_without_room_is_reported_without_netlink() {
    const RULE: &str = "neighbour-table-full";
    let log = "4,1,900000000,-;neighbour: arp_cache: neighbor table overflow!\n";
    let logged = node(RAILS, |tree| {
        tree.write("dev/kmsg", log).unwrap();
    });
    assert_eq!(of(&logged, &auto(), RULE), ["node warning"]);
    let with = |entries: u32, log: &str| {
        node(RAILS, |tree| {
            for (n, limit) in [(2, 512), (3, 1024)] {
                let path = format!("proc/sys/net/ipv4/neigh/default/gc_thresh{n}");
                tree.write(&path, format!("{limit}\n")).unwrap();
            }
            // A line for each CPU of a large machine.
            let line = format!("{entries:08x} 00000001 00000000\n");
            let stat = format!("entries  allocs table_fulls\n{}", line.repeat(256));
            tree.write("proc/net/stat/arp_cache", stat).unwrap();
            tree.write("dev/kmsg", log).unwrap();
        })
    };
    assert_eq!(of(&with(1023, ""), &auto(), RULE), ["node warning"]);
    assert_eq!(of(&with(20, ""), &auto(), RULE), [""; 0]);
    // It has room again.
    assert_eq!(of(&with(20, log), &auto(), RULE), [""; 0]);
}

#[test]
fn a_member_that_lacp_leaves_out_is_reported() {
    let bond = json!([{"ifi-index": 9, "linkinfo": {"data": {"mode": 4, "ad-info": {"aggregator": 1}}}}]);
    let member = |name: &str, aggregator: u64, state: u8, partner: u8| {
        json!({"ifname": name, "master": 9, "ifi-index": 1, "linkinfo": {"slave-data":
            {"mii-status": 0, "ad-aggregator-id": aggregator, "state": state, "ad-actor-oper-port-state": 61,
            "ad-partner-oper-port-state": partner}}})
    };
    let with = |aggregator: u64, state: u8, partner: u8| {
        let members = json!([
            member("eth8", 1, 0, 61),
            member("eth9", aggregator, state, partner)
        ]);
        let link = json!([{"ifi-index": 9, "linkinfo": {"kind": "bond"}}]);
        let of_bond = |command, answer| ("rt-link", command, NETDEVS[0], answer);
        let answers = [
            of_bond("getlink", link),
            of_bond("getlink-bond", bond.clone()),
            of_bond("getlink-members", members),
        ];
        answering(RAILS, &answers, |_| {})
    };
    assert_eq!(of(&with(1, 0, 61), &auto(), "bond-degraded"), [""; 0]);
    for (aggregator, state, partner) in [(2, 0, 61), (1, 1, 61), (1, 0, 13)] {
        let node = with(aggregator, state, partner);
        assert_eq!(of(&node, &auto(), "bond-degraded"), ["mlx5_0:1 warning"]);
        assert!(message(&node, &auto(), "bond-degraded").contains("eth9 of"));
    }
    let finding = findings(&with(1, 1, 13), &auto(), "bond-degraded").remove(0);
    let shown: Vec<_> = finding
        .evidence
        .iter()
        .map(|evidence| evidence.value.as_str())
        .collect();
    assert!(
        shown.contains(&"backup") && shown.contains(&"13 (not collecting, distributing)"),
        "{shown:?}"
    );
}

#[test]
fn without_history_errors_of_the_signal_far_above_those_of_equal_ports_are_found() {
    type Counted = Box<dyn Fn(&mut rdma_health_node::Node, u64)>;
    let link = |node: &mut rdma_health_node::Node,
                change: &dyn Fn(&mut rdma_health_kernel::netlink::ethtool::Link)| {
        let links = Arc::make_mut(&mut node.facts.links);
        let Fact::Known(links) = &mut links.netdevs else {
            panic!("no links")
        };
        change(links.get_mut(NETDEVS[1]).unwrap());
    };
    let blocks: Counted = Box::new(move |node, errors| {
        link(node, &|link| {
            if let Fact::Known(fec) = &mut link.fec {
                fec.uncorrectable = Some(errors);
            }
        });
    });
    let of_kind = |kind: &'static str| -> Counted {
        Box::new(move |node, errors| {
            link(node, &|link| {
                if let Fact::Known(counts) = &mut link.errors {
                    *counts.get_mut(kind).unwrap() = errors;
                }
            });
        })
    };
    let kinds = [
        ("fec_uncorrectable", blocks),
        ("fcs_errors", of_kind("fcs")),
        ("physical_symbol_errors", of_kind("symbol")),
    ];
    for (name, count) in kinds {
        let with = |errors: u64, downs: u64| {
            let mut node = counting();
            count(&mut node, errors);
            with_port(&mut node, "mlx5_1", |port| {
                if let Fact::Known(netdev) = &mut port.netdev {
                    netdev.carrier_downs = Fact::Known(downs);
                }
            });
            node
        };
        let bad = with(1_000_000_000, 1);
        assert_eq!(
            of(&bad, &auto(), "counter-errors"),
            ["mlx5_1:1 warning"],
            "{name}"
        );
        let words = message(&bad, &auto(), "counter-errors");
        let expected =
            format!("counted far more errors than equal ports: {name} 1000000000 (median of equal ports 7)");
        assert!(words.contains(&expected), "{words}");
        let flapped = with(200_000, 1);
        assert_eq!(
            of(&flapped, &auto(), "counter-errors"),
            ["mlx5_1:1 info"],
            "{name}: a link that went down once does that"
        );
        let often = with(1_000_000_000, 200);
        assert_eq!(of(&often, &auto(), "counter-errors"), ["mlx5_1:1 info"], "{name}");
        assert_eq!(of(&with(90_000, 0), &auto(), "counter-errors"), [""; 0], "{name}");
        let mut watched = with(1_000_000_000, 1);
        let mut history = History::default();
        history.record(&watched, BEGIN);
        watched.facts.time = BEGIN + 600;
        watched.history = Some(Arc::new(history));
        assert_eq!(
            of(&watched, &auto(), "counter-errors"),
            [""; 0],
            "{name}: it rests"
        );
    }
}
