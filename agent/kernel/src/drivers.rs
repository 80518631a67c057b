//! What the drivers of network devices count by names of their own: waits for PCIe, drops, pauses of priorities.
//!
//! Source: `ETHTOOL_GSTATS` (`include/uapi/linux/ethtool.h`; the program `ethtool -S`). The values come only by an ioctl, which the
//! verbs helper makes: this crate has no unsafe code. Meaning of the names:
//! `Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst`, and the sources of the other drivers.

use std::collections::BTreeMap;

use rdma_health_protocol::{DriverStatistics, MAX_DRIVERS};
use serde::{Deserialize, Serialize};

use crate::{
    fact::{self, Errno, Fact, Unread, UnreadKind},
    infiniband::CLASS,
    netlink::of_bond,
    recording::Question,
    root::Scope,
    source::{Known, Source},
};

/// What network drivers count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drivers {
    /// By network device: the statistics that its driver has and that are used ([`is_used`]). Absent in a tree of files, and
    /// without a helper that reads for this process.
    pub netdevs: Fact<BTreeMap<String, BTreeMap<String, u64>>>,
}

/// The percentage (0 to 100) of the last second in which the adapter waited for PCIe credits to read memory.
pub const STALLED_READ: &str = "outbound_pci_stalled_rd";
/// The same to write memory.
pub const STALLED_WRITE: &str = "outbound_pci_stalled_wr";
/// Number of seconds in which [`STALLED_READ`] was above 30.
pub const STALLED_READ_SECONDS: &str = "outbound_pci_stalled_rd_events";
/// Number of seconds in which [`STALLED_WRITE`] was above 30.
pub const STALLED_WRITE_SECONDS: &str = "outbound_pci_stalled_wr_events";

/// Number of times that the port sent pause frames for so long that the adapter stopped to send them, and drops what it cannot take (mlx5,
/// `Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst`).
pub const PAUSE_GIVEN_UP: &str = "tx_pause_storm_error_events";

/// The statistics of a port that are used. A driver has hundreds, most of them of single queues.
pub const NAMES: [&str; 12] = [
    "outbound_pci_buffer_overflow",
    STALLED_READ,
    STALLED_READ_SECONDS,
    STALLED_WRITE,
    STALLED_WRITE_SECONDS,
    "rx_discards_phy",
    "rx_out_of_buffer",
    "rx_pci_signal_integrity",
    "rx_steer_missed_packets",
    "tx_discards_phy",
    PAUSE_GIVEN_UP,
    "tx_pci_signal_integrity",
];

/// A count of pause frames, or of how long they stopped traffic, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// Whether the port received the frames, and did not send them.
    pub is_received: bool,
    /// The priority that they stop; `None` if they stop all traffic (IEEE 802.3x).
    pub priority: Option<u8>,
    /// Whether it is the duration.
    pub is_duration: bool,
}

/// The names of such counts that stop all traffic: direction, and whether it is the duration (mlx5; it has them while no priority has flow control).
const OF_ALL: [(&str, bool, bool); 4] = [
    ("rx_global_pause", true, false),
    ("tx_global_pause", false, false),
    ("rx_global_pause_duration", true, true),
    ("tx_global_pause_duration", false, true),
];

/// The same of a priority: what stands before and after its number. Of mlx5, `bnxt_en` (`bnxt_ethtool.c`) and ionic (the firmware of AMD's Pollara).
const OF_PRIORITIES: [(&str, &str, bool, bool); 10] = [
    ("rx_prio", "_pause", true, false),
    ("rx_prio", "_pause_duration", true, true),
    ("tx_prio", "_pause", false, false),
    ("tx_prio", "_pause_duration", false, true),
    ("rx_pfc_ena_frames_pri", "", true, false),
    ("pfc_pri", "_rx_duration_us", true, true),
    ("tx_pfc_ena_frames_pri", "", false, false),
    ("pfc_pri", "_tx_duration_us", false, true),
    ("rx_pripause_", "_1us_count", true, true),
    ("tx_pripause_", "_1us_count", false, true),
];

/// Whether a statistic is used.
pub fn is_used(name: &str) -> bool {
    NAMES.contains(&name) || pause(name).is_some()
}

/// What a statistic counts of pause frames, if it does.
pub fn pause(name: &str) -> Option<Pause> {
    let of_all = OF_ALL.iter().find(|(known, ..)| *known == name);
    let of_priority = || {
        OF_PRIORITIES
            .iter()
            .find_map(|&(before, after, is_received, is_duration)| {
                let priority = name.strip_prefix(before)?.strip_suffix(after)?;
                match priority.as_bytes() {
                    [digit @ b'0'..=b'7'] => Some(Pause {
                        is_received,
                        priority: Some(digit - b'0'),
                        is_duration,
                    }),
                    _ => None,
                }
            })
    };
    of_all
        .map(|&(_, is_received, is_duration)| Pause {
            is_received,
            priority: None,
            is_duration,
        })
        .or_else(of_priority)
}

/// The network devices of RDMA devices, with the other members of their bonds, and without those of virtual functions whose physical
/// function this machine has: that one counts for all. At most `most`.
pub fn netdevs(scope: &Scope<'_>, most: usize) -> Vec<String> {
    let devices = scope.entries(CLASS).known().cloned().unwrap_or_default();
    let physical = devices.iter().filter(|device| {
        let physfn = scope.link(&format!("{CLASS}/{device}/device/physfn"));
        physfn.known().is_none()
    });
    let mut found: Vec<String> = Vec::new();
    let mut add = |netdev: String| {
        // Two devices may be functions of one PCI device.
        if found.len() < most && !found.contains(&netdev) {
            found.push(netdev);
        }
    };
    for device in physical {
        let netdevs = scope.entries(&format!("{CLASS}/{device}/device/net"));
        for netdev in netdevs.known().into_iter().flatten() {
            add(netdev.clone());
            // The RDMA device of a bond is one function; the other ports of the adapter are members of the same bond.
            let master = scope.link_name(&format!("/sys/class/net/{netdev}/master"));
            for member in master.known().into_iter().flat_map(|bond| of_bond(scope, bond)) {
                add(member);
            }
        }
    }
    found
}

impl Source for Drivers {
    fn read(scope: &Scope<'_>, _: &Known) -> Self {
        let root = scope.root();
        if !root.answers_statistics() {
            return Self::default();
        }
        let found: Fact<Vec<DriverStatistics>> =
            scope.service(Question::DriverStatistics, || root.driver_statistics());
        Self {
            netdevs: found.map(|all| {
                let known = all.into_iter().take(MAX_DRIVERS);
                known.filter_map(|driver| statistics(scope, driver)).collect()
            }),
        }
    }

    fn unread(why: &Unread) -> Self {
        Self {
            netdevs: why.clone().into(),
        }
    }
}

/// The statistics of one network device; `None` if its driver has none, or if they could not be read.
fn statistics(scope: &Scope<'_>, driver: DriverStatistics) -> Option<(String, BTreeMap<String, u64>)> {
    let DriverStatistics {
        netdev,
        statistics,
        errno,
    } = driver;
    let errno = match errno {
        0 => None,
        number => Some(fact::errno(number).unwrap_or(Errno::IO)),
    };
    match errno {
        None => {
            let used = statistics
                .into_iter()
                .filter(|found| is_used(&found.name) && found.value != u64::MAX);
            let used: BTreeMap<_, _> = used.map(|found| (found.name, found.value)).collect();
            (!used.is_empty()).then_some((netdev, used))
        }
        // A driver without statistics, and a device that has just gone.
        Some(Errno::OPNOTSUPP | Errno::NODEV) => None,
        Some(errno) => {
            let _: Fact<()> = scope.fail(Unread {
                source: format!("ethtool -S {netdev}"),
                kind: UnreadKind::Errno(errno),
                detail: "the verbs helper could not read the statistics of its driver".into(),
            });
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        recording::{Answer, Recording},
        root::Root,
    };

    fn read(document: &str) -> (Fact<usize>, Vec<String>) {
        let mut recording = Recording::default();
        recording.insert(
            Question::DriverStatistics,
            Answer::Bytes(document.as_bytes().into()),
        );
        let root = Root::replay(Arc::new(recording), true);
        let scope = Scope::new(&root);
        let drivers = Drivers::read(&scope, &Known::default());
        let number = drivers.netdevs.map(|all| all.values().map(BTreeMap::len).sum());
        let misses = scope.finish().into_iter().map(|miss| miss.unread.to_string());
        (number, misses.collect())
    }

    #[test]
    fn only_the_listed_statistics_are_kept() {
        for (name, used) in [
            ("rx_discards_phy", true),
            ("rx_prio7_pause", true),
            ("tx_prio0_pause_duration", true),
            ("tx_global_pause_duration", true),
            ("pfc_pri3_tx_duration_us", true),
            ("rx_pfc_ena_frames_pri3", true),
            ("tx_pripause_3_1us_count", true),
            ("pfc_pri8_tx_duration_us", false),
            ("tx_pause_storm_error_events", true),
            ("rx_prio8_pause", false),
            ("rx_prio10_pause", false),
            ("rx_prio3_bytes", false),
            ("rx0_packets", false),
            ("", false),
        ] {
            assert_eq!(is_used(name), used, "{name}");
        }
        let document = r#"[{"netdev": "eth0", "errno": 0, "statistics": [{"name": "rx0_packets", "value": 9},
            {"name": "rx_discards_phy", "value": 1}]}, {"netdev": "eth1", "errno": 95, "statistics": []}]"#;
        assert_eq!(read(document), (Fact::Known(1), Vec::new()));
    }

    #[test]
    fn what_could_not_be_read_is_reported_for_its_device() {
        let document = r#"[{"netdev": "eth0", "errno": 5, "statistics": []}]"#;
        let (number, misses) = read(document);
        assert_eq!(number, Fact::Known(0));
        assert!(
            misses[0].starts_with("ethtool -S eth0: ") && misses[0].ends_with("(EIO)"),
            "{misses:?}"
        );
        for garbage in [
            "",
            "{}",
            "[1]",
            r#"[{"netdev": "a name that is longer than any", "errno": 0, "statistics": []}]"#,
        ] {
            let (number, misses) = read(garbage);
            assert!(number.unread().is_some() && misses.len() == 1, "{garbage}");
            let words = "driver statistics: the answer does not have the expected content (";
            assert!(misses[0].starts_with(words), "{misses:?}");
        }
    }

    #[test]
    fn a_tree_of_files_has_none() {
        let root = Root::replay(Arc::default(), true);
        let drivers = Drivers::read(&Scope::new(&root), &Known::default());
        assert_eq!(drivers, Drivers::default());
    }

    /// The RDMA device of a bond (RoCE LAG) is that of its first member's function.
    #[test]
    fn the_other_members_of_a_bond_are_read_once() {
        let tree = tempfile::tempdir().unwrap();
        let at = |path: &str| tree.path().join("sys/class").join(path);
        for directory in [
            "infiniband/mlx5_bond_0/device/net/eth8",
            "net/eth8",
            "net/bond0/bonding",
        ] {
            std::fs::create_dir_all(at(directory)).unwrap();
        }
        std::os::unix::fs::symlink("../bond0", at("net/eth8/master")).unwrap();
        std::fs::write(at("net/bond0/bonding/slaves"), "eth8 eth9 ../x\n").unwrap();
        let root = Root::open(tree.path()).unwrap();
        assert_eq!(netdevs(&Scope::new(&root), 8), ["eth8", "eth9"]);
        assert_eq!(netdevs(&Scope::new(&root), 1), ["eth8"]);
    }
}
