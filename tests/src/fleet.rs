//! The tree of a node with many HCAs.

use std::{
    fs::{self, File},
    path::Path,
};

use anyhow::Result;
use tempfile::TempDir;

/// How many devices.
pub const DEVICES: u64 = 16;
/// How many files of each both programs read.
pub const FILES: usize = 3 + 3 + COUNTERS.len() + HW_COUNTERS.len();

/// The files of `counters/` on an HCA (`drivers/infiniband/core/sysfs.c`).
const COUNTERS: [&str; 22] = [
    "VL15_dropped",
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "multicast_rcv_packets",
    "multicast_xmit_packets",
    "port_rcv_constraint_errors",
    "port_rcv_data",
    "port_rcv_discards",
    "port_rcv_errors",
    "port_rcv_packets",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_constraint_errors",
    CHANGING,
    "port_xmit_discards",
    "port_xmit_packets",
    "port_xmit_wait",
    "symbol_error",
    "unicast_rcv_packets",
    "unicast_xmit_packets",
];

/// Those of `hw_counters/` on a `ConnectX` (`drivers/infiniband/hw/mlx5/counters.c`).
const HW_COUNTERS: [&str; 26] = [
    "duplicate_request",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "out_of_buffer",
    "out_of_sequence",
    "packet_seq_err",
    "req_cqe_error",
    "req_cqe_flush_error",
    "req_remote_access_errors",
    "req_remote_invalid_request",
    "resp_cqe_error",
    "resp_cqe_flush_error",
    "resp_local_length_error",
    "resp_remote_access_errors",
    "rnr_nak_retry_err",
    "roce_adp_retrans",
    "roce_adp_retrans_to",
    "roce_slow_restart",
    "roce_slow_restart_cnps",
    "roce_slow_restart_trans",
    "rp_cnp_handled",
    "rp_cnp_ignored",
    "rx_icrc_encapsulated",
    "rx_write_requests",
];

/// The counter that [`change`] changes.
const CHANGING: &str = "port_xmit_data";

/// Where the second lot of counters lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// All in `counters/`, where every version of `node_exporter` reads every file: equal work.
    Equal,
    /// In `hw_counters/`, as on hardware; `node_exporter` before 1.9 leaves them out.
    Hardware,
}

/// A temporary directory in memory, where reading a file is as little more than a system call as in sysfs.
///
/// # Errors
/// If none can be created.
pub fn directory() -> Result<TempDir> {
    let builder = || {
        let mut builder = tempfile::Builder::new();
        builder.prefix("rdma-health-bench-");
        builder
    };
    if let Ok(directory) = builder().tempdir_in("/dev/shm") {
        return Ok(directory);
    }
    println!("  /dev/shm cannot be written to: the tree lies on disk");
    Ok(builder().tempdir()?)
}

/// Writes the tree.
///
/// # Errors
/// If a file cannot be written.
pub fn write(root: &Path, layout: Layout) -> Result<()> {
    for device in 0..DEVICES {
        let at = root.join(format!("sys/class/infiniband/mlx5_{device}"));
        let port = at.join("ports/1");
        let hw = match layout {
            Layout::Equal => "counters",
            Layout::Hardware => "hw_counters",
        };
        fs::create_dir_all(port.join("counters"))?;
        fs::create_dir_all(port.join(hw))?;
        for (name, text) in [
            ("fw_ver", "28.39.1002"),
            ("board_id", "MT_0000000838"),
            ("hca_type", "MT4129"),
            ("ports/1/state", "4: ACTIVE"),
            ("ports/1/phys_state", "5: LinkUp"),
            ("ports/1/rate", "400 Gb/sec (4X NDR)"),
            // Only ours reads the rest, which every port has.
            ("ports/1/link_layer", "InfiniBand"),
            ("ports/1/lid", "0x1"),
            ("ports/1/sm_lid", "0x1"),
        ] {
            fs::write(at.join(name), format!("{text}\n"))?;
        }
        let counters = COUNTERS.map(|name| ("counters", name));
        let hw_counters = HW_COUNTERS.map(|name| (hw, name));
        for (n, (directory, name)) in (1..).zip(counters.into_iter().chain(hw_counters)) {
            let value = (device + 1) * 1_000_000_007 * n;
            fs::write(port.join(directory).join(name), format!("{value}\n"))?;
        }
    }
    Ok(())
}

/// The files that both programs read, opened, in the order of the devices.
///
/// # Errors
/// If one cannot be opened.
pub fn files(root: &Path) -> Result<Vec<File>> {
    let mut files = Vec::new();
    for device in 0..DEVICES {
        let port = root.join(format!("sys/class/infiniband/mlx5_{device}/ports/1"));
        let counters = COUNTERS.into_iter().chain(HW_COUNTERS);
        let counters = counters.map(|name| format!("counters/{name}"));
        let state = ["state", "phys_state", "rate"].map(String::from);
        for name in state.into_iter().chain(counters) {
            files.push(File::open(port.join(name))?);
        }
    }
    Ok(files)
}

/// Changes one counter of every device; returns the value that a scrape must show from now on.
///
/// # Errors
/// If a file cannot be written.
pub fn change(root: &Path, round: u64) -> Result<u64> {
    let words = 1_000_000_000 + round;
    for device in 0..DEVICES {
        let file = root.join(format!(
            "sys/class/infiniband/mlx5_{device}/ports/1/counters/{CHANGING}"
        ));
        fs::write(file, format!("{words}\n"))?;
    }
    Ok(words * 4)
}
