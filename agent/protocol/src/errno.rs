//! Error numbers, as system calls and libibverbs return them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An error number of Linux (`errno`); a plain number in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Errno(pub i32);

/// Makes the constants and the names from one list.
macro_rules! names {
    ($($name:ident = $number:literal,)*) => {
        #[allow(missing_docs)] // each is its own symbol in `errno.h`
        impl Errno {
            $(pub const $name: Self = Self($number);)*
        }

        impl Errno {
            /// The symbol in `errno.h` (`ENOMEM`); `None` for a number without a name here.
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

// Those that verbs, their drivers, uverbs, sysfs and procfs return, from the kernel's
// include/uapi/asm-generic/errno-base.h and errno.h, which x86, arm64, RISC-V, POWER and s390x share.
names! {
    EPERM = 1,
    ENOENT = 2,
    ESRCH = 3,
    EINTR = 4,
    EIO = 5,
    ENXIO = 6,
    E2BIG = 7,
    EBADF = 9,
    EAGAIN = 11,
    ENOMEM = 12,
    EACCES = 13,
    EFAULT = 14,
    EBUSY = 16,
    EEXIST = 17,
    EXDEV = 18,
    ENODEV = 19,
    ENOTDIR = 20,
    EISDIR = 21,
    EINVAL = 22,
    ENFILE = 23,
    EMFILE = 24,
    ENOTTY = 25,
    ENOSPC = 28,
    EROFS = 30,
    EPIPE = 32,
    ERANGE = 34,
    ENAMETOOLONG = 36,
    ENOSYS = 38,
    ELOOP = 40,
    ENODATA = 61,
    ETIME = 62,
    ENOPKG = 65,
    EPROTO = 71,
    EOVERFLOW = 75,
    EMSGSIZE = 90,
    ENOPROTOOPT = 92,
    EPROTONOSUPPORT = 93,
    EOPNOTSUPP = 95,
    EAFNOSUPPORT = 97,
    EADDRINUSE = 98,
    EADDRNOTAVAIL = 99,
    ENETDOWN = 100,
    ENETUNREACH = 101,
    ECONNABORTED = 103,
    ECONNRESET = 104,
    ENOBUFS = 105,
    ENOTCONN = 107,
    ETIMEDOUT = 110,
    ECONNREFUSED = 111,
    EHOSTUNREACH = 113,
    ESTALE = 116,
    EREMOTEIO = 121,
    EDQUOT = 122,
    ECANCELED = 125,
    ENOKEY = 126,
    EHWPOISON = 133,
    // Not for programs, but some drivers return it.
    ENOTSUPP = 524,
}

/// The symbol in `errno.h`, or the number where it has no name here.
impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => self.0.fmt(f),
        }
    }
}
