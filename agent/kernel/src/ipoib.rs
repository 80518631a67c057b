//! Network devices of IP over InfiniBand that belong to a partition: children of the one of a port.
//!
//! Source: `/sys/class/net/NAME/{type,parent,pkey,flags,carrier}` (drivers/infiniband/ulp/ipoib).

use serde::{Deserialize, Serialize};

use crate::{
    fact::{Fact, Unread},
    root::Scope,
    source::{After, Known, Source},
};

const NETDEVS: &str = "/sys/class/net";
/// The most children that are read.
const MAX_CHILDREN: usize = 64;

/// The children of the network devices of ports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ipoib {
    /// Each of them; absent if there is none.
    pub children: Fact<Vec<Child>>,
}

/// A network device for one partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Child {
    /// Its name (`ib0.8001`).
    pub name: String,
    /// The network device of the port (`ib0`).
    pub parent: String,
    /// Its partition key.
    pub key: u16,
    /// Whether the administrator set it up.
    pub is_up: bool,
    /// Whether it has a carrier, which it gets when it has joined its multicast group; absent while it is not up.
    pub has_carrier: Fact<bool>,
}

impl Source for Ipoib {
    const AFTER: After = After::Devices;

    fn read(scope: &Scope<'_>, known: &Known) -> Self {
        let mut parents = known
            .netdevs
            .iter()
            .filter(|name| is_infiniband(scope, name))
            .peekable();
        if parents.peek().is_none() {
            return Self::default();
        }
        let parents: Vec<_> = parents.collect();
        let names = scope.collected_entries(NETDEVS).unwrap_or_default();
        let children = names.iter().filter(|name| !known.netdevs.contains(*name));
        let children = children.filter_map(|name| child(scope, name, &parents));
        let children: Vec<_> = children.take(MAX_CHILDREN).collect();
        Self {
            children: if children.is_empty() {
                Fact::Absent
            } else {
                Fact::Known(children)
            },
        }
    }

    fn unread(why: &Unread) -> Self {
        Self {
            children: why.clone().into(),
        }
    }
}

fn value(scope: &Scope<'_>, name: &str, file: &str) -> Option<String> {
    // A device that is not up refuses to show its carrier, which is not a failure of the node.
    let aside = Scope::new(scope.root());
    let text = aside.collected(&format!("{NETDEVS}/{name}/{file}"));
    Some(text.known()?.trim().to_owned())
}

fn is_infiniband(scope: &Scope<'_>, name: &str) -> bool {
    /// `ARPHRD_INFINIBAND`.
    const TYPE: &str = "32";
    value(scope, name, "type").as_deref() == Some(TYPE)
}

/// The child of one of these devices that has this name.
fn child(scope: &Scope<'_>, name: &str, parents: &[&String]) -> Option<Child> {
    const UP: u16 = 1;
    let hexadecimal = |text: String| u16::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    let parent = value(scope, name, "parent").filter(|_| is_infiniband(scope, name))?;
    let parent = parents.iter().find(|known| **known == &parent)?;
    let flags = hexadecimal(value(scope, name, "flags")?)?;
    let carrier = value(scope, name, "carrier");
    Some(Child {
        name: name.to_owned(),
        parent: (*parent).clone(),
        key: hexadecimal(value(scope, name, "pkey")?)?,
        is_up: flags & UP != 0,
        has_carrier: match carrier.as_deref() {
            Some("1") => Fact::Known(true),
            Some("0") => Fact::Known(false),
            _ => Fact::Absent,
        },
    })
}
