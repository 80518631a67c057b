//! Ranks the causes of symptoms and findings.
//!
//! A symptom shows what failed, but each symptom has several possible causes. The table of [known causes](CAUSES) lists
//! the symptoms that each cause explains, the rules whose findings show it, and the facts for and against it.
//! [`diagnose`] scores every cause on the available evidence, so that its rank can be explained:
//!
//! | what | points |
//! | --- | --- |
//! | a finding of one of the cause's rules: critical, warning, info | 4, 3, 1 |
//! | a fact or log line that shows the cause itself | 4 |
//! | a fact that is consistent with it | 2 |
//! | a fact that makes it less likely, contradicts it | -1, -4 |
//! | a symptom that it often explains, sometimes explains (the highest of all symptoms) | 2, 1 |
//! | a finding on the same device that a symptom names | 1 |
//!
//! A fault that the kernel logged about the device of a symptom often explains that symptom, whatever its kind.
//!
//! Causes with equal points are ordered by how common they are. Nothing here reads a file or keeps state.

mod aside;
mod parts;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use rdma_health_node::Node;
use rdma_health_rules::{
    Domain, Evidence, Finding, Severity, Subject,
    domain::{adapter_events::ADAPTER_FAILED, lost::DEVICE_LOST, modules::RDMA_MODULES_MISSING, reading},
};

use self::parts::{
    alone, confidence, distinct, ids, left_out, listed_down, severity_of, unexplained, without_rdma,
};
use crate::{
    concern,
    effect::Effects,
    known::{KnownCause, Link},
    log::Log,
    observed,
    origin::{self, Origin},
    outcome::{Cause, Confidence, Diagnosis, LogSummary},
    symptom::{Grade, Software, Symptom, SymptomKind},
    table::{self, CAUSES, is_usual},
    weigh::{Case, Scales},
};

/// Maximum number of pieces of evidence that a cause keeps for and against it, each.
const MAX_EVIDENCE: usize = 16;
/// Maximum number of subjects that a cause names.
const MAX_SUBJECTS: usize = 64;

/// Combines a node's findings and probes with the symptoms in a job's log.
pub fn diagnose(node: &Node, findings: &[Finding], log: Option<&Log>) -> Diagnosis {
    let mut symptoms = observed::symptoms(node, findings);
    symptoms.extend(log.into_iter().flat_map(|log| log.symptoms.iter().cloned()));
    let origin = log.map_or(Origin::Here, |log| origin::of(node, log));
    let unknown = Node::unknown();
    let is_elsewhere = matches!(origin, Origin::Elsewhere(_) | Origin::Unread);
    let writer = if is_elsewhere { &unknown } else { node };
    symptoms.extend(log.and_then(|log| observed::of_measurement(writer, log)));
    concern::find_renamed(&mut symptoms, writer);
    concern::lower_others(
        &mut symptoms,
        node,
        writer,
        origin == Origin::Here,
        log.map(|log| log.marks),
    );
    concern::raise_refuted(&mut symptoms, writer);
    let least = least_grade(&symptoms);
    // What ended a job where RDMA did not fail has a cause, too, and so has a rank that is late.
    let is_of_other = |symptom: &Symptom| {
        symptom.grade == Grade::Unrecognised && (symptom.kind.is_of_other() || is_late(symptom))
    };
    let primary: Vec<&Symptom> = symptoms
        .iter()
        .filter(|symptom| symptom.grade >= least || is_of_other(symptom))
        .collect();
    let only_late = !primary.is_empty() && primary.iter().all(|symptom| is_late(symptom));
    let containers = node.may_run_containers() && !log.is_some_and(|log| log.marks.slurm || log.marks.login);
    let case = |node, symptoms| Case {
        node,
        symptoms,
        log,
        containers,
        unknown: (origin != Origin::Here).then_some(&unknown),
    };
    let mut causes = if is_elsewhere {
        // What this node shows, and what the log shows, are faults of two machines.
        let (of_log, of_node): (Vec<_>, Vec<_>) =
            primary.into_iter().partition(|symptom| symptom.line.is_some());
        let mut causes = suggested(&case(&unknown, of_log), &[]);
        let of_node = Case {
            log: None,
            unknown: None,
            ..case(node, of_node)
        };
        causes.extend(suggested(&of_node, findings));
        causes
    } else {
        suggested(&case(node, primary), findings)
    };
    // Nothing shows that the network between the ranks is concerned.
    causes.retain(|(_, cause)| !only_late || cause.explains.is_empty() || cause.id == "peer-failed");
    let effects = Effects::of(findings);
    let grades = grades(&symptoms);
    sort(&mut causes, &effects, &grades);
    let mut claimed: BTreeSet<&str> = BTreeSet::new();
    causes.retain(|(_, cause)| {
        let has_unclaimed = cause.findings.iter().any(|id| !claimed.contains(id));
        if cause.confidence > Confidence::Unlikely {
            claimed.extend(&cause.findings);
        }
        has_unclaimed && cause.confidence > Confidence::Unlikely || !cause.explains.is_empty()
    });
    // A finding about a failed measurement is covered by a cause that explains its symptom.
    let explained: BTreeSet<_> = causes
        .iter()
        .filter(|(_, cause)| cause.confidence > Confidence::Unlikely)
        .flat_map(|(_, cause)| cause.explains.iter().copied())
        .collect();
    for finding in findings
        .iter()
        .filter(|finding| finding.severity > Severity::Info)
    {
        let covered = observed::of_finding(finding, node)
            .iter()
            .any(|kind| explained.contains(kind));
        if !covered && claimed.insert(finding.rule.id) {
            causes.push((u32::MAX, alone(finding.rule, findings)));
        }
    }
    sort(&mut causes, &effects, &grades);
    let causes: Vec<Cause> = causes.into_iter().map(|(_, cause)| cause).collect();
    Diagnosis {
        next_step: causes
            .first()
            .filter(|cause| cause.confidence > Confidence::Unlikely)
            .map(|cause| cause.next_step.clone())
            .or_else(|| unexplained(&symptoms))
            .or_else(|| listed_down(&symptoms))
            .or_else(|| without_rdma(&symptoms, log))
            .or_else(|| left_out(&symptoms))
            .or_else(|| without_device(node, findings)),
        causes,
        symptoms,
        log: log.map(|log| LogSummary {
            elsewhere: match origin {
                Origin::Elsewhere(why) => Some(why),
                Origin::Here | Origin::Unsure | Origin::Unread => None,
            },
            ..LogSummary::from(log)
        }),
    }
}

/// Whether only a watchdog reports that an operation of all ranks did not end in time.
fn is_late(symptom: &Symptom) -> bool {
    symptom.kind == SymptomKind::CollectiveTimeout && symptom.grade == Grade::Unrecognised
}

/// The least grade of a symptom that is evidence for a cause: a secondary failure is none, unless there are no other symptoms.
fn least_grade(symptoms: &[Symptom]) -> Grade {
    if symptoms.iter().any(|symptom| symptom.grade > Grade::Secondary) {
        Grade::Degraded
    } else {
        Grade::Secondary
    }
}

/// The step of a node on which nothing can be judged because it has no RDMA device: why an adapter has none, even if that is information only.
fn without_device(node: &Node, findings: &[Finding]) -> Option<String> {
    if node.hcas().next().is_some() || findings.iter().any(|finding| finding.severity > Severity::Info) {
        return None;
    }
    let mut of_rule = findings.iter();
    let finding =
        of_rule.find(|finding| *finding.rule == RDMA_MODULES_MISSING || *finding.rule == DEVICE_LOST)?;
    Some(format!("If this node is to use RDMA: {}", finding.remedy))
}

/// The causes that these symptoms and findings suggest, with their places in the table, which starts with the most common cause.
fn suggested(case: &Case<'_>, findings: &[Finding]) -> Vec<(u32, Cause)> {
    let weighed = |(place, known): (usize, &&'static KnownCause)| {
        Some((u32::try_from(place).ok()?, weighed(known, case, findings)?))
    };
    CAUSES.iter().enumerate().filter_map(weighed).collect()
}

/// Unlikely causes last; before them those that have nothing to do with the failure in the log, unless an adapter failed: that may end a whole
/// job. Then by the severity of what a cause shows or explains, then by confidence. So a guess never stands above a confirmed finding that is
/// as severe. A reason stands above its effect. Of equal causes, those of symptoms first; then an adapter that failed; then by score.
fn sort(causes: &mut [(u32, Cause)], effects: &Effects, grades: &Grades) {
    causes.sort_by_key(|(place, cause)| {
        let unlikely = cause.confidence == Confidence::Unlikely;
        let has_failed = cause.findings.contains(&ADAPTER_FAILED.id);
        (
            (unlikely, cause.aside && !has_failed),
            Reverse(gravity(cause, grades).max(effects.severity(cause).unwrap_or(Severity::Info))),
            effects.is_effect(cause),
            // What could not be read says less than what the log shows.
            cause.id == reading::FACTS_UNREADABLE.id,
            Reverse(cause.confidence),
            cause.explains.is_empty(),
            // No setting repairs an adapter that failed.
            !has_failed,
            Reverse(cause.score),
            Reverse(cause.explains.len()),
            !(cause.supports.is_empty() && is_usual(cause.id, &cause.explains)),
            *place,
        )
    });
}

/// The highest grade of the symptoms of each kind.
type Grades = BTreeMap<SymptomKind, Grade>;

fn grades(symptoms: &[Symptom]) -> Grades {
    let mut grades = Grades::new();
    for symptom in symptoms {
        let grade = grades.entry(symptom.kind).or_insert(symptom.grade);
        *grade = symptom.grade.max(*grade);
    }
    grades
}

/// The highest severity of a cause's findings and of the symptoms that it explains.
fn gravity(cause: &Cause, grades: &Grades) -> Severity {
    let of_grade = |grade: Grade| match grade {
        Grade::Failure => Severity::Critical,
        Grade::Degraded | Grade::Secondary => Severity::Warning,
        Grade::Unrecognised | Grade::Note => Severity::Info,
    };
    let explained = cause.explains.iter().filter_map(|kind| grades.get(kind));
    explained
        .map(|grade| of_grade(*grade))
        .fold(cause.severity, Severity::max)
}

/// Whether programs of one kind report all symptoms that a cause explains.
fn all_by(explained: &[(&Symptom, Link)], is_one: fn(Software) -> bool) -> bool {
    let mut all = explained.iter();
    !explained.is_empty() && all.all(|(symptom, _)| symptom.software.is_some_and(is_one))
}

/// Whether only a process can have the cause, and modules of the kernel report all that it explains. A module can report itself that it does
/// not support the adapter, and the kernel what it does not permit a process to do.
fn is_of_processes_only(known: &KnownCause, explained: &[(&Symptom, Link)]) -> bool {
    let is_reported = |(symptom, _): &(&Symptom, Link)| {
        matches!(
            symptom.kind,
            SymptomKind::UnsupportedAdapter | SymptomKind::NotPermitted | SymptomKind::MemlockWarning
        )
    };
    table::storage::is_of_processes(known.id)
        && all_by(explained, Software::is_kernel)
        && !explained.iter().any(is_reported)
}

/// The symptoms that a cause explains, and otherwise why its findings have nothing to do with those of the log.
fn explained<'a>(
    known: &KnownCause,
    case: &Case<'a>,
    mine: &[&Finding],
) -> (Vec<(&'a Symptom, Link)>, Option<Evidence>) {
    let linked = |symptom: &&'a Symptom| Some((*symptom, link(known, symptom, mine)?));
    let mut explained: Vec<_> = case.symptoms.iter().filter_map(linked).collect();
    let mut other = None;
    explained.retain(|(symptom, _)| {
        let why = aside::of_other(case.node, mine, symptom);
        let explains = why.is_none();
        other = other.take().or(why);
        explains
    });
    let aside = if explained.is_empty() {
        other.or_else(|| aside::of_all(case, mine))
    } else {
        None
    };
    (explained, aside)
}

/// The score of one cause; `None` if neither a symptom nor a finding suggests it.
fn weighed(known: &'static KnownCause, case: &Case<'_>, findings: &[Finding]) -> Option<Cause> {
    let mine = known.shown_by(findings);
    let (explained, aside) = explained(known, case, &mine);
    let grave = mine.iter().any(|finding| finding.severity > Severity::Info);
    if explained.is_empty() && !grave {
        return None;
    }
    if !grave && is_of_processes_only(known, &explained) {
        return None;
    }
    let mut scales = Scales {
        often: known.often,
        ..Scales::default()
    };
    let mut counted = BTreeSet::new();
    for finding in &mine {
        // A fault on eight devices is one fault: each rule counts once, with the highest severity of its findings.
        if counted.insert(finding.rule.id) {
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
    let before = scales.clone();
    if aside.is_none() {
        (known.weigh)(case, &mut scales);
    }
    if scales.is_excluded && !grave {
        return None;
    }
    if let Some(unknown) = case.unknown
        && !explained.is_empty()
    {
        without_doubtful_facts(known, case, unknown, before, &mut scales);
    }
    // Its rules found nothing, no evidence is missing, and it is a rare cause.
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
        .find(|finding| finding.severity > Severity::Info && !finding.is_remedy_for_several_cases());
    let next_step = scales
        .insisted_step
        .take()
        .or_else(|| {
            of_family(known, case)
                .filter(|_| remedy.is_none())
                .map(str::to_owned)
        })
        .or_else(|| remedy.map(|finding| finding.remedy.clone()))
        .or_else(|| scales.next_step.take())
        .unwrap_or_else(|| usual_step(known, case, &explained).to_owned());
    let mut explains = Vec::new();
    for (symptom, _) in &explained {
        if !explains.contains(&symptom.kind) {
            explains.push(symptom.kind);
        }
    }
    Some(Cause {
        id: known.id,
        title: known.title,
        confidence: confidence(&scales, &explained, grave),
        aside: aside.is_some(),
        severity: worst.unwrap_or_else(|| severity_of(&explained)),
        score: scales.score,
        explains,
        supports: distinct(scales.supports),
        contradicts: distinct(scales.contradicts.into_iter().chain(aside).collect()),
        unseen: scales.unseen,
        next_step,
        findings: ids(&mine),
        subjects,
    })
}

/// The next step with adapters that are not NVIDIA's, whose tools and settings have other names.
fn of_family(known: &KnownCause, case: &Case<'_>) -> Option<&'static str> {
    table::family::next_step(case.family()?, known.id)
}

/// The next step of a cause where the log shows neither GPUs nor their libraries.
fn of_plain(known: &KnownCause, case: &Case<'_>, explained: &[(&Symptom, Link)]) -> Option<&'static str> {
    let log = case.log.filter(|log| !log.names_gpu)?;
    // It has the options of Lustre.
    let is_of_lustre = |symptom: &Symptom| {
        let text = symptom.text.to_ascii_lowercase();
        ["lnet", "kiblnd", "o2ib"].iter().any(|name| text.contains(name))
    };
    if log.symptoms.iter().any(is_of_lustre) {
        return None;
    }
    if all_by(explained, Software::is_kernel) {
        return table::plain::of_kernel(known.id);
    }
    table::plain::next_step(known.id)
}

/// The next step of a cause where no fact suggests another one: the table's, or that for the place where the job runs.
fn usual_step(known: &'static KnownCause, case: &Case<'_>, explained: &[(&Symptom, Link)]) -> &'static str {
    let of_storage = all_by(explained, Software::is_storage).then(|| table::storage::next_step(known.id));
    if let Some(step) = of_storage.flatten().or_else(|| of_plain(known, case, explained)) {
        return step;
    }
    let on_host = table::host::next_step(known.id).filter(|_| !case.containers);
    let of_amd = || table::amd::next_step(known.id).filter(|_| case.is_amd());
    on_host.or_else(of_amd).unwrap_or(known.next_step)
}

/// Of a node that may not be the one that wrote the log, facts do not refute a cause. What is not known of the other node is said once.
fn without_doubtful_facts(
    known: &KnownCause,
    case: &Case<'_>,
    unknown: &Node,
    before: Scales,
    scales: &mut Scales,
) {
    let mut of_log = before;
    let alone = Case {
        node: unknown,
        symptoms: case.symptoms.clone(),
        log: case.log,
        unknown: None,
        containers: case.containers,
    };
    (known.weigh)(&alone, &mut of_log);
    if of_log.contradicts != scales.contradicts {
        *scales = of_log;
    }
    let is_of_unknown = |text: &String| {
        unknown
            .facts
            .hcas
            .unread()
            .is_some_and(|unread| text.contains(&unread.detail))
    };
    if scales.unseen.iter().any(is_of_unknown) {
        scales.unseen.retain(|text| !is_of_unknown(text));
        scales.unseen.push("facts of the node that wrote the log".into());
    }
}

/// The link of a cause to a symptom. What the kernel logged about a device explains every failure on it, even if the cause is
/// not known for this symptom.
fn link(known: &KnownCause, symptom: &Symptom, mine: &[&Finding]) -> Option<Link> {
    let usual = known.link(symptom.kind);
    // A port could not be opened with a GID, and its GIDs are not in order.
    let is_of_gid = |finding: &&Finding| {
        finding.domain == Domain::Gids
            && finding.severity > Severity::Info
            && finding.subject.device == symptom.named.device
    };
    let opens_gid = symptom.kind == SymptomKind::OpenFailed
        && symptom.named.device.is_some()
        && symptom.text.to_ascii_lowercase().contains("gid");
    if opens_gid && mine.iter().any(is_of_gid) {
        return Some(Link::Often);
    }
    if !symptom.kind.may_come_from_device() {
        return usual;
    }
    let mut logged = mine
        .iter()
        .filter(|finding| finding.domain == Domain::Kernel && finding.severity > Severity::Info)
        .peekable();
    if logged.peek().is_none() {
        return usual;
    }
    match &symptom.named.device {
        Some(device) if logged.any(|finding| finding.subject.device.as_ref() == Some(device)) => {
            Some(Link::Often)
        }
        Some(_) => usual,
        None => usual.or(Some(Link::Sometimes)),
    }
}
