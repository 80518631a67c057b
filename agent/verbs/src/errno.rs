//! Names of errno values.

use rdma_health_protocol::Errno;

/// The symbol in `errno.h` (`ENOMEM`), or the number if it has none.
pub fn name(errno: i32) -> String {
    Errno(errno).to_string()
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno as System;

    #[test]
    fn the_numbers_are_those_of_this_system() {
        for (errno, name) in [
            (System::PERM, "EPERM"),
            (System::NOENT, "ENOENT"),
            (System::INTR, "EINTR"),
            (System::IO, "EIO"),
            (System::NXIO, "ENXIO"),
            (System::TOOBIG, "E2BIG"),
            (System::BADF, "EBADF"),
            (System::AGAIN, "EAGAIN"),
            (System::NOMEM, "ENOMEM"),
            (System::ACCESS, "EACCES"),
            (System::FAULT, "EFAULT"),
            (System::BUSY, "EBUSY"),
            (System::EXIST, "EEXIST"),
            (System::NODEV, "ENODEV"),
            (System::NOTDIR, "ENOTDIR"),
            (System::ISDIR, "EISDIR"),
            (System::INVAL, "EINVAL"),
            (System::NFILE, "ENFILE"),
            (System::MFILE, "EMFILE"),
            (System::NOTTY, "ENOTTY"),
            (System::NOSPC, "ENOSPC"),
            (System::ROFS, "EROFS"),
            (System::PIPE, "EPIPE"),
            (System::RANGE, "ERANGE"),
            (System::NOSYS, "ENOSYS"),
            (System::NODATA, "ENODATA"),
            (System::TIME, "ETIME"),
            (System::PROTO, "EPROTO"),
            (System::OVERFLOW, "EOVERFLOW"),
            (System::REMOTEIO, "EREMOTEIO"),
            (System::MSGSIZE, "EMSGSIZE"),
            (System::NOPROTOOPT, "ENOPROTOOPT"),
            (System::PROTONOSUPPORT, "EPROTONOSUPPORT"),
            (System::OPNOTSUPP, "EOPNOTSUPP"),
            (System::AFNOSUPPORT, "EAFNOSUPPORT"),
            (System::ADDRINUSE, "EADDRINUSE"),
            (System::ADDRNOTAVAIL, "EADDRNOTAVAIL"),
            (System::NETDOWN, "ENETDOWN"),
            (System::NETUNREACH, "ENETUNREACH"),
            (System::CONNRESET, "ECONNRESET"),
            (System::NOBUFS, "ENOBUFS"),
            (System::NOTCONN, "ENOTCONN"),
            (System::TIMEDOUT, "ETIMEDOUT"),
            (System::CONNREFUSED, "ECONNREFUSED"),
            (System::HOSTUNREACH, "EHOSTUNREACH"),
            (System::CANCELED, "ECANCELED"),
            (System::NOPKG, "ENOPKG"),
            (System::DQUOT, "EDQUOT"),
            (System::NOKEY, "ENOKEY"),
            (System::SRCH, "ESRCH"),
            (System::XDEV, "EXDEV"),
            (System::NAMETOOLONG, "ENAMETOOLONG"),
            (System::LOOP, "ELOOP"),
            (System::STALE, "ESTALE"),
            (System::HWPOISON, "EHWPOISON"),
        ] {
            assert_eq!(super::name(errno.raw_os_error()), name);
        }
        assert_eq!(super::name(4000), "4000");
    }
}
