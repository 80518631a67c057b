//! A snapshot of a tree gives the same node and the same verdict as the tree.

#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    fs,
    io::Read,
    os::unix::{ffi::OsStrExt, fs::symlink},
    path::Path,
    sync::LazyLock,
    time::{Duration, Instant},
};

use proptest::prelude::*;
use rdma_health_kernel::{
    Root,
    collector::{Collector, Refresh},
    recording::{Answer, Form, Question, Recording},
};
use rdma_health_node::{Node, UnreadKind};
use rdma_health_rules::{Expectations, Finding, judge};
use rdma_health_snapshot::{Snapshot, anonymize::anonymize, redact::redact};
use rdma_health_tests::tree;

fn read(root: Root) -> Node {
    let mut collector = Collector::new(root, Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(20));
    Node::new(collector.facts())
}

/// Reads a tree, and what its snapshot becomes once it went through a file.
fn both(path: &Path) -> (Node, Node, Snapshot) {
    let mut root = Root::open(path).unwrap();
    let recorder = root.record();
    let live = root.is_live();
    let node = read(root);
    let mut snapshot = Snapshot {
        version: "0.0.0".into(),
        time: node.time,
        live,
        anonymized: false,
        recording: recorder.recording(),
        probes: Vec::new(),
        history: None,
        expectations: None,
    };
    redact(&mut snapshot.recording);
    let mut bytes = Vec::new();
    snapshot.write(&mut bytes).unwrap();
    let again = Snapshot::read(bytes.as_slice()).unwrap();
    assert_eq!(again, snapshot);
    let mut replayed = read(again.root());
    again.complete(&mut replayed);
    (node, replayed, again)
}

/// Node and verdict as JSON, without how long reading took and when.
fn json(node: &Node) -> String {
    let mut node = node.clone();
    for status in node.sources.values_mut() {
        let status = std::sync::Arc::make_mut(status);
        (status.time, status.seconds) = (None, 0.0);
    }
    let verdict = judge(&node, &Expectations::default());
    serde_json::to_string_pretty(&(&verdict, &node)).unwrap()
}

#[track_caller]
fn assert_same(path: &Path) -> Snapshot {
    let (node, replayed, snapshot) = both(path);
    let (node, replayed) = (json(&node), json(&replayed));
    for (a, b) in node.lines().zip(replayed.lines()) {
        assert_eq!(a, b);
    }
    assert_eq!(node, replayed);
    snapshot
}

#[test]
fn every_fixture_gives_the_same_verdict_from_its_snapshot() {
    let mut seen = 0;
    for file in fs::read_dir(tree::fixtures()).unwrap().flatten() {
        let name = file.file_name().into_string().unwrap();
        if let Some(name) = name.strip_suffix(".tree") {
            assert_same(tree::fixture(name).unwrap().path());
            seen += 1;
        }
    }
    assert!(seen >= 4, "{seen}");
}

#[test]
fn whatever_cannot_be_read_cannot_be_read_from_the_snapshot_either_and_for_the_same_reason() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let port = tree.path().join("sys/class/infiniband/mlx5_0/ports/1");
    // Too long, not text, no file, a loop, names and links that are not text, an empty file, control characters.
    fs::write(port.join("rate"), "9".repeat(5000)).unwrap();
    fs::write(port.join("counters/symbol_error"), b"\xff\xfe\n").unwrap();
    fs::remove_file(port.join("phys_state")).unwrap();
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        port.join("phys_state"),
        rustix::fs::Mode::from_raw_mode(0o600),
    )
    .unwrap();
    fs::remove_file(port.join("counters/link_downed")).unwrap();
    symlink("link_downed", port.join("counters/link_downed")).unwrap();
    fs::write(
        port.join("counters").join(std::ffi::OsStr::from_bytes(b"\xff")),
        "1\n",
    )
    .unwrap();
    fs::write(port.join("state"), "").unwrap();
    fs::write(
        tree.path().join("sys/class/infiniband/mlx5_0/fw_ver"),
        "\x1b[31m\n",
    )
    .unwrap();
    fs::write(tree.path().join("proc/modules"), "nonsense\n").unwrap();
    let (node, ..) = both(tree.path());
    let kinds: std::collections::BTreeSet<_> =
        node.unread().map(|(_, unread)| unread.kind.to_string()).collect();
    for kind in ["too_long", "malformed", "not_a_file", "ELOOP", "EISDIR"] {
        let is_told = kinds.contains(kind) || (kind == "EISDIR" && kinds.contains("not_a_file"));
        assert!(is_told, "{kind}: {kinds:?}");
    }
    assert_same(tree.path());
}

#[test]
fn an_empty_tree_stays_one() {
    let empty = tempfile::tempdir().unwrap();
    assert_same(empty.path());
}

#[test]
fn what_is_nobodys_business_is_not_in_it() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let write = |path: &str, text: &str| {
        let path = tree.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("proc/4711/comm", "secret-miner\n");
    write("proc/4711/cmdline", "secret-miner --password=hunter2\n");
    write(
        "proc/cmdline",
        "root=UUID=6b1c pass=hunter2 iommu=pt -- hunter2\n",
    );
    write(
        "dev/kmsg",
        "6,1,1,-;Kernel command line: root=UUID=6b1c pass=hunter2 iommu=pt\n\
         6,2,2,-;user hunter2 logged in\n6,3,3,-;DMAR: IOMMU enabled\n",
    );
    let snapshot = assert_same(tree.path());
    let all = format!(
        "{:?}",
        snapshot
            .recording
            .iter()
            .map(|(question, answer)| match answer {
                Answer::Bytes(bytes) => format!("{question} {}", String::from_utf8_lossy(bytes)),
                other => format!("{question} {other:?}"),
            })
            .collect::<Vec<_>>()
    );
    for secret in ["hunter2", "secret-miner", "6b1c", "4711"] {
        assert!(!all.contains(secret), "{secret}");
    }
    assert!(all.contains("iommu=pt") && all.contains("DMAR: IOMMU enabled"));
}

#[test]
fn an_anonymous_snapshot_has_the_same_findings_and_none_of_the_addresses() {
    for fixture in ["connectx7-gpu", "virtual-node-translated"] {
        let tree = tree::fixture(fixture).unwrap();
        let (node, _, mut snapshot) = both(tree.path());
        anonymize(&mut snapshot);
        let mut bytes = Vec::new();
        snapshot.write(&mut bytes).unwrap();
        let mut plain = Vec::new();
        ruzstd::decoding::StreamingDecoder::new(bytes.as_slice())
            .unwrap()
            .read_to_end(&mut plain)
            .unwrap();
        let plain = String::from_utf8_lossy(&plain).to_lowercase();
        let replayed = read(Snapshot::read(bytes.as_slice()).unwrap().root());
        let found = |node: &Node| -> Vec<_> {
            let verdict = judge(node, &Expectations::default());
            let finding = |finding: &Finding| (finding.rule.id, finding.severity, finding.subject.clone());
            verdict.findings.iter().map(finding).collect()
        };
        assert_eq!(found(&replayed), found(&node), "{fixture}");
        assert!(!found(&node).is_empty() || fixture != "connectx7-gpu");
        for (before, after) in node.hcas().zip(replayed.hcas()) {
            let (before, after) = (
                before.node_guid.known().unwrap(),
                after.node_guid.known().unwrap(),
            );
            assert_eq!(
                before == after,
                before.0 == 0,
                "zero is what rules look for: {before}"
            );
            assert!(before.0 == 0 || !plain.contains(&before.to_string()), "{before}");
        }
        if let Some(host) = node.host.hostname.known() {
            assert_ne!(replayed.host.hostname.known().unwrap(), host);
            assert!(!plain.contains(host.as_str()), "{host}");
        }
        for mac in ["52:54:00:12:34:5", "5054:00ff:fe12:345", "a088:c203:0012:345"] {
            assert!(!plain.contains(mac), "{mac}");
        }
    }
}

/// The findings and how often the kernel log shows each event.
fn judged(node: &Node) -> String {
    let verdict = judge(node, &Expectations::default());
    let findings = verdict.findings.iter();
    let findings: Vec<_> = findings
        .map(|finding| (finding.rule.id, finding.severity, finding.subject.clone()))
        .collect();
    let log = node.kernel_log.known();
    let events: Vec<_> = log
        .into_iter()
        .flat_map(|log| &log.events)
        .map(|event| {
            (
                event.kind,
                event.device.clone(),
                event.count,
                event.first,
                event.last,
            )
        })
        .collect();
    format!("{findings:#?} {events:#?}")
}

#[test]
fn an_anonymous_snapshot_of_every_fixture_has_the_same_verdict() {
    // A kernel with the number of the writing process in each record, and an event that is repeated.
    let line =
        |n: u32| format!("3,{n},{n}000000,-,caller=T1234;mlx5_core 0000:18:00.0: Fatal error 1 detected\n");
    let repeated: String = (900..964).map(line).collect();
    for file in fs::read_dir(tree::fixtures()).unwrap().flatten() {
        let name = file.file_name().into_string().unwrap();
        let Some(name) = name.strip_suffix(".tree") else {
            continue;
        };
        let tree = tree::fixture(name).unwrap();
        let log = tree.path().join("dev/kmsg");
        fs::create_dir_all(log.parent().unwrap()).unwrap();
        let text = fs::read_to_string(&log).unwrap_or_default() + &repeated;
        fs::write(&log, text).unwrap();
        let (node, replayed, mut snapshot) = both(tree.path());
        assert!(judged(&node).contains("64,"), "{name}: {}", judged(&node));
        assert_eq!(judged(&replayed), judged(&node), "{name}");
        anonymize(&mut snapshot);
        let log = String::from_utf8_lossy(snapshot.recording.file("/dev/kmsg").unwrap()).into_owned();
        assert!(!log.contains("T1234"), "{log}");
        let mut anonymous = read(snapshot.root());
        snapshot.complete(&mut anonymous);
        // The addresses in the names of some devices are replaced.
        assert_eq!(judged(&anonymous), judged(&node), "{name}");
    }
}

#[test]
fn an_anonymous_snapshot_has_the_same_findings_whatever_the_name_of_the_host() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let write = |path: &str, text: &str| {
        let path = tree.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let log = "6,1,1,-;mlx5_core 0000:13:00.0 ens1: Link down\n3,2,2,-;mlx5_core 0000:13:00.0: Fatal error 1 detected\n";
    write("dev/kmsg", log);
    for (name, stays) in [
        ("gpu-17.example.org", false),
        ("dma", true),
        ("DMA.example.org", true),
        ("identity", true),
        ("containerd", true),
        ("core", true),
        ("rdma", true),
        ("link", true),
        ("down", true),
        ("ethernet", true),
        ("mlx5_core", true),
        ("active", true),
        ("ver", true),
    ] {
        write("proc/sys/kernel/hostname", &format!("{name}\n"));
        let (node, _, mut snapshot) = both(tree.path());
        assert_eq!(anonymize(&mut snapshot), stays, "{name}");
        let name_of_host = snapshot.recording.file("/proc/sys/kernel/hostname").unwrap();
        assert!(name_of_host.starts_with(b"node-"), "{name}");
        let mut anonymous = read(snapshot.root());
        snapshot.complete(&mut anonymous);
        assert_eq!(judged(&anonymous), judged(&node), "{name}");
    }
}

#[test]
fn swapped_addresses_are_found_in_an_anonymous_snapshot_and_no_others() {
    let tree = tree::fixture("h100-connectx7").unwrap();
    for (order, is_swapped) in [
        ([0, 1, 2, 3, 4, 5, 6, 7], false),
        ([0, 1, 5, 3, 4, 2, 6, 7], true),
    ] {
        for (rail, place) in (0..).zip(order) {
            let gid = format!("0000:0000:0000:0000:0000:ffff:0a{place:02x}:1105\n");
            let gids = format!("sys/class/infiniband/mlx5_{rail}/ports/1/gids");
            fs::write(tree.path().join(gids).join("3"), gid).unwrap();
        }
        let (node, _, snapshot) = both(tree.path());
        for _ in 0..20 {
            let mut snapshot = snapshot.clone();
            anonymize(&mut snapshot);
            let replayed = judged(&read(snapshot.root()));
            assert_eq!(replayed.contains("rail-addresses"), is_swapped, "{replayed}");
            assert_eq!(replayed, judged(&node));
        }
    }
}

#[test]
fn an_anonymous_snapshot_contains_none_of_what_was_planted() {
    let tree = tree::fixture("h100-connectx7").unwrap();
    let write = |path: &str, text: &str| {
        let path = tree.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(
        "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Release Build  (alice@build-77.corp.example)\n\
         GCC version: alice@build-77.corp.example\n",
    );
    write(
        "proc/cpuinfo",
        "processor\t: 0\nSerial\t: canary-serial\nflags\t\t: fpu vme\n",
    );
    write(
        "proc/cmdline",
        "iommu=pt password:canary-word mlx5_core.password=canary-parameter nvidia.NVreg_RegistryDwords=\"PW=canary;x\"\n",
    );
    write("proc/modules", "mlx5_core 1 0 - Live 0xffffffffc0777777 (OE)\n");
    write(
        "etc/os-release",
        "ID=ubuntu\nVERSION_ID=\"22.04\"\nPRETTY_NAME=\"canary-image\"\nBUILD_ID=canary-build\n",
    );
    write(
        "etc/crio/crio.conf",
        "[crio.api]\nstream_address = \"canary-address\"\ndefault_ulimits = [\"memlock=-1:-1\"]\n",
    );
    let port = "sys/class/infiniband/mlx5_0/ports/1";
    write(&format!("{port}/state"), "4: canary-state\n");
    write(&format!("{port}/counters/symbol_error"), "canary-counter\n");
    let log = fs::read_to_string(tree.path().join("dev/kmsg")).unwrap_or_default();
    let planted = "infiniband mlx5_0: canary[771235]: error canary (771236) 771237 #771238 10-77-66-55 0x0a4d4237 gpu-77";
    write("dev/kmsg", &format!("{log}3,900,900000000,-;{planted}\n"));
    let (node, _, mut snapshot) = both(tree.path());
    anonymize(&mut snapshot);
    let all: String = snapshot
        .recording
        .iter()
        .map(|(question, answer)| match answer {
            Answer::Bytes(bytes) => format!("{question} {}\n", String::from_utf8_lossy(bytes)),
            other => format!("{question} {other:?}\n"),
        })
        .collect();
    for secret in [
        "canary", "alice", "build-77", "c0777777", "7712", "77-66", "4d4237", "gpu-77",
    ] {
        let at = all
            .find(secret)
            .map(|at| all[..at].lines().last().unwrap_or_default());
        assert_eq!(at, None, "{secret}");
    }
    let replayed = read(snapshot.root());
    assert_eq!(judged(&replayed), judged(&node));
    assert_eq!(replayed.limits.crio_default, node.limits.crio_default);
    assert_eq!(replayed.os_release, node.os_release);
    assert!(all.contains("ID=ubuntu\nVERSION_ID=22.04\n"));
    assert!(all.contains("550.54.15") && all.contains("iommu=pt"));
}

#[test]
fn a_source_that_hung_hangs_in_the_snapshot_and_nobody_waits_for_it() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let (.., mut snapshot) = both(tree.path());
    snapshot.recording.hung.insert("iommu".into(), 7);
    let mut bytes = Vec::new();
    snapshot.write(&mut bytes).unwrap();
    let node = read(Snapshot::read(bytes.as_slice()).unwrap().root());
    assert_eq!(node.iommu.groups.unread().unwrap().kind, UnreadKind::Hung);
    let unread: Vec<_> = node.unread().map(|(_, unread)| unread.to_string()).collect();
    assert!(
        unread
            .iter()
            .any(|text| text.contains("has not finished for 7 s")),
        "{unread:?}"
    );
}

#[test]
fn a_question_that_nobody_asked_is_told_as_such() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let (.., mut snapshot) = both(tree.path());
    let asked = |question: &Question| question.path() != Some("/proc/modules");
    snapshot.recording.retain(|question, _| asked(question));
    let node = read(snapshot.root());
    assert_eq!(
        node.modules.loaded.unread().unwrap().kind,
        UnreadKind::NotCollected
    );
}

#[test]
fn the_same_snapshot_gives_the_same_bytes() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let (.., snapshot) = both(tree.path());
    let bytes = || {
        let mut bytes = Vec::new();
        snapshot.write(&mut bytes).unwrap();
        bytes
    };
    assert_eq!(bytes(), bytes());
}

/// The files of a node with GPUs and NICs.
fn recorded() -> (Recording, Vec<String>) {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let mut root = Root::open(tree.path()).unwrap();
    let recorder = root.record();
    read(root);
    let recording = recorder.recording();
    let files = recording
        .iter()
        .filter(|(question, _)| question.form() == Form::Content)
        .filter_map(|(question, _)| question.path().map(str::to_owned))
        .collect();
    (recording, files)
}

/// Reads the node with one file holding something else.
fn read_with(recording: &Recording, path: &str, content: &[u8]) {
    let mut recording = recording.clone();
    recording.insert_file(path, content);
    let node = read(Root::replay(recording.into(), true));
    let broken = node.unread().find(|(_, unread)| unread.kind == UnreadKind::Panic);
    assert!(broken.is_none(), "{path} {content:?}: {broken:?}");
    judge(&node, &Expectations::default());
}

#[test]
fn no_reader_breaks_whatever_a_file_holds() {
    let (recording, files) = recorded();
    for path in &files {
        for content in [
            &b""[..],
            b"\n",
            b"x\n",
            b"0 0\n",
            b":;,= -1 18446744073709551616\n",
            b"\xff\0",
        ] {
            read_with(&recording, path, content);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_reader_breaks_at_a_changed_byte(which: prop::sample::Index, at: prop::sample::Index, noise: [u8; 3]) {
        static RECORDED: LazyLock<(Recording, Vec<String>)> = LazyLock::new(recorded);
        let (recording, files) = &*RECORDED;
        let path = which.get(files);
        if let Some(content) = recording.file(path) {
            let mut content = content.to_vec();
            if !content.is_empty() {
                let at = at.index(content.len());
                content.splice(at..(at + 2).min(content.len()), noise);
            }
            read_with(recording, path, &content);
        }
    }
}
