//! Conditions of a view.

use std::{sync::Arc, time::Duration};

use rdma_health_config::Taint;
use rdma_health_node::{
    Fact, SourceStatus, Unread, UnreadKind,
    fact::Errno,
    iommu::{DomainType, Group},
    pci::Role,
};
use rdma_health_protocol::ProbeFailure;
use rdma_health_rules::{CATALOGUE, Expectations, Severity, judge};
use rdma_health_view::View;

use super::{
    condition::{Condition, ConditionContext, Status, conditions},
    kind::ConditionKind,
    labels::{TaintChange, labels, taint},
};

const MINUTE: Duration = Duration::from_secs(60);

fn context(view: &View) -> ConditionContext {
    ConditionContext {
        now: view.node.time,
        interval: MINUTE,
        probe_interval: Some(MINUTE * 10),
        threshold: Severity::Warning,
        starting: false,
    }
}

fn said(view: &View, context: &ConditionContext, kind: ConditionKind) -> Option<Condition> {
    conditions(view, context)
        .into_iter()
        .find(|condition| condition.kind == kind)
}

fn judged(mut view: View) -> View {
    view.verdict = Arc::new(judge(&view.node, &Expectations::default()));
    view
}

/// A node whose probes are as old as the rest of it.
fn rich() -> View {
    let mut view = rdma_health_tests::view::rich(3, &[]);
    view.node.sources.retain(|_, status| !status.stale);
    view.node.time = view.node.probes.iter().map(|probe| probe.time).max().unwrap();
    judged(view)
}

#[test]
fn every_reason_is_one_word() {
    for rule in CATALOGUE {
        let reason = rule.reason();
        assert!(reason.len() <= 128, "{reason}");
        // The API's format of a reason.
        assert!(reason.chars().all(|c| c.is_ascii_alphanumeric()), "{reason}");
    }
}

#[test]
fn a_problem_names_rule_subject_and_remedy_in_under_256_characters() {
    let view = rich();
    let condition = said(&view, &context(&view), ConditionKind::Probe).unwrap();
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
        "{} does not contain {first}",
        condition.message
    );
    for condition in conditions(&view, &context(&view)) {
        assert!(condition.message.chars().count() < 256);
        assert!(!condition.message.contains(char::is_control));
    }
}

#[test]
fn a_problem_names_a_pod_that_has_the_device_before_the_remedy() {
    let mut view = rich();
    let mut verdict = (*view.verdict).clone();
    let probe = |finding: &&mut rdma_health_rules::Finding| finding.rule.id == "probe-failed";
    let finding = verdict.findings.iter_mut().find(probe).unwrap();
    finding.pods = vec!["ml/train-0".into(), "ml/train-1".into(), "ml/train-2".into()];
    view.verdict = Arc::new(verdict);
    let message = said(&view, &context(&view), ConditionKind::Probe)
        .unwrap()
        .message;
    let (before, remedy) = message
        .split_once("; used by pods ml/train-0 and 2 more")
        .unwrap();
    assert!(before.contains("mlx5_1:1") && remedy.len() > 10, "{message}");
}

#[test]
fn the_threshold_decides_what_is_a_problem() {
    let view = rich();
    let strict = ConditionContext {
        threshold: Severity::Critical,
        ..context(&view)
    };
    let problems = |context: &ConditionContext| {
        let all = conditions(&view, context).into_iter();
        all.filter(|condition| condition.status == Status::True).count()
    };
    assert!(problems(&strict) < problems(&context(&view)));
    for condition in conditions(&view, &strict) {
        let critical = view.verdict.findings.iter().any(|finding| {
            condition.kind == ConditionKind::of(finding.rule) && finding.severity == Severity::Critical
        });
        assert!(condition.status != Status::True || critical, "{condition:?}");
    }
}

#[test]
fn stale_facts_make_conditions_unknown() {
    let view = rich();
    let later = ConditionContext {
        now: view.node.time + 181,
        ..context(&view)
    };
    for condition in conditions(&view, &later) {
        assert_eq!(condition.status, Status::Unknown);
        assert_eq!(condition.reason, "FactsStale");
    }
    // A clock that went backwards does not make facts stale.
    let earlier = ConditionContext {
        now: 0,
        ..context(&view)
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
    let link = said(&view, &context(&view), ConditionKind::Link).unwrap();
    assert_eq!(
        (link.status, link.reason.as_str()),
        (Status::Unknown, "FactsStale")
    );
    let limits = said(&view, &context(&view), ConditionKind::Limits).unwrap();
    assert_ne!(limits.reason, "FactsStale");
}

#[test]
fn facts_that_could_not_be_read_make_the_condition_unknown() {
    let mut view = rich();
    let why = Unread {
        source: "/sys/class/infiniband".into(),
        kind: UnreadKind::Errno(Errno::ACCESS),
        detail: "Permission denied".into(),
    };
    view.node.hcas = Fact::from(why);
    view.node.probes.clear();
    let view = judged(view);
    let link = said(&view, &context(&view), ConditionKind::Link).unwrap();
    assert_eq!(
        (link.status, link.reason.as_str()),
        (Status::Unknown, "FactsUnread")
    );
    assert!(link.message.contains("/sys/class/infiniband"), "{}", link.message);
}

#[test]
fn a_node_without_facts_has_only_unknown_conditions() {
    let view = rdma_health_tests::view::empty(false);
    let context = context(&view);
    for condition in conditions(&view, &context) {
        assert_ne!(condition.status, Status::False, "{condition:?}");
    }
}

#[test]
fn a_missing_probe_is_not_a_success() {
    let mut view = rich();
    view.node.probes.clear();
    let view = judged(view);
    let probe = |context: &ConditionContext| said(&view, context, ConditionKind::Probe);
    let usual = context(&view);
    assert_eq!(probe(&usual).unwrap().reason, "NotProbed");
    let disabled = ConditionContext {
        probe_interval: None,
        ..usual
    };
    assert_eq!(probe(&disabled).unwrap().reason, "ProbesDisabled");
    // Right after the start, the condition of an earlier agent stays.
    let starting = ConditionContext {
        starting: true,
        ..usual
    };
    assert_eq!(probe(&starting), None);
}

/// Two active ports; the second one is faulty.
#[test]
fn an_agent_that_has_just_started_withdraws_nothing_before_every_port_was_probed() {
    let found = rich();
    let critical = |view: &View| view.verdict.status == rdma_health_rules::Status::Critical;
    let mut before = found.clone();
    before.node.probes.clear();
    // The finding of the probe is critical.
    let quiet = |view: View| {
        let mut view = judged(view);
        let verdict = Arc::make_mut(&mut view.verdict);
        verdict.findings.retain(|finding| {
            finding.severity < Severity::Critical || ConditionKind::of(finding.rule) == ConditionKind::Probe
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
        let usual = context(early);
        let starting = ConditionContext {
            starting: true,
            ..usual
        };
        let verdict =
            |context: &ConditionContext| labels(early, context)["state.rdma-health.io/verdict"].clone();
        assert_eq!(taint(early, Taint::NoExecute, &starting), TaintChange::Keep);
        assert_eq!(verdict(&starting), None);
        assert_eq!(said(early, &starting, ConditionKind::Probe), None);
        // Later the current state counts; without probes there is no wait.
        let never = ConditionContext {
            probe_interval: None,
            ..starting
        };
        for context in [usual, never] {
            assert_eq!(taint(early, Taint::NoExecute, &context), TaintChange::Remove);
            assert_eq!(verdict(&context).as_deref(), Some("warning"));
        }
    }
    // What cannot be read may still be broken.
    let mut unread = found.clone();
    let why = Unread {
        source: "/sys/class/infiniband".into(),
        kind: UnreadKind::Errno(Errno::ACCESS),
        detail: "Permission denied".into(),
    };
    unread.node.hcas = why.into();
    let verdict = Arc::make_mut(&mut unread.verdict);
    verdict.findings.clear();
    verdict.status = rdma_health_rules::Status::Unknown;
    assert_eq!(
        taint(&unread, Taint::NoExecute, &context(&unread)),
        TaintChange::Keep
    );
    // A finding is published at once.
    let starting = ConditionContext {
        starting: true,
        ..context(&found)
    };
    assert!(matches!(
        taint(&found, Taint::NoExecute, &starting),
        TaintChange::Set(_)
    ));
    assert_eq!(
        labels(&found, &starting)["state.rdma-health.io/verdict"].as_deref(),
        Some("critical")
    );
    let probe = said(&found, &starting, ConditionKind::Probe).unwrap();
    assert_eq!(probe.status, Status::True);
}

/// The label for a node whose RDMA functions pass through and whose GPU is in a group of this type.
fn iommu_label(of_gpu: &DomainType) -> Option<String> {
    let mut view = rich();
    let group = |domain: DomainType, device: &str| Group {
        domain: Fact::Known(domain),
        devices: Fact::Known(vec![device.to_owned()]),
    };
    let functions = view.node.functions();
    let groups = functions.iter().map(|function| match function.role {
        Role::Gpu => group(of_gpu.clone(), function.address),
        _ => group(DomainType::Identity, function.address),
    });
    let groups = Fact::Known((0..).zip(groups).collect());
    drop(functions);
    Arc::make_mut(&mut view.node.iommu).groups = groups;
    labels(&view, &context(&view))
        .remove("state.rdma-health.io/iommu")
        .flatten()
}

#[test]
fn the_iommu_label_covers_gpus_and_is_translated_only_for_translation() {
    let label = |of_gpu: DomainType| iommu_label(&of_gpu).unwrap();
    assert_eq!(label(DomainType::Identity), "passthrough");
    assert_eq!(label(DomainType::Lazy), "translated");
    assert_eq!(label(DomainType::Strict), "translated");
    assert_eq!(label(DomainType::Blocked), "other");
    assert_eq!(label(DomainType::Unmanaged), "other");
}

#[test]
fn busy_ports_are_not_a_problem_and_old_probes_are_unknown() {
    let mut view = rich();
    for probe in &mut view.node.probes {
        let mut busy = (**probe).clone();
        busy.report.failure = Some(ProbeFailure::Busy {
            bytes_per_second: 1 << 30,
        });
        *probe = Arc::new(busy);
    }
    let view = judged(view);
    let usual = context(&view);
    let probe = said(&view, &usual, ConditionKind::Probe).unwrap();
    assert_eq!(
        (probe.status, probe.reason.as_str()),
        (Status::False, "PortsBusy")
    );
    let frequent = ConditionContext {
        now: view.node.time + 100,
        probe_interval: Some(Duration::from_secs(10)),
        ..usual
    };
    let probe = said(&view, &frequent, ConditionKind::Probe).unwrap();
    assert_eq!(
        (probe.status, probe.reason.as_str()),
        (Status::Unknown, "ProbesStale")
    );
}

#[test]
fn a_renamed_device_changes_only_the_message() {
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
        let all = conditions(view, &context(view)).into_iter();
        all.map(|condition| (condition.kind, condition.status, condition.reason))
            .collect::<Vec<_>>()
    };
    assert_eq!(types(&before), types(&after));
}

#[test]
fn a_cable_is_a_problem_of_the_link_wherever_it_was_read() {
    for rule in ["port-module-fault", "port-cable-unplugged", "port-down"] {
        let rule = rdma_health_rules::rule(rule).unwrap();
        assert_eq!(ConditionKind::of(rule), ConditionKind::Link, "{}", rule.id);
    }
    let failed = rdma_health_rules::rule("adapter-failed").unwrap();
    assert_eq!(ConditionKind::of(failed), ConditionKind::Device);
}
