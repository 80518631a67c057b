//! What netlink shows: the reasons of links that are down, health reporters, firmware, forward error correction.

use rdma_health_kernel::recording::{Answer, Question};
use rdma_health_node::history::History;

use super::*;

/// The function of `mlx5_0` and the network device of its port.
const FUNCTION: &str = "0000:18:00.0";

/// The node with GPUs, with these answers of netlink.
fn answering(answers: &[(&str, &str, &str, String)], change: impl FnOnce(&mut Tree)) -> Node {
    let mut archive = Tree::fixture("connectx7-gpu").unwrap();
    change(&mut archive);
    for (family, command, object, answer) in answers {
        let question = Question::Netlink {
            family: (*family).to_owned(),
            command: (*command).to_owned(),
            object: (*object).to_owned(),
        };
        let bytes = answer.as_bytes().into();
        archive.answer(question, Answer::Bytes(bytes)).unwrap();
    }
    let (_folder, root) = archive.open().unwrap();
    let mut collector = Collector::new(root, Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(5));
    Node::new(collector.facts())
}

fn reporter(address: &str, name: &str, state: u8) -> String {
    format!(
        r#"{{"bus-name": "pci", "dev-name": "{address}", "health-reporter": {{"health-reporter-name": "{name}",
        "health-reporter-state": {state}, "health-reporter-err-count": 3, "health-reporter-recover-count": 2, "health-reporter-auto-recover": 1}}}}"#
    )
}

fn reporters(all: &[String]) -> (&'static str, &'static str, &'static str, String) {
    (
        "devlink",
        "health-reporter-get",
        "",
        format!("[{}]", all.join(",")),
    )
}

#[test]
fn a_reporter_in_error_is_a_finding_and_one_that_recovered_is_not() {
    let node = answering(&[reporters(&[reporter(FUNCTION, "fw", 0)])], |_| {});
    assert_eq!(of(&node, &auto(), "health-reporter-error"), [""; 0]);
    let all = [
        reporter(FUNCTION, "fw", 0),
        reporter(FUNCTION, "fw_fatal", 1),
        // Not an RDMA function.
        reporter("0000:99:00.0", "fw", 1),
    ];
    let node = answering(&[reporters(&all)], |_| {});
    assert_eq!(of(&node, &auto(), "health-reporter-error"), ["mlx5_0 warning"]);
    let finding = findings(&node, &auto(), "health-reporter-error").remove(0);
    assert!(
        finding
            .message
            .contains("fw_fatal of mlx5_0 (0000:18:00.0) is in error"),
        "{}",
        finding.message
    );
    assert_eq!(finding.evidence[0].value, "state error, 3 errors, 2 recovered");
    assert_eq!(
        of(&node, &profile(Profile::TcpOnly), "health-reporter-error"),
        ["mlx5_0 info"]
    );
}

/// `mdd` and `tx_hang` of ice, and `fw` of mlx5, have no recovery: the kernel keeps them in error from the first error on.
#[test]
fn a_reporter_without_recovery_is_judged_by_new_errors() {
    let reader = |errors: u64, time: u64| {
        let document = reporter(FUNCTION, "mdd", u8::from(errors > 0))
            .replace(", \"health-reporter-auto-recover\": 1", "")
            .replace("err-count\": 3", &format!("err-count\": {errors}"));
        let mut node = answering(&[reporters(&[document])], |_| {});
        node.facts.time = time;
        node
    };
    let begin = 1_790_000_000;
    let alone = reader(1, begin);
    assert_eq!(of(&alone, &auto(), "health-reporter-error"), ["mlx5_0 info"]);
    let finding = findings(&alone, &auto(), "health-reporter-error").remove(0);
    assert!(
        finding
            .message
            .ends_with("reported 1 error since the driver was loaded; the driver has no recovery for it"),
        "{}",
        finding.message
    );
    assert_eq!(finding.evidence[0].value, "state error, 1 error, no recovery");
    assert!(
        !finding.remedy.contains("health recover")
            && finding.remedy.contains("devlink dev reload pci/0000:18:00.0"),
        "{}",
        finding.remedy
    );
    let after = |seconds: u64| {
        let mut history = History::default();
        for (errors, time) in [(0, 0), (1, 300), (1, 300 + seconds / 2)] {
            history.record(&reader(errors, begin + time), begin + time);
        }
        let mut node = reader(1, begin + 300 + seconds);
        node.history = Some(Arc::new(history));
        of(&node, &auto(), "health-reporter-error")
    };
    assert_eq!(after(600), ["mlx5_0 warning"], "an error of the last hour");
    assert_eq!(after(4000), ["mlx5_0 info"]);
}

#[test]
fn a_reporter_of_a_subfunction_in_error_is_a_finding_of_its_function() {
    let of_subfunction =
        |state: u8| reporter("mlx5_core.sf.2", "tx", state).replace("\"pci\"", "\"auxiliary\"");
    let with = |state: u8, function: &str| {
        answering(&[reporters(&[of_subfunction(state)])], |tree| {
            let target = format!("../../../devices/pci0000:15/0000:15:01.0/{function}/mlx5_core.sf.2");
            let link = Entry::Link { target };
            tree.insert("sys/bus/auxiliary/devices/mlx5_core.sf.2", link)
                .unwrap();
        })
    };
    for healthy in [with(0, FUNCTION), with(1, "0000:99:00.0")] {
        assert_eq!(of(&healthy, &auto(), "health-reporter-error"), [""; 0]);
    }
    let finding = findings(&with(1, FUNCTION), &auto(), "health-reporter-error").remove(0);
    assert!(
        finding
            .message
            .contains("tx of mlx5_0 (0000:18:00.0, auxiliary/mlx5_core.sf.2)"),
        "{}",
        finding.message
    );
    assert_eq!(
        finding.evidence[0].source,
        "devlink health show auxiliary/mlx5_core.sf.2 reporter tx"
    );
    assert!(
        finding
            .remedy
            .contains("devlink health diagnose auxiliary/mlx5_core.sf.2 reporter"),
        "{}",
        finding.remedy
    );
}

#[test]
fn firmware_that_the_next_reset_starts_is_named() {
    let info = |stored: &str| {
        let version = |value: &str| {
            format!(r#"[{{"info-version-name": "fw.version", "info-version-value": "{value}"}}]"#)
        };
        let (running, stored) = (version("28.39.1002"), version(stored));
        let document = format!(r#"[{{"info-version-running": {running}, "info-version-stored": {stored}}}]"#);
        answering(
            &[
                reporters(&[]),
                ("devlink", "info-get", "pci/0000:18:00.0", document),
            ],
            |_| {},
        )
    };
    assert_eq!(of(&info("28.39.1002"), &auto(), "firmware-pending"), [""; 0]);
    let node = info("28.41.1000");
    assert_eq!(of(&node, &auto(), "firmware-pending"), ["mlx5_0 info"]);
    let message = message(&node, &auto(), "firmware-pending");
    assert!(
        message.ends_with("runs firmware 28.39.1002; the next reset starts 28.41.1000"),
        "{message}"
    );
}

/// The network device of an RDMA device.
fn netdev(device: &str) -> String {
    let node = node("connectx7-gpu", |_| {});
    let port = node.port(device, 1).unwrap();
    port.netdev.known().unwrap().name.clone()
}

fn down(tree: &mut Tree) {
    set(tree, "/mlx5_0/ports/1/state", "1: DOWN");
    set(tree, "/mlx5_0/ports/1/phys_state", "3: Disabled");
}

#[test]
fn the_reason_of_a_link_that_is_down_stands_in_the_finding() {
    let (netdev, other) = (netdev("mlx5_0"), netdev("mlx5_1"));
    let state = |document: &str| {
        let state = |netdev, document: &str| ("ethtool", "linkstate-get", netdev, document.to_owned());
        answering(&[state(netdev.as_str(), document), state(&other, "[]")], down)
    };
    let node = state(r#"[{"link": 0, "ext-state": 0, "ext-substate": 1, "ext-down-cnt": 4}]"#);
    let finding = findings(&node, &auto(), "port-down").remove(0);
    let message = &finding.message;
    assert!(
        message.contains("(physical state Disabled; reason: Autoneg, No partner detected)"),
        "{message}"
    );
    let source = format!("ethtool {netdev}, why the link is down");
    assert!(finding.evidence.iter().any(|evidence| evidence.source == source));
    let node = state(r#"[{"link": 0}]"#);
    assert!(!message_of_port_down(&node).contains("reason"));
}

fn message_of_port_down(node: &Node) -> String {
    message(node, &auto(), "port-down")
}

#[test]
fn blocks_that_cannot_be_corrected_may_be_as_many_as_the_standard_allows() {
    let (netdev, other) = (netdev("mlx5_0"), netdev("mlx5_1"));
    let at = |time: u64, uncorrectable: u64| {
        let fec =
            format!(r#"[{{"active": 50, "stats": {{"corrected": [9], "uncorr": [{uncorrectable}, 1]}}}}]"#);
        let up = r#"[{"link": 1}]"#.to_owned();
        let answers = [
            ("ethtool", "linkstate-get", netdev.as_str(), up.clone()),
            ("ethtool", "linkstate-get", &other, up),
            ("ethtool", "fec-get", &netdev, fec),
        ];
        let mut node = answering(&answers, |_| {});
        node.facts.time = time;
        node
    };
    let begin = 1_790_000_000;
    let mut history = History::default();
    history.record(&at(begin, 7), begin);
    let judged = |uncorrectable| {
        let mut node = at(begin + 3900, uncorrectable);
        node.history = Some(Arc::new(history.clone()));
        findings(&node, &auto(), "counter-errors")
    };
    assert!(judged(7).is_empty() && judged(8).is_empty() && judged(61).is_empty());
    let found = judged(62).remove(0);
    assert!(
        found
            .message
            .contains("fec_uncorrectable by 55 in 65 min (limit 54)"),
        "{}",
        found.message
    );
    assert!(found.evidence[0].source.contains(&netdev), "{:?}", found.evidence);
}

/// A kernel without the family, and a tree without netlink.
#[test]
fn an_old_kernel_is_reported_once_and_a_tree_of_files_says_nothing() {
    let node = node("connectx7-gpu", |_| {});
    assert!(node.links.netdevs.is_absent() && node.devlink.devices.is_absent());
    // Something was recorded, and not these questions.
    let node = answering(&[reporters(&[])], |_| {});
    let kinds: Vec<_> = node
        .links
        .netdevs
        .unread()
        .into_iter()
        .map(|unread| unread.kind.name())
        .collect();
    assert_eq!(kinds, ["not_collected"]);
    assert_eq!(
        node.sources["links"].unread.len(),
        1,
        "one for all network devices"
    );
}
