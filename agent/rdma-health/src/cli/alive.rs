//! `rdma-health alive`: check that the agent in this container is running, for the probes of a kubelet.

use std::{io::Read, os::unix::net::UnixStream, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context, bail};
use clap::Args;

use super::environment::LIVENESS_SOCKET;
use crate::liveness::{READY, STARTING};

/// How long the agent may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Unix socket of the agent, as given to rdma-health agent
    #[arg(long, value_name = "SOCKET", env = LIVENESS_SOCKET)]
    liveness_socket: PathBuf,
    /// Fail until the agent has read the node once
    #[arg(long)]
    ready: bool,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let path = arguments.liveness_socket.display();
    let mut stream = UnixStream::connect(&arguments.liveness_socket)
        .with_context(|| format!("no agent listens on {path}"))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut answer = String::new();
    let limit = READY.len().max(STARTING.len()) as u64;
    let read = stream.by_ref().take(limit).read_to_string(&mut answer);
    read.with_context(|| format!("the agent does not answer on {path} within {PATIENCE:?}"))?;
    match answer.as_str() {
        READY => {}
        STARTING if !arguments.ready => {}
        STARTING => bail!("the agent has not read the node yet"),
        other => bail!("{path} is not the socket of an agent: it answers {other:?}"),
    }
    anstream::print!("{answer}");
    Ok(ExitCode::SUCCESS)
}
