//! Names of errno values.

use rustix::io::Errno;

/// The symbol in `errno.h` (`ENOMEM`), or the number where this table has none.
pub fn name(errno: i32) -> String {
    let known = NAMES.iter().find(|(known, _)| known.raw_os_error() == errno);
    known.map_or_else(|| errno.to_string(), |(_, name)| (*name).to_owned())
}

/// Those that verbs, their drivers and the kernel's uverbs return.
const NAMES: [(Errno, &str); 48] = [
    (Errno::PERM, "EPERM"),
    (Errno::NOENT, "ENOENT"),
    (Errno::INTR, "EINTR"),
    (Errno::IO, "EIO"),
    (Errno::NXIO, "ENXIO"),
    (Errno::TOOBIG, "E2BIG"),
    (Errno::BADF, "EBADF"),
    (Errno::AGAIN, "EAGAIN"),
    (Errno::NOMEM, "ENOMEM"),
    (Errno::ACCESS, "EACCES"),
    (Errno::FAULT, "EFAULT"),
    (Errno::BUSY, "EBUSY"),
    (Errno::EXIST, "EEXIST"),
    (Errno::NODEV, "ENODEV"),
    (Errno::NOTDIR, "ENOTDIR"),
    (Errno::ISDIR, "EISDIR"),
    (Errno::INVAL, "EINVAL"),
    (Errno::NFILE, "ENFILE"),
    (Errno::MFILE, "EMFILE"),
    (Errno::NOTTY, "ENOTTY"),
    (Errno::NOSPC, "ENOSPC"),
    (Errno::ROFS, "EROFS"),
    (Errno::PIPE, "EPIPE"),
    (Errno::RANGE, "ERANGE"),
    (Errno::NOSYS, "ENOSYS"),
    (Errno::NODATA, "ENODATA"),
    (Errno::TIME, "ETIME"),
    (Errno::PROTO, "EPROTO"),
    (Errno::OVERFLOW, "EOVERFLOW"),
    (Errno::REMOTEIO, "EREMOTEIO"),
    (Errno::MSGSIZE, "EMSGSIZE"),
    (Errno::PROTONOSUPPORT, "EPROTONOSUPPORT"),
    (Errno::OPNOTSUPP, "EOPNOTSUPP"),
    (Errno::AFNOSUPPORT, "EAFNOSUPPORT"),
    (Errno::ADDRINUSE, "EADDRINUSE"),
    (Errno::ADDRNOTAVAIL, "EADDRNOTAVAIL"),
    (Errno::NETDOWN, "ENETDOWN"),
    (Errno::NETUNREACH, "ENETUNREACH"),
    (Errno::CONNRESET, "ECONNRESET"),
    (Errno::NOBUFS, "ENOBUFS"),
    (Errno::NOTCONN, "ENOTCONN"),
    (Errno::TIMEDOUT, "ETIMEDOUT"),
    (Errno::CONNREFUSED, "ECONNREFUSED"),
    (Errno::HOSTUNREACH, "EHOSTUNREACH"),
    (Errno::CANCELED, "ECANCELED"),
    (Errno::NOPKG, "ENOPKG"),
    (Errno::DQUOT, "EDQUOT"),
    (Errno::NOKEY, "ENOKEY"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_linux() {
        for (number, expected) in [
            (2, "ENOENT"),
            (5, "EIO"),
            (12, "ENOMEM"),
            (16, "EBUSY"),
            (19, "ENODEV"),
            (22, "EINVAL"),
            (61, "ENODATA"),
            (110, "ETIMEDOUT"),
            (4000, "4000"),
        ] {
            assert_eq!(name(number), expected);
        }
    }

    #[test]
    fn no_name_stands_twice() {
        for (at, (errno, name)) in NAMES.iter().enumerate() {
            assert!(
                NAMES[at + 1..].iter().all(|(e, n)| e != errno && n != name),
                "{name}"
            );
        }
    }
}
