//! Results of earlier readings that rules compare with: counters of the last hour, link downs, measurements of probes,
//! the IOMMU mode of each device at earlier boots, and what the kernel logged in this boot.
//!
//! A value without file: [`History::record`] takes a node and the time, and the caller stores the result. Every
//! part is bounded. Devices are identified by [`crate::infiniband::Hca::identity`], so that a renamed device keeps its
//! history.

mod bounds;
pub mod changes;
mod clock;
pub(crate) mod fair;
mod links;
mod logged;
mod record;
mod series;
mod since;
mod trend;

use std::collections::BTreeMap;

use rdma_health_protocol::Peer;
use serde::{Deserialize, Serialize};

use crate::{devlink::Reporter, infiniband::Hca, iommu::DomainType};
pub use changes::Changes;
pub use clock::{Clock, Step};
pub use links::SeenLink;
pub use logged::Logged;
pub use record::{BROKEN_CONNECTIONS, LOST_PACKETS};
pub use series::{Sample, Series};
pub use since::{Missing, Observed, Since, problem_key};
pub use trend::{MAX_POINTS, Point, Probed, SPACING, Trend};

/// Version of the JSON form.
pub const SCHEMA: u32 = 1;
/// Maximum number of boots.
const MAX_BOOTS: usize = 8;
/// Maximum number of ports, of functions, and of devices of a boot.
const MAX_SUBJECTS: usize = 2048;
/// Maximum number of link downs of a port.
const MAX_DOWNS: usize = 64;
/// Maximum number of measurements of one path.
const MAX_MEASURED: usize = 48;
/// Maximum number of measurements of all paths from a port.
const MAX_MEASURED_IN_ALL: usize = 4 * MAX_MEASURED;
/// Maximum length of a text in bytes.
const MAX_TEXT: usize = 256;
/// Maximum length of a key in bytes: a text and a port number.
const MAX_KEY: usize = MAX_TEXT + 4;
/// Maximum number of kernel arguments of a boot.
const MAX_ARGUMENTS: usize = 16;
/// Entries that were not seen for this time, in seconds, are dropped.
const FORGET_AFTER: u64 = 14 * 86_400;

/// Results of earlier readings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Boots of the node, oldest first. The last one is the current boot after it was recorded.
    pub boots: Vec<Boot>,
    /// Ports by `identity:number` ([`History::port_key`]).
    pub ports: BTreeMap<String, PortHistory>,
    /// Error counts of PCI functions by address: `correctable`, `nonfatal`, `fatal`; and by address and `devlink` those of their health
    /// reporters without recovery.
    pub functions: BTreeMap<String, Series>,
    /// The findings that came and went.
    #[serde(default, skip_serializing_if = "Changes::is_empty")]
    pub changes: Changes,
    /// The clock at the last reading; `None` if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<Clock>,
    /// What the kernel logged in the last boot; `None` if nothing of it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logged: Option<Logged>,
    /// The problems that were observed; `None` before the first reading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observed>,
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
    /// The IOMMU arguments of the kernel command line.
    pub arguments: Vec<String>,
    /// The type of the IOMMU group of each RDMA function and GPU, by PCI address.
    pub domains: BTreeMap<String, DomainType>,
    /// The RDMA devices, by identity.
    pub hcas: BTreeMap<String, Seen>,
}

/// An RDMA device of an earlier reading.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Its name at that time.
    pub name: String,
    /// Its driver at that time.
    pub driver: Option<String>,
    /// Whether it was a virtual function.
    pub is_virtual: bool,
    /// The network device of its first port at that time.
    #[serde(default)]
    pub netdev: Option<String>,
    /// The slot of its PCI function.
    #[serde(default)]
    pub slot: Option<String>,
    /// Vendor and device identifier of its PCI function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ids: Option<(u16, u16)>,
    /// When it was last present, in seconds since 1970.
    pub last: u64,
}

impl Seen {
    /// Whether both are of one driver, and of one model as far as it is known of both.
    pub fn is_like(&self, other: &Self) -> bool {
        let is_one_model = match (self.ids, other.ids) {
            (Some(ids), Some(other)) => ids == other,
            _ => true,
        };
        self.driver == other.driver && is_one_model
    }
}

/// The history of one port.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PortHistory {
    /// When it was last present, in seconds since 1970.
    pub last: u64,
    /// Its error counters, over the last hour.
    pub counters: Series,
    /// When it went down, in seconds since 1970, oldest first, without the first half hour after boot.
    pub downs: Vec<u64>,
    /// The number of link downs when it was last seen.
    pub down_count: Option<u64>,
    /// The counter with that number; numbers of different counters are not comparable.
    #[serde(default)]
    pub down_counter: Option<DownCounter>,
    /// Whether it was active when it was last seen.
    pub active: Option<bool>,
    /// Its own link (without a name) and those of the members of its bond, as they were last seen.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub links: BTreeMap<String, SeenLink>,
    /// When the members of its bond went down, like `downs`, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub member_downs: BTreeMap<String, Vec<u64>>,
    /// Measurements of probes of the paths from this port at its current rate, oldest first.
    pub measured: Vec<Measured>,
    /// The port's rate during those probes, in bits per second.
    pub rate: Option<u64>,
    /// The last day, for people to look at; empty for a virtual function.
    #[serde(default, skip_serializing_if = "Trend::is_empty")]
    pub trend: Trend,
}

/// The measurement of one probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The far end of its path.
    #[serde(default, skip_serializing_if = "Peer::is_loopback")]
    pub to: Peer,
    /// Time in seconds since 1970.
    pub time: u64,
    /// Bytes per second.
    pub bytes_per_second: Option<f64>,
    /// Median latency in seconds.
    pub latency: Option<f64>,
}

/// The counter of a port's link downs.
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
            changes: Changes::default(),
            clock: None,
            logged: None,
            observed: None,
        }
    }
}

impl History {
    /// The key of a port.
    pub fn port_key(hca: &Hca, port: u8) -> String {
        format!("{}:{port}", short(hca.identity()))
    }

    /// The history of a port.
    pub fn port(&self, hca: &Hca, port: u8) -> Option<&PortHistory> {
        self.ports.get(&Self::port_key(hca, port))
    }

    /// The key of the health reporters of a function among [`History::functions`].
    fn reporters_key(address: &str) -> String {
        format!("{} devlink", short(address))
    }

    /// The name of the errors of a health reporter in a sample.
    fn reporter_key(reporter: &Reporter) -> String {
        let port = reporter.port.map_or_else(String::new, |port| format!("/{port}"));
        let subfunction = reporter.subfunction.as_deref().unwrap_or_default();
        format!("{}{port} {subfunction}", reporter.name)
            .trim_end()
            .to_owned()
    }

    /// How many errors a health reporter without recovery reported within about an hour before `now`, and in how many seconds; `None` if that is not
    /// known.
    pub fn reported(&self, address: &str, reporter: &Reporter, now: u64) -> Option<(u64, u64)> {
        let past = self.functions.get(&Self::reporters_key(address))?;
        past.rise(&Self::reporter_key(reporter), reporter.errors, now, 60, 3900)
    }

    /// Boots before the one with this id, newest first.
    pub fn boots_before<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a Boot> {
        self.boots.iter().rev().filter(move |boot| boot.id != id)
    }
}

/// A text, cut to the maximum length.
fn short(text: &str) -> &str {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Adds `count` times that a link went down at `time`; the oldest of too many are dropped.
fn add_downs(downs: &mut Vec<u64>, count: u64, time: u64) {
    let count = usize::try_from(count).map_or(MAX_DOWNS, |count| count.min(MAX_DOWNS));
    downs.extend(std::iter::repeat_n(time, count));
    let surplus = downs.len().saturating_sub(MAX_DOWNS);
    downs.drain(..surplus);
}

/// The number of times within `seconds` before `now`.
fn within(times: &[u64], seconds: u64, now: u64) -> usize {
    let window = now.saturating_sub(seconds)..=now.saturating_add(clock::TOLERANCE);
    times.iter().filter(|time| window.contains(time)).count()
}

impl PortHistory {
    /// The number of link downs within `seconds` before `now`. One in the future was recorded with a wrong clock, unless it is by a step that does
    /// not matter.
    pub fn downs_within(&self, seconds: u64, now: u64) -> usize {
        within(&self.downs, seconds, now)
    }

    /// When the port went down, and when each member of its bond did.
    fn all_downs(&mut self) -> impl Iterator<Item = &mut Vec<u64>> {
        std::iter::once(&mut self.downs).chain(self.member_downs.values_mut())
    }

    /// The same of a member of its bond.
    pub fn member_downs_within(&self, member: &str, seconds: u64, now: u64) -> usize {
        let downs = self.member_downs.get(short(member));
        downs.map_or(0, |downs| within(downs, seconds, now))
    }

    /// The last link down that is not in the future.
    pub fn last_down(&self, now: u64) -> Option<u64> {
        self.downs.iter().copied().filter(|down| *down <= now).max()
    }

    /// Restores the order of time.
    fn sort(&mut self) {
        self.all_downs().for_each(|downs| downs.sort_unstable());
        self.measured.sort_by_key(|measured| measured.time);
    }

    /// Measurements of probes of the path to `to`, oldest first.
    fn measured_to<'a>(&'a self, to: &'a Peer) -> impl Iterator<Item = &'a Measured> + Clone {
        self.measured.iter().filter(move |measured| measured.to == *to)
    }

    /// The median of the measurements of the path to `to` before `time`, and their number.
    pub fn median(
        &self,
        to: &Peer,
        time: u64,
        of: impl Fn(&Measured) -> Option<f64>,
    ) -> Option<(f64, usize)> {
        let earlier = self.measured_to(to).filter(|measured| measured.time < time);
        let mut values: Vec<f64> = earlier.filter_map(of).filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        Some((*values.get(values.len() / 2)?, values.len()))
    }
}

#[cfg(test)]
mod tests;
