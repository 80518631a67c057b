//! Groups whose mode is not the one that the kernel command line requests.

use std::collections::{BTreeMap, BTreeSet};

use rdma_health_node::{
    Function, Node,
    cmdline::Domain as Configured,
    iommu::{DomainType, type_path},
    pci::Role,
    words::count,
};

use crate::{
    Domain, Expectations, FindingCase, Policy, Remedy, Rule, Severities, Severity, Subject, Writer,
    draft::Draft,
};

use super::mode::{default_in_log, with_configuration};

/// `iommu-cmdline-mismatch`.
pub static CMDLINE_MISMATCH: Rule = Rule {
    id: "iommu-cmdline-mismatch",
    domain: Domain::Iommu,
    policy: Policy::of(Severities::WARNING.tcp_only(Severity::Info)),
    title: "The active IOMMU mode differs from the kernel command line",
    explanation: "Either the command line requests passthrough and the group of an RDMA device or GPU is translated, \
        or the command line requests translation and the group is passthrough (identity). In the first case \
        something overrides the argument: memory encryption (SME, SEV), a device that the firmware marks as \
        untrusted, or a type written to sysfs. In the second case RDMA works now and will regress at the next boot. \
        The same holds if the command line sets no mode, the kernel logged translation as its default, and an RDMA \
        device is in an identity group nevertheless.",
    remedy: Remedy {
        any: "Compare /proc/cmdline with /sys/kernel/iommu_groups/*/type. If passthrough is requested but not \
            active, do not add the argument again: look for memory encryption (mem_encrypt=on), a later argument \
            that reverts it, or a script that writes the type. If passthrough is active but not requested, add \
            iommu=pt to the command line so that the next boot keeps it.",
        openshift: ARGUMENTS_ON_OPENSHIFT,
        host: ARGUMENTS_ON_A_HOST,
        ..Remedy::all("")
    },
    false_alarms: "A command line that sets no mode agrees with every mode, because the build of the kernel decides. \
        If the IOMMU is off or missing, nothing is translated and nothing is compared.",
    inputs: &[Writer::Hardware, Writer::HostRoot],
    judge: cmdline_mismatch,
};

fn cmdline_mismatch(node: &Node, _: &Expectations) -> Vec<Draft> {
    if node.host.iommu_arguments.known().is_none() {
        return Vec::new();
    }
    let requested = node.requested_dma();
    let configured = match requested {
        Some(configured) => configured,
        None if default_is_translated(node) => Configured::Translated,
        None => return Vec::new(),
    };
    let differs = |function: &Function<'_>| match configured {
        Configured::Passthrough => function.is_translated(),
        Configured::Translated => function.dma == Some(&DomainType::Identity),
    };
    // Some drivers request identity for their GPUs whatever the default is; none does for NICs.
    let judged = |function: &Function<'_>| function.role != Role::Gpu || requested.is_some();
    let groups: BTreeMap<_, _> = node
        .dma_functions()
        .filter(|function| judged(function) && differs(function))
        .filter_map(|function| Some((function.group?, function)))
        .collect();
    let Some((first, function)) = groups.first_key_value() else {
        return Vec::new();
    };
    let (configured_as, active) = match (configured, requested) {
        (Configured::Passthrough, _) => ("the command line requests passthrough", "translated"),
        (Configured::Translated, Some(_)) => ("the command line requests translation", "passthrough"),
        (Configured::Translated, None) => (
            "the kernel defaults to translation and the command line sets no mode",
            "passthrough until the next boot",
        ),
    };
    let others = match groups.len() - 1 {
        0 => " is".to_owned(),
        others => format!(" and {} are", count(others, "other group")),
    };
    let (case, remedy) = match configured {
        Configured::Passthrough => {
            let functions: Vec<_> = node.dma_functions().collect();
            (FindingCase::PassthroughNotActive, not_active(&functions))
        }
        Configured::Translated => (FindingCase::PassthroughNotConfigured, NOT_CONFIGURED),
    };
    let address = function.address;
    let message = format!("{configured_as}, but IOMMU group {first} ({address}){others} {active}");
    let finding = Draft::new(&CMDLINE_MISMATCH, Subject::node(), message)
        .evidence(type_path(*first), function.dma.map_or("", DomainType::as_str))
        .case(case)
        .remedy(remedy);
    vec![with_configuration(finding, node)]
}

/// Whether the kernel logged translation as its default and the command line sets no mode.
fn default_is_translated(node: &Node) -> bool {
    let is_set = node.host.iommu_arguments.known().is_none() || node.requested_dma().is_some();
    !is_set && default_in_log(node).is_some_and(|(domain, _)| domain == Configured::Translated)
}

const ARGUMENTS_ON_OPENSHIFT: &str = "List the kernel arguments of each MachineConfig: oc get mc -o \
    custom-columns=NAME:.metadata.name,ARGUMENTS:.spec.kernelArguments. Show those of the next boot: oc debug \
    node/NODE -- chroot /host rpm-ostree kargs";

const ARGUMENTS_ON_A_HOST: &str =
    "Show the kernel arguments of the next boot: grep -r iommu /etc/default/grub* /boot/loader/entries";

/// What to do if passthrough is configured and not active for some of these functions. What concerns the whole kernel changes all groups.
pub(super) fn not_active(functions: &[Function<'_>]) -> Remedy {
    let groups = |only_translated: bool| {
        let counted = functions
            .iter()
            .filter(|function| !only_translated || function.is_translated());
        counted
            .filter_map(|function| function.group)
            .collect::<BTreeSet<_>>()
            .len()
    };
    if groups(true) * 2 < groups(false) {
        ONLY_SOME
    } else {
        NOT_ACTIVE
    }
}

/// What to do if passthrough is active for most groups and not for others.
const ONLY_SOME: Remedy = Remedy {
    any: "The other groups are passthrough, so the command line works. Find out what treats this group differently: a script, udev rule or \
        program that wrote to /sys/kernel/iommu_groups/N/type, or a device that the firmware marks as untrusted (an external port). A type that was \
        written lasts until the next boot; to write identity, the driver of the device must be unbound first.",
    host: "grep -r iommu_groups /etc /usr/local; journalctl -k | grep -i -e untrusted -e 'Adding to iommu group'",
    ..Remedy::all("")
};

/// What to do if passthrough is configured and not active.
const NOT_ACTIVE: Remedy = Remedy {
    any: "Find out what overrides the command line, which already requests passthrough: memory encryption \
        (mem_encrypt=on, or 'Memory Encryption Features active' in the kernel log), a device that the firmware marks \
        as untrusted, or a script, Tuned profile or MachineConfig that writes to /sys/kernel/iommu_groups/N/type. On arm64 the kernel only accepts \
        iommu.passthrough=1.",
    openshift: ARGUMENTS_ON_OPENSHIFT,
    host: "Show what the kernel decided: journalctl -k | grep -i -e iommu -e 'memory encryption'. Find scripts that \
        write a type: grep -r iommu_groups /etc. A type written by hand lasts until the next reboot.",
    ..Remedy::all("")
};

/// What to do if passthrough is active and not configured.
const NOT_CONFIGURED: Remedy = Remedy {
    any: "Add iommu=pt (on arm64: iommu.passthrough=1) to the kernel command line and remove arguments that request \
        translation, so that the next boot keeps passthrough.",
    openshift: ARGUMENTS_ON_OPENSHIFT,
    host: ARGUMENTS_ON_A_HOST,
    ..Remedy::all("")
};
