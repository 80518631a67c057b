//! What lines of a log show besides the failure itself decides which cause comes first.

#![allow(missing_docs)]

use rdma_health_diagnosis::{Confidence, Diagnosis, diagnose, log::LogReader, symptom::Grade};
use rdma_health_node::Node;

fn diagnosed(log: &str) -> Diagnosis {
    let mut reader = LogReader::default();
    reader.feed(log.as_bytes());
    diagnose(&Node::unknown(), &[], Some(&reader.finish()))
}

/// The ids of the causes that are not unlikely, the first one first.
fn causes(log: &str) -> Vec<&'static str> {
    let causes = diagnosed(log).causes.into_iter();
    causes
        .filter(|cause| cause.confidence > Confidence::Unlikely)
        .map(|cause| cause.id)
        .collect()
}

#[test]
fn a_receiver_of_efa_that_was_reached_before_failed_itself() {
    const LINE: &str =
        "libfabric:451707:1708520807::efa:cq:efa_rdm_txe_handle_error():737<warn> err: 113, message: ";
    const GROUP: &str = "security group";
    for (message, first, names_group) in [
        (
            "Unresponsive receiver (reachable by EFA device but handshake failed) My EFA addr: x",
            "peer-failed",
            false,
        ),
        (
            "Unresponsive receiver (connection previously established) My EFA addr: x",
            "peer-failed",
            false,
        ),
        (
            "Unreachable remote (never received a response) My EFA addr: x",
            "fabric-or-peer",
            true,
        ),
    ] {
        let log = format!("{LINE}{message}\n");
        assert_eq!(causes(&log).first(), Some(&first), "{message}");
        let step = diagnosed(&log).next_step.unwrap_or_default();
        assert_eq!(step.contains(GROUP), names_group, "{message}: {step}");
    }
}

#[test]
fn an_exception_without_a_message_at_the_end_of_a_trace_ended_the_job() {
    const TIMEOUT: &str = "[rank0]:[E ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=77, \
        OpType=ALLGATHER, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600038 milliseconds before timing out.\n";
    const PLACE: &str = "Traceback (most recent call last):\n  File \"/opt/sft.py\", line 31, in <module>\n    x = next(it)\n";
    const OF_RANK: &str = "[rank3]: Traceback (most recent call last):\n[rank3]:   File \"/opt/sft.py\", line 31, in collate\n[rank3]: ";
    const HANDLED: &str = "\nDuring handling of the above exception, another exception occurred:\n";
    for (log, is_own) in [
        (format!("{OF_RANK}AssertionError\n{TIMEOUT}"), true),
        (format!("{OF_RANK}StopIteration\n{TIMEOUT}"), true),
        (format!("{PLACE}KeyboardInterrupt\n{TIMEOUT}"), true),
        (
            format!("{TIMEOUT}ERROR StopIteration raised in rank 9 after 70425 batches\n"),
            true,
        ),
        // A user interrupts a job that hangs.
        (format!("{TIMEOUT}\n\n\n\n{OF_RANK}KeyboardInterrupt\n"), false),
        (format!("{PLACE}StopIteration\n{HANDLED}{TIMEOUT}"), false),
        (format!("StopIteration\n{TIMEOUT}"), false),
        (TIMEOUT.to_owned(), false),
    ] {
        let symptoms = diagnosed(&log).symptoms;
        let counts = symptoms.iter().any(|symptom| symptom.grade > Grade::Note);
        assert_eq!(!counts, is_own, "{log}: {symptoms:?}");
    }
}

#[test]
fn an_experimental_verb_that_fails_means_that_library_and_driver_do_not_fit() {
    for (line, is_mismatch) in [
        (
            "[1.2] [h:1:0] ib_verbs.h:84 UCX ERROR ibv_exp_query_device(mlx5_0) returned 38: No space left on device",
            true,
        ),
        (
            "[1.2] [h:1:0] ib_verbs.h:84 UCX ERROR ibv_exp_query_device(mlx5_0) returned 38: Function not implemented",
            true,
        ),
        (
            "[1.2] [h:1:0] ib_iface.c:9 UCX ERROR ibv_exp_create_qp(mlx5_0) failed: Invalid argument",
            true,
        ),
        (
            "[1.2] [h:1:0] ib_md.c:9 UCX ERROR ibv_exp_reg_mr() failed: Cannot allocate memory",
            false,
        ),
        (
            "[1.2] [h:1:0] ib_device.c:9 UCX ERROR ibv_query_device(mlx5_0) returned 22: Invalid argument",
            false,
        ),
    ] {
        let found = causes(&format!("{line}\n"));
        assert_eq!(
            found.first() == Some(&"userspace-libraries"),
            is_mismatch,
            "{line}: {found:?}"
        );
    }
}

#[test]
fn a_device_with_a_guid_of_zeros_is_a_virtual_function_without_its_own() {
    const FAILS: &str = "$ ib_write_bw -d mlx5_7\nCouldn't allocate MR\nfailed to create mr\n";
    for (shown, is_zero) in [
        ("hca_id: mlx5_7\n\tnode_guid:\t0000:0000:0000:0000\n", true),
        (
            "# ibstat mlx5_7\n\tNode GUID: 0x0000000000000000\n\tPort GUID: 0x0000000000000000\n",
            true,
        ),
        (
            "CA 'mlx5_7'\n\tPort 1:\n\t\tPort GUID: 0x0000000000000000\n",
            true,
        ),
        ("hca_id: mlx5_7\n\tnode_guid:\te89e:4903:0035:6eaa\n", false),
        ("hca_id: rdmap16s27\n\tnode_guid:\t0000:0000:0000:0000\n", false),
        ("", false),
    ] {
        let found = causes(&format!("{shown}{FAILS}"));
        assert_eq!(
            found.first() == Some(&"virtual-functions"),
            is_zero,
            "{shown}: {found:?}"
        );
        assert!(!found.contains(&"peer-memory-path"), "{shown}: {found:?}");
    }
    let alone = diagnosed("hca_id: mlx5_7\n\tnode_guid:\t0000:0000:0000:0000\n");
    assert_eq!(alone.causes.first().map(|cause| cause.id), Some("guids"));
    let gpu = causes(&format!("using CUDA memory\n{FAILS}"));
    assert!(gpu.contains(&"peer-memory-path"), "{gpu:?}");
}

#[test]
fn a_link_local_gid_in_any_form_leads_to_the_gid_index() {
    const FAILS: &str = " Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\n";
    for (log, is_index) in [
        (
            "n:1:2 [1] transport/net_ib.cc:1698 NCCL WARN NET/IB: Got completion from peer 10.4.2.18<4912> with status=12 opcode=0 len=0 vendor \
            err 129 (Recv) localGid fe80::5aa2:e1ff:fe1c:2f0a remoteGids fe80::5aa2:e1ff:fe1c:3f1b\n"
                .to_owned(),
            true,
        ),
        (
            format!(" GID: 254:128:00:00:00:00:00:00:90:60:193:255:254:74:02:17\n{FAILS}"),
            true,
        ),
        (
            format!("GID_Index 0 gid fe:80:00:00:00:00:00:00:9e:63:c0:ff:fe:65:ab:90\n{FAILS}"),
            true,
        ),
        (format!("path sgid fe80::526b:4bff:fecb:bece dgid fe80::526b:4bff:fecb:bed0\n{FAILS}"), true),
        (
            format!(" GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:01:01:02\n{FAILS}"),
            false,
        ),
        (format!("{FAILS}\n\n\n GID: 254:128:00:00:00:00:00:00:90:60:193:255:254:74:02:17\n"), false),
        (
            format!("inet6 fe80::526b:4bff:fecb:bece/64 scope link\n{FAILS}"),
            false,
        ),
    ] {
        let found = causes(&log);
        assert_eq!(found.first() == Some(&"gid-index"), is_index, "{log}: {found:?}");
    }
}

#[test]
fn a_sentence_that_compares_a_message_in_quotes_shows_no_failure() {
    for (line, is_quoted) in [
        (
            "Feature request: clearer message than \"No IB devices found\"",
            true,
        ),
        ("Print a hint instead of \"No IB devices found\"", true),
        ("No IB devices found", false),
    ] {
        let found = causes(&format!("{line}\n"));
        assert_eq!(found.is_empty(), is_quoted, "{line}: {found:?}");
    }
}

#[test]
fn a_function_of_ethernet_gets_its_guid_of_its_mac_address() {
    const FAILS: &str = "Couldn't allocate MR\nfailed to create mr\n";
    for (layer, step) in [
        ("Ethernet", "vf N mac MAC"),
        ("InfiniBand", "vf N node_guid GUID"),
    ] {
        for shown in [
            format!(
                "CA 'mlx5_8'\n\tNode GUID: 0x0000000000000000\n\tPort 1:\n\t\tState: Active\n\t\tLink layer: {layer}\n"
            ),
            format!(
                "hca_id:\tmlx5_8\n\tnode_guid:\t0000:0000:0000:0000\n\t\tport:\t1\n\t\t\tlink_layer:\t{layer}\n"
            ),
        ] {
            let found = diagnosed(&format!("{shown}{FAILS}")).causes;
            assert_eq!(found[0].id, "virtual-functions", "{shown}");
            assert!(
                found[0].next_step.contains(step),
                "{shown}: {}",
                found[0].next_step
            );
        }
    }
}
