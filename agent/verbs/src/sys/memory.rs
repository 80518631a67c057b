//! Protection domains and memory regions.

use std::{
    mem::ManuallyDrop,
    ptr::{NonNull, null_mut},
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64},
    },
};

use rdma_sys::{ibv_access_flags, ibv_alloc_pd, ibv_dealloc_pd, ibv_dereg_mr, ibv_mr, ibv_pd, ibv_reg_mr};

use rustix::{
    io::Errno,
    mm::{MapFlags, ProtFlags, mmap_anonymous, munmap},
};

use super::{
    Context, Error,
    placement::{self, MBIND},
};

/// A protection domain (`struct ibv_pd`): queue pairs and memory regions work together only within one. Clones
/// share it.
#[derive(Debug, Clone)]
pub struct ProtectionDomain(Arc<Domain>);

#[derive(Debug)]
struct Domain {
    raw: NonNull<ibv_pd>,
    context: Context,
}

// SAFETY: verbs on a domain (making and freeing regions and queue pairs) may be called from any thread, at the same
// time: the library takes its own locks, and no provider leaves those out.
unsafe impl Send for Domain {}
// SAFETY: as above; and nothing here hands out a reference into the structure.
unsafe impl Sync for Domain {}

impl ProtectionDomain {
    /// Allocates one (`ibv_alloc_pd`).
    ///
    /// # Errors
    /// `ENOMEM` where the device has none left, `EIO` or `ENODEV` where the device went away.
    pub fn new(context: &Context) -> Result<Self, Error> {
        // SAFETY: the context is open.
        let raw = unsafe { ibv_alloc_pd(context.raw()) };
        let raw = NonNull::new(raw).ok_or_else(|| Error::last("ibv_alloc_pd"))?;
        Ok(Self(Arc::new(Domain {
            raw,
            context: context.clone(),
        })))
    }

    /// The pointer, for calls made while this domain is borrowed or owned.
    pub(super) fn raw(&self) -> *mut ibv_pd {
        self.0.raw.as_ptr()
    }

    /// The context it was made from.
    pub fn context(&self) -> &Context {
        &self.0.context
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: the domain was allocated and not freed; queue pairs and regions made from it hold the `Arc`; the
        // context is a field and so still open. Where the device is gone there is nothing left to undo.
        let _ = unsafe { ibv_dealloc_pd(self.raw.as_ptr()) };
    }
}

/// What the other end of a connection may do with a region. Its own end may always read and write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Nothing.
    Local,
    /// Write to it (`IBV_ACCESS_REMOTE_WRITE`).
    RemoteWrite,
}

/// A registered buffer (`struct ibv_mr`), which it owns: page-aligned and zeroed at first.
///
/// The HCA writes to it at any time, so its bytes are reached only through atomics.
#[derive(Debug)]
pub struct MemoryRegion {
    raw: NonNull<ibv_mr>,
    buffer: ManuallyDrop<Buffer>,
    length: usize,
    /// Freed after the region.
    _domain: ProtectionDomain,
}

// SAFETY: a region may be freed by another thread than the one that made it (see `Domain`).
unsafe impl Send for MemoryRegion {}
// SAFETY: what a shared reference gives access to are keys, which do not change, and atomics.
unsafe impl Sync for MemoryRegion {}

/// Whole pages of memory of their own, zeroed at first.
#[derive(Debug)]
struct Buffer {
    start: NonNull<u8>,
    /// Their length in bytes.
    mapped: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread; only `MemoryRegion` gives access to it.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Maps at least `length` bytes, of the memory of a NUMA node if one is given.
    fn new(length: usize, node: Option<u32>) -> Result<Self, Error> {
        let failed = |call| {
            move |errno: Errno| Error {
                call,
                errno: errno.raw_os_error(),
            }
        };
        let mapped = length.checked_next_multiple_of(rustix::param::page_size());
        let mapped = mapped.ok_or_else(|| failed("mmap")(Errno::NOMEM))?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: without an address, the kernel maps what nothing else uses.
        let start = unsafe { mmap_anonymous(null_mut(), mapped, access, MapFlags::PRIVATE) };
        let start = start.map_err(failed("mmap"))?;
        let start = NonNull::new(start.cast()).ok_or_else(|| failed("mmap")(Errno::NOMEM))?;
        let buffer = Self { start, mapped };
        if let Some(node) = node {
            // SAFETY: the mapping of this buffer.
            unsafe { placement::bind(buffer.start, mapped, node) }.map_err(failed(MBIND))?;
        }
        Ok(buffer)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` and owned by this value; the region that used it is deregistered. A failure leaves it mapped.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.mapped) };
    }
}

impl MemoryRegion {
    /// Allocates a buffer of `length` bytes, of the memory of a NUMA node if one is given, and registers it (`ibv_reg_mr`).
    ///
    /// # Errors
    /// `ENOMEM` where there is no memory, or the registration exceeds `RLIMIT_MEMLOCK` without `CAP_IPC_LOCK`;
    /// `EINVAL` for a length of 0, and for a NUMA node that does not exist, has no memory or is not allowed for this process; `EPERM` where
    /// a filter refuses `mbind`; whatever the driver fails with.
    pub fn new(
        domain: &ProtectionDomain,
        length: usize,
        access: Access,
        node: Option<u32>,
    ) -> Result<Self, Error> {
        if length == 0 {
            return Err(Error {
                call: "ibv_reg_mr",
                errno: Errno::INVAL.raw_os_error(),
            });
        }
        let buffer = Buffer::new(length, node)?;
        let access = match access {
            Access::Local => ibv_access_flags::IBV_ACCESS_LOCAL_WRITE,
            Access::RemoteWrite => {
                ibv_access_flags::IBV_ACCESS_LOCAL_WRITE | ibv_access_flags::IBV_ACCESS_REMOTE_WRITE
            }
        };
        // SAFETY: the domain is allocated; the buffer is at least `length` bytes long, is freed only after the region is
        // deregistered (see `drop`), and is never borrowed but as atomics.
        let raw = unsafe {
            ibv_reg_mr(
                domain.raw(),
                buffer.start.as_ptr().cast(),
                length,
                access.0.cast_signed(),
            )
        };
        let raw = NonNull::new(raw).ok_or_else(|| Error::last("ibv_reg_mr"))?;
        Ok(Self {
            raw,
            buffer: ManuallyDrop::new(buffer),
            length,
            _domain: domain.clone(),
        })
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Never: a region of no bytes cannot be registered.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The buffer as bytes.
    pub fn bytes(&self) -> &[AtomicU8] {
        // SAFETY: the buffer holds at least `length` initialised bytes for as long as the region lives; the HCA and
        // this process may write to it at the same time, which atomics allow.
        unsafe { std::slice::from_raw_parts(self.buffer.start.as_ptr().cast(), self.length) }
    }

    /// The buffer as words, without the last bytes that do not fill one.
    pub fn words(&self) -> &[AtomicU64] {
        let count = self.length / size_of::<u64>();
        // SAFETY: as in `bytes`; the buffer is page-aligned.
        unsafe { std::slice::from_raw_parts(self.buffer.start.as_ptr().cast(), count) }
    }

    /// The part of it from `offset` on, as the source of a write; `None` where that is not within it.
    pub fn segment(&self, offset: usize, length: u32) -> Option<Segment> {
        let end = offset.checked_add(usize::try_from(length).ok()?)?;
        (end <= self.length).then(|| Segment {
            address: self.address(offset),
            length,
            key: self.local_key(),
        })
    }

    /// The place at `offset`, as the destination of a write; `None` where that is not within it.
    pub fn remote(&self, offset: usize) -> Option<Remote> {
        (offset < self.length).then(|| Remote {
            address: self.address(offset),
            key: self.remote_key(),
        })
    }

    /// Its first byte, as the destination of a write.
    pub fn start(&self) -> Remote {
        Remote {
            address: self.address(0),
            key: self.remote_key(),
        }
    }

    /// The key that a segment needs.
    pub fn local_key(&self) -> u32 {
        // SAFETY: the region is registered; the key does not change.
        unsafe { (*self.raw.as_ptr()).lkey }
    }

    /// The key that a remote write needs.
    pub fn remote_key(&self) -> u32 {
        // SAFETY: the region is registered; the key does not change.
        unsafe { (*self.raw.as_ptr()).rkey }
    }

    fn address(&self, offset: usize) -> u64 {
        // A usize has at most 64 bits where libibverbs runs.
        self.buffer.start.as_ptr().expose_provenance() as u64 + offset as u64
    }

    /// The bytes of a part of it, for an inline write.
    pub(super) fn pointer(&self, offset: usize, length: usize) -> Option<NonNull<u8>> {
        let end = offset.checked_add(length)?;
        // SAFETY: the result lies within the buffer or one past its end.
        (end <= self.length).then(|| unsafe { self.buffer.start.add(offset) })
    }
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        // SAFETY: the region is registered, and this is its only owner; the domain is a field.
        let result = unsafe { ibv_dereg_mr(self.raw.as_ptr()) };
        if result == 0 {
            // SAFETY: dropped only here; the HCA no longer reaches it.
            unsafe { ManuallyDrop::drop(&mut self.buffer) };
        }
        // Else the HCA may still write to the buffer: it is better lost than used for something else.
    }
}

/// The source of a write: address, length and local key.
///
/// The HCA checks it against the regions of the protection domain, and reads what it covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Address in this process.
    pub address: u64,
    /// Length in bytes.
    pub length: u32,
    /// `ibv_mr.lkey`.
    pub key: u32,
}

/// The destination of a write: address and remote key.
///
/// The HCA checks it against the regions of the other end's protection domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remote {
    /// Address in the process at the other end.
    pub address: u64,
    /// `ibv_mr.rkey`.
    pub key: u32,
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_buffer_takes_the_memory_of_a_node_or_says_why_not() {
        const SIZE: usize = 1 << 20;
        let errno = |node| {
            Buffer::new(SIZE, Some(node))
                .map(drop)
                .map_err(|error| (error.call, error.errno))
        };
        let refused = |errno: Errno| Err(("mbind", errno.raw_os_error()));
        let buffer = match Buffer::new(SIZE, Some(0)) {
            Ok(buffer) => buffer,
            Err(error) => {
                // A kernel without NUMA, or a filter.
                assert!(
                    [Errno::NOSYS.raw_os_error(), Errno::PERM.raw_os_error()].contains(&error.errno),
                    "{error}"
                );
                return;
            }
        };
        let maps = fs::read_to_string("/proc/self/numa_maps").unwrap();
        let own = format!("{:x} ", buffer.start.as_ptr().addr());
        let line = maps.lines().find(|line| line.starts_with(&own));
        assert!(
            line.is_some_and(|line| line.contains("bind:0")),
            "{own} in {maps}"
        );
        for node in [1000, 1024, 5000, u32::MAX] {
            assert_eq!(errno(node), refused(Errno::INVAL), "{node}");
        }
    }
}
