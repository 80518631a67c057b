//! What the kernel logged about GPUs.

use super::{adapter_events::logged, *};

/// A day after boot, in seconds; the node is up for two.
const DAY: u64 = 86_400;

/// What a rule finds after one message of an hour ago.
fn after(rule: &str, message: &str) -> Vec<String> {
    of(&logged(&[(2 * DAY - 3600, message)]), &auto(), rule)
}

#[test]
fn a_gpu_that_failed_is_found_and_an_error_of_an_application_is_info() {
    let address = "0000:19:00.0";
    for (message, severity) in [
        (
            "NVRM: Xid (PCI:0000:19:00): 79, GPU has fallen off the bus.",
            "critical",
        ),
        (
            "NVRM: Xid (PCI:0000:19:00): 95, Uncontained ECC error",
            "critical",
        ),
        (
            "NVRM: Xid (PCI:0000:19:00): 74, NVLink: fatal error detected on link 6",
            "warning",
        ),
        (
            "nvidia 0000:19:00.0: AER: can't recover (no error_detected callback)",
            "critical",
        ),
    ] {
        let expected = [format!("{address} {severity}")];
        assert_eq!(after("gpu-failed", message), expected, "{message}");
    }
    let application = "NVRM: Xid (PCI:0000:19:00): 31, Ch 00000008, intr 10000000. MMU Fault";
    assert_eq!(after("gpu-failed", application), [""; 0]);
    assert_eq!(
        after("gpu-errors-logged", application),
        [format!("{address} info")]
    );
}

#[test]
fn a_gpu_that_was_reset_or_failed_long_ago_is_info() {
    let failed = "NVRM: Xid (PCI:0000:19:00): 79, GPU has fallen off the bus.";
    let reset = "NVRM: Xid (PCI:0000:19:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)";
    let over = logged(&[(2 * DAY - 3600, failed), (2 * DAY - 60, reset)]);
    assert_eq!(of(&over, &auto(), "gpu-failed"), ["0000:19:00.0 info"]);
    let old = logged(&[(DAY / 2, failed)]);
    assert_eq!(of(&old, &auto(), "gpu-failed"), ["0000:19:00.0 info"]);
}

#[test]
fn a_flood_about_one_gpu_hides_no_fault_of_another() {
    let flood = "NVRM: Xid (PCI:0000:a9:00): 43, Ch 00000010";
    let mut lines = vec![(
        DAY + 3700,
        "NVRM: Xid (PCI:0000:19:00): 79, GPU has fallen off the bus.",
    )];
    lines.extend((DAY + 3800..DAY + 8000).map(|second| (second, flood)));
    assert_eq!(
        of(&logged(&lines), &auto(), "gpu-failed"),
        ["0000:19:00.0 critical"]
    );
}

#[test]
fn an_error_of_the_peer_memory_module_matters_unless_a_process_ended() {
    let pinned = "nvidia-peermem nv_mem_get_pages:213 ERROR -22 while calling nvidia_p2p_get_pages()";
    assert_eq!(after("gpu-errors-logged", pinned), ["nvidia-peermem warning"]);
    let ended = "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing";
    assert_eq!(after("gpu-errors-logged", ended), ["nvidia-peermem info"]);
}

#[test]
fn what_to_do_about_peer_memory_is_not_what_to_do_about_a_gpu() {
    let remedy = |rule: &str, message: &str| {
        let node = logged(&[(2 * DAY - 3600, message)]);
        findings(&node, &auto(), rule).remove(0).remedy
    };
    let mapped = "nvidia-peermem nv_dma_map:174 ERROR error -22 while calling nvidia_p2p_dma_map_pages()";
    let of_memory = remedy("gpu-errors-logged", mapped);
    assert!(
        of_memory.contains("DMA-BUF") && !of_memory.contains("Xid"),
        "{of_memory}"
    );
    let without_range = remedy("gpu-failed", "NVRM: BAR1 is 0M @ 0x0 (PCI:0000:19:00.0)");
    assert!(
        without_range.contains("Above 4G Decoding") && !without_range.contains("replace"),
        "{without_range}"
    );
}

#[test]
fn a_gpu_that_left_the_bus_is_found_however_the_driver_says_it() {
    let one = "NVRM: The NVIDIA GPU 0000:19:00.0\\x0a NVRM: (PCI ID: 10de:26b5) installed in this system has\\x0a NVRM: fallen off the bus and is not responding to commands.";
    assert_eq!(after("gpu-failed", one), ["0000:19:00.0 critical"]);
    let lines: Vec<_> = one.split("\\x0a ").map(|line| (2 * DAY - 3600, line)).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(
        of(&logged(&lines), &auto(), "gpu-failed"),
        ["0000:19:00.0 critical"]
    );
    let cause = "NVRM: Xid (PCI:0000:19:00): 45, pid=1, name=python3, Ch 00000001 caused by previous Xid 149";
    assert_eq!(after("gpu-failed", cause), ["0000:19:00.0 warning"]);
    // The driver's own checks name no GPU, unless another message does.
    let lost = "NVRM: nvAssertOkFailedNoLog: Assertion failed: GPU lost from the bus [NV_ERR_GPU_IS_LOST] (0x0000000F) returned from rmStatus @ x.c:106";
    assert_eq!(after("gpu-failed", lost), ["nvidia critical"]);
    let both = logged(&[(2 * DAY - 60, lost), (2 * DAY - 50, one)]);
    assert_eq!(of(&both, &auto(), "gpu-failed"), ["0000:19:00.0 critical"]);
}
