//! One end of a connection: its queue pairs, and the memory that they write from and are written to.

use std::{
    cell::Cell,
    hash::{BuildHasher, RandomState},
    ops::Range,
};

use rdma_health_protocol::{
    EndAddress, EndGid, Gid, ProbeFailure, ProbeReport, ProbeRequest, QueuePairAddress, RegionAddress, Stage,
};
use rustix::io::Errno;

use super::{
    errno, failed,
    layout::{Layout, small_size},
    pattern::Pattern,
    port::ReadyPort,
    watch::Watch,
};
use crate::{
    devices::{mtu_bytes, mtu_code},
    status,
    sys::{
        Access, Capabilities, CompletionQueue, Destination, MemoryRegion, PollBuffer, PortAttributes,
        ProtectionDomain, QueuePair, Remote, Write,
    },
};

/// Inline writes larger than this bring nothing, and providers refuse them; that of perftest.
const MAX_INLINE: u32 = 220;

/// The fewest completions that a queue has room for.
const MIN_COMPLETIONS: u32 = 16;

/// One end of a connection.
pub(super) struct End {
    /// At least one; small messages use the first. Destroyed before the region that they use.
    lanes: Vec<Lane>,
    pub(super) region: MemoryRegion,
    pub(super) layout: Layout,
    /// The bytes that it writes.
    pub(super) pattern: Pattern,
    port: PortAttributes,
    gid: Option<Gid>,
    /// The first byte of the other end's region, once connected.
    peer: Option<Remote>,
}

/// One queue pair of an end.
struct Lane {
    queue_pair: QueuePair,
    psn: u32,
    /// Signaled writes posted, and completed.
    posted: Cell<u64>,
    completed: Cell<u64>,
}

impl Lane {
    fn open(
        domain: &ProtectionDomain,
        request: &ProbeRequest,
        stage: &mut impl FnMut(Stage) -> Result<(), ProbeFailure>,
    ) -> Result<Self, ProbeFailure> {
        stage(Stage::CreateCq)?;
        let completions = CompletionQueue::new(domain, request.depth.max(MIN_COMPLETIONS)).map_err(failed)?;

        stage(Stage::CreateQp)?;
        let capabilities = Capabilities {
            send_depth: request.depth,
            inline: Some(small_size(request))
                .filter(|&size| size <= MAX_INLINE)
                .unwrap_or(0),
        };
        let queue_pair = QueuePair::new(completions, request.path.from.port, capabilities).map_err(failed)?;

        stage(Stage::Init)?;
        queue_pair.init(true).map_err(failed)?;
        Ok(Self {
            queue_pair,
            psn: first_psn(),
            posted: Cell::new(0),
            completed: Cell::new(0),
        })
    }

    /// Counts a signaled write.
    #[inline]
    fn count(&self) {
        self.posted.set(self.posted.get() + 1);
    }

    #[inline]
    fn reap(&self, buffer: &mut PollBuffer) -> Result<Option<u64>, ProbeFailure> {
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
}

impl End {
    /// Opens an end on a port, up to [`Stage::Init`].
    pub(super) fn open(
        port: &ReadyPort,
        request: &ProbeRequest,
        report: &mut ProbeReport,
    ) -> Result<Self, ProbeFailure> {
        let mut stage = |stage| {
            report.stage = stage;
            port.watch.check()
        };
        stage(Stage::AllocPd)?;
        let domain = ProtectionDomain::new(&port.context).map_err(failed)?;

        stage(Stage::RegMr)?;
        let layout = Layout::of(request);
        let region = MemoryRegion::new(&domain, layout.length, Access::RemoteWrite, request.memory_node);
        let region = region.map_err(failed)?;

        let lanes = (0..request.queue_pairs.max(1)).map(|_| Lane::open(&domain, request, &mut stage));
        let lanes = lanes.collect::<Result<_, _>>()?;
        Ok(Self {
            lanes,
            region,
            layout,
            pattern: Pattern::new(),
            port: port.attributes,
            gid: port.gid.clone(),
            peer: None,
        })
    }

    /// What the other end needs to connect to this one.
    pub(super) fn address(&self) -> EndAddress {
        let start = self.region.start();
        let pair = |lane: &Lane| QueuePairAddress {
            number: lane.queue_pair.number(),
            psn: lane.psn,
        };
        EndAddress {
            queue_pairs: self.lanes.iter().map(pair).collect(),
            lid: self.port.lid,
            gid: self.gid.as_ref().map(|gid| EndGid {
                gid: gid.gid,
                kind: gid.kind,
            }),
            mtu: mtu_bytes(self.port.active_mtu),
            region: RegionAddress {
                address: start.address,
                key: start.key,
                length: self.region.len() as u64,
            },
            pattern: self.pattern.seed(),
        }
    }

    /// Connects this end to the other one, up to [`Stage::Rts`]; the other end is connected to this one by itself.
    ///
    /// Fails with `EINVAL` where no end can have this address or it was opened for other sizes, and with `EPROTONOSUPPORT`
    /// where the types of the two GIDs differ.
    pub(super) fn connect(
        &mut self,
        to: &EndAddress,
        watch: &Watch,
        report: &mut ProbeReport,
    ) -> Result<(), ProbeFailure> {
        report.stage = Stage::Rtr;
        watch.check()?;
        let alike = to.region.length == self.region.len() as u64 && to.queue_pairs.len() == self.lanes.len();
        if !to.is_sane() || !alike {
            return Err(errno(Errno::INVAL));
        }
        for (lane, pair) in self.lanes.iter().zip(&to.queue_pairs) {
            let destination = destination(&self.port, self.gid.as_ref(), to, *pair)?;
            lane.queue_pair.ready_to_receive(destination).map_err(failed)?;
        }

        report.stage = Stage::Rts;
        watch.check()?;
        for lane in &self.lanes {
            lane.queue_pair.ready_to_send(lane.psn).map_err(failed)?;
        }
        self.peer = Some(Remote {
            address: to.region.address,
            key: to.region.key,
        });
        Ok(())
    }

    /// The place at `offset` in the other end's region; fails with `ENOTCONN` before there is one.
    pub(super) fn remote(&self, offset: usize) -> Result<Remote, ProbeFailure> {
        let peer = self.peer.ok_or_else(|| errno(Errno::NOTCONN))?;
        let address = peer.address.checked_add(offset as u64);
        Ok(Remote {
            address: address.ok_or_else(|| errno(Errno::INVAL))?,
            ..peer
        })
    }

    /// A write from the start of this region to the start of the other end's.
    pub(super) fn bulk_write(&self, length: u32) -> Result<Write, ProbeFailure> {
        let local = self.region.segment(0, length);
        Ok(Write {
            id: 0,
            local: local.ok_or_else(|| errno(Errno::INVAL))?,
            remote: self.remote(0)?,
            signaled: true,
        })
    }

    /// The largest message that its port carries, in bytes.
    pub(super) fn max_message(&self) -> u32 {
        self.port.max_message
    }

    /// How many queue pairs it has.
    pub(super) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Posts `write` `count` times, at most [`crate::sys::POST_LIST`], to the queue pair at `lane`; the last one completes.
    #[inline]
    pub(super) fn post(&self, lane: usize, write: &Write, count: usize) -> Result<(), ProbeFailure> {
        let lane = &self.lanes[lane];
        lane.queue_pair.post_writes(write, count).map_err(failed)?;
        lane.count();
        Ok(())
    }

    /// Writes a part of the region to `remote`.
    #[inline]
    pub(super) fn post_small(&self, part: Range<usize>, remote: Remote) -> Result<(), ProbeFailure> {
        let lane = &self.lanes[0];
        lane.queue_pair
            .post_small_write(&self.region, part, remote, 0)
            .map_err(failed)?;
        lane.count();
        Ok(())
    }

    /// Takes the completions that are there of the queue pair at `lane`; the id of the last one, `None` where there were none.
    #[inline]
    pub(super) fn reap(&self, lane: usize, buffer: &mut PollBuffer) -> Result<Option<u64>, ProbeFailure> {
        self.lanes[lane].reap(buffer)
    }

    /// Waits until all signaled writes of all queue pairs have completed.
    #[inline]
    pub(super) fn drain(&self, buffer: &mut PollBuffer, watch: &Watch) -> Result<(), ProbeFailure> {
        for lane in &self.lanes {
            while lane.completed.get() < lane.posted.get() {
                if lane.reap(buffer)?.is_none() {
                    watch.turn()?;
                }
            }
        }
        Ok(())
    }
}

/// The sequence number of an end's first packet. A new one for each end, so that a late packet of an earlier connection is
/// not taken for one of this.
fn first_psn() -> u32 {
    // The standard library's random keys are new for each state. The mask leaves 24 bits.
    let random = RandomState::new().hash_one(0_u8) & 0x00ff_ffff;
    u32::try_from(random).unwrap_or(0)
}

/// Where `pair` of the other end is, as the queue pair of a port with this GID needs it.
fn destination(
    port: &PortAttributes,
    gid: Option<&Gid>,
    to: &EndAddress,
    pair: QueuePairAddress,
) -> Result<Destination, ProbeFailure> {
    let gid = match (gid, &to.gid) {
        (None, None) => None,
        (Some(own), Some(peer)) if own.kind == peer.kind => {
            // The address handle has eight bits for the index.
            let index = u8::try_from(own.index).map_err(|_| ProbeFailure::NoGid)?;
            Some((peer.gid.octets(), index))
        }
        _ => return Err(errno(Errno::PROTONOSUPPORT)),
    };
    // If the code of this end is not known, it is left to the driver to judge.
    let mtu = mtu_code(to.mtu).ok_or_else(|| errno(Errno::INVAL))?;
    Ok(Destination {
        queue_pair: pair.number,
        psn: pair.psn,
        lid: to.lid,
        gid,
        mtu: mtu.min(port.active_mtu),
    })
}

#[cfg(test)]
mod tests {
    use rdma_health_protocol::GidType;

    use super::*;

    fn port(active_mtu: u32) -> PortAttributes {
        PortAttributes {
            state: 4,
            phys_state: 5,
            link_layer: 2,
            active_mtu,
            max_mtu: 5,
            lid: 3,
            sm_lid: 0,
            gid_table_len: 256,
            max_message: 1 << 30,
            grh_required: false,
        }
    }

    fn gid(index: u32, kind: GidType) -> Gid {
        Gid {
            index,
            gid: "fe80::1".parse().unwrap(),
            kind,
            netdev_index: None,
            netdev: None,
        }
    }

    fn end_gid(kind: GidType) -> EndGid {
        EndGid {
            gid: "fe80::2".parse().unwrap(),
            kind,
        }
    }

    const PAIR: QueuePairAddress = QueuePairAddress {
        number: 17,
        psn: 4711,
    };

    fn peer(gid: Option<EndGid>) -> EndAddress {
        EndAddress {
            queue_pairs: vec![PAIR],
            lid: 9,
            gid,
            mtu: 1024,
            region: RegionAddress {
                address: 0,
                key: 1,
                length: 1,
            },
            pattern: 0,
        }
    }

    #[test]
    fn the_peers_gid_goes_with_the_own_index_and_the_smaller_mtu_is_used() {
        let (own, other) = (gid(3, GidType::RoceV2), end_gid(GidType::RoceV2));
        let found = destination(&port(5), Some(&own), &peer(Some(other)), PAIR).unwrap();
        assert_eq!(
            found,
            Destination {
                queue_pair: 17,
                psn: 4711,
                lid: 9,
                gid: Some((other.gid.octets(), 3)),
                mtu: 3,
            }
        );
        let found = destination(&port(1), None, &peer(None), PAIR).unwrap();
        assert_eq!((found.gid, found.mtu), (None, 1));
    }

    #[test]
    fn ends_that_cannot_understand_each_other_are_not_connected() {
        let own = gid(2, GidType::RoceV1);
        let other = end_gid(GidType::RoceV2);
        for (own, other) in [(Some(&own), Some(other)), (Some(&own), None), (None, Some(other))] {
            let refused = destination(&port(5), own, &peer(other), PAIR);
            assert_eq!(refused, Err(errno(Errno::PROTONOSUPPORT)));
        }
        let beyond = gid(256, GidType::RoceV2);
        let refused = destination(&port(5), Some(&beyond), &peer(Some(other)), PAIR);
        assert_eq!(refused, Err(ProbeFailure::NoGid));
    }

    #[test]
    fn a_psn_has_24_bits_and_differs() {
        let all: Vec<u32> = (0..8).map(|_| first_psn()).collect();
        assert!(all.iter().all(|&psn| psn < 1 << 24));
        assert!(all.iter().any(|&psn| psn != all[0]));
    }
}
