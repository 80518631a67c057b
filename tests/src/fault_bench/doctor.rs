//! What the doctor's JSON says.

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::Fault;

/// One thing that the doctor holds to be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guess {
    /// The cause's name, or the rule's where a finding stands for itself.
    pub name: String,
    /// The rules whose findings of warning or above the doctor counts to this cause.
    pub rules: Vec<String>,
}

impl Guess {
    /// Whether this names what is wrong. A cause also names a rule that its table lists, if it holds a finding of it.
    pub(super) fn names(&self, fault: &Fault) -> bool {
        let Some(expected) = fault.expected else {
            return false;
        };
        let belongs = rdma_health_diagnosis::cause(&self.name)
            .is_some_and(|cause| cause.rules.iter().any(|rule| rule.id == expected));
        self.name == expected || belongs && self.rules.iter().any(|rule| rule == expected)
    }
}

/// What the doctor said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// What it holds to be wrong: causes, the first guess in front, then findings of warning or above.
    pub guesses: Vec<Guess>,
    /// Findings of warning or above: rule and message.
    pub findings: Vec<(String, String)>,
}

impl Answer {
    /// Takes the answer from what `rdma-health check --output json` printed.
    ///
    /// A finding of severity info is not an answer: under the headline "OK" no one reads it.
    ///
    /// # Errors
    /// If that is not a verdict.
    pub fn parse(json: &str) -> Result<Self> {
        let report: Value = serde_json::from_str(json)?;
        let mut findings = Vec::new();
        for finding in report["findings"]
            .as_array()
            .context("the verdict has no findings")?
        {
            let rule = finding["rule"].as_str().context("a finding names no rule")?;
            if matches!(finding["severity"].as_str(), Some("warning" | "critical")) {
                let message = finding["message"].as_str().unwrap_or_default();
                findings.push((rule.to_owned(), message.to_owned()));
            }
        }
        if report["status"] == "ok" {
            return Ok(Self::default());
        }
        let causes = array(&report["diagnosis"]["causes"]);
        let mut guesses: Vec<Guess> = causes
            .iter()
            .filter_map(|cause| guess(cause, &findings))
            .collect();
        // They come worst first.
        guesses.extend(findings.iter().map(|(rule, _)| Guess {
            name: rule.clone(),
            rules: Vec::new(),
        }));
        Ok(Self { guesses, findings })
    }

    /// The name of its first guess.
    pub fn first(&self) -> Option<&str> {
        self.guesses.first().map(|guess| guess.name.as_str())
    }
}

/// A cause that the doctor does not itself call unlikely.
fn guess(cause: &Value, findings: &[(String, String)]) -> Option<Guess> {
    let is_severe = |rule: &&str| findings.iter().any(|(severe, _)| severe == rule);
    let rules = array(&cause["findings"])
        .iter()
        .filter_map(Value::as_str)
        .filter(is_severe)
        .map(str::to_owned)
        .collect();
    let name = cause["id"].as_str()?.to_owned();
    (cause["confidence"] != "unlikely").then_some(Guess { name, rules })
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
