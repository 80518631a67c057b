//! Which symptoms concern RDMA on the node that wrote them: facts of the node show that others have no consequence there.

use std::sync::Arc;

use rdma_health_node::{Node, infiniband::Hca, iommu::DomainType, platform::is_accelerated_networking};

use crate::{
    log::{Marks, ethernet_driver, is_without_psm2, with_renamed},
    origin::is_without_adapter,
    symptom::{Grade, Software, Symptom, SymptomKind},
};

/// Makes notes of the symptoms that do not concern RDMA. `writer` is the node that wrote the log: unknown if it is not this one. `is_here`:
/// the log is known to be of this node.
pub(crate) fn lower_others(
    symptoms: &mut [Symptom],
    node: &Node,
    writer: &Node,
    is_here: bool,
    marks: Option<Marks>,
) {
    // libibverbs warns of every provider that it cannot load, also where nothing fails.
    let has_failed = symptoms
        .iter()
        .any(|symptom| symptom.grade > Grade::Note && symptom.kind != SymptomKind::NoProvider);
    let user = if has_failed { writer } else { node };
    let names_adapter = symptoms.iter().any(names_adapter);
    let others = symptoms
        .iter()
        .any(|symptom| symptom.grade > Grade::Note && of_ethernet(symptom).is_none());
    let has_choice = symptoms
        .iter()
        .any(|symptom| symptom.kind == SymptomKind::RdmaDisabled);
    let without_adapter = is_without_adapter(writer);
    // Without an adapter, a setting that disables RDMA changes nothing.
    let is_chosen = has_choice && without_adapter;
    // Without an adapter, a program that goes on over TCP does all that it can.
    let is_mild = without_adapter
        && symptoms
            .iter()
            .all(|symptom| symptom.grade <= Grade::Note || is_without_network(symptom));
    let has_rdma = symptoms.iter().any(|symptom| {
        symptom.grade > Grade::Note && !is_of_bonding(symptom) && of_ethernet(symptom).is_none()
    });
    for symptom in symptoms.iter_mut() {
        // What has no adapter needs no library for one.
        if symptom.kind == SymptomKind::NoLibrary && without_adapter {
            symptom.grade = symptom.grade.min(Grade::Degraded);
        }
    }
    for symptom in symptoms {
        if !names_adapter && is_of_other_bridge(symptom, writer) {
            let least = if may_hide_adapter(symptom, writer, marks) {
                Grade::Unrecognised
            } else {
                Grade::Note
            };
            symptom.grade = symptom.grade.min(least);
        }
        if !has_rdma && is_of_other_bond(symptom, writer, marks)
            || is_optional_provider(symptom, user)
            || is_here && is_of_start(symptom, node)
            || is_of_another_function(symptom, node, writer)
            || is_here && is_passthrough(symptom, node)
            || !others && is_without_rdma(symptom, node, marks)
            || is_of_ethernet_device(symptom)
            || is_mild && is_without_network(symptom)
            || symptom.kind == SymptomKind::SlotPower
                && (writer.has_usual_power(&symptom.text)
                    || marks.is_some_and(|marks| marks.on_board) && !symptom.text.contains("powered down"))
            || is_chosen
                && matches!(
                    symptom.kind,
                    SymptomKind::RdmaDisabled | SymptomKind::SocketFallback
                )
        {
            symptom.grade = Grade::Note;
        }
    }
}

/// A list shows a port that is down, and each port of this node is active: it is of another node, or of another time, so that nothing is known of the one that it is
/// about.
pub(crate) fn raise_refuted(symptoms: &mut [Symptom], writer: &Node) {
    let mut ports = writer.ports().peekable();
    if ports.peek().is_none() || !ports.all(|port| port.is_active() == Some(true)) {
        return;
    }
    for symptom in symptoms.iter_mut().filter(|symptom| is_listed_down(symptom)) {
        symptom.grade = symptom.grade.max(Grade::Unrecognised);
    }
}

/// Whether a list of ports shows one that is down.
pub(crate) fn is_listed_down(symptom: &Symptom) -> bool {
    let text = symptom.text.to_ascii_lowercase();
    let is_state = text.contains("state") && text.contains("down");
    symptom.kind == SymptomKind::PortNotActive && symptom.line.is_some() && is_state
}

/// PSM2 finds no adapter on a node that has one with an active port, because rdma-core gave it another name.
pub(crate) fn find_renamed(symptoms: &mut [Symptom], writer: &Node) {
    let is_renamed = |hca: &&Arc<Hca>| {
        let is_of_psm2 = hca.driver.known().is_some_and(|driver| driver == "hfi1");
        is_of_psm2
            && !hca.name.starts_with("hfi1_")
            && hca.ports.values().any(|port| port.is_active() == Some(true))
    };
    let Some(hca) = writer.hcas().find(is_renamed) else {
        return;
    };
    let is_missed = |symptom: &&mut Symptom| {
        symptom.kind == SymptomKind::NoDevice && symptom.line.is_some() && is_without_psm2(&symptom.text)
    };
    for symptom in symptoms.iter_mut().filter(is_missed) {
        symptom.kind = SymptomKind::BackendFailed;
        symptom.grade = symptom.kind.grade();
        symptom.text = with_renamed(&symptom.text, &hca.name);
    }
}

/// Whether a program found no RDMA and goes on over TCP.
fn is_without_network(symptom: &Symptom) -> bool {
    let goes_on = matches!(
        symptom.kind,
        SymptomKind::NoDevice
            | SymptomKind::NoLibrary
            | SymptomKind::LibraryMismatch
            | SymptomKind::SocketFallback
            | SymptomKind::RdmaDisabled
            | SymptomKind::NoProvider
    );
    symptom.line.is_some() && goes_on && symptom.grade <= Grade::Degraded
}

/// Whether a tool for InfiniBand does not find an adapter of Azure's accelerated networking, which has Ethernet only.
fn is_of_ethernet_device(symptom: &Symptom) -> bool {
    let name = symptom.named.device.as_deref();
    symptom.kind == SymptomKind::NoDevice && name.is_some_and(is_accelerated_networking)
}

/// Whether the IOMMU stopped a function that is neither an RDMA function nor a GPU. If the message names its driver, that is known already.
/// Otherwise it is another function of the node, or a part of the chipset, which is on the first bus.
fn is_of_another_function(symptom: &mut Symptom, node: &Node, writer: &Node) -> bool {
    let Some(function) = &symptom.named.function else {
        return false;
    };
    if symptom.kind != SymptomKind::IommuFault || symptom.known {
        return false;
    }
    let functions = writer.pci.functions.known();
    symptom.known = functions.is_some_and(|functions| functions.contains_key(function));
    let is_here = symptom.hosts.is_empty() && node.pci.has(function) == Some(true)
        || writer.pci.has(function) == Some(true);
    !symptom.known && (is_here || function.starts_with("0000:00:"))
}

/// The driver of Ethernet that reported a trouble of its adapter, and what names the RDMA driver above it.
fn of_ethernet(symptom: &Symptom) -> Option<(&'static str, &'static [&'static str])> {
    let is_trouble = matches!(symptom.kind, SymptomKind::DeviceStalled | SymptomKind::PortError);
    let is_logged = symptom.line.is_some() && symptom.software == Some(Software::Kernel);
    ethernet_driver(&symptom.text).filter(|_| is_trouble && is_logged)
}

/// Whether a line is the message of the bonding driver about a member without a link, which may be any Ethernet adapter.
fn is_of_bonding(symptom: &Symptom) -> bool {
    symptom.kind == SymptomKind::BondMemberDown && symptom.text.contains("definitely down")
}

/// Whether a bond that lost a member has nothing to do with RDMA as far as the log and the node show: neither the bond nor the member is the
/// network device of an RDMA device of the node. mlx5's own messages about its bond name the adapter.
fn is_of_other_bond(symptom: &Symptom, writer: &Node, marks: Option<Marks>) -> bool {
    let is_named = |name: &str| {
        symptom
            .text
            .split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-' | '.'))
            .any(|word| word == name)
    };
    let is_ours = || {
        writer.ports().any(|port| {
            let netdev = port.kernel.netdev.known();
            netdev.is_some_and(|netdev| is_named(&netdev.name) || has_member(writer, &netdev.name, &is_named))
        })
    };
    let names_rdma =
        || marks.is_some_and(|marks| marks.family.is_some() || marks.layers.ethernet || marks.above.is_any());
    is_of_bonding(symptom) && !names_rdma() && !is_ours()
}

/// Whether one of the members of a bond has such a name.
fn has_member(node: &Node, bond: &str, is_named: &impl Fn(&str) -> bool) -> bool {
    let netdev = node.network.netdevs.get(bond);
    let members = netdev.and_then(|netdev| netdev.bond.known());
    members.is_some_and(|bond| bond.iter().any(|member| is_named(&member.name)))
}

/// Whether a trouble is one of an adapter that is used for Ethernet only: neither the log nor the node shows RDMA above its driver.
fn is_without_rdma(symptom: &Symptom, node: &Node, marks: Option<Marks>) -> bool {
    let Some((driver, names)) = of_ethernet(symptom) else {
        return false;
    };
    let is_used = node.hcas().any(|hca| {
        let its = hca.driver.known().is_some_and(|its| its == driver);
        its || names.iter().any(|name| hca.name.starts_with(name))
    });
    !is_used && !marks.is_some_and(|marks| marks.above.has(names))
}

/// Whether a line names an adapter or a GPU, and not only a port of PCIe.
fn names_adapter(symptom: &Symptom) -> bool {
    symptom.named.device.is_some()
        || symptom.line.is_some() && symptom.kind != SymptomKind::PciFault
        || !is_of_port(symptom)
}

/// Whether a line is one of the PCI core about a port of PCIe: `pcieport 0000:00:00.0: AER: device recovery failed`.
fn is_of_port(symptom: &Symptom) -> bool {
    symptom.kind == SymptomKind::PciFault && symptom.text.contains("pcieport ")
}

/// Whether a fault of a port of PCIe says nothing about RDMA: it is not known to be above an adapter or a GPU.
fn is_of_other_bridge(symptom: &Symptom, writer: &Node) -> bool {
    let Some(function) = symptom.named.function.as_ref().filter(|_| is_of_port(symptom)) else {
        return false;
    };
    // Ports above an adapter or a GPU are among them.
    let is_of_ours = writer.functions().iter().any(|known| known.address == *function);
    let is_itself = symptom.text.contains(&format!("pcieport {function}"));
    !is_of_ours && (is_itself || writer.pci.has(function) == Some(true))
}

/// Whether a port of PCIe cut off what is below it, and the facts do not show what that is.
fn may_hide_adapter(symptom: &Symptom, writer: &Node, marks: Option<Marks>) -> bool {
    const CUT_OFF: [&str; 6] = [
        "containment",
        "(fatal)",
        "err_fatal",
        "uncorrectable error detected",
        "rp_pio",
        "rp pio",
    ];
    // Disks are often taken out.
    const SLOT: [&str; 2] = ["link down", "card not present"];
    let lower = symptom.text.to_ascii_lowercase();
    let has = |of: &[&str]| of.iter().any(|words| lower.contains(words));
    let is_empty = || has(&SLOT) && marks.is_some_and(|marks| marks.shows_adapter);
    let is_cut_off = has(&CUT_OFF) || is_empty();
    let function = symptom.named.function.as_deref();
    is_cut_off && function.is_none_or(|function| writer.pci.has(function) != Some(true))
}

/// Whether a link went down while the node started, and all ports are active now.
fn is_of_start(symptom: &Symptom, node: &Node) -> bool {
    /// When a link that goes down belongs to the start of the node, in seconds after boot.
    const START: f64 = 600.0;
    let seconds = || {
        let (_, rest) = symptom.text.split_once('[')?;
        rest.split_once(']')?.0.trim().parse::<f64>().ok()
    };
    let mut ports = node.hcas().flat_map(|hca| hca.ports.values()).peekable();
    let function = symptom.named.function.as_deref();
    symptom.kind == SymptomKind::PortError
        && function.is_some_and(|function| node.pci.has(function) == Some(true))
        && symptom.count == 1
        && symptom.software == Some(Software::Kernel)
        && seconds().is_some_and(|seconds| seconds < START)
        && ports.peek().is_some()
        && ports.all(|port| port.is_active() == Some(true))
}

/// Whether a library warns of a command line without `iommu=pt` on a node whose IOMMU translates for no adapter and no GPU.
fn is_passthrough(symptom: &Symptom, node: &Node) -> bool {
    symptom.kind == SymptomKind::PassthroughMissing
        && node.iommu.groups.unread().is_none()
        && !node
            .dma_functions()
            .any(|function| function.dma.is_some_and(DomainType::is_translated))
}

/// Whether libibverbs misses the provider of an adapter that the node does not have. It looks for every provider that is configured.
fn is_optional_provider(symptom: &Symptom, node: &Node) -> bool {
    let Some((_, library)) = symptom
        .text
        .split_once("load driver '")
        .filter(|_| symptom.kind == SymptomKind::NoProvider)
    else {
        return false;
    };
    // `'libmlx5-rdmav34.so'`, in older releases `'mlx5'`.
    let name = library.split(['-', '\'']).next().unwrap_or_default();
    let provider = name.strip_prefix("lib").unwrap_or(name);
    // The driver's name begins with the provider's: mlx5_core, bnxt_re, irdma. hfi1 has the provider hfi1verbs.
    let is_of = |driver: &str| driver.starts_with(provider.trim_end_matches("verbs"));
    let mut drivers = node
        .functions()
        .into_iter()
        .filter_map(|function| function.driver)
        .peekable();
    let is_read = drivers.peek().is_some() || node.hcas.unread().is_none();
    is_read && !drivers.any(is_of) && !node.hcas().any(|hca| is_of(&hca.name))
}
