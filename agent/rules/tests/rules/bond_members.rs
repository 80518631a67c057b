//! The members of a bond (RoCE LAG), of which netlink reports what the bond itself does not have: light, errors, reasons, reporters.

use rdma_health_kernel::recording::{Answer, Question};
use rdma_health_node::{SourceStatus, Unread, UnreadKind, history::History};
use rdma_health_rules::Severity;
use serde_json::{Value, json};

use super::{netlink::qsfp, *};

const MEMBERS: [&str; 2] = ["ens9f0np0", "ens9f1np1"];
const BEGIN: u64 = 1_790_000_000;

type Answers = Vec<(&'static str, &'static str, String, Value)>;

/// The rails of a node with a bond for storage whose second member is up, and what netlink answers about its members.
fn bonded(is_up: bool, answers: &Answers) -> Node {
    let mut archive = Tree::fixture("h100-connectx7").unwrap();
    let bonding = "sys/devices/virtual/net/bond0/bonding";
    let slaves = format!("{}\n", MEMBERS.join(" "));
    archive.write(&format!("{bonding}/slaves"), slaves).unwrap();
    for (member, up) in MEMBERS.into_iter().zip([true, is_up]) {
        let device = archive.path(&format!("/net/{member}/mtu")).replace("/mtu", "");
        let state = if up { "up\n" } else { "down\n" };
        archive
            .write(&format!("{device}/bonding_slave/mii_status"), state)
            .unwrap();
    }
    let question = |family: &str, command: &str, object: &str| Question::Netlink {
        family: family.to_owned(),
        command: command.to_owned(),
        object: object.to_owned(),
    };
    let netdevs: Vec<_> = archive
        .entries()
        .filter_map(|(path, _)| path.strip_prefix("sys/class/net/"))
        .filter(|name| !name.contains('/'))
        .map(str::to_owned)
        .collect();
    let commands = [
        "linkstate-get",
        "fec-get",
        "pause-get",
        "stats-get",
        "module-eeprom-get",
    ];
    for netdev in &netdevs {
        for command in commands {
            let nothing = Answer::Bytes(b"[]".as_slice().into());
            archive
                .answer(question("ethtool", command, netdev), nothing)
                .unwrap();
        }
    }
    for (family, command, object, answer) in answers {
        let bytes = answer.to_string().into_bytes();
        archive
            .answer(question(family, command, object), Answer::Bytes(bytes.into()))
            .unwrap();
    }
    let (_folder, root) = archive.open().unwrap();
    let mut collector = Collector::new(root, Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(5));
    Node::new(collector.facts())
}

fn of_members(command: &'static str, answer: impl Fn(usize) -> Value) -> Answers {
    let numbered = MEMBERS.iter().enumerate();
    numbered
        .map(|(n, member)| ("ethtool", command, (*member).to_owned(), answer(n)))
        .collect()
}

#[test]
fn a_hot_or_dark_module_of_a_member_is_reported_with_the_member() {
    let with = |degrees, light, is_up| {
        let memory = |n: usize| {
            if n == 1 {
                qsfp(degrees, light)
            } else {
                qsfp(50, 9000)
            }
        };
        bonded(is_up, &of_members("module-eeprom-get", memory))
    };
    let healthy = with(50, 9000, true);
    for rule in ["module-hot", "module-light-low"] {
        assert_eq!(of(&healthy, &auto(), rule), [""; 0], "{rule}");
    }
    let hot = with(81, 9000, true);
    assert_eq!(of(&hot, &auto(), "module-hot"), ["mlx5_bond_0:1 warning"]);
    let words = message(&hot, &auto(), "module-hot");
    assert!(
        words.starts_with("the QSFP28 of ens9f1np1 (mlx5_bond_0:1) has 81.0"),
        "{words}"
    );
    let dark = with(50, 0, true);
    assert_eq!(of(&dark, &auto(), "module-light-low"), ["mlx5_bond_0:1 warning"]);
    assert!(
        message(&dark, &auto(), "module-light-low")
            .contains("of ens9f1np1 (mlx5_bond_0:1) receives no light")
    );
    // Its link is down, which another rule reports.
    let down = with(50, 0, false);
    assert_eq!(of(&down, &auto(), "module-light-low"), [""; 0]);
    assert_eq!(of(&down, &auto(), "bond-degraded"), ["mlx5_bond_0:1 warning"]);
}

#[test]
fn a_degraded_bond_names_why_the_link_of_its_member_is_down() {
    let state = |n: usize| {
        if n == 1 {
            json!([{"link": 0, "ext-state": 4}])
        } else {
            json!([{"link": 1}])
        }
    };
    let node = bonded(false, &of_members("linkstate-get", state));
    let finding = findings(&node, &auto(), "bond-degraded").remove(0);
    assert!(
        finding.message.starts_with("ens9f1np1 (No cable) of bond0"),
        "{}",
        finding.message
    );
    let source = "ethtool ens9f1np1, why the link is down";
    assert!(
        finding
            .evidence
            .iter()
            .any(|one| one.source == source && one.value == "No cable")
    );
}

#[test]
fn a_member_that_only_the_bond_counts_as_down_is_not_told_to_have_no_link() {
    let speed = |_| json!([{"speed": 25_000, "lanes": 1}]);
    let node = bonded(false, &of_members("linkmodes-get", speed));
    let shown = message(&node, &auto(), "bond-degraded");
    assert!(shown.contains("although its link is up"), "{shown}");
    assert!(!shown.contains("has no link"), "{shown}");
}

/// The rails of a node with a bond for storage, both of whose members have these files, and the bond this one.
fn all_members(files: &[(&str, &str)], of_bond: &[(&str, &str)]) -> Node {
    node("h100-connectx7", |tree| {
        let bonding = "sys/devices/virtual/net/bond0/bonding";
        tree.write(&format!("{bonding}/slaves"), format!("{}\n", MEMBERS.join(" ")))
            .unwrap();
        for (file, value) in of_bond {
            tree.write(&format!("{bonding}/{file}"), format!("{value}\n"))
                .unwrap();
        }
        for member in MEMBERS {
            let device = tree.path(&format!("/net/{member}/mtu")).replace("/mtu", "");
            for (file, value) in files {
                tree.write(&format!("{device}/{file}"), format!("{value}\n"))
                    .unwrap();
            }
        }
    })
}

#[test]
fn a_bond_none_of_whose_members_carries_traffic_is_critical_whatever_shows_it() {
    const UP: (&str, &str) = ("bonding_slave/mii_status", "up");
    const DOWN: (&str, &str) = ("bonding_slave/mii_status", "down");
    const NO_CARRIER: (&str, &str) = ("carrier", "0");
    const BACKUP: (&str, &str) = ("bonding_slave/state", "backup");
    let lacp = |actor, partner| {
        let actor = ("bonding_slave/ad_actor_oper_port_state", actor);
        let partner = ("bonding_slave/ad_partner_oper_port_state", partner);
        [UP, ("bonding_slave/ad_aggregator_id", "1"), actor, partner]
    };
    let found = |files: &[(&str, &str)], of_bond: &[(&str, &str)]| {
        let node = all_members(files, of_bond);
        let findings = findings(&node, &auto(), "bond-degraded");
        let found = findings
            .into_iter()
            .map(|finding| (finding.severity, finding.message));
        found.collect::<Vec<_>>()
    };
    let aggregator = [("ad_aggregator", "1")];
    let silent: [(&[_], &[_], _); 5] = [
        (&[UP, NO_CARRIER], &[], "no carrier, and the bond counts it as up"),
        (&[DOWN, NO_CARRIER], &[], "no link"),
        (&[DOWN], &[], "no link"),
        (&[UP, BACKUP], &[], "is a backup"),
        (&lacp("13", "5"), &aggregator, "LACP does not use it"),
    ];
    for (files, of_bond, why) in silent {
        let found = found(files, of_bond);
        assert_eq!(found.len(), 1, "{files:?} {found:?}");
        assert_eq!(found[0].0, Severity::Critical);
        assert!(
            found[0].1.starts_with("no member of bond0") && found[0].1.contains(why),
            "{found:?}"
        );
    }
    // Both in use; a switch without LACP, of which the kernel uses one.
    for sound in [lacp("61", "61"), lacp("77", "1")] {
        assert_eq!(found(&sound, &aggregator), []);
    }
    // The same without an aggregator: the states of LACP mean nothing.
    assert_eq!(found(&lacp("13", "5"), &[]), []);
}

#[test]
fn a_member_that_sysfs_lists_and_netlink_does_not_have_is_unread() {
    let member = |name: &str| json!({"ifname": name, "master": 20, "linkinfo": {"slave-data": {"mii-status": 0, "ad-aggregator-id": 1}}});
    let unread = |members: Vec<Value>| {
        let bond = json!([{"ifi-index": 20, "linkinfo": {"kind": "bond"}}]);
        let mode = json!([{"linkinfo": {"data": {"mode": 4, "ad-info": {"aggregator": 1}}}}]);
        let answers = vec![
            ("rt-link", "getlink", "bond0".to_owned(), bond),
            ("rt-link", "getlink-bond", "bond0".to_owned(), mode),
            (
                "rt-link",
                "getlink-members",
                "bond0".to_owned(),
                Value::from(members),
            ),
        ];
        let node = bonded(true, &answers);
        let all = node.unread().map(|(_, unread)| unread.to_string());
        all.filter(|unread| unread.contains("bonding/slaves"))
            .collect::<Vec<_>>()
    };
    assert_eq!(unread(MEMBERS.map(member).to_vec()), [""; 0]);
    for few in [vec![], vec![member(MEMBERS[0])]] {
        let found = unread(few);
        assert!(found.len() == 1 && found[0].contains(MEMBERS[1]), "{found:?}");
    }
}

#[test]
fn a_member_without_a_carrier_has_no_link_although_its_driver_reports_a_speed() {
    let mut answers = of_members("linkmodes-get", |_| json!([{"speed": 25_000, "lanes": 1}]));
    answers.extend(of_members("linkstate-get", |n| {
        if n == 1 {
            json!([{"link": 0, "ext-state": 4}])
        } else {
            json!([{"link": 1}])
        }
    }));
    let shown = message(&bonded(false, &answers), &auto(), "bond-degraded");
    assert!(
        shown.contains("has no link") && shown.contains("No cable"),
        "{shown}"
    );
}

/// The findings of a rule after ten minutes in which a counter of the second member rose so.
fn risen(rule: &str, command: &'static str, document: impl Fn(u64) -> Value, rise: u64) -> Vec<String> {
    let at = |time: u64, value: u64| {
        let answer = |n: usize| json!([document(if n == 1 { value } else { 1000 })]);
        let mut node = bonded(true, &of_members(command, answer));
        node.facts.time = time;
        node
    };
    let mut history = History::default();
    history.record(&at(BEGIN, 1000), BEGIN);
    let json = serde_json::to_string(&history).unwrap();
    let kept: History = serde_json::from_str(&json).unwrap();
    kept.check().unwrap();
    let mut node = at(BEGIN + 600, 1000 + rise);
    node.history = Some(Arc::new(kept));
    let found = findings(&node, &auto(), rule);
    found.into_iter().map(|finding| finding.message).collect()
}

#[test]
fn errors_and_pauses_of_a_member_are_judged_and_counted_once() {
    let fec = |bits: u64| json!({"active": 50, "stats": {"corr-bits": [bits]}});
    assert_eq!(risen("bit-errors-high", "fec-get", fec, 0), [""; 0]);
    let found = risen("bit-errors-high", "fec-get", fec, 72_000_000_000);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("ens9f1np1 of mlx5_bond_0:1 has a bit error ratio"),
        "{found:?}"
    );

    let lost = |blocks: u64| json!({"active": 50, "stats": {"uncorr": [blocks]}});
    let found = risen("counter-errors", "fec-get", lost, 51);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].contains("fec_uncorrectable ens9f1np1 by 51"),
        "{found:?}"
    );

    let pause = |frames: u64| json!({"rx": 1, "tx": 1, "stats": {"tx-frames": frames}});
    let found = risen("pause-storm", "pause-get", pause, 600 * 9000);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("ens9f1np1 of mlx5_bond_0:1 sends 9000 pause frames"),
        "{found:?}"
    );
    // Not counted.
    assert_eq!(
        risen(
            "pause-storm",
            "pause-get",
            |_| json!({"stats": {"tx-frames": u64::MAX}}),
            0
        ),
        [""; 0]
    );
}

#[test]
fn reporters_and_firmware_of_every_function_of_the_bond_are_judged() {
    let reporter = json!([{"bus-name": "pci", "dev-name": "0000:a1:00.1", "health-reporter": {
        "health-reporter-name": "fw_fatal", "health-reporter-state": 1, "health-reporter-err-count": 5, "health-reporter-graceful-period": 1_200_000,
        "health-reporter-dump-ts-ns": 1_700_000_000_000_000_000_u64}}]);
    let version = |version: &str| json!([{"info-version-name": "fw", "info-version-value": version}]);
    let info = json!([{"info-version-running": version("28.39.1002"), "info-version-stored": version("28.41.1000")}]);
    let answers = vec![
        ("devlink", "health-reporter-get", String::new(), reporter),
        ("devlink", "info-get", "pci/0000:a1:00.1".to_owned(), info),
    ];
    let node = bonded(true, &answers);
    assert_eq!(
        of(&node, &auto(), "health-reporter-error"),
        ["mlx5_bond_0 warning"]
    );
    let finding = findings(&node, &auto(), "health-reporter-error").remove(0);
    assert!(
        finding.message.contains("fw_fatal of mlx5_bond_0 (0000:a1:00.1)"),
        "{}",
        finding.message
    );
    let value = "state error, 5 errors, 0 recovered, last dump 2023-11-14T22:13:20Z";
    assert_eq!(finding.evidence[0].value, value);
    assert!(finding.remedy.contains("pci/0000:a1:00.1"), "{}", finding.remedy);
    assert!(
        serde_json::to_string(&*node.devlink)
            .unwrap()
            .contains("\"last_dump\":1700000000")
    );
    assert_eq!(of(&node, &auto(), "firmware-pending"), ["mlx5_bond_0 info"]);
}

#[test]
fn a_member_that_is_slower_than_the_others_is_reported() {
    let speed = |netdev: &str, megabits: u64| {
        let answer = json!([{"speed": megabits, "lanes": 2}]);
        ("ethtool", "linkmodes-get", netdev.to_owned(), answer)
    };
    let with = |second: u64| bonded(true, &vec![speed(MEMBERS[0], 200_000), speed(MEMBERS[1], second)]);
    assert_eq!(of(&with(200_000), &auto(), "bond-degraded"), [""; 0]);
    let slow = with(50_000);
    assert_eq!(of(&slow, &auto(), "bond-degraded"), ["mlx5_bond_0:1 warning"]);
    assert_eq!(
        message(&slow, &auto(), "bond-degraded"),
        "ens9f1np1 of bond0, the bond of mlx5_bond_0:1, runs at 50 Gb/s, and ens9f0np0 at 200 Gb/s"
    );
    let mut backup = slow;
    let Fact::Known(bond) = &mut Arc::make_mut(&mut backup.network)
        .netdevs
        .get_mut("bond0")
        .unwrap()
        .bond
    else {
        panic!("no bond")
    };
    bond[1].is_active = Fact::Known(false);
    assert_eq!(
        of(&backup, &auto(), "bond-degraded"),
        [""; 0],
        "a backup may be slower"
    );
}

#[test]
fn pcie_errors_and_the_loss_of_every_function_of_the_bond_are_found() {
    let with = |files: &[(&str, &str)]| {
        node("h100-connectx7", |tree| {
            let bonding = "sys/devices/virtual/net/bond0/bonding";
            tree.write(&format!("{bonding}/slaves"), format!("{}\n", MEMBERS.join(" ")))
                .unwrap();
            let second = tree.path(&format!("/net/{}/mtu", MEMBERS[1]));
            let device = second.rsplit_once("/net/").unwrap().0;
            for (file, text) in files {
                tree.write(&format!("{device}/{file}"), text).unwrap();
            }
        })
    };
    let sound = with(&[]);
    let failing = with(&[("aer_dev_fatal", "DLP 3\nTOTAL_ERR_FATAL 3\n")]);
    assert_eq!(of(&sound, &auto(), "pci-aer-errors"), [""; 0]);
    assert_eq!(of(&failing, &auto(), "pci-aer-errors").len(), 1);
    let gone = with(&[
        ("current_link_width", "63\n"),
        ("current_link_speed", "Unknown\n"),
    ]);
    assert_eq!(of(&sound, &auto(), "device-lost"), [""; 0]);
    assert_eq!(of(&gone, &auto(), "device-lost").len(), 1);
}

#[test]
fn a_kernel_that_is_too_old_has_a_remedy_that_fits() {
    let with = |kinds: &[&str]| {
        let mut node = node("h100-connectx7", |_| {});
        let unread = kinds.iter().map(|kind| Unread {
            source: "netlink ethtool fec-get ens1f0np0".into(),
            kind: UnreadKind::from_name(kind),
            detail: "this kernel is too old".into(),
        });
        let status = SourceStatus {
            time: Some(BEGIN),
            seconds: 0.0,
            stale: false,
            unread: unread.collect(),
        };
        node.facts.sources = [("links".into(), Arc::new(status))].into();
        findings(&node, &auto(), "facts-unreadable").remove(0).remedy
    };
    for old in [&["EOPNOTSUPP"][..], &["EOPNOTSUPP", "EPROTONOSUPPORT"]] {
        let remedy = with(old);
        assert!(
            remedy.contains("Install a later kernel") && !remedy.contains("root"),
            "{remedy}"
        );
    }
    for other in [&["EACCES"][..], &["EOPNOTSUPP", "EACCES"]] {
        let remedy = with(other);
        assert!(remedy.contains("run as root"), "{remedy}");
    }
}

#[test]
fn of_many_unread_facts_those_that_decide_come_first_and_the_rest_is_counted() {
    let mut node = node("h100-connectx7", |_| {});
    node.facts.live = true;
    let unread = |source: String, kind: &str| Unread {
        source,
        kind: UnreadKind::from_name(kind),
        detail: "it could not be read".into(),
    };
    let mut all: Vec<_> = (0..100)
        .map(|n| unread(format!("netlink ethtool fec-get eth{n}"), "EOPNOTSUPP"))
        .collect();
    all.push(unread("/sys/class/infiniband/mlx5_0/x".into(), "ENODEV"));
    all.push(unread("netlink".into(), "not_collected"));
    all.push(unread("/sys/class/net".into(), "missing"));
    let status = SourceStatus {
        time: Some(BEGIN),
        seconds: 0.0,
        stale: false,
        unread: all,
    };
    node.facts.sources = [("links".into(), Arc::new(status))].into();
    let finding = findings(&node, &auto(), "facts-unreadable").remove(0);
    assert_eq!(finding.evidence[0].source, "/sys/class/net");
    let shown = finding.evidence.len() - 1;
    let last = finding.evidence.last().unwrap();
    assert_eq!(
        (last.source.as_str(), last.value.as_str()),
        ("and more", &*(103 - shown).to_string())
    );
    for part in ["hostNetwork", "ENODEV: ", "Install a later kernel"] {
        assert!(finding.remedy.contains(part), "{part}: {}", finding.remedy);
    }
    assert!(
        !finding
            .remedy
            .contains("the kernel or the saved tree does not have the file")
    );
}
