//! Words and numbers that mislead: what the rest of the line, or the line next to it, says instead.

#![allow(missing_docs)]

mod common;

use rdma_health_diagnosis::symptom::{Grade, SymptomKind};

use common::{each_is, read};

/// The kinds of the symptoms that count.
fn kinds(text: &str) -> Vec<SymptomKind> {
    let symptoms = read(text).symptoms.into_iter();
    symptoms
        .filter(|symptom| symptom.grade > Grade::Note)
        .map(|symptom| symptom.kind)
        .collect()
}

#[test]
fn what_a_program_repeats_in_one_line_is_read_as_lines() {
    each_is(&[
        (
            "INTERNAL: NCCL operation ncclGroupEnd() failed: unhandled system error (run with NCCL_DEBUG=INFO for details). Last NCCL \
             warning(error) log entry (may be unrelated) 'Call to ibv_modify_qp failed with error Connection timed out'.",
            "addressing",
            "",
        ),
        (
            r#"{"level":"ERROR","message":"ncclSystemError: System call failed.\nLast error:\nCall to ibv_modify_qp failed with error No data available"}"#,
            "gid-missing",
            "",
        ),
    ]);
}

#[test]
fn a_number_beside_the_status_of_a_completion_is_that_status() {
    for line in [
        "Check failed: wc->status == IBV_WC_SUCCESS RC send CQ state error: 12, 0",
        "F0425 rdma.cc:88] Check failed: wc.status == IBV_WC_SUCCESS (12 vs. 0) on qp 44",
        "wc status error 12 on qp 44",
        "poll cq failed with state error: 12",
    ] {
        let id = kinds(line).first().map(|kind| kind.id());
        assert_eq!(id, Some("IBV_WC_RETRY_EXC_ERR"), "{line}");
    }
    assert_eq!(kinds("wc.status == IBV_WC_SUCCESS (0 vs. 0), state error: 0"), []);
}

#[test]
fn the_answer_of_the_system_says_more_than_what_a_program_guesses() {
    each_is(&[
        (
            "create interface rdma: no RDMA devices available, errno = 13. Is the ib_uverbs module loaded?: Permission denied",
            "device-permission",
            "",
        ),
        (
            "Oct 24 15:02:11 n1 kernel: [ 5216.4] uverbs_write: process 20417 (app) changed security contexts after opening file descriptor, \
             this is not allowed.",
            "device-permission",
            "before it opens",
        ),
        (
            "Failed to register memory 0x7fa3ce000000: Operation not permitted [1]",
            "memlock-limit",
            "",
        ),
        (
            "Libfabric error: (-12) Cannot allocate memory\nEFA internal error: (4112) Failure to post internal receive buffers",
            "memlock-limit",
            "",
        ),
    ]);
}

#[test]
fn an_error_number_of_what_has_no_peer_is_none_of_the_network() {
    each_is(&[
        (
            "[1516265731.5] [n1:4417 :0] rc_iface.c:650  UCX  ERROR Failed to create TM XRQ: No route to host",
            "driver-firmware",
            "",
        ),
        (
            "ib_srp: mlx5_0: ib_alloc_mr() failed. Try to reduce max_cmd_per_lun, max_sect or ch_count",
            "hca-resources",
            "",
        ),
        (
            "Failed to register memory 0x7fa3ce000000: Input/output error [5]",
            "hca-resources",
            "max_mr_size",
        ),
    ]);
}

#[test]
fn a_failure_of_another_device_or_network_is_none_of_rdma() {
    for text in [
        "[ 4593.4] i915 0000:00:02.0: not enough MMIO resources for SR-IOV\n\
         [ 4593.5] i915 0000:00:02.0: [drm] *ERROR* Failed to enable 2 VFs (-ENOMEM)",
        "n1 kernel: LNetError: 105-4: Error -100 starting up LNI tcp",
        "[1] W [MSGID: 103071] [rdma.c:4629:__gf_rdma_ctx_create] 0-rpc-transport/rdma: rdma_cm event channel creation failed [No such device]\n\
         [2] W [rpc-transport.c:351:rpc_transport_load] 0-rpc-transport: 'rdma' initialization failed\n\
         [3] E [MSGID: 106244] [glusterd.c:1764:init] 0-management: creation of 1 listeners failed, continuing with succeeded transport",
    ] {
        assert_eq!(kinds(text), [], "{text}");
    }
    let refused = "[1] W [MSGID: 103071] [rdma.c:4629:__gf_rdma_ctx_create] 0-rpc-transport/rdma: rdma_cm event channel creation failed [No such device]";
    assert_eq!(kinds(refused), [SymptomKind::CmUnavailable]);
}

#[test]
fn libraries_that_do_not_fit_and_parts_that_cannot_be_replaced_are_named() {
    each_is(&[
        (
            "./a.out: relocation error: /opt/ucx/libuct_ib.so.0: symbol mlx5dv_is_supported, version MLX5_1.8 not defined in file \
             libmlx5.so.1 with link time reference",
            "communication-library",
            "",
        ),
        (
            "n1:1:1 [0] net.cc:579 NCCL WARN Error: network gIB not found.\n\
             n1:1:1 [0] NCCL INFO NET/Plugin: Plugin load returned 2 : libc.so.6: version `GLIBC_2.32' not found (required by \
             /usr/local/lib64/libnccl-net.so) : when loading libnccl-net.so",
            "communication-library",
            "ldd --version",
        ),
        (
            "Storage modules are loaded for current driver, terminating prior driver reload failure due to UNLOAD_STORAGE_MODULES not set to \"true\"",
            "modules-in-use",
            "UNLOAD_STORAGE_MODULES",
        ),
        (
            "Failed loading kernel module mlx5_ib:[FAILED]",
            "rdma-modules",
            "modprobe mlx5_ib",
        ),
        (
            "[1] [n1:1:0] ib_mlx5dv_md.c:702  UCX  ERROR mlx5dv_devx_create_event_channel() failed: Protocol not supported",
            "driver-firmware",
            "",
        ),
    ]);
}
