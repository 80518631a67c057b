//! What could not be read.

use rdma_health_node::{Node, fact::Unread, node::VerbsDevice};

use crate::{Domain, Expectations, Finding, Remedy, Rule, Severity, Subject};

/// The most failures that are shown as evidence.
const SHOWN: usize = 8;

/// `facts-unreadable`.
pub(crate) static FACTS_UNREADABLE: Rule = Rule {
    id: "facts-unreadable",
    domain: Domain::Reading,
    severity: Severity::Info,
    title: "Some facts could not be read",
    explanation: "Each fact that could not be read is missing from the verdict: no finding about it means nothing. A warning \
        where whole sources are missing or stale (a kernel that does not answer, a device that cannot be opened) because \
        problems may hide behind them; for information where single files failed, as many drivers do not offer every counter.",
    remedy: Remedy::all(
        "Look at the evidence for file and reason. EACCES or EPERM: run as root on the node, or in the pod's \
        `verbs` container; an agent with `agent.privilege: none` may not read these. hung: the driver or device \
        does not answer; look at the kernel's log. helper: libibverbs could not open the device; its provider (rdma-core) may \
        be missing, or /dev/infiniband closed.",
    ),
    false_alarms: "Files that the kernel does not offer at all are absent, not unread, and are not counted. A verbs helper that \
        does not answer is helper-unhealthy.",
    judge: facts_unreadable,
};

fn facts_unreadable(node: &Node, _: &Expectations) -> Vec<Finding> {
    let mut failures: Vec<(&Unread, bool)> = Vec::new();
    for status in node.sources.values() {
        failures.extend(status.unread.iter().map(|unread| (unread, is_grave(unread))));
    }
    let devices: Vec<_> = node
        .verbs
        .known()
        .into_iter()
        .flat_map(|devices| devices.iter())
        .filter_map(|(name, device)| match device {
            VerbsDevice::Device(_) => None,
            VerbsDevice::Error(error) => Some(Unread {
                source: format!("{} of {name}", error.call),
                kind: "helper".into(),
                detail: std::io::Error::from_raw_os_error(error.errno).to_string(),
            }),
        })
        .collect();
    failures.extend(devices.iter().map(|unread| (unread, true)));
    if failures.is_empty() {
        return Vec::new();
    }
    let grave = failures.iter().filter(|(_, grave)| *grave).count();
    // The grave ones first, each group in order of source.
    failures.sort_by_key(|(unread, grave)| (!grave, &unread.source));
    let count = failures.len();
    let message = match (count, failures.first()) {
        (1, Some((only, _))) => format!("could not be read: {}", only.source),
        (_, Some((first, _))) => format!("{count} facts could not be read, among them {}", first.source),
        (_, None) => return Vec::new(),
    };
    let mut finding = Finding::new(&FACTS_UNREADABLE, Subject::node(), message).severity(if grave > 0 {
        Severity::Warning
    } else {
        Severity::Info
    });
    for (unread, _) in failures.iter().take(SHOWN) {
        finding = finding.evidence(&unread.source, format!("{} ({})", unread.detail, unread.kind));
    }
    if count > SHOWN {
        finding = finding.evidence("and more", count - SHOWN);
    }
    vec![finding]
}

/// `helper-unhealthy`.
pub(crate) static HELPER_UNHEALTHY: Rule = Rule {
    id: "helper-unhealthy",
    domain: Domain::Reading,
    severity: Severity::Warning,
    title: "The verbs helper does not answer",
    explanation: "rdma-health-verbs is the process that talks to libibverbs. It could not be started or reached, ended, or did \
        not answer in time and was killed: libibverbs is not installed, or it, a provider or the firmware behind it hangs or \
        crashes. Nothing is known of path MTUs, and no port is probed, until it answers again; every other fact is read without it.",
    remedy: Remedy {
        any: "Not started: install rdma-core (libibverbs and its providers). Hung or ended: look at the kernel's log for the \
            driver's words (mlx5_cmd, health), and try ibv_devinfo by hand: what hangs there hangs here.",
        openshift: "Look at the container of the helper in the agent's pod: oc -n rdma-health logs POD -c verbs, and \
            --previous for one that ended.",
        kubernetes: "kubectl -n rdma-health logs POD -c verbs, and --previous for one that ended.",
        host: "rdma-health-verbs must lie beside rdma-health or in PATH (helper.program, helper.socket).",
    },
    false_alarms: "For information where no RDMA device is there: nobody needs it then. Silent where it was not asked.",
    judge: helper_unhealthy,
};

fn helper_unhealthy(node: &Node, _: &Expectations) -> Vec<Finding> {
    let Some(unread) = node.verbs.unread() else {
        return Vec::new();
    };
    let needed = node.hcas.unread().is_some() || node.hcas().next().is_some();
    let severity = if needed { Severity::Warning } else { Severity::Info };
    let message = format!("the verbs helper does not answer: {}", unread.detail);
    let finding = Finding::new(&HELPER_UNHEALTHY, Subject::node(), message).severity(severity);
    vec![finding.evidence(&unread.source, &unread.detail)]
}

/// Whether a failure hides more than one file's value.
fn is_grave(unread: &Unread) -> bool {
    const CENTRAL: [&str; 5] = [
        "/proc/cmdline",
        "/proc/modules",
        "/proc/sys/kernel/osrelease",
        "/sys/class/infiniband",
        "/sys/kernel/iommu_groups",
    ];
    // Without its state nothing can be said of a port.
    let is_state = unread.source.starts_with("/sys/class/infiniband/")
        && unread.source.contains("/ports/")
        && unread.source.ends_with("/state");
    matches!(unread.kind.as_str(), "hung" | "panic" | "helper")
        || CENTRAL.contains(&unread.source.as_str())
        || is_state
}
