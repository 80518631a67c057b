//! Explains events: pods that were refused, and pods whose network could not be set up.

use rdma_health_rules::Severity;
use serde_json::Value;

use super::{controller, messages, pending::still_waits, scc, security};
use crate::{
    cluster::{Cluster, Listed},
    pod,
    report::{Finding, Report},
    workload::Workload,
};

pub(super) fn check(cluster: &Cluster, workloads: &[Workload], report: &mut Report) {
    if let Listed::NotRead(why) = &cluster.events {
        return report.not_checked("events of the namespace", why);
    }
    for event in cluster.events.items() {
        let object = &event["involvedObject"];
        let message = event["message"].as_str().unwrap_or_default();
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        let Some(workload) = controller(workloads, text("kind"), text("name")) else {
            continue;
        };
        if !workload.uses_rdma(cluster) || !still_waits(workload) {
            continue;
        }
        let subject = format!("{} {}/{}", text("kind"), cluster.namespace, text("name"));
        let said = vec![in_words(event)];
        let finding = |rule, summary: String, remedy: String| Finding {
            rule,
            severity: Severity::Critical,
            subject: subject.clone(),
            summary,
            evidence: said.clone(),
            remedy,
        };
        let found = if message.contains("unable to validate against any security context constraint") {
            Some(refused_by_scc(cluster, workload, message, &finding))
        } else {
            messages::explained(message).map(|known| {
                let remedy = known.remedy.replace("NAMESPACE", &cluster.namespace);
                let found = finding(known.rule, known.summary.into(), remedy);
                match settled(cluster, workload, known.rule) {
                    Some(now) => earlier(found, &now),
                    None => found,
                }
            })
        };
        let Some(found) = found else { continue };
        // The same problem of the controller above it is known, too.
        let known = |one: &Finding| {
            one.rule == found.rule && (one.subject == found.subject || one.subject == workload.subject())
        };
        if report.findings.iter().any(known) {
            continue;
        }
        // The event shows what the specification already showed.
        let cause = |one: &&mut Finding| {
            same_cause(found.rule).contains(&one.rule) && one.subject == workload.subject()
        };
        match report.findings.iter_mut().find(cause) {
            Some(one) if one.severity == found.severity => {
                let new = found.evidence.into_iter();
                let new: Vec<_> = new.filter(|line| !one.evidence.contains(line)).collect();
                one.evidence.extend(new);
            }
            _ => report.add(found),
        }
    }
}

/// The findings in a specification that explain a refusal.
fn same_cause(rule: &str) -> &'static [&'static str] {
    match rule {
        "refused-by-pod-security" => &["pod-security"],
        "refused-by-scc" => &["scc-missing"],
        "refused-by-quota" => &["quota-exceeded", "quota-needs-value"],
        _ => &[],
    }
}

/// Why the reason of an event has been removed since; `None` if it may still be there.
fn settled(cluster: &Cluster, workload: &Workload, rule: &str) -> Option<String> {
    match rule {
        "service-account-missing" => {
            cluster.service_accounts.named(workload.account())?;
            Some(format!("service account {} exists now", workload.account()))
        }
        "refused-by-pod-security" if security::level(cluster) == Some("privileged") => {
            Some("the namespace enforces PodSecurity privileged now".into())
        }
        "attachment-missing" => {
            let networks = workload.networks().ok().filter(|networks| !networks.is_empty())?;
            let exists = |network: &pod::Network| {
                let listed = cluster.attachments.get(&network.namespace);
                listed.is_some_and(|listed| listed.named(&network.name).is_some())
            };
            networks
                .iter()
                .all(exists)
                .then(|| "all of them exist now".into())
        }
        _ => None,
    }
}

/// A finding from an event whose reason is no longer there.
fn earlier(found: Finding, now: &str) -> Finding {
    Finding {
        severity: Severity::Warning,
        summary: format!("{}; but {now}", found.summary),
        remedy: "if the event is older than the change, wait: the controller tries again by itself, after at most 17 minutes. If it \
                 comes again, something else that the pod asks for is refused: read the whole message with kubectl describe"
            .into(),
        ..found
    }
}

fn refused_by_scc(
    cluster: &Cluster,
    workload: &Workload,
    message: &str,
    finding: &impl Fn(&'static str, String, String) -> Finding,
) -> Finding {
    let mut capabilities: Vec<&str> = message
        .split("Invalid value: \"")
        .skip(1)
        .filter_map(|part| {
            part.split_once('"')
                .filter(|(_, rest)| rest.starts_with(": capability may not be added"))
        })
        .map(|(name, _)| name)
        .collect();
    capabilities.sort_unstable();
    capabilities.dedup();
    let what = if capabilities.is_empty() {
        "what the pod asks for".to_owned()
    } else {
        format!("the capability {}", capabilities.join(", "))
    };
    let account = workload.account();
    let usable = scc::usable(cluster, workload).unwrap_or_default();
    if let Some(name) = usable.first().and_then(|scc| scc["metadata"]["name"].as_str()) {
        let found = finding(
            "refused-by-scc",
            format!("OpenShift refused the pod because of {what}"),
            String::new(),
        );
        return earlier(
            found,
            &format!("service account {account} may use the SCC {name} now, which allows it"),
        );
    }
    finding(
        "refused-by-scc",
        format!("OpenShift refuses the pod: no SCC that service account {account} may use allows {what}"),
        scc::grant(cluster, workload),
    )
}

/// `event FailedCreate (5 times, last 2026-11-22T10:40:00Z): create Pod …`.
fn in_words(event: &Value) -> String {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let series = &event["series"];
    let number = event["count"].as_u64().or_else(|| series["count"].as_u64());
    let times = number
        .filter(|number| *number > 1)
        .map(|number| format!("{number} times"));
    let last = text(&event["lastTimestamp"])
        .or_else(|| text(&series["lastObservedTime"]))
        .or_else(|| text(&event["eventTime"]));
    let last = last.map(|last| format!("last {}", shorten(&last, 40)));
    let when: Vec<_> = times.into_iter().chain(last).collect();
    let when = if when.is_empty() {
        String::new()
    } else {
        format!(" ({})", when.join(", "))
    };
    let reason = event["reason"].as_str().unwrap_or_default();
    let message = event["message"].as_str().unwrap_or_default();
    format!("event {reason}{when}: {}", shorten(message, 600))
}

/// The beginning of a text. The message about SCCs lists every SCC of the cluster.
pub(super) fn shorten(message: &str, most: usize) -> String {
    let mut text: String = message.chars().take(most).collect();
    if text.len() < message.len() {
        text.push('…');
    }
    text
}
