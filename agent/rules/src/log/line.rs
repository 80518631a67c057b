//! One line of a log: made plain, cut, and taken apart.

use std::{borrow::Cow, fmt::Write};

use super::MAX_TEXT;

/// The line without escape sequences and without the zero bytes of UTF-16. A carriage return, by which progress bars
/// write over themselves, becomes a space.
pub(super) fn plain(bytes: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr3(0, 0x1b, b'\r', bytes).is_none() {
        return Cow::Borrowed(bytes);
    }
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        match byte {
            0 => {}
            b'\r' => out.push(b' '),
            // Control Sequence Introducer: parameters, then one final byte (ECMA-48).
            0x1b if rest.peek() == Some(&b'[') => {
                rest.next();
                while rest.next().is_some_and(|byte| !(0x40..=0x7e).contains(&byte)) {}
            }
            0x1b => {
                rest.next();
            }
            byte => out.push(byte),
        }
    }
    Cow::Owned(out)
}

/// The part of a line around `at` that is worth keeping: from its beginning where that is near.
pub(super) fn excerpt(text: &str, at: usize) -> String {
    const BEFORE: usize = 140;
    let mut begin = if at <= BEFORE { 0 } else { at - 60 };
    while !text.is_char_boundary(begin) {
        begin += 1;
    }
    let mut out = String::new();
    for c in text[begin..].trim().chars().take(MAX_TEXT) {
        match c {
            '\t' => out.push(' '),
            // Bidirectional controls are no control characters to `char`, and reorder what a terminal shows.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => out.push('\u{fffd}'),
            c if c.is_control() => {
                // Writing to a string cannot fail.
                let _ = write!(out, "{}", c.escape_default());
            }
            c => out.push(c),
        }
    }
    out
}

/// The machine that wrote a line of NCCL: `host:pid:tid [rank] NCCL WARN …`.
pub(super) fn host(text: &str) -> Option<String> {
    let before = &text[..text.find(" NCCL ")?];
    // Launchers put a tag in front (`[1,0]<stderr>:`); the last word with two numbers at its end is NCCL's.
    let word = before
        .split_whitespace()
        .rev()
        .find(|word| word.matches(':').count() >= 2)?;
    let mut parts = word.rsplit(':');
    let number =
        |part: Option<&str>| part.is_some_and(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()));
    if !number(parts.next()) || !number(parts.next()) {
        return None;
    }
    let host = parts.next()?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    (!host.is_empty() && host.len() <= 64 && host.bytes().all(plain)).then(|| host.to_owned())
}

/// The text after `label`, if it is there.
pub(super) fn after<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    text.find(label).map(|at| &text[at + label.len()..])
}

/// The word at the beginning of `text`, at most 64 bytes of it: until white space, a comma or a bracket.
pub(super) fn word(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let end = text
        .find(|c: char| {
            c.is_whitespace() || matches!(c, ',' | '(' | ')' | '[' | ']' | '\'' | '"' | ';' | '<' | '>')
        })
        .unwrap_or(text.len());
    let word = &text[..end];
    (!word.is_empty() && word.len() <= 64 && word.chars().all(|c| c.is_ascii_graphic())).then_some(word)
}

/// The number at the beginning of `text`: decimal, or hexadecimal after `0x`.
pub(super) fn number(text: &str) -> Option<u64> {
    let text = text.trim_start();
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hexadecimal) => (hexadecimal, 16),
        None => (text, 10),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    u64::from_str_radix(&digits[..end], radix).ok()
}

/// A device and its port: `mlx5_0:1/RoCE`, `mlx5_0:1`, `mlx5_0`.
pub(super) fn device(text: &str) -> Option<(String, Option<u8>)> {
    let word = word(text)?;
    let word = word.split('/').next()?.trim_end_matches([':', '.']);
    let (name, port) = match word.split_once(':') {
        Some((name, port)) => (name, Some(port.parse().ok()?)),
        None => (word, None),
    };
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    (!name.is_empty() && name.bytes().all(plain)).then(|| (name.to_owned(), port))
}

/// The 16 bytes of a row: four words (libmlx5), or an offset and 16 bytes (the kernel, whatever stands before).
pub(super) fn row(line: &str) -> Option<[u8; 16]> {
    let words: Vec<&str> = line.split_whitespace().take(64).collect();
    let hexadecimal =
        |word: &&str, length| word.len() == length && word.bytes().all(|b| b.is_ascii_hexdigit());
    let digits: String = if words.len() == 4 && words.iter().all(|word| hexadecimal(word, 8)) {
        words.concat()
    } else {
        let bytes = words.len().checked_sub(16).map(|first| &words[first..])?;
        bytes
            .iter()
            .all(|word| hexadecimal(word, 2))
            .then(|| bytes.concat())?
    };
    let value = u128::from_str_radix(&digits, 16).ok()?;
    Some(value.to_be_bytes())
}
