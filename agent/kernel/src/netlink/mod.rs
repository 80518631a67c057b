//! What only netlink shows: a source for each family, next to the conversation with the kernel.
//!
//! `socket` asks, `wire` turns bytes into JSON documents with the names of the kernel's specifications, and the sources turn documents
//! into facts. A recording keeps the documents.

pub mod devlink;
pub mod ethtool;
mod socket;
mod wire;

use std::cell::RefCell;

use serde::de::{DeserializeOwned, IgnoredAny};

use crate::{
    fact::{Errno, Fact, Unread, UnreadKind},
    recording,
    root::Scope,
    source::Known,
};
use socket::{Client, Question};

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
        let recorded = recording::Question::Netlink {
            family: question().family.to_owned(),
            command: name.to_owned(),
            object: object.to_owned(),
        };
        let source = recorded.to_string();
        self.scope.netlink(recorded, absent, || {
            let messages = self.client.borrow_mut().ask(&source, question())?;
            // Fails only for maps with keys that are not text.
            Ok(serde_json::to_vec(&messages).unwrap_or_default())
        })
    }
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
        for command in ["fec-get", "pause-get"] {
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
