//! Expectations from the labels of a Kubernetes Node.
//!
//! A label's value holds at most 63 letters, digits, `-`, `_` and `.`, so devices are separated by `.` and named without
//! port.

use std::{fmt, str::FromStr};

use super::{Expectations, Profile};

/// The prefix of all our label keys.
pub const LABEL_PREFIX: &str = "rdma-health.io/";

/// The keys after the prefix.
const KEYS: [&str; 11] = [
    "bandwidth-gbps",
    "driver",
    "gid-index",
    "hcas",
    "memlock-bytes",
    "mtu",
    "passthrough",
    "ports-up",
    "profile",
    "rate-gbps",
    "vfs",
];

/// An invalid label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelError {
    /// The whole key.
    pub key: String,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for LabelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "label {}: {}", self.key, self.what)
    }
}

impl std::error::Error for LabelError {}

impl Expectations {
    /// Expectations from labels alone.
    ///
    /// # Errors
    /// As for [`Expectations::with_labels`].
    pub fn from_labels<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, LabelError> {
        Self::default().with_labels(labels)
    }

    /// These expectations, overridden by labels. Labels with another prefix are ignored.
    ///
    /// # Errors
    /// The first label with our prefix that has an unknown key or an invalid value.
    pub fn with_labels<'a>(
        mut self,
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, LabelError> {
        for (key, value) in labels {
            let Some(name) = key.strip_prefix(LABEL_PREFIX) else {
                continue;
            };
            self.set(name, value).map_err(|what| LabelError {
                key: key.to_owned(),
                what,
            })?;
        }
        self.check().map_err(|(key, what)| LabelError {
            key: format!("{LABEL_PREFIX}{key}"),
            what,
        })?;
        Ok(self)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "profile" => {
                let named = Profile::ALL.into_iter().find(|profile| profile.name() == value);
                self.profile = named
                    .ok_or_else(|| format!("expected gpudirect, rdma, tcp-only or auto, found {value:?}"))?;
            }
            "hcas" => self.hcas = Some(number(value)?),
            "rate-gbps" => self.rate_gbps = Some(number(value)?),
            "bandwidth-gbps" => self.bandwidth_gbps = Some(number(value)?),
            "mtu" => self.mtu = Some(number(value)?),
            "gid-index" => self.gid_index = Some(number(value)?),
            "vfs" => self.vfs = Some(number(value)?),
            "fleet-nodes" => self.fleet_nodes = Some(number(value)?),
            "memlock-bytes" => self.memlock_bytes = number(value)?,
            "passthrough" => {
                self.passthrough = Some(match value {
                    "true" => true,
                    "false" => false,
                    _ => return Err(format!("expected true or false, found {value:?}")),
                });
            }
            "driver" if !value.is_empty() => self.driver = Some(value.to_owned()),
            "driver" => return Err("expected a driver's name, found nothing".into()),
            "ports-up" => {
                self.ports_up = value.split('.').map(str::to_owned).collect();
                if self.ports_up.iter().any(String::is_empty) {
                    return Err(format!(
                        "expected devices with a '.' between them, found {value:?}"
                    ));
                }
            }
            _ => return Err(format!("unknown; known are {}", KEYS.join(", "))),
        }
        Ok(())
    }
}

fn number<T: FromStr>(value: &str) -> Result<T, String> {
    value
        .parse()
        .map_err(|_| format!("expected a whole number, found {value:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_is_read_and_others_are_ignored() {
        let labels = [
            ("rdma-health.io/profile", "gpudirect"),
            ("rdma-health.io/hcas", "8"),
            ("rdma-health.io/rate-gbps", "400"),
            ("rdma-health.io/bandwidth-gbps", "350"),
            ("rdma-health.io/mtu", "4096"),
            ("rdma-health.io/gid-index", "3"),
            ("rdma-health.io/vfs", "64"),
            ("rdma-health.io/passthrough", "true"),
            ("rdma-health.io/driver", "mlx5_core"),
            ("rdma-health.io/memlock-bytes", "1024"),
            ("rdma-health.io/ports-up", "mlx5_0.mlx5_1"),
            ("kubernetes.io/hostname", "gpu-17"),
        ];
        let found = Expectations::from_labels(labels).unwrap();
        let expected = Expectations {
            profile: Profile::GpuDirect,
            hcas: Some(8),
            rate_gbps: Some(400),
            bandwidth_gbps: Some(350),
            mtu: Some(4096),
            gid_index: Some(3),
            vfs: Some(64),
            passthrough: Some(true),
            driver: Some("mlx5_core".into()),
            memlock_bytes: 1024,
            ports_up: vec!["mlx5_0".into(), "mlx5_1".into()],
            ..Expectations::default()
        };
        assert_eq!(found, expected);
        assert_eq!(KEYS.len(), labels.len() - 1, "a key is not tested");
    }

    #[test]
    fn a_wrong_label_is_named_with_what_was_expected() {
        let says = |key: &str, value: &str| {
            let key = format!("{LABEL_PREFIX}{key}");
            Expectations::from_labels([(key.as_str(), value)])
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            says("profile", "gpu"),
            "label rdma-health.io/profile: expected gpudirect, rdma, tcp-only or auto, found \"gpu\""
        );
        assert_eq!(
            says("hcas", "-1"),
            "label rdma-health.io/hcas: expected a whole number, found \"-1\""
        );
        assert_eq!(
            says("mtu", "9000"),
            "label rdma-health.io/mtu: must be 256, 512, 1024, 2048 or 4096, not 9000"
        );
        assert!(
            says("rate", "400").starts_with("label rdma-health.io/rate: unknown; known are bandwidth-gbps, ")
        );
        assert!(says("ports-up", "").contains("expected devices"));
    }
}
