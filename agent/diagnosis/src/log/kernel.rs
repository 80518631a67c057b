//! Lines of the kernel in a job's log: what they report, and of whom.

use std::sync::LazyLock;

use rdma_health_kernel_log::{EventKind, Judgement, Report, Service, is_adapter, judge, service};

use super::{
    line::Lower,
    phrases::{Occurrence, Phrases},
};
use crate::symptom::{self, SymptomKind};

/// Who writes messages that the table of the kernel's messages has.
static WRITERS: LazyLock<Phrases> = LazyLock::new(|| Phrases::new(rdma_health_kernel_log::writers()));

/// Whether a name is that of a writer and not a part of another word: `ice` in `device`. Drivers name their devices and parts after
/// themselves: `mlx5_0`, `hns_roce_hw_v2`, `ib0`.
fn is_writer(lower: &str, found: Occurrence) -> bool {
    let next = lower.as_bytes().get(found.end);
    // The functions of qed may begin with an underscore: `[_qed_mcp_cmd_and_union:631(ens2f0)]The MFW failed …`.
    (found.begins(lower) || lower[..found.start].ends_with("[_"))
        && (found.ends(lower) || next.is_some_and(|byte| *byte == b'_' || byte.is_ascii_digit()))
}

/// What the table of kernel messages says about a line; `None` for lines that cannot be the kernel's.
pub(super) fn kernel(line: &Lower<'_>) -> Option<Judgement> {
    let place = WRITERS
        .find(&line.lower)
        .find(|found| is_writer(&line.lower, *found));
    // Any module may be refused because of its symbols.
    if place.is_none() && !line.lower.contains(" symbol ") {
        return None;
    }
    let whole = judge(line.text);
    if whole != Judgement::Unknown {
        return Some(whole);
    }
    // Tools that collect logs put a host and more before the line: `node1: [14280.4] mlx5_core 0000:61:00.0: …`.
    let begins = WRITERS
        .find(&line.lower)
        .filter(|found| is_writer(&line.lower, *found))
        .map(|found| found.start)
        .filter(|at| line.lower[..*at].ends_with(' '))
        .min()?;
    Some(judge(&line.text[begins..]))
}

/// The symptom that an event of the kernel shows, with its grade if it differs from the kind's.
pub(super) fn of_event(report: &Report) -> Option<(SymptomKind, Option<symptom::Grade>)> {
    use symptom::Grade::Degraded;
    Some(match report.kind {
        // What the RDMA core could not set up, the firmware refused.
        EventKind::ProbeFailed if report.driver == "infiniband" => (SymptomKind::CommandRefused, None),
        // What left the bus is a GPU.
        EventKind::PciFatal if matches!(report.driver.as_str(), "nvidia" | "amdgpu") => {
            (SymptomKind::GpuStopped, None)
        }
        EventKind::AdapterHealth => (SymptomKind::DeviceFatal, None),
        EventKind::PciPower => (SymptomKind::SlotPower, None),
        EventKind::AdapterTemperature => (SymptomKind::AdapterHot, None),
        EventKind::CommandTimeout | EventKind::TxTimeout | EventKind::ModuleHung => {
            (SymptomKind::DeviceStalled, None)
        }
        EventKind::FirmwareInit | EventKind::ProbeFailed => (SymptomKind::AdapterNotStarted, None),
        EventKind::PciFatal => (SymptomKind::PciFault, None),
        EventKind::PciNonfatal => (SymptomKind::PciFault, Some(Degraded)),
        EventKind::IommuFault => (SymptomKind::IommuFault, None),
        EventKind::ModuleFault => (SymptomKind::ModuleFault, None),
        EventKind::ModuleUnplugged | EventKind::LinkDown => (SymptomKind::PortError, Some(Degraded)),
        EventKind::PauseStorm => (SymptomKind::PauseStorm, None),
        EventKind::ResourceLimit => (SymptomKind::ResourceLimit, None),
        EventKind::BounceFull => (SymptomKind::NoMemory, None),
        EventKind::AccessDenied => (SymptomKind::NotPermitted, None),
        EventKind::PeerMemory => (SymptomKind::PeerMemoryError, None),
        EventKind::ModuleMismatch => (SymptomKind::ModuleMismatch, None),
        EventKind::ModuleCrashed => (SymptomKind::DriverCrashed, None),
        EventKind::GpuFailed => (SymptomKind::GpuStopped, None),
        EventKind::GpuLinkError => (SymptomKind::GpuLinkError, None),
        EventKind::GpuError => (SymptomKind::GpuError, None),
        // A line about virtual functions is read as any other.
        EventKind::FunctionsRefused
        | EventKind::DriverError
        | EventKind::ModulePlugged
        | EventKind::LinkUp
        | EventKind::Started => return None,
    })
}

/// Whether a message of the PCI core can be about an RDMA adapter: it names no driver of something else.
pub(super) fn is_of_interest(line: &Lower<'_>, driver: &str) -> bool {
    let of_others = [
        "nvme", "ahci", "xhci", "megaraid", "mpt3sas", "snd_", "e1000", "igb", "ixgbe", "tg3",
    ];
    !of_others.iter().any(|other| driver.starts_with(other)) || line.lower.contains("rdma")
}

/// Drivers of Ethernet adapters that offer RDMA through another driver only, and what names that driver or its devices.
const ETHERNET: [(&str, &[&str]); 13] = [
    ("i40e", &["irdma", "i40iw"]),
    ("ice", &["irdma"]),
    ("idpf", &["irdma"]),
    ("bnxt_en", &["bnxt_re"]),
    ("mlx4_en", &["mlx4_ib", "mlx4_0", "mlx4_1"]),
    ("qede", &["qedr"]),
    (
        "hns3",
        &[
            "hns_roce",
            "hns-roce",
            "hns_0",
            "hns_1",
            "hns_2",
            "hns_3",
            "roce engine",
        ],
    ),
    (
        "hclge",
        &["hns_roce", "hns-roce", "hns_0", "hns_1", "hns_2", "hns_3"],
    ),
    ("enic", &["usnic"]),
    ("ionic", &["ionic_rdma", "ionic_0", "ionic_1"]),
    ("cxgb4", &["iw_cxgb4", "cxgb4_0", "cxgb4_1"]),
    ("be2net", &["ocrdma"]),
    ("mana", &["mana_ib", "mana_0", "mana_1"]),
];

/// What names the RDMA drivers above those of Ethernet, and their devices, in lower case.
pub(super) fn names_above() -> impl Iterator<Item = &'static str> {
    ETHERNET.iter().flat_map(|(_, names)| names.iter().copied())
}

/// The driver of an Ethernet adapter that wrote a line of the kernel, and what names the RDMA driver above it.
pub(crate) fn ethernet_driver(text: &str) -> Option<(&'static str, &'static [&'static str])> {
    let words = || text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'));
    ETHERNET
        .iter()
        .find(|(driver, _)| words().any(|word| word == *driver))
        .copied()
}

/// Who uses a PCI function.
pub(super) enum User {
    /// An RDMA adapter or a GPU.
    Rdma,
    /// Something else.
    Other,
    /// The IOMMU names no driver.
    Unknown,
}

/// Who uses a function, by the driver before a message of the IOMMU.
pub(super) fn user_of(driver: &str) -> User {
    const GPUS: [&str; 5] = ["nvidia", "amdgpu", "nouveau", "habanalabs", "xe"];
    const IOMMUS: [&str; 3] = ["DMAR", "AMD-Vi", "arm-smmu"];
    if IOMMUS.iter().any(|name| driver.starts_with(name)) {
        User::Unknown
    } else if is_adapter(driver) || GPUS.contains(&driver) {
        User::Rdma
    } else {
        User::Other
    }
}

/// What a line of the kernel is, if a service that uses RDMA wrote it: a file system, storage, a network protocol.
pub(super) fn of_service(text: &str) -> Option<Service> {
    is_of_kernel(text).then(|| service(text)).flatten()
}

/// Whether a line begins as those of `dmesg` and of the journal do: `[ 1234.567] `, `[Mon Oct 16 09:54:43 2023] `, `host kernel: `.
pub(super) fn is_of_kernel(text: &str) -> bool {
    /// The kernel counts from the start of the machine. Seconds of so many digits count from 1970, which programs print.
    const EPOCH: usize = 10;
    const DAYS: [&str; 7] = ["Mon ", "Tue ", "Wed ", "Thu ", "Fri ", "Sat ", "Sun "];
    let time = text
        .trim_start()
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
        .map(|(time, _)| time.trim());
    let is_time = |time: &str| {
        // `dmesg --reltime`, `--show-delta`.
        let time = time.split('<').next().unwrap_or_default().trim();
        let time = time.strip_prefix('+').unwrap_or(time);
        let is_number = time.split_once('.').is_some_and(|(seconds, part)| {
            let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            seconds.len() < EPOCH && is_digits(seconds) && is_digits(part)
        });
        is_number || DAYS.iter().any(|day| time.starts_with(day))
    };
    time.is_some_and(is_time) || text.contains(" kernel: ")
}
