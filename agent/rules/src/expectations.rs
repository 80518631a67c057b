//! What the operator expects of a node. Without an expectation, unused parts are not reported as broken.

mod baseline;
mod judged;
mod labels;

use serde::{Deserialize, Deserializer, Serialize};

pub use baseline::unnameable_ports;
pub use labels::{LABEL_PREFIX, LabelError};

/// What the node is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// GPU memory moves over RDMA: translation or a missing peer-memory path is critical.
    #[serde(rename = "gpudirect")]
    GpuDirect,
    /// Host memory moves over RDMA.
    Rdma,
    /// No RDMA is expected.
    TcpOnly,
    /// Not configured; judged by the hardware of the node.
    #[default]
    Auto,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Self; 4] = [Self::GpuDirect, Self::Rdma, Self::TcpOnly, Self::Auto];

    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::GpuDirect => "gpudirect",
            Self::Rdma => "rdma",
            Self::TcpOnly => "tcp-only",
            Self::Auto => "auto",
        }
    }
}

/// What the operator expects of a node; `None` means no expectation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Expectations {
    /// What the node is for.
    pub profile: Profile,
    /// Devices (`mlx5_0`) or ports (`mlx5_0:1`) that must be up.
    pub ports_up: Vec<String>,
    /// The least memory-lock limit that pods should get, in bytes.
    pub memlock_bytes: u64,
    /// The least number of RDMA devices in hardware; virtual functions are not counted.
    pub hcas: Option<u32>,
    /// The least rate of an active port, in Gb/s; that of virtual functions is not compared.
    pub rate_gbps: Option<u32>,
    /// The least bandwidth that the loopback probe of a port measures, in Gb/s; this includes software devices.
    pub bandwidth_gbps: Option<u32>,
    /// The least active path MTU of an active port, in bytes: 256, 512, 1024, 2048 or 4096.
    pub mtu: Option<u32>,
    /// The driver of every RDMA device in hardware (`mlx5_core`).
    pub driver: Option<String>,
    /// The index of the RoCE v2 GID with an IPv4 address, on every active Ethernet port.
    pub gid_index: Option<u32>,
    /// Whether RDMA functions and GPUs bypass the translation of the IOMMU. `false` expects translation.
    pub passthrough: Option<bool>,
    /// The least number of virtual functions of all RDMA devices together.
    pub vfs: Option<u32>,
    /// The number of nodes that this node exchanges data with over RoCE: its neighbour table must have room for them.
    pub fleet_nodes: Option<u32>,
    /// Limits from which a finding is reported.
    #[serde(deserialize_with = "or_default")]
    pub thresholds: Thresholds,
}

/// Limits from which a finding is reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Thresholds {
    /// The number of times that a flapping port went down within 12 hours.
    pub flaps_in_12_hours: u32,
    /// `symbol_error` per hour.
    pub symbol_errors_per_hour: u32,
    /// Blocks that forward error correction could not correct, per hour.
    pub fec_uncorrectable_per_hour: u32,
    /// `link_error_recovery` per minute.
    pub link_recoveries_per_minute: u32,
    /// `port_rcv_errors` per second.
    pub receive_errors_per_second: u32,
    /// `local_ack_timeout_err` per second.
    pub ack_timeouts_per_second: u32,
    /// `port_xmit_discards` per second.
    pub discards_per_second: u32,
    /// `roce_slow_restart` per second.
    pub slow_restarts_per_second: u32,
    /// Correctable PCIe errors per hour.
    pub pcie_corrected_per_hour: u32,
    /// The least loopback bandwidth, in percent of what port and PCIe link can carry.
    pub bandwidth_percent: u32,
    /// The least loopback bandwidth, in percent of the median of earlier probes.
    pub bandwidth_percent_of_earlier: u32,
    /// The most median latency, in percent of the median of earlier probes.
    pub latency_percent_of_earlier: u32,
}

impl Default for Expectations {
    fn default() -> Self {
        Self {
            profile: Profile::Auto,
            ports_up: Vec::new(),
            // 64 GiB: NCCL registers little, MPI and NVSHMEM register whole heaps; every guide recommends unlimited.
            memlock_bytes: 64 << 30,
            hcas: None,
            rate_gbps: None,
            bandwidth_gbps: None,
            mtu: None,
            driver: None,
            gid_index: None,
            passthrough: None,
            vfs: None,
            fleet_nodes: None,
            thresholds: Thresholds::default(),
        }
    }
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            flaps_in_12_hours: 3,
            symbol_errors_per_hour: 120,
            // A bit error ratio of 1e-12 after correction, which IEEE 802.3 allows, is one of 6.6e-10 blocks of RS(528,514): a lost block has eight
            // wrong bits of 5280, at least. That is 46 an hour at 100 Gb/s; RS(544,514) and 1e-13 from 200 Gb/s allow fewer.
            fec_uncorrectable_per_hour: 50,
            link_recoveries_per_minute: 5,
            receive_errors_per_second: 10,
            ack_timeouts_per_second: 1,
            discards_per_second: 100,
            slow_restarts_per_second: 10,
            pcie_corrected_per_hour: 100,
            bandwidth_percent: 90,
            bandwidth_percent_of_earlier: 80,
            latency_percent_of_earlier: 200,
        }
    }
}

/// Path MTUs of the InfiniBand specification, in bytes.
const MTUS: [u32; 5] = [256, 512, 1024, 2048, 4096];

impl Expectations {
    /// Whether the values are valid.
    ///
    /// # Errors
    /// The key, relative to the expectations (`mtu`, `thresholds.bandwidth_percent`), and what is wrong with its value.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        if let Some(mtu) = self.mtu.filter(|mtu| !MTUS.contains(mtu)) {
            return Err(("mtu", format!("must be 256, 512, 1024, 2048 or 4096, not {mtu}")));
        }
        let thresholds = &self.thresholds;
        let percents = [
            (
                "thresholds.bandwidth_percent",
                thresholds.bandwidth_percent,
                1,
                100,
            ),
            (
                "thresholds.bandwidth_percent_of_earlier",
                thresholds.bandwidth_percent_of_earlier,
                1,
                100,
            ),
            (
                "thresholds.latency_percent_of_earlier",
                thresholds.latency_percent_of_earlier,
                101,
                100_000,
            ),
        ];
        for (key, value, least, most) in percents {
            if !(least..=most).contains(&value) {
                return Err((key, format!("must be from {least} to {most}, not {value}")));
            }
        }
        if thresholds.flaps_in_12_hours == 0 {
            return Err(("thresholds.flaps_in_12_hours", "must be 1 or more".into()));
        }
        if self.ports_up.iter().any(|port| port.trim().is_empty()) {
            return Err(("ports_up", "holds an empty name".into()));
        }
        if let Some(wrong) = self.ports_up.iter().find(|port| !is_device_or_port(port)) {
            let what = format!("must hold devices (mlx5_0) or ports (mlx5_0:1), not {wrong:?}");
            return Err(("ports_up", what));
        }
        Ok(())
    }
}

/// Whether this can name an RDMA device or one of its ports. The kernel limits a device's name to 63 bytes
/// (`IB_DEVICE_NAME_MAX`), and it is a file name; ports count from 1.
fn is_device_or_port(name: &str) -> bool {
    const LONGEST: usize = 63;
    let (device, port) = name.split_once(':').unwrap_or((name, "1"));
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let is_port = port
        .parse::<u8>()
        .is_ok_and(|number| number > 0 && number.to_string() == port);
    (1..=LONGEST).contains(&device.len())
        && device.bytes().all(is_name)
        && !device.starts_with('.')
        && is_port
}

/// A key without a value means its default.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
