//! The captured trees in `fixtures/`: each can be unpacked, and those of virtual nodes show what they are named for.

#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use rdma_health_tests::tree;

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn every_fixture_can_be_unpacked() {
    let fixtures = names(&tree::fixtures());
    let trees: Vec<_> = fixtures
        .iter()
        .filter_map(|name| name.strip_suffix(".tree"))
        .collect();
    assert!(trees.len() >= 3, "{fixtures:?}");
    for name in trees {
        let root = tree::fixture(name).unwrap();
        assert!(!names(root.path()).is_empty(), "{name}");
    }
}

#[test]
fn the_fixtures_of_virtual_nodes_show_what_they_are_named_for() {
    for (name, group_types) in [
        ("virtual-node-translated", &["DMA-FQ"][..]),
        ("virtual-node-passthrough", &["identity"]),
        ("virtual-node-no-iommu", &[]),
    ] {
        let root = tree::fixture(name).unwrap();
        let at = |path: &str| root.path().join(path);
        let read = |path: &str| fs::read_to_string(at(path)).unwrap().trim().to_owned();

        let groups = names(&at("sys/kernel/iommu_groups"));
        let types = groups
            .iter()
            .map(|group| read(&format!("sys/kernel/iommu_groups/{group}/type")));
        let expected: BTreeSet<_> = group_types.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(types.collect::<BTreeSet<_>>(), expected, "{name}");

        assert_eq!(
            names(&at("sys/class/infiniband")),
            ["rxe0", "rxe1", "rxe2", "rxe3"],
            "{name}"
        );
        for index in 0..4 {
            let device = format!("sys/class/infiniband/rxe{index}");
            assert_eq!(read(&format!("{device}/ports/1/state")), "4: ACTIVE", "{name}");
            assert!(
                fs::read(at(&format!("{device}/ports/1/gid_attrs/types/15"))).is_err(),
                "an empty entry"
            );
            let netdev = read(&format!("{device}/parent"));
            let driver = fs::read_link(at(&format!("sys/class/net/{netdev}/device/driver"))).unwrap();
            assert_eq!(driver.file_name().unwrap(), "virtio_net", "{name}");
        }
        assert!(read("dev/kmsg").contains("Command line: "), "{name}");
    }
}
