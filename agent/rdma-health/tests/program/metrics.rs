//! `/metrics` of the agent on a tree, without the verbs helper.

use std::{
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use rdma_health_tests::{
    promtool,
    scrape::{Scrape, wait_until},
    tree::{GidFile, Tree},
};

use super::{PRODUCT, check, out, run, text};

/// A GPU of the fixture h100-connectx7.
const GPU: &str = "0000:18:00.0";
/// An RDMA function of the same fixture, of `mlx5_0`.
const NIC: &str = "0000:13:00.0";

/// An agent that reads a tree. It is killed when this is dropped.
struct Agent {
    child: Child,
    address: SocketAddr,
}

impl Agent {
    fn of(root: &Path) -> Self {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let child = Command::new(PRODUCT)
            .args(["agent", "--no-probe", "--helper", "/nonexistent"])
            .args(["--root", text(root), "--listen", &address.to_string()])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, address }
    }

    /// The first scrape that has facts.
    fn scrape(&self) -> Scrape {
        let read = |scrape: &Scrape| scrape.count("rdma_verdict", &[]) > 0;
        wait_until(self.address, Duration::from_secs(30), "a reading", read).unwrap()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended already, which the scrape has reported.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn scrape_of(fixture: &str, change: impl FnOnce(&mut Tree)) -> Scrape {
    let mut tree = Tree::fixture(fixture).unwrap();
    change(&mut tree);
    let tree = tree.unpack().unwrap();
    Agent::of(tree.path()).scrape()
}

#[test]
fn gids_are_exported_without_the_verbs_helper() {
    let scrape = scrape_of("h100-connectx7", |_| {});
    assert_eq!(scrape.value("rdma_health_helper_up", &[]), Some(0.0));
    let device = "device=\"mlx5_0\"";
    let count = |kind: &str| scrape.value("rdma_port_gids", &[device, kind]);
    assert_eq!(count("type=\"RoCE v2\""), Some(2.0), "{}", scrape.text());
    assert_eq!(
        scrape.value("rdma_port_roce_v2_ipv4_gid_index", &[device]),
        Some(3.0)
    );
}

#[test]
fn a_function_of_a_virtual_machine_has_no_iommu_samples_and_still_shows_its_driver() {
    for address in [GPU, NIC] {
        let scrape = scrape_of("h100-connectx7", |tree| {
            tree.bind_to_vfio(address).unwrap();
            tree.set_iommu_type(address, "DMA-FQ").unwrap();
        });
        let pci = format!("pci_address=\"{address}\"");
        for family in ["rdma_iommu_group_translated", "rdma_iommu_group_info"] {
            assert_eq!(scrape.count(family, &[&pci]), 0, "{}", scrape.text());
            assert!(scrape.count(family, &[]) > 10, "{}", scrape.text());
        }
        let info = [pci.as_str(), "driver=\"vfio-pci\""];
        assert_eq!(scrape.value("rdma_pci_function_info", &info), Some(1.0));
    }
}

#[test]
fn metric_rule_and_baseline_choose_one_gid_index_on_a_port_with_a_vlan() {
    let gid = |index, gid, kind, netdev| GidFile {
        index,
        gid,
        kind,
        netdev,
    };
    // The first RoCE v2 GID of an IPv4 address belongs to the VLAN.
    let gids = [
        gid(0, "fe80::1", "IB/RoCE v1", "eth2"),
        gid(1, "fe80::1", "RoCE v2", "eth2"),
        gid(2, "::ffff:10.1.0.1", "IB/RoCE v1", "eth2.100"),
        gid(3, "::ffff:10.1.0.1", "RoCE v2", "eth2.100"),
        gid(4, "::ffff:10.0.0.1", "IB/RoCE v1", "eth2"),
        gid(5, "::ffff:10.0.0.1", "RoCE v2", "eth2"),
    ];
    let mut tree = Tree::fixture("h100-connectx7").unwrap();
    tree.write_gids("mlx5_0", &gids).unwrap();
    let tree = tree.unpack().unwrap();
    let scrape = Agent::of(tree.path()).scrape();
    let index = |device: &str| scrape.value("rdma_port_roce_v2_ipv4_gid_index", &[device]);
    assert_eq!(index("device=\"mlx5_0\""), Some(5.0), "{}", scrape.text());
    assert_eq!(index("device=\"mlx5_1\""), Some(3.0), "{}", scrape.text());

    let found = out(&check(tree.path(), &[]));
    let evidence = found.lines().find(|line| line.contains("gids/5"));
    assert!(
        evidence.is_some_and(|line| line.ends_with("mlx5_0:1")),
        "gid-index-differs names the other index: {found}"
    );
    let baseline = out(&run(&["baseline", "--root", text(tree.path())]));
    assert!(!baseline.contains("gid_index"), "the ports differ: {baseline}");
}

#[test]
fn promtool_accepts_the_metrics_of_several_nodes() {
    for fixture in ["h100-connectx7", "bnxt-re", "efa-p5", "virtual-node-no-iommu"] {
        let scrape = scrape_of(fixture, |_| {});
        if let Err(error) = promtool::check(scrape.text()) {
            panic!("{fixture}: {error:#}");
        }
    }
}
