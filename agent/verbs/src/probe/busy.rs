//! Whether somebody else is using the port.

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
        let (before, started) = (self.bytes()?, Instant::now());
        thread::sleep(interval);
        let (after, elapsed) = (self.bytes()?, started.elapsed());
        // A counter that was reset in between counts from 0.
        let bytes = u128::from(after.checked_sub(before).unwrap_or(after));
        u64::try_from(bytes * 1_000_000 / elapsed.as_micros().max(1)).ok()
    }

    fn bytes(&self) -> Option<u64> {
        self.files.iter().try_fold(0u64, |sum, file| {
            let count: u64 = fs::read_to_string(file).ok()?.trim().parse().ok()?;
            Some(sum.wrapping_add(count.wrapping_mul(self.unit)))
        })
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
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "rx", "0");
        write(root.path(), "tx", "1000000");
        let source = Traffic {
            files: [root.path().join("rx"), root.path().join("tx")],
            unit: 1,
        };
        let path = root.path().to_owned();
        let change = |text: &'static str| {
            let path = path.clone();
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(20));
                fs::write(path.join("tx"), text).unwrap();
            })
        };
        let writer = change("2000000");
        let rate = source.rate(Duration::from_millis(200)).unwrap();
        writer.join().unwrap();
        assert!((1..=5_000_000).contains(&rate), "{rate}");
        let writer = change("5");
        let rate = source.rate(Duration::from_millis(200)).unwrap();
        writer.join().unwrap();
        assert!((1..=25).contains(&rate), "{rate}");
    }
}
