//! What netlink, libibverbs and the kubelet answer is recorded, saved, made anonymous and replayed as files are.

#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    path::Path,
    time::{Duration, Instant},
};

use rdma_health_kernel::{
    Fact, Root, UnreadKind,
    collector::{Collector, Refresh},
    fact::Errno,
    recording::{Answer, Question},
    root::Scope,
};
use rdma_health_node::{Node, node::VerbsDevice};
use rdma_health_snapshot::{Snapshot, anonymize::anonymize, redact::redact};
use rdma_health_tests::tree::Tree;
use serde_json::{Value, json};

const TREE: &str = r#"
file 444 proc/sys/kernel/hostname
|gpu-17
file 444 sys/class/infiniband/mlx5_0/node_guid
|a088:c203:0012:3456
answer netlink rt-link getlink enx525400123456
|[{"ifname": "enx525400123456", "address": "52:54:00:12:34:56", "mtu": 9000}]
failure EOPNOTSUPP netlink ethtool fec-get eth1
answer netlink devlink info-get pci/0000:18:00.0
|[{"bus-name": "pci", "dev-name": "0000:18:00.0", "info-serial-number": "MTcanary1", "info-board-serial-number": "MTcanary2",
|  "info-version-running": [{"info-version-name": "fw.version", "info-version-value": "28.39.1002"}]}]
answer netlink ethtool module-eeprom-get eth1
|[{"address": 80, "page": 0, "offset": 0, "data": "11000400000000000000000000000000"},
|  {"address": 80, "page": 0, "offset": 128, "data": "ffffffffffffffff4e56494449412020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020000000004d5463616e61727933"},
|  {"address": 80, "page": 0, "offset": 196, "data": "4d5463616e61727933"}]
answer driver statistics
|[{"netdev": "enx525400123456", "errno": 0, "statistics": [{"name": "rx_discards_phy", "value": 7}]}]
answer kubelet List
|{"podResources": [{"name": "secret-job-0", "namespace": "secret-team",
|  "containers": [{"name": "main", "devices": [{"resourceName": "rdma/hca", "deviceIds": ["mlx5_0"]}]}]}]}
answer verbs devices
|{"mlx5_0": {"device": {"name": "mlx5_0", "node_guid": 11567708961043002454, "firmware": "28.41.1000",
|  "vendor_id": 713, "vendor_part_id": 4129, "max_mr_size": 1, "ports": [{"number": 1, "state": 4, "phys_state": 5,
|  "link_layer": 2, "active_mtu": 4096, "max_mtu": 4096, "lid": 0, "sm_lid": 0, "gid_table_len": 256, "gids": [
|  {"index": 0, "gid": "fe80::a288:c2ff:fe12:3456", "kind": "RoCE v2", "netdev_index": 2}]}]}}}
"#;

fn netlink(family: &str, command: &str, object: &str) -> Question {
    Question::Netlink {
        family: family.into(),
        command: command.into(),
        object: object.into(),
    }
}

/// What is asked of the services of [`TREE`].
fn questions() -> [Question; 7] {
    [
        netlink("rt-link", "getlink", "enx525400123456"),
        netlink("ethtool", "fec-get", "eth1"),
        Question::Kubelet {
            method: "List".into(),
        },
        Question::VerbsDevices,
        netlink("devlink", "info-get", "pci/0000:18:00.0"),
        netlink("ethtool", "module-eeprom-get", "eth1"),
        Question::DriverStatistics,
    ]
}

/// Asks as a reader does. No service can be asked: only a recording answers.
fn ask(root: &Root, question: &Question) -> Fact<Value> {
    Scope::new(root).service(question.clone(), || panic!("asked, although it was recorded"))
}

fn asked(root: &Root) -> [Fact<Value>; 7] {
    questions().map(|question| ask(root, &question))
}

fn read(root: Root) -> Node {
    let mut collector = Collector::new(root, Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(20));
    Node::new(collector.facts())
}

/// A snapshot of the tree.
fn snapshot() -> Snapshot {
    let (_folder, mut root) = Tree::parse(TREE).unwrap().open().unwrap();
    let recorder = root.record();
    asked(&root);
    let node = read(root);
    let mut snapshot = Snapshot {
        version: "0.0.0".into(),
        time: node.time,
        live: false,
        anonymized: false,
        recording: recorder.recording(),
        probes: Vec::new(),
        history: None,
        expectations: None,
    };
    redact(&mut snapshot.recording);
    snapshot
}

/// The snapshot, once it went through a file.
fn through_a_file(snapshot: &Snapshot) -> Snapshot {
    let mut bytes = Vec::new();
    snapshot.write(&mut bytes).unwrap();
    Snapshot::read(bytes.as_slice()).unwrap()
}

#[test]
fn services_answer_from_a_snapshot_as_they_do_from_the_tree() {
    let (_folder, root) = Tree::parse(TREE).unwrap().open().unwrap();
    let answers = asked(&root);
    let [link, fec, pods, devices, ..] = &answers;
    assert_eq!(link.known().unwrap()[0]["mtu"], 9000);
    let fec = fec.unread().unwrap();
    assert_eq!(fec.kind, UnreadKind::Errno(Errno::OPNOTSUPP));
    assert_eq!(fec.source, "netlink ethtool fec-get eth1");
    assert_eq!(pods.known().unwrap()["podResources"][0]["name"], "secret-job-0");
    assert!(devices.known().is_some());

    let snapshot = snapshot();
    let again = through_a_file(&snapshot);
    assert_eq!(again, snapshot);
    assert_eq!(asked(&again.root()), answers);
    let mut node = read(again.root());
    again.complete(&mut node);
    let device = node.verbs_device("mlx5_0").unwrap();
    assert_eq!(device.firmware, "28.41.1000");
}

#[test]
fn a_service_that_was_not_asked_is_not_collected() {
    let unasked = netlink("devlink", "port-get", "pci/0000:18:00.0");
    let (_folder, root) = Tree::parse(TREE).unwrap().open().unwrap();
    for root in [root, through_a_file(&snapshot()).root()] {
        let unread = ask(&root, &unasked).unread().cloned().unwrap();
        assert_eq!(unread.kind, UnreadKind::NotCollected);
        assert_eq!(unread.source, unasked.to_string());
    }
}

#[test]
fn a_running_machine_is_asked_and_its_answer_recorded() {
    let mut root = Root::open(Path::new("/")).unwrap();
    let recorder = root.record();
    let [link, fec, ..] = questions();
    let scope = Scope::new(&root);
    let up: Fact<Value> = scope.service(link.clone(), || Ok(br#"{"mtu": 1500}"#.to_vec()));
    assert_eq!(up.known(), Some(&json!({"mtu": 1500})));
    let broken: Fact<Value> = scope.service(fec.clone(), || Ok(b"\x1b not JSON".to_vec()));
    assert_eq!(broken.unread().unwrap().kind, UnreadKind::Malformed);
    let recording = recorder.recording();
    let bytes = Answer::Bytes(br#"{"mtu": 1500}"#.as_slice().into());
    assert_eq!(recording.get(&link), Some(&bytes));
    assert!(
        recording.get(&fec).is_some(),
        "what makes no sense is recorded, too"
    );
}

#[test]
fn an_anonymous_snapshot_has_the_answers_without_names_and_addresses() {
    let mut snapshot = snapshot();
    anonymize(&mut snapshot);
    let again = through_a_file(&snapshot);
    let everything = format!("{:?}", texts(&again));
    for secret in [
        "525400123456",
        "12:34:56",
        "12:3456",
        "secret-job",
        "secret-team",
        "gpu-17",
        "MTcanary",
        "4d5463616e617279",
    ] {
        assert!(!everything.contains(secret), "{secret} in {everything}");
    }
    // What readers use is still there.
    for kept in ["28.39.1002", "rx_discards_phy", "ffffffffffffffff4e5649444941"] {
        assert!(everything.contains(kept), "{kept} in {everything}");
    }
    // The question goes with the answer: both name the network device.
    let mut devices = again
        .recording
        .iter()
        .filter_map(|(question, answer)| match question {
            Question::Netlink { family, object, .. } if family == "rt-link" => Some((object.clone(), answer)),
            _ => None,
        });
    let (object, answer) = devices.next().unwrap();
    let Answer::Bytes(bytes) = answer else {
        panic!("{answer:?}")
    };
    let link: Value = serde_json::from_slice(bytes).unwrap();
    assert_eq!(link[0]["ifname"], object.as_str());
    assert_eq!(link[0]["mtu"], 9000);
    // libibverbs' GUID and GID still belong to the device that sysfs shows.
    let mut node = read(again.root());
    again.complete(&mut node);
    let hca = node.hcas().next().unwrap();
    let Some(VerbsDevice::Device(device)) = node.verbs.known().and_then(|all| all.get("mlx5_0")) else {
        panic!("{:?}", node.verbs)
    };
    assert_eq!(device.node_guid, hca.node_guid.known().unwrap().0);
    let gid = u128::from(device.ports[0].gids[0].gid);
    assert_eq!(gid & 0xff_ffff, u128::from(device.node_guid) & 0xff_ffff);
}

/// Every question and answer as text.
fn texts(snapshot: &Snapshot) -> Vec<String> {
    let answers = snapshot.recording.iter();
    let text = |(question, answer): (&Question, &Answer)| match answer {
        Answer::Bytes(bytes) => format!("{question} {}", String::from_utf8_lossy(bytes)),
        other => format!("{question} {other:?}"),
    };
    answers.map(text).collect()
}
