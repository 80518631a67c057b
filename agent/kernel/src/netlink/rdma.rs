//! The RDMA subsystem by netlink: whether network namespaces share devices, and how many objects each device has.
//!
//! Source: netlink of the RDMA subsystem, `RDMA_NLDEV_CMD_SYS_GET` and `RDMA_NLDEV_CMD_RES_GET` (`include/uapi/rdma/rdma_netlink.h`;
//! the program `rdma system` and `rdma resource`). Reading needs no privilege.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    Call, Netlink, Question, only,
    wire::{Kind, Schema},
};
use crate::{
    fact::{Errno, Fact, Unread},
    root::Scope,
    source::{After, Known, Source},
};

const FAMILY: &str = "rdma";
const SYS_GET: u16 = 6;
const RES_GET: u16 = 9;
/// Maximum number of devices, and of kinds of objects of a device.
const MAX_DEVICES: usize = 4096;
const MAX_KINDS: usize = 16;
/// What a kernel without the RDMA subsystem answers to a socket of its protocol.
const NO_SUBSYSTEM: [Errno; 1] = [Errno::PROTONOSUPPORT];

/// The RDMA subsystem.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subsystem {
    /// How network namespaces get devices; absent in a tree of files, without the subsystem, and before Linux 5.2.
    pub namespaces: Fact<Namespaces>,
    /// By device: the number of objects of each kind: `qp`, `mr`, `cq`, `pd`, `cm_id`, `ctx`, `srq`. Absent likewise.
    pub resources: Fact<BTreeMap<String, BTreeMap<String, u64>>>,
}

/// How network namespaces get RDMA devices (`rdma system show`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Namespaces {
    /// Each namespace sees every device.
    Shared,
    /// A device belongs to one namespace.
    Exclusive,
}

impl Source for Subsystem {
    const AFTER: After = After::Devices;

    fn read(scope: &Scope<'_>, _: &Known) -> Self {
        if !scope.root().answers_netlink() {
            return Self::default();
        }
        let netlink = Netlink::new(scope);
        let system: Fact<Vec<System>> = ask(&netlink, "sys-get", SYS_GET, false, SYSTEM);
        if let Some(unread) = system.unread() {
            return Self::unread(unread);
        }
        let devices: Fact<Vec<Device>> = match &system {
            Fact::Absent => Fact::Absent,
            _ => ask(&netlink, "res-get", RES_GET, true, DEVICE),
        };
        Self {
            namespaces: system
                .and_then(only)
                .and_then(|system| system.namespaces().into()),
            resources: devices.map(|devices| {
                let devices = devices.into_iter().take(MAX_DEVICES);
                devices
                    .map(|device| (device.dev_name, device.res_summary.counts()))
                    .collect()
            }),
        }
    }

    fn unread(why: &Unread) -> Self {
        Self {
            namespaces: why.clone().into(),
            resources: why.clone().into(),
        }
    }
}

fn ask<T: serde::de::DeserializeOwned>(
    netlink: &Netlink<'_, '_>,
    name: &str,
    command: u16,
    dump: bool,
    schema: Schema,
) -> Fact<Vec<T>> {
    netlink.ask(name, "", &NO_SUBSYSTEM, || Question {
        family: FAMILY,
        call: Call::Rdma(command),
        dump,
        attributes: Vec::new(),
        schema,
    })
}

const SYSTEM: Schema = &[(66, "netns-mode", Kind::Number)];

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct System {
    netns_mode: Option<u64>,
}

impl System {
    fn namespaces(&self) -> Option<Namespaces> {
        match self.netns_mode? {
            0 => Some(Namespaces::Exclusive),
            1 => Some(Namespaces::Shared),
            _ => None,
        }
    }
}

const DEVICE: Schema = &[
    (2, "dev-name", Kind::Text),
    (
        15,
        "res-summary",
        Kind::Nest(&[(
            16,
            "entry",
            Kind::List(&[(17, "name", Kind::Text), (18, "curr", Kind::Number)]),
        )]),
    ),
];

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Device {
    dev_name: String,
    #[serde(default)]
    res_summary: Summary,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Summary {
    entry: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    name: String,
    curr: u64,
}

impl Summary {
    fn counts(self) -> BTreeMap<String, u64> {
        let entries = self.entry.into_iter().take(MAX_KINDS);
        entries.map(|entry| (entry.name, entry.curr)).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_modes_are_those_of_the_program_rdma() {
        let mode = |message| serde_json::from_value::<System>(message).unwrap().namespaces();
        assert_eq!(mode(json!({"netns-mode": 0})), Some(Namespaces::Exclusive));
        assert_eq!(mode(json!({"netns-mode": 1})), Some(Namespaces::Shared));
        assert_eq!([json!({}), json!({"netns-mode": 9})].map(mode), [None, None]);
    }
}
