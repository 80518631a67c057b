//! The neighbour tables (ARP and IPv6), which have an entry for each address on the subnets of the node.
//!
//! Source: rtnetlink, `RTM_GETNEIGHTBL` (`Documentation/netlink/specs/rt-neigh.yaml`, `include/uapi/linux/neighbour.h`). Reading needs no
//! privilege. The tables and their limits are those of the whole machine; the sysctls `net.ipv4.neigh.default.gc_thresh3` exist only in
//! its first network namespace. In a tree of files, which answers no netlink: these sysctls, `/proc/net/stat/arp_cache`, and without that the
//! lines of `/proc/net/arp`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    Call, Netlink, Question, Route,
    wire::{Field, Kind, Schema},
};
use crate::{
    fact::{Fact, Unread, UnreadKind},
    root::Scope,
    source::{Known, Source},
};

const FAMILY: &str = "rt-neigh";
const RTM_NEWNEIGHTBL: u16 = 64;
const RTM_GETNEIGHTBL: u16 = 66;
/// The tables that RDMA uses: RoCE resolves the address of its peer with them.
const TABLES: [&str; 2] = ["arp_cache", "ndisc_cache"];

/// The neighbour tables.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbours {
    /// By name: `arp_cache`, `ndisc_cache`; absent in a tree without their files.
    pub tables: Fact<BTreeMap<String, Table>>,
}

/// One neighbour table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Number of entries.
    pub entries: u64,
    /// Number of entries from which the kernel removes unused ones (`gc_thresh2`).
    pub soft_limit: u64,
    /// Number of entries from which no other can be added (`gc_thresh3`).
    pub limit: u64,
    /// Number of times an entry could not be added since boot; `None` before Linux 4.3.
    pub overflows: Option<u64>,
}

impl Source for Neighbours {
    fn read(scope: &Scope<'_>, _: &Known) -> Self {
        if !scope.root().answers_netlink() {
            return Self {
                tables: of_files(scope),
            };
        }
        let netlink = Netlink::new(scope);
        let found: Fact<Vec<Message>> = netlink.ask("getneightbl", "", &[], || Question {
            family: FAMILY,
            call: Call::Route(Route {
                kinds: (RTM_GETNEIGHTBL, RTM_NEWNEIGHTBL),
                // `struct ndtmsg`
                header: vec![0; 4],
                command: None,
                layout: &[],
                only_with: Some("config"),
            }),
            dump: true,
            attributes: Vec::new(),
            schema: TABLE,
        });
        let tables = found.map(|messages| -> BTreeMap<_, _> {
            let tables = messages.into_iter().filter_map(Message::table);
            tables.collect()
        });
        let is_complete = |tables: &BTreeMap<String, Table>| tables.contains_key(TABLES[0]);
        // Every kernel with IPv4 has it, and RDMA over Ethernet needs it.
        if tables.known().is_some_and(|tables| !is_complete(tables)) {
            let unread = Unread {
                source: format!("netlink {FAMILY} getneightbl"),
                kind: UnreadKind::Malformed,
                detail: format!("the answer has no table {} with its limits", TABLES[0]),
            };
            return Self {
                tables: scope.fail(unread),
            };
        }
        Self { tables }
    }

    fn unread(why: &Unread) -> Self {
        Self {
            tables: why.clone().into(),
        }
    }
}

/// The tables as a tree of files shows them.
fn of_files(scope: &Scope<'_>) -> Fact<BTreeMap<String, Table>> {
    let mut found = BTreeMap::new();
    for (name, family) in TABLES.into_iter().zip(["ipv4", "ipv6"]) {
        let limit = |n: u8| {
            let path = format!("/proc/sys/net/{family}/neigh/default/gc_thresh{n}");
            scope
                .collected(&path)
                .known()
                .and_then(|text| text.trim().parse().ok())
        };
        let (Some(soft_limit), Some(limit)) = (limit(2), limit(3)) else {
            continue;
        };
        // A line for each CPU, or for each entry.
        let file = |path: String| scope.collected_file(&path).known().cloned();
        let counted = || {
            let text = file("/proc/net/arp".to_owned()).filter(|_| family == "ipv4")?;
            // The first line is a heading.
            let lines = text.lines().skip(1).filter(|line| !line.trim().is_empty());
            Some((u64::try_from(lines.count()).ok()?, None))
        };
        let stat = file(format!("/proc/net/stat/{name}"))
            .or_else(|| file(format!("/proc/1/net/stat/{name}")))
            .and_then(|text| of_stat(&text));
        if let Some((entries, overflows)) = stat.or_else(counted) {
            let table = Table {
                entries,
                soft_limit,
                limit,
                overflows,
            };
            found.insert(name.to_owned(), table);
        }
    }
    if found.is_empty() {
        return Fact::Absent;
    }
    Fact::Known(found)
}

/// The number of entries and of overflows in `/proc/net/stat/arp_cache`: hexadecimal numbers below a heading, one line for each CPU. The first
/// column is that of the whole table.
fn of_stat(text: &str) -> Option<(u64, Option<u64>)> {
    let mut lines = text.lines();
    let mut heading = lines.next()?.split_whitespace();
    let overflows = heading.position(|word| word == "table_fulls");
    let number = |word: &str| u64::from_str_radix(word, 16).ok();
    let mut entries = None;
    let mut sum = 0u64;
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        entries = entries.or_else(|| number(words.first()?));
        let fulls = overflows.and_then(|at| number(words.get(at)?));
        sum = sum.saturating_add(fulls.unwrap_or_default());
    }
    Some((entries?, overflows.map(|_| sum)))
}

const TABLE: Schema = &[
    (1, "name", Kind::Text),
    (3, "thresh2", Kind::Number),
    (4, "thresh3", Kind::Number),
    (5, "config", Kind::Struct(&[("entries", 4, Field::Number(4))])),
    (7, "stats", Kind::Struct(&[("table-fulls", 80, Field::Number(8))])),
];

/// Messages without a configuration are about the parameters of one device each.
#[derive(Debug, Deserialize)]
struct Message {
    name: String,
    thresh2: Option<u64>,
    thresh3: Option<u64>,
    config: Option<Config>,
    #[serde(default)]
    stats: Stats,
}

#[derive(Debug, Deserialize)]
struct Config {
    entries: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Stats {
    table_fulls: Option<u64>,
}

impl Message {
    fn table(self) -> Option<(String, Table)> {
        let table = Table {
            entries: self.config?.entries,
            soft_limit: self.thresh2?,
            limit: self.thresh3?,
            overflows: self.stats.table_fulls,
        };
        TABLES.contains(&self.name.as_str()).then_some((self.name, table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statistics_of_all_cpus_are_summed() {
        let text = "entries  allocs table_fulls\n000003ff 0000a1b2 00000a12 \n000003ff 0000a1b2 00000001 \n";
        assert_eq!(of_stat(text), Some((1023, Some(0xa13))));
        assert_eq!(of_stat("entries  allocs\n0000000a 00000001\n"), Some((10, None)));
        assert_eq!(of_stat("entries\n"), None);
        assert_eq!(of_stat("entries\nnonsense\n"), None);
    }
}
