//! The log and the node together: which device is meant, what the node refutes, and what has nothing to do with the failure.

#![allow(clippy::unwrap_used, missing_docs)]
#![allow(clippy::disallowed_methods)] // tests read trees; only rules and causes do no I/O

mod common;
#[path = "common/healthy.rs"]
mod healthy;

use common::read;
use healthy::of;
use rdma_health_diagnosis::{Confidence, Diagnosis, diagnose};
use rdma_health_node::Node;
use rdma_health_rules::{Expectations, Status, judge};
use rdma_health_tests::tree::{Entry, Tree};

const RETRY: &str = "NCCL WARN NET/IB : Got completion from peer 10.0.0.3<44206> with status=12 opcode=129 len=65536 vendor err 129 (Recv)";

/// The healthy node of the fixtures, changed.
fn node(change: impl FnOnce(&mut Tree)) -> Node {
    let mut tree = Tree::fixture("h100-connectx7").unwrap();
    change(&mut tree);
    of(&tree)
}

/// The port of `mlx5_3` has no link.
fn down(tree: &mut Tree) {
    for (file, state) in [("state", "1: DOWN\n"), ("phys_state", "2: Polling\n")] {
        let path = tree.path(&format!("mlx5_3/ports/1/{file}"));
        tree.write(&path, state).unwrap();
    }
}

fn diagnosis(node: &Node, log: &str) -> Diagnosis {
    let findings = judge(node, &Expectations::default()).findings;
    diagnose(node, &findings, Some(&read(log)))
}

fn ids(diagnosis: &Diagnosis) -> Vec<&'static str> {
    let causes = diagnosis.causes.iter();
    causes
        .filter(|cause| cause.confidence > Confidence::Unlikely)
        .map(|cause| cause.id)
        .collect()
}

/// What speaks against a cause.
fn against(diagnosis: &Diagnosis, id: &str) -> String {
    let cause = diagnosis.causes.iter().find(|cause| cause.id == id).unwrap();
    let values = cause
        .contradicts
        .iter()
        .map(|evidence| format!("{}: {}", evidence.source, evidence.value));
    values.collect::<Vec<_>>().join("; ")
}

#[test]
fn a_port_that_the_log_does_not_name_is_not_why_another_one_fails() {
    let node = node(down);
    let other = diagnosis(&node, &format!("{RETRY} hca mlx5_0\n"));
    assert_eq!(ids(&other)[0], "fabric-or-peer");
    assert_eq!(
        against(&other, "port-down"),
        "log line 1: it names mlx5_0, not mlx5_3"
    );
    // By its GID.
    let of_gid = diagnosis(
        &node,
        &format!("{RETRY} localGid ::ffff:10.0.0.2 remoteGids::ffff:10.0.0.3\n"),
    );
    assert_eq!(ids(&of_gid)[0], "fabric-or-peer");
    assert!(against(&of_gid, "port-down").contains("its local GID is of mlx5_0, not of mlx5_3"));
    // It is the one, or it may be, or lines name several.
    let two = format!(
        "{RETRY} localGid ::ffff:10.0.0.2 remoteGids::ffff:10.0.0.3\n{RETRY} localGid ::ffff:10.0.3.2 remoteGids::ffff:10.0.3.3\n"
    );
    for log in [&format!("{RETRY} hca mlx5_3\n"), &format!("{RETRY}\n"), &two] {
        let own = diagnosis(&node, log);
        assert_eq!(ids(&own)[0], "port-down", "{log}");
        assert_eq!(against(&own, "port-down"), "", "{log}");
    }
}

#[test]
fn what_is_not_of_rdma_comes_before_a_finding_of_the_node() {
    let node = node(down);
    let cases = [
        (
            "gpu01:1:2 [1] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device\n",
            "shared-memory",
        ),
        (
            "gpu01:1:2 [3] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'\n",
            "gpu-program",
        ),
        (
            "gpu01:1:2 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer 192.168.7.4<51159>\n",
            "peer-failed",
        ),
        (
            "gpu01:1:2 [6] misc/socket.cc:533 NCCL WARN socketPollConnect: Connect to 192.168.7.4<56849> returned 113(No route to host) errno 115(Operation now in progress)\n",
            "fabric-or-peer",
        ),
    ];
    for (log, cause) in cases {
        let found = diagnosis(&node, log);
        assert_eq!(ids(&found)[0], cause, "{log}");
        assert!(ids(&found).contains(&"port-down"), "{log}");
        assert!(!found.next_step.unwrap().contains("cable"), "{log}");
    }
}

#[test]
fn a_port_that_is_active_now_is_not_down() {
    let healthy = node(|_| {});
    let warning = "WARNING: There is at least non-excluded one OpenFabrics device found,\nbut there are no active ports detected (or Open MPI was unable to use\nthem).\n";
    let found = diagnosis(&healthy, warning);
    assert_eq!(ids(&found)[0], "communication-library");
    assert!(found.next_step.clone().unwrap().contains("is ACTIVE now"));
    assert!(against(&found, "port-down").contains("4: ACTIVE now, unlike log line"));
    assert!(!ids(&found).contains(&"port-down"));
    // If a port is down, or nothing is known of the node, it is what the program reports.
    for node in [node(down), Node::unknown()] {
        assert_eq!(ids(&diagnosis(&node, warning))[0], "port-down");
    }
}

#[test]
fn a_list_with_a_port_that_is_active_here_is_of_another_time_or_node() {
    let list = "Infiniband device 'mlx5_0' port 1 status:\n\tstate:\t\t 4: ACTIVE\n\tphys state:\t 5: LinkUp\n\n\
        Infiniband device 'mlx5_3' port 1 status:\n\tstate:\t\t 1: DOWN\n\tphys state:\t 3: Disabled\n";
    let found = diagnosis(&node(|_| {}), list);
    assert_eq!(found.status(Status::Ok), Status::Unknown);
    assert!(
        found
            .next_step
            .unwrap()
            .contains("each port of this node is ACTIVE now")
    );
    let unused = diagnosis(&Node::unknown(), list);
    assert_eq!(unused.status(Status::Ok), Status::Ok);
}

#[test]
fn a_function_that_is_lent_is_why_a_program_does_not_find_it() {
    const ADDRESS: &str = "sys/devices/pci0000:30/0000:30:01.0/0000:31:00.0/0000:32:02.0/0000:34:00.0";
    let lent = node(|tree| {
        let paths: Vec<String> = tree.entries().map(|(path, _)| path.to_owned()).collect();
        for path in paths.iter().filter(|path| {
            path.starts_with(&format!("{ADDRESS}/infiniband"))
                || path.ends_with("/mlx5_3")
                || path.contains("ens4f0np0")
        }) {
            tree.remove(path);
        }
        let driver = Entry::Link {
            target: "../../../../../../bus/pci/drivers/vfio-pci".into(),
        };
        tree.remove(&format!("{ADDRESS}/driver"));
        tree.insert(&format!("{ADDRESS}/driver"), driver).unwrap();
    });
    let missed = "mlx5_common: No Verbs device matches PCI device 0000:34:00.0, are kernel drivers loaded?\n";
    let found = diagnosis(&lent, missed);
    assert_eq!(ids(&found)[0], "rdma-modules");
    assert!(
        found
            .next_step
            .clone()
            .unwrap()
            .contains("it is bound to vfio-pci")
    );
    assert!(!ids(&found).contains(&"device-not-given"));
}

#[test]
fn a_port_that_is_not_opened_with_a_gid_has_none() {
    let node = node(|tree| {
        for index in 2..4 {
            let path = tree.path(&format!("mlx5_3/ports/1/gids/{index}"));
            tree.write(&path, "0000:0000:0000:0000:0000:0000:0000:0000\n")
                .unwrap();
        }
    });
    let log = "E20260821 12:30:19.435154 4711 rdma_context.cpp:209] Failed to open device mlx5_3 on port  with GID 3\n\
        E20260821 12:30:19.448818 4711 rdma_transport.cpp:827] RdmaTransport: No available RNIC\n";
    let found = diagnosis(&node, log);
    assert_eq!(ids(&found)[0], "gid-missing");
}
