//! Ports that a program does not get, in words without an error number: none that it can use, one that is down, or one of the other link layer.

use crate::{
    log::{entity::is_rdma_name, line::is_word},
    symptom::SymptomKind::{self as K},
};

/// `No usable port found (device: mlx5_0)`, and the exception that ends a program of C++: `what():  Port 0 is down.`
pub(super) fn without_port(lower: &str) -> Option<(K, usize)> {
    const NONE: [&str; 5] = [
        "no usable port",
        "no suitable port",
        "no valid port",
        "no live port",
        "no port is up",
    ];
    let names_device = || {
        lower
            .split(|c: char| !(c.is_ascii() && is_word(c as u8)))
            .any(is_rdma_name)
    };
    if let Some(at) = NONE.iter().find_map(|words| lower.find(words)) {
        return names_device().then_some((K::PortNotActive, at));
    }
    let at = lower.find("port ")?;
    let number = &lower[at + "port ".len()..];
    let rest = number.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_port = (1..=2).contains(&(number.len() - rest.len()));
    let is_down = [" is down", " is not up", " not up", " has no link"]
        .iter()
        .any(|state| rest.starts_with(state));
    (is_port && is_down && (lower.contains("what():") || names_device())).then_some((K::PortNotActive, at))
}

/// A port of an adapter for both link layers that is set to the other one: `mlx5_net: port is not configured in Ethernet mode`.
pub(super) fn other_mode(lower: &str) -> Option<(K, usize)> {
    const MODES: [&str; 4] = [
        " in ethernet mode",
        " in infiniband mode",
        " in ib mode",
        " in eth mode",
    ];
    let at = MODES.iter().find_map(|mode| lower.find(mode))?;
    let before = &lower[..at];
    let is_other = ["not configured", "is not", "isn't", "not running", "not working"]
        .iter()
        .any(|words| before.ends_with(words));
    (is_other && before.contains("port")).then_some((K::LinkTypeOther, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_without_a_link_is_read_without_a_word_of_failure() {
        for line in [
            "  what():  no usable port found (device: mlx5_0) (mscclpp failure: invalidusage)",
            "terminate called: what():  port 0 is down.",
            "rdma: mlx5_1 port 1 is not up",
        ] {
            assert_eq!(
                without_port(line).map(|(kind, _)| kind),
                Some(K::PortNotActive),
                "{line}"
            );
        }
        for line in [
            "no usable port found in range 30000-32767",
            "switch: port 17 is down",
            "mlx5_0: port 1 is up",
        ] {
            assert_eq!(without_port(line), None, "{line}");
        }
    }

    #[test]
    fn a_port_may_have_the_other_mode() {
        assert!(other_mode("mlx5_net: port is not configured in ethernet mode").is_some());
        assert!(other_mode("port 1 of 0000:3b:00.0 is not in infiniband mode").is_some());
        assert!(other_mode("mlx5_net: port is configured in ethernet mode").is_none());
        assert!(other_mode("the switch is not in ethernet mode").is_none());
    }
}
