//! A healthy node modelled on the field: four H100 GPUs and four ConnectX-7 ports of 400 Gb/s, one of each behind each of
//! four PCIe switches; `mlx5_0` has a virtual function; Linux 5.14 on bare metal with `iommu=pt`, DOCA,
//! `nvidia_peermem`, and containerd without a limit.

use std::fmt::Write as _;

use anyhow::Result;

use crate::tree::{Entry, Tree};

/// The PCI functions of one switch, from the root port down.
pub(super) struct Branch {
    pub(super) root: &'static str,
    pub(super) upstream: &'static str,
    pub(super) above_nic: &'static str,
    pub(super) above_gpu: &'static str,
    pub(super) nic: &'static str,
    pub(super) gpu: &'static str,
    domain: &'static str,
    numa: &'static str,
    pub(super) device: &'static str,
    pub(super) netdev: &'static str,
    /// The last byte of its addresses.
    number: u8,
}

pub(super) const BRANCHES: [Branch; 4] = [
    Branch {
        root: "0000:15:01.0",
        upstream: "0000:16:00.0",
        above_nic: "0000:17:00.0",
        above_gpu: "0000:17:01.0",
        nic: "0000:18:00.0",
        gpu: "0000:19:00.0",
        domain: "pci0000:15",
        numa: "0",
        device: "mlx5_0",
        netdev: "ens1f0np0",
        number: 1,
    },
    Branch {
        root: "0000:97:01.0",
        upstream: "0000:98:00.0",
        above_nic: "0000:99:00.0",
        above_gpu: "0000:99:01.0",
        nic: "0000:9a:00.0",
        gpu: "0000:9b:00.0",
        domain: "pci0000:97",
        numa: "1",
        device: "mlx5_1",
        netdev: "ens2f0np0",
        number: 2,
    },
    Branch {
        root: "0000:37:01.0",
        upstream: "0000:38:00.0",
        above_nic: "0000:39:00.0",
        above_gpu: "0000:39:01.0",
        nic: "0000:3a:00.0",
        gpu: "0000:3b:00.0",
        domain: "pci0000:37",
        numa: "0",
        device: "mlx5_2",
        netdev: "ens3f0np0",
        number: 3,
    },
    Branch {
        root: "0000:b7:01.0",
        upstream: "0000:b8:00.0",
        above_nic: "0000:b9:00.0",
        above_gpu: "0000:b9:01.0",
        nic: "0000:ba:00.0",
        gpu: "0000:bb:00.0",
        domain: "pci0000:b7",
        numa: "1",
        device: "mlx5_3",
        netdev: "ens4f0np0",
        number: 4,
    },
];

/// The virtual function of the first NIC.
pub(super) const VF: &str = "0000:18:00.1";
/// Its RDMA device.
pub(super) const VF_DEVICE: &str = "mlx5_4";

impl Branch {
    /// Where the files of one of its functions lie.
    pub(super) fn path(&self, address: &str) -> String {
        let mut path = format!("sys/devices/{}", self.domain);
        let mut above = vec![self.root, self.upstream];
        match address {
            address if address == self.nic || address == VF => above.push(self.above_nic),
            address if address == self.gpu => above.push(self.above_gpu),
            address if address == self.root => above.clear(),
            address if address == self.upstream => above.truncate(1),
            _ => {}
        }
        for bridge in above {
            path.push('/');
            path.push_str(bridge);
        }
        format!("{path}/{address}")
    }

    /// Where the files of its RDMA device lie.
    pub(super) fn hca(&self) -> String {
        format!("{}/infiniband/{}", self.path(self.nic), self.device)
    }

    /// Where the files of its port lie.
    pub(super) fn port(&self) -> String {
        format!("{}/ports/1", self.hca())
    }

    /// Where the files of its network device lie.
    pub(super) fn net(&self) -> String {
        format!("{}/net/{}", self.path(self.nic), self.netdev)
    }
}

/// Where the files of the virtual function's RDMA device lie.
pub(super) fn vf_hca() -> String {
    format!("{}/infiniband/{VF_DEVICE}", BRANCHES[0].path(VF))
}

/// The configuration space of a PCIe function: its capability with the code for the largest read request, advanced
/// error reporting, and where it has it, access control with its control word.
pub(super) fn config_space(read_request: u16, access_control: Option<u16>) -> Vec<u8> {
    let mut space = vec![0; 4096];
    let mut put = |at: usize, bytes: &[u8]| space[at..at + bytes.len()].copy_from_slice(bytes);
    put(0x06, &[0x10]);
    put(0x34, &[0x60]);
    put(0x60, &[0x10, 0x00]);
    put(0x68, &(0x0930 | (read_request << 12)).to_le_bytes());
    let next: u32 = if access_control.is_some() { 0x148 } else { 0 };
    put(0x100, &(0x0002_0001 | (next << 20)).to_le_bytes());
    if let Some(control) = access_control {
        put(0x148, &0x0001_000d_u32.to_le_bytes());
        put(0x14c, &0x001f_u16.to_le_bytes());
        put(0x14e, &control.to_le_bytes());
    }
    space
}

/// The limits of a process that may lock this much.
pub(super) fn limits(memlock: &str) -> String {
    let mut text =
        String::from("Limit                     Soft Limit           Hard Limit           Units     \n");
    let unlimited = "unlimited";
    for (name, value, unit) in [
        ("Max cpu time", unlimited, "seconds"),
        ("Max file size", unlimited, "bytes"),
        ("Max data size", unlimited, "bytes"),
        ("Max stack size", "8388608", "bytes"),
        ("Max core file size", unlimited, "bytes"),
        ("Max resident set", unlimited, "bytes"),
        ("Max processes", unlimited, "processes"),
        ("Max open files", "1048576", "files"),
        ("Max locked memory", memlock, "bytes"),
        ("Max address space", unlimited, "bytes"),
        ("Max file locks", unlimited, "locks"),
        ("Max pending signals", "2061270", "signals"),
        ("Max msgqueue size", "819200", "bytes"),
        ("Max nice priority", "0", ""),
        ("Max realtime priority", "0", ""),
        ("Max realtime timeout", unlimited, "us"),
    ] {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<25} {value:<20} {value:<20} {unit:<10}");
    }
    text
}

/// Adds a symbolic link.
pub(super) fn link(tree: &mut Tree, path: &str, target: &str) -> Result<()> {
    tree.insert(
        path,
        Entry::Link {
            target: target.into(),
        },
    )
}

/// The healthy node.
pub(super) fn node() -> Result<Tree> {
    let mut tree = Tree::default();
    host(&mut tree)?;
    for (branch, group) in BRANCHES.iter().zip([10, 20, 30, 40]) {
        bridges(&mut tree, branch, group)?;
        gpu(&mut tree, branch, group + 4)?;
        nic(
            &mut tree,
            branch,
            branch.nic,
            branch.device,
            branch.netdev,
            group + 5,
        )?;
    }
    virtual_function(&mut tree)?;
    Ok(tree)
}

fn host(tree: &mut Tree) -> Result<()> {
    let mut files = vec![
        ("dev/kmsg", "6,300,1200,-;iommu: Default domain type: Passthrough (set via kernel command line)\n".to_owned()),
        ("proc/cmdline", "BOOT_IMAGE=/boot/vmlinuz root=/dev/sda2 ro intel_iommu=on iommu=pt\n".to_owned()),
        ("proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu vme de pse tsc msr\n".to_owned()),
        (
            "proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n".to_owned(),
        ),
        (
            "proc/modules",
            [
                "nvidia_peermem 16384 0 - Live 0x0000000000000000 (OE)",
                "nvidia 60710912 24 nvidia_peermem, Live 0x0000000000000000 (OE)",
                "rdma_ucm 36864 0 - Live 0x0000000000000000 (OE)",
                "rdma_cm 139264 1 rdma_ucm, Live 0x0000000000000000 (OE)",
                "mlx5_ib 507904 0 - Live 0x0000000000000000 (OE)",
                "mlx5_core 2359296 1 mlx5_ib, Live 0x0000000000000000 (OE)",
                "ib_umad 40960 0 - Live 0x0000000000000000 (OE)",
                "ib_uverbs 200704 2 rdma_ucm,mlx5_ib, Live 0x0000000000000000 (OE)",
                "ib_core 548864 6 nvidia_peermem,rdma_ucm,rdma_cm,mlx5_ib,ib_umad,ib_uverbs, Live 0x0000000000000000 (OE)",
                "",
            ]
            .join("\n"),
        ),
        ("proc/sys/kernel/hostname", "gpu-17\n".to_owned()),
        ("proc/sys/kernel/osrelease", "5.14.0-427.13.1.el9_4.x86_64\n".to_owned()),
        ("proc/sys/kernel/random/boot_id", "3f2a6c1e-5f0b-4a57-9f53-6f8d6f1a2b3c\n".to_owned()),
        ("proc/uptime", "2592000.00 9000000.00\n".to_owned()),
        ("proc/2101/comm", "containerd\n".to_owned()),
        ("proc/2101/status", "Uid:\t0\t0\t0\t0\n".to_owned()),
        ("proc/2101/cgroup", "0::/system.slice/containerd.service\n".to_owned()),
        ("proc/2101/limits", limits("unlimited")),
        ("proc/net/route", ROUTES.to_owned()),
    ];
    for netdev in [
        "all",
        "ens1f0np0",
        "ens2f0np0",
        "ens3f0np0",
        "ens4f0np0",
        "ens1f0v0",
    ] {
        for name in ["arp_ignore", "arp_announce", "rp_filter"] {
            tree.write(&format!("proc/sys/net/ipv4/conf/{netdev}/{name}"), "0\n")?;
        }
    }
    for (path, content) in files.drain(..) {
        tree.write(path, content)?;
    }
    tree.insert("sys/class/iommu/dmar0", Entry::Directory { mode: 0o755 })
}

const ROUTES: &str = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
ens1f0np0\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
ens2f0np0\t0002A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
ens3f0np0\t0003A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
ens4f0np0\t0004A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
";

/// What every PCI function has.
fn function(
    tree: &mut Tree,
    branch: &Branch,
    address: &str,
    files: &[(&str, &str)],
    group: u32,
) -> Result<()> {
    let path = branch.path(address);
    for (name, value) in files {
        tree.write(&format!("{path}/{name}"), format!("{value}\n"))?;
    }
    tree.write(&format!("{path}/numa_node"), format!("{}\n", branch.numa))?;
    let up = "../".repeat(path.split('/').count() - 1);
    link(
        tree,
        &format!("{path}/iommu_group"),
        &format!("{up}kernel/iommu_groups/{group}"),
    )?;
    let from_sys = path.trim_start_matches("sys/");
    link(
        tree,
        &format!("sys/bus/pci/devices/{address}"),
        &format!("../../../{from_sys}"),
    )?;
    tree.write(&format!("sys/kernel/iommu_groups/{group}/type"), "identity\n")?;
    link(
        tree,
        &format!("sys/kernel/iommu_groups/{group}/devices/{address}"),
        &format!("../../../../{from_sys}"),
    )
}

/// The driver that holds a function.
fn driver(tree: &mut Tree, branch: &Branch, address: &str, name: &str) -> Result<()> {
    let path = branch.path(address);
    let up = "../".repeat(path.split('/').count() - 1);
    link(
        tree,
        &format!("{path}/driver"),
        &format!("{up}bus/pci/drivers/{name}"),
    )
}

const GEN5_X16: [(&str, &str); 4] = [
    ("current_link_speed", "32.0 GT/s PCIe"),
    ("max_link_speed", "32.0 GT/s PCIe"),
    ("current_link_width", "16"),
    ("max_link_width", "16"),
];

fn bridges(tree: &mut Tree, branch: &Branch, group: u32) -> Result<()> {
    let ports = [branch.root, branch.upstream, branch.above_nic, branch.above_gpu];
    for (address, group) in ports.into_iter().zip(group..) {
        let mut files = vec![("class", "0x060400"), ("vendor", "0x1000"), ("device", "0xc030")];
        files.extend(GEN5_X16);
        function(tree, branch, address, &files, group)?;
        driver(tree, branch, address, "pcieport")?;
        tree.write(
            &format!("{}/config", branch.path(address)),
            config_space(0, Some(0)),
        )?;
    }
    Ok(())
}

fn gpu(tree: &mut Tree, branch: &Branch, group: u32) -> Result<()> {
    let mut files = vec![("class", "0x030200"), ("vendor", "0x10de"), ("device", "0x2330")];
    files.extend(GEN5_X16);
    function(tree, branch, branch.gpu, &files, group)?;
    driver(tree, branch, branch.gpu, "nvidia")?;
    tree.write(
        &format!("{}/config", branch.path(branch.gpu)),
        config_space(5, None),
    )
}

fn nic(
    tree: &mut Tree,
    branch: &Branch,
    address: &str,
    device: &str,
    netdev: &str,
    group: u32,
) -> Result<()> {
    let is_virtual = address == VF;
    let mut files = vec![
        ("class", "0x020000"),
        ("vendor", "0x15b3"),
        ("device", if is_virtual { "0x101e" } else { "0x1021" }),
    ];
    files.extend(GEN5_X16);
    if !is_virtual {
        let none = "TOTAL_ERR 0";
        files.extend([
            ("aer_dev_correctable", none),
            ("aer_dev_nonfatal", none),
            ("aer_dev_fatal", none),
        ]);
    }
    function(tree, branch, address, &files, group)?;
    driver(tree, branch, address, "mlx5_core")?;
    let path = branch.path(address);
    tree.write(&format!("{path}/config"), config_space(5, None))?;
    let number = branch.number + if is_virtual { 8 } else { 0 };
    hca(tree, &path, device, netdev, number)?;
    net(tree, &path, netdev, number)
}

fn hca(tree: &mut Tree, function: &str, device: &str, netdev: &str, number: u8) -> Result<()> {
    let path = format!("{function}/infiniband/{device}");
    let address = function.rsplit('/').next().unwrap_or_default();
    link(tree, &format!("{path}/device"), &format!("../../../{address}"))?;
    link(
        tree,
        &format!("sys/class/infiniband/{device}"),
        &format!("../../{}", path.trim_start_matches("sys/")),
    )?;
    let guid = format!("a088:c203:0012:34{number:02x}");
    let files = [
        ("board_id", "MT_0000000838"),
        ("fw_ver", "28.41.1000"),
        ("hca_type", "MT4129"),
        ("node_guid", &guid),
        ("sys_image_guid", &guid),
        ("node_type", "1: CA"),
        ("ports/1/lid", "0x0"),
        ("ports/1/sm_lid", "0x0"),
        ("ports/1/link_layer", "Ethernet"),
        ("ports/1/phys_state", "5: LinkUp"),
        ("ports/1/rate", "400 Gb/sec (4X NDR)"),
        ("ports/1/state", "4: ACTIVE"),
        ("ports/1/cap_mask", "0x04010000"),
        ("ports/1/gid_attrs/ndevs/0", netdev),
        ("ports/1/gid_attrs/ndevs/1", netdev),
        ("ports/1/gid_attrs/ndevs/2", netdev),
        ("ports/1/gid_attrs/ndevs/3", netdev),
        ("ports/1/gid_attrs/types/0", "IB/RoCE v1"),
        ("ports/1/gid_attrs/types/1", "RoCE v2"),
        ("ports/1/gid_attrs/types/2", "IB/RoCE v1"),
        ("ports/1/gid_attrs/types/3", "RoCE v2"),
        ("ports/1/counters/link_downed", "0"),
        ("ports/1/counters/symbol_error", "0"),
        ("ports/1/counters/link_error_recovery", "0"),
        ("ports/1/counters/port_rcv_errors", "0"),
        ("ports/1/counters/port_rcv_data", "918273645"),
        ("ports/1/counters/port_xmit_data", "918273645"),
        ("ports/1/hw_counters/lifespan", "10"),
        ("ports/1/hw_counters/out_of_sequence", "0"),
        ("ports/1/hw_counters/local_ack_timeout_err", "0"),
        ("ports/1/hw_counters/roce_slow_restart", "0"),
        ("ports/1/hw_counters/rx_write_requests", "7"),
    ];
    for (name, value) in files {
        tree.write(&format!("{path}/{name}"), format!("{value}\n"))?;
    }
    let local = format!("fe80:0000:0000:0000:a288:c2ff:fe12:34{number:02x}");
    let mapped = format!("0000:0000:0000:0000:0000:ffff:c0a8:{number:02x}11");
    for (index, gid) in [&local, &local, &mapped, &mapped].into_iter().enumerate() {
        tree.write(&format!("{path}/ports/1/gids/{index}"), format!("{gid}\n"))?;
    }
    Ok(())
}

fn net(tree: &mut Tree, function: &str, netdev: &str, number: u8) -> Result<()> {
    let path = format!("{function}/net/{netdev}");
    let address = function.rsplit('/').next().unwrap_or_default();
    link(tree, &format!("{path}/device"), &format!("../../../{address}"))?;
    link(
        tree,
        &format!("sys/class/net/{netdev}"),
        &format!("../../{}", path.trim_start_matches("sys/")),
    )?;
    let ifindex = (4 + number).to_string();
    let mac = format!("a0:88:c2:12:34:{number:02x}");
    let files = [
        ("address", mac.as_str()),
        ("carrier_changes", "1"),
        ("carrier_up_count", "1"),
        ("carrier_down_count", "0"),
        ("dev_port", "0"),
        ("dev_id", "0x0"),
        ("flags", "0x1003"),
        ("ifindex", &ifindex),
        ("mtu", "9000"),
        ("operstate", "up"),
        ("speed", "400000"),
        ("type", "1"),
        ("qos/pfc", "0 0 0 1 0 0 0 0"),
        ("ecn/roce_np/enable/3", "1"),
        ("ecn/roce_rp/enable/3", "1"),
    ];
    for (name, value) in files {
        tree.write(&format!("{path}/{name}"), format!("{value}\n"))?;
    }
    Ok(())
}

fn virtual_function(tree: &mut Tree) -> Result<()> {
    let branch = &BRANCHES[0];
    nic(tree, branch, VF, VF_DEVICE, "ens1f0v0", 16)?;
    let (physical, own) = (branch.path(branch.nic), branch.path(VF));
    link(tree, &format!("{own}/physfn"), &format!("../{}", branch.nic))?;
    link(tree, &format!("{physical}/virtfn0"), &format!("../{VF}"))?;
    let files = [
        ("sriov_totalvfs", "8"),
        ("sriov_numvfs", "1"),
        ("sriov_drivers_autoprobe", "1"),
        ("sriov/0/mac", "a0:88:c2:12:34:09"),
        ("sriov/0/link_state", "Auto"),
        ("sriov/0/trust", "OFF"),
        ("sriov/0/spoofcheck", "OFF"),
    ];
    for (name, value) in files {
        tree.write(&format!("{physical}/{name}"), format!("{value}\n"))?;
    }
    Ok(())
}
