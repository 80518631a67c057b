//! Between which ports a probe measures.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bounded;

/// The longest name of a device or node in bytes: that of a DNS subdomain, which is what Kubernetes allows for a node.
pub const MAX_NAME: usize = 253;

/// A port of an RDMA device of one node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PortKey {
    /// The device's name, as in `/sys/class/infiniband`.
    #[serde(deserialize_with = "bounded::text::<_, MAX_NAME>")]
    pub device: String,
    /// Port number, from 1.
    pub port: u8,
}

/// A port of another node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RemotePort {
    /// The node's name.
    #[serde(deserialize_with = "bounded::text::<_, MAX_NAME>")]
    pub node: String,
    /// The port there.
    #[serde(flatten)]
    pub port: PortKey,
}

/// The far end of a path.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Peer {
    /// The port that the path starts from.
    #[default]
    Loopback,
    /// A port of another node.
    Remote(RemotePort),
}

/// The path that a probe measures, seen from the node that reports it. Every measurement is keyed by its path.
///
/// In JSON, `device` and `port` name the port of this node; `to` is left out for a loopback.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Path {
    /// The port of this node.
    #[serde(flatten)]
    pub from: PortKey,
    /// The far end.
    #[serde(default, skip_serializing_if = "Peer::is_loopback")]
    pub to: Peer,
}

impl Peer {
    /// Whether both ends are the same port.
    pub fn is_loopback(&self) -> bool {
        *self == Self::Loopback
    }
}

impl Path {
    /// The path from a port to itself.
    pub fn loopback(device: impl Into<String>, port: u8) -> Self {
        Self {
            from: PortKey {
                device: device.into(),
                port,
            },
            to: Peer::Loopback,
        }
    }

    /// Whether both ends are the same port.
    pub fn is_loopback(&self) -> bool {
        self.to.is_loopback()
    }
}

impl fmt::Display for PortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.device, self.port)
    }
}

impl fmt::Display for RemotePort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.port, self.node)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.to {
            Peer::Loopback => write!(f, "{}", self.from),
            Peer::Remote(peer) => write!(f, "{} to {peer}", self.from),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn remote() -> Path {
        Path {
            to: Peer::Remote(RemotePort {
                node: "node-b".into(),
                port: PortKey {
                    device: "mlx5_3".into(),
                    port: 1,
                },
            }),
            ..Path::loopback("mlx5_0", 2)
        }
    }

    #[test]
    fn a_loopback_is_its_port_and_a_remote_end_is_named() {
        let loopback = json!({"device": "mlx5_0", "port": 2});
        let named = json!({
            "device": "mlx5_0", "port": 2,
            "to": {"kind": "remote", "node": "node-b", "device": "mlx5_3", "port": 1},
        });
        for (path, value) in [(Path::loopback("mlx5_0", 2), loopback), (remote(), named)] {
            assert_eq!(serde_json::to_value(&path).unwrap(), value);
            assert_eq!(serde_json::from_value::<Path>(value).unwrap(), path);
        }
        assert_eq!(Path::loopback("mlx5_0", 2).to_string(), "mlx5_0:2");
        assert_eq!(remote().to_string(), "mlx5_0:2 to mlx5_3:1 of node-b");
    }

    #[test]
    fn a_name_that_is_too_long_is_refused() {
        for name in ["device", "node"] {
            let mut value = json!({"node": "b", "device": "m", "port": 1});
            value[name] = "x".repeat(MAX_NAME).into();
            assert!(serde_json::from_value::<RemotePort>(value.clone()).is_ok());
            value[name] = "x".repeat(MAX_NAME + 1).into();
            let refused = serde_json::from_value::<RemotePort>(value)
                .unwrap_err()
                .to_string();
            assert!(refused.contains("more than 253 bytes"), "{refused}");
        }
    }
}
