//! What a physical function has set for its virtual functions (`IFLA_VFINFO_LIST`).

use serde::{Deserialize, Serialize};

use super::super::wire::{Field, Kind, Layout};

/// Maximum number of virtual functions of a network device.
const MAX_FUNCTIONS: usize = 1024;

/// What a physical function has set for one of its virtual functions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VfSettings {
    /// Its number, from 0.
    pub number: u64,
    /// The MAC address that it was given; zeros if it was given none.
    pub mac: String,
    /// The state of its link; `None` if the kernel reports none that is known.
    pub link_state: Option<VfLink>,
    /// Whether it may change its address and receive the traffic of others; `None` if the driver has no such setting.
    pub trust: Option<bool>,
    /// Whether frames with another source address are dropped; `None` likewise.
    pub spoof_check: Option<bool>,
    /// The GUID of its node; `None` if the driver has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_guid: Option<String>,
    /// The GUID of its port; `None` likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port_guid: Option<String>,
}

/// The state of a virtual function's link (`IFLA_VF_LINK_STATE_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VfLink {
    /// It follows the physical function.
    Auto,
    /// It is up, so that virtual functions reach each other without a cable.
    Enable,
    /// It is held down.
    Disable,
}

const NUMBER: (&str, usize, Field) = ("vf", 0, Field::Number(4));
const SETTING: Layout = &[NUMBER, ("setting", 4, Field::Number(4))];
/// The number has 8 bytes, and begins at the next multiple of 8.
const GUID: Layout = &[("guid", 8, Field::Guid)];
/// What is used of the list of virtual functions.
pub(super) const VFS: Kind = Kind::Nest(&[(
    1,
    "info",
    Kind::List(&[
        (1, "mac", Kind::Struct(&[NUMBER, ("mac", 4, Field::Mac)])),
        (4, "spoofchk", Kind::Struct(SETTING)),
        (
            5,
            "link-state",
            Kind::Struct(&[NUMBER, ("link-state", 4, Field::Number(4))]),
        ),
        (9, "trust", Kind::Struct(SETTING)),
        (10, "ib-node-guid", Kind::Struct(GUID)),
        (11, "ib-port-guid", Kind::Struct(GUID)),
    ]),
)]);

#[derive(Debug, Default, Deserialize)]
pub(super) struct VfList {
    #[serde(default, rename = "info")]
    list: Vec<VfMessage>,
}

impl VfList {
    /// In order of number; and what is wrong with those of which a part is missing, or if fewer are listed than there are. One without a number
    /// is left out.
    pub(super) fn settings(self, number: Option<u64>) -> (Vec<VfSettings>, Option<String>) {
        let all = self.list.len();
        let listed = u64::try_from(all).unwrap_or(u64::MAX);
        let mut vfs: Vec<_> = self.list.into_iter().filter_map(VfMessage::settings).collect();
        let without_number = all - vfs.len();
        let without_state = vfs.iter().filter(|vf| vf.link_state.is_none()).count();
        vfs.sort_by_key(|vf| vf.number);
        vfs.truncate(MAX_FUNCTIONS);
        let defect = (without_number + without_state > 0).then(|| {
            format!(
                "of {all} virtual functions, {without_number} have no number or address, and {without_state} no known state of the link"
            )
        });
        let short = number.filter(|number| all > 0 && *number > listed);
        let short = short.map(|number| format!("the kernel lists {all} of {number} virtual functions"));
        (vfs, defect.or(short))
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct VfMessage {
    mac: Option<MacMessage>,
    spoofchk: Option<Setting>,
    link_state: Option<LinkState>,
    trust: Option<Setting>,
    ib_node_guid: Option<Guid>,
    ib_port_guid: Option<Guid>,
}

#[derive(Debug, Deserialize)]
struct MacMessage {
    vf: u64,
    mac: String,
}

#[derive(Debug, Deserialize)]
struct Setting {
    setting: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct LinkState {
    link_state: u64,
}

#[derive(Debug, Deserialize)]
struct Guid {
    guid: String,
}

impl VfMessage {
    fn settings(self) -> Option<VfSettings> {
        let mac = self.mac?;
        // -1 if the driver has no such setting.
        let setting = |setting: Option<Setting>| match setting?.setting {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        };
        let guid = |guid: Option<Guid>| guid.map(|guid| guid.guid);
        Some(VfSettings {
            number: mac.vf,
            mac: mac.mac,
            link_state: self.link_state.and_then(|state| match state.link_state {
                0 => Some(VfLink::Auto),
                1 => Some(VfLink::Enable),
                2 => Some(VfLink::Disable),
                _ => None,
            }),
            trust: setting(self.trust),
            spoof_check: setting(self.spoofchk),
            node_guid: guid(self.ib_node_guid),
            port_guid: guid(self.ib_port_guid),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// As `mlx5_core` reports them; the second function has a driver without trust.
    #[test]
    fn settings_of_virtual_functions_are_those_that_ip_link_shows() {
        let message = json!({"info": [
            {"mac": {"vf": 0, "mac": "02:00:00:00:00:01"}, "spoofchk": {"vf": 0, "setting": 1},
             "link-state": {"vf": 0, "link-state": 2}, "trust": {"vf": 0, "setting": 0},
             "ib-node-guid": {"guid": "0011:2233:4455:6677"}},
            {"mac": {"vf": 1, "mac": "00:00:00:00:00:00"}, "link-state": {"vf": 1, "link-state": 0},
             "trust": {"vf": 1, "setting": 4_294_967_295_u32}},
        ]});
        let list: VfList = serde_json::from_value(message).unwrap();
        let first = VfSettings {
            number: 0,
            mac: "02:00:00:00:00:01".into(),
            link_state: Some(VfLink::Disable),
            trust: Some(false),
            spoof_check: Some(true),
            node_guid: Some("0011:2233:4455:6677".into()),
            port_guid: None,
        };
        let second = VfSettings {
            number: 1,
            mac: "00:00:00:00:00:00".into(),
            link_state: Some(VfLink::Auto),
            ..VfSettings::default()
        };
        assert_eq!(list.settings(Some(2)), (vec![first, second], None));
    }

    #[test]
    fn a_virtual_function_of_which_a_part_is_missing_hides_no_other_and_has_no_state_by_default() {
        let message = json!({"info": [
            {"trust": {"vf": 0, "setting": 0}},
            {"mac": {"vf": 1, "mac": "02:00:00:00:00:01"}, "link-state": {"vf": 1, "link-state": 9}},
            {"mac": {"vf": 2, "mac": "02:00:00:00:00:02"}},
            {"mac": {"vf": 3, "mac": "02:00:00:00:00:03"}, "link-state": {"vf": 3, "link-state": 2}},
        ]});
        let list: VfList = serde_json::from_value(message).unwrap();
        let (vfs, defect) = list.settings(Some(4));
        let states: Vec<_> = vfs.iter().map(|vf| (vf.number, vf.link_state)).collect();
        assert_eq!(states, [(1, None), (2, None), (3, Some(VfLink::Disable))]);
        assert_eq!(
            defect.unwrap(),
            "of 4 virtual functions, 1 have no number or address, and 2 no known state of the link"
        );
    }

    /// The kernel leaves out a virtual function for which the driver returns an error.
    #[test]
    fn a_list_that_is_shorter_than_the_number_of_functions_is_reported_and_none_is_not() {
        let list = |message| -> VfList { serde_json::from_value(message).unwrap() };
        let one = json!({"info": [{"mac": {"vf": 0, "mac": "02:00:00:00:00:01"}, "link-state": {"vf": 0, "link-state": 0}}]});
        let (vfs, defect) = list(one).settings(Some(2));
        assert_eq!(
            (vfs.len(), defect.unwrap().as_str()),
            (1, "the kernel lists 1 of 2 virtual functions")
        );
        assert_eq!(list(json!({})).settings(Some(2)), (Vec::new(), None));
    }
}
