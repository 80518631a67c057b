//! Values of flags. An error says what was expected; clap adds the flag and the value.

use std::time::Duration;

use rdma_health_config as config;

/// Largest message of a probe, in bytes.
const MAX_MESSAGE: u64 = 1 << 30;
/// Most writes of a probe that may be outstanding.
const MAX_DEPTH: u32 = 4096;
/// Largest id of a process (`PID_MAX_LIMIT`).
const MAX_PID: u32 = 1 << 22;

/// `64KiB`, `1GB`, `4096`.
pub(super) fn size(text: &str) -> Result<u64, String> {
    config::parse_size(text)
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "expected a size such as 64KiB or 1GB, or a number of bytes".into())
}

/// Memory that a process can lock: a size, 0, or `unlimited`, which is [`u64::MAX`].
pub(super) fn memlock(text: &str) -> Result<u64, String> {
    if text == "unlimited" {
        return Ok(u64::MAX);
    }
    config::parse_size(text)
        .ok_or_else(|| "expected a size such as 64KiB or 8GiB, a number of bytes, 0, or unlimited".into())
}

/// Size of one message of a probe.
pub(super) fn message_size(text: &str) -> Result<u32, String> {
    let bytes = size(text)?;
    u32::try_from(bytes)
        .ok()
        .filter(|_| bytes <= MAX_MESSAGE)
        .ok_or_else(|| "a message has at most 1GiB".into())
}

/// Number of writes of a probe that may be outstanding.
pub(super) fn depth(text: &str) -> Result<u32, String> {
    let depth = text.parse().ok().filter(|depth| (1..=MAX_DEPTH).contains(depth));
    depth.ok_or_else(|| format!("expected a whole number from 1 to {MAX_DEPTH}"))
}

/// Number of queue pairs of a probe.
pub(super) fn queue_pairs(text: &str) -> Result<u32, String> {
    let most = u32::try_from(rdma_health_protocol::MAX_QUEUE_PAIRS).unwrap_or(u32::MAX);
    let number = text.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("expected a whole number from 1 to {most}"))
}

/// A node to connect to.
pub(super) fn host(text: &str) -> Result<(String, u16), String> {
    super::between::host(text).ok_or_else(|| {
        "expected a name or address, with or without a port, such as node-b or [fd00::1]:14792".into()
    })
}

/// A device, with or without the number of a port, which starts at 1.
pub(super) fn target(text: &str) -> Result<String, String> {
    let (device, port) = text.split_once(':').unwrap_or((text, "1"));
    let is_port = port.parse::<u8>().is_ok_and(|number| number > 0);
    (is_port && !device.is_empty())
        .then(|| text.to_owned())
        .ok_or_else(|| {
            "expected a device, with or without a port from 1 to 255, such as mlx5_0 or mlx5_0:1".into()
        })
}

/// Index into a port's GID table.
pub(super) fn gid_index(text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| "expected an index of the port's GID table: a whole number, 0 or more".into())
}

/// The id of a process.
pub(super) fn process(text: &str) -> Result<u32, String> {
    let pid = text.parse().ok().filter(|pid| (1..=MAX_PID).contains(pid));
    pid.ok_or_else(|| "expected the id of a process: a whole number from 1".into())
}

/// The name of a namespace as Kubernetes allows it. It becomes part of a path.
#[cfg(feature = "agent")]
pub(super) fn namespace(text: &str) -> Result<String, String> {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if text.is_empty() || text.len() > 63 || !text.bytes().all(plain) {
        return Err("expected lowercase letters, digits and '-'".into());
    }
    Ok(text.to_owned())
}

/// `90s`, `10m`, `1h 30m`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|_| "expected a duration with a unit, such as 90s, 10m or 1h 30m".into())
}

/// Time that a probe of one port may take.
pub(super) fn probe_time(text: &str) -> Result<Duration, String> {
    duration_within(text, Duration::from_millis(1), Duration::from_secs(600))
}

/// Time to wait for devices.
pub(super) fn wait_time(text: &str) -> Result<Duration, String> {
    duration_within(text, Duration::from_secs(1), Duration::from_secs(24 * 60 * 60))
}

/// A duration between two others.
pub(super) fn duration_within(text: &str, least: Duration, most: Duration) -> Result<Duration, String> {
    let time = duration(text)?;
    if (least..=most).contains(&time) {
        return Ok(time);
    }
    let [least, most] = [least, most].map(humantime::format_duration);
    Err(format!("expected a duration from {least} to {most}"))
}
