//! What `env` says of GPUDirect RDMA on nodes with and without a path to GPU memory. It never sets a variable for it.

#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use std::sync::Arc;

use rdma_health_node::{Fact, Node, access::Access, iommu::DomainType, nvidia::PeerMemory};

use super::*;
use crate::{
    format,
    given::Given,
    settings::{self, Settings},
    testing::{CURRENT, given, read, set},
    user::User,
};

/// The settings for a NIC next to a GPU.
fn near(node: &Node, access: &Access, nccl: Option<NcclVersion>, user: &User) -> Settings {
    let given = given(&[("PCIDEVICE_A", "0000:14:00.0")]);
    let rails = Rails::find(node, access, &given);
    assert_eq!(rails.count(), 1, "{:?}", rails.refused);
    settings::rdma(node, &rails, access, nccl, user)
}

fn h100() -> (Node, Access) {
    read("h100-connectx7")
}

fn no_variable(settings: &Settings) {
    let names: Vec<_> = settings.settings.iter().map(|setting| setting.name).collect();
    assert!(
        !names
            .iter()
            .any(|name| name.contains("GDR") || name.contains("DMABUF") || name.contains("GPU_DIRECT")),
        "{names:?}"
    );
}

#[test]
fn a_healthy_node_needs_no_variable_and_the_output_says_why() {
    let (node, access) = h100();
    let settings = near(&node, &access, CURRENT, &User::default());
    no_variable(&settings);
    assert!(settings.remarks.is_empty(), "{:?}", settings.remarks);
    let text = format::shell(&settings);
    assert!(
        text.contains("# GPUDirect RDMA is available through nvidia_peermem; no variable is needed."),
        "{text}"
    );
    assert_eq!(settings.notes.len(), 1, "{:?}", settings.notes);
}

#[test]
fn a_nic_far_from_every_gpu_is_noted_with_the_level_that_would_allow_it() {
    let (node, access) = h100();
    let bond = node.hcas().find(|hca| hca.name == "mlx5_bond_0").unwrap();
    let address = bond.pci_address.known().unwrap().clone();
    let given = given(&[("PCIDEVICE_A", &address)]);
    let rails = Rails::find(&node, &access, &given);
    let settings = settings::rdma(&node, &rails, &access, CURRENT, &User::default());
    no_variable(&settings);
    let nearest = nearest(&node.topology(), bond).unwrap();
    assert!(nearest > Distance::Pxb);
    let word = of_nccl(nearest);
    let notes = settings.notes.join("\n");
    assert!(notes.contains(&format!("mlx5_bond_0 ({word})")), "{notes}");
    assert!(
        notes.contains(&format!("NCCL_NET_GDR_LEVEL={word} allows it")),
        "{notes}"
    );
}

#[test]
fn a_node_without_a_path_to_gpu_memory_is_remarked() {
    let (mut node, access) = h100();
    node.peer_memory = Fact::Known(PeerMemory::None);
    let settings = near(&node, &access, CURRENT, &User::default());
    no_variable(&settings);
    assert!(
        settings.remarks[0].contains("GPUDirect RDMA is not available"),
        "{:?}",
        settings.remarks
    );
    // GPUs without a driver are not for this job.
    Arc::make_mut(&mut node.facts.pci).nvidia_driver = Fact::Absent;
    let settings = near(&node, &access, CURRENT, &User::default());
    assert!(settings.remarks.is_empty(), "{:?}", settings.remarks);
}

#[test]
fn dma_buf_needs_a_recent_nccl_and_must_not_be_switched_off() {
    let (mut node, access) = h100();
    node.peer_memory = Fact::Known(PeerMemory::DmaBuf);
    let old = near(&node, &access, Some(NcclVersion(2, 12)), &User::default());
    assert!(
        old.remarks
            .iter()
            .any(|remark| remark.contains("NCCL before 2.13 does not use")),
        "{:?}",
        old.remarks
    );
    let off = set(&[("NCCL_DMABUF_ENABLE", "0")]);
    let remarks = |node: &Node| near(node, &access, CURRENT, &off).remarks.join("\n");
    assert!(
        remarks(&node).contains("NCCL_DMABUF_ENABLE=0 switches"),
        "{}",
        remarks(&node)
    );
    // The module is another path.
    node.peer_memory = Fact::Known(PeerMemory::NvidiaPeermem);
    assert_eq!(remarks(&node), "");
}

#[test]
fn the_level_of_the_user_is_read_as_nccl_reads_it() {
    let (node, access) = h100();
    let remarks = |value: &str| {
        let user = set(&[("NCCL_NET_GDR_LEVEL", value)]);
        near(&node, &access, CURRENT, &user).remarks.join("\n")
    };
    for (value, words) in [
        ("NODE", "NODE of nvidia-smi is PHB in NCCL"),
        ("pxb", "which NCCL ignores"),
        ("", "which NCCL ignores"),
        ("-1", "which NCCL ignores"),
        ("LOC", "NCCL_NET_GDR_LEVEL=LOC switches GPUDirect RDMA off"),
        ("0", "switches GPUDirect RDMA off"),
    ] {
        assert!(remarks(value).contains(words), "{value:?}: {}", remarks(value));
    }
    for right in ["PIX", "PXB", "PHB", "SYS", "1", "5", "99"] {
        assert_eq!(remarks(right), "", "{right}");
    }
    // A level that is too low for one of the ports.
    let bond = node.hcas().find(|hca| hca.name == "mlx5_bond_0").unwrap();
    let given = given(&[("PCIDEVICE_A", bond.pci_address.known().unwrap())]);
    let rails = Rails::find(&node, &access, &given);
    let user = set(&[("NCCL_NET_GDR_LEVEL", "PXB")]);
    let text = settings::rdma(&node, &rails, &access, CURRENT, &user)
        .remarks
        .join("\n");
    assert!(
        text.contains("NCCL_NET_GDR_LEVEL=PXB rules GPUDirect RDMA out for mlx5_bond_0"),
        "{text}"
    );
}

#[test]
fn other_switches_of_the_user_are_reported() {
    let (node, access) = h100();
    for (name, value) in [
        ("NCCL_NET_GDR_READ", "0"),
        ("NCCL_IB_GDR_LEVEL", "3"),
        ("UCX_IB_GPU_DIRECT_RDMA", "no"),
    ] {
        let user = set(&[(name, value)]);
        let remarks = near(&node, &access, CURRENT, &user).remarks.join("\n");
        assert!(remarks.contains(name), "{name}: {remarks}");
    }
}

#[test]
fn a_translated_nic_is_remarked() {
    let (mut node, access) = h100();
    let iommu = Arc::make_mut(&mut node.facts.iommu);
    let Fact::Known(groups) = &mut iommu.groups else {
        panic!("no groups");
    };
    for group in groups.values_mut() {
        group.domain = Fact::Known(DomainType::Lazy);
    }
    let settings = near(&node, &access, CURRENT, &User::default());
    assert!(
        settings
            .remarks
            .iter()
            .any(|remark| remark.contains("translates the addresses of mlx5_1: GPUDirect RDMA can then fail")),
        "{:?}",
        settings.remarks
    );
}

#[test]
fn a_node_without_gpus_gets_no_word_about_them() {
    let (node, access) = read("infiniband-ndr");
    let rails = Rails::find(&node, &access, &Given::default());
    let settings = settings::rdma(&node, &rails, &access, CURRENT, &User::default());
    assert_eq!(node.gpus().count(), 0);
    assert!(settings.notes.is_empty(), "{:?}", settings.notes);
}
