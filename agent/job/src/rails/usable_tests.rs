//! Which devices libibverbs finds.

#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use std::{collections::BTreeMap, sync::Arc};

use rdma_health_node::Fact;

use super::super::{Prospect, Rails};
use crate::{
    given::Given,
    readiness,
    testing::{change, given, read},
};

/// libibverbs finds a device by its entry in `/sys/class/infiniband_verbs`.
#[test]
fn a_device_without_a_uverbs_device_is_not_used() {
    let (node, mut access) = read("h100-connectx7");
    let all = |names: &'static [&'static str]| {
        names
            .iter()
            .map(move |name| ((*name).to_owned(), format!("uverbs_{name}")))
    };
    access.uverbs_unnamed = false;
    let given = given(&[("PCIDEVICE_A", "0000:14:00.0,0000:33:00.0")]);
    // Known (all are without), absent (the module is not loaded), known for one.
    for (uverbs, usable, prospect) in [
        (Fact::Known(BTreeMap::new()), 0, Prospect::Later),
        (Fact::Absent, 0, Prospect::Later),
        (Fact::Known(all(&["mlx5_1"]).collect()), 1, Prospect::NotNeeded),
    ] {
        access.nodes = Fact::Known(all(&["mlx5_1"]).map(|(_, node)| node).collect());
        access.uverbs = uverbs;
        let visible = Rails::find(&node, &access, &Given::default());
        assert_eq!(visible.count(), usable);
        let refused = visible.refused.iter().find(|one| one.what == "mlx5_2").unwrap();
        assert_eq!(refused.prospect, prospect);
        assert!(
            refused.why.contains("is the module ib_uverbs loaded?"),
            "{refused:?}"
        );
        assert_eq!(readiness::unmet(&node, &visible).is_none(), usable == 1);
        let rails = Rails::find(&node, &access, &given);
        assert_eq!(rails.count(), usable);
        let missing = readiness::missing(&node, &rails, None);
        assert!(missing.iter().any(|one| one.what == "mlx5_2"), "{missing:?}");
    }
}

#[test]
fn a_device_for_the_subnet_manager_is_neither_used_nor_waited_for() {
    let (mut node, mut access) = read("infiniband-ndr");
    let mut hcas = node.hcas.known().unwrap().clone();
    let mut smi = (*hcas["mlx5_0"]).clone();
    let address = smi.pci_address.known().unwrap().clone();
    smi.name = "smi1".into();
    hcas.insert("smi1".into(), Arc::new(smi));
    node.facts.hcas = Fact::Known(hcas);
    access.uverbs_unnamed = false;
    access.uverbs = Fact::Known([("mlx5_0".to_owned(), "uverbs0".to_owned())].into());
    access.nodes = Fact::Known(vec!["uverbs0".to_owned()]);
    for given in [Given::default(), given(&[("PCIDEVICE_A", &address)])] {
        let rails = Rails::find(&node, &access, &given);
        let ports: Vec<_> = rails.rails.iter().map(|rail| rail.port.to_string()).collect();
        assert_eq!(ports, ["mlx5_0:1"], "{:?}", rails.refused);
        assert_eq!(readiness::missing(&node, &rails, None), []);
        assert!(
            readiness::unused(&rails).iter().any(|(line, _)| line.contains("smi1 is not used")
                && line.contains("for the subnet manager")),
            "{:?}",
            rails.refused
        );
    }
}

/// The variables have lists of names.
#[test]
fn a_name_that_lists_cannot_hold_is_refused() {
    for name in ["a,b", "a:1", "a b", "a\nb"] {
        let (mut node, access) = read("h100-connectx7");
        change(&mut node, "mlx5_1", |hca| hca.name = name.into());
        let rails = Rails::find(&node, &access, &given(&[("PCIDEVICE_A", "0000:14:00.0")]));
        assert_eq!(rails.count(), 0, "{name:?}");
        assert!(
            rails.refused[0].why.contains("separates names"),
            "{:?}",
            rails.refused
        );
    }
}
