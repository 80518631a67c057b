//! Protection domains and memory regions.

use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64},
    },
};

use rdma_sys::{ibv_access_flags, ibv_alloc_pd, ibv_dealloc_pd, ibv_dereg_mr, ibv_mr, ibv_pd, ibv_reg_mr};

use super::{Context, Error};

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
    buffer: NonNull<u8>,
    layout: Layout,
    length: usize,
    /// Freed after the region.
    _domain: ProtectionDomain,
}

// SAFETY: a region may be freed by another thread than the one that made it (see `Domain`).
unsafe impl Send for MemoryRegion {}
// SAFETY: what a shared reference gives access to are keys, which do not change, and atomics.
unsafe impl Sync for MemoryRegion {}

/// Alignment of buffers: the page of x86-64, and what providers ask for at most.
const PAGE: usize = 4096;

impl MemoryRegion {
    /// Allocates a buffer of `length` bytes and registers it (`ibv_reg_mr`).
    ///
    /// # Errors
    /// `ENOMEM` where there is no memory, or the registration exceeds `RLIMIT_MEMLOCK` without `CAP_IPC_LOCK`;
    /// `EINVAL` for a length of 0; whatever the driver fails with.
    pub fn new(domain: &ProtectionDomain, length: usize, access: Access) -> Result<Self, Error> {
        let failed = |errno: rustix::io::Errno| Error {
            call: "ibv_reg_mr",
            errno: errno.raw_os_error(),
        };
        if length == 0 {
            return Err(failed(rustix::io::Errno::INVAL));
        }
        // Whole words, so that the buffer is a slice of words too.
        let whole = length.checked_next_multiple_of(size_of::<u64>());
        let layout = whole.and_then(|size| Layout::from_size_align(size, PAGE).ok());
        let layout = layout.ok_or_else(|| failed(rustix::io::Errno::NOMEM))?;
        // SAFETY: the layout's size is not 0.
        let buffer = unsafe { alloc_zeroed(layout) };
        let buffer = NonNull::new(buffer).ok_or_else(|| failed(rustix::io::Errno::NOMEM))?;
        let access = match access {
            Access::Local => ibv_access_flags::IBV_ACCESS_LOCAL_WRITE,
            Access::RemoteWrite => {
                ibv_access_flags::IBV_ACCESS_LOCAL_WRITE | ibv_access_flags::IBV_ACCESS_REMOTE_WRITE
            }
        };
        // SAFETY: the domain is allocated; the buffer is `length` bytes long, is freed only after the region is
        // deregistered (see `drop`), and is never borrowed but as atomics.
        let raw = unsafe {
            ibv_reg_mr(
                domain.raw(),
                buffer.as_ptr().cast(),
                length,
                access.0.cast_signed(),
            )
        };
        let Some(raw) = NonNull::new(raw) else {
            let error = Error::last("ibv_reg_mr");
            // SAFETY: allocated above with this layout, and not registered.
            unsafe { dealloc(buffer.as_ptr(), layout) };
            return Err(error);
        };
        Ok(Self {
            raw,
            buffer,
            layout,
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
        unsafe { std::slice::from_raw_parts(self.buffer.as_ptr().cast(), self.length) }
    }

    /// The buffer as words, without the last bytes that do not fill one.
    pub fn words(&self) -> &[AtomicU64] {
        let count = self.length / size_of::<u64>();
        // SAFETY: as in `bytes`; the buffer is page-aligned.
        unsafe { std::slice::from_raw_parts(self.buffer.as_ptr().cast(), count) }
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
        self.buffer.as_ptr().expose_provenance() as u64 + offset as u64
    }

    /// The bytes of a part of it, for an inline write.
    pub(super) fn pointer(&self, offset: usize, length: usize) -> Option<NonNull<u8>> {
        let end = offset.checked_add(length)?;
        // SAFETY: the result lies within the buffer or one past its end.
        (end <= self.length).then(|| unsafe { self.buffer.add(offset) })
    }
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        // SAFETY: the region is registered, and this is its only owner; the domain is a field.
        let result = unsafe { ibv_dereg_mr(self.raw.as_ptr()) };
        if result == 0 {
            // SAFETY: allocated in `new` with this layout; the HCA no longer reaches it.
            unsafe { dealloc(self.buffer.as_ptr(), self.layout) };
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
