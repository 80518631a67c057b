//! Events in a line: of `rdma_cm`, of `ibv_get_async_event`, and the completion statuses of EFA.

mod efa;

use rdma_health_protocol::Errno;

use super::line::{Lower, after, number};
use crate::symptom::SymptomKind;
pub(super) use efa::is_of_efa;
pub(crate) use efa::{efa_status, efa_words};

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
    ("srq catastrophic", Event::Symptom(SymptomKind::QueueError)),
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
    "async qp event",
    "async error event",
    "async fatal event",
    "asynchronous event",
    "async non-fatal event",
    "ibv_event_",
    "ib_event_",
    "got fatal event",
    "gid table changed",
    // SCST's: `dev:mlx5_0 HCA evt: local catastrophic error`.
    " evt: ",
];

/// What says that an end of a connection was wanted, in lower case.
const WANTED: [&str; 5] = [
    "as requested",
    "on request",
    "gracefully",
    "as expected",
    "normal shutdown",
];

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

/// What an event means that is named as in [`KERNEL_EVENTS`].
fn of_kernel(name: &str) -> Option<Event> {
    let name = name.replace("address", "addr").replace(' ', "_");
    let (_, event) = CM_EVENTS.iter().find(|(known, _)| *known == name)?;
    Some(*event)
}

/// The event that a line of the kernel names with its number: `iser_cm_handler: REJECTED (8): status 28 conn …`, and the line
/// from its name on.
fn kernel_event(lower: &str) -> Option<(&'static str, &str)> {
    let is_named = lower.contains("cm event");
    KERNEL_EVENTS.iter().find_map(|name| {
        let at = lower.find(name)?;
        let rest = lower[at + name.len()..].strip_prefix(" (")?;
        let (digits, rest) = rest.split_once(')')?;
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        (is_number && (is_named || rest.starts_with(": status"))).then_some((*name, rest))
    })
}

/// Whether a line in lower case names an event of `rdma_cm` with its number and status, as no other connection does: `nvme nvme1: unreachable
/// (7): status -110 id 00000000ab12cd34`.
pub(super) fn is_of_cm(lower: &str) -> bool {
    kernel_event(lower).is_some_and(|(_, rest)| rest.starts_with(": status"))
}

/// The event that a line of the kernel names by its number only (`enum rdma_cm_event_type`), as older clients and targets of storage do:
/// `iser_cma_handler: event 6 status -110 conn …`.
fn numbered_event(lower: &str) -> Option<(Event, &str)> {
    const HANDLERS: [&str; 4] = ["cma_handler", "cm_handler", "cm_event_handler", "cma event"];
    /// What says that another event came than the one that a program waits for.
    const UNEXPECTED: [&str; 2] = ["unexpected cm event ", "unexpected cma event "];
    /// Names of [`CM_EVENTS`] by the number; an empty one is a step of a connection.
    const NUMBERED: [&str; 16] = [
        "",
        "addr_error",
        "",
        "route_error",
        "",
        "",
        "connect_error",
        "unreachable",
        "rejected",
        "",
        "disconnected",
        "device_removal",
        "",
        "multicast_error",
        "addr_change",
        "",
    ];
    let unexpected = UNEXPECTED.iter().find_map(|words| after(lower, words));
    let of_handler = || {
        let at = HANDLERS.iter().find_map(|handler| lower.find(handler))?;
        after(&lower[at..], "event ")
    };
    let rest = unexpected.or_else(of_handler)?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = rest.split_at(digits);
    let is_one = [" status", ", status", " error", ", error"]
        .iter()
        .any(|label| rest.starts_with(label));
    let is_whole = unexpected.is_some() && rest.trim_end_matches(['.', '\n', ' ']).is_empty();
    let name = NUMBERED
        .get(number.parse::<usize>().ok()?)
        .filter(|_| is_one || is_whole)?;
    let (_, event) = CM_EVENTS.iter().find(|(known, _)| known == name)?;
    Some((*event, rest))
}

/// An event with the error number behind its status: an address or a connection for which no answer came.
fn with_status(event: Event, rest: &str) -> Event {
    let is_late = after(rest, "status").is_some_and(|rest| {
        let digits = rest
            .trim_start_matches([' ', '=', ':'])
            .strip_prefix("-110")
            .unwrap_or("x");
        !digits.starts_with(|c: char| c.is_ascii_alphanumeric())
    });
    match event {
        Event::Symptom(SymptomKind::AddressUnresolved | SymptomKind::CmFailed) if is_late => {
            Event::Symptom(SymptomKind::PeerUnreachable)
        }
        event => event,
    }
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
        // A target whose host left.
        if name == "disconnected" && lower.contains("nvmet_rdma: ") {
            return Some(Event::Harmless);
        }
        return Some(with_status(of_kernel(name)?, rest));
    }
    if let Some((event, rest)) = numbered_event(lower) {
        return Some(match event {
            Event::Symptom(SymptomKind::ConnectRefused) => Event::Symptom(reason(rest)),
            event => with_status(event, rest),
        });
    }
    // A line that compares events names first the expected one, and last the one that came.
    let rest = lower
        .rsplit_once("rdma_cm_event_")
        .or_else(|| lower.rsplit_once("rdma cm event "))
        .or_else(|| lower.rsplit_once("cma_handler: event: "))
        .or_else(|| lower.rsplit_once("cm event: "))
        .map(|(_, rest)| rest)?;
    // `CM error (CM event: address error, err: -110)` has the words of the kernel.
    let in_words = KERNEL_EVENTS.iter().find(|name| rest.starts_with(**name));
    let named = in_words.and_then(|name| Some((*name, of_kernel(name)?)));
    let (name, event) = named.or_else(|| {
        let mut known = CM_EVENTS.iter();
        known.find(|(name, _)| rest.starts_with(name)).copied()
    })?;
    // `Unable to create RDMA CM event channel` names no event.
    let of_events = ["channel", "handler", "loop", "queue", "thread"];
    if event == Event::Harmless && of_events.iter().any(|noun| rest.starts_with(noun)) {
        return None;
    }
    if event == Event::Harmless
        && let Some(kind) = awaited(&lower[..lower.len() - rest.len()], rest)
    {
        return Some(Event::Symptom(kind));
    }
    // One of the ends closes what it no longer needs.
    let is_wanted = || WANTED.iter().any(|words| rest.contains(words));
    if name == "disconnected" && is_wanted() {
        return Some(Event::Harmless);
    }
    // An unknown address: the kernel could not find the device for it, or no peer answered.
    let errno = super::errors::errno(&Lower::of(rest));
    // No RDMA device has an address of the loopback interface.
    let is_loopback = ["127.0.0.1:", "127.0.0.1 ", "[::1]:"]
        .iter()
        .any(|address| rest.contains(address));
    Some(match (event, errno) {
        (Event::Symptom(SymptomKind::PeerUnreachable), _) if is_loopback => {
            Event::Symptom(SymptomKind::AddressUnresolved)
        }
        (Event::Symptom(SymptomKind::AddressUnresolved), Some(Errno::ETIMEDOUT)) => {
            Event::Symptom(SymptomKind::PeerUnreachable)
        }
        (event, _) => with_status(event, rest),
    })
}

/// What it shows that a program waits in vain for an event of a connection that works: `Timeout waiting for RDMA_CM_EVENT_ESTABLISHED`, `Did not
/// get RDMA_CM_EVENT_ADDR_RESOLVED`, `wait for RDMA_CM_EVENT_ROUTE_RESOLVED failed`.
fn awaited(before: &str, rest: &str) -> Option<SymptomKind> {
    const IN_VAIN: [&str; 7] = [
        "timed out",
        "timeout",
        "did not get",
        "did not receive",
        "didn't get",
        "failed to get",
        "failed to receive",
    ];
    let after = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let is_in_vain = IN_VAIN.iter().any(|words| before.contains(words))
        || before.contains("wait")
            && ["failed", "timed out", "timeout"]
                .iter()
                .any(|words| before.contains(words) || after.contains(words));
    if !is_in_vain {
        return None;
    }
    let steps = [
        ("addr_resolved", SymptomKind::AddressUnresolved),
        ("route_resolved", SymptomKind::RouteUnresolved),
        ("established", SymptomKind::PeerUnreachable),
        ("connect_response", SymptomKind::PeerUnreachable),
    ];
    let (_, kind) = steps.iter().find(|(name, _)| rest.starts_with(name))?;
    Some(*kind)
}

/// Why a peer rejected a connection: the reason of the `InfiniBand` connection manager (IBTA 12.6.7.2, `rdma_reject_msg`), or over
/// iWARP an error number.
fn rejection(lower: &str) -> Option<SymptomKind> {
    let rest = [
        "generated cm reject",
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
        // Stale connection: the peer still has an older one.
        Some(10) => SymptomKind::PeerClosed,
        // Invalid GID or LID.
        Some(12 | 13) => SymptomKind::ConnectInvalid,
        Some(26) => SymptomKind::MtuDiffers,
        _ => SymptomKind::ConnectRefused,
    }
}

/// The texts with which the kernel's users of verbs name an asynchronous event (`ib_event_msg`), in lower case, in the order of their numbers
/// (`enum ib_event_type`).
const KERNEL_ASYNC: [(&str, Event); 19] = [
    ("cq error", Event::Symptom(SymptomKind::CqError)),
    ("qp fatal error", Event::Symptom(SymptomKind::QueueFatal)),
    ("qp request error", Event::Symptom(SymptomKind::QueueError)),
    ("qp access error", Event::Symptom(SymptomKind::QueueAccess)),
    ("communication established", Event::Harmless),
    ("send queue drained", Event::Harmless),
    ("path migration successful", Event::Harmless),
    ("path mig error", Event::Harmless),
    ("device fatal error", Event::Symptom(SymptomKind::DeviceFatal)),
    ("port active", Event::Harmless),
    ("port error", Event::Symptom(SymptomKind::PortError)),
    ("lid change", Event::Harmless),
    ("p_key change", Event::Harmless),
    ("sm change", Event::Harmless),
    ("srq error", Event::Symptom(SymptomKind::QueueError)),
    ("srq limit reached", Event::Harmless),
    ("last wqe reached", Event::Harmless),
    ("client reregister", Event::Harmless),
    ("gid changed", Event::Harmless),
];

/// The asynchronous event that a line of the kernel names with its number or its device, whatever stands before it: `nvme nvme0: QP event port
/// error (10)`, `rtrs_client L3326: Handling event: port error (10).`, `rpcrdma: QP fatal error on device mlx5_0`.
fn numbered_async_event(lower: &str) -> Option<Event> {
    let numbered = KERNEL_ASYNC.iter().enumerate().find(|(number, (name, _))| {
        lower.match_indices(name).any(|(at, _)| {
            let rest = &lower[at + name.len()..];
            rest.starts_with(&format!(" ({number})")) || rest.starts_with(" on device ")
        })
    });
    numbered.map(|(_, (_, event))| *event)
}

/// Whether SPDK reports an asynchronous event that is a failure. It calls all of them notices.
pub(super) fn is_of_spdk(lower: &str) -> bool {
    // Markdown takes its asterisks for emphasis and removes them.
    ["notice*: async ", "notice: async "].iter().any(|level| {
        let rest = lower.split_once(level).map_or("", |(_, rest)| rest);
        rest.starts_with("event: ") || rest.starts_with("qp event: ")
    })
}

fn async_event(line: &Lower<'_>) -> Option<Event> {
    let lower = &line.lower;
    if let Some(event) = numbered_async_event(lower) {
        return Some(event);
    }
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
    cm_event(line)
        .or_else(|| async_event(line))
        .or_else(|| efa::event(line).map(Event::Symptom))
}
