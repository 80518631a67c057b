//! How DMA addresses are handled.

use std::collections::BTreeMap;

use rdma_health_node::{
    Function, Node,
    cmdline::Domain as Configured,
    iommu::{DomainType, logged_default, type_path},
    nvidia::version,
    pci::Role,
    platform::Architecture,
    words::{count, printable},
};

use crate::{
    Domain, Expectations, FindingCase, Policy, Remedy, Rule, Severities, Severity, Subject, Writer,
    domain::probe, draft::Draft, policy::Exception, remedy::kernel_argument,
};

/// `iommu-group-translated`.
pub static GROUP_TRANSLATED: Rule = Rule {
    id: "iommu-group-translated",
    domain: Domain::Iommu,
    policy: Policy::of(
        Severities::WARNING
            .gpudirect(Severity::Critical)
            .tcp_only(Severity::Info),
    )
    .except(&[
        &EXPECTED_TRANSLATED,
        &EXPECTED_OR_FAILED,
        &WITH_GPUS,
        &GUEST_WITHOUT_GPUS,
    ]),
    title: "The IOMMU translates DMA of an RDMA device or GPU",
    explanation: "The IOMMU group of the device has type DMA-FQ (translated, lazy invalidation) or DMA (translated, \
        strict invalidation). Only type identity is passthrough. With translation, the IOMMU looks up the address of \
        every transfer. Peer-to-peer traffic between GPU and NIC goes through the root complex or fails: NCCL \
        reports IBV_WC_LOC_PROT_ERR(4) vendor_err=81 or falls back to TCP. RDMA between host memory often still \
        works, but slower.",
    remedy: Remedy {
        any: "Boot with iommu=pt (on arm64: iommu.passthrough=1), then check again.",
        openshift: "Apply a MachineConfig with kernelArguments [iommu=pt] to the pool of the node (on Intel: \
            [intel_iommu=on, iommu=pt]).",
        kubernetes: "Set the argument in the node image or with your provisioning tool, as on a host. Then drain and \
            reboot each node: kubectl drain NODE --ignore-daemonsets --delete-emptydir-data",
        host: "Debian, Ubuntu: add iommu=pt to GRUB_CMDLINE_LINUX in /etc/default/grub and run update-grub. SUSE: \
            edit the same file and run grub2-mkconfig -o /boot/grub2/grub.cfg. RHEL, Fedora: grubby \
            --update-kernel=ALL --args=iommu=pt. Then reboot.",
    },
    false_alarms: "Groups of other devices (SATA, USB) are ignored, and so are GPUs that are bound to vfio-pci for a \
        virtual machine. In a virtual machine without GPUs, translation is a choice of the guest and costs little.",
    inputs: &[
        Writer::Hardware,
        Writer::HostRoot,
        Writer::Configuration,
        Writer::Agent,
    ],
    judge: group_translated,
};

static EXPECTED_TRANSLATED: Exception = Exception {
    condition: "if expect.passthrough is false and no probe of the device failed",
    severities: Severities::always(Severity::Info),
};

static EXPECTED_OR_FAILED: Exception = Exception {
    condition: "if expect.passthrough is true or a probe of the device failed",
    severities: Severities::CRITICAL.tcp_only(Severity::Info),
};

static WITH_GPUS: Exception = Exception {
    condition: "on a node with GPUs and RDMA devices",
    severities: Severities::WARNING
        .auto(Severity::Critical)
        .gpudirect(Severity::Critical)
        .tcp_only(Severity::Info),
};

static GUEST_WITHOUT_GPUS: Exception = Exception {
    condition: "in a virtual machine without GPUs",
    severities: Severities::INFO.gpudirect(Severity::Critical),
};

fn group_translated(node: &Node, expectations: &Expectations) -> Vec<Draft> {
    let functions: Vec<_> = node.dma_functions().collect();
    let any = |role| functions.iter().any(|function| function.role == role);
    let with_gpus = any(Role::Gpu) && any(Role::Rdma);
    // Several RDMA devices may share a function, and several functions a group; each function is reported once.
    let translated = functions.iter().filter(|function| function.is_translated());
    let found = translated.filter_map(|function| {
        let (number, domain) = (function.group?, function.dma?);
        let invalidation = match domain {
            // Before Linux 5.15, DMA means either.
            DomainType::Strict if !reports_invalidation(node) => "strict or lazy",
            DomainType::Strict => "strict",
            _ => "lazy",
        };
        let message = format!(
            "{} is in IOMMU group {number} of type {} (translated, {invalidation} invalidation), expected identity",
            function.title(),
            domain.as_str()
        );
        let finding = Draft::new(&GROUP_TRANSLATED, Subject::device(function.subject()), message)
            .exception(exception(node, expectations, function, with_gpus))
            .evidence(type_path(number), domain.as_str());
        let finding = with_configuration(finding, node);
        // Do not suggest an argument that is already set.
        if requests_passthrough(node) {
            return Some(finding.remedy(NOT_ACTIVE));
        }
        Some(finding.written_remedy(passthrough_here(node)))
    });
    found.collect()
}

/// Whether the kernel distinguishes DMA (strict) from DMA-FQ (lazy): from Linux 5.15 on, and if it does, because distributions
/// have it in older kernels.
fn reports_invalidation(node: &Node) -> bool {
    let release = node.host.kernel.known().and_then(|release| version(release));
    let mut groups = node.iommu.groups.known().into_iter().flatten();
    release.is_none_or(|release| release >= (5, 15))
        || groups.any(|(_, group)| group.domain.known() == Some(&DomainType::Lazy))
}

/// What is known about the IOMMU mode if an IOMMU is active and the kernel does not report the type of the groups (before Linux
/// 4.19). `None` if it does.
pub(crate) fn type_not_reported(node: &Node) -> Option<String> {
    let groups = node.iommu.groups.known()?;
    let is_silent = |function: &Function<'_>| {
        let group = function.group.and_then(|group| groups.get(&group));
        group.is_some_and(|group| group.domain.is_absent())
    };
    let function = node.dma_functions().find(is_silent)?;
    let kernel = node
        .host
        .kernel
        .known()
        .map_or("this kernel".to_owned(), |kernel| format!("Linux {kernel}"));
    let configured = match node.host.iommu_arguments.known() {
        Some(arguments) => format!(
            "the command line has {}",
            arguments_in_words(&arguments.arguments)
        ),
        None => "the command line could not be read".into(),
    };
    let log = node.kernel_log.known();
    let logged = match log.and_then(|log| logged_default(&log.lines.join("\n"))) {
        Some((_, text)) => format!("the kernel log says: Default domain type: {text}"),
        None => match mapped_identically(node) {
            0 => "the kernel log does not say".into(),
            some => format!(
                "the kernel log reports an identity mapping (passthrough) for {some} of {}",
                count(node.dma_functions().count(), "RDMA function")
            ),
        },
    };
    Some(format!(
        "{kernel} does not report the IOMMU mode of {}; {configured}, {logged}",
        function.title()
    ))
}

/// Says that an RDMA function or GPU of the host has an IOMMU mode in which nothing is known about its DMA: its driver did not
/// get it (`blocked`, `unmanaged`), or this program does not know it.
pub(crate) fn mode_not_recognised(node: &Node) -> Option<String> {
    let mut functions = node.dma_functions();
    let (function, domain) = functions.find_map(|function| {
        let domain = function.dma?;
        let is_known = domain.is_translated() || *domain == DomainType::Identity;
        (!is_known).then_some((function, domain))
    })?;
    let meaning = match domain {
        DomainType::Blocked => "the IOMMU blocks all of its DMA",
        DomainType::Unmanaged => "a driver manages its addresses itself",
        _ => "a mode that rdma-health does not know",
    };
    Some(format!(
        "the IOMMU mode of {} is \"{}\": {meaning}",
        function.title(),
        printable(domain.as_str())
    ))
}

/// The number of RDMA functions and GPUs for which `intel-iommu` logged an identity mapping, as it did before Linux 5.8.
fn mapped_identically(node: &Node) -> usize {
    let Some(log) = node.kernel_log.known() else {
        return 0;
    };
    let is_mapped = |function: &Function<'_>| {
        let mut lines = log.lines.iter();
        lines.any(|line| line.contains("dentity mapping for device") && line.contains(function.address))
    };
    node.dma_functions().filter(is_mapped).count()
}

fn exception(
    node: &Node,
    expectations: &Expectations,
    function: &Function<'_>,
    with_gpus: bool,
) -> Option<&'static Exception> {
    let is_guest_without_gpus =
        node.is_virtual_machine() && !function.is_software && node.gpus().next().is_none();
    let probe_failed = function.names.iter().any(|name| probe::failed_on(node, name));
    match expectations.passthrough {
        Some(false) if !probe_failed => Some(&EXPECTED_TRANSLATED),
        expected if probe_failed || expected == Some(true) => Some(&EXPECTED_OR_FAILED),
        _ if with_gpus => Some(&WITH_GPUS),
        _ => is_guest_without_gpus.then_some(&GUEST_WITHOUT_GPUS),
    }
}

/// How to get passthrough on this node; `None` if too little is known about it.
fn passthrough_here(node: &Node) -> Option<String> {
    let platform = node.platform();
    if let Some((wanted, undone_by)) = contradicted(node) {
        let commands = kernel_argument::remove(undone_by, platform);
        return Some(format!(
            "Remove {undone_by} from the kernel command line: it overrides {wanted}, which is there too. Then reboot and check \
            again.\n{commands}"
        ));
    }
    Some(match platform.architecture? {
        Architecture::X86 => {
            let commands = kernel_argument::add("iommu=pt", platform);
            format!("Boot with iommu=pt, then check again.\n{commands}")
        }
        Architecture::Arm64 => {
            let commands = kernel_argument::add("iommu.passthrough=1", platform);
            format!("Boot with iommu.passthrough=1 (arm64 ignores iommu=pt), then check again.\n{commands}")
        }
    })
}

/// An argument that requests passthrough and the later one that undoes it.
fn contradicted(node: &Node) -> Option<(&str, &str)> {
    let arguments = &node.host.iommu_arguments.known()?.arguments;
    let is_off = |argument: &str| {
        let value = argument.strip_prefix("iommu.passthrough=");
        value.is_some_and(|value| matches!(value, "0" | "n" | "N" | "off"))
            || argument
                .strip_prefix("iommu=")
                .is_some_and(|values| values.split(',').any(|value| value == "nopt"))
    };
    let is_on = |argument: &str| {
        let value = argument.strip_prefix("iommu.passthrough=");
        value.is_some_and(|value| matches!(value, "1" | "y" | "Y" | "on"))
            || argument
                .strip_prefix("iommu=")
                .is_some_and(|values| values.split(',').any(|value| value == "pt"))
    };
    let wanted = arguments.iter().find(|argument| is_on(argument))?;
    let undone_by = arguments.iter().rfind(|argument| is_off(argument))?;
    Some((wanted, undone_by))
}

/// Adds what is configured and what the kernel logged. They explain the mode; the type of the group decides it.
fn with_configuration(mut finding: Draft, node: &Node) -> Draft {
    if let Some(arguments) = node.host.iommu_arguments.known() {
        finding = finding.evidence("/proc/cmdline", arguments_in_words(&arguments.arguments));
    }
    if let Some((_, text)) = node
        .kernel_log
        .known()
        .and_then(|log| logged_default(&log.lines.join("\n")))
    {
        finding = finding.evidence("/dev/kmsg", format!("iommu: Default domain type: {text}"));
    }
    finding
}

/// The arguments of the kernel command line that concern the IOMMU.
pub(super) fn arguments_in_words(arguments: &[String]) -> String {
    match arguments {
        [] => "no IOMMU argument".to_owned(),
        some => some.join(" "),
    }
}

/// Whether the command line requests passthrough.
fn requests_passthrough(node: &Node) -> bool {
    node.requested_dma() == Some(Configured::Passthrough)
}

/// Whether the kernel logged translation as its default and the command line sets no mode.
fn default_is_translated(node: &Node) -> bool {
    let is_set = node.host.iommu_arguments.known().is_none() || node.requested_dma().is_some();
    let log = node.kernel_log.known();
    let logged = log.and_then(|log| logged_default(&log.lines.join("\n")));
    !is_set && logged.is_some_and(|(domain, _)| domain == Configured::Translated)
}

const ARGUMENTS_ON_OPENSHIFT: &str = "List the kernel arguments of each MachineConfig: oc get mc -o \
    custom-columns=NAME:.metadata.name,ARGUMENTS:.spec.kernelArguments. Show those of the next boot: oc debug \
    node/NODE -- chroot /host rpm-ostree kargs";

const ARGUMENTS_ON_A_HOST: &str =
    "Show the kernel arguments of the next boot: grep -r iommu /etc/default/grub* /boot/loader/entries";

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
        Configured::Passthrough => (FindingCase::PassthroughNotActive, NOT_ACTIVE),
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
