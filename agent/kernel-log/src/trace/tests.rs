#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use super::*;
use crate::{classify, kept};

/// What the reports in these lines join to.
fn joined_of(lines: &[&str]) -> Vec<String> {
    let mut reports = Reports::default();
    let records = lines.iter().filter_map(|line| Record::parse(line));
    records.filter_map(|record| reports.add(&record)).collect()
}

/// The module and kind of the only report.
fn only(lines: &[&str]) -> Option<(String, &'static str)> {
    let joined = joined_of(lines);
    let message = joined.first()?;
    assert_eq!(joined.len(), 1, "{joined:?}");
    let report = classify(message).unwrap();
    // The joined message means the same wherever it is kept, and keeps its words.
    assert_eq!(kept(message), *message);
    assert!(Reports::default().add(&Record::parse(message).unwrap()).is_none());
    Some((report.device.to_string(), report.kind.name()))
}

#[test]
fn a_crash_is_that_of_the_first_module() {
    for (lines, module) in [
        (
            &[
                "BUG: unable to handle kernel NULL pointer dereference at 0000000000000070",
                "IP: [<ffffffffa06869ba>] iser_cq_tasklet_fn+0x6a/0x230 [ib_iser]",
                "PGD 0 ",
                "Oops: 0000 [#1] SMP DEBUG_PAGEALLOC ",
                "RIP: 0010:[<ffffffffa06869ba>]  [<ffffffffa06869ba>] iser_cq_tasklet_fn+0x6a/0x230 [ib_iser]",
            ][..],
            "ib_iser",
        ),
        (
            &[
                "1,1,5000000,-;BUG: kernel NULL pointer dereference, address: 0000000000000008",
                "1,2,5000100,-;#PF: supervisor read access in kernel mode",
                "4,3,5000200,-;Oops: 0000 [#1] SMP PTI",
                "4,4,5000300,-;RIP: 0010:mlx5_ib_dereg_mr+0x29/0x110 [mlx5_ib]",
            ],
            "mlx5_ib",
        ),
        // A function of the kernel did what the module asked for.
        (
            &[
                "kernel BUG at lib/list_debug.c:53!",
                "RIP: 0010:__list_del_entry_valid.cold+0x12/0x55",
                "Call Trace:",
                " ? die+0x36/0x90",
                " ib_free_cq+0x12/0x90 [ib_core 0123abcd]",
                " nvme_rdma_free_queue+0x12/0x90 [nvme_rdma]",
            ],
            "ib_core",
        ),
        (
            &[
                "Unable to handle kernel NULL pointer dereference at virtual address 0000000000000010",
                "Internal error: Oops: 96000004 [#1] SMP",
                "pc : hns_roce_v2_poll_cq+0x30/0x1a0 [hns_roce_hw_v2]",
            ],
            "hns_roce_hw_v2",
        ),
        // A jump to nowhere: only the work that the kernel did names a module.
        (
            &[
                "BUG: kernel NULL pointer dereference, address: 0000000000000000",
                "Oops: 0010 [#2] SMP NOPTI",
                "Workqueue: events dtr_cma_connect_work_fn [drbd_transport_rdma]",
                "RIP: 0010:0x0",
            ],
            "drbd_transport_rdma",
        ),
    ] {
        assert_eq!(
            only(lines),
            Some((module.to_owned(), "module-crashed")),
            "{lines:?}"
        );
    }
    let kasan = "BUG: KASAN: slab-out-of-bounds in rxe_post_send+0x12f3/0x1880 [rdma_rxe]";
    assert_eq!(classify(kasan).unwrap().kind, EventKind::ModuleCrashed);
}

#[test]
fn a_crash_elsewhere_and_a_warning_are_none() {
    for lines in [
        &[
            "BUG: unable to handle page fault for address: ffff9",
            "RIP: 0010:nvme_queue_rq+0x12/0x90 [nvme]",
            " mlx5_ib_dereg_mr+0x29/0x110 [mlx5_ib]",
        ][..],
        // Drivers warn of much that they survive, with the same lines.
        &[
            "WARNING: CPU: 3 PID: 12 at drivers/infiniband/hw/mlx5/mr.c:1 mlx5_ib_dereg_mr+0x29/0x110 [mlx5_ib]",
            "RIP: 0010:mlx5_ib_dereg_mr+0x29/0x110 [mlx5_ib]",
            " uverbs_free_mr+0x12/0x90 [ib_uverbs]",
        ],
        &[
            "BUG: unable to handle page fault for address: ffff9",
            "---[ end trace 0123 ]---",
            "RIP: 0010:mlx5_ib_dereg_mr+0x29/0x110 [mlx5_ib]",
        ],
        // Long after.
        &[
            "1,1,5000000,-;BUG: unable to handle page fault for address: ffff9",
            "4,2,15000000,-;RIP: 0010:mlx5_ib_dereg_mr+0x29/0x110 [mlx5_ib]",
        ],
        // What a process wrote, and what a process is called.
        &[
            "12,1,1,-;BUG: unable to handle page fault for address: ffff9",
            "4,2,2,-;RIP: 0010:mlx5_ib_dereg_mr+0x29/0x110 [mlx5_ib]",
        ],
        &[
            "Oops: x: page allocation failure: order:0, mode:0x0, nodemask=(null),cpuset=x,mems_allowed=0",
            "RIP: 0010:x: page allocation failure: cpuset=f+0x1/0x2 [mlx5_ib],mems_allowed=0",
            "CPU: 2 PID: 17142 Comm: f+0x1/0x2 [siw] Not tainted 4.0.0-rc4+ #13",
        ],
        &["BUG: KASAN: slab-out-of-bounds in nvme_x+0x12f3/0x1880 [nvme]"],
    ] {
        assert_eq!(only(lines), None, "{lines:?}");
    }
}

#[test]
fn a_task_that_hangs_in_rdma_is_told_from_one_that_waits_for_its_server() {
    let heading = "INFO: task drbdsetup:3646 blocked for more than 120 seconds.";
    for (call, module) in [
        (" cmd_exec+0x3c9/0x8b0 [mlx5_core]", Some("mlx5_core")),
        (
            " dtr_free+0x315/0x350 [drbd_transport_rdma]",
            Some("drbd_transport_rdma"),
        ),
        (" rpcrdma_wait+0x315/0x350 [rpcrdma]", None),
        (" nfs_wait+0x315/0x350 [nfs]", None),
        (" ? cmd_exec+0x3c9/0x8b0 [mlx5_core]", None),
    ] {
        let lines = [heading, "Call Trace:", "  __schedule+0x2e3/0x740", call];
        let expected = module.map(|module| (module.to_owned(), "module-hung"));
        assert_eq!(only(&lines), expected, "{call}");
        let joined = joined_of(&lines).join("");
        assert!(!joined.contains("drbdsetup"), "{joined}");
    }
    let shown = kept(&format!("3,1,1,-,caller=T7;{heading}"));
    assert_eq!(
        shown,
        "3,1,1,-;INFO: task <hidden> blocked for more than 120 seconds."
    );
    assert!(is_part(&Record::parse(&shown).unwrap()));
    let lockup = [
        "watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [my-job:4711]",
        "RIP: 0010:mlx5_eq_poll+0x12/0x90 [mlx5_core]",
    ];
    assert_eq!(only(&lockup), Some(("mlx5_core".to_owned(), "module-hung")));
    assert!(!joined_of(&lockup).join("").contains("my-job"));
}

#[test]
fn what_the_driver_of_a_gpu_says_in_several_lines_is_one_message() {
    const BEGIN: &str = "NVRM: The NVIDIA GPU 0000:15:00.0";
    const MIDDLE: &str = "NVRM: (PCI ID: 10de:26b5) installed in this system has";
    const END: &str = "NVRM: fallen off the bus and is not responding to commands.";
    let expected = ("0000:15:00.0".to_owned(), "gpu-failed");
    assert_eq!(only(&[BEGIN, MIDDLE, END]), Some(expected.clone()));
    assert_eq!(only(&["NVRM: x", MIDDLE, END]), None);
    assert_eq!(only(&[BEGIN, "usb 1-1: Product: x", END]), None);
    // A file has them without the time, indented.
    let mut reports = Reports::default();
    assert_eq!(
        reports.add(&Record::parse(&format!("[1.1] {BEGIN}")).unwrap()),
        None
    );
    assert_eq!(reports.add_rest(&format!("       {MIDDLE}")), None);
    assert!(reports.has_begun());
    assert!(reports.add_rest(&format!("       {END}")).is_some());
    assert_eq!(reports.add_rest(&format!("       {END}")), None);
    // The kernel's own log has them in one record.
    let one = format!("3,1,1,-;{BEGIN}\\x0a          {MIDDLE}\\x0a        {END}");
    let report = classify(&one).unwrap();
    assert_eq!((report.device.to_string(), report.kind.name()), expected);
}
