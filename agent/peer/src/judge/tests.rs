#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use rdma_health_protocol::{Bandwidth, Completion, LinkLayer, Path, PortKey};

use super::*;
use crate::rail::{MatchedBy, PortOffer};

const LIMITS: Limits = Limits {
    percent_of_capacity: 90,
    percent_of_equals: 80,
};

fn port(device: &str, gigabits: u64) -> PortOffer {
    PortOffer {
        port: PortKey {
            device: device.into(),
            port: 1,
        },
        link_layer: LinkLayer::Ethernet,
        rate: Some(gigabits * 1_000_000_000),
        capacity: Some(gigabits * 1_000_000_000),
        limited_by: "its rate".into(),
        software: false,
        subnets: Vec::new(),
    }
}

fn report(stage: Stage, failure: Option<ProbeFailure>) -> ProbeReport {
    ProbeReport {
        path: Path::loopback("mlx5_0", 1),
        stage,
        failure,
        gid: None,
        numa_node: None,
        bandwidth: None,
        latency: None,
        elapsed_us: 0,
    }
}

fn passed(gigabits: f64, micros: f64, queue_pairs: u32) -> EndResult {
    let mut report = report(Stage::Done, None);
    report.bandwidth = Some(Bandwidth {
        bytes: 1 << 28,
        seconds: 1.0,
        bytes_per_second: gigabits * 1e9 / 8.0,
        message_size: 65_536,
        queue_pairs,
    });
    report.latency = Some(Latency {
        samples: 1000,
        min: micros * 1e-6,
        median: micros * 1e-6,
        p99: micros * 2e-6,
    });
    EndResult::Report(Box::new(report))
}

fn responded() -> EndResult {
    EndResult::Report(Box::new(report(Stage::Done, None)))
}

fn failed(stage: Stage, failure: ProbeFailure) -> EndResult {
    EndResult::Report(Box::new(report(stage, Some(failure))))
}

fn retries_exceeded() -> ProbeFailure {
    ProbeFailure::Completion(Completion {
        status: 12,
        name: "IBV_WC_RETRY_EXC_ERR".into(),
        vendor_error: 0x81,
    })
}

fn rail(out: Option<[EndResult; 2]>, back: Option<[EndResult; 2]>) -> RailResult {
    let direction = |ends: [EndResult; 2]| {
        let [writer, responder] = ends;
        Direction { writer, responder }
    };
    RailResult {
        here: port("mlx5_0", 400),
        there: port("mlx5_0", 400),
        matched_by: MatchedBy::Name,
        queue_pairs: 4,
        out: out.map(direction),
        back: back.map(direction),
    }
}

fn good(gigabits: f64, micros: f64) -> RailResult {
    let ends = || Some([passed(gigabits, micros, 4), responded()]);
    rail(ends(), ends())
}

fn verdict(rails: Vec<RailResult>) -> Verdict {
    judge(&between(rails), LIMITS)
}

fn between(rails: Vec<RailResult>) -> Measurement {
    Measurement {
        here: "node-a".into(),
        there: "node-b".into(),
        rails,
        only_here: Vec::new(),
        only_there: Vec::new(),
    }
}

fn only_message(rail: RailResult) -> (Status, String) {
    let verdict = verdict(vec![rail]);
    let messages = verdict.rails[0].messages.join("\n");
    (verdict.status, messages)
}

#[test]
fn a_rail_as_fast_as_its_port_is_ok() {
    assert_eq!(only_message(good(391.0, 1.8)), (Status::Ok, String::new()));
}

#[test]
fn a_direction_below_the_rate_is_named() {
    let (status, message) = only_message(rail(
        Some([passed(391.0, 1.8, 4), responded()]),
        Some([passed(201.0, 1.8, 4), responded()]),
    ));
    assert_eq!(status, Status::Warning);
    assert_eq!(
        message,
        "201.00 Gb/s from node-b to node-a is 50% of 400 Gb/s (its rate of mlx5_0:1)"
    );
}

#[test]
fn a_port_is_not_accused_before_enough_queue_pairs_were_used() {
    let one = || Some([passed(201.0, 1.8, 1), responded()]);
    let (status, message) = only_message(rail(one(), one()));
    assert_eq!(status, Status::Ok);
    assert!(message.contains("used 1 queue pair, needs 4"), "{message}");
}

#[test]
fn the_slow_one_of_equal_rails_is_named_also_on_software_devices() {
    let mut rails = vec![good(30.0, 40.0), good(31.0, 41.0), good(4.0, 300.0)];
    for rail in &mut rails {
        rail.here.software = true;
    }
    let verdict = verdict(rails);
    let states: Vec<_> = verdict.rails.iter().map(|rail| rail.status).collect();
    assert_eq!(states, [Status::Ok, Status::Ok, Status::Warning]);
    let messages = verdict.rails[2].messages.join("\n");
    assert!(
        messages.contains("13% of 31.00 Gb/s on the equal rail"),
        "{messages}"
    );
    assert!(
        messages.contains("is 300.0 µs, that of the equal rail of mlx5_0:1 is 40.0 µs"),
        "{messages}"
    );
}

#[test]
fn a_blackhole_names_the_direction_that_loses_packets() {
    let silent = |arrived| failed(Stage::Poll, ProbeFailure::Silent { arrived });
    let (status, nothing) = only_message(rail(
        Some([failed(Stage::Poll, retries_exceeded()), silent(0)]),
        None,
    ));
    assert_eq!(status, Status::Critical);
    assert!(
        nothing.contains("failed at poll: IBV_WC_RETRY_EXC_ERR(12) vendor_err=0x81"),
        "{nothing}"
    );
    assert!(
        nothing.contains("no RDMA packet from node-a arrives at node-b"),
        "{nothing}"
    );
    let (_, unanswered) = only_message(rail(
        Some([failed(Stage::Poll, retries_exceeded()), silent(65_536)]),
        None,
    ));
    assert!(
        unanswered.contains("the acknowledgements from node-b do not arrive at node-a"),
        "{unanswered}"
    );
}

#[test]
fn a_busy_port_and_a_helper_that_fails_are_not_a_failure_of_the_rail() {
    let busy = failed(Stage::BusyCheck, ProbeFailure::Busy { bytes_per_second: 9 });
    let (status, message) = only_message(rail(Some([EndResult::NotRun, busy]), None));
    assert_eq!(status, Status::Unknown);
    assert!(
        message.contains("mlx5_0:1 of node-b: the port carries 9 bytes/s"),
        "{message}"
    );
    let error = EndResult::Error("verbs helper not found".into());
    let (status, message) = only_message(rail(Some([error, EndResult::NotRun]), None));
    assert_eq!(
        (status, &*message),
        (Status::Unknown, "not measured: node-a: verbs helper not found")
    );
}

#[test]
fn a_retransmission_shows_in_the_slowest_small_writes() {
    let mut lossy = good(391.0, 2.0);
    let EndResult::Report(report) = &mut lossy.out.as_mut().unwrap().writer else {
        panic!("it passed")
    };
    report.latency.as_mut().unwrap().p99 = 0.034;
    let (status, message) = only_message(lossy);
    assert_eq!(status, Status::Warning);
    assert!(
        message.contains("packets between node-a and node-b are lost"),
        "{message}"
    );
}

#[test]
fn both_nodes_come_to_the_same_verdict() {
    let failed = [failed(Stage::Poll, retries_exceeded()), EndResult::NotRun];
    let mut all = between(vec![good(391.0, 1.8), rail(Some(failed), None), good(120.0, 1.8)]);
    all.only_there.push(port("mlx5_9", 400));
    let mirrored = all.clone().mirrored();
    assert_eq!(judge(&all, LIMITS).status, Status::Critical);
    let states =
        |all: &Measurement| -> Vec<_> { judge(all, LIMITS).rails.iter().map(|rail| rail.status).collect() };
    assert_eq!(states(&all), states(&mirrored));
    assert_eq!(mirrored.clone().mirrored(), all);
    all.rails.truncate(1);
    assert_eq!(
        judge(&all, LIMITS).status,
        Status::Unknown,
        "a port was not measured"
    );
    assert_eq!(judge(&between(Vec::new()), LIMITS).status, Status::Unknown);
}
