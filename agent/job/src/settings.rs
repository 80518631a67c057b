//! The variables that communication libraries need for the ports of a job, each with its reason.
//!
//! Sources: NCCL 2.30 (`src/transport/net_ib`, `src/misc/socket.cc`), UCX 1.18 (`ucx_info -c`), NVSHMEM 3, libfabric
//! (`fi_efa(7)`), Gloo. RCCL reads the variables of NCCL.

mod gpudirect;
mod names;
mod pitfalls;

use std::net::{Ipv4Addr, Ipv6Addr};

use rdma_health_node::{Node, access::Access};
use serde::Serialize;

use crate::{
    rails::{Rail, Rails},
    user::User,
};

/// The most ports that NCCL uses (`MAX_IB_DEVS`).
const NCCL_MOST: usize = 32;

/// How the processes of a job communicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// RDMA.
    Rdma,
    /// TCP sockets.
    Tcp,
}

/// The version of NCCL: major and minor. Older versions need other variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NcclVersion(pub u32, pub u32);

impl NcclVersion {
    /// The first one that chooses the GID index for each device itself.
    const CHOOSES_GID: Self = Self(2, 21);
    /// The first one that registers GPU memory as DMA-BUF.
    const HAS_DMA_BUF: Self = Self(2, 13);
    /// The first one that reads the number of the rail in `NCCL_IB_HCA` (from 2.30.7 on; 2.30.3 and 2.30.4 ignore it).
    const READS_RAILS: Self = Self(2, 30);

    /// Parses `2.21.5-1`, the form of `NCCL_VERSION` in NVIDIA's images.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.trim().split(['.', '-', '+']);
        Some(Self(numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }
}

/// One variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// Why it has this value.
    pub reason: String,
    /// The value that the user has set, which is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
}

/// The settings of a job, and remarks on what could not be settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// How the processes communicate with these settings and what the user has set; with NCCL, if the libraries differ.
    pub transport: Transport,
    /// The variables, in a fixed order.
    pub settings: Vec<Setting>,
    /// What a user should know: conflicts with what the user has set, and what no setting can fix.
    pub remarks: Vec<String>,
    /// What is right without a variable, and why.
    pub notes: Vec<String>,
    /// Devices that are rightly not used, each with its reason.
    #[serde(skip)]
    pub unused: Vec<String>,
    /// Why NCCL uses TCP although RDMA would work: what the user has set. Each is among the remarks.
    #[serde(skip)]
    pub overruled: Vec<String>,
}

/// Collects settings without overriding the user's.
struct Draft<'a> {
    user: &'a User,
    settings: Vec<Setting>,
    remarks: Vec<String>,
    notes: Vec<String>,
    overruled: Vec<String>,
}

impl<'a> Draft<'a> {
    fn new(user: &'a User) -> Self {
        Self {
            user,
            settings: Vec::new(),
            remarks: Vec::new(),
            notes: Vec::new(),
            overruled: Vec::new(),
        }
    }

    fn finish(self, transport: Transport) -> Settings {
        Settings {
            transport,
            settings: self.settings,
            remarks: self.remarks,
            notes: self.notes,
            unused: Vec::new(),
            overruled: self.overruled,
        }
    }

    fn set(&mut self, name: &'static str, value: impl Into<String>, reason: impl Into<String>) {
        let (value, reason) = (value.into(), reason.into());
        let differs = self
            .user
            .value(name)
            .is_some_and(|kept| !is_same_list(kept, &value));
        let disagreement = differs.then(|| reason.clone());
        self.set_unless(name, value, reason, disagreement);
    }

    /// Sets a variable; if the user has set it, reports what is wrong with that value.
    fn set_unless(
        &mut self,
        name: &'static str,
        value: String,
        reason: String,
        disagreement: Option<String>,
    ) {
        let kept = self.user.value(name).map(str::to_owned);
        if let Some(why) = disagreement
            && let Some(set) = self.user.as_set(name)
        {
            self.remarks.push(format!(
                "{set} and is kept; rdma-health would set '{value}': {why}"
            ));
        }
        self.settings.push(Setting {
            name,
            value,
            reason,
            kept,
        });
    }

    /// What the user has set makes NCCL use TCP.
    fn overrule(&mut self, text: String) {
        self.overruled.push(text.clone());
        self.remarks.push(text);
    }

    fn remark(&mut self, text: impl Into<String>) {
        self.remarks.push(text.into());
    }

    fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }
}

/// The settings for RDMA over these rails.
pub fn rdma(
    node: &Node,
    rails: &Rails<'_>,
    access: &Access,
    nccl: Option<NcclVersion>,
    user: &User,
) -> Settings {
    let mut draft = Draft::new(user);
    if !rails.rails.is_empty() {
        hcas(&mut draft, rails, nccl);
        gid(&mut draft, rails, nccl);
        let ports: Vec<_> = rails.rails.iter().map(|rail| rail.port.to_string()).collect();
        let all = ports.join(",");
        draft.set(
            "UCX_NET_DEVICES",
            all.clone(),
            "the same ports; UCX needs the port number",
        );
        draft.set(
            "NVSHMEM_HCA_LIST",
            all,
            "the same ports; the processes of a node use them in turn",
        );
        draft.set(
            "NVSHMEM_ENABLE_NIC_PE_MAPPING",
            "1",
            "NVSHMEM ignores NVSHMEM_HCA_LIST without it",
        );
    }
    if !rails.efa.is_empty() {
        let names: Vec<_> = rails.efa.iter().map(|hca| hca.name.as_str()).collect();
        draft.set(
            "FI_PROVIDER",
            "efa",
            format!(
                "EFA devices {}: libfabric carries the traffic, through the NCCL plugin aws-ofi-nccl",
                names.join(", ")
            ),
        );
    }
    if let Some(netdev) = access.default_netdev.known() {
        sockets(
            &mut draft,
            netdev,
            "the interface of the default route, for bootstrap and out-of-band traffic",
        );
    } else {
        draft.remark(
            "no default route was found: NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME are left to the libraries",
        );
    }
    pitfalls::pitfalls(&mut draft, rails, nccl);
    gpudirect::judge(&mut draft, node, rails, nccl);
    let transport = if draft.overruled.is_empty() {
        Transport::Rdma
    } else {
        Transport::Tcp
    };
    draft.finish(transport)
}

/// The settings for TCP; `reason` is why RDMA is not used.
pub fn tcp(node: &Node, access: &Access, reason: &str, user: &User) -> Settings {
    let mut draft = Draft::new(user);
    draft.set("NCCL_IB_DISABLE", "1", reason);
    let is_efa = |driver: &String| driver == "efa";
    if node.hcas().any(|hca| hca.driver.known().is_some_and(is_efa)) {
        draft.set(
            "NCCL_NET",
            "Socket",
            "NCCL's own sockets: the plugin aws-ofi-nccl ignores NCCL_IB_DISABLE",
        );
    }
    if let Some(netdev) = access.default_netdev.known() {
        sockets(
            &mut draft,
            netdev,
            "the interface of the default route carries the traffic",
        );
        draft.set(
            "UCX_NET_DEVICES",
            netdev.clone(),
            "the same interface, so that UCX uses no RDMA device",
        );
    } else {
        draft.set("UCX_TLS", "^ib", "UCX without RDMA transports");
        draft.remark("no default route was found: the libraries choose the interface");
    }
    pitfalls::of_tcp(&mut draft);
    draft.finish(Transport::Tcp)
}

fn hcas(draft: &mut Draft<'_>, rails: &Rails<'_>, nccl: Option<NcclVersion>) {
    let with_rails = nccl.is_some_and(|version| version >= NcclVersion::READS_RAILS);
    let name = |rail: &Rail<'_>| {
        if with_rails {
            format!("{}:{}", rail.port, rail.number)
        } else {
            rail.port.to_string()
        }
    };
    let names: Vec<_> = rails.rails.iter().take(NCCL_MOST).map(name).collect();
    let mut reason = "'=' because NCCL takes a name without it as a prefix".to_owned();
    if with_rails {
        reason.push_str("; device:port:rail");
    }
    let difference = draft
        .user
        .value("NCCL_IB_HCA")
        .and_then(|list| names::difference(list, rails));
    if let Some(names::Difference { nothing: true, .. }) = &difference
        && let Some(set) = draft.user.as_set("NCCL_IB_HCA")
    {
        draft.overruled.push(format!(
            "{set}, which matches no active port that this container can open"
        ));
    }
    let why = difference.map(|difference| difference.text);
    draft.set_unless("NCCL_IB_HCA", format!("={}", names.join(",")), reason, why);
    if rails.rails.len() > NCCL_MOST {
        draft.remark(format!(
            "NCCL uses at most {NCCL_MOST} ports; {} are left out",
            rails.rails.len() - NCCL_MOST
        ));
    }
}

/// Whether two lists have the same items, in any order.
fn is_same_list(one: &str, other: &str) -> bool {
    let items = |list: &str| {
        let mut items: Vec<_> = list.split(',').map(str::to_owned).collect();
        items.sort();
        items
    };
    items(one) == items(other)
}

/// How the libraries find the GID: by address family, version and range, never by an index that differs between devices.
fn gid(draft: &mut Draft<'_>, rails: &Rails<'_>, nccl: Option<NcclVersion>) {
    let chosen: Vec<_> = rails.rails.iter().filter_map(|rail| rail.gid).collect();
    if chosen.is_empty() {
        return;
    }
    let is_old = nccl.is_some_and(|version| version < NcclVersion::CHOOSES_GID);
    if is_old {
        gid_index(draft, rails);
    }
    // The rails agree on one family.
    let ipv4 = chosen.iter().any(|gid| gid.is_ipv4_mapped());
    let family = if ipv4 { "AF_INET" } else { "AF_INET6" };
    let range = range(rails, ipv4);
    if !is_old {
        draft.set(
            "NCCL_IB_ADDR_FAMILY",
            family,
            "the address family of the GIDs; NCCL then finds the index on each port",
        );
        draft.set("NCCL_IB_ROCE_VERSION_NUM", "2", "RoCE v2, which is routable");
        if let Some((range, reason)) = &range {
            draft.set("NCCL_IB_ADDR_RANGE", range.clone(), *reason);
        }
    }
    draft.set(
        "NVSHMEM_IB_ADDR_FAMILY",
        family,
        "NVSHMEM finds the index in the same way",
    );
    if let Some((range, reason)) = range {
        draft.set("NVSHMEM_IB_ADDR_RANGE", range, reason);
    }
}

/// For an NCCL that does not find the GID itself: one index, if it is right for all ports.
fn gid_index(draft: &mut Draft<'_>, rails: &Rails<'_>) {
    let chosen: Vec<_> = rails.rails.iter().filter_map(|rail| rail.gid).collect();
    let Some(first) = chosen.first() else { return };
    if chosen.iter().all(|gid| gid.index == first.index) {
        draft.set(
            "NCCL_IB_GID_INDEX",
            first.index.to_string(),
            "NCCL before 2.21 needs it; this index is right for every port here",
        );
        return;
    }
    let all: Vec<_> = rails
        .rails
        .iter()
        .filter_map(|rail| Some(format!("{} needs {}", rail.port, rail.gid?.index)))
        .collect();
    draft.remark(format!(
        "NCCL before 2.21 uses one GID index for all ports, and no index is right for all: {}. Update NCCL, or use one port",
        all.join(", ")
    ));
}

/// The smallest network with the chosen GIDs of all ports, if some port has other GIDs that it excludes.
fn range(rails: &Rails<'_>, ipv4: bool) -> Option<(String, &'static str)> {
    let address = |gid: &rdma_health_protocol::Gid| gid.gid;
    let chosen: Vec<_> = rails
        .rails
        .iter()
        .filter_map(|rail| rail.gid.map(address))
        .collect();
    let others: Vec<_> = rails
        .rails
        .iter()
        .flat_map(|rail| &rail.gids)
        .filter(|gid| gid.is_ipv4_mapped() == ipv4 && !gid.gid.is_unicast_link_local())
        .map(address)
        .filter(|address| !chosen.contains(address))
        .collect();
    let first = u128::from(*chosen.first()?);
    if others.is_empty() {
        return None;
    }
    let common = chosen
        .iter()
        .map(|address| (u128::from(*address) ^ first).leading_zeros())
        .min()?;
    // Peers on other nodes are in the same subnet: no narrower than a /24 or a /64.
    let common = common.min(if ipv4 { 96 + 24 } else { 64 });
    let network = first & u128::MAX.checked_shl(128 - common).unwrap_or(0);
    let within = |address: &Ipv6Addr| (u128::from(*address) ^ network).leading_zeros() >= common;
    if others.iter().any(within) || (ipv4 && common < 96) {
        return None;
    }
    let network = Ipv6Addr::from(network);
    let text = match (ipv4, network.to_ipv4_mapped()) {
        (true, Some(network)) => format!("{}/{}", network as Ipv4Addr, common - 96),
        _ => format!("{network}/{common}"),
    };
    Some((
        text,
        "the ports have addresses of other networks as well, for example of VLANs, which must not be chosen",
    ))
}

fn sockets(draft: &mut Draft<'_>, netdev: &str, reason: &str) {
    draft.set("NCCL_SOCKET_IFNAME", format!("={netdev}"), reason);
    draft.set("GLOO_SOCKET_IFNAME", netdev, reason);
    draft.set("NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME", netdev, reason);
}
