//! The RDMA subsystem by netlink: whether network namespaces share devices, how many objects each device and process has, and which
//! optional counters are on.
//!
//! Source: netlink of the RDMA subsystem, `RDMA_NLDEV_CMD_SYS_GET`, `_RES_GET`, `_RES_MR_GET`, `_RES_CQ_GET`, `_STAT_GET_STATUS` and
//! `_STAT_GET` (`include/uapi/rdma/rdma_netlink.h`; the programs `rdma system`, `rdma resource` and `rdma statistic mode`). Reading needs no privilege.

mod optional;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    Call, Netlink, Question, driver_name, given,
    kept::{is_malformed, malformed},
    only,
    wire::{Kind, Schema, number},
};
use crate::{
    fact::{Errno, Fact, Unread, UnreadKind},
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
const CLASS: &str = "/sys/class/infiniband";

/// The RDMA subsystem.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subsystem {
    /// How network namespaces get devices; absent in a tree of files, without the subsystem, and before Linux 5.2.
    pub namespaces: Fact<Namespaces>,
    /// By device: the number of objects of each kind: `qp`, `mr`, `cq`, `pd`, `cm_id`, `ctx`, `srq`. Absent likewise.
    pub resources: Fact<BTreeMap<String, BTreeMap<String, u64>>>,
    /// By device: how many memory regions (`mr`) and completion queues (`cq`) each process has, the largest number first, without
    /// saying which process it is. Queue pairs are left out: the kernel asks the adapter's firmware about each. Absent likewise.
    #[serde(default)]
    pub of_processes: Fact<BTreeMap<String, BTreeMap<String, Vec<u64>>>>,
    /// By device and port (`mlx5_0:1`): the counters that can be switched on and off, and whether they are on. Absent likewise, and
    /// before Linux 5.16.
    #[serde(default)]
    pub optional_counters: Fact<BTreeMap<String, BTreeMap<String, bool>>>,
    /// By device and port likewise: the values of those that are on. sysfs does not have them.
    #[serde(default)]
    pub optional_values: Fact<BTreeMap<String, BTreeMap<String, u64>>>,
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
        // A kernel with RDMA devices has the subsystem.
        if system.is_absent() && has_devices(scope) {
            return Self::unread(&no_subsystem(scope));
        }
        if let Some(unread) = system
            .unread()
            .filter(|unread| unread.kind != UnreadKind::Malformed)
        {
            return Self::unread(unread);
        }
        let devices: Fact<Vec<Device>> = match &system {
            Fact::Absent => Fact::Absent,
            _ => ask(&netlink, "res-get", RES_GET, true, DEVICE),
        };
        let counters = devices
            .as_ref()
            .map(|devices| optional::counters(scope, &netlink, devices));
        let (optional_counters, optional_values) = match counters {
            Fact::Known((counters, values)) => (Fact::Known(counters), Fact::Known(values)),
            Fact::Absent => (Fact::Absent, Fact::Absent),
            Fact::Unread { unread } => ((*unread).clone().into(), (*unread).into()),
        };
        Self {
            namespaces: system
                .and_then(only)
                .and_then(|system| system.namespaces().into()),
            of_processes: devices.as_ref().map(|devices| of_processes(&netlink, devices)),
            optional_counters,
            optional_values,
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
            of_processes: why.clone().into(),
            optional_counters: why.clone().into(),
            optional_values: why.clone().into(),
        }
    }
}

fn has_devices(scope: &Scope<'_>) -> bool {
    // The source of the devices reports what it cannot read.
    let aside = Scope::new(scope.root());
    let devices = aside.entries(CLASS);
    devices.known().is_some_and(|devices| !devices.is_empty())
}

/// The failure to ask a subsystem that must be there.
fn no_subsystem(scope: &Scope<'_>) -> Unread {
    let unread = Unread {
        source: format!("netlink {FAMILY} sys-get"),
        kind: UnreadKind::Errno(Errno::PROTONOSUPPORT),
        detail: "this kernel has RDMA devices, and no netlink of the RDMA subsystem".into(),
    };
    let _: Fact<()> = scope.fail(unread.clone());
    unread
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

/// Devices whose objects and counters are asked about.
const MAX_ASKED: usize = 64;
/// A device with more objects of a kind is not asked whose they are.
const MAX_OBJECTS: u64 = 20_000;
/// Maximum number of processes of a device.
const MAX_PROCESSES: usize = 64;
const DEV_INDEX: u16 = 1;

/// Errors that mean absence: an older kernel, a device without such counters, or one that is being removed.
const NOT_SUPPORTED: [Errno; 3] = [Errno::INVAL, Errno::OPNOTSUPP, Errno::NODEV];

/// A kind of object: its name, the command, and where its reply has the process.
type Object = (&'static str, u16, Schema);

const OBJECTS: [Object; 2] = [
    (
        "mr",
        13,
        &[(40, "objects", Kind::Nest(&[(41, "entry", PROCESS)]))],
    ),
    (
        "cq",
        12,
        &[(35, "objects", Kind::Nest(&[(36, "entry", PROCESS)]))],
    ),
];
const PROCESS: Kind = Kind::List(&[(28, "pid", Kind::Number)]);

fn of_processes(
    netlink: &Netlink<'_, '_>,
    devices: &[Device],
) -> BTreeMap<String, BTreeMap<String, Vec<u64>>> {
    let mut found: BTreeMap<String, BTreeMap<String, Vec<u64>>> = BTreeMap::new();
    for device in devices.iter().take(MAX_ASKED) {
        let Some(index) = device.dev_index else { continue };
        for (kind, command, schema) in OBJECTS {
            let all = device.res_summary.entry.iter().find(|entry| entry.name == kind);
            if all.is_none_or(|all| all.curr == 0 || all.curr > MAX_OBJECTS) {
                continue;
            }
            let question = || Question {
                family: FAMILY,
                call: Call::Rdma(command),
                dump: true,
                attributes: vec![number(DEV_INDEX, index)],
                schema,
            };
            let name = format!("res-{kind}-get");
            // The answer that is recorded names no process.
            let counts: Fact<Vec<u64>> = netlink.ask_all(
                FAMILY,
                &name,
                &device.dev_name,
                &NOT_SUPPORTED,
                |client, source| {
                    let messages = client.ask(source, question())?;
                    // A number that is too small would look like an answer.
                    match messages.iter().find(|message| is_malformed(message)) {
                        Some(message) => Err(malformed(source, message)),
                        None => Ok(by_process(&messages)),
                    }
                },
            );
            if let Fact::Known(counts) = counts {
                let of_device = found.entry(device.dev_name.clone()).or_default();
                of_device.insert(kind.to_owned(), counts.into_iter().take(MAX_PROCESSES).collect());
            }
        }
    }
    found
}

/// How many objects each process has, the largest number first. Those of the kernel have no process.
fn by_process(messages: &[serde_json::Value]) -> Vec<u64> {
    let mut processes: BTreeMap<u64, u64> = BTreeMap::new();
    for message in messages {
        let entries = message["objects"]["entry"].as_array();
        for pid in entries
            .into_iter()
            .flatten()
            .filter_map(|entry| entry["pid"].as_u64())
        {
            *processes.entry(pid).or_default() += 1;
        }
    }
    let mut counts: Vec<u64> = processes.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    counts.truncate(MAX_PROCESSES);
    counts
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
    (DEV_INDEX, "dev-index", Kind::Number),
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
    dev_index: Option<u32>,
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
        entries
            .filter_map(|entry| Some((driver_name(&entry.name)?, given(entry.curr)?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::{
        recording::{self, Answer, Failure, Names, Recording},
        root::Root,
    };

    #[test]
    fn a_kernel_with_devices_has_the_subsystem() {
        let read = |devices: &[&str]| {
            let mut recording = Recording::default();
            let system = recording::Question::Netlink {
                family: FAMILY.into(),
                command: "sys-get".into(),
                object: String::new(),
            };
            recording.insert(system, Answer::Failed(Failure::Errno(Errno::PROTONOSUPPORT)));
            let names = Names {
                text: devices.iter().map(|device| (*device).to_owned()).collect(),
                ..Names::default()
            };
            recording.insert(recording::Question::List(CLASS.into()), Answer::Names(names));
            let root = Root::replay(Arc::new(recording), true);
            let scope = Scope::new(&root);
            let namespaces = Subsystem::read(&scope, &Known::default()).namespaces;
            (namespaces, scope.finish().len())
        };
        assert_eq!(read(&[]), (Fact::Absent, 0));
        let (namespaces, misses) = read(&["mlx5_0"]);
        assert_eq!(
            namespaces.unread().unwrap().to_string(),
            "netlink rdma sys-get: this kernel has RDMA devices, and no netlink of the RDMA subsystem (EPROTONOSUPPORT)"
        );
        assert_eq!(misses, 1);
    }

    #[test]
    fn the_modes_are_those_of_the_program_rdma() {
        let mode = |message| serde_json::from_value::<System>(message).unwrap().namespaces();
        assert_eq!(mode(json!({"netns-mode": 0})), Some(Namespaces::Exclusive));
        assert_eq!(mode(json!({"netns-mode": 1})), Some(Namespaces::Shared));
        assert_eq!([json!({}), json!({"netns-mode": 9})].map(mode), [None, None]);
    }

    #[test]
    fn objects_are_counted_by_process_without_its_number() {
        let entries = |pids: &[u64]| {
            let entries: Vec<_> = pids.iter().map(|pid| json!({"pid": pid})).collect();
            json!({"objects": {"entry": entries}})
        };
        // The kernel's own have no process; a second message goes on where the first one ended.
        let kernel = json!({"objects": {"entry": [{}]}});
        let messages = [entries(&[4711, 31337, 4711]), kernel, entries(&[4711])];
        assert_eq!(by_process(&messages), [3, 1]);
        assert_eq!(by_process(&[json!([]), json!({"objects": 7})]), [0_u64; 0]);
    }

    #[test]
    fn a_kind_without_a_name_or_a_number_is_left_out() {
        let summary = json!({"entry": [{"name": "", "curr": 2}, {"name": "cq", "curr": u64::MAX},
            {"name": "q\np", "curr": 1}, {"name": "x".repeat(500), "curr": 3}]});
        let counts = serde_json::from_value::<Summary>(summary).unwrap().counts();
        let names: Vec<_> = counts.into_iter().collect();
        assert_eq!(names, [("qp".to_owned(), 1), (format!("{}…", "x".repeat(63)), 3)]);
    }
}
