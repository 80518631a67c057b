//! Transceivers: temperature, supply voltage, and the light of each lane, with the module's own limits.
//!
//! Source: the generic netlink family `ethtool`, `ETHTOOL_MSG_MODULE_EEPROM_GET`, Linux 5.13 and later. The kernel requires
//! `CAP_NET_ADMIN`; a privileged helper reads the pages for a process without it. `eeprom` decodes them.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use rdma_health_protocol::{MAX_MODULES, ModuleMemory, ModulePage};
use serde::{Deserialize, Serialize};

use super::{
    Asked, Call, Client, Netlink, Question, ask_each, eeprom,
    ethtool::{Plugged, plugged, plugged_now},
    wire::{Kind, Schema, nest, number, small, text},
};
use crate::{
    drivers::netdevs,
    fact::{Errno, Fact, Unread, UnreadKind},
    recording::Failure,
    root::Scope,
    source::{After, Known, Source},
};

const FAMILY: &str = "ethtool";
/// What drivers answer where no module is, or none whose memory can be read.
const NO_MODULE: [Errno; 4] = [Errno::OPNOTSUPP, Errno::NODEV, Errno::INVAL, Errno::NXIO];
/// The same, and what `mlx5_core` answers for an empty cage. With a link it is a failure of the bus.
const NO_MODULE_OR_FAILED: [Errno; 5] = [
    Errno::OPNOTSUPP,
    Errno::NODEV,
    Errno::INVAL,
    Errno::NXIO,
    Errno::IO,
];
/// How long pages stay valid as long as the link does not change. Reading them takes the adapter milliseconds for each module, and light and
/// temperature change slowly.
const VALID: Duration = Duration::from_secs(300);
/// How long a failure stays valid: some drivers log each one.
const FAILURE_VALID: Duration = Duration::from_secs(900);
/// How long the failure of a port without a link stays valid, as long as it has none: its cage may be empty.
const EMPTY_VALID: Duration = Duration::from_secs(6 * 3600);

/// Transceivers by network device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transceivers {
    /// The network devices of RDMA ports, and the members of bonds among them, that have one; absent in a tree of files.
    pub netdevs: Fact<BTreeMap<String, Module>>,
}

/// A transceiver or a cable with a memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// Its form: `QSFP28`, `OSFP`.
    pub form: String,
    /// Its vendor.
    pub vendor: Option<String>,
    /// The vendor's part number.
    pub part: Option<String>,
    /// Temperature in thousandths of a degree Celsius; `None` if it measures none.
    pub temperature: Option<Measure>,
    /// Supply voltage in microvolts; `None` likewise.
    pub voltage: Option<Measure>,
    /// The lanes in use, in order; empty for copper.
    pub lanes: Vec<Lane>,
    /// Parts of its memory that could not be read or are damaged: what they hold is unknown, not absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<LostPart>,
}

impl Module {
    /// Why the module's own limits are unknown; `None` if they could be read, or if it has none.
    pub fn limits_unread(&self) -> Option<&Unread> {
        let mut lost = self.unread.iter();
        lost.find(|part| part.holds_limits).map(|part| &part.unread)
    }
}

/// A part of the memory that could not be read or is damaged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostPart {
    /// Whether it holds the limits of the module.
    pub holds_limits: bool,
    /// Why it is of no use.
    pub unread: Unread,
}

/// What a module measures of a lane.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    /// Its number in the module, from 1: the lanes of a port that is one of several on a module do not begin with 1.
    #[serde(default)]
    pub number: u8,
    /// Received light in nanowatts; `None` if it does not measure it.
    pub rx_power: Option<Measure>,
    /// Sent light in nanowatts; `None` likewise.
    pub tx_power: Option<Measure>,
    /// The laser's bias current in microamperes; `None` likewise.
    pub bias: Option<Measure>,
}

impl Lane {
    /// Whether anything is measured of it.
    pub(super) fn is_measured(&self) -> bool {
        self.rx_power.is_some() || self.tx_power.is_some() || self.bias.is_some()
    }
}

/// A measured value with the limits beyond which the module raises an alarm.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measure {
    /// The value.
    pub value: i64,
    /// The lower limit; `None` if the module has none.
    pub low: Option<i64>,
    /// The upper limit; `None` likewise.
    pub high: Option<i64>,
}

impl Source for Transceivers {
    const AFTER: After = After::Devices;

    fn read(scope: &Scope<'_>, known: &Known) -> Self {
        Self {
            netdevs: ask_each(scope, known, FAMILY, Asked::Cables, |netlink, netdev| {
                module(scope, netlink, netdev)
            }),
        }
    }

    fn unread(why: &Unread) -> Self {
        Self {
            netdevs: why.clone().into(),
        }
    }
}

fn module(scope: &Scope<'_>, netlink: &Netlink<'_, '_>, netdev: &str) -> Fact<Module> {
    const NAME: &str = "module-eeprom-get";
    // Those that only a link to a physical function has.
    let is_virtual = scope.link(&format!("/sys/class/net/{netdev}/device/physfn"));
    if is_virtual.known().is_some() {
        return Fact::Absent;
    }
    // The links report it if they cannot be asked.
    let aside = Scope::new(scope.root());
    let plugged = plugged(&Netlink::new(&aside), netdev);
    if plugged == Some(Plugged::No) {
        return Fact::Absent;
    }
    let absent = match plugged {
        Some(Plugged::Unknown) => &NO_MODULE_OR_FAILED[..],
        _ => &NO_MODULE,
    };
    let pages: Fact<Vec<ModulePage>> = netlink.ask_all(FAMILY, NAME, netdev, absent, |client, source| {
        match pages(scope, client, source, netdev) {
            Err(Failure::Errno(errno @ (Errno::PERM | Errno::ACCESS))) => {
                let helper = scope.root().module_memory(netdev);
                helper.unwrap_or(Err(Failure::Errno(errno)))
            }
            pages => pages,
        }
    });
    pages.and_then(|pages| {
        // A module without an identifier is none.
        let is_there = pages.first().is_some_and(|first| first.data.first() != Some(&0));
        let source = format!("netlink {FAMILY} {NAME} {netdev}");
        // `mlx5_core` before Linux 6.18 returns success and no byte for an empty cage.
        if pages.first().is_some_and(|first| first.data.is_empty()) {
            return match plugged {
                Some(Plugged::Unknown) => Fact::Absent,
                _ => scope.fail(Unread {
                    source,
                    kind: UnreadKind::Malformed,
                    detail: "the driver returned no byte of the module's memory: there is no module or cable, or it does not answer".into(),
                }),
            };
        }
        match eeprom::decode(&source, &pages) {
            Some(module) => {
                for part in &module.unread {
                    let _: Fact<()> = scope.fail(part.unread.clone());
                }
                Fact::Known(module)
            }
            None if !is_there => Fact::Absent,
            None => scope.fail(eeprom::failure(&source, &pages).unwrap_or(Unread {
                source,
                kind: UnreadKind::Malformed,
                detail: "the memory of the module is neither SFF-8636, CMIS nor SFF-8472, or its checksum is wrong".into(),
            })),
        }
    })
}

/// The memory of every module of RDMA devices, for a process that may not read it. A module that cannot be read has an error number.
pub fn memories(scope: &Scope<'_>) -> Vec<ModuleMemory> {
    let mut client = Client::default();
    let mut found = Vec::new();
    for netdev in netdevs(scope, MAX_MODULES) {
        let (pages, errno) = match pages(scope, &mut client, "", &netdev) {
            Ok(pages) => (pages, 0),
            Err(Failure::Errno(errno)) => (Vec::new(), errno.raw_os_error()),
            Err(Failure::Unread(unread)) => match unread.kind {
                UnreadKind::Errno(errno) => (Vec::new(), errno.raw_os_error()),
                _ => (Vec::new(), Errno::IO.raw_os_error()),
            },
            Err(_) => (Vec::new(), Errno::IO.raw_os_error()),
        };
        found.push(ModuleMemory { netdev, pages, errno });
    }
    found
}

/// A recorded answer about a module without any part of its memory that is not read, such as its serial number; `None` for
/// another answer.
pub fn used_pages(document: &[u8]) -> Option<Vec<u8>> {
    let pages: Vec<ModulePage> = serde_json::from_slice(document).ok()?;
    serde_json::to_vec(&eeprom::used(pages)).ok()
}

/// What was read of a module, when, and the state of its link at that time.
#[derive(Debug, Clone)]
struct Remembered {
    since: Instant,
    link: LinkState,
    answer: Result<Vec<ModulePage>, Failure>,
}

/// What changes when a link goes down or comes up, so that its cable or module may be another one or have other light.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LinkState {
    plugged: Option<Plugged>,
    /// How often it came up and went down.
    counts: [Option<String>; 2],
}

impl LinkState {
    fn of(scope: &Scope<'_>, netdev: &str, plugged: Option<Plugged>) -> Self {
        let aside = Scope::new(scope.root());
        let counts = ["carrier_up_count", "carrier_down_count"].map(|file| {
            let count = aside.collected(&format!("/sys/class/net/{netdev}/{file}"));
            count.known().cloned()
        });
        Self { plugged, counts }
    }
}

impl Remembered {
    /// Whether this is still so if the link is in this state.
    fn is_valid(&self, link: &LinkState, age: Duration) -> bool {
        self.link == *link && age < valid(&self.answer, link.plugged)
    }
}

/// Answers by network device.
static ANSWERS: Mutex<BTreeMap<String, Remembered>> = Mutex::new(BTreeMap::new());

/// The pages of a module; those of a few minutes ago if there are any and the link has not changed since.
fn pages(
    scope: &Scope<'_>,
    client: &mut Client,
    source: &str,
    netdev: &str,
) -> Result<Vec<ModulePage>, Failure> {
    // Each change leaves whole answers, also after a panic elsewhere.
    let answers = || ANSWERS.lock().unwrap_or_else(PoisonError::into_inner);
    // For an empty cage, `mlx5_core` logs an error each time.
    let plugged = plugged_now(client, source, netdev);
    if plugged == Some(Plugged::No) {
        return Err(Failure::Errno(Errno::NODEV));
    }
    let link = LinkState::of(scope, netdev, plugged);
    if let Some(remembered) = answers().get(netdev)
        && remembered.is_valid(&link, remembered.since.elapsed())
    {
        return remembered.answer.clone();
    }
    let answer = read(client, source, netdev);
    if !matches!(answer, Err(Failure::Errno(Errno::PERM | Errno::ACCESS))) {
        let mut answers = answers();
        answers.retain(|_, remembered| remembered.since.elapsed() < EMPTY_VALID);
        let remembered = Remembered {
            since: Instant::now(),
            link,
            answer: answer.clone(),
        };
        answers.insert(netdev.to_owned(), remembered);
    }
    answer
}

/// How long an answer stays valid.
fn valid(answer: &Result<Vec<ModulePage>, Failure>, plugged: Option<Plugged>) -> Duration {
    let is_read = |pages: &Vec<ModulePage>| pages.first().is_some_and(|first| !first.data.is_empty());
    match (answer.as_ref().is_ok_and(is_read), plugged) {
        (true, _) => VALID,
        (false, Some(Plugged::Unknown)) => EMPTY_VALID,
        (false, _) => FAILURE_VALID,
    }
}

fn read(client: &mut Client, source: &str, netdev: &str) -> Result<Vec<ModulePage>, Failure> {
    let first = page(client, source, netdev, eeprom::FIRST)?;
    let parts = eeprom::parts(&first.data);
    let mut pages = vec![first];
    for part in parts {
        match page(client, source, netdev, *part) {
            Ok(page) => pages.push(page),
            // Not every driver can read every page.
            Err(Failure::Errno(errno)) if NO_MODULE.contains(&errno) => {}
            // The module says that it has the page. `mlx5_core` answers EIO for any failure on the bus of the module, and before Linux 6.18
            // with fewer bytes than requested.
            Err(Failure::Errno(errno)) => pages.push(ModulePage {
                address: part.0,
                page: part.1,
                offset: part.2,
                data: Vec::new(),
                errno: errno.raw_os_error(),
            }),
            Err(failure) => return Err(failure),
        }
    }
    Ok(pages)
}

fn page(
    client: &mut Client,
    source: &str,
    netdev: &str,
    (address, page, offset, length): eeprom::Part,
) -> Result<ModulePage, Failure> {
    let question = Question {
        family: FAMILY,
        call: Call::Generic(31, 32),
        dump: false,
        attributes: vec![
            nest(1, &[text(2, netdev)]),
            number(2, offset.into()),
            number(3, length.into()),
            small(4, page),
            small(5, 0),
            small(6, address),
        ],
        schema: DATA,
    };
    let messages = client.ask(source, question)?;
    let digits = messages.first().and_then(|message| message["data"].as_str());
    let data = digits.map_or_else(Vec::new, rdma_health_protocol::bytes_of_digits);
    Ok(ModulePage {
        address,
        page,
        offset,
        data: data.into_iter().take(length.into()).collect(),
        errno: 0,
    })
}

const DATA: Schema = &[(7, "data", Kind::Bytes)];

#[cfg(test)]
#[path = "transceiver_tests.rs"]
mod tests;
