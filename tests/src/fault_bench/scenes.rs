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
    causes: &'static [&'static str],
    explains: &'static [&'static str],
) -> Fault {
    Fault {
        id,
        what,
        how: How::Real,
        causes,
        explains,
    }
}

/// Interface `eth1` loses its link.
const LINK_DOWN: Injection = Injection {
    fault: real(
        "link-down",
        "`ip link set eth1 down`",
        &["port-down"],
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
        &["memlock-low"],
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
        &["gid-missing"],
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
        &["mtu-low"],
        &[],
    ),
    inject: "ip link set eth1 mtu 1500",
    restore: "unplug 1 && plug 1",
    ask: "",
};

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}
