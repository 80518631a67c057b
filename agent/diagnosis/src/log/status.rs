//! The status of a completion in a line, by name, text or number.

use std::sync::LazyLock;

use rdma_health_protocol::WcStatus;

use super::{
    line::{Lower, after, number, word},
    phrases::{Occurrence, Phrases},
};
use crate::symptom::completion::{of_syndrome, words};

/// Texts for a status other than those of `ibv_wc_status_str`: newer libibverbs, Open MPI's openib BTL, UCX, MVAPICH, libfabric's
/// `vrb_wc_status_str`, in lower case. The first one that occurs applies.
const OTHER_TEXTS: &[(&str, WcStatus)] = &[
    ("receiver not ready retry", WcStatus::RnrRetryExcErr),
    ("rnr retry", WcStatus::RnrRetryExcErr),
    ("retry exceeded error", WcStatus::RetryExcErr),
    ("retry count exceeded", WcStatus::RetryExcErr),
    ("retry counter exceeded", WcStatus::RetryExcErr),
    (
        "retry count between two mpi processes has been exceeded",
        WcStatus::RetryExcErr,
    ),
    ("work request flushed", WcStatus::WrFlushErr),
    ("request flushed error", WcStatus::WrFlushErr),
    ("local protocol error", WcStatus::LocProtErr),
    ("local protection", WcStatus::LocProtErr),
    ("remote invalid request", WcStatus::RemInvReqErr),
    ("remote access", WcStatus::RemAccessErr),
    ("remote operation", WcStatus::RemOpErr),
    // `ib_wc_status_msg` of the kernel.
    ("wr flushed", WcStatus::WrFlushErr),
    ("memory management operation error", WcStatus::MwBindErr),
    ("bad response", WcStatus::BadRespErr),
];

/// Statuses whose texts occur in lines of all kinds: "fatal error".
const VAGUE: [WcStatus; 4] = [
    WcStatus::FatalErr,
    WcStatus::GeneralErr,
    WcStatus::TmErr,
    WcStatus::RemAbortErr,
];

/// What stands between the name of the interface and that of a status.
pub(super) const LABEL_OF_NAMES: &str = "_wc_";

/// What must precede the number of a status, in lower case. The words of the second part must occur, too.
const LABELS: &[(&str, &[&str])] = &[
    ("failed status", &[]),
    ("send status", &[]),
    ("recv status", &[]),
    (
        "failed",
        &["kiblnd_tx_complete", "kiblnd_rx_complete", "kiblnd_complete"],
    ),
    ("status number", &[]),
    ("wc status", &[]),
    ("wc.status", &[]),
    ("wc_status", &[]),
    ("ibv_wc", &[]),
    ("completion status", &[]),
    ("completion with error", &[]),
    ("completion error", &[]),
    ("completed with error", &["poll"]),
    (
        "status",
        &[
            "completion",
            "wc",
            "cqe",
            "work request",
            "work item",
            "wr id",
            "vend_err",
            "poll_cq",
            "poll cq",
            // perftest: `Poll send CQ error status=12 qp 4711`.
            "poll send cq",
            "poll recv cq",
            "on cq",
            // Open MPI before 1.3: `error polling HP CQ with status 12 for wr_id 47003518529948`.
            "cq with",
            "wr_id",
            // GASNet: `snd status=12 opcode=0 dst_node=1 dst_qp=0`, `rcv comp->status=5`.
            "dst_qp",
            "comp->",
        ],
    ),
    ("with error", &["completion", "wc", "cqe", "poll_cq", "poll cq"]),
    ("state error", &["wc", "cq"]),
    // What a check expected, then what it found: `wc.status == IBV_WC_SUCCESS (12 vs. 0)`.
    ("ibv_wc_success", &["wc"]),
    // The kernel's: `wc.status != IB_WC_SUCCESS 12`.
    ("ib_wc_success", &["wc"]),
    // Gloo's: `wc->status == IBV_WC_SUCCESS. 12 vs 0.`
    ("ibv_wc_success.", &["wc"]),
];

/// How the names of a status begin that a vendor's driver or library has of its own, in lower case: `RDMA_CQE_REQ_STS_…` of qedr, `CQ_REQ_STATUS_…`
/// of `bnxt_re`, `MLX5_CQE_SYNDROME_…`, `HNS_ROCE_V2_CQE_…`, `EFA_IO_COMP_STATUS_…`.
const OF_VENDORS: [&str; 7] = [
    "_sts_",
    "cqe_syndrome_",
    "req_status_",
    "resp_status_",
    "cq_res_rc_status_",
    "v2_cqe_",
    "cqe_v2_",
];

/// How they go on, and what is the same in libibverbs.
const VENDORS_NAMES: [(&str, WcStatus); 27] = [
    ("transport_retry_cnt_err", WcStatus::RetryExcErr),
    ("transport_retry_exc_err", WcStatus::RetryExcErr),
    ("rnr_nak_retry_cnt_err", WcStatus::RnrRetryExcErr),
    ("rnr_retry_exc_err", WcStatus::RnrRetryExcErr),
    ("work_request_flushed_err", WcStatus::WrFlushErr),
    ("wr_flush_err", WcStatus::WrFlushErr),
    ("local_length_err", WcStatus::LocLenErr),
    ("local_qp_operation_err", WcStatus::LocQpOpErr),
    ("local_qp_op_err", WcStatus::LocQpOpErr),
    ("local_protection_err", WcStatus::LocProtErr),
    ("local_prot_err", WcStatus::LocProtErr),
    ("local_access_err", WcStatus::LocAccessErr),
    ("memory_mgt_operation_err", WcStatus::MwBindErr),
    ("memory_mgt_err", WcStatus::MwBindErr),
    ("mem_mgt_oper_err", WcStatus::MwBindErr),
    ("mem_manage_operate_err", WcStatus::MwBindErr),
    ("mw_bind_err", WcStatus::MwBindErr),
    ("bad_response_err", WcStatus::BadRespErr),
    ("bad_resp_err", WcStatus::BadRespErr),
    ("remote_invalid_request_err", WcStatus::RemInvReqErr),
    ("remote_inval_req_err", WcStatus::RemInvReqErr),
    ("remote_invalid_req_err", WcStatus::RemInvReqErr),
    ("remote_access_err", WcStatus::RemAccessErr),
    ("remote_operation_err", WcStatus::RemOpErr),
    ("remote_op_err", WcStatus::RemOpErr),
    ("remote_aborted_err", WcStatus::RemAbortErr),
    ("remote_abort_err", WcStatus::RemAbortErr),
];

/// The status that a line in lower case names as a vendor does.
fn of_vendor(lower: &str) -> Option<WcStatus> {
    if !lower.contains("_err") {
        return None;
    }
    OF_VENDORS.iter().find_map(|label| {
        let at = lower.find(label)? + label.len();
        let rest = &lower[at..];
        let (name, status) = VENDORS_NAMES.iter().find(|(name, _)| rest.starts_with(name))?;
        (!is_count_of_none(&rest[name.len()..])).then_some(*status)
    })
}

/// The status that a line names, if it is not success.
pub(super) fn status(line: &Lower<'_>) -> Option<WcStatus> {
    if is_of_netdev(&line.lower) {
        return None;
    }
    symbol(&line.lower)
        .or_else(|| of_vendor(&line.lower))
        .or_else(|| syndrome(line))
        .or_else(|| labelled(&line.lower))
        .or_else(|| by_text(&line.lower))
        .or_else(|| short(&line.lower))
        .or_else(|| vague(&line.lower))
}

/// Whether the driver mlx5 reports a queue of its network device, not one of a program: `mlx5_core 0000:3b:00.1 eth1: Error cqe on cqn 0x817, …`. Of a queue
/// of RDMA it names only the function, or the RDMA device.
pub(super) fn is_of_netdev(lower: &str) -> bool {
    let Some((before, _)) = lower.split_once(": error cqe on cqn") else {
        return false;
    };
    let mut words = before.rsplit(' ');
    let named = words
        .next()
        .is_some_and(|name| !name.contains(':') && !name.contains("mlx5_"));
    named
        && words
            .next()
            .is_some_and(|address| address.matches(':').count() == 2)
}

/// Whether a line in lower case names the status of a completion in words that no other library uses: one that names RDMA no further
/// is about it.
pub(super) fn is_of_completion(lower: &str) -> bool {
    has_context(lower) && short(lower).or_else(|| by_text(lower)).is_some()
}

/// Whether a line is about completions. Services that complete texts have them, too.
fn has_context(lower: &str) -> bool {
    lower.contains("completion")
        || lower.contains("work request")
        || has_word(lower, &["wc", "cq", "cqe", "wcstatus"])
}

fn has_word(lower: &str, names: &[&str]) -> bool {
    lower
        .split(|c: char| !c.is_ascii_alphanumeric())
        .any(|word| names.contains(&word))
}

/// The name of a status without its prefix, as bindings of other languages have it: `retry_exc_err`, `WcStatus::RetryExcErr`.
fn short(lower: &str) -> Option<WcStatus> {
    if !(lower.contains("err") && has_context(lower)) {
        return None;
    }
    let mut words = lower.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let mut place = 0;
    words.find_map(|word| {
        place += word.len();
        let name = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let end = place - word.len() + name.len();
        let is_one = |status: &&WcStatus| {
            let of_status = status.name().trim_start_matches("IBV_WC_");
            letters(name).eq(letters(of_status))
        };
        let found = WcStatus::ALL.iter().find(is_one)?;
        (!is_count_of_none(&lower[end..])).then_some(*found)
    })
}

/// The letters of a name in lower case.
fn letters(name: &str) -> impl Iterator<Item = u8> {
    name.bytes()
        .filter(|byte| *byte != b'_')
        .map(|byte| byte.to_ascii_lowercase())
}

/// A text of a status that lines of all kinds have, in a line that says that it is one.
fn vague(lower: &str) -> Option<WcStatus> {
    let names_status = [
        "wc_status",
        "wc status",
        "work completion",
        "vendor_err",
        "vendor err",
    ]
    .iter()
    .any(|words| lower.contains(words))
        || lower.contains("rdma") && lower.contains("completion status");
    let at = |status: &&WcStatus| lower.contains(words(**status));
    VAGUE.iter().find(at).filter(|_| names_status).copied()
}

/// The status that a text names, in any case of letters.
pub(crate) fn status_in(text: &str) -> Option<WcStatus> {
    status(&Lower::of(text))
}

/// Whether a line in lower case names a status as libibverbs does.
pub(super) fn names_status(lower: &str) -> bool {
    symbol(lower).is_some()
}

/// `IBV_WC_RETRY_EXC_ERR` of libibverbs and `IB_WC_RETRY_EXC_ERR` of the kernel, in any case of letters.
fn symbol(lower: &str) -> Option<WcStatus> {
    if lower.contains("0 occurrences") {
        return None;
    }
    lower.match_indices(LABEL_OF_NAMES).find_map(|(at, label)| {
        let before = &lower[..at];
        let of_kernel = || {
            let rest = before.strip_suffix("ib")?;
            Some(!rest.ends_with(|c: char| c.is_ascii_alphanumeric()))
        };
        if !(before.ends_with("ibv") || of_kernel() == Some(true)) {
            return None;
        }
        let found = &lower[at + label.len()..];
        let end = found
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(found.len());
        let named = WcStatus::named(&found[..end.min(40)].to_ascii_uppercase());
        named.filter(|_| !is_count_of_none(&found[end..]))
    })
}

/// Whether the text after the name of a status counts none of it: ` count: 0`, `=0`, ` 0, `.
pub(super) fn is_count_of_none(text: &str) -> bool {
    const SIGNS: [char; 4] = [' ', '"', ':', '='];
    let text = text.trim_start_matches(SIGNS);
    let number = text
        .strip_prefix("count")
        .unwrap_or(text)
        .trim_start_matches(SIGNS);
    number
        .strip_prefix('0')
        .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '.'))
}

/// `(synd 0x4 vend 0x51 …)` of UCX, `syndrome 0x5, vendor syndrome 0xf9` of the kernel's completion queue entries, `error cqe status: 0x15` of
/// the driver hns, whose numbers are the same.
fn syndrome(line: &Lower<'_>) -> Option<WcStatus> {
    let of_cqe = ["cqe", "poll_one", "completion"]
        .iter()
        .any(|word| line.lower.contains(word));
    let text = after(&line.lower, "(synd 0x")
        .or_else(|| after(&line.lower, "syndrome 0x").filter(|_| of_cqe))
        .or_else(|| after(&line.lower, "error cqe status: 0x"))
        .or_else(|| after(&line.lower, "error cqe status 0x"))?;
    of_syndrome(number(&format!("0x{text}"))?)
}

fn labelled(lower: &str) -> Option<WcStatus> {
    LABELS.iter().find_map(|(label, needed)| {
        if !needed.is_empty() && !needed.iter().any(|word| lower.contains(word)) {
            return None;
        }
        let mut rest = lower;
        while let Some(value) = after(rest, label) {
            const SIGNS: [char; 5] = [' ', '=', ':', '(', '\''];
            // NVSHMEM's own status, which it prints first: `non-zero status: 7 ibv_poll_cq failed, status: 12`.
            if rest[..rest.len() - value.len() - label.len()].ends_with("non-zero ") {
                rest = value;
                continue;
            }
            let value = value.trim_start_matches(SIGNS);
            let value = value
                .strip_prefix("error")
                .map_or(value, |value| value.trim_start_matches(SIGNS));
            // `status=IBV_WC_LOC_PROT_ERR(4)` is read by name.
            if let Some(status) = number(value).and_then(WcStatus::of) {
                let is_whole = word(value).is_some_and(|word| {
                    let word = word.trim_end_matches([':', '.']);
                    word.bytes().all(|b| b.is_ascii_digit())
                        || word
                            .strip_prefix("0x")
                            .is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))
                });
                if is_whole {
                    return Some(status);
                }
            }
            rest = value;
        }
        None
    })
}

/// Texts of statuses with their statuses, those of `ibv_wc_status_str` first.
static TEXTS: LazyLock<(Phrases, Vec<WcStatus>)> = LazyLock::new(|| {
    let standard = WcStatus::ALL
        .iter()
        .filter(|status| !VAGUE.contains(status))
        .map(|status| (words(*status), *status));
    let (texts, statuses): (Vec<_>, Vec<_>) = standard.chain(OTHER_TEXTS.iter().copied()).unzip();
    (Phrases::new(texts), statuses)
});

fn by_text(lower: &str) -> Option<WcStatus> {
    let (phrases, statuses) = &*TEXTS;
    // `no backends support remote operations` is not a status.
    let is_plural = |found: &Occurrence| {
        lower[found.end..]
            .strip_prefix('s')
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
    };
    // SPDK gives up its requests with the same words after any error.
    let is_fixed = |found: &Occurrence| lower[..found.start].contains("abort requests after ");
    let found = phrases
        .find(lower)
        .filter(|found| !is_plural(found) && !is_fixed(found))
        .min_by_key(|found| (found.start, found.index))?;
    statuses.get(found.index).copied()
}

/// The vendor's error code: `vendor err 129`, `vendor_err=81`, `vend 0x51`, `vendor code=0x81`, perftest's `syndrom 0x81`.
pub(crate) fn vendor_error(lower: &str) -> Option<u32> {
    let labels = ["vendor", " vend ", "syndrom "];
    labels.iter().find_map(|label| {
        let rest = after(lower, label)?;
        let rest = rest.trim_start_matches(|c: char| {
            c.is_ascii_alphabetic() && c != 'x' || matches!(c, ' ' | '_' | '=' | ':' | ',' | '(')
        });
        number(rest).and_then(|code| u32::try_from(code).ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_of_a_network_device_is_not_one_of_rdma() {
        let status = |function: &str| {
            let line = format!(
                "mlx5_core {function}: Error cqe on cqn 0x817, ci 0x8, qn 0x1dbb, opcode 0xd, syndrome 0x4, vendor syndrome 0x68"
            );
            status(&Lower::of(&line))
        };
        assert_eq!(status("0000:3b:00.1 eth1"), None);
        assert_eq!(status("0000:3b:00.1"), Some(WcStatus::LocProtErr));
    }

    #[test]
    fn a_status_is_read_by_its_short_name_and_in_hexadecimal() {
        for (line, expected) in [
            ("ERROR send WC failed: loc_len_err", Some(WcStatus::LocLenErr)),
            (
                "Error: WorkCompletionError(RNR_RETRY_EXC_ERR)",
                Some(WcStatus::RnrRetryExcErr),
            ),
            (
                "panicked at: WC error WcStatus::RemInvReqErr",
                Some(WcStatus::RemInvReqErr),
            ),
            (
                "Completion with status 0xc was found",
                Some(WcStatus::RetryExcErr),
            ),
            (
                "got bad completion with status: 0x4, vendor syndrome: 0x51",
                Some(WcStatus::LocProtErr),
            ),
            (
                "work completion failed with status fatal error",
                Some(WcStatus::FatalErr),
            ),
            ("completions: retry_exc_err: 0, loc_len_err=0", None),
            ("retry_exc_err is a status", None),
            // The names of drivers.
            (
                "[qedr_poll_cq_req:4012(qedr0)]Error: POLL CQ with RDMA_CQE_REQ_STS_TRANSPORT_RETRY_CNT_ERR. CQ icid=0x1, QP icid=0x10",
                Some(WcStatus::RetryExcErr),
            ),
            (
                "bnxt_re0: cqe error CQ_REQ_STATUS_RNR_NAK_RETRY_CNT_ERR",
                Some(WcStatus::RnrRetryExcErr),
            ),
            (
                "CQE with MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR",
                Some(WcStatus::RemAccessErr),
            ),
            ("req_status_remote_access_err: 0", None),
            ("chat completion: fatal error", None),
            ("completion with status 0x0", None),
        ] {
            assert_eq!(status_in(line), expected, "{line}");
        }
    }

    #[test]
    fn a_completion_of_rdma_is_told_from_one_of_text() {
        assert!(is_of_completion("completion error: local protection error"));
        assert!(is_of_completion("event completion_error: rem_access_err"));
        assert!(!is_of_completion("chat completion error: timed out"));
        assert!(!is_of_completion("local protection error"));
    }
}
