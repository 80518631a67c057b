//! What the fuzz targets share.

use std::{
    sync::LazyLock,
    time::{Duration, Instant},
};

use rdma_health_diagnosis::diagnose;
use rdma_health_kernel::{Root, collector::{Collector, Refresh}};
use rdma_health_node::{Node, UnreadKind};
use rdma_health_rules::{Expectations, judge};
use rdma_health_snapshot::{Snapshot, anonymize::anonymize, redact::redact};
use rdma_health_tests::tree;
use tar::{Builder, EntryType, Header};

/// A snapshot of a node with GPUs and NICs.
pub static FIXTURE: LazyLock<Snapshot> = LazyLock::new(|| {
    let tree = tree::fixture("connectx7-gpu").expect("a fixture");
    let mut root = Root::open(tree.path()).expect("a tree");
    let recorder = root.record();
    read(root);
    Snapshot {
        version: "0.0.0".into(),
        time: 0,
        live: true,
        anonymized: false,
        recording: recorder.recording(),
        probes: Vec::new(),
        history: None,
        expectations: None,
    }
});

/// Reads and judges a node; a defect that a reader's own net would catch ends the run.
pub fn read(root: Root) -> Node {
    let mut collector = Collector::new(root, Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(60));
    let node = Node::new(collector.facts());
    let broken = node.unread().find(|(_, unread)| unread.kind == UnreadKind::Panic);
    assert!(broken.is_none(), "{broken:?}");
    let verdict = judge(&node, &Expectations::default());
    diagnose(&node, &verdict.findings, None);
    serde_json::to_string(&node).expect("every node has a JSON form");
    node
}

/// Reads and judges what a snapshot holds, and the same made anonymous.
pub fn node(snapshot: &Snapshot) {
    let mut node = read(snapshot.root());
    snapshot.complete(&mut node);
    judge(&node, &Expectations::default());
    let mut anonymous = snapshot.clone();
    redact(&mut anonymous.recording);
    anonymize(&mut anonymous);
    read(anonymous.root());
}

/// What was read can be written, and is the same when it is read again.
pub fn round_trip(snapshot: &Snapshot) {
    let mut bytes = Vec::new();
    snapshot.write(&mut bytes).expect("what was read fits");
    let again = Snapshot::read(bytes.as_slice()).expect("what was written is read");
    assert_eq!(format!("{again:?}"), format!("{snapshot:?}"));
}

/// An archive with this manifest and one more entry.
pub fn packed(manifest: &[u8], name: &[u8], content: &[u8]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    let entries = [
        (&b"manifest.json"[..], manifest),
        (b"probes.json", b"[]"),
        (b"expectations.json", b"null"),
        (b"history.json", b"null"),
        (&name[..name.len().min(99)], content),
    ];
    for (name, content) in entries {
        let mut header = Header::new_ustar();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name);
        header.set_entry_type(EntryType::Regular);
        header.set_size(content.len() as u64);
        header.set_cksum();
        builder.append(&header, content).expect("memory");
    }
    let archive = builder.into_inner().expect("memory");
    ruzstd::encoding::compress_to_vec(
        archive.as_slice(),
        ruzstd::encoding::CompressionLevel::Uncompressed,
    )
}
