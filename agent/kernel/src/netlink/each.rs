//! Questions about each network device of RDMA devices.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;

use super::{Netlink, ethtool, is_for_all};
use crate::{
    fact::{Errno, Fact, Unread, UnreadKind},
    root::Scope,
    source::Known,
};

/// Maximum number of network devices that are asked about.
const MAX_NETDEVS: usize = 256;
/// Maximum number of members of a bond that are asked about.
const MAX_MEMBERS: usize = 32;

/// Which network devices are asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// Those of RDMA ports.
    Ports,
    /// Those too that are members of a bond among them: a bond has no cable of its own.
    Cables,
}

/// Asks about each network device of an RDMA port; absent answers are left out. A failure that is not about the first device alone is
/// that of the whole source.
pub(super) fn ask_each<T>(
    scope: &Scope<'_>,
    known: &Known,
    family: &str,
    asked: Asked,
    ask: impl Fn(&Netlink<'_, '_>, &str) -> Fact<T>,
) -> Fact<BTreeMap<String, T>> {
    if let Some(obstacle) = obstacle(scope, known) {
        return obstacle.map(|()| BTreeMap::new());
    }
    let members = match asked {
        Asked::Ports => Vec::new(),
        Asked::Cables => members(scope, known),
    };
    let netdevs = || known.netdevs.iter().chain(&members);
    if netdevs().count() > MAX_NETDEVS {
        let _: Fact<()> = scope.fail(Unread {
            source: format!("netlink {family}"),
            kind: UnreadKind::TooLong,
            detail: format!("only the first {MAX_NETDEVS} network devices are asked about"),
        });
    }
    let netlink = Netlink::new(scope);
    let mut found = BTreeMap::new();
    for netdev in netdevs().take(MAX_NETDEVS) {
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

/// The members of the bonds among the network devices of RDMA ports, without those that are the network device of a port themselves.
pub(super) fn members(scope: &Scope<'_>, known: &Known) -> Vec<String> {
    // The source `network` reports a file that cannot be read.
    let aside = Scope::new(scope.root());
    let mut found: Vec<String> = Vec::new();
    for bond in known.netdevs.iter().take(MAX_NETDEVS) {
        for member in of_bond(&aside, bond) {
            if !known.netdevs.contains(&member) && !found.contains(&member) {
                found.push(member);
            }
        }
    }
    found
}

/// The members of a bond as sysfs lists them; none of another network device.
pub(crate) fn of_bond(scope: &Scope<'_>, bond: &str) -> Vec<String> {
    let names = scope.optional(&format!("/sys/class/net/{bond}/bonding/slaves"));
    let names = names.known().map_or("", String::as_str);
    // A name is one component of a path.
    let names = names
        .split_whitespace()
        .filter(|name| !name.contains('/') && *name != "..");
    names.take(MAX_MEMBERS).map(str::to_owned).collect()
}

/// Why netlink cannot be asked here; `None` if it can. A tree of files has no sockets, and says nothing.
pub(super) fn obstacle(scope: &Scope<'_>, known: &Known) -> Option<Fact<()>> {
    if !scope.root().answers_netlink() {
        return Some(Fact::Absent);
    }
    // The kernel answers about the network namespace of this process, and sysfs shows that of the process which mounted it. The network
    // device of a function that a pod has is in the pod's namespace, while those of the other ports are here.
    let aside = Scope::new(scope.root());
    let netlink = Netlink::new(&aside);
    let is_elsewhere = |netdev: &String| {
        let state: Fact<Vec<IgnoredAny>> = ethtool::state(&netlink, netdev);
        state
            .unread()
            .is_some_and(|unread| unread.kind == UnreadKind::Errno(Errno::NODEV))
    };
    let netdev = known.netdevs.first()?;
    known.netdevs.iter().take(MAX_NETDEVS).all(is_elsewhere).then(|| {
        scope.fail(Unread {
            source: "netlink".into(),
            kind: UnreadKind::NotCollected,
            detail: format!("this process is not in the network namespace of {netdev}"),
        })
    })
}
