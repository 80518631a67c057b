//! What a message of the kernel log reports.

use crate::{
    consumer, denial,
    event::{Device, EventKind},
    failure, gpu,
    host_memory::is_of_host_memory,
    modules,
    origin::{Message, Writer, is_adapter, named, pci},
    phrases::{ADAPTER, PCI},
    record::Record,
    speaker::is_about_a_process,
    trace,
};

/// What one message reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// What it reports.
    pub kind: EventKind,
    /// The device that it names.
    pub device: Device,
    /// The driver that wrote it, as it calls itself.
    pub driver: String,
}

/// What the table says about a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// An event of a device.
    Event(Report),
    /// A message that is known to have no consequence.
    Harmless,
    /// A message of these drivers that the table does not have.
    Unlisted,
    /// Not a message of these drivers.
    Unknown,
}

/// Lowest severity of a message that is an error (`LOGLEVEL_ERR`).
const ERROR: u8 = 3;
/// `LOGLEVEL_INFO`.
const INFO: u8 = 6;

/// Recognises a message of the kernel, without the prefix of its record. It may come from a job's log, after the text that
/// syslog or the journal add (`Sep 19 02:29:46 host kernel: `).
pub fn classify(line: &str) -> Option<Report> {
    match judge(line) {
        Judgement::Event(report) => Some(report),
        Judgement::Harmless | Judgement::Unlisted | Judgement::Unknown => None,
    }
}

/// The same as [`classify`], and whether the message is known to be harmless.
pub fn judge(line: &str) -> Judgement {
    let text = match line.split_once(" kernel: ") {
        // Only a time and a host, and not a process that speaks of a kernel.
        Some((before, text)) if !before.contains(['[', '(']) => text,
        _ => line,
    };
    Record::parse(text.trim_start()).map_or(Judgement::Unknown, |record| judge_record(&record))
}

/// Recognises a record. Of what the audit subsystem says of processes, only a device node and who denied the access to it is taken.
pub fn of_record(record: &Record<'_>) -> Option<Report> {
    if let Some(report) = denial::report(record.text) {
        return Some(report);
    }
    match judge_record(record) {
        Judgement::Event(report) => Some(report),
        // Only on the node that wrote them: a log given by the user is read with more context.
        Judgement::Unknown if !is_about_a_process(record.text) => consumer::report(record),
        Judgement::Harmless | Judgement::Unlisted | Judgement::Unknown => None,
    }
}

fn judge_record(record: &Record<'_>) -> Judgement {
    if is_about_a_process(record.text) {
        return Judgement::Unknown;
    }
    if let Some((kind, device)) = modules::refused(record.text).or_else(|| trace::joined(record.text)) {
        let driver = match &device {
            // What the firmware of the machine reports of a PCI function (APEI).
            Device::Pci(_) => "APEI".to_owned(),
            device => device.to_string(),
        };
        return Judgement::Event(Report { kind, device, driver });
    }
    let Some(message) = Message::parse(record.text) else {
        return Judgement::Unknown;
    };
    let lower = message.text.to_ascii_lowercase();
    let found = match message.writer {
        Writer::Adapter => of_adapter(&message, &lower, record.level),
        Writer::Pci => of_pci(&lower).map(|kind| kind.map(|kind| (kind, None))),
        Writer::Gpu => of_pci(&lower)
            .or_else(|| gpu::meaning(&message, &lower))
            .map(|kind| kind.map(|kind| (kind, None))),
        Writer::Iommu => of_iommu(&message).map(Some),
        Writer::PeerMemory => {
            let is_error = ["error", "invalid"].iter().any(|word| lower.contains(word));
            is_error.then_some(Some((EventKind::PeerMemory, None)))
        }
    };
    let (kind, device) = match found {
        Some(Some(found)) => found,
        Some(None) => return Judgement::Harmless,
        None => return Judgement::Unlisted,
    };
    let device = device
        .or_else(|| source_of_error(&message))
        .or_else(|| message.device.clone());
    device.map_or(Judgement::Unknown, |device| {
        Judgement::Event(Report {
            kind,
            device,
            driver: message.driver.to_owned(),
        })
    })
}

/// What an adapter's driver reports, with the function if the text names it; `Some(None)` is harmless.
#[expect(
    clippy::option_option,
    reason = "not known, known and harmless, or known with a meaning"
)]
fn of_adapter(
    message: &Message<'_>,
    lower: &str,
    level: Option<u8>,
) -> Option<Option<(EventKind, Option<Device>)>> {
    // PCIe errors, which the PCI core reports in the name of the driver.
    if let Some(kind) = of_pci(lower) {
        return Some(kind.map(|kind| (kind, None)));
    }
    let is_error = || {
        level
            .is_some_and(|level| level <= ERROR)
            .then_some(Some(EventKind::DriverError))
    };
    let found = of_core(message, lower)
        .or_else(|| ADAPTER.meaning(lower))
        .or_else(|| failure::state(lower));
    let kind = match found {
        // A number says more than that something failed.
        Some(Some(EventKind::DriverError)) | None => of_number(lower).map(Some).or(found),
        _ => found,
    };
    let kind = kind.or_else(is_error)?;
    // Below an error are a critical condition, an alert and an emergency, which a driver does not log for less.
    let kind = match kind {
        Some(EventKind::DriverError) if level.is_some_and(|level| level < ERROR) => {
            Some(EventKind::AdapterHealth)
        }
        // What is missing is missing for virtual functions.
        Some(EventKind::ResourceLimit) if ["sriov", "sr-iov"].iter().any(|name| lower.contains(name)) => {
            Some(EventKind::FunctionsRefused)
        }
        kind => kind,
    };
    // Drivers report the state of the adapter as a warning or worse. What they log as information may contain names and
    // texts that a process chose. Some report the state of the firmware so, with which the text begins.
    let is_information = level.is_some_and(|level| level >= INFO) && !failure::begins_with_firmware(lower);
    if kind == Some(EventKind::AdapterHealth) && is_information {
        return Some(None);
    }
    Some(kind.map(|kind| {
        let function = if kind == EventKind::ProbeFailed {
            probed(message)
        } else {
            None
        };
        (kind, function)
    }))
}

/// What the RDMA core could not set up for a device (`drivers/infiniband/core/{device,mad,agent}.c`): `infiniband ionic_0: Couldn't create ib_mad
/// QP1`, `infiniband hns_2: Couldn't open port 1`. Without it, the device is there and `rdma_cm` cannot use it.
#[expect(
    clippy::option_option,
    reason = "not known, known and harmless, or known with a meaning"
)]
fn of_core(message: &Message<'_>, lower: &str) -> Option<Option<EventKind>> {
    let rest = lower
        .strip_prefix("couldn't ")
        .filter(|_| message.driver == "infiniband")?;
    // At the end of a device.
    let ends = ["close", "drain", "destroy", "unregister"];
    let is_end = ends.iter().any(|word| rest.starts_with(word));
    let is_late = rest.ends_with(": -110") || rest.ends_with(": -62");
    let kind = if is_late {
        EventKind::CommandTimeout
    } else {
        EventKind::ProbeFailed
    };
    Some((!is_end).then_some(kind))
}

/// What a failed command of a driver reports by its error number: `Failed to allocate pd[-62]`, `create qp: failed on rdma create qp, rc =
/// -12`. ENOMEM is a limit of the device, and ETIME and ETIMEDOUT are what drivers return for a command without an answer.
fn of_number(lower: &str) -> Option<EventKind> {
    const COMMANDS: [&str; 10] = [
        "command", "cmd", "admin", "alloc", "create", "modify", "register", "reg_mr", "post", "opcode",
    ];
    // The queue is full, which costs the adapter nothing.
    if ["post_recv", "post_send"].iter().any(|call| lower.contains(call)) {
        return None;
    }
    let (_, rest) = lower.split_once("fail")?;
    let has_number = |number: &str| {
        rest.match_indices(number).any(|(at, _)| {
            let begins = rest[..at].ends_with([' ', '[', '(', '=', ':']);
            begins && !rest[at + number.len()..].starts_with(|c: char| c.is_ascii_alphanumeric())
        })
    };
    if has_number("-12") {
        return (creates(lower) && !is_of_host_memory(lower)).then_some(EventKind::ResourceLimit);
    }
    let is_command = COMMANDS.iter().any(|word| lower.contains(word));
    let is_late = is_command && (has_number("-62") || has_number("-110"));
    is_late.then_some(EventKind::CommandTimeout)
}

/// Whether a driver makes an object of the adapter, and does not end, read or write one: only a new object needs room.
fn creates(lower: &str) -> bool {
    const MADE: [&str; 13] = [
        "alloc", "create", "creating", "creation", "register", "regist", "add", "attach", "open", "init",
        "setup", "enable", "map",
    ];
    const ENDED: [&str; 9] = [
        "destroy",
        "dealloc",
        "deallocate",
        "deregister",
        "dereg",
        "unregister",
        "unmap",
        "free",
        "release",
    ];
    const VALUES: [&str; 4] = ["read", "write", "query", "get"];
    let mut words = lower
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    let begins = |word: &str, of: &[&str]| of.iter().any(|stem| word.starts_with(stem));
    // `REG_MR failed`.
    let makes = |word: &str| word == "reg" || begins(word, &MADE);
    // The first verb counts: `failed to read the register`.
    words
        .find(|word| makes(word) || begins(word, &ENDED) || VALUES.contains(word))
        .is_none_or(makes)
}

/// The function in `probe of 0000:14:00.0 failed with error -12`, or a part of one on the auxiliary bus: `probe of mlx5_core.rdma.3 failed`.
fn probed(message: &Message<'_>) -> Option<Device> {
    let (_, rest) = message.text.split_once("probe of ")?;
    let name = rest.split(' ').next()?;
    let is_part = || name.contains('.') && is_adapter(name);
    pci(name).or_else(|| is_part().then(|| named(name)).flatten())
}

#[expect(
    clippy::option_option,
    reason = "not known, known and harmless, or known with a meaning"
)]
fn of_pci(lower: &str) -> Option<Option<EventKind>> {
    PCI.meaning(lower)
}

/// The function behind the PCIe port that reports an error: `error message received from 0000:14:00.0`, `error received:
/// 0000:14:00.0`.
fn source_of_error(message: &Message<'_>) -> Option<Device> {
    if !matches!(message.driver, "pcieport" | "pci") {
        return None;
    }
    let labels = ["received from ", "error received: "];
    let rest = labels.iter().find_map(|label| message.text.split_once(label));
    let (_, rest) = rest?;
    pci(rest.split([' ', ',']).next()?)
}

/// The event and its device in a message of an IOMMU driver.
fn of_iommu(message: &Message<'_>) -> Option<(EventKind, Option<Device>)> {
    let text = message.text;
    let device = match message.driver {
        "DMAR" if text.contains("Request device") => in_brackets(text)?,
        _ if text.contains("Event logged [") => match &message.device {
            Some(device) => device.clone(),
            None => pci(after(text, "device=")?)?,
        },
        driver if driver.starts_with("arm-smmu") => of_smmu(text)?,
        _ => return None,
    };
    Some((EventKind::IommuFault, Some(device)))
}

/// The function in `[DMA Read NO_PASID] Request device [18:00.0] fault addr …`.
fn in_brackets(text: &str) -> Option<Device> {
    let (_, rest) = text.split_once("Request device [")?;
    pci(rest.split(']').next()?)
}

/// The device of an event of an Arm SMMU: `event: F_TRANSLATION client: 0000:01:00.0 sid: 0x100 …` since Linux 6.14; before, the
/// first word of the event in hexadecimal: the stream above an event from 0x10 (`F_TRANSLATION`) to 0x13 (`F_PERMISSION`). Version
/// 2 of the SMMU logs `Unhandled context fault: … cbfrsynra=0x401 …`.
fn of_smmu(text: &str) -> Option<Device> {
    if text.starts_with("event: F_") {
        return pci(after(text, "client: ")?).or_else(|| stream(after(text, "sid: ")?));
    }
    if text.contains("context fault") {
        return stream(after(text, "cbfrsynra=")?);
    }
    let (high, low) = text.trim().strip_prefix("0x")?.split_at_checked(8)?;
    let event = low.trim_start().trim_start_matches("0x");
    let id = u32::from_str_radix(event, 16).ok()?;
    let stream = u32::from_str_radix(high, 16).ok()?;
    // Other words of an event, such as an address, have no such event in their lower half, or no stream above it.
    ((0x10..=0x13).contains(&id) && stream != 0).then_some(Device::Stream(stream))
}

fn stream(text: &str) -> Option<Device> {
    let digits = text.strip_prefix("0x")?;
    u32::from_str_radix(digits, 16).ok().map(Device::Stream)
}

/// The word after a label, without the punctuation that ends it.
fn after<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(label)?;
    rest.split([' ', ',', ']']).next()
}

#[cfg(test)]
mod tests;
