//! What a library reports of its own result, in the line of a call, after it, or at the level of information: the cause, and the step.

#![allow(missing_docs)]

mod common;

use rdma_health_diagnosis::symptom::{Grade, SymptomKind as K};

use common::{each_is, kinds, read};

#[test]
fn what_ended_a_connection_counts_at_the_level_of_information() {
    each_is(&[
        (
            "[1.7] [n7:9:1]      wireup_cm.c:823  UCX  DIAG  client ep 0x7ff1 connect to 192.0.2.8:8124 failed: device br-1 is not enabled, enable it in \
             UCX_NET_DEVICES or use corresponding ip address\n",
            "job-settings",
            "UCX_NET_DEVICES",
        ),
        (
            "[1.7] [n2:3]  UCXPY  DEBUG Error callback for endpoint 0x2b49 called with status -6: Destination is unreachable\n",
            "fabric-or-peer",
            "",
        ),
    ]);
    // A connection that ended in time, and one that has no error.
    for line in [
        "[1.7] [n2:3]  UCXPY  DEBUG Error callback for endpoint 0x2b49 called with status 0: Success\n",
        "[1.7] [n2:3]  UCX  DEBUG ep 0x7f1 flushed, destination is unreachable from here by shm\n",
    ] {
        assert_eq!(kinds(line), [], "{line}");
    }
}

#[test]
fn the_result_of_a_call_may_stand_in_the_next_line() {
    let log = "2025:05:23-19:04:20:(168952) |CCL_ERROR| atl_ofi_helper.cpp:1204 atl_ofi_prov_init: fi_scalable_ep(prov->domain, info, &prov->sep, nullptr)\n \
        fails with ret: -12, strerror: Cannot allocate memory\n\
        2025:05:23-19:04:20:(168952) |CCL_ERROR| atl_ofi.cpp:237 init: can't find suitable provider\n";
    each_is(&[(log, "memlock-limit", "ulimit -l")]);
    let other = "opened the file (settings.yaml)\n fails with ret: -12, strerror: Cannot allocate memory\n";
    assert!(!kinds(other).contains(&K::CreateFailed));
}

#[test]
fn a_library_without_its_part_for_rdma_is_named_with_how_it_is_built() {
    each_is(&[
        (
            "[1.6] [n1:7:0]          ucc_cl.c:57   UCC  ERROR no TLs are selected for CL_BASIC\n",
            "communication-library",
            "ucc_info",
        ),
        (
            "[1.6] [n1:7]   cl_basic_team.c:131  CL_BASIC ERROR no tl teams were created\n",
            "communication-library",
            "ucc_info",
        ),
        (
            "[08:35:53] src/van.cc:97: unsupported van type: ibverbs\n",
            "communication-library",
            "BYTEPS_USE_RDMA",
        ),
        (
            "gdr_open error: Is gdrdrv driver installed and loaded?\n",
            "peer-memory-path",
            "modprobe gdrdrv",
        ),
        (
            "libi40iw-i40iw_ucreate_qp: failed to create QP, unsupported QP type: 0x4\n",
            "unsupported-adapter",
            "",
        ),
    ]);
    let counted = "terminate called after throwing an instance of 'std::out_of_range'\n  what():  IB transport out of range: 0 >= 0\n";
    assert_eq!(kinds(counted), [K::NoDevice]);
}

#[test]
fn the_end_of_a_request_is_read_in_the_words_of_gasnet() {
    each_is(&[(
        "@ 0> snd status=12 opcode=0 dst_node=1 dst_qp=0\n*** FATAL ERROR (proc 0): aborting on reap of failed send\n",
        "fabric-or-peer",
        "",
    )]);
    assert_eq!(kinds("@ 0> snd status=0 opcode=0 dst_node=1 dst_qp=0\n"), []);
}

#[test]
fn an_adapter_without_entries_for_receives_has_the_setting_of_its_provider() {
    each_is(&[(
        "libfabric:47:166::cxi:core:cxip_ux_onload_cb():2444<warn> RXC (0xe910:7:0): Flow control triggered due to failure to append LE. Software endpoint mode \
         required.\n",
        "hca-resources",
        "FI_CXI_RX_MATCH_MODE=software",
    )]);
}

#[test]
fn traces_of_management_packets_show_no_failure() {
    let log = "ibwarn: [16] umad_recv: mad received by agent 0 length 320\nibwarn: [16] umad_send: fd 3 agentid 0 umad 0x7ffe timeout 1000\n\
        ibwarn: [16] umad_dump: agent id 0 status 0 timeout 1000\n# Port info: Lid 38 port 1\nLinkState:.......................Active\n";
    assert_eq!(kinds(log), []);
    let failed = "ibwarn: [16] mad_rpc: _do_madrpc failed; dport (Lid 4)\n";
    assert_eq!(kinds(failed), [K::PeerUnreachable]);
}

#[test]
fn a_transport_that_ucx_passed_over_does_not_stand_before_what_ended_the_program() {
    const WARNS: &str = "[1.7] [n1:4 :0]    ucp_context.c:671  UCX  WARN  transport 'cuda_copy' is not available, please use one or more of: ib, mm, posix, rc\n";
    let log = format!(
        "{WARNS}[1.8] [n1:4 :0]       ib_iface.c:618  UCX  ERROR ibv_create_cq(cqe=4096) failed: Cannot allocate memory\n"
    );
    each_is(&[
        (&log, "memlock-limit", "ulimit -l"),
        (WARNS, "communication-library", "ucx_info"),
    ]);
}

#[test]
fn a_device_without_a_guid_is_not_found_by_the_connection_manager() {
    each_is(&[(
        "$ ibv_devinfo\nhca_id: mlx5_0\n\tnode_guid:\t0000:0000:0000:0000\n$ ./cma_test 192.0.2.10\nrdma_resolve_addr: No such device\n",
        "guids",
        "node_guid",
    )]);
}

#[test]
fn psm_that_does_not_open_its_adapter_leaves_intel_mpi_without_a_fabric() {
    let log = "n1.25191Driver initialization failure on /dev/ipath (err=23)\n[128] MPI startup(): tmi fabric is not available and fallback fabric is not enabled\n";
    let symptoms = read(log).symptoms;
    let first: Vec<K> = symptoms
        .iter()
        .filter(|symptom| symptom.grade > Grade::Secondary)
        .map(|symptom| symptom.kind)
        .collect();
    assert_eq!(first, [K::OpenFailed]);
}

#[test]
fn a_pod_without_its_interface_has_the_step_for_the_reason() {
    const POD: &str = "Warning  FailedCreatePodSandBox  6s    kubelet  Failed to create pod sandbox: rpc error: code = Unknown desc = [failed to set up sandbox container \"f32\" network for \
        pod \"p2\": NetworkPlugin cni failed to set up pod \"p2_default\" network: Multus: [default/p2]: error adding container to network \"sriov-a\": ";
    let row = |message: &str| format!("{POD}{message}\n");
    let exists = row(
        "failed to set up pod interface \"net1\" from the device \"enp216s0f2\": failed to move vf 0 to netns: file exists",
    );
    let renamed = row(
        "failed to set up pod interface \"net1\" from the device \"em1\": failed to rename vf 0 of the device \"em1_0\" to \"net1\": Link not found",
    );
    let asked = row(
        "error getting pod resources from client: getPodResources: failed to list pod resources: unknown service v1.PodResourcesLister",
    );
    each_is(&[
        (&exists, "pod-network", "another name"),
        (&renamed, "pod-network", "unmanaged-devices"),
        (&asked, "pod-network", "pod-resources"),
        (
            "17s  Warning  ClaimPrepareFailed  resourceclaim/rail0  failed to get network interface name for device dummy0: device dummy0 not found in store\n",
            "pod-network",
            "DRA driver",
        ),
        (
            "5m19s  Warning  FailedPrepareDynamicResources  pod/pod1  Failed to prepare dynamic resources: prepare dynamic resources: NodePrepareResources failed for ResourceClaim \
             rail0: failed to get netlink to interface dummy0: Link not found\n",
            "pod-network",
            "DRA driver",
        ),
    ]);
    let gpu = "5m19s  Warning  FailedPrepareDynamicResources  pod/pod1  Failed to prepare dynamic resources: NodePrepareResources failed for ResourceClaim gpu: timed out\n";
    assert!(!kinds(gpu).contains(&K::NetworkAttachFailed));
}

#[test]
fn perftest_and_other_small_programs_are_read_by_what_they_print_last() {
    each_is(&[
        (
            " Unexpected CM event bl blka 7\n Unable to perform rdma_client function\n Unable to init the socket connection\n",
            "fabric-or-peer",
            "",
        ),
        (
            " Unexpected CM event bl blka 8\n Unable to perform rdma_client function\n Unable to init the socket connection\n",
            "no-listener",
            "",
        ),
        (
            "client read/write: Connection reset by peer\nCouldn't read/write remote address\n",
            "peer-failed",
            "",
        ),
        (
            "Last error:\nNet : Call to recv from 10.1.1.1<4711> failed : Connection refused\n",
            "peer-failed",
            "",
        ),
    ]);
    for (line, kind) in [
        ("Reason: OFI::LrtsInit::fi_getinfo error\n", K::NoDevice),
        (
            "*** FATAL ERROR: Unable to find any ACTIVE HCA ports\n",
            K::PortNotActive,
        ),
    ] {
        assert_eq!(kinds(line), [kind], "{line}");
    }
}
