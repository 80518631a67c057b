//! What the tests of many short logs share.

#![allow(dead_code, reason = "not every test needs all of it")]

use rdma_health_diagnosis::{
    Confidence, diagnose,
    log::{Log, LogReader},
    symptom::{Grade, SymptomKind},
};
use rdma_health_node::Node;

pub fn read(text: &str) -> Log {
    let mut reader = LogReader::default();
    reader.feed(text.as_bytes());
    reader.finish()
}

/// The kinds of the symptoms in a text, without notes.
pub fn kinds(text: &str) -> Vec<SymptomKind> {
    let symptoms = read(text).symptoms.into_iter();
    symptoms
        .filter(|symptom| symptom.grade > Grade::Note)
        .map(|symptom| symptom.kind)
        .collect()
}

/// The failures and degradations that are not a consequence of another one.
pub fn primary(text: &str) -> Vec<SymptomKind> {
    let symptoms = read(text).symptoms.into_iter();
    symptoms
        .filter(|symptom| symptom.grade > Grade::Secondary)
        .map(|symptom| symptom.kind)
        .collect()
}

/// The first cause of a log of an unknown node, and what to do; empty if none is more than unlikely.
pub fn first(text: &str) -> (&'static str, String) {
    let diagnosis = diagnose(&Node::unknown(), &[], Some(&read(text)));
    diagnosis
        .causes
        .first()
        .filter(|cause| cause.confidence > Confidence::Unlikely)
        .map(|cause| (cause.id, cause.next_step.clone()))
        .unwrap_or_default()
}

/// Asserts the first cause of each log, and words of what to do.
pub fn each_is(cases: &[(&str, &str, &str)]) {
    for (text, cause, step) in cases {
        let (id, next_step) = first(text);
        assert_eq!(id, *cause, "{text}");
        assert!(next_step.contains(step), "{text}: {next_step}");
    }
}
