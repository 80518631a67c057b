//! What happened to the IOMMU's mode, and what it refused.

use std::collections::BTreeMap;

use rdma_health_node::{
    Node,
    cmdline::Domain as Configured,
    iommu::{faults, type_path},
};

use super::{
    common::{gpus, in_virtual_machine, severity},
    iommu::names_by_address,
};
use crate::{Domain, Expectations, Finding, Profile, Remedy, Rule, Severity, Subject};

/// Addresses of RDMA functions and GPUs.
fn addresses(node: &Node) -> Vec<&str> {
    let gpus = gpus(node).map(|(address, _)| address.as_str());
    names_by_address(node).into_keys().chain(gpus).collect()
}

/// RDMA functions and GPUs whose group is translated: address, group, type.
fn translated(node: &Node) -> Vec<(&str, u32, &str)> {
    let one = |address| {
        let (number, group) = node.iommu.group_of(address)?;
        let domain = group.domain.known().filter(|domain| domain.is_translated())?;
        Some((address, number, domain.as_str()))
    };
    addresses(node).into_iter().filter_map(one).collect()
}

/// `iommu-memory-encryption`.
pub(crate) static MEMORY_ENCRYPTION: Rule = Rule {
    id: "iommu-memory-encryption",
    domain: Domain::Iommu,
    severity: Severity::Warning,
    title: "Memory encryption keeps the IOMMU from passthrough",
    explanation: "With AMD's Secure Memory Encryption (SME) on, addresses carry an encryption bit that a device cannot set, so \
        the kernel translates for every device whatever iommu=pt says. RDMA functions and GPUs are in translated groups for \
        this reason.",
    remedy: Remedy {
        any: "Where encryption of memory is not required, boot with mem_encrypt=off, or switch SME (also called SMEE or TSME) \
            off in the machine's firmware. TSME encrypts without the kernel's knowledge and leaves passthrough alone.",
        openshift: "MachineConfig with kernelArguments [mem_encrypt=off].",
        kubernetes: "",
        host: "Put mem_encrypt=off on the kernel command line and reboot.",
    },
    false_alarms: "A processor that could encrypt is no finding: the kernel's log or command line must say that it does, and a \
        group must be translated. In an encrypted guest (SEV, TDX) it is for information.",
    judge: memory_encryption,
};

fn memory_encryption(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    let Some(severity) = severity(expectations, Severity::Warning, Severity::Warning) else {
        return Vec::new();
    };
    let groups = translated(node);
    let Some((address, number, domain)) = groups.first() else {
        return Vec::new();
    };
    if expectations.passthrough == Some(false) {
        return Vec::new();
    }
    let log = node.kernel_log.known().into_iter().flatten();
    let active = log
        .filter(|line| line.contains("Memory Encryption Features active"))
        .find(|line| ["SME", "SEV", "TDX"].iter().any(|word| line.contains(word)));
    let asked = node
        .host
        .iommu_arguments
        .known()
        .is_some_and(|arguments| arguments.memory_encryption == Some(true));
    let can = node
        .host
        .encryption_flags
        .known()
        .is_some_and(|flags| flags.iter().any(|flag| flag == "sme"));
    if active.is_none() && !(asked && can) {
        return Vec::new();
    }
    let guest = in_virtual_machine(node);
    let message = format!(
        "memory encryption is active, so group {number} ({address}){} is translated whatever iommu=pt says",
        if groups.len() > 1 {
            format!(" and {} more", groups.len() - 1)
        } else {
            String::new()
        }
    );
    let mut finding = Finding::new(&MEMORY_ENCRYPTION, Subject::node(), message)
        .severity(if guest { Severity::Info } else { severity })
        .evidence(type_path(*number), domain);
    if let Some(line) = active {
        finding = finding.evidence("/dev/kmsg", line);
    }
    if asked {
        finding = finding.evidence("/proc/cmdline", "mem_encrypt=on");
    }
    if can {
        finding = finding.evidence("/proc/cpuinfo", "sme");
    }
    vec![finding]
}

/// `iommu-faults`.
pub(crate) static FAULTS: Rule = Rule {
    id: "iommu-faults",
    domain: Domain::Iommu,
    severity: Severity::Warning,
    title: "The IOMMU refused memory accesses of an RDMA function or GPU",
    explanation: "The kernel's log holds faults (DMAR on Intel, AMD-Vi IO_PAGE_FAULT on AMD) that name an RDMA function or GPU: \
        the device asked for an address that the IOMMU does not map for it. With GPUDirect this is the address of GPU memory, \
        unknown to the NIC's group; the transfer ends with IBV_WC_LOC_PROT_ERR(4). Critical where GPUDirect is expected \
        (profile gpudirect).",
    remedy: Remedy::all(
        "Put the devices into passthrough (see iommu-group-translated). With passthrough on, faults point to a driver or \
        firmware fault: update both, and keep the lines of the log for the vendor.",
    ),
    false_alarms: "Faults of other devices (disks, USB, graphics of the management controller) do not count.",
    judge: iommu_faults,
};

fn iommu_faults(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    let auto = Severity::Warning;
    let expected = if expectations.profile == Profile::GpuDirect {
        Severity::Critical
    } else {
        auto
    };
    let (Some(lines), Some(severity)) = (node.kernel_log.known(), severity(expectations, auto, expected))
    else {
        return Vec::new();
    };
    let ours = addresses(node);
    let names = names_by_address(node);
    let mut by_address: BTreeMap<String, (usize, &str)> = BTreeMap::new();
    for fault in faults(lines) {
        if ours.contains(&fault.address.as_str()) {
            let entry = by_address.entry(fault.address).or_insert((0, fault.line));
            // The newest line is the one that is shown.
            *entry = (entry.0 + 1, fault.line);
        }
    }
    let found = by_address.into_iter().map(|(address, (number, line))| {
        let name = names
            .get(address.as_str())
            .map_or(address.as_str(), |names| names[0]);
        let times = if number == 1 {
            "once".into()
        } else {
            format!("{number} times")
        };
        Finding::new(
            &FAULTS,
            Subject::device(name),
            format!("the IOMMU refused memory accesses of {name} ({address}), {times} in the kernel's log"),
        )
        .severity(severity)
        .evidence("/dev/kmsg", line)
    });
    found.collect()
}

/// `iommu-regressed`.
pub(crate) static REGRESSED: Rule = Rule {
    id: "iommu-regressed",
    domain: Domain::Iommu,
    severity: Severity::Warning,
    title: "An RDMA function or GPU was in passthrough at an earlier boot and is translated now",
    explanation: "The agent remembers the type of each device's IOMMU group across reboots. A device that was identity is \
        translated since: a kernel update changed the default, an argument was lost, or the firmware's settings changed. The \
        message says what differs between the two boots.",
    remedy: Remedy {
        any: "Compare the kernel and its command line with those of the boot that the message names, and restore iommu=pt.",
        openshift: "Look at the MachineConfigs that were rolled out since: oc get mcp, oc get mc.",
        kubernetes: "",
        host: "Look at /etc/default/grub and at what the last update of the kernel or boot loader changed.",
    },
    false_alarms: "Only devices that are translated now count, and only where nobody expects translation (expect.passthrough: \
        false). Silent without earlier boots to compare with.",
    judge: regressed,
};

fn regressed(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    if expectations.passthrough == Some(false) {
        return Vec::new();
    }
    let (Some(history), Some(boot)) = (&node.history, node.host.boot_id.known()) else {
        return Vec::new();
    };
    let Some(severity) = severity(expectations, Severity::Warning, Severity::Warning) else {
        return Vec::new();
    };
    let groups = translated(node);
    let was_identity = |address: &str| {
        history.boots_before(boot).find(|boot| {
            boot.domains
                .get(address)
                .is_some_and(|domain| domain == "identity")
        })
    };
    let mut changed = groups
        .iter()
        .filter_map(|group| Some((group, was_identity(group.0)?)));
    let Some(((address, number, domain), earlier)) = changed.next() else {
        return Vec::new();
    };
    let more = changed.count();
    let names = names_by_address(node);
    let name = names.get(address).map_or(*address, |names| names[0]);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    let kernel = node.host.kernel.known().map_or("unread", String::as_str);
    let then = earlier.kernel.as_deref().unwrap_or("unread");
    let arguments = |arguments: &[String]| {
        if arguments.is_empty() {
            "no IOMMU argument".to_owned()
        } else {
            arguments.join(" ")
        }
    };
    let now = node
        .host
        .iommu_arguments
        .known()
        .map(|found| arguments(&found.arguments));
    let mut differs = Vec::new();
    if kernel != then {
        differs.push(format!("kernel {then} then, {kernel} now"));
    }
    if let Some(now) = now.filter(|now| *now != arguments(&earlier.arguments)) {
        differs.push(format!("{} then, {now} now", arguments(&earlier.arguments)));
    }
    let differs = if differs.is_empty() {
        "same kernel and arguments: look at the firmware's settings".into()
    } else {
        differs.join("; ")
    };
    let finding = Finding::new(
        &REGRESSED,
        Subject::device(name),
        format!(
            "{name} ({address}){more} was in passthrough at the boot last seen {} ago and is translated now: {differs}",
            super::common::ago(node.time.saturating_sub(earlier.last))
        ),
    );
    vec![
        finding
            .severity(severity)
            .evidence(type_path(*number), domain)
            .evidence(
                format!("history, boot {}", earlier.id),
                format!("identity, Linux {then}, {}", arguments(&earlier.arguments)),
            ),
    ]
}

/// Whether the kernel's default, as logged, is translation while nothing on the command line asks for a mode.
pub(super) fn default_is_translated(node: &Node) -> bool {
    let asked = node
        .host
        .iommu_arguments
        .known()
        .is_none_or(|arguments| arguments.domain.is_some());
    let log = node
        .kernel_log
        .known()
        .map(|lines| lines.join("\n"))
        .unwrap_or_default();
    !asked
        && rdma_health_node::iommu::logged_default(&log)
            .is_some_and(|(domain, _)| domain == Configured::Translated)
}
