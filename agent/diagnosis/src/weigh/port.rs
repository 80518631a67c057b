//! Ports that are down, and links that were lost.

use rdma_health_node::{DeviceEvent, Port, kmsg::EventKind, words::count_of};

use super::{Case, Scales, fabric as tools, network::over_sockets};
use crate::symptom::{Software, Symptom, SymptomKind};

pub(crate) fn port_down(case: &Case<'_>, scales: &mut Scales) {
    const DOWN: [SymptomKind; 2] = [SymptomKind::PortError, SymptomKind::PortNotActive];
    if let Some(symptom) = over_sockets(case) {
        scales.doubts(&symptom.source, "the peer was not reached over TCP");
    }
    if let Some(symptom) = absent_and_down(case) {
        return scales.doubts(&symptom.source, ABSENT);
    }
    if let Some((symptom, port)) = refuted(case) {
        return scales.against(port.file("state"), active_now(symptom));
    }
    // The port may be up again: that it went down is not contradicted by the present state.
    if let Some(symptom) = case.seen(&DOWN).next() {
        let of_pod = is_of_pod(symptom).then_some(OF_POD);
        let of_list = || is_of_list(symptom).then_some(SET_UP);
        scales.next_step = of_pod
            .or_else(|| tools::inactive_step(symptom))
            .or_else(of_list)
            .map(Into::into);
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

/// What to do where a tool lists a port that is down.
const SET_UP: &str = "Set the port up first, if the host has it off (ibstat: Physical state: Disabled): ip link show DEV shows neither UP nor LOWER_UP then; ip link set DEV up, and for InfiniBand ibportstate -D 0 PORT enable. If it is up and has no \
    link (Polling, NO-CARRIER), check the cable, the transceiver and the switch port.";

/// Whether a tool lists the state of a port: `State: Down`, `mlx5_0 port 1 ==> ens1f0np0 (Down)`.
fn is_of_list(symptom: &Symptom) -> bool {
    let text = symptom.text.to_ascii_lowercase();
    text.trim_start().starts_with("state: down") || text.contains("==>") && text.contains("(down)")
}

/// Whether the interface of a port is one that Multus makes in a pod: `mlx5_3 port 1 ==> net1 (Down)`.
fn is_of_pod(symptom: &Symptom) -> bool {
    let Some((_, interface)) = symptom.text.split_once("==> net") else {
        return false;
    };
    let name = interface.split(' ').next().unwrap_or_default();
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit())
}

/// The step for it: the cable is the last that it can be.
const OF_POD: &str = "The port is that of a virtual function in a pod, whose state the physical function on the node sets: ip link show PF lists it (link-state, GUIDs). InfiniBand: give the function a GUID and set linkState: enable (or \
    auto) in the SriovIBNetwork (link_state in the configuration of ib-sriov-cni); the subnet manager must serve virtual ports (opensm: virt_enabled 2). Ethernet: linkState: auto in the SriovNetwork, and ip link set net1 up \
    in the pod. If the physical port is down too, check its cable and switch port.";

/// What a log states of all ports, where each port is ACTIVE now, and the first of these. That a named port was down may be over; that none is
/// active is refuted: the log is older than the facts, or the program cannot use the ports.
pub(super) fn refuted<'a>(case: &Case<'a>) -> Option<(&'a Symptom, Port<'a>)> {
    let is_state = |symptom: &&Symptom| {
        let of_port = matches!(
            symptom.kind,
            SymptomKind::PortNotActive | SymptomKind::PortInitializing
        );
        let states = ["active", "initializ"];
        let text = symptom.text.to_ascii_lowercase();
        // An interface of IPoIB that is not set up is on a port that is ACTIVE.
        of_port
            && states.iter().any(|state| text.contains(state))
            && symptom.line.is_some()
            && symptom.software != Some(Software::Kernel)
            && !text.contains("qdisc")
    };
    let mut stated = case.symptoms.iter().copied().filter(is_state).peekable();
    let first = *stated.peek()?;
    let ports = case.ports();
    let is_active = |port: &Port<'_>| port.is_active() == Some(true) && port.reports_link_state();
    let port = *ports.first()?;
    let is_of_all = stated.all(|symptom| symptom.named.device.is_none());
    (is_of_all && ports.iter().all(is_active)).then_some((first, port))
}

/// What the state of a port says against a line of the log.
pub(super) fn active_now(symptom: &Symptom) -> String {
    format!("4: ACTIVE now, unlike {}", symptom.source)
}

/// Weighs that a program cannot use a port which it calls inactive. Whether the log shows nothing else that a library failed in.
pub(super) fn unusable(case: &Case<'_>, scales: &mut Scales) -> bool {
    let others = [SymptomKind::BackendMissing, SymptomKind::BackendFailed];
    if case.seen(&others).next().is_some() {
        return false;
    }
    let Some((symptom, port)) = refuted(case) else {
        scales.is_excluded = true;
        return true;
    };
    let text = symptom.text.to_ascii_lowercase();
    let step = if text.contains("hfi") || text.contains("psm2") {
        "check that the process may open the adapter (ls -l /dev/hfi1_*), and that libpsm2 is of a release for this kernel. hfi1_control and opainfo show what it should find."
    } else if text.contains("openfabrics") || symptom.software == Some(Software::OpenMpi) {
        "Open MPI 4 leaves InfiniBand to UCX: --mca pml ucx, with an Open MPI that was built with UCX (ompi_info | grep ucx). --mca btl ^openib hides the message."
    } else {
        "run ls -l /dev/infiniband and ibv_devinfo where the job runs, and compare them with the device and port that its settings name."
    };
    scales.next_step = Some(format!(
        "{port} is ACTIVE now. If the log is older, start the job again, and find out what happened to the port at that time: journalctl -k --since TIME. If the message comes again, the program cannot use the port: {step}"
    ));
    scales.fits(port.file("state"), active_now(symptom));
    true
}

/// Why the port that a log names as down may be that of a virtual function.
pub(super) const ABSENT: &str = "the node does not list the device now, and its own ports are ACTIVE: it may be a virtual function in a pod";

/// A port that the log names as down, of a device that this node does not list, while all ports of the node are active.
pub(super) fn absent_and_down<'a>(case: &Case<'a>) -> Option<&'a Symptom> {
    let ports: Vec<_> = case.node.ports().collect();
    let all_active = !ports.is_empty() && ports.iter().all(|port| port.is_active() == Some(true));
    let is_listed = |name: &String| case.node.hcas().any(|hca| hca.name == *name);
    case.symptoms.iter().copied().find(|symptom| {
        symptom.kind == SymptomKind::PortNotActive
            && all_active
            && symptom.named.device.as_ref().is_some_and(|name| !is_listed(name))
    })
}

/// When a link that goes down belongs to the start of the node, in seconds after boot.
const START: u64 = 600;
/// From how many losses on a link counts as unstable.
pub(super) const MANY_LOSSES: u64 = 3;

/// The links of the devices to consider that went down while the node ran, in the kernel log.
pub(super) fn link_losses<'a>(case: &Case<'a>) -> Vec<DeviceEvent<'a>> {
    let mut losses = case.events(&[EventKind::LinkDown]);
    losses.retain(|link| link.event.last.is_none_or(|last| last >= START));
    losses
}

pub(super) fn losses_in_words(link: &DeviceEvent<'_>) -> String {
    format!(
        "{}, {} in all",
        link.event.message,
        count_of(link.event.count, "such message")
    )
}
