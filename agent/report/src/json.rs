//! The verdict as JSON: what `check --output json` prints and what the agent serves below `/api/v1`.
//!
//! A part (`/api/v1/verdict`) has the head of the document and the fields that belong to it, with the same names and values.

use std::{collections::BTreeMap, io::Write};

use rdma_health_diagnosis::{Cause, Confidence, Diagnosis, LogSummary, Problem, problems, symptom::Symptom};
use rdma_health_node::{
    Node,
    history::Since,
    timeline::Happened,
    words::{printable_json, write_json},
};
use rdma_health_rules::{Domain, Finding, Severity, Status, Subject};
use serde::Serialize;

use super::{Report, inventory::inventory};

/// Version of the format. New fields do not change it.
pub const SCHEMA: u32 = 1;
/// The JSON Schema of the document and its parts.
pub const JSON_SCHEMA: &str = include_str!("../../../docs/api/v1.schema.json");

/// A part of the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Report,
    /// The status and the problems.
    Verdict,
    /// The findings.
    Findings,
    /// The causes and symptoms.
    Causes,
    /// What happened.
    Events,
    /// What the node is made of, for comparing nodes.
    Inventory,
    /// The facts.
    Node,
}

impl Part {
    /// Every part.
    pub const ALL: [Self; 7] = [
        Self::Report,
        Self::Verdict,
        Self::Findings,
        Self::Causes,
        Self::Events,
        Self::Inventory,
        Self::Node,
    ];

    /// Its name in paths.
    pub fn name(self) -> &'static str {
        match self {
            Self::Report => "report",
            Self::Verdict => "verdict",
            Self::Findings => "findings",
            Self::Causes => "causes",
            Self::Events => "events",
            Self::Inventory => "inventory",
            Self::Node => "node",
        }
    }
}

#[derive(Serialize)]
struct Form<'a> {
    schema: u32,
    /// The version of the program that judged.
    version: &'static str,
    /// The host name of the node; null if it could not be read.
    host: Option<&'a str>,
    /// The name of the Node in Kubernetes; null outside of it.
    kubernetes_node: Option<&'a str>,
    /// When the facts were read, in seconds since 1970.
    time: u64,
    #[serde(flatten)]
    verdict: Option<VerdictForm<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    findings: Option<Vec<Dated<&'a Finding>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    diagnosis: Option<DiagnosisForm<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<Vec<Happened>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inventory: Option<BTreeMap<&'static str, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a Node>,
}

#[derive(Serialize)]
struct VerdictForm<'a> {
    /// The combined status of the node and of the log, if there is one.
    status: Status,
    /// Why the node could not be judged; independent of the status, and findings are still valid. Facts that not every verdict needs
    /// are not a reason. The text's headline has it too, unless there is a critical finding. With status `unknown` of a sound node, why
    /// the log could not be judged.
    unknown_because: Option<String>,
    /// The findings of warning and above, counted as people count faults.
    problems: Vec<ProblemForm<'a>>,
}

#[derive(Serialize)]
struct ProblemForm<'a> {
    cause: &'a str,
    title: &'a str,
    domain: Domain,
    severity: Severity,
    confidence: Confidence,
    device: Option<&'a str>,
    port: Option<u8>,
    /// The rules of its findings, with what each is about.
    findings: Vec<Reference<'a>>,
    next_step: &'a str,
    since: Option<Since>,
}

#[derive(Serialize)]
struct Reference<'a> {
    rule: &'a str,
    subject: &'a Subject,
}

#[derive(Serialize)]
struct DiagnosisForm<'a> {
    next_step: Option<&'a str>,
    causes: Vec<Dated<&'a Cause>>,
    symptoms: &'a [Symptom],
    log: Option<&'a LogSummary>,
}

/// Something with the time since when it has been observed.
#[derive(Serialize)]
struct Dated<T> {
    #[serde(flatten)]
    of: T,
    since: Option<Since>,
}

impl<'a> Form<'a> {
    fn new(report: &Report<'a>, part: Part) -> Self {
        let Report {
            node,
            verdict,
            diagnosis,
            kubernetes_node,
        } = *report;
        let has = |one: Part| part == one || part == Part::Report;
        Self {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            host: node.host.hostname.known().map(String::as_str),
            kubernetes_node,
            time: node.time,
            verdict: has(Part::Verdict).then(|| VerdictForm {
                status: report.status(),
                unknown_because: report.unknown_because(),
                problems: problems(node, &verdict.findings, diagnosis)
                    .into_iter()
                    .map(ProblemForm::from)
                    .collect(),
            }),
            findings: has(Part::Findings).then(|| {
                let findings = verdict.findings.iter();
                findings
                    .map(|of| Dated {
                        of,
                        since: of.since(node),
                    })
                    .collect()
            }),
            diagnosis: has(Part::Causes).then(|| DiagnosisForm::new(node, diagnosis)),
            events: has(Part::Events).then(|| node.timeline()),
            inventory: has(Part::Inventory).then(|| inventory(node)),
            node: has(Part::Node).then_some(node),
        }
    }
}

impl<'a> DiagnosisForm<'a> {
    fn new(node: &Node, diagnosis: &'a Diagnosis) -> Self {
        let causes = diagnosis.causes.iter();
        Self {
            next_step: diagnosis.next_step.as_deref(),
            causes: causes
                .map(|of| Dated {
                    of,
                    since: of.since(node),
                })
                .collect(),
            symptoms: &diagnosis.symptoms,
            log: diagnosis.log.as_ref(),
        }
    }
}

impl<'a> From<Problem<'a>> for ProblemForm<'a> {
    fn from(problem: Problem<'a>) -> Self {
        let reference = |finding: &&'a Finding| Reference {
            rule: finding.rule.id,
            subject: &finding.subject,
        };
        Self {
            cause: problem.cause,
            title: problem.title,
            domain: problem.domain,
            severity: problem.severity,
            confidence: problem.confidence,
            device: problem.device,
            port: problem.port,
            findings: problem.findings.iter().map(reference).collect(),
            next_step: problem.next_step,
            since: problem.since,
        }
    }
}

/// Writes the whole document, one JSON object, and a line end.
///
/// # Errors
/// If writing fails.
pub fn write(out: &mut impl Write, report: &Report<'_>) -> anyhow::Result<()> {
    Ok(write_json(out, &Form::new(report, Part::Report))?)
}

/// A part of the document in as few bytes as possible, with a line end.
///
/// # Errors
/// If the node cannot be written as JSON, which would be a mistake of this program.
pub fn part(report: &Report<'_>, part: Part) -> anyhow::Result<Vec<u8>> {
    let mut text = printable_json(serde_json::to_string(&Form::new(report, part))?);
    text.push('\n');
    Ok(text.into_bytes())
}
