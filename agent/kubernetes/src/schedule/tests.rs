//! A fake clock and a fake server that counts.

use std::time::SystemTime;

use super::*;
use crate::kind::ConditionKind;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: u64 = 3600;

/// One node whose server responds like `answer`.
struct Bench {
    schedule: Schedule,
    start: Instant,
    now: Instant,
    /// The writes: time and link condition.
    writes: Vec<(Duration, Published)>,
    attempts: Vec<Duration>,
    transitions: usize,
}

/// The time of day so long after the start.
fn wall(after: Duration) -> String {
    const START: Duration = Duration::from_secs(1_780_000_000);
    humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + START + after).to_string()
}

fn link(status: Status, message: &str) -> Condition {
    Condition {
        kind: ConditionKind::Link.into(),
        status,
        reason: if status == Status::True {
            "PortDown"
        } else {
            "NoLinkProblem"
        }
        .into(),
        message: message.into(),
    }
}

impl Bench {
    fn new(seed: u64) -> Self {
        let start = Instant::now();
        Self {
            schedule: Schedule::new(start, Jitter::seeded(seed)),
            start,
            now: start,
            writes: Vec::new(),
            attempts: Vec::new(),
            transitions: 0,
        }
    }

    fn at(&self) -> Duration {
        self.now.duration_since(self.start)
    }

    /// Lets time pass, with a server that responds like `answer`.
    fn run(&mut self, time: Duration, answer: impl Fn(Duration) -> Result<(), Backoff>) {
        let end = self.now + time;
        loop {
            let wall = wall(self.at());
            match self.schedule.step(self.now, &wall) {
                Step::Write(write) => {
                    self.attempts.push(self.at());
                    match answer(self.at()) {
                        Ok(()) => {
                            self.writes.push((self.at(), write.conditions[0].clone()));
                            self.transitions += self.schedule.written(write, self.now).len();
                        }
                        Err(backoff) => self.schedule.failed(Some(write), backoff, self.now),
                    }
                }
                Step::Wait(until) => {
                    assert!(until > self.now, "a step that waits for the past never ends");
                    if until >= end {
                        self.now = end;
                        return;
                    }
                    self.now = until;
                }
            }
        }
    }

    fn see(&mut self, status: Status, message: &str) {
        let now = self.now;
        self.schedule.observe(vec![link(status, message)], now);
    }

    fn said(&self) -> Option<Status> {
        self.writes
            .last()
            .map(|(_, published)| published.condition.status)
    }
}

#[test]
fn a_healthy_node_writes_twelve_times_an_hour_and_nodes_do_not_synchronise() {
    let mut first = Bench::new(1);
    let mut second = Bench::new(2);
    for bench in [&mut first, &mut second] {
        bench.see(Status::False, "");
        bench.run(SECOND * 36_000, |_| Ok(()));
        assert!(
            (115..=126).contains(&bench.writes.len()),
            "{}",
            bench.writes.len()
        );
        for pair in bench.writes.windows(2) {
            let gap = pair[1].0.saturating_sub(pair[0].0);
            assert!((SECOND * 269..=SECOND * 331).contains(&gap), "{gap:?}");
        }
    }
    assert_ne!(first.writes[5].0, second.writes[5].0);
}

#[test]
fn a_change_is_written_within_two_seconds_and_keeps_its_time() {
    let mut bench = Bench::new(1);
    bench.see(Status::False, "");
    bench.run(SECOND * 1000, |_| Ok(()));
    bench.see(Status::True, "mlx5_0:1 is DOWN");
    bench.run(SECOND * 2, |_| Ok(()));
    assert_eq!(bench.said(), Some(Status::True));
    bench.run(SECOND * 1000, |_| Ok(()));
    assert!(bench.writes.len() > 5);
    assert_eq!(
        bench.writes.last().unwrap().1.since,
        wall(SECOND * 1000),
        "heartbeats change no transition time"
    );
    // The first recovery is written at once.
    bench.see(Status::False, "");
    bench.run(SECOND * 2, |_| Ok(()));
    assert_eq!(bench.said(), Some(Status::False));
}

#[test]
fn a_flapping_port_stays_a_problem_and_its_writes_are_bounded() {
    for seed in 0..50 {
        let mut bench = Bench::new(seed);
        bench.see(Status::False, "");
        bench.run(SECOND * 100, |_| Ok(()));
        for n in 0..HOUR * 6 / 7 {
            let status = if n % 2 == 0 { Status::True } else { Status::False };
            bench.see(status, &format!("flap {n}"));
            bench.run(SECOND * 7, |_| Ok(()));
        }
        assert_bounded(&bench.writes.iter().map(|write| write.0).collect::<Vec<_>>());
        assert!(bench.transitions <= 4, "{}", bench.transitions);
        let last = bench.writes.iter().rev().take(5);
        assert!(
            last.clone()
                .all(|(_, published)| published.condition.status == Status::True)
        );
        // Once the port is stable, the recovery is written.
        bench.see(Status::False, "");
        bench.run(SECOND * 901, |_| Ok(()));
        assert_eq!(bench.said(), Some(Status::False));
    }
}

/// Asserts that no window of an hour has more writes than documented.
fn assert_bounded(writes: &[Duration]) {
    for (n, from) in writes.iter().enumerate() {
        let within = writes[n..]
            .iter()
            .take_while(|at| **at < *from + SECOND * 3600)
            .count();
        assert!(within <= MOST_PER_HOUR, "{within} writes within an hour");
    }
}

#[test]
fn the_writes_are_always_bounded_and_the_final_state_is_written() {
    for seed in 0..30 {
        let mut bench = Bench::new(seed);
        let mut random = Jitter::seeded(seed);
        let mut pick = |most: u64| {
            random
                .between(Duration::ZERO, SECOND * u32::try_from(most).unwrap())
                .as_secs()
        };
        for n in 0..3000 {
            let status =
                [Status::False, Status::Unknown, Status::True][usize::try_from(pick(3).min(2)).unwrap()];
            let mut new = link(status, &format!("message {n}"));
            new.reason = format!("Reason{}", pick(5));
            let now = bench.now;
            bench.schedule.observe(vec![new], now);
            bench.run(SECOND * u32::try_from(pick(20)).unwrap(), |_| Ok(()));
        }
        assert_bounded(&bench.writes.iter().map(|write| write.0).collect::<Vec<_>>());
        bench.see(Status::True, "the final state");
        bench.run(SECOND * 125, |_| Ok(()));
        assert_eq!(bench.said(), Some(Status::True));
        bench.run(SECOND * 331, |_| Ok(()));
        assert_eq!(
            bench.writes.last().unwrap().1.condition.message,
            "the final state"
        );
    }
}

#[test]
fn a_message_that_changes_with_each_reading_is_written_with_the_heartbeats() {
    let mut bench = Bench::new(3);
    for n in 0..HOUR / 10 {
        bench.see(Status::True, &format!("{n} errors"));
        bench.run(SECOND * 10, |_| Ok(()));
    }
    assert!(bench.writes.len() <= 26, "{}", bench.writes.len());
}

#[test]
fn a_change_during_an_outage_is_written_within_five_seconds_of_the_return() {
    for seed in 0..200 {
        let mut bench = Bench::new(seed);
        bench.see(Status::False, "");
        bench.run(SECOND * 400, |_| Ok(()));
        bench.see(Status::True, "");
        let back = bench.at() + SECOND * 1800;
        // A connection attempt can take two seconds to fail; the fake server takes none.
        let answer = |at: Duration| if at < back { Err(Backoff::Away) } else { Ok(()) };
        bench.run(SECOND * 1800, answer);
        bench.run(SECOND * 3, answer);
        assert_eq!(bench.said(), Some(Status::True), "seed {seed}");
    }
}

/// A server that handles fifty requests per second in their order, even those whose client has given up; two thousand nodes
/// have a change at the same moment. Immediate retries would keep it busy with abandoned requests for ever.
#[test]
fn an_overloaded_server_is_given_time() {
    const EACH_SECOND: usize = 50;
    let deadline = SECOND * 10;
    let mut benches: Vec<_> = (0..2000).map(Bench::new).collect();
    let start = Instant::now();
    for bench in &mut benches {
        bench.schedule.observe(vec![link(Status::True, "")], start);
    }
    let mut waiting: Vec<Option<(Write, Instant)>> = benches.iter().map(|_| None).collect();
    let mut queue = VecDeque::new();
    let (mut attempts, mut written, mut seconds) = (0, 0, 0);
    while written < benches.len() {
        seconds += 1;
        let now = start + SECOND * seconds;
        assert!(seconds < 600, "{written} written after {attempts} attempts");
        for (n, bench) in benches.iter_mut().enumerate() {
            if let Some((write, _)) = waiting[n].take_if(|(_, since)| *since + deadline <= now) {
                bench
                    .schedule
                    .failed(Some(write), Backoff::Struggling(deadline), now);
            }
            if waiting[n].is_none()
                && bench.schedule.reported_problem().is_none()
                && let Step::Write(write) = bench.schedule.step(now, "")
            {
                attempts += 1;
                waiting[n] = Some((write, now));
                queue.push_back((n, now));
            }
        }
        for (n, since) in queue.drain(..queue.len().min(EACH_SECOND)) {
            if let Some((write, _)) = waiting[n].take_if(|(_, current)| *current == since) {
                written += benches[n].schedule.written(write, now).len();
            }
        }
    }
    assert!(attempts < 8000, "{attempts} attempts in {seconds} s");
}

#[test]
fn the_pause_after_a_failure_grows_with_the_duration_of_the_attempt() {
    for (took, first, last) in [
        (Duration::from_millis(5), 500, 60),
        (SECOND * 2, 2000, 60),
        (SECOND * 10, 10_000, 60),
    ] {
        let mut bench = Bench::new(1);
        bench.see(Status::True, "");
        let answer = |_| Err(Backoff::Struggling(took));
        bench.run(SECOND * 3600, answer);
        let pauses: Vec<_> = bench
            .attempts
            .windows(2)
            .map(|pair| pair[1].saturating_sub(pair[0]))
            .collect();
        let least = Duration::from_millis(first);
        assert!((least..=least * 2).contains(&pauses[0]), "{took:?}: {pauses:?}");
        let longest = *pauses.iter().max().unwrap();
        assert!(
            (SECOND * last / 2..=SECOND * last).contains(&longest),
            "{longest:?}"
        );
        assert!(pauses.iter().skip(8).all(|pause| *pause >= SECOND * last / 2));
    }
}

#[test]
fn a_long_outage_does_not_prolong_later_pauses() {
    for first in [
        // It accepts connections a moment before it serves them.
        Backoff::Struggling(Duration::from_millis(5)),
        // All nodes retry at once.
        Backoff::Throttled(Some(SECOND)),
    ] {
        for seed in 0..100 {
            let mut bench = Bench::new(seed);
            bench.see(Status::True, "");
            let answer = |at: Duration| match at.as_secs() {
                0..600 => Err(Backoff::Away),
                600..601 => Err(first),
                _ => Ok(()),
            };
            bench.run(SECOND * 606, answer);
            assert_eq!(bench.said(), Some(Status::True), "{first:?}, seed {seed}");
        }
    }
}

#[test]
fn a_server_that_rejects_requests_while_it_starts_is_retried_soon() {
    for seed in 0..100 {
        let mut bench = Bench::new(seed);
        bench.see(Status::True, "");
        // Its RBAC rules are loaded three seconds after its first response.
        let answer = |at: Duration| match at.as_secs() {
            0..600 => Err(Backoff::Away),
            600..603 => Err(Backoff::Refused),
            _ => Ok(()),
        };
        bench.run(SECOND * 608, answer);
        assert_eq!(bench.said(), Some(Status::True), "seed {seed}");
    }
}

#[test]
fn nodes_without_a_change_return_slowly_after_an_outage() {
    let back = SECOND * 2000;
    let mut first_after = Vec::new();
    for seed in 0..500 {
        let mut bench = Bench::new(seed);
        bench.see(Status::False, "");
        bench.run(SECOND * 3000, |at| {
            if (SECOND * 400..back).contains(&at) {
                Err(Backoff::Away)
            } else {
                Ok(())
            }
        });
        let tries = bench
            .attempts
            .iter()
            .filter(|at| (SECOND * 400..back).contains(*at))
            .count();
        assert!(tries <= 30, "{tries} failed attempts");
        first_after.push(
            bench
                .writes
                .iter()
                .find(|(at, _)| *at >= back)
                .unwrap()
                .0
                .saturating_sub(back),
        );
    }
    assert!(first_after.iter().all(|after| *after <= HEARTBEAT));
    for second in 0..300 {
        let at_once = first_after
            .iter()
            .filter(|after| after.as_secs() == second)
            .count();
        assert!(at_once <= 12, "{at_once} of 500 nodes in one second");
    }
}

#[test]
fn a_throttling_server_gets_the_pause_that_it_requests() {
    let mut bench = Bench::new(1);
    bench.see(Status::True, "");
    bench.run(SECOND * 3600, |_| Err(Backoff::Throttled(Some(SECOND * 30))));
    for pair in bench.attempts.windows(2) {
        assert!(pair[1].saturating_sub(pair[0]) >= SECOND * 30);
    }
    let mut endless = Bench::new(1);
    endless.see(Status::True, "");
    endless.run(SECOND * 3600, |_| Err(Backoff::Throttled(Some(Duration::MAX))));
    assert!(
        endless.attempts.len() >= 4,
        "a server cannot postpone writes for ever"
    );
}

#[test]
fn a_refusal_is_retried_about_once_a_minute() {
    let mut bench = Bench::new(1);
    bench.see(Status::True, "");
    bench.run(SECOND * 3600, |_| Err(Backoff::Refused));
    assert!(
        (60..=124).contains(&bench.attempts.len()),
        "{}",
        bench.attempts.len()
    );
}

#[test]
fn existing_conditions_are_not_written_again_after_a_start() {
    let mut bench = Bench::new(1);
    let existing = Published {
        condition: link(Status::True, "down"),
        since: "2026-01-01T00:00:00Z".into(),
    };
    let now = bench.now;
    bench.schedule.adopt(vec![existing], Some(SECOND * 10), now);
    bench.see(Status::True, "down");
    bench.run(SECOND * 289, |_| Ok(()));
    assert_eq!(bench.writes, []);
    bench.run(SECOND * 2, |_| Ok(()));
    assert_eq!(bench.writes[0].1.since, "2026-01-01T00:00:00Z");
    // A heartbeat in the future, from a wrong clock, counts as a heartbeat now.
    bench.schedule.adopt(Vec::new(), Some(Duration::ZERO), now);
}

#[test]
fn a_time_that_has_not_come_yet_is_corrected_with_the_next_heartbeat() {
    let mut bench = Bench::new(1);
    let existing = Published {
        condition: link(Status::True, "down"),
        since: wall(SECOND * 86400),
    };
    let now = bench.now;
    bench.schedule.adopt(vec![existing], Some(SECOND * 10), now);
    bench.see(Status::True, "down");
    bench.run(SECOND * 1000, |_| Ok(()));
    let times: Vec<_> = bench
        .writes
        .iter()
        .map(|(_, published)| published.since.clone())
        .collect();
    assert_eq!(times[0], wall(bench.writes[0].0));
    assert!(
        times.len() > 1 && times.iter().all(|time| *time == times[0]),
        "{times:?}"
    );
}

#[test]
fn a_condition_of_another_controller_is_left_out_for_an_hour() {
    let mut bench = Bench::new(1);
    let other = Condition {
        kind: ConditionKind::GpuDirect.into(),
        ..link(Status::False, "")
    };
    let now = bench.now;
    bench.schedule.observe(vec![link(Status::True, ""), other], now);
    bench
        .schedule
        .yield_to_others(&[ConditionKind::GpuDirect.into()], now);
    bench.run(SECOND * 3500, |_| Ok(()));
    assert!(
        bench
            .writes
            .iter()
            .all(|(_, published)| published.condition.kind == ConditionKind::Link)
    );
    bench.run(SECOND * 400, |_| Ok(()));
    assert_eq!(
        bench.writes.last().unwrap().1.condition.kind,
        ConditionType::from(ConditionKind::GpuDirect),
        "first in order"
    );
}
