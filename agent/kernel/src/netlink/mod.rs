//! What only netlink shows: a source for each family, next to the conversation with the kernel.
//!
//! `socket` asks, `wire` turns bytes into JSON documents with the names of the kernel's specifications, and the sources turn documents
//! into facts. A recording keeps the documents.

pub mod dcb;
pub mod devlink;
mod eeprom;
pub mod ethtool;
pub mod interfaces;
pub mod neighbours;
pub mod rdma;
mod socket;
pub mod transceiver;
mod wire;

use std::{cell::RefCell, collections::BTreeMap};

use serde::{
    Serialize,
    de::{DeserializeOwned, IgnoredAny},
};

use crate::{
    fact::{Errno, Fact, Unread, UnreadKind},
    recording::{self, Failure},
    root::Scope,
    source::Known,
};
use socket::{Call, Client, Question, Route};

/// Asks questions of one family, and takes recorded answers where there are any.
struct Netlink<'a, 'root> {
    scope: &'a Scope<'root>,
    client: RefCell<Client>,
}

impl<'a, 'root> Netlink<'a, 'root> {
    fn new(scope: &'a Scope<'root>) -> Self {
        Self {
            scope,
            client: RefCell::default(),
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
        let recorded = recording::Question::Netlink {
            family: family.to_owned(),
            command: name.to_owned(),
            object: object.to_owned(),
        };
        let source = recorded.to_string();
        self.scope.netlink(recorded, absent, || {
            let messages = ask(&mut self.client.borrow_mut(), &source)?;
            // Fails only for maps with keys that are not text.
            Ok(serde_json::to_vec(&messages).unwrap_or_default())
        })
    }
}

/// Maximum number of network devices that are asked about.
const MAX_NETDEVS: usize = 256;

/// Asks about each network device of an RDMA port; absent answers are left out. A failure that is not about the first device alone is
/// that of the whole source.
fn ask_each<T>(
    scope: &Scope<'_>,
    known: &Known,
    family: &str,
    ask: impl Fn(&Netlink<'_, '_>, &str) -> Fact<T>,
) -> Fact<BTreeMap<String, T>> {
    if let Some(obstacle) = obstacle(scope, known) {
        return obstacle.map(|()| BTreeMap::new());
    }
    if known.netdevs.len() > MAX_NETDEVS {
        let _: Fact<()> = scope.fail(Unread {
            source: format!("netlink {family}"),
            kind: UnreadKind::TooLong,
            detail: format!("only the first {MAX_NETDEVS} network devices are asked about"),
        });
    }
    let netlink = Netlink::new(scope);
    let mut found = BTreeMap::new();
    for netdev in known.netdevs.iter().take(MAX_NETDEVS) {
        match ask(&netlink, netdev) {
            Fact::Known(answer) => {
                found.insert(netdev.clone(), answer);
            }
            Fact::Unread { unread } if found.is_empty() && is_for_all(&unread) => return (*unread).into(),
            // The failure is listed with its source.
            Fact::Absent | Fact::Unread { .. } => {}
        }
    }
    Fact::Known(found)
}

/// Whether a failure is not about one device: the kernel has no such family, the socket is refused, or nothing was recorded.
fn is_for_all(unread: &Unread) -> bool {
    match &unread.kind {
        UnreadKind::NotCollected => true,
        UnreadKind::Errno(errno) => [
            Errno::OPNOTSUPP,
            Errno::PERM,
            Errno::ACCESS,
            Errno::PROTONOSUPPORT,
            Errno::AFNOSUPPORT,
        ]
        .contains(errno),
        _ => false,
    }
}

/// The one message of a reply; absent if there is none.
fn only<T>(messages: Vec<T>) -> Fact<T> {
    messages.into_iter().next().into()
}

/// Why netlink cannot be asked here; `None` if it can. A tree of files has no sockets, and says nothing.
fn obstacle(scope: &Scope<'_>, known: &Known) -> Option<Fact<()>> {
    if !scope.root().answers_netlink() {
        return Some(Fact::Absent);
    }
    // The kernel answers about the network namespace of this process, and sysfs shows that of the process which mounted it.
    let netdev = known.netdevs.first()?;
    let aside = Scope::new(scope.root());
    let state: Fact<Vec<IgnoredAny>> = ethtool::state(&Netlink::new(&aside), netdev);
    let elsewhere = state
        .unread()
        .is_some_and(|unread| unread.kind == UnreadKind::Errno(Errno::NODEV));
    elsewhere.then(|| {
        scope.fail(Unread {
            source: "netlink".into(),
            kind: UnreadKind::NotCollected,
            detail: format!("this process is not in the network namespace of {netdev}"),
        })
    })
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, sync::Arc};

    use super::*;
    use crate::{
        recording::{Answer, Failure, Recording},
        root::Root,
        source::Source,
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
        for command in ["fec-get", "pause-get", "stats-get"] {
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
}
