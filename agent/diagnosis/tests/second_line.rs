//! Logs in which a second line, a word or a number next to a failure must not hide what is known of it.

#![allow(missing_docs)]

mod common;

use rdma_health_diagnosis::symptom::Grade;

use common::{each_is, first, read};

const GASNET: &str = "*** WARNING (proc 1): Unexpected error -28 (No space left on device) from fi_mr_regattr() when binding segment \
    [0x7fd2c0000000, 0x7fd6e6800000) to EP 8\n";
const CXI: &str = "cxil_map: write error\n";

#[test]
fn a_second_line_of_the_same_fault_keeps_the_remedy() {
    const ICE: &str = "[  206.2] ice 0000:8a:00.1: PF failed to honor VF 0, opcode 53, error -22\n";
    const IAVF: &str =
        "[  206.3] iavf 0000:8a:05.0: PF returned error -5 (IAVF_ERR_PARAM) to our request 53\n";
    let of_memory = GASNET.replace("-28 (No space left on device)", "-12 (Cannot allocate memory)");
    let size = "GASNET_MAX_SEGSIZE";
    each_is(&[
        (&format!("{ICE}{IAVF}"), "virtual-functions", "grep -e ice"),
        (ICE, "virtual-functions", "grep -e ice"),
        (GASNET, "hca-resources", size),
        (&format!("{CXI}{GASNET}"), "hca-resources", size),
        (&format!("{CXI}{of_memory}"), "hca-resources", size),
    ]);
}

#[test]
fn an_efa_has_no_virtual_functions_to_configure() {
    const EMPTY: &str =
        "libfabric:85:1:core:core:fi_getinfo_():1392<warn> fi_getinfo: provider efa output empty list\n";
    const ENDPOINT: &str = "nccl_net_ofi_domain_get_ep:969 NCCL WARN NET/OFI Creating new endpoint for domain 0x7f9befa99380 failed: \
        Invalid argument\n";
    let (id, step) = first(&format!("{EMPTY}{ENDPOINT}"));
    assert!(!id.is_empty() && id != "virtual-functions", "{id}: {step}");
}

#[test]
fn the_own_number_of_a_program_is_no_error_of_the_system() {
    let connect =
        "[2021-03-09 13:03:41.899003] nvme_rdma.c:1070:nvme_rdma_connect: *ERROR*: RDMA connect error -99\n";
    let (id, step) = first(connect);
    assert_eq!(id, "fabric-or-peer", "{step}");
    // Mooncake could not resolve a name: nothing is wrong with routes.
    let (id, _) = first(
        "E0212 10:00:00.1 123 rdma_endpoint.cpp:100] Failed to handshake with peer 10.0.0.3@mlx5_0, ret -101\n",
    );
    assert_ne!(id, "addressing");
}

#[test]
fn a_word_within_another_is_no_sign_of_a_gpu() {
    const FAILED: &str = "[handler.hh:67] register mr failed at addr: (0x7f73b1200000,2147483648) with error: Operation not supported\n";
    for line in [
        "ShmemHugePages:        0 kB\n",
        "Shmem:        1024 kB\n",
        "oshmem_info 4.1\n",
        "the chip of the board\n",
    ] {
        let (id, step) = first(&format!("{FAILED}{line}"));
        assert_eq!(id, "application-memory", "{line}: {step}");
        assert!(!read(line).names_gpu, "{line}");
    }
    for line in ["FI_HMEM\n", "hipMalloc\n", "libnccl.so.2\n", "NVSHMEM 3.1\n"] {
        assert!(read(line).names_gpu, "{line}");
    }
}

#[test]
fn the_kernel_says_why_software_rdma_did_not_register() {
    const LOG: &str = "[ 1883.526301] rdma_rxe: null vaddr\nudaddy: connecting\nfailed to reg MR\n";
    each_is(&[(LOG, "driver-firmware", "rdma_rxe")]);
    // Without the line of the kernel the limit comes first.
    each_is(&[("failed to reg MR\n", "memlock-limit", "ulimit -l")]);
}

#[test]
fn nothing_is_said_of_addresses_where_the_port_may_be_infiniband() {
    const REFUSED: &str = "n1:5330:7970 [3] misc/ibvwrap.cc:284 NCCL WARN Call to ibv_modify_qp failed with error Invalid argument\n";
    let (id, step) = first(REFUSED);
    assert!(
        id != "gid-missing" && !step.contains("Restore the IP address"),
        "{id}: {step}"
    );
}

#[test]
fn what_a_library_refuses_or_asserts_is_its_own_failure() {
    const SEGMENT: &str = "*** WARNING (proc 0): GASNet gasnetc_attach returning an error code: GASNET_ERR_BAD_ARG (Invalid function parameter passed)\n  \
        reason: segsize too large\n";
    each_is(&[
        (SEGMENT, "job-settings", "GASNET_MAX_SEGSIZE"),
        (
            "  PML add procs failed\n  --> Returned \"Error\" (-1) instead of \"Success\" (0)\n",
            "communication-library",
            "",
        ),
        (
            "/src/msg/async/rdma/Infiniband.cc: 355: FAILED assert(rc == 0)\n",
            "communication-library",
            "",
        ),
        (
            "/src/msg/async/rdma/RDMAStack.cc: 98: FAILED ceph_assert(r == 0)\n",
            "communication-library",
            "",
        ),
        (
            " # na_ofi_cq_read(): fi_cq_readerr got err: 5(Input/output error), prov_errno: -5(Input/output error).\n",
            "fabric-or-peer",
            "",
        ),
    ]);
}

#[test]
fn a_process_that_needs_no_network_is_not_warned() {
    const NONE: &str = "a88286:7:15 [1] NCCL INFO RCCL: Detected 0 IB devices, primary type: 0 (count: 0)\n";
    const BARE: &str = "n1:7:15 [0] NCCL INFO NET/IB : No device found.\n";
    let graver = |log: &str| {
        let symptoms = read(log).symptoms.into_iter();
        symptoms.filter(|symptom| symptom.grade > Grade::Note).count()
    };
    for log in [NONE, BARE] {
        assert_eq!(graver(log), 0, "{log}");
    }
    for more in [
        "n1:7:15 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0\n",
        "n2:7:15 [0] NCCL INFO NET/IB : No device found.\n",
        "n1:7:15 [0] NCCL INFO comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8\n",
        "n1:7:15 [0] NCCL INFO NCCL_IB_HCA set to mlx5\n",
        "n1:7:15 [0] NCCL WARN Error: network IB not found.\n",
    ] {
        assert!(graver(&format!("{BARE}{more}")) > 0, "{more}");
    }
}

#[test]
fn texts_fit_what_the_log_is_of() {
    const OPEN: &str = "[1539724919.8] [cn805:206805:0]      ib_device.c:227  UCX  ERROR ibv_open_device(mlx5_3) failed: Cannot allocate memory\n";
    const DOWN: &str =
        "CA 'mlx5_0'\n\tPort 1:\n\t\tState: Down\n\t\tPhysical state: Disabled\n\t\tRate: 100\n";
    each_is(&[
        (OPEN, "hca-resources", "UAR"),
        (DOWN, "port-down", "ip link set DEV up"),
    ]);
    let (id, step) = first("rdmaConnection.cpp:1224 18 0x1f261e0 : RDMA_CM_EVENT_REJECTED : status -111\n");
    assert!(!step.contains("the logs of all ranks"), "{id}: {step}");
}
