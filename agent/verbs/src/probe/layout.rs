//! Where the parts of an end's memory region are.

use rdma_health_protocol::ProbeRequest;

/// Parts start at cache lines.
const LINE: usize = 64;

/// The parts of a region: bulk data from its start on, then small messages, then signals. Two ends of the same request have
/// the same layout, so each knows the places in the other's region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// Where small messages are sent from, and where they arrive.
    pub(super) small: [usize; 2],
    /// Where signals are sent from, and where they arrive.
    pub(super) signal: [usize; 2],
    /// Length of all of it in bytes.
    pub(super) length: usize,
}

impl Layout {
    /// The layout for a sane request.
    pub(super) fn of(request: &ProbeRequest) -> Self {
        let bulk = (request.message_size as usize).next_multiple_of(LINE);
        let room = (small_size(request) as usize).next_multiple_of(LINE);
        let signal = bulk + 2 * room;
        Self {
            small: [bulk, bulk + room],
            signal: [signal, signal + LINE],
            length: signal + 2 * LINE,
        }
    }
}

/// Length of a small message in bytes; 0 where none is sent.
pub(super) fn small_size(request: &ProbeRequest) -> u32 {
    if request.latency_samples == 0 {
        0
    } else {
        request.latency_size
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::request::sane;

    #[test]
    fn parts_are_aligned_and_do_not_overlap() {
        for (message_size, latency_size) in [(1, 1), (64, 64), (65_537, 65), (1 << 30, 1 << 20)] {
            let layout = Layout::of(&ProbeRequest {
                message_size,
                latency_size,
                ..sane()
            });
            let small = latency_size as usize;
            let parts = [
                (0, message_size as usize),
                (layout.small[0], small),
                (layout.small[1], small),
                (layout.signal[0], 16),
                (layout.signal[1], 16),
                (layout.length, 0),
            ];
            for pair in parts.windows(2) {
                let [(at, length), (next, _)] = pair else { continue };
                assert!(at + length <= *next && next % LINE == 0, "{layout:?}");
            }
        }
    }

    #[test]
    fn without_latency_there_is_no_room_for_it() {
        let layout = Layout::of(&ProbeRequest {
            latency_samples: 0,
            ..sane()
        });
        assert_eq!(layout.signal[0], 65_536);
    }
}
