//! From symptoms and findings to causes.
//!
//! A symptom says what failed; one and the same symptom has several causes. The table of [`known`] causes says which
//! symptoms each explains, which rules' findings show it, and which facts speak for and against it. [`diagnose`] weighs
//! every cause by what is at hand, so that each place in the order can be explained:
//!
//! | what | points |
//! | --- | --- |
//! | a finding of one of the cause's rules: critical, warning, info | 4, 3, 1 |
//! | a fact or a line of the log that shows the cause itself | 4 |
//! | a fact that fits | 2 |
//! | a fact that speaks against it | -4 |
//! | a symptom that it often explains, sometimes explains (the best of all symptoms) | 2, 1 |
//! | a finding on the very device that a symptom names | 1 |
//!
//! Equal points go by how often the field sees the cause. Nothing here reads a file or keeps state.

pub mod completion;
mod kind;
pub mod known;
mod observed;
pub mod symptom;
mod table;
mod weigh;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use rdma_health_node::Node;
use serde::Serialize;

use crate::{Evidence, Finding, Severity, Status, Subject, log::Log};
use known::{CAUSES, KnownCause, Link};
use symptom::{Grade, Symptom};
use weigh::{Case, Scales};

/// The most pieces of evidence that a cause keeps on each side.
const MAX_EVIDENCE: usize = 16;
/// The most subjects that a cause names.
const MAX_SUBJECTS: usize = 64;

/// How sure a cause is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// What is at hand speaks against it.
    Unlikely,
    /// It would explain what is seen; too little speaks for or against it.
    Possible,
    /// What is at hand shows it.
    Likely,
}

impl Confidence {
    /// Its name in messages and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unlikely => "unlikely",
            Self::Possible => "possible",
            Self::Likely => "likely",
        }
    }
}

/// One cause, with what speaks for it and against it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// Its name: `iommu-translation`; the rule's id where a finding stands for itself.
    pub id: &'static str,
    /// What is wrong, in one line.
    pub title: &'static str,
    /// How sure it is.
    pub confidence: Confidence,
    /// The worst of its findings; that of its symptoms where it has none.
    pub severity: Severity,
    /// Points; see the module's table.
    pub score: i32,
    /// The symptoms that it would explain.
    pub explains: Vec<symptom::SymptomKind>,
    /// What speaks for it.
    pub supports: Vec<Evidence>,
    /// What speaks against it.
    pub contradicts: Vec<Evidence>,
    /// What could not be seen and would decide.
    pub unseen: Vec<String>,
    /// The one thing to do next.
    pub next_step: String,
    /// Ids of the rules whose findings belong to it; the one whose remedy is the next step first.
    pub findings: Vec<&'static str>,
    /// What those findings are about.
    pub subjects: Vec<Subject>,
}

/// What is wrong, as far as can be told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// The one thing to do next: that of the first cause.
    pub next_step: Option<String>,
    /// Causes, the one to look at first in front; the unlikely ones last.
    pub causes: Vec<Cause>,
    /// What was seen to go wrong, in probes and in the log.
    pub symptoms: Vec<Symptom>,
    /// The log that was read, without its symptoms; `None` where none was.
    pub log: Option<LogSummary>,
}

/// A log in a few numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LogSummary {
    /// How many lines it has.
    pub lines: u64,
    /// After how many bytes reading stopped, where the log went on: what follows was not looked at.
    pub cut_after: Option<u64>,
    /// How many lines told of symptoms beyond those that were kept.
    pub dropped: u64,
    /// Settings of the job that the log names.
    pub settings: BTreeMap<String, String>,
    /// The machines that wrote it, where lines say so.
    pub hosts: BTreeSet<String>,
}

impl Diagnosis {
    /// The status of the node and its log together. A log that tells of a failure is critical and one that tells of
    /// something slower than it could be a warning, whatever the node's own facts say: somebody's job did not run as it
    /// should. As for the node alone, what was found decides, and what could not be judged only where nothing was.
    pub fn status(&self, of_the_node: Status) -> Status {
        let worst = self
            .symptoms
            .iter()
            .filter(|symptom| symptom.line.is_some())
            .map(|symptom| symptom.grade)
            .max();
        match (worst, of_the_node) {
            (Some(Grade::Failure), _) => Status::Critical,
            (Some(Grade::Degraded | Grade::Secondary), Status::Ok | Status::Unknown) => Status::Warning,
            (_, status) => status,
        }
    }

    /// The cause to look at first, unless everything speaks against it.
    pub fn first(&self) -> Option<&Cause> {
        self.causes
            .first()
            .filter(|cause| cause.confidence > Confidence::Unlikely)
    }
}

/// Joins what was found on a node with what a job's log tells.
pub fn diagnose(node: &Node, findings: &[Finding], log: Option<&Log>) -> Diagnosis {
    let mut symptoms = observed::symptoms(node, findings);
    symptoms.extend(log.into_iter().flat_map(|log| log.symptoms.iter().cloned()));
    // What follows from a failure says nothing of its cause, unless there is nothing else.
    let telling = symptoms.iter().any(|symptom| symptom.grade > Grade::Secondary);
    let least = if telling {
        Grade::Degraded
    } else {
        Grade::Secondary
    };
    let primary = symptoms.iter().filter(|symptom| symptom.grade >= least).collect();
    let case = Case {
        node,
        symptoms: primary,
        log,
    };
    let mut causes: Vec<(u32, Cause)> = CAUSES
        .iter()
        .enumerate()
        .filter_map(|(place, known)| {
            // The table's order is the field's: what it sees most often stands first.
            Some((u32::try_from(place).ok()?, weighed(known, &case, findings)?))
        })
        .collect();
    sort(&mut causes);
    let mut claimed: BTreeSet<&str> = BTreeSet::new();
    causes.retain(|(_, cause)| {
        let news = cause.findings.iter().any(|id| !claimed.contains(id));
        if cause.confidence > Confidence::Unlikely {
            claimed.extend(&cause.findings);
        }
        news && cause.confidence > Confidence::Unlikely || !cause.explains.is_empty()
    });
    // A measurement that failed is explained by whatever explains its symptom.
    let explained: BTreeSet<_> = causes
        .iter()
        .filter(|(_, cause)| cause.confidence > Confidence::Unlikely)
        .flat_map(|(_, cause)| cause.explains.iter().copied())
        .collect();
    for finding in findings
        .iter()
        .filter(|finding| finding.severity > Severity::Info)
    {
        let id = finding.rule.id;
        let told = observed::of_rule(id, node)
            .iter()
            .any(|kind| explained.contains(kind));
        if !told && claimed.insert(id) {
            causes.push((u32::MAX, alone(id, findings)));
        }
    }
    sort(&mut causes);
    let causes: Vec<Cause> = causes.into_iter().map(|(_, cause)| cause).collect();
    Diagnosis {
        next_step: causes
            .first()
            .filter(|cause| cause.confidence > Confidence::Unlikely)
            .map(|cause| cause.next_step.clone()),
        causes,
        symptoms,
        log: log.map(|log| LogSummary {
            lines: log.lines,
            cut_after: log.cut_after,
            dropped: log.dropped,
            settings: log.settings.clone(),
            hosts: log.hosts.clone(),
        }),
    }
}

/// What explains a symptom comes first, unless it is unlikely; then the surer, the worse, the one with more points.
fn sort(causes: &mut [(u32, Cause)]) {
    causes.sort_by_key(|(place, cause)| {
        let unlikely = cause.confidence == Confidence::Unlikely;
        (
            unlikely,
            cause.explains.is_empty(),
            Reverse(cause.confidence),
            Reverse(if cause.explains.is_empty() {
                cause.severity
            } else {
                Severity::Info
            }),
            Reverse(cause.score),
            *place,
        )
    });
}

/// One cause weighed; `None` where nothing brings it to mind.
fn weighed(known: &'static KnownCause, case: &Case<'_>, findings: &[Finding]) -> Option<Cause> {
    let explained: Vec<(&Symptom, Link)> = case
        .symptoms
        .iter()
        .filter_map(|symptom| Some((*symptom, known.link(symptom.kind)?)))
        .collect();
    let mine: Vec<&Finding> = known
        .rules
        .iter()
        .flat_map(|id| findings.iter().filter(move |finding| finding.rule.id == *id))
        .filter(|finding| weigh::shows(finding, known.id, case.node))
        .collect();
    let grave = mine.iter().any(|finding| finding.severity > Severity::Info);
    if explained.is_empty() && !grave {
        return None;
    }
    let mut scales = Scales::default();
    let mut told = BTreeSet::new();
    for finding in &mine {
        // A fault on eight devices is one fault: each rule counts once, with its worst finding.
        if told.insert(finding.rule.id) {
            let worst = mine
                .iter()
                .filter(|f| f.rule == finding.rule)
                .map(|f| f.severity)
                .max();
            scales.score += match worst {
                Some(Severity::Critical) => 4,
                Some(Severity::Warning) => 3,
                _ => 1,
            };
        }
        scales.supports.extend(finding.evidence.iter().cloned());
    }
    (known.weigh)(case, &mut scales);
    // Its rules looked and found nothing, nothing is left to look at, and it would be a rare cause anyway.
    let rare = explained.iter().all(|(_, link)| *link == Link::Sometimes);
    let silent = scales.supports.is_empty() && scales.contradicts.is_empty() && scales.unseen.is_empty();
    if silent && rare && !known.rules.is_empty() {
        return None;
    }
    let named = |symptom: &Symptom| {
        let device = symptom.named.device.as_deref();
        device.is_some()
            && mine
                .iter()
                .any(|finding| finding.subject.device.as_deref() == device)
    };
    scales.score += i32::from(explained.iter().any(|(symptom, _)| named(symptom)));
    scales.score += explained.iter().map(|(_, link)| link.points()).max().unwrap_or(0);
    let worst = mine.iter().map(|finding| finding.severity).max();
    let mut subjects: Vec<Subject> = Vec::new();
    for finding in &mine {
        if subjects.len() < MAX_SUBJECTS && !subjects.contains(&finding.subject) {
            subjects.push(finding.subject.clone());
        }
    }
    let remedy = mine
        .iter()
        .find(|finding| finding.severity > Severity::Info && !weigh::is_ambiguous(finding));
    let mut explains = Vec::new();
    for (symptom, _) in &explained {
        if !explains.contains(&symptom.kind) {
            explains.push(symptom.kind);
        }
    }
    Some(Cause {
        id: known.id,
        title: known.title,
        confidence: confidence(&scales, explained.is_empty()),
        severity: worst.unwrap_or_else(|| severity_of(&explained)),
        score: scales.score,
        explains,
        supports: distinct(scales.supports),
        contradicts: distinct(scales.contradicts),
        unseen: scales.unseen,
        next_step: remedy.map_or_else(|| known.next_step.to_owned(), |finding| finding.remedy.clone()),
        findings: ids(&mine),
        subjects,
    })
}

/// The rules of these findings, those with something to do first: the first one's remedy is the next step.
fn ids(findings: &[&Finding]) -> Vec<&'static str> {
    let mut ids: Vec<&'static str> = Vec::new();
    for grave in [true, false] {
        for finding in findings
            .iter()
            .filter(|finding| (finding.severity > Severity::Info) == grave)
        {
            if !ids.contains(&finding.rule.id) {
                ids.push(finding.rule.id);
            }
        }
    }
    ids
}

fn confidence(scales: &Scales, no_symptom: bool) -> Confidence {
    let (supported, contradicted) = (!scales.supports.is_empty(), !scales.contradicts.is_empty());
    match (supported, contradicted) {
        // A finding is a fact: it needs no symptom.
        (true, false) if no_symptom || scales.score >= 4 => Confidence::Likely,
        (true, true) if scales.score >= 5 => Confidence::Likely,
        (_, true) if scales.score <= 0 => Confidence::Unlikely,
        _ => Confidence::Possible,
    }
}

fn severity_of(explained: &[(&Symptom, Link)]) -> Severity {
    match explained.iter().map(|(symptom, _)| symptom.grade).max() {
        Some(Grade::Failure) => Severity::Critical,
        Some(_) => Severity::Warning,
        None => Severity::Info,
    }
}

/// A finding that no known cause claims stands for itself.
fn alone(id: &'static str, findings: &[Finding]) -> Cause {
    let mine: Vec<&Finding> = findings.iter().filter(|finding| finding.rule.id == id).collect();
    let worst = mine.iter().max_by_key(|finding| finding.severity);
    Cause {
        id,
        title: worst.map_or("", |finding| finding.rule.title),
        confidence: Confidence::Likely,
        severity: worst.map_or(Severity::Info, |finding| finding.severity),
        score: 0,
        explains: Vec::new(),
        supports: distinct(mine.iter().flat_map(|finding| finding.evidence.clone()).collect()),
        contradicts: Vec::new(),
        unseen: Vec::new(),
        next_step: worst.map_or_else(String::new, |finding| finding.remedy.clone()),
        findings: vec![id],
        subjects: mine
            .iter()
            .map(|finding| finding.subject.clone())
            .take(MAX_SUBJECTS)
            .collect(),
    }
}

fn distinct(all: Vec<Evidence>) -> Vec<Evidence> {
    let mut kept: Vec<Evidence> = Vec::new();
    for evidence in all {
        if kept.len() < MAX_EVIDENCE && !kept.contains(&evidence) {
            kept.push(evidence);
        }
    }
    kept
}
