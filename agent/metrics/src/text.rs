//! Writes families straight into a buffer.
//!
//! A scrape of a large node is some thousand series, and most of its cost is here: nothing is allocated per series.

use std::io::Write;

use rdma_health_instrument::Entry;

use super::format::Format;

/// A buffer that families are written to, one after the other.
pub(crate) struct Sink<'a> {
    out: &'a mut Vec<u8>,
    format: Format,
    /// Families to leave out.
    without: &'a [&'a str],
}

/// One family being written. Its head is written with the first sample, so that one without samples leaves no trace.
pub(crate) struct Series<'s> {
    out: &'s mut Vec<u8>,
    format: Format,
    entry: &'s Entry,
    begun: bool,
}

/// The first labels of a sample, ready to be written: `{device="…",port="…"`, or nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Labels(Vec<u8>);

/// A value of a sample.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value {
    Integer(u64),
    Float(f64),
}

macro_rules! integers {
    ($($from:ty),*) => {$(
        impl From<$from> for Value {
            fn from(value: $from) -> Self {
                Self::Integer(value.into())
            }
        }
    )*};
}

integers!(bool, u8, u16, u32, u64);

impl From<usize> for Value {
    fn from(value: usize) -> Self {
        Self::Integer(value as u64)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl Value {
    fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Integer(value) => out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes()),
            Self::Float(value) if value.is_nan() => out.extend_from_slice(b"NaN"),
            Self::Float(f64::INFINITY) => out.extend_from_slice(b"+Inf"),
            Self::Float(f64::NEG_INFINITY) => out.extend_from_slice(b"-Inf"),
            Self::Float(value) => {
                // Writing to a vector cannot fail.
                let _ = write!(out, "{value}");
            }
        }
    }
}

impl<'a> Sink<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>, format: Format, without: &'a [&'a str]) -> Self {
        Self { out, format, without }
    }

    /// Whether a family is to be written.
    pub(crate) fn wants(&self, entry: &Entry) -> bool {
        !self.without.contains(&entry.name)
    }

    /// Begins a family. Each may be begun once.
    pub(crate) fn series<'s>(&'s mut self, entry: &'s Entry) -> Series<'s> {
        Series {
            out: self.out,
            format: self.format,
            entry,
            begun: false,
        }
    }
}

impl Series<'_> {
    /// Writes one sample. `more` are the values of the family's last labels, `labels` has all before them.
    pub(crate) fn sample(&mut self, labels: &Labels, more: &[&str], value: Value) {
        self.name(labels, more);
        value.write(self.out);
        self.out.push(b'\n');
    }

    /// Writes one sample without its value; returns how much text comes before that.
    pub(crate) fn gap(&mut self, labels: &Labels, more: &[&str]) -> usize {
        self.name(labels, more);
        let at = self.out.len();
        self.out.push(b'\n');
        at
    }

    /// Writes what comes before the value of a sample.
    fn name(&mut self, labels: &Labels, more: &[&str]) {
        self.begin();
        self.out.extend_from_slice(self.entry.name.as_bytes());
        self.out.extend_from_slice(&labels.0);
        let mut before = labels.separator();
        let names = self.entry.labels;
        for (name, label) in names[names.len() - more.len()..].iter().zip(more) {
            self.out.push(before);
            pair(self.out, name, label);
            before = b',';
        }
        self.out
            .extend_from_slice(if names.is_empty() { b" " } else { b"} " });
    }

    fn begin(&mut self) {
        if self.begun {
            return;
        }
        self.begun = true;
        self.format.head(self.entry, self.out);
    }
}

impl Labels {
    pub(crate) fn new(names: &[&str], values: &[&str]) -> Self {
        debug_assert_eq!(names.len(), values.len());
        let mut labels = Self(Vec::with_capacity(if names.is_empty() { 0 } else { 48 }));
        for (name, value) in names.iter().zip(values) {
            labels.0.push(labels.separator());
            pair(&mut labels.0, name, value);
        }
        labels
    }

    /// What comes before the next label.
    fn separator(&self) -> u8 {
        if self.0.is_empty() { b'{' } else { b',' }
    }
}

fn pair(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"=\"");
    escape(out, value);
    out.push(b'"');
}

/// A label's value. Characters that a terminal obeys or hides are written as their code (`\u{1b}`): names of devices come
/// from drivers, and people read metrics in terminals.
fn escape(out: &mut Vec<u8>, value: &str) {
    if value
        .bytes()
        .all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'\\' | b'"'))
    {
        out.extend_from_slice(value.as_bytes());
    } else if value.chars().any(is_hidden) || value.contains("\\u{") {
        // Different values stay different: a backslash of the value itself is doubled.
        let coded = value.chars().flat_map(|character| {
            match character {
                hidden if is_hidden(hidden) => hidden.escape_unicode().to_string(),
                '\\' => "\\\\".into(),
                shown => shown.to_string(),
            }
            .into_bytes()
        });
        quote(out, coded);
    } else {
        quote(out, value.bytes());
    }
}

/// Escapes what the format requires.
fn quote(out: &mut Vec<u8>, value: impl Iterator<Item = u8>) {
    for byte in value {
        if matches!(byte, b'\\' | b'"') {
            out.push(b'\\');
        }
        out.push(byte);
    }
}

/// Whether a terminal obeys or hides the character: a control character, or one without a shape.
fn is_hidden(character: char) -> bool {
    !matches!(character, '"' | '\'' | '\\') && character.escape_debug().count() > 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rdma_health_instrument::Kind;

    use super::*;

    static ENTRY: Entry = Entry::new(Kind::Gauge, "kind_info", "", &["of", "kind"], "Of a kind.");

    fn written(value: impl Into<Value>) -> String {
        let mut out = Vec::new();
        value.into().write(&mut out);
        String::from_utf8(out).unwrap()
    }

    /// The value of a label from what Prometheus stores.
    fn decoded(stored: &str) -> String {
        if !stored.contains("\\u{") {
            return stored.to_owned();
        }
        let (mut value, mut rest) = (String::new(), stored);
        while let Some((before, after)) = rest.split_once('\\') {
            value.push_str(before);
            rest = if let Some(after) = after.strip_prefix('\\') {
                value.push('\\');
                after
            } else {
                let (code, after) = after.strip_prefix("u{").unwrap().split_once('}').unwrap();
                value.push(char::from_u32(u32::from_str_radix(code, 16).unwrap()).unwrap());
                after
            };
        }
        value + rest
    }

    #[test]
    fn a_device_name_cannot_change_what_a_terminal_shows() {
        let mut out = Vec::new();
        escape(&mut out, "mlx5\u{1b}[2J\n\u{202e}\"ä");
        assert_eq!(
            String::from_utf8(out).unwrap(),
            r#"mlx5\\u{1b}[2J\\u{a}\\u{202e}\"ä"#
        );
    }

    #[test]
    fn numbers_are_written_as_prometheus_reads_them() {
        assert_eq!(written(u64::MAX), "18446744073709551615");
        assert_eq!(written(0.25), "0.25");
        assert_eq!(written(f64::INFINITY), "+Inf");
        assert_eq!(written(f64::NEG_INFINITY), "-Inf");
        assert_eq!(written(f64::NAN), "NaN");
        assert_eq!(written(true), "1");
    }

    proptest! {
        #[test]
        fn any_label_stays_on_one_line_and_different_ones_stay_different(
            label in ".{0,40}|[\\\\\"\n]{0,9}|[\\\\u{}1b\u{1b}\u{202e}]{0,9}",
        ) {
            let mut out = Vec::new();
            let labels = Labels::new(&ENTRY.labels[..1], &[&label]);
            Sink::new(&mut out, Format::Text, &[]).series(&ENTRY).sample(&labels, &[&label], 1_u8.into());
            let text = String::from_utf8(out).unwrap();
            let lines: Vec<_> = text.split('\n').collect();
            prop_assert_eq!(lines.len(), 4);
            prop_assert!(!lines[2].chars().any(is_hidden));
            let values = lines[2].strip_prefix("kind_info{of=\"").and_then(|rest| rest.strip_suffix("\"} 1"));
            let values = values.unwrap();
            // Both labels have the same value.
            let (first, second) = values.split_at((values.len() - "\",kind=\"".len()) / 2);
            let second = second.strip_prefix("\",kind=\"");
            prop_assert_eq!(Some(first), second);
            let mut read = String::new();
            let mut chars = first.chars();
            while let Some(c) = chars.next() {
                prop_assert_ne!(c, '"');
                read.push(if c == '\\' { chars.next().unwrap() } else { c });
            }
            prop_assert_eq!(decoded(&read), label);
        }

        #[test]
        fn any_float_is_read_as_it_was(value: f64) {
            let read: f64 = written(value).parse().unwrap();
            prop_assert!(read.total_cmp(&value).is_eq() || (read.is_nan() && value.is_nan()));
        }
    }
}
