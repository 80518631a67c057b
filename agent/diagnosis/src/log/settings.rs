//! Settings and facts of a job that its log shows: what it is configured to use, and on how many nodes it runs.

use super::{
    Log,
    entity::gid_index,
    fabric::lists_active_port,
    line::{Lower, after, number},
};
use crate::symptom::{Software, SymptomKind};

/// Words of lines with settings or facts.
pub(super) const ANCHORS: &[&str] = &[
    "nccl_",
    "ucx_",
    "nvshmem_",
    "mc_gid_index",
    "fi_",
    "nnodes ",
    "nccl version ",
    "gid_index",
    "gid index",
    "sgix ",
    " via ",
];

/// The settings that affect a job's use of RDMA.
const SETTINGS: &[&str] = &[
    "NCCL_DMABUF_ENABLE",
    "NCCL_GRAPH_FILE",
    "NCCL_IB_ADDR_FAMILY",
    "NCCL_IB_DISABLE",
    "NCCL_IB_GID_INDEX",
    "NCCL_IB_HCA",
    "NCCL_IB_PKEY",
    "NCCL_IB_RETRY_CNT",
    "NCCL_IB_ROCE_VERSION_NUM",
    "NCCL_IB_TIMEOUT",
    "NCCL_NET",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_NET_PLUGIN",
    "NCCL_P2P_DISABLE",
    "NCCL_SOCKET_FAMILY",
    "NCCL_SOCKET_IFNAME",
    "NCCL_TOPO_FILE",
    "UCX_NET_DEVICES",
    "UCX_IB_GID_INDEX",
    "UCX_IB_PKEY",
    "UCX_IB_SL",
    "UCX_IB_TRAFFIC_CLASS",
    "UCX_TLS",
    "NVSHMEM_IB_GID_INDEX",
    "NVSHMEM_HCA_LIST",
    "MC_GID_INDEX",
    "FI_PROVIDER",
];

/// What a line shows about the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fact {
    /// A setting and its value.
    Setting(&'static str, String),
    /// The number of nodes of a communicator.
    Nodes(u32),
    /// A channel within a node.
    LocalChannel,
    /// A channel over the network.
    NetworkChannel,
    /// The version of NCCL.
    Nccl((u32, u32, u32)),
    /// A tool lists an active port.
    ActivePort,
    /// The index of the GID that a program uses.
    GidIndex(u32),
}

/// The fact in a line that shows no failure.
pub(super) fn fact(line: &Lower<'_>) -> Option<Fact> {
    if let Some((name, value)) = setting(line.text) {
        return Some(Fact::Setting(name, value.to_owned()));
    }
    let lower = line.lower.as_str();
    if lists_active_port(lower) {
        return Some(Fact::ActivePort);
    }
    if let Some(version) = nccl_version(lower) {
        return Some(Fact::Nccl(version));
    }
    if let Some(nodes) = after(lower, "nnodes ").and_then(number) {
        return Some(Fact::Nodes(u32::try_from(nodes).unwrap_or(u32::MAX)));
    }
    if lower.contains("nccl info ") {
        if lower.contains(" via p2p") || lower.contains(" via shm") || lower.contains(" via direct") {
            return Some(Fact::LocalChannel);
        }
        if lower.contains(" via net/") && !lower.contains(" via net/socket") {
            return Some(Fact::NetworkChannel);
        }
    }
    // A failure that names an index is read as a failure.
    let fails = || {
        [
            "fail",
            "error",
            "invalid",
            "warn",
            "unable",
            "not found",
            "has no ",
            "out of range",
        ]
        .iter()
        .any(|word| lower.contains(word))
            || line.grade().failing
    };
    gid_index(lower).filter(|_| !fails()).map(Fact::GidIndex)
}

impl Log {
    /// The transports that `UCX_TLS` selects, where none of them uses RDMA.
    pub(crate) fn without_rdma(&self) -> Option<&str> {
        const OF_RDMA: [&str; 7] = ["all", "rc", "dc", "ud", "ib", "srd", "gga"];
        let transports = self.settings.get("UCX_TLS")?;
        let is_of_rdma = |name: &str| {
            let name = name.trim_start_matches('\\');
            OF_RDMA.iter().any(|of| name.starts_with(of))
        };
        let is_list = !transports.starts_with(['^', '$', '<']);
        (is_list && !transports.split(',').any(is_of_rdma)).then_some(transports.as_str())
    }

    /// The transports that `UCX_TLS` selects, where none of them leaves the node.
    pub(crate) fn within_node(&self) -> Option<&str> {
        const OF_NETWORK: [&str; 12] = [
            "all", "rc", "dc", "ud", "ib", "tcp", "srd", "gga", "ugni", "efa", "mad", "cuda_ipc",
        ];
        let transports = self.settings.get("UCX_TLS")?;
        let leaves = |name: &str| {
            OF_NETWORK
                .iter()
                .any(|of| name.trim_start_matches('\\').starts_with(of))
        };
        let is_list = !transports.starts_with(['^', '$', '<']);
        (is_list && !transports.split(',').any(leaves)).then_some(transports.as_str())
    }
}

impl Log {
    /// What a setting of UCX chooses of the path of each connection, where it is not the default: its name and value.
    pub(crate) fn path_of_ucx(&self) -> Option<(&'static str, &str)> {
        ["UCX_IB_SL", "UCX_IB_TRAFFIC_CLASS"]
            .into_iter()
            .find_map(|name| {
                let value = self.settings.get(name)?;
                (!matches!(value.as_str(), "0" | "auto")).then_some((name, value.as_str()))
            })
    }
}

/// A peer that UCX does not reach because its settings leave out all networks is not silent. A connection that is refused, and whose service level or traffic
/// class a setting chooses, is refused for it more often than for its GID, which UCX selects itself.
pub(super) fn settle(log: &mut Log) {
    if log.path_of_ucx().is_some() && !log.settings.contains_key("UCX_IB_GID_INDEX") {
        for symptom in &mut log.symptoms {
            if symptom.kind == SymptomKind::ConnectInvalid && symptom.software == Some(Software::Ucx) {
                symptom.kind = SymptomKind::SettingUnmatched;
                symptom.known = false;
            }
        }
    }
    if log.within_node().is_none() {
        return;
    }
    for symptom in &mut log.symptoms {
        let is_of_ucx = matches!(symptom.software, Some(Software::Ucx | Software::Mpi))
            || symptom.text.contains("ucp_ep_create");
        let is_one = symptom.kind == SymptomKind::PeerUnreachable
            && symptom
                .text
                .to_ascii_lowercase()
                .contains("destination is unreachable");
        if is_one && is_of_ucx {
            symptom.kind = SymptomKind::SettingUnmatched;
        }
    }
}

/// The version in `NCCL version 2.22.3+cuda12.5`.
pub(super) fn nccl_version(lower: &str) -> Option<(u32, u32, u32)> {
    let rest = after(lower, "nccl version ")?;
    let mut parts = rest
        .split(|c: char| !c.is_ascii_digit())
        .map_while(|part| part.parse().ok());
    Some((parts.next()?, parts.next()?, parts.next()?))
}

/// A setting that affects RDMA: `NCCL_IB_HCA set to mlx5`, `NCCL_IB_GID_INDEX set by environment to 3.`, `UCX_TLS=rc`.
fn setting(text: &str) -> Option<(&'static str, &str)> {
    // Each of them contains one of these.
    if !["NCCL_", "UCX_", "NVSHMEM_", "MC_GID", "FI_P"]
        .iter()
        .any(|word| text.contains(word))
    {
        return None;
    }
    settings(text).next()
}

/// The settings in a line besides the one that [`fact`] returns, as in the command of a launcher: `-x UCX_TLS=rc -x NCCL_IB_TIMEOUT=22`.
pub(super) fn further(text: &str) -> impl Iterator<Item = Fact> {
    // Other forms than `NAME=VALUE` have a line for each.
    let has_several = memchr::memchr_iter(b'=', text.as_bytes()).nth(1).is_some();
    has_several
        .then(|| settings(text).skip(1))
        .into_iter()
        .flatten()
        .map(|(name, value)| Fact::Setting(name, value.to_owned()))
}

fn settings(text: &str) -> impl Iterator<Item = (&'static str, &str)> {
    SETTINGS.iter().filter_map(|name| {
        let at = text.find(name)?;
        // `NCCL_NET` begins `NCCL_NET_PLUGIN`.
        let rest = &text[at + name.len()..];
        // A plugin sets some of them: `Setting NCCL_TOPO_FILE environment variable to /x.xml`.
        let value = [
            "=",
            " set by environment to ",
            " set to ",
            " environment variable to ",
            ": ",
        ]
        .iter()
        .find_map(|label| rest.strip_prefix(label))?;
        let end = value.find(char::is_whitespace).unwrap_or(value.len());
        let value = value[..end]
            // A collector of logs puts the line in quotes, and those into JSON.
            .trim_end_matches(['.', ',', ';', ':', ')', '"', '\'', '}', '\\'])
            .trim_start_matches(['"', '\'']);
        let value = value.strip_suffix("\\n").unwrap_or(value).trim_end_matches('.');
        let plain = !value.is_empty() && value.len() <= 200 && value.bytes().all(|b| b.is_ascii_graphic());
        plain.then_some((*name, value))
    })
}

/// `NET/IB : Using [0]mlx5_3:1/IB [1]mlx5_2:1/RoCE`: the ports that NCCL uses, of both link layers.
pub(super) fn mixes_layers(lower: &str) -> bool {
    lower.split_once("net/ib : using").is_some_and(|(_, ports)| {
        let has = |layer: &str| ports.split([' ', ';']).any(|port| port.ends_with(layer));
        has("/ib") && has("/roce")
    })
}
