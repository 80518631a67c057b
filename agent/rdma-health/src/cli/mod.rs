//! The command line.

mod agent;
mod baseline;
mod check;
mod documents;
mod environment;
mod explain;
#[cfg(test)]
mod guides;
mod probe;
mod remove_conditions;
mod rules_page;
mod snapshot;

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use environment::Given;

const EXAMPLES: &str = "\
Examples:
  rdma-health check                       is RDMA all right on this node, and if not, why?
  rdma-health check --probe               the same, with a loopback RDMA WRITE on every active port
  rdma-health check --log nccl.log        what in this node explains the errors of this job?
  rdma-health check --root /host          in a container that has the node's root at /host
  rdma-health snapshot -o node.tar.zst    save the node to judge it elsewhere:
  rdma-health check --snapshot node.tar.zst
  rdma-health probe mlx5_0:1 --size 1MiB  measure one port
  rdma-health agent --listen :9879        serve Prometheus metrics
  rdma-health explain port-down           what a finding means and what to do

Exit status of check and probe: 0 ok, 1 warning, 2 critical, 3 unknown: nothing was found, and not all could be judged.
RDMA_HEALTH_CONFIG, RDMA_HEALTH_ROOT and RDMA_HEALTH_STATE stand in for --config, --root and --state: in the pods of the chart
they say what the agent goes by. With --log, a failure that the log tells of is critical and a fallback to something slower a warning.";

/// Tells whether RDMA works on this node, why not, and what to do.
#[derive(Debug, Parser)]
#[command(name = "rdma-health", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Read the node and tell what is wrong with it
    Check(check::Arguments),
    /// Save all that is read of the node to one file, to be judged elsewhere
    Snapshot(snapshot::Arguments),
    /// Measure loopback RDMA WRITE on one port or on every active one
    Probe(probe::Arguments),
    /// Print a configuration that expects of this node what is there now
    Baseline(baseline::Arguments),
    /// Watch the node and serve Prometheus metrics
    Agent(agent::Arguments),
    /// Take Node conditions, labels and taints of ours off the Nodes of a cluster
    RemoveConditions(remove_conditions::Arguments),
    /// Explain a rule, a cause or an error: what it means, why it matters, what to do
    Explain(documents::ExplainArguments),
    /// List every rule
    Rules(documents::RulesArguments),
    /// List every metric
    Metrics(documents::MetricsArguments),
    /// Print a completion script for a shell
    Completions(documents::CompletionsArguments),
    /// Print the manual page
    Man,
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For a person.
    Text,
    /// For a program.
    Json,
}

/// Where the helper is.
#[derive(Debug, Args)]
struct HelperArguments {
    /// Program that speaks to libibverbs [default: rdma-health-verbs beside this program]
    #[arg(long, value_name = "PROGRAM", conflicts_with = "helper_socket")]
    helper: Option<PathBuf>,
    /// Unix socket of a helper that runs elsewhere
    #[arg(long, value_name = "SOCKET")]
    helper_socket: Option<PathBuf>,
}

impl HelperArguments {
    /// What the flags say of the helper; `None` where they say nothing.
    fn given(&self) -> Option<crate::config::Helper> {
        let given = self.helper.is_some() || self.helper_socket.is_some();
        given.then(|| crate::config::Helper {
            program: self.helper.clone(),
            socket: self.helper_socket.clone(),
        })
    }
}

/// A size on the command line.
fn size(text: &str) -> Result<u64, String> {
    crate::config::parse_size(text)
        .ok_or_else(|| "expected a size like 64KiB or 1GB, or a number of bytes".into())
}

/// Exit status where a command could not do its work; monitoring reads it as unknown.
const UNKNOWN: u8 = 3;

/// Runs the command line and says how it went.
pub(crate) fn run() -> ExitCode {
    let mut command = Cli::command();
    let parsed = command
        .try_get_matches_from_mut(std::env::args_os())
        .and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)))
        .and_then(|(mut cli, matches)| {
            if let Command::Check(arguments) = &mut cli.command {
                arguments.settle(&Given::of(&matches))?;
            }
            Ok((cli, matches))
        })
        .map_err(|error| error.format(&mut command));
    let (cli, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            // Help and version go to standard output and are no failure.
            let _ = error.print();
            return if error.use_stderr() {
                ExitCode::from(UNKNOWN)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    let given = Given::of(&matches);
    let result = match cli.command {
        Command::Check(arguments) => check::run(&arguments, &given),
        Command::Snapshot(arguments) => snapshot::run(&arguments, &given),
        Command::Probe(arguments) => probe::run(&arguments),
        Command::Baseline(arguments) => baseline::run(&arguments),
        Command::Agent(arguments) => agent::run(arguments),
        Command::RemoveConditions(arguments) => remove_conditions::run(arguments),
        Command::Explain(arguments) => documents::explain(&arguments),
        Command::Rules(arguments) => documents::rules(&arguments),
        Command::Metrics(arguments) => documents::metrics(&arguments),
        Command::Completions(arguments) => documents::completions(&arguments),
        Command::Man => documents::man(),
    };
    match result {
        Ok(code) => code,
        // Whoever read our output has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            anstream::eprintln!("rdma-health: {}", crate::report::printable(&format!("{error:#}")));
            ExitCode::from(UNKNOWN)
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        let json = cause
            .downcast_ref::<serde_json::Error>()
            .and_then(serde_json::Error::io_error_kind);
        io.or(json) == Some(std::io::ErrorKind::BrokenPipe)
    })
}
