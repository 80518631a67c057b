//! What is changed in the healthy node of [`super::field`].

use super::field::{BRANCHES, VF, config_space, limits, vf_hca};
use super::{Change, remove, set};
use crate::fault_bench::{Fault, How};
use crate::tree::Tree;

/// A fault in a tree.
pub(super) const fn tree(
    id: &'static str,
    what: &'static str,
    expected: &'static str,
    explains: &'static [&'static str],
) -> Fault {
    Fault::new(How::Tree, id, what, expected, explains)
}

/// A state of a tree that is not a fault.
pub(super) const fn harmless(id: &'static str, what: &'static str) -> Fault {
    Fault::harmless(How::Tree, id, what)
}

/// The kernel logged this about the function of the first adapter a quarter of an hour ago.
fn logged(tree: &mut Tree, message: &str) -> anyhow::Result<()> {
    tree.write(
        "dev/kmsg",
        format!("3,400,2591000000000,-;mlx5_core 0000:18:00.0: {message}\n"),
    )
}

/// The routing table of a node with two ports in 192.168.1.0/24.
const ONE_SUBNET: &str = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
    ens1f0np0\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
    ens2f0np0\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0";

/// Every change, one fault each.
pub(super) const CHANGES: &[Change] = &[
    Change {
        fault: tree(
            "t-translated",
            "the group of mlx5_0 is DMA-FQ, nothing asks for passthrough",
            "iommu-group-translated",
            &[],
        ),
        make: |tree| {
            set(
                tree,
                "proc/cmdline",
                "BOOT_IMAGE=/boot/vmlinuz root=/dev/sda2 ro intel_iommu=on",
            )?;
            set(
                tree,
                "dev/kmsg",
                "6,300,1200,-;iommu: Default domain type: Translated ",
            )?;
            translate(tree)
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-mismatch",
            "iommu=pt, and the group of mlx5_0 is DMA all the same",
            "iommu-cmdline-mismatch",
            &["iommu-group-translated"],
        ),
        make: |tree| set(tree, "sys/kernel/iommu_groups/15/type", "DMA"),
        config: "",
    },
    Change {
        fault: tree(
            "t-encryption",
            "AMD with SME: iommu=pt mem_encrypt=on, every group is DMA-FQ",
            "iommu-memory-encryption",
            &["iommu-group-translated", "iommu-cmdline-mismatch"],
        ),
        make: |tree| {
            set(
                tree,
                "proc/cmdline",
                "BOOT_IMAGE=/boot/vmlinuz root=/dev/sda2 ro iommu=pt mem_encrypt=on",
            )?;
            set(
                tree,
                "proc/cpuinfo",
                "processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: fpu vme sme sev",
            )?;
            set(
                tree,
                "dev/kmsg",
                "6,90,900,-;Memory Encryption Features active: AMD SME\n\
                6,300,1200,-;iommu: Default domain type: Translated (set via kernel command line)",
            )?;
            remove(tree, "sys/class/iommu/dmar0")?;
            tree.insert(
                "sys/class/iommu/ivhd0",
                crate::tree::Entry::Directory { mode: 0o755 },
            )?;
            translate(tree)
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-dmar-fault",
            "DMAR logged 20 refused writes of the function of mlx5_0",
            "iommu-faults",
            &[],
        ),
        make: |tree| {
            let lines = (400..420).map(|n| {
                format!("3,{n},{n}000,-;DMAR: [DMA Write NO_PASID] Request device [18:00.0] fault addr 0xfd0{n}000 [fault reason 0x05] PTE Write access is not set\n")
            });
            tree.write("dev/kmsg", lines.collect::<String>())
        },
        config: "",
    },
    Change {
        fault: tree("t-health", "the driver of mlx5_0 found its firmware dead", "adapter-failed", &[]),
        make: |tree| logged(tree, "poll_health:825:(pid 0): device's health compromised - reached miss count"),
        config: "",
    },
    Change {
        fault: tree("t-command-timeout", "the firmware of mlx5_0 did not answer a command", "adapter-timeout", &[]),
        make: |tree| logged(tree, "wait_func:1195:(pid 141181): CREATE_DCT(0x710) timeout. Will cause a leak of a command resource"),
        config: "",
    },
    Change {
        fault: tree("t-firmware-init", "the firmware of mlx5_0 did not start", "adapter-not-started", &[]),
        make: |tree| logged(tree, "mlx5_function_enable:1479:(pid 1): Firmware over 120000 MS in pre-initializing state, aborting"),
        config: "",
    },
    Change {
        fault: tree("t-pci-fatal", "mlx5_0 reported a fatal PCIe error", "pci-fault-logged", &[]),
        make: |tree| logged(tree, "PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Requester ID)"),
        config: "",
    },
    Change {
        fault: tree("t-gpu-lost", "a GPU has fallen off the bus", "gpu-failed", &[]),
        make: |tree| {
            tree.write(
                "dev/kmsg",
                "3,400,2591000000000,-;NVRM: Xid (PCI:0000:19:00): 79, GPU has fallen off the bus.\n",
            )
        },
        config: "",
    },
    Change {
        fault: tree("t-module-hot", "the transceiver of mlx5_0 is too hot", "port-module-fault", &[]),
        make: |tree| logged(tree, "Port module event[error]: module 0, Cable error, High Temperature"),
        config: "",
    },
    Change {
        fault: tree("t-unplugged", "the cable of mlx5_0 was unplugged", "port-cable-unplugged", &[]),
        make: |tree| logged(tree, "Port module event: module 0, Cable unplugged"),
        config: "",
    },
    Change {
        fault: tree("t-slot-power", "the slot of mlx5_0 offers 27 W", "pci-slot-power", &[]),
        make: |tree| logged(tree, "mlx5_pcie_event:299:(pid 268269): Detected insufficient power on the PCIe slot (27W)."),
        config: "",
    },
    Change {
        fault: harmless(
            "t-refused-registers",
            "1000 refused reads of registers of a restricted function, as monitoring causes them",
        ),
        make: |tree| {
            let lines = (400..1400).map(|n| {
                format!("3,{n},{n}000000,-;mlx5_core 0000:18:00.0: mlx5_cmd_out_err:838:(pid 1441871): ACCESS_REG(0x805) op_mod(0x1) failed, status bad operation(0x2), syndrome (0x305684), err(-22)\n")
            });
            tree.write("dev/kmsg", lines.collect::<String>())
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-acs",
            "the switch port above mlx5_0 redirects requests (ACS)",
            "acs-redirect",
            &[],
        ),
        make: |tree| {
            let branch = &BRANCHES[0];
            for bridge in [branch.above_nic, branch.above_gpu] {
                tree.write(
                    &format!("{}/config", branch.path(bridge)),
                    config_space(0, Some(0x1d)),
                )?;
            }
            Ok(())
        },
        config: "",
    },
    Change {
        fault: harmless(
            "t-acs-in-vm",
            "the same in a virtual machine, where it is needed: no fault",
        ),
        make: |tree| {
            let branch = &BRANCHES[0];
            set(
                tree,
                "proc/cpuinfo",
                "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu vme hypervisor",
            )?;
            for bridge in [branch.above_nic, branch.above_gpu] {
                tree.write(
                    &format!("{}/config", branch.path(bridge)),
                    config_space(0, Some(0x1d)),
                )?;
            }
            Ok(())
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-link-degraded",
            "mlx5_1 runs with 8 of 16 lanes",
            "pci-link-degraded",
            &[],
        ),
        make: |tree| {
            let branch = &BRANCHES[1];
            set(
                tree,
                &format!("{}/current_link_width", branch.path(branch.nic)),
                "8",
            )?;
            set(
                tree,
                &format!("{}/current_link_width", branch.path(branch.above_nic)),
                "8",
            )
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-gen4-slot",
            "mlx5_1, a port of 400 Gb/s, sits in a slot of 16 GT/s: the best both can do, but too slow for the port",
            "pci-below-port-rate",
            &[],
        ),
        make: |tree| {
            let branch = &BRANCHES[1];
            set(
                tree,
                &format!("{}/current_link_speed", branch.path(branch.nic)),
                "16.0 GT/s PCIe",
            )?;
            set(
                tree,
                &format!("{}/current_link_speed", branch.path(branch.above_nic)),
                "16.0 GT/s PCIe",
            )?;
            set(
                tree,
                &format!("{}/max_link_speed", branch.path(branch.above_nic)),
                "16.0 GT/s PCIe",
            )
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-aer",
            "the function of mlx5_1 reported fatal and many corrected PCIe errors",
            "pci-aer-errors",
            &[],
        ),
        make: |tree| {
            let path = BRANCHES[1].path(BRANCHES[1].nic);
            set(
                tree,
                &format!("{path}/aer_dev_correctable"),
                "RxErr 912345\nBadTLP 20\nTOTAL_ERR_COR 912365",
            )?;
            set(tree, &format!("{path}/aer_dev_fatal"), "DLP 3\nTOTAL_ERR_FATAL 3")
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-read-request",
            "mlx5_0 may read 128 bytes at once only",
            "pci-max-read-request",
            &[],
        ),
        make: |tree| {
            tree.write(
                &format!("{}/config", BRANCHES[0].path(BRANCHES[0].nic)),
                config_space(0, None),
            )
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-far-gpu",
            "the NICs of NUMA node 1 are gone, so its GPUs have none near",
            "gpu-without-local-nic",
            &[],
        )
        .known_miss(None, "without `expect.profile` nothing says that the GPUs are to use RDMA, so the finding is for information"),
        make: |tree| {
            [&BRANCHES[1], &BRANCHES[3]].into_iter().try_for_each(|branch| {
                remove(tree, &format!("sys/class/infiniband/{}", branch.device))?;
                remove(tree, &format!("sys/class/net/{}", branch.netdev))?;
                remove(tree, &format!("sys/bus/pci/devices/{}", branch.nic))?;
                remove(tree, &branch.path(branch.nic))
            })
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-no-peermem",
            "nvidia_peermem is not loaded and the GPU driver is proprietary",
            "peer-memory-missing",
            &[],
        ),
        make: |tree| without_module(tree, "nvidia_peermem"),
        config: "",
    },
    Change {
        fault: tree(
            "t-peermem-order",
            "nvidia_peermem cannot be loaded: the GPU driver was built before DOCA came",
            "peer-memory-install-order",
            &["peer-memory-missing"],
        ),
        make: |tree| {
            without_module(tree, "nvidia_peermem")?;
            tree.write("dev/kmsg", "4,500,5000,-;nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client\n\
                4,501,5001,-;nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -22)\n")
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-nv-peer-mem",
            "the legacy module nv_peer_mem is loaded in place of nvidia_peermem",
            "nv-peer-mem-legacy",
            &[],
        )
        .known_miss(None, "it works where it is the only path, so the finding is for information"),
        make: |tree| {
            without_module(tree, "nvidia_peermem")?;
            add_module(tree, "nv_peer_mem 16384 0 - Live 0x0000000000000000 (OE)")
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-two-peer-modules",
            "the legacy module nv_peer_mem is loaded next to nvidia_peermem",
            "nv-peer-mem-legacy",
            &[],
        ),
        make: |tree| add_module(tree, "nv_peer_mem 16384 0 - Live 0x0000000000000000 (OE)"),
        config: "",
    },
    Change {
        fault: tree(
            "t-no-mlx5-ib",
            "the adapters are there, mlx5_ib is not loaded, so no RDMA device is",
            "rdma-modules-missing",
            &["port-down", "gpu-without-local-nic", "peer-memory-missing"],
        ),
        make: |tree| {
            without_module(tree, "mlx5_ib")?;
            remove(tree, "sys/class/infiniband")?;
            tree.insert(
                "sys/class/infiniband",
                crate::tree::Entry::Directory { mode: 0o755 },
            )?;
            for branch in &BRANCHES {
                remove(tree, &format!("{}/infiniband", branch.path(branch.nic)))?;
            }
            remove(tree, &format!("{}/infiniband", BRANCHES[0].path(VF)))
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-no-uverbs",
            "ib_uverbs is not loaded: the devices are there and no program can open them",
            "rdma-modules-missing",
            &[],
        ),
        make: |tree| {
            without_module(tree, "rdma_ucm")?;
            without_module(tree, "ib_uverbs")
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-firmware",
            "mlx5_1 has an older firmware than its equal mlx5_0",
            "firmware-mixed",
            &[],
        )
        .known_miss(None, "adapters with different firmware mostly work, so without `expect.profile` the finding is for information"),
        make: |tree| set(tree, &format!("{}/fw_ver", BRANCHES[1].hca()), "28.36.1010"),
        config: "",
    },
    Change {
        fault: tree(
            "t-port-down",
            "mlx5_1 lost its link: DOWN, Polling",
            "port-down",
            &["gid-missing", "rate-low"],
        ),
        make: |tree| port_down(tree),
        config: "",
    },
    Change {
        fault: tree(
            "t-flapping",
            "mlx5_1 lost its carrier 40 times since boot, three hours ago",
            "port-flapping",
            &["counter-errors"],
        ),
        make: |tree| {
            let net = BRANCHES[1].net();
            set(tree, "proc/uptime", "10800.00 40000.00")?;
            set(tree, &format!("{net}/carrier_up_count"), "41")?;
            set(tree, &format!("{net}/carrier_down_count"), "40")?;
            set(tree, &format!("{net}/carrier_changes"), "81")?;
            let lines = (0..12).map(|n| {
                let word = if n % 2 == 0 { "down" } else { "up" };
                format!(
                    "6,{},{},-;mlx5_core 0000:9a:00.0 ens2f0np0: Link {word}\n",
                    600 + n,
                    6_000_000 + n
                )
            });
            tree.write("dev/kmsg", lines.collect::<String>())
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-rate-low",
            "mlx5_1 came up with 100 Gb/s, its peers with 400",
            "rate-low",
            &[],
        ),
        make: |tree| {
            set(
                tree,
                &format!("{}/rate", BRANCHES[1].port()),
                "100 Gb/sec (4X EDR)",
            )?;
            set(tree, &format!("{}/speed", BRANCHES[1].net()), "100000")
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-width",
            "an InfiniBand port runs with one lane of four",
            "width-degraded",
            &[],
        ),
        make: |tree| {
            infiniband(tree)?;
            set(
                tree,
                &format!("{}/rate", BRANCHES[1].port()),
                "100 Gb/sec (1X NDR)",
            )
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-no-sm",
            "an InfiniBand port is INIT with its link up",
            "no-subnet-manager",
            &["port-down"],
        ),
        make: |tree| {
            infiniband(tree)?;
            let port = BRANCHES[1].port();
            set(tree, &format!("{port}/state"), "2: INIT")?;
            set(tree, &format!("{port}/lid"), "0x0")?;
            set(tree, &format!("{port}/sm_lid"), "0x0")
        },
        config: "",
    },
    Change {
        fault: harmless("t-infiniband", "all ports are InfiniBand and up: no fault"),
        make: infiniband,
        config: "",
    },
    Change {
        fault: tree(
            "t-mtu",
            "mlx5_1's interface has an MTU of 1500, its peers' 9000",
            "mtu-low",
            &[],
        ),
        make: |tree| set(tree, &format!("{}/mtu", BRANCHES[1].net()), "1500"),
        config: "",
    },
    Change {
        fault: tree(
            "t-no-gid",
            "mlx5_1 has no IPv4 GID",
            "gid-missing",
            &["gid-index-differs"],
        ),
        make: |tree| {
            for index in [2, 3] {
                gid(tree, index, "0000:0000:0000:0000:0000:0000:0000:0000")?;
                remove(tree, &format!("{}/gid_attrs/types/{index}", BRANCHES[1].port()))?;
                remove(tree, &format!("{}/gid_attrs/ndevs/{index}", BRANCHES[1].port()))?;
            }
            Ok(())
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-gid-index",
            "mlx5_1's RoCE v2 GID of IPv4 stands at 5, that of mlx5_0 at 3",
            "gid-index-differs",
            &[],
        ),
        make: |tree| {
            let port = BRANCHES[1].port();
            for index in [2, 3] {
                gid(tree, index, "fd00:0000:0000:0000:0000:0000:0000:0002")?;
                tree.write(
                    &format!("{port}/gids/{}", index + 2),
                    "0000:0000:0000:0000:0000:ffff:c0a8:0211\n",
                )?;
                let kind = if index == 2 { "IB/RoCE v1\n" } else { "RoCE v2\n" };
                tree.write(&format!("{port}/gid_attrs/types/{}", index + 2), kind)?;
                tree.write(&format!("{port}/gid_attrs/ndevs/{}", index + 2), "ens2f0np0\n")?;
            }
            Ok(())
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-duplicate-guid",
            "mlx5_1 has the node GUID of mlx5_0",
            "guid-invalid",
            &[],
        ),
        make: |tree| {
            set(
                tree,
                &format!("{}/node_guid", BRANCHES[1].hca()),
                "a088:c203:0012:3401",
            )
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-vf-guid",
            "the virtual function has a node GUID of zero",
            "vf-guid-zero",
            &["guid-invalid"],
        ),
        make: |tree| set(tree, &format!("{}/node_guid", vf_hca()), "0000:0000:0000:0000"),
        config: "",
    },
    Change {
        fault: tree(
            "t-vf-driver",
            "the virtual function has no driver",
            "vf-without-driver",
            &["vfs-missing"],
        ),
        make: |tree| {
            let path = BRANCHES[0].path(VF);
            for name in ["driver", "infiniband", "net"] {
                remove(tree, &format!("{path}/{name}"))?;
            }
            remove(tree, "sys/class/infiniband/mlx5_4")?;
            remove(tree, "sys/class/net/ens1f0v0")
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-vfs-missing",
            "two virtual functions are configured, one is there",
            "vfs-missing",
            &[],
        ),
        make: |tree| {
            set(
                tree,
                &format!("{}/sriov_numvfs", BRANCHES[0].path(BRANCHES[0].nic)),
                "2",
            )
        },
        config: "",
    },
    Change {
        fault: tree("t-memlock", "containerd may lock 8 MiB", "memlock-low", &[]),
        make: |tree| tree.write("proc/2101/limits", limits("8388608")),
        config: "",
    },
    Change {
        fault: tree(
            "t-same-subnet",
            "two ports are in 192.168.1.0/24, ARP is as Linux sets it",
            "same-subnet-arp",
            &[],
        ),
        make: |tree| set(tree, "proc/net/route", ONE_SUBNET),
        config: "",
    },
    Change {
        fault: tree(
            "t-same-subnet-strict",
            "two ports are in 192.168.1.0/24, ARP is set for it, and the reverse path filter is strict",
            "same-subnet-arp",
            &[],
        ),
        make: |tree| {
            for (name, value) in [("arp_ignore", "1"), ("arp_announce", "2"), ("rp_filter", "1")] {
                set(tree, &format!("proc/sys/net/ipv4/conf/all/{name}"), value)?;
            }
            set(tree, "proc/net/route", ONE_SUBNET)
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-lost-packets",
            "mlx5_1 counted 900000 missing acknowledgements, its three equals none",
            "counter-errors",
            &[],
        ),
        make: |tree| {
            let port = BRANCHES[1].port();
            set(tree, &format!("{port}/hw_counters/local_ack_timeout_err"), "918221")
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-flow-control",
            "no priority of mlx5_1 has flow control or congestion notification",
            "roce-flow-control",
            &[],
        )
        .known_miss(None, "lossy RoCE needs neither, and no file says what the switches are set up for, so the finding is for information"),
        make: |tree| {
            let net = BRANCHES[1].net();
            set(tree, &format!("{net}/qos/pfc"), "0 0 0 0 0 0 0 0")?;
            set(tree, &format!("{net}/ecn/roce_np/enable/3"), "0")?;
            set(tree, &format!("{net}/ecn/roce_rp/enable/3"), "0")
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-state-unread",
            "reading the state of mlx5_1's port fails",
            "facts-unreadable",
            &[],
        ),
        make: |tree| {
            let path = format!("{}/state", BRANCHES[1].port());
            tree.insert(
                &path,
                crate::tree::Entry::Unreadable {
                    mode: 0o444,
                    errno: "EIO".into(),
                },
            )
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-adapter-missing",
            "the adapter of mlx5_3 is gone from the bus, and the configuration expects four",
            "hcas-missing",
            &["gpu-without-local-nic"],
        ),
        make: lose_adapter,
        config: "expect:\n  hcas: 4\n",
    },
    Change {
        fault: tree(
            "t-driver",
            "the configuration expects another driver than the adapters have",
            "driver-unexpected",
            &[],
        ),
        make: |_| Ok(()),
        config: "expect:\n  driver: mlx5_vdpa\n",
    },
    Change {
        fault: tree(
            "t-vf-mac",
            "the network device of the virtual function has no hardware address",
            "vf-mac-zero",
            &["vf-trust"],
        ),
        make: |tree| {
            let own = format!("{}/net/ens1f0v0/address", BRANCHES[0].path(VF));
            set(tree, &own, "00:00:00:00:00:00")
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-vf-link",
            "the physical function holds the virtual one's link down",
            "vf-trust",
            &[],
        ),
        make: |tree| {
            let branch = &BRANCHES[0];
            set(
                tree,
                &format!("{}/sriov/0/link_state", branch.path(branch.nic)),
                "Disable",
            )
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-absent-port",
            "the configuration expects mlx5_9, which is not there",
            "port-down",
            &[],
        ),
        make: |_| Ok(()),
        config: "expect:\n  ports_up: [mlx5_0, mlx5_9]\n",
    },
];

/// Faults that are reported as information by default, and the `expect.profile` with which they must be named.
pub(super) const WITH_PROFILE: &[(&str, &str)] = &[
    ("t-far-gpu", "gpudirect"),
    ("t-no-mlx5-ib", "rdma"),
    ("t-firmware", "rdma"),
];

/// Which changes are made together.
pub(super) const PAIRS: &[(&str, &str)] = &[
    ("t-translated", "t-no-peermem"),
    ("t-translated", "t-memlock"),
    ("t-acs", "t-port-down"),
    ("t-peermem-order", "t-acs"),
    ("t-link-degraded", "t-firmware"),
    ("t-no-gid", "t-vf-guid"),
    ("t-memlock", "t-mtu"),
    ("t-no-sm", "t-memlock"),
];

/// Every IOMMU group translates.
fn translate(tree: &mut Tree) -> anyhow::Result<()> {
    let is_type = |path: &&str| path.starts_with("sys/kernel/iommu_groups/") && path.ends_with("/type");
    let paths: Vec<_> = tree
        .entries()
        .map(|(path, _)| path)
        .filter(is_type)
        .map(str::to_owned)
        .collect();
    paths.iter().try_for_each(|path| set(tree, path, "DMA-FQ"))
}

fn without_module(tree: &mut Tree, name: &str) -> anyhow::Result<()> {
    let kept: Vec<_> = modules(tree)?
        .into_iter()
        .filter(|line| !line.starts_with(&format!("{name} ")))
        .collect();
    set(tree, "proc/modules", &kept.join("\n"))
}

fn add_module(tree: &mut Tree, line: &str) -> anyhow::Result<()> {
    let mut lines = modules(tree)?;
    lines.push(line.to_owned());
    set(tree, "proc/modules", &lines.join("\n"))
}

fn modules(tree: &Tree) -> anyhow::Result<Vec<String>> {
    match tree.get("proc/modules") {
        Some(crate::tree::Entry::File { content, .. }) => Ok(String::from_utf8_lossy(content)
            .lines()
            .map(str::to_owned)
            .collect()),
        _ => anyhow::bail!("the tree has no /proc/modules"),
    }
}

pub(super) fn port_down(tree: &mut Tree) -> anyhow::Result<()> {
    let branch = &BRANCHES[1];
    set(tree, &format!("{}/state", branch.port()), "1: DOWN")?;
    set(tree, &format!("{}/phys_state", branch.port()), "2: Polling")?;
    set(tree, &format!("{}/operstate", branch.net()), "down")
}

/// Makes the ports of all physical functions InfiniBand: a GID from the GUID, no RoCE.
pub(super) fn infiniband(tree: &mut Tree) -> anyhow::Result<()> {
    for (branch, lid) in BRANCHES.iter().zip(["0x11", "0x12", "0x13", "0x14"]) {
        let interface_id = format!("a088:c203:0012:34{}", &lid[2..]);
        let port = branch.port();
        set(tree, &format!("{port}/link_layer"), "InfiniBand")?;
        set(tree, &format!("{port}/lid"), lid)?;
        set(tree, &format!("{port}/sm_lid"), "0x1")?;
        set(
            tree,
            &format!("{port}/gids/0"),
            &format!("fe80:0000:0000:0000:{interface_id}"),
        )?;
        for index in 1..4 {
            for file in ["gids", "gid_attrs/types", "gid_attrs/ndevs"] {
                remove(tree, &format!("{port}/{file}/{index}"))?;
            }
        }
        let net = branch.net();
        remove(tree, &format!("{net}/qos"))?;
        remove(tree, &format!("{net}/ecn"))?;
        set(tree, &format!("{net}/type"), "32")?;
        set(tree, &format!("{net}/mtu"), "2044")?;
    }
    Ok(())
}

fn gid(tree: &mut Tree, index: u32, gid: &str) -> anyhow::Result<()> {
    set(tree, &format!("{}/gids/{index}", BRANCHES[1].port()), gid)
}

/// Takes the adapter of `mlx5_3` from the bus.
pub(super) fn lose_adapter(tree: &mut Tree) -> anyhow::Result<()> {
    let branch = &BRANCHES[3];
    remove(tree, &format!("sys/class/infiniband/{}", branch.device))?;
    remove(tree, &format!("sys/class/net/{}", branch.netdev))?;
    remove(tree, &format!("sys/bus/pci/devices/{}", branch.nic))?;
    remove(tree, &branch.path(branch.nic))
}
