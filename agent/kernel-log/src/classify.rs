//! What a message of the kernel log reports.
//!
//! The phrases are those of mlx5 (`drivers/net/ethernet/mellanox/mlx5/core/{health,cmd,events,main}.c`), bnxt (`bnxt.c`,
//! `bnxt_re/qplib_rcfw.c`), irdma and ice, efa (`efa_com.c`), the PCI core (`pcie/aer.c`, `pcie/dpc.c`, `hotplug/pciehp_ctrl.c`),
//! the driver core (`dd.c`) and the IOMMU drivers (`intel/dmar.c`, `amd/iommu.c`, `arm-smmu-v3.c`). They are looked for without
//! regard to case and apply to the adapters of every vendor: drivers change their wording and share their vocabulary.

use crate::{
    denial,
    event::{Device, EventKind},
    failure, gpu,
    host_memory::is_of_host_memory,
    modules,
    origin::{Message, Writer, is_adapter, named, pci},
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

/// A row of a table: parts that occur in this order, and what they mean; `None` is harmless.
pub(super) type Row = (&'static [&'static str], Option<EventKind>);

/// The meaning of the first row that matches; `None` if none does.
#[expect(
    clippy::option_option,
    reason = "not known, known and harmless, or known with a meaning"
)]
pub(super) fn meaning(rows: &[Row], lower: &str) -> Option<Option<EventKind>> {
    let found = rows.iter().find(|(parts, _)| in_order(lower, parts));
    found.map(|(_, kind)| *kind)
}

/// Phrases of adapter drivers, all parts of which occur in this order, and their meaning. The first match counts; `None` is
/// harmless.
const ADAPTER: &[Row] = {
    use EventKind::{
        AdapterHealth, AdapterTemperature, BounceFull, CommandTimeout, DriverError, FirmwareInit, LinkDown,
        LinkUp, ModuleFault, ModulePlugged, ModuleUnplugged, PciFatal, PciPower, ProbeFailed, ResourceLimit,
        Started, TxTimeout,
    };
    &[
        // The name is chosen by who renames the network device, which may be a pod.
        (&["renamed from"], None),
        // Port module events: a state, and for an error its reason.
        (&["port module event", "cable unplugged"], Some(ModuleUnplugged)),
        (&["port module event", "cable plugged"], Some(ModulePlugged)),
        (&["port module event", "power on the pcie slot"], Some(PciPower)),
        (&["port module event"], Some(ModuleFault)),
        (&["unqualified", "module"], Some(ModuleFault)),
        (&["unsupported", "module"], Some(ModuleFault)),
        (&["module", "power budget"], Some(ModuleFault)),
        // Bounce buffers (`kernel/dma/swiotlb.c`; before Linux 4.20, `lib/swiotlb.c`).
        (&["swiotlb buffer is full"], Some(BounceFull)),
        (&["out of sw-iommu space"], Some(BounceFull)),
        (&["insufficient power"], Some(PciPower)),
        (&["pcie slot advertised"], None),
        (&["high temp"], Some(AdapterTemperature)),
        (&["temp_warn"], Some(AdapterTemperature)),
        (&["temperature too high"], Some(AdapterTemperature)),
        (&["critical temperature"], Some(AdapterTemperature)),
        (&["temp warn"], Some(AdapterTemperature)),
        (&["temperature", "exceed"], Some(AdapterTemperature)),
        (&["temperature", "threshold"], Some(AdapterTemperature)),
        (&["over temperature"], Some(AdapterTemperature)),
        (&["overheat"], Some(AdapterTemperature)),
        (&["thermal", "critical"], Some(AdapterTemperature)),
        (&["tx timeout"], Some(TxTimeout)),
        (&["tx_timeout"], Some(TxTimeout)),
        (&["tx hang"], Some(TxTimeout)),
        (&["rx timeout on channel"], Some(TxTimeout)),
        (&["transmit queue", "timed out"], Some(TxTimeout)),
        // The end of a fault.
        (&["recovery succeeded"], Some(Started)),
        (&["recovery success"], Some(Started)),
        (&["recovery done"], Some(Started)),
        (&["recovery complete"], Some(Started)),
        (&["pci_resume", "exit, err = 0"], Some(Started)),
        (&["firmware version:"], Some(Started)),
        (&["ib device registered"], Some(Started)),
        // What mlx5 uses to look into its firmware, and does without.
        (&["fw tracer"], None),
        (&["fwtracer"], None),
        (&["resource dump"], None),
        (&["failed to create", "reporter"], None),
        (&["can't read pending fw version"], None),
        // The memory of a module was read, and the cage is empty.
        (&["query_mcia_reg failed: status: 0x3"], None),
        // Start-up.
        (&["initializing state, aborting"], Some(FirmwareInit)),
        (&["failed initializing command interface"], Some(FirmwareInit)),
        (&["abort com init"], Some(FirmwareInit)),
        (&["enable hca failed"], Some(FirmwareInit)),
        (&["hardware initialization failed"], Some(FirmwareInit)),
        (&["firmware", "init", "failed"], Some(FirmwareInit)),
        (&["failed to init", "firmware"], Some(FirmwareInit)),
        // mlx4.
        (&["failed to init fw"], Some(FirmwareInit)),
        (&["failed to start fw"], Some(FirmwareInit)),
        (&["init_hca", "failed, aborting"], Some(FirmwareInit)),
        (&["query_fw", "failed, aborting"], Some(FirmwareInit)),
        (&["fw", "not ready"], Some(FirmwareInit)),
        (&["failed to establish hwc"], Some(FirmwareInit)),
        // A file that the driver loads into the adapter. cxgb4 starts without its own ("unable to load firmware image").
        (&["unable to", "working firmware"], Some(FirmwareInit)),
        (&["failed to find", "fw file"], Some(FirmwareInit)),
        (&["failed to find", "firmware file"], Some(FirmwareInit)),
        (&["cannot find firmware"], Some(FirmwareInit)),
        (&["failed to request", "firmware"], Some(FirmwareInit)),
        // ice without its package has no RDMA.
        (&["safe mode"], Some(FirmwareInit)),
        // The driver core asks again later (EPROBE_DEFER).
        (&["probe", "failed with error -517"], None),
        (&["probe", "failed"], Some(ProbeFailed)),
        (&["failed to probe"], Some(ProbeFailed)),
        (&["missing registers bar"], Some(ProbeFailed)),
        (&["init_one failed"], Some(ProbeFailed)),
        (&["load_one failed"], Some(ProbeFailed)),
        // mlx5: the firmware refuses what the driver wants to set.
        (&["handle_hca_cap", "failed"], Some(ProbeFailed)),
        (&["set_hca_cap", "failed"], Some(ProbeFailed)),
        (&["set_hca_ctrl", "failed"], Some(ProbeFailed)),
        (&["failed to load the driver"], Some(ProbeFailed)),
        // mlx4 and mthca say so at the end of what stops their start.
        (&["returned status 0x", ", aborting"], Some(ProbeFailed)),
        (&["sys_en ddr error"], Some(ProbeFailed)),
        (&["failed to register", "device"], Some(ProbeFailed)),
        (&["failed to add interface"], Some(ProbeFailed)),
        // What an adapter offers no more or not yet.
        (&["firmware recovery mode"], Some(AdapterHealth)),
        (&["may trigger hung task watchdog"], None),
        (&["failed to read vpd"], None),
        (&["unable to read vpd"], None),
        // A command that the firmware does not have (`HWRM_ERR_CODE_CMD_NOT_SUPPORTED`): the driver tries without.
        (&["hwrm req_type", "error 0xffff"], None),
        (&["due to firmware status:"], Some(AdapterHealth)),
        // A reset that the driver itself requested.
        (&["non-fatal"], None),
        // PCIe errors as the driver sees them.
        (&["pci_err_detected"], Some(PciFatal)),
        (&["pci error", "detected"], Some(PciFatal)),
        (&["pci channel", "fail"], Some(PciFatal)),
        (&["device", "removed", "unexpected"], Some(PciFatal)),
        (&["surprise", "remov"], Some(PciFatal)),
        // Commands to the firmware.
        (&["request timed out"], Some(CommandTimeout)),
        (&["failed to respond to command"], Some(CommandTimeout)),
        (&["transmit timeout"], Some(TxTimeout)),
        (&["will cause a leak of a command resource"], Some(CommandTimeout)),
        (&["canceled on out of queue timeout"], Some(CommandTimeout)),
        (&["no done completion"], Some(CommandTimeout)),
        (&["didn't send any completion"], Some(CommandTimeout)),
        (&["wait for completion", "timeout"], Some(CommandTimeout)),
        (&["cmdq", "timedout"], Some(CommandTimeout)),
        (&["cmd", "timed out"], Some(CommandTimeout)),
        (&["cmd", "timeout"], Some(CommandTimeout)),
        (&["command", "timed out"], Some(CommandTimeout)),
        (&["command", "timeout"], Some(CommandTimeout)),
        (&["error (timeout"], Some(CommandTimeout)),
        (&["hwrm", "timeout"], Some(CommandTimeout)),
        (&["cqp", "timeout"], Some(CommandTimeout)),
        (&["cqp", "timed out"], Some(CommandTimeout)),
        (&["mailbox", "timeout"], Some(CommandTimeout)),
        (&["mailbox", "timed out"], Some(CommandTimeout)),
        // Refused commands. A function whose firmware restricts registers logs one with each read.
        (&["limits exceeded"], Some(ResourceLimit)),
        (&["no resources"], Some(ResourceLimit)),
        (&["no cid available"], Some(ResourceLimit)),
        // Filters of Ethernet.
        (&["not enough", "resources", "ntuple"], None),
        (&["not enough", "resources"], Some(ResourceLimit)),
        (&["not enough", "vectors"], Some(ResourceLimit)),
        (&["no free", "msi-x"], Some(ResourceLimit)),
        (&["failed to allocate", "mtt"], Some(ResourceLimit)),
        (&["failed to allocate", "mpt"], Some(ResourceLimit)),
        (&["failed to allocate", "icm"], Some(ResourceLimit)),
        (&["failed to allocate", "mkey"], Some(ResourceLimit)),
        (&["failed to allocate", "pbl"], Some(ResourceLimit)),
        (&["failed to allocate", "doorbell"], Some(ResourceLimit)),
        (&["failed to alloc", "uar"], Some(ResourceLimit)),
        (&["uar alloc failed"], Some(ResourceLimit)),
        // What an adapter cannot do, or is not configured for.
        (&["rdma is not supported on this device"], None),
        (&["not rdma capable"], None),
        (&["does not support rdma"], None),
        // Nothing depends on what a query or the end of an object returns.
        (&["access_reg", "failed, status"], None),
        (&["query_", "failed, status"], None),
        (&["destroy_", "failed, status"], None),
        (&["dealloc_", "failed, status"], None),
        (&["failed, status"], Some(DriverError)),
        // A queue that was put into the error state, which the adapter calls a catastrophe of that queue.
        (&["work queue catastrophic"], Some(DriverError)),
        (&["work queue", "error"], Some(DriverError)),
        // The adapter and its firmware.
        (&["health issue observed", "severity", "info:"], None),
        (&["health issue observed", "severity", "notice:"], None),
        (&["health issue observed", "severity", "debug:"], None),
        (&["health issue observed"], Some(AdapterHealth)),
        (&["health compromised"], Some(AdapterHealth)),
        (&["health recovery failed"], Some(AdapterHealth)),
        (&["recovery failed"], Some(AdapterHealth)),
        (&["recovery", "aborted"], Some(AdapterHealth)),
        (&["pci reads still not working"], Some(AdapterHealth)),
        (&["failed to recover"], Some(AdapterHealth)),
        (&["handling bad device"], Some(AdapterHealth)),
        (&["assert_exit_ptr 0x00000000"], None),
        (&["assert_exit_ptr"], Some(AdapterHealth)),
        (&["synd 0x0:"], None),
        (&["synd 0x", ": "], Some(AdapterHealth)),
        // A queue of the management of the fabric.
        (&["fatal error", "mad qp"], Some(DriverError)),
        (&["fatal"], Some(AdapterHealth)),
        (&["aeq", "overflow"], Some(AdapterHealth)),
        (&["ceq overflow"], Some(AdapterHealth)),
        (&["hmc error"], Some(AdapterHealth)),
        (&["critical pe error"], Some(AdapterHealth)),
        (&["parity error"], Some(AdapterHealth)),
        (&["freeze state entered"], Some(AdapterHealth)),
        (&["exit", "spc freeze"], None),
        (&["spc freeze"], Some(AdapterHealth)),
        (&["sdma engine", "halted"], Some(AdapterHealth)),
        (&["fw stuck"], Some(AdapterHealth)),
        (&["mqe timeout"], Some(CommandTimeout)),
        (&["unrecoverable"], Some(AdapterHealth)),
        (&["catastrophic"], Some(AdapterHealth)),
        (&["critical error"], Some(AdapterHealth)),
        // mlx4 could not map where the adapter would report one.
        (&["failed to map internal error"], None),
        (&["internal error"], Some(AdapterHealth)),
        (&["hardware error"], Some(AdapterHealth)),
        (&["not responding"], Some(AdapterHealth)),
        (&["unable to respond"], Some(AdapterHealth)),
        (&["not respond"], Some(AdapterHealth)),
        (&["heartbeat", "lost"], Some(AdapterHealth)),
        (&["heartbeat", "miss"], Some(AdapterHealth)),
        (&["keep alive watchdog timeout"], Some(AdapterHealth)),
        (&["request", "a reset"], Some(AdapterHealth)),
        (&["reset indication didn't turn"], Some(AdapterHealth)),
        (&["device isn't ready"], Some(AdapterHealth)),
        (&["admin queue is closed"], Some(AdapterHealth)),
        (&["firmware", "crash"], Some(AdapterHealth)),
        (&["firmware", "hang"], Some(AdapterHealth)),
        (&["firmware", "stall"], Some(AdapterHealth)),
        (&["fw stall"], Some(AdapterHealth)),
        (&["fw hang"], Some(AdapterHealth)),
        (&["fw crash"], Some(AdapterHealth)),
        (&["heartbeat", "stall"], Some(AdapterHealth)),
        (&["heartbeat", "fail"], Some(AdapterHealth)),
        (&["firmware", "stuck"], Some(AdapterHealth)),
        (&["abnormal ae"], Some(DriverError)),
        (&["ae qpid"], Some(DriverError)),
        (&["qp event"], Some(DriverError)),
        (&["catas error"], Some(DriverError)),
        (&["catast error"], Some(DriverError)),
        (&["tid_timeout"], Some(TxTimeout)),
        (&["multicast join failed"], Some(DriverError)),
        (&["failed to initialize port"], Some(DriverError)),
        (&["sriov", "failed"], Some(DriverError)),
        (&["process_aeq", "ae "], Some(DriverError)),
        // Slingshot.
        (&["event_link_down"], Some(LinkDown)),
        (&["event_link_up"], Some(LinkUp)),
        (&["new offline"], Some(LinkDown)),
        // hfi1: the two ends could not agree on the link (LNI).
        (&["link up error"], Some(LinkDown)),
        (&["lni failure"], Some(LinkDown)),
        (&["link down"], Some(LinkDown)),
        (&["link is down"], Some(LinkDown)),
        (&["link up"], Some(LinkUp)),
        (&["link is up"], Some(LinkUp)),
    ]
};

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
        .or_else(|| meaning(ADAPTER, lower))
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
        return (!is_of_host_memory(lower)).then_some(EventKind::ResourceLimit);
    }
    let is_command = COMMANDS.iter().any(|word| lower.contains(word));
    let is_late = is_command && (has_number("-62") || has_number("-110"));
    is_late.then_some(EventKind::CommandTimeout)
}

/// The function in `probe of 0000:14:00.0 failed with error -12`, or a part of one on the auxiliary bus: `probe of mlx5_core.rdma.3 failed`.
fn probed(message: &Message<'_>) -> Option<Device> {
    let (_, rest) = message.text.split_once("probe of ")?;
    let name = rest.split(' ').next()?;
    let is_part = || name.contains('.') && is_adapter(name);
    pci(name).or_else(|| is_part().then(|| named(name)).flatten())
}

/// Phrases about PCIe errors and lost functions. `None` is harmless.
const PCI: &[Row] = {
    use EventKind::{PciFatal, PciNonfatal, Started};
    &[
        // A corrected error; counted in sysfs.
        (&["aer: correct"], None),
        (&["aer: multiple correct"], None),
        (&["pcie bus error: severity=correct"], None),
        (&["aer: uncorrect", "(non-fatal)"], Some(PciNonfatal)),
        (&["aer: multiple uncorrect", "(non-fatal)"], Some(PciNonfatal)),
        (
            &["pcie bus error: severity=uncorrect", "(non-fatal)"],
            Some(PciNonfatal),
        ),
        (&["aer: uncorrect", "(fatal)"], Some(PciFatal)),
        (&["aer: multiple uncorrect", "(fatal)"], Some(PciFatal)),
        (&["pcie bus error: severity=uncorrect"], Some(PciFatal)),
        (&["aer: can't recover"], Some(PciFatal)),
        (&["aer: device recovery successful"], Some(Started)),
        (&["aer: device recovery failed"], Some(PciFatal)),
        // How severe an uncorrectable error of firmware-first handling is; corrected ones have no such line.
        (&["aer_uncor_severity"], Some(PciNonfatal)),
        (&["aer: subordinate device reset failed"], Some(PciFatal)),
        (&["dpc: containment event"], Some(PciFatal)),
        (&["dpc: err_fatal"], Some(PciFatal)),
        (&["edr: edr event received"], Some(PciFatal)),
        (&["pciehp: slot", "link down"], Some(PciFatal)),
        (&["pciehp: slot", "card not present"], Some(PciFatal)),
        (&["pciehp: slot", "power fault"], Some(PciFatal)),
        (&["device inaccessible"], Some(PciFatal)),
        (&["config space inaccessible"], Some(PciFatal)),
        (&["not ready", "after", "giving up"], Some(PciFatal)),
        // Power: the kernel reports an error to the driver, and how it ended.
        (&["invoking", "->error_detected("], Some(PciFatal)),
        (&["driver reports", "disconnect"], Some(PciFatal)),
        (&["invoking", "->resume("], Some(Started)),
    ]
};

#[expect(
    clippy::option_option,
    reason = "not known, known and harmless, or known with a meaning"
)]
fn of_pci(lower: &str) -> Option<Option<EventKind>> {
    meaning(PCI, lower)
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

/// Whether the text contains these parts in this order.
fn in_order(text: &str, parts: &[&str]) -> bool {
    let mut rest = text;
    parts.iter().all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

#[cfg(test)]
mod tests;
