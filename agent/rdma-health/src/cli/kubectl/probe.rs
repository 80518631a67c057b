//! `kubectl rdma-health probe NODE-A NODE-B`: measures the rails between two nodes.
//!
//! An agent only shows what it read: no request makes it load a port. So `rdma-health probe --listen` and `--connect` run as commands in
//! the pods of the two agents, with the right of the caller to run commands there.

use std::{ffi::OsString, io::Write, net::SocketAddr, process::ExitCode, time::Duration};

use anyhow::{Context, bail, ensure};
use clap::Args;
use rdma_health_config::NodeName;
use rdma_health_kubernetes::{AgentPod, Fleet};
use rdma_health_node::words::printable;
use rdma_health_peer::{DEFAULT_PORT, Token};
use serde_json::Value;
use tokio::time::timeout;

use super::{
    ClusterArguments, FormatArguments,
    exec::{Ended, Pods},
};
use crate::cli::{Output, UNKNOWN, gather::progress, values};

/// What a listening node writes once others can connect.
const READY: &str = " listens on ";
/// How long the listening node waits for the other one; then it ends, whatever became of this program.
const LISTENS_FOR: &str = "30s";
/// How long the listening node may take to end after the other one has.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Name of the Node that connects
    #[arg(value_name = "NODE-A")]
    here: NodeName,
    /// Name of the Node that listens
    #[arg(value_name = "NODE-B")]
    there: NodeName,
    /// Devices or ports of NODE-A to measure [default: every active port]
    #[arg(value_name = "DEVICE[:PORT]", value_parser = device)]
    devices: Vec<String>,
    /// Measure a port even if it carries traffic
    #[arg(long)]
    force: bool,
    /// Longest time that one rail may take, such as 10s
    #[arg(long, value_name = "TIME", value_parser = values::probe_time)]
    duration: Option<Duration>,
    /// TCP port of NODE-B at which NODE-A connects
    #[arg(long, value_name = "PORT", default_value_t = DEFAULT_PORT, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Longest time that the whole measurement may take
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = values::wait_time)]
    within: Duration,
    /// The kubectl that runs the commands in the pods
    #[arg(long, value_name = "PROGRAM", default_value = "kubectl")]
    kubectl: OsString,
    #[command(flatten)]
    cluster: ClusterArguments,
    #[command(flatten)]
    format: FormatArguments,
}

/// The name of a device, with or without a port. It becomes an argument, so it must not look like a flag.
fn device(text: &str) -> Result<String, String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
    let is_device = !text.is_empty() && !text.starts_with('-') && text.chars().all(is_name);
    is_device
        .then(|| text.to_owned())
        .ok_or_else(|| "expected a device or port, such as mlx5_0 or mlx5_0:1".into())
}

pub(super) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let Arguments { here, there, .. } = &arguments;
    ensure!(
        here != there,
        "name two nodes; kubectl exec … rdma-health probe measures one node in loopback"
    );
    let cluster = &arguments.cluster;
    let (a, b) = tokio::try_join!(pod(cluster, here), pod(cluster, there))?;
    let measured = timeout(arguments.within, measure(&arguments, &a, &b)).await;
    progress("");
    let ended = measured.map_err(|_| {
        anyhow::anyhow!(
            "the measurement was not complete after {:?}; --within allows more time",
            arguments.within
        )
    })??;
    for line in ended.messages() {
        anstream::eprintln!("{}", printable(line));
    }
    write(&arguments, &ended)?;
    Ok(ExitCode::from(ended.status))
}

/// The pod of a node's agent.
async fn pod(cluster: &ClusterArguments, node: &NodeName) -> anyhow::Result<AgentPod> {
    let fleet = Fleet::find(&cluster.options(), "", Some(node.as_str())).await?;
    let found = fleet.nodes.first().context("there is no such Node");
    let pod = found.and_then(|node| node.pod().cloned().map_err(anyhow::Error::msg));
    pod.with_context(|| node.to_string())
}

/// Starts the listening node, then the connecting one, and waits for the result of the latter.
async fn measure(arguments: &Arguments, a: &AgentPod, b: &AgentPod) -> anyhow::Result<Ended> {
    let Arguments { here, there, .. } = arguments;
    let no_address = || format!("{there}: the API server reports no address of the agent's pod");
    let address = SocketAddr::new(b.address.with_context(no_address)?, arguments.port);
    let token = Token::generate().context("cannot make a token")?;
    let pods = Pods {
        kubectl: &arguments.kubectl,
        access: &arguments.cluster.options().access,
        token: &token,
    };
    progress(&format!("starting the measurement on {there}"));
    let listen = format!("--listen={address}");
    let mut words = vec!["--token-file", "-", "--once", "--wait", LISTENS_FOR, &listen];
    let force = arguments.force.then_some("--force");
    words.extend(force);
    let mut listener = pods.start(there, b, &words).await?;
    listener.wait_for(READY).await?;

    progress(&format!("measuring from {here} to {there}"));
    let connect = address.to_string();
    let duration = arguments
        .duration
        .map(|duration| format!("{}ms", duration.as_millis()));
    let mut words = vec!["--token-file", "-", "--connect", &connect];
    words.extend(force);
    if let Some(duration) = &duration {
        words.extend(["--duration", duration]);
    }
    if arguments.format.output == Output::Json {
        words.extend(["--output", "json"]);
    }
    words.extend(arguments.devices.iter().map(String::as_str));
    let mut ended = pods.start(here, a, &words).await?.end().await?;
    if ended.status == UNKNOWN && ended.messages().any(|line| line.contains("cannot connect to")) {
        ended.add(&format!(
            "{there} listened on {address}, and {here} did not reach it: is TCP port {} blocked between the nodes?",
            arguments.port
        ));
    }
    // It prints the same rails from its side. One that goes on is ended with this value.
    let _ = timeout(ENDS_WITHIN, listener.end()).await;
    Ok(ended)
}

/// Writes what the connecting node printed, which is not trusted.
fn write(arguments: &Arguments, ended: &Ended) -> anyhow::Result<()> {
    let mut out = crate::cli::output::stdout();
    match arguments.format.output {
        Output::Text => {
            for line in ended.output.lines() {
                writeln!(out, "{}", printable(line))?;
            }
        }
        // Without a result there is none to print, and standard error has the reason.
        Output::Json if ended.output.trim().is_empty() => {}
        Output::Json => {
            let Ok(value) = serde_json::from_str::<Value>(&ended.output) else {
                bail!(
                    "{}: the answer is not the expected JSON; is the agent of another version?",
                    arguments.here
                );
            };
            serde_json::to_writer_pretty(&mut out, &value)?;
            writeln!(out)?;
        }
    }
    out.flush()?;
    Ok(())
}
