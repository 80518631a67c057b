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

/// What QEMU and libvirt print if a function cannot be given to a virtual machine: `kvm: -device vfio-pci,host=0000:81:00.2: vfio 0000:81:00.2: …`,
/// `vfio 0000:3b:00.1: error getting device from group 42: Permission denied`.
pub(super) fn find(lower: &str) -> Option<(SymptomKind, usize)> {
    const FAILURES: [&str; 6] = ["fail", "error", "no iommu", "cannot", "denied", "busy"];
    const OF_LIBVIRT: [&str; 3] = [
        "single function device addresses with function=0 expected",
        "host doesn't support passthrough of host pci devices",
        "failed to open config space file '/sys/bus/pci/devices/",
    ];
    if let Some(at) = OF_LIBVIRT.iter().find_map(|words| lower.find(words)) {
        return Some((SymptomKind::AssignRefused, at));
    }
    let at = lower.find("vfio")?;
    let is_function = |rest: &str| {
        let address = rest.split([':', '.', ',']).next().unwrap_or_default();
        (2..=4).contains(&address.len()) && address.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let of_device = ["vfio ", "host="]
        .iter()
        .find_map(|label| after(&lower[at..], label).filter(|rest| is_function(rest)))?;
    FAILURES
        .iter()
        .any(|word| of_device.contains(word))
        .then_some((SymptomKind::AssignRefused, at))
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

    /// Lowers refusals where no line names an adapter: the list of devices has none, or nothing says what the device is.
    pub(super) fn settle(&self, symptoms: &mut [Symptom]) {
        if self.adapter {
            return;
        }
        let refused = |symptom: &&mut Symptom| symptom.kind == SymptomKind::AssignRefused;
        for symptom in symptoms.iter_mut().filter(refused) {
            let text = symptom.text.to_ascii_lowercase();
            let is_gpu = GPU.iter().any(|name| text.contains(name));
            symptom.grade = if self.listed || is_gpu {
                Grade::Note
            } else {
                Grade::Degraded
            };
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
        ] {
            assert_eq!(find(line), None, "{line}");
        }
    }
}
