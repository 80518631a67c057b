//! The network between nodes: peers that do not answer, paths, addresses and the MTU.

use std::collections::BTreeSet;

use rdma_health_node::{Fact, Port, infiniband::LinkLayer};
use rdma_health_protocol::WcStatus;

use super::{
    Case, Scales, fabric as tools,
    layer::{is_infiniband, only},
    only_probed,
    port::{MANY_LOSSES, link_losses, losses_in_words},
    probes_passed, transceiver,
    unresolved::unresolved,
};
use crate::log::is_of_socket;
use crate::symptom::{Software, Symptom, SymptomKind, Transition};

/// What to do about a peer on InfiniBand that does not answer.
const ON_INFINIBAND: &str = "Run rdma-health check on the peer, then ib_write_bw between the two nodes over the same devices (-d DEVICE -i PORT). If it fails, too, look at the path \
    through the fabric: iblinkinfo and ibqueryerrors show links that are down or count errors, ibtracert LID LID the way from one port to the other.";

/// What to do where NCCL reaches its peer over TCP neither for its bootstrap nor for data.
const SOCKETS: &str = "This is a TCP connection of NCCL, for its bootstrap or for data where it does not use RDMA (NET/Socket). Compare the interface after \
    Bootstrap : Using in the logs of all ranks: an address that every node has, such as 172.17.0.1 of docker0, leads to the wrong node. Set NCCL_SOCKET_IFNAME \
    to an interface whose network connects all nodes (ip -brief address), then check ping PEER and the firewalls and NetworkPolicies between \
    the nodes, which must let all TCP ports pass.";

/// A TCP connection of NCCL that reaches no peer, if it is the only kind that does not.
pub(super) fn over_sockets<'a>(case: &Case<'a>) -> Option<&'a Symptom> {
    const KINDS: [SymptomKind; 4] = [
        SymptomKind::PeerUnreachable,
        SymptomKind::ConnectTimedOut,
        SymptomKind::Completion(WcStatus::RetryExcErr),
        SymptomKind::Completion(WcStatus::RespTimeoutErr),
    ];
    let is_of_socket = |symptom: &Symptom| is_of_socket(&symptom.text.to_ascii_lowercase());
    let mut unreached = case
        .symptoms
        .iter()
        .copied()
        .filter(|symptom| KINDS.contains(&symptom.kind));
    let first = unreached.next().filter(|symptom| is_of_socket(symptom))?;
    unreached.all(is_of_socket).then_some(first)
}

/// What to do where a program posts more than its queue has room for, and nothing else failed before.
const QUEUE_FULL: &str = "The send queue is full: the program posts requests faster than they complete, or does not poll for their completions. This is not the memlock limit. Let it keep fewer requests \
    under way, or make the queue deeper (the depth of the program's queue pairs, max_send_wr, at most max_qp_wr of ibv_devinfo -v). If requests stay in the queue, the peer does not answer: read its \
    log of this time, and run rdma-health check there.";

/// Whether all that a log shows is that queues are full.
fn is_only_full(case: &Case<'_>) -> bool {
    let mut others = case.symptoms.iter();
    case.seen(&[SymptomKind::QueueFull]).next().is_some()
        && others.all(|symptom| symptom.kind == SymptomKind::QueueFull)
}

/// UCX makes no endpoint for a peer.
const UNSELECTED: &str = "UCX chooses the transports to a peer by what both ends offer, and found none: nothing was sent. Compare UCX_TLS and UCX_NET_DEVICES (env | grep UCX_ on both nodes, and the \
    command), unset both for a test, and see that ucx_info -d lists the same transports and active ports on both nodes and that both run the same UCX. UCX_LOG_LEVEL=info \
    prints why each transport is left out.";

/// An EFA made no address handle for a peer.
const OTHER_ZONE: &str = "The EFA does not reach the address of the peer: compare the two GIDs in the message. EFA works within one availability zone and VPC: start all instances of the job in one (a placement \
    group keeps them there), in one security group that permits all traffic between its members. If the GID is this instance's own, check that its security group permits traffic to itself, and update the EFA \
    installer.";

/// Whether `rdma_cm` looked up the address of a peer, and no one answered: `RDMA_CM_EVENT_ADDR_ERROR, error -110`.
fn unfound(symptom: &Symptom) -> bool {
    const EVENTS: [&str; 4] = [
        "event_addr_error",
        "address error",
        "cma event 1,",
        "event 1 status",
    ];
    let text = symptom.text.to_ascii_lowercase();
    EVENTS.iter().any(|event| text.contains(event))
}

pub(crate) fn fabric(case: &Case<'_>, scales: &mut Scales) {
    if is_only_full(case) {
        scales.insisted_step = Some(QUEUE_FULL.to_owned());
    }
    if over_sockets(case).is_some() {
        scales.insisted_step = Some(SOCKETS.to_owned());
    }
    let is_unselected = |symptom: &&Symptom| {
        let of_start = ["ucp_ep_create", "address_exchange", "ucx_init.c"]
            .iter()
            .any(|words| symptom.text.contains(words));
        of_start && symptom.text.contains("estination is unreachable")
    };
    if let Some(symptom) = case.seen(&[SymptomKind::PeerUnreachable]).find(is_unselected) {
        scales.insisted_step = Some(UNSELECTED.to_owned());
        scales.doubts(
            &symptom.source,
            "UCX found no transport to the peer, before it sent anything",
        );
    }
    let of_zone = |symptom: &&Symptom| symptom.text.to_ascii_lowercase().contains("create_ah");
    if let Some(symptom) = case.seen(&[SymptomKind::PeerUnreachable]).find(of_zone) {
        scales.insisted_step = Some(OTHER_ZONE.to_owned());
        scales.fits(&symptom.source, &symptom.text);
    }
    if let Some(symptom) = case
        .seen(&[SymptomKind::PeerUnreachable])
        .find(|symptom| unfound(symptom))
    {
        scales.insisted_step = Some(unresolved_step(case));
        scales.fits(&symptom.source, &symptom.text);
    }
    if let Some(step) = tools::unanswered(case) {
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
    // A program at the peer refuses; a service that is not there has another status.
    if let Some(symptom) = case.seen(&[SymptomKind::ConnectRefused]).find(|symptom| {
        let text = symptom.text.to_ascii_lowercase();
        text.contains("status 28") || text.contains("consumer defined")
    }) {
        scales.doubts(
            &symptom.source,
            "the program at the peer refused the connection, so the network works",
        );
    }
    let named: BTreeSet<_> = case
        .symptoms
        .iter()
        .filter_map(|symptom| symptom.named.peer.as_deref())
        .collect();
    let peers: Vec<_> = named.into_iter().take(3).collect();
    if is_infiniband(case) {
        scales.next_step.get_or_insert_with(|| ON_INFINIBAND.to_owned());
    }
    if peers.is_empty() {
        scales.next_step.get_or_insert_with(|| {
            "Run rdma-health check on the peer (another node of the job, the server or the target), then ib_write_bw between the two nodes over the same devices and GID index.".into()
        });
        scales.unseen("the other node and the network to it");
    } else {
        scales.unseen(format!(
            "the other node ({}) and the network to it",
            peers.join(", ")
        ));
    }
}

/// What to do about a bandwidth far below the rate of the port, if the facts of this node do not show why.
const MEASURED: &str = "Measure again with messages of 1 MiB and several queue pairs: ib_write_bw -q 4 -s 1048576 --report_gbits. If that is fast, one processor limits the test. If not, compare both \
    nodes: the PCIe link (lspci -vv: LnkSta), the MTU of network devices and switch ports, IOMMU and ACS (rdma-health check on both), and the counters of lost packets (rdma statistic). A cable that was \
    plugged into the running machine can leave the link slow: restart the machine with it.";

pub(crate) fn link_quality(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = case.seen(&[SymptomKind::ModuleFault]).next() {
        scales.next_step = Some(transceiver::step(&symptom.text).to_owned());
        scales.fits(&symptom.source, &symptom.text);
    } else if case.seen(&[SymptomKind::LinkDegraded]).next().is_some() {
        scales.next_step = Some(tools::COUNTERS.to_owned());
    } else if let Some(symptom) = case.seen(&[SymptomKind::PortError]).next() {
        // A link that is lost again and again came back in between.
        if symptom.line.is_some() && symptom.count > 1 && symptom.software != Some(Software::Kernel) {
            scales.shows(
                &symptom.source,
                format!("{}, {} times", symptom.text, symptom.count),
            );
        } else {
            scales.fits(&symptom.source, &symptom.text);
        }
    }
    let of_perftest = |symptom: &&Symptom| symptom.software == Some(Software::Perftest);
    if case
        .seen(&[SymptomKind::BandwidthLow])
        .any(|symptom| of_perftest(&symptom))
    {
        scales.next_step = Some(MEASURED.to_owned());
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

/// What to do where no one answers the lookup of a peer's MAC address.
fn unresolved_step(case: &Case<'_>) -> String {
    let mut step = "Run ip route get PEER from LOCAL and ping -I NETDEV PEER with the addresses of the two GIDs: to connect over RoCE, the kernel looks up the MAC \
        address of the peer, and no one answered (ip neigh show dev NETDEV: FAILED or INCOMPLETE). If there is no route, give both ends one subnet; if ping gets no \
        answer, check the peer's port, VLAN and address."
        .to_owned();
    let is_nccl = |symptom: &&Symptom| symptom.software == Some(Software::Nccl);
    if case.symptoms.iter().any(is_nccl) {
        step.push_str(
            " If each rail is a network for itself, NCCL must not connect different rails: NCCL_CROSS_NIC=0.",
        );
    }
    step
}

/// What to do where PSM3 took interfaces of different subnets.
const PSM3: &str = "This is PSM3, a provider of libfabric, which connects only interfaces of one subnet. Where the node has no RDMA adapter for it (a virtual machine, plain Ethernet), take it out: \
    FI_PROVIDER=^psm3 or FI_PROVIDER=tcp, with Open MPI --mca mtl ^ofi --mca btl tcp,self. Where the ranks should use RDMA, name the adapter of the common subnet on all nodes: PSM3_NIC. \
    With a mask of /32, each node is in another subnet (ip -brief address).";

/// An adapter without RDMA shares the subnet of an RDMA network device.
fn shared_subnet(case: &Case<'_>, scales: &mut Scales) {
    const STEP: &str = "Give the RDMA network device a separate subnet, which no adapter without RDMA of the node has (ip -brief address). Until then, ip route get PEER \
        names the device by which connections leave, and net.ipv4.conf.all.arp_ignore=1 with net.ipv4.conf.all.arp_announce=2 keeps the other adapter from answering for it.";
    let network = &case.node.network;
    let Some(other) = network.others.first().filter(|_| !case.logs_infiniband()) else {
        return;
    };
    let is_answered = |arp: &Fact<u32>| arp.known() == Some(&0);
    let is_wrong = is_answered(&network.all.arp_ignore)
        && network
            .netdevs
            .values()
            .any(|netdev| is_answered(&netdev.arp.arp_ignore));
    if is_wrong {
        let what = format!(
            "{}, without RDMA, is in the subnet {}/{} of an RDMA network device",
            other.netdev, other.address, other.prefix
        );
        scales.fits(&network.source, what);
        scales.next_step = Some(STEP.to_owned());
    }
}

pub(crate) fn addressing(case: &Case<'_>, scales: &mut Scales) {
    // A refusal came back from where the request went: the right place, unless the node shows another one.
    let is_refusal = |symptom: &&Symptom| symptom.kind == SymptomKind::ConnectRefused;
    let others = [
        SymptomKind::ConnectUnreachable,
        SymptomKind::ConnectTimedOut,
        SymptomKind::AddressUnresolved,
        SymptomKind::AddressInUse,
        SymptomKind::RouteUnresolved,
        SymptomKind::GidChanged,
        SymptomKind::DefaultSubnetPrefix,
        SymptomKind::Completion(WcStatus::RetryExcErr),
        SymptomKind::NoSocketInterface,
        SymptomKind::PeerUnreachable,
        SymptomKind::ConnectFailed,
    ];
    shared_subnet(case, scales);
    if case.symptoms.iter().copied().any(|symptom| is_refusal(&symptom))
        && case.seen(&others).next().is_none()
    {
        scales.score -= 1;
        return;
    }
    if let Some(symptom) = case
        .symptoms
        .iter()
        .find(|s| s.kind == SymptomKind::ConnectUnreachable)
    {
        scales.fits(&symptom.source, &symptom.text);
    }
    let of_psm3 = case
        .seen(&[SymptomKind::ConnectUnreachable])
        .find(|symptom| symptom.text.contains("on a different subnet"));
    if let Some(symptom) = of_psm3 {
        scales.insisted_step = Some(PSM3.to_owned());
        return scales.fits(&symptom.source, &symptom.text);
    }
    if let Some(symptom) = case.seen(&[SymptomKind::AddressInUse]).next() {
        let is_of_hccl = ["EJ0003", "Hccl", "hccl"]
            .iter()
            .any(|name| symptom.text.contains(name));
        scales.insisted_step = Some(if is_of_hccl {
            "Another program on this node uses the port on which HCCL listens, often an earlier job: ss -ltnp shows which. End it, or give this job other ports: \
            HCCL_IF_BASE_PORT, HCCL_NPU_SOCKET_PORT_RANGE."
                .into()
        } else {
            "Another socket or rdma_cm identifier uses the local address and port: rdma resource show cm_id, ss -ltnp. Stop it, give this program \
            another port to listen on, or let it choose a free source port: unset its source address or port (NVMe over Fabrics: host_traddr, host_trsvcid)."
                .into()
        });
        return scales.fits(&symptom.source, &symptom.text);
    }
    if let Some(symptom) = case.seen(&[SymptomKind::DefaultSubnetPrefix]).next() {
        scales.insisted_step = Some(
            "If the ports are on one InfiniBand fabric, nothing is wrong: --mca btl_openib_warn_default_gid_prefix 0 hides the message. If they are on \
            separate fabrics, give each its own prefix in its subnet manager (opensm.conf: subnet_prefix), because Open MPI takes ports with the same prefix for \
            connected."
                .into(),
        );
        return scales.fits(&symptom.source, &symptom.text);
    }
    let without_address = case.seen(&[SymptomKind::AddressUnresolved]).find(|symptom| {
        let text = symptom.text.to_ascii_lowercase();
        text.contains("has no ipv4") || text.contains("has no ip address")
    });
    if let Some(symptom) = without_address {
        let netdev = symptom.named.device.as_deref().unwrap_or("NETDEV");
        scales.insisted_step = Some(format!(
            "Give the interface an IPv4 address: ip -brief address show {netdev}, then ip address add ADDRESS/PREFIX dev {netdev} (nmcli, netplan or the network's \
            own configuration keeps it), and ip link set {netdev} up. On InfiniBand it needs the module ib_ipoib and an active port."
        ));
        return scales.shows(&symptom.source, &symptom.text);
    }
    // In this transition the kernel looks up the hardware address of the peer (`ib_modify_qp` resolves the destination MAC address).
    let unanswered = case
        .seen(&[SymptomKind::ConnectTimedOut])
        .find(|symptom| {
            let text = symptom.text.to_ascii_lowercase();
            let makes_handle = ["create_ah", "address handle"]
                .iter()
                .any(|call| text.contains(call));
            // In the other transitions nothing is looked up.
            let moves = symptom.named.transition.is_none() && text.contains("modify_qp");
            symptom.named.transition == Some(Transition::Rtr) || makes_handle || moves
        })
        // On InfiniBand nothing is looked up there, either, and a link-local GID has the hardware address in it.
        .filter(|_| !case.logs_infiniband() && case.log.is_none_or(|log| log.link_local.is_none()));
    if let Some(symptom) = unanswered {
        scales.next_step = Some(unresolved_step(case));
        scales.fits(&symptom.source, &symptom.text);
    }
    if let Some(zero) = tools::without_guid(case) {
        return scales.doubts(
            format!("log line {}", zero.line),
            "a device without a GUID is not found by its address, either",
        );
    }
    if unresolved(case, scales) {
        return;
    }
    only(case, scales, &LinkLayer::Ethernet);
    if scales.contradicts.is_empty() {
        scales.unseen("routes and rules for the peer's address (ip route get)");
    }
}

/// The port of a device that symptoms name whose network device has a lower MTU than that of a port of its kind: the port, its network device and MTU, and the other
/// network device with its MTU. Small messages pass, and large ones are lost if the peer has the larger MTU.
fn below_twin<'a>(case: &Case<'a>) -> Option<(Port<'a>, &'a str, u32, &'a str, u32)> {
    let mtu = |port: &Port<'a>| {
        let netdev = port.kernel.netdev.known().filter(|_| port.is_ethernet())?;
        Some((netdev.name.as_str(), *netdev.mtu.known()?))
    };
    let named = case.named();
    let node = case.node;
    let own = named
        .into_iter()
        .flat_map(|hca| node.ports_of(hca).collect::<Vec<_>>());
    let mut own = own.filter(|port| port.is_active() == Some(true));
    own.find_map(|port| {
        let (netdev, value) = mtu(&port)?;
        let twins = node
            .active_ports()
            .filter(|other| port.kind().is_some() && other.kind() == port.kind());
        let (best, other) = twins
            .filter_map(|other| mtu(&other))
            .map(|(name, mtu)| (mtu, name))
            .max()?;
        (value < best).then_some((port, netdev, value, other, best))
    })
}

pub(crate) fn mtu(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = only_probed(case).filter(|_| !scales.supported()) {
        return scales.against(
            &symptom.source,
            "both ends of a loopback have the same MTU, and it is not low",
        );
    }
    if let Some((port, netdev, own, other, best)) = below_twin(case) {
        scales.next_step = Some(format!(
            "Set the MTU of {netdev} to that of the other network devices of the node: ip link set {netdev} mtu {best}; then in the configuration of the network manager, so that it survives \
            a restart. The peer and the switch ports need the same. Reconnect the job afterwards, and test the path with full packets: ping -M do -s {} PEER.",
            best.saturating_sub(28)
        ));
        // The ports may lead into different networks.
        scales.fits(
            format!("/sys/class/net/{netdev}/mtu"),
            format!("{own} bytes at {port}, {best} bytes at {other}"),
        );
    }
    if case.logs_infiniband() {
        scales.next_step = Some(
            "Compare link layer, active MTU, LID and subnet prefix of the two devices that are to be connected: ibv_devinfo -v on both nodes. Only \
            ports of one fabric can be connected; restrict the job to pairs of them."
                .into(),
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
    // NCCL posts its own buffers, so that the request is not wrong because of the application.
    let of_nccl = case
        .seen(&[SymptomKind::Completion(WcStatus::RemInvReqErr)])
        .any(|symptom| symptom.software == Some(Software::Nccl));
    if of_nccl && case.seen(&[SymptomKind::QueueAccess]).next().is_some() {
        scales.fits(
            "log",
            "one end refuses a request of NCCL, and the other counts an access violation: different path MTUs, or different versions of NCCL",
        );
        scales.next_step = Some(
            "Compare the two nodes: active_mtu of both devices (ibv_devinfo) and the MTU of their network devices and switch ports, then the versions of NCCL \
            and of its plugins and all NCCL_ variables. Make them the same on all nodes. A ping with full packets shows the MTU of the path: ping -M do -s 4100 PEER."
                .into(),
        );
    }
    scales.unseen("MTU of the peer and of the switches");
}
