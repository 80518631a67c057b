//! Sizes with units: `64KiB`, `1GB`, `4096`, and `8Gi` as Kubernetes writes it.

use serde::{Deserializer, Serializer, de};

/// Units by name; the binary ones come first, the largest before the others.
const UNITS: [(&str, u64); 13] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
    ("Ti", 1 << 40),
    ("Gi", 1 << 30),
    ("Mi", 1 << 20),
    ("Ki", 1 << 10),
];

/// Parses a whole number with an optional unit.
pub fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim_start();
    let factor = match unit {
        "" => 1,
        // KB is a common spelling of kB.
        "KB" => 1_000,
        unit => UNITS.iter().find(|(name, _)| *name == unit)?.1,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// Formats a size with the largest binary unit that divides it.
pub(super) fn format(bytes: u64) -> String {
    let whole = UNITS[..4]
        .iter()
        .find(|(_, factor)| bytes != 0 && bytes.is_multiple_of(*factor));
    match whole {
        Some((name, factor)) => format!("{}{name}", bytes / factor),
        None => format!("{bytes}B"),
    }
}

/// For serde's `with`: a size in a field of bytes.
pub(super) mod bytes {
    use super::{Deserializer, Serializer, Size, format};

    // serde's `with` passes a reference.
    #[allow(clippy::trivially_copy_pass_by_ref)]
    pub(in super::super) fn serialize<S: Serializer>(bytes: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format(*bytes))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        deserializer.deserialize_any(Size)
    }
}

struct Size;

impl de::Visitor<'_> for Size {
    type Value = u64;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a size like 64KiB or 1GB, or a number of bytes")
    }

    fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<u64, E> {
        Ok(bytes)
    }

    fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<u64, E> {
        u64::try_from(bytes).map_err(|_| E::invalid_value(de::Unexpected::Signed(bytes), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<u64, E> {
        parse(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn binary_and_decimal_units_differ() {
        assert_eq!(parse("64KiB"), Some(65_536));
        assert_eq!(parse("64 kB"), Some(64_000));
        assert_eq!(parse("8Gi"), parse("8GiB"));
        assert_eq!(parse("8"), Some(8));
        assert_eq!(parse("8B"), Some(8));
        for other in [
            "",
            "KiB",
            "-1",
            "1.5MiB",
            "64kib",
            "99999999999999999999",
            "99999999999TiB",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn a_formatted_size_parses_to_the_same_value(bytes: u64) {
            prop_assert_eq!(parse(&format(bytes)), Some(bytes));
        }

        #[test]
        fn a_size_is_its_number_times_its_unit_or_too_large(number in prop_oneof![any::<u64>(), 0..1_u64 << 24], place in 0..UNITS.len(), space in " ?") {
            let (unit, factor) = UNITS[place];
            let bytes = u128::from(number) * u128::from(factor);
            prop_assert_eq!(parse(&format!("{number}{space}{unit}")).map(u128::from), u64::try_from(bytes).ok().map(u128::from));
        }

        #[test]
        fn what_does_not_begin_with_a_digit_or_ends_in_no_unit_is_no_size(text in ".{0,40}", number: u32) {
            let known = |unit: &str| unit.is_empty() || unit == "KB" || UNITS.iter().any(|(name, _)| *name == unit);
            prop_assume!(!text.starts_with(|c: char| c.is_ascii_digit()) && !known(text.trim()));
            prop_assert_eq!(parse(&text), None);
            prop_assert_eq!(parse(&format!("{number}{text}")), None);
        }
    }
}
