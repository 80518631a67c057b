//! What the kernel logged about adapters.

use super::*;

const FIELD: &str = "connectx7-gpu-mended";
/// The function of the first adapter, as its driver writes it.
const MLX5_0: &str = "mlx5_core 0000:18:00.0";
/// A day after boot, in seconds.
const DAY: u64 = 86_400;

/// A node that was up for two days, whose kernel logged these lines at these seconds after boot.
pub(super) fn logged(lines: &[(u64, &str)]) -> Node {
    node(FIELD, |tree| {
        let record = |(second, line): &(u64, &str)| format!("3,{second},{second}000000,-;{line}\n");
        tree.write("dev/kmsg", lines.iter().map(record).collect::<String>())
            .unwrap();
        tree.write("proc/uptime", format!("{}.00 1.00\n", 2 * DAY))
            .unwrap();
    })
}

/// The findings of one rule after one message an hour ago.
fn after(rule: &str, message: &str) -> Vec<String> {
    let line = format!("{MLX5_0}: {message}");
    of(&logged(&[(2 * DAY - 3600, &line)]), &auto(), rule)
}

#[test]
fn each_fault_of_an_adapter_is_found() {
    for (rule, message, severity) in [
        (
            "adapter-failed",
            "poll_health:825:(pid 0): device's health compromised - reached miss count",
            "critical",
        ),
        (
            "adapter-timeout",
            "wait_func:1195:(pid 1): CREATE_DCT(0x710) timeout. Will cause a leak of a command resource",
            "warning",
        ),
        ("adapter-timeout", "TX timeout detected", "warning"),
        (
            "adapter-not-started",
            "Firmware over 120000 MS in pre-initializing state, aborting",
            "warning",
        ),
        (
            "adapter-not-started",
            "probe with driver mlx5_core failed with error -110",
            "warning",
        ),
        (
            "pci-fault-logged",
            "PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester ID)",
            "critical",
        ),
        (
            "pci-fault-logged",
            "PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer",
            "warning",
        ),
        (
            "port-module-fault",
            "Port module event[error]: module 0, Cable error, High Temperature",
            "warning",
        ),
        (
            "port-module-fault",
            "The module's power requirements exceed the device's power supply. Cannot start link.",
            "warning",
        ),
        (
            "port-module-fault",
            "The installed module is incompatible with the device's NVM image. Cannot start link.",
            "warning",
        ),
        ("pause-storm", "Pause Storm detected!", "warning"),
        (
            "port-cable-unplugged",
            "Port module event: module 0, Cable unplugged",
            "warning",
        ),
        (
            "pci-slot-power",
            "mlx5_pcie_event:299:(pid 2): Detected insufficient power on the PCIe slot (27W).",
            "warning",
        ),
        ("driver-errors-logged", "a sentence from the future", "info"),
    ] {
        assert_eq!(after(rule, message), [format!("mlx5_0 {severity}")], "{message}");
    }
}

#[test]
fn what_a_process_wrote_and_what_is_harmless_is_not_found() {
    let refused = "mlx5_cmd_out_err:838:(pid 1): ACCESS_REG(0x805) op_mod(0x1) failed, status bad operation(0x2), syndrome (0x305684)";
    let flood = format!("{MLX5_0}: {refused}");
    let lines: Vec<_> = (DAY..DAY + 1000).map(|second| (second, flood.as_str())).collect();
    assert_eq!(found_all(&logged(&lines)), [""; 0]);
    let forged = node(FIELD, |tree| {
        let line = format!("12,1,1,-;{MLX5_0}: device's health compromised\n");
        tree.write("dev/kmsg", line).unwrap();
    });
    assert_eq!(found_all(&forged), [""; 0]);
}

fn found_all(node: &Node) -> Vec<String> {
    let verdict = rdma_health_rules::judge(node, &auto());
    verdict
        .findings
        .iter()
        .map(|finding| finding.message.clone())
        .collect()
}

#[test]
fn a_device_that_the_core_could_not_set_up_is_found_although_its_driver_says_that_it_started() {
    let refused = format!("{MLX5_0} mlx5_0: opcode CREATE_QP (2) error BAD_ATTR (5)");
    let core = "infiniband mlx5_0: Couldn't create ib_mad QP1";
    let started = format!("{MLX5_0}: firmware version: 28.39.1002");
    let at = 2 * DAY - 3600;
    let lines = [(at, &*refused), (at, core), (at + 1, &*started)];
    let found = findings(&logged(&lines), &auto(), "adapter-not-started");
    let [finding] = found.as_slice() else {
        panic!("{found:?}")
    };
    assert_eq!(finding.severity.name(), "warning");
    assert!(finding.message.contains("rdma_cm"), "{}", finding.message);
    assert!(
        finding.remedy.contains("compare the versions"),
        "{}",
        finding.remedy
    );
    // It was set up again.
    let again = [(at, core), (at + 3000, &*started)];
    assert_eq!(
        of(&logged(&again), &auto(), "adapter-not-started"),
        ["mlx5_0 info"]
    );
    // The device has another name by now, and one in software is gone.
    let renamed = [
        (at, &*refused),
        (at, "infiniband bnxt_re7: Couldn't open port 1"),
        (at, "infiniband rxe0: Couldn't open port 1"),
    ];
    assert_eq!(
        of(&logged(&renamed), &auto(), "adapter-not-started"),
        ["mlx5_0 warning"]
    );
    // Firmware that does not answer is reported for that.
    let late = format!(
        "{MLX5_0}: wait_func:1195:(pid 1): CREATE_QP(0x500) timeout. Will cause a leak of a command resource"
    );
    let silent = logged(&[(at, &late), (at, core)]);
    assert_eq!(of(&silent, &auto(), "adapter-timeout"), ["mlx5_0 warning"]);
    assert_eq!(of(&silent, &auto(), "adapter-not-started"), [""; 0]);
}

#[test]
fn a_pcie_error_that_the_firmware_of_the_machine_reports_is_found_once() {
    let report = |kind: &str| {
        let line = |text: &str| format!("{{1}}[Hardware Error]: {text}");
        [
            line("event severity: recoverable"),
            line(&format!(" Error 0, type: {kind}")),
            line("  section_type: PCIe error"),
            line("  device_id: 0000:18:00.0"),
            format!("{MLX5_0}: AER: aer_uncor_severity: 0x00463010"),
        ]
    };
    for (kind, expected) in [("fatal", "mlx5_0 critical"), ("recoverable", "mlx5_0 warning")] {
        let lines = report(kind);
        let lines: Vec<_> = lines.iter().map(|line| (2 * DAY - 60, line.as_str())).collect();
        assert_eq!(
            of(&logged(&lines), &auto(), "pci-fault-logged"),
            [expected],
            "{kind}"
        );
    }
    let corrected = report("corrected");
    let lines: Vec<_> = corrected[..4]
        .iter()
        .map(|line| (2 * DAY - 60, line.as_str()))
        .collect();
    assert_eq!(of(&logged(&lines), &auto(), "pci-fault-logged"), [""; 0]);
}

#[test]
fn what_was_logged_more_than_a_day_ago_is_info_unless_only_a_reset_ends_it() {
    let of_driver = |message: &str| format!("{MLX5_0}: {message}");
    for (rule, message, earlier, later) in [
        ("adapter-timeout", of_driver("TX timeout detected"), "warning", "info"),
        (
            "port-module-fault",
            of_driver("Port module event[error]: module 0, Cable error, High Temperature"),
            "warning",
            "info",
        ),
        (
            "pause-storm",
            of_driver("Pause Storm detected!"),
            "warning",
            "info",
        ),
        (
            "pci-fault-logged",
            of_driver("PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer"),
            "critical",
            "info",
        ),
        (
            "pci-fault-logged",
            "pcieport 0000:17:00.0: AER: Multiple Uncorrectable (Fatal) error message received from 0000:18:00.0".into(),
            "critical",
            "info",
        ),
        (
            "pci-fault-logged",
            "pcieport 0000:17:00.0: AER: Uncorrected (Fatal) error received: 0000:18:00.0".into(),
            "critical",
            "info",
        ),
        (
            "pci-fault-logged",
            "pcieport 0000:17:00.0: DPC: containment event, status:0x2009 source:0x0000".into(),
            "critical",
            "info",
        ),
        (
            "iommu-faults",
            "DMAR: [DMA Write NO_PASID] Request device [18:00.0] fault addr 0xff [fault reason 0x05]".into(),
            "warning",
            "info",
        ),
        (
            "adapter-failed",
            of_driver("device's health compromised - reached miss count"),
            "critical",
            "critical",
        ),
        (
            "adapter-not-started",
            of_driver("probe with driver mlx5_core failed with error -110"),
            "warning",
            "warning",
        ),
        (
            "pci-slot-power",
            of_driver("mlx5_pcie_event:299:(pid 2): Detected insufficient power on the PCIe slot (27W)."),
            "warning",
            "warning",
        ),
    ] {
        let at = |second| of(&logged(&[(second, message.as_str())]), &auto(), rule);
        assert_eq!(at(2 * DAY - 3600), [format!("mlx5_0 {earlier}")], "{message}");
        assert_eq!(at(DAY / 2), [format!("mlx5_0 {later}")], "{message}");
    }
}

#[test]
fn a_fatal_pcie_error_stays_while_the_adapter_is_not_active() {
    let error = format!("{MLX5_0}: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer");
    let mut node = logged(&[(DAY / 2, error.as_str())]);
    with_port(&mut node, "mlx5_0", |port| {
        if let Fact::Known(state) = &mut port.state {
            state.code = 1;
        }
    });
    assert_eq!(of(&node, &auto(), "pci-fault-logged"), ["mlx5_0 critical"]);
}

#[test]
fn a_pcie_error_from_which_the_kernel_recovered_is_info() {
    let error = format!("{MLX5_0}: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer");
    let over = format!("{MLX5_0}: AER: device recovery successful");
    let lines = [(2 * DAY - 60, &*error), (2 * DAY - 59, &*over)];
    assert_eq!(of(&logged(&lines), &auto(), "pci-fault-logged"), ["mlx5_0 info"]);
}

#[test]
fn a_flood_about_one_device_hides_no_fault_of_another() {
    let flood = "mlx5_core 0000:3b:00.0: cmd timed out";
    let fault = format!("{MLX5_0}: device's health compromised");
    let mut lines = vec![(DAY, fault.as_str())];
    lines.extend((DAY..DAY + 5000).map(|second| (second, flood)));
    assert_eq!(
        of(&logged(&lines), &auto(), "adapter-failed"),
        ["mlx5_0 critical"]
    );
}

#[test]
fn a_fault_that_is_over_is_info() {
    let health = format!("{MLX5_0}: device's health compromised");
    let recovered = format!("{MLX5_0}: mlx5_health_try_recover:338:(pid 9): health recovery succeeded");
    let events = [(DAY, health.as_str()), (DAY + 60, recovered.as_str())];
    assert_eq!(of(&logged(&events), &auto(), "adapter-failed"), ["mlx5_0 info"]);
    let again = [(DAY, recovered.as_str()), (DAY + 60, health.as_str())];
    assert_eq!(
        of(&logged(&again), &auto(), "adapter-failed"),
        ["mlx5_0 critical"]
    );
    let timeout = format!("{MLX5_0}: TX timeout detected");
    assert_eq!(
        of(
            &logged(&[(DAY / 2, timeout.as_str())]),
            &auto(),
            "adapter-timeout"
        ),
        ["mlx5_0 info"]
    );
    assert_eq!(
        of(&logged(&[(DAY / 2, health.as_str())]), &auto(), "adapter-failed"),
        ["mlx5_0 critical"]
    );
}

#[test]
fn a_cable_that_was_missing_at_the_start_is_not_found() {
    let unplugged = format!("{MLX5_0}: Port module event: module 0, Cable unplugged");
    let plugged = format!("{MLX5_0}: Port module event: module 0, Cable plugged");
    let started = format!("{MLX5_0}: firmware version: 28.41.1000");
    for events in [
        vec![(12, unplugged.as_str())],
        vec![(DAY, unplugged.as_str()), (DAY + 9, plugged.as_str())],
        vec![
            (2 * DAY - 60, started.as_str()),
            (2 * DAY - 50, unplugged.as_str()),
        ],
    ] {
        assert_eq!(
            of(&logged(&events), &auto(), "port-cable-unplugged"),
            [""; 0],
            "{events:?}"
        );
    }
}

#[test]
fn an_error_of_the_pcie_port_above_is_one_of_the_adapter() {
    let node = logged(&[(
        2 * DAY - 60,
        "pcieport 0000:17:00.0: DPC: containment event, status:0x2009 source:0x0000",
    )]);
    assert_eq!(of(&node, &auto(), "pci-fault-logged"), ["mlx5_0 critical"]);
    let other = logged(&[(
        2 * DAY - 60,
        "pcieport 0000:f7:00.0: DPC: containment event, status:0x2009 source:0x0000",
    )]);
    assert_eq!(of(&other, &auto(), "pci-fault-logged"), [""; 0]);
}

#[test]
fn an_error_above_several_cards_blames_only_the_one_that_has_a_failure_of_its_own() {
    let found = |lines: &[&str]| {
        let node = node("h100-connectx7", |tree| {
            let records: Vec<_> = lines
                .iter()
                .map(|line| format!("3,{DAY},{DAY}000000,-;{line}\n"))
                .collect();
            tree.write("dev/kmsg", records.concat()).unwrap();
        });
        let found = findings(&node, &auto(), "pci-fault-logged");
        found
            .into_iter()
            .map(|finding| (finding.subject.to_string(), finding.message))
            .collect::<Vec<_>>()
    };
    let port = "pcieport 0000:30:01.0: DPC: containment event, status:0x2009 source:0x0000";
    let own = "mlx5_core 0000:34:00.0: mlx5_pci_err_detected Device state = 1 pci_status: 1. Exit, result = 3, need reset";
    let unclear = found(&[port]);
    assert_eq!(unclear[0].0, "0000:30:01.0");
    assert!(
        unclear[0].1.contains("mlx5_2 (0000:33:00.0)") && unclear[0].1.contains("mlx5_3 (0000:34:00.0)"),
        "{}",
        unclear[0].1
    );
    let subjects: Vec<_> = found(&[port, own])
        .into_iter()
        .map(|(subject, _)| subject)
        .collect();
    assert_eq!(subjects, ["mlx5_3", "mlx5_3"]);
}

#[test]
fn faults_of_an_arm_smmu_are_those_of_its_stream() {
    for line in [
        "arm-smmu-v3 arm-smmu-v3.0.auto: \t0x0000180000000010",
        "arm-smmu-v3 arm-smmu-v3.5.auto: event: F_TRANSLATION client: 0000:18:00.0 sid: 0x1800 ssid: 0x0 iova: 0x0 ipa: 0x0",
    ] {
        assert_eq!(
            of(&logged(&[(DAY, line)]), &auto(), "iommu-faults"),
            ["mlx5_0 warning"],
            "{line}"
        );
    }
}

#[test]
fn an_adapter_that_is_gone_is_named_by_its_address() {
    let node = logged(&[(DAY, "mlx5_core: probe of 0000:e1:00.0 failed with error -110")]);
    assert_eq!(
        of(&node, &auto(), "adapter-not-started"),
        ["0000:e1:00.0 warning"]
    );
    let other = logged(&[(DAY, "ice: probe of 0000:e1:00.0 failed with error -110")]);
    assert_eq!(
        of(&other, &auto(), "adapter-not-started"),
        [""; 0],
        "a plain network function"
    );
}

#[test]
fn the_slot_of_an_adapter_that_is_gone_is_shown() {
    let lines = [
        (DAY, "pcieport 0000:fe:00.0: pciehp: Slot(12): Link Down"),
        (
            DAY,
            "mlx5_core 0000:ff:00.0: mlx5_pci_err_detected Device state = 1 pci_status: 1. Enter, pci channel state = 3",
        ),
    ];
    let found = findings(&logged(&lines), &auto(), "pci-fault-logged");
    assert_eq!(found.len(), 1);
    let evidence = &found[0].evidence;
    assert!(evidence.iter().any(|piece| piece.value.contains("Slot(12)")));
}

#[test]
fn what_the_kernel_logged_of_memory_and_access_is_found() {
    let full = "swiotlb buffer is full (sz: 65536 bytes), total 32768 (slots), used 32742 (slots)";
    assert_eq!(after("dma-bounce-full", full), ["mlx5_0 warning"]);
    let denied = |by: &str| {
        let line = format!("audit: type=1400 audit(1732300000.001:41): {by}");
        of(&logged(&[(2 * DAY - 60, &line)]), &auto(), "device-access-denied")
    };
    let selinux = "avc:  denied  { read write } for  pid=88123 comm=\"python3\" path=\"/dev/infiniband/uverbs1\" \
        scontext=system_u:system_r:container_t:s0:c12,c44 tclass=chr_file permissive=";
    assert_eq!(denied(&format!("{selinux}0")), ["node warning"]);
    assert_eq!(denied(&format!("{selinux}1")), [""; 0]);
    let apparmor = "apparmor=\"DENIED\" operation=\"open\" profile=\"docker-default\" name=\"/dev/infiniband/uverbs0\" pid=7712 \
        comm=\"all_reduce_perf\"";
    assert_eq!(denied(apparmor), ["node warning"]);
}

#[test]
fn an_adapter_without_an_address_range_needs_no_new_firmware() {
    let pci = "pci 0000:18:00.0: BAR 0 [mem size 0x02000000 64bit pref]: can't assign; no space";
    let failed = "mlx5_core: probe of 0000:18:00.0 failed with error -19";
    let remedy = |lines: &[(u64, &str)]| {
        let mut found = findings(&logged(lines), &auto(), "adapter-not-started");
        found.remove(0).remedy
    };
    assert!(remedy(&[(2, pci), (5, failed)]).contains("MMIO"));
    let of_vfs = pci.replace(" BAR 0", " VF BAR 0");
    assert!(!remedy(&[(2, &of_vfs), (5, failed)]).contains("MMIO"));
}

#[test]
fn what_uses_rdma_in_the_kernel_is_heard_until_it_works_again() {
    let failed = "nvme nvme1: rdma connection establishment failed (-22)";
    let again = "nvme nvme1: Successfully reconnected (2 attempts)";
    let found = |lines: &[(u64, &str)]| of(&logged(lines), &auto(), "driver-errors-logged");
    assert_eq!(found(&[(2 * DAY - 60, failed)]), ["nvme_rdma warning"]);
    assert_eq!(found(&[(60, failed)]), ["nvme_rdma info"]);
    assert_eq!(
        found(&[(2 * DAY - 60, failed), (2 * DAY - 30, again)]),
        ["nvme_rdma info"]
    );
    let path = "scsi host7: ib_srp: failed RECV status WR flushed (5) for CQE 1";
    let node = logged(&[(2 * DAY - 60, path)]);
    let remedy = &findings(&node, &auto(), "driver-errors-logged")[0].remedy;
    assert!(
        remedy.contains("ib_srp logged") && remedy.contains("WR flushed"),
        "{remedy}"
    );
    // RDMA in software also logs what happens to its network device.
    let software = "rdma_rxe: failed to allocate crc algorithmi err:-2";
    assert_eq!(found(&[(2 * DAY - 60, software)]), ["rdma_rxe info"]);
}

#[test]
fn firmware_that_was_still_starting_is_tried_again_before_anything_is_replaced() {
    let line = format!("{MLX5_0}: Firmware over 120000 MS in pre-initializing state, aborting");
    let node = logged(&[(2 * DAY - 60, &line)]);
    let remedy = &findings(&node, &auto(), "adapter-not-started")[0].remedy;
    assert!(
        remedy.contains("drivers_probe") && !remedy.contains("replace"),
        "{remedy}"
    );
}

#[test]
fn what_a_program_asked_for_in_vain_is_named_and_no_fault_of_the_adapter() {
    let refused = format!(
        "{MLX5_0}: mlx5_cmd_check:795:(pid 9993): RTR2RTS_QP(0x504) op_mod(0x0) failed, status bad parameter(0x3), syndrome (0x4bb88f)"
    );
    let failed = "mlx5_0/1: QP 51291 error: local length error (0x8e 0x0 0x0)";
    for (line, words) in [
        (refused.as_str(), "the firmware refused RTR2RTS_QP: bad parameter"),
        (failed, "a queue pair of a program failed: local length error"),
    ] {
        let node = logged(&[(2 * DAY - 60, line)]);
        assert_eq!(
            of(&node, &auto(), "driver-errors-logged"),
            ["mlx5_0 info"],
            "{line}"
        );
        let found = findings(&node, &auto(), "driver-errors-logged").remove(0);
        assert!(found.message.contains(words), "{}", found.message);
        assert!(
            found.remedy.contains("rdma-health explain \""),
            "{}",
            found.remedy
        );
    }
}

#[test]
fn refused_registrations_are_more_than_an_error_of_one_application() {
    let refused = format!("{MLX5_0}: Failed to process command REG_MR (opcode 7) comp_status 1 err -12");
    let times = |number: usize| {
        let lines: Vec<_> = (0..number)
            .map(|at| (2 * DAY - 60 + at as u64, refused.as_str()))
            .collect();
        println!(
            "{:?}",
            findings(&logged(&lines), &auto(), "driver-errors-logged")[0].message
        );
        of(&logged(&lines), &auto(), "driver-errors-logged")
    };
    assert_eq!(times(1), ["mlx5_0 info"]);
    assert_eq!(times(4), ["mlx5_0 warning"]);
}

#[test]
fn queues_that_the_driver_cannot_create_again_and_again_are_more_than_an_error_of_one_application() {
    let times = |number: usize, text: &str| {
        let line = format!("{MLX5_0}: {text}");
        let lines: Vec<_> = (0..number)
            .map(|at| (2 * DAY - 60 + at as u64, line.as_str()))
            .collect();
        of(&logged(&lines), &auto(), "driver-errors-logged")
    };
    for text in ["Failed to create HW CQ", "Failed to allocate HW AH"] {
        assert_eq!(times(1, text), ["mlx5_0 info"], "{text}");
        assert_eq!(times(4, text), ["mlx5_0 warning"], "{text}");
    }
    for text in [
        "Failed to create QP: invalid parameter",
        "Failed to create flow rule",
        "Invalid request local work queue 0x9 error.",
    ] {
        assert_eq!(times(4, text), ["mlx5_0 info"], "{text}");
    }
}

#[test]
fn a_driver_that_gets_no_memory_does_not_show_a_faulty_adapter() {
    let remedy = |lines: &[(u64, &str)]| {
        let mut found = findings(&logged(lines), &auto(), "adapter-not-started");
        found.pop().unwrap().remedy
    };
    let failed = "mlx4_core: probe of 0000:18:00.0 failed with error -12";
    let reason = "mlx4_core 0000:18:00.0: Failed to map MCG context memory, aborting";
    let found = remedy(&[(2, reason), (5, failed)]);
    assert!(
        found.contains("/etc/modprobe.d") && !found.contains("replace"),
        "{found}"
    );
    let other = failed.replace("-12", "-5");
    assert!(!remedy(&[(2, reason), (5, &other)]).contains("/etc/modprobe.d"));
}

#[test]
fn a_remedy_names_tools_of_nvidia_only_for_its_adapters() {
    for (fixture, driver, is_nvidia) in [("bnxt-re", "bnxt_en", false), (FIELD, "mlx5_core", true)] {
        let found = node(fixture, |_| {});
        let address = found.hcas().find_map(|hca| hca.pci_address.known().cloned());
        let line = format!("{driver} {}: Firmware health compromised", address.unwrap());
        let failed = node(fixture, |tree| {
            tree.write("dev/kmsg", format!("3,900,9000000,-;{line}\n"))
                .unwrap();
        });
        let found = findings(&failed, &auto(), "adapter-failed");
        assert_eq!(found[0].remedy.contains("mlxfwreset"), is_nvidia, "{fixture}");
        assert!(found[0].remedy.contains("power-cycle the node"));
    }
}

#[test]
fn an_adapter_whose_driver_finds_no_file_needs_no_new_adapter() {
    let line =
        format!("{MLX5_0}: The DDP package file was not found or could not be read. Entering Safe Mode");
    let found = findings(&logged(&[(DAY, &line)]), &auto(), "adapter-not-started");
    assert!(found[0].remedy.contains("linux-firmware"));
    assert!(!found[0].remedy.contains("flint"));
    assert!(
        !found[0].message.contains("initialisation"),
        "{}",
        found[0].message
    );
    // The line that names the file says most.
    let lines = [
        format!("{MLX5_0}: cannot find firmware \"hfi1_dc8051.fw\", err -2"),
        format!("{MLX5_0}: unable to obtain working firmware"),
    ];
    let lines = [(DAY, lines[0].as_str()), (DAY + 1, lines[1].as_str())];
    let named = findings(&logged(&lines), &auto(), "adapter-not-started");
    assert!(
        named[0].message.contains("hfi1_dc8051.fw"),
        "{}",
        named[0].message
    );
    assert!(named[0].remedy.contains("hfi1_dc8051.fw") && !named[0].remedy.contains("ice"));
    // The message about the file may be another one than that of the fault.
    let missing = format!("{MLX5_0}: Direct firmware load for a/b.fw failed with error -2");
    let given_up = "mlx5_core: probe of 0000:18:00.0 failed with error -2";
    let found = findings(
        &logged(&[(DAY, &missing), (DAY, given_up)]),
        &auto(),
        "adapter-not-started",
    );
    assert!(found[0].remedy.contains("linux-firmware"));
    assert!(
        found[0]
            .evidence
            .iter()
            .any(|piece| piece.value.contains("a/b.fw"))
    );
}

#[test]
fn a_part_of_an_adapter_is_named_by_its_function() {
    let probe = "mlx5_ib.rdma: probe of mlx5_core.rdma.3 failed with error -12";
    let refused = format!(
        "{MLX5_0}: mlx5_cmd_out_err:808:(pid 977): CREATE_MKEY(0x200) op_mod(0x0) failed, status no resources(0xf), syndrome (0x0), err(-12)"
    );
    let node = logged(&[(DAY, &refused), (DAY, probe)]);
    let found = findings(&node, &auto(), "adapter-not-started");
    assert_eq!(found[0].subject.device.as_deref(), Some("mlx5_0"));
    assert!(
        found[0].remedy.contains("no resources left"),
        "{}",
        found[0].remedy
    );
    assert!(!found[0].remedy.contains("flint"));
    // Where it is not known which function it is, no command has a placeholder.
    let found = findings(&logged(&[(DAY, probe)]), &auto(), "adapter-not-started");
    assert!(
        found[0].remedy.contains("grep mlx5_core.rdma.3"),
        "{}",
        found[0].remedy
    );
}

#[test]
fn virtual_functions_without_room_are_a_warning() {
    let with = |fixture: &str, text: &str| {
        let found = node(fixture, |_| {});
        let address = found.hcas().find_map(|hca| hca.pci_address.known().cloned());
        let line = format!("mlx5_core {}: {text}", address.unwrap());
        let logged = node(fixture, |tree| {
            tree.write("dev/kmsg", format!("3,900,9000000,-;{line}\n"))
                .unwrap();
        });
        of(&logged, &auto(), "driver-errors-logged")
    };
    for text in [
        "not enough MMIO resources for SR-IOV",
        "Failed to enable SRIOV: Only 0 MSI-X interrupts available. Not enough for 2 per VF",
        "mlx5_sriov_enable:236:(pid 3411): pci_enable_sriov failed : -12",
    ] {
        assert_eq!(with("h100-connectx7", text), ["mlx5_0 warning"], "{text}");
        assert_eq!(with(FIELD, text), ["mlx5_0 info"], "they were created later");
    }
    assert_eq!(
        with("h100-connectx7", "create qp: failed on rdma create qp, rc = -12"),
        ["mlx5_0 info"]
    );
}

#[test]
fn an_adapter_whose_firmware_refuses_the_driver_is_not_written_again() {
    let remedy = |lines: &[&str]| {
        let lines: Vec<_> = lines
            .iter()
            .map(|line| (2 * DAY - 60, format!("{MLX5_0}: {line}")))
            .collect();
        let lines: Vec<_> = lines
            .iter()
            .map(|(second, line)| (*second, line.as_str()))
            .collect();
        let found = findings(&logged(&lines), &auto(), "adapter-not-started");
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].remedy.clone()
    };
    for lines in [
        &[
            "handle_hca_cap failed",
            "mlx5_load_one failed with error code -22",
        ][..],
        &["probe with driver mlx5_core failed with error -95"],
    ] {
        let text = remedy(lines);
        assert!(
            text.contains("compare the versions") && !text.contains("flint or"),
            "{text}"
        );
    }
    // The driver gives up with a number that says nothing, after it named both versions.
    let old = remedy(&[
        "Card has firmware version 1.9.23, minimum supported firmware is 1.13.32.",
        "probe with driver mlx5_core failed with error -14",
    ]);
    assert!(
        old.contains("Update the firmware")
            && old.contains("minimum supported firmware is 1.13.32")
            && !old.contains("flint or"),
        "{old}"
    );
    let silent = remedy(&["mlx5_load_one failed with error code -110"]);
    assert!(silent.contains("flint"), "{silent}");
}
