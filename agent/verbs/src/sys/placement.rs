//! On which NUMA node memory is: `mbind`(2), which the C library does not declare.

use std::{
    ffi::{c_int, c_long, c_ulong, c_void},
    io,
    ptr::NonNull,
};

use rustix::io::Errno;

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
}

/// The name of the call, in errors.
pub const MBIND: &str = "mbind";

#[cfg(target_arch = "x86_64")]
const NUMBER: c_long = 237;
/// The number of all architectures that came later (`include/uapi/asm-generic/unistd.h`).
#[cfg(not(target_arch = "x86_64"))]
const NUMBER: c_long = 235;
/// `MPOL_BIND`: no other node, even if this one is full.
const MPOL_BIND: c_int = 2;
const BITS: usize = c_ulong::BITS as usize;
/// Room for 1024 nodes (`MAX_NUMNODES` at most), and for the one bit by which the kernel counts wrongly.
const WORDS: usize = 1024 / BITS + 1;

/// Lets the pages from `start` on come from the memory of a NUMA node when they are first used.
///
/// # Errors
/// `EINVAL` for a node that does not exist, has no memory or is not allowed for this process, and for a `start` that is not that of a
/// page; `EPERM` where a filter refuses the call; `ENOSYS` from a kernel without NUMA.
///
/// # Safety
/// From `start` on, `length` bytes are a mapping of the caller's.
pub(super) unsafe fn bind(start: NonNull<u8>, length: usize, node: u32) -> Result<(), Errno> {
    let node = usize::try_from(node).map_err(|_| Errno::INVAL)?;
    let mut mask: [c_ulong; WORDS] = [0; WORDS];
    *mask.get_mut(node / BITS).ok_or(Errno::INVAL)? |= 1 << (node % BITS);
    let (bits, flags): (c_ulong, c_ulong) = (1024 + 1, 0);
    // SAFETY: the kernel reads the mask, which has as many bits, and changes the policy of the caller's own mapping.
    let result = unsafe {
        syscall(
            NUMBER,
            start.as_ptr().cast::<c_void>(),
            length,
            MPOL_BIND,
            mask.as_ptr(),
            bits,
            flags,
        )
    };
    if result == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
}
