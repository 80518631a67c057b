//! Where the node runs: processor, distribution and cluster, as far as they decide which command applies.

use crate::Node;

/// What decides which command applies on a node. `None` if it is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Platform {
    /// The architecture of the processor.
    pub architecture: Option<Architecture>,
    /// The family of the distribution, from the kernel release.
    pub distribution: Option<Distribution>,
    /// What runs jobs on the node, from its processes.
    pub cluster: Option<Cluster>,
}

/// The architecture of a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// Intel or AMD.
    X86,
    /// 64-bit Arm.
    Arm64,
}

/// A family of distributions that configure the boot loader alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distribution {
    /// RHEL, Fedora, Amazon Linux and those built from them.
    RedHat,
    /// Debian and Ubuntu.
    Debian,
    /// SUSE Linux Enterprise and openSUSE.
    Suse,
}

/// What runs jobs on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cluster {
    /// OpenShift: CRI-O on an image-based system.
    OpenShift,
    /// Another Kubernetes.
    Kubernetes,
    /// Neither: Slurm, or no scheduler.
    Host,
}

impl Node {
    /// Where the node runs.
    pub fn platform(&self) -> Platform {
        let release = self.host.kernel.known().map_or("", String::as_str);
        Platform {
            architecture: self.architecture(release),
            distribution: distribution(release),
            cluster: self.cluster(),
        }
    }

    fn architecture(&self, release: &str) -> Option<Architecture> {
        if ["x86_64", "amd64"].iter().any(|word| release.contains(word)) {
            return Some(Architecture::X86);
        }
        if ["aarch64", "arm64", "64k"]
            .iter()
            .any(|word| release.contains(word))
        {
            return Some(Architecture::Arm64);
        }
        let unit = self.iommu.units.known()?.first()?;
        if unit.starts_with("smmu") || unit.starts_with("arm-smmu") {
            Some(Architecture::Arm64)
        } else {
            (unit.starts_with("dmar") || unit.starts_with("ivhd")).then_some(Architecture::X86)
        }
    }

    fn cluster(&self) -> Option<Cluster> {
        let runtimes = self.limits.runtimes.known()?;
        let runs = |names: &[&str]| {
            runtimes
                .iter()
                .any(|runtime| names.contains(&runtime.name.as_str()))
        };
        let is_image_based = self
            .host
            .cmdline
            .known()
            .is_some_and(|line| line.contains("ostree="));
        if runs(&["crio"]) && is_image_based {
            Some(Cluster::OpenShift)
        } else if runs(&["kubelet", "crio", "k3s-server", "k3s-agent"]) {
            Some(Cluster::Kubernetes)
        } else {
            // A tree without processes says nothing.
            (self.live || !runtimes.is_empty()).then_some(Cluster::Host)
        }
    }
}

/// The distribution that built a kernel, by its release (`5.14.0-427.13.1.el9_4.x86_64`).
fn distribution(release: &str) -> Option<Distribution> {
    let has = |words: &[&str]| words.iter().any(|word| release.contains(word));
    if has(&[".el", ".fc", ".amzn"]) {
        Some(Distribution::RedHat)
    } else if release.ends_with("-default") {
        Some(Distribution::Suse)
    } else {
        let of_debian = [
            "-generic",
            "-amd64",
            "-arm64",
            "-nvidia",
            "-azure",
            "-gcp",
            "-aws",
            "-oracle",
            "-lowlatency",
        ];
        has(&of_debian).then_some(Distribution::Debian)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_names_its_distribution() {
        for (release, expected) in [
            ("5.14.0-427.13.1.el9_4.x86_64", Some(Distribution::RedHat)),
            ("6.1.94-99.176.amzn2023.x86_64", Some(Distribution::RedHat)),
            ("6.1.0-37-amd64", Some(Distribution::Debian)),
            ("5.15.0-1058-nvidia", Some(Distribution::Debian)),
            ("6.4.0-150600.23.25-default", Some(Distribution::Suse)),
            ("6.6.72+", None),
        ] {
            assert_eq!(distribution(release), expected, "{release}");
        }
    }
}
