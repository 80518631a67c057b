//! Faults of one link layer: those that only InfiniBand or only Ethernet has.

use rdma_health_node::infiniband::{CLASS, LinkLayer};

use super::{
    Case, Scales, fabric as tools, only_probed,
    port::{active_now, port_down, refuted},
};
use crate::symptom::{Symptom, SymptomKind};

/// The number of ports with this link layer on the devices to consider; `None` if one could not be read.
pub(super) fn layers(case: &Case<'_>, layer: &LinkLayer) -> Option<usize> {
    let mut count = 0;
    for port in case.ports() {
        count += usize::from(port.link_layer.known()? == layer);
    }
    Some(count)
}

pub(super) fn only(case: &Case<'_>, scales: &mut Scales, layer: &LinkLayer) {
    match layers(case, layer) {
        Some(0) if case.node.hcas().next().is_some() => scales.against(
            format!("{CLASS}/*/ports/*/link_layer"),
            format!("no {} port", layer.name()),
        ),
        Some(_) => {}
        None => scales.unseen("link layer of every port"),
    }
}

/// Whether the log, or else the node, shows ports of InfiniBand and none of Ethernet.
pub(super) fn is_infiniband(case: &Case<'_>) -> bool {
    case.logs_infiniband()
        || layers(case, &LinkLayer::Ethernet) == Some(0)
            && case.node.hcas().next().is_some()
            && !case.logs_ethernet()
}

/// Why neither a subnet manager nor a partition matters.
const ETHERNET: &str = "the ports that it names are Ethernet";

/// Takes what only an InfiniBand port reports for the cause, whatever the ports of this node are: the log may be another node's.
fn reports_infiniband(case: &Case<'_>, scales: &mut Scales) -> bool {
    const OF_INFINIBAND: [SymptomKind; 5] = [
        SymptomKind::JoinRefused,
        SymptomKind::NoSubnetManager,
        SymptomKind::PortInitializing,
        SymptomKind::ManagerNotStarted,
        SymptomKind::PkeyMissing,
    ];
    let found = case.seen(&OF_INFINIBAND).next();
    if let Some(symptom) = found {
        scales.fits(&symptom.source, &symptom.text);
        scales.next_step = tools::step(symptom).map(Into::into);
    }
    found.is_some()
}

pub(crate) fn infiniband_only(case: &Case<'_>, scales: &mut Scales) {
    if let Some(zero) = case.log.and_then(|log| log.zero_guid.as_ref()) {
        return scales.doubts(
            format!("log line {}", zero.line),
            "no subnet manager configures a port with a GUID of zero",
        );
    }
    if let Some((symptom, port)) = refuted(case) {
        return scales.against(port.file("state"), active_now(symptom));
    }
    if reports_infiniband(case, scales) {
        return;
    }
    if case.logs_ethernet() {
        return scales.against("log", ETHERNET);
    }
    only(case, scales, &LinkLayer::InfiniBand);
    if !scales.supported() && scales.contradicts.is_empty() {
        port_down(case, scales);
    }
}

/// The partition of an InfiniBand port. A port without a key that it needs would be a finding.
pub(crate) fn infiniband_member(case: &Case<'_>, scales: &mut Scales) {
    // The index is an attribute of this transition on RoCE, too.
    let settings = case.log.map(|log| &log.settings);
    let set = ["NCCL_IB_PKEY", "UCX_IB_PKEY"]
        .iter()
        .find_map(|name| Some((name, settings?.get(*name)?)));
    if case.seen(&[SymptomKind::InitRefused]).next().is_some()
        && let Some((name, value)) = set
    {
        scales.next_step = Some(format!(
            "Unset {name}, which is {value} in the log, or set it to an index that exists on the port: grep -v 0x0000 \
            /sys/class/infiniband/DEVICE/ports/1/pkeys/*. RoCE ports have only index 0."
        ));
        return scales.shows(
            format!("{name} in the log"),
            format!("{value}; moving a queue pair to INIT checks it"),
        );
    }
    if reports_infiniband(case, scales) {
        return;
    }
    if case.logs_ethernet() {
        return scales.against("log", ETHERNET);
    }
    if let Some(symptom) = raw_not_started(case) {
        return scales.against(&symptom.source, "a raw packet queue pair has no partition key");
    }
    only(case, scales, &LinkLayer::InfiniBand);
}

pub(crate) fn ethernet_only(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = only_probed(case) {
        return scales.against(
            &symptom.source,
            "loopback traffic does not pass a switch that could drop packets",
        );
    }
    only(case, scales, &LinkLayer::Ethernet);
    if scales.contradicts.is_empty() && !scales.supported() {
        scales.unseen("priorities, PFC and ECN settings of the switches");
    }
}

/// A queue pair for Ethernet frames that could not move to INIT. Its only attribute of that transition is the port.
pub(super) fn raw_not_started<'a>(case: &Case<'a>) -> Option<&'a Symptom> {
    /// Libraries that create no other kind, and the kind's name.
    const RAW: [&str; 5] = ["vma ", "xlio ", "raw packet", "raw_packet", "rawpacket"];
    case.symptoms.iter().copied().find(|symptom| {
        let text = symptom.text.to_ascii_lowercase();
        symptom.kind == SymptomKind::InitRefused && RAW.iter().any(|word| text.contains(word))
    })
}
