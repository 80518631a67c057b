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
    let told = output.stdout_text();
    let words: Vec<_> = told.split_whitespace().collect();
    (output.status, words.join(" "))
}

#[test]
fn lazy_translation_is_found() {
    let (status, told) = check(Iommu::Intel, "", &["DMA-FQ"]);
    assert_eq!(status, 1, "{told}");
    assert!(told.contains("iommu-group-translated"), "{told}");
    assert!(
        told.contains("of type DMA-FQ (translated, lazy invalidation)"),
        "{told}"
    );
}

#[test]
fn strict_translation_is_found_and_told_apart() {
    let (status, told) = check(Iommu::Intel, "iommu.strict=1", &["DMA"]);
    assert_eq!(status, 1, "{told}");
    assert!(
        told.contains("of type DMA (translated, strict invalidation)"),
        "{told}"
    );
    assert!(
        told.contains("iommu.strict=1"),
        "the command line is evidence: {told}"
    );
}

#[test]
fn passthrough_is_fine() {
    let (status, told) = check(Iommu::Intel, "iommu=pt", &["identity"]);
    assert_eq!(status, 0, "{told}");
    assert!(
        told.contains("no problem found") && told.contains("1 of type identity"),
        "{told}"
    );
}

#[test]
fn translation_by_amd_is_found() {
    // Strictly, since the emulated IOMMU caches absent entries (NpCache), for which Linux gives up its queue.
    let (status, told) = check(Iommu::Amd, "", &["DMA"]);
    assert_eq!(status, 1, "{told}");
    assert!(told.contains("iommu-group-translated"), "{told}");
}

#[test]
fn passthrough_by_amd_is_fine() {
    let (status, told) = check(Iommu::Amd, "iommu=pt", &["identity"]);
    assert_eq!(status, 0, "{told}");
}

#[test]
fn a_node_without_an_iommu_is_fine() {
    let (status, told) = check(Iommu::None, "", &[]);
    assert_eq!(status, 0, "{told}");
    assert!(told.contains("no active IOMMU"), "{told}");
}
