//! A safe layer over libibverbs and an ioctl: the only module of the project with unsafe code.
//!
//! It covers only what a probe needs. Ownership enforces the rules of verbs: an object keeps the objects that it depends
//! on alive, so a context cannot be closed before its protection domain, nor a completion queue destroyed before its
//! queue pair. Checks of the HCA itself (keys, bounds, rights) are not duplicated.
//!
//! Threads may share contexts, protection domains and memory regions. A queue pair, with its completion queue, may only move
//! between threads, because providers omit the locks of queues if the environment requests it (`MLX5_SINGLE_THREADED`).
#![allow(unsafe_code)]

mod context;
mod device;
mod ethtool;
mod event;
mod ffi;
mod gid;
mod memory;
mod peer;
mod placement;
mod queue;
mod signal;

pub use context::{Context, DeviceAttributes, PortAttributes};
pub use device::{Device, DeviceList};
pub use ethtool::driver_statistics;
pub use event::{AsyncEvents, RawEvent};
pub use gid::GidEntry;
pub use memory::{Access, MemoryRegion, ProtectionDomain, Remote, Segment};
pub use peer::peer_user;
pub use placement::MBIND;
pub use queue::{
    Capabilities, CompletionQueue, Destination, POST_LIST, PollBuffer, QueuePair, WorkCompletion, Write,
};
pub use signal::termination;

/// A call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {}", crate::errno::name(*errno))]
pub struct Error {
    /// The name of the verbs call in `verbs.h`.
    pub call: &'static str,
    /// The positive error number in `errno.h`.
    pub errno: i32,
}

impl Error {
    /// The error in the calling thread's `errno`; `EIO` if the library did not set it.
    fn last(call: &'static str) -> Self {
        let errno = std::io::Error::last_os_error().raw_os_error().filter(|&n| n > 0);
        Self {
            call,
            errno: errno.unwrap_or_else(|| rustix::io::Errno::IO.raw_os_error()),
        }
    }

    /// Checks the result of a call that returns 0 or an errno. Providers differ in the sign, and some return -1 and set
    /// `errno`.
    fn check(call: &'static str, result: i32) -> Result<(), Self> {
        match result {
            0 => Ok(()),
            -1 => Err(Self::last(call)),
            n => Err(Self {
                call,
                errno: n.saturating_abs(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Error;

    #[test]
    fn an_errno_is_taken_with_either_sign() {
        for (result, errno) in [(12, 12), (-12, 12), (i32::MIN, i32::MAX)] {
            assert_eq!(Error::check("ibv_x", result), Err(Error { call: "ibv_x", errno }));
        }
        assert_eq!(Error::check("ibv_x", 0), Ok(()));
        assert!(Error::check("ibv_x", -1).unwrap_err().errno > 0);
    }
}
