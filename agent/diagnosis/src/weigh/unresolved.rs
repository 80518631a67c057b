//! An address for which `rdma_cm` found no RDMA device, and why.

use std::collections::BTreeMap;

use rdma_health_node::infiniband::LinkLayer;
use rdma_health_protocol::Errno;

use super::{Case, Scales, layer::layers};
use crate::{
    log::{LINK_LOCAL, leads_nowhere, names_no_address},
    symptom::{Software, Symptom, SymptomKind},
};

/// Whether no device was found on the way to the peer: `RDMA_CM_EVENT_ADDR_ERROR, error -19`. In a pod, that way leads over the pod's own
/// interface. Other calls name the local address.
pub(super) fn is_of_peer(symptom: &Symptom) -> bool {
    symptom.kind == SymptomKind::AddressUnresolved
        && symptom.named.errno == Some(Errno::ENODEV)
        && symptom.text.to_ascii_lowercase().contains("event_addr_error")
}

/// What to do where libfabric or `rdma_cm` finds no address on a port of InfiniBand.
const IPOIB: &str = "Give the port an IP address, on InfiniBand by IPoIB, on each node: modprobe ib_ipoib, ip link set ib0 up, ip addr add ADDRESS/LENGTH dev ib0. \
    rdma_cm and libfabric's provider verbs find a port only by the address of its network device (ip -brief address). Then fi_info -p verbs lists the port. If \
    ibv_devinfo lists no device where the program runs, the job has none: check ls /dev/infiniband.";

/// What to do where a program finds no transport that can listen.
const LISTEN: &str = "The address that the program listens on must be one of this node, or of the pod (ip -brief address; 0.0.0.0 stands for all), and for RDMA one of an interface \
    that rdma link show lists: on InfiniBand one of IPoIB (modprobe ib_ipoib). The connection manager needs /dev/infiniband/rdma_cm (modprobe rdma_ucm), and UCX its module for it: ucx_info -d | grep -i rdmacm. UCX_TLS and \
    UCX_NET_DEVICES in the environment can leave it out.";

/// An address of `rdma_cm` that was not found on ports of InfiniBand, which have one only with IP over InfiniBand.
fn without_ipoib<'a>(case: &'a Case<'_>) -> Option<&'a Symptom> {
    const CALLS: [&str; 5] = [
        "RDMA_CM_EVENT_ADDR_ERROR",
        "rdma_resolve_addr",
        "rdma_bind_addr",
        "rdma_getaddrinfo",
        "fi_getinfo",
    ];
    let is_infiniband = case.logs_infiniband() || layers(case, &LinkLayer::Ethernet) == Some(0);
    let is_call = |symptom: &&Symptom| {
        let is_one = |call: &&str| symptom.text.contains(*call);
        symptom.kind == SymptomKind::AddressUnresolved && CALLS.iter().any(is_one)
    };
    case.symptoms.iter().copied().filter(is_call).find(|symptom| {
        symptom.text.contains("fi_getinfo") || is_infiniband && case.node.hcas().next().is_some()
    })
}

/// Weighs a peer with the address of a bridge that each host has. Returns whether there is one.
fn to_bridge(case: &Case<'_>, scales: &mut Scales) -> bool {
    let none = BTreeMap::new();
    let local = case.log.map_or(&none, |log| &log.local_interfaces);
    let found = case.seen(&[SymptomKind::AddressUnresolved]).find_map(|symptom| {
        let lower = symptom.text.to_ascii_lowercase();
        let (address, interface) = leads_nowhere(&lower, local)?;
        Some((symptom, address.to_owned(), interface.to_owned()))
    });
    let Some((symptom, address, interface)) = found else {
        return false;
    };
    let leads = if interface == LINK_LOCAL {
        format!(
            "{address} is a link-local address, which each host can have for its own services and which no other host reaches."
        )
    } else {
        format!(
            "{address} is the address of {interface}, which connects containers or virtual machines within each host, so a connection to it leads back to the \
            host itself."
        )
    };
    scales.insisted_step = Some(format!(
        "{leads} Let the program use only the interfaces that connect the nodes (ip -brief address): UCX_NET_DEVICES=mlx5_0:1 or an interface such as ib0, NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME, with Open MPI \
        --mca btl_tcp_if_include and oob_tcp_if_include."
    ));
    scales.shows(&symptom.source, format!("{address} as the address of a peer"));
    true
}

/// Weighs the name of a host without an address. Returns whether there is one.
fn unnamed(case: &Case<'_>, scales: &mut Scales) -> bool {
    let found = case
        .seen(&[SymptomKind::AddressUnresolved])
        .find(|symptom| names_no_address(&symptom.text.to_ascii_lowercase()));
    let Some(symptom) = found else {
        return false;
    };
    scales.next_step = Some(
        "A host name in the log has no address where the job runs: getent hosts NAME. Correct DNS or /etc/hosts, or let the program use \
        addresses, of the family (IPv4 or IPv6) that it is set to use. In Kubernetes, the names of pods need a headless service."
            .into(),
    );
    scales.fits(&symptom.source, &symptom.text);
    true
}

/// Weighs what the log shows of the address. Returns whether that decides.
pub(super) fn unresolved(case: &Case<'_>, scales: &mut Scales) -> bool {
    if unnamed(case, scales) || to_bridge(case, scales) {
        return true;
    }
    // Whatever the link layer is, the address is that of an interface without RDMA, or of none.
    let mut on_no_device = false;
    let of_none = case
        .seen(&[SymptomKind::AddressUnresolved])
        .find(|symptom| symptom.named.errno == Some(Errno::ENODEV) && !is_of_peer(symptom));
    if let Some(symptom) = of_none {
        let is_loopback = ["127.0.0.1", "localhost", "[::1]"]
            .iter()
            .any(|name| symptom.text.contains(name));
        if is_loopback {
            scales.next_step = Some(
                "The address is that of the loopback interface, which no RDMA device has. Give the program the address of the RDMA interface, also for a \
                connection within the node: rdma link show, ip -brief address."
                    .into(),
            );
            scales.shows(&symptom.source, &symptom.text);
            return true;
        }
        scales.next_step = Some(
            "The address in the log leads over an interface that is of no RDMA device, where the program runs: ip route get PEER names the interface, rdma \
            link show those of RDMA. Use an address of such an interface on both ends. In a pod, the interface must be in the pod, too: attach it \
            (SR-IOV, host-device or macvlan network), or use hostNetwork: true."
                .into(),
        );
        scales.fits(&symptom.source, &symptom.text);
        on_no_device = true;
    }
    let not_started = case.seen(&[SymptomKind::AddressUnresolved]).find(|symptom| {
        [
            "starting up LNI o2ib",
            "No matching interfaces",
            "an't initialize device",
        ]
        .iter()
        .any(|words| symptom.text.contains(words))
    });
    if let Some(symptom) = not_started {
        scales.insisted_step = Some(
            "LNet found no interface by the name that its options give, networks=\"o2ib(NAME)\" in /etc/modprobe.d or /etc/lnet.conf, or the interface has no \
            address: ip -brief address. Correct the name, load ib_ipoib for an interface of InfiniBand, give it an IPv4 address, and bring it up. Then unload LNet \
            and load it again: lustre_rmmod, modprobe lnet, lnetctl net show."
                .into(),
        );
        scales.shows(&symptom.source, &symptom.text);
        return true;
    }
    let not_there = case.seen(&[SymptomKind::AddressUnresolved]).find(|symptom| {
        ["query intf", "IOC_LIBCFS_GET_NI"]
            .iter()
            .any(|words| symptom.text.contains(words))
    });
    if let Some(symptom) = not_there {
        scales.next_step = Some(
            "The interface that LNet is to use did not exist, or had no address, when LNet started: ip -brief address, lnetctl net show. If it has one now, LNet \
            started too early: order it after what brings the interface up (systemctl edit lnet.service: After=network-online.target), and restart it. Otherwise \
            correct the name in /etc/lnet.conf or the options of the module lnet, and load ib_ipoib for an interface of InfiniBand."
                .into(),
        );
        scales.fits(&symptom.source, &symptom.text);
        return true;
    }
    let not_local = case
        .seen(&[SymptomKind::AddressUnresolved])
        .find(|symptom| symptom.named.errno == Some(Errno::EADDRNOTAVAIL));
    if let Some(symptom) = not_local {
        scales.next_step = Some(
            "The source address that the program binds to is not an address of this host, or of the pod: compare it with ip -brief address. \
            Correct the program's interface or address setting, or restore the address."
                .into(),
        );
        scales.fits(&symptom.source, &symptom.text);
        on_no_device = true;
    }
    let not_heard = case
        .seen(&[SymptomKind::AddressUnresolved])
        .find(|symptom| symptom.named.errno.is_none() && symptom.text.contains(" listen"));
    if let Some(symptom) = not_heard {
        scales.next_step = Some(LISTEN.to_owned());
        scales.fits(&symptom.source, &symptom.text);
        on_no_device = true;
    }
    if let Some(symptom) = without_ipoib(case) {
        scales.next_step = Some(IPOIB.to_owned());
        scales.fits(&symptom.source, &symptom.text);
        return true;
    }
    if case
        .seen(&[SymptomKind::AddressUnresolved])
        .any(|symptom| symptom.software == Some(Software::OpenMpi))
    {
        scales.insisted_step = Some(
            "Use UCX in place of the old openib BTL: mpirun --mca pml ucx --mca btl ^openib (ompi_info | grep ucx shows whether \
            Open MPI has it). With openib, a RoCE port needs an IP address and --mca btl_openib_cpc_include rdmacm."
                .into(),
        );
    }
    on_no_device
}
