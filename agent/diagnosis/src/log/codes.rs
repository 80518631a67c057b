//! Codes in messages whose meaning is in a table: the asynchronous events of irdma, and the reasons of the connection manager. And
//! messages whose meaning is in a value.

use rdma_health_kernel_log::is_adapter;
use rdma_health_protocol::WcStatus;

use super::line::{after, is_word, number};
use crate::symptom::SymptomKind::{self as K};

/// Words of the lines that [`find`] reads and that no other list has, in lower case.
pub(super) const ANCHORS: &[&str] = &[
    "error code is",
    "available pcie bandwidth, limited",
    "device supports x",
    "is not loaded",
    ": assigned",
];

/// What a code in a line in lower case means, and where it stands.
pub(super) fn find(lower: &str) -> Option<(K, usize)> {
    let readers = [
        asynchronous_event,
        chelsio_event,
        reject_reason,
        firmware_file,
        pci_bandwidth,
        missing_module,
        hccl_result,
    ];
    readers.iter().find_map(|read| read(lower))
}

/// `abnormal ae_id = 0x50a bool qp=1 qp_id = 213`: an asynchronous event of irdma, i40iw and drivers that follow them. The codes are
/// those of `drivers/infiniband/hw/irdma/defs.h`; what a queue pair reports for them is in `irdma_set_flush_fields` of `hw.c`.
fn asynchronous_event(lower: &str) -> Option<(K, usize)> {
    let at = lower.find("ae_id")?;
    if !lower.contains("abnormal") {
        return None;
    }
    let value = lower[at + "ae_id".len()..].trim_start_matches([' ', '=', ':']);
    let kind = match number(value) {
        // Memory keys: unknown, of another protection domain, out of bounds, without the right.
        Some(0x102..=0x121 | 0x206) => K::QueueAccess,
        // A message that is too long or too short for its buffer.
        Some(0x132..=0x135 | 0x220 | 0x303 | 0x316 | 0x507) => K::Completion(WcStatus::LocLenErr),
        Some(0x20a..=0x20c) => K::Completion(WcStatus::LocQpOpErr),
        Some(0x203 | 0x702) => K::CqError,
        Some(0x208 | 0x223 | 0x313) => K::Completion(WcStatus::RemInvReqErr),
        Some(0x20d) => K::Completion(WcStatus::RemAccessErr),
        Some(0x20e) => K::Completion(WcStatus::RemOpErr),
        // The connection was closed or reset by the peer.
        Some(0x201 | 0x202 | 0x501..=0x503 | 0x509) => K::PeerClosed,
        Some(0x50a..=0x50c) => K::Completion(WcStatus::RetryExcErr),
        Some(0x50f) => K::Completion(WcStatus::RnrRetryExcErr),
        Some(0x520) => K::ResourceLimit,
        Some(0x701) => K::DeviceFatal,
        _ => K::QueueError,
    };
    Some((kind, at))
}

/// `AE qpid 1036 opcode 0 status 0x8 type 1 …`: an asynchronous event of Chelsio's adapters (`T4_ERR_*` in `iw_cxgb4/t4.h`).
fn chelsio_event(lower: &str) -> Option<(K, usize)> {
    let at = lower
        .find("ae qpid")
        .or_else(|| lower.find("posting ae for qpid"))?;
    let kind = match number(after(&lower[at..], "status ")?)? {
        0 => return None,
        // Memory keys: unknown, of another protection domain or queue, without the right, out of bounds.
        0x1..=0x8 | 0xb | 0x1e => K::QueueAccess,
        // The adapter's own memory.
        0x9 | 0xa | 0x1f => K::QueueFatal,
        0xc => K::Completion(WcStatus::WrFlushErr),
        0x12 => K::Completion(WcStatus::LocLenErr),
        // No receive was posted.
        0x13 => K::Completion(WcStatus::RnrRetryExcErr),
        _ => K::QueueError,
    };
    Some((kind, at))
}

/// `HcclAllreduce, error code is 9`: what a collective of Huawei's HCCL returned (`HcclResult` of its `hccl_types.h`).
fn hccl_result(lower: &str) -> Option<(K, usize)> {
    let at = lower.find("hccl")?;
    let kind = match number(after(&lower[at..], "error code is")?)? {
        9 => K::CollectiveTimeout,
        // No connection, or a transfer failed, over RoCE. The same over TCP has 11 and 13.
        12 | 14 | 19 => K::PeerUnreachable,
        21 => K::PeerClosed,
        _ => K::JobFailed,
    };
    Some((kind, at))
}

/// Why a peer rejected a connection (InfiniBand Architecture Specification volume 1, 12.6.7.2, `ibcm_rej_reason_strs` of the kernel):
/// `Connect rejected: status 8 (invalid service ID)`, `REJ reason 0x8`, `event=rejected status=8`, `rejected: invalid service ID`.
fn reject_reason(lower: &str) -> Option<(K, usize)> {
    const OF_RDMA: [&str; 10] = [
        "rdma",
        "nvme",
        "srp",
        // ib_srp names the reason in a line without its own name.
        "scsi host",
        "iser",
        "o2ib",
        "smbd",
        "rds/",
        "infiniband",
        "service id",
    ];
    const TEXTS: [(&str, u64); 9] = [
        ("invalid service id", 8),
        ("consumer defined", 28),
        ("stale connection", 10),
        ("no resources", 3),
        ("invalid gid", 12),
        ("invalid lid", 13),
        ("invalid mtu", 26),
        ("insufficient responder resources", 27),
        ("no listener", 8),
    ];
    let at = [
        " rejected",
        "=rejected",
        "_rejected",
        "connect reject",
        "rej reason",
    ]
    .iter()
    .filter_map(|word| lower.find(word))
    .min()?;
    if !OF_RDMA.iter().any(|word| lower.contains(word)) {
        return None;
    }
    let rest = &lower[at..];
    let code = || {
        let labels = ["reason ", "status ", "status=", "status = "];
        let value = labels.iter().find_map(|label| after(rest, label))?;
        number(value.trim_start())
    };
    let text = || TEXTS.iter().find(|(words, _)| rest.contains(words));
    // `nvme_rdma_cm_msg` of the kernel: the target says what of the request it does not take.
    if let Some(status) = after(rest, "nvme status ").and_then(number) {
        let kind = if status == 6 {
            K::ResourceLimit
        } else {
            K::PeerDiffers
        };
        return Some((kind, at));
    }
    let kind = match code().or_else(|| text().map(|(_, code)| *code))? {
        // SRP targets number why they refuse a login from 0x10000 on (SRP 6.3, `SRP_LOGIN_REJ`).
        3 | 0x0001_0000..=0x0001_0002 => K::ResourceLimit,
        4 => K::PeerUnreachable,
        8 => K::NoListener,
        10 => K::PeerClosed,
        12..=18 => K::AddressUnresolved,
        26 => K::MtuDiffers,
        27 => K::PeerDiffers,
        28 => K::ConnectRefused,
        0x0001_0003..=0x0001_0010 => K::StorageRefused,
        _ => return None,
    };
    Some((kind, at))
}

/// `ice 0000:51:00.0: Direct firmware load for intel/ice/ddp/ice.pkg failed with error -2` (ENOENT). hfi1 has a default for the file of its
/// platform.
fn firmware_file(lower: &str) -> Option<(K, usize)> {
    let at = lower.find("direct firmware load for ")?;
    let mut before = lower[..at].split([' ', ':']);
    let is_missing = lower[at..].contains("failed with error -2") && !lower[at..].contains("platform");
    (is_missing && before.any(is_adapter)).then_some((K::FirmwareMissing, at))
}

/// `63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link at 0000:40:01.1 (capable of 252.048 Gb/s with 16.0 GT/s PCIe
/// x16 link)`, which the kernel reports at each start. Many adapters work in a narrower slot than they could use; a third is too little.
fn pci_bandwidth(lower: &str) -> Option<(K, usize)> {
    if let Some(at) = pci_width(lower) {
        return Some((K::PciLimited, at));
    }
    let rate = |text: &str| text.split('.').next()?.trim().parse::<u32>().ok();
    let at = lower.find(" gb/s available pcie bandwidth, limited by")?;
    let available = lower[..at].rsplit(' ').next().and_then(rate)?;
    let capable = after(&lower[at..], "capable of ").and_then(rate)?;
    // A virtual machine shows no link: `0.000 Gb/s …, limited by Unknown x0 link`.
    (available > 0 && available.saturating_mul(3) <= capable).then_some((K::PciLimited, at))
}

/// `PCIe link width is x4, device supports x16`: mlx4 and others, where the slot has a third of the lanes or fewer.
fn pci_width(lower: &str) -> Option<usize> {
    let at = lower.find("link width is x")?;
    let used = after(lower, "link width is x").and_then(number)?;
    let supported = after(&lower[at..], "device supports x").and_then(number)?;
    (used > 0 && used.saturating_mul(3) <= supported).then_some(at)
}

/// `modprobe: FATAL: Module nvme-rdma not found in directory /lib/modules/6.1.0`: a module of RDMA or of storage over RDMA.
fn missing_module(lower: &str) -> Option<(K, usize)> {
    // The device plugin for virtual functions finds a function without an RDMA device.
    const FORMS: [&str; 2] = [
        "are rdma modules loaded",
        "no rdma devices available for rdma capable device",
    ];
    if let Some(at) = FORMS.iter().find_map(|form| lower.find(form)) {
        return Some((K::ModuleMissing, at));
    }
    if let Some(at) = supposed(lower) {
        return Some((K::ModuleMissing, at));
    }
    let at = lower.find("module ")?;
    let name = absent_module(lower)?;
    let is_peer_memory = ["peermem", "peer_mem", "peer-mem"]
        .iter()
        .any(|part| name.contains(part));
    if is_peer_memory {
        return Some((K::GdrDisabled, at));
    }
    (is_module_of_rdma(name) && !is_former(name)).then_some((K::ModuleMissing, at))
}

/// Where a program supposes that a module of RDMA is not loaded: `unable to open …/add_target, maybe ib_srp is not loaded`.
fn supposed(lower: &str) -> Option<usize> {
    const SUPPOSES: [&str; 5] = [
        "maybe ",
        "perhaps ",
        "probably ",
        "possibly ",
        "is it possible that ",
    ];
    let at = SUPPOSES
        .iter()
        .find_map(|word| Some(lower.find(word)? + word.len()))?;
    let (name, rest) = lower[at..].split_once(' ')?;
    (rest.starts_with("is not loaded") && is_module_of_rdma(name)).then_some(at)
}

/// The module that `modprobe` or systemd did not find: `Module nvme-rdma not found in directory …`, `Failed to find module 'ib_umad'`.
pub(super) fn absent_module(lower: &str) -> Option<&str> {
    if let Some(name) = after(lower, "failed to find module '") {
        return name.split_once('\'').map(|(name, _)| name);
    }
    let (name, rest) = after(lower, "module ")?.split_once(' ')?;
    let name = name.trim_matches(['\'', '"']);
    let is_name = !name.is_empty() && name.bytes().all(|byte| is_word(byte) || byte == b'-');
    (is_name && rest.starts_with("not found")).then_some(name)
}

/// Whether a module was taken out of the kernel: scripts and units of older releases still load it, and nothing needs it.
pub(super) fn is_former(name: &str) -> bool {
    /// `ib_ucm` ended with Linux 5.3, `rdma_rxe_net` and `ib_addr`, `ib_sa`, `ib_mad` became parts of others.
    const FORMER: [&str; 5] = ["ib_ucm", "ib_addr", "ib_sa", "ib_mad", "rdma_rxe_net"];
    FORMER.contains(&name.replace('-', "_").as_str())
}

/// Whether a module of the kernel is one of RDMA or of storage over RDMA.
pub(super) fn is_module_of_rdma(name: &str) -> bool {
    const PARTS: [&str; 11] = [
        "rdma", "mlx", "ib_", "iser", "iw_", "o2iblnd", "nvmet", "bnxt_re", "rxe", "siw", "umad",
    ];
    PARTS.iter().any(|part| name.contains(part)) || is_adapter(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_decoded() {
        for (line, expected) in [
            (
                "ice 0000:c4:00.0: abnormal ae_id = 0x50a bool qp=1 qp_id = 213",
                Some(K::Completion(WcStatus::RetryExcErr)),
            ),
            ("irdma0: abnormal ae_id = 0x108 bool qp=1", Some(K::QueueAccess)),
            ("irdma0: abnormal ae_id = 0x701 bool qp=0", Some(K::DeviceFatal)),
            ("irdma0: abnormal ae_id = 0xfff bool qp=1", Some(K::QueueError)),
            ("irdma0: abnormal ae_id = ?", Some(K::QueueError)),
            (
                "nvme nvme1: connect rejected: status 8 (invalid service id).",
                Some(K::NoListener),
            ),
            ("scsi host7: ib_srp: rej reason 0x8", Some(K::NoListener)),
            ("scsi host9:   rej reason 0x8", Some(K::NoListener)),
            ("10.0.0.5@o2ib rejected: no listener at 987", Some(K::NoListener)),
            (
                "nvme nvme1: connect rejected: status 28 (consumer defined), nvme status 6 (no resources).",
                Some(K::ResourceLimit),
            ),
            (
                "nvme nvme1: connect rejected: status 28 (consumer defined).",
                Some(K::ConnectRefused),
            ),
            (
                "ib_srp: srp login from fe80::1 to fe80::2 rejected, reason 0x00010006",
                Some(K::StorageRefused),
            ),
            (
                "unable to open /sys/class/infiniband_srp/srp-mlx5_0-1/add_target, maybe ib_srp is not loaded",
                Some(K::ModuleMissing),
            ),
            ("maybe the page is not loaded", None),
            ("connection rejected: status -104", None),
            ("the proposal was rejected", None),
            (
                "cxgb4 0000:04:00.4: ae qpid 1036 opcode 0 status 0x8 type 1 len 0x0",
                Some(K::QueueAccess),
            ),
            (
                "iw_cxgb4: ae qpid 1036 opcode 0 status 0x13 type 1 id 0x0",
                Some(K::Completion(WcStatus::RnrRetryExcErr)),
            ),
            (
                "hfi1 0000:18:00.0: direct firmware load for hfi1_fabric.fw failed with error -2",
                Some(K::FirmwareMissing),
            ),
            (
                "iwlwifi 0000:02:00.0: direct firmware load for iwlwifi-72.ucode failed with error -2",
                None,
            ),
            (
                "mlx5_core 0000:41:00.0: 63.008 gb/s available pcie bandwidth, limited by 8.0 gt/s pcie x8 link at 0000:40:01.1 (capable of \
                252.048 gb/s with 16.0 gt/s pcie x16 link)",
                Some(K::PciLimited),
            ),
            (
                "mlx5_core 0000:41:00.0: 126.016 gb/s available pcie bandwidth, limited by 8.0 gt/s pcie x16 link at 0000:40:01.1 (capable of \
                252.048 gb/s with 16.0 gt/s pcie x16 link)",
                None,
            ),
            (
                "modprobe: fatal: module nvme-rdma not found in directory /lib/modules/6.1",
                Some(K::ModuleMissing),
            ),
            (
                "modprobe: fatal: module nvidia_peermem not found in directory /lib/modules/6.1",
                Some(K::GdrDisabled),
            ),
            (
                "modprobe: fatal: module vboxdrv not found in directory /lib/modules/6.1",
                None,
            ),
        ] {
            assert_eq!(find(line).map(|(kind, _)| kind), expected, "{line}");
        }
    }
}
