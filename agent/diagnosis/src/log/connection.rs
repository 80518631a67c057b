//! Connections that end on purpose, and connections that are there again, neither of which is a failure; and the last attempt to make one.

use super::line::number;
use crate::symptom::SymptomKind::{self as K};

/// Number of lines after the end of a connection in which its requests are flushed.
pub(super) const WITHIN: u64 = 16;

/// Words of the lines that this module reads, in lower case.
pub(super) const ANCHORS: &[&str] = &[
    "rpcrdma: connection to",
    "successfully reconnected",
    "removing ctrl",
    "connection restored to",
    ESTABLISHED,
    CREATED,
    LOGGED_IN,
    RECONNECTED,
];

/// What a client of Lustre reports once it is connected again.
const RESTORED: &str = ": connection restored to ";

/// What the client of SMB reports once it is connected over RDMA.
const ESTABLISHED: &str = "rdma transport established";
/// What the kernel reports of a controller of NVMe once it is connected.
const CREATED: &str = ": new ctrl: nqn ";
/// What it reports of a host of SRP once its target accepted the login, at first and again.
const LOGGED_IN: &str = ": srp.t10:";
const RECONNECTED: &str = ": ib_srp: reconnect succeeded";
/// What begins the lines of the client of SMB. It names no server there.
pub(super) const OF_SMB: &str = "cifs: vfs: ";

/// The peer or controller whose connection is there again: `rpcrdma: connection to 10.3.0.1:20049 on mlx5_0, memreg 'frwr', …`, `nvme nvme0:
/// Successfully reconnected (1 attempts)`, `Lustre: …: Connection restored to  (at 10.10.1.7@o2ib)`.
pub(super) fn restored(lower: &str) -> Option<&str> {
    if lower.contains(OF_SMB) && lower.contains(ESTABLISHED) {
        return Some(OF_SMB);
    }
    if let Some(name) = started(lower) {
        return Some(name);
    }
    if let Some((_, rest)) = lower.split_once(RESTORED) {
        let (_, peer) = rest.split_once("(at ")?;
        return peer.split_once(')').map(|(peer, _)| peer);
    }
    if let Some((_, rest)) = lower.split_once("rpcrdma: connection to ") {
        let (peer, rest) = rest.split_once(' ')?;
        return (rest.starts_with("on ") && rest.contains("memreg")).then_some(peer);
    }
    let (before, _) = lower.split_once(": successfully reconnected")?;
    before.rsplit(' ').next().filter(|name| name.starts_with("nvme"))
}

/// The controller of NVMe or the host of SRP that is connected now: `nvme nvme0: new ctrl: NQN "…"`, `scsi host7: SRP.T10:…`. What it reported
/// before were attempts.
fn started(lower: &str) -> Option<&str> {
    let before = [CREATED, LOGGED_IN, RECONNECTED]
        .iter()
        .find_map(|words| lower.split_once(words))?
        .0;
    before.rsplit(' ').next().filter(|name| is_of_attempts(name))
}

/// Whether a name is one of what the kernel connects again and again: `nvme0`, `host7`.
pub(super) fn is_of_attempts(name: &str) -> bool {
    let number = ["nvme", "host"].iter().find_map(|kind| name.strip_prefix(kind));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The client of Lustre whose connection is there again, perhaps with the other server of a pair: `scratch-OST0001-osc-ffff8fe2c5b4e000`.
pub(super) fn client(lower: &str) -> Option<&str> {
    let (before, _) = lower.split_once(RESTORED)?;
    before.rsplit(' ').next().filter(|name| name.contains('-'))
}

/// Whether the kernel ends a connection because it was asked to: `nvme nvme0: Removing ctrl: NQN "…"`.
pub(super) fn is_ended(lower: &str) -> bool {
    lower.contains("nvme") && lower.contains(": removing ctrl")
}

/// The last attempt of a program to reach its peer: `rdma_mgr.cc:119] Connecting to /job:worker: Got OS Error. Retrying (5/5)...`. The peer may only
/// start late, as long as attempts follow.
pub(super) fn last_attempt(lower: &str) -> Option<(K, usize)> {
    let at = ["retry", "attempt"].iter().find_map(|word| lower.find(word))?;
    let about = ["rdma", "verbs", "infiniband", "roce"];
    let is_connection = lower.contains("connect") && about.iter().any(|word| lower.contains(word));
    let counts = lower[at..].trim_start_matches(|c: char| !c.is_ascii_digit());
    let (count, rest) = counts.split_at(counts.bytes().take_while(u8::is_ascii_digit).count());
    let most = rest.strip_prefix('/').or_else(|| rest.strip_prefix(" of "))?;
    let is_last = number(most).is_some() && number(most) == number(count);
    (is_connection && is_last).then_some((K::ExchangeFailed, at))
}

/// Why a library of PSM did not connect, in its own words: `PSM EP connect error (Incompatible PSM version)`.
pub(super) fn of_psm(lower: &str) -> Option<(K, usize)> {
    let at = lower.find("psm")?;
    let rest = &lower[at..];
    let has = |words: &[&str]| words.iter().any(|word| rest.contains(word));
    let fails = has(&["connect error", "ep_connect ret"]);
    let kind = if has(&["incompatible", "version mismatch"]) {
        K::PeerDiffers
    } else if has(&["timed out", "timeout", "unreachable", "could not be reached"]) {
        K::PeerUnreachable
    } else {
        return None;
    };
    fails.then_some((kind, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn psm_says_why_it_did_not_connect() {
        for (line, expected) in [
            (
                "psm ep connect error (incompatible psm version)",
                Some(K::PeerDiffers),
            ),
            (
                "psm returned unhandled/unknown connect error: operation timed out",
                Some(K::PeerUnreachable),
            ),
            (
                "libfabric:1:psm2:av:x():2<warn> psm2_ep_connect returned error operation timed out, remote epid=1",
                Some(K::PeerUnreachable),
            ),
            ("psm ep connect error (unknown connect error):", None),
            ("psm2: connect timeout set to 10", None),
        ] {
            assert_eq!(of_psm(line).map(|(kind, _)| kind), expected, "{line}");
        }
    }

    #[test]
    fn a_connection_that_is_there_again_is_told_from_one_that_closed() {
        assert_eq!(
            restored(
                "[ 8201.1] nvme nvme0: new ctrl: nqn \"nqn.2014-08.org.nvmexpress.discovery\", addr 10.1.1.5:4420"
            ),
            Some("nvme0")
        );
        assert_eq!(
            restored("[ 8201.1] scsi host7: srp.t10:0002c90300a1b2c3"),
            Some("host7")
        );
        let line = "[ 9231.119] rpcrdma: connection to 10.3.0.1:20049 on mlx5_0, memreg 'frwr', 128 credits";
        assert_eq!(restored(line), Some("10.3.0.1:20049"));
        assert_eq!(
            restored("[ 9231.0] rpcrdma: connection to 10.3.0.1:20049 closed (-103)"),
            None
        );
        assert_eq!(
            restored("[  99.1] nvme nvme0: successfully reconnected (1 attempts)"),
            Some("nvme0")
        );
        assert_eq!(
            restored("lustre: s-ost0007-osc-ffff9a11: connection restored to s-ost0007 (at 10.10.1.7@o2ib)"),
            Some("10.10.1.7@o2ib")
        );
        assert_eq!(
            client(
                "lustre: s-ost0007-osc-ffff9a11: connection restored to 10.10.1.8@o2ib (at 10.10.1.8@o2ib)"
            ),
            Some("s-ost0007-osc-ffff9a11")
        );
        assert_eq!(
            client("lustre: s-ost0007-osc-ffff9a11: connection to x was lost"),
            None
        );
        assert!(is_ended(
            "nvme nvme0: removing ctrl: nqn \"nqn.2014-08.org.nvmexpress.discovery\""
        ));
    }
}
