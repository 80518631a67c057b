//! Messages that are known by their subject: a line with these phrases reports a failure only if it has a word of failure or an error
//! number. What works is reported with the same phrases: `Login to [iface: iser, …] successful.`

use super::{Row, stands};
use crate::{
    log::grade::fails,
    symptom::SymptomKind::{self as K},
};

/// The phrases of a subject, in lower case and in any order, and what a failure of it shows.
pub(super) const ROWS: &[Row] = &[
    // The address of the peer is not one that the device can reach.
    (&["into address vector"], K::PeerUnreachable),
    (&["fi_av_insert"], K::PeerUnreachable),
    // Mercury.
    (&["requested ofi provider"], K::BackendMissing),
    // The kernel's clients and targets of storage, and programs in user space.
    (&["nvme", "keep-alive"], K::PeerUnreachable),
    (&["iser", " login "], K::CmFailed),
    (&["ibvsocket", "connect"], K::CmFailed),
    (&["listening on the", "rdma"], K::CmUnavailable),
    (&["rdmastack", "no "], K::NoDevice),
    (&["rdma route"], K::RouteUnresolved),
    (&["cm channel"], K::CmUnavailable),
    (&["rdmasocket", "connect"], K::CmFailed),
    (&["allocate uar"], K::ResourceLimit),
    (&["uar allocation"], K::ResourceLimit),
    (&["read hca caps"], K::CommandRefused),
    (&["query hca caps"], K::CommandRefused),
    (&["resolve self port"], K::PortNotActive),
    (&["accelerated ib support"], K::BackendMissing),
    (&["requested mtu", "exceed"], K::MtuDiffers),
    // IP over InfiniBand and multicast.
    (&["attach to multicast group"], K::JoinRefused),
    (&["attach qp to broadcast group"], K::JoinRefused),
];

/// What a line in lower case shows, and where its subject is.
pub(super) fn find(lower: &str) -> Option<(K, usize)> {
    let (phrases, kind) = ROWS
        .iter()
        .find(|(phrases, _)| phrases.iter().all(|phrase| stands(lower, phrase)))?;
    let at = phrases.first().and_then(|first| lower.find(first))?;
    // The group was joined: the adapter did not answer the driver, which attaches a queue pair to it.
    let is_late = *kind == K::JoinRefused && ["-110", "-62"].iter().any(|number| lower.ends_with(number));
    let kind = if is_late { K::DeviceStalled } else { *kind };
    fails(lower).then_some((kind, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_counts_where_its_line_reports_a_failure() {
        for (line, expected) in [
            (
                "login to [iface: iser, target: iqn.x, portal: 10.0.0.4,3260] successful.",
                None,
            ),
            (
                "iscsiadm: could not login to [iface: iser, target: iqn.x, portal: 10.0.0.4,3260].",
                Some(K::CmFailed),
            ),
            ("nvme nvme0: keep-alive timeout set to 30", None),
            (
                "nvme nvme0: keep-alive command failed with status 6",
                Some(K::PeerUnreachable),
            ),
            ("daemon: listening on the 'rdma' transport, port 411", None),
            (
                "error 7 listening on the 'rdma' transport.",
                Some(K::CmUnavailable),
            ),
            ("net/ofi inserted 8 remote addresses into address vector", None),
            (
                "net/ofi unable to insert remote address into address vector for device 0. rc: -22",
                Some(K::PeerUnreachable),
            ),
            ("ibvsocket: connect to 10.0.0.4:8003 established", None),
            ("ib0: attach qp to broadcast group succeeded", None),
            (
                "ib0: failed to attach to multicast group, ret = -12",
                Some(K::JoinRefused),
            ),
            (
                "ib0: failed to attach to multicast group, ret = -110",
                Some(K::DeviceStalled),
            ),
        ] {
            assert_eq!(find(line).map(|(kind, _)| kind), expected, "{line}");
        }
    }
}
