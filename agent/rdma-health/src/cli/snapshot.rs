//! `rdma-health snapshot`: save all that was read of a node, to be judged elsewhere.

use std::{
    fs::File,
    io::{BufReader, IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context;
use clap::Args;
use rdma_health_snapshot::Snapshot;

use super::{
    HelperArguments,
    check::{self, Source},
    environment::{CONFIG, Given, ROOT, STATE},
};
use crate::config::{self, Overrides};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// File to write; - is standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Overwrite the file where it exists
    #[arg(long)]
    force: bool,
    /// Replace the host's name and all addresses, GUIDs and GIDs, each by the same one everywhere
    #[arg(long)]
    anonymize: bool,
    /// Directory that holds the node's root: / on the node itself, /host in a container, or a captured tree
    #[arg(long, value_name = "DIR", env = ROOT, default_value = "/")]
    root: PathBuf,
    /// Configuration file, for what is expected of the node
    #[arg(long, value_name = "FILE", env = CONFIG)]
    config: Option<PathBuf>,
    /// Also make a loopback RDMA WRITE on every active port, and save what came of it
    #[arg(long)]
    probe: bool,
    /// Do not read devices whose name matches ('*' stands for any characters); may be repeated
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// What an agent remembers of this node (its --state), to be saved, too
    #[arg(long, value_name = "FILE", env = STATE)]
    state: Option<PathBuf>,
    #[command(flatten)]
    helper: HelperArguments,
}

pub(super) fn run(arguments: &Arguments, given: &Given<'_>) -> anyhow::Result<ExitCode> {
    let file = (arguments.output != Path::new("-")).then_some(arguments.output.as_path());
    // Before minutes of probing, not after.
    match file {
        Some(file) => anyhow::ensure!(
            arguments.force || file.symlink_metadata().is_err(),
            "{} exists; --force overwrites it",
            file.display()
        ),
        None => anyhow::ensure!(
            !std::io::stdout().is_terminal(),
            "a snapshot is no text for a terminal: redirect standard output"
        ),
    }
    let config = config::load(arguments.config.as_deref(), &Overrides::default())?;
    let history = match &arguments.state {
        Some(file) => given.history(file)?,
        None => None,
    };
    let mut root = check::open(&arguments.root)?;
    let recorder = root.record();
    let source = Source {
        path: &arguments.root,
        probe: arguments.probe,
        exclude: &arguments.exclude,
        helper: &arguments.helper,
    };
    let (node, hung) = check::read(root, &source, &config)?;
    let mut snapshot = Snapshot {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        time: node.time,
        live: node.live,
        anonymized: false,
        hung,
        recording: recorder.recording(),
        verbs: node.verbs,
        probes: node.probes,
        history: history.map(Arc::new),
        expectations: arguments
            .config
            .is_some()
            .then(|| serde_json::to_value(&config.expect))
            .transpose()?,
    };
    rdma_health_snapshot::redact::redact(&mut snapshot.recording);
    if arguments.anonymize {
        rdma_health_snapshot::anonymize::anonymize(&mut snapshot);
    }
    let mut bytes = Vec::new();
    snapshot.write(&mut bytes)?;
    if let Some(file) = file {
        save(file, &bytes, arguments.force).with_context(|| format!("cannot write {}", file.display()))?;
    } else {
        let mut out = std::io::stdout().lock();
        let written = out.write_all(&bytes).and_then(|()| out.flush());
        written.context("cannot write to standard output")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the whole file or nothing. Readable by its owner only: addresses are in it.
fn save(file: &Path, bytes: &[u8], force: bool) -> anyhow::Result<()> {
    if file.symlink_metadata().is_ok_and(|found| !found.is_file()) {
        anyhow::bail!("it is no regular file");
    }
    let directory = match file.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let mut temporary = tempfile::Builder::new()
        .prefix(".rdma-health-")
        .tempfile_in(directory)
        .map_err(plain)?;
    temporary.write_all(bytes).map_err(plain)?;
    temporary.as_file().sync_all()?;
    if force {
        temporary.persist(file).map_err(|error| error.error)?;
    } else {
        // Where somebody else made it meanwhile, theirs stays.
        temporary.persist_noclobber(file).map_err(|error| error.error)?;
    }
    Ok(())
}

/// The system's word alone: the name of a temporary file says nothing to anybody.
fn plain(error: std::io::Error) -> std::io::Error {
    let inner = error
        .get_ref()
        .and_then(std::error::Error::source)
        .and_then(|inner| inner.downcast_ref::<std::io::Error>())
        .and_then(std::io::Error::raw_os_error);
    inner.map_or(error, std::io::Error::from_raw_os_error)
}

/// Reads a snapshot; - is standard input.
pub(super) fn load(file: &Path) -> anyhow::Result<Snapshot> {
    let read = || -> anyhow::Result<Snapshot> {
        if file == Path::new("-") {
            return Ok(Snapshot::read(std::io::stdin().lock())?);
        }
        Ok(Snapshot::read(BufReader::new(File::open(file)?))?)
    };
    read().with_context(|| format!("cannot read the snapshot {}", file.display()))
}
