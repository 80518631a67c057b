//! What a driver says of its device's health, and which firmware runs and which one the next reset starts.
//!
//! Source: the generic netlink family `devlink` (`Documentation/networking/devlink/devlink-health.rst` and `devlink-info.rst`,
//! `Documentation/netlink/specs/devlink.yaml`). Reading needs no privilege.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{
    Call, Netlink, Question, driver_name, members, obstacle,
    wire::{Kind, Schema, text},
};
use crate::{
    fact::{Errno, Fact, Unread, UnreadKind},
    pci::is_address,
    root::Scope,
    source::{After, Known, Source},
};

/// Maximum number of functions that are asked for their firmware.
const MAX_FUNCTIONS: usize = 64;
/// Maximum number of reporters of a function.
const MAX_REPORTERS: usize = 64;
/// Maximum number of subfunctions whose function is looked for.
const MAX_SUBFUNCTIONS: usize = 1024;
/// Maximum number of versions of a function.
const MAX_VERSIONS: usize = 64;

const FAMILY: &str = "devlink";
/// What the kernel answers for a function without devlink, and for a driver that does not support a question.
const NOT_SUPPORTED: [Errno; 2] = [Errno::NODEV, Errno::OPNOTSUPP];
const BUS_NAME: u16 = 1;
const DEV_NAME: u16 = 2;

/// What devlink shows of the PCI functions of RDMA devices, and of the other functions of a bond (RoCE LAG).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Devlink {
    /// By PCI address; absent in a tree of files. A function whose driver does not support devlink is left out.
    pub devices: Fact<BTreeMap<String, Device>>,
}

/// One PCI function.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// What its driver watches.
    pub reporters: Vec<Reporter>,
    /// Versions of its firmware; absent if the driver does not report them.
    pub firmware: Fact<Firmware>,
}

/// A part of a device that its driver watches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reporter {
    /// Its name: `fw`, `fw_fatal`, `tx`, `rx`, `vnic`.
    pub name: String,
    /// The devlink port that it watches; `None` for the whole function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u64>,
    /// The subfunction that it watches, as devlink names it (`auxiliary/mlx5_core.sf.2`); `None` for the function itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subfunction: Option<String>,
    /// Whether it is in the state error: an error is not yet recovered.
    pub in_error: bool,
    /// Whether the driver can recover it. A reporter without recovery stays in the state error from its first error on.
    #[serde(default)]
    pub has_recovery: bool,
    /// Number of errors since the driver was loaded.
    pub errors: u64,
    /// Number of errors that the driver recovered from.
    pub recoveries: u64,
    /// When the driver last recorded the state of the part, in seconds since 1970; `None` if no dump is saved, and before Linux 5.7.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_dump: Option<u64>,
}

/// The versions of a function's firmware, by the names that devlink-info.rst lists (`fw`, `fw.version`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Firmware {
    /// What runs.
    pub running: BTreeMap<String, String>,
    /// What the next reset starts.
    pub stored: BTreeMap<String, String>,
}

impl Firmware {
    /// Versions that the next reset changes: name, running and stored version.
    pub fn pending(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.stored.iter().filter_map(|(name, stored)| {
            let (running, stored) = (self.running.get(name)?.trim(), stored.trim());
            let differ = running != stored && is_version(running) && is_version(stored);
            differ.then_some((name.as_str(), running, stored))
        })
    }
}

/// Whether it is a version: neither a name (`fw.psid`) nor what drivers write for none (`N/A`, `0.0.0`, nothing).
fn is_version(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit()) && text.contains(|c: char| matches!(c, '1'..='9'))
}

impl Source for Devlink {
    const AFTER: After = After::Devices;

    fn read(scope: &Scope<'_>, known: &Known) -> Self {
        if let Some(obstacle) = obstacle(scope, known) {
            return Self {
                devices: obstacle.map(|()| BTreeMap::new()),
            };
        }
        if known.functions.is_empty() {
            return Self {
                devices: Fact::Known(BTreeMap::new()),
            };
        }
        let netlink = Netlink::new(scope);
        let functions = with_bonds(scope, known);
        let reporters =
            netlink.ask::<ReporterMessage>("health-reporter-get", "", &NOT_SUPPORTED, || Question {
                family: FAMILY,
                call: Call::Generic(52, 52),
                dump: true,
                attributes: Vec::new(),
                schema: REPORTER,
            });
        let mut devices: BTreeMap<String, Device> = match reporters {
            Fact::Known(messages) => grouped(scope, messages, &functions),
            Fact::Absent => BTreeMap::new(),
            Fact::Unread { unread } => {
                return Self {
                    devices: (*unread).into(),
                };
            }
        };
        // Virtual functions have the firmware of their physical function.
        let is_physical = |address: &&String| {
            scope
                .link(&format!("/sys/bus/pci/devices/{address}/physfn"))
                .known()
                .is_none()
        };
        let physical: Vec<_> = functions.iter().filter(is_physical).collect();
        if physical.len() > MAX_FUNCTIONS {
            let _: Fact<()> = scope.fail(Unread {
                source: "netlink devlink info-get".into(),
                kind: UnreadKind::TooLong,
                detail: format!("only the first {MAX_FUNCTIONS} functions are asked about"),
            });
        }
        for address in physical.into_iter().take(MAX_FUNCTIONS) {
            let info =
                netlink.ask::<InfoMessage>("info-get", &format!("pci/{address}"), &NOT_SUPPORTED, || {
                    Question {
                        family: FAMILY,
                        call: Call::Generic(51, 51),
                        dump: false,
                        attributes: vec![text(BUS_NAME, "pci"), text(DEV_NAME, address)],
                        schema: INFO,
                    }
                });
            let firmware = info.and_then(|messages| messages.into_iter().next().map(Firmware::from).into());
            if !firmware.is_absent() {
                devices.entry(address.clone()).or_default().firmware = firmware;
            }
        }
        Self {
            devices: Fact::Known(devices),
        }
    }

    fn unread(why: &Unread) -> Self {
        Self {
            devices: why.clone().into(),
        }
    }
}

/// The functions of RDMA devices, and those of the members of their bonds: the RDMA device of a bond is one function of several.
fn with_bonds(scope: &Scope<'_>, known: &Known) -> BTreeSet<String> {
    let mut functions = known.functions.clone();
    for member in members(scope, known) {
        let device = scope.link_name(&format!("/sys/class/net/{member}/device"));
        functions.extend(device.known().filter(|address| is_address(address)).cloned());
    }
    functions
}

/// The PCI function that a device of the auxiliary bus is a part of; `None` if it is not known.
fn function_of(scope: &Scope<'_>, name: &str) -> Option<String> {
    // A name is one component of a path.
    if name.contains('/') || name == ".." {
        return None;
    }
    // An older snapshot did not ask.
    let aside = Scope::new(scope.root());
    let path = aside.link(&format!("/sys/bus/auxiliary/devices/{name}"));
    let function = path.known()?.rsplit('/').nth(1)?;
    is_address(function).then(|| function.to_owned())
}

/// The reporters of these functions, and those in error of their subfunctions. What is left out is reported once.
fn grouped(
    scope: &Scope<'_>,
    messages: Vec<ReporterMessage>,
    functions: &BTreeSet<String>,
) -> BTreeMap<String, Device> {
    let mut devices: BTreeMap<String, Device> = BTreeMap::new();
    let mut left_out = 0_usize;
    let mut subfunctions: BTreeMap<String, Option<String>> = BTreeMap::new();
    for message in messages {
        let (address, subfunction) = match message.bus_name.as_str() {
            "pci" => (message.dev_name, None),
            "auxiliary"
                if subfunctions.len() < MAX_SUBFUNCTIONS || subfunctions.contains_key(&message.dev_name) =>
            {
                let name = message.dev_name;
                let function = subfunctions.entry(name.clone());
                let Some(function) = function.or_insert_with(|| function_of(scope, &name)) else {
                    continue;
                };
                (function.clone(), driver_name(&format!("auxiliary/{name}")))
            }
            _ => continue,
        };
        if !functions.contains(&address) {
            continue;
        }
        let reporter = message.health_reporter;
        // Those that are healthy would fill the list: there may be a thousand subfunctions.
        if subfunction.is_some() && reporter.state == 0 {
            continue;
        }
        let device = devices.entry(address).or_default();
        match driver_name(&reporter.name).filter(|_| device.reporters.len() < MAX_REPORTERS) {
            Some(name) => device.reporters.push(Reporter {
                name,
                port: message.port_index,
                subfunction,
                in_error: reporter.state != 0,
                has_recovery: reporter.graceful_period.or(reporter.auto_recover).is_some(),
                errors: reporter.errors,
                recoveries: reporter.recoveries,
                last_dump: reporter.last_dump.map(|nanoseconds| nanoseconds / 1_000_000_000),
            }),
            None => left_out += 1,
        }
    }
    if left_out > 0 {
        let _: Fact<()> = scope.fail(Unread {
            source: "netlink devlink health-reporter-get".into(),
            kind: UnreadKind::TooLong,
            detail: format!(
                "{left_out} health reporters are left out: at most {MAX_REPORTERS} of a device are used, and none without a name"
            ),
        });
    }
    for device in devices.values_mut() {
        device
            .reporters
            .sort_by(|a, b| (&a.name, a.port, &a.subfunction).cmp(&(&b.name, b.port, &b.subfunction)));
    }
    devices
}

const REPORTER: Schema = &[
    (BUS_NAME, "bus-name", Kind::Text),
    (DEV_NAME, "dev-name", Kind::Text),
    (3, "port-index", Kind::Number),
    (
        114,
        "health-reporter",
        Kind::Nest(&[
            (115, "health-reporter-name", Kind::Text),
            (116, "health-reporter-state", Kind::Number),
            (117, "health-reporter-err-count", Kind::Number),
            (118, "health-reporter-recover-count", Kind::Number),
            (120, "health-reporter-graceful-period", Kind::Number),
            (121, "health-reporter-auto-recover", Kind::Number),
            (137, "health-reporter-dump-ts-ns", Kind::Number),
        ]),
    ),
];

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct ReporterMessage {
    bus_name: String,
    dev_name: String,
    port_index: Option<u64>,
    health_reporter: ReporterNest,
}

#[derive(Debug, Deserialize)]
struct ReporterNest {
    #[serde(rename = "health-reporter-name")]
    name: String,
    #[serde(rename = "health-reporter-state")]
    state: u64,
    #[serde(default, rename = "health-reporter-err-count")]
    errors: u64,
    #[serde(default, rename = "health-reporter-recover-count")]
    recoveries: u64,
    /// The kernel reports this and the next one only of reporters with recovery (`ops->recover` in `net/devlink/health.c`).
    #[serde(default, rename = "health-reporter-graceful-period")]
    graceful_period: Option<u64>,
    #[serde(default, rename = "health-reporter-auto-recover")]
    auto_recover: Option<u64>,
    /// In nanoseconds since 1970. The attribute 119 is in milliseconds of a clock that begins with the boot.
    #[serde(rename = "health-reporter-dump-ts-ns")]
    last_dump: Option<u64>,
}

const VERSION: Schema = &[
    (103, "info-version-name", Kind::Text),
    (104, "info-version-value", Kind::Text),
];
const INFO: Schema = &[
    (101, "info-version-running", Kind::List(VERSION)),
    (102, "info-version-stored", Kind::List(VERSION)),
];

#[derive(Debug, Deserialize)]
struct InfoMessage {
    #[serde(default, rename = "info-version-running")]
    running: Vec<Version>,
    #[serde(default, rename = "info-version-stored")]
    stored: Vec<Version>,
}

#[derive(Debug, Deserialize)]
struct Version {
    #[serde(rename = "info-version-name")]
    name: String,
    #[serde(rename = "info-version-value")]
    value: String,
}

impl From<InfoMessage> for Firmware {
    fn from(message: InfoMessage) -> Self {
        let versions = |versions: Vec<Version>| {
            let versions = versions.into_iter().take(MAX_VERSIONS);
            versions
                .filter_map(|version| Some((driver_name(&version.name)?, driver_name(&version.value)?)))
                .collect()
        };
        Self {
            running: versions(message.running),
            stored: versions(message.stored),
        }
    }
}

#[cfg(test)]
#[path = "devlink_tests.rs"]
mod tests;
