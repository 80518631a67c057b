//! `rdma-health probe --listen` and `--connect`: measures the rails between two nodes.

mod connect;
mod listen;
mod offer;
mod text;

use std::{
    io::Write, net::SocketAddr, os::unix::fs::MetadataExt, path::PathBuf, process::ExitCode, time::Duration,
};

use anyhow::Context;
use clap::Args;
use rdma_health_config::Config;
use rdma_health_helper::Helper;
use rdma_health_node::words::printable;
use rdma_health_peer::{DEFAULT_PORT, Limits, Measurement, Own, Token, Verdict, judge};
use rdma_health_rules::Status;
use serde_json::{Value, json};

use super::{Output, probe, values};

#[derive(Debug, Args)]
pub(super) struct BetweenArguments {
    /// Wait for other nodes that connect, and measure with one at a time [default address: [::]:14792]
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "[::]:14792",
        value_parser = listen_address,
        requires = "token_file",
        conflicts_with = "connect"
    )]
    listen: Option<SocketAddr>,
    /// Measure with nodes that listen, one after the other [default port: 14792]
    #[arg(
        long,
        value_name = "HOST[:PORT]",
        value_delimiter = ',',
        value_parser = values::host,
        requires = "token_file"
    )]
    connect: Vec<(String, u16)>,
    /// File with a token that both nodes know, at least 16 bytes (openssl rand -hex 32); - is the first line of standard input
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// With --listen: end after the first node was measured
    #[arg(long, requires = "listen")]
    once: bool,
    /// How long to try to connect, or with --once, how long to wait for a node [default: one attempt, no limit]
    #[arg(long, value_name = "TIME", value_parser = values::wait_time, requires = "token_file")]
    wait: Option<Duration>,
}

fn listen_address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "expected an address and a port, such as 10.0.0.1:14792 or [::]:14792".into())
}

/// Which side of a measurement this is.
pub(super) enum Mode {
    Listen {
        address: SocketAddr,
        once: bool,
        wait: Option<Duration>,
        token: Token,
    },
    Connect {
        hosts: Vec<(String, u16)>,
        wait: Option<Duration>,
        token: Token,
    },
}

impl Mode {
    /// What the flags say; `None` for a loopback.
    pub(super) fn of(arguments: &BetweenArguments) -> anyhow::Result<Option<Self>> {
        // clap requires it for both modes.
        let Some(file) = &arguments.token_file else {
            return Ok(None);
        };
        let token = if file.as_os_str() == "-" {
            Token::read_line(std::io::stdin().lock()).context("cannot use the token on standard input")?
        } else {
            let token =
                Token::read(file).with_context(|| format!("cannot use the token file {}", file.display()))?;
            if file.metadata().is_ok_and(|found| found.mode() & 0o004 != 0) {
                anstream::eprintln!(
                    "rdma-health: every user of this machine can read the token file {}, and who knows the token can connect: chmod 600 it",
                    printable(&file.display().to_string())
                );
            }
            token
        };
        let wait = arguments.wait;
        Ok(match arguments.listen {
            Some(address) => Some(Self::Listen {
                address,
                once: arguments.once,
                wait,
                token,
            }),
            None if arguments.connect.is_empty() => None,
            None => Some(Self::Connect {
                hosts: arguments.connect.clone(),
                wait,
                token,
            }),
        })
    }
}

pub(super) async fn run(
    mode: Mode,
    arguments: &probe::Arguments,
    config: &Config,
    helper: Helper,
) -> anyhow::Result<ExitCode> {
    // Fails at once without a helper.
    helper.devices().await?;
    let reader = offer::Reader::new(arguments, config);
    let own = Own {
        introduction: reader.read().await?,
        helper,
        gid_index: arguments.gid_index,
        even_if_busy: arguments.force,
        busy_bytes_per_second: config.probe.busy_bytes_per_second,
    };
    let show = Show {
        limits: Limits {
            percent_of_capacity: config.expect.thresholds.bandwidth_percent,
            percent_of_equals: config.expect.thresholds.bandwidth_percent_of_earlier,
        },
        output: arguments.output,
    };
    let status = match mode {
        Mode::Listen {
            address,
            once,
            wait,
            token,
        } => listen::run(address, once, wait, token, own, reader, &show).await?,
        Mode::Connect { hosts, wait, token } => {
            let plan = connect::Settings::new(arguments, config);
            connect::run(&hosts, wait, &token, &own, &plan, &show).await?
        }
    };
    Ok(ExitCode::from(status.exit_code()))
}

/// How results are shown.
#[derive(Debug, Clone, Copy)]
struct Show {
    limits: Limits,
    output: Output,
}

impl Show {
    /// Judges a measurement. Writes it as text, or returns it as JSON.
    fn write(&self, measurement: &Measurement) -> anyhow::Result<(Status, Value)> {
        let verdict = judge(measurement, self.limits);
        if self.output == Output::Text {
            let mut out = crate::cli::output::stdout();
            text::write(&mut out, measurement, &verdict)?;
            out.flush()?;
        }
        Ok((verdict.status, as_json(measurement, &verdict)?))
    }
}

/// A measurement and its verdict as one document.
fn as_json(measurement: &Measurement, verdict: &Verdict) -> anyhow::Result<Value> {
    let mut rails = Vec::new();
    for (rail, judged) in measurement.rails.iter().zip(&verdict.rails) {
        let mut rail = serde_json::to_value(rail)?;
        if let Value::Object(rail) = &mut rail {
            rail.insert("status".into(), json!(judged.status));
            rail.insert("messages".into(), json!(judged.messages));
        }
        rails.push(rail);
    }
    Ok(json!({
        "here": measurement.here,
        "there": measurement.there,
        "status": verdict.status,
        "rails": rails,
        "only_here": measurement.only_here,
        "only_there": measurement.only_there,
    }))
}

/// The worse of two; critical before warning before unknown.
fn worse(a: Status, b: Status) -> Status {
    [Status::Critical, Status::Warning, Status::Unknown]
        .into_iter()
        .find(|status| a == *status || b == *status)
        .unwrap_or(Status::Ok)
}

/// `HOST[:PORT]`.
pub(super) fn host(text: &str) -> Option<(String, u16)> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some((address.ip().to_string(), address.port()));
    }
    if text.parse::<std::net::IpAddr>().is_ok() {
        return Some((text.to_owned(), DEFAULT_PORT));
    }
    let (name, port) = match text.split_once(':') {
        Some((name, port)) => (name, port.parse().ok().filter(|port| *port > 0)?),
        None => (text, DEFAULT_PORT),
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    (!name.is_empty() && name.chars().all(is_name)).then(|| (name.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address_with_or_without_port() {
        let found = |text| host(text).map(|(host, port)| format!("{host} {port}"));
        for (text, expected) in [
            ("node-b", "node-b 14792"),
            ("node-b.example.com:9", "node-b.example.com 9"),
            ("10.0.0.1", "10.0.0.1 14792"),
            ("10.0.0.1:9", "10.0.0.1 9"),
            ("fd00::1", "fd00::1 14792"),
            ("[fd00::1]:9", "fd00::1 9"),
        ] {
            assert_eq!(found(text).as_deref(), Some(expected), "{text}");
        }
        for text in [
            "",
            ":9",
            "node-b:",
            "node-b:0",
            "node-b:65536",
            "a b",
            "http://node-b",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }
}
