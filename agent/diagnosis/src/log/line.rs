//! One line of a log: escape sequences, excerpts, and the values in it.

use std::{borrow::Cow, cell::OnceCell};

use rdma_health_protocol::text::printable;

use super::{MAX_END, MAX_TEXT, grade::Grade};

/// A line, and the same line in lower case. Only ASCII letters differ, so positions are the same in both.
#[derive(Debug)]
#[expect(clippy::struct_field_names, reason = "`line.lower` reads well")]
pub(super) struct Lower<'a> {
    pub(super) text: &'a str,
    pub(super) lower: String,
    /// What [`Lower::grade`] found.
    grade: OnceCell<Grade>,
}

impl<'a> Lower<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        Self {
            text,
            lower: text.to_ascii_lowercase(),
            grade: OnceCell::new(),
        }
    }

    /// Its grade. Several readers need it.
    pub(super) fn grade(&self) -> Grade {
        *self.grade.get_or_init(|| Grade::of(self))
    }
}

/// Whether a byte is a part of a word: a letter, a digit or an underscore.
pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether a line has control characters that no log has. Tabs, and what [`strip_escapes`] removes, are not counted.
pub(super) fn is_binary(bytes: &[u8]) -> bool {
    bytes
        .iter()
        .any(|byte| matches!(byte, 1..=8 | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f))
}

/// The line without escape sequences and without the zero bytes of UTF-16. A carriage return, with which progress bars
/// overwrite themselves, becomes a space.
pub(super) fn strip_escapes(bytes: &[u8]) -> Cow<'_, [u8]> {
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

/// The part of a line around `at`, from the beginning of the line if that is near, and the end of the line: a chain of messages ends with the reason.
pub(super) fn excerpt(text: &str, at: usize) -> String {
    const BEFORE: usize = 140;
    const WORD: usize = 24;
    let mut begin = if at <= BEFORE { 0 } else { at - 60 };
    while !text.is_char_boundary(begin) {
        begin += 1;
    }
    // Not in the middle of a word, unless it is a long one.
    if begin > 0
        && let Some(end) = text[begin..at.max(begin)].find([' ', ',', ';'])
        && end < WORD
    {
        begin += end + 1;
    }
    let dots = if begin > 0 { "…" } else { "" };
    let kept = text[begin..].trim();
    let head: String = kept.chars().take(MAX_TEXT).collect();
    let rest = &kept[head.len()..];
    let tail = rest.char_indices().rev().nth(MAX_END - 1).map_or(0, |(at, _)| at);
    let cut = if tail > 0 { "…" } else { "" };
    printable(&format!("{dots}{head}{cut}{}", &rest[tail..]).replace('\t', " "))
}

/// The host that wrote a line: of NCCL (`host:pid:tid [rank] NCCL WARN …`), UCX (`[host:pid:tid]`) or syslog (`… host kernel: `).
pub(super) fn host(text: &str) -> Option<String> {
    of_nccl(text).or_else(|| of_ucx(text)).or_else(|| of_syslog(text))
}

fn is_host(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    (1..=64).contains(&name.len())
        && name.bytes().all(plain)
        && name.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// `[1595598109.293924] [cn007:58829:0] … UCX  ERROR …`
fn of_ucx(text: &str) -> Option<String> {
    text.split('[').skip(1).take(3).find_map(|part| {
        let (inner, _) = part.split_once(']')?;
        let mut parts = inner.split(':').map(str::trim);
        let host = parts.next()?;
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let numbers = parts.clone().count();
        // Not a date or a line of a source file: `[2025-07-15T13:57:42…`, `[rdma.c:612:…`.
        let is_name = is_host(host) && !host.starts_with(|c: char| c.is_ascii_digit()) || numbers == 0;
        (numbers >= 2 && parts.all(is_number) && is_name).then(|| host.to_owned())
    })
}

/// `Sep  2 13:26:29 host kernel: …`
fn of_syslog(text: &str) -> Option<String> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (before, _) = text.split_once(" kernel: ")?;
    let mut words = before.split_whitespace();
    let dated = MONTHS.contains(&words.next()?);
    let host = words.nth(2)?;
    (dated && words.next().is_none() && is_host(host)).then(|| host.to_owned())
}

fn of_nccl(text: &str) -> Option<String> {
    let before = &text[..text.find(" NCCL ")?];
    // Launchers add a prefix (`[1,0]<stderr>:`). NCCL's own is the last word that ends with two numbers.
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
    // Digits only are a part of a time.
    let is_name = host.bytes().any(|byte| !byte.is_ascii_digit());
    (is_name && host.len() <= 64 && host.bytes().all(plain)).then(|| host.to_owned())
}

/// The text after `label`, if the label occurs.
pub(super) fn after<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    text.find(label).map(|at| &text[at + label.len()..])
}

/// The word at the beginning of `text`, up to white space, a comma, a quote or a bracket; at most 64 bytes.
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

/// The 16 bytes of a row: four words (libmlx5), or 16 bytes after an offset and any other prefix (the kernel).
pub(crate) fn row(line: &str) -> Option<[u8; 16]> {
    // DPDK repeats the bytes as text.
    let line = line.split(" | ").next().unwrap_or(line);
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
