//! What changed the mode of the IOMMU, and what it blocked.

use rdma_health_node::{
    DmaMode, Function, Node,
    history::Boot,
    iommu::{DomainType, type_path},
    kmsg::EventKind,
    words::{and_more, count, count_of, date},
};

use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Severity, Subject, Writer,
    domain::{
        iommu::{arguments_in_words, requests_passthrough},
        logged::{is_past, when},
    },
    draft::Draft,
    policy::Exception,
    remedy::kernel_argument,
};

/// The file with the type of a function's IOMMU group, and that type; `None` if it has no group.
pub(super) fn group_type(function: &Function<'_>) -> Option<(String, String)> {
    Some((type_path(function.group?), function.dma?.as_str().to_owned()))
}

/// `iommu-memory-encryption`.
pub static MEMORY_ENCRYPTION: Rule = Rule {
    id: "iommu-memory-encryption",
    domain: Domain::Iommu,
    policy: Policy::of(Severities::WARNING).except(&[&IN_A_GUEST]),
    title: "Memory encryption prevents IOMMU passthrough",
    explanation: "With AMD Secure Memory Encryption (SME), addresses carry an encryption bit that not every device can \
        set. The kernel therefore translates by default, also if it was built with passthrough as its default; iommu=pt on the command line \
        prevails (iommu_subsys_init in drivers/iommu/iommu.c). This is why RDMA devices and GPUs of this node are in translated groups. A host of encrypted guests with SEV-SNP translates too, because the IOMMU \
        must check each access against the owner of the page.",
    remedy: Remedy {
        any: "If memory encryption is not required, boot with mem_encrypt=off, or disable SME (also called SMEE) in \
            the firmware setup. Transparent SME (TSME) encrypts without the kernel and does not prevent passthrough. To keep SME, boot with \
            iommu=pt: adapters and GPUs that use 64-bit addresses work with it.",
        openshift: "Apply a MachineConfig with kernelArguments [mem_encrypt=off] to the pool of the node.",
        host: "Add mem_encrypt=off to GRUB_CMDLINE_LINUX in /etc/default/grub and run update-grub, or run grubby \
            --update-kernel=ALL --args=mem_encrypt=off. Then reboot.",
        ..Remedy::all("")
    },
    false_alarms: "A processor that merely supports encryption is not reported: the kernel log or the command line \
        must show that encryption is on, and a group must be translated.",
    inputs: &[Writer::Hardware, Writer::HostRoot],
    judge: memory_encryption,
};

static IN_A_GUEST: Exception = Exception {
    condition: "in a virtual machine, such as an encrypted guest (SEV, TDX)",
    severities: Severities::INFO,
};

fn memory_encryption(node: &Node, expectations: &Expectations) -> Vec<Draft> {
    let translated: Vec<_> = node.dma_functions().filter(Function::is_translated).collect();
    let [first, others @ ..] = translated.as_slice() else {
        return Vec::new();
    };
    let (Some(group), Some((file, domain))) = (first.group, group_type(first)) else {
        return Vec::new();
    };
    let requested = node
        .host
        .iommu_arguments
        .known()
        .is_some_and(|arguments| arguments.memory_encryption == Some(true));
    let supported = node
        .host
        .encryption_flags
        .known()
        .is_some_and(|flags| flags.iter().any(|flag| flag == "sme"));
    if let Some(line) = snp_log(node) {
        return vec![forced_by_snp(node, first, others.len(), line).evidence(file, domain)];
    }
    let logged = encryption_log(node);
    let is_active = logged.is_some() || (requested && supported);
    if !is_active || expectations.passthrough == Some(false) {
        return Vec::new();
    }
    let message = format!(
        "memory encryption is active: IOMMU group {group} ({}){} translated{}",
        first.address,
        match others.len() {
            0 => " is".to_owned(),
            others => format!(" and {} are", count(others, "other device")),
        },
        if requests_passthrough(node) {
            ", although the command line requests passthrough"
        } else {
            ""
        }
    );
    let mut finding = Draft::new(&MEMORY_ENCRYPTION, Subject::node(), message)
        .exception(node.is_virtual_machine().then_some(&IN_A_GUEST))
        .written_remedy(if requested {
            without_argument(node, "mem_encrypt=on")
        } else {
            kernel_argument::added(node, MEMORY_ENCRYPTION.remedy.any, "mem_encrypt=off")
        })
        .evidence(file, domain);
    if let Some(line) = logged {
        finding = finding.evidence("/dev/kmsg", line);
    }
    if requested {
        finding = finding.evidence("/proc/cmdline", "mem_encrypt=on");
    }
    if supported {
        finding = finding.evidence("/proc/cpuinfo", "sme");
    }
    vec![finding]
}

/// The same for an argument to remove: of two, the last one counts.
fn without_argument(node: &Node, argument: &str) -> Option<String> {
    let platform = node.platform();
    let is_known = platform.cluster.is_some() && platform.distribution.is_some();
    is_known.then(|| {
        let commands = kernel_argument::remove(argument, platform);
        format!(
            "If memory encryption is not required, remove {argument} from the kernel command line. To keep it, boot with iommu=pt: adapters \
             and GPUs that use 64-bit addresses work with it.\n{commands}"
        )
    })
}

/// What forces translation on a host of encrypted guests.
fn forced_by_snp(node: &Node, first: &Function<'_>, others: usize, line: &str) -> Draft {
    let more = match others {
        0 => " is".to_owned(),
        others => format!(" and {} are", count(others, "other device")),
    };
    let message = format!(
        "SEV-SNP is enabled on this host: {}{more} translated even with iommu=pt",
        first.title()
    );
    Draft::new(&MEMORY_ENCRYPTION, Subject::node(), message)
        .exception(node.is_virtual_machine().then_some(&IN_A_GUEST))
        .remedy(WITHOUT_SNP)
        .written_remedy(kernel_argument::added(
            node,
            WITHOUT_SNP.any,
            "sev=nosnp kvm_amd.sev_snp=0",
        ))
        .evidence("/dev/kmsg", line)
}

/// What to do about translation that SEV-SNP forces.
const WITHOUT_SNP: Remedy = Remedy {
    any: "SEV-SNP and IOMMU passthrough exclude each other. If the node runs no SEV-SNP guests, switch SEV-SNP off: boot with \
        sev=nosnp kvm_amd.sev_snp=0, or disable SEV-SNP (SNP memory coverage) in the firmware setup. iommu=pt alone has no effect.",
    openshift: "Apply a MachineConfig with kernelArguments [sev=nosnp, kvm_amd.sev_snp=0] to the pool of the node.",
    host: "Add sev=nosnp kvm_amd.sev_snp=0 to the kernel command line and reboot.",
    ..Remedy::all("")
};

/// The line of the kernel log that says that the host runs with SEV-SNP.
fn snp_log(node: &Node) -> Option<&str> {
    let lines = node.kernel_log.known().into_iter().flat_map(|log| &log.lines);
    let mut says = lines.filter(|line| {
        let of_iommu = line.contains("AMD-Vi") && line.contains("SNP");
        let is_on = line.contains("enabled") && !line.contains("not enabled");
        (of_iommu && is_on) || line.contains("SEV-SNP enabled")
    });
    says.next().map(String::as_str)
}

/// The line of the kernel log that says that memory encryption is on.
fn encryption_log(node: &Node) -> Option<&String> {
    let mut active = node
        .kernel_lines()
        .iter()
        .filter(|line| line.contains("Memory Encryption Features active"));
    active.find(|line| ["SME", "SEV", "TDX"].iter().any(|word| line.contains(word)))
}

/// While the device is translated, the next job meets the same fault.
static OVER: Exception = Exception {
    condition: "if the last message is more than a day old and the device is not translated",
    severities: Severities::INFO,
};

/// `iommu-faults`.
pub static FAULTS: Rule = Rule {
    id: "iommu-faults",
    domain: Domain::Iommu,
    policy: Policy::of(Severities::WARNING.gpudirect(Severity::Critical)).except(&[&OVER]),
    title: "The IOMMU blocked memory accesses of an RDMA device or GPU",
    explanation: "The kernel log contains IOMMU faults (DMAR on Intel, AMD-Vi IO_PAGE_FAULT on AMD, arm-smmu \
        F_TRANSLATION on Arm) of an RDMA device or GPU: the device accessed an address that the IOMMU does not map for it. With GPUDirect this is an \
        address of GPU memory that is unknown to the group of the NIC; the transfer fails with \
        IBV_WC_LOC_PROT_ERR(4).",
    remedy: Remedy::all(
        "Put the devices into IOMMU passthrough: see iommu-group-translated. If passthrough is already active, the \
        faults point to a bug in driver or firmware: update both, and keep the log for the vendor: journalctl -k | \
        grep -e DMAR -e AMD-Vi -e arm-smmu.",
    ),
    false_alarms: "Faults of other devices (disks, USB, graphics of the management controller) are ignored.",
    inputs: &[Writer::Hardware],
    judge: iommu_faults,
};

fn iommu_faults(node: &Node, _: &Expectations) -> Vec<Draft> {
    let events = node.device_events();
    let faults = events
        .iter()
        .filter(|found| found.event.kind == EventKind::IommuFault);
    let found = faults.filter_map(|fault| {
        let function = fault
            .function
            .as_ref()
            .filter(|function| function.is_dma_of_host())?;
        let message = format!(
            "the IOMMU blocked memory accesses of {}: {}",
            function.title(),
            when(&count_of(fault.event.count, "fault"), fault.event)
        );
        let remedy = match function.dma {
            Some(DomainType::Identity) => IN_PASSTHROUGH,
            _ => FAULTS.remedy,
        };
        let finding = Draft::new(&FAULTS, Subject::device(function.subject()), message)
            .exception((is_past(node, fault) && !function.is_translated()).then_some(&OVER))
            .remedy(remedy);
        Some(finding.evidence("/dev/kmsg", &fault.event.message))
    });
    found.collect()
}

/// What to do about a device that the IOMMU does not translate.
const IN_PASSTHROUGH: Remedy = Remedy::all(
    "Update driver and firmware of the device, because passthrough is active for it and the IOMMU blocked it nevertheless: it accessed an address that \
    it must not. Keep the log for the vendor: journalctl -k | grep -e DMAR -e AMD-Vi -e arm-smmu",
);

/// `iommu-regressed`.
pub static REGRESSED: Rule = Rule {
    id: "iommu-regressed",
    domain: Domain::Iommu,
    policy: Policy::of(Severities::WARNING),
    title: "An RDMA device or GPU lost IOMMU passthrough since an earlier boot",
    explanation: "The agent remembers the IOMMU group type of each device across reboots. A device that was in an \
        identity group is translated now: a kernel update changed the default, an argument was lost, or the firmware \
        settings changed. The message names what differs between the two boots.",
    remedy: Remedy {
        any: "Compare kernel and command line with those of the earlier boot in the message, and restore iommu=pt.",
        openshift: "List recent changes: oc get mcp; oc get mc --sort-by=.metadata.creationTimestamp",
        host: "Check /etc/default/grub, and what the last update of the kernel or boot loader changed.",
        ..Remedy::all("")
    },
    false_alarms: "Only devices that are translated now are reported, and only unless translation is expected \
        (expect.passthrough: false). Silent without a record of earlier boots.",
    inputs: &[Writer::HostRoot, Writer::Agent],
    judge: regressed,
};

fn regressed(node: &Node, expectations: &Expectations) -> Vec<Draft> {
    if expectations.passthrough == Some(false) {
        return Vec::new();
    }
    let (Some(history), Some(boot)) = (&node.history, node.host.boot_id.known()) else {
        return Vec::new();
    };
    let functions: Vec<_> = node.functions();
    // A new slot or another firmware setting renumbers the buses: then no address is that of an earlier boot.
    let is_renumbered = |boot: &Boot| {
        let mut now = functions.iter();
        boot.dma_mode() == Some(DmaMode::Passthrough)
            && !now.any(|function| boot.domains.contains_key(function.address))
    };
    let was_identity = |address: &str| {
        history
            .boots_before(boot)
            .find(|boot| boot.domains.get(address) == Some(&DomainType::Identity) || is_renumbered(boot))
    };
    let mut changed = node
        .dma_functions()
        .filter(Function::is_translated)
        .filter_map(|function| Some((was_identity(function.address)?, function)));
    let Some((earlier, function)) = changed.next() else {
        return Vec::new();
    };
    let message = format!(
        "{}{}: IOMMU passthrough until the boot last seen at {}, translated now; {}",
        function.title(),
        and_more(changed.count()),
        date(earlier.last),
        differences(node, earlier)
    );
    let (file, domain) = group_type(&function).unwrap_or_default();
    let finding = Draft::new(&REGRESSED, Subject::device(function.subject()), message)
        .evidence(file, domain)
        .evidence(
            format!("history, boot {}", earlier.id),
            format!(
                "identity, Linux {}, {}",
                earlier.kernel.as_deref().unwrap_or(UNKNOWN),
                arguments_in_words(&earlier.arguments)
            ),
        );
    vec![finding]
}

/// A kernel release that could not be read.
const UNKNOWN: &str = "unknown";

/// What differs between an earlier boot and this one: `kernel 5.14.0-1 then, 5.14.0-2 now`.
fn differences(node: &Node, earlier: &Boot) -> String {
    let mut differences = Vec::new();
    let now = node.host.kernel.known().map_or(UNKNOWN, String::as_str);
    let then = earlier.kernel.as_deref().unwrap_or(UNKNOWN);
    if now != then {
        differences.push(format!("kernel {then} then, {now} now"));
    }
    if let Some(now) = node.host.iommu_arguments.known()
        && now.arguments != earlier.arguments
    {
        let (then, now) = (
            arguments_in_words(&earlier.arguments),
            arguments_in_words(&now.arguments),
        );
        differences.push(format!("{then} then, {now} now"));
    }
    if differences.is_empty() {
        return "same kernel and arguments: check the firmware settings".into();
    }
    differences.join("; ")
}
