//! What the doctor's JSON says.

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::{Answer, Guess};

/// Takes the guesses from `diagnosis.causes` and, where there is none, from the findings, which come worst first.
pub(super) fn parse(report: &Value) -> Result<Answer> {
    let findings = report["findings"]
        .as_array()
        .context("the verdict has no findings")?;
    let mut guesses: Vec<Guess> = array(&report["diagnosis"]["causes"])
        .iter()
        .filter_map(cause)
        .collect();
    let (mut of_findings, mut severe) = (Vec::new(), Vec::new());
    for finding in findings {
        let rule = finding["rule"]
            .as_str()
            .context("a finding names no rule")?
            .to_owned();
        if matches!(finding["severity"].as_str(), Some("warning" | "critical")) {
            severe.push((
                rule.clone(),
                finding["message"].as_str().unwrap_or_default().to_owned(),
            ));
        }
        of_findings.push(Guess {
            name: rule,
            rules: Vec::new(),
        });
    }
    guesses.append(&mut of_findings);
    Ok(Answer {
        guesses,
        findings: severe,
    })
}

/// A cause that the doctor does not itself call unlikely.
fn cause(cause: &Value) -> Option<Guess> {
    let rules = array(&cause["findings"])
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned);
    let name = cause["id"].as_str()?.to_owned();
    (cause["confidence"] != "unlikely").then(|| Guess {
        name,
        rules: rules.collect(),
    })
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
