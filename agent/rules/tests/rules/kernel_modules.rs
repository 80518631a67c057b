//! What the kernel logged about its RDMA modules.

use super::{adapter_events::logged, *};

/// A day after boot, in seconds; the node is up for two.
const DAY: u64 = 86_400;
const CRASH: [&str; 3] = [
    "BUG: kernel NULL pointer dereference, address: 0000000000000070",
    "Oops: 0000 [#1] SMP PTI",
    "RIP: 0010:mlx5_ib_dereg_mr+0x29/0x110 [mlx5_ib]",
];
const HUNG: [&str; 3] = [
    "INFO: task my-job:4711 blocked for more than 122 seconds.",
    " __schedule+0x2e3/0x740",
    " cmd_exec+0x3c9/0x8b0 [mlx5_core]",
];

/// What a rule finds after these messages at a second.
fn at(second: u64, rule: &str, lines: &[&str]) -> Vec<String> {
    let lines: Vec<_> = lines.iter().map(|line| (second, *line)).collect();
    of(&logged(&lines), &auto(), rule)
}

#[test]
fn a_module_that_does_not_fit_is_named_until_no_one_tries_or_it_is_loaded() {
    let rule = "kernel-module-refused";
    let refused = [
        "ko2iblnd: disagrees about version of symbol __ib_alloc_pd",
        "nvmet_rdma: Unknown symbol ib_alloc_cq (err 0)",
    ];
    let hour_ago = 2 * DAY - 3600;
    assert_eq!(
        at(hour_ago, rule, &refused),
        ["ko2iblnd warning", "nvmet_rdma warning"]
    );
    // A service loads some modules at each start, whether they are used or not.
    assert_eq!(at(60, rule, &refused), ["ko2iblnd warning", "nvmet_rdma warning"]);
    let of_service = ["rpcrdma: Unknown symbol ib_alloc_cq (err 0)"];
    assert_eq!(at(hour_ago, rule, &of_service), ["rpcrdma warning"]);
    assert_eq!(at(60, rule, &of_service), ["rpcrdma info"]);
    let loaded = "mlx5_ib: Unknown symbol ib_register_device (err -22)";
    let other = "nvidia_drm: Unknown symbol drm_gem_prime_export (err -2)";
    let unsigned =
        "ko2iblnd: module verification failed: signature and/or required key missing - tainting kernel";
    assert_eq!(at(hour_ago, rule, &[loaded, other, unsigned]), [""; 0]);
}

#[test]
fn a_crash_in_a_module_of_rdma_is_found_with_its_function() {
    let rule = "kernel-module-crashed";
    assert_eq!(at(2 * DAY - 3600, rule, &CRASH), ["mlx5_ib critical"]);
    assert_eq!(at(60, rule, &CRASH), ["mlx5_ib warning"]);
    let lines: Vec<_> = CRASH.iter().map(|line| (2 * DAY - 60, *line)).collect();
    let found = findings(&logged(&lines), &auto(), rule);
    assert!(
        found[0].message.contains("in mlx5_ib_dereg_mr"),
        "{}",
        found[0].message
    );
    assert!(
        found[0].remedy.contains("modinfo -F version mlx5_ib"),
        "{}",
        found[0].remedy
    );
    let software =
        [CRASH[0], "RIP: 0010:rxe_post_send+0x29/0x110 [rdma_rxe]"].map(|line| (2 * DAY - 60, line));
    let found = findings(&logged(&software), &auto(), rule);
    assert!(
        found[0].remedy.contains("no adapter and no firmware"),
        "{}",
        found[0].remedy
    );
    let warned = [
        "WARNING: CPU: 3 PID: 12 at mr.c:1 mlx5_ib_dereg_mr+0x29/0x110 [mlx5_ib]",
        CRASH[2],
    ];
    assert_eq!(at(2 * DAY - 60, rule, &warned), [""; 0]);
    // A driver of Ethernet that none of the adapters uses.
    let ethernet = [CRASH[0], "RIP: 0010:i40e_clean+0x29/0x110 [i40e]"];
    assert_eq!(at(2 * DAY - 60, rule, &ethernet), [""; 0]);
}

#[test]
fn a_task_that_hangs_in_a_driver_is_found_without_its_name() {
    let rule = "kernel-module-hung";
    assert_eq!(at(2 * DAY - 3600, rule, &HUNG), ["mlx5_core warning"]);
    assert_eq!(at(60, rule, &HUNG), ["mlx5_core info"]);
    let lines: Vec<_> = HUNG.iter().map(|line| (2 * DAY - 60, *line)).collect();
    let found = findings(&logged(&lines), &auto(), rule);
    assert!(found[0].message.contains("in cmd_exec"), "{}", found[0].message);
    assert!(
        found[0]
            .evidence
            .iter()
            .all(|evidence| !evidence.value.contains("my-job"))
    );
    let server = [HUNG[0], " rpc_wait_bit_killable+0x1/0x2 [sunrpc]", HUNG[2]];
    assert_eq!(at(2 * DAY - 60, rule, &server), [""; 0]);
}
