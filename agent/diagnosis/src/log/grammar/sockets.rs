//! Errors of the TCP connections that NCCL and RCCL make: for their bootstrap, and for data where they do not use RDMA.

use crate::symptom::SymptomKind::{self as K};

/// The functions that report them (`misc/socket.cc`), and the transport that uses them, in lower case.
pub(in crate::log) const ANCHORS: &[&str] = &[
    "socketstartconnect",
    "socketpollconnect",
    "socketconnect",
    "socketprogress",
    "socketwait",
    "net/socket :",
];

/// Whether a line in lower case is of such a connection.
pub(crate) fn is_of_socket(lower: &str) -> bool {
    ANCHORS.iter().any(|name| lower.contains(name))
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
    let at = ANCHORS.iter().find_map(|name| lower.find(name))?;
    let rest = &lower[at..];
    (rest.contains("fail") && WORDS.iter().any(|words| rest.contains(words)))
        .then_some((K::PeerUnreachable, at))
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
