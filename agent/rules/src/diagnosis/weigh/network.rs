//! Ports, GIDs and the network behind them.

use rdma_health_node::infiniband::CLASS;
use rdma_health_protocol::{Gid, GidType};

use super::{Case, Scales, only_probed, probes_passed};
use crate::diagnosis::symptom::SymptomKind;

pub(in crate::diagnosis) fn port_down(case: &Case<'_>, scales: &mut Scales) {
    let ports: Vec<_> = case
        .devices()
        .into_iter()
        .flat_map(|hca| hca.ports.iter().map(move |(number, port)| (hca, number, port)))
        .collect();
    for (hca, number, port) in ports.iter().filter(|(.., port)| port.is_active().is_none()) {
        let why = port
            .state
            .unread()
            .map_or_else(String::new, |unread| format!(": {unread}"));
        scales.unseen(format!("the state of {}:{number}{why}", hca.name));
    }
    if scales.supported() || !scales.unseen.is_empty() {
        return;
    }
    // A port that is down and in use would be a finding: the others were never up.
    let active: Vec<_> = ports
        .iter()
        .filter(|(.., port)| port.is_active() == Some(true))
        .collect();
    if let [(hca, number, _), others @ ..] = active.as_slice() {
        let more = if others.is_empty() {
            String::new()
        } else {
            format!(", as are {} more", others.len())
        };
        scales.against(
            format!("{CLASS}/{}/ports/{number}/state", hca.name),
            format!("4: ACTIVE{more}"),
        );
    }
}

/// Ports of this link layer among the devices that matter; `None` where one is unread.
fn layers(case: &Case<'_>, layer: &str) -> Option<usize> {
    let mut count = 0;
    for port in case.devices().into_iter().flat_map(|hca| hca.ports.values()) {
        count += usize::from(port.link_layer.known()? == layer);
    }
    Some(count)
}

fn only(case: &Case<'_>, scales: &mut Scales, layer: &str) {
    match layers(case, layer) {
        Some(0) if case.node.hcas().next().is_some() => scales.against(
            format!("{CLASS}/*/ports/*/link_layer"),
            format!("no {layer} port"),
        ),
        Some(_) => {}
        None => scales.unseen("the link layer of every port"),
    }
}

pub(in crate::diagnosis) fn infiniband_only(case: &Case<'_>, scales: &mut Scales) {
    only(case, scales, "InfiniBand");
    if !scales.supported() && scales.contradicts.is_empty() {
        port_down(case, scales);
    }
}

pub(in crate::diagnosis) fn ethernet_only(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = only_probed(case) {
        return scales.against(
            &symptom.source,
            "a loopback meets no switch that could drop packets",
        );
    }
    only(case, scales, "Ethernet");
    if scales.contradicts.is_empty() && !scales.supported() {
        scales.unseen("priorities, PFC and ECN of the switches");
    }
}

/// Whether a GID is the one that NCCL and perftest want on RoCE.
fn usable(gid: &Gid) -> bool {
    gid.kind == GidType::RoceV2 && gid.is_ipv4_mapped()
}

/// The GID tables of the active RoCE ports among the devices that matter, as libibverbs or the kernel tells them: device,
/// port, entries in use. Empty where neither did.
fn tables<'a>(case: &Case<'a>) -> Vec<(&'a str, u8, &'a [Gid])> {
    let mut tables = Vec::new();
    for hca in case.devices() {
        let asked = case.node.verbs_device(&hca.name);
        for (number, port) in &hca.ports {
            let ethernet = port.link_layer.known().is_some_and(|layer| layer == "Ethernet");
            if !ethernet || port.is_active() == Some(false) {
                continue;
            }
            let told = asked.and_then(|device| device.ports.iter().find(|port| port.number == *number));
            let gids = told.map(|port| &port.gids).or(port.gids.known());
            tables.extend(gids.map(|gids| (hca.name.as_str(), *number, gids.as_slice())));
        }
    }
    tables
}

/// The GID that a symptom shows is none: NCCL writes an empty entry as `::`.
fn is_zero(gid: &str) -> bool {
    gid.parse::<std::net::Ipv6Addr>()
        .is_ok_and(|gid| gid.is_unspecified())
}

pub(in crate::diagnosis) fn gid_missing(case: &Case<'_>, scales: &mut Scales) {
    let empty = case
        .symptoms
        .iter()
        .find(|symptom| symptom.named.local_gid.as_deref().is_some_and(is_zero));
    if let Some(symptom) = empty {
        scales.shows(&symptom.source, "the local GID is ::, an empty entry");
    }
    if layers(case, "Ethernet") == Some(0) && case.node.hcas().next().is_some() {
        return scales.against(
            format!("{CLASS}/*/ports/*/link_layer"),
            "no RoCE port: InfiniBand has its GIDs from the start",
        );
    }
    let tables = tables(case);
    if tables.is_empty() {
        return match case.node.verbs.unread() {
            Some(unread) => scales.unseen(format!("the GID tables: {unread}")),
            None => scales.unseen("the GID tables: nobody asked libibverbs"),
        };
    }
    let without: Vec<_> = tables
        .iter()
        .filter(|(.., gids)| !gids.iter().any(usable))
        .collect();
    match without.as_slice() {
        [] if empty.is_none() => scales.against(
            "GID tables",
            format!("a RoCE v2 IPv4 GID on each of {} RoCE ports", tables.len()),
        ),
        [(device, port, _), ..] if !scales.supported() => {
            scales.shows(format!("GID table of {device}:{port}"), "no RoCE v2 IPv4 GID");
        }
        _ => {}
    }
}

pub(in crate::diagnosis) fn gid_index(case: &Case<'_>, scales: &mut Scales) {
    let shown = case
        .symptoms
        .iter()
        .find_map(|symptom| Some((symptom.source.clone(), symptom.named.gid_index?)));
    let set = || {
        let index = case.log?.settings.get("NCCL_IB_GID_INDEX")?.parse().ok()?;
        Some(("NCCL_IB_GID_INDEX in the log".to_owned(), index))
    };
    if layers(case, "Ethernet") == Some(0) && case.node.hcas().next().is_some() {
        return scales.against(
            format!("{CLASS}/*/ports/*/link_layer"),
            "no RoCE port: the index does not matter",
        );
    }
    let Some((source, index)) = shown.or_else(set) else {
        return scales.unseen("which GID index the job used (NCCL_IB_GID_INDEX)");
    };
    let tables = tables(case);
    if tables.is_empty() {
        return scales.unseen(format!(
            "what stands at GID index {index}: nobody asked libibverbs"
        ));
    }
    let at = |gids: &[Gid]| {
        gids.iter()
            .find(|gid| gid.index == index)
            .map(|gid| (usable(gid), gid.kind, gid.gid))
    };
    let wrong = tables
        .iter()
        .find(|(.., gids)| !at(gids).is_some_and(|(usable, ..)| usable));
    match wrong {
        Some((device, port, gids)) => {
            let what = at(gids).map_or_else(
                || "nothing".to_owned(),
                |(_, kind, gid)| format!("{gid} ({})", kind.name()),
            );
            scales.shows(
                source,
                format!("GID index {index}, where {device}:{port} has {what}"),
            );
        }
        None => scales.against(
            "GID tables",
            format!("a RoCE v2 IPv4 GID at index {index} of each RoCE port"),
        ),
    }
}

pub(in crate::diagnosis) fn fabric(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = case.symptoms.iter().find(|symptom| symptom.line.is_none()) {
        return scales.against(&symptom.source, "a loopback does not leave the node");
    }
    if probes_passed(case) {
        scales.fits("probe", "loopback writes on this node pass");
    } else {
        scales.unseen("whether this node works by itself: rdma-health check --probe");
    }
    let peers: Vec<_> = case
        .symptoms
        .iter()
        .filter_map(|symptom| symptom.named.peer.as_deref())
        .take(3)
        .collect();
    if peers.is_empty() {
        scales.unseen("the other node and the network between");
    } else {
        scales.unseen(format!(
            "the other node ({}) and the network between",
            peers.join(", ")
        ));
    }
}

pub(in crate::diagnosis) fn link_quality(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = only_probed(case).filter(|_| !scales.supported()) {
        return scales.against(
            &symptom.source,
            "a loopback does not leave the adapter, and its port has its rate",
        );
    }
    if case.node.hcas().next().is_some() && !scales.supported() {
        scales.unseen("how error counters change over time: one reading shows their sum only");
    }
}

pub(in crate::diagnosis) fn addressing(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = case
        .symptoms
        .iter()
        .find(|s| s.kind == SymptomKind::ConnectUnreachable)
    {
        scales.fits(&symptom.source, &symptom.text);
    }
    only(case, scales, "Ethernet");
    if scales.contradicts.is_empty() {
        scales.unseen("routes and rules for the peer's address: ip route get");
    }
}

pub(in crate::diagnosis) fn mtu(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = only_probed(case).filter(|_| !scales.supported()) {
        return scales.against(
            &symptom.source,
            "both ends of a loopback have one MTU, and it is not low",
        );
    }
    scales.unseen("the MTU of the peer and of the switches");
}
