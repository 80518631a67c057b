//! What the tests of this crate share: fixtures, given devices and the user's variables.

#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use rdma_health_kernel::{
    Root,
    collector::{Collector, Refresh},
};
use rdma_health_node::{Fact, Node, access::Access, infiniband::Hca};
use rdma_health_tests::tree;

use crate::{
    given::Given,
    settings::{NcclVersion, Settings},
    user::User,
};

pub fn read(fixture: &str) -> (Node, Access) {
    let tree = tree::fixture(fixture).unwrap();
    let root = || Root::open(tree.path()).unwrap();
    let mut access = Access::read(&root());
    access.default_netdev = Fact::Known("eth0".into());
    let mut collector = Collector::new(root(), Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(5));
    (Node::new(collector.facts()), access)
}

/// Changes an RDMA device of the node, also its name.
pub fn change(node: &mut Node, device: &str, change: impl FnOnce(&mut Hca)) {
    let mut hcas = node.hcas.known().unwrap().clone();
    let mut hca = hcas.remove(device).unwrap();
    change(Arc::make_mut(&mut hca));
    hcas.insert(hca.name.as_str().into(), hca);
    node.facts.hcas = Fact::Known(hcas);
}

pub fn given(variables: &[(&str, &str)]) -> Given {
    Given::in_environment(&user(variables))
}

pub fn user(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    variables.iter().map(owned).collect()
}

/// What the user has set.
pub fn set(variables: &[(&str, &str)]) -> User {
    User::new(user(variables))
}

pub fn value<'a>(settings: &'a Settings, name: &str) -> Option<&'a str> {
    let setting = settings.settings.iter().find(|setting| setting.name == name)?;
    Some(&setting.value)
}

pub const CURRENT: Option<NcclVersion> = Some(NcclVersion(2, 27));
