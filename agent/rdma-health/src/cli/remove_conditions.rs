//! `rdma-health remove-conditions`: take everything of ours off the Nodes, before or after uninstalling.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::Args;

use crate::kubernetes::{Access, is_node_name, remove};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Only from this Node [default: from every Node]
    #[arg(long, value_name = "NAME", value_parser = node_name)]
    node_name: Option<String>,
    /// How to reach the API server [default: the pod's service account, else as kubectl does]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Look again until nothing of ours came back for so long, for agents that are only just being deleted
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
    settle: Duration,
}

fn node_name(name: &str) -> Result<String, String> {
    is_node_name(name)
        .then(|| name.to_owned())
        .ok_or_else(|| "expected a Node's name as in kubectl get nodes".into())
}

pub(super) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let access = Access {
        kubeconfig: arguments.kubeconfig,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let removal = remove(access, arguments.node_name.as_deref(), arguments.settle);
    let cleaned = runtime.block_on(removal)?;
    anstream::println!(
        "removed from {cleaned} Node{}",
        if cleaned == 1 { "" } else { "s" }
    );
    Ok(ExitCode::SUCCESS)
}
