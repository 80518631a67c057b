//! `rdma-health check`: read the node once and tell what is wrong with it.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{IsTerminal, Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use clap::Args;
use rdma_health_node::{
    Fact, Node, Root,
    collector::{Collector, Refresh},
    history::History,
    node::Probe,
};
use rdma_health_rules::{
    diagnose, judge,
    log::{Log, LogReader},
};
use rdma_health_snapshot::foreign;
use tokio::sync::mpsc;

use super::{
    HelperArguments, Output,
    environment::{CONFIG, Given, ROOT, STATE},
};
use crate::{
    agent::{now, probe_request, verbs_fact},
    config::{self, Config, Overrides},
    helper::{Helper, Place},
    history, report,
};

/// How long reading may take; what has not ended by then is told as unread.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most that is read of a log that has no length, in bytes: a device never ends. A file is read to its end.
const MAX_LOG: u64 = 1 << 30;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Directory that holds the node's root: / on the node itself, /host in a container, or a captured tree
    #[arg(long, value_name = "DIR", env = ROOT, default_value = "/")]
    root: PathBuf,
    /// Judge a saved node (rdma-health snapshot) in place of this one; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["probe", "helper", "helper_socket"])]
    snapshot: Option<PathBuf>,
    /// Configuration file, for what is expected of the node
    #[arg(long, value_name = "FILE", env = CONFIG)]
    config: Option<PathBuf>,
    /// Also make a loopback RDMA WRITE on every active port
    #[arg(long)]
    probe: bool,
    /// Do not read devices whose name matches ('*' stands for any characters); may be repeated
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// What an agent remembers of this node (its --state), so that what got worse is found, too [default: `state` of the
    /// configuration given, on the node itself]
    #[arg(long, value_name = "FILE", env = STATE)]
    state: Option<PathBuf>,
    /// Also read what a job wrote (NCCL, UCX, `PyTorch`) and trace its errors to their cause; - is standard input. A file is
    /// read to its end, anything else for 1 GiB
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    #[command(flatten)]
    helper: HelperArguments,
    /// How to print the verdict
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    /// Print the verdict in one line and nothing else
    #[arg(long, short, conflicts_with = "output")]
    quiet: bool,
}

impl Arguments {
    /// Leaves out what the environment says where a saved node is judged, for it is about the node here.
    ///
    /// # Errors
    /// Where the command line itself gives what a saved node has no use for.
    pub(super) fn settle(&mut self, given: &Given<'_>) -> Result<(), clap::Error> {
        if self.snapshot.is_none() {
            return Ok(());
        }
        for name in ["root", "state"] {
            given.refuse_beside("snapshot", name)?;
        }
        self.state = None;
        if given.by_environment("config") {
            self.config = None;
        }
        Ok(())
    }
}

pub(super) fn run(arguments: &Arguments, given: &Given<'_>) -> anyhow::Result<ExitCode> {
    let mut config = config::load(arguments.config.as_deref(), &Overrides::default())?;
    let from_input = |file: &Option<PathBuf>| file.as_deref() == Some(Path::new("-"));
    anyhow::ensure!(
        !(from_input(&arguments.log) && from_input(&arguments.snapshot)),
        "--log and --snapshot cannot both be read from standard input"
    );
    // First, so that a file that is not there is told at once.
    let log = arguments.log.as_deref().map(read_log).transpose()?;
    let mut node = if let Some(file) = &arguments.snapshot {
        replay(file, arguments, &mut config)?
    } else {
        let source = Source {
            path: &arguments.root,
            probe: arguments.probe,
            exclude: &arguments.exclude,
            helper: &arguments.helper,
        };
        read(open(&arguments.root)?, &source, &config)?.0
    };
    if let Some(file) = &arguments.state {
        node.history = given.history(file)?.map(Arc::new);
    } else if let Some(file) = config.state.as_deref().filter(|_| node.live) {
        // It is the running node's: beside a copy of another one it would tell of changes that never were.
        node.history = remembered(file);
    }
    let verdict = judge(&node, &config.expect);
    let diagnosis = diagnose(&node, &verdict.findings, log.as_ref());
    let report = report::Report {
        node: &node,
        verdict: &verdict,
        diagnosis: &diagnosis,
    };
    let mut out = anstream::stdout().lock();
    match arguments.output {
        _ if arguments.quiet => report::headline(&mut out, &report)?,
        Output::Text => report::text(&mut out, &report, report::Style::of_terminal())?,
        Output::Json => report::json(&mut out, &report)?,
    }
    out.flush()?;
    Ok(ExitCode::from(report.status().exit_code()))
}

/// What the agent that the configuration is for remembers. Nobody asked for this file by name: where the agent never ran
/// there is none, and one that cannot be read is told and keeps nothing else from being judged.
fn remembered(file: &Path) -> Option<Arc<History>> {
    match history::read_if_there(file) {
        Ok(history) => history.map(Arc::new),
        Err(error) => {
            let error = report::printable(&error.to_string());
            anstream::eprintln!(
                "what the agent remembers is unread, so nothing is compared with the past: {error}"
            );
            None
        }
    }
}

/// Reads a log in bounded memory: a file to the end that it has now, anything else for [`MAX_LOG`] bytes.
fn read_log(file: &Path) -> anyhow::Result<Log> {
    let standard_input = file == Path::new("-");
    let failed = || format!("cannot read the log {}", file.display());
    if standard_input {
        return read_until(std::io::stdin().lock(), MAX_LOG).with_context(failed);
    }
    let file = File::open(file).with_context(failed)?;
    // Files of /proc say that they are empty.
    let length = file.metadata().with_context(failed)?.len();
    read_until(file, length.max(MAX_LOG)).with_context(failed)
}

/// Reads a log for so many bytes, and says in it whether there was more.
fn read_until(mut input: impl Read, most: u64) -> std::io::Result<Log> {
    let mut reader = LogReader::default();
    let mut buffer = vec![0; 64 << 10];
    let mut left = most;
    loop {
        match input.read(&mut buffer) {
            Ok(0) => return Ok(reader.finish()),
            Ok(n) => {
                let within = n.min(usize::try_from(left).unwrap_or(usize::MAX));
                reader.feed(&buffer[..within]);
                left -= within as u64;
                if within < n {
                    let mut log = reader.finish();
                    log.cut_after = Some(most);
                    return Ok(log);
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// What to read, and how.
pub(super) struct Source<'a> {
    /// Where the root is, for messages.
    pub path: &'a Path,
    pub probe: bool,
    pub exclude: &'a [String],
    pub helper: &'a HelperArguments,
}

/// Opens a node's root, or what a tool that collects support data made of one.
pub(super) fn open(path: &Path) -> anyhow::Result<Root> {
    let failed = || format!("cannot read the tree {}", path.display());
    let Some(foreign) = foreign::open(path).with_context(failed)? else {
        return Root::open(path).with_context(failed);
    };
    anstream::eprintln!(
        "{} is a {}: judged as far as its files go; what it does not hold is told as not collected",
        report::printable(&path.display().to_string()),
        foreign.tool
    );
    Ok(foreign.root)
}

/// Reads a saved node as it was read where it was saved.
fn replay(file: &Path, arguments: &Arguments, config: &mut Config) -> anyhow::Result<Node> {
    let mut snapshot = super::snapshot::load(file)?;
    // What was expected of it there, unless somebody says otherwise here.
    if let (None, Some(expected)) = (&arguments.config, snapshot.expectations.take()) {
        config.expect = serde_json::from_value(expected)
            .with_context(|| format!("expectations.json in {}", file.display()))?;
    }
    let exclude = config.exclude.iter().chain(&arguments.exclude).cloned().collect();
    let mut collector = Collector::new(snapshot.root(), exclude);
    collector.refresh(Refresh::All, Instant::now() + PATIENCE);
    let mut node = collector.node();
    snapshot.complete(&mut node);
    Ok(node)
}

/// Reads the node. Also tells which sources did not answer, and for how many seconds.
pub(super) fn read(
    root: Root,
    source: &Source<'_>,
    config: &Config,
) -> anyhow::Result<(Node, BTreeMap<String, u64>)> {
    let live = root.is_live();
    let exclude = config.exclude.iter().chain(source.exclude).cloned().collect();
    let mut collector = Collector::new(root, exclude);
    collector.refresh(Refresh::All, Instant::now() + PATIENCE);
    let hung = collector.hung();
    let mut node = collector.node();
    if !live {
        anyhow::ensure!(
            !source.probe,
            "--probe needs a running node; {} is none",
            source.path.display()
        );
        return Ok((node, hung));
    }
    // Without a device there is nothing to ask libibverbs about.
    if node.hcas().next().is_none() && !source.probe {
        return Ok((node, hung));
    }
    let place = Place::of(source.helper.given().as_ref().unwrap_or(&config.helper));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(ask_helper(place, source.probe, config, &mut node));
    // A helper that hangs must not hold us back.
    runtime.shutdown_background();
    Ok((node, hung))
}

/// Adds what libibverbs says, and the probes where they are asked for.
async fn ask_helper(place: Place, probe: bool, config: &Config, node: &mut Node) {
    // The channel of events closes at once: nobody waits for them here.
    let helper = Helper::keep(place, mpsc::channel(1).0);
    node.verbs = verbs_fact(helper.devices().await);
    if !probe || node.verbs.unread().is_some() {
        return;
    }
    let ports: Vec<_> = node
        .ports()
        .filter(|(.., port)| port.is_active() != Some(false))
        .map(|(hca, number, _)| (hca.name.clone(), number))
        .collect();
    for (n, (device, number)) in ports.iter().enumerate() {
        progress(&format!(
            "probing {device}:{number} ({} of {})",
            n + 1,
            ports.len()
        ));
        match helper.probe(probe_request(&config.probe, device, *number)).await {
            Ok(report) => node.probes.push(Arc::new(Probe { time: now(), report })),
            Err(failure) => {
                node.verbs = verbs_fact(Err(failure)).and_then(|_: Arc<_>| Fact::Absent);
                break;
            }
        }
    }
    progress("");
}

/// Shows what is going on, on a terminal only; each call replaces the last.
pub(super) fn progress(what: &str) {
    let mut err = std::io::stderr().lock();
    if err.is_terminal() {
        // Progress that cannot be shown is no reason to stop.
        let _ = write!(err, "\r\x1b[K{}", report::printable(what));
        let _ = err.flush();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // in a test, a failure is a panic

    use super::*;

    const FAILED: &[u8] = b"a:1:2 [0] NCCL INFO Using network Socket\n";

    #[test]
    fn a_log_without_end_is_read_so_far_and_said_to_be_cut() {
        let endless = FAILED.chain(std::io::repeat(b'\n'));
        let log = read_until(endless, 1 << 20).unwrap();
        assert_eq!(log.cut_after, Some(1 << 20));
        assert_eq!(log.symptoms.len(), 1, "what was read counts");
        assert_eq!(log.lines, (1 << 20) - FAILED.len() as u64 + 1);
    }

    #[test]
    fn a_log_of_just_that_length_is_whole() {
        let log = read_until(FAILED, FAILED.len() as u64).unwrap();
        assert_eq!((log.cut_after, log.lines), (None, 1));
    }
}
