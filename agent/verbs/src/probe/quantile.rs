//! Quantiles of latency samples.

use rdma_health_protocol::Latency;

/// Minimum, median and 99th percentile of samples in nanoseconds; `None` where there are none.
///
/// A quantile is a sample that was seen (nearest rank): the smallest that at least that share does not exceed.
pub(super) fn latency(mut samples: Vec<u64>) -> Option<Latency> {
    samples.sort_unstable();
    let min = *samples.first()?;
    let seconds = |nanoseconds: u64| std::time::Duration::from_nanos(nanoseconds).as_secs_f64();
    Some(Latency {
        samples: u32::try_from(samples.len()).unwrap_or(u32::MAX),
        min: seconds(min),
        median: seconds(nearest_rank(&samples, 50)?),
        p99: seconds(nearest_rank(&samples, 99)?),
    })
}

fn nearest_rank(sorted: &[u64], percent: usize) -> Option<u64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranks_are_those_of_the_textbook() {
        let samples: Vec<u64> = (1..=200).collect();
        assert_eq!(
            (nearest_rank(&samples, 50), nearest_rank(&samples, 99)),
            (Some(100), Some(198))
        );
        assert_eq!(nearest_rank(&[7], 99), Some(7));
        assert_eq!(latency(Vec::new()), None);
    }

    proptest! {
        #[test]
        fn quantiles_are_samples_in_order(samples in prop::collection::vec(0u64..1_000_000_000, 1..300)) {
            let seen: Vec<f64> = samples.iter().map(|&n| std::time::Duration::from_nanos(n).as_secs_f64()).collect();
            let latency = latency(samples).unwrap();
            prop_assert!(latency.min <= latency.median && latency.median <= latency.p99);
            prop_assert!([latency.min, latency.median, latency.p99].iter().all(|q| seen.contains(q)));
            prop_assert!(seen.iter().filter(|&&s| s <= latency.median).count() * 2 >= seen.len());
        }
    }
}
