//! Each rule fires on the fault that it is for, on a node modelled on the field, and stays silent without it.
//!
//! That every rule stays silent on every healthy node is tested in `healthy.rs`.

#![allow(clippy::unwrap_used, missing_docs)]
#![allow(clippy::disallowed_methods)] // tests read trees; only rules and causes do no I/O

mod adapter_events;
mod addresses;
mod bond_members;
mod configured;
mod devices;
mod devlink;
mod drivers;
mod flow_control;
mod gpu_events;
mod guests;
mod host;
mod iommu;
mod kept;
mod kernel_modules;
mod links;
mod lost_packets;
mod netlink;
mod other_adapters;
mod pci;
mod platforms;
mod pods;
mod rails;
mod sriov;
mod trends;
mod without_device;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use rdma_health_kernel::{
    Root,
    collector::{Collector, Refresh},
};
use rdma_health_node::{
    Fact, Node,
    infiniband::{Hca, Port},
};
use rdma_health_rules::{CATALOGUE, Expectations, Finding, Profile, Status, judge};
use rdma_health_tests::tree::{Entry, Tree};

/// A healthy node of the field, changed.
fn node(fixture: &str, change: impl FnOnce(&mut Tree)) -> Node {
    let mut archive = Tree::fixture(fixture).unwrap();
    change(&mut archive);
    // A thousand small files: in memory where there is such a place.
    let tree = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    archive.unpack_into(tree.path()).unwrap();
    let mut collector = Collector::new(Root::open(tree.path()).unwrap(), Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(5));
    Node::new(collector.facts())
}

fn auto() -> Expectations {
    Expectations::default()
}

fn profile(profile: Profile) -> Expectations {
    Expectations {
        profile,
        ..Expectations::default()
    }
}

fn findings(node: &Node, expectations: &Expectations, rule: &str) -> Vec<Finding> {
    assert!(
        CATALOGUE.iter().any(|known| known.id == rule),
        "there is no rule {rule}"
    );
    let all = judge(node, expectations).findings.into_iter();
    all.filter(|finding| finding.rule.id == rule).collect()
}

/// What one rule finds, as `subject severity`.
fn of(node: &Node, expectations: &Expectations, rule: &str) -> Vec<String> {
    let words = |finding: &Finding| format!("{} {}", finding.subject, finding.severity.name());
    findings(node, expectations, rule).iter().map(words).collect()
}

fn message(node: &Node, expectations: &Expectations, rule: &str) -> String {
    findings(node, expectations, rule).remove(0).message
}

/// Writes the only file whose path ends so.
fn set(tree: &mut Tree, end: &str, content: &str) {
    let path = tree.path(end);
    tree.write(&path, format!("{content}\n")).unwrap();
}

/// Takes the RDMA device away from its function, whose directory it returns; `None` if there is no such device.
fn take_device(tree: &mut Tree, name: &str) -> Option<String> {
    let device = tree
        .entries()
        .map(|(path, _)| path.to_owned())
        .find(|path| path.ends_with(&format!("/infiniband/{name}/fw_ver")))?;
    let function = device.split("/infiniband/").next().unwrap().to_owned();
    assert!(tree.remove(&format!("{function}/infiniband")));
    assert!(tree.remove(&format!("sys/class/infiniband/{name}")));
    Some(function)
}

/// Changes bytes of a PCI function's configuration space.
fn configure(tree: &mut Tree, address: &str, offset: usize, bytes: &[u8]) {
    let path = tree.path(&format!("/{address}/config"));
    let Some(Entry::File { content, .. }) = tree.get(&path) else {
        panic!("no file {path}")
    };
    let mut content = content.clone();
    content[offset..offset + bytes.len()].copy_from_slice(bytes);
    tree.write(&path, content).unwrap();
}

/// Changes a device that was read.
fn with_hca(node: &mut Node, name: &str, change: impl FnOnce(&mut Hca)) {
    let Fact::Known(hcas) = &mut node.hcas else {
        panic!("no devices")
    };
    change(Arc::make_mut(hcas.get_mut(name).unwrap()));
}

/// Changes a port that was read.
fn with_port(node: &mut Node, name: &str, change: impl FnOnce(&mut Port)) {
    with_hca(node, name, |hca| change(hca.ports.get_mut(&1).unwrap()));
}

#[test]
fn every_rule_is_tested_by_its_id() {
    let sources = [
        include_str!("adapter_events.rs"),
        include_str!("addresses.rs"),
        include_str!("bond_members.rs"),
        include_str!("configured.rs"),
        include_str!("devices.rs"),
        include_str!("devlink.rs"),
        include_str!("drivers.rs"),
        include_str!("flow_control.rs"),
        include_str!("gpu_events.rs"),
        include_str!("guests.rs"),
        include_str!("host.rs"),
        include_str!("iommu.rs"),
        include_str!("kernel_modules.rs"),
        include_str!("links.rs"),
        include_str!("netlink.rs"),
        include_str!("other_adapters.rs"),
        include_str!("pci.rs"),
        include_str!("pods.rs"),
        include_str!("rails.rs"),
        include_str!("sriov.rs"),
        include_str!("trends.rs"),
        include_str!("without_device.rs"),
        include_str!("../catalogue.rs"),
    ]
    .concat();
    let untested: Vec<_> = CATALOGUE
        .iter()
        .map(|rule| rule.id)
        .filter(|id| !sources.contains(&format!("\"{id}\"")) && !sources.contains(&format!("\"{id} ")))
        .collect();
    assert_eq!(untested, [""; 0]);
}

/// Takes a module out of the list of those that are loaded.
fn without_module(tree: &mut Tree, module: &str) {
    let Some(Entry::File { content, .. }) = tree.get("proc/modules") else {
        panic!("no proc/modules")
    };
    let modules = String::from_utf8(content.clone()).unwrap();
    let kept: String = modules
        .split_inclusive('\n')
        .filter(|line| line.split(' ').next() != Some(module))
        .collect();
    tree.write("proc/modules", kept).unwrap();
}
