//! The kernel command line, and what it asks of the IOMMU.
//!
//! Source: `/proc/cmdline`; meanings from the kernel's `Documentation/admin-guide/kernel-parameters.txt` and
//! `drivers/iommu/iommu.c`.

use serde::{Deserialize, Serialize};

/// What the command line asks of the IOMMU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IommuArguments {
    /// Every argument that matters here, as written, in order.
    pub arguments: Vec<String>,
    /// The default domain type asked for; `None` where the kernel's build decides.
    pub domain: Option<Domain>,
    /// Whether the IOMMU is switched off (`iommu=off`, `intel_iommu=off`, `amd_iommu=off`).
    pub off: bool,
    /// Whether `intel_iommu=on` is given; some kernels leave an Intel IOMMU off without it.
    pub intel_on: bool,
    /// Strict invalidation asked for (`iommu.strict=1`), lazy (`0`), or neither.
    pub strict: Option<bool>,
    /// Memory encryption asked for (`mem_encrypt=on`) or refused (`off`); it turns passthrough off.
    #[serde(default)]
    pub memory_encryption: Option<bool>,
}

/// The default domain type that arguments ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Domain {
    /// DMA addresses are physical addresses; group type `identity`.
    Passthrough,
    /// DMA addresses are translated; group type `DMA` or `DMA-FQ`.
    Translated,
}

impl IommuArguments {
    /// Reads a command line. The last argument of a kind wins, as in the kernel.
    pub fn parse(cmdline: &str) -> Self {
        let mut found = Self::default();
        for argument in arguments(cmdline) {
            let Some((key, value)) = argument.split_once('=') else {
                continue;
            };
            // The kernel takes '-' and '_' in names as the same.
            match key.replace('-', "_").as_str() {
                // The x86 option is a comma-separated list; it is read left to right.
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

/// What stands in the place of a hidden value.
const HIDDEN: &str = "<hidden>";

/// Arguments whose values name no user, address, disk or secret; `-` and `_` are the same. One that ends in `.` or `_`
/// stands for all that begin so.
const HARMLESS: &str = "\
    amd_iommu amd_iommu_ amd_pstate apparmor audit boot_image cgroup_ clocksource console crashkernel \
    default_hugepagesz efi enforcing fips gpu_sched. hpet hugepages hugepagesz ib_ idle init_on_alloc \
    init_on_free intel_idle. intel_iommu intel_pstate iommu iommu. irdma. irqaffinity isolcpus kvm kvm_ \
    kvm. loglevel mem mem_encrypt memmap mitigations mlx4_ mlx5_ modprobe.blacklist module_blacklist \
    net.ifnames nohz nohz_full nr_cpus numa numa_balancing nvidia nvidia. nvidia_ nvme_core. panic pci \
    pcie_ processor. rcu_nocbs rdma_ selinux swiotlb transparent_hugepage tsc vfio_";

/// A command line without the values that could identify a user or hold a secret (`root=UUID=…`, `ip=…`, passwords):
/// those of all arguments but a list of harmless ones, and everything meant for init. Doing it twice changes nothing.
pub fn without_secrets(cmdline: &str) -> String {
    let mut shown: Vec<String> = Vec::new();
    for argument in arguments(cmdline) {
        shown.push(match argument.split_once('=') {
            Some((key, _)) if is_harmless(key) => argument.to_owned(),
            Some((key, _)) if is_plain(key) => format!("{}={HIDDEN}", key.trim_start_matches('"')),
            None if is_plain(argument) => argument.to_owned(),
            _ => HIDDEN.to_owned(),
        });
    }
    if words(cmdline).any(|word| word == "--") {
        shown.push(format!("-- {HIDDEN}"));
    }
    shown.join(" ")
}

/// Whether a name or switch looks like one of the kernel's; anything else could be anything.
fn is_plain(name: &str) -> bool {
    let name = name.trim_start_matches('"');
    (1..=40).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-/,:<>".contains(&b))
}

fn is_harmless(key: &str) -> bool {
    let key = key.trim_start_matches('"').replace('-', "_").to_ascii_lowercase();
    HARMLESS.split_whitespace().any(|harmless| {
        if harmless.ends_with(['.', '_']) {
            key.starts_with(harmless)
        } else {
            key == harmless
        }
    })
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
    fn off_and_strict_are_told_apart_from_the_domain() {
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
    fn what_could_name_a_user_or_open_a_door_is_hidden() {
        let cmdline = "BOOT_IMAGE=/vmlinuz root=UUID=1f2e quiet ip=10.1.2.3::10.1.2.1 rd.luks.key=hunter2 \
            \"ignition.config.url=http://a b/?token=x\" intel_iommu=on mlx5_core.debug_mask=1 iommu=pt -- --password p";
        assert_eq!(
            without_secrets(cmdline),
            "BOOT_IMAGE=/vmlinuz root=<hidden> quiet ip=<hidden> rd.luks.key=<hidden> ignition.config.url=<hidden> \
             intel_iommu=on mlx5_core.debug_mask=1 iommu=pt -- <hidden>"
        );
    }

    proptest! {
        #[test]
        fn hiding_changes_nothing_about_the_iommu_and_nothing_twice(cmdline in "((iommu=|root=|-- |\"|[a-z =,.-]){0,9} ?){0,9}") {
            let hidden = without_secrets(&cmdline);
            prop_assert_eq!(without_secrets(&hidden), hidden.clone());
            prop_assert_eq!(IommuArguments::parse(&hidden), IommuArguments::parse(&cmdline));
        }

        #[test]
        fn any_text_is_read(cmdline in ".{0,400}") {
            IommuArguments::parse(&cmdline);
        }
    }
}
