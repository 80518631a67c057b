//! Where the node runs: processor, distribution and cluster, as far as they decide which command applies.

use crate::{Node, os_release::Release};

/// What decides which command applies on a node. `None` if it is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Platform {
    /// The architecture of the processor.
    pub architecture: Option<Architecture>,
    /// The distribution, from os-release(5), otherwise from the kernel release.
    pub distribution: Option<Distribution>,
    /// What runs jobs on the node, from its processes.
    pub cluster: Option<Cluster>,
    /// Whether it may be a node of OpenShift, as far as its processes do not show.
    pub may_be_openshift: bool,
}

/// The architecture of a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// Intel or AMD.
    X86,
    /// 64-bit Arm.
    Arm64,
}

/// Distributions that are configured alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distribution {
    /// RHEL, Fedora, Amazon Linux and those built from them.
    RedHat,
    /// Fedora and RHEL `CoreOS` and other image-based systems of rpm-ostree.
    CoreOs,
    /// Debian and Ubuntu.
    Debian,
    /// SUSE Linux Enterprise and openSUSE.
    Suse,
    /// SUSE Linux Micro and openSUSE `MicroOS`, whose root file system is read-only.
    SuseMicro,
    /// Talos: configured through its API only, without a shell.
    Talos,
    /// Flatcar Container Linux.
    Flatcar,
    /// Bottlerocket: configured through its API.
    Bottlerocket,
    /// Google's Container-Optimized OS, which restores `/etc` at each boot.
    ContainerOptimized,
}

impl Distribution {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::RedHat,
        Self::CoreOs,
        Self::Debian,
        Self::Suse,
        Self::SuseMicro,
        Self::Talos,
        Self::Flatcar,
        Self::Bottlerocket,
        Self::ContainerOptimized,
    ];

    /// Whether files in `/etc` survive a reboot and systemd reads them.
    pub fn has_own_etc(self) -> bool {
        !matches!(self, Self::Talos | Self::Bottlerocket | Self::ContainerOptimized)
    }
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

/// Whether an RDMA device is that of a virtual function that speeds up the Ethernet network of a virtual machine of Azure, whose udev rules call
/// it `mlx5_an0`.
pub fn is_accelerated_networking(device: &str) -> bool {
    let number = device.rsplit_once("_an").map(|(_, number)| number);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

impl Node {
    /// Where the node runs.
    pub fn platform(&self) -> Platform {
        let release = self.host.kernel.known().map_or("", String::as_str);
        let (distribution, cluster) = (self.distribution(release), self.cluster());
        Platform {
            architecture: self.architecture(release),
            distribution,
            cluster,
            may_be_openshift: match cluster {
                Some(cluster) => cluster == Cluster::OpenShift,
                None => self.may_be_openshift(distribution),
            },
        }
    }

    /// Whether a node whose processes are not known may be one of OpenShift. Its nodes boot images of `CoreOS`, which os-release(5) names; without that
    /// file, the kernel is one of Red Hat.
    fn may_be_openshift(&self, distribution: Option<Distribution>) -> bool {
        match distribution {
            None | Some(Distribution::CoreOs) => true,
            Some(Distribution::RedHat) => self.os_release.release.known().is_none(),
            Some(_) => false,
        }
    }

    /// Whether programs of this node may run in containers: a container runtime or a kubelet runs, or the job is in a container.
    /// Unknown counts as yes.
    pub fn may_run_containers(&self) -> bool {
        self.job.is_some()
            || self.platform().cluster != Some(Cluster::Host)
            || self.runs(&["containerd", "dockerd"])
    }

    fn runs(&self, names: &[&str]) -> bool {
        let runtimes = self.limits.runtimes.known().into_iter().flatten();
        runtimes
            .into_iter()
            .any(|runtime| names.contains(&runtime.name.as_str()))
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

    /// Whether the system boots an image of ostree.
    fn is_ostree(&self) -> bool {
        let cmdline = self.host.cmdline.known();
        cmdline.is_some_and(|line| line.contains("ostree="))
    }

    fn distribution(&self, release: &str) -> Option<Distribution> {
        let described = self.os_release.release.known().and_then(described);
        match described.or_else(|| distribution(release))? {
            Distribution::RedHat if self.is_ostree() => Some(Distribution::CoreOs),
            distribution => Some(distribution),
        }
    }

    fn cluster(&self) -> Option<Cluster> {
        let release = self.os_release.release.known();
        // The kubelets of these two always come with the cluster.
        if release.is_some_and(|release| matches!(release.id.as_str(), "rhcos" | "scos")) {
            return Some(Cluster::OpenShift);
        }
        let runtimes = self.limits.runtimes.known()?;
        if self.runs(&["crio"]) && self.is_ostree() {
            Some(Cluster::OpenShift)
        } else if self.runs(&["kubelet", "crio", "k3s-server", "k3s-agent"]) {
            Some(Cluster::Kubernetes)
        } else {
            // A tree without processes says nothing.
            (self.live || !runtimes.is_empty()).then_some(Cluster::Host)
        }
    }
}

/// The distribution that os-release(5) describes.
fn described(release: &Release) -> Option<Distribution> {
    let is_variant =
        |name: &str| release.variant.as_deref() == Some(name) || release.image.as_deref() == Some(name);
    Some(match release.id.as_str() {
        "rhcos" | "scos" | "fedora-coreos" => Distribution::CoreOs,
        "rhel" | "centos" | "fedora" if is_variant("coreos") => Distribution::CoreOs,
        "rhel" | "centos" | "fedora" | "rocky" | "almalinux" | "ol" | "amzn" | "scientific" | "circle"
        | "eurolinux" | "virtuozzo" | "openeuler" | "anolis" | "alinux" | "tencentos" | "opencloudos" => {
            Distribution::RedHat
        }
        "debian" | "ubuntu" | "linuxmint" | "pop" | "devuan" | "kali" => Distribution::Debian,
        "sle-micro" | "sl-micro" | "suse-microos" | "opensuse-microos" | "opensuse-leap-micro" => {
            Distribution::SuseMicro
        }
        "talos" => Distribution::Talos,
        "flatcar" | "coreos" => Distribution::Flatcar,
        "bottlerocket" => Distribution::Bottlerocket,
        "cos" => Distribution::ContainerOptimized,
        id if id.starts_with("sle") || id.starts_with("opensuse") => Distribution::Suse,
        _ => return None,
    })
}

/// The distribution that built a kernel, by its release (`5.14.0-427.13.1.el9_4.x86_64`).
fn distribution(release: &str) -> Option<Distribution> {
    let has = |words: &[&str]| words.iter().any(|word| release.contains(word));
    if has(&[".el", ".fc", ".amzn"]) {
        Some(Distribution::RedHat)
    } else if release.ends_with("-default") {
        Some(Distribution::Suse)
    } else if release.ends_with("-talos") {
        Some(Distribution::Talos)
    } else if release.ends_with("-flatcar") || release.ends_with("-coreos") {
        Some(Distribution::Flatcar)
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
            ("6.6.43-talos", Some(Distribution::Talos)),
            ("6.6.48-flatcar", Some(Distribution::Flatcar)),
            ("6.6.72+", None),
        ] {
            assert_eq!(distribution(release), expected, "{release}");
        }
    }

    #[test]
    fn os_release_names_its_distribution() {
        for (id, variant, expected) in [
            ("ubuntu", None, Some(Distribution::Debian)),
            ("rocky", None, Some(Distribution::RedHat)),
            ("amzn", None, Some(Distribution::RedHat)),
            ("fedora", Some("coreos"), Some(Distribution::CoreOs)),
            ("fedora", Some("server"), Some(Distribution::RedHat)),
            ("rhcos", None, Some(Distribution::CoreOs)),
            ("sles", None, Some(Distribution::Suse)),
            ("sle_hpc", None, Some(Distribution::Suse)),
            ("sl-micro", None, Some(Distribution::SuseMicro)),
            ("talos", None, Some(Distribution::Talos)),
            (
                "bottlerocket",
                Some("aws-k8s-1.31-nvidia"),
                Some(Distribution::Bottlerocket),
            ),
            ("cos", None, Some(Distribution::ContainerOptimized)),
            ("nixos", None, None),
        ] {
            let release = Release {
                id: id.into(),
                variant: variant.map(Into::into),
                ..Release::default()
            };
            assert_eq!(described(&release), expected, "{id}");
        }
    }
}
