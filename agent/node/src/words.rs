//! Formats numbers and names for people.

use std::time::{Duration, SystemTime};

pub use rdma_health_protocol::text::{excerpt, printable, printable_json, write_json};

/// A name with the number at its end, as an order in which `mlx5_2` comes before `mlx5_10`.
pub fn numbered(name: &str) -> (&str, u64, &str) {
    let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (prefix, name[prefix.len()..].parse().unwrap_or(u64::MAX), name)
}

/// A rate in Gb/s, with a decimal only if it is not zero.
pub fn gigabits(bits_per_second: u64) -> String {
    let tenths = bits_per_second / 100_000_000;
    match tenths % 10 {
        0 => format!("{} Gb/s", tenths / 10),
        tenth => format!("{}.{tenth} Gb/s", tenths / 10),
    }
}

/// A measured bandwidth in Gb/s with two decimals, as perftest prints it; below 10 Mb/s in Mb/s.
pub fn bandwidth(bytes_per_second: f64) -> String {
    let bits = bytes_per_second * 8.0;
    if bits >= 1e7 {
        format!("{:.2} Gb/s", bits / 1e9)
    } else {
        format!("{:.2} Mb/s", bits / 1e6)
    }
}

/// `1 port`, `3 ports`.
pub fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// [`count`] for `u64`.
pub fn count_of(number: u64, noun: &str) -> String {
    count(usize::try_from(number).unwrap_or(usize::MAX), noun)
}

/// A time as a date: `2026-01-31T12:00:00Z`. Seconds since 1970; after the year 9999, which a wrong clock may show, that year's end.
pub fn date(seconds: u64) -> String {
    const LATEST: u64 = 253_402_300_799;
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.min(LATEST));
    humantime::format_rfc3339_seconds(time).to_string()
}

/// A duration in a suitable unit: `90 s`, `5 min`, `3 h`, `4 days`.
pub fn duration(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// A short time, given in seconds, in a suitable unit: `3.2 µs`.
pub fn latency(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.1} µs", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s => format!("{s:.1} s"),
    }
}

/// A size in the largest binary unit that divides it, otherwise in bytes.
pub fn size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole = units
        .into_iter()
        .find(|(shift, _)| bytes != 0 && bytes.is_multiple_of(1 << shift));
    whole.map_or_else(
        || format!("{bytes} bytes"),
        |(shift, unit)| format!("{} {unit}", bytes >> shift),
    )
}

/// The suffix for a number of further items: ` and 3 more`, or empty.
pub fn and_more(number: usize) -> String {
    match number {
        0 => String::new(),
        more => format!(" and {more} more"),
    }
}

/// The first four names and the number of the others.
pub fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 4;
    let names: Vec<_> = names.into_iter().collect();
    let more = names.len().saturating_sub(SHOWN);
    format!("{}{}", names[..names.len() - more].join(", "), and_more(more))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_names_are_in_order_of_their_numbers() {
        let mut names = [
            "mlx5_10",
            "mlx5_2",
            "mlx5_bond_0",
            "mlx5_1",
            "rxe",
            "mlx5_99999999999999999999",
        ];
        names.sort_by_key(|name| numbered(name));
        assert_eq!(
            names,
            [
                "mlx5_1",
                "mlx5_2",
                "mlx5_10",
                "mlx5_99999999999999999999",
                "mlx5_bond_0",
                "rxe"
            ]
        );
    }
}
