//! The keys of the configuration and their defaults.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use rdma_health_rules::Expectations;
use serde::{Deserialize, Deserializer, Serialize};

use super::{kubernetes::Kubernetes, parse, size};

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Address and port of the HTTP server.
    #[serde(deserialize_with = "listen_address")]
    pub listen: SocketAddr,
    /// Root directory of the node's file system.
    pub root: PathBuf,
    /// RDMA devices to ignore; `*` matches any characters.
    #[serde(deserialize_with = "or_default")]
    pub exclude: Vec<String>,
    /// Interval between complete readings. Ports are also read at each scrape.
    #[serde(with = "duration")]
    pub interval: Duration,
    /// Active loopback measurements.
    #[serde(deserialize_with = "or_default")]
    pub probe: Probe,
    /// Expectations of the node.
    #[serde(deserialize_with = "or_default")]
    pub expect: Expectations,
    /// Whether to export metrics also under the names of the Prometheus node exporter.
    pub node_exporter_names: bool,
    /// Whether to export metrics that do not change while the node runs.
    pub fixed_metrics: bool,
    /// File that stores the node's history across restarts and reboots; without one the history is in memory only.
    pub state: Option<PathBuf>,
    /// Location of the verbs helper.
    #[serde(deserialize_with = "or_default")]
    pub helper: Helper,
    /// Publishing to Kubernetes.
    #[serde(deserialize_with = "or_default")]
    pub kubernetes: Kubernetes,
}

/// Active loopback measurements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Probe {
    /// Whether to probe ports.
    pub enabled: bool,
    /// Interval between probes of a port, plus or minus a tenth so that nodes do not probe at the same time.
    #[serde(with = "duration")]
    pub interval: Duration,
    /// RDMA devices to probe; `*` matches any characters.
    #[serde(deserialize_with = "or_default")]
    pub devices: Vec<String>,
    /// Size of one bandwidth message.
    #[serde(with = "size::bytes")]
    pub message_size: u64,
    /// Maximum number of outstanding writes on each queue pair.
    pub depth: u32,
    /// Number of queue pairs; by default one for each 100 Gb/s of the port's rate.
    pub queue_pairs: Option<u32>,
    /// Maximum number of bytes that a probe writes to measure the bandwidth.
    #[serde(with = "size::bytes")]
    pub byte_budget: u64,
    /// Maximum duration of a probe.
    #[serde(with = "duration")]
    pub time_budget: Duration,
    /// Number of small writes that measure the latency.
    pub latency_samples: u32,
    /// Size of one latency message.
    #[serde(with = "size::bytes")]
    pub latency_size: u64,
    /// A port with at least this traffic in bytes per second, both directions together, is not probed.
    #[serde(with = "size::bytes")]
    pub busy_bytes_per_second: u64,
}

/// Location of the verbs helper; by default the program in the directory of this one, otherwise in `PATH`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Helper {
    /// The program to start.
    pub program: Option<PathBuf>,
    /// The Unix socket of a running helper.
    pub socket: Option<PathBuf>,
}

/// The default port of the HTTP server. Exporters of others use up 9100 to 9999; this port is also below the ephemeral ports
/// (32768-60999) and the `NodePort` range (30000-32767), and recalls the UDP port of RoCE v2, 4791.
const PORT: u16 = 14791;

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), PORT),
            root: "/".into(),
            exclude: Vec::new(),
            interval: Duration::from_secs(60),
            probe: Probe::default(),
            expect: Expectations::default(),
            node_exporter_names: false,
            fixed_metrics: true,
            state: None,
            helper: Helper::default(),
            kubernetes: Kubernetes::default(),
        }
    }
}

impl Default for Probe {
    fn default() -> Self {
        Self {
            enabled: true,
            interval: Duration::from_secs(600),
            devices: vec!["*".into()],
            message_size: 64 << 10,
            depth: 128,
            queue_pairs: None,
            // 0.04% of the capacity of a 10 Gb/s link over ten minutes, and less for faster links.
            byte_budget: 256 << 20,
            time_budget: Duration::from_secs(5),
            latency_samples: 1000,
            latency_size: 8,
            busy_bytes_per_second: 10 << 20,
        }
    }
}

/// A key without a value, for example because all lines below it are commented out, has its default.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn listen_address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse::listen_address(&text).map_err(serde::de::Error::custom)
}

/// For serde's `with`: `90s`, `10m`, `1h 30m`.
pub(super) mod duration {
    use std::time::Duration;

    use serde::{Deserializer, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_duration(*duration))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        deserializer.deserialize_any(Visitor)
    }

    struct Visitor;

    impl de::Visitor<'_> for Visitor {
        type Value = Duration;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a duration with a unit, like 90s, 10m or 1h 30m")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
            humantime::parse_duration(text).map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
        }
    }
}
