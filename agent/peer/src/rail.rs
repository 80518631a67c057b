//! Which port of one node is measured with which port of the other.

use std::{collections::BTreeSet, fmt};

use rdma_health_node::words::numbered;
use rdma_health_protocol::{LinkLayer, MAX_NAME, PortKey, bounded};
use serde::{Deserialize, Serialize};

/// The longest name of a subnet.
const MAX_SUBNET: usize = 64;
/// The most subnets of a port.
const MAX_SUBNETS: usize = 16;

/// A port that a node offers for a measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortOffer {
    /// The port.
    #[serde(flatten)]
    pub port: PortKey,
    /// InfiniBand or Ethernet (`RoCE`).
    pub link_layer: LinkLayer,
    /// Its rate in bits per second; `None` if the driver does not report it.
    pub rate: Option<u64>,
    /// What port and PCIe link can carry together, in bits per second.
    pub capacity: Option<u64>,
    /// What limits it: `its rate` or `its PCIe link`.
    #[serde(deserialize_with = "bounded::text::<_, MAX_NAME>")]
    pub limited_by: String,
    /// Whether it is implemented in software (`rxe`, `siw`), so that its rate says nothing.
    pub software: bool,
    /// The subnets of its network device, such as `10.0.100.0/24`, or the subnet prefix of its InfiniBand fabric.
    #[serde(deserialize_with = "subnets")]
    pub subnets: Vec<String>,
}

fn subnets<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let subnets: Vec<String> = bounded::list::<_, _, MAX_SUBNETS>(deserializer)?;
    match subnets.iter().find(|subnet| subnet.len() > MAX_SUBNET) {
        None => Ok(subnets),
        Some(long) => Err(serde::de::Error::custom(format!(
            "a subnet of {} bytes, more than {MAX_SUBNET} bytes",
            long.len()
        ))),
    }
}

/// Why two ports are taken for the two ends of one rail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "value")]
pub enum MatchedBy {
    /// They are the only ones of their nodes in this subnet.
    Subnet(#[serde(deserialize_with = "bounded::text::<_, MAX_NAME>")] String),
    /// They have the same name.
    Name,
    /// They have the same place among those left, in order of device and port.
    Order,
}

impl fmt::Display for MatchedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Subnet(subnet) => write!(f, "same subnet {subnet}"),
            Self::Name => f.write_str("same name"),
            Self::Order => f.write_str("same order"),
        }
    }
}

/// A pair of ports to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rail {
    /// The port of this node.
    pub here: PortOffer,
    /// That of the other node.
    pub there: PortOffer,
    /// Why they belong together.
    pub by: MatchedBy,
}

/// All rails, and the ports that have none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rails {
    /// In order of this node's ports.
    pub rails: Vec<Rail>,
    /// Ports of this node without a counterpart.
    pub only_here: Vec<PortOffer>,
    /// Ports of the other node without a counterpart.
    pub only_there: Vec<PortOffer>,
}

/// Matches the ports of two nodes.
///
/// Only ports of the same link layer can reach each other. Ports in a common subnet come first: if each node has one port in it,
/// they are a rail; if one has several, those of the same name are, and the others in order. Ports that share a subnet with no port of the
/// other node are left out, unless no two ports do, because each has its own routed subnet: then all are matched by name and
/// order.
pub fn match_rails(here: &[PortOffer], there: &[PortOffer]) -> Rails {
    let mut matching = Matching {
        here: sorted(here),
        there: sorted(there),
        found: Vec::new(),
    };
    for layer in [LinkLayer::InfiniBand, LinkLayer::Ethernet] {
        let before = matching.found.len();
        let mut common: BTreeSet<String> = BTreeSet::new();
        for port in matching.here.iter().filter(|port| port.link_layer == layer) {
            common.extend(port.subnets.iter().cloned());
        }
        for subnet in &common {
            matching.pair_up(
                |port| port.link_layer == layer && port.subnets.contains(subnet),
                Some(subnet),
            );
        }
        if matching.found.len() == before {
            matching.pair_up(|port| port.link_layer == layer, None);
        }
    }
    let mut rails = matching.found;
    rails.sort_by(|a, b| place(&a.here).cmp(&place(&b.here)));
    Rails {
        rails,
        only_here: matching.here,
        only_there: matching.there,
    }
}

/// Ports that have no counterpart yet, and the rails found so far.
struct Matching {
    here: Vec<PortOffer>,
    there: Vec<PortOffer>,
    found: Vec<Rail>,
}

impl Matching {
    /// Pairs up the ports that belong to one group.
    fn pair_up(&mut self, belongs: impl Fn(&PortOffer) -> bool, subnet: Option<&str>) {
        let (mut here, others) = split(std::mem::take(&mut self.here), &belongs);
        let (mut there, remaining) = split(std::mem::take(&mut self.there), &belongs);
        self.here = others;
        self.there = remaining;
        if let (Some(subnet), [_], [_]) = (subnet, &here[..], &there[..]) {
            let by = MatchedBy::Subnet(subnet.to_owned());
            self.take(&mut here, &mut there, 0, 0, by);
        }
        let mut at = 0;
        while let Some(port) = here.get(at) {
            match there.iter().position(|other| other.port == port.port) {
                Some(other) => self.take(&mut here, &mut there, at, other, MatchedBy::Name),
                None => at += 1,
            }
        }
        while !here.is_empty() && !there.is_empty() {
            self.take(&mut here, &mut there, 0, 0, MatchedBy::Order);
        }
        self.here.extend(here);
        self.there.extend(there);
    }

    fn take(
        &mut self,
        here: &mut Vec<PortOffer>,
        there: &mut Vec<PortOffer>,
        at: usize,
        other: usize,
        by: MatchedBy,
    ) {
        self.found.push(Rail {
            here: here.remove(at),
            there: there.remove(other),
            by,
        });
    }
}

fn split(ports: Vec<PortOffer>, belongs: impl Fn(&PortOffer) -> bool) -> (Vec<PortOffer>, Vec<PortOffer>) {
    ports.into_iter().partition(|port| belongs(port))
}

fn place(port: &PortOffer) -> ((&str, u64, &str), u8) {
    (numbered(&port.port.device), port.port.port)
}

fn sorted(ports: &[PortOffer]) -> Vec<PortOffer> {
    let mut ports = ports.to_vec();
    ports.sort_by(|a, b| place(a).cmp(&place(b)));
    ports
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(device: &str, link_layer: LinkLayer, subnets: &[&str]) -> PortOffer {
        PortOffer {
            port: PortKey {
                device: device.into(),
                port: 1,
            },
            link_layer,
            rate: Some(400_000_000_000),
            capacity: Some(400_000_000_000),
            limited_by: "its rate".into(),
            software: false,
            subnets: subnets.iter().map(|&subnet| subnet.to_owned()).collect(),
        }
    }

    fn roce(device: &str, subnet: &str) -> PortOffer {
        port(device, LinkLayer::Ethernet, &[subnet])
    }

    /// The rails as `here-there by`, then the ports without one.
    fn found(here: &[PortOffer], there: &[PortOffer]) -> Vec<String> {
        let Rails {
            rails,
            only_here,
            only_there,
        } = match_rails(here, there);
        let rail = |rail: &Rail| format!("{}-{} {}", rail.here.port.device, rail.there.port.device, rail.by);
        let only = |name: &'static str| move |port: &PortOffer| format!("{name} {}", port.port.device);
        rails
            .iter()
            .map(rail)
            .chain(only_here.iter().map(only("only here")))
            .chain(only_there.iter().map(only("only there")))
            .collect()
    }

    #[test]
    fn the_subnet_of_a_rail_counts_more_than_names() {
        let here = [roce("mlx5_0", "10.0.0.0/24"), roce("mlx5_1", "10.0.1.0/24")];
        let there = [roce("mlx5_0", "10.0.1.0/24"), roce("mlx5_1", "10.0.0.0/24")];
        assert_eq!(
            found(&here, &there),
            [
                "mlx5_0-mlx5_1 same subnet 10.0.0.0/24",
                "mlx5_1-mlx5_0 same subnet 10.0.1.0/24"
            ]
        );
    }

    #[test]
    fn in_one_subnet_names_count_and_then_the_order_of_numbers() {
        let flat = |names: &[&str]| {
            names
                .iter()
                .map(|name| roce(name, "10.0.0.0/16"))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            found(&flat(&["mlx5_10", "mlx5_2"]), &flat(&["mlx5_2", "mlx5_10"])),
            ["mlx5_2-mlx5_2 same name", "mlx5_10-mlx5_10 same name"]
        );
        assert_eq!(
            found(
                &flat(&["mlx5_10", "mlx5_2", "rocep1"]),
                &flat(&["bnxt_0", "bnxt_1"])
            ),
            [
                "mlx5_2-bnxt_0 same order",
                "mlx5_10-bnxt_1 same order",
                "only here rocep1"
            ]
        );
    }

    #[test]
    fn routed_rails_have_no_subnet_in_common() {
        let here = [roce("mlx5_0", "10.0.0.0/31"), roce("mlx5_1", "10.0.0.2/31")];
        let there = [roce("mlx5_0", "10.0.0.4/31"), roce("mlx5_1", "10.0.0.6/31")];
        assert_eq!(
            found(&here, &there),
            ["mlx5_0-mlx5_0 same name", "mlx5_1-mlx5_1 same name"]
        );
    }

    #[test]
    fn a_port_whose_subnet_the_other_node_does_not_have_is_left_out() {
        let here = [roce("mlx5_0", "10.0.0.0/24"), roce("mlx5_1", "10.0.1.0/24")];
        let there = [roce("mlx5_1", "10.0.0.0/24"), roce("mlx5_5", "10.0.9.0/24")];
        assert_eq!(
            found(&here, &there),
            [
                "mlx5_0-mlx5_1 same subnet 10.0.0.0/24",
                "only here mlx5_1",
                "only there mlx5_5"
            ]
        );
    }

    #[test]
    fn infiniband_does_not_reach_ethernet() {
        let fabric = &["fe80::/64"];
        let here = [
            port("mlx5_0", LinkLayer::InfiniBand, fabric),
            roce("mlx5_1", "10.0.0.0/24"),
        ];
        let there = [
            port("mlx5_3", LinkLayer::InfiniBand, fabric),
            roce("mlx5_0", "10.0.0.0/24"),
        ];
        assert_eq!(
            found(&here, &there),
            [
                "mlx5_0-mlx5_3 same subnet fe80::/64",
                "mlx5_1-mlx5_0 same subnet 10.0.0.0/24"
            ]
        );
        assert_eq!(
            found(&here[..1], &there[1..]),
            ["only here mlx5_0", "only there mlx5_0"]
        );
        assert_eq!(match_rails(&[], &there).rails, []);
    }
}
