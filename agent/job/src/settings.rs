//! The variables that communication libraries need for the ports of a job, each with its reason.
//!
//! Sources: NCCL 2.30 (`src/transport/net_ib`, `src/misc/socket.cc`), UCX 1.18 (`ucx_info -c`), NVSHMEM 3, libfabric
//! (`fi_efa(7)`), Gloo. RCCL reads the variables of NCCL.

mod efa;
mod gid;
mod gpudirect;
mod names;
mod number;
mod nvshmem;
mod pitfalls;
mod sockets;
mod ucx;

use std::collections::BTreeMap;

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
    /// Why NCCL does not start, or does not connect through RDMA, with what the user has set or with this version. Each is among the remarks.
    #[serde(skip)]
    pub stopped: Vec<String>,
}

/// Collects settings without overriding the user's.
struct Draft<'a> {
    user: &'a User,
    settings: Vec<Setting>,
    remarks: Vec<String>,
    notes: Vec<String>,
    overruled: Vec<String>,
    stopped: Vec<String>,
}

impl<'a> Draft<'a> {
    fn new(user: &'a User) -> Self {
        Self {
            user,
            settings: Vec::new(),
            remarks: Vec::new(),
            notes: Vec::new(),
            overruled: Vec::new(),
            stopped: Vec::new(),
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
            stopped: self.stopped,
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

    /// NCCL does not start or does not connect.
    fn stop(&mut self, text: String) {
        self.stopped.push(text.clone());
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
        gid::gid(&mut draft, rails, nccl);
        let (chosen, reason) = of_others(&draft, rails);
        let ports: Vec<_> = chosen.iter().map(|rail| rail.port.to_string()).collect();
        let all = ports.join(",");
        ucx::set(&mut draft, rails, access, all.clone(), reason);
        nvshmem::set(&mut draft, &chosen, all, reason);
    }
    efa::set(&mut draft, rails);
    sockets::set(
        &mut draft,
        access,
        "the interface of the default route, for bootstrap and out-of-band traffic",
    );
    if access.default_netdev.known().is_none() {
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
    let not_disabled = user
        .value("NCCL_IB_DISABLE")
        .is_some_and(|value| number::number(value).is_ok_and(|value| value == 0) || value.is_empty());
    let wrong = not_disabled.then(|| {
        format!(
            "with this value NCCL uses RDMA wherever it finds a port; {}",
            remedy(&draft, "NCCL_IB_DISABLE")
        )
    });
    draft.set_unless("NCCL_IB_DISABLE", "1".into(), reason.to_owned(), wrong);
    let is_efa = |driver: &String| driver == "efa";
    if node.hcas().any(|hca| hca.driver.known().is_some_and(is_efa)) {
        draft.set(
            "NCCL_NET",
            "Socket",
            "NCCL's own sockets: the plugin aws-ofi-nccl ignores NCCL_IB_DISABLE",
        );
    }
    sockets::set(
        &mut draft,
        access,
        "the interface of the default route carries the traffic",
    );
    if let Some(netdev) = access.default_netdev.known() {
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
    // Only sockets keep NCCL from the ports that it is not kept from by the switch.
    let by_sockets = user
        .value("NCCL_NET")
        .is_some_and(|value| value.eq_ignore_ascii_case("socket"));
    let finds_port = node.active_ports().any(|port| !port.is_iwarp());
    let uses_rdma =
        not_disabled && !by_sockets && finds_port && draft.settings.iter().all(|one| one.name != "NCCL_NET");
    draft.finish(if uses_rdma {
        Transport::Rdma
    } else {
        Transport::Tcp
    })
}

fn hcas(draft: &mut Draft<'_>, rails: &Rails<'_>, nccl: Option<NcclVersion>) {
    let with_rails = nccl.is_some_and(|version| version >= NcclVersion::READS_RAILS);
    let number = |rail: &Rail<'_>| rail.number.filter(|_| with_rails);
    let name = |rail: &Rail<'_>| match number(rail) {
        Some(number) => format!("{}:{number}", rail.port),
        None => rail.port.to_string(),
    };
    let names: Vec<_> = of_every_adapter(&rails.rails).into_iter().map(name).collect();
    let mut reason = "'=' because NCCL takes a name without it as a prefix".to_owned();
    if with_rails {
        reason.push_str("; device:port:rail");
    }
    let value = format!("={}", names.join(","));
    let difference = draft
        .user
        .value("NCCL_IB_HCA")
        .and_then(|list| names::difference(list, rails));
    let remedy = remedy(draft, "NCCL_IB_HCA");
    if let Some(names::Difference { nothing: true, .. }) = &difference
        && let Some(set) = draft.user.as_set("NCCL_IB_HCA")
    {
        draft.overruled.push(format!(
            "{set}, which matches no active port that this container can open: {remedy}, or set it to '{value}'"
        ));
    }
    let why = difference.map(|difference| {
        if difference.nothing {
            format!("{}; {remedy}", difference.text)
        } else {
            difference.text
        }
    });
    draft.set_unless("NCCL_IB_HCA", value, reason, why);
    let unsure: Vec<_> = rails.rails.iter().filter(|rail| rail.number.is_none()).collect();
    if with_rails && !unsure.is_empty() {
        let ports: Vec<_> = unsure.iter().map(|rail| rail.port.to_string()).collect();
        draft.remark(format!(
            "the rail of {} is not known and is left out: an adapter is missing below the same root port of the node, so equal nodes may number \
             the others differently. Run rdma-health check on the node",
            ports.join(", ")
        ));
    }
    if rails.rails.len() > NCCL_MOST {
        let used = of_every_adapter(&rails.rails);
        let is_used = |rail: &Rail<'_>| used.iter().any(|one| std::ptr::eq(*one, rail));
        let out: Vec<_> = rails.rails.iter().filter(|rail| !is_used(rail)).collect();
        let names: Vec<_> = out.iter().map(|rail| rail.port.to_string()).collect();
        draft.remark(format!(
            "NCCL uses at most {NCCL_MOST} ports; {} are left out, evenly over the adapters: {}",
            names.len(),
            names.join(", ")
        ));
    }
}

/// The ports for the libraries other than NCCL, with the reason: those that the user chose for NCCL, if some of them are of the job.
fn of_others<'r, 'a>(draft: &Draft<'_>, rails: &'r Rails<'a>) -> (Vec<&'r Rail<'a>>, &'static str) {
    let all: Vec<_> = rails.rails.iter().collect();
    let Some(value) = draft.user.value("NCCL_IB_HCA") else {
        let reason = if all.len() > NCCL_MOST {
            "all ports of the job"
        } else {
            "the same ports"
        };
        return (all, reason);
    };
    let chosen = names::chosen(value, rails);
    if chosen.is_empty() || chosen.len() == all.len() {
        return (all, "all ports of the job");
    }
    (chosen, "the ports that NCCL_IB_HCA names")
}

/// As many ports as NCCL uses, in their order: the first of each adapter, then the second of each, and so on. So no adapter is left out for
/// the virtual functions of another.
fn of_every_adapter<'r, 'a>(rails: &'r [Rail<'a>]) -> Vec<&'r Rail<'a>> {
    let mut taken: BTreeMap<&str, usize> = BTreeMap::new();
    let mut ranked: Vec<_> = rails
        .iter()
        .enumerate()
        .map(|(place, rail)| {
            let before = taken.entry(rail.port.hca.adapter()).or_default();
            *before += 1;
            (*before, place, rail)
        })
        .collect();
    ranked.sort_by_key(|(rank, place, _)| (*rank, *place));
    ranked.truncate(NCCL_MOST);
    ranked.sort_by_key(|(_, place, _)| *place);
    ranked.into_iter().map(|(.., rail)| rail).collect()
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

/// How to get rid of a setting.
fn remedy(draft: &Draft<'_>, name: &str) -> String {
    match draft.user.get(name) {
        Some((_, Some(file))) => format!("remove it from {file}"),
        _ => "unset it".to_owned(),
    }
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "settings/choices_tests.rs"]
mod choices;
