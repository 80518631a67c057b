//! The user at the other end of a Unix socket.

use std::{
    io,
    os::{fd::AsRawFd, unix::net::UnixStream},
};

/// `SOL_SOCKET` and `SO_PEERCRED` (`asm/socket.h`).
const SOCKET: i32 = 1;
const PEER: i32 = if cfg!(any(target_arch = "powerpc", target_arch = "powerpc64")) {
    21
} else {
    17
};

/// `struct ucred` of `linux/socket.h`. rustix has it with a process id that cannot be 0, but 0 it is if the peer is in another
/// process namespace, as the other container of a pod.
#[repr(C)]
#[derive(Default)]
struct Credentials {
    pid: i32,
    uid: u32,
    gid: u32,
}

/// The size of [`Credentials`] in bytes.
const LENGTH: u32 = 12;
const _: () = assert!(size_of::<Credentials>() == 12);

unsafe extern "C" {
    fn getsockopt(socket: i32, level: i32, name: i32, value: *mut Credentials, length: *mut u32) -> i32;
}

/// The user id of the process that connected, in the user namespace of this one.
///
/// # Errors
/// The error of `getsockopt`(2).
pub fn peer_user(peer: &UnixStream) -> io::Result<u32> {
    let mut found = Credentials::default();
    let mut length = LENGTH;
    // SAFETY: the kernel writes at most `length` bytes to `found`, which has as many and for which every bit pattern is valid.
    let result = unsafe { getsockopt(peer.as_raw_fd(), SOCKET, PEER, &raw mut found, &raw mut length) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    if length != LENGTH {
        return Err(rustix::io::Errno::PROTO.into());
    }
    Ok(found.uid)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // in a test, a failure is a panic

    use super::*;

    #[test]
    fn the_peer_of_an_own_socket_is_this_user() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(peer_user(&one).unwrap(), rustix::process::geteuid().as_raw());
    }
}
