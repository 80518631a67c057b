//! `rdma-health remove-conditions`: remove the agent's marks from the Nodes of a cluster, before or after uninstalling.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::Args;
use rdma_health_config::NodeName;
use rdma_health_kubernetes::{Access, remove};

use super::values;
use crate::descriptors;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Clean up only this Node [default: all Nodes]
    #[arg(long, value_name = "NAME")]
    node_name: Option<NodeName>,
    /// Kubeconfig file [default: the service account of the pod, else the file that kubectl uses]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Repeat until no agent has written anything again for this long, for use while the agents are being deleted
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = values::duration)]
    settle: Duration,
}

pub(super) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let access = Access {
        kubeconfig: arguments.kubeconfig,
        ..Access::default()
    };
    let runtime = descriptors::runtime()?;
    let removal = remove(
        access,
        arguments.node_name.as_ref().map(NodeName::as_str),
        arguments.settle,
    );
    let cleaned = runtime.block_on(removal)?;
    anstream::println!(
        "removed from {cleaned} Node{}",
        if cleaned == 1 { "" } else { "s" }
    );
    Ok(ExitCode::SUCCESS)
}
