//! What a view says as conditions.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use rdma_health_node::{Fact, Unread, node::SourceStatus};
use rdma_health_protocol::ProbeFailure;
use rdma_health_rules::{CATALOGUE, Domain, Expectations, Severity, judge};

use super::{
    condition::{Circumstances, Condition, Status, conditions, kind, kinds},
    labels::{Wish, labels, taint},
};
use crate::{config::Taint, metrics::fixture, view::View};

const MINUTE: Duration = Duration::from_secs(60);

fn around(view: &View) -> Circumstances {
    Circumstances {
        now: view.node.time,
        interval: MINUTE,
        probe_interval: Some(MINUTE * 10),
        threshold: Severity::Warning,
        starting: false,
    }
}

fn said(view: &View, around: &Circumstances, kind: &str) -> Option<Condition> {
    conditions(view, around)
        .into_iter()
        .find(|condition| condition.kind == kind)
}

fn judged(mut view: View) -> View {
    view.verdict = Arc::new(judge(&view.node, &Expectations::default()));
    view
}

/// A node whose probes are as old as the rest of it.
fn rich() -> View {
    let mut view = fixture::rich(3);
    view.node.sources.retain(|_, status| !status.stale);
    view.node.time = view.node.probes.iter().map(|probe| probe.time).max().unwrap();
    judged(view)
}

#[test]
fn every_domain_has_a_condition_and_every_reason_is_one_word() {
    let all: BTreeSet<_> = kinds().collect();
    for domain in Domain::ALL {
        assert!(all.contains(kind(domain)), "{domain:?}");
    }
    for rule in CATALOGUE {
        let reason = rule.reason();
        assert!(reason.len() <= 128, "{reason}");
        // What the API demands of a reason.
        assert!(reason.chars().all(|c| c.is_ascii_alphanumeric()), "{reason}");
    }
}

#[test]
fn a_problem_names_rule_subject_and_remedy_in_under_256_characters() {
    let view = rich();
    let condition = said(&view, &around(&view), "RDMAProbeProblem").unwrap();
    assert_eq!(
        (condition.status, condition.reason.as_str()),
        (Status::True, "ProbeFailed")
    );
    assert!(condition.message.contains("mlx5_1:1"), "{}", condition.message);
    let finding = view
        .verdict
        .findings
        .iter()
        .find(|finding| finding.rule.id == "probe-failed");
    let remedy = &finding.unwrap().remedy;
    let first: String = remedy.split(' ').take(3).collect::<Vec<_>>().join(" ");
    assert!(
        condition.message.contains(&first),
        "{} lacks {first}",
        condition.message
    );
    for condition in conditions(&view, &around(&view)) {
        assert!(condition.message.chars().count() < 256);
        assert!(!condition.message.contains(char::is_control));
    }
}

#[test]
fn the_threshold_decides_what_is_a_problem() {
    let view = rich();
    let strict = Circumstances {
        threshold: Severity::Critical,
        ..around(&view)
    };
    let problems = |around: &Circumstances| {
        let all = conditions(&view, around).into_iter();
        all.filter(|condition| condition.status == Status::True).count()
    };
    assert!(problems(&strict) < problems(&around(&view)));
    for condition in conditions(&view, &strict) {
        let critical =
            view.verdict.findings.iter().any(|finding| {
                kind(finding.domain) == condition.kind && finding.severity == Severity::Critical
            });
        assert!(condition.status != Status::True || critical, "{condition:?}");
    }
}

#[test]
fn old_facts_say_nothing() {
    let view = rich();
    let later = Circumstances {
        now: view.node.time + 181,
        ..around(&view)
    };
    for condition in conditions(&view, &later) {
        assert_eq!(condition.status, Status::Unknown);
        assert_eq!(condition.reason, "FactsStale");
    }
    // A clock that went backwards makes nothing old.
    let earlier = Circumstances {
        now: 0,
        ..around(&view)
    };
    assert!(
        conditions(&view, &earlier)
            .iter()
            .any(|condition| condition.status != Status::Unknown)
    );
}

#[test]
fn a_source_that_hangs_makes_its_domain_unknown_and_no_other() {
    let mut view = rich();
    let hung = SourceStatus {
        time: Some(view.node.time),
        seconds: 0.0,
        stale: true,
        unread: Vec::new(),
    };
    view.node
        .sources
        .retain(|name, _| !name.starts_with("infiniband"));
    view.node.sources.insert("infiniband".into(), Arc::new(hung));
    let link = said(&view, &around(&view), "RDMALinkProblem").unwrap();
    assert_eq!(
        (link.status, link.reason.as_str()),
        (Status::Unknown, "FactsStale")
    );
    let limits = said(&view, &around(&view), "RDMALimitsProblem").unwrap();
    assert_ne!(limits.reason, "FactsStale");
}

#[test]
fn what_could_not_be_read_is_unknown_and_not_right() {
    let mut view = rich();
    let why = Unread {
        source: "/sys/class/infiniband".into(),
        kind: "EACCES".into(),
        detail: "Permission denied".into(),
    };
    view.node.hcas = Fact::from(why);
    view.node.probes.clear();
    let view = judged(view);
    let link = said(&view, &around(&view), "RDMALinkProblem").unwrap();
    assert_eq!(
        (link.status, link.reason.as_str()),
        (Status::Unknown, "FactsUnread")
    );
    assert!(link.message.contains("/sys/class/infiniband"), "{}", link.message);
}

#[test]
fn a_node_of_which_nothing_is_known_claims_nothing() {
    let view = fixture::empty(false);
    let around = around(&view);
    for condition in conditions(&view, &around) {
        assert_ne!(condition.status, Status::False, "{condition:?}");
    }
}

#[test]
fn a_probe_that_was_not_made_is_no_success() {
    let mut view = rich();
    view.node.probes.clear();
    let view = judged(view);
    let probe = |around: &Circumstances| said(&view, around, "RDMAProbeProblem");
    let usual = around(&view);
    assert_eq!(probe(&usual).unwrap().reason, "NotProbed");
    let disabled = Circumstances {
        probe_interval: None,
        ..usual
    };
    assert_eq!(probe(&disabled).unwrap().reason, "ProbesDisabled");
    // A moment after the start, what an earlier agent found stays.
    let starting = Circumstances {
        starting: true,
        ..usual
    };
    assert_eq!(probe(&starting), None);
}

/// Two active ports, of which the second does not work.
#[test]
fn an_agent_that_has_just_started_takes_nothing_back_before_every_port_was_probed() {
    let found = rich();
    let critical = |view: &View| view.verdict.status == rdma_health_rules::Status::Critical;
    let mut before = found.clone();
    before.node.probes.clear();
    // What is critical is what the probe found.
    let quiet = |view: View| {
        let mut view = judged(view);
        let verdict = Arc::make_mut(&mut view.verdict);
        verdict.findings.retain(|finding| {
            finding.severity < Severity::Critical || kind(finding.domain) == "RDMAProbeProblem"
        });
        if !verdict
            .findings
            .iter()
            .any(|finding| finding.severity == Severity::Critical)
        {
            verdict.status = rdma_health_rules::Status::Warning;
        }
        view
    };
    let mut partly = found.clone();
    partly.node.probes.retain(|probe| probe.report.failure.is_none());
    assert!(!partly.node.probes.is_empty());
    let (before, partly, found) = (quiet(before), quiet(partly), quiet(found));
    assert!(!critical(&before) && !critical(&partly) && critical(&found));

    for early in [&before, &partly] {
        let usual = around(early);
        let starting = Circumstances {
            starting: true,
            ..usual
        };
        let verdict = |around: &Circumstances| labels(early, around)["state.rdma-health.io/verdict"].clone();
        assert_eq!(taint(early, Taint::NoExecute, &starting), Wish::Keep);
        assert_eq!(verdict(&starting), None);
        assert_eq!(said(early, &starting, "RDMAProbeProblem"), None);
        // Later it is what it is, and where nothing is probed nothing is waited for.
        let never = Circumstances {
            probe_interval: None,
            ..starting
        };
        for around in [usual, never] {
            assert_eq!(taint(early, Taint::NoExecute, &around), Wish::Without);
            assert_eq!(verdict(&around).as_deref(), Some("warning"));
        }
    }
    // What was found is told at once.
    let starting = Circumstances {
        starting: true,
        ..around(&found)
    };
    assert!(matches!(
        taint(&found, Taint::NoExecute, &starting),
        Wish::With(_)
    ));
    assert_eq!(
        labels(&found, &starting)["state.rdma-health.io/verdict"].as_deref(),
        Some("critical")
    );
    let probe = said(&found, &starting, "RDMAProbeProblem").unwrap();
    assert_eq!(probe.status, Status::True);
}

#[test]
fn busy_ports_are_no_problem_and_old_probes_no_answer() {
    let mut view = rich();
    for probe in &mut view.node.probes {
        let mut busy = (**probe).clone();
        busy.report.failure = Some(ProbeFailure::Busy {
            bytes_per_second: 1 << 30,
        });
        *probe = Arc::new(busy);
    }
    let view = judged(view);
    let usual = around(&view);
    let probe = said(&view, &usual, "RDMAProbeProblem").unwrap();
    assert_eq!(
        (probe.status, probe.reason.as_str()),
        (Status::False, "PortsBusy")
    );
    let frequent = Circumstances {
        now: view.node.time + 100,
        probe_interval: Some(Duration::from_secs(10)),
        ..usual
    };
    let probe = said(&view, &frequent, "RDMAProbeProblem").unwrap();
    assert_eq!(
        (probe.status, probe.reason.as_str()),
        (Status::Unknown, "ProbesStale")
    );
}

#[test]
fn a_renamed_device_changes_no_condition_but_its_wording() {
    let before = rich();
    let mut after = before.clone();
    for finding in &mut Arc::make_mut(&mut after.verdict).findings {
        finding.message = finding.message.replace("mlx5_", "rocep");
        finding.subject.device = finding
            .subject
            .device
            .as_ref()
            .map(|name| name.replace("mlx5_", "rocep"));
    }
    let types = |view: &View| {
        let all = conditions(view, &around(view)).into_iter();
        all.map(|condition| (condition.kind, condition.status, condition.reason))
            .collect::<Vec<_>>()
    };
    assert_eq!(types(&before), types(&after));
}
