//! What the operators of a cluster report that install the driver, offer devices to pods and configure virtual functions, by the form of
//! their messages.
//!
//! The forms are those of driver containers (the network operator's and the GPU operator's, with the package managers that they call),
//! dynamic resource allocation (kubelet, scheduler), and the daemons of the SR-IOV operator and its older device plugins.

use super::{cluster::is_of_rdma, install::names_package};
use crate::symptom::{
    Symptom,
    SymptomKind::{self as K},
};

/// Words of the lines that [`find`] reads, in lower case.
pub(super) const ANCHORS: &[&str] = &[
    "kernel header",
    "linux-headers",
    "kernel-devel",
    "kernel-headers",
    "kernel source",
    "no ofed driver found",
    "failed to build",
    "failed to install",
    "dtk compilation",
    "precompiled tag",
    "failed with exit code",
    "executing driver sources",
    "enabling rhocp",
    "dtk driver build",
    "downloading metadata",
    "failed to download metadata",
    "failed to fetch",
    "failure resolving",
    "unable to find a match",
    "state-ofed",
    "mofed",
    "doca-driver",
    "dra driver",
    "resourceclaim",
    "allocate all claims",
    "resource claim",
    "sriov",
    "config vfs",
    "createvfs",
    "vfguid",
    "rdma modules",
    "vf link",
    "numvfs",
    "crashloopbackoff",
    "eswitch mode to",
    "guid pool for",
    "guid allocation",
    "guid for vf",
    "guid of vf",
    "link type change",
    "in dpu mode",
    "vfs found for device",
    "dkms module",
    "drivers inventory",
    "nicclusterpolicy",
];

/// Reads one form of message from a line in lower case: what it shows, and where.
type Reader = fn(&str) -> Option<(K, usize)>;

/// What a line in lower case shows, and where.
pub(super) fn find(lower: &str) -> Option<(K, usize)> {
    let readers: [Reader; 6] = [build, not_ready, claim, functions, modules, policy];
    readers.iter().find_map(|read| read(lower))
}

/// Words of failure of these programs.
const FAILS: [&str; 8] = [
    "fail",
    "error",
    "unable",
    "cannot",
    "not found",
    "could not",
    "couldn't",
    "no such",
];

/// Whether a line fails, in the words of these programs. An option or a name that only has such a word in it does not.
fn fails(lower: &str) -> bool {
    FAILS.iter().any(|word| lower.contains(word))
}

/// The packages with which a module is built, of the kernel that runs: `Unable to locate package linux-headers-6.8.0-1029-azure`, `No package
/// kernel-devel-5.14.0 available`, `Your kernel headers for kernel 6.8 cannot be found`.
fn headers(lower: &str) -> Option<usize> {
    const PACKAGES: [&str; 6] = [
        "linux-headers-",
        "kernel-devel-",
        "kernel-headers-",
        "kernel-default-devel",
        "kernel headers",
        "kernel source",
    ];
    const MISSING: [&str; 11] = [
        "unable to locate",
        "unable to find",
        "no match for argument",
        "no package",
        "cannot be found",
        "could not be found",
        "could not resolve",
        "couldn't find any package",
        "not found",
        "failed with exit code",
        "nothing provides",
    ];
    let at = PACKAGES.iter().find_map(|package| lower.find(package))?;
    MISSING.iter().any(|words| lower.contains(words)).then_some(at)
}

/// The build of a driver package and the start of a driver container: `Failed to build mlnx-nvme DEB`, `Failed to install
/// mlnx-ofed-kernel DEB`, `Timeout (600 sec.) awating DTK compilation`, `Failed to build driver: exit status 1`.
fn build(lower: &str) -> Option<(K, usize)> {
    const WHOLE: [&str; 10] = [
        "failed to discover dkms module",
        "drivers inventory folder unreachable",
        "dtk compilation",
        "failed to build driver",
        "failed to install driver",
        "failed to install prerequisites",
        "failed to install kernel packages",
        "failed to install kernel-devel",
        "failed to determine rhel version for ocp dtk",
        "precompiled tag was not found",
    ];
    let of_other = lower.contains("nvidia driver") || lower.contains("falco");
    if let Some(at) = WHOLE
        .iter()
        .find_map(|words| lower.find(words))
        .filter(|_| !of_other)
    {
        return Some((K::DriverNotBuilt, at));
    }
    if let Some(at) = ["failed to build ", "failed to install "]
        .iter()
        .find_map(|words| lower.find(words))
    {
        let rest = &lower[at..];
        let is_package = ["deb", "rpm", "package", "dkms", "module"].iter().any(|word| {
            rest.split(|c: char| !c.is_ascii_alphanumeric())
                .any(|one| one == *word)
        });
        return (names_package(rest) && is_package).then_some((K::DriverNotBuilt, at));
    }
    // `Command "/src/install.pl --without-dkms …" failed with exit code: 1`.
    let at = lower.find("failed with exit code")?;
    let command = &lower[..at];
    if ["install.pl", "mlnxofedinstall"]
        .iter()
        .any(|program| command.contains(program))
    {
        return Some((K::DriverNotBuilt, at));
    }
    // What it printed before says why.
    let is_start = ["openibd", "mlnxofedctl"]
        .iter()
        .any(|program| command.contains(program));
    is_start.then_some((K::DriverNotReady, at))
}

/// A driver container that is not ready, in what the operator logs: `State not ready: state-OFED`. In lists and events it is a
/// [component](super::components).
fn not_ready(lower: &str) -> Option<(K, usize)> {
    let at = ["state-ofed", "mofed-", "doca-driver"]
        .iter()
        .find_map(|name| lower.find(name))?;
    // Before the container runs for the first time it is not ready, either.
    ["notready", "not ready"]
        .iter()
        .any(|state| lower.contains(state))
        .then_some((K::DriverNotReady, at))
}

/// Dynamic resource allocation: the driver that prepares a claim is not there, or no node has the devices.
fn claim(lower: &str) -> Option<(K, usize)> {
    // Drivers of network devices, and names of those of GPUs.
    const DRIVERS: [&str; 3] = ["dra.net", "dranet", "dra-driver-sriov"];
    const OTHERS: [&str; 4] = ["gpu", "compute-domain", "tpu", "qat"];
    let is_ours = || is_of_rdma(lower) || DRIVERS.iter().any(|name| lower.contains(name));
    let is_others = || OTHERS.iter().any(|name| lower.contains(name));
    if let Some(at) = lower.find("dra driver ") {
        let name = lower[at + "dra driver ".len()..].split_whitespace().next()?;
        let is_missing = lower[at..].contains("is not registered") || lower[at..].contains("not found");
        // Drivers of other makers name the network, too: `nic.example.com`, `rail-net.example.com`.
        let is_network = name
            .split(|c: char| !c.is_ascii_alphanumeric())
            .any(|part| matches!(part, "nic" | "nics" | "net" | "network" | "rail" | "rails"));
        let is_one = is_of_rdma(name) || DRIVERS.contains(&name) || is_network;
        return (is_missing && is_one).then_some((K::ResourceUnavailable, at));
    }
    let at = [
        "cannot allocate all claims",
        "could not allocate all claims",
        "resourceclaim not available on the node",
        "resourceclaim cannot be allocated",
        "waiting for resource claim",
    ]
    .iter()
    .find_map(|words| lower.find(words))?;
    (is_ours() || !is_others()).then_some((K::ResourceUnavailable, at))
}

/// Virtual functions that a daemon could not create or configure: `SetSriovNumVfs(): fail to set NumVfs file`, `Fail to configure sriov;
/// error = Link not found`, `cannot config SRIOV device: NumVfs (16) is larger than TotalVfs (8)`.
fn functions(lower: &str) -> Option<(K, usize)> {
    const STEPS: [&str; 22] = [
        // Of the plugin for adapters of NVIDIA.
        "set eswitch mode to",
        "guid pool for pci",
        "guid allocation found for vf",
        "guid for vf",
        "guid of vf",
        "support link type change",
        "is in dpu mode",
        "number of vfs found for device",
        "configsriov",
        "createvfs()",
        "configurevfguid()",
        "setsriovnumvfs",
        "setvfguid",
        "setvfadminmac",
        "vfisready",
        "rebindvf",
        "configure sriov",
        "config sriov",
        "config vfs",
        "configure vfs",
        "set numvfs",
        "vf link is not ready",
    ];
    // Files that the daemon keeps for itself.
    const OTHERS: [&str; 7] = [
        "udev rule",
        "config to host",
        "config from host",
        "applied config",
        "pf status",
        "config file",
        "parse ",
    ];
    let at = STEPS.iter().find_map(|step| lower.find(step))?;
    // A daemon begins its messages with the name of its function, which says nothing of what failed in it.
    let of_function = lower[at..]
        .split_once("(): ")
        .map_or(&lower[at..], |(_, message)| message);
    if OTHERS.iter().any(|word| of_function.contains(word)) {
        return None;
    }
    let is_refused = [
        "is larger than",
        "is not ready",
        "not in the range",
        "unsupported",
        "not support",
        "unexpected number",
        "no guid",
    ]
    .iter()
    .any(|words| lower.contains(words));
    (fails(lower) || is_refused).then_some((K::FunctionUnconfigured, at))
}

/// Whether a report of a function that could not be configured, or of a module that could not be unloaded, says why. Daemons report the step that failed first, and the reason below.
pub(super) fn has_reason(symptom: &Symptom) -> bool {
    const REASONS: [&str; 7] = [
        "link not found",
        "link with name",
        "no such device",
        "not supported",
        "is not valid",
        "is larger than",
        "msi-x interrupts",
    ];
    let lower = symptom.text.to_ascii_lowercase();
    match symptom.kind {
        K::FunctionUnconfigured => REASONS.iter().any(|reason| lower.contains(reason)),
        K::ModuleInUse => lower.contains(" in use by"),
        _ => true,
    }
}

/// The API server refuses a policy of the Network Operator, which then changes nothing: `admission webhook "…" denied the request:
/// NicClusterPolicy.mellanox.com "nic-cluster-policy" is invalid: spec.rdmaSharedDevicePlugin.config: …`.
fn policy(lower: &str) -> Option<(K, usize)> {
    let at = lower.find("nicclusterpolicy")?;
    let is_refused = ["is invalid", "denied the request"]
        .iter()
        .any(|words| lower.contains(words));
    is_refused.then_some((K::ResourceUnavailable, at))
}

/// `RDMA modules are not loaded, you may need to install rdma-core package`.
fn modules(lower: &str) -> Option<(K, usize)> {
    let at = lower.find("rdma modules are not loaded")?;
    Some((K::ModuleMissing, at))
}

/// The name of a state in the status of a policy, in the line before what it is: `- name: state-OFED`, `state: notReady`.
#[derive(Debug, Default)]
pub(super) struct Policy {
    /// The line that names the state of the driver.
    named: Option<u64>,
    /// Whether the log is of a driver container that builds its driver.
    builds: bool,
}

impl Policy {
    /// Where a package that a driver container needs could not be loaded. Any other program has other packages.
    pub(super) fn package(&mut self, lower: &str) -> Option<usize> {
        const BEGINS: [&str; 4] = [
            "no ofed driver found for kernel",
            "executing driver sources container",
            "enabling rhocp and eus rpm repos",
            "dtk driver build script start",
        ];
        const FAILS: [&str; 5] = [
            "failed to download metadata",
            "errors during downloading metadata",
            "failed to fetch http",
            "temporary failure resolving",
            "unable to find a match",
        ];
        self.builds = self.builds
            || BEGINS.iter().any(|words| lower.contains(words))
            || lower.contains("nicclusterpolicy")
            || names_package(lower);
        let at = FAILS
            .iter()
            .find_map(|words| lower.find(words))
            .or_else(|| headers(lower));
        at.filter(|_| self.builds)
    }

    /// Whether this line, with the one before it, shows that the driver is not ready.
    pub(super) fn add(&mut self, text: &str, number: u64) -> bool {
        let text = text.trim_start_matches([' ', '-']).trim_end();
        if text == "name: state-OFED" {
            self.named = Some(number);
            return false;
        }
        let follows = self.named.is_some_and(|named| named + 1 == number);
        follows && matches!(text, "state: notReady" | "state: error")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_operators_are_read_and_those_of_other_drivers_are_not() {
        for (line, expected) in [
            ("failed to build mlnx-ofed-kernel deb", Some(K::DriverNotBuilt)),
            ("failed to install mlnx-nvme rpm", Some(K::DriverNotBuilt)),
            ("failed to build the docker image of the trainer", None),
            ("failed to build flash-attn", None),
            (
                "timeout (600 sec.) awating dtk compilation, /mnt/done not found",
                Some(K::DriverNotBuilt),
            ),
            ("mofed-ubuntu22.04-7c5b-ds-x8k2r   1/1   running   0", None),
            (
                "error sriov/sriov.go:1 can't set eswitch mode to [switchdev] on device [0000:0c:00.0]: operation not supported",
                Some(K::FunctionUnconfigured),
            ),
            ("set eswitch mode to switchdev", None),
            (
                "error: no guid allocation found for vf id: 3 on pf 0000:0c:00.0",
                Some(K::FunctionUnconfigured),
            ),
            (
                "nicclusterpolicy.mellanox.com \"nic-cluster-policy\" is invalid: spec.sriovdeviceplugin.config",
                Some(K::ResourceUnavailable),
            ),
            ("nicclusterpolicy nic-cluster-policy is ready", None),
            (
                "prepare dynamic resources: dra driver dra.net is not registered",
                Some(K::ResourceUnavailable),
            ),
            (
                "dra driver nic.example.com is not registered",
                Some(K::ResourceUnavailable),
            ),
            ("dra driver gpu.nvidia.com is not registered", None),
            (
                "0/4 nodes are available: 4 cannot allocate all claims.",
                Some(K::ResourceUnavailable),
            ),
            (
                "pod/gpu-0 0/4 nodes are available: 4 cannot allocate all claims.",
                None,
            ),
            (
                "fail to configure sriov; error =  link not found",
                Some(K::FunctionUnconfigured),
            ),
            (
                "error sriov/sriov.go:657 configsriovvfdevices(): vf link is not ready",
                Some(K::FunctionUnconfigured),
            ),
            (
                "info sriov/sriov.go:354 createvfs(): configure vfs for device",
                None,
            ),
            (
                "configsriovpfdevice(): fail to set numvfs for device 0000:3b:00.0",
                Some(K::FunctionUnconfigured),
            ),
            ("configsriovinterfaces(): device 0000:3b:00.0 is up to date", None),
            (
                "rdmamodulesareloaded(): rdma modules are not loaded, you may need to install rdma-core package",
                Some(K::ModuleMissing),
            ),
        ] {
            assert_eq!(find(line).map(|(kind, _)| kind), expected, "{line}");
        }
    }

    #[test]
    fn packages_of_the_kernel_count_where_an_rdma_driver_is_built() {
        for (line, expected) in [
            ("e: unable to locate package linux-headers-6.8.0-1029-azure", true),
            (
                "error! your kernel headers for kernel 6.8.0-45-generic cannot be found at /lib/modules/6.8.0-45-generic/build",
                true,
            ),
            (
                "no match for argument: kernel-devel-5.14.0-284.40.1.el9_2.x86_64",
                true,
            ),
            (
                "selecting previously unselected package linux-headers-6.11.0-1003",
                false,
            ),
            ("installing linux kernel headers...", false),
        ] {
            let mut policy = Policy::default();
            assert_eq!(policy.package(line), None, "{line}");
            assert_eq!(policy.package("no ofed driver found for kernel 6.8.0"), None);
            assert_eq!(policy.package(line).is_some(), expected, "{line}");
        }
    }

    #[test]
    fn the_status_of_a_policy_is_read_over_two_lines() {
        let mut policy = Policy::default();
        for (number, line, expected) in [
            (1, "  - name: state-OFED", false),
            (2, "    state: notReady", true),
            (3, "  - name: state-RDMA-device-plugin", false),
            (4, "    state: notReady", false),
            (5, "  - name: state-OFED", false),
            (6, "    state: ready", false),
        ] {
            assert_eq!(policy.add(line, number), expected, "{line}");
        }
    }
}
