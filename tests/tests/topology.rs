//! PCI topology and NUMA on a real kernel: a NIC behind a bridge of the second NUMA node.

#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use rdma_health_tests::virtual_node::{Options, VirtualNode, built};

const MACHINE: &str = "-object memory-backend-ram,id=m0,size=1024M -object memory-backend-ram,id=m1,size=1024M \
    -numa node,nodeid=0,cpus=0,memdev=m0 -numa node,nodeid=1,cpus=1,memdev=m1 \
    -device pxb-pcie,id=far,bus_nr=128,numa_node=1,bus=pcie.0 \
    -device pcie-root-port,id=slot1,bus=far,chassis=1 \
    -netdev user,id=far0,restrict=on -device virtio-net-pci,netdev=far0,romfile=,bus=slot1";

#[test]
fn a_probe_runs_on_the_numa_node_of_its_nic() {
    let node = VirtualNode::boot(&Options {
        kernel_args: "iommu=pt".into(),
        nics: 1,
        qemu_args: MACHINE.split_whitespace().map(str::to_owned).collect(),
        ..Options::default()
    })
    .unwrap();
    let product = built("rdma-health").unwrap().display().to_string();
    // The interface whose PCI function is on NUMA node 1, and the RDMA device on it.
    let script = "for d in /sys/class/infiniband/*; do n=$(cat $d/parent); \
        p=$(readlink -f /sys/class/net/$n/device/..); \
        [ \"$(cat $p/numa_node)\" = 1 ] && echo \"$(basename $d) $(basename $p)\"; done; true";
    let found = node.check(script).unwrap();
    let (device, address) = found.trim().split_once(' ').unwrap();

    let report = node
        .check(&format!("{product} probe {device} --bytes 1MiB --output json"))
        .unwrap();
    assert!(report.contains("\"numa_node\": 1"), "{report}");
    assert!(report.contains("\"stage\": \"done\""), "{report}");

    // With the memory of each node, which the kernel shows while it is used.
    let matrix = node
        .check(&format!(
            "{product} probe {device} --matrix --force --bytes 1GiB --duration 4s --output json > /tmp/matrix & \
             while kill -0 $! 2>/dev/null; do cat /proc/[0-9]*/numa_maps 2>/dev/null; done | grep -o 'bind:[0-9]*' | sort -u; \
             wait $!; cat /tmp/matrix"
        ))
        .unwrap();
    let (used, matrix) = matrix.split_at(matrix.find('{').unwrap());
    assert_eq!(used.split_whitespace().collect::<Vec<_>>(), ["bind:0", "bind:1"]);
    let matrix: serde_json::Value = serde_json::from_str(matrix).unwrap();
    assert_eq!(matrix["memory_nodes"], serde_json::json!([0, 1]));
    let row = &matrix["ports"][0];
    assert_eq!((&row["device"], &row["numa_node"]), (&device.into(), &1.into()));
    for (place, memory_node) in [(0, 0), (1, 1)] {
        let cell = &row["cells"][place];
        assert_eq!(cell["memory_node"], memory_node);
        assert!(cell["bytes_per_second"].as_f64().unwrap() > 0.0, "{matrix}");
    }

    let shown = node.check(&format!("{product} check --output json")).unwrap();
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["node"]["hcas"][device]["numa_node"], 1);
    let function = &shown["node"]["pci"]["functions"][address];
    assert_eq!(function["role"], "rdma");
    assert_eq!(function["numa_node"], 1);
    // The root port above it: QEMU's has ACS and runs at 2.5 GT/s x1 of 16 GT/s x32.
    let bridge = function["bridges"][0].as_str().unwrap();
    let bridge = &shown["node"]["pci"]["functions"][bridge];
    assert_eq!(bridge["role"], "bridge");
    assert!(
        bridge["capabilities"]["acs"]["capability"].as_u64().unwrap() > 0,
        "{bridge}"
    );
    assert_eq!(bridge["link"]["max_speed"], 16_000);
    assert_eq!(bridge["link"]["speed"], 2_500);
}
