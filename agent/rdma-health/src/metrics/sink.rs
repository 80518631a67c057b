//! Writes the Prometheus text format, version 0.0.4, straight into a buffer.
//!
//! A scrape of a large node is some thousand series, and its cost is this module's: nothing is allocated per series.

use std::io::Write;

use super::catalogue::{Entry, Family, ports};

/// A buffer that families are written to, one after the other.
pub(super) struct Sink<'a> {
    out: &'a mut Vec<u8>,
}

/// One family being written. Its head is written with the first series, so that one without series leaves no trace.
pub(super) struct Series<'s, const N: usize> {
    out: &'s mut Vec<u8>,
    entry: &'static Entry,
    begun: bool,
}

/// `{device="…",port="…"` ready to be written: most series have just these labels.
#[derive(Debug, Clone)]
pub(super) struct PortLabels(Vec<u8>);

/// A value as Prometheus writes it.
pub(super) trait Value {
    /// Appends it.
    fn write(self, out: &mut Vec<u8>);
}

impl Value for u64 {
    fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(itoa::Buffer::new().format(self).as_bytes());
    }
}

impl Value for u32 {
    fn write(self, out: &mut Vec<u8>) {
        u64::from(self).write(out);
    }
}

impl Value for u8 {
    fn write(self, out: &mut Vec<u8>) {
        u64::from(self).write(out);
    }
}

impl Value for usize {
    fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(itoa::Buffer::new().format(self).as_bytes());
    }
}

impl Value for bool {
    fn write(self, out: &mut Vec<u8>) {
        out.push(if self { b'1' } else { b'0' });
    }
}

impl Value for f64 {
    fn write(self, out: &mut Vec<u8>) {
        if self.is_nan() {
            out.extend_from_slice(b"NaN");
        } else if self.is_infinite() {
            out.extend_from_slice(if self > 0.0 { b"+Inf" } else { b"-Inf" });
        } else {
            // Writing to a vector cannot fail.
            let _ = write!(out, "{self}");
        }
    }
}

impl<'a> Sink<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Begins a family. Each may be begun once.
    pub(super) fn family<const N: usize>(&mut self, family: &'static Family<N>) -> Series<'_, N> {
        Series {
            out: self.out,
            entry: family.entry(),
            begun: false,
        }
    }

    /// Writes a family that has one series without labels, where there is a value.
    pub(super) fn single(&mut self, family: &'static Family<0>, value: Option<impl Value>) {
        if let Some(value) = value {
            self.family(family).sample([], value);
        }
    }
}

impl<const N: usize> Series<'_, N> {
    /// Writes one series.
    pub(super) fn sample(&mut self, labels: [&str; N], value: impl Value) {
        self.begin();
        self.out.extend_from_slice(self.entry.name.as_bytes());
        let mut before = b'{';
        for (name, label) in self.entry.labels.iter().zip(labels) {
            self.out.push(before);
            pair(self.out, name, label);
            before = b',';
        }
        if N > 0 {
            self.out.push(b'}');
        }
        self.end(value);
    }

    fn begin(&mut self) {
        if self.begun {
            return;
        }
        self.begun = true;
        let Entry { name, help, kind, .. } = self.entry;
        for part in [
            "# HELP ",
            name,
            " ",
            help,
            "\n# TYPE ",
            name,
            " ",
            kind.name(),
            "\n",
        ] {
            self.out.extend_from_slice(part.as_bytes());
        }
    }

    fn end(&mut self, value: impl Value) {
        self.out.push(b' ');
        value.write(self.out);
        self.out.push(b'\n');
    }
}

impl Series<'_, 2> {
    /// Writes the series of a port in a family whose labels are device and port.
    pub(super) fn port(&mut self, labels: &PortLabels, value: impl Value) {
        debug_assert_eq!(self.entry.labels, ports::PORT_STATE.entry().labels);
        self.begin();
        self.out.extend_from_slice(self.entry.name.as_bytes());
        self.out.extend_from_slice(&labels.0);
        self.out.push(b'}');
        self.end(value);
    }
}

impl Series<'_, 3> {
    /// Writes a series of a port that has one more label.
    pub(super) fn port_and(&mut self, labels: &PortLabels, third: &str, value: impl Value) {
        self.begin();
        self.out.extend_from_slice(self.entry.name.as_bytes());
        self.out.extend_from_slice(&labels.0);
        self.out.push(b',');
        pair(self.out, self.entry.labels[2], third);
        self.out.push(b'}');
        self.end(value);
    }
}

impl Series<'_, 4> {
    /// Writes a series of a port that has two more labels.
    pub(super) fn port_and_two(&mut self, labels: &PortLabels, more: [&str; 2], value: impl Value) {
        self.begin();
        self.out.extend_from_slice(self.entry.name.as_bytes());
        self.out.extend_from_slice(&labels.0);
        for (name, label) in self.entry.labels[2..].iter().zip(more) {
            self.out.push(b',');
            pair(self.out, name, label);
        }
        self.out.push(b'}');
        self.end(value);
    }
}

impl PortLabels {
    pub(super) fn new(device: &str, port: u8) -> Self {
        let mut out = Vec::with_capacity(48);
        out.push(b'{');
        pair(&mut out, "device", device);
        out.push(b',');
        pair(&mut out, "port", itoa::Buffer::new().format(port));
        Self(out)
    }
}

fn pair(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"=\"");
    escape(out, value);
    out.push(b'"');
}

/// A label's value: backslash, quote and newline are escaped.
fn escape(out: &mut Vec<u8>, value: &str) {
    if !value.bytes().any(|byte| matches!(byte, b'\\' | b'"' | b'\n')) {
        out.extend_from_slice(value.as_bytes());
        return;
    }
    for byte in value.bytes() {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'"' => out.extend_from_slice(b"\\\""),
            b'\n' => out.extend_from_slice(b"\\n"),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::catalogue::facts::PEER_MEMORY, *};

    fn written(value: impl Value) -> String {
        let mut out = Vec::new();
        value.write(&mut out);
        String::from_utf8(out).unwrap()
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
        fn any_label_stays_on_one_line_and_is_read_as_it_was(label in ".{0,40}|[\\\\\"\n]{0,9}") {
            let mut out = Vec::new();
            Sink::new(&mut out).family(&PEER_MEMORY).sample([&label], 1_u8);
            let text = String::from_utf8(out).unwrap();
            let lines: Vec<_> = text.split('\n').collect();
            prop_assert_eq!(lines.len(), 4);
            let value = lines[2].strip_prefix("rdma_peer_memory_info{path=\"").and_then(|rest| rest.strip_suffix("\"} 1"));
            let mut read = String::new();
            let mut chars = value.unwrap().chars();
            while let Some(c) = chars.next() {
                prop_assert_ne!(c, '"');
                read.push(match c {
                    '\\' => match chars.next() {
                        Some('n') => '\n',
                        other => other.unwrap(),
                    },
                    c => c,
                });
            }
            prop_assert_eq!(read, label);
        }

        #[test]
        fn any_float_is_read_as_it_was(value: f64) {
            let read: f64 = written(value).parse().unwrap();
            prop_assert!(read.total_cmp(&value).is_eq() || (read.is_nan() && value.is_nan()));
        }
    }
}
