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
pub(crate) struct Config {
    /// Address and port of the HTTP server.
    #[serde(deserialize_with = "listen_address")]
    pub(crate) listen: SocketAddr,
    /// The root of the node's file system.
    pub(crate) root: PathBuf,
    /// RDMA devices that are not read at all; `*` stands for any characters.
    #[serde(deserialize_with = "or_default")]
    pub(crate) exclude: Vec<String>,
    /// How often everything is read. Ports are read at each scrape, too.
    #[serde(with = "duration")]
    pub(crate) interval: Duration,
    /// The active measurement.
    #[serde(deserialize_with = "or_default")]
    pub(crate) probe: Probe,
    /// What the node is expected to do.
    #[serde(deserialize_with = "or_default")]
    pub(crate) expect: Expectations,
    /// Whether the metrics appear under the names of the Prometheus node exporter, too.
    pub(crate) node_exporter_names: bool,
    /// File that keeps what is remembered of the node across restarts and reboots; without one it is kept in memory only.
    pub(crate) state: Option<PathBuf>,
    /// Where the verbs helper is.
    #[serde(deserialize_with = "or_default")]
    pub(crate) helper: Helper,
    /// Publishing to Kubernetes.
    #[serde(deserialize_with = "or_default")]
    pub(crate) kubernetes: Kubernetes,
}

/// The active measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Probe {
    /// Whether ports are probed at all.
    pub(crate) enabled: bool,
    /// How often each port is probed; varied by a tenth so that nodes do not probe in step.
    #[serde(with = "duration")]
    pub(crate) interval: Duration,
    /// RDMA devices that are probed; `*` stands for any characters.
    #[serde(deserialize_with = "or_default")]
    pub(crate) devices: Vec<String>,
    /// Size of one bandwidth message.
    #[serde(with = "size::bytes")]
    pub(crate) message_size: u64,
    /// How many writes may be outstanding.
    pub(crate) depth: u32,
    /// A probe never writes more bytes than this to measure the bandwidth.
    #[serde(with = "size::bytes")]
    pub(crate) byte_budget: u64,
    /// A probe never takes longer than this.
    #[serde(with = "duration")]
    pub(crate) time_budget: Duration,
    /// How many small writes measure the latency.
    pub(crate) latency_samples: u32,
    /// Size of one latency message.
    #[serde(with = "size::bytes")]
    pub(crate) latency_size: u64,
    /// A port that carries at least so many bytes per second, both directions together, is not probed.
    #[serde(with = "size::bytes")]
    pub(crate) busy_bytes_per_second: u64,
}

/// Where the verbs helper is. Neither given: the program beside this one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Helper {
    /// The program to start.
    pub(crate) program: Option<PathBuf>,
    /// The Unix socket that a running helper listens on.
    pub(crate) socket: Option<PathBuf>,
}

/// The port that the HTTP server listens on unless the configuration says otherwise.
const PORT: u16 = 9879;

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
            // In ten minutes 0.04% of what a 10 Gb/s link carries, less of any faster one.
            byte_budget: 256 << 20,
            time_budget: Duration::from_secs(5),
            latency_samples: 1000,
            latency_size: 8,
            busy_bytes_per_second: 10 << 20,
        }
    }
}

/// A key without a value (all of what it held commented out, say) means its default.
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
mod duration {
    use std::time::Duration;

    use serde::{Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_duration(*duration))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
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
