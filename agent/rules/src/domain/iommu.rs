//! How DMA addresses are handled.

use std::collections::BTreeMap;

use rdma_health_node::{
    Node,
    cmdline::Domain as Configured,
    iommu::{DomainType, logged_default, type_path},
    pci::Role,
};

use crate::{
    Domain, Expectations, Finding, Profile, Remedy, Rule, Severity, Subject,
    domain::{common::gpus as gpus_of, iommu_events::default_is_translated, probe},
};

/// `iommu-group-translated`.
pub(crate) static GROUP_TRANSLATED: Rule = Rule {
    id: "iommu-group-translated",
    domain: Domain::Iommu,
    severity: Severity::Warning,
    title: "The IOMMU translates the DMA addresses of an RDMA function or GPU",
    explanation: "The device's IOMMU group is of type DMA-FQ (translated, lazy invalidation) or DMA (translated, strict \
        invalidation); only identity is passthrough. Each transfer then looks its address up in the IOMMU, and peer-to-peer \
        traffic between GPU and NIC goes through the root complex or fails: NCCL ends with IBV_WC_LOC_PROT_ERR(4) \
        vendor_err=81 or falls back to TCP. Host RDMA often still works, only slower. Critical where GPUDirect is expected \
        (profile gpudirect, or GPUs and RDMA functions side by side in profile auto), where the configuration expects \
        passthrough, or where a probe of the device failed; a warning otherwise; for information where no RDMA is expected, or \
        where the configuration says that translation is meant (expect.passthrough: false).",
    remedy: Remedy {
        any: "Boot with iommu=pt (on arm64 iommu.passthrough=1), then check again.",
        openshift: "Apply a MachineConfig with kernelArguments [iommu=pt] (Intel also intel_iommu=on) for the nodes' pool.",
        kubernetes: "On each node as on a host, through the image or the tool that sets the node up; drain it for the reboot.",
        host: "Add iommu=pt to GRUB_CMDLINE_LINUX in /etc/default/grub, run update-grub or grub2-mkconfig -o \
            /boot/grub2/grub.cfg (or grubby --update-kernel=ALL --args=iommu=pt) and reboot.",
    },
    false_alarms: "Groups of other devices (SATA, USB) are ignored, and so are GPUs that vfio-pci holds for a virtual machine. In a virtual machine without GPUs translation is the \
        guest's own choice and costs little.",
    judge: group_translated,
};

fn group_translated(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    // Several RDMA devices may share a function, and several functions a group; each device is told once.
    let names = names_by_address(node);
    let gpus = gpus_of(node).count();
    let with_gpus = match expectations.profile {
        Profile::GpuDirect => true,
        Profile::Auto => gpus > 0 && !names.is_empty(),
        Profile::Rdma | Profile::TcpOnly => false,
    };
    let rdma = names.keys().map(|address| (*address, Role::Rdma));
    let gpus = gpus_of(node).map(|(address, _)| (address.as_str(), Role::Gpu));
    let mut findings = Vec::new();
    for (address, role) in rdma.chain(gpus) {
        let Some((number, group)) = node.iommu.group_of(address) else {
            continue;
        };
        let Some(domain) = group.domain.known().filter(|domain| domain.is_translated()) else {
            continue;
        };
        let subject = names.get(address).map_or(address, |names| names[0]);
        let what = match role {
            Role::Gpu => format!("GPU {address}"),
            _ => format!(
                "{} ({address})",
                names
                    .get(address)
                    .map(|names| names.join(", "))
                    .unwrap_or_default()
            ),
        };
        let invalidation = if *domain == DomainType::Strict {
            "strict"
        } else {
            "lazy"
        };
        let probe_failed = names
            .get(address)
            .is_some_and(|names| names.iter().any(|name| probe::failed_on(node, name)));
        let severity = match expectations.profile {
            Profile::TcpOnly => Severity::Info,
            _ if expectations.passthrough == Some(false) && !probe_failed => Severity::Info,
            _ if with_gpus || probe_failed || expectations.passthrough == Some(true) => Severity::Critical,
            _ => Severity::Warning,
        };
        let mut finding = Finding::new(
            &GROUP_TRANSLATED,
            Subject::device(subject),
            format!(
                "{what}: IOMMU group {number} is {domain}, translated with {invalidation} invalidation",
                domain = domain.as_str()
            ),
        )
        .severity(severity)
        .evidence(type_path(number), domain.as_str());
        finding = with_configuration(finding, node);
        // Whoever has the argument already is not helped by being told to add it.
        if asks_for_passthrough(node) {
            finding = finding.remedy(NOT_IN_EFFECT);
        }
        findings.push(finding);
    }
    findings
}

/// The RDMA devices of each PCI function.
pub(super) fn names_by_address(node: &Node) -> BTreeMap<&str, Vec<&str>> {
    let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for hca in node.hcas() {
        if let Some(address) = hca.pci_address.known() {
            names.entry(address).or_default().push(&hca.name);
        }
    }
    names
}

/// What was asked for and what the kernel logged: they explain, groups decide.
fn with_configuration(mut finding: Finding, node: &Node) -> Finding {
    if let Some(arguments) = node.host.iommu_arguments.known() {
        let written = if arguments.arguments.is_empty() {
            "no IOMMU argument".into()
        } else {
            arguments.arguments.join(" ")
        };
        finding = finding.evidence("/proc/cmdline", written);
    }
    if let Some((_, text)) = node
        .kernel_log
        .known()
        .and_then(|lines| logged_default(&lines.join("\n")))
    {
        finding = finding.evidence("/dev/kmsg", format!("iommu: Default domain type: {text}"));
    }
    finding
}

/// Whether the command line asks for passthrough.
pub(crate) fn asks_for_passthrough(node: &Node) -> bool {
    let arguments = node.host.iommu_arguments.known();
    arguments.is_some_and(|arguments| arguments.domain == Some(Configured::Passthrough))
}

/// What to do where passthrough is asked for in vain.
const NOT_IN_EFFECT: Remedy = Remedy {
    any: "The command line asks for passthrough already and it is not in effect, so find what overrides it: memory encryption \
        (mem_encrypt=on, or 'Memory Encryption Features active' in the kernel's log), a device that the firmware marks \
        untrusted, or a type that somebody writes to /sys/kernel/iommu_groups/N/type. On arm64 the kernel knows \
        iommu.passthrough=1 only.",
    openshift: "oc get mc -o yaml shows which MachineConfig sets which kernelArguments, rpm-ostree kargs on the node what the \
        next boot gets; a Tuned profile or MachineConfig may write the type.",
    kubernetes: "",
    host: "journalctl -k | grep -i -e iommu -e 'memory encryption' shows what the kernel decided; grep -r iommu_groups /etc who \
        writes a type. One written by hand ends with a reboot.",
};

/// What to do where passthrough is in effect and nobody asks for it.
const NOT_ASKED_FOR: Remedy = Remedy {
    any: "Put iommu=pt (on arm64 iommu.passthrough=1) on the kernel command line, and take out what asks for translation, so that \
        the next boot keeps passthrough.",
    openshift: "oc get mc -o yaml shows which MachineConfig sets which kernelArguments; rpm-ostree kargs on the node what \
        the next boot gets.",
    kubernetes: "",
    host: "grep -r iommu /etc/default/grub* /boot/loader/entries shows what the next boot gets.",
};

/// `iommu-cmdline-mismatch`.
pub(crate) static CMDLINE_MISMATCH: Rule = Rule {
    id: "iommu-cmdline-mismatch",
    domain: Domain::Iommu,
    severity: Severity::Warning,
    title: "The kernel command line asks for another IOMMU mode than the one in effect",
    explanation: "The command line asks for passthrough but a group of an RDMA function or GPU is translated, or it asks for \
        translation but the group is identity. The first means that something overrides the argument: memory encryption \
        (SME, SEV), a device that the firmware marks untrusted, or a type written to sysfs. The second means that the node \
        works now and will regress at the next boot; so does a command line without a mode where the kernel logged \
        translation as its default and an RDMA function is identity nevertheless.",
    remedy: Remedy {
        any: "Compare /proc/cmdline with the types under /sys/kernel/iommu_groups. Passthrough asked for but not in effect: adding \
            the argument again changes nothing; look for memory encryption (mem_encrypt=on), a later argument that undoes it, or \
            a type written to sysfs. In effect but not asked for: put iommu=pt on the command line so that the next boot keeps it.",
        openshift: "oc get mc -o yaml shows which MachineConfig sets which kernelArguments; rpm-ostree kargs on the node what \
            the next boot gets.",
        kubernetes: "",
        host: "grep -r iommu /etc/default/grub* /boot/loader/entries shows what the next boot gets.",
    },
    false_alarms: "A command line that says nothing about the mode agrees with every mode: the kernel's build decides then. \
        With the IOMMU switched off, or none there, nothing is translated and nothing is compared. Where no RDMA is expected \
        (profile tcp-only) it is for information.",
    judge: cmdline_mismatch,
};

fn cmdline_mismatch(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    let Some(arguments) = node.host.iommu_arguments.known() else {
        return Vec::new();
    };
    let names = names_by_address(node);
    // Some drivers ask for identity of their GPUs whatever the default is; none does for NICs.
    let gpus = gpus_of(node)
        .map(|(address, _)| address.as_str())
        .filter(|_| arguments.domain.is_some());
    let configured = match arguments.domain {
        Some(configured) => configured,
        None if default_is_translated(node) => Configured::Translated,
        None => return Vec::new(),
    };
    let groups = names.keys().copied().chain(gpus).filter_map(|address| {
        let (number, group) = node.iommu.group_of(address)?;
        let differs = match (configured, group.domain.known()?) {
            (Configured::Passthrough, domain) => domain.is_translated(),
            (Configured::Translated, domain) => *domain == DomainType::Identity,
        };
        differs.then_some((number, address, group.domain.known()?))
    });
    let groups: BTreeMap<_, _> = groups
        .map(|(number, address, domain)| (number, (address, domain)))
        .collect();
    let Some((first, (address, domain))) = groups.first_key_value() else {
        return Vec::new();
    };
    let (asked, effect) = match (configured, arguments.domain) {
        (Configured::Passthrough, _) => ("the command line asks for passthrough", "translated"),
        (Configured::Translated, Some(_)) => ("the command line asks for translation", "passthrough"),
        (Configured::Translated, None) => (
            "the kernel's default is translation and the command line asks for nothing",
            "passthrough until the next boot",
        ),
    };
    let others = if groups.len() > 1 {
        format!(" and {} more", groups.len() - 1)
    } else {
        String::new()
    };
    let finding = Finding::new(
        &CMDLINE_MISMATCH,
        Subject::node(),
        format!("{asked}, but group {first} ({address}){others} is {effect}"),
    )
    .severity(if expectations.profile == Profile::TcpOnly {
        Severity::Info
    } else {
        Severity::Warning
    })
    .evidence(type_path(*first), domain.as_str())
    .remedy(match configured {
        Configured::Passthrough => NOT_IN_EFFECT,
        Configured::Translated => NOT_ASKED_FOR,
    });
    vec![with_configuration(finding, node)]
}
