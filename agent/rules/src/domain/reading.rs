//! What could not be read.

use rdma_health_node::{
    Node,
    fact::{Errno, HelperTrouble, Unread, UnreadKind},
    node::VerbsDevice,
};

use crate::{
    Domain, Expectations, FindingCase, Policy, Remedy, Rule, Severities, Severity, Subject, Writer,
    draft::Draft, policy::Exception, required,
};

/// The number of failures shown as evidence.
const SHOWN: usize = 8;

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
         has no such protocol; root changes nothing. missing or not_collected: the kernel or the saved tree does not have the file. \
         malformed or too_long: a driver answers what rdma-health does not understand. hung: the driver or device does not \
         answer; read the kernel log. helper: libibverbs could not open the device; its provider (rdma-core) may be \
         missing, or /dev/infiniband not accessible.",
    ),
    false_alarms: "Files that the kernel does not offer are absent, not unreadable, and are not counted. A verbs \
        helper that does not answer is reported by helper-unhealthy.",
    inputs: &[Writer::Hardware, Writer::HostRoot],
    judge: facts_unreadable,
};

/// What to do if the kernel has no such question: more privilege changes nothing.
const OLD_KERNEL: Remedy = Remedy::all(
    "The kernel does not have this family, command or protocol; more privilege changes nothing. The evidence names it. \
     Install a later kernel of the distribution, or load the module that provides it (devlink comes with the driver of the \
     adapter, the RDMA netlink with ib_core). The rest of the verdict does not need these facts.",
);

/// What to do if the files of a saved node are missing.
const NOT_IN_TREE: Remedy = Remedy::all(
    "Check that --root names the directory that holds the proc and sys directories of the node: / on the node itself, or /host in a \
     container. Copying such a directory loses files: on the node, save everything with rdma-health snapshot --out node.tar.zst, and \
     check that file with rdma-health check --snapshot node.tar.zst.",
);

/// What to do if this process may not read the files.
const NO_ACCESS: Remedy = Remedy::all(
    "This user may not read them: run as root on the node, or in the verbs container of the pod; with helper.deviceAccess=resource it may not \
     read these. For a saved tree, make its files readable for this user.",
);

/// What to do if a driver or device does not answer.
const NO_ANSWER: Remedy = Remedy::all(
    "The driver or device does not answer. Read the kernel log (journalctl -k, or dmesg) for messages about it; a restart of the node \
     ends a read that hangs.",
);

/// What to do if an answer is not understood.
const NOT_UNDERSTOOD: Remedy = Remedy::all(
    "The evidence has the source and what is wrong with its content. If a driver answers it, install a later version of the driver. If \
     it is correct, save the node with rdma-health snapshot --out node.tar.zst and report it to rdma-health.",
);

/// What to do if all failures have the same reason.
fn remedy(node: &Node, failures: &[(&Unread, bool)]) -> Option<Remedy> {
    let all = |is_meant: fn(&Unread) -> bool| failures.iter().all(|(unread, _)| is_meant(unread));
    let is_not_in_tree =
        |unread: &Unread| matches!(unread.kind, UnreadKind::Missing | UnreadKind::NotCollected);
    let is_refused = |unread: &Unread| matches!(unread.kind, UnreadKind::Errno(Errno::ACCESS | Errno::PERM));
    let is_not_understood = |unread: &Unread| {
        matches!(
            unread.kind,
            UnreadKind::Malformed | UnreadKind::TooLong | UnreadKind::NotAFile
        )
    };
    Some(if all(is_of_kernel) {
        OLD_KERNEL
    } else if !node.live && all(is_not_in_tree) {
        NOT_IN_TREE
    } else if all(is_refused) {
        NO_ACCESS
    } else if all(|unread| unread.kind == UnreadKind::Hung) {
        NO_ANSWER
    } else if all(is_not_understood) {
        NOT_UNDERSTOOD
    } else {
        return None;
    })
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
    condition: "if a whole source is missing or stale (a kernel that does not answer, a device that cannot be opened), or the \
        mode of an IOMMU group, all GIDs of an active port or the memlock limit of a container runtime, because problems may hide \
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
    // Whole sources first, then in order of source.
    failures.sort_by_key(|(unread, is_whole_source)| (!is_whole_source, &unread.source));
    let count = failures.len();
    let message = match (count, failures.first()) {
        (1, Some((only, _))) => format!("could not read {}", only.source),
        (_, Some((first, _))) => format!("could not read {count} facts, for example {}", first.source),
        (_, None) => return Vec::new(),
    };
    let mut finding = Draft::new(&FACTS_UNREADABLE, Subject::node(), message)
        .exception((whole_sources > 0 || required::unread(node).is_some()).then_some(&WHOLE_SOURCES));
    if let Some(remedy) = remedy(node, &failures) {
        finding = finding.remedy(remedy);
    }
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
        exited, or was killed because it did not answer in time: libibverbs is not installed, or libibverbs, a \
        provider or the firmware behind it hangs or crashes. Until it answers again, path MTUs are unknown and no \
        port is probed. All other facts are read without it.",
    remedy: Remedy {
        any: "If it did not start, install rdma-core (libibverbs and its providers). If it hung or exited, read the \
            messages of the driver (mlx5_cmd, health) with journalctl -k, and run ibv_devinfo: if that hangs too, \
            the fault is not in rdma-health.",
        openshift: "Read the log of the helper: oc -n rdma-health logs POD -c verbs; with --previous if it exited.",
        kubernetes: "Read the log of the helper: kubectl -n rdma-health logs POD -c verbs; with --previous if it \
            exited.",
        host: "Install rdma-health-verbs next to rdma-health or in PATH, or set helper.program or helper.socket.",
    },
    false_alarms: "Silent if the helper is not used.",
    inputs: &[Writer::Hardware, Writer::HostRoot, Writer::Agent],
    judge: helper_unhealthy,
};

static NOT_NEEDED: Exception = Exception {
    condition: "on a node without an RDMA device, which does not need the helper",
    severities: Severities::always(Severity::Info),
};

fn helper_unhealthy(node: &Node, _: &Expectations) -> Vec<Draft> {
    let Some(unread) = node.verbs.unread() else {
        return Vec::new();
    };
    let needed = node.hcas.unread().is_some() || node.hcas().next().is_some();
    let message = format!("the verbs helper does not answer: {}", unread.detail);
    let finding = Draft::new(&HELPER_UNHEALTHY, Subject::node(), message)
        .exception((!needed).then_some(&NOT_NEEDED))
        .case(case(node, unread));
    vec![finding.evidence(&unread.source, &unread.detail)]
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
        HelperTrouble::Version | HelperTrouble::Ended | HelperTrouble::Malformed | HelperTrouble::Refused => {
            FindingCase::HelperFailed
        }
    }
}

/// Whether more than the value of one file is missing.
fn is_whole_source(unread: &Unread) -> bool {
    const CENTRAL: [&str; 5] = [
        "/proc/cmdline",
        "/proc/modules",
        "/proc/sys/kernel/osrelease",
        "/sys/class/infiniband",
        "/sys/kernel/iommu_groups",
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
