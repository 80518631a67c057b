//! The GID table in one call.

use rdma_sys::{ibv_gid, ibv_gid_entry};

use super::{Context, Error, ffi};

/// One entry in use (`struct ibv_gid_entry`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GidEntry {
    /// The GID, in network byte order.
    pub gid: [u8; 16],
    /// Index in the port's table.
    pub index: u32,
    /// The port's number.
    pub port: u32,
    /// `ibv_gid_type`: 0 InfiniBand, 1 RoCE v1, 2 RoCE v2.
    pub kind: u32,
    /// Index of the network device; 0 if there is none.
    pub netdev_index: u32,
}

impl Context {
    /// The entries in use of all ports (`_ibv_query_gid_table`), at most `max_entries`.
    ///
    /// # Errors
    /// `EINVAL` if more than `max_entries` are in use, `ENOMEM`, `EIO` or `ENODEV` if the device has disappeared.
    pub fn gid_table(&self, max_entries: usize) -> Result<Vec<GidEntry>, Error> {
        let empty = || ibv_gid_entry {
            gid: ibv_gid { raw: [0; 16] },
            gid_index: 0,
            port_num: 0,
            gid_type: 0,
            ndev_ifindex: 0,
        };
        let mut entries: Vec<_> = std::iter::repeat_with(empty).take(max_entries).collect();
        // SAFETY: the context is open; `entries` has room for `max_entries` entries of the size that is passed.
        let count = unsafe {
            ffi::_ibv_query_gid_table(
                self.raw(),
                entries.as_mut_ptr(),
                max_entries,
                0,
                size_of::<ibv_gid_entry>(),
            )
        };
        let Ok(count) = usize::try_from(count) else {
            // Fits, because an errno is below 4096. Any other value is a bug of the library and reported as EIO.
            let errno = i32::try_from(-count).unwrap_or_else(|_| rustix::io::Errno::IO.raw_os_error());
            return Err(Error {
                call: "_ibv_query_gid_table",
                errno,
            });
        };
        entries.truncate(count);
        let copy = |entry: ibv_gid_entry| GidEntry {
            // SAFETY: every bit pattern is an array of bytes.
            gid: unsafe { entry.gid.raw },
            index: entry.gid_index,
            port: entry.port_num,
            kind: entry.gid_type,
            netdev_index: entry.ndev_ifindex,
        };
        Ok(entries.into_iter().map(copy).collect())
    }
}
