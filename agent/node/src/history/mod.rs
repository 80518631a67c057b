//! What earlier readings found, as far as later judgement needs it: counters of the last hour, links that went down, what
//! probes measured, and how the IOMMU treated each device at earlier boots.
//!
//! A value without clock or file: [`History::record`] takes a node and the time, somebody else keeps the outcome. Every
//! part is bounded. Devices go by [`crate::infiniband::Hca::identity`], so that a renamed one keeps its past.

mod bounds;
mod record;
mod series;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::infiniband::Hca;
pub use series::{Sample, Series};

/// Version of the JSON form.
pub const SCHEMA: u32 = 1;
/// The most boots that are remembered.
const MAX_BOOTS: usize = 8;
/// The most ports, functions, and devices of a boot that are remembered.
const MAX_SUBJECTS: usize = 2048;
/// The most times a port went down that are remembered.
const MAX_DOWNS: usize = 64;
/// The most measurements of a port that are remembered.
const MAX_MEASURED: usize = 48;
/// The longest text that is remembered, in bytes.
const MAX_TEXT: usize = 256;
/// The longest name of a subject: a text, and the number of a port.
const MAX_KEY: usize = MAX_TEXT + 4;
/// The most kernel arguments of a boot that are remembered.
const MAX_ARGUMENTS: usize = 16;
/// What was not seen for so long is forgotten, in seconds.
const FORGET_AFTER: u64 = 14 * 86_400;

/// What earlier readings found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Boots of the node, oldest first; the last is the present one once it was recorded.
    pub boots: Vec<Boot>,
    /// Ports by `identity:number` ([`History::port_key`]).
    pub ports: BTreeMap<String, PortHistory>,
    /// Error counts of PCI functions by address: `correctable`, `nonfatal`, `fatal`.
    pub functions: BTreeMap<String, Series>,
}

/// One boot of the node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Boot {
    /// The kernel's id of the boot.
    pub id: String,
    /// When it was first and last seen, in seconds since 1970.
    pub first: u64,
    /// See `first`.
    pub last: u64,
    /// Kernel release.
    pub kernel: Option<String>,
    /// What the command line said about the IOMMU.
    pub arguments: Vec<String>,
    /// The type of the IOMMU group of each RDMA function and GPU, by PCI address.
    pub domains: BTreeMap<String, String>,
    /// The RDMA devices that were there, by identity.
    pub hcas: BTreeMap<String, Seen>,
}

/// An RDMA device that was there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Its name then.
    pub name: String,
    /// Its driver then.
    pub driver: Option<String>,
    /// Whether it was a virtual function.
    pub is_virtual: bool,
    /// When it was last there, in seconds since 1970.
    pub last: u64,
}

/// The past of one port.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PortHistory {
    /// When it was last there, in seconds since 1970.
    pub last: u64,
    /// Its error counters, over the last hour.
    pub counters: Series,
    /// When it went down, in seconds since 1970, oldest first. What happened in the first half hour after boot is left out.
    pub downs: Vec<u64>,
    /// How often it had gone down when it was last seen.
    pub down_count: Option<u64>,
    /// Who counted that; numbers of different counters say nothing of each other.
    #[serde(default)]
    pub down_counter: Option<DownCounter>,
    /// Whether it was active when it was last seen.
    pub active: Option<bool>,
    /// What probes measured, oldest first, at the rate that the port has now.
    pub measured: Vec<Measured>,
    /// The port's rate at those probes, in bits per second.
    pub rate: Option<u64>,
}

/// What one probe measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// When, in seconds since 1970.
    pub time: u64,
    /// Bytes per second.
    pub bytes_per_second: Option<f64>,
    /// Median latency in seconds.
    pub latency: Option<f64>,
}

/// What counts how often a port goes down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DownCounter {
    /// `carrier_down_count` of its network device.
    Carrier,
    /// `counters/link_downed` of the port.
    LinkDowned,
}

impl Default for History {
    fn default() -> Self {
        Self {
            schema: SCHEMA,
            boots: Vec::new(),
            ports: BTreeMap::new(),
            functions: BTreeMap::new(),
        }
    }
}

impl History {
    /// The key of a port.
    pub fn port_key(hca: &Hca, port: u8) -> String {
        format!("{}:{port}", short(hca.identity()))
    }

    /// The past of a port.
    pub fn port(&self, hca: &Hca, port: u8) -> Option<&PortHistory> {
        self.ports.get(&Self::port_key(hca, port))
    }

    /// Boots before the one with this id, newest first.
    pub fn boots_before<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a Boot> {
        self.boots.iter().rev().filter(move |boot| boot.id != id)
    }
}

/// A text, cut off where it is too long to be remembered.
fn short(text: &str) -> &str {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

impl PortHistory {
    /// How often the port went down since `time`.
    pub fn downs_since(&self, time: u64) -> usize {
        self.downs.iter().filter(|down| **down >= time).count()
    }

    /// The median of what earlier probes measured, before `time`, and of how many.
    pub fn median(&self, time: u64, of: impl Fn(&Measured) -> Option<f64>) -> Option<(f64, usize)> {
        let earlier = self.measured.iter().filter(|measured| measured.time < time);
        let mut values: Vec<f64> = earlier.filter_map(of).filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        Some((*values.get(values.len() / 2)?, values.len()))
    }
}

#[cfg(test)]
mod tests;
