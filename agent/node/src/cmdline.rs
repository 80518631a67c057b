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

/// Splits a command line at white space outside double quotes; everything after ` -- ` is for init.
fn arguments(cmdline: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    cmdline
        .split(move |c: char| {
            quoted ^= c == '"';
            c.is_whitespace() && !quoted
        })
        .filter(|argument| !argument.is_empty())
        .take_while(|argument| *argument != "--")
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
    }

    proptest! {
        #[test]
        fn any_text_is_read(cmdline in ".{0,400}") {
            IommuArguments::parse(&cmdline);
        }
    }
}
