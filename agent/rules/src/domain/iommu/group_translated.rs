//! Functions whose IOMMU group translates their DMA.

use rdma_health_node::{
    Function, Node,
    cmdline::Domain as Configured,
    iommu::{DomainType, type_path},
    pci::Role,
    platform::Architecture,
};

use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Severity, Subject, Writer, domain::probe,
    draft::Draft, policy::Exception, remedy::kernel_argument,
};

use super::{
    cmdline_mismatch::not_active,
    mode::{inferred, reports_invalidation, requests_passthrough, with_configuration},
    pending,
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
        &WITHOUT_GPUDIRECT,
        &GPUS_LENT,
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
        virtual machine. In a virtual machine without GPUs, translation is a choice of the guest and costs little. A host that lends all its GPUs needs the IOMMU; \
        iommu=pt keeps it on for guests and spares the adapters of the host the translation, which is information there. The IOMMU of IBM Z, \
        which always translates before Linux 6.15, is not judged unless expect.passthrough is true.",
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

static WITHOUT_GPUDIRECT: Exception = Exception {
    condition: "if no GPU of the node supports GPUDirect RDMA (GeForce, GB10)",
    severities: Severities::INFO.gpudirect(Severity::Critical),
};

static GPUS_LENT: Exception = Exception {
    condition: "on a host that lends all its GPUs to virtual machines (vfio-pci)",
    severities: Severities::INFO.gpudirect(Severity::Critical),
};

static GUEST_WITHOUT_GPUS: Exception = Exception {
    condition: "in a virtual machine without GPUs",
    severities: Severities::INFO.gpudirect(Severity::Critical),
};

/// Whether the IOMMU is that of an IBM Z, which translates for each PCI function: Linux offers passthrough there from 6.15 on only.
fn is_of_mainframe(node: &Node) -> bool {
    let units = node.iommu.units.known();
    units.is_some_and(|units| units.iter().any(|unit| unit.starts_with("s390-iommu")))
}

fn group_translated(node: &Node, expectations: &Expectations) -> Vec<Draft> {
    if is_of_mainframe(node) && expectations.passthrough != Some(true) {
        return Vec::new();
    }
    let functions: Vec<_> = node.dma_functions().collect();
    let is_reached = |function: &Function<'_>| function.role == Role::Gpu && !function.is_without_gpudirect();
    let with_gpus =
        functions.iter().any(is_reached) && functions.iter().any(|function| function.role == Role::Rdma);
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
            return Some(finding.remedy(not_active(&functions)));
        }
        Some(pending::with_file(finding, node).written_remedy(passthrough_here(node)))
    });
    let inferred = functions.iter().filter_map(|function| {
        if inferred(node, function)? != Configured::Translated {
            return None;
        }
        let (number, kernel) = (function.group?, node.host.kernel.known()?);
        let message = format!(
            "{} is translated, expected identity: it is in IOMMU group {number}, the command line does not request passthrough, and Linux \
             {kernel} then translates (it does not report the type of the group)",
            function.title()
        );
        let finding = Draft::new(&GROUP_TRANSLATED, Subject::device(function.subject()), message)
            .exception(exception(node, expectations, function, with_gpus))
            .evidence(type_path(number), "no such file")
            .written_remedy(passthrough_here(node));
        Some(pending::with_file(with_configuration(finding, node), node))
    });
    found.chain(inferred).collect()
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
        _ if node.gpus().next().is_some() => Some(&WITHOUT_GPUDIRECT),
        _ if is_host_of_gpus(node) => Some(&GPUS_LENT),
        _ => is_guest_without_gpus.then_some(&GUEST_WITHOUT_GPUS),
    }
}

/// Whether the node has GPUs and lends all of them.
fn is_host_of_gpus(node: &Node) -> bool {
    let functions = node.functions();
    let mut gpus = functions
        .iter()
        .filter(|function| function.role == Role::Gpu)
        .peekable();
    gpus.peek().is_some() && gpus.all(|gpu| gpu.lent_to.is_some())
}

/// How to get passthrough on this node; `None` if too little is known about it.
fn passthrough_here(node: &Node) -> Option<String> {
    if let Some(forgotten) = pending::remedy(node) {
        return Some(forgotten);
    }
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
    let says = |argument: &str, values: [&str; 4], word: &str| {
        let value = argument.strip_prefix("iommu.passthrough=");
        let words = argument.strip_prefix("iommu=");
        value.is_some_and(|value| values.contains(&value))
            || words.is_some_and(|words| words.split(',').any(|found| found == word))
    };
    let is_off = |argument: &str| says(argument, ["0", "n", "N", "off"], "nopt");
    let is_on = |argument: &str| says(argument, ["1", "y", "Y", "on"], "pt");
    let wanted = arguments.iter().find(|argument| is_on(argument))?;
    let undone_by = arguments.iter().rfind(|argument| is_off(argument))?;
    Some((wanted, undone_by))
}
