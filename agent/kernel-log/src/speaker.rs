//! Who speaks in a line of the kernel log.
//!
//! The kernel logs what a driver says of its device, and also what a user did: the name and number of a process that
//! crashed, the path of its program, the command line of the boot. Only the former is kept, by how the line begins.

use crate::origin::{Message, is_adapter};

/// What speaks of IOMMU, PCIe, RDMA devices and GPUs, besides the drivers of [`is_adapter`]. Each is the first word of its lines, followed
/// by `:` or a space. An entry that ends in `*` is a prefix.
const SPEAKERS: &str = "\
    ACPI AER AMD-Vi AMD DMAR DMAR-IR EDAC EEH Memory NVRM Neighbour PCI amdgpu amdkfd arm-smmu arm-smmu-v3 auxiliary cx7-pcie-hotplug \
    efa_nv_peermem gdrdrv hns_roce* iommu ib_* infiniband iw_* kfd mlx4_* mlx5_* mlx_compat mlxfw neighbour nv_peer_mem nvidia nvidia-* \
    nvidia_* pci pci_bus pcieport pciehp rdma_* rdmavt rxe* siw* vfio-pci vfio_pci x86/tme";

/// What the kernel says when it refuses a module because of its signature (`kernel/module/signing.c`): no driver says it.
const REFUSED_MODULES: [&str; 3] = [
    "Loading of unsigned module is rejected",
    "Loading of module with unsupported crypto is rejected",
    "Loading of module with unavailable key is rejected",
];

/// The longest name of a process in bytes (`TASK_COMM_LEN`, less the final zero).
pub(super) const MAX_COMM: usize = 15;

/// The text without what tools write before it. `dmesg`: priority (`<3>`), facility with level (`kern  :err   :`), time (`[    0.301]`,
/// `[Fri Nov 21 10:00:00 2026]`, `2026-11-21T10:00:00,123456+00:00`) and caller (`[T17]`). The journal: time, host and `kernel:`.
pub(crate) fn without_time(line: &str) -> &str {
    let mut rest = without_priority(line.trim_start()).1;
    if let Some((level, text)) = rest.strip_prefix("kern").and_then(|rest| {
        let (_, rest) = rest
            .split_once(':')
            .filter(|(space, _)| space.trim().is_empty())?;
        rest.split_once(':')
    }) && level.trim().bytes().all(|b| b.is_ascii_lowercase())
    {
        rest = text.trim_start();
    }
    // rsyslog keeps the time of the kernel in brackets after the name.
    rest = after_host(rest).unwrap_or(rest);
    if let Some((time, text)) = rest.split_once(' ')
        && is_iso_time(time)
    {
        rest = text.trim_start();
    }
    while let Some((inner, text)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'))
        && is_time_or_caller(inner.trim())
    {
        rest = text.trim_start();
    }
    rest.strip_prefix("kernel: ").unwrap_or(rest)
}

/// The priority that `dmesg --raw` and a serial console write before a line (`<3>`), and the rest of the line.
pub(crate) fn without_priority(line: &str) -> (Option<u32>, &str) {
    let found = line.strip_prefix('<').and_then(|rest| {
        let (number, rest) = rest.split_once('>')?;
        let is_number = (1..=4).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit());
        Some((number.parse().ok().filter(|_| is_number)?, rest))
    });
    found.map_or((None, line), |(priority, rest)| (Some(priority), rest))
}

/// The text after a time, the name of a host and `kernel:`, which the journal and syslog write before a message of the kernel.
fn after_host(line: &str) -> Option<&str> {
    /// `Fri 2026-11-27 20:10:05.123456 CEST` in another language, with room.
    const LONGEST: usize = 48;
    let (before, text) = line.split_once(" kernel: ")?;
    let (time, host) = before.rsplit_once(' ')?;
    let is_host = !host.is_empty() && host.chars().all(|c| c.is_alphanumeric() || "._-".contains(c));
    let inner = time.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_zone = |word: &str| {
        word.bytes()
            .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b"+-:".contains(&b))
    };
    let ends_with_clock = || {
        let mut words = time.split_whitespace().rev().peekable();
        words.next_if(|word| !has_clock(word) && !is_iso_time(word) && is_zone(word));
        words
            .next()
            .is_some_and(|word| has_clock(word) || is_iso_time(word))
    };
    let is_time = match inner {
        Some(inner) => is_time_or_caller(inner.trim()),
        None => is_number(time) || ends_with_clock(),
    };
    let is_plain = |c: char| c.is_alphanumeric() || " .,:+-/".contains(c);
    let is_date = inner.is_some() || time.chars().all(is_plain);
    (is_host && is_time && is_date && time.len() <= LONGEST).then_some(text)
}

/// A decimal number.
fn is_number(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit()) && text.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

/// Whether a word begins with a time of day: `20:10:05`, possibly with a fraction.
fn has_clock(word: &str) -> bool {
    let bytes = word.as_bytes();
    let is_form = |bytes: &[u8]| {
        bytes.iter().enumerate().all(|(at, byte)| match at {
            2 | 5 => *byte == b':',
            _ => byte.is_ascii_digit(),
        })
    };
    bytes.len() >= 8 && is_form(&bytes[..8]) && !bytes.get(8).is_some_and(u8::is_ascii_digit)
}

/// Whether a word is a time as ISO 8601 writes it: `2026-11-27T20:10:05,123456+00:00`.
fn is_iso_time(word: &str) -> bool {
    let Some((day, time)) = word.split_once('T') else {
        return false;
    };
    let is_day = day.len() == 10
        && day.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    is_day && has_clock(time) && time.len() <= 24
}

/// Whether the text between brackets is a time, or the caller of a message.
fn is_time_or_caller(text: &str) -> bool {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    // `dmesg --reltime` writes the minute once and then how much later a message came, `--show-delta` both.
    let is_later = || text.strip_prefix('+').is_some_and(is_number);
    let is_both = || {
        text.strip_suffix('>')
            .and_then(|text| text.split_once('<'))
            .is_some_and(|(time, later)| is_number(time.trim()) && is_number(later.trim()))
    };
    let is_minute = || {
        text.split_once(' ').is_some_and(|(day, minute)| {
            let day = MONTHS.iter().find_map(|month| day.strip_prefix(month));
            day.is_some_and(is_number)
                && minute
                    .split_once(':')
                    .is_some_and(|(hour, minute)| is_number(hour) && is_number(minute))
        })
    };
    // The names of day and month are those of the user's language.
    let is_date = || {
        let is_year = |word: &str| word.len() == 4 && is_number(word);
        text.len() <= 48
            && text.split_whitespace().any(has_clock)
            && text.split_whitespace().next_back().is_some_and(is_year)
    };
    is_number(text)
        || text.strip_prefix(['T', 'C']).is_some_and(is_number)
        || is_date()
        || is_later()
        || is_both()
        || is_minute()
}

/// Whether a driver or subsystem of [`SPEAKERS`] says the text, and not of a process.
pub fn is_known(text: &str) -> bool {
    // A hardware error of the firmware: `{1}[Hardware Error]: …`.
    if text.starts_with('{') {
        return text.contains("[Hardware Error]");
    }
    if REFUSED_MODULES.contains(&text.trim_end()) {
        return true;
    }
    // `ibdev_printk` before the device exists.
    let text = text.strip_prefix("(NULL ib_device): ").unwrap_or(text);
    let end = text.find([':', ' ']).unwrap_or(text.len());
    let first = &text[..end];
    let mut speakers = SPEAKERS.split_whitespace();
    let speaks = speakers.any(|speaker| match speaker.strip_suffix('*') {
        Some(prefix) => first.starts_with(prefix),
        None => first == speaker,
    });
    // The drivers of adapters are those whose messages are read, in each of their forms: `[qed_mcp_cmd:560(qed0)]The MFW failed …`.
    let is_of_adapter = || {
        is_adapter(first)
            || text.starts_with(['[', '<'])
                && Message::parse(text).is_some_and(|message| is_adapter(message.driver))
    };
    (speaks || is_of_adapter()) && !is_about_a_process(text)
}

/// Whether the text begins with the name of a process, which its owner chooses, and its number: `name[4711]: segfault …`,
/// `name (4711): …`.
pub(super) fn is_about_a_process(text: &str) -> bool {
    let starts = text.bytes().take(MAX_COMM + 2).enumerate();
    let mut brackets = starts.filter(|(_, byte)| matches!(byte, b'[' | b'('));
    brackets.any(|(at, _)| {
        let inner = &text.as_bytes()[at + 1..];
        let digits = inner.iter().take_while(|byte| byte.is_ascii_digit()).count();
        digits > 0 && matches!(inner.get(digits), Some(b']' | b')'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_is_heard_and_a_user_is_not() {
        for line in [
            "DMAR: [DMA Read NO_PASID] Request device [18:00.0] fault addr 0xfe000000 [fault reason 0x06] PTE",
            "[    0.301172] iommu: Default domain type: Translated",
            "[Fri Nov 21 10:00:00 2026] DMAR: IOMMU enabled",
            "kern  :err   : [ 1234.5] DMAR: IOMMU enabled",
            "[  +0.000031] DMAR: IOMMU enabled",
            "[Jan18 08:23] DMAR: IOMMU enabled",
            "[    1.234567 <    0.000031>] DMAR: IOMMU enabled",
            "[Fr Nov 27 20:10:05 2026] DMAR: IOMMU enabled",
            "[五 11月 27 20:10:05 2026] DMAR: IOMMU enabled",
            "<6>[    1.234567] DMAR: IOMMU enabled",
            "<6>DMAR: IOMMU enabled",
            "2026-11-27T20:10:05,123456+00:00 DMAR: IOMMU enabled",
            "2026-11-27T20:10:05+0000 gpu-01 kernel: DMAR: IOMMU enabled",
            "Nov 27 20:10:05 gpu-01 kernel: DMAR: IOMMU enabled",
            "Nov 27 20:10:05 gpu-01 kernel: [    1.234567] DMAR: IOMMU enabled",
            "Fri 2026-11-27 20:10:05 CEST gpu-01.local kernel: DMAR: IOMMU enabled",
            "[    1.234567] gpu-01 kernel: DMAR: IOMMU enabled",
            "1795810205.123456 gpu-01 kernel: DMAR: IOMMU enabled",
            "[ 1234.5][T17] mlx5_core 0000:41:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x21]",
            "AMD-Vi: Event logged [IO_PAGE_FAULT device=41:00.0 domain=0x000e address=0x0 flags=0x0070]",
            "nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client",
            "pcieport 0000:40:01.1: AER: Corrected error received: 0000:41:00.0",
            "AMD Memory Encryption Features active: SME",
            "Memory Encryption Features active: AMD SEV SEV-ES",
            "NVRM: Xid (PCI:0000:18:00): 79, pid=1234, name=python3, GPU has fallen off the bus.",
            "infiniband mlx5_0: ib_query_port failed (-5)",
            "(NULL ib_device): bnxt_re: probe error: RoCE is not supported on this device",
            "mlx5_0:mlx5_ib_alloc_pd:2345:(pid 4711): failed",
            "{1}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 5",
            "qed 0000:17:00.0: AER: can't recover (no error_detected callback)",
            "[qed_mcp_cmd_and_union:560(qed0)]The MFW failed to respond to command",
            "<mlx4_ib> create_pv_resources: Couldn't create tunnel CQ (-12)",
            "be2net 0000:04:00.0: Unrecoverable Error detected in the adapter",
            "cxi_core 0000:21:00.0: EXT error",
        ] {
            assert!(is_known(without_time(line)), "{line}");
        }
        for line in [
            "qedx 0000:17:00.0: failed",
            "[qedx_start:12(qed0)]failed",
            "[alice:4711(qed0)]failed",
            "python3[91234]: segfault at 0 ip 00007f sp 00007f error 4 in libmlx5.so.1[7f+1000]",
            // The name of a process is up to its owner.
            "DMAR: [DMA Read[4711]: segfault at 0 ip 0 sp 0 error 4 in Request device [18:00.0][55+1]",
            "mlx5_core (4711): drop_caches: 3",
            "nvidia: (12)[77]: segfault at 0",
            "traps: iommu: x[12] trap invalid opcode ip:0 sp:0 error:0 in nvidia_peermem: disagrees[5+1]",
            "Kernel command line: iommu=pt root=UUID=6b1c",
            "Unknown kernel command line parameters \"iommu=pt ds=nocloud-net;s=http://user:PW@10.1.2.3\", will be passed",
            "dracut-cmdline[312]: Using kernel command line parameters: rd.luks.key=SECRET intel_iommu=on",
            "audit: type=1400 apparmor=\"DENIED\" name=\"/dev/nvidiactl\" pid=4711 comm=\"alice-train\"",
            "oom-kill:constraint=CONSTRAINT_MEMCG,task=nvidia-smi,pid=5512,uid=1001",
            "user  :err   : [ 1234.5] DMAR: IOMMU enabled",
            "systemd[1]: Started alice's nvidia service.",
            "Nov 27 20:10:05 gpu-01 alice[12]: kernel: DMAR: IOMMU enabled",
            "Nov 27 20:10:05 gpu-01 alice: x kernel: DMAR: IOMMU enabled",
            "alice x kernel: DMAR: IOMMU enabled",
            "<alice>DMAR: IOMMU enabled",
            "",
        ] {
            assert!(!is_known(without_time(line)), "{line}");
        }
    }
}
