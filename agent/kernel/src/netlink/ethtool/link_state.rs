//! The state of a link: why it is down, and how often it went down.
//!
//! Source: `ETHTOOL_MSG_LINKSTATE_GET`, and `include/uapi/linux/ethtool.h` for the reasons.

use std::fmt;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    super::{Client, Netlink, wire::Kind},
    Command, NOT_SUPPORTED, question,
};
use crate::fact::Fact;

/// Why a link is down (`enum ethtool_link_ext_state`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DownReason {
    /// The reason, in the words of the program ethtool.
    pub reason: String,
    /// More about it, if the driver knows more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl fmt::Display for DownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.detail {
            Some(detail) => write!(f, "{}, {detail}", self.reason),
            None => f.write_str(&self.reason),
        }
    }
}

/// The state of a link.
pub(in super::super) fn state<T: DeserializeOwned>(netlink: &Netlink<'_, '_>, netdev: &str) -> Fact<Vec<T>> {
    netlink.ask("linkstate-get", netdev, &NOT_SUPPORTED, || {
        question(netdev, &LINKSTATE, 0)
    })
}

const LINKSTATE: Command = Command {
    commands: (6, 6),
    schema: &[
        (2, "link", Kind::Number),
        (5, "ext-state", Kind::Number),
        (6, "ext-substate", Kind::Number),
        (7, "ext-down-cnt", Kind::Number),
    ],
};

/// Whether a cable is plugged into a network device, as far as its link shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Plugged {
    /// There is a link.
    Yes,
    /// The link is down.
    Unknown,
    /// The link is down, and the driver reports a missing cable.
    No,
}

/// Whether a cable is plugged in; `None` if the kernel does not answer.
pub(in super::super) fn plugged(netlink: &Netlink<'_, '_>, netdev: &str) -> Option<Plugged> {
    let states = state::<State>(netlink, netdev);
    states.known()?.first()?.plugged()
}

/// The same without a record of the answer.
pub(in super::super) fn plugged_now(client: &mut Client, source: &str, netdev: &str) -> Option<Plugged> {
    let messages = client.ask(source, question(netdev, &LINKSTATE, 0)).ok()?;
    let state: State = serde_json::from_value(messages.into_iter().next()?).ok()?;
    state.plugged()
}

#[derive(Debug, Deserialize)]
pub(super) struct State {
    link: Option<u64>,
    #[serde(rename = "ext-state")]
    reason: Option<u64>,
    #[serde(rename = "ext-substate")]
    detail: Option<u64>,
    #[serde(rename = "ext-down-cnt")]
    pub(super) downs: Option<u64>,
}

impl State {
    fn plugged(&self) -> Option<Plugged> {
        Some(match (self.link?, self.reason) {
            (0, Some(NO_CABLE)) => Plugged::No,
            (0, _) => Plugged::Unknown,
            _ => Plugged::Yes,
        })
    }

    /// The kernel reports it only while there is no link.
    pub(super) fn reason(&self) -> Option<DownReason> {
        let state = self.reason?;
        let substate = self.detail.unwrap_or_default();
        let known = usize::try_from(state).ok().and_then(|state| REASONS.get(state));
        let Some((reason, details)) = known else {
            return Some(DownReason {
                reason: format!("reason {state} of a later kernel"),
                detail: None,
            });
        };
        // The numbers begin with 1.
        let detail = usize::try_from(substate)
            .ok()
            .and_then(|number| details.get(number.checked_sub(1)?));
        Some(DownReason {
            reason: (*reason).to_owned(),
            detail: detail.map(|detail| (*detail).to_owned()),
        })
    }
}

/// The place of `No cable` (`ETHTOOL_LINK_EXT_STATE_NO_CABLE`) in [`REASONS`].
const NO_CABLE: u64 = 4;

/// Why a link is down, and details of each reason (`include/uapi/linux/ethtool.h`), in the words of the program ethtool.
const REASONS: [(&str, &[&str]); 13] = [
    (
        "Autoneg",
        &[
            "No partner detected",
            "Ack not received",
            "Next page exchange failed",
            "No partner detected during force mode",
            "FEC mismatch during override",
            "No HCD",
        ],
    ),
    (
        "Link training failure",
        &[
            "KR frame lock not acquired",
            "KR link inhibit timeout",
            "KR Link partner did not set receiver ready",
            "Remote side is not ready yet",
        ],
    ),
    (
        "Logical mismatch",
        &[
            "PCS did not acquire block lock",
            "PCS did not acquire AM lock",
            "PCS did not get align_status",
            "FC FEC is not locked",
            "RS FEC is not locked",
        ],
    ),
    (
        "Bad signal integrity",
        &[
            "Large number of physical errors",
            "Unsupported rate",
            "Serdes reference clock lost",
            "Serdes ALOS",
        ],
    ),
    ("No cable", &[]),
    ("Cable issue", &["Unsupported cable", "Cable test failure"]),
    ("EEPROM issue", &[]),
    ("Calibration failure", &[]),
    ("Power budget exceeded", &[]),
    ("Overheat", &[]),
    ("Module", &["CMIS module is not in ModuleReady state"]),
    ("OTP speed violation", &[]),
    ("BMC request down", &[]),
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reason(message: serde_json::Value) -> Option<String> {
        let state: State = serde_json::from_value(message).unwrap();
        state.reason().map(|reason| reason.to_string())
    }

    #[test]
    fn only_a_link_that_is_down_can_have_no_cable() {
        for (message, expected) in [
            (json!({"link": 1}), Some(Plugged::Yes)),
            (json!({"link": 1, "ext-state": 4}), Some(Plugged::Yes)),
            (json!({"link": 0}), Some(Plugged::Unknown)),
            (json!({"link": 0, "ext-state": 1}), Some(Plugged::Unknown)),
            (json!({"link": 0, "ext-state": 4}), Some(Plugged::No)),
            (json!({}), None),
        ] {
            let state: State = serde_json::from_value(message).unwrap();
            assert_eq!(state.plugged(), expected);
        }
    }

    #[test]
    fn reasons_have_the_words_of_ethtool() {
        assert_eq!(reason(json!({"link": 1})), None);
        assert_eq!(
            reason(json!({"link": 0, "ext-state": 4})).as_deref(),
            Some("No cable")
        );
        let training = json!({"link": 0, "ext-state": 1, "ext-substate": 4});
        assert_eq!(
            reason(training).as_deref(),
            Some("Link training failure, Remote side is not ready yet")
        );
        for (state, substate) in [(0, 0), (0, 200), (4, 1)] {
            let found = reason(json!({"ext-state": state, "ext-substate": substate})).unwrap();
            assert!(["Autoneg", "No cable"].contains(&found.as_str()), "{found}");
        }
        for (state, expected) in [(11, "OTP speed violation"), (12, "BMC request down")] {
            assert_eq!(reason(json!({"ext-state": state})).as_deref(), Some(expected));
        }
        assert_eq!(
            reason(json!({"ext-state": 77})).as_deref(),
            Some("reason 77 of a later kernel")
        );
    }
}
