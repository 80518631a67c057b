//! What the node shows about a log: an adapter with another name, a port that was not configured, a limit that is not there, a subnet that is shared.

#![allow(clippy::unwrap_used, missing_docs)]
#![allow(clippy::disallowed_methods)] // tests read trees; only rules and causes do no I/O

mod common;
#[path = "common/healthy.rs"]
mod healthy;

use common::{first, kinds, read};
use healthy::{causes, node, of};
use rdma_health_diagnosis::{
    diagnose,
    symptom::{Grade, SymptomKind as K},
};
use rdma_health_node::Node;
use rdma_health_tests::tree::{Entry, Tree};

const MISSED: &str = "libfabric:3251:1715881079:ofi_rxd:psm2:core:psmx2_update_hfi_info():427<info> hfi1 units: total -1, active 0; hfi1 contexts: total 0, free 0\n\
    libfabric:3251:1715881079:ofi_rxd:psm2:core:psmx2_getinfo():536<info> no PSM2 device is active.\n";

/// A node with Omni-Path whose adapter has this name.
fn omni_path(name: &str) -> Node {
    let path = format!("{}/hfi1-opa.tree", rdma_health_tests::tree::fixtures().display());
    let text = std::fs::read_to_string(path).unwrap();
    of(&Tree::parse(&text.replace("hfi1_0", name)).unwrap())
}

#[test]
fn an_adapter_with_another_name_is_what_psm2_does_not_find() {
    let found = causes(&omni_path("opap134s0"), MISSED);
    assert_eq!(found[0].id, "communication-library");
    assert!(
        found[0]
            .supports
            .iter()
            .any(|evidence| evidence.value.contains("opap134s0"))
    );
    assert!(found[0].next_step.contains("hfi1_0"));
    let worst = |node: &Node, log: &str| {
        let symptoms = diagnose(node, &[], Some(&read(log))).symptoms.into_iter();
        symptoms.map(|symptom| symptom.grade).max()
    };
    // With its usual name, it is not known why; on a node without Omni-Path, the other providers are what counts.
    assert_eq!(worst(&omni_path("hfi1_0"), MISSED), Some(Grade::Unrecognised));
    let others = format!(
        "{MISSED}libfabric:3251:1715881079::verbs:fabric:verbs_devs_print():871<info> list of verbs devices\n"
    );
    assert_eq!(worst(&node(), &others), Some(Grade::Note));
    let selected = format!("{MISSED}Selected provider is verbs, fabric is IB-0xfe80\n");
    assert_eq!(worst(&omni_path("opap134s0"), &selected), None);
}

#[test]
fn a_function_without_an_address_is_shown_in_a_list_with_active_ports() {
    let list = "link mlx5_0/1 subnet_prefix fe80:0000:0000:0000 lid 3 sm_lid 1 lmc 0 state ACTIVE physical_state LINK_UP\n\
        link mlx5_1/1 subnet_prefix fe80:0000:0000:0000 lid 65535 sm_lid 0 lmc 0 state DOWN physical_state DISABLED\n";
    assert_eq!(kinds(list), [K::FunctionUnconfigured]);
    assert_eq!(first(list).0, "virtual-functions");
    // A port of Ethernet that is switched off.
    let off = "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev a\nlink mlx5_1/1 state DOWN physical_state DISABLED netdev b";
    assert_eq!(kinds(off), []);
}

#[test]
fn where_the_memlock_limit_is_high_other_limits_come_first() {
    const SHORT: &str = "ibv_reg_mr_iova2 failed: Cannot allocate memory\n";
    assert_eq!(causes(&Node::unknown(), SHORT)[0].id, "memlock-limit");
    let printed = format!("$ ulimit -l\nunlimited\n{SHORT}");
    assert_eq!(causes(&Node::unknown(), &printed)[0].id, "hca-resources");
    // What runtimes have is not the limit of a job that was started without one.
    assert_eq!(causes(&node(), SHORT)[0].id, "memlock-limit");
}

#[test]
fn memory_that_no_line_calls_a_gpus_may_be_mapped_for_reading_only() {
    let efault = "libfabric:1:2::efa:mr:efa_mr_reg_impl():850<warn> Unable to register MR: Bad address\n";
    let (id, step) = first(efault);
    assert_eq!(id, "application-memory");
    assert!(step.contains("for reading only"), "{step}");
    let of_gpu = format!("cudaMalloc on GPU 0\n{efault}");
    assert_eq!(first(&of_gpu).0, "peer-memory-path");
}

#[test]
fn packets_of_nccl_that_are_lost_at_first_may_have_the_wrong_gid() {
    const LOST: &str = "NCCL WARN NET/IB : Got completion from peer 192.0.2.7<38560> with error 12, opcode 0, len 0, vendor err 129\n";
    let ids = |log: &str| -> Vec<&str> {
        let found = causes(&Node::unknown(), log);
        found.iter().map(|cause| cause.id).collect()
    };
    assert_eq!(ids(LOST)[..2], ["fabric-or-peer", "gid-index"]);
    let on_infiniband =
        format!("n1:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB ib0:192.0.2.1<0>\n{LOST}");
    assert!(!ids(&on_infiniband).contains(&"gid-index"));
}

#[test]
fn a_refusal_may_come_from_an_adapter_without_rdma_in_the_same_subnet() {
    const REFUSED: &str = "[18328.544917] nvme nvme0: rdma connection establishment failed (-104)\n";
    let with = |netdev: Option<&str>| {
        let mut tree = Tree::fixture("irdma-e810").unwrap();
        let mut table = String::from("Iface\tDestination\n");
        for netdev in ["ens3f0"].into_iter().chain(netdev) {
            table += netdev;
            table += "\t0000040A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
        }
        tree.write("proc/1/net/route", table).unwrap();
        let directory = "sys/devices/pci0000:00/0000:02:00.0/net/eno1";
        tree.write(&format!("{directory}/type"), "1\n").unwrap();
        let link = |target: &str| Entry::Link {
            target: target.into(),
        };
        tree.insert(&format!("{directory}/device"), link("../../../0000:02:00.0"))
            .unwrap();
        tree.insert(
            "sys/class/net/eno1",
            link("../../devices/pci0000:00/0000:02:00.0/net/eno1"),
        )
        .unwrap();
        of(&tree)
    };
    let has = |node: &Node| causes(node, REFUSED).iter().any(|cause| cause.id == "addressing");
    assert!(has(&with(Some("eno1"))));
    assert!(!has(&with(None)));
    assert!(!has(&with(Some("docker0"))), "no adapter");
}
