//! IOMMU modes: each is the kernel's own, chosen at boot or written to a group's `type`.

use super::super::live::{Before, Injection, Scene};
use super::super::{Fault, How};
use super::{LINK_DOWN, MEMLOCK_RUNTIME, MTU_LOWERED, NO_IPV4_GID, real};
use crate::virtual_node::{Iommu, Options};

/// The rules that say that a device is translated.
const TRANSLATED: &[&str] = &["iommu-group-translated"];

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
    injections: &[LINK_DOWN, MEMLOCK_RUNTIME, NO_IPV4_GID, MTU_LOWERED, LOC_PROT_LOG],
    pairs: &[],
    last: &[],
};

static LAZY_BOOT: Fault = real(
    "iommu-lazy",
    "booted with an Intel IOMMU that translates (DMA-FQ)",
    TRANSLATED,
    &[],
);

/// A true completion error, in the words of a job's log.
const LOC_PROT_LOG: Injection = Injection {
    fault: real(
        "loc-prot-err",
        "a job's log tells of the IBV_WC_LOC_PROT_ERR that a write from outside its memory region got",
        TRANSLATED,
        &[],
    ),
    inject: "",
    restore: "",
    ask: r#"
set -- $(inject rxe0 loc-prot)
test "$2" = IBV_WC_LOC_PROT_ERR || exit 99
cat >/run/job.log <<END
gpu-1:2101:2150 [0] NCCL INFO NET/IB : Using [0]rxe0:1/RoCE [1]rxe1:1/RoCE [RO]; OOB eth0:10.0.100.2<0>
gpu-1:2101:2150 [0] transport/net_ib.cc:2116 NCCL WARN NET/IB: Got completion from peer 10.0.100.2<40712> with status=$2($1) opcode=IBV_WC_RDMA_WRITE(1) reqSize=4097 vendor_err=$3 req_type=Send localGid ::ffff:10.0.100.2 remoteGids ::ffff:10.0.100.2 hca rxe0
gpu-1:2101:2150 [0] NCCL INFO transport/net.cc:1298 -> 6
END
check --log /run/job.log"#,
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
    TRANSLATED,
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
    TRANSLATED,
    &[],
);

const PAGE_FAULT: Injection = Injection {
    fault: Fault {
        id: "amd-page-fault",
        what: "the line that AMD's driver logs for a refused transfer of eth1, written to /dev/kmsg",
        how: How::Written,
        causes: &["iommu-faults"],
        explains: &[],
    },
    inject: r#"device=$(address eth1)
echo "<4>virtio-pci $device: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0011 address=0xfffff000 flags=0x0020]" >/dev/kmsg"#,
    restore: "",
    ask: "",
};

/// Passthrough and an argument that overrides it on machines with memory encryption.
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
    fault: Fault {
        id: "memory-encryption",
        what: "booted with iommu=pt mem_encrypt=on; the line with which Linux says that SME is active and the type \
            that it forces on the group of eth1 are written",
        how: How::Written,
        causes: &["iommu-memory-encryption"],
        explains: &["iommu-group-translated", "iommu-cmdline-mismatch"],
    },
    inject: "retype 1 DMA-FQ && echo '<6>AMD Memory Encryption Features active: SME' >/dev/kmsg",
    restore: "retype 1 identity",
    ask: "",
};

/// Passthrough in effect, translation on the command line.
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
    &["iommu-cmdline-mismatch"],
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
    &["iommu-regressed"],
    &["iommu-group-translated"],
);

/// The other way round, where nothing explains it.
pub(super) const MISMATCH: Injection = Injection {
    fault: real(
        "iommu-mismatch",
        "booted with iommu=pt, then the type of eth1's group written as DMA",
        &["iommu-cmdline-mismatch", "iommu-group-translated"],
        &[],
    ),
    inject: "retype 1 DMA",
    restore: "retype 1 identity",
    ask: "",
};

/// The device of `eth1` is told, past its driver, to read its queues from where nothing is mapped: registers of the
/// common configuration of virtio 1.0, section 4.1.4.3.
const DMAR_FAULT: Injection = Injection {
    fault: real(
        "dmar-fault",
        "the NIC below rxe1 reads memory that the IOMMU does not let it read, and DMAR logs the fault",
        &["iommu-faults"],
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
