//! What could not be read.

use rdma_health_node::{
    Node,
    fact::{Errno, HelperTrouble, Unread, UnreadKind},
    node::VerbsDevice,
    words::count,
};

use crate::{
    Domain, Expectations, FindingCase, Policy, Remedy, Rule, Severities, Severity, Subject, Writer,
    draft::Draft, policy::Exception, required,
};

/// The number of failures shown as evidence.
const SHOWN: usize = 7;

/// `facts-unreadable`.
pub static FACTS_UNREADABLE: Rule = Rule {
    id: "facts-unreadable",
    domain: Domain::Reading,
    policy: Policy::of(Severities::always(Severity::Info)).except(&[&WHOLE_SOURCES]),
    title: "Some facts could not be read",
    explanation: "A fact that could not be read is missing from the verdict: that no finding mentions it means \
        nothing. Single files fail often, because many drivers do not support every counter.",
    remedy: Remedy::all(
        "Check file and reason in the evidence. EACCES or EPERM: run as root on the node, or in the verbs container \
         of the pod; with helper.deviceAccess=resource it may not read these. EOPNOTSUPP or EPROTONOSUPPORT: the kernel is too old or \
         has no such protocol; root changes nothing. missing or not_collected: a container does not see it (hostNetwork, hostPID, a mount of /sys, or \
         the verbs container show it), or the saved tree does not have the file. ENODEV: the driver has lost the device, or it went away meanwhile. \
         malformed or too_long: a driver answers what rdma-health does not understand. hung: the driver or device does not \
         answer; read the kernel log. helper: libibverbs could not open the device; its provider (rdma-core) may be \
         missing, or /dev/infiniband not accessible.",
    ),
    false_alarms: "Files that the kernel does not offer are absent, not unreadable, and are not counted. A verbs \
        helper that does not answer is reported by helper-unhealthy.",
    inputs: &[Writer::Hardware, Writer::HostRoot],
    judge: facts_unreadable,
};

/// Why a fact could not be read, as far as different things help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    NotVisible,
    NotInTree,
    NoAccess,
    NoAnswer,
    NoDevice,
    NotOpened,
    NotUnderstood,
    OldKernel,
    Failed,
}

impl Reason {
    fn of(node: &Node, unread: &Unread) -> Self {
        match &unread.kind {
            _ if is_of_kernel(unread) => Self::OldKernel,
            UnreadKind::Missing | UnreadKind::NotCollected if node.live => Self::NotVisible,
            UnreadKind::Missing | UnreadKind::NotCollected => Self::NotInTree,
            UnreadKind::Errno(Errno::ACCESS | Errno::PERM) => Self::NoAccess,
            UnreadKind::Errno(Errno::NODEV) => Self::NoDevice,
            UnreadKind::Hung => Self::NoAnswer,
            UnreadKind::VerbsCall => Self::NotOpened,
            UnreadKind::Malformed | UnreadKind::TooLong | UnreadKind::NotAFile => Self::NotUnderstood,
            UnreadKind::Errno(_)
            | UnreadKind::Panic
            | UnreadKind::Refused
            | UnreadKind::Helper(_)
            | UnreadKind::Other(_) => Self::Failed,
        }
    }

    /// What to do.
    fn remedy(self) -> &'static str {
        match self {
            Self::NotVisible => {
                "missing, not_collected: this process does not see what the node has, as in a container. Devices and links: hostNetwork: true, or the network \
                 namespace of the devices. Files below /sys: mount /sys of the node. Processes: hostPID: true. Kernel log and configuration spaces: \
                 root on the node, or the verbs container, which reads them for the agent."
            }
            Self::NotInTree => {
                "Check that --root names the directory that holds the proc and sys directories of the node: / on the node itself, or /host in a container. \
                 Copying such a directory loses files: on the node, save everything with rdma-health snapshot --out node.tar.zst, and check that file \
                 with rdma-health check --snapshot node.tar.zst."
            }
            Self::NoAccess => {
                "EACCES, EPERM: this user may not read them: run as root on the node, or in the verbs container of the pod; with \
                 helper.deviceAccess=resource it may not read these. For a saved tree, make its files readable for this user."
            }
            Self::NoAnswer => {
                "hung: the driver or device does not answer. Read the kernel log (journalctl -k, or dmesg) for messages about it; a restart of the node ends a \
                 read that hangs."
            }
            Self::NoDevice => {
                "ENODEV: the driver has lost the device, or it went away meanwhile (a reset, a network device that moved to a pod). If it stays, read the \
                 kernel log (journalctl -k, or dmesg) for messages about the device, and check that lspci still lists it."
            }
            Self::NotOpened => {
                "helper: libibverbs could not open the device: its provider (rdma-core) may be missing, or /dev/infiniband not accessible."
            }
            Self::NotUnderstood => {
                "malformed, too_long: the evidence has the source and what is wrong with its content. If a driver answers it, install a later version of the \
                 driver. If it is correct, save the node with rdma-health snapshot --out node.tar.zst and report it to rdma-health."
            }
            Self::OldKernel => {
                "EOPNOTSUPP, EPROTONOSUPPORT: the kernel does not have this family, command or protocol; more privilege changes nothing. The evidence names it. \
                 Install a later kernel of the distribution, or load the module that provides it (devlink comes with the driver of the adapter, the \
                 RDMA netlink with ib_core). The rest of the verdict does not need these facts."
            }
            Self::Failed => {
                "Other errors come from the driver or the firmware: read the kernel log (journalctl -k, or dmesg) for messages about the device. EINVAL mostly \
                 means that it does not support the question."
            }
        }
    }
}

/// What to do, for each reason in the order of the failures.
fn remedy(node: &Node, failures: &[(&Unread, bool)]) -> String {
    let mut reasons: Vec<Reason> = Vec::new();
    for (unread, _) in failures {
        let reason = Reason::of(node, unread);
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    let all: Vec<_> = reasons.into_iter().map(Reason::remedy).collect();
    all.join(" ")
}

/// Whether a failure means that the kernel does not have the family, the command or the protocol.
fn is_of_kernel(unread: &Unread) -> bool {
    const UNKNOWN: [Errno; 4] = [
        Errno::OPNOTSUPP,
        Errno::PROTONOSUPPORT,
        Errno::AFNOSUPPORT,
        Errno::NOSYS,
    ];
    matches!(unread.kind, UnreadKind::Errno(errno) if UNKNOWN.contains(&errno))
}

static WHOLE_SOURCES: Exception = Exception {
    condition: "if a central source is missing or stale (the devices, drivers or modules, the state of a port, a read that hangs, a device that cannot be \
        opened), or the mode of an IOMMU group, all GIDs of an active port or the memlock limit of a container runtime, because problems may hide \
        behind it",
    severities: Severities::always(Severity::Warning),
};

fn facts_unreadable(node: &Node, _: &Expectations) -> Vec<Draft> {
    let mut failures: Vec<(&Unread, bool)> = Vec::new();
    for status in node.sources.values() {
        failures.extend(
            status
                .unread
                .iter()
                .map(|unread| (unread, is_whole_source(unread))),
        );
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
                kind: UnreadKind::VerbsCall,
                detail: std::io::Error::from_raw_os_error(error.errno).to_string(),
            }),
        })
        .collect();
    failures.extend(devices.iter().map(|unread| (unread, true)));
    if failures.is_empty() {
        return Vec::new();
    }
    let whole_sources = failures
        .iter()
        .filter(|(_, is_whole_source)| *is_whole_source)
        .count();
    // Those that decide the severity first, then in order of source.
    let required: Vec<String> = Domain::ALL
        .into_iter()
        .filter_map(|domain| required::unread_of(node, domain))
        .collect();
    let is_required = |unread: &Unread| required.iter().any(|why| why.contains(&unread.source));
    failures.sort_by_key(|(unread, is_whole_source)| {
        (
            !(*is_whole_source || is_required(unread)),
            is_of_kernel(unread),
            &unread.source,
        )
    });
    let count = failures.len();
    let message = match (count, failures.first()) {
        (1, Some((only, _))) => format!("could not read {}", only.source),
        (_, Some((first, _))) => format!("could not read {count} facts, for example {}", first.source),
        (_, None) => return Vec::new(),
    };
    let mut finding = Draft::new(&FACTS_UNREADABLE, Subject::node(), message)
        .exception((whole_sources > 0 || !required.is_empty()).then_some(&WHOLE_SOURCES))
        .written_remedy(remedy(node, &failures));
    for (unread, _) in failures.iter().take(SHOWN) {
        finding = finding.evidence(&unread.source, format!("{} ({})", unread.detail, unread.kind));
    }
    if count > SHOWN {
        finding = finding.evidence("and more", count - SHOWN);
    }
    vec![finding]
}

/// `helper-unhealthy`.
pub static HELPER_UNHEALTHY: Rule = Rule {
    id: "helper-unhealthy",
    domain: Domain::Reading,
    policy: Policy::of(Severities::always(Severity::Warning)).except(&[&NOT_NEEDED]),
    title: "The verbs helper does not answer",
    explanation: "rdma-health-verbs is the process that calls libibverbs. It could not be started or reached, \
        exited, is stopped, or was killed because it did not answer in time: libibverbs is not installed, or libibverbs, a \
        provider or the firmware behind it hangs or crashes. Until it answers again, path MTUs are unknown and no \
        port is probed. All other facts are read without it, except those that only a privileged process may read. A helper that \
        answers about devices is reported too if its answers to such questions cannot be used or do not come: then these facts are unknown.",
    remedy: Remedy {
        any: "If it did not start, install rdma-core (libibverbs and its providers). If it hung or exited, read the \
            messages of the driver (mlx5_cmd, health) with journalctl -k, and run ibv_devinfo: if that hangs too, \
            the fault is not in rdma-health.",
        openshift: "Read the log of the helper: oc -n rdma-health logs POD -c verbs; with --previous if it exited.",
        kubernetes: "Read the log of the helper: kubectl -n rdma-health logs POD -c verbs; with --previous if it \
            exited.",
        host: "Install rdma-health-verbs next to rdma-health or in PATH, or set helper.program or helper.socket.",
    },
    false_alarms: "Silent if the helper is not used. A fact that the helper may not read either is reported by facts-unreadable.",
    inputs: &[Writer::Hardware, Writer::HostRoot, Writer::Agent],
    judge: helper_unhealthy,
};

static NOT_NEEDED: Exception = Exception {
    condition: "on a node without an RDMA device, which does not need the helper",
    severities: Severities::always(Severity::Info),
};

fn helper_unhealthy(node: &Node, _: &Expectations) -> Vec<Draft> {
    let needed = node.hcas.unread().is_some() || node.hcas().next().is_some();
    let Some(unread) = node.verbs.unread() else {
        return unanswered(node, needed);
    };
    let message = format!("the verbs helper does not answer: {}", unread.detail);
    let finding = Draft::new(&HELPER_UNHEALTHY, Subject::node(), message)
        .exception((!needed).then_some(&NOT_NEEDED))
        .case(case(node, unread));
    vec![finding.evidence(&unread.source, &unread.detail)]
}

/// A helper that answers about devices, and fails at other questions.
fn unanswered(node: &Node, needed: bool) -> Vec<Draft> {
    // One that cannot be reached for a moment is asked again. What it may not read is not its fault.
    let is_fault = |unread: &&Unread| {
        matches!(
            unread.kind,
            UnreadKind::Helper(HelperTrouble::Malformed | HelperTrouble::Hung | HelperTrouble::Ended)
        )
    };
    let all = node.sources.values().flat_map(|status| &status.unread);
    let failed: Vec<&Unread> = all.filter(is_fault).collect();
    let Some(first) = failed.first() else {
        return Vec::new();
    };
    let message = format!(
        "the verbs helper fails at {}, for example {}: {}",
        count(failed.len(), "question"),
        first.source,
        first.detail
    );
    let finding = Draft::new(&HELPER_UNHEALTHY, Subject::node(), message)
        .exception((!needed).then_some(&NOT_NEEDED))
        .case(case(node, first));
    let shown = failed.iter().take(SHOWN);
    vec![shown.fold(finding, |finding, unread| {
        finding.evidence(&unread.source, format!("{} ({})", unread.detail, unread.kind))
    })]
}

/// Why the helper does not answer.
fn case(node: &Node, unread: &Unread) -> FindingCase {
    let UnreadKind::Helper(trouble) = &unread.kind else {
        return FindingCase::HelperFailed;
    };
    match trouble {
        HelperTrouble::Unreachable => FindingCase::HelperUnreachable,
        HelperTrouble::NotLoaded => FindingCase::LibraryNotLoaded,
        HelperTrouble::Hung => FindingCase::HelperHung,
        HelperTrouble::Refused if node.modules.user_verbs.known() == Some(&false) => {
            FindingCase::KernelPartMissing
        }
        HelperTrouble::Silent
        | HelperTrouble::Version
        | HelperTrouble::Ended
        | HelperTrouble::Malformed
        | HelperTrouble::Refused => FindingCase::HelperFailed,
    }
}

/// Whether more than the value of one file is missing.
fn is_whole_source(unread: &Unread) -> bool {
    const CENTRAL: [&str; 10] = [
        "/proc/cmdline",
        "/proc/modules",
        "/proc/sys/kernel/osrelease",
        "/sys",
        "/sys/bus/pci/devices",
        "/sys/class/infiniband",
        "/sys/class/infiniband_verbs",
        "/sys/class/net",
        "/sys/kernel/iommu_groups",
        "/sys/module",
    ];
    // A port cannot be judged without its state.
    let is_state = unread.source.starts_with("/sys/class/infiniband/")
        && unread.source.contains("/ports/")
        && unread.source.ends_with("/state");
    // Which pod uses a device explains a problem, and hides none.
    let is_optional = unread.source.starts_with("kubelet ");
    let is_stuck = matches!(
        unread.kind,
        UnreadKind::Hung | UnreadKind::Panic | UnreadKind::VerbsCall
    );
    (is_stuck && !is_optional) || CENTRAL.contains(&unread.source.as_str()) || is_state
}
