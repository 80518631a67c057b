//! `rdma-health check` on real kernels in every IOMMU mode.

#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use std::collections::BTreeSet;

use rdma_health_tests::virtual_node::{Iommu, Options, VirtualNode, built};

/// Boots a node with one HCA, makes sure that its kernel is in the mode that is meant, and gives the exit status of
/// `check` and what it printed.
fn check(iommu: Iommu, kernel_args: &str, group_types: &[&str]) -> (i32, String) {
    let options = Options {
        iommu,
        kernel_args: kernel_args.into(),
        ..Options::default()
    };
    let node = VirtualNode::boot(&options).unwrap();
    let types = node
        .check("shopt -s nullglob; cat /dev/null /sys/kernel/iommu_groups/*/type")
        .unwrap();
    let types: BTreeSet<_> = types.lines().collect();
    assert_eq!(types, group_types.iter().copied().collect());
    let output = node
        .run(&format!(
            "{} check --verbose",
            built("rdma-health").unwrap().display()
        ))
        .unwrap();
    // Lines are broken to fit; what they say is compared without that.
    let shown = output.stdout_text();
    let words: Vec<_> = shown.split_whitespace().collect();
    (output.status, words.join(" "))
}

#[test]
fn lazy_translation_is_found() {
    let (status, shown) = check(Iommu::Intel, "", &["DMA-FQ"]);
    assert_eq!(status, 1, "{shown}");
    assert!(shown.contains("iommu-group-translated"), "{shown}");
    assert!(
        shown.contains("of type DMA-FQ (translated, lazy invalidation)"),
        "{shown}"
    );
}

#[test]
fn strict_translation_is_found_and_told_apart() {
    let (status, shown) = check(Iommu::Intel, "iommu.strict=1", &["DMA"]);
    assert_eq!(status, 1, "{shown}");
    assert!(
        shown.contains("of type DMA (translated, strict invalidation)"),
        "{shown}"
    );
    assert!(
        shown.contains("iommu.strict=1"),
        "the command line is evidence: {shown}"
    );
}

#[test]
fn passthrough_is_fine() {
    let (status, shown) = check(Iommu::Intel, "iommu=pt", &["identity"]);
    assert_eq!(status, 0, "{shown}");
    assert!(
        shown.contains("no problem found") && shown.contains("1 of type identity"),
        "{shown}"
    );
}

#[test]
fn translation_by_amd_is_found() {
    // Strictly, since the emulated IOMMU caches absent entries (NpCache), for which Linux gives up its queue.
    let (status, shown) = check(Iommu::Amd, "", &["DMA"]);
    assert_eq!(status, 1, "{shown}");
    assert!(shown.contains("iommu-group-translated"), "{shown}");
}

#[test]
fn passthrough_by_amd_is_fine() {
    let (status, shown) = check(Iommu::Amd, "iommu=pt", &["identity"]);
    assert_eq!(status, 0, "{shown}");
}

#[test]
fn a_node_without_an_iommu_is_fine() {
    let (status, shown) = check(Iommu::None, "", &[]);
    assert_eq!(status, 0, "{shown}");
    assert!(shown.contains("no active IOMMU"), "{shown}");
}
