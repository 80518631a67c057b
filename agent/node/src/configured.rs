//! What the configuration of the boot loader requests, compared with what the running kernel was started with.

use rdma_health_kernel::{
    boot::Configured,
    cmdline::{Domain, IommuArguments},
};

use crate::{Node, platform::Architecture};

impl Node {
    /// The file that requests passthrough although the running kernel was started without it: one that the boot loader reads, otherwise the last one
    /// that people edit.
    pub fn passthrough_waits_in(&self) -> Option<&Configured> {
        if self.requested_dma() == Some(Domain::Passthrough) {
            return None;
        }
        let files = self.boot.arguments.known()?;
        let mode = |file: &Configured| self.mode_of(&file.arguments);
        let of_loader = |file: &&Configured| file.is_of_loader && mode(file) == Some(Domain::Passthrough);
        let edited = || {
            let mut edited = files.iter().filter(|file| !file.is_of_loader);
            let last = edited.rfind(|file| mode(file).is_some());
            last.filter(|file| mode(file) == Some(Domain::Passthrough))
        };
        files.iter().find(of_loader).or_else(edited)
    }

    /// The IOMMU mode that arguments request on this node. arm64 ignores `iommu=`, which is an option of x86
    /// (Documentation/admin-guide/kernel-parameters.txt).
    pub(crate) fn mode_of(&self, arguments: &IommuArguments) -> Option<Domain> {
        if self.platform().architecture != Some(Architecture::Arm64) {
            return arguments.domain;
        }
        let all = arguments.arguments.iter().map(String::as_str);
        let respected: Vec<_> = all.filter(|argument| !argument.starts_with("iommu=")).collect();
        IommuArguments::parse(&respected.join(" ")).domain
    }
}
