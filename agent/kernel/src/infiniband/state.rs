//! State and rate of a port, as the kernel writes them.

use serde::{Deserialize, Serialize};

/// A state in the kernel's format: a code and its name, `4: ACTIVE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortCode {
    /// The number of the InfiniBand specification.
    pub code: u8,
    /// The kernel's name for it.
    pub name: String,
}

impl PortCode {
    /// Logical state ACTIVE.
    pub const ACTIVE: u8 = 4;
    /// Logical state `ACTIVE_DEFER`: the port was ACTIVE, and its link recovers from an error (InfiniBand Architecture Specification, 7.2).
    pub const ACTIVE_DEFER: u8 = 5;
    /// Physical state `LinkUp`.
    pub const LINK_UP: u8 = 5;

    pub(super) fn parse(text: &str) -> Option<Self> {
        let (code, name) = text.split_once(':')?;
        let name = name.trim();
        let plain = name.len() <= 64 && name.chars().all(|c| c.is_ascii_graphic() || c == ' ');
        plain.then_some(Self {
            code: code.trim().parse().ok()?,
            name: name.to_owned(),
        })
    }
}

impl std::fmt::Display for PortCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.name)
    }
}

/// A rate in the kernel's format: `400 Gb/sec (4X NDR)`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// Bits per second.
    pub bits_per_second: u64,
    /// Number of lanes (`4`); `None` if the kernel does not report it.
    pub lanes: Option<u32>,
    /// Name of the speed of one lane (`NDR`).
    pub speed: Option<String>,
}

impl Rate {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (number, rest) = text.split_once(" Gb/sec")?;
        let (whole, tenth) = number.split_once('.').unwrap_or((number, "0"));
        let tenth: u64 = if tenth.len() == 1 {
            tenth.parse().ok()?
        } else {
            return None;
        };
        let bits = whole
            .parse::<u64>()
            .ok()?
            .checked_mul(1_000_000_000)?
            .checked_add(tenth * 100_000_000)?;
        let inner = rest
            .trim()
            .strip_prefix('(')
            .and_then(|rest| rest.strip_suffix(')'));
        let mut words = inner.unwrap_or_default().split_whitespace();
        let lanes = words.next().and_then(|word| word.strip_suffix('X')?.parse().ok());
        let speed = words.next().filter(|word| word.len() <= 8).map(str::to_owned);
        Some(Self {
            bits_per_second: bits,
            lanes,
            speed,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rates_have_the_kernels_format() {
        let rate = |text| Rate::parse(text).map(|rate| (rate.bits_per_second, rate.lanes, rate.speed));
        assert_eq!(
            rate("400 Gb/sec (4X NDR)"),
            Some((400_000_000_000, Some(4), Some("NDR".into())))
        );
        assert_eq!(
            rate("2.5 Gb/sec (1X SDR)"),
            Some((2_500_000_000, Some(1), Some("SDR".into())))
        );
        assert_eq!(rate("40 Gb/sec (4X)"), Some((40_000_000_000, Some(4), None)));
        assert_eq!(rate("fast"), None);
        assert_eq!(rate("99999999999999999999 Gb/sec"), None);
    }

    #[test]
    fn states_keep_code_and_name() {
        assert_eq!(
            PortCode::parse("4: ACTIVE"),
            Some(PortCode {
                code: 4,
                name: "ACTIVE".into()
            })
        );
        assert_eq!(PortCode::parse("3: Disabled").unwrap().to_string(), "3: Disabled");
        assert_eq!(PortCode::parse("ACTIVE"), None);
        assert_eq!(PortCode::parse("4: \u{1b}[31m"), None);
    }

    proptest! {
        #[test]
        fn a_rate_is_read_as_the_kernel_writes_it(
            (whole, tenth) in (0..100_000_u64, 0..10_u64),
            lanes in 1..=12_u32,
            speed in "[A-Z]{2,4}",
        ) {
            let rate = Rate {
                bits_per_second: whole * 1_000_000_000 + tenth * 100_000_000,
                lanes: Some(lanes),
                speed: Some(speed.clone()),
            };
            prop_assert_eq!(Rate::parse(&format!("{whole}.{tenth} Gb/sec ({lanes}X {speed})")), Some(rate));
        }

        #[test]
        fn a_state_reads_the_same_once_it_was_shown(text in "[0-9]{0,4}:.{0,64}") {
            if let Some(state) = PortCode::parse(&text) {
                prop_assert!(text.starts_with(&state.code.to_string()) || text.starts_with('0'));
                prop_assert!(!state.name.contains(char::is_control), "{:?}", state.name);
                prop_assert_eq!(PortCode::parse(&state.to_string()), Some(state));
            }
        }
    }
}
