//! The speed and the lanes of a link.
//!
//! Source: `ETHTOOL_MSG_LINKMODES_GET`. Most drivers of RDMA devices derive the files `rate` in sysfs from the speed of the network device
//! (`ib_get_eth_speed` in `drivers/infiniband/core/verbs.c`): older kernels show every speed above 40 Gb/s as 100 Gb/s over
//! four lanes.

use serde::{Deserialize, Serialize};

use super::{
    super::{Netlink, only, wire::Kind},
    Command, NOT_SUPPORTED, question,
};
use crate::fact::Fact;

/// The speed of a link that is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Speed {
    /// Bits per second in each direction.
    pub bits_per_second: u64,
    /// The number of lanes; `None` if the driver does not report it, and before Linux 5.13.
    pub lanes: Option<u32>,
}

impl Speed {
    pub(super) fn read(netlink: &Netlink<'_, '_>, netdev: &str) -> Fact<Self> {
        let question = || question(netdev, &LINKMODES, 0);
        let found: Fact<Vec<Modes>> = netlink.ask("linkmodes-get", netdev, &NOT_SUPPORTED, question);
        found.and_then(only).and_then(|modes| modes.speed().into())
    }
}

const LINKMODES: Command = Command {
    commands: (4, 4),
    schema: &[(5, "speed", Kind::Number), (9, "lanes", Kind::Number)],
};

#[derive(Debug, Deserialize)]
struct Modes {
    /// In megabits per second.
    speed: Option<u64>,
    lanes: Option<u64>,
}

impl Modes {
    /// `None` while the link is down.
    fn speed(&self) -> Option<Speed> {
        /// `SPEED_UNKNOWN`.
        const UNKNOWN: u64 = u32::MAX as u64;
        let megabits = self.speed.filter(|speed| (1..UNKNOWN).contains(speed))?;
        let lanes = self.lanes.and_then(|lanes| u32::try_from(lanes).ok());
        Some(Speed {
            bits_per_second: megabits.checked_mul(1_000_000)?,
            lanes: lanes.filter(|lanes| *lanes > 0),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_link_that_is_down_has_no_speed() {
        let speed = |message: Value| serde_json::from_value::<Modes>(message).unwrap().speed();
        let expected = |lanes| {
            Some(Speed {
                bits_per_second: 100_000_000_000,
                lanes,
            })
        };
        assert_eq!(speed(json!({"speed": 100_000, "lanes": 2})), expected(Some(2)));
        assert_eq!(speed(json!({"speed": 100_000})), expected(None));
        assert_eq!(speed(json!({"speed": 100_000, "lanes": 0})), expected(None));
        for down in [
            json!({"speed": u32::MAX}),
            json!({"speed": 0}),
            json!({}),
            json!({"speed": u64::MAX, "lanes": 4}),
        ] {
            assert_eq!(speed(down), None);
        }
    }
}
