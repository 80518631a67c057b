//! Facts without which a domain cannot be judged: that no finding mentions them means nothing.

use rdma_health_node::{
    Function, Node, Port,
    fact::{Errno, Unread, UnreadKind},
    limits::{PROCESSES, Runtime},
    words::count_of,
};

use crate::{Domain, Finding, Rule, Subject, domain::limits};

/// Why the node cannot be judged completely, if a fact that some domain requires could not be read.
pub fn unread_facts(node: &Node) -> Option<String> {
    devices(node).or_else(|| unread(node))
}

/// Why a domain cannot be judged completely, if a fact that it requires could not be read.
pub fn unread_of(node: &Node, domain: Domain) -> Option<String> {
    match domain {
        Domain::Iommu => iommu_mode(node),
        Domain::Gids => gids(node),
        Domain::Limits => memlock(node),
        Domain::Link => port_state(node).or_else(|| hidden(node, "/sys/class/net")),
        Domain::Pci => hidden(node, "/sys/bus/pci/devices"),
        Domain::Modules => {
            hidden(node, "/sys/module").or_else(|| hidden(node, "/sys/class/infiniband_verbs"))
        }
        Domain::Kernel
        | Domain::Sriov
        | Domain::GpuDirect
        | Domain::Network
        | Domain::Probe
        | Domain::Reading => None,
    }
}

/// Rules of other domains than `kernel` that judge messages of the kernel.
const OF_KERNEL_LOG: &[&str] = &[
    "device-access-denied",
    "gpu-errors-logged",
    "gpu-failed",
    "iommu-faults",
    "kernel-module-refused",
];
/// Rules that judge what the configuration space of PCI functions holds.
const OF_CONFIGURATION_SPACE: &[&str] = &["acs-redirect", "pci-max-read-request", "pci-payload-mismatch"];
/// Rules that judge counters of ports.
const OF_COUNTERS: &[&str] = &[
    "bit-errors-high",
    "counter-errors",
    "efa-remote-impaired",
    "pause-storm",
    "port-flapping",
];
/// Rules that judge transceivers.
const OF_MODULES: &[&str] = &["module-hot", "module-light-low"];

/// The rule that judges the members of bonds.
const BOND: &str = "bond-degraded";

/// Why a rule that finds nothing may have missed something: a fact that its domain requires, or others that it judges, could not be
/// read, or the node has no RDMA device. What the kernel or a driver does not support hides nothing that it could show.
pub fn not_judged(node: &Node, rule: &Rule) -> Option<String> {
    if let Some(why) = devices(node).or_else(|| unread_of(node, rule.domain)) {
        return Some(why);
    }
    if is_of_kernel_log(rule) {
        if node.kernel_log.is_absent() {
            return Some("the kernel log is missing".to_owned());
        }
        if let Some(why) = kernel_log_unread(node) {
            return Some(why);
        }
    }
    if node.host.kernel.unread().is_some() {
        return Some("this is not the tree of a running node".to_owned());
    }
    let is_of_ports = matches!(rule.domain, Domain::Link | Domain::Gids | Domain::Sriov);
    if is_of_ports && node.hcas().next().is_none() {
        return Some("nothing to judge: the node has no RDMA device".to_owned());
    }
    let missed: Vec<&Unread> = node
        .unread()
        .filter(|(source, unread)| is_judged_by(source, unread, rule))
        .map(|(_, unread)| unread)
        .collect();
    let first = missed.first()?;
    Some(match missed.len() {
        1 => format!("could not be read: {first}"),
        some => format!(
            "{} could not be read, for example {first}",
            count_of(some as u64, "fact")
        ),
    })
}

/// Whether the first reading of a new agent shows that a finding of the agent before is over, if it does not have it: the agent itself reads all that
/// the rule judges, and the device of the finding is there. Other rules wait for the helper, for probes, or for a second reading.
pub fn is_judged_at_once(node: &Node, rule: &Rule, subject: &str) -> bool {
    let by_itself = match rule.domain {
        Domain::Kernel | Domain::Link | Domain::Iommu | Domain::Pci | Domain::Sriov => true,
        _ => is_of_kernel_log(rule),
    };
    let by_helper = [OF_CONFIGURATION_SPACE, OF_COUNTERS, OF_MODULES]
        .iter()
        .any(|rules| rules.contains(&rule.id));
    let is_there = || match Subject::named(subject).device {
        Some(device) => {
            let is_hca = node.hcas().any(|hca| *hca.name == *device);
            is_hca || node.pci.has(&device) == Some(true) || is_of_kernel_log(rule)
        }
        None => true,
    };
    by_itself && !by_helper && is_there() && not_judged(node, rule).is_none()
}

fn is_of_kernel_log(rule: &Rule) -> bool {
    rule.domain == Domain::Kernel || OF_KERNEL_LOG.contains(&rule.id)
}

/// Whether a rule judges what a source could not read.
fn is_judged_by(source: &str, unread: &Unread, rule: &Rule) -> bool {
    if is_unsupported(unread) {
        return false;
    }
    let (domain, path) = (rule.domain, &*unread.source);
    match source {
        "kernel_log" => is_of_kernel_log(rule),
        "host" | "iommu" => domain == Domain::Iommu,
        "modules" | "modprobe" => matches!(domain, Domain::Modules | Domain::GpuDirect),
        "pci" if path.ends_with("/config") => OF_CONFIGURATION_SPACE.contains(&rule.id),
        // Without the list of functions, no rule knows which adapters and GPUs there are.
        "pci" if path == source => !matches!(domain, Domain::Limits | Domain::Probe | Domain::Reading),
        "pci" => matches!(domain, Domain::Pci | Domain::Sriov),
        "network" => domain == Domain::Network || rule.id == BOND,
        "dcb" | "neighbours" | "lldp" => domain == Domain::Network,
        "links" => domain == Domain::Link,
        "devlink" => rule.id == "health-reporter-error" || rule.id.starts_with("firmware-"),
        "interfaces" => domain == Domain::Sriov || rule.id == BOND,
        "drivers" => OF_COUNTERS.contains(&rule.id),
        "transceivers" => OF_MODULES.contains(&rule.id),
        "limits" => domain == Domain::Limits,
        _ if !source.starts_with("infiniband") => false,
        _ if path.contains("counters/") => OF_COUNTERS.contains(&rule.id),
        _ if path.contains("/gid") => domain == Domain::Gids,
        _ => domain == Domain::Link,
    }
}

/// Whether the kernel or the driver does not support what was requested, so that no privilege would help.
pub fn is_unsupported(unread: &Unread) -> bool {
    const UNSUPPORTED: [Errno; 6] = [
        Errno::OPNOTSUPP,
        Errno::PROTONOSUPPORT,
        Errno::AFNOSUPPORT,
        Errno::NOSYS,
        Errno::INVAL,
        Errno::NODEV,
    ];
    matches!(unread.kind, UnreadKind::Errno(errno) if UNSUPPORTED.contains(&errno))
}

/// How many facts could not be read, in short, with what may help; `None` if all were read.
pub fn unread_in_short(node: &Node) -> Option<(usize, &'static str)> {
    let is_permission = |unread: &Unread| matches!(unread.kind, UnreadKind::Errno(errno) if [Errno::ACCESS, Errno::PERM].contains(&errno));
    let missed: Vec<&Unread> = node
        .unread()
        .map(|(_, unread)| unread)
        .filter(|unread| !is_unsupported(unread))
        .collect();
    let hint = if missed.iter().any(|unread| is_permission(unread)) {
        " (run as root)"
    } else {
        ""
    };
    (!missed.is_empty()).then_some((missed.len(), hint))
}

/// The first domain that cannot be judged completely.
pub(crate) fn unread(node: &Node) -> Option<String> {
    Domain::ALL.into_iter().find_map(|domain| unread_of(node, domain))
}

pub(crate) fn devices(node: &Node) -> Option<String> {
    let unread = node.hcas.unread()?;
    Some(format!("the RDMA devices could not be read: {unread}"))
}

/// Why the kernel log could not be read, if so. A node without one is judged by the rest.
pub fn kernel_log_unread(node: &Node) -> Option<String> {
    let unread = node.kernel_log.unread()?;
    Some(format!("the kernel log could not be read: {unread}"))
}

fn iommu_mode(node: &Node) -> Option<String> {
    node.dma_functions().find_map(|function| mode(node, &function))
}

/// A directory that is not visible here, although other facts show that it exists.
fn hidden(node: &Node, directory: &str) -> Option<String> {
    let is_meant = |unread: &&Unread| unread.source == directory && unread.kind == UnreadKind::Missing;
    let unread = node.unread().map(|(_, unread)| unread).find(is_meant)?;
    Some(unread.to_string())
}

fn mode(node: &Node, function: &Function<'_>) -> Option<String> {
    let unread = match node.iommu.groups.unread() {
        Some(unread) => unread,
        None => node
            .iommu
            .groups
            .known()?
            .get(&function.group?)?
            .domain
            .unread()?,
    };
    Some(format!(
        "the IOMMU mode of {} could not be read: {unread}",
        function.title()
    ))
}

/// Why it is not known whether a finding is over, if a fact that it depends on could not be read.
pub(crate) fn unread_about(node: &Node, finding: &Finding) -> Option<String> {
    let subject = &finding.subject;
    // Its subject is a process, not a device.
    if finding.rule == &limits::MEMLOCK_LOW {
        return devices(node).or_else(|| memlock_of(node, subject));
    }
    if let (Some(unread), Some(_)) = (devices(node), &subject.device) {
        return Some(unread);
    }
    let ports = || {
        let is_meant = |port: &Port<'_>| {
            subject.device.as_ref() == Some(&port.hca.name) && subject.port.is_none_or(|of| of == port.number)
        };
        node.ports().filter(is_meant)
    };
    match finding.domain {
        Domain::Link => ports().find_map(|port| state(&port)),
        Domain::Gids => ports().find_map(|port| state(&port).or_else(|| gids_of(&port))),
        Domain::Iommu => node
            .dma_functions()
            .filter(|function| {
                subject
                    .device
                    .as_deref()
                    .is_none_or(|device| function.subject() == device)
            })
            .find_map(|function| mode(node, &function)),
        Domain::Kernel => kernel_log_unread(node),
        _ => None,
    }
}

/// Every device has a port, and every kernel the state of each port.
fn port_state(node: &Node) -> Option<String> {
    if let Some(hca) = node.hcas().find(|hca| hca.ports.is_empty()) {
        return Some(format!("/sys/class/infiniband/{}/ports has no port", hca.name));
    }
    node.ports().find_map(|port| state(&port))
}

fn state(port: &Port<'_>) -> Option<String> {
    if port.state.known().is_some() {
        return None;
    }
    let why = port.state.unread().map_or_else(
        || format!("{} is missing", port.file("state")),
        ToString::to_string,
    );
    Some(format!("the state of {port} could not be read: {why}"))
}

fn gids(node: &Node) -> Option<String> {
    node.active_ports().find_map(|port| gids_of(&port))
}

fn gids_of(port: &Port<'_>) -> Option<String> {
    let unread = port.gids_unread()?;
    Some(format!("the GIDs of {port} could not be read: {unread}"))
}

/// Why the memlock limit that the process `subject` has, or that it stands for, could not be read.
fn memlock_of(node: &Node, subject: &Subject) -> Option<String> {
    // The limit of this process is judged where those of the node are not visible.
    let is_own = subject.device.as_deref() == Some(limits::THIS_PROCESS);
    let runtimes = node.limits.runtimes.unread();
    if is_own && runtimes.is_some_and(|unread| unread.source == PROCESSES) {
        return None;
    }
    let Some(unread) = node.limits.runtimes.unread() else {
        let runtimes = node.limits.runtimes.known()?;
        let is_meant = |name: &str| subject.device.as_deref() == Some(name);
        return runtimes
            .iter()
            .filter(|runtime| is_meant(&runtime.name))
            .find_map(unread_memlock);
    };
    Some(format!(
        "the memlock limits of container runtimes could not be read: {unread}"
    ))
}

fn memlock(node: &Node) -> Option<String> {
    node.limits.runtimes.known()?.iter().find_map(unread_memlock)
}

fn unread_memlock(runtime: &Runtime) -> Option<String> {
    let unread = runtime.memlock.unread()?;
    Some(format!(
        "the memlock limit of {} could not be read: {unread}",
        runtime.name
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule;

    #[test]
    fn every_rule_that_is_named_exists() {
        for id in [
            OF_KERNEL_LOG,
            OF_CONFIGURATION_SPACE,
            OF_COUNTERS,
            OF_MODULES,
            &[BOND],
        ]
        .concat()
        {
            assert!(rule(id).is_some(), "{id}");
        }
    }

    #[test]
    fn an_unread_fact_is_missed_by_the_rules_that_judge_it_only() {
        let denied = |path: &str, errno| Unread {
            source: path.into(),
            kind: UnreadKind::Errno(errno),
            detail: String::new(),
        };
        let path = "/sys/bus/pci/devices/0000:14:00.0/config";
        let is_missed = |id: &str, errno| {
            is_judged_by(
                "pci",
                &denied(path, errno),
                rule(id).expect("it is in the catalogue"),
            )
        };
        assert!(is_missed("acs-redirect", Errno::ACCESS));
        assert!(!is_missed("pci-link-degraded", Errno::ACCESS));
        assert!(!is_missed("acs-redirect", Errno::OPNOTSUPP));
    }
}
