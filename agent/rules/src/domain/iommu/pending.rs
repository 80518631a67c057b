//! Passthrough that the configuration of the boot loader requests, and that the running kernel was started without.

use rdma_health_node::{Node, boot::Configured, platform::Cluster};

use crate::{domain::iommu::mode::arguments_in_words, draft::Draft, remedy::kernel_argument};

/// What was forgotten: what makes the configuration of the boot loader from the file, and the reboot, or the reboot only. `None` where passthrough
/// is not configured, or the configuration is not that of the node's own files.
pub(super) fn remedy(node: &Node) -> Option<String> {
    let platform = node.platform();
    let waiting = node.passthrough_waits_in()?;
    if platform.cluster == Some(Cluster::OpenShift) {
        return None;
    }
    let (argument, file) = (argument(waiting), &waiting.file);
    if waiting.is_of_loader {
        let commands = kernel_argument::reboot(platform);
        return Some(format!(
            "Reboot: {argument} is in {file} already, and the running kernel was started before that, or from another entry. If /proc/cmdline does \
             not have it after the reboot, find out what the machine boots from (efibootmgr -v; grubby --default-kernel; bootctl status).\n{commands}"
        ));
    }
    let commands = kernel_argument::write_again(argument, file, platform);
    let read_by_loader = of_loader(node).map_or_else(String::new, |loader| {
        format!(" ({} does not have it)", loader.file)
    });
    Some(format!(
        "Write the configuration of the boot loader again, then reboot: {argument} is in {file} already, but that file is not what the machine boots \
         from{read_by_loader}.\n{commands}"
    ))
}

/// Adds the file in which passthrough waits.
pub(super) fn with_file(finding: Draft, node: &Node) -> Draft {
    let Some(waiting) = node.passthrough_waits_in() else {
        return finding;
    };
    let finding = finding.evidence(&waiting.file, arguments_in_words(&waiting.arguments.arguments));
    match of_loader(node).filter(|_| !waiting.is_of_loader) {
        Some(loader) => finding.evidence(&loader.file, arguments_in_words(&loader.arguments.arguments)),
        None => finding,
    }
}

/// The first file that the boot loader reads.
fn of_loader(node: &Node) -> Option<&Configured> {
    node.boot.arguments.known()?.iter().find(|file| file.is_of_loader)
}

/// The argument that requests passthrough.
fn argument(waiting: &Configured) -> &str {
    let arguments = &waiting.arguments.arguments;
    let is_passthrough =
        |argument: &&String| argument.starts_with("iommu=") || argument.starts_with("iommu.passthrough=");
    arguments
        .iter()
        .rfind(is_passthrough)
        .map_or("iommu=pt", String::as_str)
}
