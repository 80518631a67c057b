//! Findings of the node that have nothing to do with the failure in its log: the log names another device, or what failed is not of RDMA.

use std::{net::Ipv4Addr, sync::Arc};

use rdma_health_node::{Node, infiniband::Hca, words::listed};
use rdma_health_rules::{Domain, Evidence, Finding, FindingCase, Severity};

use crate::{
    log::is_of_socket,
    origin::short,
    symptom::{Symptom, SymptomKind},
    weigh::{Case, place},
};

/// Why the findings of a cause do not explain a symptom of the log; `None` if they may.
pub(super) fn of_other(node: &Node, findings: &[&Finding], symptom: &Symptom) -> Option<Evidence> {
    let line = symptom.line.filter(|line| *line != Symptom::OF_PROCESS)?;
    let mut grave = findings
        .iter()
        .copied()
        .filter(|finding| finding.severity > Severity::Info)
        .peekable();
    grave.peek()?;
    let value = if symptom.kind.is_of_other() || is_of_socket(&symptom.text.to_ascii_lowercase()) {
        (!grave.any(|finding| may_concern(node, finding, symptom))).then(|| not_of_rdma(symptom))
    } else {
        of_device(node, &grave.collect::<Vec<_>>(), symptom)
    }?;
    Some(Evidence {
        source: format!("log line {line}"),
        value,
    })
}

/// Why the findings of a cause that is not known for any symptom of the log have nothing to do with it.
pub(super) fn of_all(case: &Case<'_>, findings: &[&Finding]) -> Option<Evidence> {
    let is_counted = |symptom: &&&Symptom| symptom.line.is_some() && symptom.kind != SymptomKind::JobFailed;
    let mut why = None;
    for symptom in case.symptoms.iter().filter(is_counted) {
        let other = of_other(case.node, findings, symptom)?;
        why.get_or_insert(other);
    }
    why
}

fn not_of_rdma(symptom: &Symptom) -> String {
    match symptom.kind {
        SymptomKind::ComputeError => "what failed is CUDA or ROCm, not RDMA",
        SymptomKind::SharedMemory => "what failed is shared memory, not RDMA",
        _ => "what failed is a connection over TCP, not RDMA",
    }
    .to_owned()
}

/// Whether a finding may be behind an error of something else than RDMA: a fault of a GPU behind one of CUDA, and what a connection over TCP needs.
fn may_concern(node: &Node, finding: &Finding, symptom: &Symptom) -> bool {
    match symptom.kind {
        SymptomKind::SharedMemory => false,
        SymptomKind::ComputeError => matches!(
            finding.case,
            Some(
                FindingCase::GpuFailed
                    | FindingCase::GpuError
                    | FindingCase::GpuLost
                    | FindingCase::NoAddressRange
            )
        ),
        _ => finding.domain == Domain::Network || carries(node, finding, symptom),
    }
}

/// Whether the network device of a finding's port may carry a connection over TCP: it has an address in the network of the peer, or of a peer whose address is not
/// known.
fn carries(node: &Node, finding: &Finding, symptom: &Symptom) -> bool {
    let hcas = subjects(node, finding);
    let mut words = symptom.text.split_whitespace();
    let peer = words.find_map(address);
    let subnets = node.network.subnets.known().map_or(&[][..], Vec::as_slice);
    hcas.iter()
        .flat_map(|hca| hca.ports.values())
        .filter_map(|port| port.netdev.known())
        .any(|netdev| {
            let mut own = subnets.iter().filter(|subnet| subnet.netdev == netdev.name);
            own.any(|subnet| peer.is_none_or(|peer| subnet.contains(peer)))
        })
}

/// The IPv4 address of a peer as NCCL writes it: `10.0.0.4<56849>`.
fn address(word: &str) -> Option<Ipv4Addr> {
    word.split_once('<')?.0.parse().ok()
}

/// Why findings of single devices do not explain a failure on a device that the log names: they are of other adapters.
fn of_device(node: &Node, findings: &[&Finding], symptom: &Symptom) -> Option<String> {
    let own = named(node, symptom);
    let first = own.first()?;
    let mut others: Vec<&str> = Vec::new();
    for finding in findings {
        let subjects = subjects(node, finding);
        if subjects.is_empty() {
            return None;
        }
        for subject in subjects {
            if own
                .iter()
                .any(|hca| is_related(hca, subject) || mentions(finding, &hca.name))
            {
                return None;
            }
            if !others.contains(&subject.name.as_str()) {
                others.push(&subject.name);
            }
        }
    }
    let others = listed(others);
    let device = &first.name;
    Some(if symptom.named.device.is_some() {
        format!("it names {device}, not {others}")
    } else {
        format!("its local GID is of {device}, not of {others}")
    })
}

/// The devices of this node that a symptom of its log is about: the one that it names, and those that have its GIDs.
fn named<'a>(node: &'a Node, symptom: &Symptom) -> Vec<&'a Hca> {
    let own = node.host.hostname.known();
    let is_here = symptom.hosts.is_empty()
        || own.is_some_and(|own| symptom.hosts.iter().any(|host| short(host) == short(own)));
    let is_named = |hca: &&Arc<Hca>| is_here && symptom.named.device.as_ref() == Some(&hca.name);
    let mut named: Vec<&Hca> = node.hcas().filter(is_named).map(AsRef::as_ref).collect();
    if symptom.named.has_other_gids {
        return named;
    }
    for gid in [&symptom.named.local_gid, &symptom.named.remote_gid] {
        let of_gid = gid.as_ref().and_then(|gid| place(node, gid.parse().ok()?));
        named.extend(of_gid.map(|port| port.hca));
    }
    named
}

/// The RDMA devices of the node that a finding is about; none if it is about something else.
fn subjects<'a>(node: &'a Node, finding: &Finding) -> Vec<&'a Hca> {
    let Some(subject) = finding.subject.device.as_ref() else {
        return Vec::new();
    };
    let is_subject = |hca: &&Arc<Hca>| {
        hca.name == *subject
            || hca.pci_address.known() == Some(subject)
            || hca
                .ports
                .values()
                .any(|port| port.netdev.known().is_some_and(|netdev| netdev.name == *subject))
    };
    node.hcas().filter(is_subject).map(AsRef::as_ref).collect()
}

/// Whether two devices are of one adapter, so that a fault of one may be behind that of the other.
fn is_related(one: &Hca, other: &Hca) -> bool {
    if [one, other].iter().any(|hca| hca.pci_address.known().is_none()) {
        // A bond or a software device may work over any.
        return true;
    }
    let slot = |address: &str| address.rsplit_once('.').map(|(slot, _)| slot.to_owned());
    one.name == other.name || slot(one.adapter()) == slot(other.adapter())
}

/// Whether a finding names a device, too.
fn mentions(finding: &Finding, device: &str) -> bool {
    let has = |text: &str| {
        text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .any(|word| word == device)
    };
    has(&finding.message) || finding.evidence.iter().any(|piece| has(&piece.value))
}
