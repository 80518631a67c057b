//! `rdma-health agent`: watch the node and serve metrics.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Context;
use clap::Args;
use tracing_subscriber::{filter::Targets, fmt, prelude::*};

use super::{
    HelperArguments, Output,
    environment::{CONFIG, ROOT, STATE},
};
use crate::{
    agent::{Setup, run as run_agent},
    config::{self, Overrides},
};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Configuration file; watched, and taken over when it changes. Flags win over it
    #[arg(long, value_name = "FILE", env = CONFIG)]
    config: Option<PathBuf>,
    /// Who may read the pages: TLS, client certificates and passwords, in the form of the Prometheus exporter toolkit's
    /// web configuration; watched, with the files it names
    #[arg(long, value_name = "FILE")]
    web_config: Option<PathBuf>,
    /// Address and port of the HTTP server [default: [::]:9879]
    #[arg(long, value_name = "[ADDRESS]:PORT", value_parser = config::listen_address)]
    listen: Option<SocketAddr>,
    /// Directory that holds the node's root: / on the node itself, /host in a container [default: /]
    #[arg(long, value_name = "DIR", env = ROOT)]
    root: Option<PathBuf>,
    /// Do not read devices whose name matches ('*' stands for any characters); may be repeated
    #[arg(long, value_name = "PATTERN")]
    exclude: Option<Vec<String>>,
    /// How often everything is read [default: 1m]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    interval: Option<Duration>,
    /// How often each active port is probed [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    probe_interval: Option<Duration>,
    /// Do not probe
    #[arg(long, conflicts_with = "probe_interval")]
    no_probe: bool,
    /// Also emit the metrics of `node_exporter`'s infiniband collector under its names
    #[arg(long)]
    node_exporter_names: bool,
    /// File that keeps what is remembered of the node across restarts and reboots [default: memory only]
    #[arg(long, value_name = "FILE", env = STATE)]
    state: Option<PathBuf>,
    /// Publish Node conditions and Events to Kubernetes
    #[arg(long)]
    kubernetes: bool,
    /// This node's name in Kubernetes [default: the environment variable `NODE_NAME`]
    #[arg(long, value_name = "NAME")]
    node_name: Option<String>,
    /// How to reach the API server [default: the pod's service account, else as kubectl does]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    helper: HelperArguments,
    /// Form of the log on standard error; the environment variable `RDMA_HEALTH_LOG` sets its level (error, warn, info,
    /// debug, trace)
    #[arg(long, value_enum, default_value = "text")]
    log: Output,
}

pub(super) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    start_log(arguments.log)?;
    let overrides = Overrides {
        listen: arguments.listen,
        root: arguments.root,
        exclude: arguments.exclude,
        interval: arguments.interval,
        probe_enabled: arguments.no_probe.then_some(false),
        probe_interval: arguments.probe_interval,
        profile: None,
        node_exporter_names: arguments.node_exporter_names.then_some(true),
        state: arguments.state,
        helper: arguments.helper.given(),
        kubernetes: arguments.kubernetes.then_some(true),
        node_name: arguments.node_name,
        kubeconfig: arguments.kubeconfig,
    };
    let config = config::load(arguments.config.as_deref(), &overrides)?;
    // One thread: the work is small, and each further one costs memory on every node.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(run_agent(Setup {
        config,
        file: arguments.config,
        web_config: arguments.web_config,
        overrides,
    }));
    // A read that hangs must not hold the end back.
    runtime.shutdown_background();
    result.map(|()| ExitCode::SUCCESS)
}

/// Which messages are logged unless `RDMA_HEALTH_LOG` says otherwise. What the client of Kubernetes says we say better.
const LOGGED: &str = "info,kube_client=off";

fn start_log(form: Output) -> anyhow::Result<()> {
    let wanted = std::env::var("RDMA_HEALTH_LOG").unwrap_or_else(|_| LOGGED.into());
    let filter: Targets = wanted.parse().with_context(|| {
        format!("RDMA_HEALTH_LOG={wanted:?}: expected a level (error, warn, info, debug, trace), or one for each TARGET=LEVEL")
    })?;
    let registry = tracing_subscriber::registry().with(filter);
    match form {
        Output::Text => {
            let colour = std::io::IsTerminal::is_terminal(&std::io::stderr());
            registry
                .with(
                    fmt::layer()
                        .with_ansi(colour)
                        .with_target(false)
                        .with_writer(std::io::stderr),
                )
                .init();
        }
        Output::Json => registry
            .with(fmt::layer().json().with_writer(std::io::stderr))
            .init(),
    }
    Ok(())
}
