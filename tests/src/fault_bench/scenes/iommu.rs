//! IOMMU modes: each is the kernel's own, chosen at boot or written to a group's `type`.

use super::super::live::{Before, Injection, Scene};
use super::super::{Fault, How};
use super::{LINK_DOWN, LOC_PROT_LOG, MEMLOCK_RUNTIME, MTU_LOWERED, NO_IPV4_GID, real};
use crate::virtual_node::{Iommu, Options};

/// Lazy translation, asked for on the command line.
pub(super) static LAZY: Scene = Scene {
    name: "lazy",
    options: || Options {
        kernel_args: "iommu=nopt".into(),
        nics: 3,
        ..Options::default()
    },
    before: None,
    setup: "",
    boot: Some(&LAZY_BOOT),
    injections: &[
        LINK_DOWN,
        MEMLOCK_RUNTIME,
        NO_IPV4_GID,
        MTU_LOWERED,
        LOC_PROT_TRANSLATED,
    ],
    pairs: &[],
    last: &[],
};

static LAZY_BOOT: Fault = real(
    "iommu-lazy",
    "booted with an Intel IOMMU that translates (DMA-FQ)",
    "iommu-group-translated",
    &[],
);

/// The same as on a node in passthrough mode.
const LOC_PROT_TRANSLATED: Injection = Injection {
    fault: LOC_PROT_LOG.fault.known_miss(
        Some("iommu-translation"),
        "rxe0 is software, whose memory no IOMMU guards, but the diagnosis blames translation whenever the device in the log is \
            translated",
    ),
    ..LOC_PROT_LOG
};

/// Strict translation.
pub(super) static STRICT: Scene = Scene {
    name: "strict",
    options: || Options {
        kernel_args: "iommu=nopt iommu.strict=1".into(),
        nics: 1,
        ..Options::default()
    },
    before: None,
    setup: "",
    boot: Some(&STRICT_BOOT),
    injections: &[],
    pairs: &[],
    last: &[],
};

static STRICT_BOOT: Fault = real(
    "iommu-strict",
    "booted with an Intel IOMMU that translates strictly (DMA)",
    "iommu-group-translated",
    &[],
);

/// Translation by AMD's IOMMU.
pub(super) static AMD: Scene = Scene {
    name: "amd",
    options: || Options {
        iommu: Iommu::Amd,
        nics: 2,
        ..Options::default()
    },
    before: None,
    setup: "",
    boot: Some(&AMD_BOOT),
    injections: &[LINK_DOWN, NO_IPV4_GID],
    pairs: &[],
    last: &[PAGE_FAULT],
};

static AMD_BOOT: Fault = real(
    "iommu-amd",
    "booted with an AMD IOMMU that translates (DMA)",
    "iommu-group-translated",
    &[],
);

const PAGE_FAULT: Injection = Injection {
    fault: Fault::new(
        How::Written,
        "amd-page-fault",
        "the line that AMD's driver logs for a refused transfer of eth1, in a copy of the log over /dev/kmsg",
        "iommu-faults",
        &[],
    ),
    // What a program writes to /dev/kmsg is marked as such, and not believed.
    inject: r#"device=$(address eth1)
dd if=/dev/kmsg of=/run/kmsg bs=8192 iflag=nonblock 2>/dev/null || true
echo "4,9000000,9000000,-;virtio-pci $device: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0011 address=0xfffff000 flags=0x0020]" >>/run/kmsg
mount --bind /run/kmsg /dev/kmsg"#,
    restore: "",
    ask: "",
};

/// Passthrough and an argument that overrides it on machines with memory encryption. The CPU does not say that it is emulated, because
/// encryption in a guest is not a fault. On a machine that is not emulated, how a software device's NIC does DMA is not judged.
pub(super) static ENCRYPTED: Scene = Scene {
    name: "encrypt",
    options: || Options {
        kernel_args: "iommu=pt mem_encrypt=on".into(),
        nics: 1,
        qemu_args: super::words(
            "-cpu max,-hypervisor -netdev user,id=x0,restrict=on,net=10.0.101.0/24,host=10.0.101.1 \
             -device virtio-net-pci,netdev=x0,romfile=,bus=pcie.0,iommu_platform=on,disable-legacy=on",
        ),
        ..Options::default()
    },
    before: None,
    setup: "",
    boot: None,
    injections: &[ENCRYPTION],
    pairs: &[],
    last: &[DMAR_FAULT],
};

const ENCRYPTION: Injection = Injection {
    fault: Fault::new(
        How::Written,
        "memory-encryption",
        "booted with iommu=pt mem_encrypt=on; the line with which Linux says that SME is active and the type \
            that it forces on the group of eth1 are written; the NIC is shown as an RDMA device in hardware",
        "iommu-memory-encryption",
        &["iommu-group-translated", "iommu-cmdline-mismatch"],
    ),
    inject: "retype 1 DMA-FQ
dd if=/dev/kmsg of=/run/kmsg bs=8192 iflag=nonblock 2>/dev/null || true
echo '6,9000000,9000000,-;AMD Memory Encryption Features active: SME' >>/run/kmsg
mount --bind /run/kmsg /dev/kmsg && as_hardware 1",
    restore: "umount -l /mirror/sys /mirror/proc /mirror/dev && umount /dev/kmsg && retype 1 identity",
    ask: "check --root /mirror",
};

/// Passthrough is active, translation is on the command line.
pub(super) static REGRESS: Scene = Scene {
    name: "regress",
    options: || Options {
        kernel_args: "iommu=nopt".into(),
        nics: 1,
        ..Options::default()
    },
    before: None,
    setup: "retype 0 identity",
    boot: Some(&REGRESS_BOOT),
    injections: &[],
    pairs: &[],
    last: &[],
};

static REGRESS_BOOT: Fault = real(
    "iommu-will-regress",
    "booted with iommu=nopt, then the type of eth0's group written as identity: works until the next boot",
    "iommu-cmdline-mismatch",
    &[],
);

/// Passthrough at one boot, translation at the next.
pub(super) static REGRESSED: Scene = Scene {
    name: "rebooted",
    options: || Options {
        kernel_args: "iommu=nopt".into(),
        nics: 1,
        ..Options::default()
    },
    before: Some(Before {
        options: || Options {
            kernel_args: "iommu=pt".into(),
            nics: 1,
            ..Options::default()
        },
    }),
    setup: "",
    boot: Some(&REGRESSED_BOOT),
    injections: &[],
    pairs: &[],
    last: &[],
};

static REGRESSED_BOOT: Fault = real(
    "iommu-regressed",
    "booted with iommu=pt, where an agent ran, then again with iommu=nopt; what the agent remembered is carried over",
    "iommu-regressed",
    &["iommu-group-translated"],
);

/// The other way round, where nothing explains it.
pub(super) const MISMATCH: Injection = Injection {
    fault: real(
        "iommu-mismatch",
        "booted with iommu=pt, then the type of eth1's group written as DMA",
        "iommu-cmdline-mismatch",
        &["iommu-group-translated"],
    ),
    inject: "retype 1 DMA",
    restore: "retype 1 identity",
    ask: "",
};

/// The device of `eth1` is shown, past its driver, to read its queues from where nothing is mapped: registers of the
/// common configuration of virtio 1.0, section 4.1.4.3.
const DMAR_FAULT: Injection = Injection {
    fault: real(
        "dmar-fault",
        "the NIC below rxe1 reads memory that the IOMMU does not let it read, and DMAR logs the fault",
        "iommu-faults",
        &[],
    ),
    inject: r"
device=$(address eth1) at=/sys/bus/pci/devices/$(address eth1)
unplug 1 && echo $device >/sys/bus/pci/drivers/virtio-pci/unbind && echo DMA >$at/iommu_group/type || exit
echo 1 >$at/enable && configure $device 4 '\x06\x04'
base=$(sed -n 5p $at/resource | cut -d' ' -f1)
set_to() { busybox devmem $((base + $1)) $2 $3; }
set_to 0x14 8 0; set_to 0x14 8 1; set_to 0x14 8 3                    # reset, acknowledge, driver
set_to 8 32 1; set_to 12 32 3; set_to 8 32 0; set_to 12 32 0; set_to 0x14 8 11 # VERSION_1, ACCESS_PLATFORM
set_to 0x16 16 1; set_to 0x20 32 0x12340000; set_to 0x24 32 0
set_to 0x28 32 0x12350000; set_to 0x2c 32 0; set_to 0x30 32 0x12360000; set_to 0x34 32 0
set_to 0x1c 16 1; set_to 0x14 8 15; set_to 0x3004 16 1
for _ in {1..50}; do dmesg | grep -q 'DMAR: .DMA.*fault addr' && break; sleep 0.1; done
set_to 0x14 8 0; echo 0 >$at/enable
echo identity >$at/iommu_group/type; echo $device >/sys/bus/pci/drivers/virtio-pci/bind
for _ in {1..50}; do test -e /sys/class/net/eth1 && break; sleep 0.1; done
plug 1 && dmesg | grep -q 'DMAR: .DMA.*fault addr'",
    restore: "",
    ask: "",
};
