//! The parts of a diagnosis: the confidence in a cause, its findings and evidence, and what to do where there is no cause.

use rdma_health_rules::{Evidence, Finding, Rule, Severity};

use super::{MAX_EVIDENCE, MAX_SUBJECTS};
use crate::{
    concern,
    known::Link,
    log::Log,
    outcome::{Cause, Confidence},
    symptom::{Grade, Symptom, SymptomKind},
    weigh::{IWARP, LATE, Scales},
};

/// The next step where a log shows a failure and nothing on the node explains it.
pub(super) fn unexplained(symptoms: &[Symptom]) -> Option<String> {
    let is_late = |symptom: &Symptom| {
        symptom.kind == SymptomKind::CollectiveTimeout && symptom.grade == Grade::Unrecognised
    };
    if symptoms.iter().any(is_late) {
        return Some(LATE.to_owned());
    }
    let is_failure = |symptom: &Symptom| symptom.line.is_some() && symptom.grade == Grade::Failure;
    symptoms.iter().any(is_failure).then(|| {
        "Nothing on this node explains the failure now. Read what the kernel logged when it happened (journalctl -k --since TIME), and run \
        rdma-health check on the other nodes of the job."
            .into()
    })
}

/// The next step where a list in the log shows a port that is down, and all ports of the node are active.
pub(super) fn listed_down(symptoms: &[Symptom]) -> Option<String> {
    let is_one =
        |symptom: &&Symptom| symptom.grade == Grade::Unrecognised && concern::is_listed_down(symptom);
    let symptom = symptoms.iter().find(is_one)?;
    Some(format!(
        "Compare the GIDs and rates in the log with those of this node (ibstatus): {} shows a port that is DOWN, and each port of this node is ACTIVE now. The list is \
        older, or of another node: there, run rdma-health check.",
        symptom.source
    ))
}

/// The symptoms of the log, if none of them has a consequence.
fn only_notes(symptoms: &[Symptom]) -> Option<impl Iterator<Item = &Symptom> + Clone> {
    let of_log = symptoms.iter().filter(|symptom| symptom.line.is_some());
    let mut grave = of_log.clone().filter(|symptom| symptom.grade > Grade::Note);
    grave.next().is_none().then_some(of_log)
}

/// The next step where a program went on without an adapter that it cannot use, and the log shows nothing else.
pub(super) fn left_out(symptoms: &[Symptom]) -> Option<String> {
    let mut of_log = only_notes(symptoms)?;
    let is_of_iwarp = |symptom: &Symptom| {
        symptom.kind == SymptomKind::UnsupportedAdapter
            && symptom.text.to_ascii_lowercase().contains("unsupported qp type")
    };
    let is_of_ranges = |symptom: &Symptom| symptom.kind == SymptomKind::PciRoom;
    if of_log.clone().any(is_of_ranges) {
        return Some(ROOM.to_owned());
    }
    if of_log
        .clone()
        .any(|symptom| symptom.kind == SymptomKind::NoLibrary)
    {
        return Some(WITHIN.to_owned());
    }
    of_log
        .any(is_of_iwarp)
        .then(|| format!("If the program works without the adapter, nothing. {IWARP}"))
}

/// What to do where NCCL found no libibverbs and its ranks are on one host, as far as the log shows.
const WITHIN: &str = "If the job runs on this host only, nothing: NCCL did not find libibverbs, and uses NVLink, PCIe or shared memory between GPUs of one host. If it has other hosts with RDMA adapters, \
    install rdma-core (on Debian and Ubuntu libibverbs1 and ibverbs-providers) where the job runs.";

/// What to do where the kernel had no room for address ranges that the adapter itself does without.
const ROOM: &str = "The adapter works without the address ranges that the kernel had no room for. If the node is to have virtual functions, or all memory of its GPUs is to be reached over \
    PCIe, make room: switch on Above 4G decoding (64-bit BARs), SR-IOV and Resizable BAR in the firmware setup of the host, then start it with pci=realloc if that is not \
    enough.";

/// The next step where a log shows a job that its settings keep from RDMA, and nothing else.
pub(super) fn without_rdma(symptoms: &[Symptom], log: Option<&Log>) -> Option<String> {
    let mut of_log = only_notes(symptoms)?;
    let is_of_choice = |symptom: &Symptom| {
        matches!(
            symptom.kind,
            SymptomKind::RdmaDisabled | SymptomKind::SocketFallback
        )
    };
    let setting = log.filter(|log| log.nodes != Some(1))?.over_tcp?;
    of_log.any(is_of_choice).then(|| {
        format!(
            "If TCP is intended, nothing: the settings of the job select it ({setting}), which costs most of the bandwidth of an RDMA adapter and time of the CPUs. \
            To use RDMA, unset {setting} where the job runs."
        )
    })
}

/// The rules of these findings. Those that need action come first, because the first one's remedy is the next step.
pub(super) fn ids(findings: &[&Finding]) -> Vec<&'static str> {
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

pub(super) fn confidence(scales: &Scales, explained: &[(&Symptom, Link)], has_finding: bool) -> Confidence {
    let no_symptom = explained.is_empty();
    // An error number in a line of an unknown program is not enough to be sure, whatever else fits.
    let is_guess = !no_symptom && !has_finding && !explained.iter().any(|(symptom, _)| symptom.known);
    let (supported, contradicted) = (!scales.supports.is_empty(), !scales.contradicts.is_empty());
    match (supported, contradicted) {
        // A finding is a fact and needs no symptom.
        (true, false) if (no_symptom || scales.score >= 4) && !is_guess => Confidence::Likely,
        (true, true) if scales.score >= 5 && !is_guess => Confidence::Likely,
        (_, true) if scales.score <= 0 => Confidence::Unlikely,
        _ => Confidence::Possible,
    }
}

pub(super) fn severity_of(explained: &[(&Symptom, Link)]) -> Severity {
    match explained.iter().map(|(symptom, _)| symptom.grade).max() {
        Some(Grade::Failure) => Severity::Critical,
        Some(Grade::Unrecognised | Grade::Note) | None => Severity::Info,
        Some(_) => Severity::Warning,
    }
}

/// The cause for a finding that no known cause claims: the rule itself.
pub(super) fn alone(rule: &'static Rule, findings: &[Finding]) -> Cause {
    let mine: Vec<&Finding> = findings.iter().filter(|finding| finding.rule == rule).collect();
    let worst = mine.iter().max_by_key(|finding| finding.severity);
    Cause {
        id: rule.id,
        title: rule.title,
        confidence: Confidence::Likely,
        aside: false,
        severity: worst.map_or(Severity::Info, |finding| finding.severity),
        score: 0,
        explains: Vec::new(),
        supports: distinct(mine.iter().flat_map(|finding| finding.evidence.clone()).collect()),
        contradicts: Vec::new(),
        unseen: Vec::new(),
        next_step: worst.map_or_else(String::new, |finding| finding.remedy.clone()),
        findings: vec![rule.id],
        subjects: mine
            .iter()
            .map(|finding| finding.subject.clone())
            .take(MAX_SUBJECTS)
            .collect(),
    }
}

pub(super) fn distinct(all: Vec<Evidence>) -> Vec<Evidence> {
    let mut kept: Vec<Evidence> = Vec::new();
    for evidence in all {
        if kept.len() < MAX_EVIDENCE && !kept.contains(&evidence) {
            kept.push(evidence);
        }
    }
    kept
}
