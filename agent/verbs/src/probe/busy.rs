//! Whether the port carries other traffic.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// Time between the two readings.
const INTERVAL: Duration = Duration::from_millis(100);

/// Two files that count one direction each.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Traffic {
    files: [PathBuf; 2],
    /// Bytes per count.
    unit: u64,
}

impl Traffic {
    /// The counters to go by, best first: the port's own (`counters/port_{rcv,xmit}_data`, in units of 4 bytes),
    /// then its network device's, which on most HCAs leave RDMA out and so can only show that it is busy.
    pub(super) fn sources(sysfs: &Path, device: &str, port: u8, netdev_index: Option<u32>) -> Vec<Self> {
        let counters = sysfs.join(format!("class/infiniband/{device}/ports/{port}/counters"));
        let mut sources = vec![Self {
            files: ["port_rcv_data", "port_xmit_data"].map(|name| counters.join(name)),
            unit: 4,
        }];
        let netdev = netdev_index.and_then(|index| netdev(sysfs, index));
        sources.extend(netdev.map(|netdev| Self {
            files: ["rx_bytes", "tx_bytes"].map(|name| netdev.join("statistics").join(name)),
            unit: 1,
        }));
        sources
    }

    /// Bytes per second over `interval`, both directions together; `None` where a file cannot be read.
    fn rate(&self, interval: Duration) -> Option<u64> {
        let before = self.read()?;
        thread::sleep(interval);
        self.read()?.rate_since(before)
    }

    fn read(&self) -> Option<Reading> {
        Some(Reading {
            bytes: self.bytes()?,
            at: Instant::now(),
        })
    }

    fn bytes(&self) -> Option<u64> {
        self.files.iter().try_fold(0u64, |sum, file| {
            let count: u64 = fs::read_to_string(file).ok()?.trim().parse().ok()?;
            Some(sum.wrapping_add(count.wrapping_mul(self.unit)))
        })
    }
}

/// A count of bytes and the time it was read.
#[derive(Debug, Clone, Copy)]
struct Reading {
    bytes: u64,
    at: Instant,
}

impl Reading {
    /// Bytes per second since an earlier reading; `None` where that is more than a `u64` holds.
    fn rate_since(self, before: Self) -> Option<u64> {
        // A counter that was reset in between counts from 0.
        let bytes = self.bytes.checked_sub(before.bytes).unwrap_or(self.bytes);
        let elapsed = self.at.saturating_duration_since(before.at).as_micros().max(1);
        u64::try_from(u128::from(bytes) * 1_000_000 / elapsed).ok()
    }
}

/// Bytes per second by the first source that can be read, within `limit`; `None` where none can.
pub(super) fn bytes_per_second(sources: &[Traffic], limit: Duration) -> Option<u64> {
    sources.iter().find_map(|source| source.rate(INTERVAL.min(limit)))
}

/// The directory of the network device with that index, in this network namespace.
fn netdev(sysfs: &Path, index: u32) -> Option<PathBuf> {
    let devices = fs::read_dir(sysfs.join("class/net")).ok()?;
    devices.flatten().map(|entry| entry.path()).find(|path| {
        let found = fs::read_to_string(path.join("ifindex")).ok();
        found.and_then(|text| text.trim().parse::<u32>().ok()) == Some(index)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_port_counts_words_and_its_netdev_bytes() {
        let root = tempfile::tempdir().unwrap();
        write(
            root.path(),
            "class/infiniband/m/ports/1/counters/port_rcv_data",
            "10\n",
        );
        write(
            root.path(),
            "class/infiniband/m/ports/1/counters/port_xmit_data",
            "5\n",
        );
        write(root.path(), "class/net/eth7/ifindex", "7\n");
        write(root.path(), "class/net/eth7/statistics/rx_bytes", "100\n");
        write(root.path(), "class/net/eth7/statistics/tx_bytes", "1\n");
        let sources = Traffic::sources(root.path(), "m", 1, Some(7));
        assert_eq!(
            sources.iter().map(Traffic::bytes).collect::<Vec<_>>(),
            [Some(60), Some(101)]
        );
        assert_eq!(bytes_per_second(&sources, Duration::from_millis(1)), Some(0));
    }

    #[test]
    fn what_cannot_be_read_is_no_rate() {
        let root = tempfile::tempdir().unwrap();
        write(
            root.path(),
            "class/infiniband/m/ports/1/counters/port_rcv_data",
            "N/A (no PMA)\n",
        );
        write(
            root.path(),
            "class/infiniband/m/ports/1/counters/port_xmit_data",
            "5\n",
        );
        let sources = Traffic::sources(root.path(), "m", 1, Some(9));
        assert_eq!(bytes_per_second(&sources, Duration::ZERO), None);
    }

    #[test]
    fn a_rate_is_per_second_and_survives_a_reset() {
        let start = Instant::now();
        let read = |bytes, milliseconds| Reading {
            bytes,
            at: start + Duration::from_millis(milliseconds),
        };
        let before = read(1_000_000, 0);
        assert_eq!(read(2_000_000, 200).rate_since(before), Some(5_000_000));
        assert_eq!(read(1_000_003, 2000).rate_since(before), Some(1));
        // After a reset, the 5 bytes counted since then are all that is known.
        assert_eq!(read(5, 200).rate_since(before), Some(25));
        // Two readings at the same moment count as one microsecond of distance.
        assert_eq!(read(1_000_007, 0).rate_since(before), Some(7_000_000));
        assert_eq!(read(u64::MAX, 0).rate_since(read(0, 0)), None);
    }
}
