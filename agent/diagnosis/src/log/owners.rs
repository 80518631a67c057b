//! Which PCI functions of a log belong to RDMA adapters or GPUs, and which to other devices.
//!
//! A fault of the bus or of the IOMMU often names an address only. Any other line of the log may say whose it is: a driver before the
//! address (`r8169 0000:03:00.0: …`), or the list of `lspci` (`06:00.0 Ethernet controller: Marvell …`).

use std::collections::{BTreeMap, BTreeSet};

use rdma_health_kernel_log::is_address;

use super::kernel::{User, user_of};
use crate::symptom::{Grade, Software, Symptom, SymptomKind as K};

/// Maximum number of addresses that are kept.
const MAX: usize = 512;
/// Number of functions with faults from which those of a kind of owner are counted together.
const MANY: usize = 16;

/// Words before an address that do not name the driver of what is there.
const NOT_DRIVERS: [&str; 16] = [
    "pci", "pcieport", "pci-stub", "vfio-pci", "vfio_pci", "pciback", "iommu", "device", "function", "port",
    "bus", "address", "from", "gpu", "nic", "for",
];
/// What names RDMA adapters and GPUs in the list of `lspci`, in lower case.
const OURS: [&str; 25] = [
    "mellanox",
    "nvidia",
    "infiniband",
    "connectx",
    "bluefield",
    "netxtreme-e",
    "bcm57414",
    "bcm575",
    "bcm576",
    "omni-path",
    "cornelis",
    "fastlinq",
    "qlogic",
    "chelsio",
    "elastic fabric",
    "pensando",
    "emulex",
    "hisilicon",
    "huawei",
    "erdma",
    "habana",
    "instinct",
    "e810",
    "e82",
    "x722",
];
/// Makers and classes of other devices in that list, in lower case.
const OTHERS: [&str; 34] = [
    "vga compatible controller",
    "realtek",
    "marvell",
    "aquantia",
    "atheros",
    "netgear",
    "asix",
    "aspeed",
    "matrox",
    "solarflare",
    "82599",
    "82576",
    "82574",
    "82579",
    "82580",
    "i210",
    "i211",
    "i217",
    "i218",
    "i219",
    "i225",
    "i226",
    "i350",
    "x520",
    "x540",
    "x550",
    "netxtreme bcm57",
    "elastic network adapter",
    "virtio",
    "non-volatile memory controller",
    "sata controller",
    "raid bus controller",
    "usb controller",
    "serial attached scsi controller",
];

/// The owners of the addresses that the lines so far name.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// By full address: whether it is an RDMA adapter or a GPU. Once it is, it stays one.
    functions: BTreeMap<String, bool>,
    /// By the address of a PCIe port: the source of the errors that it reports.
    sources: BTreeMap<String, String>,
    /// The functions that the PCI core could not recover below the ports that have errors.
    affected: BTreeSet<String>,
}

impl Owners {
    /// Adds what a line shows.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        for dot in memchr::memchr_iter(b'.', bytes) {
            // `bb:ss.f`
            let Some(begin) = dot.checked_sub(5) else {
                continue;
            };
            let is_hex = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
            let is_one = bytes[begin + 2] == b':' && is_hex(begin) && is_hex(dot + 1);
            if is_one {
                self.add_at(bytes, begin, dot + 2);
            }
        }
    }

    /// Adds what a line shows of the address whose bus begins and whose function ends here.
    fn add_at(&mut self, bytes: &[u8], begin: usize, end: usize) {
        let domain = bytes[..begin]
            .iter()
            .rev()
            .take_while(|byte| byte.is_ascii_hexdigit() || **byte == b':');
        let start = begin - domain.count();
        let Ok(word) = std::str::from_utf8(&bytes[start..end]) else {
            return;
        };
        let Some(address) = full(word) else {
            return;
        };
        let before = String::from_utf8_lossy(&bytes[..start]);
        let after = String::from_utf8_lossy(&bytes[end..]);
        if let Some(port) = reporter(&before) {
            if self.sources.len() < MAX {
                self.sources.entry(port).or_insert(address);
            }
            return;
        }
        if is_affected(&before, &after) && self.affected.len() < MAX {
            self.affected.insert(address.clone());
        }
        let of_driver = || (word.len() > 7).then(|| by_driver(&before, &after)).flatten();
        let Some(is_ours) = of_driver().or_else(|| by_list(&before, &after)) else {
            return;
        };
        if let Some(known) = self.functions.get_mut(&address) {
            *known |= is_ours;
        } else if self.functions.len() < MAX {
            self.functions.insert(address, is_ours);
        }
    }

    /// Whether the lines name a PCI function that is an RDMA adapter or a GPU.
    pub(super) fn has_ours(&self) -> bool {
        self.functions.values().any(|is_ours| *is_ours)
    }

    /// Whether a function is known to be an RDMA adapter or a GPU.
    fn is_ours(&self, function: &str) -> bool {
        self.functions.get(function) == Some(&true)
    }

    /// Whether an RDMA adapter or a GPU is in the PCI domain of a function.
    fn has_ours_near(&self, function: &str) -> bool {
        let domain = function.split(':').next().unwrap_or_default();
        self.functions
            .iter()
            .any(|(other, is_ours)| *is_ours && other.split(':').next() == Some(domain))
    }

    /// Whether a function is known to be neither an RDMA adapter nor a GPU.
    pub(super) fn is_other(&self, function: &str) -> bool {
        let source = || {
            self.sources
                .get(function)
                .and_then(|source| self.functions.get(source))
        };
        let owner = self.functions.get(function).or_else(source);
        owner.is_some_and(|is_ours| !is_ours)
    }

    /// Whether the errors of PCIe ports in this log concern other devices only: all functions that the PCI core named below them are others'.
    fn affects_others(&self) -> bool {
        let is_other = |function: &String| self.functions.get(function) == Some(&false);
        !self.affected.is_empty() && self.affected.iter().all(is_other)
    }

    /// Whether two faults are kept as one: those of one function, or, where `kept` is large, of functions with the same kind of owner.
    pub(super) fn are_counted_together(&self, one: &Symptom, other: &Symptom, kept: usize) -> bool {
        let is_other = |symptom: &Symptom| {
            let function = symptom.named.function.as_deref();
            function.is_some_and(|function| self.is_other(function))
        };
        one.named.function == other.named.function || kept >= MANY && is_other(one) == is_other(other)
    }

    /// Lowers the faults of other devices to notes, and counts the others of a kind together again.
    pub(super) fn settle(&self, symptoms: &mut Vec<Symptom>) {
        let is_of_kernel =
            |symptom: &Symptom| is_of_function(symptom.kind) || symptom.software == Some(Software::Kernel);
        let below = self.affected.iter().find(|function| self.is_ours(function));
        for symptom in symptoms.iter_mut().filter(|symptom| is_of_kernel(symptom)) {
            // A port counts for what it leads to.
            if symptom.kind == K::PciFault && is_of_port(symptom) && below.is_some() {
                symptom.named.function = below.cloned();
            }
            let function = symptom.named.function.as_deref();
            // The IOMMU names no driver; another line does.
            if symptom.kind == K::IommuFault && function.is_some_and(|function| self.is_ours(function)) {
                symptom.known = true;
            }
            if is_of_bridge(symptom) && !function.is_some_and(|function| self.has_ours_near(function)) {
                symptom.grade = symptom.grade.min(Grade::Unrecognised);
            }
            let function = symptom.named.function.as_deref();
            let is_below = || is_of_port(symptom) && self.affects_others();
            if function.is_some_and(|function| self.is_other(function)) || is_below() {
                symptom.grade = Grade::Note;
            }
        }
        let mut kept: Vec<Symptom> = Vec::with_capacity(symptoms.len());
        for symptom in symptoms.drain(..) {
            let same = |known: &&mut Symptom| {
                is_of_function(symptom.kind)
                    && known.kind == symptom.kind
                    && (known.grade == Grade::Note) == (symptom.grade == Grade::Note)
                    && known.named.device == symptom.named.device
                    && is_of_port(known) == is_of_port(&symptom)
            };
            match kept.iter_mut().find(same) {
                Some(known) => {
                    known.count += symptom.count;
                    known.named.complete(symptom.named);
                }
                None => kept.push(symptom),
            }
        }
        *symptoms = kept;
    }
}

/// Whether a kind is a fault of the function that it names.
pub(super) fn is_of_function(kind: K) -> bool {
    matches!(
        kind,
        K::PciFault | K::PciRoom | K::IommuFault | K::GpuStopped | K::GpuError
    )
}

/// What the PCI core says of a port is not what it says of an adapter.
pub(super) fn is_of_port(symptom: &Symptom) -> bool {
    symptom.text.contains("pcieport ")
}

/// Whether Power isolated what is below a host bridge, without a word of what that is.
fn is_of_bridge(symptom: &Symptom) -> bool {
    let is_first = |function: &String| function.ends_with(":00:00.0");
    symptom.text.contains("EEH: ") && symptom.named.function.as_ref().is_some_and(is_first)
}

/// Whether the PCI core says of a function, but not of a port, that it could not recover it: `xhci_hcd 0000:97:00.0: AER: can't recover (…)`.
fn is_affected(before: &str, after: &str) -> bool {
    after.starts_with(": AER: can't recover") && !before.ends_with("pcieport ")
}

/// An address with its domain, in lower case.
fn full(word: &str) -> Option<String> {
    let full = match word.matches(':').count() {
        1 => format!("0000:{word}"),
        _ => word.to_owned(),
    };
    is_address(&full).then(|| full.to_ascii_lowercase())
}

/// The PCIe port that reports an error of the address that follows: `pcieport 0000:60:03.1: AER: … error received: `.
fn reporter(before: &str) -> Option<String> {
    let words = before.trim_end();
    if !(words.ends_with("received:") || words.ends_with("received from")) {
        return None;
    }
    let (_, rest) = words.split_once("pcieport ")?;
    full(rest.split(' ').next()?.trim_end_matches(':'))
}

/// Whether the driver before an address is one of RDMA or GPUs: `[ 12.1] ixgbe 0000:06:00.0 eth2: …`.
fn by_driver(before: &str, after: &str) -> Option<bool> {
    let before = before.strip_suffix(' ')?;
    let (prefix, driver) = before.rsplit_once(' ').unwrap_or(("", before));
    let prefix = prefix.trim_end();
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
    let begins = prefix.is_empty() || prefix.ends_with([']', ':']);
    // One word, the network device, may stand between address and colon.
    let (name, _) = after.split_once(':')?;
    let is_prefix = name.is_empty() || name.starts_with(' ') && name[1..].split(' ').count() == 1;
    let is_driver = driver.starts_with(|c: char| c.is_ascii_lowercase())
        && driver.chars().all(is_name)
        && !NOT_DRIVERS.contains(&driver);
    if !(begins && is_prefix && is_driver) {
        return None;
    }
    match user_of(driver) {
        User::Rdma => Some(true),
        User::Other => Some(false),
        User::Unknown => None,
    }
}

/// Whether a line of `lspci` lists an RDMA adapter or a GPU; `None` if it is not one, or of another kind of device.
fn by_list(before: &str, after: &str) -> Option<bool> {
    if !before.trim().is_empty() {
        return None;
    }
    let (class, name) = after
        .split_once(": ")
        .filter(|(class, _)| class.starts_with(' '))?;
    let lower = format!("{class}: {name}").to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if has(&OURS) {
        return Some(true);
    }
    has(&OTHERS).then_some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_line_may_say_whose_an_address_is() {
        for (line, address, is_other) in [
            (
                "[ 2390.1] r8169 0000:03:00.0: eth0: link up",
                "0000:03:00.0",
                true,
            ),
            (
                "[ 12.1] ixgbe 0000:06:00.0 eth2: NIC Link is Up",
                "0000:06:00.0",
                true,
            ),
            (
                "Oct 5 foo kernel: nvme 0000:61:00.0: PCIe Bus Error",
                "0000:61:00.0",
                true,
            ),
            (
                "06:00.0 Ethernet controller: Marvell Technology Group Ltd. Device 8400",
                "0000:06:00.0",
                true,
            ),
            (
                "0001:06:00.0 SATA controller: Intel Corporation C610",
                "0001:06:00.0",
                true,
            ),
            ("mlx5_core 0000:c1:00.0: Port module event", "0000:c1:00.0", false),
            (
                "c1:00.0 Ethernet controller: Mellanox Technologies MT2910",
                "0000:c1:00.0",
                false,
            ),
            (
                "3b:00.0 Ethernet controller: Broadcom Inc. BCM57414 NetXtreme-E",
                "0000:3b:00.0",
                false,
            ),
            (
                "61:00.0 Ethernet controller: Device 1f0a:6801",
                "0000:61:00.0",
                false,
            ),
            ("vfio-pci 0000:03:00.0: reset done", "0000:03:00.0", false),
            ("pci 0000:03:00.0: BAR 0 assigned", "0000:03:00.0", false),
            ("failed to open device 0000:03:00.0: busy", "0000:03:00.0", false),
            (
                "UCX ERROR: rail 0000:03:00.0 is in use: stop",
                "0000:03:00.0",
                false,
            ),
            (
                "DMAR: [DMA Read] Request device [06:00.0] fault addr 1: x",
                "0000:06:00.0",
                false,
            ),
        ] {
            let mut owners = Owners::default();
            owners.add(line.as_bytes());
            assert_eq!(owners.is_other(address), is_other, "{line}");
        }
        let mut owners = Owners::default();
        owners.add(b"pcieport 0000:60:03.1: AER: Uncorrected (Fatal) error received: 0000:61:00.0");
        assert!(!owners.is_other("0000:60:03.1"));
        owners.add(b"nvme 0000:61:00.0: PCIe Bus Error");
        assert!(owners.is_other("0000:60:03.1"));
        // One line that shows an adapter there is enough.
        owners.add(b"mlx5_core 0000:61:00.0: firmware version");
        assert!(!owners.is_other("0000:61:00.0"));
        for n in 0..10_000 {
            owners.add(format!("igb {n:04x}:61:00.0: x").as_bytes());
        }
        assert!(owners.functions.len() <= MAX);
    }

    #[test]
    fn a_fault_of_another_device_is_a_note() {
        let dmar = "DMAR: [DMA Read] Request device [06:00.0] fault addr 1a5e12000 [fault reason 06] PTE Read access is not set\n";
        let fault = |address: &str| {
            format!(
                "AMD-Vi: Event logged [IO_PAGE_FAULT device={address} domain=0x001b address=0x3000 flags=0x0050]\n"
            )
        };
        let aer = "pcieport 0000:60:03.1: AER: Uncorrected (Fatal) error received: 0000:61:00.0\n";
        for (log, faults) in [
            (dmar.to_owned(), 1),
            (
                format!("{dmar}06:00.0 Ethernet controller: Marvell Technology Group Ltd. Device 8400\n"),
                0,
            ),
            (
                format!("{dmar}06:00.0 Ethernet controller: Mellanox Technologies MT2892\n"),
                1,
            ),
            (
                format!("r8169 0000:03:00.0: eth0: link up\n{}", fault("03:00.0")),
                0,
            ),
            (
                format!("{aer}nvme 0000:61:00.0: PCIe Bus Error: severity=Uncorrected (Fatal)\n"),
                0,
            ),
            (
                format!("{aer}mlx5_core 0000:61:00.0: PCIe Bus Error: severity=Uncorrected (Fatal)\n"),
                2,
            ),
            // The errors of a port concern what is below it.
            (
                format!("xhci_hcd 0000:62:00.0: AER: can't recover (no error_detected callback)\n{}", "pcieport 0000:60:03.1: AER: device recovery failed\n"),
                0,
            ),
            (
                "mlx5_core 0000:61:00.0: AER: can't recover (no error_detected callback)\npcieport 0000:60:03.1: AER: device recovery failed\n".to_owned(),
                2,
            ),
            // A fault of an adapter after one of another device counts.
            (
                format!(
                    "r8169 0000:03:00.0: eth0: link up\n{}{}",
                    fault("03:00.0"),
                    fault("c1:00.0")
                ),
                1,
            ),
            // So it does after those of many.
            (
                (0..200)
                    .map(|n| format!("igb 0000:{n:02x}:01.0: up\n{}", fault(&format!("{n:02x}:01.0"))))
                    .chain([fault("c1:00.0")])
                    .collect(),
                1,
            ),
        ] {
            let mut reader = crate::log::LogReader::default();
            reader.feed(log.as_bytes());
            let symptoms = reader.finish().symptoms;
            let graver = symptoms.iter().filter(|symptom| symptom.grade > Grade::Note);
            assert_eq!(graver.count(), faults, "{log}");
        }
    }
}
