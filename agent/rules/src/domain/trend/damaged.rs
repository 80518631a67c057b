//! Received frames and symbols with an error: what is left after forward error correction.

use rdma_health_node::{
    Node, Port,
    netdev::counters::{FCS_ERRORS, FEC_UNCORRECTABLE, SYMBOL_ERRORS},
};

use super::{
    super::compared::{TIMES, compared, link_total, per_second_of_link, period},
    Rise,
};

/// The bit error ratio that the physical layers of IEEE 802.3 may have above all correction. Each error damages one frame at most.
pub(super) const ALLOWED: f64 = 1e-12;
/// With equal ports that do not have them, a tenth is reported.
const WORTH_A_LOOK: f64 = ALLOWED / 10.0;

/// The counters of damaged frames and symbols.
const COUNTERS: [&str; 2] = [FCS_ERRORS, SYMBOL_ERRORS];

/// Where a user finds a counter of a network device that no file holds.
pub(super) fn file_of(netdev: &str, counter: &str) -> String {
    match counter {
        FEC_UNCORRECTABLE => format!("ethtool -I --show-fec {netdev}: uncorrectable_blocks"),
        FCS_ERRORS => format!("ethtool -S {netdev} --all-groups: eth-mac FrameCheckSequenceErrors"),
        SYMBOL_ERRORS => format!("ethtool -S {netdev} --all-groups: eth-phy SymbolErrorDuringCarrier"),
        _ => format!("ethtool -S {netdev}: {counter}"),
    }
}

/// The rises that no link within its specification has, each with its port.
pub(super) fn rises(node: &Node) -> Vec<(Port<'_>, Rise)> {
    let found = COUNTERS.into_iter().flat_map(|counter| {
        let rates = compared(node, |cable| {
            let is_judged = cable.port.is_ethernet() && cable.port.is_active() == Some(true);
            is_judged
                .then(|| per_second_of_link(node, cable, counter))
                .flatten()
        });
        let found = rates.into_values().filter_map(move |of| {
            #[expect(clippy::cast_precision_loss, reason = "a rate in bits per second is exact")]
            let bits = node.rate_of_cable(&of.cable)?.bits_per_second as f64;
            let is_unusual = of.usual.is_some_and(|usual| of.value > TIMES * usual);
            let allowed = ALLOWED * bits;
            let least = if is_unusual { WORTH_A_LOOK * bits } else { allowed };
            if bits <= 0.0 || of.value <= least {
                return None;
            }
            let limit = if of.value > allowed {
                format!("IEEE 802.3 allows {allowed:.2}")
            } else {
                format!("limit {least:.2}")
            };
            let netdev = of.cable.netdev?;
            let whose = if of.cable.is_member {
                format!(" of {netdev}")
            } else {
                String::new()
            };
            let equals = of.usual.map_or(String::new(), |usual| {
                format!(", median of equal ports {usual:.2}")
            });
            let words = format!(
                "{counter}{whose} by {:.2} per second ({limit}{equals}) {}",
                of.value,
                period(node, &of.cable, counter, |per_second| format!(
                    "{per_second:.2} per second"
                ))
            );
            let rise = Rise {
                counter,
                words,
                file: file_of(netdev, counter),
                value: link_total(node, &of.cable, counter)?,
                is_alone: false,
            };
            Some((of.cable.port, rise))
        });
        found.collect::<Vec<_>>()
    });
    found.collect()
}
