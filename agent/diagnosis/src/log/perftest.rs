//! The bandwidth that perftest measured: the rows below its header.
//!
//! ```text
//! Dual-port       : OFF          Device         : mlx5_0
//! #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
//! 65536      5000             196.13             196.12             0.374069
//! ```

/// What perftest measured with large messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measured {
    /// The number of the row.
    pub line: u64,
    /// The size of a message in bytes.
    pub bytes: u64,
    /// The average in bits per second.
    pub bits_per_second: u64,
    /// The device, if the log names it.
    pub device: Option<String>,
}

/// From this size on, the bandwidth does not depend on how many messages a processor can post.
const LARGE: u64 = 1 << 16;

/// What the lines so far show.
#[derive(Debug, Default)]
pub(super) struct Results {
    device: Option<String>,
    /// The bits per second of one unit of the rows that follow.
    unit: Option<u64>,
    /// The highest average.
    pub(super) best: Option<Measured>,
}

impl Results {
    /// Adds a line.
    pub(super) fn add(&mut self, text: &str, line: u64) {
        let row = text.trim();
        if let Some(header) = row.strip_prefix("#bytes") {
            self.unit = unit(header);
            return;
        }
        // The name stands behind another property.
        if row.starts_with("Dual-port") || row.starts_with("Device ") {
            let name = row
                .split_once("Device ")
                .and_then(|(_, rest)| rest.split_once(':'));
            let name = name.and_then(|(_, name)| name.split_whitespace().next());
            self.device = name.map(str::to_owned);
            return;
        }
        let Some(unit) = self
            .unit
            .filter(|_| row.starts_with(|c: char| c.is_ascii_digit()))
        else {
            return;
        };
        let Some((bytes, average)) = read(row) else { return };
        let bits_per_second = average.saturating_mul(unit) / 100;
        let is_best = self
            .best
            .as_ref()
            .is_none_or(|best| best.bits_per_second < bits_per_second);
        if bytes >= LARGE && is_best {
            self.best = Some(Measured {
                line,
                bytes,
                bits_per_second,
                device: self.device.clone(),
            });
        }
    }
}

/// The unit of a header: `BW average[Gb/sec]`, `BW average[MB/sec]`, in which a MB has 2^20 bytes.
fn unit(header: &str) -> Option<u64> {
    if header.contains("BW average[Gb/sec]") {
        Some(1_000_000_000)
    } else if header.contains("BW average[MB/sec]") || header.contains("BW average[MiB/sec]") {
        Some(8 << 20)
    } else {
        None
    }
}

/// The size of a message and the average of a row in hundredths: size, iterations, peak, average, rate of messages.
fn read(row: &str) -> Option<(u64, u64)> {
    const COLUMNS: std::ops::RangeInclusive<usize> = 4..=6;
    let columns: Vec<&str> = row.split_whitespace().collect();
    let all_numbers = columns.iter().all(|column| column.parse::<f64>().is_ok());
    if !all_numbers || !COLUMNS.contains(&columns.len()) {
        return None;
    }
    let average = hundredths(columns.get(3)?)?;
    let bytes = columns.first()?.parse().ok()?;
    (average > 0).then_some((bytes, average))
}

/// A number with a part after the point, in hundredths: `13.22`.
fn hundredths(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let part: String = part.chars().chain("00".chars()).take(2).collect();
    let whole: u64 = whole.parse().ok()?;
    whole.checked_mul(100)?.checked_add(part.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(lines: &[&str]) -> Option<(u64, u64)> {
        let mut results = Results::default();
        for (line, number) in lines.iter().zip(1..) {
            results.add(line, number);
        }
        results.best.map(|best| (best.bytes, best.bits_per_second))
    }

    #[test]
    fn the_highest_average_of_large_messages_counts_in_its_unit() {
        const GBPS: &str = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]";
        const MBPS: &str = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]";
        let large = " 1048576    5000             13.22              13.00   \t\t   0.001576";
        assert_eq!(best(&[GBPS, large]), Some((1_048_576, 13_000_000_000)));
        assert_eq!(
            best(&[GBPS, " 2    5000   0.05    0.05    3.1", large]),
            Some((1_048_576, 13_000_000_000))
        );
        assert_eq!(
            best(&[MBPS, " 65536 1000 100.00 100.00 0.0016"]),
            Some((65_536, 838_860_800))
        );
        // A table of something else, and latencies.
        for other in [
            &[large][..],
            &[
                " #bytes #iterations    t_min[usec]    t_max[usec]",
                " 1048576 1000 1.0 2.0 1.5 1.5",
            ],
            &[GBPS, " 1048576 5000 failed"],
        ] {
            assert_eq!(best(other), None, "{other:?}");
        }
    }
}
