//! What connects this host to NVMe targets says of a connection that the kernel did not make: nvme-cli, libnvme and the CSI driver write
//! its options to `/dev/nvme-fabrics`, and the kernel answers with an error number.

use super::line::{after, is_word, number};
use crate::symptom::SymptomKind::{self as K};

/// Words of the lines that this module reads, in lower case.
pub(super) const ANCHORS: &[&str] = &[
    "nvme-fabrics",
    "failed to add controller",
    "-t tcp",
    "-t rdma",
    "transport=",
    "transport tcp",
    "trtype:",
    "nvme_tcp.c",
    "nvmet_tcp:",
    "20049",
    "iser",
    "infiniband",
];

/// What shows that NVMe connects over TCP.
const OF_TCP: [&str; 6] = [
    "nvme_tcp:",
    "transport=tcp,",
    "trtype:tcp",
    "trtype: tcp",
    "nvme_tcp.c",
    "nvmet_tcp:",
];

/// What shows that a log is of storage over RDMA, in lower case; 20049 is the port of NFS over RDMA.
const OF_RDMA: [&str; 7] = ["rdma", "iser", "20049", "infiniband", "o2ib", "ib_srp", "ibv_"];

/// The transport of the last command or connection that the log shows.
#[derive(Debug, Default)]
pub(super) struct Target {
    is_tcp: bool,
    /// Whether a line shows that storage, or something else, uses RDMA.
    has_rdma: bool,
}

impl Target {
    /// Adds a line in lower case.
    pub(super) fn add(&mut self, lower: &str) {
        let names = |transport: &str| {
            ["-t ", "transport=", "transport "].iter().any(|option| {
                lower.match_indices(option).any(|(at, _)| {
                    let rest = lower[at + option.len()..].strip_prefix(transport);
                    rest.is_some_and(|rest| !rest.bytes().next().is_some_and(is_word))
                })
            })
        };
        self.has_rdma |= OF_RDMA.iter().any(|sign| begins_word(lower, sign));
        if names("rdma") {
            self.is_tcp = false;
        } else if lower.contains("nvme") && names("tcp") || OF_TCP.iter().any(|sign| lower.contains(sign)) {
            self.is_tcp = true;
        }
    }

    /// Whether the log shows NVMe over TCP and no RDMA.
    pub(super) fn is_only_tcp(&self) -> bool {
        self.is_tcp && !self.has_rdma
    }

    /// Whether a line shows that storage, or something else, uses RDMA.
    pub(super) fn has_rdma(&self) -> bool {
        self.has_rdma
    }

    /// Whether a refusal of a storage target is one of a connection over TCP, as far as the log shows: iSCSI and NFS use it unless an option
    /// says otherwise.
    pub(super) fn is_refusal_over_tcp(&self, text: &str) -> bool {
        let lower = text.to_ascii_lowercase();
        let is_fabric = ["nvme", "subsystem", "srp"]
            .iter()
            .any(|name| lower.contains(name));
        self.is_tcp || !self.has_rdma && !is_fabric
    }

    /// Whether a line in lower case reports a connection over TCP.
    pub(super) fn is_of_tcp(&self, lower: &str) -> bool {
        self.is_tcp && refused(lower).is_some()
    }
}

/// `Failed to write to /dev/nvme-fabrics: Invalid argument`, `write /dev/nvme-fabrics: invalid argument`, `failed to add controller, error
/// Invalid argument`.
pub(super) fn refused(lower: &str) -> Option<(K, usize)> {
    const FORMS: [&str; 5] = [
        "failed to write to /dev/nvme-fabrics",
        "failed to write to nvme-fabrics",
        "write /dev/nvme-fabrics:",
        "write to /dev/nvme-fabrics failed",
        "failed to add controller, error",
    ];
    // The controller is there: the connection exists.
    const THERE: [&str; 2] = ["already in progress", "already connected"];
    let at = FORMS.iter().find_map(|form| lower.find(form))?;
    let rest = &lower[at..];
    if THERE.iter().any(|words| rest.contains(words)) {
        return None;
    }
    let kind = if rest.contains("invalid argument") {
        K::OptionsRefused
    } else if rest.contains("no such file") {
        K::ModuleMissing
    } else {
        K::CmFailed
    };
    Some((kind, at))
}

/// `nvme nvme9: failed to connect queue: 0 ret=6`: a positive number is the status with which the target answered, a negative one an error
/// number of this host.
pub(super) fn answered(lower: &str) -> Option<(K, usize)> {
    let at = lower.find("failed to connect queue")?;
    let status = after(&lower[at..], "ret=").and_then(number)?;
    (status > 0).then_some((K::StorageRefused, at))
}

/// `nvme nvme0: Connect command failed, error wo/DNR bit: 6`.
pub(super) fn refused_connect(lower: &str) -> Option<(K, usize)> {
    let at = lower.find("connect command failed, error wo/dnr bit")?;
    let status = after(&lower[at..], "bit:")?;
    // A negative number is an error number of this host.
    if status.trim_start().starts_with('-') {
        return Some((K::CmFailed, at));
    }
    Some((number(status).map_or(K::StorageRefused, of_status), at))
}

/// `nvme nvme0: qid 0: authentication failed, error -13`: the target asks for a proof (DH-HMAC-CHAP) that this host does not have, or gave one
/// that this host refused.
pub(super) fn unauthenticated(lower: &str) -> Option<(K, usize)> {
    const FORMS: [&str; 4] = [
        "authentication failed",
        "authentication setup failed",
        "failed to receive challenge",
        "no dh-hmac-chap key",
    ];
    let (before, rest) = lower.split_once("nvme nvme")?;
    let is_of_queue = rest.contains(": qid ") || rest.contains("authentication setup");
    let at = FORMS.iter().find_map(|form| rest.find(form))?;
    is_of_queue.then_some((K::StorageRefused, before.len() + "nvme nvme".len() + at))
}

/// The status with which a target answers Connect (NVMe over Fabrics 1.1, 3.3): what it does not understand, or whom it refuses.
fn of_status(status: u64) -> K {
    /// Incompatible Format, Invalid Parameters.
    const DIFFERS: [u64; 4] = [0x80, 0x180, 0x82, 0x182];
    /// Command Abort Requested, Host Path Error, Host Aborted Command: this host gave up, because no answer came or the connection broke.
    const GIVEN_UP: [u64; 3] = [0x07, 0x370, 0x371];
    /// Controller Busy.
    const BUSY: [u64; 2] = [0x81, 0x181];
    let status = status & 0x3fff;
    if DIFFERS.contains(&status) {
        K::PeerDiffers
    } else if GIVEN_UP.contains(&status) {
        K::PeerUnreachable
    } else if BUSY.contains(&status) {
        K::ResourceLimit
    } else {
        K::StorageRefused
    }
}

/// Whether a word begins so: `iser` is not in `appraiser`.
fn begins_word(lower: &str, sign: &str) -> bool {
    lower
        .match_indices(sign)
        .any(|(at, _)| at == 0 || !lower.as_bytes()[at - 1].is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_answer_to_the_options_is_read_and_that_of_tcp_is_left_out() {
        for (line, expected) in [
            (
                "failed to write to /dev/nvme-fabrics: invalid argument",
                Some(K::OptionsRefused),
            ),
            (
                "attach: write /dev/nvme-fabrics: invalid argument",
                Some(K::OptionsRefused),
            ),
            (
                "failed to write to /dev/nvme-fabrics: connection reset by peer",
                Some(K::CmFailed),
            ),
            (
                "failed to write to /dev/nvme-fabrics: operation already in progress",
                None,
            ),
            ("/dev/nvme-fabrics exists", None),
        ] {
            assert_eq!(refused(line).map(|(kind, _)| kind), expected, "{line}");
        }
        let mut target = Target::default();
        let line = "failed to write to /dev/nvme-fabrics: invalid argument";
        for (command, expected) in [
            ("nvme connect -t tcp -n nqn.x -a 10.0.0.4", true),
            ("nvme connect -t rdma -n nqn.x -a 10.0.0.4", false),
            ("nvme connect --transport=tcp -n nqn.x", true),
            ("nvme list-subsys", true),
            ("transport=rdma,traddr=10.0.0.4", false),
        ] {
            target.add(command);
            assert_eq!(target.is_of_tcp(line), expected, "{command}");
        }
    }

    #[test]
    fn a_host_that_the_target_does_not_know_is_refused() {
        for (line, expected) in [
            ("nvme nvme0: qid 0: authentication failed, error -13", true),
            ("nvme nvme3: qid 2 failed to receive challenge, error -104", true),
            ("nvme nvme0: qid 0: authenticated with hash hmac(sha256)", false),
            ("login: authentication failed", false),
        ] {
            assert_eq!(unauthenticated(line).is_some(), expected, "{line}");
        }
    }

    #[test]
    fn a_refusal_counts_where_the_storage_uses_rdma() {
        let iscsi =
            "iscsiadm: initiator reported error (24 - iSCSI login failed due to authorization failure)";
        let nfs = "mount.nfs: access denied by server while mounting nas1:/export/home";
        for (before, refusal, expected) in [
            ("portal: 10.0.0.4,3260", iscsi, true),
            ("iscsiadm -m iface -I iser -o update", iscsi, false),
            ("appraiser started", iscsi, true),
            ("# mount -t nfs nas1:/export/home /mnt", nfs, true),
            ("# mount -o rdma,port=20049 nas1:/export/home /mnt", nfs, false),
            ("# mount -o proto=rdma nas1:/export/home /mnt", nfs, false),
            (
                "",
                "nvme nvme0: Connect for subsystem nqn.x is not allowed, hostnqn: y",
                false,
            ),
            (
                "nvme connect -t tcp -n nqn.x",
                "Connect for subsystem nqn.x is not allowed",
                true,
            ),
            (
                "",
                "scsi host7: ib_srp: SRP LOGIN REJECTED, reason 0x00010006",
                false,
            ),
        ] {
            let mut reader = crate::log::LogReader::default();
            reader.feed(format!("{before}\n{refusal}\n").as_bytes());
            let symptoms = reader.finish().symptoms;
            let refused = symptoms.iter().find(|symptom| symptom.kind == K::StorageRefused);
            let is_note = refused.is_some_and(|symptom| symptom.grade == crate::symptom::Grade::Note);
            assert_eq!(
                (refused.is_some(), is_note),
                (true, expected),
                "{before}: {refusal}"
            );
        }
    }
}
