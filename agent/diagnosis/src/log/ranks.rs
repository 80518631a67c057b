//! The nodes of a job, as far as its lines show them: by number, by the hosts of all ranks, or by a bootstrap connection that stays on one host.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use super::{
    line::{after, host, number, word},
    phrases::Phrases,
    settings::nccl_version,
};

/// Words of the lines that matter here, in lower case.
pub(super) const ANCHORS: &[&str] = &[
    "nnodes",
    "num_nodes",
    "max_nodes",
    "nranks ",
    " lo:127.",
    "detected ",
    " pid ",
];
/// What stands before the network that NCCL uses, in lower case.
const USING: &str = "using network ";
/// The most ranks and hosts that are counted.
const MOST: usize = 1024;

/// Words of a network between nodes, in lower case. They need not make a line worth reading: those that do name how a job communicates.
const NETWORK: [&str; 11] = [
    "net/ib",
    "net/ofi",
    "via net/",
    "using network",
    "nccl_ib_",
    "mlx5_",
    "rdma",
    "infiniband",
    "ibv_",
    "roce",
    "efa",
];

static FOUND: LazyLock<Phrases> = LazyLock::new(|| Phrases::new(NETWORK));

/// What lines so far show of the ranks of a job.
#[derive(Debug, Default)]
pub(super) struct Ranks {
    /// Number of ranks of the largest communicator.
    all: u64,
    /// Its ranks that the log shows.
    seen: BTreeSet<u64>,
    /// The hosts that wrote these lines.
    hosts: BTreeSet<String>,
    /// The bootstrap connection uses the loopback interface.
    loopback: bool,
    /// A line names a network between nodes.
    network: bool,
    /// The number of nodes that a launcher or a framework prints.
    printed: Option<u32>,
    /// The versions of NCCL.
    versions: BTreeSet<(u32, u32, u32)>,
    /// The networks that NCCL uses on each host.
    networks: BTreeMap<String, BTreeSet<String>>,
    /// What nccl-tests lists of its ranks.
    table: Table,
    /// The processes of NCCL with their GPUs, and the host of each.
    processes: BTreeSet<(String, u64, u64)>,
    /// A launcher names the node before each line, as it does where there are several.
    labelled: bool,
}

/// The list of ranks that nccl-tests prints: `#  Rank  3 Group  0 Pid 812 on n1 device  3 [0x00] NVIDIA H100`.
#[derive(Debug, Default)]
struct Table {
    first: Option<u64>,
    rows: u64,
    hosts: BTreeSet<String>,
}

impl Table {
    fn add(&mut self, text: &str, lower: &str) {
        // What stands before a line of a launcher is already gone, the mark of a comment perhaps not.
        let row = lower.trim_start_matches(['#', ' ']);
        let Some(rank) = row.strip_prefix("rank ").and_then(number) else {
            return;
        };
        let Some(host) = lower
            .find(" on ")
            .filter(|_| lower.contains(" pid "))
            .and_then(|at| word(&text[at + " on ".len()..]))
        else {
            return;
        };
        self.first.get_or_insert(rank);
        self.rows += 1;
        if self.hosts.len() < 2 {
            self.hosts.insert(host.to_owned());
        }
    }

    /// Whether its ranks are on one host. Where the first rows are missing, fewer than those that are there.
    fn is_within(&self) -> bool {
        self.hosts.len() == 1 && self.rows > 1 && self.first.is_some_and(|first| first < self.rows)
    }
}

impl Ranks {
    /// Adds what a line shows; `lower` is the line in lower case.
    pub(super) fn add(&mut self, text: &str, lower: &str) {
        self.network = self.network || FOUND.find(lower).any(|found| found.begins(lower));
        self.loopback |= [
            " oob lo:127.",
            "bootstrap : using lo:127.",
            "bootstrap: using lo:127.",
        ]
        .iter()
        .any(|words| lower.contains(words));
        self.printed = self.printed.max(printed(lower));
        if let Some(version) = nccl_version(lower).filter(|_| self.versions.len() < MOST) {
            self.versions.insert(version);
        }
        if let Some(name) = lower.find(USING).and_then(|at| word(&text[at + USING.len()..]))
            && let Some(host) = host(text).filter(|_| self.networks.len() < MOST)
        {
            let of_host = self.networks.entry(host).or_default();
            // More than one of a host are those of several runs.
            if of_host.len() < 2 {
                of_host.insert(name.to_owned());
            }
        }
        self.table.add(text, lower);
        if let Some(process) = process(text).filter(|_| self.processes.len() < MOST) {
            self.processes.insert(process);
        }
        self.labelled |= ["(head, rank=", "(worker"]
            .iter()
            .any(|label| lower.contains(label));
        let Some(all) = after(lower, "nranks ").and_then(number) else {
            return;
        };
        let Some(rank) = after(lower, " rank ").and_then(number) else {
            return;
        };
        if all > self.all {
            self.all = all;
            self.seen.clear();
        }
        if all == self.all && self.seen.len() < MOST {
            self.seen.insert(rank);
        }
        if let Some(host) = host(text).filter(|_| self.hosts.len() < MOST) {
            self.hosts.insert(host);
        }
    }

    /// Whether several ranks of NCCL are in the log, all on one host, and nothing shows that there are others. The GPUs of one process may be the part of a job
    /// that has a process on each host; they count as ranks where something within the host failed.
    pub(super) fn are_within(&self, has_local_failure: bool) -> bool {
        let pids: BTreeSet<u64> = self.processes.iter().map(|(_, pid, _)| *pid).collect();
        let mut hosts = self.processes.iter().map(|(host, ..)| host);
        let is_one = hosts.next().is_some_and(|first| hosts.all(|host| host == first));
        let seen = u64::try_from(self.processes.len()).unwrap_or(u64::MAX);
        is_one
            && (pids.len() > 1 || has_local_failure && seen > 1)
            && seen >= self.all
            && self.hosts.len() < 2
            && !self.labelled
            && self.printed.is_none_or(|nodes| nodes < 2)
    }

    /// The versions of NCCL that lines name.
    pub(super) fn versions(&self) -> &BTreeSet<(u32, u32, u32)> {
        &self.versions
    }

    /// Two hosts of which each uses one network of NCCL, another one than the other: the host and the network of each.
    pub(super) fn differing(&self) -> Option<[(&str, &str); 2]> {
        let mut of_hosts = self.networks.iter().filter(|(_, names)| names.len() == 1);
        let (first, names) = of_hosts.next()?;
        let name = names.first()?;
        let (second, other) = of_hosts.find_map(|(host, names)| {
            let other = names.first()?;
            (other != name).then_some((host, other))
        })?;
        Some([(first, name), (second, other)])
    }

    /// Whether a line names a network between nodes.
    pub(super) fn names_network(&self) -> bool {
        self.network
    }

    /// The number of nodes, if the lines show it. A communicator may print it, too.
    pub(super) fn nodes(&self) -> Option<u32> {
        let one_host = self.hosts.len() == 1;
        let is_complete = self.all > 1 && u64::try_from(self.seen.len()) == Ok(self.all);
        let is_within = self.loopback && self.hosts.len() < 2 && self.printed.is_none_or(|nodes| nodes < 2);
        let counted = u32::try_from(self.hosts.len()).ok().filter(|hosts| *hosts > 1);
        self.printed
            .max(counted)
            .or((one_host && is_complete || is_within || self.table.is_within()).then_some(1))
    }
}

/// The process that wrote a line of NCCL, and the GPU of its rank: `axon:5022:5089 [3] NCCL INFO Using network Socket`.
fn process(text: &str) -> Option<(String, u64, u64)> {
    let (before, _) = text.split_once("] NCCL ")?;
    let (writer, device) = before.rsplit_once(" [")?;
    let mut parts = writer.rsplit(' ').next()?.rsplitn(3, ':');
    let (_, pid, host) = (parts.next()?, parts.next()?, parts.next()?);
    Some((host.to_owned(), pid.parse().ok()?, device.parse().ok()?))
}

/// The number of nodes that a line in lower case names: `--nnodes=2`, `num_nodes: 4`, `Detected 1 nodes in the distributed environment`.
fn printed(lower: &str) -> Option<u32> {
    const LABELS: [&str; 3] = ["nnodes", "num_nodes", "max_nodes"];
    let labelled = || {
        LABELS.iter().find_map(|label| {
            let rest = after(lower, label)?;
            let value = rest.trim_start_matches([' ', '=', ':', '"', '\'']);
            number(value).filter(|_| value.len() < rest.len())
        })
    };
    let detected = || {
        let rest = after(lower, "detected ")?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let is_nodes = ["nodes", "node(s)", "node "]
            .iter()
            .any(|word| rest[digits..].trim_start().starts_with(word));
        number(rest).filter(|_| is_nodes)
    };
    // Those of the memory of one machine: `num_sockets = 2 num_nodes=2`.
    if ["socket", "numa"].iter().any(|word| lower.contains(word)) {
        return None;
    }
    let nodes = labelled().or_else(detected)?;
    u32::try_from(nodes).ok().filter(|nodes| *nodes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(text: &str) -> Option<u32> {
        let mut ranks = Ranks::default();
        for line in text.lines() {
            ranks.add(line, &line.to_ascii_lowercase());
        }
        ranks.nodes()
    }

    #[test]
    fn the_nodes_of_a_job_are_counted() {
        for (text, expected) in [
            ("torchrun --nnodes=4 --nproc_per_node=8 train.py", Some(4)),
            ("Detected 1 nodes in the distributed environment", Some(1)),
            ("Detected 8 GPUs", None),
            ("  max_nodes        : 2", Some(2)),
            (
                "n1:9:9 [1] NCCL INFO NET/IB : Using [RO]; OOB lo:127.0.0.1<0>",
                Some(1),
            ),
            (
                "n1:9:9 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 - Init COMPLETE\n\
                 n1:8:8 [1] NCCL INFO comm 0x2 rank 1 nranks 2 cudaDev 1 - Init COMPLETE",
                Some(1),
            ),
            (
                "n1:9:9 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 - Init COMPLETE\n\
                 n2:8:8 [1] NCCL INFO comm 0x2 rank 1 nranks 2 cudaDev 1 - Init COMPLETE",
                Some(2),
            ),
            // The other rank may be on another node.
            (
                "n1:9:9 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 - Init COMPLETE",
                None,
            ),
        ] {
            assert_eq!(nodes(text), expected, "{text}");
        }
    }
}
