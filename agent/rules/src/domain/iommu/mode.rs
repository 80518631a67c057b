//! What shows the IOMMU mode in addition to the type of a group: the command line, the kernel log and the release of the kernel.

use rdma_health_node::{
    Function, Node,
    cmdline::Domain as Configured,
    iommu::{DomainType, logged_default},
    nvidia::version,
    platform::Architecture,
    words::{count, printable},
};

use crate::draft::Draft;

/// The mode of a function on x86 whose group has no type, because the kernel is older than 4.19. Such a kernel translates for every group,
/// unless the command line requests passthrough (drivers/iommu/{intel,amd}_iommu.c of Linux 3.10 to 4.18), and `intel-iommu` logs what it
/// maps identically.
pub(super) fn inferred(node: &Node, function: &Function<'_>) -> Option<Configured> {
    const FIRST_WITH_TYPES: (u32, u32) = (4, 19);
    let group = node.iommu.groups.known()?.get(&function.group?)?;
    let release = version(node.host.kernel.known()?)?;
    let is_old = group.domain.is_absent() && release < FIRST_WITH_TYPES;
    if !is_old || node.platform().architecture != Some(Architecture::X86) || node.is_virtual_machine() {
        return None;
    }
    let is_requested = node.requested_dma() == Some(Configured::Passthrough);
    if is_mapped_identically(node, function) {
        return Some(Configured::Passthrough);
    }
    let is_configured = node.host.iommu_arguments.known().is_some();
    (is_configured && !is_requested).then_some(Configured::Translated)
}

/// Whether the kernel distinguishes DMA (strict) from DMA-FQ (lazy): from Linux 5.15 on, and if it does, because distributions
/// have it in older kernels.
pub(super) fn reports_invalidation(node: &Node) -> bool {
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
        group.is_some_and(|group| group.domain.is_absent()) && inferred(node, function).is_none()
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
    let logged = match default_in_log(node) {
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
    let is_mapped = |function: &Function<'_>| is_mapped_identically(node, function);
    node.dma_functions().filter(is_mapped).count()
}

fn is_mapped_identically(node: &Node, function: &Function<'_>) -> bool {
    let mut lines = node.kernel_log.known().into_iter().flat_map(|log| &log.lines);
    lines.any(|line| line.contains("dentity mapping for device") && line.contains(function.address))
}

/// Adds what is configured and what the kernel logged. They explain the mode; the type of the group decides it.
pub(super) fn with_configuration(mut finding: Draft, node: &Node) -> Draft {
    if let Some(arguments) = node.host.iommu_arguments.known() {
        finding = finding.evidence("/proc/cmdline", arguments_in_words(&arguments.arguments));
    }
    if let Some((_, text)) = default_in_log(node) {
        finding = finding.evidence("/dev/kmsg", format!("iommu: Default domain type: {text}"));
    }
    finding
}

/// The default mode that the kernel logged, and how it said so.
pub(super) fn default_in_log(node: &Node) -> Option<(Configured, String)> {
    let log = node.kernel_log.known()?;
    logged_default(&log.lines.join("\n"))
}

/// The arguments of the kernel command line that concern the IOMMU.
pub(in super::super) fn arguments_in_words(arguments: &[String]) -> String {
    match arguments {
        [] => "no IOMMU argument".to_owned(),
        some => some.join(" "),
    }
}

/// Whether the command line requests passthrough.
pub(in super::super) fn requests_passthrough(node: &Node) -> bool {
    node.requested_dma() == Some(Configured::Passthrough)
}
