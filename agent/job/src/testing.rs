//! What the tests of this crate share: fixtures, given devices and the user's variables.

#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use rdma_health_kernel::{
    Root,
    collector::{Collector, Refresh},
};
use rdma_health_node::{Fact, Node, access::Access};
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
