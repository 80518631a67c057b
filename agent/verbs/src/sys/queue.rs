//! Completion queues and reliable connected queue pairs.

use std::{mem, ops::Range, ptr, ptr::NonNull};

use rdma_sys::{
    ibv_access_flags, ibv_cq, ibv_create_cq, ibv_create_qp, ibv_destroy_cq, ibv_destroy_qp, ibv_gid,
    ibv_modify_qp, ibv_mtu, ibv_poll_cq, ibv_post_send, ibv_qp, ibv_qp_attr, ibv_qp_attr_mask as mask,
    ibv_qp_init_attr, ibv_qp_state, ibv_qp_type, ibv_send_flags, ibv_send_wr, ibv_sge, ibv_wc, ibv_wr_opcode,
    rdma_t, wr_t,
};

use super::{Error, MemoryRegion, ProtectionDomain, Remote, Segment};

/// How many writes [`QueuePair::post_writes`] posts at once at most.
pub const POST_LIST: usize = 16;

/// How many completions one poll takes at most; that of perftest.
const POLL_BATCH: i32 = 16;

/// A completion queue (`struct ibv_cq`). It belongs to one queue pair, which is polled for completions.
///
/// It carries the domain that its queue pair will be in. So a queue pair and its completion queue are always objects of one
/// context: providers take that for granted, and would use one device's queue as if it were another's.
#[derive(Debug)]
pub struct CompletionQueue {
    raw: NonNull<ibv_cq>,
    /// Freed after the queue, and its context closed.
    domain: ProtectionDomain,
}

// SAFETY: verbs on a queue may be called from any thread, by one at a time where the provider leaves its locks out
// (`MLX5_SINGLE_THREADED`); without `Sync`, safe code cannot do otherwise.
unsafe impl Send for CompletionQueue {}

/// Room for the completions of one poll.
pub struct PollBuffer([ibv_wc; POLL_BATCH as usize]);

impl Default for PollBuffer {
    fn default() -> Self {
        // SAFETY: all members of `ibv_wc` are integers, or a union of integers.
        Self(unsafe { mem::zeroed() })
    }
}

/// One completion (`struct ibv_wc`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkCompletion {
    /// [`Write::id`] of the write that completed.
    pub id: u64,
    /// `ibv_wc_status`: 0 is success.
    pub status: u32,
    /// The vendor's own code, of use where `status` is not 0.
    pub vendor_error: u32,
}

impl CompletionQueue {
    /// Creates one with room for `entries` completions at least (`ibv_create_cq`), for a queue pair in `domain`.
    ///
    /// # Errors
    /// `EINVAL` where the device has no room for that many, `ENOMEM`, `EIO` or `ENODEV` where the device went away.
    pub fn new(domain: &ProtectionDomain, entries: u32) -> Result<Self, Error> {
        let entries = i32::try_from(entries).unwrap_or(i32::MAX);
        let context = domain.context().raw();
        // SAFETY: the domain keeps its context open; no completion channel is used.
        let raw = unsafe { ibv_create_cq(context, entries, ptr::null_mut(), ptr::null_mut(), 0) };
        let raw = NonNull::new(raw).ok_or_else(|| Error::last("ibv_create_cq"))?;
        Ok(Self {
            raw,
            domain: domain.clone(),
        })
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // SAFETY: the queue exists, and the queue pair that used it, if any, was destroyed before; the domain, a
        // field, keeps the context open.
        let _ = unsafe { ibv_destroy_cq(self.raw.as_ptr()) };
    }
}

/// What a queue pair must have room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Writes posted and not completed.
    pub send_depth: u32,
    /// Bytes of an inline write; 0 for none. Where the provider has no room for them there will be none.
    pub inline: u32,
}

/// Where the other end of a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Destination {
    /// Number of its queue pair.
    pub queue_pair: u32,
    /// Sequence number of the first packet that it sends, below 2^24.
    pub psn: u32,
    /// Its LID; 0 on Ethernet.
    pub lid: u16,
    /// Its GID and the index of our own, where the address carries a global route header.
    pub gid: Option<([u8; 16], u8)>,
    /// `ibv_mtu` code of the path MTU.
    pub mtu: u32,
}

/// One RDMA WRITE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// Comes back in [`WorkCompletion::id`].
    pub id: u64,
    /// The bytes to write.
    pub local: Segment,
    /// Where to write them.
    pub remote: Remote,
    /// Whether a success completes (a failure always does).
    pub signaled: bool,
}

/// A reliable connected queue pair (`struct ibv_qp`).
#[derive(Debug)]
pub struct QueuePair {
    raw: NonNull<ibv_qp>,
    port: u8,
    inline: u32,
    /// Destroyed after the queue pair, and then the domain of both.
    completions: CompletionQueue,
}

// SAFETY: as for the completion queue.
unsafe impl Send for QueuePair {}

impl QueuePair {
    /// Creates one on a port (`ibv_create_qp`), in the domain of `completions`. Both its queues complete to `completions`,
    /// which it takes over.
    ///
    /// # Errors
    /// `EINVAL` or `ENOMEM` if the device does not support the request, `EIO` or `ENODEV` if it has disappeared.
    pub fn new(completions: CompletionQueue, port: u8, capabilities: Capabilities) -> Result<Self, Error> {
        let create = |inline| {
            // SAFETY: all members are integers and pointers, for which zero is a value.
            let mut init: ibv_qp_init_attr = unsafe { mem::zeroed() };
            init.send_cq = completions.raw.as_ptr();
            init.recv_cq = completions.raw.as_ptr();
            init.qp_type = ibv_qp_type::IBV_QPT_RC;
            init.cap.max_send_wr = capabilities.send_depth;
            init.cap.max_recv_wr = 1;
            init.cap.max_send_sge = 1;
            init.cap.max_recv_sge = 1;
            init.cap.max_inline_data = inline;
            // SAFETY: the completion queue and its domain exist, are of one context, and are kept by the new pair; the
            // call only reads and writes `init`.
            let raw = unsafe { ibv_create_qp(completions.domain.raw(), &raw mut init) };
            let raw = NonNull::new(raw).ok_or_else(|| Error::last("ibv_create_qp"))?;
            Ok((raw, init.cap.max_inline_data))
        };
        let created = match create(capabilities.inline) {
            Err(_) if capabilities.inline > 0 => create(0),
            created => created,
        };
        let (raw, inline) = created?;
        Ok(Self {
            raw,
            port,
            inline,
            completions,
        })
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        // SAFETY: the pair exists; its number does not change.
        unsafe { (*self.raw.as_ptr()).qp_num }
    }

    /// How many bytes an inline write may have.
    pub fn inline(&self) -> u32 {
        self.inline
    }

    /// Moves it to INIT; `remote_write` says whether the other end may write.
    ///
    /// # Errors
    /// What the driver fails with.
    pub fn init(&self, remote_write: bool) -> Result<(), Error> {
        let mut attr = blank();
        attr.qp_state = ibv_qp_state::IBV_QPS_INIT;
        attr.port_num = self.port;
        if remote_write {
            attr.qp_access_flags = ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0;
        }
        let which =
            mask::IBV_QP_STATE | mask::IBV_QP_PKEY_INDEX | mask::IBV_QP_PORT | mask::IBV_QP_ACCESS_FLAGS;
        self.modify(attr, which)
    }

    /// Moves it from INIT to RTR: it takes what the other end writes.
    ///
    /// # Errors
    /// `ENODATA` where the GID index holds no GID, `ENETUNREACH` or `EHOSTUNREACH` where no route leads there,
    /// `ETIMEDOUT` where its link address does not resolve, `EINVAL`.
    pub fn ready_to_receive(&self, to: Destination) -> Result<(), Error> {
        let mut attr = blank();
        attr.qp_state = ibv_qp_state::IBV_QPS_RTR;
        attr.path_mtu = to.mtu as ibv_mtu::Type;
        attr.dest_qp_num = to.queue_pair;
        attr.rq_psn = to.psn;
        attr.max_dest_rd_atomic = 1;
        attr.min_rnr_timer = 12;
        attr.ah_attr.port_num = self.port;
        attr.ah_attr.dlid = to.lid;
        if let Some((gid, index)) = to.gid {
            attr.ah_attr.is_global = 1;
            attr.ah_attr.grh.dgid = ibv_gid { raw: gid };
            attr.ah_attr.grh.sgid_index = index;
            attr.ah_attr.grh.hop_limit = 64;
        }
        let which = mask::IBV_QP_STATE
            | mask::IBV_QP_AV
            | mask::IBV_QP_PATH_MTU
            | mask::IBV_QP_DEST_QPN
            | mask::IBV_QP_RQ_PSN
            | mask::IBV_QP_MAX_DEST_RD_ATOMIC
            | mask::IBV_QP_MIN_RNR_TIMER;
        self.modify(attr, which)
    }

    /// Moves it from RTR to RTS: it sends. `psn`, below 2^24, is the sequence number of its first packet.
    ///
    /// # Errors
    /// What the driver fails with.
    pub fn ready_to_send(&self, psn: u32) -> Result<(), Error> {
        let mut attr = blank();
        attr.qp_state = ibv_qp_state::IBV_QPS_RTS;
        attr.sq_psn = psn;
        // As perftest: 67 ms to an acknowledgement, seven retries.
        attr.timeout = 14;
        attr.retry_cnt = 7;
        attr.rnr_retry = 7;
        attr.max_rd_atomic = 1;
        let which = mask::IBV_QP_STATE
            | mask::IBV_QP_TIMEOUT
            | mask::IBV_QP_RETRY_CNT
            | mask::IBV_QP_RNR_RETRY
            | mask::IBV_QP_SQ_PSN
            | mask::IBV_QP_MAX_QP_RD_ATOMIC;
        self.modify(attr, which)
    }

    fn modify(&self, mut attr: ibv_qp_attr, which: mask) -> Result<(), Error> {
        // SAFETY: the pair exists; the call only reads `attr`. The mask's bits are far below the sign.
        let result = unsafe { ibv_modify_qp(self.raw.as_ptr(), &raw mut attr, which.0.cast_signed()) };
        Error::check("ibv_modify_qp", result)
    }

    /// Posts one write (`ibv_post_send`).
    ///
    /// The HCA checks segment and destination: one that is not within a region ends in a failed completion.
    ///
    /// # Errors
    /// `ENOMEM` where the queue is full, `EINVAL` where the queue pair is not ready to send.
    #[inline]
    pub fn post_write(&self, write: &Write) -> Result<(), Error> {
        let mut segment = sge(write.local);
        let flags = if write.signaled { SIGNALED } else { 0 };
        let mut request = work_request(write.id, &raw mut segment, write.remote, flags);
        // SAFETY: the request and its segment outlive the call, and nothing is inline.
        unsafe { self.post(&raw mut request) }
    }

    /// Posts `write` `count` times in one call, of which only the last one is signaled; at most [`POST_LIST`].
    /// All have the same id. Where the call fails, none, some or all but one were posted.
    ///
    /// # Errors
    /// As [`QueuePair::post_write`].
    #[inline]
    pub fn post_writes(&self, write: &Write, count: usize) -> Result<(), Error> {
        let count = count.min(POST_LIST);
        if count == 0 {
            return Ok(());
        }
        let mut segment = sge(write.local);
        let mut requests: [ibv_send_wr; POST_LIST] =
            std::array::from_fn(|_| work_request(write.id, &raw mut segment, write.remote, 0));
        let first = requests.as_mut_ptr();
        for at in 1..count {
            // SAFETY: `at` < `count` <= `POST_LIST`, so that both lie within the array, which no other code borrows.
            unsafe { (*first.add(at - 1)).next = first.add(at) };
        }
        // SAFETY: `count` is 1 to `POST_LIST`.
        unsafe { (*first.add(count - 1)).send_flags = SIGNALED };
        // SAFETY: the list ends after `count` requests; they and their segment outlive the call; nothing is inline.
        unsafe { self.post(first) }
    }

    /// Posts a write of a part of `from` that is copied at once where the queue pair has room for it
    /// (`IBV_SEND_INLINE`), and is read by the HCA otherwise. It is signaled.
    ///
    /// # Errors
    /// As [`QueuePair::post_write`]; `EINVAL` where the part is not within `from`.
    #[inline]
    pub fn post_small_write(
        &self,
        from: &MemoryRegion,
        part: Range<usize>,
        remote: Remote,
        id: u64,
    ) -> Result<(), Error> {
        let length = u32::try_from(part.len()).ok();
        let found = length.and_then(|length| {
            Some((
                from.segment(part.start, length)?,
                from.pointer(part.start, part.len())?,
            ))
        });
        let Some((segment, bytes)) = found else {
            return Err(Error {
                call: "ibv_post_send",
                errno: rustix::io::Errno::INVAL.raw_os_error(),
            });
        };
        let mut flags = SIGNALED;
        let mut segment = sge(segment);
        if segment.length <= self.inline {
            flags |= ibv_send_flags::IBV_SEND_INLINE.0;
            // The pointer itself, since the library reads through it.
            segment.addr = bytes.as_ptr().expose_provenance() as u64;
        }
        let mut request = work_request(id, &raw mut segment, remote, flags);
        // SAFETY: the request and its segment outlive the call; what is copied inline lies within a region that is
        // borrowed for the time of the call.
        unsafe { self.post(&raw mut request) }
    }

    /// Takes the completions that are there, without waiting, at most as many as the buffer has room for.
    ///
    /// # Errors
    /// `EIO` where the completion queue overran or cannot be read.
    #[inline]
    pub fn poll<'a>(
        &self,
        buffer: &'a mut PollBuffer,
    ) -> Result<impl Iterator<Item = WorkCompletion> + use<'a>, Error> {
        // SAFETY: the queue exists; the buffer has room for as many completions as is said. One thread at a time uses
        // the queue, since it belongs to this pair, which is not `Sync`.
        let count = unsafe { ibv_poll_cq(self.completions.raw.as_ptr(), POLL_BATCH, buffer.0.as_mut_ptr()) };
        // Providers return -1, or a negative number of their own, and leave errno as it was.
        let count = usize::try_from(count).map_err(|_| Error {
            call: "ibv_poll_cq",
            errno: rustix::io::Errno::IO.raw_os_error(),
        })?;
        Ok(buffer.0[..count.min(buffer.0.len())]
            .iter()
            .map(|wc| WorkCompletion {
                id: wc.wr_id,
                status: wc.status,
                vendor_error: wc.vendor_err,
            }))
    }

    /// # Safety
    /// `first` starts a list of requests, each with one segment, that outlive the call; the memory of inline
    /// segments is valid to read during the call.
    #[inline]
    unsafe fn post(&self, first: *mut ibv_send_wr) -> Result<(), Error> {
        let mut bad = ptr::null_mut();
        // SAFETY: the pair exists and is used by one thread at a time, since it is not `Sync`; the caller vouches
        // for the list.
        let result = unsafe { ibv_post_send(self.raw.as_ptr(), first, &raw mut bad) };
        Error::check("ibv_post_send", result)
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // SAFETY: the pair exists, and this is its only owner; its completion queue, a field, keeps itself and the domain.
        let _ = unsafe { ibv_destroy_qp(self.raw.as_ptr()) };
    }
}

const SIGNALED: u32 = ibv_send_flags::IBV_SEND_SIGNALED.0;

fn blank() -> ibv_qp_attr {
    // SAFETY: all members are integers, for which zero is a value.
    unsafe { mem::zeroed() }
}

#[inline]
fn sge(segment: Segment) -> ibv_sge {
    ibv_sge {
        addr: segment.address,
        length: segment.length,
        lkey: segment.key,
    }
}

#[inline]
fn work_request(id: u64, segment: *mut ibv_sge, remote: Remote, flags: u32) -> ibv_send_wr {
    // SAFETY: all members are integers, pointers, and unions of these, for which zero is a value.
    let mut request: ibv_send_wr = unsafe { mem::zeroed() };
    request.wr_id = id;
    request.sg_list = segment;
    request.num_sge = 1;
    request.opcode = ibv_wr_opcode::IBV_WR_RDMA_WRITE;
    request.send_flags = flags;
    request.wr = wr_t {
        rdma: rdma_t {
            remote_addr: remote.address,
            rkey: remote.key,
        },
    };
    request
}
