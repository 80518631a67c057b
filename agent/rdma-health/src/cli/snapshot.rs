//! `rdma-health snapshot`: save everything read from a node, to check it elsewhere.

use std::{
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context;
use clap::Args;
use rdma_health_snapshot::Snapshot;

use super::{
    environment::{Given, STATE},
    file::{may_write, save},
    gather::{NodeArguments, tell_if_foreign},
};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// File to write; - is standard output
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    /// Overwrite the file if it exists
    #[arg(long)]
    force: bool,
    /// Replace the hostname and all addresses, GUIDs and GIDs; equal values stay equal
    #[arg(long)]
    anonymize: bool,
    #[command(flatten)]
    node: NodeArguments,
    /// Also measure a loopback RDMA WRITE on every active port, and save the results
    #[arg(long)]
    probe: bool,
    /// Also save the state file of an agent on this node
    #[arg(long, value_name = "FILE", env = STATE)]
    state: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, given: &Given<'_>) -> anyhow::Result<ExitCode> {
    let file = (arguments.out != Path::new("-")).then_some(arguments.out.as_path());
    // Before the node is read: probing can take minutes.
    match file {
        Some(file) => may_write(file, arguments.force)?,
        None => anyhow::ensure!(
            !std::io::stdout().is_terminal(),
            "refusing to write binary data to a terminal; redirect standard output or pass --out FILE"
        ),
    }
    let config = arguments.node.configuration()?;
    let history = match &arguments.state {
        Some(file) => given.history(file)?,
        None => None,
    };
    let mut root = arguments.node.open()?;
    let recorder = root.record();
    let (node, hung) = arguments.node.read(root, arguments.probe, &config)?;
    tell_if_foreign(&node);
    let mut recording = recorder.recording();
    recording.hung = hung;
    rdma_health_snapshot::verbs::record(&node.verbs, &mut recording);
    rdma_health_snapshot::runtimes::record(&node.limits.runtimes, &mut recording);
    let mut snapshot = Snapshot {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        time: node.time,
        live: node.live,
        anonymized: false,
        recording,
        probes: node.probes,
        history: history.map(Arc::new),
        expectations: arguments
            .node
            .config
            .is_some()
            .then(|| serde_json::to_value(&config.expect))
            .transpose()?,
    };
    rdma_health_snapshot::redact::redact(&mut snapshot.recording);
    if arguments.anonymize && rdma_health_snapshot::anonymize::anonymize(&mut snapshot) {
        eprintln!(
            "rdma-health: the name of this host is also a word of the kernel, its drivers or its files: it is replaced only \
             where it is the name of the host"
        );
    }
    let mut bytes = Vec::new();
    snapshot.write(&mut bytes)?;
    if let Some(file) = file {
        save(file, &bytes, arguments.force)?;
    } else {
        let mut out = std::io::stdout().lock();
        let written = out.write_all(&bytes).and_then(|()| out.flush());
        written.context("cannot write to standard output")?;
    }
    Ok(ExitCode::SUCCESS)
}
