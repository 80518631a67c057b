#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use super::*;

fn collected(lines: impl IntoIterator<Item = String>) -> Collected {
    let mut collected = Collected::default();
    for line in lines {
        collected.add(&line);
    }
    collected
}

fn again(saved: &str) -> Log {
    collected(saved.lines().map(str::to_owned)).into_log()
}

fn at(second: u64, text: &str) -> String {
    format!("3,{second},{second}000000,-;{text}")
}

const FAULT: &str = "mlx5_core 0000:14:00.0: device's health compromised - reached miss count";

#[test]
fn a_flood_displaces_neither_another_fault_nor_another_topic() {
    let flood = (0..100_000).map(|n| {
        let words = [
            "mlx5_core 0000:05:00.0: cmd timed out",
            "mlx5_core 0000:05:00.0: CREATE_QP failed, status x",
            "nvidia: x",
        ];
        at(n + 9, words[usize::try_from(n % 3).unwrap()])
    });
    let first = [at(1, "iommu: Default domain type: Translated"), at(2, FAULT)];
    let log = collected(first.into_iter().chain(flood)).into_log();
    let health = log
        .events
        .iter()
        .find(|event| event.kind == EventKind::AdapterHealth)
        .unwrap();
    assert_eq!((health.count, health.first, health.last), (1, Some(2), Some(2)));
    let timeout = log
        .events
        .iter()
        .find(|event| event.kind == EventKind::CommandTimeout)
        .unwrap();
    assert_eq!(
        (timeout.count, timeout.first, timeout.last),
        (33_334, Some(9), Some(100_008))
    );
    assert!(log.lines.first().unwrap().starts_with("iommu: Default"));
    assert!(log.lines.len() < 50, "{} lines", log.lines.len());
}

#[test]
fn many_devices_are_bounded_for_each_kind() {
    let many = (0..4096).map(|n| at(n, &format!("mlx5_core {n:04x}:00:00.0: cmd timed out")));
    let log = collected(many.chain([at(5000, FAULT)])).into_log();
    assert_eq!(log.events.len(), MAX_DEVICES + 1);
    assert_eq!(log.dropped, 4096 - MAX_DEVICES as u64);
    assert_eq!(log.events.last().unwrap().kind, EventKind::AdapterHealth);
}

#[test]
fn a_saved_log_gives_the_same_facts() {
    let lines = (0..2000).map(|n| match n % 5 {
        0 => at(n, FAULT),
        1 => at(n, "mlx5_core 0000:14:00.0: firmware version: 28.41.1000"),
        2 => at(n, &format!("nvidia: {n}")),
        3 => format!("12,{n},{n},-;mlx5_core 0000:99:00.0: fatal, says a process"),
        _ => format!("{FAULT} {n}"),
    });
    let collected = collected(lines);
    let saved = collected.saved();
    let log = collected.into_log();
    assert_eq!(again(&saved), log);
    assert!(
        log.events
            .iter()
            .all(|event| event.device.to_string() == "0000:14:00.0")
    );
    let health = log
        .events
        .iter()
        .find(|event| event.kind == EventKind::AdapterHealth);
    assert_eq!(health.unwrap().count, 800);
}

#[test]
fn a_line_about_repetition_without_a_message_counts_nothing() {
    let forged = [
        " REPEATED=7",
        "x",
        " REPEATED=18446744073709551615",
        " REPEATED=x",
    ];
    assert_eq!(collected(forged.map(str::to_owned)).into_log(), Log::default());
    let all = [FAULT, " REPEATED=18446744073709551615", " REPEATED=1"].map(str::to_owned);
    assert_eq!(collected(all).into_log().events[0].count, u64::MAX);
}

/// A crash and a hung task, whose module is in a later record.
const REPORTS: [&str; 7] = [
    "BUG: kernel NULL pointer dereference, address: 0000000000000070",
    "CPU: 2 PID: 17142 Comm: alice Not tainted 6.1.0 #13",
    "RIP: 0010:mlx5_ib_dereg_mr+0x29/0x110 [mlx5_ib]",
    "Oops: 0000 [#1] SMP PTI",
    "INFO: task alice:3646 blocked for more than 120 seconds.",
    "  __schedule+0x2e3/0x740",
    "  cmd_exec+0x3c9/0x8b0 [mlx5_core]",
];

#[test]
fn a_report_of_several_records_is_one_event_that_a_saved_log_gives_again() {
    let shown = |log: &Log| -> Vec<String> {
        let shown = |event: &Event| format!("{} {} {}", event.device, event.kind.name(), event.count);
        log.events.iter().map(shown).collect()
    };
    let expected = ["mlx5_ib module-crashed 1", "mlx5_core module-hung 1"];
    let records = REPORTS.map(|text| at(7, text));
    let all = collected(records.clone());
    let saved = all.saved();
    assert!(!saved.contains("alice"), "{saved}");
    let log = all.into_log();
    assert_eq!(shown(&log), expected);
    assert_eq!(shown(&again(&saved)), expected);
    assert_eq!(again(&saved), log);
    // The helper passes on single records, without the names of processes.
    let passed: Vec<String> = records.iter().filter_map(|record| relevant(record)).collect();
    assert!(
        passed.iter().all(|record| !record.contains("alice")),
        "{passed:?}"
    );
    assert_eq!(shown(&collected(passed).into_log()), expected);
}

#[test]
fn the_lines_of_one_message_about_a_gpu_are_joined_in_a_file_as_well() {
    let mut collected = Collected::default();
    let text = "[    9.1] NVRM: The NVIDIA GPU 0000:15:00.0\n\
        \x20              NVRM: (PCI ID: 10de:26b5) installed in this system has\n\
        \x20              NVRM: fallen off the bus and is not responding to commands.\n\
        [    9.2] NVRM: The NVIDIA probe routine failed for 1 device(s).\n";
    collected.begin(text);
    text.lines().for_each(|line| collected.add(line));
    let saved = collected.saved();
    let log = collected.into_log();
    assert_eq!(log.events.len(), 1, "{log:?}");
    assert_eq!(
        (log.events[0].kind, log.events[0].last),
        (EventKind::GpuFailed, Some(9))
    );
    assert_eq!(again(&saved), log);
}

/// What is kept of a file with this text.
fn of_file(text: &str) -> Collected {
    let mut collected = Collected::default();
    collected.begin(text);
    text.lines().for_each(|line| collected.add(line));
    collected
}

#[test]
fn a_file_may_have_any_form_in_which_tools_show_the_log() {
    for before in [
        "<3>[ 4000.000000] ",
        "[ 4000.000000] gpu-01 kernel: ",
        "Nov 27 20:10:05 gpu-01 kernel: ",
        "2026-11-27T20:10:05+0000 gpu-01 kernel: ",
        "2026-11-27T20:10:05,123456+00:00 ",
        "[Fr Nov 27 20:10:05 2026] ",
        "\u{1b}[32m[ 4000.000000] \u{1b}[0m\u{1b}[33m",
        "",
    ] {
        let file = of_file(&format!("{before}{FAULT}\n"));
        assert_eq!(file.foreign(), None, "{before}");
        let log = file.into_log();
        assert_eq!(log.events.len(), 1, "{before}");
        assert_eq!(log.events[0].kind, EventKind::AdapterHealth);
    }
}

#[test]
fn a_file_with_lines_of_something_else_is_not_a_log_without_faults() {
    let other = "{\"MESSAGE\":\"mlx5_core 0000:14:00.0: Fatal error 1 detected\"}\n{}\n";
    let file = of_file(other);
    assert_eq!(file.foreign(), other.lines().next());
    assert!(
        of_file(&file.saved()).foreign().is_some(),
        "a snapshot keeps that"
    );
    assert!(file.saved().lines().all(is_marker));
    for sound in [
        "",
        "\n",
        "Linux version 6.8.0 (build@host)\nusb 1-1: new device\n",
        "[    1.0] usb 1-1: new device\n",
        "6,1,1,-;usb 1-1: new device\n",
        "30,1,1,-;systemd[1]: started\n",
    ] {
        assert_eq!(of_file(sound).foreign(), None, "{sound}");
    }
}
