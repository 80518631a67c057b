//! Ports, GIDs and the network between nodes.

use rdma_health_node::{
    DeviceEvent, Port,
    infiniband::{CLASS, LinkLayer},
    kmsg::EventKind,
    words::count_of,
};
use rdma_health_protocol::{Errno, Gid, WcStatus};

use super::{Case, Scales, fabric as tools, only_probed, probes_passed, view};
use crate::symptom::{GENERAL_GID_STEP, Software, SymptomKind};

pub(crate) fn port_down(case: &Case<'_>, scales: &mut Scales) {
    // The port may be up again: what the log reports is not contradicted by the present state.
    const DOWN: [SymptomKind; 2] = [SymptomKind::PortError, SymptomKind::PortNotActive];
    if let Some(symptom) = case.seen(&DOWN).next() {
        return scales.fits(&symptom.source, &symptom.text);
    }
    let ports = case.ports();
    for port in ports.iter().filter(|port| port.is_active().is_none()) {
        let why = port
            .state
            .unread()
            .map_or_else(String::new, |unread| format!(": {unread}"));
        scales.unseen(format!("state of {port}{why}"));
    }
    if ports.iter().any(|port| !port.reports_link_state()) {
        scales.unseen("link state: the driver efa always reports ACTIVE");
    }
    // The port may have come up again since.
    if let Some(symptom) = case.seen(&[SymptomKind::PortError]).next() {
        scales.fits(&symptom.source, &symptom.text);
    }
    for link in link_losses(case) {
        scales.fits("/dev/kmsg", losses_in_words(&link));
    }
    if scales.supported() || !scales.unseen.is_empty() {
        return;
    }
    // A port that is down and in use would be a finding. Other ports that are down were never up.
    let active: Vec<_> = ports
        .iter()
        .filter(|port| port.is_active() == Some(true))
        .collect();
    if let [port, others @ ..] = active.as_slice() {
        let more = if others.is_empty() {
            String::new()
        } else {
            format!(", the same for {} more", others.len())
        };
        scales.against(port.file("state"), format!("4: ACTIVE{more}"));
    }
}

/// When a link that goes down belongs to the start of the node, in seconds after boot.
const START: u64 = 600;
/// From how many losses on a link counts as unstable.
const MANY_LOSSES: u64 = 3;

/// The links of the devices to consider that went down while the node ran, in the kernel log.
fn link_losses<'a>(case: &Case<'a>) -> Vec<DeviceEvent<'a>> {
    let mut losses = case.events(&[EventKind::LinkDown]);
    losses.retain(|link| link.event.last.is_none_or(|last| last >= START));
    losses
}

fn losses_in_words(link: &DeviceEvent<'_>) -> String {
    format!(
        "{}, {} in all",
        link.event.message,
        count_of(link.event.count, "such message")
    )
}

/// The number of ports with this link layer on the devices to consider; `None` if one could not be read.
fn layers(case: &Case<'_>, layer: &LinkLayer) -> Option<usize> {
    let mut count = 0;
    for port in case.ports() {
        count += usize::from(port.link_layer.known()? == layer);
    }
    Some(count)
}

fn only(case: &Case<'_>, scales: &mut Scales, layer: &LinkLayer) {
    match layers(case, layer) {
        Some(0) if case.node.hcas().next().is_some() => scales.against(
            format!("{CLASS}/*/ports/*/link_layer"),
            format!("no {} port", layer.name()),
        ),
        Some(_) => {}
        None => scales.unseen("link layer of every port"),
    }
}

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
    if reports_infiniband(case, scales) {
        return;
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

/// The active RoCE ports of the devices to consider, with the GID table entries in use. Empty if no table could be read.
fn tables<'a>(case: &Case<'a>) -> Vec<(Port<'a>, &'a [Gid])> {
    let roce = |port: &Port<'_>| port.is_ethernet() && port.is_active() != Some(false);
    let ports = case.ports().into_iter().filter(roce);
    ports.filter_map(|port| Some((port, port.gids()?))).collect()
}

/// Whether the log names no device and the job may use InfiniBand, so that nothing about the RoCE ports concerns it for certain.
fn may_use_infiniband(case: &Case<'_>) -> bool {
    let infiniband = |port: &Port<'_>| {
        port.link_layer.known() == Some(&LinkLayer::InfiniBand) && port.is_active() == Some(true)
    };
    case.named().is_empty() && case.ports().iter().any(infiniband)
}

/// Whether the GID in a log line is an empty entry, which NCCL prints as `::`.
fn is_zero(gid: &str) -> bool {
    gid.parse::<std::net::Ipv6Addr>()
        .is_ok_and(|gid| gid.is_unspecified())
}

pub(crate) fn gid_missing(case: &Case<'_>, scales: &mut Scales) {
    let empty = case
        .symptoms
        .iter()
        .find(|symptom| symptom.named.local_gid.as_deref().is_some_and(is_zero));
    if let Some(symptom) = empty {
        scales.shows(&symptom.source, "the local GID is ::, an empty entry");
    }
    if layers(case, &LinkLayer::Ethernet) == Some(0) && case.node.hcas().next().is_some() {
        return scales.against(
            format!("{CLASS}/*/ports/*/link_layer"),
            "no RoCE port; an InfiniBand port always has a GID",
        );
    }
    let tables = tables(case);
    if tables.is_empty() {
        return match case.node.verbs.unread() {
            Some(unread) => scales.unseen(format!("GID tables: {unread}")),
            None => scales.unseen("GID tables: libibverbs was not queried"),
        };
    }
    if may_use_infiniband(case) {
        return scales.doubts(
            format!("{CLASS}/*/ports/*/link_layer"),
            "active InfiniBand ports, which the job may use instead of the RoCE port",
        );
    }
    let without: Vec<_> = tables
        .iter()
        .filter(|(_, gids)| !gids.iter().any(Gid::is_routable))
        .collect();
    match without.as_slice() {
        [] if empty.is_none() => scales.against(
            "GID tables",
            format!("all {} RoCE ports have a RoCE v2 IPv4 GID", tables.len()),
        ),
        [(port, _), ..] if !scales.supported() => {
            scales.shows(format!("GID table of {port}"), "no RoCE v2 IPv4 GID");
        }
        _ => {}
    }
}

/// The next step about the GID in the words of the software that failed, if it is not NCCL.
fn gid_step(case: &Case<'_>) -> Option<String> {
    let failed = case.symptoms.iter().find(|symptom| symptom.line.is_some())?;
    let step = match failed.software {
        Some(software) => software.gid_step()?,
        None => GENERAL_GID_STEP,
    };
    Some(step.to_owned())
}

pub(crate) fn gid_index(case: &Case<'_>, scales: &mut Scales) {
    scales.insisted_step = gid_step(case);
    let shown = case
        .symptoms
        .iter()
        .find_map(|symptom| Some((symptom.source.clone(), symptom.named.gid_index?)));
    let set = || {
        const SETTINGS: [&str; 4] = [
            "NCCL_IB_GID_INDEX",
            "UCX_IB_GID_INDEX",
            "NVSHMEM_IB_GID_INDEX",
            "MC_GID_INDEX",
        ];
        let log = case.log?;
        let setting = SETTINGS.iter().find_map(|name| {
            Some((
                format!("{name} in the log"),
                log.settings.get(*name)?.parse().ok()?,
            ))
        });
        setting.or_else(|| {
            log.gid_index
                .map(|(line, index)| (format!("log line {line}"), index))
        })
    };
    if layers(case, &LinkLayer::Ethernet) == Some(0) && case.node.hcas().next().is_some() {
        return scales.against(
            format!("{CLASS}/*/ports/*/link_layer"),
            "no RoCE port, so the GID index does not matter",
        );
    }
    if may_use_infiniband(case) {
        return scales.unseen("device of the job: the node has InfiniBand and RoCE ports");
    }
    let Some((source, index)) = shown.or_else(set).or_else(|| view::gid_index(case)) else {
        return scales.unseen("GID index of the job (NCCL_IB_GID_INDEX)");
    };
    let tables = tables(case);
    if tables.is_empty() {
        return scales.unseen(format!("GID at index {index}: libibverbs was not queried"));
    }
    let at = |gids: &[Gid]| {
        gids.iter()
            .find(|gid| gid.index == index)
            .map(|gid| (gid.is_routable(), gid.kind, gid.gid))
    };
    let wrong = tables
        .iter()
        .find(|(_, gids)| !at(gids).is_some_and(|(routable, ..)| routable));
    match wrong {
        Some((port, gids)) => {
            let what = at(gids).map_or_else(
                || "an empty entry".to_owned(),
                |(_, kind, gid)| format!("{gid} ({})", kind.name()),
            );
            scales.shows(source, format!("GID index {index}; {port} has {what} there"));
        }
        None => scales.against(
            "GID tables",
            format!("every RoCE port has a RoCE v2 IPv4 GID at index {index}"),
        ),
    }
}

pub(crate) fn fabric(case: &Case<'_>, scales: &mut Scales) {
    if case.is_efa() {
        scales.insisted_step = Some(EFA_STEP.to_owned());
    } else if let Some(step) = tools::unanswered(case) {
        scales.insisted_step = Some(step.to_owned());
    }
    if let Some(symptom) = case.symptoms.iter().find(|symptom| symptom.line.is_none()) {
        return scales.against(&symptom.source, "loopback traffic does not leave the node");
    }
    if probes_passed(case) {
        scales.fits("probe", "loopback writes pass on this node");
    } else {
        scales.unseen("loopback on this node (rdma-health check --probe)");
    }
    let peers: Vec<_> = case
        .symptoms
        .iter()
        .filter_map(|symptom| symptom.named.peer.as_deref())
        .take(3)
        .collect();
    if peers.is_empty() {
        scales.unseen("the other node and the network to it");
    } else {
        scales.unseen(format!(
            "the other node ({}) and the network to it",
            peers.join(", ")
        ));
    }
}

/// EFA has neither GIDs to choose from nor RC queue pairs; its commonest fault is a security group.
const EFA_STEP: &str = "Allow all traffic between the nodes in their security group: an inbound and an outbound rule whose source and destination \
    is the group itself. Then test the path: fi_pingpong -p efa on one node, fi_pingpong -p efa ADDRESS on the other. Run rdma-health check on \
    the peer, too.";

pub(crate) fn link_quality(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = case.seen(&[SymptomKind::PortError]).next() {
        scales.fits(&symptom.source, &symptom.text);
    }
    if let Some(symptom) = only_probed(case).filter(|_| !scales.supported()) {
        return scales.against(
            &symptom.source,
            "loopback traffic does not leave the adapter, and its port runs at its full rate",
        );
    }
    for link in link_losses(case) {
        if link.event.count >= MANY_LOSSES {
            scales.shows("/dev/kmsg", losses_in_words(&link));
        }
    }
    if case.node.hcas().next().is_some() && !scales.supported() {
        scales.unseen("changes of error counters over time (one reading shows only totals)");
    }
}

pub(crate) fn addressing(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = case
        .symptoms
        .iter()
        .find(|s| s.kind == SymptomKind::ConnectUnreachable)
    {
        scales.fits(&symptom.source, &symptom.text);
    }
    if let Some(symptom) = case.seen(&[SymptomKind::AddressInUse]).next() {
        scales.insisted_step = Some(
            "Another socket or rdma_cm identifier uses the local address and port: rdma resource show cm_id, ss -ltnp. Stop it, or let the program \
            choose a free source port: unset its source address or port (NVMe over Fabrics: host_traddr, host_trsvcid)."
                .into(),
        );
        return scales.fits(&symptom.source, &symptom.text);
    }
    let not_local = case
        .seen(&[SymptomKind::AddressUnresolved])
        .find(|symptom| symptom.named.errno == Some(Errno::EADDRNOTAVAIL));
    if let Some(symptom) = not_local {
        scales.next_step = Some(
            "The source address that the program binds to is not an address of this host, or of the pod: compare it with ip -brief address. \
            Correct the program's interface or address setting, or restore the address."
                .into(),
        );
        scales.fits(&symptom.source, &symptom.text);
    }
    only(case, scales, &LinkLayer::Ethernet);
    if scales.contradicts.is_empty() {
        scales.unseen("routes and rules for the peer's address (ip route get)");
    }
}

pub(crate) fn mtu(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = only_probed(case).filter(|_| !scales.supported()) {
        return scales.against(
            &symptom.source,
            "both ends of a loopback have the same MTU, and it is not low",
        );
    }
    // Both ends refuse what the other sends: they cut messages into packets of different sizes.
    let refused = |status| case.seen(&[SymptomKind::Completion(status)]).next().is_some();
    if refused(WcStatus::RemInvReqErr) && refused(WcStatus::LocLenErr) {
        scales.fits(
            "log",
            "a length error at one end and an invalid request at the other: different path MTUs",
        );
    }
    scales.unseen("MTU of the peer and of the switches");
}

/// The adapter works on the host, but the process got ENODEV: its network namespace has no network device for the GID.
pub(crate) fn other_namespace(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = only_probed(case) {
        return scales.against(&symptom.source, "the probe runs in the host's network namespace");
    }
    only(case, scales, &LinkLayer::Ethernet);
    if !scales.contradicts.is_empty() {
        return;
    }
    if view::namespace(case, scales) {
        // The entry reads as :: where its network device is not visible.
        let empty = case
            .symptoms
            .iter()
            .find(|symptom| symptom.named.local_gid.as_deref().is_some_and(is_zero));
        if let Some(symptom) = empty.filter(|_| scales.supported()) {
            scales.fits(&symptom.source, "the local GID is ::, an empty entry");
        }
        return;
    }
    let active = case
        .ports()
        .into_iter()
        .find(|port| port.is_active() == Some(true));
    let no_device = case
        .seen(&[SymptomKind::AddressUnresolved])
        .any(|symptom| symptom.named.errno == Some(Errno::ENODEV));
    let refused = no_device || case.seen(&[SymptomKind::ConnectNoDevice]).next().is_some();
    let software = case.symptoms.iter().find_map(|symptom| symptom.software);
    if let Some(setting) = software.and_then(Software::device_setting) {
        let place = if case.containers {
            "In the pod"
        } else {
            "Where the job runs"
        };
        scales.next_step = Some(format!(
            "{place}, compare ls /sys/class/infiniband/*/ports/1/gid_attrs/ndevs with ip link: a device whose network device is not \
            listed cannot be used there. Attach that network device (SR-IOV, host-device or macvlan network) or use hostNetwork: true, \
            or restrict the job to the devices that it has: {setting}."
        ));
    }
    if let Some(port) = active.filter(|_| refused) {
        scales.fits(
            port.file("state"),
            "4: ACTIVE on the host, so the device itself is there",
        );
    }
    scales.unseen("network devices and GIDs in the job's network namespace");
}
