//! The kernel command line and its IOMMU arguments.
//!
//! Source: `/proc/cmdline`; meanings from the kernel's `Documentation/admin-guide/kernel-parameters.txt` and
//! `drivers/iommu/iommu.c`.

mod shown;

use serde::{Deserialize, Serialize};
pub use shown::without_secrets;

/// The IOMMU configuration of the command line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IommuArguments {
    /// All relevant arguments in order, as [`without_secrets`] shows them.
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
            found.arguments.push(shown::argument(argument));
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

/// Arguments that [`IommuArguments`] evaluates.
const EVALUATED: [&str; 6] = [
    "amd_iommu",
    "intel_iommu",
    "iommu",
    "iommu.passthrough",
    "iommu.strict",
    "mem_encrypt",
];

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

    proptest! {
        #[test]
        fn the_arguments_that_matter_say_the_same_without_the_others(
            cmdline in "((intel_|amd_)?iommu(\\.strict|\\.passthrough)?=(pt|nopt|on|off|0|1|strict|,){0,3} |mem[-_]encrypt=o(n|ff) |\\PC{0,9} ?){0,9}",
        ) {
            let found = IommuArguments::parse(&cmdline);
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
