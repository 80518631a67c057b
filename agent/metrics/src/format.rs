//! The two formats of an answer to a scrape: Prometheus text 0.0.4, and OpenMetrics 1.0 for who accepts it.
//!
//! They differ in the heads of families: in OpenMetrics a counter is named without `_total` there, a unit has its own line, and
//! `# EOF` ends the text, so that a client notices an answer that was cut off.

use std::borrow::Cow;

use rdma_health_instrument::{Entry, Kind};

/// The format of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text, version 0.0.4.
    #[default]
    Text,
    /// OpenMetrics text, version 1.0.
    OpenMetrics,
}

const OPEN_METRICS: &str = "application/openmetrics-text";
/// What every counter's name ends with.
const TOTAL: &str = "_total";
/// The units of names, so that the longest comes first.
const UNITS: [&str; 9] = [
    "transfers_per_second",
    "bytes_per_second",
    "amperes",
    "celsius",
    "seconds",
    "volts",
    "watts",
    "bytes",
    "lanes",
];

impl Format {
    /// The format to answer with, by the header `Accept`: OpenMetrics if the client accepts its version 1.0 or 0.0.1 at least as
    /// much as plain text.
    pub fn accepted(header: &str) -> Self {
        let mut open: Option<f32> = None;
        let mut text: Option<f32> = None;
        for choice in header.split(',') {
            let mut parts = choice.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default();
            let (mut quality, mut version) = (1.0, None);
            for (key, value) in parts.filter_map(|part| part.split_once('=')) {
                match key.trim().to_ascii_lowercase().as_str() {
                    "q" => quality = value.trim().parse().unwrap_or(0.0),
                    "version" => version = Some(value.trim().trim_matches('"')),
                    _ => {}
                }
            }
            let best = |of: &mut Option<f32>| *of = Some(of.unwrap_or(0.0).max(quality));
            if name.eq_ignore_ascii_case(OPEN_METRICS) {
                if matches!(version, None | Some("1.0.0" | "0.0.1")) {
                    best(&mut open);
                }
            } else if matches!(name.to_ascii_lowercase().as_str(), "text/plain" | "text/*") {
                best(&mut text);
            }
        }
        match open {
            Some(open) if open > 0.0 && text.is_none_or(|text| open >= text) => Self::OpenMetrics,
            _ => Self::Text,
        }
    }

    /// The content type of an answer.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Writes the head of a family.
    pub(crate) fn head(self, entry: &Entry, out: &mut Vec<u8>) {
        let help = entry.help();
        match self {
            Self::Text => write(out, &["# HELP ", entry.name, " ", &help, "\n"]),
            Self::OpenMetrics => {
                let name = family(entry.name, entry.kind == Kind::Counter);
                write(out, &["# HELP ", name, " ", &quoted(&help), "\n"]);
                if let Some(unit) = unit(name).filter(|_| !entry.unit.is_empty()) {
                    write(out, &["# UNIT ", name, " ", unit, "\n"]);
                }
            }
        }
        let name = match self {
            Self::Text => entry.name,
            Self::OpenMetrics => family(entry.name, entry.kind == Kind::Counter),
        };
        write(out, &["# TYPE ", name, " ", entry.kind.name(), "\n"]);
    }

    /// Appends families that a registry wrote as Prometheus text.
    pub(crate) fn append(self, text: &str, out: &mut Vec<u8>) {
        match self {
            Self::Text => out.extend_from_slice(text.as_bytes()),
            Self::OpenMetrics => text.lines().for_each(|line| open(line, out)),
        }
    }

    /// Writes what ends the text.
    pub(crate) fn end(self, out: &mut Vec<u8>) {
        if self == Self::OpenMetrics {
            out.extend_from_slice(b"# EOF\n");
        }
    }
}

fn write(out: &mut Vec<u8>, parts: &[&str]) {
    for part in parts {
        out.extend_from_slice(part.as_bytes());
    }
}

/// The name of a family in the head.
fn family(name: &str, is_counter: bool) -> &str {
    let short = name.strip_suffix(TOTAL).filter(|_| is_counter);
    short.unwrap_or(name)
}

/// The unit that a family's name ends with.
fn unit(name: &str) -> Option<&'static str> {
    let ends = |unit: &&str| name.strip_suffix(*unit).is_some_and(|rest| rest.ends_with('_'));
    UNITS.into_iter().find(ends)
}

/// A help text with quotes escaped, which only OpenMetrics requires.
fn quoted(help: &str) -> Cow<'_, str> {
    if help.contains('"') {
        help.replace('"', "\\\"").into()
    } else {
        help.into()
    }
}

/// One line of a registry in OpenMetrics. The names of all counters end in `_total`, and no others do.
fn open(line: &str, out: &mut Vec<u8>) {
    if let Some(head) = line.strip_prefix("# HELP ") {
        let (name, help) = head.split_once(' ').unwrap_or((head, ""));
        let name = family(name, true);
        write(out, &["# HELP ", name, " ", &quoted(help), "\n"]);
        if let Some(unit) = unit(name) {
            write(out, &["# UNIT ", name, " ", unit, "\n"]);
        }
    } else if let Some(head) = line.strip_prefix("# TYPE ") {
        let (name, kind) = head.split_once(' ').unwrap_or((head, ""));
        write(out, &["# TYPE ", family(name, true), " ", kind, "\n"]);
    } else if let Some((before, after)) = line.split_once("le=\"")
        && let Some((bound, rest)) = after.split_once('"')
        && bound.bytes().all(|byte| byte.is_ascii_digit())
    {
        // Bounds are floating-point numbers.
        write(out, &[before, "le=\"", bound, ".0\"", rest, "\n"]);
    } else {
        write(out, &[line, "\n"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openmetrics_is_for_clients_that_prefer_it() {
        // Prometheus 2.5 to 2.48, and 3.
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
            text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let newer = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
            text/plain;version=1.0.0;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for accept in [prometheus, newer, "application/openmetrics-text"] {
            assert_eq!(Format::accepted(accept), Format::OpenMetrics, "{accept}");
        }
        for accept in [
            "",
            "*/*",
            "text/plain",
            "text/html,application/xhtml+xml,*/*;q=0.8",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;q=high",
            "application/openmetrics-text;version=2.0.0,text/plain;q=0.5",
            "application/openmetrics-text;q=0.3,text/plain;q=0.5",
            ";;=,,q=",
        ] {
            assert_eq!(Format::accepted(accept), Format::Text, "{accept}");
        }
    }

    #[test]
    fn a_registry_in_openmetrics_has_units_and_bounds_that_are_floats() {
        let text = "# HELP a_seconds Time of \"a\".\n# TYPE a_seconds histogram\na_seconds_bucket{le=\"1\"} 2\n\
            a_seconds_bucket{le=\"+Inf\"} 2\n# HELP b_total B.\n# TYPE b_total counter\nb_total 1\n";
        let mut out = Vec::new();
        Format::OpenMetrics.append(text, &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "# HELP a_seconds Time of \\\"a\\\".\n# UNIT a_seconds seconds\n# TYPE a_seconds histogram\n\
            a_seconds_bucket{le=\"1.0\"} 2\na_seconds_bucket{le=\"+Inf\"} 2\n# HELP b B.\n# TYPE b counter\nb_total 1\n"
        );
    }
}
