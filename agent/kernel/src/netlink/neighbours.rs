//! The neighbour tables (ARP and IPv6), which have an entry for each address on the subnets of the node.
//!
//! Source: rtnetlink, `RTM_GETNEIGHTBL` (`Documentation/netlink/specs/rt-neigh.yaml`, `include/uapi/linux/neighbour.h`). Reading needs no
//! privilege. The tables and their limits are those of the whole machine; the sysctls `net.ipv4.neigh.default.gc_thresh3` exist only in
//! its first network namespace.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    Call, Netlink, Question, Route,
    wire::{Field, Kind, Schema},
};
use crate::{
    fact::{Fact, Unread},
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
    /// By name: `arp_cache`, `ndisc_cache`; absent in a tree of files.
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
            return Self::default();
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
        Self {
            tables: found.map(|messages| messages.into_iter().filter_map(Message::table).collect()),
        }
    }

    fn unread(why: &Unread) -> Self {
        Self {
            tables: why.clone().into(),
        }
    }
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
