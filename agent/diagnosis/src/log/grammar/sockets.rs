//! Errors of the TCP connections that NCCL and RCCL make: for their bootstrap, and for data where they do not use RDMA.

use super::super::line::number;
use crate::symptom::SymptomKind::{self as K};

/// The functions that report them (`misc/socket.cc`), and the transport that uses them, in lower case.
pub(in crate::log) const ANCHORS: &[&str] = &[
    "socketstartconnect",
    "socketpollconnect",
    "socketconnect",
    "socketprogress",
    "socketwait",
    "net/socket :",
    "neither af_inet",
    CONNECT,
];
/// What precedes the address of the other end, which only they write as `10.0.0.2<37715>`.
const CONNECT: &str = "connect to ";

/// Whether a line in lower case is of such a connection.
pub(crate) fn is_of_socket(lower: &str) -> bool {
    place(lower).is_some()
}

/// Where a line in lower case names such a connection.
fn place(lower: &str) -> Option<usize> {
    let is_named = |at: usize, name: &str| name != CONNECT || names_port(&lower[at + name.len()..]);
    ANCHORS
        .iter()
        .find_map(|name| lower.find(name).filter(|at| is_named(*at, name)))
}

/// Whether a text begins with an address and its port as these programs write them.
fn names_port(text: &str) -> bool {
    let word = text.split_whitespace().next().unwrap_or_default();
    let port = word
        .split_once('<')
        .and_then(|(_, rest)| rest.split_once('>'))
        .map(|(port, _)| port);
    port.is_some_and(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A peer that no packet reaches. What it refuses or closes itself is read as that of other programs.
pub(super) fn unreachable(lower: &str) -> Option<(K, usize)> {
    const WORDS: [&str; 5] = [
        "timed out",
        "no route to host",
        "is unreachable",
        "host is down",
        // A connection that the kernel gave up in a blocking call.
        "software caused connection abort",
    ];
    /// What the two functions say that wait for a connection: no answer came.
    const IN_VAIN: [&str; 3] = ["exceeded timeout", "exceeded retries", "no pollout"];
    let at = place(lower)?;
    let rest = &lower[at..];
    if rest.contains("connect") && IN_VAIN.iter().any(|words| rest.contains(words)) {
        return Some((K::PeerUnreachable, at));
    }
    (["fail", "returned"].iter().any(|word| rest.contains(word))
        && WORDS.iter().any(|words| rest.contains(words)))
    .then_some((K::PeerUnreachable, at))
}

/// A peer that no program answers at: NCCL's line without its prefix, as a framework prints it.
pub(super) fn refused(lower: &str) -> Option<(K, usize)> {
    let at = place(lower)?;
    let rest = &lower[at..];
    // NCCL tries again.
    let is_last = rest.contains("returned connection refused") && !rest.contains("retrying");
    is_last.then_some((K::NoListener, at))
}

/// An address of no known family: the other end is of another release, whose answer has another layout. A family of 0 is that of no address.
pub(super) fn other_layout(lower: &str) -> Option<(K, usize)> {
    let at = lower
        .find("connecting to address")
        .filter(|_| lower.contains("neither af_inet"))?;
    let (_, rest) = lower[at..].split_once("with family ")?;
    number(rest).filter(|family| *family > 255)?;
    Some((K::PeerDiffers, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_refuses_is_not_an_unreachable_one() {
        for (line, expected) in [
            (
                "socketstartconnect: connect to 172.18.0.1<51973> failed : connection timed out",
                true,
            ),
            (
                "nccl warn net/socket : remote peer 10.0.0.2<44556> recv failed : no route to host",
                true,
            ),
            (
                "nccl warn socketstartconnect: connect to 10.0.0.2<37715> failed : connection refused",
                false,
            ),
            (
                "nccl warn net : connect to 192.168.1.9<54263> failed : no route to host",
                true,
            ),
            (
                "nccl warn connect to 192.168.1.9<54263> returned no route to host(113) after 34 attempts",
                true,
            ),
            ("nccl info net/socket : using [0]eth0:10.1.0.4<0>", false),
            (
                "nccl info socketprogress: connection closed by remote peer",
                false,
            ),
            ("connect to 10.0.0.2:80 failed: no route to host", false),
        ] {
            let expected = expected.then_some(K::PeerUnreachable);
            assert_eq!(unreachable(line).map(|(kind, _)| kind), expected, "{line}");
        }
    }
}
