//! Events in a line: of `rdma_cm`, of `ibv_get_async_event`, and the completion statuses of EFA.

use rdma_health_protocol::{Errno, WcStatus};

use super::line::{Lower, after, is_word, number};
use crate::symptom::SymptomKind;

/// What an event means for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// A failure.
    Symptom(SymptomKind),
    /// Normal, or without consequences.
    Harmless,
}

/// The events of `rdma_cm` (`enum rdma_cm_event_type` of librdmacm), without `RDMA_CM_EVENT_`, in lower case.
const CM_EVENTS: &[(&str, Event)] = &[
    ("addr_error", Event::Symptom(SymptomKind::AddressUnresolved)),
    ("route_error", Event::Symptom(SymptomKind::RouteUnresolved)),
    ("unreachable", Event::Symptom(SymptomKind::PeerUnreachable)),
    ("connect_error", Event::Symptom(SymptomKind::CmFailed)),
    ("rejected", Event::Symptom(SymptomKind::ConnectRefused)),
    ("disconnected", Event::Symptom(SymptomKind::PeerClosed)),
    ("device_removal", Event::Symptom(SymptomKind::DeviceGone)),
    ("multicast_error", Event::Symptom(SymptomKind::AddressUnresolved)),
    ("addr_change", Event::Symptom(SymptomKind::GidChanged)),
    ("", Event::Harmless),
];

/// Asynchronous events: the words of `ibv_event_type_str` and the names of `enum ibv_event_type`, in lower case, with `_` as a space.
const ASYNC_EVENTS: &[(&str, Event)] = &[
    ("port error", Event::Symptom(SymptomKind::PortError)),
    ("port err", Event::Symptom(SymptomKind::PortError)),
    ("port down", Event::Symptom(SymptomKind::PortError)),
    ("gid table change", Event::Symptom(SymptomKind::GidChanged)),
    ("gid change", Event::Symptom(SymptomKind::GidChanged)),
    ("device fatal", Event::Symptom(SymptomKind::DeviceFatal)),
    ("local catastrophic", Event::Symptom(SymptomKind::DeviceFatal)),
    ("cq error", Event::Symptom(SymptomKind::CqError)),
    ("srq limit", Event::Harmless),
    ("cq err", Event::Symptom(SymptomKind::CqError)),
    ("qp fatal", Event::Symptom(SymptomKind::QueueFatal)),
    ("qp req err", Event::Symptom(SymptomKind::QueueError)),
    ("qp access err", Event::Symptom(SymptomKind::QueueAccess)),
    ("srq err", Event::Symptom(SymptomKind::QueueError)),
    (
        "local work queue catastrophic",
        Event::Symptom(SymptomKind::QueueFatal),
    ),
    (
        "invalid request local work queue",
        Event::Symptom(SymptomKind::QueueError),
    ),
    ("local access violation", Event::Symptom(SymptomKind::QueueAccess)),
    ("wq fatal", Event::Symptom(SymptomKind::QueueFatal)),
    ("last wqe reached", Event::Harmless),
    ("communication established", Event::Harmless),
    ("comm est", Event::Harmless),
    ("sq drained", Event::Harmless),
    ("port active", Event::Harmless),
    ("client reregist", Event::Harmless),
    ("sm change", Event::Harmless),
    ("lid change", Event::Harmless),
    ("pkey change", Event::Harmless),
    ("speed change", Event::Harmless),
];

/// What introduces an asynchronous event, in lower case.
const ASYNC_LABELS: &[&str] = &[
    "async event",
    "async error event",
    "async fatal event",
    "asynchronous event",
    "async non-fatal event",
    "ibv_event_",
    "ib_event_",
    "got fatal event",
    "gid table changed",
];

/// The statuses of EFA's completions (`enum efa_io_comp_status` of the kernel's and rdma-core's EFA driver, which libfabric prints as
/// provider error), the provider's own errors, and libfabric's texts for both in its old and new words, in lower case. The first one
/// that occurs applies.
const EFA: &[(&str, SymptomKind)] = {
    use SymptomKind::{Completion, PeerClosed, PeerUnreachable, PostRefused, QueueError, ResourceLimit};
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
        ("failure to post", PostRefused),
        ("error posting", PostRefused),
        ("invalid local key", Completion(LocProtErr)),
        ("error_invalid_lkey", Completion(LocProtErr)),
        ("local memory registration is invalid", Completion(LocProtErr)),
        ("message too long", Completion(LocLenErr)),
        ("local_error_bad_length", Completion(LocLenErr)),
        // The first words of the status were only these two.
        ("message: invalid address", Completion(RemAccessErr)),
        ("remote_error_bad_address", Completion(RemAccessErr)),
        ("remote memory registration is invalid", Completion(RemAccessErr)),
        ("scatter-gather list too short", Completion(RemInvReqErr)),
        ("scatter-gather list (sgl) too short", Completion(RemInvReqErr)),
        ("remote_error_bad_length", Completion(RemInvReqErr)),
        ("unexpected status re", Completion(RemOpErr)),
        ("remote_error_bad_status", Completion(RemOpErr)),
        ("pool exhausted", ResourceLimit),
    ]
};

/// The texts with which the kernel's users of `rdma_cm` name an event (`rdma_event_msg`), as in [`CM_EVENTS`] but with spaces.
const KERNEL_EVENTS: &[&str] = &[
    "address error",
    "route error",
    "connect error",
    "unreachable",
    "rejected",
    "disconnected",
    "device removal",
    "multicast error",
    "address change",
];

/// The event that a line of the kernel names with its number: `iser_cm_handler: REJECTED (8): status 28 conn …`, and the line
/// from its name on.
fn kernel_event(lower: &str) -> Option<(&'static str, &str)> {
    KERNEL_EVENTS.iter().find_map(|name| {
        let at = lower.find(name)?;
        let rest = lower[at + name.len()..].strip_prefix(" (")?;
        let (digits, rest) = rest.split_once(')')?;
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        (is_number && rest.starts_with(": status")).then_some((*name, rest))
    })
}

/// The event in a line of `rdma_cm`.
fn cm_event(line: &Lower<'_>) -> Option<Event> {
    let lower = &line.lower;
    if let Some(kind) = rejection(lower) {
        return Some(Event::Symptom(kind));
    }
    if let Some((name, rest)) = kernel_event(lower) {
        if name == "rejected" {
            return Some(Event::Symptom(reason(rest)));
        }
        let name = name.replace(' ', "_");
        let (_, event) = CM_EVENTS.iter().find(|(known, _)| *known == name)?;
        return Some(*event);
    }
    // A line that compares events names first the expected one, and last the one that came.
    let rest = lower
        .rsplit_once("rdma_cm_event_")
        .or_else(|| lower.rsplit_once("rdma cm event "))
        .or_else(|| lower.rsplit_once("cma_handler: event: "))
        .map(|(_, rest)| rest)?;
    let (_, event) = CM_EVENTS.iter().find(|(name, _)| rest.starts_with(name))?;
    // An unknown address: the kernel could not find the device for it, or no peer answered.
    let errno = super::errors::errno(&Lower::of(rest));
    Some(match (*event, errno) {
        (Event::Symptom(SymptomKind::AddressUnresolved), Some(Errno::ETIMEDOUT)) => {
            Event::Symptom(SymptomKind::PeerUnreachable)
        }
        (event, _) => event,
    })
}

/// Why a peer rejected a connection: the reason of the `InfiniBand` connection manager (IBTA 12.6.7.2, `rdma_reject_msg`), or over
/// iWARP an error number.
fn rejection(lower: &str) -> Option<SymptomKind> {
    let rest = [
        "event_rejected",
        "connect rejected",
        "connection rejected",
        "event: rejected",
    ]
    .iter()
    .find_map(|label| after(lower, label))?;
    Some(reason(rest))
}

/// The reason in the text after a rejection.
fn reason(rest: &str) -> SymptomKind {
    let reason = ["status", "reason", "error"].iter().find_map(|label| {
        let text = after(rest, label)?.trim_start_matches([' ', '=', ':', '(']);
        let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
        Some(sign * i64::try_from(number(digits)?).ok()?)
    });
    match reason {
        // Invalid service ID, and ECONNREFUSED: nothing listens there.
        Some(8 | -111) => SymptomKind::NoListener,
        // Invalid GID or LID.
        Some(12 | 13) => SymptomKind::ConnectInvalid,
        Some(26) => SymptomKind::MtuDiffers,
        _ => SymptomKind::ConnectRefused,
    }
}

fn async_event(line: &Lower<'_>) -> Option<Event> {
    let lower = &line.lower;
    let label = ASYNC_LABELS.iter().filter_map(|label| lower.find(label)).min()?;
    let rest = lower[label..].replace('_', " ");
    let rest = rest
        .trim_start_matches("ibv event ")
        .trim_start_matches("ib event ");
    let found = ASYNC_EVENTS
        .iter()
        .find(|(words, _)| rest.contains(words))
        .map(|(_, event)| *event);
    let fatal = || {
        rest.contains("fatal")
            .then_some(Event::Symptom(SymptomKind::DeviceFatal))
    };
    found.or_else(fatal)
}

/// Whether a line names a status of EFA, which says more than libfabric's number for it.
pub(super) fn is_of_efa(line: &Lower<'_>) -> bool {
    efa(line).is_some()
}

/// EFA's unreachable peers. `RC: 20` and the like are numbers of libfabric, which other providers use differently.
fn efa(line: &Lower<'_>) -> Option<Event> {
    let lower = &line.lower;
    let about = ["efa", "ofi", "rxr_", "fi_"].iter().any(|word| {
        lower
            .find(word)
            .is_some_and(|at| at == 0 || !is_word(lower.as_bytes()[at - 1]))
    });
    if !about {
        return None;
    }
    let (_, kind) = EFA.iter().find(|(words, _)| lower.contains(words))?;
    Some(Event::Symptom(*kind))
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

/// The event that a whole text in lower case names in the words of `ibv_event_type_str`; `Some(None)` has no consequence.
#[expect(
    clippy::option_option,
    reason = "not an event, an event without a consequence, or one with a meaning"
)]
pub(crate) fn event_in_words(text: &str) -> Option<Option<SymptomKind>> {
    const ENDINGS: [&str; 7] = [
        "",
        " error",
        " event",
        " work queue error",
        " work queue",
        "ed",
        "ration",
    ];
    let is_whole = |words: &str| {
        text.strip_prefix(words)
            .is_some_and(|rest| words.contains(' ') && ENDINGS.contains(&rest))
    };
    let (_, event) = ASYNC_EVENTS.iter().find(|(words, _)| is_whole(words))?;
    Some(match event {
        Event::Symptom(kind) => Some(*kind),
        Event::Harmless => None,
    })
}

/// The event with this name in lower case, with or without the prefix of its library; `Some(None)` has no consequence.
#[expect(
    clippy::option_option,
    reason = "not an event, an event without a consequence, or one with a meaning"
)]
pub(crate) fn event_named(name: &str) -> Option<Option<SymptomKind>> {
    let symptom = |event| match event {
        Event::Symptom(kind) => Some(kind),
        Event::Harmless => None,
    };
    let is_async = name.starts_with("ibv_event_") || name.starts_with("ib_event_");
    if is_async {
        return async_event(&Lower::of(name)).map(symptom);
    }
    let whole = name.strip_prefix("rdma_cm_event_");
    let event = CM_EVENTS
        .iter()
        .find(|(event, _)| *event == whole.unwrap_or(name) && !event.is_empty());
    match (event, whole) {
        (Some((_, event)), _) => Some(symptom(*event)),
        // The others are steps of a connection.
        (None, Some(_)) => Some(None),
        (None, None) => None,
    }
}

/// The event in a line.
pub(super) fn event(line: &Lower<'_>) -> Option<Event> {
    cm_event(line).or_else(|| async_event(line)).or_else(|| efa(line))
}
