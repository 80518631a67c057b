//! RDMA devices, ports and their links.

use std::collections::{BTreeMap, BTreeSet};

use rdma_health_node::{
    Node, Port,
    infiniband::{CLASS, PortCode},
    peers::{Peers, exceptions},
};

use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Severity, Subject, Writer,
    domain::rails::usual_link_layer, draft::Draft, policy::Exception,
};

/// `port-down`.
pub static PORT_DOWN: Rule = Rule {
    id: "port-down",
    domain: Domain::Link,
    policy: Policy::of(Severities::CRITICAL.tcp_only(Severity::Info)).except(&[
        &NEVER_CAME_UP,
        &DOES_NOT_EXIST,
        &OF_A_POD,
        &NONE_ACTIVE,
    ]),
    title: "A port that is in use or expected is not ACTIVE",
    explanation: "The logical state of the port is not ACTIVE. A port counts as in use if its network device has had \
        a carrier since boot, if it has carried traffic, or if the configuration expects it (expect.ports_up). A port \
        that never came up is expected to be ACTIVE if at least three quarters of the equal ports are, or if it is one of \
        the adapters of the GPUs and no port of the node is ACTIVE.",
    remedy: Remedy {
        any: "Check the cable, the switch port and the network device, and read the messages of the driver: \
            journalctl -k | grep -e ADDRESS -e NETDEV. Physical state Disabled means that the port was switched off. A reason in the \
            finding is the driver's own.",
        openshift: "Check the NodeNetworkConfigurationPolicy and what nmstate reports: oc get nns NODE -o yaml",
        host: "ip link show NETDEV; ip link set NETDEV up. Show why the link does not come up: ethtool NETDEV; mlxlink -d DEVICE",
        ..Remedy::all("")
    },
    false_alarms: "A port that never came up is a spare port, not a broken one, unless it is expected or its equals are \
        ACTIVE. Ports are equal if board, function number and PCIe attachment match: not the second port of every card, \
        and not adapters for storage next to the rails of the GPUs. On a node without GPUs, one port that the administrator \
        did not switch off must be the only exception among four or more. Virtual functions, which are down between two pods, \
        and their representors are ignored. List ports that must be up in expect.ports_up. InfiniBand ports in INIT are \
        reported by no-subnet-manager.",
    inputs: &[
        Writer::Hardware,
        Writer::HostRoot,
        Writer::Fabric,
        Writer::Configuration,
    ],
    judge: port_down,
};

static NEVER_CAME_UP: Exception = Exception {
    condition: "if the port never came up and only equal ports show that it should be ACTIVE",
    severities: Severities::WARNING.rdma_expected(Severity::Critical),
};

static NONE_ACTIVE: Exception = Exception {
    condition: "if the port never came up, serves GPUs, and no port of the node is ACTIVE",
    severities: Severities::WARNING.rdma_expected(Severity::Critical),
};

static DOES_NOT_EXIST: Exception = Exception {
    condition: "if a port in expect.ports_up does not exist",
    severities: Severities::always(Severity::Critical),
};

static OF_A_POD: Exception = Exception {
    condition: "if its network device is in another network namespace, whose pod can disable it, and expect.ports_up \
        does not list the port",
    severities: Severities::WARNING.tcp_only(Severity::Info),
};

fn port_down(node: &Node, expectations: &Expectations) -> Vec<Draft> {
    let behind = behind_peers(node);
    let all_down = ports_of_gpus_all_down(node);
    let down = node.ports().filter_map(|port| {
        let state = port
            .state
            .known()
            .filter(|state| state.code != PortCode::ACTIVE)?;
        if awaits_subnet_manager(&port) {
            return None;
        }
        let share = || behind.get(&Subject::of_port(&port));
        let (why, exception) = match reason_in_use(expectations, &port) {
            Some(why) => (why.to_owned(), None),
            None => match share() {
                Some(share) => (format!("{share} equal ports are ACTIVE"), Some(&NEVER_CAME_UP)),
                None if all_down.contains(&Subject::of_port(&port)) => (
                    "it serves GPUs, and no port of the node is ACTIVE".to_owned(),
                    Some(&NONE_ACTIVE),
                ),
                None => return None,
            },
        };
        let phys = port.phys_state.known();
        let reason = node
            .ethernet_link(port.kernel)
            .and_then(|link| link.down_reason.known());
        let physically = match (phys, reason) {
            (Some(phys), Some(reason)) => format!(" (physical state {}; reason: {reason})", phys.name),
            (Some(phys), None) => format!(" (physical state {})", phys.name),
            (None, Some(reason)) => format!(" (reason: {reason})"),
            (None, None) => String::new(),
        };
        let neighbour = node.lldp_neighbour(port.kernel);
        let other_end = neighbour.map_or(String::new(), |neighbour| {
            let verb = if neighbour.is_past { "was" } else { "is" };
            format!(
                "; its link {verb} to port {} of {}",
                neighbour.port, neighbour.switch
            )
        });
        let message = format!(
            "{port} is {}{physically}, expected ACTIVE: {why}{other_end}",
            state.name
        );
        let of_a_pod = why != LISTED && port.is_ethernet() && is_elsewhere(&port);
        let mut finding = Draft::new(&PORT_DOWN, Subject::of_port(&port), message)
            .exception(if of_a_pod { Some(&OF_A_POD) } else { exception })
            .remedy(remedy_of(&port))
            .evidence(port.file("state"), state);
        if let Some(share) = share() {
            finding = finding.evidence("state of equal ports", format!("{share} are ACTIVE"));
        }
        if let Some(phys) = phys {
            finding = finding.evidence(port.file("phys_state"), phys);
        }
        if let Some(netdev) = port.netdev.known()
            && let Some(operstate) = netdev.operstate.known()
        {
            finding = finding.evidence(format!("/sys/class/net/{}/operstate", netdev.name), operstate);
        }
        if let (Some(netdev), Some(reason)) = (port.netdev.known(), reason) {
            finding = finding.evidence(format!("ethtool {}, why the link is down", netdev.name), reason);
        }
        if let (Some(netdev), Some(neighbour)) = (port.netdev.known(), neighbour) {
            let switch = format!("{}, port {}", neighbour.switch, neighbour.port);
            finding = finding.evidence(format!("networkctl lldp {}, last neighbour", netdev.name), switch);
        }
        Some(finding)
    });
    down.chain(missing(node, expectations)).collect()
}

/// What to do about a port that is down, by its link layer and driver.
fn remedy_of(port: &Port<'_>) -> Remedy {
    let host = match port.hca.driver.known().map(String::as_str) {
        Some("hfi1") => "opainfo; systemctl status opafm",
        Some("mlx4_core" | "mlx4_ib" | "mlx5_core" | "mlx5_ib") if port.is_infiniband() => {
            "ibstat DEVICE. Show why the link does not come up: mlxlink -d DEVICE"
        }
        Some("mlx4_core" | "mlx4_ib" | "mlx5_core" | "mlx5_ib") => return PORT_DOWN.remedy,
        _ if port.is_infiniband() => "ibstat DEVICE; iblinkinfo",
        _ => "ip link show NETDEV; ip link set NETDEV up; ethtool NETDEV",
    };
    Remedy {
        host,
        ..PORT_DOWN.remedy
    }
}

/// The ports that serve the GPUs of the node, if no port at all is ACTIVE.
fn ports_of_gpus_all_down(node: &Node) -> BTreeSet<Subject> {
    if !node.ports().all(|port| port.is_active() == Some(false)) {
        return BTreeSet::new();
    }
    let of_gpus = node.peers().into_iter().filter(|peers| peers.serve_gpus);
    of_gpus
        .flat_map(|peers| peers.ports)
        .map(|port| Subject::of_port(&port))
        .collect()
}

/// Ports that are not ACTIVE although most equal ports are, with the share that is.
fn behind_peers(node: &Node) -> BTreeMap<Subject, String> {
    let has_gpus = node.gpus().next().is_some();
    let mut found = BTreeMap::new();
    for peers in node.peers() {
        // Next to the rails of GPUs, other equal ports may be uncabled on purpose.
        if has_gpus && !peers.serve_gpus {
            continue;
        }
        let usual = usual_link_layer(&peers);
        // A port with another link type cannot come up; that is reported separately.
        let is_comparable = |port: &Port<'_>| port.link_layer.known() == usual;
        let all: Vec<_> = peers.ports.iter().collect();
        let is_active = |port: &Port<'_>| port.is_active().filter(|active| *active || is_comparable(port));
        let Some(exceptions) = exceptions(&all, is_active) else {
            continue;
        };
        if !has_gpus && !is_clear_without_gpus(&peers, &exceptions.without) {
            continue;
        }
        let share = exceptions.share();
        found.extend(
            exceptions
                .without
                .into_iter()
                .map(|port| (Subject::of_port(port), share.clone())),
        );
    }
    found
}

/// Whether a port is expected to be up on a node without GPUs, where a spare port is common: it is the only exception, and
/// no administrator switched it off.
fn is_clear_without_gpus(peers: &Peers<'_>, without: &[&Port<'_>]) -> bool {
    const FEWEST: usize = 4;
    let is_switched_off = |port: &Port<'_>| {
        let netdev = port.netdev.known();
        netdev.is_some_and(|netdev| netdev.admin_up.known() == Some(&false))
    };
    matches!(without, [only] if !is_switched_off(only)) && peers.ports.len() >= FEWEST
}

/// Whether the network device of the port is not in the network namespace of this node.
fn is_elsewhere(port: &Port<'_>) -> bool {
    port.netdev.is_absent() || port.netdev.known().is_some_and(|netdev| netdev.index.is_absent())
}

/// Why a port that is listed matters.
const LISTED: &str = "it is listed in expect.ports_up";

/// Counters that rise with traffic: of hardware, of `rdma_rxe`, of `mlx5` on functions without the first.
const TRAFFIC: [&str; 5] = [
    "port_rcv_data",
    "port_xmit_data",
    "rcvd_pkts",
    "sent_pkts",
    "rx_write_requests",
];

/// Why a port that is not ACTIVE matters; `None` for a spare port.
fn reason_in_use(expectations: &Expectations, port: &Port<'_>) -> Option<&'static str> {
    let device = &port.hca.name;
    let expected = |name: &String| name == device || *name == port.to_string();
    if expectations.ports_up.iter().any(expected) {
        return Some(LISTED);
    }
    // It is down between two pods by design.
    if port.is_lent() {
        return None;
    }
    let carrier_ups = port.netdev.known().and_then(|netdev| netdev.carrier_ups.known());
    if carrier_ups.is_some_and(|ups| *ups > 0) {
        return Some("its network device has had a carrier since boot");
    }
    let carried = port.counters.iter().chain(&port.hw_counters).any(|counter| {
        TRAFFIC.contains(&&*counter.name) && counter.value.known().is_some_and(|value| *value > 0)
    });
    carried.then_some("it has carried traffic since boot")
}

/// `no-subnet-manager`.
pub static NO_SUBNET_MANAGER: Rule = Rule {
    id: "no-subnet-manager",
    domain: Domain::Link,
    policy: Policy::of(Severities::CRITICAL.tcp_only(Severity::Info)).except(&[&LOST]),
    title: "The link of an InfiniBand port is up, but no subnet manager configured the port",
    explanation: "On InfiniBand, a subnet manager gives each port its address and makes it ACTIVE. A port in INIT or \
        ARMED has a working link, but no subnet manager reaches it, or one refuses it because of a duplicate GUID or \
        a partition. An ACTIVE port whose subnet manager has LID 0 has lost it.",
    remedy: Remedy {
        any: "Start a subnet manager: opensm on a node, or the one of the switch. If one is running, look for the \
            GUID of the port in its log, and see guid-invalid.",
        host: "sminfo; ibstat DEVICE; systemctl status opensm",
        ..Remedy::all("")
    },
    false_alarms: "RoCE, iWARP and EFA have no subnet manager and are not judged. Virtual functions with a zero GUID \
        are reported by vf-guid-zero. A port whose link type is wrong has no link, so it does not wait for one either.",
    inputs: &[Writer::Fabric],
    judge: no_subnet_manager,
};

static LOST: Exception = Exception {
    condition: "if the port is ACTIVE and has lost its subnet manager",
    severities: Severities::WARNING.tcp_only(Severity::Info),
};

/// Whether an InfiniBand port waits for a subnet manager: INIT or ARMED with its link up.
fn awaits_subnet_manager(port: &Port<'_>) -> bool {
    const INIT: u8 = 2;
    const ARMED: u8 = 3;
    let link_up = port
        .phys_state
        .known()
        .is_some_and(|phys| phys.code == PortCode::LINK_UP);
    let state = port.state.known().map(|state| state.code);
    port.is_infiniband() && link_up && matches!(state, Some(INIT | ARMED))
}

fn no_subnet_manager(node: &Node, _: &Expectations) -> Vec<Draft> {
    let found = node.ports().filter_map(|port| {
        let subject = Subject::of_port(&port);
        if port.hca.is_virtual() && port.hca.node_guid.known().is_some_and(|guid| guid.0 == 0) {
            return None;
        }
        let state = port.state.known()?;
        let lost = port.is_infiniband() && state.code == PortCode::ACTIVE && port.sm_lid.known() == Some(&0);
        let (message, file, value, exception) = if awaits_subnet_manager(&port) {
            let message = format!(
                "{subject} is {} although its link is up: no subnet manager configured it",
                state.name
            );
            (message, "state", state.to_string(), None)
        } else if lost {
            let message = format!("{subject} is ACTIVE but has lost its subnet manager (LID 0)");
            (message, "sm_lid", "0x0".into(), Some(&LOST))
        } else {
            return None;
        };
        let of_nvlink = node.controls_nvswitch(&port);
        Some(
            Draft::new(&NO_SUBNET_MANAGER, subject, message)
                .exception(exception)
                .remedy(if of_nvlink {
                    FABRIC_MANAGER
                } else if port.hca.driver.known().is_some_and(|driver| driver == "hfi1") {
                    OMNI_PATH
                } else if node.is_virtual_machine() {
                    OF_A_GUEST
                } else {
                    NO_SUBNET_MANAGER.remedy
                })
                .evidence(port.file(file), value),
        )
    });
    found.collect()
}

/// What to do on Omni-Path, which has its own subnet manager.
const OMNI_PATH: Remedy = Remedy {
    any: "Start the Omni-Path Fabric Manager (opafm) on one node, or look for the GUID of the port in its log.",
    host: "opainfo; systemctl status opafm",
    ..Remedy::all("")
};

/// What to do in a virtual machine, whose fabric the host or the cloud provider manages.
const OF_A_GUEST: Remedy = Remedy {
    any: "The subnet manager runs outside of this virtual machine: redeploy the instance, or report the GUID of the port to the \
        provider or the administrator of the host.",
    host: "cat /sys/class/infiniband/DEVICE/node_guid; ibstat DEVICE",
    ..Remedy::all("")
};

/// What to do about a port that controls an `NVSwitch`.
const FABRIC_MANAGER: Remedy = Remedy {
    any: "The port controls an NVSwitch of the board: start the Fabric Manager (nvidia-fabricmanager), whose nvlsm configures it, \
        and read its log. Do not start another subnet manager on it.",
    kubernetes: "With the GPU Operator, the driver pod of the node starts it: kubectl -n gpu-operator get pods -o wide",
    host: "systemctl restart nvidia-fabricmanager; journalctl -u nvidia-fabricmanager",
    ..Remedy::all("")
};

/// Ports that the configuration expects and that do not exist.
fn missing(node: &Node, expectations: &Expectations) -> Vec<Draft> {
    let Some(hcas) = node.hcas.known() else {
        return Vec::new();
    };
    let exists = |expected: &String| match expected.rsplit_once(':') {
        Some((device, port)) => hcas
            .get(device)
            .is_some_and(|hca| port.parse().is_ok_and(|port: u8| hca.ports.contains_key(&port))),
        None => hcas.contains_key(expected.as_str()),
    };
    let absent = expectations.ports_up.iter().filter(|expected| !exists(expected));
    absent
        .map(|expected| {
            let (device, port) = match expected.rsplit_once(':') {
                Some((device, port)) => (device, port.parse().ok()),
                None => (expected.as_str(), None),
            };
            let message = format!("{expected} is listed in expect.ports_up but does not exist");
            let names: Vec<_> = hcas.keys().map(|name| &**name).collect();
            let found = if names.is_empty() {
                "no device".into()
            } else {
                names.join(", ")
            };
            Draft::new(
                &PORT_DOWN,
                Subject {
                    device: Some(device.to_owned()),
                    port,
                },
                message,
            )
            .exception(&DOES_NOT_EXIST)
            .evidence(CLASS, found)
        })
        .collect()
}
