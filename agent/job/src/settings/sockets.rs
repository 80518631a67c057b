//! The interfaces for sockets, and which of them a value names: as NCCL reads it (`ncclFindInterfaces` in `src/misc/socket.cc`, from which
//! NVSHMEM has its reader), and as PyTorch reads it for Gloo.

use rdma_health_node::access::Access;

use super::{Draft, remedy};

/// How a library reads the value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Syntax {
    /// `[^][=]name,…`; a name without `=` is a prefix.
    Nccl,
    /// `name,…`
    Names,
}

/// The variables, with their libraries.
const ALL: [(&str, &str, Syntax); 3] = [
    ("NCCL_SOCKET_IFNAME", "NCCL", Syntax::Nccl),
    ("GLOO_SOCKET_IFNAME", "Gloo", Syntax::Names),
    ("NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME", "NVSHMEM", Syntax::Nccl),
];

/// Sets the variables to the interface of the default route, if there is one. What the user has set is kept, with the reason why it is
/// wrong.
pub(super) fn set(draft: &mut Draft<'_>, access: &Access, reason: &str) {
    let right = access.default_netdev.known();
    for (name, library, syntax) in ALL {
        let user = draft.user.value(name);
        let netdevs = access.netdevs.known().filter(|netdevs| !netdevs.is_empty());
        let named = user.zip(netdevs).map(|(value, netdevs)| {
            let named = netdevs
                .iter()
                .chain(right)
                .filter(|netdev| syntax.names(value, netdev));
            let mut named: Vec<_> = named.collect();
            named.sort();
            named.dedup();
            named
        });
        let nothing = named.as_ref().is_some_and(Vec::is_empty);
        let remedy = remedy(draft, name);
        let ignored = user.is_some_and(str::is_empty);
        let wrong = if ignored {
            Some(format!(
                "{library} ignores an empty value and chooses an interface itself; {remedy}"
            ))
        } else {
            nothing.then(|| {
                format!(
                    "this value matches no network device of this container ({}), so {library} does not start; {remedy}",
                    netdevs.map(|all| all.join(", ")).unwrap_or_default()
                )
            })
        };
        if nothing
            && library == "NCCL"
            && let Some((wrong, set)) = wrong.as_ref().zip(draft.user.as_set(name))
        {
            draft.stopped.push(format!("{set}: {wrong}"));
        }
        let Some(right) = right else {
            if let Some((wrong, set)) = wrong.zip(draft.user.as_set(name)) {
                draft.remark(format!("{set} and is kept: {wrong}"));
            }
            continue;
        };
        let same = match (&named, user) {
            (Some(named), _) => named.len() == 1 && named.first() == Some(&right),
            (None, Some(value)) => value.trim_start_matches('=') == right,
            (None, None) => true,
        };
        let differs = user.is_some() && (ignored || !same);
        let other = || match named.as_deref() {
            Some([one]) => format!("this value names {one}, which is not the interface of the default route"),
            Some(several @ [_, _, ..]) => {
                let matched: Vec<_> = several.iter().map(|name| name.as_str()).collect();
                format!(
                    "this value matches {}, and {library} can choose one that does not lead to the other nodes",
                    matched.join(", ")
                )
            }
            _ => reason.to_owned(),
        };
        let why = differs.then(|| wrong.unwrap_or_else(other));
        let value = match syntax {
            Syntax::Nccl => format!("={right}"),
            Syntax::Names => right.clone(),
        };
        draft.set_unless(name, value, reason.to_owned(), why);
    }
}

impl Syntax {
    /// Whether a value names the network device.
    fn names(self, value: &str, netdev: &str) -> bool {
        let (excludes, value) = match value.strip_prefix('^') {
            Some(rest) if self == Self::Nccl => (true, rest),
            _ => (false, value),
        };
        let (exact, value) = match value.strip_prefix('=') {
            Some(rest) if self == Self::Nccl => (true, rest),
            _ => (self == Self::Names, value),
        };
        let is_it = |item: &str| {
            // NCCL cuts a port number off.
            let name = item.split(':').next().unwrap_or_default();
            let prefix = !exact && !name.is_empty() && netdev.starts_with(name);
            netdev == name || prefix
        };
        value.split(',').any(is_it) != excludes
    }
}
