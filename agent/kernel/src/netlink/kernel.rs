//! What a kernel does not have, as opposed to what a driver does not support.

use crate::{
    fact::{Errno, Unread, UnreadKind},
    recording::Failure,
};

/// Whether a failure is not about one device: the kernel has no such family or command, the socket is refused, or nothing was recorded.
pub(super) fn is_for_all(unread: &Unread) -> bool {
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

/// Whether a failure says that the kernel has no such family or command, which is the same for every device.
pub(super) fn is_of_kernel(unread: &Unread) -> bool {
    unread.kind == UnreadKind::Errno(Errno::OPNOTSUPP)
}

/// The failure of a question of a family that this kernel does not have.
pub(super) fn no_family(source: &str, family: &str) -> Failure {
    old(source, format!("this kernel has no netlink family {family}"))
}

/// The failure of a question that this kernel does not know.
pub(super) fn no_command(source: &str, family: &str) -> Failure {
    old(
        source,
        format!("this kernel is too old: its netlink family {family} does not have this command"),
    )
}

fn old(source: &str, detail: String) -> Failure {
    Failure::Unread(Box::new(Unread {
        source: source.to_owned(),
        kind: UnreadKind::Errno(Errno::OPNOTSUPP),
        detail,
    }))
}
