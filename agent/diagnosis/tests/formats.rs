//! Formats of programs: the words of one reason in the lines of many, and what a function's name in a line does not say.

#![allow(missing_docs)]

mod common;

use common::{first, kinds, read};
use rdma_health_diagnosis::symptom::{Grade, SymptomKind as K};

#[test]
fn an_amount_beyond_what_is_possible_is_a_failure() {
    for line in [
        "mlx5_core 0000:5e:00.0: mlx5_core_reserve_gids:59:(pid 4242): GID table exhausted attempting to reserve 1 more GIDs",
        "infiniband mlx5_0: mlx5_ib_add_outstanding_wr:370:(pid 4242): no available GSI work request.",
        "[IBVSocket] >> RdmaInfo_map: too many DMA elements count=1 max=1",
        "libfabric:42:1764::lnx:mr:lnx_open_core_domains():110<warn> Too many domains to link. Maximum allowed: 4",
        "[2026-11-27T10:00:01 io:42 IBConnect.cc:427 ERROR] IBSocket closed before connected",
    ] {
        assert_eq!(kinds(line), [K::Unrecognised], "{line}");
    }
    for line in [
        "WARNING: index out of range in cache, using default",
        "[rank0] WARNING: sequence too large for the cache, truncating to 4096",
        "INFO: batch exhausted, restarting iterator",
        "libfabric:42:1764::efa:ep_ctrl:efa_rdm_txe():12<info> message too large for eager protocol",
    ] {
        assert!(kinds(line).is_empty(), "{line}");
    }
}

#[test]
fn a_provider_that_refuses_its_caller_is_shown_and_blames_no_limit() {
    for line in [
        "rdmap16s27: efa_check_qp_attr:2059: Driver QP type must be SRD",
        "rdmap16s27: efa_alloc_context:109: Kernel does not support AH udata",
        "mana_0: mana_create_qp_raw:53: Create RAW QP should use parent domain",
        "hns_0: hnsdv_query_device:1657: not a HNS RoCE device!",
    ] {
        assert_eq!(kinds(line), [K::Unrecognised], "{line}");
    }
}

#[test]
fn a_function_that_refuses_an_argument_is_not_what_its_name_does() {
    for line in [
        "libfabric:42:1764::efa:mr:efa_mr_regattr_validate():93<warn> Unsupported flag type. requested[0x2] supported[0x1]",
        "libfabric:42:1764::core:cq:ofi_ep_bind_valid():259<warn> invalid CQ flags",
        "libfabric:42:1764::cxi:av:cxip_av_insert_auth_key_validate_args():543<warn> Bad auth_key_size",
        "libfabric:42:1764::ofi_rxm:mr:smr_reg_sig_handler():78<warn> Unable to register handler for sig 1",
    ] {
        assert_eq!(kinds(line), [K::Unrecognised], "{line}");
    }
}

#[test]
fn partition_keys_gids_and_ids_that_are_not_there_are_recognised() {
    for (line, kind) in [
        (
            "srp_daemon[2211]: get_iou_info: Unable to find pkey_index for pkey 1f",
            K::PkeyMissing,
        ),
        ("ib_sa: Couldn't find index for default PKey", K::PkeyMissing),
        ("[ERROR] mlx5_2:1 doesn't find RoCE v2 GID", K::NoGid),
        (
            "XNodeSync [IBVSocket] >> rdma_create_id failed.",
            K::CmUnavailable,
        ),
        (
            "NCCL ERROR NET/OFI Failed to register flush buffer",
            K::RegMrFailed,
        ),
        (
            "ibgda.cpp:2837: ibgda_qp_rtr2rts failed on DCI #2.",
            K::RtsRefused,
        ),
    ] {
        assert_eq!(kinds(line), [kind], "{line}");
    }
    // No module is missing where the kernel itself calls it.
    let of_kernel = "[ 1234.567890] iser: iser_connect: rdma_create_id failed: -22";
    assert_eq!(kinds(of_kernel), [K::Unrecognised]);
}

#[test]
fn the_end_of_a_queue_of_one_direction_is_harmless() {
    for line in [
        "[IBVSocket] >> Failed to destroy sendCQ.",
        "[IBVSocket] >> recvCQ destroy failed: 1",
    ] {
        let log = read(line);
        assert!(
            log.symptoms.iter().all(|symptom| symptom.grade <= Grade::Note),
            "{line}"
        );
    }
}

#[test]
fn what_lustre_could_not_allocate_is_no_missing_module() {
    for line in [
        "LNetError: 42:0:(o2iblnd.c:1684:kiblnd_alloc_freg_pool()) Failed to allocate a new fast_reg descriptor",
        "LNetError: 42:0:(o2iblnd.c:3704:kiblnd_startup()) Failed to initialize NI pools: -22",
        "LNetError: 42:0:(o2iblnd_cb.c:2542:kiblnd_passive_connect()) Short connection request",
        "LNetError: 42:0:(o2iblnd.c:825:kiblnd_create_conn()) cmid HCA(mlx5_2), kib_dev(mlx5_3) need failover",
    ] {
        assert_ne!(first(line).0, "rdma-modules", "{line}");
        assert_eq!(kinds(line), [K::Unrecognised], "{line}");
    }
}

#[test]
fn the_buffers_of_a_login_are_not_the_peer() {
    for line in [
        "iser: isert_alloc_login_buf: login_desc dma mapping error: -5",
        "iser: isert_init: Unable to allocate isert_login_wq",
    ] {
        assert_ne!(first(line).0, "peer-failed", "{line}");
    }
}
