//! Addresses of RDMA ports: GIDs and GUIDs.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use rdma_health_node::{
    Node,
    infiniband::{CLASS, Guid, Hca},
    node::PortOf,
};
use rdma_health_protocol::{Gid, GidType, ProbeFailure};

use super::common::{is_ethernet, is_infiniband, is_lent, is_virtual, kind, port_file, severity};
use crate::{Domain, Expectations, Finding, Remedy, Rule, Severity, Subject};

/// `gid-missing`.
pub(crate) static GID_MISSING: Rule = Rule {
    id: "gid-missing",
    domain: Domain::Gids,
    severity: Severity::Warning,
    title: "An active RoCE port has no RoCE v2 GID with an IPv4 address",
    explanation: "A RoCE port gets a GID for each address of its network device. Without an IPv4 address there is no RoCE v2 \
        GID that routed networks and NCCL's defaults use; what connects by index ends with EINVAL or ENODATA when the queue \
        pair moves to RTR, or with no GID at all. A warning where other ports of the same kind have one, where RDMA is expected \
        and no port has one, or where a probe found no GID; for information otherwise.",
    remedy: Remedy {
        any: "Give the network device an IPv4 address and look at the port's table again (show_gids, rdma-health check).",
        openshift: "Set it in a NodeNetworkConfigurationPolicy; for pods in the SriovNetwork's ipam.",
        kubernetes: "For pods, in the ipam of the NetworkAttachmentDefinition.",
        host: "ip addr add ADDRESS/PREFIX dev NETDEV, and in the network manager's configuration.",
    },
    false_alarms: "Ports that are not active, virtual functions (their address is in a pod), their representors, and physical functions whose \
        virtual functions do the work are not judged, nor is iWARP, which needs no such GID. Where no port has an IPv4 address \
        and this one an IPv6 address that is routed, the fabric is IPv6's own: for information.",
    judge: gid_missing,
};

/// The first RoCE v2 GID with an IPv4 address.
fn routable(gids: &[Gid]) -> Option<&Gid> {
    gids.iter()
        .find(|gid| gid.kind == GidType::RoceV2 && gid.is_ipv4_mapped())
}

/// Whether a port has a RoCE v2 GID of an IPv6 address that is more than link-local.
fn has_ipv6(gids: &[Gid]) -> bool {
    gids.iter().any(|gid| {
        let address = gid.gid;
        gid.kind == GidType::RoceV2 && !gid.is_ipv4_mapped() && !address.is_unicast_link_local()
    })
}

/// Active RoCE ports of physical functions and software devices, with their GIDs.
fn roce_ports(node: &Node) -> impl Iterator<Item = (PortOf<'_>, &[Gid])> {
    node.active_ports()
        .filter(|found| {
            let (hca, _, port) = found;
            let iwarp = hca.node_type.known().is_some_and(|kind| kind.starts_with("4:"));
            is_ethernet(port) && !is_lent(found) && !iwarp
        })
        .filter_map(|found| Some((found, node.gids(&found.0.name, found.1)?)))
}

fn gid_missing(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    let with: BTreeSet<_> = roce_ports(node)
        .filter(|(_, gids)| routable(gids).is_some())
        .filter_map(|(port, _)| kind(&port))
        .collect();
    let infiniband = node.active_ports().any(|(.., port)| is_infiniband(port));
    let nowhere = with.is_empty() && !infiniband;
    let without = roce_ports(node).filter(|(_, gids)| routable(gids).is_none());
    let found = without.filter_map(|(found, gids)| {
        let (hca, number, port) = found;
        let functions = hca
            .pci_address
            .known()
            .and_then(|address| node.pci.functions.known()?.get(address));
        let serves_others = functions
            .and_then(|function| function.sriov.known())
            .is_some_and(|sriov| sriov.active > 0);
        let probe_found_none = node.probes.iter().any(|probe| {
            let report = &probe.report;
            report.device == hca.name && report.port == number && report.failure == Some(ProbeFailure::NoGid)
        });
        if serves_others && !probe_found_none {
            return None;
        }
        let alike = kind(&found).is_some_and(|kind| with.contains(&kind));
        // A port of another kind than all that have one may serve a bridge or the management network.
        let auto = if alike || probe_found_none {
            Severity::Warning
        } else {
            Severity::Info
        };
        let severity = severity(
            expectations,
            auto,
            if nowhere && !has_ipv6(gids) {
                Severity::Warning
            } else {
                auto
            },
        )?;
        let netdev = port.netdev.known().map(|netdev| netdev.name.as_str());
        let message = format!(
            "{}:{number} has no RoCE v2 GID with an IPv4 address{}",
            hca.name,
            netdev
                .map(|netdev| format!(" ({netdev} has none)"))
                .unwrap_or_default()
        );
        let listed: Vec<_> = gids
            .iter()
            .take(4)
            .map(|gid| format!("{}: {} ({})", gid.index, gid.gid, gid.kind.name()))
            .collect();
        let listed = if listed.is_empty() {
            "no entry".into()
        } else {
            listed.join(", ")
        };
        Some(
            Finding::new(&GID_MISSING, Subject::port(&hca.name, number), message)
                .severity(severity)
                .evidence(port_file(hca, number, "gids"), listed),
        )
    });
    found.collect()
}

/// `gid-index-differs`.
pub(crate) static GID_INDEX_DIFFERS: Rule = Rule {
    id: "gid-index-differs",
    domain: Domain::Gids,
    severity: Severity::Warning,
    title: "The RoCE v2 GID with an IPv4 address has not the same index on every port",
    explanation: "One NCCL_IB_GID_INDEX serves all HCAs. Where the index differs, it names an empty entry, RoCE v1 or an IPv6 \
        address on some ports: queue pairs fail at RTR, or traffic leaves by an unrouted protocol. The index shifts with the \
        order in which addresses came, with VLANs and with addresses that came and went. A warning between ports of the same \
        kind or where the configuration expects an index; for information otherwise.",
    remedy: Remedy {
        any: "Leave NCCL_IB_GID_INDEX unset with NCCL 2.21 or later, which chooses for each HCA. Otherwise remove addresses \
            that are not needed, then take the port's network device down and up so that its table is built anew.",
        ..Remedy::all("")
    },
    false_alarms: "Only active ports that have such a GID are compared; virtual functions are not, since each pod sees its own.",
    judge: gid_index_differs,
};

fn gid_index_differs(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    let all: Vec<_> = roce_ports(node)
        .filter_map(|(port, gids)| Some((port, gids, routable(gids)?.index)))
        .collect();
    if let Some(expected) = expectations.gid_index {
        let at = |gids: &[Gid]| {
            gids.iter()
                .any(|gid| gid.index == expected && routable(std::slice::from_ref(gid)).is_some())
        };
        let elsewhere = all.iter().filter(|(_, gids, _)| !at(gids));
        let found = elsewhere.filter_map(|((hca, number, _), _, index)| {
            let severity = severity(expectations, Severity::Warning, Severity::Warning)?;
            let subject = Subject::port(&hca.name, *number);
            let message = format!(
                "{subject} has its RoCE v2 GID with an IPv4 address at index {index}, expected is {expected}"
            );
            Some(
                Finding::new(&GID_INDEX_DIFFERS, subject, message)
                    .severity(severity)
                    .evidence(port_file(hca, *number, "gids"), format!("index {index}"))
                    .evidence("configuration, expect.gid_index", expected),
            )
        });
        return found.collect();
    }
    let mut indices: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    let mut kinds: BTreeMap<_, BTreeSet<u32>> = BTreeMap::new();
    for (port, _, index) in &all {
        indices
            .entry(*index)
            .or_default()
            .push(format!("{}:{}", port.0.name, port.1));
        kinds.entry(kind(port)).or_default().insert(*index);
    }
    let differs_among_equals = kinds
        .iter()
        .any(|(kind, indices)| kind.is_some() && indices.len() > 1);
    let auto = if differs_among_equals {
        Severity::Warning
    } else {
        Severity::Info
    };
    let Some(severity) = severity(expectations, auto, auto).filter(|_| indices.len() > 1) else {
        return Vec::new();
    };
    let words: Vec<_> = indices
        .iter()
        .map(|(index, ports)| format!("{index} on {}", ports.join(", ")))
        .collect();
    let message = format!(
        "the RoCE v2 GID with an IPv4 address is at index {}",
        words.join("; ")
    );
    let mut finding = Finding::new(&GID_INDEX_DIFFERS, Subject::node(), message).severity(severity);
    for (index, ports) in &indices {
        finding = finding.evidence(format!("{CLASS}/*/ports/*/gids/{index}"), ports.join(", "));
    }
    vec![finding]
}

/// `guid-invalid`.
pub(crate) static GUID_INVALID: Rule = Rule {
    id: "guid-invalid",
    domain: Domain::Gids,
    severity: Severity::Warning,
    title: "A GUID is zero, or two devices share one",
    explanation: "The node GUID identifies a device, the port GUID (the lower half of GID 0) an InfiniBand port. A subnet \
        manager that meets one GUID twice brings up one port only, or both by turns; rdma_cm and several applications refuse a \
        device whose GUID is zero.",
    remedy: Remedy {
        any: "Set it in the adapter's firmware (mlxconfig, flint sg) or, for virtual functions, from the physical one; boards \
            that were flashed with one image share its GUIDs.",
        ..Remedy::all("")
    },
    false_alarms: "Functions of one adapter share the system image GUID by design; it is not compared. Devices of one PCI \
        function may share the node GUID. EFA has none. Zero GUIDs of virtual functions are vf-guid-zero.",
    judge: guid_invalid,
};

/// EFA and usNIC call themselves unspecified and have no GUID worth the name.
fn with_guid(node: &Node) -> impl Iterator<Item = &Hca> {
    let unspecified = |hca: &Hca| {
        hca.node_type
            .known()
            .is_some_and(|kind| kind.contains("nspecified"))
    };
    node.hcas().map(Arc::as_ref).filter(move |hca| !unspecified(hca))
}

fn guid_invalid(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    let Some(severity) = severity(expectations, Severity::Warning, Severity::Warning) else {
        return Vec::new();
    };
    let zero = with_guid(node).filter(|hca| {
        let zero = hca.node_guid.known().is_some_and(|guid| guid.0 == 0);
        zero && !is_virtual(hca) && !hca.is_software()
    });
    let zero = zero.map(|hca| {
        let message = format!("the node GUID of {} is zero", hca.name);
        Finding::new(&GUID_INVALID, Subject::device(&hca.name), message)
            .evidence(format!("{CLASS}/{}/node_guid", hca.name), Guid(0))
    });
    let nodes = with_guid(node).filter_map(|hca| Some((hca.node_guid.known()?.0, hca, hca.name.clone())));
    let ports = with_guid(node).flat_map(|hca| {
        let ports = hca.ports.iter().map(move |(number, port)| (hca, *number, port));
        ports.filter_map(|(hca, number, port)| {
            let active = is_infiniband(port) && port.is_active() == Some(true);
            let gids = node.gids(&hca.name, number).filter(|_| active)?;
            let first = gids.iter().find(|gid| gid.index == 0)?;
            // The lower half is the port's GUID.
            let [.., a, b, c, d] = first.gid.segments();
            let guid = [a, b, c, d]
                .iter()
                .fold(0, |guid, part| guid << 16 | u64::from(*part));
            Some((guid, hca, format!("{}:{number}", hca.name)))
        })
    });
    let mut findings: Vec<_> = zero.collect();
    findings.extend(shared("node", "node_guid", nodes));
    findings.extend(shared("port", "ports/*/gids/0", ports));
    findings
        .into_iter()
        .map(|finding| finding.severity(severity))
        .collect()
}

/// GUIDs that devices of different PCI functions have in common.
fn shared<'a>(what: &str, file: &str, guids: impl Iterator<Item = (u64, &'a Hca, String)>) -> Vec<Finding> {
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
            Finding::new(&GUID_INVALID, Subject::device(&first.name), message)
                .evidence(format!("{CLASS}/*/{file}"), Guid(guid)),
        )
    });
    found.collect()
}
