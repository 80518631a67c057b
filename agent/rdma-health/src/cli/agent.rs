//! `rdma-health agent`: watch the node and serve metrics.

use std::{fmt::Debug, io::Write, net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Context;
use clap::Args;
use rdma_health_config::{self as config, NodeName, Overrides};
use rdma_health_node::words::{printable, printable_json};
use tracing::field::Field;
use tracing_subscriber::{
    field::MakeExt,
    filter::{LevelFilter, Targets},
    fmt,
    prelude::*,
};

use super::{
    HelperArguments, Output,
    environment::{CONFIG, LIVENESS_SOCKET, ROOT, STATE},
    values,
};
use crate::{
    agent::{Setup, Signals, run as run_agent},
    descriptors,
};

#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one flag of the command line"
)]
pub(super) struct Arguments {
    /// Configuration file, reloaded when it changes; flags override it
    #[arg(long, value_name = "FILE", env = CONFIG)]
    config: Option<PathBuf>,
    /// Web configuration file of the Prometheus exporter toolkit: TLS, client certificates, passwords; reloaded when it or a
    /// file that it names changes
    #[arg(long, value_name = "FILE")]
    web_config: Option<PathBuf>,
    /// Address and port of the HTTP server [default: [::]:14791]
    #[arg(long, value_name = "[ADDRESS]:PORT", value_parser = config::listen_address)]
    listen: Option<SocketAddr>,
    /// Root directory of the node: / on the node itself, /host in a container [default: /]
    #[arg(long, value_name = "DIR", env = ROOT)]
    root: Option<PathBuf>,
    /// Do not read RDMA devices with this name; '*' matches any characters; may be repeated
    #[arg(long, value_name = "PATTERN")]
    exclude: Option<Vec<String>>,
    /// How often to read the node, from 1s to 1h [default: 1m]
    #[arg(long, value_name = "TIME", value_parser = interval)]
    interval: Option<Duration>,
    /// How often to probe each active port, from 10s to 7d [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = probe_interval)]
    probe_interval: Option<Duration>,
    /// Do not probe ports
    #[arg(long, conflicts_with = "probe_interval")]
    no_probe: bool,
    /// Also expose port counters under the metric names of node_exporter's infiniband collector
    #[arg(long)]
    node_exporter_names: bool,
    /// Do not export metrics that do not change while the node runs; rdma-health metrics marks them as fixed
    #[arg(long)]
    no_fixed_metrics: bool,
    /// File that keeps the history of the node across restarts and reboots [default: memory only]
    #[arg(long, value_name = "FILE", env = STATE)]
    state: Option<PathBuf>,
    /// Unix socket on which rdma-health alive asks whether this agent is alive; in a directory that only its user can reach
    #[arg(long, value_name = "SOCKET", env = LIVENESS_SOCKET)]
    liveness_socket: Option<PathBuf>,
    /// Publish Node conditions and Events to Kubernetes
    #[arg(long)]
    kubernetes: bool,
    /// Name of this Node in Kubernetes [default: the environment variable NODE_NAME]
    #[arg(long, value_name = "NAME")]
    node_name: Option<NodeName>,
    /// Kubeconfig file [default: the service account of the pod, else the file that kubectl uses]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    helper: HelperArguments,
    /// Format of the log on standard error. The environment variable RDMA_HEALTH_LOG sets the level: error, warn, info, debug
    /// or trace
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    log_format: Output,
}

pub(super) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    // One thread: the work is small, and each further one costs memory on every node.
    let runtime = descriptors::runtime()?;
    // First: a signal must not end the agent before it can handle it.
    let signals = {
        let _entered = runtime.enter();
        Signals::take_over()?
    };
    start_log(arguments.log_format)?;
    let overrides = Overrides {
        listen: arguments.listen,
        root: arguments.root,
        exclude: arguments.exclude,
        interval: arguments.interval,
        probe_enabled: arguments.no_probe.then_some(false),
        probe_interval: arguments.probe_interval,
        profile: None,
        node_exporter_names: arguments.node_exporter_names.then_some(true),
        fixed_metrics: arguments.no_fixed_metrics.then_some(false),
        state: arguments.state,
        helper: arguments.helper.given(),
        kubernetes: arguments.kubernetes.then_some(true),
        node_name: arguments.node_name,
        kubeconfig: arguments.kubeconfig,
    };
    let config = config::load(arguments.config.as_deref(), &overrides)?;
    let setup = Setup {
        config,
        file: arguments.config,
        web_config: arguments.web_config,
        liveness_socket: arguments.liveness_socket,
        overrides,
    };
    let result = runtime.block_on(run_agent(setup, signals));
    // A read that hangs must not delay the exit.
    runtime.shutdown_background();
    result.map(|()| ExitCode::SUCCESS)
}

/// Time between two readings of the node.
fn interval(text: &str) -> Result<Duration, String> {
    values::duration_within(text, Duration::from_secs(1), Duration::from_secs(3600))
}

/// Time between two probes of one port.
fn probe_interval(text: &str) -> Result<Duration, String> {
    values::duration_within(text, Duration::from_secs(10), Duration::from_secs(7 * 86_400))
}

/// The default of `RDMA_HEALTH_LOG`. Failures of the Kubernetes client are logged by this program, with advice.
const LOGGED: &str = "info,kube_client=off";

/// Writes one field of a line of the text log. Names of devices and files may contain anything.
fn field(out: &mut fmt::format::Writer<'_>, field: &Field, value: &dyn Debug) -> std::fmt::Result {
    let value = printable(&format!("{value:?}"));
    match field.name() {
        "message" => write!(out, "{value}"),
        name => write!(out, "{name}={value}"),
    }
}

/// Writes lines of JSON with the characters escaped that a terminal would not show as they are.
struct PrintableJson<W>(W);

impl<W: Write> Write for PrintableJson<W> {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        // The log writes one whole line at a time, so that no character is in two parts.
        let text = String::from_utf8_lossy(line).into_owned();
        self.0.write_all(printable_json(text).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// The filter of a level or a list of `TARGET=LEVEL`. A single word that is not a level would be a target without a level, which enables only
/// its messages and so hides all others.
fn log_filter(text: &str) -> anyhow::Result<Targets> {
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        if !part.contains('=') {
            part.parse::<LevelFilter>()
                .with_context(|| format!("'{part}' is not a level"))?;
        }
    }
    Ok(text.parse()?)
}

fn start_log(format: Output) -> anyhow::Result<()> {
    let level = std::env::var("RDMA_HEALTH_LOG").unwrap_or_else(|_| LOGGED.into());
    let filter = log_filter(&level).with_context(|| {
        format!("RDMA_HEALTH_LOG={level:?}: expected a level (error, warn, info, debug, trace or off) or a list of TARGET=LEVEL")
    })?;
    let registry = tracing_subscriber::registry().with(filter);
    match format {
        Output::Text => {
            let colour = anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
            registry
                .with(
                    fmt::layer()
                        .with_ansi(colour)
                        .with_target(false)
                        .fmt_fields(fmt::format::debug_fn(field).delimited(" "))
                        .with_writer(std::io::stderr),
                )
                .init();
        }
        Output::Json => registry
            .with(
                fmt::layer()
                    .json()
                    .with_writer(|| PrintableJson(std::io::stderr())),
            )
            .init(),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // in a test, a failure is a panic

    use super::*;

    #[test]
    fn a_line_of_json_shows_no_character_that_changes_how_it_looks() {
        let mut out = PrintableJson(Vec::new());
        out.write_all("{\"device\":\"a\u{202e}b\u{200b}ä\"}\n".as_bytes())
            .unwrap();
        assert_eq!(
            String::from_utf8(out.0).unwrap(),
            "{\"device\":\"a\\u202eb\\u200bä\"}\n"
        );
    }

    #[test]
    fn a_word_that_is_not_a_level_is_refused_instead_of_hiding_every_message() {
        for text in ["bogus", "info,bogus", "rdma_health"] {
            assert!(log_filter(text).is_err(), "{text}");
        }
        for text in ["", "debug", "WARN", "off", LOGGED, "rdma_health=trace"] {
            assert!(log_filter(text).is_ok(), "{text}");
        }
    }
}
