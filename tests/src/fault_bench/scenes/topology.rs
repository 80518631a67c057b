//! Where GPU and NIC sit, and what the bridges between them do. The GPU is an emulated device of PCI's class for
//! processing accelerators: no machine here emulates one by NVIDIA.

use super::super::live::{Injection, Scene};
use super::super::{Fault, How};
use super::{LINK_DOWN, harmless, words};
use crate::virtual_node::Options;

/// A NIC and an accelerator, each behind a root port that can redirect; a switch; virtual functions that are not RDMA's.
/// The CPU does not say that it is emulated, because redirection under a hypervisor is not a fault.
pub(super) static BRIDGES: Scene = Scene {
    name: "bridges",
    options: || Options {
        kernel_args: "iommu=pt".into(),
        nics: 1,
        modules_added: vec!["nvme".into()],
        qemu_args: words(
            "-cpu max,-hypervisor \
             -device pcie-root-port,id=rp1,chassis=1,bus=pcie.0 -device pcie-root-port,id=rp2,chassis=2,bus=pcie.0 \
             -device pcie-root-port,id=rp3,chassis=3,bus=pcie.0 -device pcie-root-port,id=rp4,chassis=4,bus=pcie.0 \
             -device x3130-upstream,id=up,bus=rp4 -device xio3130-downstream,id=down,bus=up,chassis=5 \
             -netdev user,id=x1,restrict=on,net=10.0.101.0/24,host=10.0.101.1 \
             -device virtio-net-pci,netdev=x1,romfile=,bus=rp1 \
             -drive if=none,id=none,driver=null-co,size=1M \
             -device virtio-blk-pci,drive=none,class=0x1200,disable-legacy=on,bus=rp2 \
             -netdev user,id=x2,restrict=on,net=10.0.102.0/24,host=10.0.102.1 \
             -device virtio-net-pci,netdev=x2,romfile=,bus=down \
             -device nvme-subsys,id=subsystem -device nvme,serial=1,bus=rp3,subsys=subsystem,sriov_max_vfs=4,\
sriov_vq_flexible=8,sriov_vi_flexible=4,max_ioqpairs=10,msix_qsize=12",
        ),
        ..Options::default()
    },
    before: None,
    setup: "redirect '\\x00\\x00'",
    boot: None,
    injections: &[ACS, LINK_DOWN, FOREIGN_VF],
    pairs: &[("acs-root-ports", "link-down")],
    last: &[],
};

/// What Linux does to every port that can, where an IOMMU is on. Traffic between two root ports crosses the root complex
/// in any case, so it is not a fault; QEMU has no switch whose ports redirect, which would be one.
const ACS: Injection = Injection {
    fault: harmless(
        "acs-root-ports",
        "the root ports above NIC and accelerator redirect peer-to-peer traffic; no fault, for it crosses the root \
            complex in any case",
    ),
    inject: r"redirect '\x1d\x00'",
    restore: r"redirect '\x00\x00'",
    ask: "",
};

/// Virtual functions without a driver that are not RDMA's: no fault.
const FOREIGN_VF: Injection = Injection {
    fault: harmless(
        "foreign-vf",
        "two SR-IOV functions of a disk without a driver, and root ports that could be faster than what is in them",
    ),
    inject: r#"nvme=$(echo /sys/bus/pci/drivers/nvme/0000:*)
echo 0 >"$nvme/sriov_drivers_autoprobe" && echo 2 >"$nvme/sriov_numvfs" && test -e "$nvme/virtfn1""#,
    restore: r#"echo 0 >"$(echo /sys/bus/pci/drivers/nvme/0000:*)/sriov_numvfs""#,
    ask: "",
};

/// The NIC on one NUMA node, the accelerator on the other.
pub(super) static FAR_GPU: Scene = Scene {
    name: "far-gpu",
    options: || Options {
        kernel_args: "iommu=pt".into(),
        nics: 0,
        qemu_args: words(
            "-cpu max,-hypervisor \
             -object memory-backend-ram,id=m0,size=1024M -object memory-backend-ram,id=m1,size=1024M \
             -numa node,nodeid=0,cpus=0,memdev=m0 -numa node,nodeid=1,cpus=1,memdev=m1 \
             -device pxb-pcie,id=near,bus_nr=64,numa_node=0,bus=pcie.0 \
             -device pxb-pcie,id=far,bus_nr=128,numa_node=1,bus=pcie.0 \
             -device pcie-root-port,id=slot0,bus=near,chassis=1 -device pcie-root-port,id=slot1,bus=far,chassis=2 \
             -netdev user,id=x0,restrict=on,net=10.0.100.0/24,host=10.0.100.1 \
             -device virtio-net-pci,netdev=x0,romfile=,bus=slot0 \
             -drive if=none,id=none,driver=null-co,size=1M \
             -device virtio-blk-pci,drive=none,class=0x1200,disable-legacy=on,bus=slot1",
        ),
        ..Options::default()
    },
    before: None,
    setup: r"redirect '\x00\x00'",
    boot: None,
    injections: &[FAR_GPU_INJECTION],
    pairs: &[],
    last: &[],
};

/// Distances are judged of adapters in hardware only, so the NIC below rxe0 is shown as one.
const FAR_GPU_INJECTION: Injection = Injection {
    fault: Fault::new(
        How::Written,
        "far-gpu",
        "the only NIC is on NUMA node 0 and the accelerator on NUMA node 1; the NIC is shown as an RDMA device in \
            hardware",
        "gpu-without-local-nic",
        &[],
    ),
    inject: r"
printf 'expect:\n  profile: gpudirect\n' | cat $config - >/run/gpudirect.yaml
as_hardware 0",
    restore: "umount -l /mirror/sys /mirror/proc /mirror/dev",
    ask: "config=/run/gpudirect.yaml; check --root /mirror",
};
