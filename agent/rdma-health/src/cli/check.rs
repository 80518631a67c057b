//! `rdma-health check`: read the node once and report what is wrong with it.

use std::{
    fs::File,
    io::{Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context;
use clap::{Args, ValueEnum};
use rdma_health_config::Config;
use rdma_health_diagnosis::{
    diagnose,
    log::{Log, LogReader},
};
use rdma_health_node::{Node, history::History, words::printable};
use rdma_health_report as report;
use rdma_health_rules::{Severity, Status, judge};
use rdma_health_snapshot::state_file;

use super::{
    environment::{Given, STATE, until_now},
    gather::{self, NodeArguments},
    job::JobArguments,
};

/// The most that is read of a log without a length, in bytes: a device never ends. A file is read to its end.
const MAX_LOG: u64 = 1 << 30;

/// Format of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReportOutput {
    /// For people
    Text,
    /// For programs; docs/api.md describes it
    Json,
    /// One line: host, status, first cause, rules
    Line,
    /// Nagios plugin: one line with performance data, then the findings
    Nagios,
    /// Plugin of node-problem-detector: one line of at most 80 bytes; exit status 1 for any problem
    Npd,
    /// JUnit XML: each rule is a test case
    Junit,
}

/// The lowest severity that is a failure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum FailOn {
    /// Any finding
    Info,
    /// Warnings and critical findings
    #[default]
    Warning,
    /// Critical findings only
    Critical,
}

impl FailOn {
    fn severity(self) -> Severity {
        match self {
            Self::Info => Severity::Info,
            Self::Warning => Severity::Warning,
            Self::Critical => Severity::Critical,
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    node: NodeArguments,
    /// Check a saved node (see rdma-health snapshot) instead of this one; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["probe", "helper", "helper_socket"])]
    snapshot: Option<PathBuf>,
    /// Also measure a loopback RDMA WRITE on every active port
    #[arg(long)]
    probe: bool,
    /// State file of an agent on this node, to compare with earlier readings [default: on the node itself, the state file
    /// that the configuration names]
    #[arg(long, value_name = "FILE", env = STATE)]
    state: Option<PathBuf>,
    /// Log of a job (NCCL, UCX, PyTorch) whose errors are to be explained; - is standard input. A failed call or transfer
    /// in it is critical, a fallback to a slower transport a warning. Of a pipe or device, the first 1 GiB is read
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    #[command(flatten)]
    job: JobArguments,
    /// Format of the report
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    output: ReportOutput,
    /// Lowest severity that makes the exit status, or a test case, a failure [default: warning]
    #[arg(long, value_enum, value_name = "SEVERITY")]
    fail_on: Option<FailOn>,
    /// Show all evidence, the remedies of all causes, and one line for each domain without a problem
    #[arg(long, short)]
    verbose: bool,
    /// Print one line: host, status, first cause, and the rules that found a problem; the same as --output line
    #[arg(long, short, conflicts_with_all = ["output", "verbose"])]
    quiet: bool,
}

impl Arguments {
    /// With a snapshot, ignores the environment variables, which describe this node.
    ///
    /// # Errors
    /// The conflict, if flags on the command line exclude each other.
    pub(super) fn settle(&mut self, given: &Given<'_>) -> Result<(), String> {
        let Some(snapshot) = &self.snapshot else {
            return Ok(());
        };
        for name in ["root", "state"] {
            if given.on_command_line(name) {
                return Err(format!(
                    "the argument '--snapshot' cannot be used with '--{name}'"
                ));
            }
        }
        if is_standard_input(snapshot) && self.log.as_deref().is_some_and(is_standard_input) {
            return Err("--snapshot and --log cannot both read standard input".into());
        }
        self.state = None;
        if given.by_environment("config") {
            self.node.config = None;
        }
        Ok(())
    }
}

pub(super) fn run(arguments: &Arguments, given: &Given<'_>) -> anyhow::Result<ExitCode> {
    let mut config = arguments.node.configuration()?;
    // Before the node is read, so that a missing file is reported at once.
    let log = arguments.log.as_deref().map(read_log).transpose()?;
    let mut node = if let Some(file) = &arguments.snapshot {
        replay(file, &arguments.node, &mut config)?
    } else {
        let root = arguments.node.open()?;
        arguments.node.read(root, arguments.probe, &config)?.0
    };
    node.job = arguments.job.read(&arguments.node)?.map(Arc::new);
    if let Some(file) = &arguments.state {
        node.history = given.history(file)?.map(Arc::new);
    } else if let Some(file) = config.state.as_deref().filter(|_| node.live) {
        // It describes the running node: compared with a captured tree it would report changes that never happened.
        node.history = remembered(file);
    }
    if let Some(mut history) = node.history.take() {
        if arguments.snapshot.is_none() {
            Arc::make_mut(&mut history).align(&node.facts, node.facts.time);
        }
        node.see_history(history);
    }
    let mut verdict = judge(&node, &config.expect);
    if let Some(history) = &node.history {
        verdict.keep_remembered(history, &node, &config.expect);
    }
    let diagnosis = diagnose(&node, &verdict.findings, log.as_ref());
    let report = report::Report {
        node: &node,
        verdict: &verdict,
        diagnosis: &diagnosis,
        kubernetes_node: None,
    };
    let status = failing(&report, arguments.fail_on);
    let mut out = super::output::stdout();
    match arguments.output {
        _ if arguments.quiet => report::quiet(&mut out, &report, status)?,
        ReportOutput::Text => {
            let style = report::Style::of_terminal().verbose(arguments.verbose);
            report::text(&mut out, &report, style)?;
        }
        ReportOutput::Json => report::json(&mut out, &report)?,
        ReportOutput::Line => report::quiet(&mut out, &report, status)?,
        ReportOutput::Nagios => report::nagios(&mut out, &report, status)?,
        ReportOutput::Npd => report::npd(&mut out, &report, status)?,
        ReportOutput::Junit => {
            let severity = arguments.fail_on.unwrap_or_default().severity();
            report::junit(&mut out, &report, severity)?;
        }
    }
    out.flush()?;
    Ok(ExitCode::from(match arguments.output {
        ReportOutput::Npd => report::npd_exit_code(status),
        _ => status.exit_code(),
    }))
}

/// The status for the exit status: one below the severity that fails counts as healthy. That something could not be judged
/// is never healthy.
fn failing(report: &report::Report<'_>, fail_on: Option<FailOn>) -> Status {
    let has_any = !report.verdict.findings.is_empty();
    match (report.status(), fail_on.unwrap_or_default()) {
        (Status::Warning, FailOn::Critical) => Status::Ok,
        (Status::Ok, FailOn::Info) if has_any => Status::Warning,
        (status, _) => status,
    }
}

/// The state file that the configuration names. No one asked for it on the command line, so a missing file is normal, and an
/// unreadable one is reported without failing the check.
fn remembered(file: &Path) -> Option<Arc<History>> {
    match state_file::read_if_there(file) {
        Ok(history) => history.map(until_now).map(Arc::new),
        Err(error) => {
            let error = printable(&error.to_string());
            anstream::eprintln!(
                "rdma-health: the state file could not be read, so nothing is compared with earlier readings: {error}"
            );
            None
        }
    }
}

/// Reads a saved node. It is judged by the expectations saved with it, unless a configuration is given here.
fn replay(file: &Path, arguments: &NodeArguments, config: &mut Config) -> anyhow::Result<Node> {
    let mut snapshot = gather::load(file)?;
    if let (None, Some(expected)) = (&arguments.config, snapshot.expectations.take()) {
        config.expect = serde_json::from_value(expected)
            .with_context(|| format!("expectations.json in {}", file.display()))?;
    }
    Ok(arguments.replay(&snapshot, config))
}

fn is_standard_input(file: &Path) -> bool {
    file == Path::new("-")
}

/// Reads a log in bounded memory: a file up to its present length, anything else up to [`MAX_LOG`] bytes.
fn read_log(file: &Path) -> anyhow::Result<Log> {
    let failed = || format!("cannot read the log {}", file.display());
    if is_standard_input(file) {
        return read_until(std::io::stdin().lock(), MAX_LOG).with_context(failed);
    }
    let file = File::open(file).with_context(failed)?;
    // Files in /proc report a length of 0.
    let length = file.metadata().with_context(failed)?.len();
    read_until(file, length.max(MAX_LOG)).with_context(failed)
}

/// Reads up to `most` bytes of a log; the result records whether there was more.
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
