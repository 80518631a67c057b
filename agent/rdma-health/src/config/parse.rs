//! From text to settings, and what to say where the text is wrong.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use serde_json::Value;
use serde_saphyr::Error as Yaml;

use super::{Config, Error, size};

/// Two words this alike are taken for a misspelling, from 0 to 1.
const ALIKE: f64 = 0.75;

/// Reads a configuration. Whether its values make sense is not looked at.
///
/// # Errors
/// What is wrong with the text, and in which line.
pub(crate) fn parse(text: &str) -> Result<Config, Error> {
    // An empty document, or one of comments only, is null.
    match serde_saphyr::from_str::<Option<Config>>(text) {
        Ok(config) => Ok(config.unwrap_or_default()),
        Err(error) => Err(explain(&error, text)),
    }
}

/// Reads `ADDRESS:PORT`, or `:PORT` for every address.
///
/// # Errors
/// A sentence that tells what was expected.
pub(crate) fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let every = |port: &str| {
        Some(SocketAddr::new(
            IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            port.parse().ok()?,
        ))
    };
    let address = match text.strip_prefix(':') {
        Some(port) if !port.starts_with(':') => every(port),
        _ => text.parse().ok(),
    };
    address.ok_or_else(|| {
        format!("expected an address and port like 127.0.0.1:9879, [::1]:9879 or :9879, found \"{text}\"")
    })
}

/// Whether the values make sense, each and together. `text` is the file's, to tell the line.
pub(super) fn check(config: &Config, text: Option<&str>) -> Result<(), Error> {
    let refuse = |key: &str, what: String| {
        let line = text.and_then(|text| line_of(text, key));
        Err(Error::new(format!("`{key}` {what}")).at(line))
    };
    let probe = &config.probe;
    let times = [
        (
            "interval",
            config.interval,
            Duration::from_secs(1),
            Duration::from_secs(3600),
        ),
        (
            "probe.interval",
            probe.interval,
            Duration::from_secs(10),
            Duration::from_secs(7 * 86_400),
        ),
        (
            "probe.time_budget",
            probe.time_budget,
            Duration::from_millis(10),
            Duration::from_secs(60),
        ),
    ];
    for (key, value, least, most) in times {
        if !(least..=most).contains(&value) {
            let [value, least, most] = [value, least, most].map(humantime::format_duration);
            return refuse(key, format!("must be from {least} to {most}, not {value}"));
        }
    }
    let sizes = [
        ("probe.message_size", probe.message_size, 1, 1 << 30),
        (
            "probe.byte_budget",
            probe.byte_budget,
            probe.message_size,
            1 << 40,
        ),
        ("probe.latency_size", probe.latency_size, 1, 1 << 20),
        (
            "probe.busy_bytes_per_second",
            probe.busy_bytes_per_second,
            1,
            1 << 40,
        ),
    ];
    for (key, value, least, most) in sizes {
        if !(least..=most).contains(&value) {
            let [value, least, most] = [value, least, most].map(size::format);
            return refuse(key, format!("must be from {least} to {most}, not {value}"));
        }
    }
    let numbers = [
        ("probe.depth", probe.depth, 1, 4096),
        ("probe.latency_samples", probe.latency_samples, 0, 1_000_000),
    ];
    for (key, value, least, most) in numbers {
        if !(least..=most).contains(&value) {
            return refuse(key, format!("must be from {least} to {most}, not {value}"));
        }
    }
    if let Err((key, what)) = config.expect.check() {
        return refuse(&format!("expect.{key}"), what);
    }
    for (key, patterns) in [("exclude", &config.exclude), ("probe.devices", &probe.devices)] {
        if patterns.iter().any(|pattern| pattern.trim().is_empty()) {
            return refuse(key, "holds an empty pattern, which matches nothing".into());
        }
    }
    if let Some(node) = &config.kubernetes.node
        && !crate::kubernetes::is_node_name(node)
    {
        return refuse(
            "kubernetes.node",
            format!("must be a Node's name as in kubectl get nodes, not {node:?}"),
        );
    }
    if config.helper.program.is_some() && config.helper.socket.is_some() {
        return refuse(
            "helper",
            "names both `program` and `socket`; give one of them".into(),
        );
    }
    Ok(())
}

/// Puts an error of the YAML reader into words.
pub(crate) fn explain(error: &Yaml, text: &str) -> Error {
    let error = error.without_snippet();
    let place = error.location();
    let line = place.map(|place| place.line()).filter(|line| *line > 0);
    let key = place.and_then(|place| key_at(text, place.line(), place.column()));
    let named = |what: String| match &key {
        Some(key) => format!("`{key}`: {what}"),
        None => what,
    };
    let message = match error {
        Yaml::SerdeUnknownField { field, expected, .. } => unknown_key(field, expected),
        Yaml::SerdeUnknownVariant {
            variant, expected, ..
        } => named(format!(
            "unknown value `{variant}`{}; expected one of {}",
            did_you_mean(variant, expected.iter().copied()),
            expected.join(", ")
        )),
        Yaml::SerdeInvalidType {
            unexpected, expected, ..
        }
        | Yaml::SerdeInvalidValue {
            unexpected, expected, ..
        } => named(format!("expected {expected}, found {unexpected}")),
        Yaml::InvalidScalar { ty, .. } => named(format!("expected {}", in_words(ty))),
        Yaml::Unexpected { expected, .. } => named(format!("expected {}", in_words(expected))),
        Yaml::DuplicateMappingKey { key: Some(key), .. } => format!("`{key}` is given twice"),
        Yaml::Message { msg, .. } => named(msg.clone()),
        other => other.to_string(),
    };
    Error::new(message).at(line)
}

/// Words for the names of types and of parts of YAML that the reader uses.
fn in_words(name: &str) -> &str {
    match name {
        "mapping start" => "keys with values below it",
        "sequence start" => "a list",
        "bool" | "boolean" => "true or false",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        other => other,
    }
}

fn unknown_key(field: &str, known: &[&str]) -> String {
    let sections = sections();
    let is_this = |(_, keys): &&(String, Vec<String>)| keys.iter().eq(sorted(known).iter());
    let section = sections
        .iter()
        .find(is_this)
        .map_or("", |(name, _)| name.as_str());
    let place = if section.is_empty() {
        String::new()
    } else {
        format!(" in `{section}`")
    };
    let mut suggestion = did_you_mean(field, known.iter().copied());
    if suggestion.is_empty()
        && let Some((other, _)) = sections
            .iter()
            .find(|(_, keys)| keys.iter().any(|key| key == field))
    {
        suggestion = if other.is_empty() {
            "; it belongs to the top level".into()
        } else {
            format!("; it belongs to `{other}`")
        };
    }
    if suggestion.is_empty() {
        suggestion = format!("; known keys are {}", known.join(", "));
    }
    format!("unknown key `{field}`{place}{suggestion}")
}

fn sorted(keys: &[&str]) -> Vec<String> {
    let mut keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
    keys.sort_unstable();
    keys
}

/// The keys of each part of a configuration, in order; the top level has no name.
fn sections() -> Vec<(String, Vec<String>)> {
    // The default configuration holds every key.
    let Ok(Value::Object(top)) = serde_json::to_value(Config::default()) else {
        return Vec::new();
    };
    let keys = |object: &serde_json::Map<String, Value>| {
        sorted(&object.keys().map(String::as_str).collect::<Vec<_>>())
    };
    let parts = top
        .iter()
        .filter_map(|(name, part)| Some((name.clone(), keys(part.as_object()?))));
    std::iter::once((String::new(), keys(&top)))
        .chain(parts)
        .collect()
}

fn did_you_mean<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> String {
    let likeness = |known: &&str| strsim::normalized_damerau_levenshtein(word, known);
    // A long text costs its square to compare, and is no misspelling.
    let best = known
        .filter(|known| word.len() <= 64 && likeness(known) >= ALIKE)
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    best.map_or(String::new(), |known| format!("; did you mean `{known}`?"))
}

/// The key at a place, or the one that the value there belongs to: the last before it in its line, else the first of a
/// line above.
fn key_at(text: &str, line: u64, column: u64) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let at = usize::try_from(line).ok()?.checked_sub(1)?;
    let column = usize::try_from(column).ok()?.saturating_sub(1);
    let (split, _) = lines
        .get(at)?
        .char_indices()
        .nth(column)
        .unwrap_or((lines[at].len(), ' '));
    let (before, after) = lines[at].split_at(split);
    if let Some((key, _)) = after.split_once(':')
        && !key.is_empty()
        && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    {
        return Some(key.to_owned());
    }
    let here = before.rsplit_once(':').and_then(|(key, _)| word_at_end(key));
    let above = || {
        let mut keys = lines[..at].iter().rev().filter_map(|line| line.split_once(':'));
        keys.find_map(|(key, _)| word_at_end(key))
    };
    here.or_else(above)
}

fn word_at_end(text: &str) -> Option<String> {
    let word = text
        .rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .next()?;
    (!word.is_empty()).then(|| word.to_owned())
}

/// The line that gives a key (`probe.interval`), from 1.
pub(crate) fn line_of(text: &str, key: &str) -> Option<u64> {
    let mut wanted = key.split('.').peekable();
    for (number, line) in (1..).zip(text.lines()) {
        let name = line.trim_start().split(':').next()?.trim_end();
        if Some(&name) == wanted.peek() && line.contains(':') {
            wanted.next();
            if wanted.peek().is_none() {
                return Some(number);
            }
        }
    }
    None
}
