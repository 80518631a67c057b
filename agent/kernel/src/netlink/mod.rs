//! What only netlink shows: a source for each family, next to the conversation with the kernel.
//!
//! `socket` asks, `wire` turns bytes into JSON documents with the names of the kernel's specifications, and the sources turn documents
//! into facts. A recording keeps the documents.

pub mod dcb;
pub mod devlink;
mod each;
mod eeprom;
pub mod ethtool;
pub mod interfaces;
mod kept;
mod kernel;
mod layout;
pub mod neighbours;
pub mod rdma;
mod socket;
pub mod transceiver;
mod wire;

use std::{cell::RefCell, collections::BTreeMap};

use serde::{Serialize, de::DeserializeOwned};

use rdma_health_protocol::text::excerpt;

use crate::{
    fact::{Errno, Fact, Unread, UnreadKind},
    recording::{self, Failure},
    root::Scope,
};
pub(crate) use each::of_bond;
use each::{Asked, ask_each, members, obstacle};
use kept::Kept;
use kernel::{is_for_all, is_of_kernel};
use socket::{Call, Client, Question, Route};

/// Asks questions of one family, and takes recorded answers where there are any.
struct Netlink<'a, 'root> {
    scope: &'a Scope<'root>,
    client: RefCell<Client>,
    /// Commands that this kernel does not have: family, command, and what was reported the first time.
    without: RefCell<BTreeMap<(String, String), Box<Unread>>>,
}

impl<'a, 'root> Netlink<'a, 'root> {
    fn new(scope: &'a Scope<'root>) -> Self {
        Self {
            scope,
            client: RefCell::default(),
            without: RefCell::default(),
        }
    }

    /// The messages of a reply; absent if the kernel answers with one of the errors `absent`. `name` is the command's name in the
    /// kernel's specification of the family, `object` what the question is about.
    fn ask<T: DeserializeOwned>(
        &self,
        name: &str,
        object: &str,
        absent: &[Errno],
        question: impl Fn() -> Question,
    ) -> Fact<Vec<T>> {
        self.ask_all(question().family, name, object, absent, |client, source| {
            client.ask(source, question())
        })
    }

    /// The same for an answer that several replies of the kernel make up.
    fn ask_all<T: DeserializeOwned, A: Serialize>(
        &self,
        family: &str,
        name: &str,
        object: &str,
        absent: &[Errno],
        ask: impl Fn(&mut Client, &str) -> Result<Vec<A>, Failure>,
    ) -> Fact<Vec<T>> {
        let command = (family.to_owned(), name.to_owned());
        // That the kernel has no such command is reported once, not for each device.
        if let Some(unread) = self.without.borrow().get(&command) {
            return (**unread).clone().into();
        }
        let recorded = recording::Question::Netlink {
            family: family.to_owned(),
            command: name.to_owned(),
            object: object.to_owned(),
        };
        let source = recorded.to_string();
        let answer: Fact<Kept<T>> = self.scope.netlink(recorded, absent, || {
            let messages = ask(&mut self.client.borrow_mut(), &source)?;
            // Fails only for maps with keys that are not text.
            Ok(serde_json::to_vec(&messages).unwrap_or_default())
        });
        if let Some(unread) = answer.unread().filter(|unread| is_of_kernel(unread)) {
            self.without
                .borrow_mut()
                .insert(command, Box::new(unread.clone()));
        }
        answer.and_then(|kept| self.usable(source, kept))
    }

    /// The messages that can be used. That others cannot is reported; if none can, the answer is of no use.
    fn usable<T>(&self, source: String, kept: Kept<T>) -> Fact<Vec<T>> {
        let Some(reason) = kept.reason else {
            return Fact::Known(kept.messages);
        };
        let all = kept.messages.len() + kept.left_out;
        let failed = self.scope.fail(Unread {
            source,
            kind: UnreadKind::Malformed,
            detail: format!("{} of {all} messages could not be used: {reason}", kept.left_out),
        });
        if kept.messages.is_empty() {
            failed
        } else {
            Fact::Known(kept.messages)
        }
    }
}

/// The one message of a reply; absent if there is none.
fn only<T>(messages: Vec<T>) -> Fact<T> {
    messages.into_iter().next().into()
}

/// A number that is not the kernel's sign for "not counted" (`ETHTOOL_STAT_NOT_SET`, all bits set).
fn given(count: u64) -> Option<u64> {
    (count != u64::MAX).then_some(count)
}

/// Maximum number of characters of a name that a driver chooses.
const MAX_NAME: usize = 64;

/// A name that a driver chooses, without control characters and not too long; `None` if nothing is left of it.
fn driver_name(name: &str) -> Option<String> {
    let name: String = name.chars().filter(|c| !c.is_control()).collect();
    let name = name.trim();
    let shown = match name.char_indices().nth(MAX_NAME) {
        // With an ellipsis.
        Some(_) => excerpt(name, MAX_NAME - 1),
        None => name.to_owned(),
    };
    (!shown.is_empty()).then_some(shown)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, sync::Arc};

    use super::*;
    use crate::{
        recording::{Answer, Failure, Recording},
        root::Root,
        source::{Known, Source},
    };

    /// The sources as they read a recording in which `linkstate-get` of eth0 has this answer.
    fn read(answer: Answer) -> (Fact<usize>, Fact<usize>, usize) {
        let mut recording = Recording::default();
        let question = |family: &str, command: &str, object: &str| recording::Question::Netlink {
            family: family.into(),
            command: command.into(),
            object: object.into(),
        };
        recording.insert(question("ethtool", "linkstate-get", "eth0"), answer);
        let unsupported = || Answer::Failed(Failure::Errno(Errno::OPNOTSUPP));
        for command in ["linkmodes-get", "fec-get", "pause-get", "stats-get"] {
            recording.insert(question("ethtool", command, "eth0"), unsupported());
        }
        recording.insert(question("devlink", "health-reporter-get", ""), unsupported());
        let info = question("devlink", "info-get", "pci/0000:41:00.0");
        recording.insert(info, Answer::Failed(Failure::Errno(Errno::NODEV)));
        let root = Root::replay(Arc::new(recording), true);
        let scope = Scope::new(&root);
        let known = Known {
            functions: BTreeSet::from(["0000:41:00.0".to_owned()]),
            netdevs: BTreeSet::from(["eth0".to_owned()]),
            ..Known::default()
        };
        let links = ethtool::Links::read(&scope, &known)
            .netdevs
            .map(|links| links.len());
        let devices = devlink::Devlink::read(&scope, &known)
            .devices
            .map(|devices| devices.len());
        let physfn = |unread: &&Unread| !unread.source.ends_with("physfn");
        let misses: Vec<_> = scope.finish().into_iter().map(|miss| miss.unread).collect();
        (links, devices, misses.iter().filter(physfn).count())
    }

    #[test]
    fn what_a_driver_does_not_support_is_absent_and_no_failure() {
        let state = br#"[{"link": 1}]"#.as_slice();
        assert_eq!(
            read(Answer::Bytes(state.into())),
            (Fact::Known(1), Fact::Known(0), 0)
        );
        let (links, ..) = read(Answer::Failed(Failure::Errno(Errno::OPNOTSUPP)));
        assert_eq!(links, Fact::Known(1));
    }

    #[test]
    fn another_network_namespace_is_not_taken_for_the_absence_of_devices() {
        let (links, devices, misses) = read(Answer::Failed(Failure::Errno(Errno::NODEV)));
        for fact in [links, devices] {
            let unread = fact.unread().unwrap();
            assert_eq!(
                unread.to_string(),
                "netlink: this process is not in the network namespace of eth0 (not_collected)"
            );
        }
        assert_eq!(misses, 2);
    }

    /// The network device of a function that a pod has is in the pod's namespace, whatever its name.
    #[test]
    fn a_network_device_in_a_pod_hides_no_other_one() {
        let mut recording = Recording::default();
        for (netdev, answer) in [
            ("net1", Answer::Failed(Failure::Errno(Errno::NODEV))),
            ("rail0", Answer::Bytes(br#"[{"link": 1}]"#.as_slice().into())),
        ] {
            for command in [
                "linkstate-get",
                "linkmodes-get",
                "fec-get",
                "pause-get",
                "stats-get",
            ] {
                let question = recording::Question::Netlink {
                    family: "ethtool".into(),
                    command: command.into(),
                    object: netdev.into(),
                };
                recording.insert(question, answer.clone());
            }
        }
        let root = Root::replay(Arc::new(recording), true);
        let known = Known {
            netdevs: ["net1", "rail0"].map(str::to_owned).into(),
            ..Known::default()
        };
        let links = ethtool::Links::read(&Scope::new(&root), &known).netdevs;
        let names: Vec<_> = links.known().unwrap().keys().collect();
        assert!(names.contains(&&"rail0".to_owned()), "{names:?}");
    }

    #[test]
    fn a_kernel_without_the_family_is_reported_once() {
        let unread = Unread {
            source: "netlink ethtool linkstate-get eth0".into(),
            kind: UnreadKind::Errno(Errno::OPNOTSUPP),
            detail: "this kernel has no netlink family ethtool".into(),
        };
        let (links, _, misses) = read(Answer::Failed(Failure::Unread(Box::new(unread.clone()))));
        assert_eq!(links.unread(), Some(&unread));
        assert_eq!(misses, 1);
    }

    /// A kernel that has the family and not all of its commands, and two network devices.
    #[test]
    fn a_command_that_the_kernel_does_not_have_is_reported_once() {
        let mut recording = Recording::default();
        for netdev in ["eth0", "eth1"] {
            for (command, is_old) in [
                ("linkstate-get", false),
                ("linkmodes-get", false),
                ("pause-get", false),
                ("fec-get", true),
                ("stats-get", true),
                ("module-eeprom-get", true),
            ] {
                let question = recording::Question::Netlink {
                    family: "ethtool".into(),
                    command: command.into(),
                    object: netdev.into(),
                };
                let source = question.to_string();
                let answer = if is_old {
                    Answer::Failed(kernel::no_command(&source, "ethtool"))
                } else {
                    Answer::Bytes(b"[{}]".as_slice().into())
                };
                recording.insert(question, answer);
            }
        }
        let root = Root::replay(Arc::new(recording), true);
        let known = Known {
            netdevs: ["eth0", "eth1"].map(str::to_owned).into(),
            ..Known::default()
        };
        let misses = |scope: Scope<'_>| {
            let misses = scope.finish().into_iter().map(|miss| miss.unread);
            let netlink = misses.filter(|unread| unread.source.starts_with("netlink"));
            netlink.map(|unread| unread.to_string()).collect::<Vec<_>>()
        };
        let old = |command: &str| {
            format!(
                "netlink ethtool {command} eth0: this kernel is too old: its netlink family ethtool does not have this command (EOPNOTSUPP)"
            )
        };
        let scope = Scope::new(&root);
        let links = ethtool::Links::read(&scope, &known).netdevs;
        let links = links.known().unwrap();
        assert!(
            links.len() == 2
                && links
                    .values()
                    .all(|link| link.fec.unread().is_some() && !link.pause.is_absent())
        );
        assert_eq!(misses(scope), ["fec-get", "stats-get"].map(old));
        let scope = Scope::new(&root);
        let modules = transceiver::Transceivers::read(&scope, &known).netdevs;
        assert!(modules.unread().is_some());
        assert_eq!(misses(scope), [old("module-eeprom-get")]);
    }

    /// The answers of all families to a question about all objects, each with a malformed message between two good ones.
    #[test]
    fn a_malformed_message_hides_no_other_device() {
        let mut recording = Recording::default();
        for (family, command, answer) in [
            (
                "devlink",
                "health-reporter-get",
                r#"[{"bus-name": "pci", "dev-name": "0000:41:00.0", "health-reporter": {"health-reporter-name": "fw", "health-reporter-state": 1}},
                    {"bus-name": "pci", "dev-name": "0000:41:00.0", "health-reporter": {"health-reporter-name": "tx"}},
                    {"bus-name": "pci", "dev-name": "0000:41:00.1", "health-reporter": {"health-reporter-name": "fw", "health-reporter-state": 0}}]"#,
            ),
            ("rdma", "sys-get", r#"[{"netns-mode": "x"}]"#),
            (
                "rdma",
                "res-get",
                r#"[{"dev-index": 0, "dev-name": "mlx5_0"}, {"dev-index": 1, "malformed": "dev-name is cut off"},
                    {"dev-index": 2, "dev-name": "mlx5_2"}]"#,
            ),
            (
                "rt-neigh",
                "getneightbl",
                r#"[{"name": "arp_cache", "thresh2": 1, "thresh3": 2, "config": {"entries": 0}}, {"name": 7},
                    {"name": "ndisc_cache", "thresh2": 1, "thresh3": 2, "config": {"entries": 0}}]"#,
            ),
        ] {
            let question = recording::Question::Netlink {
                family: family.into(),
                command: command.into(),
                object: String::new(),
            };
            recording.insert(question, Answer::Bytes(answer.as_bytes().into()));
        }
        let root = Root::replay(Arc::new(recording), true);
        let scope = Scope::new(&root);
        let known = Known {
            functions: ["0000:41:00.0", "0000:41:00.1"].map(str::to_owned).into(),
            ..Known::default()
        };
        let devlink = devlink::Devlink::read(&scope, &known).devices;
        let reporters: Vec<_> = devlink
            .known()
            .unwrap()
            .values()
            .map(|device| device.reporters.len())
            .collect();
        assert_eq!(reporters, [1, 1]);
        let rdma = rdma::Subsystem::read(&scope, &known);
        assert!(rdma.namespaces.unread().is_some());
        let devices: Vec<_> = rdma.resources.known().unwrap().keys().collect();
        assert_eq!(devices, ["mlx5_0", "mlx5_2"]);
        let tables = neighbours::Neighbours::read(&scope, &known).tables;
        assert_eq!(tables.known().unwrap().len(), 2);
        let misses = scope.finish().into_iter().map(|miss| miss.unread);
        let malformed: Vec<_> = misses
            .filter(|unread| unread.kind == UnreadKind::Malformed)
            .map(|unread| unread.to_string())
            .collect();
        for (miss, words) in malformed.iter().zip([
            "health-reporter-get: 1 of 3 messages could not be used: missing field `health-reporter-state`",
            "sys-get: 1 of 1 messages could not be used: invalid type",
            "res-get: 1 of 3 messages could not be used: dev-name is cut off",
            "getneightbl: 1 of 3 messages could not be used: invalid type",
        ]) {
            assert!(miss.contains(words), "{miss}");
        }
        assert_eq!(malformed.len(), 4, "{malformed:?}");
    }
}
