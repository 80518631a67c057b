//! Which cause comes first, and what the report advises: on the node that wrote the log, and on another one.

#![allow(clippy::unwrap_used, missing_docs)]
#![allow(clippy::disallowed_methods)] // tests read trees; only rules and causes do no I/O

use std::time::{Duration, Instant};

use rdma_health_diagnosis::{Cause, Confidence, Diagnosis, diagnose, log::LogReader, symptom::Grade};
use rdma_health_kernel::{
    Root,
    collector::{Collector, Refresh},
};
use rdma_health_node::Node;
use rdma_health_rules::{Expectations, Status, judge};
use rdma_health_tests::tree::Tree;

fn node(tree: &Tree) -> Node {
    let tree = tree.unpack().unwrap();
    let mut collector = Collector::new(Root::open(tree.path()).unwrap(), Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(5));
    Node::new(collector.facts())
}

/// A laptop: a graphics function and a USB controller, nothing for RDMA.
fn laptop() -> Node {
    let mut tree = Tree::default();
    tree.write("proc/sys/kernel/hostname", "laptop\n").unwrap();
    tree.write("proc/modules", "e1000e 1 0 - Live 0x0\n").unwrap();
    for address in ["0000:00:02.0", "0000:03:00.0"] {
        let class = format!("sys/bus/pci/devices/{address}/class");
        tree.write(&class, "0x0c0330\n").unwrap();
    }
    node(&tree)
}

fn fixture(name: &str) -> Node {
    node(&Tree::fixture(name).unwrap())
}

fn diagnosed(node: &Node, log: &str) -> Diagnosis {
    let mut reader = LogReader::default();
    reader.feed(log.as_bytes());
    let findings = judge(node, &Expectations::default()).findings;
    diagnose(node, &findings, Some(&reader.finish()))
}

/// The causes that are not unlikely, and those that are.
fn causes(diagnosis: &Diagnosis) -> (Vec<&str>, Vec<&str>) {
    let (unlikely, left): (Vec<_>, Vec<_>) = diagnosis
        .causes
        .iter()
        .partition(|cause| cause.confidence == Confidence::Unlikely);
    let ids = |causes: Vec<&'static str>| causes;
    (
        ids(left.iter().map(|cause| cause.id).collect()),
        ids(unlikely.iter().map(|cause| cause.id).collect()),
    )
}

const LOC_PROT: &str = "node7:300:411 [2] NCCL WARN NET/IB : Got completion from peer 10.0.0.3<1> with error 4, opcode 0, len 0, vendor err 81 (Send)\n";

#[test]
fn the_facts_of_another_node_neither_support_nor_refute_a_cause() {
    let laptop = laptop();
    for (log, first) in [
        (LOC_PROT, "iommu-translation"),
        (
            "node7:1:2 [0] NCCL INFO NET/IB : No device found.\nnode8:1:2 [0] NCCL INFO NET/IB : No device found.\n",
            "device-not-given",
        ),
        (
            "ibgda.cpp:nvshmemt_init:3626: neither nv_peer_mem, or nvidia_peermem detected. Skipping transport.\n",
            "peer-memory-path",
        ),
        (
            "libibverbs: Warning: no userspace device-specific driver found for /sys/class/infiniband_verbs/uverbs0\n",
            "userspace-libraries",
        ),
        (
            "mlx5_common: Verbs device not found: 0000:c3:00.2\n",
            "device-not-given",
        ),
    ] {
        let diagnosis = diagnosed(&laptop, log);
        let (left, unlikely) = causes(&diagnosis);
        assert_eq!(left.first(), Some(&first), "{log}: {left:?}");
        assert_eq!(unlikely, [""; 0], "{log}");
        assert!(!left.contains(&"memlock-limit"), "{log}: {left:?}");
        assert!(diagnosis.log.unwrap().elsewhere.is_some(), "{log}");
    }
}

/// A directory without anything of a node.
fn unread() -> Node {
    let mut tree = Tree::default();
    tree.write("README", "a log from another machine\n").unwrap();
    node(&tree)
}

#[test]
fn a_tree_without_a_node_is_no_evidence_and_the_log_decides() {
    let unread = unread();
    for (log, first) in [
        (
            "node7:1:2 [0] NCCL INFO NET/IB : No device found.\nnode8:1:2 [0] NCCL INFO NET/IB : No device found.\n",
            "device-not-given",
        ),
        (
            "node7:1:2 [0] NCCL WARN NET/IB : Unable to open device mlx5_bond_0\n",
            "device-not-given",
        ),
        (
            "libibverbs: Warning: couldn't open '/dev/infiniband/uverbs0': Permission denied\n\
             node7:1:2 [0] NCCL WARN NET/IB : Unable to open device mlx5_0\n",
            "device-permission",
        ),
        (
            "libibverbs: Warning: couldn't load driver 'libionic-rdmav34.so': libionic-rdmav34.so: cannot open shared object file\n\
             No IB devices found\n",
            "userspace-libraries",
        ),
        (
            "\t\tState: Initializing\nnode7:1:2 [3] NCCL INFO NET/IB : No device found.\n",
            "no-subnet-manager",
        ),
        (
            "node7:1:2 [0] NCCL INFO Channel 00/0 : 0[4c000] -> 1[4c000] [send] via NET/IB/0/GDRDMA\n\
             node7:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.20.0.4<33914> with error 4, opcode 0, len 0, vendor err 81 (Send)\n",
            "iommu-translation",
        ),
        (
            "node7:1:2 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n",
            "peer-memory-path",
        ),
    ] {
        let diagnosis = diagnosed(&unread, log);
        let (left, _) = causes(&diagnosis);
        assert_eq!(left.first(), Some(&first), "{log}: {left:?}");
        let of_tree = |cause: &&Cause| cause.supports.iter().any(|fact| fact.source.starts_with('/'));
        let of_tree: Vec<_> = diagnosis
            .causes
            .iter()
            .filter(|cause| !cause.explains.is_empty())
            .filter(of_tree)
            .map(|cause| cause.id)
            .collect();
        assert_eq!(of_tree, [""; 0], "{log}");
        assert_eq!(
            diagnosis.log.unwrap().elsewhere,
            None,
            "said once, by the verdict"
        );
    }
}

#[test]
fn the_remedy_is_for_the_family_of_adapters_that_the_log_names() {
    let unread = unread();
    for (log, first, words) in [
        (
            "# hccn_tool -i 3 -link -g\nlink status: DOWN\n[rank3]: EI0009: Transport init error\n",
            "port-down",
            "hccn_tool",
        ),
        (
            "[ERROR] HCCL(27,python3): [hccl_socket.cc:778] wait socket establish timeout, role[1] rank[12] timeout[120]\n\
             EI0006: Getting socket times out. Reason: Remote Rank did not send the data in time.\n",
            "fabric-or-peer",
            "HCCL_CONNECT_TIMEOUT",
        ),
        (
            "hcl_ibverbs.cpp::295(create_qp): The condition [ rc == 0 ] failed. hbldv_modify_qp(INIT) failed: 22, nic: 0\n",
            "port-down",
            "manage_network_ifs.sh",
        ),
        (
            "srd_iface.c:221  UCX  ERROR send completion[0] with error on rdmap132s0/0x55: response timeout error, vendor_err 0xe\n",
            "fabric-or-peer",
            "security group",
        ),
        (
            "libibverbs: Warning: couldn't load driver 'libionic-rdmav34.so': libionic-rdmav34.so: cannot open shared object file\n\
             No IB devices found\n",
            "userspace-libraries",
            "libionic",
        ),
    ] {
        let diagnosis = diagnosed(&unread, log);
        let cause = diagnosis.first().unwrap();
        assert_eq!(cause.id, first, "{log}");
        assert!(cause.next_step.contains(words), "{log}: {}", cause.next_step);
        for other in ["ib_write_bw", "mlx5", "mellanox", "show_gids"] {
            assert!(!cause.next_step.contains(other), "{log}: {}", cause.next_step);
        }
    }
}

#[test]
fn the_setting_and_the_gid_in_the_log_come_before_a_missing_gid() {
    let unread = unread();
    let modify = |index: u8, gid: &str| {
        format!(
            "n1:1:2 [1] NCCL WARN Call to ibv_modify_qp failed with 22 Invalid argument, on dev mlx5_1:1, curr state INIT, next state RTR, \
             local GID index {index}, local GID {gid}, remote GID ::\n"
        )
    };
    let set = "n1:1:2 [1] NCCL INFO NCCL_IB_GID_INDEX set by environment to 7.\n";
    let infiniband =
        "RDMA device: mlx5_0, LID: 31, GID: (GID_Index 0) fe:80:00:00:00:00:00:00:a0:88:c2:03:00:2a:13:92\n";
    for (log, first) in [
        (format!("{set}{}", modify(7, "::")), "gid-index"),
        (modify(3, "::"), "gid-missing"),
        (modify(0, "fe80::ba3f:d2ff:fe11:2233"), "gid-index"),
        (
            format!("{infiniband}{}", modify(0, "fe80::a088:c203:2a:1392")),
            "mtu",
        ),
        (
            "rdma_context.cpp:588] User-specified GID index 0 on mlx5_8/ has no associated network device, may not be optimal for RDMA \
             operations\nE0115 rdma_context.cpp:81] Failed to open device mlx5_8 on port  with GID 0\n"
                .to_owned(),
            "gid-index",
        ),
        (
            "cma event RDMA_CM_EVENT_ADDR_ERROR, error -19\n".to_owned(),
            "gid-other-namespace",
        ),
        (
            "  what():  a work item failed: status 12 (Ib failure: Cannot allocate memory)\n".to_owned(),
            "fabric-or-peer",
        ),
    ] {
        let diagnosis = diagnosed(&unread, &log);
        let (left, _) = causes(&diagnosis);
        assert_eq!(left.first(), Some(&first), "{log}: {left:?}");
        let step = diagnosis.next_step.unwrap();
        assert!(!log.contains("LID: 31") || !step.contains("IP address"), "{step}");
    }
}

#[test]
fn a_node_that_may_be_another_refutes_nothing_and_its_own_log_is_refuted() {
    let node = fixture("h100-connectx7");
    let of_other = diagnosed(&node, LOC_PROT);
    let (left, unlikely) = causes(&of_other);
    assert_eq!(unlikely, [""; 0]);
    assert!(left.contains(&"iommu-translation"), "{left:?}");
    let own = diagnosed(&node, &LOC_PROT.replace("node7", "h100-connectx7"));
    let (_, unlikely) = causes(&own);
    assert!(unlikely.contains(&"iommu-translation"), "{unlikely:?}");
    // It has no such adapter.
    let line = "[5.1] mlx5_core 0000:ff:00.0: health compromised - reached miss count\n";
    assert!(
        diagnosed(&node, line).log.unwrap().elsewhere.is_none(),
        "it may be gone since"
    );
    let line = "[5.1] cxgb4 0000:01:00.4: Firmware reports adapter error: During Device Preparation\n";
    assert!(
        diagnosed(&node, line).log.unwrap().elsewhere.is_some(),
        "no adapter of the node has this driver"
    );
    let line = "node7:1:2 [0] NCCL WARN NET/IB: Got completion from peer 10.0.0.2<1> with status=12 opcode=1 len=0 vendor err 129 (Send) hca bnxt_re3\n";
    assert!(diagnosed(&node, line).log.unwrap().elsewhere.is_some());
}

#[test]
fn a_machine_without_adapters_did_not_write_a_log_that_shows_one() {
    let laptop = laptop();
    let missed = "No IB devices found\n";
    let own = diagnosed(&laptop, missed);
    assert_eq!(causes(&own).0.first(), Some(&"no-rdma-device"));
    for shown in [
        "link mlx5_7/1 state ACTIVE physical_state LINK_UP netdev net1\n",
        "[  9.3] mlx4_en 0000:0d:00.0: LSO not supported, please upgrade to later FW version to enable LSO\n",
        "issm0  rdma_cm  umad0  umad1\n",
        "crw-rw-rw- 1 root root 231, 192 Nov  1 09:00 /dev/infiniband/uverbs0\n",
        "81:00.0 Infiniband controller: Mellanox Technologies MT28908 Family [ConnectX-6]\n",
    ] {
        for log in [format!("{missed}{shown}"), format!("{shown}{missed}")] {
            let diagnosis = diagnosed(&laptop, &log);
            let (left, _) = causes(&diagnosis);
            assert_ne!(left.first(), Some(&"no-rdma-device"), "{log}: {left:?}");
            assert!(diagnosis.log.unwrap().elsewhere.is_some(), "{log}");
        }
    }
    let missing = "open /dev/infiniband/uverbs0: no such file or directory\n";
    let left = diagnosed(&laptop, &format!("{missed}{missing}"));
    assert_eq!(left.log.unwrap().elsewhere, None);
}

#[test]
fn an_iommu_fault_is_judged_by_the_driver_or_the_function_that_it_names() {
    let (laptop, server) = (laptop(), fixture("h100-connectx7"));
    let amd = |driver: &str| {
        format!(
            "[57.3] {driver} 0000:e1:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x000d address=0xcfd51ad0 flags=0x0070]\n"
        )
    };
    let dmar = |address: &str| {
        format!(
            "[672.8] DMAR: [DMA Write NO_PASID] Request device [{address}] fault addr 0x7f3ac0000000 [fault reason 0x05] PTE Write access is not set\n"
        )
    };
    for (log, status) in [
        (amd("mlx5_core"), Status::Critical),
        (amd("nvidia"), Status::Critical),
        (amd("ath10k_pci"), Status::Ok),
        (amd("xhci_hcd"), Status::Ok),
        (dmar("e1:00.0"), Status::Critical),
        (dmar("00:02.0"), Status::Ok),
    ] {
        for node in [&laptop, &server] {
            let diagnosis = diagnosed(node, &log);
            assert_eq!(diagnosis.status(Status::Ok), status, "{log}");
            if status == Status::Critical {
                assert_eq!(causes(&diagnosis).0.first(), Some(&"iommu-translation"), "{log}");
            }
        }
    }
    // A function of this node that has nothing to do with RDMA.
    assert_eq!(
        diagnosed(&laptop, &dmar("03:00.0")).status(Status::Ok),
        Status::Ok
    );
}

/// The log, the first cause, what the next step says and what it does not say.
type Case = (&'static str, &'static str, &'static str, &'static str);

fn check(node: &Node, cases: &[Case]) {
    for (log, first, says, not) in cases {
        let diagnosis = diagnosed(node, log);
        let (left, _) = causes(&diagnosis);
        assert_eq!(
            left.first(),
            Some(first),
            "{log}: {left:?} {:?}",
            diagnosis.symptoms
        );
        let step = diagnosis.next_step.unwrap();
        assert!(step.contains(says), "{log}: {step}");
        assert!(not.is_empty() || !step.contains(not), "{log}: {step}");
        assert_eq!(
            diagnosis.symptoms.first().map(|symptom| symptom.line.is_some()),
            Some(true)
        );
    }
}

#[test]
fn the_failing_call_and_its_error_decide() {
    check(
        &fixture("h100-connectx7"),
        &[
            (
                "libfabric:29:verbs:ep_ctrl:vrb_create_ep():239<warn> rdma_resolve_addr failed: Cannot assign requested address (99)\n",
                "addressing",
                "ip -brief address",
                "",
            ),
            (
                "[812.1] rpcrdma: connection to 10.0.0.5:20049 closed (-111)\n",
                "no-listener",
                "listens",
                "",
            ),
            (
                "[821.1] rpcrdma: connection to 10.0.0.5:20049 closed (-113)\n",
                "addressing",
                "ip route get",
                "",
            ),
            (
                "nvme_rdma.c: 690:nvme_rdma_resolve_addr: *ERROR*: rdma_resolve_addr, 98\n",
                "addressing",
                "rdma resource show cm_id",
                "arp_ignore",
            ),
            (
                "UCX  ERROR ibv_open_device(mlx5_0) failed: Resource temporarily unavailable\n",
                "hca-resources",
                "rdma.max",
                "",
            ),
            (
                "Link layer: InfiniBand\n[app] ERROR: modify_qp to RTR failed, errno=0x6e\n",
                "fabric-or-peer",
                "peer",
                "",
            ),
            // On RoCE the kernel looks up the peer's MAC address in this transition. InfiniBand looks up nothing.
            (
                "[app] ERROR: modify_qp to RTR failed, errno=0x6e\n",
                "addressing",
                "MAC address",
                "",
            ),
            (
                "link_layer: Ethernet (RoCE)\n[app] ERROR: modify_qp to RTR failed, errno=0x6e\n",
                "addressing",
                "MAC address",
                "",
            ),
            (
                "n1:1:9 [0] NCCL INFO NCCL_IB_PKEY set by environment to 2.\nn1:1:9 [0] NCCL WARN Call to ibv_modify_qp failed with 22 Invalid argument, on dev mlx5_0:1, curr state RESET, next state INIT\n",
                "partition-key",
                "NCCL_IB_PKEY",
                "GID",
            ),
            (
                "E1201 15:01:10.101010  3311 rdma_endpoint.cpp:350] [Handshake] Failed to modify QP to INIT, check local context port num: Invalid argument [22]\n",
                "job-settings",
                "port number",
                "GID",
            ),
            (
                "[88011.126] mlx5_core 0000:5e:00.0: temp_warn:149:(pid 0): High temperature on sensors with bit set 0x1 0x0\n",
                "adapter-overheating",
                "fans",
                "cable",
            ),
            (
                "[4001.1] iser: iser_err_comp: memreg failure: memory management operation error (6) vend_err 78\n",
                "application-memory",
                "",
                "",
            ),
            (
                "2023/09/08 17:43:19 Exiting.. can not change : incorrect RDMA subsystem network namespace\n",
                "pod-network",
                "netns shared",
                "netns exclusive",
            ),
        ],
    );
}

#[test]
fn a_refused_registration_of_gpu_memory_is_about_the_path_to_the_gpu() {
    check(
        &fixture("h100-connectx7"),
        &[
            (
                "Calling ibv_reg_dmabuf_mr(offset=0, size=16777216, addr=0x7fc9a8000000, fd=41) for QP #0\nCouldn't allocate MR with error=93\n",
                "peer-memory-path",
                "DMA-BUF",
                "modprobe nvidia_peermem",
            ),
            (
                "allocated GPU buffer address at 0000010013000000 pointer=0x10013000000\nCouldn't allocate MR\nfailed to create mr\nERRNO: Bad address.\n",
                "peer-memory-path",
                "peermem",
                "modprobe nvidia_peermem",
            ),
            (
                "UCX  ERROR ibv_reg_mr(address=0x7fe35ea00000, length=16, access=0x10000f) failed: Invalid argument\nUCX  ERROR failed to register address 0x7fe35ea00000 (rocm) length 16 on md[5]=mlx5_0: Input/output error (md supports: host|rocm)\n",
                "peer-memory-path",
                "amdgpu",
                "nvidia_peermem",
            ),
            (
                "[1.0] nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client\n",
                "peer-memory-path",
                "reinstall the NVIDIA driver",
                "Run modprobe",
            ),
        ],
    );
}

#[test]
fn what_ended_a_process_or_a_port_comes_before_what_its_peers_see() {
    const RETRY: &str = "n1:1:9 [0] NCCL WARN NET/IB: Got completion from peer 10.0.0.2<4000> with status=12 opcode=1 len=0 vendor err 129 (Recv) hca mlx5_3\n";
    let node = fixture("h100-connectx7");
    for (earlier, first) in [
        (
            "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n",
            "peer-failed",
        ),
        (
            "n2:1:9 [0] NCCL WARN socketProgress: Connection closed by remote peer n1<40123>\n",
            "peer-failed",
        ),
        (
            "[5001.1] NVRM: Xid (PCI:0000:18:00): 79, pid=1234, name=python, GPU has fallen off the bus.\n",
            "gpu-fault",
        ),
    ] {
        let both = diagnosed(&node, &format!("{earlier}{RETRY}"));
        assert_eq!(
            causes(&both).0.first(),
            Some(&first),
            "{earlier}: {:?}",
            both.symptoms
        );
        assert_eq!(both.status(Status::Ok), Status::Critical);
        // The other way round, the network is suspected first.
        let late = diagnosed(
            &node,
            &format!(
                "{RETRY}{}",
                earlier.replace("Xid (PCI:0000:18:00): 79", "Xid (PCI:0000:18:00): 13")
            ),
        );
        assert_eq!(causes(&late).0.first(), Some(&"fabric-or-peer"), "{earlier}");
    }
    // A process that ran out of memory without any consequence for RDMA.
    let alone = diagnosed(&node, "[rank3]: torch.OutOfMemoryError: CUDA out of memory.\n");
    assert_eq!(alone.status(Status::Ok), Status::Ok, "{:?}", alone.symptoms);
}

#[test]
fn efa_gets_the_remedies_that_exist_for_it() {
    check(
        &fixture("efa-p5"),
        &[
            (
                "efa-p5:462:1001 [0] ofi_process_cq:1033 NCCL WARN NET/OFI Request 0x7fb258034428 completed with error. RC: 21. Error: unknown error. Completed length: 0\n",
                "fabric-or-peer",
                "security group",
                "GID",
            ),
            ("Unable to create QP.\n", "unsupported-adapter", "SRD", ""),
            (
                "[1648043869.866926] [efa-p5:2699 :0]        ib_iface.c:1035 UCX  ERROR ibv_create_cq(cqe=1024) failed: Operation not supported\n",
                "unsupported-adapter",
                "aws-ofi-nccl",
                "",
            ),
            (
                "libfabric:9000:1695200000::efa:ep_ctrl:efa_base_ep_create_qp():180<warn> ibv_create_qp failed. errno: 12\n",
                "hca-resources",
                "max_qp",
                "ulimit",
            ),
        ],
    );
}

#[test]
fn a_setting_that_disables_rdma_changes_nothing_without_an_adapter() {
    let log = "laptop:812:812 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\n\
        laptop:812:871 [0] NCCL INFO NET/Socket : Using [0]eno1:10.1.1.5<0>\n\
        laptop:812:871 [0] NCCL INFO Using network Socket\n";
    let graves = |node: &Node, log: &str| {
        let symptoms = diagnosed(node, log).symptoms;
        symptoms
            .iter()
            .filter(|symptom| symptom.grade > Grade::Note)
            .count()
    };
    assert_eq!(graves(&laptop(), log), 0);
    // Where it has one, TCP is what its user selected.
    let here = log.replace("laptop", "h100-connectx7");
    assert_eq!(graves(&fixture("h100-connectx7"), &here), 0);
    let failed = "h100-connectx7:812:871 [0] NCCL WARN Call to ibv_reg_mr failed\n";
    assert!(graves(&fixture("h100-connectx7"), &format!("{here}{failed}")) > 1);
}

#[test]
fn in_exclusive_mode_a_container_needs_the_rdma_cni() {
    let mut tree = Tree::fixture("h100-connectx7").unwrap();
    tree.write("sys/module/ib_core/parameters/netns_mode", "N\n")
        .unwrap();
    let log = "worker-0:7:9 [0] NCCL INFO NET/IB : No device found.\nworker-0:7:9 [0] NCCL INFO Using network Socket\n";
    let diagnosis = diagnosed(&node(&tree), log);
    assert_eq!(diagnosis.causes[0].id, "device-not-given");
    assert!(
        diagnosis.causes[0]
            .next_step
            .contains("rdma system set netns shared")
    );
}

#[test]
fn what_keeps_a_port_down_stands_above_the_port() {
    let first = |rule: &str, change: &dyn Fn(&mut Tree)| {
        let mut tree = Tree::fixture("infiniband-ndr").unwrap();
        change(&mut tree);
        let diagnosis = diagnosed(&node(&tree), "");
        let cause = diagnosis.causes[0].clone();
        assert!(cause.findings.contains(&rule), "{:?}", diagnosis.causes);
        cause.id
    };
    let path = |tree: &Tree, end: &str| {
        let mut paths = tree.entries().map(|(path, _)| path.to_owned());
        paths.find(|path| path.ends_with(end)).unwrap()
    };
    let set = |tree: &mut Tree, end: &str, text: &str| {
        let path = path(tree, end);
        tree.write(&path, format!("{text}\n")).unwrap();
    };
    let other_type = first("link-type-differs", &|tree| {
        set(tree, "/mlx5_2/ports/1/state", "1: DOWN");
        set(tree, "/mlx5_2/ports/1/phys_state", "3: Disabled");
        set(tree, "/mlx5_2/ports/1/link_layer", "Ethernet");
    });
    assert_eq!(other_type, "link-type");
    let without_guid = first("guid-invalid", &|tree| {
        tree.write("proc/cpuinfo", "flags\t: fpu hypervisor\n").unwrap();
        set(tree, "/mlx5_2/ports/1/state", "1: DOWN");
        set(tree, "/mlx5_2/node_guid", "0000:0000:0000:0000");
    });
    assert_eq!(without_guid, "guids");
}

#[test]
fn on_infiniband_an_address_needs_ipoib_and_the_gid_of_another_node_is_not_refuted() {
    let mut tree = Tree::fixture("infiniband-ndr").unwrap();
    let layer = "sys/devices/pci0000:c0/0000:c0:01.0/0000:c1:00.0/infiniband/mlx5_4/ports/1/link_layer";
    tree.write(layer, "InfiniBand\n").unwrap();
    check(
        &node(&tree),
        &[
            (
                "src/rdma_van.h:747: Check failed: 0 OnEvent: unknown event 1 (RDMA_CM_EVENT_ADDR_ERROR)\n",
                "addressing",
                "ib_ipoib",
                "",
            ),
            (
                "W0115 05:20:19.94 309 rdma_context.cpp:588] User-specified GID index 0 on mlx5_88/ has no associated network device\n\
                    E0115 05:20:19.94 309 rdma_context.cpp:81] Failed to open device mlx5_88 on port  with GID 0\n",
                "gid-index",
                "MC_GID_INDEX",
                "",
            ),
        ],
    );
}
