//! Adapters of iWARP: what their drivers do not have, and the GIDs that they do not need.

#![allow(clippy::unwrap_used, missing_docs)]
#![allow(clippy::disallowed_methods)] // tests read trees; only rules and causes do no I/O

use std::time::{Duration, Instant};

use rdma_health_diagnosis::{Confidence, Diagnosis, diagnose, log::LogReader};
use rdma_health_kernel::{
    Root,
    collector::{Collector, Refresh},
};
use rdma_health_node::Node;
use rdma_health_rules::{Expectations, judge};
use rdma_health_tests::tree::Tree;

/// An E810 whose ports use iWARP. Their only GID is made of the MAC address.
fn node() -> Node {
    let mut tree = Tree::fixture("irdma-e810").unwrap();
    let paths = |end: &str| {
        let found = tree.entries().filter(|(path, _)| path.ends_with(end));
        found.map(|(path, _)| path.to_owned()).collect::<Vec<_>>()
    };
    let (types, gids) = (
        paths("/node_type"),
        [paths("/gids/1"), paths("/gids/2"), paths("/gids/3")].concat(),
    );
    for path in types {
        tree.write(&path, "4: RNIC\n").unwrap();
    }
    for path in gids {
        tree.write(&path, "0000:0000:0000:0000:0000:0000:0000:0000\n")
            .unwrap();
    }
    let tree = tree.unpack().unwrap();
    let mut collector = Collector::new(Root::open(tree.path()).unwrap(), Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(5));
    Node::new(collector.facts())
}

fn diagnosed(node: &Node, log: &str) -> Diagnosis {
    let mut reader = LogReader::default();
    reader.feed(log.as_bytes());
    let findings = judge(node, &Expectations::default()).findings;
    diagnose(node, &findings, Some(&reader.finish()))
}

#[test]
fn no_gid_is_missing_on_an_adapter_that_needs_none() {
    let node = node();
    for log in [
        "ibv_modify_qp: Invalid argument\n",
        "rdma_resolve_addr failed: No such device\n",
        "rdma.c: 854: *NOTICE*: Async event: GID table change\n\
         rdma.c: 496: *ERROR*: Error on CQ 0x1, request 0x2 type SEND, status: (12): transport retry counter exceeded\n",
    ] {
        let diagnosis = diagnosed(&node, log);
        let gid = ["gid-missing", "gid-index", "gid-other-namespace"];
        let blamed = diagnosis
            .causes
            .iter()
            .find(|cause| cause.confidence > Confidence::Unlikely && gid.contains(&cause.id));
        assert!(blamed.is_none(), "{log}: {blamed:?}");
    }
}

#[test]
fn what_the_driver_cannot_do_is_not_blamed_on_memory() {
    let node = node();
    for (log, step) in [
        (
            "libi40iw-i40iw_upost_send: post work request failed, invalid opcode: 0x9\n",
            "an adapter that has it",
        ),
        // SPDK prints the number of an earlier call.
        (
            "rdma.c: 689:spdk_nvmf_rdma_qpair_initialize: *ERROR*: RDMA CQ resize failed: errno 11: Resource temporarily unavailable\n",
            "nvmf_create_transport",
        ),
        (
            "rdma.c: 961:nvmf_rdma_resize_cq: *ERROR*: RDMA CQ resize failed: errno 0: Success\n",
            "nvmf_create_transport",
        ),
    ] {
        let diagnosis = diagnosed(&node, log);
        let first = diagnosis.causes.first().unwrap();
        assert_eq!(first.id, "unsupported-adapter", "{log}");
        assert!(first.next_step.contains(step), "{log}: {}", first.next_step);
    }
}
