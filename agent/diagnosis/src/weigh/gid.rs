//! The GIDs of RoCE ports: whether there is one, whether the job uses the right one, and whether its network namespace has it.

use rdma_health_node::{
    Port,
    infiniband::{CLASS, LinkLayer},
    platform::is_accelerated_networking,
};
use rdma_health_protocol::{Errno, Gid, WcStatus};

use super::{
    Case, Scales,
    layer::{layers, only},
    only_probed,
    unresolved::is_of_peer,
    view,
};
use crate::log;
use crate::symptom::{GENERAL_GID_STEP, Software, Symptom, SymptomKind};

/// Why no GID matters on ports of iWARP, and where that stands.
const IWARP: &str = "4: RNIC (iWARP): its connections are of TCP, and no GID is chosen for them";
const NODE_TYPE: &str = "/sys/class/infiniband/*/node_type";

/// The active RoCE ports of the devices to consider, with the GID table entries in use. Empty if no table could be read.
fn tables<'a>(case: &Case<'a>) -> Vec<(Port<'a>, &'a [Gid])> {
    let roce = |port: &Port<'_>| port.is_ethernet() && !port.is_iwarp() && port.is_active() != Some(false);
    let ports = case.ports().into_iter().filter(roce);
    ports.filter_map(|port| Some((port, port.gids()?))).collect()
}

/// Whether all ports of Ethernet are of iWARP, whose connections are of TCP: no GID is chosen for them.
fn is_only_iwarp(case: &Case<'_>) -> bool {
    let ports = case.ports();
    let mut ethernet = ports.iter().filter(|port| port.is_ethernet()).peekable();
    ethernet.peek().is_some() && ethernet.all(Port::is_iwarp)
}

/// Whether a GID serves connections of a port: one of a routed address of the family that the ports of its kind use.
fn is_usable(case: &Case<'_>, port: &Port<'_>, gid: &Gid) -> bool {
    let uses_ipv6 = || {
        port.kind()
            .is_some_and(|kind| case.node.ipv6_kinds().contains(&kind))
    };
    gid.is_routable() || gid.is_ipv6() && uses_ipv6()
}

/// Whether a port has a GID that serves connections, at any index.
fn has_usable(case: &Case<'_>, port: &Port<'_>, gids: &[Gid]) -> bool {
    gids.iter().any(|gid| is_usable(case, port, gid))
}

/// Whether there are RoCE ports, all with a GID that serves connections.
fn all_have_one(case: &Case<'_>, tables: &[(Port<'_>, &[Gid])]) -> bool {
    !tables.is_empty() && tables.iter().all(|(port, gids)| has_usable(case, port, gids))
}

/// The failure whose local GID is an empty entry.
fn with_empty_gid<'a>(case: &Case<'a>) -> Option<&'a Symptom> {
    let is_empty = |symptom: &&Symptom| symptom.named.local_gid.as_deref().is_some_and(is_zero);
    case.symptoms.iter().copied().find(is_empty)
}

/// Whether the log names no device and the job may use InfiniBand, so that nothing about the RoCE ports concerns it for certain.
fn may_use_infiniband(case: &Case<'_>) -> bool {
    let infiniband = |port: &Port<'_>| {
        port.link_layer.known() == Some(&LinkLayer::InfiniBand) && port.is_active() == Some(true)
    };
    case.named().is_empty() && case.ports().iter().any(infiniband)
}

/// Why no GID index matters.
const NOT_ROCE: &str = "EFA, which has no GIDs of RoCE";
/// Why no GID index matters.
const INFINIBAND: &str = "the ports that it names are InfiniBand, which always have a GID";

/// Whether the GID in a log line is an empty entry, which NCCL prints as `::`.
fn is_zero(gid: &str) -> bool {
    gid.parse::<std::net::Ipv6Addr>()
        .is_ok_and(|gid| gid.is_unspecified())
}

/// The device whose GID a program found unusable, if it is none of this node: the ports of this node say nothing about it.
fn unusable_elsewhere<'a>(case: &'a Case<'_>) -> Option<&'a str> {
    let symptom = case.seen(&[SymptomKind::GidUnusable]).next()?;
    let device = symptom.named.device.as_deref()?;
    let is_here = case.node.hcas().any(|hca| hca.name == device);
    (!is_here && case.node.hcas().next().is_some()).then_some(device)
}

/// What an empty entry at index 0 shows.
const HIDDEN: &str = "the GID at index 0 is ::, and a port of Ethernet has one there as soon as its network device is visible where the program runs";

/// Whether perftest found no GID at all on a port of Ethernet, in a log of which the node's own tables are not known: there the link-local GID is at index 0 of each port
/// whose network device the process sees, with or without an address.
fn is_hidden(case: &Case<'_>, tables: &[(Port<'_>, &[Gid])]) -> bool {
    tables.is_empty()
        && case.node.hcas().next().is_none()
        && found_none(case)
        && configured_index(case).is_none()
}

/// Number of lines after a failure in which the program prints its details.
const DETAILS: u64 = 2;

/// Whether a GID is the link-local one of an Ethernet port.
fn is_of_mac(gid: &str) -> bool {
    gid.parse().is_ok_and(log::is_of_mac)
}

/// What the log itself shows of a GID that cannot be used: the line, the index and the GID there.
fn unusable<'a>(case: &Case<'a>) -> Option<(&'a Symptom, String)> {
    case.symptoms.iter().find_map(|symptom| {
        let index = symptom.named.gid_index;
        let gid = symptom.named.local_gid.as_deref();
        let what = match gid {
            Some(gid) if is_zero(gid) && index.is_some() => "an empty entry".to_owned(),
            Some(gid) if is_of_mac(gid) => format!("{gid}, a link-local address"),
            None if index.is_some() && symptom.kind == SymptomKind::GidUnusable => "no usable GID".to_owned(),
            _ => return None,
        };
        let place = index.map_or_else(
            || "the local GID".to_owned(),
            |index| format!("GID index {index}"),
        );
        Some((*symptom, format!("{place}: {what}")))
    })
}

/// The index of the GID that the job was configured to use, with the name of the setting in the log.
fn configured_index(case: &Case<'_>) -> Option<(String, u32)> {
    const SETTINGS: [&str; 4] = [
        "NCCL_IB_GID_INDEX",
        "UCX_IB_GID_INDEX",
        "NVSHMEM_IB_GID_INDEX",
        "MC_GID_INDEX",
    ];
    let log = case.log?;
    SETTINGS.iter().find_map(|name| {
        Some((
            format!("{name} in the log"),
            log.settings.get(*name)?.parse().ok()?,
        ))
    })
}

/// Whether perftest chose the index of an empty GID itself: it takes 0 where it finds no GID.
fn found_none(case: &Case<'_>) -> bool {
    let is_empty = |symptom: &&Symptom| {
        symptom.software == Some(Software::Perftest)
            && symptom.named.local_gid.as_deref().is_some_and(is_zero)
    };
    let selected = case.log.and_then(|log| log.gid_index);
    case.symptoms.iter().any(|symptom| is_empty(&&**symptom)) && selected.is_none_or(|(_, index)| index == 0)
}

/// The index of the GID that UCX itself selected and the driver refused, if it is one of the first two, which are of the link-local address,
/// although the peer has a GID of an IPv4 address.
fn selected_by_ucx<'a>(case: &Case<'a>) -> Option<(&'a Symptom, u32)> {
    const OF_LINK_LOCAL: std::ops::Range<u32> = 0..2;
    let is_ipv4 = |gid: &String| {
        gid.parse::<std::net::Ipv6Addr>()
            .is_ok_and(|gid| gid.to_ipv4_mapped().is_some())
    };
    let found = case.symptoms.iter().find_map(|symptom| {
        let index = symptom.named.gid_index?;
        let is_one = symptom.kind == SymptomKind::ConnectInvalid
            && symptom.software == Some(Software::Ucx)
            && symptom.named.remote_gid.as_ref().is_some_and(is_ipv4);
        (is_one && OF_LINK_LOCAL.contains(&index)).then_some((*symptom, index))
    });
    found.filter(|_| configured_index(case).is_none() && view::gid_index(case).is_none())
}

/// A device without a GID of an address, which UCX uses besides those that have one.
fn selected(case: &Case<'_>, scales: &mut Scales) {
    let Some((symptom, index)) = selected_by_ucx(case) else {
        return;
    };
    scales.fits(
        &symptom.source,
        format!("UCX selected GID index {index}, one of the link-local address, for a peer with an IPv4 GID"),
    );
    let device = symptom.named.device.as_deref().unwrap_or("the device");
    scales.next_step = Some(format!(
        "UCX uses all active devices, and {device} has no GID of an IPv4 address. If it belongs to the RDMA network, give its network device an \
        address (ip addr show; show_gids lists the GIDs). If not, name the devices that do: UCX_NET_DEVICES=DEVICE:1. An index in UCX_IB_GID_INDEX \
        applies to all devices: leave it unset."
    ));
}

/// A port of Azure's accelerated networking whose GID a program asked for.
fn on_accelerated<'a>(case: &Case<'a>) -> Option<&'a Symptom> {
    let is_one = |symptom: &&Symptom| {
        let of_gid = matches!(symptom.kind, SymptomKind::NoGid | SymptomKind::GidUnusable);
        let name = symptom.named.device.as_deref();
        of_gid && name.is_some_and(is_accelerated_networking)
    };
    case.symptoms.iter().copied().find(is_one)
}

pub(crate) fn gid_missing(case: &Case<'_>, scales: &mut Scales) {
    if case.is_efa() {
        return scales.against("adapters", NOT_ROCE);
    }
    if is_only_iwarp(case) {
        return scales.against(NODE_TYPE, IWARP);
    }
    if case.logs_infiniband() {
        return scales.against("log", INFINIBAND);
    }
    if let Some(symptom) = on_accelerated(case) {
        let device = symptom.named.device.as_deref().unwrap_or("the device");
        scales.insisted_step = Some(format!(
            "Leave {device} out: it is the adapter of Azure's accelerated networking, whose port is for Ethernet and has no usable GID. Name the InfiniBand device of the virtual machine \
            (rdma link show; mlx5_ib0 by Azure's rules): UCX_NET_DEVICES=mlx5_ib0:1, NCCL_IB_HCA=mlx5_ib. Where there is none, the machine type has no RDMA: UCX_TLS=tcp,self,sm."
        ));
        return scales.shows(&symptom.source, &symptom.text);
    }
    if let Some((source, _)) = listed(case) {
        return scales.against(source, "show_gids lists a GID of an IPv4 address");
    }
    let empty = with_empty_gid(case);
    let tables = tables(case);
    if empty.is_some() && is_hidden(case, &tables) {
        scales.doubts("log", HIDDEN);
        return scales.unseen("GID tables where the job runs");
    }
    match empty {
        // Another index, or another network namespace, may have one.
        Some(symptom) if all_have_one(case, &tables) || configured_index(case).is_some() => {
            scales.fits(&symptom.source, "the local GID is ::, an empty entry");
        }
        Some(symptom) => scales.shows(&symptom.source, "the local GID is ::, an empty entry"),
        None => {}
    }
    if layers(case, &LinkLayer::Ethernet) == Some(0) && case.node.hcas().next().is_some() {
        return scales.against(
            format!("{CLASS}/*/ports/*/link_layer"),
            "no RoCE port; an InfiniBand port always has a GID",
        );
    }
    selected(case, scales);
    // On InfiniBand, too, attributes of a connection are refused.
    let shows_roce = |symptom: &Symptom| {
        symptom.kind != SymptomKind::ConnectInvalid
            || symptom.named.gid_index.is_some()
            || symptom.named.local_gid.is_some()
    };
    let is_unknown = tables.is_empty() && case.node.hcas().next().is_none() && !case.logs_ethernet();
    if is_unknown && !case.symptoms.iter().any(|symptom| shows_roce(symptom)) {
        scales.score -= 1;
    }
    if tables.is_empty() {
        if case.seen(&[SymptomKind::NoGid]).any(is_search) {
            scales.next_step = Some(search_step(case));
        }
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
        .filter(|(port, gids)| !has_usable(case, port, gids))
        .collect();
    match without.as_slice() {
        // One of several is a finding, and has its evidence and remedy.
        [(first, _), _, ..] if without.len() == tables.len() => {
            scales.shows(
                format!("GID tables of {first} and {} more", without.len() - 1),
                "no RoCE port has a RoCE v2 GID of a routed address, at any index",
            );
            scales.next_step = Some(NO_ADDRESSES.to_owned());
        }
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

/// Where a program could not read a GID of a port, although `show_gids` lists one of an IPv4 address with its network device in the same log: the line and the index.
fn listed(case: &Case<'_>) -> Option<(String, u32)> {
    let (line, index) = case.log?.listed_gid?;
    let unread =
        |symptom: &Symptom| symptom.kind == SymptomKind::NoGid && symptom.named.errno == Some(Errno::EINVAL);
    case.symptoms
        .iter()
        .any(|symptom| unread(symptom))
        .then(|| (format!("log line {line}"), index))
}

/// The GID that the program can use is at this index.
fn at_listed(source: String, index: u32, scales: &mut Scales) {
    scales.insisted_step = Some(format!(
        "The program stumbles over an entry of the GID table that it cannot read: in a container only entries of network devices that are in it can be, and show_gids lists the first at a higher index. Name one that can: \
        NCCL_IB_GID_INDEX={index} (of that port; each port may have another index), or use NCCL 2.23 or later, which passes over the others."
    ));
    scales.shows(
        source,
        format!("show_gids lists the GID of an IPv4 address at index {index}"),
    );
}

/// What to do where no port has an address.
const NO_ADDRESSES: &str = "No RoCE port of the node has an IP address, so no GID index can work: find out why the service that gives them addresses did \
    not (NetworkManager, netplan, cloud-init or the agent of the cloud; ip -br addr), and restore them. Then check the GIDs: rdma-health check, or show_gids.";

/// Whether a program searched the GIDs of a port and took none: there may be one that its rules pass over.
fn is_search(symptom: &Symptom) -> bool {
    let text = symptom.text.to_ascii_lowercase();
    ["suitable", "usable", "valid gid", "query gid", "no gid"]
        .iter()
        .any(|words| text.contains(words))
}

/// What to do where a program found no GID that suits it, and the GIDs are not known.
fn search_step(case: &Case<'_>) -> String {
    let by_index = gid_step(case)
        .unwrap_or_else(|| "Set NCCL_IB_GID_INDEX to its index, which show_gids lists.".to_owned());
    format!(
        "See which GIDs the port has where the job runs: show_gids, or rdma-health check. If it lists none of an IP address, give the port's network device an address (ip addr show). If it lists one, \
        the program's own search passed over it. {by_index}"
    )
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

/// Whether the first packets of NCCL got lost, as far as the log shows, and it does not show with which GID: a program that did some of its work had
/// one that works.
fn is_lost_at_first(case: &Case<'_>) -> bool {
    let is_lost = |symptom: &Symptom| {
        symptom.software == Some(Software::Nccl)
            && symptom.named.local_gid.is_none()
            && symptom.line.is_some()
    };
    let mut lost = case.seen(&[SymptomKind::Completion(WcStatus::RetryExcErr)]);
    case.log.is_some_and(|log| !log.marks.went_on) && lost.any(is_lost)
}

pub(crate) fn gid_index(case: &Case<'_>, scales: &mut Scales) {
    if case.is_efa() {
        return scales.against("adapters", NOT_ROCE);
    }
    if is_only_iwarp(case) {
        return scales.against(NODE_TYPE, IWARP);
    }
    scales.insisted_step = gid_step(case);
    let shown = case
        .symptoms
        .iter()
        .find_map(|symptom| Some((symptom.source.clone(), symptom.named.gid_index?)));
    let set = || {
        configured_index(case).or_else(|| {
            let (line, index) = case.log?.gid_index?;
            Some((format!("log line {line}"), index))
        })
    };
    if case.logs_infiniband() {
        return scales.against("log", INFINIBAND);
    }
    if let Some((source, index)) = listed(case) {
        return at_listed(source, index, scales);
    }
    if let Some(device) = unusable_elsewhere(case) {
        return scales.unseen(format!("GIDs of {device}, which this node does not have"));
    }
    if layers(case, &LinkLayer::Ethernet) == Some(0) && case.node.hcas().next().is_some() {
        let source = format!("{CLASS}/*/ports/*/link_layer");
        return scales.against(source, "no RoCE port, so the GID index does not matter");
    }
    if may_use_infiniband(case) {
        return scales.unseen("device of the job: the node has InfiniBand and RoCE ports");
    }
    if found_none(case) && configured_index(case).is_none() {
        return scales.unseen("GID tables where the job runs: it found no GID at all");
    }
    let tables = tables(case);
    let by_log = unusable(case).filter(|(symptom, ..)| {
        configured_index(case).is_some()
            || symptom.kind == SymptomKind::GidUnusable
            || symptom.named.local_gid.as_deref().is_some_and(is_of_mac)
    });
    let has_gid = |(port, gids): &(Port<'_>, &[Gid])| has_usable(case, port, gids);
    if let Some((symptom, what)) = by_log.filter(|_| tables.iter().all(has_gid)) {
        scales.shows(&symptom.source, what);
        if tables.is_empty() {
            return;
        }
    }
    // The program itself printed the GID that it uses before packets got lost.
    if let Some((line, gid)) = case.log.and_then(|log| log.link_local.as_ref())
        && tables.is_empty()
        && case
            .symptoms
            .iter()
            .any(|symptom| symptom.line.is_some_and(|at| at + DETAILS >= *line))
    {
        scales.fits(
            format!("log line {line}"),
            format!("{gid}, a link-local address, is in use as a GID"),
        );
    }
    let Some((source, index)) = shown.or_else(set).or_else(|| view::gid_index(case)) else {
        scales.score += i32::from(is_lost_at_first(case));
        return scales.unseen("GID index of the job (NCCL_IB_GID_INDEX)");
    };
    if tables.is_empty() {
        // The call that failed names the index, and not the GID there.
        let refused = case.seen(&[SymptomKind::ConnectInvalid]).find(|symptom| {
            symptom.named.gid_index == Some(index)
                && symptom.named.local_gid.is_none()
                && symptom.named.errno == Some(Errno::EINVAL)
        });
        if let Some(symptom) = refused.filter(|_| selected_by_ucx(case).is_none()) {
            scales.fits(&symptom.source, format!("refused with GID index {index}"));
        }
        return scales.unseen(format!("GID at index {index}: libibverbs was not queried"));
    }
    // No index helps a port without any GID of a routed address.
    if tables.len() > 1 && !tables.iter().any(has_gid) {
        return scales.against(
            "GID tables",
            "no RoCE port has a RoCE v2 GID of a routed address, at any index",
        );
    }
    let at = |gids: &[Gid]| gids.iter().find(|gid| gid.index == index).cloned();
    let wrong = tables
        .iter()
        .filter(|table| tables.len() == 1 || has_gid(table))
        .find(|(port, gids)| !at(gids).is_some_and(|gid| is_usable(case, port, &gid)));
    match wrong {
        Some((port, gids)) => {
            let what = at(gids).map_or_else(
                || "an empty entry".to_owned(),
                |gid| format!("{} ({})", gid.gid, gid.kind.name()),
            );
            scales.shows(source, format!("GID index {index}; {port} has {what} there"));
        }
        None => scales.against(
            "GID tables",
            format!("every RoCE port that has a RoCE v2 GID of a routed address has it at index {index}"),
        ),
    }
}

/// The adapter works on the host, but the process got ENODEV: its network namespace has no network device for the GID.
pub(crate) fn other_namespace(case: &Case<'_>, scales: &mut Scales) {
    if case.is_efa() {
        return scales.against("adapters", NOT_ROCE);
    }
    if is_only_iwarp(case) {
        return scales.against(NODE_TYPE, IWARP);
    }
    if let Some(symptom) = only_probed(case) {
        return scales.against(&symptom.source, "the probe runs in the host's network namespace");
    }
    only(case, scales, &LinkLayer::Ethernet);
    if case.logs_infiniband() {
        scales.against("log", INFINIBAND);
    }
    if !scales.contradicts.is_empty() {
        return;
    }
    if let Some((source, _)) = listed(case) {
        return scales.doubts(source, "show_gids lists network devices of the job");
    }
    if let Some(symptom) = with_empty_gid(case).filter(|_| is_hidden(case, &tables(case))) {
        scales.shows(&symptom.source, HIDDEN);
    }
    if view::namespace(case, scales) {
        // The entry reads as :: where its network device is not visible.
        if let Some(symptom) = with_empty_gid(case).filter(|_| scales.supported()) {
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
            "{place}, compare grep . /sys/class/infiniband/*/ports/1/gid_attrs/ndevs/* with ip -brief link: a device whose network device is \
            not listed cannot be used there. Attach that network device (SR-IOV, host-device or macvlan network) or use hostNetwork: true, \
            or restrict the job to the devices that it has: {setting}."
        ));
    }
    let hidden = case.symptoms.iter().find(|symptom| {
        // The kernel refuses to name the type of an entry whose network device is not in the reader's network namespace.
        let is_type = symptom.kind == SymptomKind::NoGid && symptom.named.errno == Some(Errno::EINVAL);
        is_type || symptom.kind == SymptomKind::InterfaceHidden || is_of_peer(symptom)
    });
    if let Some(symptom) = hidden {
        scales.fits(&symptom.source, &symptom.text);
    }
    let all_have = all_have_one(case, &tables(case));
    if let Some(symptom) = with_empty_gid(case).filter(|_| all_have && case.containers) {
        scales.shows(
            &symptom.source,
            "the local GID is ::, an empty entry, but the ports of this node have GIDs",
        );
    }
    if all_have && case.log.is_some_and(|log| log.marks.no_gids) {
        scales.shows(
            "log",
            "show_gids finds no GID where the job runs, but the ports of this node have GIDs",
        );
    }
    if found_none(case) && all_have {
        scales.fits(
            "GID tables",
            "the node's ports have GIDs, and the job found none: their network devices are not visible where it runs",
        );
    }
    if let Some(port) = active.filter(|_| refused) {
        scales.fits(
            port.file("state"),
            "4: ACTIVE on the host, so the device itself is there",
        );
    }
    scales.unseen("network devices and GIDs in the job's network namespace");
}
