//! Termination signals as bytes on a descriptor.

use std::{
    io,
    os::{
        fd::{AsRawFd, IntoRawFd},
        unix::net::UnixStream,
    },
    sync::atomic::{AtomicI32, Ordering},
};

/// The descriptor to which the handler writes; -1 before [`termination`] is called.
static WAKE: AtomicI32 = AtomicI32::new(-1);

/// SIGTERM and SIGINT, which have these numbers on every architecture of Linux.
const SIGNALS: [i32; 2] = [15, 2];

unsafe extern "C" {
    fn signal(number: i32, handler: extern "C" fn(i32)) -> usize;
    fn write(fd: i32, bytes: *const u8, count: usize) -> isize;
}

/// The stream becomes readable when SIGTERM or SIGINT arrives, which then no longer end the process. `signal`(3) of
/// glibc restarts system calls; `poll`(2) is not among them and fails with `EINTR`. Programs started later get the
/// default actions back (`execve`(2)).
///
/// # Errors
/// The error of `socketpair`(2); `EBUSY` if it was called before.
pub fn termination() -> io::Result<UnixStream> {
    let (reader, writer) = UnixStream::pair()?;
    writer.set_nonblocking(true)?;
    if WAKE
        .compare_exchange(-1, writer.as_raw_fd(), Ordering::SeqCst, Ordering::SeqCst)
        .is_err()
    {
        return Err(rustix::io::Errno::BUSY.into());
    }
    // The handler writes to it for as long as the process lives.
    let _ = writer.into_raw_fd();
    for number in SIGNALS {
        // SAFETY: the handler calls only what is safe to call in one (`signal-safety`(7)), and keeps errno.
        unsafe { signal(number, wake) };
    }
    Ok(reader)
}

extern "C" fn wake(_: i32) {
    let errno = errno::get();
    // SAFETY: one byte is valid to read; the descriptor was set before the handler and is never closed.
    unsafe { write(WAKE.load(Ordering::SeqCst), [0u8].as_ptr(), 1) };
    errno::set(errno);
}

/// The calling thread's `errno`.
mod errno {
    unsafe extern "C" {
        fn __errno_location() -> *mut i32;
    }

    pub(super) fn get() -> i32 {
        // SAFETY: glibc and musl return a valid pointer to the calling thread's own.
        unsafe { *__errno_location() }
    }

    pub(super) fn set(value: i32) {
        // SAFETY: as above.
        unsafe { *__errno_location() = value }
    }
}
