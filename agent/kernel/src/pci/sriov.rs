//! Virtual functions of a physical function.
//!
//! Source: `sriov_{totalvfs,numvfs,drivers_autoprobe}` and the links `virtfnN`
//! (`Documentation/ABI/testing/sysfs-bus-pci`). The settings of each virtual function are in `sriov/N/*`, which only
//! MLNX_OFED and DOCA provide; otherwise only netlink reports them.

use serde::{Deserialize, Serialize};

use crate::{fact::Fact, root::Scope};

/// Maximum number of virtual functions of one physical function that are read.
const MAX_FUNCTIONS: u32 = 1024;

/// Virtual functions of a physical function.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sriov {
    /// Number of enabled virtual functions (`sriov_numvfs`).
    pub active: u32,
    /// Maximum number of virtual functions (`sriov_totalvfs`).
    pub possible: u32,
    /// Whether drivers bind to new virtual functions automatically (`sriov_drivers_autoprobe`).
    #[serde(default)]
    pub autoprobe: Fact<bool>,
    /// Existing virtual functions, in order of number.
    #[serde(default)]
    pub functions: Vec<VirtualFunction>,
}

/// One virtual function, with its settings in the physical function.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VirtualFunction {
    /// Its number, from 0.
    pub number: u32,
    /// Its PCI address.
    pub address: String,
    /// The bound driver; absent if there is none.
    pub driver: Fact<String>,
    /// The hardware address that the physical function assigns.
    pub mac: Fact<String>,
    /// The link state that the physical function sets (`Auto`, `Up`, `Down`, `Follow`).
    pub link_state: Fact<String>,
    /// Whether it may change its own address and receive the traffic of others (`ON`, `OFF`).
    pub trust: Fact<String>,
    /// Whether frames with another source address are dropped (`ON`, `OFF`).
    pub spoof_check: Fact<String>,
}

impl Sriov {
    /// Reads a physical function; absent without SR-IOV.
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
            // Some driver versions make some of these unreadable; treat them as absent.
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
