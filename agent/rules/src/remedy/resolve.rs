//! The remedy of one finding on one node: the block that applies there, with the names of the node filled in.

use std::borrow::Cow;

use rdma_health_node::{
    Node,
    pci::is_address,
    platform::{Cluster, Platform},
};

use super::Remedy;
use crate::{Finding, Subject};

/// Where findings are resolved.
pub(crate) struct Resolver<'a> {
    node: &'a Node,
    platform: Platform,
}

impl<'a> Resolver<'a> {
    pub(crate) fn new(node: &'a Node) -> Self {
        Self {
            node,
            platform: node.platform(),
        }
    }

    /// What to do about a finding: the common part, then the part for this platform. If the platform is not known, all parts.
    pub(crate) fn remedy(
        &self,
        remedy: &Remedy,
        subject: &Subject,
        values: &[(&'static str, String)],
    ) -> String {
        let first = |parts: &[&'static str]| {
            parts
                .iter()
                .find(|part| !part.is_empty())
                .copied()
                .unwrap_or_default()
        };
        let block = match self.platform.cluster {
            None => {
                let all = self.possible(remedy).to_string();
                let all = match remedy.host {
                    "" => all,
                    host => all.replace(host, &self.of_adapter(host, subject)),
                };
                return self.fill(&all, subject, values);
            }
            Some(Cluster::OpenShift) => first(&[remedy.openshift, remedy.kubernetes, remedy.host]),
            Some(Cluster::Kubernetes) => first(&[remedy.kubernetes, remedy.host]),
            Some(Cluster::Host) => remedy.host,
        };
        let one = Remedy {
            any: remedy.any,
            openshift: "",
            kubernetes: "",
            host: "",
        };
        let text = match self.of_adapter(block, subject).as_str() {
            "" => one.to_string(),
            block if remedy.any.is_empty() => block.to_owned(),
            block => {
                let end = if remedy.any.ends_with('.') { "" } else { "." };
                format!("{}{end} {block}", remedy.any)
            }
        };

        self.fill(&text, subject, values)
    }

    /// The parts that may apply here.
    fn possible(&self, remedy: &Remedy) -> Remedy {
        let is_possible = self.platform.may_be_openshift;
        Remedy {
            openshift: if is_possible { remedy.openshift } else { "" },
            ..*remedy
        }
    }

    /// Commands, separated by semicolons, without those for NVIDIA's adapters where the device is known to be another one.
    fn of_adapter(&self, commands: &str, subject: &Subject) -> String {
        if !self.is_of_another_vendor(subject) {
            return commands.to_owned();
        }
        let kept = commands
            .split("; ")
            .filter(|command| !command.contains("mlxlink"));
        kept.collect::<Vec<_>>().join("; ")
    }

    /// Whether the device is known not to be NVIDIA's.
    fn is_of_another_vendor(&self, subject: &Subject) -> bool {
        const NVIDIA: u16 = 0x15b3;
        let device = subject.device.as_deref().unwrap_or_default();
        let hca = self.node.hcas.known().and_then(|hcas| hcas.get(device));
        if let Some(driver) = hca.and_then(|hca| hca.driver.known()) {
            return !driver.starts_with("mlx");
        }
        let functions = self.node.pci.functions.known();
        let vendor = functions.and_then(|functions| functions.get(device)?.vendor.known());
        vendor.is_some_and(|vendor| *vendor != NVIDIA)
    }

    /// Replaces the words in `values`, and DEVICE, ADDRESS, NETDEV, BOND and NODE, by what they stand for, as far as it is known.
    pub(crate) fn fill(&self, text: &str, subject: &Subject, values: &[(&'static str, String)]) -> String {
        let text = if self.is_of_another_vendor(subject) {
            Cow::Owned(without_asides(text, "(mlx"))
        } else {
            Cow::Borrowed(text)
        };
        let mut filled = String::with_capacity(text.len());
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut rest = &*text;
        while let Some(start) = rest.find(is_word) {
            let (before, from) = rest.split_at(start);
            let (word, after) = from.split_at(from.find(|c| !is_word(c)).unwrap_or(from.len()));
            filled.push_str(before);
            let given = values.iter().find(|(name, _)| *name == word);
            let value = match given {
                Some((_, value)) => Some(value.as_str()),
                None => self.value(word, subject),
            };
            match value.filter(|value| is_plain(value) || word == REASON) {
                Some(value) => filled.push_str(value),
                None => filled.push_str(word),
            }
            rest = after;
        }
        filled.push_str(rest);
        // A device without an address stands in the kernel log with its name.
        if let Some(name) = subject.device.as_deref().filter(|name| is_plain(name)) {
            filled = filled.replace("grep ADDRESS", &format!("grep {name}"));
        }
        // The kernel log cannot contain a name that is not known.
        filled.replace(" -e NETDEV", "").replace(" -e ADDRESS", "")
    }

    fn value<'b>(&'b self, word: &str, subject: &'b Subject) -> Option<&'b str> {
        if !matches!(word, "DEVICE" | "ADDRESS" | "NETDEV" | "BOND" | "NODE") {
            return None;
        }
        if word == "NODE" {
            return self.node.host.hostname.known().map(String::as_str);
        }
        let name = subject.device.as_deref()?;
        let found = self.node.hcas.known().and_then(|hcas| hcas.get_key_value(name));
        let Some((device, hca)) = found else {
            return (word == "ADDRESS" && is_address(name)).then_some(name);
        };
        match word {
            "DEVICE" => Some(device),
            "ADDRESS" => hca.pci_address.known().map(String::as_str),
            _ => {
                let number = subject.port.or_else(|| hca.ports.keys().next().copied())?;
                let netdev = hca.ports.get(&number)?.netdev.known()?;
                Some(&netdev.name)
            }
        }
    }
}

/// A text without its parentheses that begin like this.
fn without_asides(text: &str, beginning: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(beginning)
        && let Some((_, after)) = after.split_once(')')
    {
        kept.push_str(before.trim_end());
        rest = after;
    }
    kept.push_str(rest);
    kept
}

impl Finding {
    /// What to do on this node, by place. One part without a name if the node's platform is known or the remedy was written for
    /// this case; otherwise one part for each platform that it may be.
    pub fn remedy_by_place(&self, node: &Node) -> Vec<(&'static str, String)> {
        let resolver = Resolver::new(node);
        let is_for_every_place = resolver.platform.cluster.is_none()
            && resolver.remedy(&self.places, &self.subject, &self.values) == self.remedy;
        if !is_for_every_place {
            return vec![("", self.remedy.clone())];
        }
        let possible = resolver.possible(&self.places);
        let parts = possible.parts();
        parts
            .map(|(place, text)| (place, resolver.fill(text, &self.subject, &self.values)))
            .collect()
    }
}

/// The word of a remedy that stands for what a driver logged, in a sentence and not in a command.
pub(crate) const REASON: &str = "REASON";

/// What a driver logged, as it can stand in a sentence: on one line, of bounded length, and without what a shell would run.
pub(crate) fn quoted(line: &str) -> String {
    const LONGEST: usize = 160;
    let is_shown = |c: &char| (c.is_ascii_graphic() || *c == ' ') && !"`$\\\"".contains(*c);
    let shown: String = line.chars().filter(is_shown).take(LONGEST).collect();
    format!("\"{}\"", shown.trim())
}

/// Whether a name can stand in a command without quotes. Names of devices are text of the kernel.
pub(crate) fn is_plain(value: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':' | b'@');
    !value.is_empty() && !value.starts_with('-') && value.bytes().all(plain)
}
