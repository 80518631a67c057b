//! Addresses of RDMA ports: GIDs and GUIDs.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use rdma_health_node::{
    Function, Node, Port,
    infiniband::{CLASS, Guid, Hca},
    limits::Runtime,
    peers::exceptions,
    platform::is_accelerated_networking,
    port::Kind,
};
use rdma_health_protocol::{Gid, GidType, ProbeFailure};

use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Severity, Subject, Writer, draft::Draft,
    policy::Exception,
};

mod empty;
mod family;
mod vlan;

/// `gid-missing`.
pub static GID_MISSING: Rule = Rule {
    id: "gid-missing",
    domain: Domain::Gids,
    policy: Policy::of(Severities::WARNING).except(&[&NO_PORT_HAS_ONE, &ONLY_OTHERS_HAVE_ONE]),
    title: "A RoCE port has no RoCE v2 GID with a routed address",
    explanation: "A RoCE port gets a GID for each address of its network device. Without an IPv4 address, it has no \
        RoCE v2 GID that routed networks and the defaults of NCCL use. Connections that select a GID by its index \
        fail with EINVAL or ENODATA when the queue pair moves to RTR, or find no GID at all.",
    remedy: Remedy {
        any: "Give the network device an IPv4 address and check the GID table of the port: show_gids, or rdma-health \
            check.",
        openshift: "Set the address in a NodeNetworkConfigurationPolicy; for pods, in the ipam of the SriovNetwork.",
        kubernetes: "For pods, set the address in the ipam of the NetworkAttachmentDefinition.",
        host: "ip addr add IP_ADDRESS/PREFIX_LENGTH dev NETDEV; then set it in the configuration of the network manager.",
    },
    false_alarms: "Not judged: ports that are not ACTIVE; virtual functions, whose address is in a pod, and their \
        representors; physical functions whose virtual functions do the work; and iWARP and the ports of Gaudi, which need no such GID. A \
        fabric that only uses routed IPv6 addresses works: where some ports of a kind have such a GID of IPv6 and none has one of IPv4, those without \
        are reported and the others are not.",
    inputs: &[Writer::HostRoot, Writer::Job],
    judge: gid_missing,
};

static NO_PORT_HAS_ONE: Exception = Exception {
    condition: "if no port of the node has such a GID, this one has no routed IPv6 GID and some other GID, no probe failed without one, and it does not serve GPUs on a node \
        where a batch system (slurmd) starts jobs, which use the addresses of the node itself",
    severities: Severities::INFO.rdma_expected(Severity::Warning),
};

static ONLY_OTHERS_HAVE_ONE: Exception = Exception {
    condition: "if ports of the same kind have none either, but other ports, InfiniBand or a routed IPv6 GID may serve the \
        node, or if it is of another board than the ports that serve the GPUs, which have one; and no probe failed without one",
    severities: Severities::INFO,
};

/// Whether the port is that of a virtual function that speeds up the network of a virtual machine of Azure: the address is at the network device
/// above it.
fn is_accelerated_guest(node: &Node, port: &Port<'_>) -> bool {
    node.is_virtual_machine() && is_accelerated_networking(&port.hca.name)
}

/// Whether a port has a RoCE v2 GID of an IPv6 address that is more than link-local.
fn has_ipv6(gids: &[Gid]) -> bool {
    gids.iter().any(Gid::is_ipv6)
}

/// Active RoCE ports of physical functions and software devices, with their GIDs.
fn roce_ports(node: &Node) -> impl Iterator<Item = (Port<'_>, &[Gid])> {
    node.active_ports()
        .filter(|port| port.is_ethernet() && !port.is_lent() && port.needs_routed_gid())
        .filter_map(|port| Some((port, port.gids()?)))
}

fn gid_missing(node: &Node, _: &Expectations) -> Vec<Draft> {
    let with: BTreeSet<_> = roce_ports(node)
        .filter(|(port, _)| port.routable_gid().is_some())
        .filter_map(|(port, _)| port.kind())
        .collect();
    let infiniband = node.active_ports().any(|port| port.is_infiniband());
    let nowhere = with.is_empty() && !infiniband;
    let behind = behind_peers(node);
    let rails = rails(node);
    let vlans = vlan::of_equal_ports(node);
    let mut of_ipv6 = node.ipv6_kinds();
    let without_any: BTreeSet<_> = roce_ports(node)
        .filter(|(port, gids)| port.routable_gid().is_none() && !has_ipv6(gids))
        .filter_map(|(port, _)| port.kind())
        .collect();
    of_ipv6.retain(|kind| without_any.contains(kind));
    let functions = node.functions();
    let for_jobs = if has_batch_system(node) {
        ports_of_gpus(node)
    } else {
        BTreeSet::new()
    };
    let without = roce_ports(node).filter(|(port, _)| port.routable_gid().is_none());
    let found = without.filter_map(|(port, gids)| {
        let probe_failed = probe_found_no_gid(node, &port);
        if serves_virtual_functions(&functions, &port) && !probe_failed {
            return None;
        }
        // A port of another kind than those that have one may serve a bridge or the management network.
        let equal_ports_have_one = port.kind().is_some_and(|kind| with.contains(&kind));
        let share = behind.get(&Subject::of_port(&port));
        let only_v1 = has_only_v1(&port, gids);
        let is_of_ipv6 = port.kind().is_some_and(|kind| of_ipv6.contains(&kind));
        if is_of_ipv6 && has_ipv6(gids) && !probe_failed {
            return None;
        }
        let is_beside_rails = !rails.is_empty() && port.kind().is_some_and(|kind| !rails.contains(&kind));
        if is_accelerated_guest(node, &port) && !probe_failed {
            return None;
        }
        // An active port has the GID of its MAC address at least.
        let is_empty = gids.is_empty();
        let exception = if is_beside_rails && !probe_failed && share.is_none() && !only_v1 {
            Some(&ONLY_OTHERS_HAVE_ONE)
        } else if is_empty && nowhere || equal_ports_have_one || probe_failed || share.is_some() || only_v1 {
            None
        } else if nowhere && !has_ipv6(gids) {
            let is_for_jobs = for_jobs.contains(&Subject::of_port(&port));
            (!is_for_jobs).then_some(&NO_PORT_HAS_ONE)
        } else {
            Some(&ONLY_OTHERS_HAVE_ONE)
        };
        let netdev = port.netdev.known();
        let netdev = netdev
            .map(|netdev| format!(" ({} has none)", netdev.name))
            .unwrap_or_default();
        let message = match share {
            _ if only_v1 => format!("{port} has RoCE v1 GIDs only: its IPv4 address has no GID of RoCE v2"),
            share if is_of_ipv6 => family::words(&port, share),
            Some(share) => format!("{port} has no routed RoCE v2 GID{netdev}; {share} equal ports have one"),
            None if has_ipv6(gids) => format!("{port} has RoCE v2 GIDs of IPv6 addresses only"),
            None if is_empty => empty::words(&port),
            None => format!("{port} has no RoCE v2 GID with an IPv4 address{netdev}"),
        };
        let vlan = vlans.get(&Subject::of_port(&port));
        let remedy = match (only_v1, is_of_ipv6) {
            (true, _) => RESTORE_V2,
            (false, false) if vlan.is_some() && !has_ipv6(gids) => vlan::CREATE,
            (false, true) => family::RESTORE_V6,
            (false, false) if is_empty => empty::FIND_NETDEV,
            (false, false) if has_ipv6(gids) => family::USE_V6,
            (false, false) => GID_MISSING.remedy,
        };
        let finding = Draft::new(&GID_MISSING, Subject::of_port(&port), message)
            .exception(exception)
            .remedy(remedy);
        let finding = match vlan {
            Some(vlan) => vlan.fill(finding),
            None => finding,
        };
        Some(finding.evidence(port.file("gids"), table(gids)))
    });
    found
        .chain(vlan::without(node))
        .chain(only_automatic(node))
        .collect()
}

/// Ports whose only IPv4 address is one that the node chose itself (169.254.0.0/16, RFC 3927), although most equal ports have another.
fn only_automatic(node: &Node) -> Vec<Draft> {
    let own = |port: &Port<'_>| {
        let address = port.routable_gid()?.gid.to_ipv4_mapped()?;
        address.is_link_local().then_some(address)
    };
    let is_configured = |port: &Port<'_>| {
        let is_judged = port.is_active() == Some(true)
            && port.is_ethernet()
            && port.needs_routed_gid()
            && !port.is_lent();
        let gids = port.gids().filter(|_| is_judged)?;
        port.routable_gid()?;
        Some(own(port).is_none() || has_ipv6(gids))
    };
    let mut findings = Vec::new();
    for peers in node.peers() {
        let all: Vec<_> = peers.ports.iter().collect();
        let Some(found) = exceptions(&all, is_configured) else {
            continue;
        };
        let share = found.share();
        for port in found.without {
            let Some(address) = own(port) else { continue };
            let message = format!(
                "{port} has only the address {address}, which the node chose itself (169.254.0.0/16): no DHCP server answered, or none was \
                 configured; {share} equal ports have an address of their network"
            );
            let finding = Draft::new(&GID_MISSING, Subject::of_port(port), message).remedy(AUTOMATIC);
            findings.push(finding.evidence(port.file("gids"), table(port.gids().unwrap_or_default())));
        }
    }
    findings
}

const AUTOMATIC: Remedy = Remedy {
    any: "Give NETDEV an address of its network, as the equal ports have: check that its DHCP server answers (cable, VLAN and relay of the switch port), \
        or set the address in the configuration of the network manager.",
    host: "ip -br addr show NETDEV; journalctl -b | grep -e NETDEV | grep -i dhcp",
    ..Remedy::all("")
};

/// Whether a batch system starts jobs on this node. They run in its network namespace; what Kubernetes gives a pod has addresses of the pod.
fn has_batch_system(node: &Node) -> bool {
    let mut runtimes = node.limits.runtimes.known().into_iter().flatten();
    runtimes.any(Runtime::is_scheduler)
}

/// The ports that serve the GPUs of the node, if there are several: a single one may be that of the node's own network.
fn ports_of_gpus(node: &Node) -> BTreeSet<Subject> {
    let peers = node.peers().into_iter();
    let of_gpus = peers.filter(|peers| peers.serve_gpus && peers.ports.len() > 1);
    of_gpus
        .flat_map(|peers| peers.ports)
        .map(|port| Subject::of_port(&port))
        .collect()
}

/// The kinds of the ports that serve GPUs, if most of these ports are InfiniBand or have a RoCE v2 GID of a routed address.
fn rails<'a>(node: &'a Node) -> BTreeSet<Kind<'a>> {
    let ports: Vec<Port<'a>> = node
        .peers()
        .into_iter()
        .filter(|peers| peers.serve_gpus)
        .flat_map(|peers| peers.ports)
        .collect();
    let has_one = |port: &Port<'a>| {
        // InfiniBand needs no address.
        port.is_infiniband() || port.routable_gid().is_some() || port.gids().is_some_and(has_ipv6)
    };
    let with = ports.iter().filter(|port| has_one(port)).count();
    if with * 4 < ports.len() * 3 {
        return BTreeSet::new();
    }
    ports.iter().filter_map(Port::kind).collect()
}

/// Whether a port has a GID for its IPv4 address with RoCE v1 and none with RoCE v2, although its adapter has both. ConnectX-3 has only v1.
fn has_only_v1(port: &Port<'_>, gids: &[Gid]) -> bool {
    let of_ipv4 = |kind: GidType| gids.iter().any(|gid| gid.kind == kind && gid.is_ipv4_mapped());
    let is_mlx4 = port
        .hca
        .driver
        .known()
        .is_some_and(|driver| driver.starts_with("mlx4"));
    of_ipv4(GidType::RoceV1) && !of_ipv4(GidType::RoceV2) && !is_mlx4
}

const RESTORE_V2: Remedy = Remedy {
    any: "The address is there: what is missing is RoCE v2. Find out why the adapter offers RoCE v1 only: its firmware settings \
        (mlxconfig -d DEVICE query | grep -i roce), an old driver, or a bond or a switchdev mode that does not support it.",
    ..Remedy::all("")
};

/// Ports without a RoCE v2 GID of more than a link-local address, IPv4 or IPv6, although most equal ports have one, with the
/// share that has.
fn behind_peers(node: &Node) -> BTreeMap<Subject, String> {
    let routed = |port: &Port<'_>| {
        let is_judged = port.is_active() == Some(true) && port.is_ethernet() && !port.is_iwarp();
        let gids = port.gids().filter(|_| is_judged)?;
        Some(port.routable_gid().is_some() || has_ipv6(gids))
    };
    let mut found = BTreeMap::new();
    for peers in node.peers() {
        let all: Vec<_> = peers.ports.iter().collect();
        if let Some(exceptions) = exceptions(&all, routed) {
            let share = exceptions.share();
            let without = exceptions.without.into_iter();
            found.extend(without.map(|port| (Subject::of_port(port), share.clone())));
        }
    }
    found
}

fn probe_found_no_gid(node: &Node, port: &Port<'_>) -> bool {
    node.loopbacks().any(|probe| {
        let report = &probe.report;
        report.path.from.device == port.hca.name
            && report.path.from.port == port.number
            && report.failure == Some(ProbeFailure::NoGid)
    })
}

/// Whether the port belongs to a physical function with virtual functions, which then carry the traffic.
fn serves_virtual_functions(functions: &[Function<'_>], port: &Port<'_>) -> bool {
    let address = port.hca.pci_address.known().map(String::as_str);
    let function = functions
        .iter()
        .find(|function| Some(function.address) == address);
    function
        .and_then(|function| function.pci?.sriov.known())
        .is_some_and(|sriov| sriov.active > 0)
}

/// The first entries of a GID table: `3: ::ffff:10.0.0.2 (RoCE v2)`.
fn table(gids: &[Gid]) -> String {
    let entries: Vec<_> = gids
        .iter()
        .take(4)
        .map(|gid| format!("{}: {} ({})", gid.index, gid.gid, gid.kind.name()))
        .collect();
    match entries.as_slice() {
        [] => "no entry".into(),
        some => some.join(", "),
    }
}

/// `gid-index-differs`.
pub static GID_INDEX_DIFFERS: Rule = Rule {
    id: "gid-index-differs",
    domain: Domain::Gids,
    policy: Policy::of(Severities::WARNING).except(&[&BETWEEN_KINDS]),
    title: "The index of the RoCE v2 GID with an IPv4 address differs between ports",
    explanation: "One NCCL_IB_GID_INDEX applies to all RDMA devices. If the index differs, it selects an empty \
        entry, RoCE v1 or an IPv6 address on some ports: queue pairs fail at RTR, or traffic uses a protocol that is \
        not routed. The index depends on the order in which addresses were added, on VLANs, and on addresses that \
        came and went.",
    remedy: Remedy::all(
        "With NCCL 2.21 or later, leave NCCL_IB_GID_INDEX unset, and NCCL selects a GID for each device. Otherwise \
        remove addresses that are not needed and rebuild the table of the port: ip link set NETDEV down; ip link set \
        NETDEV up.",
    ),
    false_alarms: "Only ACTIVE ports with such a GID are compared. Virtual functions are not, because each pod sees \
        its own table.",
    inputs: &[Writer::HostRoot, Writer::Configuration, Writer::Job],
    judge: gid_index_differs,
};

static BETWEEN_KINDS: Exception = Exception {
    condition: "if only ports of different kinds differ",
    severities: Severities::INFO,
};

fn gid_index_differs(node: &Node, expectations: &Expectations) -> Vec<Draft> {
    let indices: Vec<_> = roce_ports(node)
        .filter_map(|(port, _)| Some((port, port.routable_gid()?.index)))
        .collect();
    match expectations.gid_index {
        Some(expected) => unexpected_indices(&indices, expected),
        None => different_indices(&indices).into_iter().collect(),
    }
}

fn unexpected_indices(indices: &[(Port<'_>, u32)], expected: u32) -> Vec<Draft> {
    let is_expected = |port: &Port<'_>| {
        let mut gids = port.gids().into_iter().flatten();
        gids.any(|gid| gid.index == expected && gid.is_routable())
    };
    let unexpected = indices.iter().filter(|(port, _)| !is_expected(port));
    let found = unexpected.map(|(port, index)| {
        let subject = Subject::of_port(port);
        let message = format!(
            "{subject} has its RoCE v2 GID with an IPv4 address at index {index}, expected {expected}"
        );
        Draft::new(&GID_INDEX_DIFFERS, subject, message)
            .evidence(port.file("gids"), format!("index {index}"))
            .evidence("configuration, expect.gid_index", expected)
    });
    found.collect()
}

fn different_indices(indices: &[(Port<'_>, u32)]) -> Option<Draft> {
    let mut ports: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    let mut kinds: BTreeMap<_, BTreeSet<u32>> = BTreeMap::new();
    for (port, index) in indices {
        ports.entry(*index).or_default().push(port.to_string());
        kinds.entry(port.kind()).or_default().insert(*index);
    }
    if ports.len() < 2 {
        return None;
    }
    let equal_ports_differ = kinds
        .iter()
        .any(|(kind, indices)| kind.is_some() && indices.len() > 1);
    let words: Vec<_> = ports
        .iter()
        .map(|(index, ports)| format!("{index} on {}", ports.join(", ")))
        .collect();
    let message = format!(
        "the RoCE v2 GID with an IPv4 address has index {}",
        words.join("; ")
    );
    let finding = Draft::new(&GID_INDEX_DIFFERS, Subject::node(), message)
        .exception((!equal_ports_differ).then_some(&BETWEEN_KINDS));
    let file = |index| format!("{CLASS}/*/ports/*/gids/{index}");
    Some(ports.iter().fold(finding, |finding, (index, ports)| {
        finding.evidence(file(index), ports.join(", "))
    }))
}

/// `guid-invalid`.
pub static GUID_INVALID: Rule = Rule {
    id: "guid-invalid",
    domain: Domain::Gids,
    policy: Policy::of(Severities::WARNING),
    title: "A GUID is zero or used twice",
    explanation: "The node GUID identifies a device, and the port GUID (the lower half of GID 0) identifies an \
        InfiniBand port. If a subnet manager finds one GUID twice, it brings up only one of the ports, or both in \
        turn. rdma_cm and several applications refuse a device whose GUID is zero.",
    remedy: Remedy::all(
        "Write the GUID on the label of one of the adapters into its firmware: flint -d ADDRESS -guid GUID sg; then restart the node. For virtual functions, set it from the \
        physical function. Boards that were flashed with one image share its GUIDs.",
    ),
    false_alarms: "Functions of one adapter share the system image GUID by design, and it is not compared. Devices \
        of one PCI function may share the node GUID. EFA has no GUID. Zero GUIDs of virtual functions are reported \
        by vf-guid-zero.",
    inputs: &[Writer::Hardware, Writer::HostRoot],
    judge: guid_invalid,
};

/// Devices with a GUID: EFA and usNIC, whose node type is unspecified (number 7, for which older kernels have no word), have no usable one.
fn with_guid(node: &Node) -> impl Iterator<Item = &Hca> {
    let is_unspecified = |kind: &String| kind.starts_with("7:") || kind.contains("nspecified");
    let is_without = |driver: &String| matches!(driver.as_str(), "efa" | "usnic_verbs");
    let unspecified = move |hca: &Hca| {
        hca.node_type.known().is_some_and(is_unspecified) || hca.driver.known().is_some_and(is_without)
    };
    node.hcas().map(Arc::as_ref).filter(move |hca| !unspecified(hca))
}

/// What to do about a GUID of zero in a virtual machine.
const IN_A_GUEST: Remedy = Remedy::all(
    "Set the GUIDs of the virtual function on the host of this virtual machine, before it starts: ip link set PF vf N node_guid GUID, and the \
    same with port_guid. The subnet manager configures no port with a GUID of zero.",
);

fn guid_invalid(node: &Node, _: &Expectations) -> Vec<Draft> {
    let zero = with_guid(node).filter(|hca| {
        let zero = hca.node_guid.known().is_some_and(|guid| guid.0 == 0);
        zero && !hca.is_virtual() && !hca.is_software()
    });
    let zero = zero.map(|hca| {
        let message = format!("the node GUID of {} is zero", hca.name);
        let is_guest = node.is_virtual_machine();
        Draft::new(&GUID_INVALID, Subject::device(&hca.name), message)
            .remedy(if is_guest { IN_A_GUEST } else { GUID_INVALID.remedy })
            .evidence(format!("{CLASS}/{}/node_guid", hca.name), Guid(0))
    });
    let nodes = with_guid(node).filter_map(|hca| Some((hca.node_guid.known()?.0, hca, hca.name.clone())));
    let ports = with_guid(node).flat_map(|hca| {
        node.ports_of(hca).filter_map(move |port| {
            let active = port.is_infiniband() && port.is_active() == Some(true);
            let gids = port.gids().filter(|_| active)?;
            let first = gids.iter().find(|gid| gid.index == 0)?;
            // The lower half is the port GUID.
            let [.., a, b, c, d] = first.gid.segments();
            let guid = [a, b, c, d]
                .iter()
                .fold(0, |guid, part| guid << 16 | u64::from(*part));
            Some((guid, hca, port.to_string()))
        })
    });
    let mut findings: Vec<_> = zero.collect();
    findings.extend(shared("node", "node_guid", nodes));
    findings.extend(shared("port", "ports/*/gids/0", ports));
    findings
}

/// GUIDs that devices of different PCI functions share.
fn shared<'a>(what: &str, file: &str, guids: impl Iterator<Item = (u64, &'a Hca, String)>) -> Vec<Draft> {
    let mut owners: BTreeMap<u64, Vec<(&Hca, String)>> = BTreeMap::new();
    for (guid, hca, name) in guids.filter(|(guid, ..)| *guid != 0) {
        owners.entry(guid).or_default().push((hca, name));
    }
    let found = owners.into_iter().filter_map(|(guid, owners)| {
        let functions: BTreeSet<_> = owners.iter().map(|(hca, _)| hca.pci_address.known()).collect();
        let ((first, _), true) = (owners.first()?, functions.len() > 1) else {
            return None;
        };
        let names: Vec<_> = owners.iter().map(|(_, name)| name.as_str()).collect();
        let message = format!("{} share the {what} GUID {}", names.join(" and "), Guid(guid));
        Some(
            Draft::new(&GUID_INVALID, Subject::device(&first.name), message)
                .evidence(format!("{CLASS}/*/{file}"), Guid(guid)),
        )
    });
    found.collect()
}
