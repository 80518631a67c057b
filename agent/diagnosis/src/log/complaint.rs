//! What a module of the kernel complains of without a word that is one of failure in any program: a value above the maximum, a version that
//! differs, an event that it does not know. Drivers do not write so while they start and work.
//!
//! Such a line is shown as not recognised. It raises nothing by itself.

use std::sync::LazyLock;

use rdma_health_kernel_log::{Judgement, Record, Service, is_adapter};

use super::{
    foreign::{is_of_other_layer, is_of_tcp},
    grade::Level,
    kernel::{is_of_kernel, of_service},
    line::Lower,
    needless::{goes_on, has_other_path, has_substitute, only_misses_a_feature},
    operation::ends_object,
    phrases::Phrases,
};

/// Words of such complaints, in lower case; each stands alone.
const COMPLAINTS: [&str; 34] = [
    "above max",
    "bigger than",
    "blacklisted",
    "but only",
    "but upstream",
    "differs from",
    "expected to see",
    "expects",
    "greater than",
    "in use",
    "is null",
    "is not a power",
    "larger than",
    "malformed",
    "missing namespace",
    "must not",
    "no longer",
    "not a power",
    "not handled",
    "overflow",
    "problem copying",
    "provides only",
    "refusing",
    "requires",
    "rreq with",
    "should not",
    "stale",
    "term received",
    "than allowed",
    "time out",
    "unknown",
    "unrecognized",
    "wasn't",
    "wrong",
];
/// Messages of the RDMA core that name neither it nor a device, as they begin.
const BARE: [&str; 11] = [
    "bad block size given",
    "couldn't create new sm ah",
    "error -",
    "failed reposting tunnel buf",
    "failed to create ipv4 udp tunnel",
    "failed to create ipv6 udp tunnel",
    "invalid grh.ip_version",
    "invalid mtu",
    "invalid status check mask",
    "nvswitch_dev is null",
    "user_verbs: couldn't",
];
/// What NVIDIA's driver says of each machine of a kind, and at the end of what it made.
const USUAL: [&str; 3] = ["cpuid", "left-over mappings", "loading nvidia"];

/// The words that make a line worth parsing.
pub(super) const ANCHORS: &[&str] = &[
    "nvrm: gpu",
    ":(pid ",
    "siw: [qp",
    "received irq",
    "nvidia-nvswitch",
    "rpcrdma: ",
];

static WORDS: LazyLock<Phrases> = LazyLock::new(|| Phrases::new(COMPLAINTS));

/// The words of all complaints.
pub(super) fn anchors() -> impl Iterator<Item = &'static str> {
    COMPLAINTS.into_iter().chain(BARE)
}

/// Whether a line that nothing recognised is a complaint of a module of RDMA or of a GPU's driver.
pub(super) fn is_one(line: &Lower<'_>, judgement: Option<&Judgement>) -> bool {
    let lower = line.lower.as_str();
    let of_driver = matches!(judgement, Some(Judgement::Event(_) | Judgement::Unlisted));
    if judgement == Some(&Judgement::Harmless) || !of_driver && !is_of_kernel(line.text) {
        return false;
    }
    let grade = line.grade();
    let is_mild = grade.quoted || grade.harmless || grade.level == Some(Level::Info);
    let goes_on = || goes_on(lower) || has_substitute(lower) || has_other_path(lower);
    let is_other = || is_of_other_layer(lower) || is_of_tcp(lower) || only_misses_a_feature(lower);
    if is_mild || goes_on() || is_other() {
        return false;
    }
    let Some(text) = Record::parse(line.text).map(|record| record.text.trim_start()) else {
        return false;
    };
    let text = text.to_ascii_lowercase();
    if USUAL.iter().any(|words| text.contains(words)) {
        return false;
    }
    if is_bare(&text) || is_of_gpu(line.text, &text, grade.failing) || text.starts_with("siw: [qp ") {
        return true;
    }
    // The PCI core names the driver of any function.
    let first = text.split([' ', ':']).next().unwrap_or_default();
    let of_adapter = of_driver && (is_adapter(first) || text.starts_with(['[', '<']));
    let of_module = of_adapter || grade.about_rdma || of_service(line.text) == Some(Service::Rdma);
    of_module && !is_vain_end(&text) && (grade.failing || complains(&text) || is_warning_of_mlx5(&text))
}

/// Whether an object could not be ended, for a reason that is not of the device: it is gone, or in use.
fn is_vain_end(text: &str) -> bool {
    // EIO, ETIMEDOUT and ETIME are answers of a device that does not work.
    const OF_DEVICE: [&str; 3] = ["-5", "-110", "-62"];
    let mut words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    ends_object(text) && !words.any(|word| OF_DEVICE.contains(&word))
}

/// Whether one of the words stands in a text.
fn complains(text: &str) -> bool {
    // `expected irq = 64 received irq = 3`.
    let differs = || text.contains("expected ") && text.contains(" received ") || text.contains("above max_");
    WORDS
        .find(text)
        .any(|found| found.begins(text) && found.ends(text))
        || differs()
}

/// mlx5 names the function, the line and the process only before what it warns of (`mlx5_core.h`, `mlx5_ib.h`).
fn is_warning_of_mlx5(text: &str) -> bool {
    text.starts_with("mlx5_core ") && text.contains(":(pid ")
        || text.starts_with("infiniband mlx5_") && text.contains(":(pid ")
}

fn is_bare(text: &str) -> bool {
    BARE.iter().any(|begin| text.starts_with(begin))
        && (!text.starts_with("error -") || text.contains("nvidia_p2p_"))
}

/// What NVIDIA's driver says outside its numbered messages. Before the name of one of its functions it writes only errors; its module for switches
/// says more.
fn is_of_gpu(line: &str, text: &str, failing: bool) -> bool {
    if text.starts_with("nvidia-nvswitch") {
        return failing || complains(text);
    }
    let Some((_, rest)) = line.split_once("NVRM: ") else {
        return false;
    };
    let rest = match rest.strip_prefix("GPU").and_then(|rest| rest.split_once(' ')) {
        Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => rest,
        _ => rest,
    };
    rest.split_once(':').is_some_and(|(name, _)| is_function(name))
}

/// Whether a word is the name of a function of that driver: `knvlinkEnterExitSleep_IMPL`, `rm_dma_buf_map_mem_handle`.
fn is_function(name: &str) -> bool {
    let is_name = name.len() > 5
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    is_name && begins && name.bytes().any(|byte| byte.is_ascii_uppercase() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::kernel::kernel;

    fn shown(line: &str) -> bool {
        let line = Lower::of(line);
        is_one(&line, kernel(&line).as_ref())
    }

    #[test]
    fn what_a_driver_complains_of_is_shown() {
        for line in [
            "[   12.3] bnxt_en 0000:17:00.0: process_cq unknown type 0x1f",
            "[   12.3] bnxt_en 0000:17:00.0: aeqe:0x3a2 Not handled",
            "[   12.3] ice 0000:17:00.0 irdma0: rd_atomic = 128, above max_hw_ord=127",
            "[   12.3] ice 0000:17:00.0 irdma0: expected irq = 64 received irq = 3",
            "[   12.3] efa 0000:00:06.0 rdmap0s6: Failed to destroy CQ-17 [-5]",
            "[   12.3] hns3 0000:7d:00.0: max_num_sg larger than 128",
            "[   12.3] infiniband mlx5_2: set_user_buf_size:643:(pid 41233): desc_sz 2048, max_sq_desc_sz 1024",
            "[   12.3] infiniband mlx5_2: All OUI slots in use",
            "[   12.3] NVRM: GPU0 knvlinkEnterExitSleep_IMPL: GPU3: Link3 is not connected. Returning",
            "[   12.3] nvidia-nvswitch0: Failed to map BAR0 region : -16",
            "[   12.3] siw: [QP 6719]: ORQ empty, size 6719",
            "[   12.3] Invalid GRH.ip_version 64",
            "[   12.3] error -110 while calling nvidia_p2p_put_pages, page_table=00000000a1b2c3d4",
            "Nov 28 10:00:00 n1 kernel: mana 7870:00:00.0: HWC: unknown event type 9",
            "Nov 28 10:00:00 n1 kernel: erdma 0000:00:07.0: opcode 12 must not be posted on this queue",
            "Nov 28 10:00:00 n1 kernel: ionic 0000:8c:00.0 ionic_0: cqid 12 is wrong for this event",
        ] {
            assert!(shown(line), "{line}");
        }
    }

    #[test]
    fn what_drivers_say_while_they_start_and_work_is_not() {
        for line in [
            "[   12.3] mlx5_core 0000:17:00.0: firmware version: 28.41.1000",
            "[   12.3] mlx5_core 0000:17:00.0: Rate limit: 127 rates are supported, range: 0Mbps to 195312Mbps",
            "[   12.3] mlx5_core 0000:17:00.0: mlx5_pcie_event:301:(pid 12): PCIe slot advertised sufficient power (27W).",
            "[   12.3] mlx5_core 0000:17:00.0: Port module event: module 0, Cable plugged",
            "[   12.3] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  595.45.04",
            "[   12.3] NVRM: cpuidInfoAMD: Unrecognized AMD processor in cpuidInfoAMD",
            "[   12.3] NVRM: iovaspaceDestruct_IMPL: 2 left-over mappings in IOVAS 0x5b00",
            "[   12.3] nvidia-nvswitch0: open (major=510)",
            "[   12.3] nvidia-nvswitch: Probing device 0000:05:00.0, Vendor Id = 0x10de, Device Id = 0x22a3, Class = 0x68000",
            "[   12.3] hfi1 0000:5e:00.0: hfi1_0: logical state changed to PORT_INIT (0x2)",
            "[   12.3] bnxt_en 0000:c1:00.0 ens1np0: FEC autoneg off encoding: Clause 91 RS(544,514)",
            "[   12.3] bnxt_en 0000:c1:00.0: roce bonding is not supported",
            "[   12.3] usb 1-1: unknown device, must be reset",
            "[   12.3] ahci 0000:00:17.0: failed to start port (errno=-12)",
            "[   12.3] pcieport 0000:16:01.0: Unknown resource type 3",
            "[   12.3] hns3 0000:7d:00.0: rx_usecs(3) rounded down to 2, because it must be multiple of 2.",
            "[   12.3] ice 0000:18:00.0: DDP package already present on device: ICE OS Default Package version 1.3.36.0",
            "mlx5_core is already loaded, and must not be loaded again",
        ] {
            assert!(!shown(line), "{line}");
        }
    }
}
