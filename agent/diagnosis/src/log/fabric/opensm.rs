//! What opensm logs, in its own file and in the log of the system.

use crate::symptom::SymptomKind::{self as K};

/// Whether a line is of opensm's log: `Nov 12 09:31:02 112233 [6B7FE700] 0x01 -> umad_receiver: ERR 5411: …`.
pub(super) fn is_opensm(lower: &str) -> bool {
    lower.find("] 0x").is_some_and(|at| {
        let rest = &lower.as_bytes()[at + 4..];
        rest.get(..2)
            .is_some_and(|level| level.iter().all(u8::is_ascii_hexdigit))
            && rest.get(2..6) == Some(b" -> ")
    })
}

/// The text of a line that opensm gives to the system's log: `Sep 20 18:10:40 ts2 OpenSM[3527]: SM port is down#012`.
fn by_syslog(lower: &str) -> Option<&str> {
    let (_, rest) = lower.split_once("opensm[")?;
    Some(rest.split_once("]: ")?.1)
}

/// Whether a line in lower case is of opensm, in either log.
pub(in crate::log) fn is_of_opensm(lower: &str) -> bool {
    by_syslog(lower).is_some() || is_opensm(lower)
}

/// opensm's errors by what they are about; their numbers differ between its versions.
pub(super) fn opensm(lower: &str) -> Option<(K, usize)> {
    let at = match by_syslog(lower) {
        Some(text) => lower.len() - text.len(),
        None if is_opensm(lower) => lower.find(" -> ")? + " -> ".len(),
        None => return None,
    };
    let text = &lower[at..];
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let kind = if has(&["duplicate", "zero node guid", "zero port guid"]) && has(&["guid", "duplicated node"])
    {
        K::GuidDuplicated
    } else if text.contains("sm port is down") {
        K::PortNotActive
    } else if has(&[
        "do not share",
        "do not have any shared pkeys",
        "p_key base mismatch",
    ]) || has(&["not in partition", "both limited p_keys"])
        || has(&["bad p_key"])
    {
        K::PkeyMissing
    } else if has(&[
        "link integrity threshold reached",
        "buffer overrun threshold reached",
        "flow control update watchdog",
    ]) {
        // Traps of switches and adapters.
        K::LinkDegraded
    } else if has(&["mcmr_", "mgid", "multicast group", "mgrp"])
        && text.contains("err ")
        // An address that no partition has; its key is not what is refused.
        && !(text.contains("mgid") && has(&["invalid", "reserved"]))
    {
        K::JoinRefused
    } else if has(&[
        "unable to register class",
        "bind failed",
        "unable to open port",
        "could not get port guid",
        "failed to bind",
    ]) || has(&["umad_open_port", "error exit"])
    {
        K::ManagerNotStarted
    } else if has(&["setting is_sm capmask"]) {
        // Another subnet manager has the port, or the file is not there.
        K::ManagerNotStarted
    } else if has(&["requested ca guid", "requested port guid"]) {
        K::SettingUnmatched
    } else if has(&["umad_get_cas_names failed", "umad_get_ca failed", "no ca found"]) {
        K::NoDevice
    } else if has(&["opening umad", "umad_init"]) {
        K::OpenFailed
    } else if has(&["noisy port", "noisy physical port", "noisy link"]) {
        K::LinkDegraded
    } else if has(&["cannot find routing", "can't find routing", "no routing path"]) && text.contains("err ")
    {
        K::PeerUnreachable
    } else if text.contains("recv error on mad") && text.contains("input/output error") {
        // The management device of an adapter that was removed, or reset.
        K::DeviceGone
    } else if has(&["timeout", "completed in error", "completed with error"]) && text.contains("err ") {
        K::PeerUnreachable
    } else {
        return None;
    };
    Some((kind, at))
}
