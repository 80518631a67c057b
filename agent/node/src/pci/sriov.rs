//! Virtual functions of a physical function.
//!
//! Source: `sriov_{totalvfs,numvfs,drivers_autoprobe}` and the links `virtfnN`
//! (`Documentation/ABI/testing/sysfs-bus-pci`). What the physical function imposes on each virtual one is in
//! `sriov/N/*`, which only MLNX_OFED and DOCA offer; elsewhere it can be had from netlink alone.

use serde::{Deserialize, Serialize};

use crate::{fact::Fact, root::Scope};

/// The most virtual functions of one physical function that are looked at.
const MAX_FUNCTIONS: u32 = 1024;

/// Virtual functions of a physical function.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sriov {
    /// How many are switched on (`sriov_numvfs`).
    pub active: u32,
    /// How many there can be (`sriov_totalvfs`).
    pub possible: u32,
    /// Whether drivers take new virtual functions by themselves (`sriov_drivers_autoprobe`).
    #[serde(default)]
    pub autoprobe: Fact<bool>,
    /// Those that exist, in order of number.
    #[serde(default)]
    pub functions: Vec<VirtualFunction>,
}

/// One virtual function as its physical function sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VirtualFunction {
    /// Its number, from 0.
    pub number: u32,
    /// Its PCI address.
    pub address: String,
    /// The driver that holds it; absent where none does.
    pub driver: Fact<String>,
    /// The hardware address that the physical function gives it.
    pub mac: Fact<String>,
    /// Its link as the physical function sets it (`Auto`, `Up`, `Down`, `Follow`).
    pub link_state: Fact<String>,
    /// Whether it may change its own address and see others' traffic (`ON`, `OFF`).
    pub trust: Fact<String>,
    /// Whether frames with another address than its own are dropped (`ON`, `OFF`).
    pub spoof_check: Fact<String>,
}

impl Sriov {
    /// Reads a physical function; absent where it has no SR-IOV.
    pub(super) fn read(scope: &Scope<'_>, function: &str) -> Fact<Self> {
        let file = |name: &str| format!("{function}/{name}");
        scope.number(&file("sriov_totalvfs")).and_then(|possible: u32| {
            scope.number(&file("sriov_numvfs")).map(|active: u32| {
                let numbers = 0..active.min(MAX_FUNCTIONS);
                let functions = numbers.filter_map(|number| VirtualFunction::read(scope, function, number));
                Self {
                    active,
                    possible,
                    autoprobe: scope.parsed(&file("sriov_drivers_autoprobe"), "0 or 1", zero_or_one),
                    functions: functions.collect(),
                }
            })
        })
    }
}

fn zero_or_one(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

impl VirtualFunction {
    fn read(scope: &Scope<'_>, function: &str, number: u32) -> Option<Self> {
        let link = scope.link_name(&format!("{function}/virtfn{number}"));
        let word = |name: &str| -> Fact<String> {
            // Some versions let nobody read some of these; then there is nothing to tell.
            let aside = Scope::new(scope.root());
            let path = format!("{function}/sriov/{number}/{name}");
            let fact = aside.parsed(&path, "a word", |text| {
                let plain = (1..=32).contains(&text.len()) && text.chars().all(|c| c.is_ascii_graphic());
                plain.then(|| text.to_owned())
            });
            fact.known().cloned().into()
        };
        Some(Self {
            number,
            address: link.known()?.clone(),
            driver: scope.link_name(&format!("{function}/virtfn{number}/driver")),
            mac: word("mac"),
            link_state: word("link_state"),
            trust: word("trust"),
            spoof_check: word("spoofcheck"),
        })
    }
}
