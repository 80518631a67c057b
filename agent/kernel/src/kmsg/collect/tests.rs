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
