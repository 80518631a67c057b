//! The kernel command line and its IOMMU arguments.
//!
//! Source: `/proc/cmdline`; meanings from the kernel's `Documentation/admin-guide/kernel-parameters.txt` and
//! `drivers/iommu/iommu.c`.

use serde::{Deserialize, Serialize};

/// The IOMMU configuration of the command line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IommuArguments {
    /// All relevant arguments, unchanged and in order.
    pub arguments: Vec<String>,
    /// The configured default domain type; `None` if the kernel's build decides.
    pub domain: Option<Domain>,
    /// Whether the IOMMU is disabled (`iommu=off`, `intel_iommu=off`, `amd_iommu=off`).
    pub off: bool,
    /// Whether `intel_iommu=on` is set; some kernels do not enable an Intel IOMMU without it.
    pub intel_on: bool,
    /// Strict (`iommu.strict=1`) or lazy (`0`) invalidation, or neither.
    pub strict: Option<bool>,
    /// Memory encryption enabled (`mem_encrypt=on`) or disabled (`off`); it disables passthrough.
    #[serde(default)]
    pub memory_encryption: Option<bool>,
}

/// A default domain type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Domain {
    /// DMA addresses are physical addresses; group type `identity`.
    Passthrough,
    /// DMA addresses are translated; group type `DMA` or `DMA-FQ`.
    Translated,
}

impl IommuArguments {
    /// Parses a command line. The last argument of a kind wins, as in the kernel.
    pub fn parse(cmdline: &str) -> Self {
        let mut found = Self::default();
        for argument in arguments(cmdline) {
            let Some((key, value)) = argument.split_once('=') else {
                continue;
            };
            // The kernel treats '-' and '_' in names as equal.
            match key.replace('-', "_").as_str() {
                // The x86 option is a comma-separated list, evaluated from left to right.
                "iommu" => value.split(',').for_each(|word| match word {
                    "pt" => found.domain = Some(Domain::Passthrough),
                    "nopt" => found.domain = Some(Domain::Translated),
                    "off" => found.off = true,
                    _ => {}
                }),
                "iommu.passthrough" => match boolean(value) {
                    Some(true) => found.domain = Some(Domain::Passthrough),
                    Some(false) => found.domain = Some(Domain::Translated),
                    None => {}
                },
                "iommu.strict" => found.strict = boolean(value).or(found.strict),
                "mem_encrypt" => found.memory_encryption = boolean(value).or(found.memory_encryption),
                "intel_iommu" => value.split(',').for_each(|word| match word {
                    "on" => (found.intel_on, found.off) = (true, false),
                    "off" => (found.intel_on, found.off) = (false, true),
                    // Deprecated spelling of iommu.strict=1.
                    "strict" => found.strict = Some(true),
                    _ => {}
                }),
                "amd_iommu" => value.split(',').for_each(|word| match word {
                    "off" => found.off = true,
                    "fullflush" => found.strict = Some(true),
                    _ => {}
                }),
                _ => continue,
            }
            found.arguments.push(argument.to_owned());
        }
        found
    }
}

/// The arguments for the kernel: everything after ` -- ` is for init.
fn arguments(cmdline: &str) -> impl Iterator<Item = &str> {
    words(cmdline).take_while(|argument| *argument != "--")
}

/// Splits a command line at white space outside double quotes.
fn words(cmdline: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    cmdline
        .split(move |c: char| {
            quoted ^= c == '"';
            c.is_whitespace() && !quoted
        })
        .filter(|argument| !argument.is_empty())
}

/// Replaces a hidden value.
const HIDDEN: &str = "<hidden>";

/// Arguments whose values contain no user, address, disk or secret; `-` and `_` are equal. Parameters of modules are listed one by
/// one: the kernel accepts any name after the name of a module.
const HARMLESS: &str = "\
    amd_iommu amd_iommu_dump amd_iommu_intr amd_pstate apparmor audit boot_image cgroup_disable cgroup_enable \
    cgroup_no_v1 clocksource console crashkernel default_hugepagesz efi enforcing fips hpet hugepages hugepagesz idle \
    init_on_alloc init_on_free intel_idle.max_cstate intel_iommu intel_pstate iommu iommu.forcedac iommu.passthrough \
    iommu.strict irqaffinity isolcpus loglevel mem mem_encrypt memmap mitigations modprobe.blacklist module_blacklist \
    net.ifnames nohz nohz_full nr_cpus numa numa_balancing panic pci pcie_acs_override pcie_aspm pcie_port_pm pcie_ports \
    processor.max_cstate rcu_nocbs selinux swiotlb transparent_hugepage tsc \
    ib_core.netns_mode ib_core.recv_queue_size ib_core.send_queue_size ib_ipoib.recv_queue_size ib_ipoib.send_queue_size \
    irdma.limits_sel irdma.resource_profile irdma.roce_ena kvm.ignore_msrs kvm.nx_huge_pages \
    mlx4_core.debug_level mlx4_core.enable_sys_tune mlx4_core.log_mtts_per_seg mlx4_core.log_num_mgm_entry_size \
    mlx4_core.log_num_mtt mlx4_core.log_num_qp mlx4_core.msi_x mlx4_core.num_vfs mlx4_core.port_type_array \
    mlx4_core.probe_vf mlx5_core.debug_mask mlx5_core.prof_sel nvme_core.default_ps_max_latency_us nvme_core.io_timeout \
    nvme_core.multipath nvidia.nvreg_enablegpufirmware nvidia.nvreg_enablemsi \
    nvidia.nvreg_enablepcierelaxedorderingmode nvidia.nvreg_enablestreammemops nvidia.nvreg_nvlinkdisable \
    nvidia.nvreg_openrmenableunsupportedgpus nvidia.nvreg_preservevideomemoryallocations \
    nvidia.nvreg_restrictprofilingtoadminusers nvidia.nvreg_usepageattributetable nvidia_drm.fbdev nvidia_drm.modeset \
    nvidia_peermem.peerdirect_support nvidia_peermem.persistent_api_support \
    vfio_iommu_type1.allow_unsafe_interrupts vfio_iommu_type1.dma_entry_limit vfio_pci.disable_idle_d3 \
    vfio_pci.disable_vga vfio_pci.enable_sriov vfio_pci.ids";

/// Arguments that [`IommuArguments`] evaluates.
const EVALUATED: [&str; 6] = [
    "amd_iommu",
    "intel_iommu",
    "iommu",
    "iommu.passthrough",
    "iommu.strict",
    "mem_encrypt",
];

/// A command line without values that could identify a user or contain a secret (`root=UUID=…`, `ip=…`, passwords). It
/// hides the values of all arguments that are not on a list of harmless ones, and all arguments for init. It is
/// idempotent.
pub fn without_secrets(cmdline: &str) -> String {
    let mut shown: Vec<String> = Vec::new();
    for argument in arguments(cmdline) {
        shown.push(match argument.split_once('=') {
            Some((key, value)) if is_shown(key, value) => argument.to_owned(),
            // With a quote before it, the kernel evaluates it and `IommuArguments` does not.
            Some((key, _)) if key.starts_with('"') && EVALUATED.contains(&normal(key).as_str()) => {
                HIDDEN.to_owned()
            }
            Some((key, _)) if is_argument_name(key) => format!("{}={HIDDEN}", key.trim_start_matches('"')),
            None if is_argument_name(argument) => argument.to_owned(),
            _ => HIDDEN.to_owned(),
        });
    }
    if words(cmdline).any(|word| word == "--") {
        shown.push(format!("-- {HIDDEN}"));
    }
    shown.join(" ")
}

/// Whether this looks like the name of a kernel argument; other text could contain anything.
fn is_argument_name(name: &str) -> bool {
    let name = name.trim_start_matches('"');
    (1..=40).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

/// Whether an argument is shown with its value: a listed one, whose value looks like a number, a word, a path, or a list of these.
fn is_shown(key: &str, value: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-,:+/@".contains(&b);
    let normal_key = normal(key);
    if EVALUATED.contains(&normal_key.as_str()) {
        return !key.starts_with('"');
    }
    HARMLESS.split_whitespace().any(|harmless| normal_key == harmless)
        && value
            .bytes()
            .all(|b| plain(b) && (b != b'@' || normal_key == "crashkernel" || normal_key == "memmap"))
}

/// The name of an argument as it is listed.
fn normal(key: &str) -> String {
    key.trim_start_matches('"').replace('-', "_").to_ascii_lowercase()
}

/// The kernel's `kstrtobool`: decided by the first letter, or the second after an `o`.
fn boolean(value: &str) -> Option<bool> {
    match value.as_bytes() {
        [b'1' | b'y' | b'Y' | b't' | b'T', ..] | [b'o' | b'O', b'n' | b'N', ..] => Some(true),
        [b'0' | b'n' | b'N' | b'f' | b'F', ..] | [b'o' | b'O', b'f' | b'F', ..] => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_last_argument_about_the_domain_wins() {
        for (cmdline, domain) in [
            ("quiet", None),
            ("iommu=pt", Some(Domain::Passthrough)),
            ("iommu=nopt iommu=pt", Some(Domain::Passthrough)),
            ("iommu=pt iommu.passthrough=0", Some(Domain::Translated)),
            (
                "iommu.passthrough=0 iommu=memaper=3,pt",
                Some(Domain::Passthrough),
            ),
            ("iommu.passthrough=on", Some(Domain::Passthrough)),
            ("iommu.passthrough=maybe", None),
            ("root=\"LABEL=a iommu=pt\" quiet", None),
            ("quiet -- iommu=pt", None),
        ] {
            assert_eq!(IommuArguments::parse(cmdline).domain, domain, "{cmdline}");
        }
    }

    #[test]
    fn off_and_strict_are_independent_of_the_domain() {
        let found = IommuArguments::parse("intel_iommu=on,sm_on iommu.strict=1 iommu=pt");
        assert!(found.intel_on && !found.off);
        assert_eq!(found.strict, Some(true));
        assert_eq!(
            found.arguments,
            ["intel_iommu=on,sm_on", "iommu.strict=1", "iommu=pt"]
        );
        assert!(IommuArguments::parse("amd_iommu=off").off);
        assert!(!IommuArguments::parse("intel_iommu=off intel_iommu=on").off);
        assert_eq!(
            IommuArguments::parse("mem_encrypt=on iommu=pt").memory_encryption,
            Some(true)
        );
    }

    #[test]
    fn values_that_could_identify_a_user_or_contain_a_secret_are_hidden() {
        let cmdline = "BOOT_IMAGE=/vmlinuz root=UUID=1f2e quiet ip=10.1.2.3::10.1.2.1 rd.luks.key=hunter2 \
            \"ignition.config.url=http://a b/?token=x\" intel_iommu=on mlx5_core.debug_mask=1 iommu=pt -- --password p";
        assert_eq!(
            without_secrets(cmdline),
            "BOOT_IMAGE=/vmlinuz root=<hidden> quiet ip=<hidden> rd.luks.key=<hidden> ignition.config.url=<hidden> \
             intel_iommu=on mlx5_core.debug_mask=1 iommu=pt -- <hidden>"
        );
    }

    #[test]
    fn a_word_that_is_not_a_name_and_a_parameter_that_is_not_listed_are_hidden() {
        let cmdline = "password:hunter2 alice@host /home/alice mlx5_core.password=hunter2 \
            nvidia.NVreg_RegistryDwords=\"PW=hunter2;x\" vfio-pci.ids=10de:1234 pci=\"hunter2;x\" \
            \"iommu=hunter2 pt\" memmap=4G@8G";
        assert_eq!(
            without_secrets(cmdline),
            "<hidden> <hidden> <hidden> mlx5_core.password=<hidden> nvidia.NVreg_RegistryDwords=<hidden> \
             vfio-pci.ids=10de:1234 pci=<hidden> <hidden> memmap=4G@8G"
        );
    }

    proptest! {
        #[test]
        fn hiding_keeps_the_iommu_arguments_and_is_idempotent(cmdline in "((iommu=|root=|-- |\"|[a-z =,.-]){0,9} ?){0,9}") {
            let hidden = without_secrets(&cmdline);
            prop_assert_eq!(without_secrets(&hidden), hidden.clone());
            prop_assert_eq!(IommuArguments::parse(&hidden), IommuArguments::parse(&cmdline));
        }

        #[test]
        fn the_arguments_that_matter_say_the_same_without_the_others(
            cmdline in "((intel_|amd_)?iommu(\\.strict|\\.passthrough)?=(pt|nopt|on|off|0|1|strict|,){0,3} |mem[-_]encrypt=o(n|ff) |\\PC{0,9} ?){0,9}",
        ) {
            let found = IommuArguments::parse(&cmdline);
            prop_assert!(found.arguments.iter().all(|argument| cmdline.contains(argument)));
            prop_assert_eq!(IommuArguments::parse(&found.arguments.join(" ")), found);
        }

        #[test]
        fn the_last_argument_of_a_kind_wins(passthrough: Vec<bool>) {
            let words: Vec<_> = passthrough.iter().map(|on| if *on { "iommu=pt" } else { "iommu.passthrough=0" }).collect();
            let domain = passthrough.last().map(|on| if *on { Domain::Passthrough } else { Domain::Translated });
            prop_assert_eq!(IommuArguments::parse(&words.join(" ")).domain, domain);
        }
    }
}
