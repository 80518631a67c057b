//! The aggregate of a node with several ports.

use std::sync::Arc;

use rdma_health_node::Fact;
use rdma_health_protocol::{Gid, Path, ProbeFailure};
use rdma_health_rules::judge;

use super::*;

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

fn aggregate() -> Aggregate {
    Aggregate {
        probed: vec!["*".into()],
        ..Aggregate::default()
    }
}

/// A node whose every active port has a GID and passed its probe, without findings.
fn healthy() -> View {
    let mut view = rdma_health_tests::view::rich(3, &[]);
    view.node.sources.retain(|_, status| !status.stale);
    view.node.time = view.node.probes.iter().map(|probe| probe.time).max().unwrap();
    let passed = view.node.loopbacks().find(|probe| probe.report.failure.is_none());
    let passed = passed.unwrap().clone();
    let keys: Vec<_> = view
        .node
        .active_ports()
        .map(|port| (port.hca.name.clone(), port.number))
        .collect();
    assert!(keys.len() > 1);
    view.node.probes = keys
        .into_iter()
        .map(|(device, port)| {
            let mut probe = passed.clone();
            probe.report.path = Path::loopback(device, port);
            Arc::new(probe)
        })
        .collect();
    Arc::make_mut(&mut view.verdict).findings.clear();
    let gid = view
        .node
        .active_ports()
        .find_map(|port| port.routable_gid().cloned());
    gids(&mut view, &Fact::Known(vec![gid.unwrap()]));
    view
}

/// Gives every port this GID table.
fn gids(view: &mut View, table: &Fact<Vec<Gid>>) {
    view.node.verbs = Fact::Absent;
    let mut hcas = view.node.hcas.known().unwrap().clone();
    for hca in hcas.values_mut() {
        for port in Arc::make_mut(hca).ports.values_mut() {
            port.gids = table.clone();
        }
    }
    view.node.hcas = Fact::Known(hcas);
}

fn ready(view: &View, context: &ConditionContext, aggregate: &Aggregate) -> Option<(Status, String, String)> {
    let all = conditions(view, context, aggregate);
    let found = all
        .into_iter()
        .find(|condition| condition.kind == ConditionType::Ready)?;
    Some((found.status, found.reason, found.message))
}

fn says(view: &View, aggregate: &Aggregate) -> (Status, String) {
    let (status, reason, _) = ready(view, &context(view), aggregate).unwrap();
    (status, reason)
}

fn failing(view: &mut View, failure: Option<ProbeFailure>) {
    let last = view.node.probes.last_mut().unwrap();
    Arc::make_mut(last).report.failure = failure;
}

#[test]
fn true_needs_a_gid_and_a_successful_probe_of_every_active_port() {
    let view = healthy();
    assert_eq!(says(&view, &aggregate()), (Status::True, "PortsReady".into()));

    let mut one_unprobed = view.clone();
    one_unprobed.node.probes.pop();
    assert_eq!(
        says(&one_unprobed, &aggregate()),
        (Status::Unknown, "NotProbed".into())
    );

    let mut failed = view.clone();
    failing(&mut failed, Some(ProbeFailure::TimedOut));
    assert_eq!(says(&failed, &aggregate()), (Status::False, "ProbeFailed".into()));

    let mut busy = view.clone();
    failing(
        &mut busy,
        Some(ProbeFailure::Busy {
            bytes_per_second: 1 << 30,
        }),
    );
    assert_eq!(says(&busy, &aggregate()).0, Status::True);

    let mut later = context(&view);
    later.probe_interval = Some(Duration::from_secs(10));
    later.now += 100;
    let (status, reason, _) = ready(&view, &later, &aggregate()).unwrap();
    assert_eq!((status, reason.as_str()), (Status::Unknown, "ProbesStale"));

    // A port without a GID is a fault if the rule finds one.
    let mut without = view.clone();
    gids(&mut without, &Fact::Known(Vec::new()));
    assert_eq!(
        says(&without, &aggregate()),
        (Status::Unknown, "GidMissing".into())
    );
    let mut finding = judge(&without.node, &Expectations::default()).findings.remove(0);
    finding.rule = &GID_MISSING;
    finding.severity = Severity::Warning;
    finding.subject = Subject::of_port(&without.node.active_ports().next().unwrap());
    Arc::make_mut(&mut without.verdict).findings.push(finding);
    assert_eq!(says(&without, &aggregate()), (Status::False, "GidMissing".into()));
}

#[test]
fn a_gid_that_no_rule_objects_to_is_no_fault() {
    let mut view = healthy();
    let mut gid = view
        .node
        .active_ports()
        .find_map(|port| port.routable_gid().cloned())
        .unwrap();
    for address in ["fd00::1", "fe80::1"] {
        gid.gid = address.parse().unwrap();
        gids(&mut view, &Fact::Known(vec![gid.clone()]));
        assert_eq!(says(&view, &aggregate()).0, Status::True, "{address}");
    }
}

#[test]
fn probes_are_not_waited_for_where_they_are_disabled() {
    let mut view = healthy();
    view.node.probes.clear();
    let disabled = ConditionContext {
        probe_interval: None,
        ..context(&view)
    };
    let (status, _, message) = ready(&view, &disabled, &aggregate()).unwrap();
    assert_eq!(status, Status::True);
    assert!(message.contains("probes are disabled"), "{message}");
    // Devices that no pattern names are never probed.
    let mut others = aggregate();
    others.probed = vec!["other_*".into()];
    assert_eq!(says(&view, &others).0, Status::True);
}

#[test]
fn only_critical_findings_make_it_false_and_they_come_with_their_reason() {
    let mut view = healthy();
    view.verdict = Arc::new(judge(
        &rdma_health_tests::view::rich(3, &[]).node,
        &Expectations::default(),
    ));
    let worst = view.verdict.findings.first().unwrap().rule.reason();
    assert_eq!(says(&view, &aggregate()), (Status::False, worst));
    let verdict = Arc::make_mut(&mut view.verdict);
    verdict
        .findings
        .retain(|finding| finding.severity < Severity::Critical);
    assert!(!verdict.findings.is_empty());
    assert_eq!(says(&view, &aggregate()).0, Status::True);
}

#[test]
fn what_is_not_known_is_unknown_and_never_false() {
    let view = healthy();
    let mut late = context(&view);
    late.now += 1000;
    assert_eq!(ready(&view, &late, &aggregate()).unwrap().1, "FactsStale");
    let mut tcp = aggregate();
    tcp.expect.profile = Profile::TcpOnly;
    assert_eq!(says(&view, &tcp), (Status::Unknown, "NotExpected".into()));
    let mut bare = view.clone();
    bare.node.hcas = Fact::Known(std::collections::BTreeMap::new());
    assert_eq!(says(&bare, &aggregate()), (Status::Unknown, "NoDevices".into()));
    let nothing = rdma_health_tests::view::empty(false);
    assert_eq!(says(&nothing, &aggregate()).0, Status::Unknown);
}

#[test]
fn expected_ports_replace_the_active_ones() {
    let view = healthy();
    let mut named = aggregate();
    let first = view.node.active_ports().next().unwrap().to_string();
    named.expect.ports_up = vec![first.clone()];
    let (_, _, message) = ready(&view, &context(&view), &named).unwrap();
    assert!(message.starts_with("1 active port has"), "{message}");
    named.expect.ports_up = vec![first, "mlx5_99".into()];
    assert_eq!(says(&view, &named), (Status::False, "PortMissing".into()));
}

#[test]
fn a_restarted_agent_keeps_what_the_node_has_and_a_booted_node_does_not() {
    let mut view = healthy();
    view.node.probes.clear();
    let starting = ConditionContext {
        starting: true,
        ..context(&view)
    };
    let mut up_for = |seconds: u64| {
        Arc::make_mut(&mut view.node.host).uptime = Fact::Known(seconds);
        ready(&view, &starting, &aggregate())
    };
    assert_eq!(up_for(86_400), None);
    let (status, reason, _) = up_for(30).unwrap();
    assert_eq!((status, reason.as_str()), (Status::Unknown, "NotProbed"));
}

#[test]
fn an_alias_has_its_own_name_shape_and_patience() {
    let mut view = healthy();
    let alias = |name: &str, meaning, minutes| Alias {
        r#type: name.parse().unwrap(),
        meaning,
        delay: MINUTE * minutes,
        repair: Vec::new(),
    };
    let mut aggregate = aggregate();
    aggregate.aliases = vec![
        alias("AcceleratedHardwareReady", rdma_health_config::Meaning::Ready, 0),
        alias("example.com/NoRDMA", rdma_health_config::Meaning::Problem, 0),
        alias(
            "kubernetes.azure.com/NodeHealthy",
            rdma_health_config::Meaning::Ready,
            10,
        ),
    ];
    let statuses = |view: &View, aggregate: &Aggregate| {
        let all = conditions(view, &context(view), aggregate);
        all.iter()
            .map(|condition| format!("{}={}", condition.kind, condition.status.name()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        statuses(&view, &aggregate),
        [
            "rdma-health.io/RDMAReady=True",
            "AcceleratedHardwareReady=True",
            "example.com/NoRDMA=False",
            "kubernetes.azure.com/NodeHealthy=True",
        ]
    );
    failing(&mut view, Some(ProbeFailure::TimedOut));
    assert_eq!(
        statuses(&view, &aggregate),
        [
            "rdma-health.io/RDMAReady=False",
            "AcceleratedHardwareReady=False",
            "example.com/NoRDMA=True",
            // A fault of unknown age counts as new.
            "kubernetes.azure.com/NodeHealthy=Unknown",
        ]
    );
}

#[test]
fn a_port_that_cannot_be_read_is_not_left_out() {
    let mut view = healthy();
    let mut hcas = view.node.hcas.known().unwrap().clone();
    let port = hcas
        .values_mut()
        .find_map(|hca| Arc::make_mut(hca).ports.values_mut().next());
    port.unwrap().state = Fact::Absent;
    view.node.hcas = Fact::Known(hcas);
    assert_eq!(says(&view, &aggregate()), (Status::Unknown, "FactsUnread".into()));
}

#[test]
fn an_alias_reports_only_the_faults_that_its_controller_repairs() {
    let alias = |repair: &str| {
        let text = format!(
            "kubernetes:\n  aliases:\n  - {{type: a/Broken, meaning: problem, repair: [{repair}]}}\n"
        );
        let config = rdma_health_config::parse(&text).unwrap();
        Aggregate {
            aliases: config.kubernetes.aliases,
            ..aggregate()
        }
    };
    let says = |view: &View, repair: &str| {
        let all = conditions(view, &context(view), &alias(repair));
        let last = all.last().unwrap();
        assert_eq!(last.kind.to_string(), "a/Broken");
        (last.status, last.reason.clone())
    };
    let mut view = healthy();
    assert_eq!(says(&view, "reboot"), (Status::False, "PortsReady".into()));
    let found = judge(&view.node, &Expectations::default()).findings.remove(0);
    let mut find = |rule: &str| {
        let mut finding = found.clone();
        finding.rule = rdma_health_rules::rule(rule).unwrap();
        finding.severity = Severity::Critical;
        Arc::make_mut(&mut view.verdict).findings.push(finding);
        view.clone()
    };
    // Neither repairs the configuration or a cable.
    let view = find("iommu-group-translated");
    assert_eq!(
        says(&view, "reboot, replace"),
        (Status::False, "OtherRepair".into())
    );
    let view = find("adapter-failed");
    assert_eq!(says(&view, "replace"), (Status::False, "OtherRepair".into()));
    assert_eq!(
        says(&view, "reboot, replace"),
        (Status::True, "AdapterFailed".into())
    );
}
