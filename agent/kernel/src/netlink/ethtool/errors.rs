//! Received frames and symbols with an error.
//!
//! Source: `ETHTOOL_MSG_STATS_GET`, Linux 5.13 and later.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{
    super::{
        Call, Netlink, Question, given, only,
        wire::{Kind, Schema, flag, nest, number},
    },
    FAMILY, NOT_SUPPORTED, header,
};
use crate::fact::Fact;

/// Errors that IEEE 802.3 (clause 30) and RMON (RFC 2819) define: group, number in the group, name.
pub const ERRORS: [(u64, u64, &str); 10] = [
    (0, 0, "symbol"),
    (1, 4, "fcs"),
    (1, 5, "alignment"),
    (1, 19, "in_range_length"),
    (1, 20, "out_of_range_length"),
    (1, 21, "too_long"),
    (3, 0, "undersize"),
    (3, 1, "oversize"),
    (3, 2, "fragment"),
    (3, 3, "jabber"),
];

/// The errors of a network device, by the names in [`ERRORS`].
pub(super) fn read(netlink: &Netlink<'_, '_>, netdev: &str) -> Fact<BTreeMap<String, u64>> {
    const STATS_HEADER: u16 = 2;
    const GROUPS: u16 = 3;
    // A bit set without a mask (`ETHTOOL_A_BITSET_*`): size, and the groups phy, mac and rmon.
    let groups = || nest(GROUPS, &[flag(1), number(2, 4), number(4, 0b1011)]);
    let found: Fact<Vec<Statistics>> = netlink.ask("stats-get", netdev, &NOT_SUPPORTED, || Question {
        family: FAMILY,
        call: Call::Generic(32, 33),
        dump: false,
        attributes: vec![header(STATS_HEADER, netdev, 0), groups()],
        schema: STATISTICS,
    });
    found.and_then(only).and_then(|statistics| {
        let counted = statistics.counted();
        (!counted.is_empty()).then_some(counted).into()
    })
}

const STATISTICS: Schema = &[(
    4,
    "grp",
    Kind::List(&[(2, "id", Kind::Number), (4, "stat", Kind::Counts)]),
)];

#[derive(Debug, Deserialize)]
struct Statistics {
    #[serde(default)]
    grp: Vec<Group>,
}

#[derive(Debug, Deserialize)]
struct Group {
    id: u64,
    /// By number in the group.
    #[serde(default)]
    stat: BTreeMap<u64, u64>,
}

impl Statistics {
    fn counted(&self) -> BTreeMap<String, u64> {
        let errors = ERRORS.iter().filter_map(|(group, number, name)| {
            let group = self.grp.iter().find(|found| found.id == *group)?;
            Some(((*name).to_owned(), given(*group.stat.get(number)?)?))
        });
        errors.collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// As the documents of `mlx5_core` look: the physical layer, frames, and RMON.
    #[test]
    fn errors_have_the_names_of_the_standards() {
        let message = json!({"grp": [{"id": 0, "stat": {"0": 7}}, {"id": 1, "stat": {"0": 99, "4": 2, "5": u64::MAX}}, {"id": 3}]});
        let statistics: Statistics = serde_json::from_value(message).unwrap();
        let expected = [("fcs".to_owned(), 2), ("symbol".to_owned(), 7)];
        assert_eq!(statistics.counted(), BTreeMap::from(expected));
    }
}
