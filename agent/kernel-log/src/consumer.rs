//! What the services of the kernel that use RDMA report: storage, file systems, network protocols, and RDMA in software.
//!
//! They name no adapter, and each has its own words. What they have in common is how a line begins: with the name of the module, which says that
//! it uses RDMA (`rpcrdma: `, `rtrs_client L1991: `, `scsi host7: ib_srp: `), or with that of one that works without RDMA, too, and a word of RDMA. And
//! that it says that something failed or works again. Names of hosts and processes, which others choose, are not read as such words.

use crate::{
    classify::Report,
    event::{Device, EventKind},
    modules::{is_name, is_rdma_consumer, is_software_rdma},
    record::Record,
};

/// `LOGLEVEL_WARNING`.
const WARNING: u8 = 4;
/// How the lines of a service begin that do not begin with the name of its module, which follows.
const NAMES: [(&str, &str); 6] = [
    ("svcrdma", "rpcrdma"),
    ("iser", "ib_iser"),
    ("isert", "ib_isert"),
    ("smb_direct", "ksmbd"),
    ("RDS/IB", "rds_rdma"),
    ("rtrs_core", "rtrs_client"),
];
/// The same for services that work without RDMA, too.
const SHARED: [(&str, &str); 8] = [
    ("LNetError", "ko2iblnd"),
    ("LNet", "ko2iblnd"),
    ("CIFS", "smbdirect"),
    ("ksmbd", "ksmbd"),
    ("drbd", "drbd_transport_rdma"),
    ("beegfs", "beegfs"),
    // Over TCP in rare cases only.
    ("RDS", "rds_rdma"),
    ("rds", "rds_rdma"),
];
/// Modules among them that move no data by RDMA themselves: tools, and paths to the memory of GPUs.
const OTHERS: [&str; 5] = [
    "gdrdrv",
    "efa_nv_peermem",
    "mstflint_access",
    "mst_pci",
    "mst_pciconf",
];
/// What marks a line of such a service as one about RDMA: a word, how a word begins, and parts of words.
const WORDS: [&str; 5] = ["rdma", "roce", "iwarp", "infiniband", "ibverbs"];
const BEGINNINGS: [&str; 7] = [
    "rdma_",
    "ib_",
    "ibv_",
    "smbd_",
    "smbdirect_",
    "smb_direct",
    "ibvsocket",
];
const PARTS: [&str; 4] = ["o2ib", "iblnd", " mr pool", "mr_pool"];
/// Words of a failure.
const FAILURES: [&str; 11] = [
    "fail",
    "error",
    "unable to",
    "cannot",
    "can't",
    "could not",
    "timed out",
    "refused",
    "rejected",
    "unreachable",
    "missed max",
];
/// Words of a failure after which the service tries again.
const RETRIES: [&str; 4] = ["retry", "reconnecting", "will reconnect", "trying again"];
/// Words that say that a service works.
const RECOVERIES: [&str; 6] = [
    "established",
    "re-established",
    "reconnected",
    "connected",
    "restored",
    "mapped",
];
/// The longest beginning of a line, in bytes.
const MAX_HEAD: usize = 40;

/// Who wrote a line, and what.
struct Line<'a> {
    module: String,
    /// Whether the service works without RDMA, too.
    is_shared: bool,
    rest: &'a str,
}

impl<'a> Line<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        if let Some(rest) = text.strip_prefix("nvidia-fs:") {
            return Some(Self::new("nvidia_fs", false, rest));
        }
        let (head, rest) = split(text)?;
        // `nvme nvme1: …` is also what a local disk says.
        if head
            .strip_prefix("nvme nvme")
            .is_some_and(|number| number.parse::<u16>().is_ok())
        {
            return Some(Self::new("nvme_rdma", true, rest));
        }
        // What the SCSI core writes before a message of a driver.
        if head
            .strip_prefix("scsi host")
            .is_some_and(|number| number.parse::<u16>().is_ok())
        {
            let (head, rest) = split(rest)?;
            return Self::of(head, rest);
        }
        Self::of(head, rest)
    }

    fn new(module: &str, is_shared: bool, rest: &'a str) -> Self {
        Self {
            module: module.to_owned(),
            is_shared,
            rest,
        }
    }

    /// By the first word: `rtrs_client L1991`, `drbd r0 rdma:peer`.
    fn of(head: &str, rest: &'a str) -> Option<Self> {
        let name = head.split(' ').next().unwrap_or_default();
        let known = |names: &[(&str, &'static str)]| {
            names
                .iter()
                .find(|(begin, _)| *begin == name)
                .map(|(_, module)| *module)
        };
        if let Some(module) = known(&NAMES) {
            return Some(Self::new(module, false, rest));
        }
        if let Some(module) = known(&SHARED) {
            // DRBD names the way to the peer before its message.
            let is_by_rdma = head
                .split(' ')
                .next_back()
                .is_some_and(|way| way.starts_with("rdma:"));
            return Some(Self::new(module, !is_by_rdma, rest));
        }
        let module = name.replace('-', "_");
        let is_of_rdma = is_rdma_consumer(&module) || is_software_rdma(&module);
        (is_of_rdma && is_name(&module) && !OTHERS.contains(&&*module))
            .then(|| Self::new(&module, false, rest))
    }

    /// Whether it is about RDMA.
    fn is_of_rdma(&self, lower: &str) -> bool {
        if !self.is_shared {
            return true;
        }
        let mut words = lower
            .split(|c: char| !(c.is_ascii_alphanumeric() || "_-.@".contains(c)))
            .map(|word| word.trim_start_matches('_').trim_end_matches('.'));
        PARTS.iter().any(|part| lower.contains(part))
            || words
                .any(|word| WORDS.contains(&word) || BEGINNINGS.iter().any(|begin| word.starts_with(begin)))
    }
}

/// What a service of the kernel writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// It is about RDMA.
    Rdma,
    /// The service moves most of its data by RDMA where there are adapters, and this line does not say whether it is about that.
    Mostly,
}

/// What a line of the kernel log is, whatever tools write before it, if a service that uses RDMA wrote it.
pub fn service(line: &str) -> Option<Service> {
    /// File systems of clusters. A local disk, a share of SMB and a replicated disk say nothing of RDMA by themselves.
    const OF_CLUSTERS: [&str; 3] = ["ko2iblnd", "beegfs", "rds_rdma"];
    let record = Record::parse(line)?;
    let line = Line::parse(record.text)?;
    if line.is_of_rdma(&line.rest.to_ascii_lowercase()) {
        return Some(Service::Rdma);
    }
    OF_CLUSTERS.contains(&&*line.module).then_some(Service::Mostly)
}

/// The beginning of a line and what follows it.
fn split(text: &str) -> Option<(&str, &str)> {
    let (head, rest) = text.split_once(": ")?;
    (head.len() <= MAX_HEAD).then_some((head, rest))
}

/// What a service of the kernel reports, with its module as the device. A line without severity counts as one of an error.
pub(crate) fn report(record: &Record<'_>) -> Option<Report> {
    let line = Line::parse(record.text)?;
    let lower = line.rest.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let is_back = lower
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
        .any(|word| RECOVERIES.contains(&word));
    let is_failure = has(&FAILURES);
    let kind = if is_back && !is_failure && !has(&["not ", "no longer", "never", "already"]) {
        EventKind::Started
    } else if is_failure
        && !has(&RETRIES)
        && record.level.is_none_or(|level| level <= WARNING)
        && line.is_of_rdma(&lower)
    {
        EventKind::DriverError
    } else {
        return None;
    };
    Some(Report {
        kind,
        device: Device::Driver(line.module.clone()),
        driver: line.module,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // in a test, a failure is a panic

    use super::*;

    fn of(line: &str) -> Option<(String, EventKind)> {
        let report = report(&Record::parse(line).unwrap())?;
        Some((report.device.to_string(), report.kind))
    }

    #[test]
    fn a_service_says_that_it_failed_or_works_again() {
        for (line, module, kind) in [
            (
                "3,1,1,-;nvme nvme1: rdma connection establishment failed (-22)",
                "nvme_rdma",
                EventKind::DriverError,
            ),
            (
                "nvme nvme1: failed to initialize pi mr pool sized 128 for qid 1",
                "nvme_rdma",
                EventKind::DriverError,
            ),
            (
                "6,1,1,-;nvme nvme1: Successfully reconnected (2 attempts)",
                "nvme_rdma",
                EventKind::Started,
            ),
            (
                "3,1,1,-;rpcrdma: Recv: local length error (1/0xd7)",
                "rpcrdma",
                EventKind::DriverError,
            ),
            (
                "3,1,1,-;rdma_rxe: failed to allocate crc algorithm err:-2",
                "rdma_rxe",
                EventKind::DriverError,
            ),
            (
                "3,1,1,-;LNetError: 7:0:(api-ni.c:2533:lnet_startup_lndnet()) Can't load LND o2ib, module ko2iblnd, rc=256",
                "ko2iblnd",
                EventKind::DriverError,
            ),
            (
                "3,1,1,-;nvidia-fs:write IO failed :-512",
                "nvidia_fs",
                EventKind::DriverError,
            ),
            (
                "3,1,1,-;rtrs_client L605: <blk>: RDMA failed: remote access error",
                "rtrs_client",
                EventKind::DriverError,
            ),
            (
                "3,1,1,-;scsi host7: ib_srp: failed RECV status WR flushed (5) for CQE 1",
                "ib_srp",
                EventKind::DriverError,
            ),
            (
                "3,1,1,-;RDS/IB: connection <192.0.2.1,192.0.2.2,7> dropped due to 'send completion error'",
                "rds_rdma",
                EventKind::DriverError,
            ),
            (
                "3,1,1,-;ksmbd: smb_direct: Recv error. status='local length error (1)' opcode=128",
                "ksmbd",
                EventKind::DriverError,
            ),
            (
                "3,1,1,-;CIFS: VFS: _smbd_get_connection:291 smbd_connect failed with -111",
                "smbdirect",
                EventKind::DriverError,
            ),
            (
                "CIFS: VFS: RDMA transport re-established",
                "smbdirect",
                EventKind::Started,
            ),
            (
                "3,1,1,-;drbd r0 rdma:stor2: dtr_connect failed: -110",
                "drbd_transport_rdma",
                EventKind::DriverError,
            ),
            (
                // A module that this program does not know by name.
                "3,1,1,-;xyz_rdma: unable to post receive: -12",
                "xyz_rdma",
                EventKind::DriverError,
            ),
        ] {
            assert_eq!(of(line), Some((module.to_owned(), kind)), "{line}");
        }
        for line in [
            "3,1,1,-;nvme nvme0: I/O 12 QID 3 timeout, completion polled",
            "3,1,1,-;nvme nvme0: failed to set APST feature (2)",
            "3,1,1,-;nvme nvme1: failed to connect socket: -111",
            "3,1,1,-;nvme nvme1: rdma connection failed, reconnecting in 10 seconds",
            "6,1,1,-;rdma_rxe: loaded",
            "6,1,1,-;smc: adding ib device mlx5_0 with port count 1",
            "3,1,1,-;LNetError: 7:0:(socklnd.c:12:ksocknal_create()) Error -110 creating socket",
            "3,1,1,-;usb 1-1: rdma failed",
            // The peer rejects, and the initiator tries again with other parameters.
            "3,1,1,-;scsi host11: ib_srp: REJ received",
            "3,1,1,-;scsi host11: ata: rdma failed",
            "3,1,1,-;CIFS: VFS: \\\\rdma-files.example: cifs_mount failed w/return code = -13",
            "3,1,1,-;ksmbd: Failed to send message: -107",
            "3,1,1,-;drbd r0 tcp:stor2: connect failed: -111",
            "3,1,1,-;nfs: server rdma-store1: error: not responding",
            "6,1,1,-;iser: iser_connect_error: event 1",
            "3,1,1,-;cgroup: fork rejected by pids controller in /kubepods/job_rdma: error",
        ] {
            assert_eq!(of(line), None, "{line}");
        }
    }
}
