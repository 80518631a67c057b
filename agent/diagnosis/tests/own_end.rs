//! What fails at this end before any peer is involved: an address in use or of no interface, a port that tools of the fabric cannot open, a card
//! without a driver, a component that is not installed. And what a program printed that another one passes on.

#![allow(clippy::unwrap_used, missing_docs)]
#![allow(clippy::disallowed_methods)] // tests read trees; only rules and causes do no I/O

mod common;
#[path = "common/healthy.rs"]
mod healthy;

use common::{each_is, first, kinds, read};
use healthy::{causes, of};
use rdma_health_diagnosis::symptom::{Grade, SymptomKind as K};
use rdma_health_tests::tree::Tree;

#[test]
fn an_address_in_use_is_named_whatever_the_program() {
    for line in [
        "n1:1:2 [0] NCCL WARN Call to bind failed : Address already in use",
        "rdma server: bind() failed: Address already in use",
        "rdma transport: listen on 10.0.0.1:4420 failed: Address already in use (98)",
        "E1223 10:11:12.123456 12 rdma_acceptor.cc:88] Failed to listen on rdma port 8000: EADDRINUSE",
        "[1672755474.7] [n1:26239:0] sock.c:455  UCX  ERROR bind(fd=17 addr=0.0.0.0:10001) failed: Address already in use",
        "[1672755474.7] [n1:26239:0] ucp_listener.c:194  UCX  ERROR failed to create UCT listener on CM 0x5608 (component tcp) with address \
         0.0.0.0:10001 status Device is busy",
        "failed to listen (Device is busy)",
    ] {
        assert_eq!(kinds(line), [K::AddressInUse], "{line}");
        let (cause, step) = first(line);
        assert_eq!(cause, "addressing", "{line}");
        assert!(step.contains("another port to listen on"), "{step}");
    }
    let debug = "[1672755474.7] [n1:26239:0] sock.c:455  UCX  DEBUG bind(fd=17 addr=0.0.0.0:10001) failed: Address already in use";
    assert_eq!(kinds(debug), []);
    let sent = "[1672755474.7] [n1:26239:0] tcp_ep.c:1260 UCX  ERROR tcp_ep 0x3c: send(110) failed: Input/output error";
    assert_eq!(kinds(sent), [K::TcpError]);
    let other = "uvicorn: [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use";
    assert_eq!(kinds(other), [K::Unrecognised], "it failed, and not of RDMA");
}

#[test]
fn a_failure_to_listen_is_not_one_of_the_peer() {
    each_is(&[
        (
            "failed to listen (Destination is unreachable)\n",
            "addressing",
            "0.0.0.0 stands for all",
        ),
        (
            "ucp_listener.c:263  UCX  ERROR none of the available transports can listen for connections on 0.0.0.0:6452\n",
            "addressing",
            "/dev/infiniband/rdma_cm",
        ),
        (
            "[ERROR] rdma listener: cannot assign requested address 10.0.0.9:7471\n",
            "addressing",
            "ip -brief address",
        ),
        // Who connects has a peer.
        (
            "client.c:7  UCX  ERROR failed to connect: Destination is unreachable\n",
            "fabric-or-peer",
            "peer",
        ),
    ]);
}

#[test]
fn an_address_of_no_interface_is_named_on_infiniband_too() {
    let mut tree = Tree::fixture("infiniband-ndr").unwrap();
    let layers = tree.entries().map(|(path, _)| path.to_owned());
    let layers: Vec<_> = layers.filter(|path| path.ends_with("/link_layer")).collect();
    for path in layers {
        tree.write(&path, "InfiniBand\n").unwrap();
    }
    let node = of(&tree);
    for line in [
        "[ERROR] rdma listener: cannot assign requested address 10.0.0.9:7471",
        "failed to listen (Destination is unreachable)",
    ] {
        let causes = causes(&node, line);
        assert_eq!(causes.first().map(|cause| cause.id), Some("addressing"), "{line}");
    }
}

#[test]
fn what_another_program_passes_on_has_its_own_level() {
    for (line, expected) in [
        (
            "2020-09-20 12:29:14,732 process          L0416 DEBUG| [stderr] cma event RDMA_CM_EVENT_UNREACHABLE, error -110",
            K::PeerUnreachable,
        ),
        (
            "time=\"2026-01-01T00:00:00Z\" level=info msg=\"stderr: ibv_create_qp failed: Cannot allocate memory\"",
            K::CreateFailed,
        ),
        (
            "[2026-01-01T10:00:00.000+0000] {subprocess.py:93} INFO - ibv_open_device failed: Permission denied",
            K::OpenFailed,
        ),
    ] {
        assert_eq!(kinds(line), [expected], "{line}");
    }
    for line in [
        "2026-01-01 12:29:14 runner DEBUG| [stdout] ping data: rdma-ping-0: ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        "2026-01-01 12:29:14 INFO rdma agent: mystderr: ibv_reg_mr failed once, registered again",
        "2026-01-01 12:29:14 DEBUG rdma agent: ibv_reg_mr failed once, registered again",
    ] {
        assert_eq!(kinds(line), [], "{line}");
    }
    // Its own program informs. Alone in a log it is shown, and it is not known whether it matters.
    let informs = "2026-01-01 12:29:14 runner DEBUG| [stderr] n1:1:2 [0] NCCL INFO NET/IB : ibv_reg_mr failed: Cannot allocate memory";
    let grades: Vec<_> = read(informs)
        .symptoms
        .iter()
        .map(|symptom| symptom.grade)
        .collect();
    assert_eq!(grades, [Grade::Unrecognised]);
}

#[test]
fn the_last_attempt_counts() {
    let attempt = |count: u8| {
        format!(
            "E tensorflow/contrib/verbs/rdma_mgr.cc:119] Connecting to /job:worker/replica:0/task:0: Got OS Error. Retrying ({count}/5)..."
        )
    };
    let (cause, _) = first(&attempt(5));
    assert_eq!(cause, "no-listener");
    assert_eq!(
        kinds("[rdma] connect to 10.0.0.2:1234 failed, attempt 10 of 10"),
        [K::ExchangeFailed]
    );
    for line in [
        attempt(4),
        "E0101 sync.cc:9] Connecting to the database: Got OS Error. Retrying (5/5)...".into(),
        "E rdma: connection 5/5 failed, retry later".into(),
    ] {
        assert!(!kinds(&line).contains(&K::ExchangeFailed), "{line}");
    }
}

#[test]
fn an_address_handle_is_a_part_of_a_connection() {
    for line in [
        "  what():  Failed to create self AH.",
        "Failed to create ah for peer 3",
        "RuntimeError: failed to create address handle",
    ] {
        assert_eq!(kinds(line), [K::ConnectFailed], "{line}");
    }
    for line in [
        "failed to create the policy: ah sha256",
        "oh ah, that failed",
        "Failed to destroy AH of qp 7",
    ] {
        assert!(!kinds(line).contains(&K::ConnectFailed), "{line}");
    }
}

#[test]
fn a_port_that_tools_of_the_fabric_cannot_open_is_one_of_this_node() {
    each_is(&[
        (
            "saquery: iberror: failed: Failed to bind to the SA\n",
            "rdma-modules",
            "modprobe ib_umad",
        ),
        (
            "smpquery: iberror: failed: Failed to open port 'mlx5_0:1'\n",
            "rdma-modules",
            "which only root may open",
        ),
    ]);
    let asked = "smpquery: iberror: failed: operation NodeInfo: smp query nodeinfo failed\n";
    assert_eq!(kinds(asked), [K::PeerUnreachable]);
}

#[test]
fn a_card_without_a_driver_is_named_and_those_of_others_are_left_out() {
    let card = |driver: &str, product: &str| {
        format!(
            "  *-network:3{driver}\n       description: Ethernet controller\n       product: {product}\n       bus info: pci@0000:03:00.0\n"
        )
    };
    let listed = |driver: &str| {
        format!(
            "17:00.0 Infiniband controller [0207]: Mellanox Technologies MT2910 Family [ConnectX-7] [15b3:1021]\n\tSubsystem: Mellanox Technologies \
             [15b3:0041]\n{driver}\tKernel modules: mlx5_core\n"
        )
    };
    for text in [card(" UNCLAIMED", "MT26448 [ConnectX EN 10GigE]"), listed("")] {
        let (cause, step) = first(&text);
        assert_eq!(cause, "rdma-modules", "{text}");
        assert!(
            step.contains("lspci -nnk") && step.contains("mlx5_core"),
            "{step}"
        );
    }
    for text in [
        card("", "MT26448 [ConnectX EN 10GigE]"),
        card(" UNCLAIMED", "Wireless 8265 / 8275"),
        listed("\tKernel driver in use: mlx5_core\n"),
        listed("\tKernel driver in use: vfio-pci\n"),
    ] {
        assert_eq!(kinds(&text), [], "{text}");
    }
}

#[test]
fn a_component_that_is_not_installed_is_named_if_it_is_one_of_rdma() {
    let help = |before: &str, framework: &str, component: &str| {
        let rule = "-".repeat(74);
        [
            rule.as_str(),
            "A requested component was not found, or was unable to be opened.  This",
            "means that this component is either not installed or is unable to be",
            "used on your system (e.g., sometimes this means that shared libraries",
            "that the component requires are unable to be found/loaded).  Note that",
            "Open MPI stopped checking at the first component that it did not find.",
            "",
            "Host:      n2",
            &format!("Framework: {framework}"),
            &format!("Component: {component}"),
            rule.as_str(),
        ]
        .map(|line| format!("{before}{line}\n"))
        .concat()
    };
    for before in ["", "[1,0]<stderr>:"] {
        for (framework, component) in [("btl", "openib"), ("pml", "ucx"), ("mtl", "psm2")] {
            let text = help(before, framework, component);
            let (cause, step) = first(&text);
            assert_eq!(cause, "communication-library", "{text}");
            assert!(step.contains("ompi_info"), "{step}");
        }
    }
    let other = read(&help("", "plm", "tm"));
    assert!(
        other
            .symptoms
            .iter()
            .all(|symptom| symptom.grade <= Grade::Unrecognised),
        "{:?}",
        other.symptoms
    );
}
