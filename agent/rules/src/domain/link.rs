//! RDMA devices, ports and their links.

use std::fmt::Write;

use rdma_health_node::{
    Node,
    infiniband::{CLASS, Port, PortCode},
};

use crate::{Domain, Expectations, Finding, Profile, Rule, Severity, Subject};

/// `port-down`.
pub(crate) static PORT_DOWN: Rule = Rule {
    id: "port-down",
    domain: Domain::Link,
    severity: Severity::Critical,
    title: "A port that is in use or expected is not active",
    explanation: "The port's logical state is not ACTIVE. It counts as in use where its network device had a carrier \
        since boot, where it carried traffic, where an InfiniBand link is up, or where the configuration expects it. INIT on InfiniBand means that the link is up \
        and no subnet manager has configured it.",
    remedy: "Look at cable and switch port, at ip link show for the network device, and at the kernel's log for the driver's \
        words. Disabled physical state: the port was switched off. InfiniBand in INIT: start or reach a subnet manager.",
    false_alarms: "A port that was never up and that nobody expects is unused, not broken: spare ports are ignored. Name \
        ports that must be up under expect.ports_up.",
    judge: port_down,
};

fn port_down(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    let mut findings = Vec::new();
    for hca in node.hcas() {
        for (number, port) in &hca.ports {
            let Some(state) = port.state.known().filter(|state| state.code != PortCode::ACTIVE) else {
                continue;
            };
            let Some(why) = reason_in_use(expectations, &hca.name, *number, port) else {
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
fn reason_in_use(expectations: &Expectations, device: &str, number: u8, port: &Port) -> Option<&'static str> {
    let expected = |name: &String| *name == device || *name == format!("{device}:{number}");
    if expectations.ports_up.iter().any(expected) {
        return Some("the configuration expects it up");
    }
    let link_up = port
        .phys_state
        .known()
        .is_some_and(|phys| phys.code == PortCode::LINK_UP);
    if link_up && port.link_layer.known().is_some_and(|layer| layer == "InfiniBand") {
        return Some("its link is up, so something is connected");
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
