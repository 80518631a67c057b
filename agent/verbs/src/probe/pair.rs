//! Two queue pairs of one port, connected to each other.

use std::{cell::Cell, ops::Range};

use rdma_health_protocol::{Gid, ProbeFailure, ProbeReport, ProbeRequest, Stage};

use super::{failed, watch::Watch};
use crate::{
    status,
    sys::{
        Access, Capabilities, CompletionQueue, Context, Destination, MemoryRegion, PollBuffer,
        PortAttributes, ProtectionDomain, QueuePair, Remote, Write,
    },
};

/// Parts of a region start at cache lines.
const LINE: usize = 64;

/// Inline writes larger than this bring nothing, and providers refuse them; that of perftest.
const MAX_INLINE: u32 = 220;

/// One end of the connection.
pub(super) struct End {
    pub(super) region: MemoryRegion,
    queue_pair: QueuePair,
    /// Signaled writes posted, and completed.
    posted: Cell<u64>,
    completed: Cell<u64>,
}

/// Both ends: `a` writes bulk data to `b`, and small messages go to and fro.
pub(super) struct Pair {
    pub(super) a: End,
    pub(super) b: End,
    /// Where small messages are sent from, and where they arrive, in either region.
    pub(super) small: [usize; 2],
}

impl Pair {
    /// Makes and connects both ends; `report.stage` tells how far it got.
    pub(super) fn connect(
        context: &Context,
        port: &PortAttributes,
        gid: Option<&Gid>,
        request: &ProbeRequest,
        watch: &Watch,
        report: &mut ProbeReport,
    ) -> Result<Self, ProbeFailure> {
        let mut stage = |stage| {
            report.stage = stage;
            watch.check()
        };
        stage(Stage::AllocPd)?;
        let domain = ProtectionDomain::new(context).map_err(failed)?;

        stage(Stage::RegMr)?;
        let small_size = if request.latency_samples == 0 {
            0
        } else {
            request.latency_size
        };
        let bulk = (request.message_size as usize).next_multiple_of(LINE);
        let room = (small_size as usize).next_multiple_of(LINE);
        let small = [bulk, bulk + room];
        let region = || MemoryRegion::new(&domain, bulk + 2 * room, Access::RemoteWrite).map_err(failed);
        let regions = [region()?, region()?];

        stage(Stage::CreateCq)?;
        let completions = || CompletionQueue::new(context, request.depth.max(16)).map_err(failed);
        let completions = [completions()?, completions()?];

        stage(Stage::CreateQp)?;
        let [completions_a, completions_b] = completions;
        let capabilities = Capabilities {
            send_depth: request.depth,
            inline: if small_size > MAX_INLINE { 0 } else { small_size },
        };
        let create =
            |completions| QueuePair::new(&domain, completions, request.port, capabilities).map_err(failed);
        let queue_pairs = [create(completions_a)?, create(completions_b)?];

        stage(Stage::Init)?;
        for queue_pair in &queue_pairs {
            queue_pair.init(true).map_err(failed)?;
        }
        stage(Stage::Rtr)?;
        for (queue_pair, other) in [(0, 1), (1, 0)] {
            let to = destination(port, gid, queue_pairs[other].number())?;
            queue_pairs[queue_pair].ready_to_receive(to).map_err(failed)?;
        }
        stage(Stage::Rts)?;
        for queue_pair in &queue_pairs {
            queue_pair.ready_to_send().map_err(failed)?;
        }

        let [region_a, region_b] = regions;
        let [queue_pair_a, queue_pair_b] = queue_pairs;
        let end = |region, queue_pair| End {
            region,
            queue_pair,
            posted: Cell::new(0),
            completed: Cell::new(0),
        };
        Ok(Self {
            a: end(region_a, queue_pair_a),
            b: end(region_b, queue_pair_b),
            small,
        })
    }
}

fn destination(
    port: &PortAttributes,
    gid: Option<&Gid>,
    queue_pair: u32,
) -> Result<Destination, ProbeFailure> {
    let gid = match gid {
        // The address handle has eight bits for it.
        Some(gid) => Some((
            gid.gid.octets(),
            u8::try_from(gid.index).map_err(|_| ProbeFailure::NoGid)?,
        )),
        None => None,
    };
    Ok(Destination {
        queue_pair,
        lid: port.lid,
        gid,
        mtu: port.active_mtu,
    })
}

impl End {
    /// Posts `write` `count` times, at most [`crate::sys::POST_LIST`], of which the last one completes.
    #[inline]
    pub(super) fn post(&self, write: &Write, count: usize) -> Result<(), ProbeFailure> {
        self.queue_pair.post_writes(write, count).map_err(failed)?;
        self.posted.set(self.posted.get() + 1);
        Ok(())
    }

    /// Writes a part of the region to `remote`.
    #[inline]
    pub(super) fn post_small(&self, part: Range<usize>, remote: Remote) -> Result<(), ProbeFailure> {
        self.queue_pair
            .post_small_write(&self.region, part, remote, 0)
            .map_err(failed)?;
        self.posted.set(self.posted.get() + 1);
        Ok(())
    }

    /// Takes the completions that are there; the id of the last one, `None` where there were none.
    #[inline]
    pub(super) fn reap(&self, buffer: &mut PollBuffer) -> Result<Option<u64>, ProbeFailure> {
        let mut last = None;
        for completion in self.queue_pair.poll(buffer).map_err(failed)? {
            if let Some(failure) = status::failure(completion) {
                return Err(ProbeFailure::Completion(failure));
            }
            self.completed.set(self.completed.get() + 1);
            last = Some(completion.id);
        }
        Ok(last)
    }

    /// Waits until all signaled writes have completed.
    #[inline]
    pub(super) fn drain(&self, buffer: &mut PollBuffer, watch: &Watch) -> Result<(), ProbeFailure> {
        while self.completed.get() < self.posted.get() {
            if self.reap(buffer)?.is_none() {
                watch.turn()?;
            }
        }
        Ok(())
    }
}
