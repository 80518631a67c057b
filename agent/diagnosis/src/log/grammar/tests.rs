//! What each form of message shows, and that its healthy relatives show nothing.

use super::*;

#[test]
fn a_device_that_goes_away_is_not_one_that_moves() {
    for line in [
        "w0101 rdma_device.cpp:88] device mlx5_0 has been removed",
        "error: ib device mlx5_1 was removed while in use",
        "[  10.1] rpcrdma: removing device mlx5_0 for 10.0.0.1:20049",
    ] {
        assert_eq!(find(line).map(|(kind, _)| kind), Some(K::DeviceGone), "{line}");
    }
    for line in [
        "rdma device mlx5_0 was removed from the pod",
        "smc: removing ib device mlx5_0",
        "the file was removed by mlx5_0",
    ] {
        assert_eq!(find(line), None, "{line}");
    }
}

#[test]
fn forms_are_read_and_their_healthy_relatives_are_not() {
    for (line, expected) in [
        ("rdma_open_hca(575)....: no ib device found", Some(K::NoDevice)),
        (
            "error: no usable rdma devices were detected on this host",
            Some(K::NoDevice),
        ),
        ("mypmd: no active hca found", Some(K::NoDevice)),
        (
            "[enforce fail] list_. no ibverbs devices present",
            Some(K::NoDevice),
        ),
        ("no suitable gid found on rocep153s0/1", Some(K::NoGid)),
        ("no change of the gid was found", None),
        (
            "failed to find a gid which matches/unmatches the following subnet list: 192.168.40.0/24",
            Some(K::SettingUnmatched),
        ),
        ("no block device found", None),
        ("casino rdma device found", None),
        (
            "deepep timeout for dispatch senders, rank 3, responsible_channel = 4",
            Some(K::CollectiveTimeout),
        ),
        (
            "deepep combine rdma sender timeout, channel: 3, rdma: 1",
            Some(K::PeerUnreachable),
        ),
        ("deepep error: timeout (dispatch cpu)", Some(K::CollectiveTimeout)),
        ("deepep: timeouts are 100 s", None),
        (
            "mlx5_core 0000:5e:00.0: modify lag map port 1:1 port 2:1",
            Some(K::BondMemberDown),
        ),
        (
            "mlx5_core 0000:5e:00.0: lag map active ports: 2",
            Some(K::BondMemberDown),
        ),
        ("mlx5_core 0000:5e:00.0: lag map active ports: 1, 2", None),
        ("mlx5_core 0000:5e:00.0: modify lag map port 1:1 port 2:2", None),
        (
            "mlx5_core 0000:5e:00.0: lag map port 1:1 port 2:2 shared_fdb:0",
            None,
        ),
        (
            "nixl._bindings.nixlbackenderror: nixl_err_backend",
            Some(K::BackendFailed),
        ),
        ("transfer failed: nixl_err_remote_disconnect", Some(K::PeerClosed)),
        (
            "createbackend: unsupported backend 'ucx'",
            Some(K::BackendMissing),
        ),
        (
            "ibverbs init qp failed: end of file conn_id 1",
            Some(K::PeerClosed),
        ),
        ("unexpected end of file in config.json", None),
    ] {
        assert_eq!(find(line).map(|(kind, _)| kind), expected, "{line}");
    }
}

#[test]
fn what_does_not_complete_in_time_waits_for_its_peer() {
    for line in [
        "e1120 11:10:27.1 203020 transfer_task.cpp:305] failed to complete transfers after 60 seconds for batch 2586731328",
        "rdma transfer did not complete within 30s",
        "mooncake: batch 7 not complete after 5000 ms",
    ] {
        assert_eq!(unfinished(line), Some(K::PeerUnreachable), "{line}");
    }
    for line in [
        "transfer complete after 3 s",
        "failed to complete transfer: invalid argument",
        "failed to complete the configuration after 3 attempts",
    ] {
        assert_eq!(unfinished(line), None, "{line}");
    }
}

#[test]
fn a_search_of_a_file_is_no_failure_but_a_missing_device_is() {
    assert!(is_search(
        "openat(at_fdcwd, \"/usr/lib64/libmlx4-rdmav34.so\", o_rdonly) = -1 enoent (no such file or directory)"
    ));
    assert!(is_search(
        "[pid 41] access(\"/etc/libibverbs.d/efa.driver\", r_ok) = -1 enoent (no such file or directory)"
    ));
    assert!(!is_search(
        "openat(at_fdcwd, \"/dev/infiniband/uverbs0\", o_rdwr) = -1 enoent (no such file or directory)"
    ));
    assert!(!is_search(
        "openat(at_fdcwd, \"/dev/infiniband/uverbs0\", o_rdwr) = -1 eacces (permission denied)"
    ));
}
