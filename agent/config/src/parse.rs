//! Parses and validates the configuration.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use rdma_health_yaml::{Error, Section, explain, line_of};
use serde_json::Value;

use super::{Config, alias, size};

/// Parses a configuration without validating its values.
///
/// # Errors
/// If the text is malformed, with the line.
pub fn parse(text: &str) -> Result<Config, Error> {
    // An empty document, or one of comments only, is null.
    match serde_saphyr::from_str::<Option<Config>>(text) {
        Ok(config) => Ok(config.unwrap_or_default()),
        Err(error) => Err(explain(&error, text, &sections())),
    }
}

/// Reads `ADDRESS:PORT`, or `:PORT` for every address.
///
/// # Errors
/// A description of the expected format.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
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
        format!("expected an address and port like 127.0.0.1:14791, [::1]:14791 or :14791, found \"{text}\"")
    })
}

/// Validates the values and their combination. `text` is the file's, for line numbers in errors.
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
            return refuse(key, format!("must be between {least} and {most}, not {value}"));
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
            return refuse(key, format!("must be between {least} and {most}, not {value}"));
        }
    }
    let numbers = [
        ("probe.depth", probe.depth, 1, 4096),
        ("probe.queue_pairs", probe.queue_pairs.unwrap_or(1), 1, 64),
        ("probe.latency_samples", probe.latency_samples, 0, 1_000_000),
    ];
    for (key, value, least, most) in numbers {
        if !(least..=most).contains(&value) {
            return refuse(key, format!("must be between {least} and {most}, not {value}"));
        }
    }
    if let Err((key, what)) = config.expect.check() {
        return refuse(&format!("expect.{key}"), what);
    }
    for (key, patterns) in [("exclude", &config.exclude), ("probe.devices", &probe.devices)] {
        if patterns.iter().any(|pattern| pattern.trim().is_empty()) {
            return refuse(key, "contains an empty pattern, which matches nothing".into());
        }
    }
    let kubernetes = &config.kubernetes;
    if let Some(what) = alias::conflict(&kubernetes.aliases, kubernetes.force) {
        return refuse("kubernetes.aliases", what);
    }
    if config.helper.program.is_some() && config.helper.socket.is_some() {
        return refuse(
            "helper",
            "has both `program` and `socket`; set only one of them".into(),
        );
    }
    Ok(())
}

/// The sections of a configuration with their keys; the top level has no name.
fn sections() -> Vec<Section> {
    // The default configuration contains every key.
    let Ok(Value::Object(top)) = serde_json::to_value(Config::default()) else {
        return Vec::new();
    };
    let section = |name: &str, keys: &serde_json::Map<String, Value>| Section {
        name: name.to_owned(),
        keys: keys.keys().cloned().collect(),
    };
    let parts = top
        .iter()
        .filter_map(|(name, part)| Some(section(name, part.as_object()?)));
    std::iter::once(section("", &top)).chain(parts).collect()
}
