//! `rdma-health env` in every environment that gives devices to a pod, and with what users and plugins get wrong. Each case runs the
//! program on a tree and gives its output to a shell.

#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use std::{
    path::Path,
    process::{Command, Stdio},
};

use rdma_health_tests::tree::{Entry, Tree};

const PRODUCT: &str = env!("CARGO_BIN_EXE_rdma-health");
/// The metadata that Kubernetes mounts for a DRA driver.
const METADATA: &str = "var/run/kubernetes.io/dra-device-attributes";

/// What the program printed, and what a shell makes of it.
struct Said {
    status: i32,
    out: String,
    error: String,
}

impl Said {
    fn exports(&self, name: &str) -> Option<&str> {
        let start = format!("export {name}=");
        let value = self.out.lines().find_map(|line| line.strip_prefix(&start))?;
        Some(value.trim_end_matches(';').trim_matches('\''))
    }

    #[track_caller]
    fn uses(&self, ports: &str) -> &Self {
        assert_eq!(self.status, 0, "{}", self.error);
        assert_eq!(
            self.exports("NCCL_IB_HCA"),
            Some(format!("={ports}").as_str()),
            "{}{}",
            self.out,
            self.error
        );
        assert_eq!(self.exports("UCX_NET_DEVICES"), Some(ports), "{}", self.out);
        self
    }

    /// The mode is RDMA, and the reason names these words.
    #[track_caller]
    fn fails(&self, words: &[&str]) {
        assert_eq!((self.status, self.out.as_str()), (2, ""), "{}", self.error);
        for word in words {
            assert!(self.error.contains(word), "{word} is not in: {}", self.error);
        }
    }
}

/// A tree with a default route over eth0.
fn node(fixture: &str) -> Tree {
    let mut tree = Tree::fixture(fixture).unwrap();
    let route = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
                 eth0\t00000000\t0100A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n";
    tree.write("proc/net/route", route).unwrap();
    tree
}

#[track_caller]
fn env(tree: &Tree, variables: &[(&str, &str)], arguments: &[&str]) -> Said {
    let folder = tree.unpack().unwrap();
    let run = || said(folder.path(), variables, arguments);
    let (first, second) = (run(), run());
    assert_eq!(
        (first.status, &first.out, &first.error),
        (second.status, &second.out, &second.error),
        "the same facts give the same output"
    );
    if first.status == 0 {
        evaluates(&first);
    }
    first
}

fn said(root: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> Said {
    let output = Command::new(PRODUCT)
        .arg("env")
        .arg("--root")
        .arg(root)
        .args(arguments)
        .env_clear()
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let root = root.display().to_string();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap().replace(&root, "");
    Said {
        status: output.status.code().unwrap(),
        out: text(&output.stdout),
        error: text(&output.stderr),
    }
}

/// A shell accepts the output, prints nothing, and exports the same value.
#[track_caller]
fn evaluates(said: &Said) {
    let script = format!("set -eu\n{}\nprintf %s \"${{NCCL_SOCKET_IFNAME-}}\"", said.out);
    let output = Command::new("sh")
        .args(["-c", &script])
        .env_clear()
        .output()
        .unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{}\n{}",
        said.out,
        String::from_utf8_lossy(&output.stderr)
    );
    let value = String::from_utf8(output.stdout).unwrap();
    if let Some(expected) = said.exports("NCCL_SOCKET_IFNAME") {
        assert_eq!(value, expected);
    }
}

/// Names and values.
type Variables = &'static [(&'static str, &'static str)];

const RDMA: &[&str] = &["--mode", "rdma"];

#[test]
fn every_allocator_leads_to_the_devices_that_it_gave() {
    let tree = node("h100-connectx7");
    let address = ("PCIDEVICE_OPENSHIFT_IO_RAIL", "0000:14:00.0");
    // The SR-IOV network device plugin, since March 2025 and before.
    let named = r#"{"0000:14:00.0":{"generic":{"deviceID":"0000:14:00.0"},"rdma":{"rdma_cm":"/dev/infiniband/rdma_cm","rdma_dev":"mlx5_1","uverbs":"/dev/infiniband/uverbs1"}}}"#;
    let unnamed = named.replace("\"rdma_dev\":\"mlx5_1\",", "");
    for information in [named, &unnamed] {
        let variables = [address, ("PCIDEVICE_OPENSHIFT_IO_RAIL_INFO", information)];
        env(&tree, &variables, RDMA).uses("mlx5_1:1");
    }
    env(&tree, &[address], RDMA).uses("mlx5_1:1");
    // The SR-IOV driver for dynamic resource allocation; the list is that of the pod and not of this container.
    let variables = [
        ("SRIOVNETWORK_PCI_ADDRESSES", "0000:14:00.0,0000:33:00.0"),
        ("SRIOVNETWORK_VF_DEVICE_0000_14_00_0", "0000:14:00.0"),
        ("SRIOVNETWORK_0000_14_00_0_RDMA_DEVICE", "mlx5_1"),
        ("SRIOVNETWORK_0000_14_00_0_RDMA_UVERB", "/dev/infiniband/uverbs1"),
    ];
    env(&tree, &variables, RDMA).uses("mlx5_1:1");
    env(&tree, &variables[..1], RDMA).uses("mlx5_1:1,mlx5_2:1");
    // Two plugins of two vendors.
    let variables = [
        ("PCIDEVICE_MELLANOX_COM_A", "0000:33:00.0"),
        ("PCIDEVICE_NVIDIA_COM_B", "0000:14:00.0"),
    ];
    env(&tree, &variables, RDMA).uses("mlx5_1:1,mlx5_2:1");
    // Multus' network status, of which the pod's default network has no device.
    let mut with_status = tree.clone();
    let status = r#"[{"name":"ovn-kubernetes","interface":"eth0","ips":["10.1.0.2"],"default":true,"dns":{}},
        {"name":"a/rail0","interface":"net1","device-info":{"type":"pci","version":"1.1.0","pci":{"pci-address":"0000:33:00.0","rdma-device":"mlx5_2"}}}]"#;
    with_status.write("etc/podinfo/network-status", status).unwrap();
    let arguments = [
        "--mode",
        "rdma",
        "--network-status",
        "/etc/podinfo/network-status",
    ];
    env(&with_status, &[], &arguments).uses("mlx5_2:1");
}

#[test]
fn metadata_files_of_dra_drivers_name_the_devices() {
    for (driver, attributes) in [
        (
            "sriovnetwork.k8snetworkplumbingwg.io",
            r#""resource.kubernetes.io/pciBusID":{"string":"0000:14:00.0"},"sriovnetwork.k8snetworkplumbingwg.io/rdmaCapable":{"bool":true}"#,
        ),
        (
            "dra.net",
            r#""dra.net/ifName":{"string":"ens9"},"dra.net/rdma":{"bool":true},"dra.net/rdmaDevice":{"string":"mlx5_1"}"#,
        ),
    ] {
        for kind in ["resourceclaims/nics", "resourceclaimtemplates/nics"] {
            let mut tree = node("h100-connectx7");
            let document = format!(
                r#"{{"kind":"DeviceMetadata","apiVersion":"metadata.resource.k8s.io/v1alpha1","requests":[{{"name":"nic","devices":[{{"driver":"{driver}","pool":"node","name":"nic-0","attributes":{{{attributes}}}}}]}}]}}"#
            );
            let file = format!("{METADATA}/{kind}/nic/{driver}-metadata.json");
            tree.write(&file, &document).unwrap();
            env(&tree, &[], RDMA).uses("mlx5_1:1");
        }
    }
    let mut tree = node("h100-connectx7");
    let file = format!("{METADATA}/resourceclaims/nics/nic/dra.net-metadata.json");
    tree.write(&file, "{").unwrap();
    env(&tree, &[], RDMA).fails(&["dra.net-metadata.json is not JSON"]);
}

#[test]
fn without_variables_the_devices_that_can_be_opened_are_used() {
    // Bare metal: the NIC of each GPU, not the bond for storage.
    let mut tree = node("h100-connectx7");
    let all: Vec<_> = (0..8).map(|n| format!("mlx5_{n}:1")).collect();
    env(&tree, &[], RDMA).uses(&all.join(","));
    // The plugin for shared RDMA devices: one device file in the pod.
    for n in 0..9 {
        let name = if n == 8 {
            "mlx5_bond_0".to_owned()
        } else {
            format!("mlx5_{n}")
        };
        let verbs = format!("sys/class/infiniband_verbs/uverbs{n}");
        tree.remove(&verbs);
        tree.write(&format!("{verbs}/ibdev"), format!("{name}\n"))
            .unwrap();
    }
    tree.write("dev/infiniband/uverbs3", "").unwrap();
    tree.write("dev/infiniband/rdma_cm", "").unwrap();
    env(&tree, &[], RDMA).uses("mlx5_3:1");
    // Given to the pod, but without its device file.
    env(&tree, &[("PCIDEVICE_A", "0000:14:00.0")], RDMA)
        .fails(&["/dev/infiniband/uverbs1 is not in this container"]);
}

#[test]
fn efa_is_used_through_libfabric() {
    let efa = env(&node("efa-p5"), &[], RDMA);
    assert_eq!(efa.exports("FI_PROVIDER"), Some("efa"), "{}", efa.error);
    assert_eq!(efa.exports("NCCL_IB_HCA"), None);
}

/// Where a function has no RDMA device, the reason is read from the function itself.
#[test]
fn a_function_without_an_rdma_device_says_what_it_is_bound_to() {
    const GIVEN: Variables = &[("PCIDEVICE_A", "0000:14:00.0")];
    let mut tree = node("h100-connectx7");
    tree.remove("sys/class/infiniband/mlx5_1");
    env(&tree, GIVEN, RDMA).fails(&["its driver mlx5_core has no RDMA device for it here"]);
    tree.bind_to_vfio("0000:14:00.0").unwrap();
    env(&tree, GIVEN, RDMA).fails(&["it is bound to vfio-pci", "deviceType: netdevice"]);
}

#[test]
fn what_cannot_be_used_is_refused_with_its_name_and_reason() {
    let tree = node("h100-connectx7");
    let cases: [(Variables, &[&str]); 6] = [
        (
            &[("PCIDEVICE_A_INFO", "{\"0000:14:00.0\": {")],
            &["PCIDEVICE_A_INFO is not a JSON object of devices"],
        ),
        (
            &[("PCIDEVICE_A", "0000:ff:1f.7")],
            &[
                "0000:ff:1f.7 (PCIDEVICE_A)",
                "this node has no PCI function at this address",
            ],
        ),
        (
            &[("PCIDEVICE_A", "$(touch /tmp/x);`id`")],
            &["expected a PCI address like 0000:41:00.2"],
        ),
        (
            &[("PCIDEVICE_A", "")],
            &["PCIDEVICE_A is empty, expected a PCI address"],
        ),
        (
            &[("SRIOVNETWORK_A_RDMA_DEVICE", "mlx5_77")],
            &["mlx5_77 (SRIOVNETWORK_A_RDMA_DEVICE)"],
        ),
        // A virtual function without RDMA: here, a bridge.
        (
            &[
                ("PCIDEVICE_A", "0000:10:01.0"),
                ("PCIDEVICE_A_INFO", r#"{"0000:10:01.0":{"generic":{}}}"#),
            ],
            &["has no RDMA device, and its resource has no isRdma"],
        ),
    ];
    for (variables, words) in cases {
        env(&tree, variables, RDMA).fails(words);
        // Without the mode, the job gets TCP with the reason.
        let fallback = env(&tree, variables, &[]);
        assert_eq!(fallback.exports("NCCL_IB_DISABLE"), Some("1"), "{}", fallback.out);
        assert_eq!(fallback.exports("NCCL_SOCKET_IFNAME"), Some("=eth0"));
        assert!(
            fallback.error.contains("falling back to TCP"),
            "{}",
            fallback.error
        );
        assert!(fallback.error.contains(words[0]), "{}", fallback.error);
    }
}

#[test]
fn a_port_that_is_down_or_has_no_gid_yet_is_named() {
    let port = "sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:02.0/0000:14:00.0/infiniband/mlx5_1/ports/1";
    let given = [("PCIDEVICE_A", "0000:14:00.0,0000:33:00.0")];
    let mut down = node("h100-connectx7");
    down.write(&format!("{port}/state"), "1: DOWN\n").unwrap();
    env(&down, &given, RDMA).fails(&["mlx5_1:1: its state is DOWN"]);
    let partly = env(&down, &given, &[]);
    partly.uses("mlx5_2:1");
    assert!(
        partly
            .error
            .contains("mlx5_1:1 is not used: its state is DOWN, expected ACTIVE"),
        "{}",
        partly.error
    );
    env(&down, &[("PCIDEVICE_A", "0000:14:00.0")], RDMA).fails(&["mlx5_1:1: its state is DOWN"]);
    let mut without = node("h100-connectx7");
    let none = "0000:0000:0000:0000:0000:0000:0000:0000\n";
    let own: Vec<_> = without
        .entries()
        .map(|(path, _)| path.to_owned())
        .filter(|path| path.starts_with(&format!("{port}/gids/")))
        .collect();
    assert!(!own.is_empty());
    for path in own {
        without.write(&path, none).unwrap();
    }
    env(&without, &[("PCIDEVICE_A", "0000:14:00.0")], RDMA).fails(&["mlx5_1:1: no RoCE v2 GID"]);
}

#[test]
fn sixty_four_addresses_are_answered_with_every_reason() {
    let all: Vec<_> = (0..64).map(|n| format!("0001:{n:02x}:00.0")).collect();
    let many = all.join(",");
    let tree = node("h100-connectx7");
    let refused = env(&tree, &[("PCIDEVICE_A", &many)], RDMA);
    refused.fails(&["0001:00:00.0 (PCIDEVICE_A)", "0001:3f:00.0 (PCIDEVICE_A)"]);
    let with_one = format!("{many},0000:14:00.0");
    env(&tree, &[("PCIDEVICE_A", &with_one)], &[]).uses("mlx5_1:1");
}

#[test]
fn what_the_user_has_set_stays_and_disagreement_is_said() {
    let tree = node("h100-connectx7");
    let given = ("PCIDEVICE_A", "0000:14:00.0");
    let said = env(
        &tree,
        &[
            given,
            ("NCCL_IB_GID_INDEX", ""),
            ("NCCL_IB_HCA", "$(id);'mlx5_1"),
            ("NCCL_NET_GDR_LEVEL", "NODE"),
        ],
        &[],
    );
    assert_eq!(said.exports("NCCL_IB_HCA"), None, "{}", said.out);
    for words in [
        "# NCCL_IB_GID_INDEX is set but empty",
        "# NCCL_IB_HCA is already set to '$(id);'mlx5_1' and is kept",
        "# NCCL_NET_GDR_LEVEL is 'NODE', which NCCL ignores",
    ] {
        assert!(said.out.contains(words), "{words} is not in:\n{}", said.out);
    }
    let tcp = env(&tree, &[given], &["--mode", "tcp"]);
    assert_eq!(tcp.exports("NCCL_IB_DISABLE"), Some("1"));
    assert_eq!(tcp.exports("NCCL_IB_HCA"), None);
}

/// RCCL has its own configuration files, and finds GPU memory in its own way.
#[test]
fn a_node_with_amd_gpus_is_that_of_rccl() {
    let mut tree = node("h100-connectx7");
    let nvidia: Vec<_> = tree
        .entries()
        .filter(|(path, entry)| {
            let is_nvidia = |content: &[u8]| content.starts_with(b"0x10de");
            path.ends_with("/vendor") && matches!(entry, Entry::File { content, .. } if is_nvidia(content))
        })
        .map(|(path, _)| path.to_owned())
        .collect();
    assert!(!nvidia.is_empty());
    for path in nvidia {
        tree.write(&path, "0x1002\n").unwrap();
    }
    tree.write("root/.rccl.conf", "NCCL_IB_HCA=mlx5_7\n").unwrap();
    tree.write("root/.nccl.conf", "NCCL_SOCKET_IFNAME=other\n")
        .unwrap();
    let variables = [("HOME", "/root"), ("PCIDEVICE_A", "0000:14:00.0")];
    let said = env(&tree, &variables, RDMA);
    assert_eq!(said.exports("NCCL_IB_HCA"), None, "{}", said.out);
    assert_eq!(said.exports("NCCL_SOCKET_IFNAME"), Some("=eth0"));
    for words in [
        "NCCL_IB_HCA is set in /root/.rccl.conf to 'mlx5_7' and is kept",
        "GPUDirect RDMA with RCCL: nothing is set.",
    ] {
        assert!(said.out.contains(words), "{words} is not in:\n{}", said.out);
    }
    assert!(!said.out.contains("nvidia_peermem"), "{}", said.out);
}
