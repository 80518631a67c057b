//! The verdict as a `JUnit` report, for CI and acceptance tests of new nodes: each rule is a test case of its domain, and what a log or a
//! process shows is one of the job.

use std::{fmt::Write as _, io::Write};

use rdma_health_diagnosis::symptom::Symptom;
use rdma_health_node::{
    Node,
    words::{date, printable},
};
use rdma_health_rules::{CATALOGUE, Domain, Finding, Rule, Severity, not_judged};

use super::{Report, markup::escaped};

/// What a report begins with.
const BEGIN: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>";
/// The name of a host that is not known.
const LOCAL: &str = "localhost";

/// Writes the report. A rule with findings of at least this severity fails.
///
/// # Errors
/// If writing fails.
pub fn write(out: &mut impl Write, report: &Report<'_>, fail_on: Severity) -> std::io::Result<()> {
    let host = report.node.host.hostname.known().map_or(LOCAL, String::as_str);
    writeln!(out, "{BEGIN}")?;
    for (id, domain) in Domain::ALL.into_iter().enumerate() {
        let rules: Vec<&Rule> = CATALOGUE
            .iter()
            .copied()
            .filter(|rule| rule.domain == domain)
            .collect();
        let cases: Vec<Case<'_>> = rules
            .iter()
            .map(|rule| Case::new(rule, report, fail_on))
            .collect();
        let failures = cases.iter().filter(|case| !case.failed.is_empty()).count();
        // What could not be judged is an error of the suite about reading, not a test that passed.
        let error = report
            .verdict
            .unknown_because
            .as_deref()
            .filter(|_| domain == Domain::Reading);
        let errors = usize::from(error.is_some());
        let skipped = cases.iter().filter(|case| case.skipped.is_some()).count();
        let counts = [cases.len() + errors, failures, errors, skipped];
        begin_suite(out, domain.name(), id, host, report.node.time, counts)?;
        let mut notes = String::new();
        for case in cases {
            case.write(out)?;
            for finding in case.passed {
                // Writing to a string cannot fail.
                let _ = writeln!(
                    notes,
                    "{}: {}: {}",
                    finding.severity.name(),
                    finding.rule.id,
                    finding.message_with_pods()
                );
            }
        }
        if let Some(why) = error {
            write!(out, "{}", unjudged(Domain::Reading.name(), why))?;
        }
        writeln!(
            out,
            "    <system-out>{}</system-out>\n    <system-err/>\n  </testsuite>",
            lines(&notes)
        )?;
    }
    job(out, report, host, fail_on)?;
    writeln!(out, "</testsuites>")
}

/// The name of the suite about a log and a process.
const JOB: &str = "job";

/// Writes the suite about the log and the process of a job, if there are any.
fn job(out: &mut impl Write, report: &Report<'_>, host: &str, fail_on: Severity) -> std::io::Result<()> {
    let Report { node, diagnosis, .. } = report;
    if diagnosis.log.is_none() && node.job.is_none() {
        return Ok(());
    }
    let severity = |symptom: &Symptom| symptom.severity_of_job().filter(|severity| *severity >= fail_on);
    let symptoms = diagnosis.symptoms.iter();
    let failed: Vec<_> = symptoms
        .filter_map(|symptom| Some((severity(symptom)?, symptom)))
        .collect();
    // That the node could not be judged is in its own suite.
    let of_node = report.verdict.unknown_because.is_some();
    let error = report.unknown_because().filter(|_| !of_node);
    let (failures, errors) = (failed.len(), usize::from(error.is_some()));
    let counts = [(failures + errors).max(1), failures, errors, 0];
    begin_suite(out, JOB, Domain::ALL.len(), host, node.time, counts)?;
    let step = diagnosis.next_step.as_deref().unwrap_or_default();
    for (severity, symptom) in &failed {
        let (name, shown) = (symptom.kind.id(), escaped(&symptom.kind.to_string()));
        let text = format!("{}: {}\n{step}", symptom.source, symptom.text);
        writeln!(
            out,
            "    <testcase classname=\"rdma-health.{JOB}\" name=\"{name}\" time=\"0\">\n      \
             <failure type=\"{severity}\" message=\"{shown}\">{text}</failure>\n    </testcase>",
            severity = severity.name(),
            text = lines(&text),
        )?;
    }
    match &error {
        Some(why) => write!(out, "{}", unjudged(JOB, why))?,
        None if failed.is_empty() => writeln!(
            out,
            "    <testcase classname=\"rdma-health.{JOB}\" name=\"no-failure\" time=\"0\"/>"
        )?,
        None => {}
    }
    writeln!(out, "    <system-out/>\n    <system-err/>\n  </testsuite>")
}

/// Writes why the node could not be judged at `time`, in seconds since 1970: one test case, with an error.
///
/// # Errors
/// If writing fails.
pub fn failed(out: &mut impl Write, error: &str, time: u64) -> std::io::Result<()> {
    writeln!(out, "{BEGIN}")?;
    begin_suite(out, Domain::Reading.name(), 0, LOCAL, time, [1, 0, 1, 0])?;
    writeln!(
        out,
        "{}    <system-out/>\n    <system-err/>\n  </testsuite>\n</testsuites>",
        unjudged(Domain::Reading.name(), error)
    )
}

/// Begins a suite of so many test cases, failures, errors and skipped test cases.
fn begin_suite(
    out: &mut impl Write,
    name: &str,
    id: usize,
    host: &str,
    time: u64,
    [tests, failures, errors, skipped]: [usize; 4],
) -> std::io::Result<()> {
    writeln!(
        out,
        "  <testsuite name=\"{name}\" package=\"rdma-health\" id=\"{id}\" hostname=\"{host}\" timestamp=\"{time}\" \
         tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\" time=\"0\">\n    <properties/>",
        host = token(host),
        time = timestamp(time),
    )
}

/// The test case of a suite with the reason why something could not be judged.
fn unjudged(suite: &str, why: &str) -> String {
    let why = escaped(why);
    format!(
        "    <testcase classname=\"rdma-health.{suite}\" name=\"judged-completely\" time=\"0\">\n      \
         <error type=\"unknown\" message=\"{why}\"/>\n    </testcase>\n"
    )
}

/// Why a rule that found nothing may have missed something: a test that was skipped, not one that passed.
fn why_skipped(node: &Node, rule: &Rule) -> Option<String> {
    let no_probe = rule.domain == Domain::Probe && node.loopbacks().next().is_none();
    not_judged(node, rule).or_else(|| no_probe.then(|| "no probe has run".to_owned()))
}

/// One rule with its findings.
struct Case<'a> {
    rule: &'a Rule,
    failed: Vec<&'a Finding>,
    /// Findings below the severity that fails.
    passed: Vec<&'a Finding>,
    /// Why it was skipped.
    skipped: Option<String>,
}

impl<'a> Case<'a> {
    fn new(rule: &'a Rule, report: &Report<'a>, fail_on: Severity) -> Self {
        let findings = report
            .verdict
            .findings
            .iter()
            .filter(|finding| finding.rule == rule);
        let (failed, passed): (Vec<_>, Vec<_>) = findings.partition(|finding| finding.severity >= fail_on);
        let is_silent = failed.is_empty() && passed.is_empty();
        let skipped = is_silent.then(|| why_skipped(report.node, rule)).flatten();
        Self {
            rule,
            failed,
            passed,
            skipped,
        }
    }

    fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        let (domain, id) = (self.rule.domain.name(), self.rule.id);
        write!(
            out,
            "    <testcase classname=\"rdma-health.{domain}\" name=\"{id}\" time=\"0\""
        )?;
        let Some(first) = self.failed.first() else {
            return match &self.skipped {
                Some(why) => writeln!(
                    out,
                    ">\n      <skipped message=\"{}\"/>\n    </testcase>",
                    escaped(why)
                ),
                None => writeln!(out, "/>"),
            };
        };
        let mut text = String::new();
        for finding in &self.failed {
            let _ = writeln!(text, "{}", finding.message_with_pods());
            for piece in &finding.evidence {
                let _ = writeln!(text, "  {}: {}", piece.source, piece.value);
            }
        }
        let _ = write!(text, "{}", first.remedy);
        writeln!(
            out,
            ">\n      <failure type=\"{}\" message=\"{}\">{}</failure>\n    </testcase>",
            first.severity.name(),
            escaped(&first.message_with_pods()),
            lines(&text)
        )
    }
}

/// Text of several lines, each of them escaped.
fn lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(escaped).collect();
    lines.join("\n")
}

/// A name without blanks, which the schema would normalise.
fn token(text: &str) -> String {
    let text: Vec<_> = text.split_whitespace().collect();
    match text.join(" ") {
        empty if empty.is_empty() => LOCAL.into(),
        text => escaped(&printable(&text)),
    }
}

/// `2026-01-31T12:00:00`, in UTC; the schema allows no time zone.
fn timestamp(seconds: u64) -> String {
    date(seconds).trim_end_matches('Z').to_owned()
}
