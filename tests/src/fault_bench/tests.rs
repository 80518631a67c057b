//! The bench's own arithmetic: what it scores must be what the doctor said.

use serde_json::json;

use super::table::{Totals, line, markdown};
use super::{Answer, Fault, How, Outcome, Score};

const LINK: Fault = Fault {
    id: "link",
    what: "no link",
    how: How::Real,
    causes: &["port-down"],
    explains: &["gid-missing"],
};
const MEMLOCK: Fault = Fault {
    id: "memlock",
    what: "little",
    how: How::Tree,
    causes: &["memlock-low"],
    explains: &[],
};
const SPARE: Fault = Fault {
    id: "spare",
    what: "spare port",
    how: How::Tree,
    causes: &[],
    explains: &[],
};

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
        let cause = json!({"id": id, "confidence": confidence, "findings": ["memlock-low"]});
        let answer = json!({"findings": [], "diagnosis": {"causes": [cause]}}).to_string();
        Outcome::of("here", &[&MEMLOCK], Answer::parse(&answer).unwrap()).score
    };
    assert_eq!(said("memlock-limit", "possible"), Score::First);
    assert_eq!(said("memlock-limit", "unlikely"), Score::Missed);
    assert_eq!(
        said("device-stalled", "likely"),
        Score::Missed,
        "says another thing"
    );
}

#[test]
fn a_cause_is_first_named_or_missed() {
    let score = |faults: &[&Fault], said| Outcome::of("here", faults, said).score;
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
