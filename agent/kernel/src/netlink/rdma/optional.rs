//! Counters that can be switched on and off, which sysfs does not have (`rdma statistic mode`).

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{
    super::{
        Call, Netlink, Question, driver_name, only,
        wire::{Kind, Schema, number},
    },
    DEV_INDEX, Device, FAMILY, MAX_ASKED, NOT_SUPPORTED,
};
use crate::{fact::Fact, infiniband::CLASS, root::Scope};

const STAT_GET: u16 = 17;
const STAT_GET_STATUS: u16 = 24;
const PORT_INDEX: u16 = 3;
/// Maximum number of optional counters of a port.
const MAX_COUNTERS: usize = 256;

/// By device and port: whether each counter is on, and the values of those that are.
pub(super) type Optional = (
    BTreeMap<String, BTreeMap<String, bool>>,
    BTreeMap<String, BTreeMap<String, u64>>,
);

pub(super) fn counters(scope: &Scope<'_>, netlink: &Netlink<'_, '_>, devices: &[Device]) -> Optional {
    let (mut found, mut values) = Optional::default();
    for device in devices.iter().take(MAX_ASKED) {
        let Some(index) = device.dev_index else { continue };
        let ports = scope.entries(&format!("{CLASS}/{}/ports", device.dev_name));
        for port in ports.known().into_iter().flatten() {
            let Ok(of_device) = port.parse::<u32>() else {
                continue;
            };
            let object = format!("{}:{port}", device.dev_name);
            let ask = |name: &str, command: u16| -> Fact<Status> {
                let answer: Fact<Vec<Status>> = netlink.ask(name, &object, &NOT_SUPPORTED, || Question {
                    family: FAMILY,
                    call: Call::Rdma(command),
                    dump: false,
                    attributes: vec![number(DEV_INDEX, index), number(PORT_INDEX, of_device)],
                    schema: STATUS,
                });
                answer.and_then(only)
            };
            let Fact::Known(status) = ask("stat-get-status", STAT_GET_STATUS) else {
                continue;
            };
            let counters = status.optional();
            if counters.is_empty() {
                continue;
            }
            // The adapter's firmware answers, so it is not asked for nothing.
            if counters.values().any(|on| *on)
                && let Fact::Known(status) = ask("stat-get", STAT_GET)
            {
                values.insert(object.clone(), status.values(&counters));
            }
            found.insert(object, counters);
        }
    }
    (found, values)
}

const STATUS: Schema = &[(
    80,
    "hwcounters",
    Kind::Nest(&[(
        81,
        "entry",
        Kind::List(&[
            (82, "name", Kind::Text),
            (83, "value", Kind::Number),
            (95, "dynamic", Kind::Number),
        ]),
    )]),
)];

#[derive(Debug, Deserialize)]
struct Status {
    #[serde(default)]
    hwcounters: Counters,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Counters {
    entry: Vec<Counter>,
}

#[derive(Debug, Deserialize)]
struct Counter {
    name: String,
    /// Whether it is on; only an optional one has this.
    dynamic: Option<u64>,
    value: Option<u64>,
}

impl Status {
    fn optional(self) -> BTreeMap<String, bool> {
        let counters = self.hwcounters.entry.into_iter();
        counters
            .filter_map(|counter| Some((driver_name(&counter.name)?, counter.dynamic? != 0)))
            .take(MAX_COUNTERS)
            .collect()
    }

    /// The values of the counters that are on.
    fn values(self, counters: &BTreeMap<String, bool>) -> BTreeMap<String, u64> {
        let all = self.hwcounters.entry.into_iter();
        let all = all.filter_map(|counter| Some((driver_name(&counter.name)?, counter.value?)));
        all.filter(|(name, _)| counters.get(name) == Some(&true))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_counters_that_can_be_switched_are_optional() {
        let message = json!({"hwcounters": {"entry": [{"name": "duplicate_request"},
            {"name": "cc_rx_ce_pkts", "dynamic": 1}, {"name": "cc_tx_cnp_pkts", "dynamic": 0}]}});
        let status: Status = serde_json::from_value(message).unwrap();
        let expected = [
            ("cc_rx_ce_pkts".to_owned(), true),
            ("cc_tx_cnp_pkts".to_owned(), false),
        ];
        let counters = status.optional();
        assert_eq!(counters, BTreeMap::from(expected));
        let message = json!({"hwcounters": {"entry": [{"name": "duplicate_request", "value": 5},
            {"name": "cc_rx_ce_pkts", "value": 77}, {"name": "cc_tx_cnp_pkts", "value": 88}]}});
        let status: Status = serde_json::from_value(message).unwrap();
        let expected = BTreeMap::from([("cc_rx_ce_pkts".to_owned(), 77)]);
        assert_eq!(
            status.values(&counters),
            expected,
            "the others are in sysfs, or off"
        );
    }
}
