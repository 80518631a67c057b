//! Records of the journal and of `dmesg` in which the message is one of several fields: `journalctl -o json`, `json-pretty`, `json-sse`,
//! `export` and `verbose`, and `dmesg --json`.
//!
//! Each record becomes the line that the same tool prints by default. A record counts as one line, however many it takes.

use serde_json::{Map, Value};

use super::MAX_LINE;

/// Fields of every record of the journal (`systemd.journal-fields`): these begin a record, in any order.
const FIELDS: [&str; 14] = [
    "MESSAGE",
    "PRIORITY",
    "SYSLOG_FACILITY",
    "SYSLOG_IDENTIFIER",
    "_BOOT_ID",
    "_HOSTNAME",
    "_KERNEL_DEVICE",
    "_KERNEL_SUBSYSTEM",
    "_MACHINE_ID",
    "_SOURCE_MONOTONIC_TIMESTAMP",
    "_TRANSPORT",
    "__CURSOR",
    "__MONOTONIC_TIMESTAMP",
    "__REALTIME_TIMESTAMP",
];
/// What `dmesg --json` writes of a message before its text.
const OF_DMESG: [&str; 3] = ["fac", "pri", "time"];

/// What a line of the log is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// Not a part of a record: it is read as it is.
    Plain,
    /// A part of a record.
    Part,
}

/// The record that is being read.
#[derive(Debug, Default)]
struct Record {
    message: Vec<u8>,
    has_message: bool,
    priority: Option<u8>,
    /// Seconds since boot.
    time: Option<String>,
    host: String,
    identifier: String,
    process: String,
    transport: String,
    of_dmesg: bool,
}

/// Joins the fields of records.
#[derive(Debug, Default)]
pub(super) struct Journal {
    record: Option<Record>,
    complete: Vec<Vec<u8>>,
}

impl Journal {
    /// The next line. The lines of the records that it completes are in [`Journal::complete`].
    pub(super) fn add(&mut self, bytes: &[u8]) -> Line {
        if self.record.is_none() && !may_begin(bytes) {
            return Line::Plain;
        }
        let Ok(text) = std::str::from_utf8(bytes) else {
            return self.of_bytes(bytes);
        };
        if let Some(record) = whole(text) {
            self.end();
            self.record = Some(record);
            self.end();
            return Line::Part;
        }
        let Some((name, value)) = field(text).filter(|(name, _)| self.is_field(name)) else {
            self.end();
            return if is_heading(text) { Line::Part } else { Line::Plain };
        };
        self.record.get_or_insert_default().set(name, &value);
        Line::Part
    }

    /// A field whose bytes are not text.
    fn of_bytes(&mut self, bytes: &[u8]) -> Line {
        let text = String::from_utf8_lossy(bytes);
        let Some((name, value)) = plain_field(&text).filter(|(name, _)| self.is_field(name)) else {
            self.end();
            return Line::Plain;
        };
        self.record.get_or_insert_default().set(name, &Value::from(value));
        Line::Part
    }

    /// Whether a field begins a record or belongs to the one that is being read.
    fn is_field(&self, name: &str) -> bool {
        let is_named = |name: &str| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
        };
        match &self.record {
            None => FIELDS.contains(&name) || OF_DMESG.contains(&name),
            Some(record) if record.of_dmesg => is_of_dmesg(name),
            Some(_) => is_named(name),
        }
    }

    /// The record ends.
    pub(super) fn end(&mut self) {
        if let Some(record) = self.record.take() {
            self.complete.extend(record.lines());
        }
    }

    /// The lines of the complete records.
    pub(super) fn complete(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.complete)
    }
}

impl Record {
    fn set(&mut self, name: &str, value: &Value) {
        let text = || match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            // A field that a record has several times.
            Value::Array(values) => values
                .first()
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            _ => String::new(),
        };
        match name {
            "MESSAGE" | "msg" => {
                self.has_message = true;
                self.message = bytes_of(value).unwrap_or_else(|| text().into_bytes());
                self.message.truncate(MAX_LINE);
            }
            "PRIORITY" => self.priority = text().parse().ok().filter(|priority| *priority < 8),
            "_SOURCE_MONOTONIC_TIMESTAMP" => {
                let time: Option<u64> = text().parse().ok();
                self.time = time.map(|time| format!("{}.{:06}", time / 1_000_000, time % 1_000_000));
            }
            "_HOSTNAME" => self.host = word(&text()),
            "SYSLOG_IDENTIFIER" => self.identifier = word(&text()),
            "_PID" => self.process = word(&text()),
            "_TRANSPORT" => self.transport = word(&text()),
            "fac" => self.transport = word(&text()).replace("kern", "kernel"),
            "pri" => self.priority = level(&text()),
            "time" => self.time = value.as_f64().map(|time| format!("{time:.6}")),
            _ => {}
        }
        self.of_dmesg |= is_of_dmesg(name);
    }

    /// Whether the kernel wrote it: only the journal sets the transport.
    fn is_of_kernel(&self) -> bool {
        if self.of_dmesg {
            // Without the facility: most lines are the kernel's, and the others name a process.
            return matches!(self.transport.as_str(), "" | "kernel");
        }
        match self.transport.as_str() {
            "" => self.identifier == "kernel" && self.process.is_empty(),
            transport => transport == "kernel",
        }
    }

    /// The record as lines: the message may be several.
    fn lines(self) -> Vec<Vec<u8>> {
        if !self.has_message || self.message.is_empty() {
            return Vec::new();
        }
        let mut before = String::new();
        if self.is_of_kernel() {
            if let Some(priority) = self.priority {
                before = format!("<{priority}>");
            }
            match (&self.time, self.host.as_str()) {
                (Some(time), _) => before = format!("{before}[{time}] "),
                (None, "") => before += "kernel: ",
                (None, host) => before = format!("{host} kernel: "),
            }
        } else if !self.identifier.is_empty() {
            before = match &*self.process {
                "" => format!("{}: ", self.identifier),
                process => format!("{}[{process}]: ", self.identifier),
            };
        }
        let mut lines = self.message.split(|byte| *byte == b'\n');
        let first = [before.as_bytes(), lines.next().unwrap_or_default()].concat();
        let rest = lines.filter(|line| !line.is_empty()).map(<[u8]>::to_vec);
        std::iter::once(first).chain(rest).collect()
    }
}

/// Whether a line may begin a record: most lines of a log do not.
fn may_begin(bytes: &[u8]) -> bool {
    let line = bytes.trim_ascii_start();
    let is_field = |line: &[u8]| {
        let fields = FIELDS.iter().chain(&OF_DMESG);
        fields
            .map(|name| name.as_bytes())
            .any(|name| line.starts_with(name))
    };
    match line.first() {
        Some(b'{' | b'd') => memchr::memmem::find(line, b"\"MESSAGE\"").is_some() || is_heading_of(line),
        Some(b'"') => is_field(&line[1..]),
        Some(b'A'..=b'Z') if is_field(line) => true,
        Some(b'A'..=b'Z') => is_heading_of(line),
        Some(b'_') => is_field(line),
        _ => false,
    }
}

fn is_heading_of(line: &[u8]) -> bool {
    std::str::from_utf8(line).is_ok_and(is_heading)
}

/// What `-o verbose` writes before the fields of a record: `Sat 2026-11-28 07:10:11.123456 UTC [s=5ac…;i=1;b=…]`.
fn is_heading(text: &str) -> bool {
    let cursor = text.split_once(" [s=").map(|(_, rest)| rest);
    cursor.is_some_and(|rest| rest.contains(";i=") && rest.trim_end().ends_with(']'))
}

/// A record in one line.
fn whole(text: &str) -> Option<Record> {
    let text = text.trim();
    let text = text.strip_prefix("data: ").unwrap_or(text);
    if !text.starts_with('{') || text.len() < 2 {
        return None;
    }
    let fields: Map<String, Value> = serde_json::from_str(text.trim_end_matches(',')).ok()?;
    let is_of_journal = fields.contains_key("MESSAGE")
        && FIELDS
            .iter()
            .filter(|name| fields.contains_key(**name))
            .nth(1)
            .is_some();
    if !is_of_journal {
        return None;
    }
    let mut record = Record::default();
    for (name, value) in &fields {
        record.set(name, value);
    }
    // A record of the journal has no fields of `dmesg`.
    record.of_dmesg = false;
    Some(record)
}

/// The field in a line, of JSON or as `NAME=value`.
fn field(text: &str) -> Option<(&str, Value)> {
    let line = text.trim();
    let Some(rest) = line.strip_prefix('"') else {
        return plain_field(text).map(|(name, value)| (name, Value::from(value)));
    };
    let (name, rest) = rest.split_once('"')?;
    let value = rest.trim_start().strip_prefix(':')?.trim();
    let value: Value = serde_json::from_str(value.strip_suffix(',').unwrap_or(value)).ok()?;
    // Other programs write the time as text.
    let is_fit = match name {
        "time" => value.is_number(),
        "fac" | "pri" => value.is_string() || value.is_number(),
        _ => true,
    };
    is_fit.then_some((name, value))
}

fn plain_field(text: &str) -> Option<(&str, &str)> {
    text.trim().split_once('=')
}

/// A field of `dmesg --json`.
fn is_of_dmesg(name: &str) -> bool {
    OF_DMESG.contains(&name) || matches!(name, "msg" | "caller")
}

/// The bytes of a message that is not text, which the journal writes as numbers.
fn bytes_of(value: &Value) -> Option<Vec<u8>> {
    let values = value.as_array()?;
    let byte = |value: &Value| value.as_u64().and_then(|byte| u8::try_from(byte).ok());
    values.iter().map(byte).collect()
}

/// The severity that `dmesg` names.
fn level(text: &str) -> Option<u8> {
    const NAMES: [&str; 8] = ["emerg", "alert", "crit", "err", "warn", "notice", "info", "debug"];
    let named = NAMES.iter().position(|name| *name == text);
    match named {
        Some(level) => u8::try_from(level).ok(),
        None => text.parse().ok().filter(|level| *level < 8),
    }
}

/// A name without white space, at most 64 bytes.
fn word(text: &str) -> String {
    let name = text.split_whitespace().next().unwrap_or_default();
    name.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(log: &str) -> Vec<String> {
        let mut journal = Journal::default();
        let mut lines = Vec::new();
        for line in log.lines() {
            let kind = journal.add(line.as_bytes());
            lines.extend(journal.complete());
            if kind == Line::Plain {
                lines.push(line.as_bytes().to_vec());
            }
        }
        journal.end();
        lines.extend(journal.complete());
        let texts = lines
            .iter()
            .map(|line| String::from_utf8_lossy(line).into_owned());
        texts.filter(|line| line.len() > 3).collect()
    }

    #[test]
    fn a_record_is_the_same_line_in_every_form() {
        let kernel = "<3>[1234.567890] efa 0000:50:00.0: stuck \"x\"";
        for log in [
            r#"{"_TRANSPORT":"kernel","MESSAGE":"efa 0000:50:00.0: stuck \"x\"","PRIORITY":"3","_SOURCE_MONOTONIC_TIMESTAMP":"1234567890"}"#,
            r#"data: {"MESSAGE":"efa 0000:50:00.0: stuck \"x\"","_TRANSPORT":"kernel","PRIORITY":"3","_SOURCE_MONOTONIC_TIMESTAMP":"1234567890"}"#,
            "{\n\t\"_UDEV_SYSNAME\" : \"0000:50:00.0\",\n\t\"PRIORITY\" : \"3\",\n\t\"MESSAGE\" : \"efa 0000:50:00.0: stuck \\\"x\\\"\",\n\t\"_SOURCE_MONOTONIC_TIMESTAMP\" : \"1234567890\",\n\t\"_TRANSPORT\" : \"kernel\"\n}",
            "__CURSOR=s=1\nPRIORITY=3\n_KERNEL_DEVICE=+pci:0000:50:00.0\n_SOURCE_MONOTONIC_TIMESTAMP=1234567890\nMESSAGE=efa 0000:50:00.0: stuck \"x\"\n_TRANSPORT=kernel\n\n",
            "Sat 2026-11-28 07:10:11.123456 UTC [s=a;i=1;b=2;m=3;t=4;x=5]\n    PRIORITY=3\n    MESSAGE=efa 0000:50:00.0: stuck \"x\"\n    _TRANSPORT=kernel\n    _SOURCE_MONOTONIC_TIMESTAMP=1234567890\n",
            "{\n   \"dmesg\": [\n      {\n         \"fac\": \"kern\",\n         \"pri\": \"err\",\n         \"time\":  1234.567890,\n         \"msg\": \"efa 0000:50:00.0: stuck \\\"x\\\"\"\n      },{\n",
        ] {
            let lines = lines(log);
            assert_eq!(
                lines.iter().filter(|line| *line == kernel).count(),
                1,
                "{log}: {lines:?}"
            );
            assert!(
                !lines
                    .iter()
                    .any(|line| line.contains("PRIORITY") || line.contains("_TRANSPORT"))
            );
        }
    }

    #[test]
    fn a_process_does_not_speak_for_the_kernel() {
        let log = r#"{"SYSLOG_IDENTIFIER":"kernel","_TRANSPORT":"syslog","_PID":"71","MESSAGE":"efa 0000:50:00.0: stuck","PRIORITY":"3"}"#;
        assert_eq!(lines(log), ["kernel[71]: efa 0000:50:00.0: stuck"]);
    }

    #[test]
    fn other_texts_stay_as_they_are() {
        for line in [
            r#"{"log":"ibv_open_device failed\n","stream":"stderr"}"#,
            r#"{"level":"error","MESSAGE":"x"}"#,
            "\"time\": \"2026-11-28\",",
            "NCCL_DEBUG=INFO",
            "ibv_reg_mr failed: x=1",
        ] {
            assert_eq!(lines(line), [line]);
        }
        // A message that is not text.
        let log = r#"{"MESSAGE":[101,102,97,255],"_TRANSPORT":"journal","SYSLOG_IDENTIFIER":"a b"}"#;
        assert_eq!(lines(log), ["a: efa\u{fffd}"]);
    }
}
