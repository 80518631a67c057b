//! Lines of the kernel whose meaning depends on who wrote them, when, and what else the log shows.

#![allow(missing_docs)]

mod common;

use common::{first, kinds, primary};
use rdma_health_diagnosis::symptom::SymptomKind;

#[test]
fn a_link_that_flaps_or_stays_down_is_reported() {
    let down = "[Tue Jan  6 10:00:01 2026] mlx5_core 0000:31:00.0 ens1f0np0: Link down\n";
    let up = "[Tue Jan  6 10:00:04 2026] mlx5_core 0000:31:00.0 ens1f0np0: Link up\n";
    let other = |line: &str| line.replace("31:00.0", "31:00.1");
    for (log, is_reported) in [
        (format!("{down}{up}"), false),
        (format!("{down}{up}{down}{up}{down}{up}"), false),
        (format!("{down}{up}{down}"), true),
        (format!("{down}{up}").repeat(4), true),
        // Each port for itself.
        (format!("{down}{}{up}{}", other(down), other(up)), false),
        (format!("{down}{up}{}", other(down)), true),
    ] {
        let found = primary(&log).contains(&SymptomKind::PortError);
        assert_eq!(found, is_reported, "{log}");
    }
}

#[test]
fn an_empty_port_while_the_machine_starts_is_no_failure() {
    let line = |time: &str| {
        format!("[{time}] mlx5_core 0000:31:00.1: Port module event: module 1, Cable unplugged\n")
    };
    assert_eq!(kinds(&line("    6.502201")), []);
    assert_eq!(kinds(&line(" 8106.502201")), [SymptomKind::PortError]);
}

#[test]
fn a_refused_signature_is_that_of_rdma_if_its_modules_are_missing() {
    let refused = "[   33.102219] Loading of module with unavailable key is rejected\n";
    let service =
        "[   33.133001] systemd[1]: openibd.service: Main process exited, code=exited, status=1/FAILURE\n";
    assert_eq!(first(&format!("{refused}{service}")).0, "module-signature");
    assert!(!primary(refused).contains(&SymptomKind::ModuleUnsigned));
}

#[test]
fn an_isolated_bridge_counts_only_with_an_adapter_below_it() {
    let frozen = "[    2.001923] EEH: Frozen PE#fd on PHB#1 detected\n";
    assert!(!primary(frozen).contains(&SymptomKind::PciFault));
    let ours = "[    3.1] mlx5_core 0001:04:00.0: mlx5_pci_err_detected was called\n";
    assert!(primary(&format!("{frozen}{ours}")).contains(&SymptomKind::PciFault));
}

#[test]
fn drivers_of_every_maker_report_an_adapter_that_failed() {
    for (line, cause) in [
        (
            "be2net 0000:04:00.0: Adapter in non-recoverable error",
            "device-fault",
        ),
        (
            "[70211.001002] [_qed_mcp_cmd_and_union:631(ens2f0:00)]The MFW failed to respond to command 0x29000000 [param 0x00000000].",
            "device-fault",
        ),
        (
            "mlx4_core 0000:03:00.0: command SET_PORT (0xc) failed: in_param=0x6098b5000, in_mod=0x1, op_mod=0x0, fw status = 0x40",
            "driver-firmware",
        ),
        (
            "[   12.084036] <mlx4_ib> create_pv_sqp: Couldn't create special QP (-16)",
            "driver-firmware",
        ),
        (
            "hfi1 0000:7f:00.0: hfi1_0: [QP74] hfi1_tid_timeout 4084",
            "fabric-or-peer",
        ),
        (
            "[    9.33] NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:",
            "pci-resources",
        ),
    ] {
        assert_eq!(first(line).0, cause, "{line}");
    }
    // The driver adapts how it joins interrupts, and may fail at that without a consequence.
    assert_eq!(
        kinds("bnxt_en 0000:21:00.1 ens2f1np1: hwrm req_type 0x53 seq id 0x6fca error 0x2"),
        []
    );
}

#[test]
fn the_step_fits_what_stands_in_the_way() {
    for (line, words) in [
        (
            "[ 22.1] NVRM: GPU 0000:17:00.0 is already bound to nouveau.",
            "blacklist nouveau",
        ),
        (
            "[ 18.2] usnic_verbs:usnic_uiom_init:530: IOMMU required but not present or enabled.  USNIC QPs will not function w/o enabling IOMMU",
            "intel_iommu=on",
        ),
        (
            "[   64.331020] erdma: probe of 0000:00:07.0 failed with error -110",
            "gets another host",
        ),
        (
            "[  469.867487] rdma_rxe: rxe_invalidate_mr: rkey (0x4d9) doesn't match mr->ibmr.rkey (0x4da)",
            "SoftRoCE",
        ),
        (
            "[61200.3] watchdog: BUG: soft lockup - CPU#12 stuck for 26s! [kworker/12:1H:452]\n[61200.4] RIP: 0010:mlx5_ib_poll_cq+0x1a3/0xe10 [mlx5_ib]",
            "does not leave the function mlx5_ib_poll_cq",
        ),
    ] {
        let step = first(line).1;
        assert!(step.contains(words), "{line}: {step}");
    }
}

#[test]
fn a_trace_without_its_head_is_shown() {
    let trace = "[68998.1] Call Trace:\n[68998.2]  <TASK>\n[68998.3]  efa_remove_device+0xb5/0xd0 [efa]\n";
    assert_eq!(kinds(trace), [SymptomKind::Unrecognised]);
    assert_eq!(kinds(&trace.replace("[efa]", "[nvme]")), []);
}

#[test]
fn a_structured_journal_says_the_same_as_a_plain_one() {
    let record = r#"{"_TRANSPORT":"kernel","PRIORITY":"3","_HOSTNAME":"n1","MESSAGE":"mlx5_core 0000:10:00.0: poll_health:970:(pid 0): Fatal error 1 detected"}"#;
    let plain = "n1 kernel: mlx5_core 0000:10:00.0: poll_health:970:(pid 0): Fatal error 1 detected";
    assert_eq!(kinds(record), kinds(plain));
    assert_eq!(kinds(record), [SymptomKind::DeviceFatal]);
}

#[test]
fn a_failed_check_of_the_kernel_is_not_a_crash() {
    let heading = "[920.6] WARNING: CPU: 1 PID: 21 at drivers/infiniband/sw/rxe/rxe_comp.c:756 rxe_completer+0x989/0xcc0 [rdma_rxe]\n";
    let place = "[920.7] RIP: 0010:rxe_completer+0x989/0xcc0 [rdma_rxe]\n";
    let code = "[920.8] Code: 0f b6 84 24 3a <0f> 0b e9 cb f8 ff ff\n";
    for log in [
        heading.to_owned(),
        format!("{heading}{place}{code}"),
        // The heading is cut.
        format!("{place}{code}"),
    ] {
        assert_eq!(kinds(&log), [SymptomKind::DriverWarned], "{log}");
        let (cause, step) = first(&log);
        assert_eq!(cause, "driver-firmware", "{log}");
        assert!(
            step.contains("rxe_completer") && step.contains("goes on"),
            "{step}"
        );
        assert!(!step.contains("crashed"), "{step}");
    }
    let oops = "[920.6] BUG: kernel NULL pointer dereference, address: 0000000000000098\n";
    assert_eq!(kinds(&format!("{oops}{place}")), [SymptomKind::DriverCrashed]);
}

#[test]
fn what_the_kernel_reports_in_no_module_is_shown() {
    let stack = "[960.7] Modules linked in: ksmbd(O-) rdma_cm iw_cm ib_cm ib_core\n";
    for log in [
        format!(
            "[960.6] WARNING: CPU: 11 PID: 10680 at lib/refcount.c:28 refcount_warn_saturate+0xe2/0xf0\n{stack}"
        ),
        format!("[248.2] watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [perf:11856]\n{stack}"),
        "[325.9] Kernel panic - not syncing: Fatal exception in interrupt\n".to_owned(),
    ] {
        assert_eq!(kinds(&log), [SymptomKind::Unrecognised], "{log}");
    }
    let other = "[960.7] Modules linked in: xfs e1000e\n";
    let elsewhere = format!(
        "[960.6] WARNING: CPU: 11 PID: 10680 at lib/refcount.c:28 refcount_warn_saturate+0xe2/0xf0\n{other}"
    );
    assert_eq!(kinds(&elsewhere), []);
}
