//! What the drivers of GPUs report.
//!
//! NVIDIA's driver numbers its messages (Xid; for `NVSwitches` `SXid`). What a number means and whether the GPU must be reset is in
//! NVIDIA's "Xid Errors" and its Xid catalogue. The phrases of amdgpu are those of `amdgpu_device.c`, `amdgpu_ras.c` and
//! `amdgpu_xgmi.c`.

use std::sync::LazyLock;

use crate::{
    event::{Device, EventClass, EventKind},
    origin::{Message, Writer, is_address},
    table::Table,
};

/// A numbered message: the number, what it means, and what it says about the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Xid {
    /// The number.
    pub number: u16,
    /// What it means.
    pub meaning: &'static str,
    /// The kind of event.
    pub kind: EventKind,
}

/// The numbers that data centres see. Of a number that is not here, only that it was logged is known.
const XIDS: &[Xid] = {
    use EventKind::{GpuError, GpuFailed, GpuLinkError};
    const fn xid(number: u16, meaning: &'static str, kind: EventKind) -> Xid {
        Xid {
            number,
            meaning,
            kind,
        }
    }
    &[
        xid(
            13,
            "an exception in a program on the GPU, usually an error of the application",
            GpuError,
        ),
        xid(
            31,
            "a page fault on the GPU, usually an illegal access of the application",
            GpuError,
        ),
        xid(32, "an invalid or corrupted stream of commands", GpuError),
        xid(
            43,
            "the GPU stopped processing of one application after a fault of that application",
            GpuError,
        ),
        xid(
            45,
            "the GPU ended the work of an application, after another error or because it was stopped",
            GpuError,
        ),
        xid(48, "an uncorrectable ECC error in GPU memory", GpuFailed),
        xid(
            61,
            "an internal micro-controller was stopped by a breakpoint or warning",
            GpuError,
        ),
        xid(
            62,
            "an internal micro-controller of the GPU halted: the GPU must be reset",
            GpuFailed,
        ),
        xid(
            63,
            "a page or row of GPU memory was retired or remapped; it takes effect at the next reset",
            GpuError,
        ),
        xid(
            64,
            "a page or row of GPU memory could not be retired or remapped: the GPU must be reset",
            GpuFailed,
        ),
        xid(68, "an exception in the video processor", GpuError),
        xid(69, "an exception in a graphics engine class", GpuError),
        xid(74, "an error of an NVLink connection", GpuLinkError),
        xid(
            79,
            "the GPU has fallen off the bus: it no longer answers over PCIe",
            GpuFailed,
        ),
        xid(92, "a high rate of corrected ECC errors", GpuError),
        xid(
            94,
            "a contained ECC error: only the application that used the memory ends",
            GpuError,
        ),
        xid(
            95,
            "an uncontained ECC error: every application on the GPU is affected and the GPU must be reset",
            GpuFailed,
        ),
        xid(109, "a context switch on the GPU timed out", GpuError),
        xid(
            119,
            "the GPU's system processor (GSP) did not answer the driver in time",
            GpuFailed,
        ),
        xid(120, "an error of the GPU's system processor (GSP)", GpuFailed),
        xid(
            121,
            "a corrected error of the chip-to-chip NVLink of the GPU and its CPU",
            GpuError,
        ),
        xid(137, "an access of a peer GPU over NVLink was refused", GpuError),
        xid(140, "an ECC error from which the GPU did not recover", GpuFailed),
        xid(143, "the GPU could not be initialised", GpuFailed),
        xid(144, "an error of an NVLink connection (SAW)", GpuLinkError),
        xid(145, "an error of an NVLink connection (RLW)", GpuLinkError),
        xid(146, "an error of an NVLink connection (TLW)", GpuLinkError),
        xid(147, "an error of an NVLink connection (TREX)", GpuLinkError),
        xid(148, "an error of an NVLink connection (NVLPW_CTRL)", GpuLinkError),
        xid(149, "an error of an NVLink connection (NETIR)", GpuLinkError),
        xid(150, "an error of an NVLink connection (MSE)", GpuLinkError),
        xid(
            154,
            "the driver changed what it asks for to recover the GPU",
            GpuError,
        ),
        xid(
            155,
            "an error of an NVLink connection that software defines",
            GpuLinkError,
        ),
        xid(158, "a fatal timeout of the GPU", GpuFailed),
    ]
};

/// What a number of NVIDIA's driver means; `None` if it is not known here.
pub fn xid(number: u16) -> Option<&'static Xid> {
    XIDS.iter().find(|xid| xid.number == number)
}

/// `NVRM: Xid (PCI:0000:18:00): 79, …`, `NVRM: GPU 0000:18:00.0: …`, `nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12028, …`,
/// `amdgpu 0000:43:00.0: …`.
pub(super) fn message(text: &str) -> Option<Message<'_>> {
    let of = |driver, address: &str, text| {
        Some(Message {
            writer: Writer::Gpu,
            driver,
            device: Some(function(address)?),
            text,
        })
    };
    if let Some(rest) = text.strip_prefix("NVRM: ") {
        if let Some((address, _)) = rest
            .strip_prefix("Xid (PCI:")
            .and_then(|rest| rest.split_once("): "))
        {
            return of("NVRM", address, rest);
        }
        if let Some((address, rest)) = rest.strip_prefix("GPU ").and_then(|rest| rest.split_once(": ")) {
            return of("NVRM", address, rest);
        }
        // One record, in which the kernel writes line breaks as `\x0a`.
        if let Some((address, rest)) = rest
            .strip_prefix("The NVIDIA GPU ")
            .and_then(|rest| rest.split_at_checked(rest.find([' ', '\\'])?))
        {
            return of("NVRM", address, rest);
        }
        // `BAR1 is 0M @ 0x0 (PCI:0000:69:00.0)`: the firmware of the machine left no address range for it.
        if let Some((_, address)) = rest
            .strip_prefix("BAR")
            .filter(|_| is_without_range(rest))
            .and_then(|rest| rest.split_once("(PCI:"))
        {
            return of("NVRM", address.trim_end().trim_end_matches(')'), rest);
        }
        // The driver's own checks name no GPU.
        return is_lost(text).then(|| Message {
            writer: Writer::Gpu,
            driver: "NVRM",
            device: Some(Device::Driver("nvidia".to_owned())),
            text: rest,
        });
    }
    if text.starts_with("nvidia-nvswitch") {
        let (driver, rest) = text.split_once(": ")?;
        let (address, _) = rest.strip_prefix("SXid (PCI:")?.split_once("): ")?;
        return of(driver, address, rest);
    }
    // The PCI core names the driver of the function that it could not recover.
    for driver in ["nvidia", "amdgpu"] {
        let named = text.strip_prefix(driver).and_then(|rest| rest.strip_prefix(' '));
        if let Some((address, rest)) = named.and_then(|rest| rest.split_once(": ")) {
            return of(driver, address, rest);
        }
    }
    None
}

/// The GPU about which NVIDIA's driver begins to say something in several lines: `NVRM: The NVIDIA GPU 0000:15:00.0`.
pub(super) fn begins_report(text: &str) -> Option<&str> {
    let address = text.strip_prefix("NVRM: The NVIDIA GPU ")?.trim_end();
    is_address(address).then_some(address)
}

/// Whether a line goes on with what [`begins_report`] began.
pub(super) fn goes_on(text: &str) -> bool {
    [
        "NVRM: (PCI ID: ",
        "NVRM: installed in this system",
        "NVRM: fallen off the bus",
    ]
    .iter()
    .any(|begin| text.starts_with(begin))
}

/// Whether the driver says that a GPU is not there any more. The phrases are longer than the name of a process.
pub(super) fn is_lost(text: &str) -> bool {
    [
        "fallen off the bus",
        "GPU lost from the bus",
        "[NV_ERR_GPU_IS_LOST]",
    ]
    .iter()
    .any(|phrase| text.contains(phrase))
}

/// The message of a GPU that is not there any more, in one line.
pub(super) fn lost(address: &str) -> String {
    format!("NVRM: GPU {address}: GPU has fallen off the bus and is not responding to commands.")
}

/// Whether NVIDIA's driver says that a GPU has no address range (BAR) for its memory.
pub(super) fn is_without_range(text: &str) -> bool {
    text.starts_with("BAR") && text.contains(" is 0M @ 0x0 ")
}

/// The function of a GPU. NVIDIA's driver leaves out the number of the function, which is 0.
fn function(address: &str) -> Option<Device> {
    let mut whole = address.to_ascii_lowercase();
    if !address.contains('.') {
        whole.push_str(".0");
    }
    is_address(&whole).then_some(Device::Pci(whole))
}

/// What a message reports; `Some(None)` is harmless.
#[expect(
    clippy::option_option,
    reason = "not known, known and harmless, or known with a meaning"
)]
pub(super) fn meaning(message: &Message<'_>, lower: &str) -> Option<Option<EventKind>> {
    if message.text.starts_with("Xid (") {
        return Some(Some(of_xid(message.text)?));
    }
    if message.text.starts_with("SXid (") {
        let (_, rest) = lower.split_once("): ")?;
        // The severity follows the number.
        let severity = rest.split(", ").nth(1)?;
        return Some(Some(match severity {
            "fatal" => EventKind::GpuLinkError,
            _ => EventKind::GpuError,
        }));
    }
    if message.driver == "NVRM" {
        let is_failed = ["rminitadapter failed", "gpu is lost"]
            .iter()
            .any(|phrase| lower.starts_with(phrase) || lower.contains(&format!(" {phrase}")));
        let is_failed = is_failed || is_lost(message.text) || is_without_range(message.text);
        return is_failed.then_some(Some(EventKind::GpuFailed));
    }
    AMD.meaning(lower)
}

/// The kind of a message with a number. What follows the number contains the name of a process, which its owner chooses.
fn of_xid(text: &str) -> Option<EventKind> {
    let (_, rest) = text.split_once("): ")?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let number: u16 = rest[..digits].parse().ok()?;
    // The end of an application's work, for an error that the driver had no time to log. This, too, is longer than the name of a process.
    if let Some(cause) = previous(rest)
        && cause.kind.class() == EventClass::Fault
    {
        return Some(cause.kind);
    }
    if number == 154 {
        // `… GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)`: longer than the name of a process.
        let (_, change) = rest.rsplit_once("GPU recovery action changed from ")?;
        return Some(match change.split_once(" to ")?.1 {
            now if now.starts_with("0x0") => EventKind::Started,
            now if now.contains("Required") => EventKind::GpuFailed,
            _ => EventKind::GpuError,
        });
    }
    Some(xid(number).map_or(EventKind::GpuError, |xid| xid.kind))
}

/// The number that a message names as its cause: `45, pid=1, name=x, Ch 00000001 caused by previous Xid 149`.
fn previous(text: &str) -> Option<&'static Xid> {
    let (_, rest) = text.rsplit_once("caused by previous Xid ")?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    xid(rest[..digits].parse().ok()?)
}

/// Phrases of amdgpu. The first match counts; `None` is harmless.
static AMD: LazyLock<Table> = LazyLock::new(|| {
    use EventKind::{GpuError, GpuFailed, GpuLinkError, Started};
    Table::new(&[
        (&["gpu reset", "succe"], Some(Started)),
        (&["ring", "reset succe"], Some(Started)),
        (&["recovered through reset"], Some(Started)),
        (&["gpu reset begin"], Some(GpuFailed)),
        (&["gpu reset", "fail"], Some(GpuFailed)),
        (&["gpu recovery failed"], Some(GpuFailed)),
        (&["asic reset failed"], Some(GpuFailed)),
        (&["device lost from bus"], Some(GpuFailed)),
        (&[" 0 uncorrectable hardware error"], None),
        (&["uncorrectable hardware error"], Some(GpuFailed)),
        (&["uncorrectable error"], Some(GpuFailed)),
        (&["fatal error"], Some(GpuFailed)),
        (&["xgmi", "error"], Some(GpuLinkError)),
        (&["deferred hardware error"], Some(GpuError)),
        // Corrected, and counted in sysfs.
        (&["correctable hardware error"], None),
        (&["ring", "timeout"], Some(GpuError)),
        (&["page fault"], Some(GpuError)),
    ])
});
