//! Numbers as NCCL reads them: `strtoll` with base 0 (`ncclLoadParam` in `src/misc/param.cc`, `ncclGetLevel` in `src/graph/paths.cc`).

/// Why a text is not read as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotRead {
    /// It does not begin with one: read as 0.
    NoNumber,
    /// It does not fit into 64 bits: NCCL uses its default.
    OutOfRange,
}

/// The number with which a text begins; what follows is ignored. Decimal, hexadecimal (`0x1f`) or octal (`017`), with an optional sign.
///
/// # Errors
/// Where NCCL does not get a number from the text.
pub(super) fn number(text: &str) -> Result<i64, NotRead> {
    let text = text.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\u{b}');
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, radix) = match hexadecimal {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_hexdigit()) => (rest, 16),
        _ if text.starts_with('0') => (text, 8),
        _ => (text, 10),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let digits = digits.get(..end).unwrap_or_default();
    if digits.is_empty() {
        return Err(NotRead::NoNumber);
    }
    let magnitude = i128::from_str_radix(digits, radix).map_err(|_| NotRead::OutOfRange)?;
    let signed = if negative { -magnitude } else { magnitude };
    i64::try_from(signed).map_err(|_| NotRead::OutOfRange)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_strtoll_reads_them() {
        for (text, expected) in [
            ("3", Ok(3)),
            (" +3", Ok(3)),
            ("-1", Ok(-1)),
            ("3abc", Ok(3)),
            ("3 # RoCE v2", Ok(3)),
            ("0x1f", Ok(31)),
            ("0x", Ok(0)),
            ("010", Ok(8)),
            ("08", Ok(0)),
            ("", Err(NotRead::NoNumber)),
            ("auto", Err(NotRead::NoNumber)),
            ("--1", Err(NotRead::NoNumber)),
            ("+-1", Err(NotRead::NoNumber)),
            ("'3'", Err(NotRead::NoNumber)),
            ("9223372036854775808", Err(NotRead::OutOfRange)),
            (
                "99999999999999999999999999999999999999999999999",
                Err(NotRead::OutOfRange),
            ),
        ] {
            assert_eq!(number(text), expected, "{text:?}");
        }
    }
}
