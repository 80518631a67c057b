//! The bench's own arithmetic: what it scores must be what the doctor said.

use serde_json::json;

use super::table::{Totals, line, markdown};
use super::{Answer, Fault, How, Outcome, Score};

const LINK: Fault = Fault::new(How::Real, "link", "no link", "port-down", &["gid-missing"]);
const MEMLOCK: Fault = Fault::new(How::Tree, "memlock", "little", "memlock-low", &[]);
const SPARE: Fault = Fault::harmless(How::Tree, "spare", "spare port");
const OVERLOOKED: Fault = MEMLOCK.known_miss(None, "no rule looks there");
const MISTAKEN: Fault = MEMLOCK.known_miss(Some("rate-low"), "it is slow too");

fn answer(findings: &[(&str, &str)], causes: &[&str]) -> Answer {
    let findings: Vec<_> = findings
        .iter()
        .map(|(rule, severity)| json!({"rule": rule, "severity": severity, "message": "words"}))
        .collect();
    let causes: Vec<_> = causes
        .iter()
        .map(|id| json!({"id": id, "confidence": "likely", "findings": []}))
        .collect();
    Answer::parse(&json!({"findings": findings, "diagnosis": {"causes": causes}}).to_string()).unwrap()
}

#[test]
fn the_diagnosis_comes_before_the_findings() {
    let said = answer(
        &[("port-down", "critical"), ("memlock-low", "warning")],
        &["memlock-low"],
    );
    assert_eq!(said.first(), Some("memlock-low"));
    let said = answer(&[("port-down", "critical"), ("memlock-low", "warning")], &[]);
    assert_eq!(said.first(), Some("port-down"));
}

#[test]
fn a_cause_stands_for_its_findings_unless_it_is_called_unlikely() {
    let said = |id, confidence| {
        let finding = json!({"rule": "memlock-low", "severity": "warning", "message": "words"});
        let cause = json!({"id": id, "confidence": confidence, "findings": ["memlock-low"]});
        let other = json!({"id": "port-down", "confidence": "possible", "findings": []});
        let answer = json!({"findings": [finding], "diagnosis": {"causes": [cause, other]}}).to_string();
        Outcome::of("here", &[&MEMLOCK], Answer::parse(&answer).unwrap()).score
    };
    assert_eq!(said("memlock-limit", "possible"), Score::First);
    assert_eq!(said("memlock-limit", "unlikely"), Score::Named);
    assert_eq!(
        said("device-stalled", "likely"),
        Score::Named,
        "says another thing"
    );
}

fn score(faults: &[&Fault], said: Answer) -> Score {
    Outcome::of("here", faults, said).score
}

#[test]
fn a_cause_is_first_named_or_missed() {
    assert_eq!(
        score(&[&LINK], answer(&[("port-down", "critical")], &[])),
        Score::First
    );
    let second = answer(&[("gid-missing", "critical"), ("port-down", "warning")], &[]);
    assert_eq!(score(&[&LINK], second), Score::Named);
    assert_eq!(
        score(&[&LINK], answer(&[("gid-missing", "critical")], &[])),
        Score::Missed
    );
    assert_eq!(score(&[&LINK], Answer::default()), Score::Missed);
    let both = answer(&[("memlock-low", "critical"), ("port-down", "warning")], &[]);
    assert_eq!(score(&[&LINK, &MEMLOCK], both), Score::First);
    let one = answer(&[("memlock-low", "critical")], &[]);
    assert_eq!(
        score(&[&LINK, &MEMLOCK], one),
        Score::Missed,
        "both causes must be named"
    );
}

#[test]
fn only_the_right_cause_first_or_a_known_miss_passes() {
    let passed = |faults: &[&Fault], said| Outcome::of("here", faults, said).passed();
    let second = || answer(&[("gid-missing", "critical"), ("port-down", "warning")], &[]);
    assert!(passed(&[&LINK], answer(&[("port-down", "critical")], &[])));
    assert!(!passed(&[&LINK], second()), "named, but not first");
    assert!(!passed(&[&MEMLOCK], Answer::default()));
    assert!(passed(&[&OVERLOOKED], Answer::default()));
    assert!(
        !passed(&[&OVERLOOKED], answer(&[("memlock-low", "warning")], &[])),
        "it is not a miss anymore"
    );
}

#[test]
fn what_is_for_information_is_no_answer() {
    assert_eq!(
        score(&[&MEMLOCK], answer(&[("memlock-low", "info")], &[])),
        Score::Missed
    );
    let held = json!({"id": "memlock-limit", "confidence": "likely", "findings": ["memlock-low"]});
    let finding = json!({"rule": "memlock-low", "severity": "info", "message": ""});
    let mut said = json!({"status": "warning", "findings": [finding], "diagnosis": {"causes": [held]}});
    assert_eq!(
        score(&[&MEMLOCK], Answer::parse(&said.to_string()).unwrap()),
        Score::Missed,
        "a cause that holds it is none either"
    );
    said["findings"][0]["severity"] = "warning".into();
    assert_eq!(
        score(&[&MEMLOCK], Answer::parse(&said.to_string()).unwrap()),
        Score::First
    );
    said["status"] = "ok".into();
    assert_eq!(
        score(&[&MEMLOCK], Answer::parse(&said.to_string()).unwrap()),
        Score::Missed,
        "nothing counts below the headline OK"
    );
}

#[test]
fn a_known_miss_is_accepted_only_as_it_is_known() {
    let slow = || answer(&[("rate-low", "warning")], &[]);
    assert_eq!(score(&[&MISTAKEN], slow()), Score::KnownMiss);
    assert_eq!(score(&[&MISTAKEN], Answer::default()), Score::Missed);
    assert_eq!(
        score(&[&OVERLOOKED], slow()),
        Score::Named,
        "something is said, and it is wrong"
    );
    let right = || answer(&[("memlock-low", "warning")], &[]);
    assert_eq!(score(&[&MISTAKEN], right()), Score::Outdated);
    let both = answer(&[("rate-low", "warning"), ("memlock-low", "warning")], &[]);
    assert_eq!(
        score(&[&MISTAKEN], both),
        Score::KnownMiss,
        "named, but not first"
    );
    let link = || answer(&[("port-down", "critical")], &[]);
    assert_eq!(score(&[&LINK, &OVERLOOKED], link()), Score::KnownMiss);
    assert_eq!(score(&[&OVERLOOKED, &LINK], right()), Score::Missed);
}

#[test]
fn what_no_fault_explains_is_a_false_alarm_from_warning_on() {
    let said = || {
        answer(
            &[
                ("port-down", "critical"),
                ("gid-missing", "warning"),
                ("mtu-low", "info"),
            ],
            &[],
        )
    };
    assert_eq!(Outcome::of("here", &[&LINK], said()).false_alarms, []);
    let outcome = Outcome::of("here", &[&SPARE], said());
    assert_eq!(
        outcome.false_alarms.len(),
        2,
        "nothing is wrong with a spare port"
    );
    assert!(!outcome.passed());
    assert!(Outcome::of("here", &[], Answer::default()).passed());
}

#[test]
fn the_table_tells_what_was_expected_and_what_was_said() {
    let missed = Outcome::of(
        "here",
        &[&LINK, &MEMLOCK],
        answer(&[("rate-low", "warning")], &[]),
    );
    let text = line(&missed);
    for word in [
        "MISSED",
        "link + memlock",
        "(expected port-down and memlock-low)",
        "FALSE ALARM rate-low: words",
    ] {
        assert!(text.contains(word), "{text}");
    }
    let healthy = Outcome::of("there", &[], Answer::default());
    let outcomes = [missed, healthy];
    let page = markdown(&outcomes);
    assert!(
        page.contains("| here | link + memlock | real, tree | no link; little |"),
        "{page}"
    );
    assert!(page.contains("| there | healthy |"), "{page}");
    let totals = Totals::of(&outcomes);
    assert_eq!(
        (totals.broken, totals.missed, totals.healthy, totals.false_alarms),
        (1, 1, 1, 1)
    );
}

#[test]
fn the_table_gives_the_reason_of_a_known_miss() {
    let known = Outcome::of("here", &[&OVERLOOKED], Answer::default());
    assert!(line(&known).contains("no rule looks there"), "{}", line(&known));
    let row = "| `memlock-low` | none | known miss: no rule looks there |";
    let outcomes = [known];
    assert!(markdown(&outcomes).contains(row), "{}", markdown(&outcomes));
    let totals = Totals::of(&outcomes);
    assert_eq!((totals.first, totals.known_misses), (0, 1));
}
