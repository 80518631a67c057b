//! Ports that are not ACTIVE, and ports that do not exist: the finding and what to do.

use rdma_health_node::{
    Node, Port,
    ethtool::DownReason,
    infiniband::{CLASS, PortCode},
    kmsg::EventKind,
};

use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Severity, Subject, Writer, domain::logged::said,
    draft::Draft, policy::Exception,
};

use super::{
    down_reason,
    expected_up::{ExpectedUp, Why, is_down_with_link},
    subnet_manager::awaits_subnet_manager,
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
        &SET_UP,
        &BELOW_ACTIVE,
        &IN_SOFTWARE,
        &UNUSED,
        &ONLY_LOGGED,
        &RECOVERING,
    ]),
    title: "A port that is in use or expected is not ACTIVE",
    explanation: "The logical state of the port is not ACTIVE. A port counts as in use if its network device has had \
        a carrier since boot, if it has carried traffic, if the configuration expects it (expect.ports_up), or if it is an InfiniBand port of a \
        virtual machine that is DOWN although its link is up. A port \
        that never came up is expected to be ACTIVE if at least three quarters of the equal ports are, if its network device is up and has an IPv4 \
        address, if it is one of the InfiniBand ports that a virtual machine was given and none of them is ACTIVE, or if it is \
        InfiniBand, one of the adapters of the GPUs, of an adapter for InfiniBand and Ethernet, or of a software device, and no port of the node \
        is ACTIVE.",
    remedy: Remedy {
        any: "Read the messages of the driver (journalctl -k | grep -e ADDRESS -e NETDEV), and check the cable, the switch port and the \
            network device.",
        openshift: "Check the NodeNetworkConfigurationPolicy and what nmstate reports: oc get nns NODE -o yaml",
        host: "ip link show NETDEV; ip link set NETDEV up. Show why the link does not come up: ethtool NETDEV; mlxlink -d DEVICE",
        ..Remedy::all("")
    },
    false_alarms: "A port that never came up is a spare port, not a broken one, unless it is expected, its network device has an address, its equals are \
        ACTIVE, or it is InfiniBand and no port of the node is ACTIVE. An address that hosts give themselves (169.254.0.0/16) does not count. Ports are equal if board, function number and PCIe attachment match: not the second port of every card, \
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
    condition: "if the port never came up, is InfiniBand, of an adapter for InfiniBand and Ethernet, or serves GPUs, and no port of the node is ACTIVE",
    severities: Severities::WARNING.rdma_expected(Severity::Critical),
};

static SET_UP: Exception = Exception {
    condition: "if the port never came up, and its network device has an address or a virtual machine was given it",
    severities: Severities::WARNING.rdma_expected(Severity::Critical),
};

static BELOW_ACTIVE: Exception = Exception {
    condition: "if it is an InfiniBand virtual function whose network device is up, below a physical function that is ACTIVE",
    severities: Severities::WARNING,
};

static IN_SOFTWARE: Exception = Exception {
    condition: "if it is a port of a software device, and no port of the node is ACTIVE",
    severities: Severities::WARNING.rdma_expected(Severity::Critical),
};

static UNUSED: Exception = Exception {
    condition: "if it is another Ethernet port that never came up, and no port of the node is ACTIVE: the adapter may be unused",
    severities: Severities::INFO.rdma_expected(Severity::Critical),
};

static RECOVERING: Exception = Exception {
    condition: "if its state is ACTIVE_DEFER in two readings: its link recovers from an error, and the port stays up meanwhile",
    severities: Severities::WARNING,
};

static ONLY_LOGGED: Exception = Exception {
    condition: "if only the kernel log shows it, because the adapter has no RDMA device (Slingshot)",
    severities: Severities::WARNING,
};

static DOES_NOT_EXIST: Exception = Exception {
    condition: "if a port in expect.ports_up does not exist",
    severities: Severities::always(Severity::Critical),
};

const CORRECT_THE_NAME: Remedy = Remedy {
    any: "Compare the name with the devices of this node. If it is right, the device is missing: look for the adapter, and for what its driver logged. If \
        not, correct expect.ports_up, in the configuration or in the label of the Node.",
    host: "ls /sys/class/infiniband; lspci -nn | grep -i -e ethernet -e infiniband; journalctl -k -p warning",
    ..Remedy::all("")
};

static OF_A_POD: Exception = Exception {
    condition: "if its network device is in another network namespace, whose pod can disable it, and expect.ports_up \
        does not list the port",
    severities: Severities::WARNING.tcp_only(Severity::Info),
};

fn port_down(node: &Node, expectations: &Expectations) -> Vec<Draft> {
    let expected = ExpectedUp::of(node, expectations);
    let down = node.ports().filter_map(|port| {
        let state = port
            .state
            .known()
            .filter(|state| state.code != PortCode::ACTIVE)?;
        if awaits_subnet_manager(&port) {
            return None;
        }
        let why = expected.why(&port)?;
        let is_recovering = state.code == PortCode::ACTIVE_DEFER;
        if is_recovering && node.past(&port).is_some_and(|past| past.active == Some(true)) {
            return None;
        }
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
            format!("; its link {verb} to {neighbour}")
        });
        let set_down = match port.netdev.known().filter(|_| is_administratively_down(&port)) {
            Some(netdev) => format!("; {} is administratively down", netdev.name),
            None => String::new(),
        };
        let message = format!(
            "{port} is {}{physically}, expected ACTIVE: {why}{set_down}{other_end}",
            state.name
        );
        let is_never_of_pod = matches!(why, Why::Listed | Why::OfBothKinds | Why::NoneActive);
        let of_a_pod = !is_never_of_pod && port.is_ethernet() && is_elsewhere(&port);
        let mut finding = Draft::new(&PORT_DOWN, Subject::of_port(&port), message)
            .exception(if is_recovering {
                Some(&RECOVERING)
            } else if of_a_pod {
                Some(&OF_A_POD)
            } else {
                exception_of(&why)
            })
            .remedy(if is_recovering {
                OF_RECOVERY
            } else if is_down_with_link(&port) {
                OF_THE_HOST
            } else if why == Why::OfBothKinds {
                OF_BOTH_KINDS
            } else {
                remedy_of(node, &port, reason)
            })
            .fill("MLX4_PORT", format!("mlx4_port{}", port.number))
            .fill("LINK_TYPE", format!("LINK_TYPE_P{}", port.number))
            .evidence(port.file("state"), state);
        if let Some(share) = expected.share_of_equals(&port) {
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
    down.chain(missing(node, expectations))
        .chain(only_logged(node))
        .collect()
}

/// Links that went down and did not come up again, of adapters without an RDMA device, so that only their driver reports it.
fn only_logged(node: &Node) -> Vec<Draft> {
    let events = node.device_events();
    let down = events.iter().filter(|fault| {
        let is_of_such = fault.event.driver.starts_with("cxi") && fault.function.is_none();
        fault.event.kind == EventKind::LinkDown && is_of_such && !fault.is_over
    });
    let found = down.map(|fault| {
        let words = "the link went down and has not come up since";
        Draft::new(&PORT_DOWN, Subject::device(fault.subject()), said(fault, words))
            .exception(&ONLY_LOGGED)
            .remedy(OF_SLINGSHOT)
            .reason(&fault.event.message)
            .evidence("/dev/kmsg", &fault.event.message)
    });
    found.collect()
}

/// What to do about a link of Slingshot.
const OF_SLINGSHOT: Remedy = Remedy {
    any: "The driver logged REASON. Check the cable and the port of the switch (fabric manager: fmn-show-status), and the network device that the line names.",
    host: "cxi_stat; ip -br link; journalctl -k | grep ADDRESS",
    ..Remedy::all("")
};

/// How severe it is that a port is down that is expected for this reason.
fn exception_of(why: &Why<'_>) -> Option<&'static Exception> {
    match why {
        Why::HeldDown | Why::Listed | Why::HadCarrier | Why::CarriedTraffic => None,
        Why::BelowActive => Some(&BELOW_ACTIVE),
        Why::HasAddress | Why::GivenToGuest => Some(&SET_UP),
        Why::EqualsActive(_) => Some(&NEVER_CAME_UP),
        Why::ServesGpus | Why::OnlyInfiniband | Why::OfBothKinds => Some(&NONE_ACTIVE),
        Why::NoneActive => Some(&UNUSED),
        Why::OfSoftware => Some(&IN_SOFTWARE),
    }
}

/// Whether the network device of the port is not in the network namespace of this node.
fn is_elsewhere(port: &Port<'_>) -> bool {
    port.netdev.is_absent() || port.netdev.known().is_some_and(|netdev| netdev.index.is_absent())
}

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
            .remedy(CORRECT_THE_NAME)
            .evidence(CLASS, found)
        })
        .collect()
}

/// What to do about a port that is down, by its link layer and driver.
fn remedy_of(node: &Node, port: &Port<'_>, reason: Option<&DownReason>) -> Remedy {
    const DISABLED: u8 = 3;
    if is_administratively_down(port) {
        return ADMINISTRATIVELY_DOWN;
    }
    if node.is_virtual_machine() && !port.hca.is_software() && is_part_of_adapter(node, port) {
        return OF_THE_PLATFORM;
    }
    if let Some(remedy) = reason.and_then(|reason| down_reason::remedy(&reason.reason)) {
        return remedy;
    }
    // The drivers of Ethernet ports report Disabled for every port without a link.
    let is_switched_off =
        port.is_infiniband() && port.phys_state.known().is_some_and(|phys| phys.code == DISABLED);
    let any = if is_switched_off {
        SWITCHED_OFF
    } else {
        PORT_DOWN.remedy.any
    };
    let remedy = Remedy {
        any,
        ..PORT_DOWN.remedy
    };
    let host = match port.hca.driver.known().map(String::as_str) {
        Some("hfi1") => "opainfo; systemctl status opafm",
        Some("mlx4_core" | "mlx4_ib" | "mlx5_core" | "mlx5_ib") if port.is_infiniband() => {
            "ibstat DEVICE. Show why the link does not come up: mlxlink -d DEVICE"
        }
        Some("mlx4_core" | "mlx4_ib" | "mlx5_core" | "mlx5_ib") => remedy.host,
        _ if port.is_infiniband() => "ibstat DEVICE; iblinkinfo",
        _ => "ip link show NETDEV; ip link set NETDEV up; ethtool NETDEV",
    };
    Remedy { host, ..remedy }
}

/// Whether a virtual machine was given a virtual function and not the whole adapter: by its number (PCI ID Repository, Mellanox), or because it
/// has no PCIe link.
fn is_part_of_adapter(node: &Node, port: &Port<'_>) -> bool {
    const VIRTUAL_FUNCTIONS: [u16; 9] = [
        0x1002, 0x1004, 0x1012, 0x1014, 0x1016, 0x1018, 0x101a, 0x101c, 0x101e,
    ];
    let Some((_, pci)) = node.link_of(port.hca) else {
        return true;
    };
    let is_numbered = pci.vendor.known() == Some(&0x15b3)
        && pci
            .device
            .known()
            .is_some_and(|device| VIRTUAL_FUNCTIONS.contains(device));
    is_numbered || pci.link.max_width.known().is_none()
}

/// Whether an Ethernet port is down because its network device was not set up, or was set down (no `IFF_UP`).
fn is_administratively_down(port: &Port<'_>) -> bool {
    let netdev = port.netdev.known().filter(|_| port.is_ethernet());
    netdev.is_some_and(|netdev| netdev.admin_up.known() == Some(&false))
}

/// What to do about a port whose link recovers from an error for longer than a moment.
const OF_RECOVERY: Remedy = Remedy {
    any: "The link recovers from an error (InfiniBand: LinkErrorRecovery), which takes milliseconds if its signal is good. If the state stays or comes again, reseat or \
        replace cable and transceiver, and clean the connectors.",
    host: "ibstat DEVICE; perfquery (LinkErrorRecoveryCounter, SymbolErrorCounter); mlxlink -d DEVICE -c -e",
    ..Remedy::all("")
};

/// What to do about a port whose network device is not up.
const ADMINISTRATIVELY_DOWN: Remedy = Remedy {
    any: "The network device is administratively down. Set it up (ip link set NETDEV up), and find out why it is not: the configuration of the network \
        manager does not name it, or a person or program set it down. If it comes up without a link, check the cable and the switch port.",
    openshift: "Check the NodeNetworkConfigurationPolicy and what nmstate reports: oc get nns NODE -o yaml",
    host: "ip link set NETDEV up; ip link show NETDEV; nmcli device show NETDEV; networkctl status NETDEV; ethtool NETDEV",
    ..Remedy::all("")
};

/// What to do about an Ethernet port of an adapter that is made for InfiniBand, too.
const OF_BOTH_KINDS: Remedy = Remedy {
    any: "If the cable leads to an InfiniBand switch, the port is of the wrong link type: set it to InfiniBand, now and for good; if it leads to an \
        Ethernet switch, set NETDEV up. Without a link, check the cable and the switch port.",
    host: "InfiniBand: echo ib > /sys/bus/pci/devices/ADDRESS/MLX4_PORT; mlxconfig -d ADDRESS set LINK_TYPE=1. Ethernet: ip link set NETDEV up; \
        ethtool NETDEV",
    ..Remedy::all("")
};

/// What to do about a port in physical state Disabled.
const SWITCHED_OFF: &str = "The port is switched off (physical state Disabled): by its driver after a fault, by a setting, or on a BlueField \
    by its Arm side. Read the messages of the driver (journalctl -k | grep -e ADDRESS -e NETDEV), and check the cable, the switch port and \
    the network device.";

/// What to do about a port of a virtual machine, whose cable and switch belong to the host or the cloud.
const OF_THE_PLATFORM: Remedy = Remedy {
    any: "The cable and the switch are those of the host of this virtual machine. Read the messages of the driver (journalctl -k | grep -e ADDRESS \
        -e NETDEV). In a cloud, stop and start the machine, which moves it to another host, and report the port to the provider if it \
        stays down. On a host of yours, check the port of the adapter and the settings of the virtual function there (ip link show PF).",
    ..Remedy::all("")
};

/// What to do about a virtual function whose host holds it down.
const OF_THE_HOST: Remedy = Remedy {
    any: "The host holds the port of this virtual function down. In a cloud, stop and start the machine, which moves it to another host, and report the \
        port to the provider if it stays down. On a host of yours, enable the link of the virtual function there: ip link set PF vf N state enable, or \
        with MLNX_OFED echo Follow > /sys/class/infiniband/PF/device/sriov/N/policy. Check that its GUIDs are set there, too (node_guid, \
        port_guid). With Kubernetes on the host, the CNI plugin ib-sriov does so (linkState), and only if its physical port is ACTIVE.",
    ..Remedy::all("")
};
