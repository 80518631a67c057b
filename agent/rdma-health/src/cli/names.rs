//! Names that rdma-health publishes elsewhere: alerts, conditions and metrics.

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
    ("RDMAHealthAgentDown", "Prometheus cannot reach the agent."),
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
        "The certificate that the agent presents to Prometheus expires within seven days.",
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
        "RDMAHealthKubernetesRefused",
        "The API server refuses the agent: permission, token, or Node name.",
    ),
    (
        "RDMAHealthNoAgents",
        "Prometheus has no target whose job contains `rdma-health`.",
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
    ("RDMAProbeProblem", "A loopback RDMA WRITE fails, or is too slow."),
    (
        "RDMAReadingProblem",
        "Facts could not be read, so faults may be hidden.",
    ),
];

/// What has this name.
pub(super) fn published(name: &str) -> Option<Published> {
    alert(name).or_else(|| metric(name))
}

fn alert(name: &str) -> Option<Published> {
    let (name, title) = ALERTS.iter().find(|(alert, _)| *alert == name)?;
    Some(Published {
        kind: "alert",
        name: (*name).to_owned(),
        title: (*title).to_owned(),
        next_step: format!(
            "Run rdma-health check on the node: it lists the findings behind the alert or the condition of this name. The runbook is \
            docs/runbooks/{name}.md."
        ),
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

    #[cfg(feature = "agent")]
    #[test]
    fn metrics_are_found_by_family_and_by_series() {
        assert!(published("rdma_port_state_id").is_some());
        assert!(published("rdma_port_nonsense").is_none());
    }
}
