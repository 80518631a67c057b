//! Names that rdma-health publishes elsewhere: alerts, conditions with their reasons, and metrics.

use super::alerts;

/// One such name.
#[derive(Debug)]
pub(super) struct Published {
    /// What it is: `alert`, `metric`.
    pub(super) kind: &'static str,
    pub(super) name: String,
    /// Its meaning, in one sentence.
    pub(super) title: String,
    pub(super) next_step: String,
}

/// Each alert with the first sentence of its runbook in docs/runbooks. A condition has the name of its alert.
const ALERTS: &[(&str, &str)] = &[
    (
        "GPUDirectProblem",
        "The NICs cannot reach GPU memory, or only by an indirect path.",
    ),
    (
        "RDMADeviceProblem",
        "PCIe links, drivers, firmware or virtual functions are unsuitable for RDMA or differ from the expected state, or the kernel logged a fault of an adapter.",
    ),
    (
        "RDMAFleetProblem",
        "Many nodes have the same cause at once: at least ten, and more than one in a hundred.",
    ),
    (
        "RDMAHealthAgentDown",
        "The agent does not answer Prometheus, or answers without a verdict.",
    ),
    (
        "RDMAHealthAgentRestarts",
        "The agent is restarted, or stops answering, again and again: more than four times in an hour, and in the last 15 minutes.",
    ),
    (
        "RDMAHealthFleetProblem",
        "Many agents have the same fault at once: at least ten, and more than one in a hundred.",
    ),
    (
        "RDMAHealthAgentMissing",
        "A node was scraped within the last hour and is not a target of Prometheus any more.",
    ),
    (
        "RDMAHealthAgentsUnavailable",
        "The DaemonSet wants pods of the agent on more nodes than run one.",
    ),
    (
        "RDMAHealthCertificateExpires",
        "The certificate that the agent presents to Prometheus expires within seven days, or has used three quarters of its time.",
    ),
    (
        "RDMAHealthConditionContested",
        "Another controller writes a Node condition that the agent should write.",
    ),
    (
        "RDMAHealthConditionsNotWritten",
        "The API server accepts no writes from the agent; the Node's conditions are out of date.",
    ),
    (
        "RDMAHealthConfigRefused",
        "A changed configuration or web configuration is invalid; the old one stays active.",
    ),
    ("RDMAHealthFactsStale", "A read hangs in the kernel."),
    (
        "RDMAHealthHelperDown",
        "The helper that calls libibverbs does not answer.",
    ),
    (
        "RDMAHealthHelperRestarts",
        "The helper that calls libibverbs is restarted again and again.",
    ),
    (
        "RDMAHealthJobName",
        "Agents are scraped under a job whose name does not contain `rdma-health`.",
    ),
    (
        "RDMAHealthKubernetesRefused",
        "The API server refuses the agent: permission, token, or Node name.",
    ),
    (
        "RDMAHealthNoAgents",
        "Prometheus has no target whose job contains `rdma-health`, or no such target of a cluster, or none of them answers.",
    ),
    (
        "RDMAHealthProbesStopped",
        "Ports are active and probes are enabled, but no probe has been started for an hour.",
    ),
    (
        "RDMAHealthVerdictUnknown",
        "The agent found no problem and could not judge the node completely.",
    ),
    (
        "RDMAHealthVersionSkew",
        "Agents of different versions have been running for six hours.",
    ),
    ("RDMAIommuProblem", "The IOMMU prevents or slows RDMA on a node."),
    (
        "RDMALimitsProblem",
        "Pods inherit a memlock limit that is too low.",
    ),
    (
        "RDMALinkProblem",
        "A port that is in use, or expected to be up, has a problem.",
    ),
    (
        "RDMANetworkProblem",
        "GIDs, GUIDs or the host network settings for RoCE are wrong.",
    ),
    (
        "RDMAProblemRepeats",
        "A problem begins again and again, and ends each time before its own alert.",
    ),
    ("RDMAProbeProblem", "A loopback RDMA WRITE fails, or is too slow."),
    (
        "RDMAReadingProblem",
        "Facts could not be read, so faults may be hidden.",
    ),
];

/// The labels and the taint that the agent sets on its Node.
const OF_NODE: &[(&str, &str, &str)] = &[
    (
        "taint",
        "state.rdma-health.io/critical",
        "The agent taints its Node with the rule as the value while there is a critical finding, if kubernetes.taint is set.",
    ),
    (
        "label",
        "state.rdma-health.io/verdict",
        "The verdict on the Node: ok, warning, critical or unknown.",
    ),
    (
        "label",
        "state.rdma-health.io/iommu",
        "The IOMMU mode of the Node's RDMA devices and GPUs.",
    ),
    (
        "label",
        "state.rdma-health.io/peer-memory",
        "How the Node's NICs reach GPU memory.",
    ),
];

/// The condition that says whether RDMA can be used.
const READY: &str = "rdma-health.io/RDMAReady";

/// Each reason of a condition that is not the reason of a rule. `No…Problem` and `PortsReady` are those of a node without a problem.
const REASONS: &[(&str, &str)] = &[
    (
        "FactsStale",
        "The node was last read too long ago, or a read hangs in the kernel.",
    ),
    (
        "FactsUnread",
        "A fact that the condition depends on could not be read.",
    ),
    (
        "NoActivePort",
        "No port of the node is active, so there is nothing to probe.",
    ),
    ("NoDevices", "The node has no RDMA device."),
    (
        "NotExpected",
        "The profile of this node is tcp-only, so RDMA is not expected to work.",
    ),
    ("NotProbed", "An active port has not been probed yet."),
    (
        "OtherRepair",
        "The node has a fault, but none that a reboot or a replacement repairs, whichever the alias is for. The message names it.",
    ),
    ("PortMissing", "A port that is expected to work does not exist."),
    (
        "PortsBusy",
        "Other programs use the ports, so they were not probed: their traffic shows that they work.",
    ),
    (
        "PortsReady",
        "Every port that must work is ACTIVE, has a usable GID and passed its last probe.",
    ),
    (
        "ProbesDisabled",
        "There is an active port, and probes are disabled.",
    ),
    (
        "ProbesStale",
        "There is an active port, and its last probe is too old.",
    ),
];

/// What has this name.
pub(super) fn published(name: &str) -> Option<Published> {
    alert(name)
        .or_else(|| ready(name))
        .or_else(|| reason(name))
        .or_else(|| metric(name))
        .or_else(|| recorded(name))
        .or_else(|| of_node(name))
}

fn recorded(name: &str) -> Option<Published> {
    let expression = alerts::recorded(name)?;
    Some(Published {
        kind: "recorded series",
        name: name.to_owned(),
        title: format!("Prometheus computes it: {expression}"),
        next_step: "dashboards/rules.yaml has the recording rules; rdma-health explain also explains the metrics in the expression.".into(),
    })
}

fn of_node(name: &str) -> Option<Published> {
    let bare = name.split(['=', ':']).next().unwrap_or(name);
    let (kind, name, title) = OF_NODE.iter().find(|(_, known, _)| *known == bare)?;
    Some(Published {
        kind,
        name: (*name).to_owned(),
        title: (*title).to_owned(),
        next_step: "rdma-health check on the node has the findings. docs/conditions.md describes labels and the taint; the agent \
                    removes its taint when the findings are gone."
            .into(),
    })
}

fn ready(name: &str) -> Option<Published> {
    (name == READY || READY.strip_prefix("rdma-health.io/") == Some(name)).then(|| Published {
        kind: "condition",
        name: READY.to_owned(),
        title: "True: RDMA can be used on the node. False: it cannot, and the reason says why. Unknown: it cannot be judged.".into(),
        next_step: "kubectl describe node NODE shows the reason and the message. docs/conditions.md lists the reasons.".into(),
    })
}

fn reason(name: &str) -> Option<Published> {
    let of_list = || {
        REASONS
            .iter()
            .find(|(reason, _)| *reason == name)
            .map(|(_, title)| (*title).to_owned())
    };
    // NoLinkProblem is the reason why RDMALinkProblem is False.
    let of_condition = || {
        let condition = name.strip_prefix("No").filter(|rest| rest.ends_with("Problem"))?;
        let of = |alert: &&(&str, &str)| alert.0.strip_prefix("RDMA").unwrap_or(alert.0) == condition;
        let (alert, _) = ALERTS.iter().find(of)?;
        Some(format!(
            "The condition {alert} is False: the node was judged, and no such problem was found."
        ))
    };
    Some(Published {
        kind: "reason",
        name: name.to_owned(),
        title: of_list().or_else(of_condition)?,
        next_step: "The condition's message gives details. docs/conditions.md lists the reasons.".into(),
    })
}

fn alert(name: &str) -> Option<Published> {
    let (name, title) = ALERTS.iter().find(|(alert, _)| *alert == name)?;
    // The alerts about the agent and the fleet are not about findings of one node.
    let check = if name.ends_with("Problem") && !name.ends_with("FleetProblem") {
        "Run rdma-health check on the node: it lists the findings behind the alert or the condition of this name. "
    } else {
        ""
    };
    Some(Published {
        kind: "alert",
        name: (*name).to_owned(),
        title: (*title).to_owned(),
        next_step: format!("{check}The alert links to its runbook, docs/runbooks/{name}.md."),
    })
}

/// A metric by the name of its family, or of one of its series.
#[cfg(feature = "agent")]
fn metric(name: &str) -> Option<Published> {
    let family = ["_bucket", "_sum", "_count"]
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix))
        .unwrap_or(name);
    let groups = crate::agent::catalogue();
    let entry = groups
        .iter()
        .flat_map(|group| &group.entries)
        .find(|entry| entry.name == name || entry.name == family)?;
    Some(Published {
        kind: "metric",
        name: entry.name.to_owned(),
        title: entry.help().into_owned(),
        next_step: "rdma-health metrics lists all metrics with their labels and units.".into(),
    })
}

/// The command line without the agent exports no metrics.
#[cfg(not(feature = "agent"))]
fn metric(_: &str) -> Option<Published> {
    None
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, path::Path};

    use super::*;

    #[test]
    fn every_runbook_is_listed_with_its_first_sentence() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runbooks");
        let mut runbooks = BTreeMap::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            let first = text.lines().nth(2).unwrap_or_default().to_owned();
            runbooks.insert(name, first);
        }
        runbooks.remove("README");
        let listed: BTreeMap<_, _> = ALERTS
            .iter()
            .map(|(name, title)| ((*name).to_owned(), (*title).to_owned()))
            .collect();
        assert_eq!(listed, runbooks);
    }

    #[test]
    fn a_series_of_the_recording_rules_is_explained_by_its_expression() {
        let known = published("status:rdma_nodes:count").unwrap();
        assert_eq!(
            known.title,
            "Prometheus computes it: count by (cluster, namespace, job, status) (rdma_verdict == 1)"
        );
        let faults = published("node:rdma_agent_fault:value").unwrap().title;
        assert!(
            faults.contains("changes(node:rdma_agent_start:max[1h])"),
            "{faults}"
        );
        assert!(published("status:rdma_nodes:coun").is_none());
    }

    #[test]
    fn every_reason_of_a_condition_is_explained() {
        let page = include_str!("../../../../docs/conditions.md");
        let is_row = |line: &&str| {
            line.starts_with("| `True`")
                || line.starts_with("| `False`")
                || line.starts_with("| `Unknown`")
                || line.starts_with("| | `")
        };
        let mut found = 0;
        for line in page.lines().filter(is_row) {
            let reasons = line.split('|').nth(2).unwrap().split('`').skip(1).step_by(2);
            for reason in reasons.filter(|name| name.starts_with(|c: char| c.is_ascii_uppercase())) {
                let is_of_rule = rdma_health_rules::CATALOGUE
                    .iter()
                    .any(|rule| rule.reason() == reason);
                assert!(is_of_rule || published(reason).is_some(), "{reason}");
                found += 1;
            }
        }
        assert!(found > 15, "{found} reasons in docs/conditions.md");
        for name in [
            "RDMAReady",
            READY,
            "NoGPUDirectProblem",
            "state.rdma-health.io/critical",
            "state.rdma-health.io/critical=port-down:NoSchedule",
        ] {
            assert!(published(name).is_some(), "{name}");
        }
        assert!(published("NoSuchProblem").is_none());
    }

    #[cfg(feature = "agent")]
    #[test]
    fn metrics_are_found_by_family_and_by_series() {
        assert!(published("rdma_port_state_id").is_some());
        assert!(published("rdma_port_nonsense").is_none());
    }
}
