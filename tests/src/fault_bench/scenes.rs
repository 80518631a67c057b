//! The machines of the bench and what is broken on each.
//!
//! Faults that can be mended share a machine; an IOMMU mode, a PCI topology and what the kernel cannot forget (its log,
//! its count of lost carriers) take one of their own or come last.

use super::live::{Injection, Scene};
use super::{Fault, How};
use crate::virtual_node::{Iommu, Options};

mod host;
mod iommu;
mod topology;

/// Every scene.
pub static SCENES: &[&Scene] = &[
    &host::HOST,
    &iommu::LAZY,
    &iommu::STRICT,
    &iommu::AMD,
    &iommu::REGRESS,
    &iommu::REGRESSED,
    &iommu::ENCRYPTED,
    &topology::BRIDGES,
    &topology::FAR_GPU,
    &NO_IOMMU,
];

/// A node without an IOMMU is healthy.
static NO_IOMMU: Scene = Scene {
    name: "no-iommu",
    options: || Options {
        iommu: Iommu::None,
        nics: 1,
        ..Options::default()
    },
    before: None,
    setup: "",
    boot: None,
    injections: &[],
    pairs: &[],
    last: &[],
};

/// The findings that follow where a probe fails or cannot be made.
const PROBE: &[&str] = &["probe-failed"];

/// A fault that a script makes in a running kernel.
const fn real(
    id: &'static str,
    what: &'static str,
    expected: &'static str,
    explains: &'static [&'static str],
) -> Fault {
    Fault::new(How::Real, id, what, expected, explains)
}

/// A state of a running kernel that is not a fault.
const fn harmless(id: &'static str, what: &'static str) -> Fault {
    Fault::harmless(How::Real, id, what)
}

/// Interface `eth1` loses its link.
const LINK_DOWN: Injection = Injection {
    fault: real(
        "link-down",
        "`ip link set eth1 down`",
        "port-down",
        &["gid-missing"],
    ),
    inject: "ip link set eth1 down",
    restore: "ip link set eth1 up && ready 1",
    ask: "",
};

/// The process that pods inherit their limits from gets systemd's default.
const MEMLOCK_RUNTIME: Injection = Injection {
    fault: real(
        "memlock-runtime",
        "the process containerd gets the memory-lock limit that systemd gives by default, 8 MiB",
        "memlock-low",
        &[],
    ),
    inject: "prlimit --pid $(pgrep -x containerd) --memlock=8388608:8388608",
    restore: "prlimit --pid $(pgrep -x containerd) --memlock=unlimited:unlimited",
    ask: "",
};

/// Interface `eth2` keeps its link-local address only.
const NO_IPV4_GID: Injection = Injection {
    fault: real(
        "no-ipv4-gid",
        "the IPv4 address of eth1 is deleted, and its GID with it",
        "gid-missing",
        &["gid-index-differs"],
    ),
    inject: "ip addr del 10.0.101.2/24 dev eth1",
    restore: "unplug 1 && plug 1",
    ask: "",
};

/// Interface `eth1` falls back to the MTU of Ethernet.
const MTU_LOWERED: Injection = Injection {
    fault: real(
        "mtu-lowered",
        "the MTU of eth1 is 1500 and no more 4200, so the port's is 1024 bytes and no more 4096",
        "mtu-low",
        &[],
    ),
    inject: "ip link set eth1 mtu 1500",
    restore: "unplug 1 && plug 1",
    ask: "",
};

/// A true completion error, in the words of a job's log.
const LOC_PROT_LOG: Injection = Injection {
    fault: real(
        "loc-prot-err",
        "a job's log shows the IBV_WC_LOC_PROT_ERR that a write from outside its memory region got",
        "application-memory",
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
check --probe --log /run/job.log"#,
};

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}
