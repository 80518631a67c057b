//! `kubectl rdma-health`: the agents of a whole cluster, asked through the API server with the rights of the caller.

mod answer;
mod check;
mod drift;
mod exec;
mod nodes;
mod probe;
mod snapshot;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Context;
use clap::{Args, Subcommand};
use rdma_health_config::NodeName;
use rdma_health_kubernetes::{Access, Fleet, FleetNode, FleetOptions};
use rdma_health_node::words::{count, printable};

use super::{Output, values};
use crate::descriptors;

/// The name under which kubectl finds this program as a plugin.
pub(super) const PLUGIN: &str = "kubectl-rdma_health";

/// A text with the commands of this program as its user gives them to kubectl.
pub(super) fn as_plugin(text: &str) -> String {
    text.replace("kubectl-rdma_health kubectl", "kubectl rdma-health")
        .replace("rdma-health kubectl", "kubectl rdma-health")
}

/// Labels that name the pool of a node, the most specific first.
const POOLS: [&str; 6] = [
    "karpenter.sh/nodepool",
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    "oci.oraclecloud.com/node-pool",
    "machine.openshift.io/machine-set",
];
/// Maximum number of Nodes named after a reason.
const NAMED: usize = 5;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the verdict of every node, its causes, and since when
    Nodes(nodes::Arguments),
    /// Show everything that the agent of one node reports
    Check(check::Arguments),
    /// Show in what nodes differ from most others of their pool, or from one node
    Drift(drift::Arguments),
    /// Save what the agent of one node reads, for rdma-health check --snapshot
    Snapshot(snapshot::Arguments),
    /// Measure the rails between two nodes, by commands in the pods of their agents
    Probe(probe::Arguments),
}

/// How to reach the API server and the agents.
#[derive(Debug, Args)]
struct ClusterArguments {
    /// Kubeconfig file [default: the file that kubectl uses]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Namespace of the agents [default: found in all namespaces]
    #[arg(short, long, value_name = "NAME", value_parser = values::namespace)]
    namespace: Option<String>,
    /// Labels of the agents' pods
    #[arg(
        long,
        value_name = "SELECTOR",
        default_value = "app.kubernetes.io/name=rdma-health"
    )]
    agents: String,
    /// The agents serve HTTPS
    #[arg(long)]
    tls: bool,
    /// Number of agents asked at the same time
    #[arg(long, value_name = "NUMBER", default_value = "64", value_parser = clap::value_parser!(u16).range(1..=1024))]
    concurrency: u16,
    /// How long one agent may take to answer [default: 5s; 15s for a snapshot, for which the agent reads the node]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    timeout: Option<Duration>,
}

/// How a command prints what it found.
#[derive(Debug, Args)]
struct FormatArguments {
    /// Format of the report
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "text")]
    output: Output,
}

/// How long one agent may take to answer what it has at hand.
const PATIENCE: Duration = Duration::from_secs(5);

impl ClusterArguments {
    fn options(&self) -> FleetOptions {
        FleetOptions {
            access: Access {
                kubeconfig: self.kubeconfig.clone(),
                context: self.context.clone(),
            },
            namespace: self.namespace.clone(),
            pods: self.agents.clone(),
            tls: self.tls,
            concurrency: self.concurrency.into(),
            timeout: self.timeout.unwrap_or(PATIENCE),
        }
    }
}

pub(super) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let runtime = descriptors::runtime()?;
    runtime.block_on(async {
        match arguments.command {
            Command::Nodes(arguments) => nodes::run(arguments).await,
            Command::Check(arguments) => check::run(arguments).await,
            Command::Drift(arguments) => drift::run(arguments).await,
            Command::Snapshot(arguments) => snapshot::run(arguments).await,
            Command::Probe(arguments) => probe::run(arguments).await,
        }
    })
}

/// The answer of one node's agent.
async fn ask_one(
    cluster: &ClusterArguments,
    node: &NodeName,
    path: &'static str,
    most: usize,
) -> anyhow::Result<Vec<u8>> {
    let fleet = Fleet::find(&cluster.options(), "", Some(node.as_str())).await?;
    let mut answer = Err("there is no such Node".to_owned());
    fleet.ask(path, most, |(_, given)| answer = given).await;
    answer
        .map_err(|why| anyhow::anyhow!(why))
        .with_context(|| node.to_string())
}

/// The pool that a Node belongs to; `-` if none of its labels names one.
fn pool<'a>(node: &'a FleetNode, label: Option<&str>) -> &'a str {
    let value = |key: &str| node.labels.get(key).map(String::as_str);
    let pool = match label {
        Some(label) => value(label),
        None => POOLS.into_iter().find_map(value),
    };
    pool.unwrap_or("-")
}

/// Reports on standard error which nodes did not answer, by reason. `failures` are names and reasons.
fn report_missing(failures: &[(&str, &str)], asked: usize) {
    if failures.is_empty() {
        return;
    }
    anstream::eprintln!("{} of {} did not answer:", failures.len(), count(asked, "node"));
    let mut reasons = std::collections::BTreeMap::<&str, Vec<&str>>::new();
    for (node, why) in failures {
        reasons.entry(why).or_default().push(node);
    }
    for (why, nodes) in reasons {
        let named = nodes.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        let more = match nodes.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        anstream::eprintln!(
            "  {}: {} ({named}{more})",
            count(nodes.len(), "node"),
            printable(why)
        );
    }
}
