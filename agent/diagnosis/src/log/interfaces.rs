//! Interfaces that lead to no other host, which a library took for its connections: bridges and pairs for containers and virtual machines, and
//! those with a link-local address.
//!
//! NCCL lists what it uses: `NET/Socket : Using [0]eth0:10.1.0.4<0> [1]veth2ea2288:10.4.0.1<0>`. The other ranks then cannot connect to that address.

use std::{collections::BTreeMap, sync::LazyLock};

use super::{
    Log,
    foreign::of_bridge,
    line::{Lower, host},
    phrases::Phrases,
    recognise::failure,
};
use crate::symptom::{Grade, SymptomKind as K};

/// Most interfaces that are kept.
const MOST: usize = 16;

/// How the names of such interfaces begin, in lower case.
const LOCAL: [&str; 15] = [
    "docker",
    "virbr",
    "br-",
    "veth",
    "cni",
    "cali",
    "lxc",
    "lxdbr",
    "podman",
    "flannel",
    "tunl",
    "kube-",
    "nodelocaldns",
    "pod-id-link",
    "vnet",
];
/// How programs name the address to which they connect.
const CONNECT: &str = "connect to ";
/// Every line is searched for these first: most have none.
static WORTH: LazyLock<Phrases> = LazyLock::new(|| Phrases::new(["using ", "interface ", CONNECT]));
/// What programs say of a connection that is not made.
const COMPLAINTS: [&str; 7] = [
    "refused",
    "timed out",
    "timeout",
    "no route",
    "unreachable",
    "failed",
    "retrying",
];

/// The interfaces that lead nowhere by their addresses, and the first complaint about a connection to one.
#[derive(Debug, Default)]
pub(super) struct Interfaces {
    local: BTreeMap<String, String>,
    complaints: Vec<(String, u64)>,
    /// The first host that gives an address of a bridge of containers as its own, by address.
    bridged: BTreeMap<String, String>,
}

/// Whether an interface leads to no other host by its name.
fn is_local(name: &str) -> bool {
    LOCAL.iter().any(|beginning| name.starts_with(beginning))
}

/// The interfaces and addresses that a line in lower case lists: `[0]eth0:10.1.0.4<0>`, `using interface virbr0:192.168.122.1<0>`, `found active
/// interface docker0 with ip 172.17.0.1`.
fn listed(lower: &str) -> impl Iterator<Item = (&str, &str)> {
    let of_nccl = lower.split(' ').filter_map(|word| {
        let word = word.rsplit_once(']').map_or(word, |(_, rest)| rest);
        let (name, rest) = word.split_once(':')?;
        let (address, _) = rest.rsplit_once('<')?;
        Some((name, address.split('%').next()?))
    });
    let in_words = lower.split_once("interface ").and_then(|(_, rest)| {
        let (name, rest) = rest.split_once(" with ip ")?;
        Some((name, rest.split([' ', ',']).next()?))
    });
    of_nccl.chain(in_words)
}

/// Whether an address is of a bridge for containers that each host has, in its default range: those of Docker and of Podman.
fn is_bridged(address: &str) -> bool {
    ["172.17.", "10.88."]
        .iter()
        .any(|range| address.starts_with(range))
}

/// The address to which a line in lower case is about connecting, and the rest of the line from there.
fn connected(lower: &str) -> Option<(&str, &str)> {
    let (_, rest) = lower.split_once(CONNECT)?;
    Some((rest.split(['<', ' ', ',', ')']).next()?, rest))
}

/// Whether a line in lower case reports a connection that is not made.
fn complains(lower: &str) -> bool {
    connected(lower).is_some_and(|(_, rest)| COMPLAINTS.iter().any(|words| rest.contains(words)))
}

/// The address in a line in lower case that leads to no other host, and the interface that has it: one of `local`, or one that is known by its address.
pub(crate) fn leads_nowhere<'a>(
    lower: &'a str,
    local: &'a BTreeMap<String, String>,
) -> Option<(&'a str, &'a str)> {
    let listed = connected(lower).and_then(|(address, _)| Some((address, local.get(address)?.as_str())));
    listed.or_else(|| of_bridge(lower)).or_else(|| own(lower, local))
}

/// The address in a line in lower case that lists those of this host, if it leads to no other one.
fn own<'a>(lower: &'a str, local: &'a BTreeMap<String, String>) -> Option<(&'a str, &'a str)> {
    self::listed(lower).find_map(|(_, address)| Some((address, local.get(address)?.as_str())))
}

impl Interfaces {
    /// Adds a line.
    pub(super) fn add(&mut self, line: &Lower<'_>, number: u64) {
        let lower = line.lower.as_str();
        if !WORTH.occur(lower) {
            return;
        }
        if lower.contains("using ") || lower.contains("interface ") {
            for (name, address) in listed(lower).filter(|(name, _)| is_local(name)) {
                if self.local.len() < MOST {
                    self.local.insert(address.to_owned(), name.to_owned());
                }
            }
            self.add_bridged(line, number);
        }
        if self.complaints.len() < MOST && complains(lower) && !line.grade().quoted {
            self.complaints.push((line.text.to_owned(), number));
        }
    }

    /// Adds the addresses of bridges that a host gives as its own. Where two hosts give the same one, neither reaches the other with it.
    fn add_bridged(&mut self, line: &Lower<'_>, number: u64) {
        let Some(host) = host(line.text) else {
            return;
        };
        for (name, address) in listed(&line.lower).filter(|(_, address)| is_bridged(address)) {
            let other = self.bridged.get(address).is_some_and(|known| *known != host);
            if other && self.local.len() < MOST && self.complaints.len() < MOST {
                self.local.insert(address.to_owned(), name.to_owned());
                self.complaints.push((line.text.to_owned(), number));
            } else if self.bridged.len() < MOST {
                self.bridged
                    .entry(address.to_owned())
                    .or_insert_with(|| host.clone());
            }
        }
    }

    /// Reports the first connection to such an address that failed, if the job failed as well.
    pub(super) fn settle(self, log: &mut Log) {
        let is_one =
            |(text, _): &&(String, u64)| leads_nowhere(&text.to_ascii_lowercase(), &self.local).is_some();
        let found = self.complaints.iter().find(is_one);
        if let Some((text, number)) = found
            && log.symptoms.iter().any(|symptom| symptom.grade > Grade::Note)
        {
            log.symptoms.retain(|symptom| symptom.line != Some(*number));
            log.symptoms
                .push(failure(&Lower::of(text), K::AddressUnresolved, *number));
        }
        log.local_interfaces = self.local;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::LogReader;

    #[test]
    fn a_connection_over_an_interface_that_leads_nowhere_is_told_from_others() {
        const FAILED: &str = "RuntimeError: NCCL error: remote process exited or there was a network error\n";
        let using = |name: &str, address: &str| {
            format!("n:1:2 [0] NCCL INFO NET/Socket : Using [0]eth0:10.1.0.4<0> [1]{name}:{address}<0>\n")
        };
        let refused = |address: &str| {
            format!(
                "socketPollConnect: connect to {address}<50012> returned Connection refused, retrying (13/34)\n"
            )
        };
        for (log, expected) in [
            (
                format!(
                    "{}{}{FAILED}",
                    using("pod-id-link0", "169.254.170.23"),
                    refused("169.254.170.23")
                ),
                true,
            ),
            (format!("{}{FAILED}", refused("169.254.170.23")), true),
            (
                format!(
                    "{}{}{FAILED}",
                    using("br-4e5f60905511", "172.18.0.1"),
                    refused("172.18.0.1")
                ),
                true,
            ),
            (
                format!(
                    "{}{}{FAILED}",
                    using("br-4e5f60905511", "172.18.0.1"),
                    refused("10.1.0.5")
                ),
                false,
            ),
            // Two hosts give the same address of a bridge.
            (
                format!(
                    "a1:1:2 [0] NCCL INFO Bootstrap : Using eth0:172.17.0.2<0>\nb2:1:2 [0] NCCL INFO Bootstrap : Using eth0:172.17.0.2<0>\n{FAILED}"
                ),
                true,
            ),
            (
                format!(
                    "a1:1:2 [0] NCCL INFO Bootstrap : Using eth0:172.17.0.2<0>\na1:9:2 [0] NCCL INFO Bootstrap : Using eth0:172.17.0.2<0>\n{FAILED}"
                ),
                false,
            ),
            (
                format!(
                    "a1:1:2 [0] NCCL INFO Bootstrap : Using eth0:172.17.0.2<0>\nb2:1:2 [0] NCCL INFO Bootstrap : Using eth0:172.17.0.3<0>\n{FAILED}"
                ),
                false,
            ),
            // The attempts that follow succeed.
            (
                format!("{}{}", using("veth2ea2288", "10.4.0.1"), refused("10.4.0.1")),
                false,
            ),
            (
                format!(
                    "{}{}{FAILED}",
                    using("enp73s0", "172.18.0.1"),
                    refused("172.18.0.1")
                ),
                false,
            ),
        ] {
            let mut reader = LogReader::default();
            reader.feed(log.as_bytes());
            let symptoms = reader.finish().symptoms;
            let found = symptoms
                .iter()
                .any(|symptom| symptom.kind == K::AddressUnresolved);
            assert_eq!(found, expected, "{log}: {symptoms:?}");
        }
    }
}
