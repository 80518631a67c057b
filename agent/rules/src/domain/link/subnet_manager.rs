//! InfiniBand ports that wait for a subnet manager, or have lost it.

use std::collections::BTreeMap;

use rdma_health_node::{Node, Port, infiniband::PortCode, words::count};

use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Severity, Subject, Writer, draft::Draft,
    policy::Exception,
};

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

/// A port that is addressed and not yet active.
const ARMED: u8 = 3;

/// Whether an InfiniBand port waits for a subnet manager: INIT or ARMED with its link up.
pub(super) fn awaits_subnet_manager(port: &Port<'_>) -> bool {
    const INIT: u8 = 2;
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
        let elsewhere = managed_elsewhere(node, &port);
        let lost = port.is_infiniband() && state.code == PortCode::ACTIVE && port.sm_lid.known() == Some(&0);
        let (message, file, value, exception) = if awaits_subnet_manager(&port) {
            let what = match (&elsewhere, state.code) {
                (Some((lid, active)), _) => format!(
                    "the subnet manager has not finished with it; it configured {} (its LID is {lid})",
                    count(*active, "other port")
                ),
                (None, ARMED) => "a subnet manager began to configure it and did not activate it".to_owned(),
                (None, _) => "no subnet manager configured it".to_owned(),
            };
            let message = format!("{subject} is {} although its link is up: {what}", state.name);
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
                } else if elsewhere.is_some() {
                    ONE_PORT
                } else {
                    NO_SUBNET_MANAGER.remedy
                })
                .evidence(port.file(file), value),
        )
    });
    found.collect()
}

/// The LID of the subnet manager of most other ports of this node in hardware, and how many it made ACTIVE.
fn managed_elsewhere(node: &Node, port: &Port<'_>) -> Option<(u16, usize)> {
    let mut managed: BTreeMap<u16, usize> = BTreeMap::new();
    let others = node.active_ports().filter(|other| {
        !other.is(port) && other.is_infiniband() && !other.hca.is_software() && !node.controls_nvswitch(other)
    });
    for other in others {
        if let Some(lid) = other.sm_lid.known().filter(|lid| **lid != 0) {
            *managed.entry(u16::try_from(*lid).ok()?).or_default() += 1;
        }
    }
    managed.into_iter().max_by_key(|(_, ports)| *ports)
}

/// What to do about one port, where other ports of the node have a subnet manager.
const ONE_PORT: Remedy = Remedy {
    any: "A subnet manager runs for other ports of this node: do not start a second one, but look for the GUID of this port in its log (a \
        duplicate GUID, or one that is missing in a partition or in a list of allowed GUIDs). Check with iblinkinfo that the cable leads to the \
        right fabric and switch port, then pull and plug it.",
    host: "sminfo; ibstat DEVICE; cat /sys/class/infiniband/DEVICE/ports/1/gids/0; on the node with the manager: grep GUID /var/log/opensm.log",
    ..Remedy::all("")
};

/// What to do on Omni-Path, which has its own subnet manager.
const OMNI_PATH: Remedy = Remedy {
    any: "Start the Omni-Path Fabric Manager (opafm) on one node, or look for the GUID of the port in its log.",
    host: "opainfo; systemctl status opafm",
    ..Remedy::all("")
};

/// What to do in a virtual machine, whose fabric the host or the cloud provider manages.
const OF_A_GUEST: Remedy = Remedy {
    any: "The subnet manager runs outside of this virtual machine. On a host of yours, enable virtual functions in it (opensm: virt_enabled 2 in \
        opensm.conf) and give this one a GUID on the host before the machine starts: ip link set PF vf N node_guid GUID, and the same with \
        port_guid. In a cloud, redeploy the instance, or report the GUID of the port to the provider.",
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
