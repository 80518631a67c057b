//! What only netlink shows: a source for each family, next to the conversation with the kernel.
//!
//! `socket` asks, `wire` turns bytes into JSON documents with the names of the kernel's specifications, and the sources turn documents
//! into facts. A recording keeps the documents.

pub mod devlink;
pub mod ethtool;
mod socket;
mod wire;

use std::cell::RefCell;

use serde::de::DeserializeOwned;

use crate::{
    fact::{Fact, Unread, UnreadKind},
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

    /// The messages of a reply; absent if the driver does not support the question. `name` is the command's name in the kernel's
    /// specification of the family, `object` what the question is about.
    fn ask<T: DeserializeOwned>(&self, name: &str, object: &str, question: impl Fn() -> Question) -> Fact<Vec<T>> {
        let recorded = recording::Question::Netlink {
            family: question().family.to_owned(),
            command: name.to_owned(),
            object: object.to_owned(),
        };
        let source = recorded.to_string();
        self.scope.netlink(recorded, || {
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
    let own = scope.optional_file("/proc/net/dev");
    let is_here = |netdev: &String| {
        let names = own.known().into_iter().flat_map(|text| text.lines());
        names.filter_map(|line| line.split_once(':')).any(|(name, _)| name.trim() == netdev)
    };
    let elsewhere = own.known().is_some() && !known.netdevs.is_empty() && !known.netdevs.iter().any(is_here);
    elsewhere.then(|| {
        scope.fail(Unread {
            source: "netlink".into(),
            kind: UnreadKind::NotCollected,
            detail: "this process is not in the network namespace of the RDMA devices".into(),
        })
    })
}
