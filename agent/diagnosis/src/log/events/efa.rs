//! The errors of EFA: the statuses of its completions, and those of libfabric's provider for it, by their words and by their numbers.

use rdma_health_protocol::WcStatus;

use crate::{
    log::line::{Lower, after, is_word, number},
    symptom::SymptomKind,
};

/// The statuses of EFA's completions (`enum efa_io_comp_status` of the kernel's and rdma-core's EFA driver, which libfabric prints as
/// provider error), the provider's own errors, and libfabric's texts for both in its old and new words, in lower case. The first one
/// that occurs applies.
const EFA: &[(&str, SymptomKind)] = {
    use SymptomKind::{
        Completion, CqError, NoMemory, PeerClosed, PeerDiffers, PeerUnreachable, PostRefused, QueueError,
        ResourceLimit, SharedMemory,
    };
    use WcStatus::{LocLenErr, LocProtErr, RemAccessErr, RemInvReqErr, RemOpErr, WrFlushErr};
    &[
        // The peer was reached: its device answers, or it had answered before. Its process does not.
        ("but handshake failed", PeerClosed),
        ("connection previously established", PeerClosed),
        ("established_recv_unresp", PeerClosed),
        ("unresponsive remote", PeerUnreachable),
        ("unreachable remote", PeerUnreachable),
        ("unresponsive receiver", PeerUnreachable),
        ("receiver not ready", PeerUnreachable),
        ("destination resource not ready", PeerUnreachable),
        ("unknown peer", PeerUnreachable),
        ("error_unresp", PeerUnreachable),
        ("error_unreach", PeerUnreachable),
        ("recv_unresp", PeerUnreachable),
        ("unresp_remote", PeerUnreachable),
        ("unreach_remote", PeerUnreachable),
        ("unknown_peer", PeerUnreachable),
        ("failure posting handshake to peer", PeerUnreachable),
        ("remote_error_abort", PeerClosed),
        ("bad_dest_qpn", PeerClosed),
        ("remote_error_rnr", PeerClosed),
        ("invalid qpn", PeerClosed),
        ("remote aborted", PeerClosed),
        ("bad dest qpn", PeerClosed),
        ("bad queue pair (qp) number", PeerClosed),
        ("invalid receiver queue pair number", PeerClosed),
        ("connection was reset by remote peer", PeerClosed),
        ("receiver connection aborted", PeerClosed),
        ("no valid address handle at remote side", PeerClosed),
        ("flushed during queue pair destroy", Completion(WrFlushErr)),
        ("internal queue pair error", QueueError),
        ("qp_internal_error", QueueError),
        ("invalid operation type", PostRefused),
        ("unsupported operation type", PostRefused),
        ("local_error_unsupported_op", PostRefused),
        ("invalid address handle", PostRefused),
        ("error_invalid_ah", PostRefused),
        // The provider's own buffers, not the job's.
        ("failure to post internal", NoMemory),
        ("failure to post", PostRefused),
        ("error posting", PostRefused),
        ("invalid local key", Completion(LocProtErr)),
        ("error_invalid_lkey", Completion(LocProtErr)),
        ("local key (lkey) invalid", Completion(LocProtErr)),
        ("local memory registration is invalid", Completion(LocProtErr)),
        ("message too long", Completion(LocLenErr)),
        ("local_error_bad_length", Completion(LocLenErr)),
        // The first words of the status were only these two.
        ("message: invalid address", Completion(RemAccessErr)),
        ("remote_error_bad_address", Completion(RemAccessErr)),
        ("remote memory registration is invalid", Completion(RemAccessErr)),
        ("remote key (rkey) not registered", Completion(RemAccessErr)),
        ("scatter-gather list too short", Completion(RemInvReqErr)),
        ("scatter-gather list (sgl) too short", Completion(RemInvReqErr)),
        ("remote_error_bad_length", Completion(RemInvReqErr)),
        ("unexpected status re", Completion(RemOpErr)),
        ("remote_error_bad_status", Completion(RemOpErr)),
        ("pool exhausted", ResourceLimit),
        ("entries exhausted", ResourceLimit),
        // The provider's own errors.
        ("rma address verification failed", Completion(RemAccessErr)),
        ("rma_addr", Completion(RemAccessErr)),
        ("rtm size mismatch", Completion(RemInvReqErr)),
        ("deprecated packet type", PeerDiffers),
        ("invalid packet type", PeerDiffers),
        ("unknown packet type", PeerDiffers),
        ("into address vector", PeerUnreachable),
        ("failure to send packet", PostRefused),
        ("error processing non-tagged rtm", QueueError),
        ("error processing tagged rtm", QueueError),
        ("packet already processed", QueueError),
        ("failure to write send completion", CqError),
        ("failure to write receive completion", CqError),
        ("error reading from dgram cq", CqError),
        ("shm internal error", SharedMemory),
        ("entry for shm operation", SharedMemory),
        ("internal error: (4105) out of memory", NoMemory),
    ]
};

/// The numbers of the statuses (`enum efa_errno` of libfabric's `prov/efa/src/efa_errno.h`), which programs print without their words: those of
/// completions from 1 on, those of the provider from 4096 on. The words of the ones that are missing say nothing, either.
const NUMBERS: &[(u64, SymptomKind)] = {
    use SymptomKind::{
        Completion, CqError, NoMemory, PeerClosed, PeerDiffers, PeerUnreachable, PostRefused, QueueError,
        ResourceLimit, SharedMemory,
    };
    use WcStatus::{LocLenErr, LocProtErr, RemAccessErr, RemInvReqErr, RemOpErr, WrFlushErr};
    &[
        (1, Completion(WrFlushErr)),
        (2, QueueError),
        (3, PostRefused),
        (4, PostRefused),
        (5, Completion(LocProtErr)),
        (6, Completion(LocLenErr)),
        (7, Completion(RemAccessErr)),
        (8, PeerClosed),
        (9, PeerClosed),
        (10, PeerClosed),
        (11, Completion(RemInvReqErr)),
        (12, Completion(RemOpErr)),
        (13, PeerUnreachable),
        (14, PeerUnreachable),
        (15, PeerUnreachable),
        (4097, PeerDiffers),
        (4098, PeerDiffers),
        (4099, PeerDiffers),
        (4100, PostRefused),
        (4101, PostRefused),
        (4102, QueueError),
        (4103, QueueError),
        (4104, QueueError),
        (4105, NoMemory),
        (4108, ResourceLimit),
        (4109, ResourceLimit),
        (4110, PeerUnreachable),
        (4111, Completion(RemAccessErr)),
        (4112, NoMemory),
        (4113, PeerUnreachable),
        (4114, PostRefused),
        (4115, Completion(RemInvReqErr)),
        (4116, PostRefused),
        (4117, PostRefused),
        (4118, PostRefused),
        (4119, CqError),
        (4120, CqError),
        (4121, CqError),
        (4122, SharedMemory),
        (4123, SharedMemory),
        (4124, PeerClosed),
        (4125, PeerDiffers),
        (4126, PeerClosed),
    ]
};

/// The status that a line in lower case names by its number: `EFA internal error: (4111)`, `prov_errno: 13`, `prov_err: 4124`.
fn numbered(lower: &str) -> Option<SymptomKind> {
    const LABELS: [&str; 4] = ["efa internal error", "prov_errno", "prov errno", "prov_err"];
    let rest = LABELS.iter().find_map(|label| after(lower, label))?;
    let value = number(rest.trim_start_matches([' ', ':', '=', '(']))?;
    let (_, kind) = NUMBERS.iter().find(|(number, _)| *number == value)?;
    Some(*kind)
}

/// Whether a line names a status of EFA, which says more than libfabric's number for it.
pub(in crate::log) fn is_of_efa(line: &Lower<'_>) -> bool {
    event(line).is_some()
}

/// EFA's unreachable peers. `RC: 20` and the like are numbers of libfabric, which other providers use differently.
pub(super) fn event(line: &Lower<'_>) -> Option<SymptomKind> {
    let lower = &line.lower;
    let has = |word: &str| {
        // The first one may be in another word: `default3`.
        lower
            .match_indices(word)
            .any(|(at, _)| at == 0 || !is_word(lower.as_bytes()[at - 1]))
    };
    if !["efa", "ofi", "rxr_", "fi_"].iter().any(|word| has(word)) {
        return None;
    }
    let by_words = EFA.iter().find(|(words, _)| lower.contains(words));
    let by_number = || numbered(lower).filter(|_| has("efa"));
    by_words.map(|(_, kind)| *kind).or_else(by_number)
}

/// The meaning of a status of EFA by its name in lower case.
pub(crate) fn efa_status(name: &str) -> Option<SymptomKind> {
    let (_, kind) = EFA
        .iter()
        .find(|(words, _)| name.contains("efa_") && name.contains(words))?;
    Some(*kind)
}

/// What a text in lower case stands for that begins with the words of one of EFA's errors, as in `unresponsive receiver (…)`.
pub(crate) fn efa_words(text: &str) -> Option<SymptomKind> {
    let is_known = EFA
        .iter()
        .any(|(words, _)| words.contains(' ') && text.starts_with(words));
    let (_, kind) = EFA
        .iter()
        .find(|(words, _)| is_known && words.contains(' ') && text.contains(words))?;
    Some(*kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_before_the_line_does_not_hide_what_it_is_about() {
        for line in [
            "efa_rdm_txe_handle_error: message: Unresponsive receiver. …",
            "[default3]:libfabric:451:1708::efa:cq:efa_rdm_txe_handle_error():737<warn> message: Unresponsive receiver. …",
        ] {
            assert!(event(&Lower::of(line)).is_some(), "{line}");
        }
        assert_eq!(event(&Lower::of("default: Unresponsive receiver")), None);
    }
}
