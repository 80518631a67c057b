//! How the byte budget of a probe is shared out.

use rdma_health_protocol::{ProbeFailure, ProbeRequest};
use rustix::io::Errno;

use super::errno;

/// Most bytes of a message that are compared. More would cost time that the measurements need.
const MAX_VERIFIED: u64 = 16 << 20;

/// Round trips before the measured ones.
const WARM_UP: u32 = 16;

/// Bytes that may still be written. Every post takes its bytes from here first.
#[derive(Debug)]
pub(super) struct Budget(u64);

impl Budget {
    pub(super) fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    pub(super) fn take(&mut self, bytes: u64) -> Result<(), ProbeFailure> {
        self.0 = self.0.checked_sub(bytes).ok_or_else(|| errno(Errno::DQUOT))?;
        Ok(())
    }
}

/// How the byte budget is shared out. Both ends of the same request share it out alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shares {
    /// Length of the first, verified write.
    pub(super) verified: u32,
    /// Round trips that are measured, and those before them.
    pub(super) round_trips: u32,
    pub(super) warm_up: u32,
    /// Full bandwidth messages, and their length.
    pub(super) messages: u64,
    pub(super) message: u32,
}

impl Shares {
    /// An eighth at most goes to the verified write, a quarter of the rest to latency, and the remainder to
    /// bandwidth: whole messages, or one shorter message where there is not enough for one.
    pub(super) fn of(request: &ProbeRequest) -> Self {
        let size = u64::from(request.message_size);
        let verified = size.min((request.byte_budget / 8).max(1)).min(MAX_VERIFIED);
        let left = request.byte_budget - verified;
        let round_trip = 2 * u64::from(request.latency_size.max(1));
        let affordable = left / 4 / round_trip;
        let samples = u64::from(request.latency_samples);
        let warm_up = u64::from(WARM_UP).min(samples).min(affordable / 8);
        let round_trips = samples.min(affordable - warm_up);
        let left = left - (warm_up + round_trips) * round_trip;
        let message = size.min(left);
        // All of them were bounded by a u32.
        let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        Self {
            verified: small(verified),
            round_trips: small(round_trips),
            warm_up: small(warm_up),
            messages: left.checked_div(message).unwrap_or(0),
            message: small(message),
        }
    }

    /// Bytes that are compared after the bandwidth part; 0 where there is none.
    pub(super) fn compared(&self) -> u32 {
        u32::try_from(MAX_VERIFIED).map_or(self.message, |most| self.message.min(most))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::probe::request::sane;

    #[test]
    fn an_ordinary_request_gets_what_it_asks_for() {
        let shares = Shares::of(&sane());
        assert_eq!(
            shares,
            Shares {
                verified: 65536,
                round_trips: 1000,
                warm_up: 16,
                messages: 1022,
                message: 65536
            }
        );
    }

    #[test]
    fn one_byte_is_written_and_verified() {
        let shares = Shares::of(&ProbeRequest {
            byte_budget: 1,
            ..sane()
        });
        assert_eq!((shares.verified, shares.round_trips, shares.messages), (1, 0, 0));
    }

    #[test]
    fn a_budget_refuses_what_exceeds_it() {
        let mut budget = Budget::new(10);
        assert_eq!(budget.take(10), Ok(()));
        assert!(budget.take(1).is_err());
    }

    proptest! {
        #[test]
        fn shares_never_exceed_the_budget(
            byte_budget in prop_oneof![1u64..100_000, any::<u64>().prop_map(|n| n.max(1))],
            message_size in 1u32..=1 << 30,
            latency_samples in 0u32..1_000_000,
            latency_size in 1u32..=1 << 20,
        ) {
            let shares = Shares::of(&ProbeRequest { message_size, byte_budget, latency_samples, latency_size, ..sane() });
            let trips = u128::from(shares.round_trips + shares.warm_up) * 2 * u128::from(latency_size);
            let bulk = u128::from(shares.messages) * u128::from(shares.message);
            prop_assert!(u128::from(shares.verified) + trips + bulk <= u128::from(byte_budget));
            prop_assert!(shares.verified >= 1 && shares.verified <= message_size);
            prop_assert!(shares.message <= message_size);
            prop_assert!(shares.round_trips <= latency_samples);
        }
    }
}
