//! Whether the device that could not be given to a virtual machine may be an RDMA adapter.
//!
//! Graphics cards and disks are given to virtual machines as well, with the same messages.

use std::sync::LazyLock;

use super::{line::after, phrases::Phrases};
use crate::symptom::{Grade, Symptom, SymptomKind};

/// Names of RDMA adapters, their makers and their drivers, in lower case.
const ADAPTERS: [&str; 26] = [
    "sr-iov",
    "sriov",
    "mellanox",
    "connectx",
    "bluefield",
    "15b3:",
    "mlx4",
    "mlx5",
    "infiniband",
    "rdma",
    "roce",
    "iwarp",
    "omni-path",
    "hfi1",
    "netxtreme-e",
    "bnxt",
    "fastlinq",
    "qedr",
    "chelsio",
    "cxgb4",
    "e810",
    "x722",
    "irdma",
    "elastic fabric",
    "pensando",
    "hns_roce",
];
/// Words of the list of `lspci`, in lower case.
const LISTED: [&str; 4] = [" controller [", " controller: ", " bridge [", " bridge: "];
/// What a configuration calls a device that is a GPU.
const GPU: [&str; 3] = ["-gpu", "gpu-", "gpus/"];

static WORDS: LazyLock<Phrases> = LazyLock::new(|| Phrases::new(ADAPTERS.into_iter().chain(LISTED)));

/// What QEMU, libvirt, Xen and what manages them print if a function cannot be given to a virtual machine.
pub(super) fn find(lower: &str) -> Option<(SymptomKind, usize)> {
    let readers = [without_iommu, of_vfio, of_libvirt, unclaimed];
    let at = readers.iter().find_map(|read| read(lower));
    at.map(|at| (SymptomKind::AssignRefused, at)).or_else(|| {
        let at = unconfigured(lower)?;
        Some((SymptomKind::FunctionUnconfigured, at))
    })
}

/// Words of the lines that [`find`] reads, in lower case.
pub(super) const ANCHORS: &[&str] = &[
    "vfio",
    "passthrough of host",
    "single function device",
    "config space file",
    "pci device",
    "assignment is not supported",
    "iommu not present",
    "open iommu_group",
    "mac/vlanid",
    "configure vf ",
    "ifla_vf",
    "pf device for vf",
    "network_sriov",
    "pcidevicerequestfailed",
    "claim pci",
    "could not access /sys/bus/pci",
];

/// Whether a text in lower case names an RDMA adapter, its maker or its driver.
pub(super) fn names_adapter(lower: &str) -> bool {
    ADAPTERS.iter().any(|name| lower.contains(name))
}

/// Whether a text begins with the address of a PCI function, or the first parts of one: `0000:3b:00.1`, `'3b:00.1'`.
fn is_function(rest: &str) -> bool {
    let rest = rest.trim_start_matches(['\'', '"']);
    let address = rest.split([':', '.', ',']).next().unwrap_or_default();
    (2..=4).contains(&address.len())
        && address.bytes().all(|byte| byte.is_ascii_hexdigit())
        && rest[address.len()..].starts_with([':', '.', ','])
}

/// The host has no IOMMU, or it is not active.
fn without_iommu(lower: &str) -> Option<usize> {
    const FORMS: [&str; 3] = [
        "host doesn't support passthrough of host pci devices",
        "device assignment is not supported by the host",
        "cannot open iommu_group",
    ];
    let at = FORMS.iter().find_map(|words| lower.find(words));
    at.or_else(|| lower.find("iommu not present").filter(|_| lower.contains("pass")))
}

/// `kvm: -device vfio-pci,host=0000:81:00.2: vfio 0000:81:00.2: …`, `vfio 0000:3b:00.1: error getting device from group 42: Permission denied`.
fn of_vfio(lower: &str) -> Option<usize> {
    const FAILURES: [&str; 6] = ["fail", "error", "no iommu", "cannot", "denied", "busy"];
    let at = lower.find("vfio")?;
    // The guest works without the mapping, and Proxmox names the driver after the function.
    if lower.contains("performance may be slow") {
        return None;
    }
    // What the kernel says of the whole host.
    let of_host = ["no interrupt remapping support", "platform rmrr requirement"];
    if lower.contains("stuck in d3") || of_host.iter().any(|words| lower.contains(words)) {
        return Some(at);
    }
    // Cloud Hypervisor: `DeviceManager(VfioDmaMap(IommuDmaMap(Error(14))))`.
    if lower.contains("devicemanager(vfio") {
        return Some(at);
    }
    if is_not_opened(lower) {
        return Some(at);
    }
    let written = lower.contains("drivers/vfio-pci/") && FAILURES.iter().any(|word| lower.contains(word));
    if written {
        return Some(at);
    }
    let bound = after(lower, "cannot bind ").filter(|rest| is_function(rest) && rest.contains("to vfio"));
    if bound.is_some() {
        return Some(at);
    }
    let of_device = ["vfio ", "host="]
        .iter()
        .find_map(|label| after(&lower[at..], label).filter(|rest| is_function(rest)))?;
    FAILURES.iter().any(|word| of_device.contains(word)).then_some(at)
}

/// A hypervisor got no container or group of VFIO at all: `VFIO: Could not open VFIO Container`, `failed to open /dev/vfio/42: …`.
fn is_not_opened(lower: &str) -> bool {
    const OBJECTS: [&str; 3] = ["vfio container", "vfio group", "/dev/vfio/"];
    const FAILS: [&str; 6] = [
        "could not open",
        "failed to open",
        "cannot open",
        "unable to open",
        "failed to get",
        "error opening",
    ];
    // DPDK tries VFIO first, and its drivers for these adapters do without it: the module is not loaded.
    if lower.contains("eal: ") && lower.contains("error 2 (") {
        return false;
    }
    OBJECTS.iter().any(|object| {
        let before = lower.find(object).map(|at| &lower[..at]);
        before.is_some_and(|before| {
            let before = before.trim_end_matches([' ', '\'', '"']);
            let before = before.strip_suffix(" the").unwrap_or(before);
            FAILS.iter().any(|words| before.ends_with(words))
        })
    })
}

/// What libvirt and Xen say of a device by its address: `PCI device 0000:3b:00.2 is in use by driver QEMU, domain vm2`, `Failed to add driver
/// 'vfio-pci' to driver_override interface of PCI device '0000:1b:10.6': Permission denied`.
fn of_libvirt(lower: &str) -> Option<usize> {
    const FORMS: [&str; 3] = [
        "single function device addresses with function=0 expected",
        "failed to open config space file '/sys/bus/pci/devices/",
        "not found: could not access /sys/bus/pci/devices/",
    ];
    const REFUSED: [&str; 14] = [
        "in use by",
        "is already in use",
        "not assignable",
        "is not a pci device",
        "does not exist",
        "failed to bind",
        "failed to unbind",
        "driver_override",
        "failed to trigger a probe",
        "unable to reset",
        "failed to reset",
        "failed to detach",
        "cannot be assigned",
        "managed by other",
    ];
    let fixed = FORMS.iter().find_map(|words| lower.find(words));
    fixed.or_else(|| {
        let at = lower.find("pci device ")?;
        let is_named = is_function(&lower[at + "pci device ".len()..]);
        (is_named && REFUSED.iter().any(|words| lower.contains(words))).then_some(at)
    })
}

/// What manages several hosts found no free function on any of them: Xen's toolstack, `OpenStack`'s compute service.
fn unclaimed(lower: &str) -> Option<usize> {
    const FORMS: [&str; 3] = [
        "network_sriov_insufficient_capacity",
        "pcidevicerequestfailed",
        "claim pci failed",
    ];
    FORMS.iter().find_map(|words| lower.find(words))
}

/// A hypervisor could not set up a virtual function: `Unable to configure VF 3 of PF 'ens1f0' because the PF is not online`, `Cannot set interface
/// MAC/vlanid to fa:16:3e:4c:10:22/101 for ifname ens2f0 vf 3: Operation not permitted`.
fn unconfigured(lower: &str) -> Option<usize> {
    const FORMS: [&str; 5] = [
        "unable to configure vf ",
        "cannot set interface mac/vlanid",
        "missing ifla_vf_info",
        "missing ifla_vf",
        "the pf device for vf",
    ];
    FORMS.iter().find_map(|words| lower.find(words))
}

/// What lines so far name.
#[derive(Debug, Default)]
pub(super) struct Passthrough {
    adapter: bool,
    listed: bool,
}

impl Passthrough {
    /// Adds a line. Once one names an adapter, the others change nothing.
    pub(super) fn add(&mut self, text: &str) {
        if self.adapter {
            return;
        }
        for found in WORDS.find(text) {
            if found.index < ADAPTERS.len() {
                self.adapter |= found.begins(text);
            } else {
                self.listed = true;
            }
        }
    }

    /// Lowers refusals, and mappings that failed, where no line names an adapter: the list of devices has none, or nothing says what the device is.
    pub(super) fn settle(&self, symptoms: &mut [Symptom]) {
        // The machine did not get the function because of it.
        if symptoms
            .iter()
            .any(|symptom| symptom.kind == SymptomKind::MapNoMemory)
        {
            for symptom in symptoms.iter_mut() {
                if symptom.kind == SymptomKind::AssignRefused {
                    symptom.grade = symptom.grade.min(Grade::Secondary);
                }
            }
        }
        if self.adapter {
            return;
        }
        let unmapped = |symptom: &&mut Symptom| symptom.kind == SymptomKind::MapNoMemory;
        for symptom in symptoms.iter_mut().filter(unmapped) {
            symptom.grade = symptom.grade.min(Grade::Degraded);
        }
        let refused = |symptom: &&mut Symptom| symptom.kind == SymptomKind::AssignRefused;
        for symptom in symptoms.iter_mut().filter(refused) {
            let text = symptom.text.to_ascii_lowercase();
            let is_gpu = GPU.iter().any(|name| text.contains(name));
            let most = if self.listed || is_gpu {
                Grade::Note
            } else {
                Grade::Degraded
            };
            symptom.grade = symptom.grade.min(most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_a_guest_cannot_have_is_read_in_the_words_of_each_hypervisor() {
        for line in [
            "kvm: -device vfio-pci,host=0000:3b:00.1: vfio 0000:3b:00.1: error getting device from group 42: permission denied",
            "qemu: -device vfio-pci,host=3b:00.1,id=h0: vfio error: 0000:3b:00.1: failed getting region info",
            "qemu-kvm: vfio 0000:3b:00.1: failed to open /dev/vfio/12: device or resource busy",
            "requested operation is not valid: pci device 0000:3b:00.2 is in use by driver qemu, domain vm2",
            "failed to add driver 'vfio-pci' to driver_override interface of pci device '0000:1b:10.6': permission denied",
            "failed to bind pci device '0000:3b:00.2' to vfio-pci: no such device",
            "libxl__device_pci_assignable_add: pci device 3b:00.2 does not exist",
            "vfio: could not open vfio container",
            "error: failed to open /dev/vfio/42: permission denied",
            "cannot bind 0000:81:00.2 to vfio",
            "task error: cannot prepare pci pass-through, iommu not present",
            "server_error(network_sriov_insufficient_capacity, [ opaqueref:cb14 ])",
        ] {
            assert!(
                matches!(find(line), Some((SymptomKind::AssignRefused, _))),
                "{line}"
            );
        }
        for line in [
            "vfio-pci 0000:3b:00.1: enabling device (0000 -> 0002)",
            "qemu: -device vfio-pci,host=0000:3b:00.1,id=h0",
            "vfio: failed to load",
            "kvm: -device vfio-pci,host=0000:01:00.1: failed to mmap 0000:01:00.1 bar 0. performance may be slow",
            "eal: pci device 0000:3b:00.0 on numa socket 0",
            "net_mlx5: probe of pci device 0000:af:00.2 aborted after encountering an error: no such file or directory",
            "pci device 0000:3b:00.2: using driver vfio-pci",
        ] {
            assert_eq!(find(line), None, "{line}");
        }
    }

    #[test]
    fn a_function_that_a_hypervisor_cannot_set_up_is_one_that_is_not_configured() {
        for line in [
            "unable to configure vf 3 of pf 'ens1f0' because the pf is not online. please change host network config",
            "cannot set interface mac/vlanid to fa:16:3e:4c:10:22/101 for ifname ens2f0 vf 3: operation not permitted",
        ] {
            let found = find(line).map(|(kind, _)| kind);
            assert_eq!(found, Some(SymptomKind::FunctionUnconfigured), "{line}");
        }
    }
}
