//! RDMA devices, ports and their links.

use std::fmt::Write;

use rdma_health_node::{
    Node,
    infiniband::{CLASS, Port, PortCode},
    node::PortOf,
};

use super::common::{is_infiniband, is_lent, is_virtual, port_file};
use crate::{Domain, Expectations, Finding, Profile, Remedy, Rule, Severity, Subject};

/// `port-down`.
pub(crate) static PORT_DOWN: Rule = Rule {
    id: "port-down",
    domain: Domain::Link,
    severity: Severity::Critical,
    title: "A port that is in use or expected is not active",
    explanation: "The port's logical state is not ACTIVE. It counts as in use where its network device had a carrier \
        since boot, where it carried traffic, or where the configuration expects it.",
    remedy: Remedy {
        any: "Look at cable and switch port, at the network device, and at the kernel's log for the driver's words. Disabled as \
            physical state: the port was switched off.",
        openshift: "Look at the NodeNetworkConfigurationPolicy and at nmstate's view: oc get nns NODE -o yaml.",
        kubernetes: "",
        host: "ip link show NETDEV; ip link set NETDEV up; mlxlink -d DEVICE shows why a link does not come up.",
    },
    false_alarms: "A port that was never up and that nobody expects is unused, not broken: spare ports are ignored, and so are virtual functions, \
        which are down between two pods, and representors of one. Name ports that must be up under expect.ports_up. InfiniBand in INIT is no-subnet-manager.",
    judge: port_down,
};

fn port_down(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    let mut findings = Vec::new();
    for hca in node.hcas() {
        for (number, port) in &hca.ports {
            let Some(state) = port.state.known().filter(|state| state.code != PortCode::ACTIVE) else {
                continue;
            };
            if awaits_subnet_manager(port) {
                continue;
            }
            let Some(why) = reason_in_use(expectations, (hca, *number, port)) else {
                continue;
            };
            let phys = port.phys_state.known();
            let mut message = format!("{}:{number} is {}", hca.name, state.name);
            if let Some(phys) = phys {
                let _ = write!(message, " (physically {})", phys.name);
            }
            let _ = write!(message, "; {why}");
            let path = format!("{CLASS}/{}/ports/{number}", hca.name);
            let mut finding = Finding::new(&PORT_DOWN, Subject::port(&hca.name, *number), message)
                .evidence(format!("{path}/state"), state);
            if expectations.profile == Profile::TcpOnly {
                finding = finding.severity(Severity::Info);
            }
            if let Some(phys) = phys {
                finding = finding.evidence(format!("{path}/phys_state"), phys);
            }
            if let Some(netdev) = port.netdev.known()
                && let Some(operstate) = netdev.operstate.known()
            {
                finding = finding.evidence(format!("/sys/class/net/{}/operstate", netdev.name), operstate);
            }
            findings.push(finding);
        }
    }
    findings.extend(missing(node, expectations));
    findings
}

/// Counters that rise with traffic: of hardware, of `rdma_rxe`, of `mlx5` on functions without the first.
const TRAFFIC: [&str; 5] = [
    "port_rcv_data",
    "port_xmit_data",
    "rcvd_pkts",
    "sent_pkts",
    "rx_write_requests",
];

/// Why a port that is not active matters; `None` for a spare one.
fn reason_in_use(expectations: &Expectations, (hca, number, port): PortOf<'_>) -> Option<&'static str> {
    let device = &hca.name;
    let expected = |name: &String| name == device || *name == format!("{device}:{number}");
    if expectations.ports_up.iter().any(expected) {
        return Some("the configuration expects it up");
    }
    // It is down between two pods, and nothing is wrong.
    if is_lent(&(hca, number, port)) {
        return None;
    }
    let carrier_ups = port.netdev.known().and_then(|netdev| netdev.carrier_ups.known());
    if carrier_ups.is_some_and(|ups| *ups > 0) {
        return Some("its network device had a carrier since boot");
    }
    let carried = port.counters.iter().chain(&port.hw_counters).any(|counter| {
        TRAFFIC.contains(&&*counter.name) && counter.value.known().is_some_and(|value| *value > 0)
    });
    carried.then_some("it carried traffic since boot")
}

/// `no-subnet-manager`.
pub(crate) static NO_SUBNET_MANAGER: Rule = Rule {
    id: "no-subnet-manager",
    domain: Domain::Link,
    severity: Severity::Critical,
    title: "An InfiniBand port's link is up, but no subnet manager configured it",
    explanation: "On InfiniBand a subnet manager gives each port its address and makes it ACTIVE. A port in INIT or ARMED has a \
        working link and no subnet manager that reaches it, or one that refuses it: a duplicate GUID, a partition. An active \
        port that names LID 0 as its subnet manager's lost it.",
    remedy: Remedy {
        any: "Start a subnet manager (opensm on a node, or the switch's own), or look why it leaves this port out: its log names \
            the port's GUID. See guid-invalid.",
        openshift: "",
        kubernetes: "",
        host: "sminfo; ibstat DEVICE; systemctl status opensm.",
    },
    false_alarms: "RoCE, iWARP and EFA have no subnet manager and are not judged. Virtual functions whose GUID is zero are \
        vf-guid-zero.",
    judge: no_subnet_manager,
};

/// Whether an InfiniBand port waits for a subnet manager: INIT or ARMED with its link up.
fn awaits_subnet_manager(port: &Port) -> bool {
    const INIT: u8 = 2;
    const ARMED: u8 = 3;
    let link_up = port
        .phys_state
        .known()
        .is_some_and(|phys| phys.code == PortCode::LINK_UP);
    let state = port.state.known().map(|state| state.code);
    is_infiniband(port) && link_up && matches!(state, Some(INIT | ARMED))
}

fn no_subnet_manager(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    let found = node.ports().filter_map(|(hca, number, port): PortOf<'_>| {
        if is_virtual(hca) && hca.node_guid.known().is_some_and(|guid| guid.0 == 0) {
            return None;
        }
        let state = port.state.known()?;
        let subject = Subject::port(&hca.name, number);
        let lost = is_infiniband(port) && state.code == PortCode::ACTIVE && port.sm_lid.known() == Some(&0);
        let (message, file, value, severity) = if awaits_subnet_manager(port) {
            let message = format!(
                "{subject} is {}, its link up: no subnet manager configured it",
                state.name
            );
            (message, "state", state.to_string(), Severity::Critical)
        } else if lost {
            let message = format!("{subject} is active but knows no subnet manager");
            (message, "sm_lid", "0x0".into(), Severity::Warning)
        } else {
            return None;
        };
        let severity = if expectations.profile == Profile::TcpOnly {
            Severity::Info
        } else {
            severity
        };
        Some(
            Finding::new(&NO_SUBNET_MANAGER, subject, message)
                .severity(severity)
                .evidence(port_file(hca, number, file), value),
        )
    });
    found.collect()
}

/// Ports that the configuration expects and that do not exist.
fn missing(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    let Some(hcas) = node.hcas.known() else {
        return Vec::new();
    };
    let exists = |expected: &String| match expected.rsplit_once(':') {
        Some((device, port)) => hcas
            .get(device)
            .is_some_and(|hca| port.parse().is_ok_and(|port: u8| hca.ports.contains_key(&port))),
        None => hcas.contains_key(expected),
    };
    let absent = expectations.ports_up.iter().filter(|expected| !exists(expected));
    absent
        .map(|expected| {
            let (device, port) = match expected.rsplit_once(':') {
                Some((device, port)) => (device, port.parse().ok()),
                None => (expected.as_str(), None),
            };
            let message = format!("{expected} is expected up but does not exist");
            let names: Vec<_> = hcas.keys().map(String::as_str).collect();
            let found = if names.is_empty() {
                "no device".into()
            } else {
                names.join(", ")
            };
            Finding::new(
                &PORT_DOWN,
                Subject {
                    device: Some(device.to_owned()),
                    port,
                },
                message,
            )
            .evidence(CLASS, found)
        })
        .collect()
}
