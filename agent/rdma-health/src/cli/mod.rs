//! The command line.

#[cfg(feature = "agent")]
mod agent;
mod alerts;
#[cfg(feature = "agent")]
mod alive;
mod baseline;
mod between;
mod check;
mod copy;
mod devices;
mod documents;
mod env;
mod environment;
mod explain;
mod failed;
mod file;
mod gather;
mod given;
#[cfg(feature = "agent")]
#[cfg(test)]
mod guides;
mod help;
mod job;
#[cfg(feature = "agent")]
mod kubectl;
mod man;
mod matrix;
mod memlock;
mod names;
mod output;
#[cfg(feature = "agent")]
mod preflight;
mod probe;
#[cfg(feature = "agent")]
mod remove_conditions;
mod rules_page;
mod run;
mod snapshot;
mod topology;
mod values;
mod wait;

#[cfg(feature = "agent")]
use std::path::Path;
use std::{ffi::OsString, io::Write, path::PathBuf, process::ExitCode};

use clap::{
    ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum, error::ErrorKind,
};
use environment::Given;

/// Diagnose RDMA on a Linux node: does it work, why not, and how to fix it
#[derive(Debug, Parser)]
#[command(name = "rdma-health", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Read the node once and report what is wrong with it
    ///
    /// Reads what the kernel shows about RDMA and asks libibverbs about the devices. Prints findings with their evidence, the
    /// causes that explain them, and what to do next. Changes nothing on the node. Run it as root: without root, some files
    /// cannot be read, and the report says which.
    Check(check::Arguments),
    /// Save everything read from the node to one file, to check it elsewhere
    ///
    /// The file is a compressed archive. Check it with rdma-health check --snapshot FILE on any machine: the report is the same.
    Snapshot(snapshot::Arguments),
    /// Measure RDMA WRITE: loopback on each port, or between two nodes
    ///
    /// Loopback: the adapter writes from host memory to host memory through its own port, so no second node is needed. The result is
    /// compared with the rate of the port, its PCIe link and its equal ports.
    ///
    /// Between two nodes: one listens (--listen), the other connects (--connect). Both need the same token file. Each rail is measured
    /// in both directions. A port that carries traffic is skipped.
    Probe(probe::Arguments),
    /// List every RDMA port, one line for each
    ///
    /// Device, PCI address, network device, model, firmware, state, rate, MTU (of RDMA and of the network device), the GID that a
    /// connection should use with its index, NUMA node, IOMMU type, and whether it is a virtual function. Nothing is judged.
    Devices(devices::Arguments),
    /// Show the PCIe paths between GPUs and NICs
    ///
    /// A matrix of distances as nvidia-smi topo -m prints it, with the best NIC for each GPU, and what slows or blocks that path: PCIe
    /// Access Control Services or an IOMMU that translates. Nothing is judged.
    Topology(topology::Arguments),
    /// Print settings of NCCL, UCX and others for the devices of this pod
    ///
    /// The settings of NCCL, RCCL, UCX, NVSHMEM, libfabric and Gloo. Finds the devices from what the SR-IOV device plugin, DRA drivers or Multus leave in the pod; without them, uses every
    /// device that this container can open. Prints each variable with its reason. A variable that is already set is kept.
    Env(env::Arguments),
    /// Run a command with the settings that rdma-health env prints
    ///
    /// Raises the memlock limit as far as allowed and replaces itself with the command, which gets signals directly and whose
    /// exit status is the exit status.
    Run(run::Arguments),
    /// Wait until the RDMA devices of this pod can be used
    ///
    /// For an init container. Waits until every device that this pod was given has a link and a GID, and checks that the memlock
    /// limit is enough. Prints what it waits for. If something is still missing after the timeout, prints what and why for each device.
    /// Without given devices, waits for one usable port.
    Wait(wait::Arguments),
    /// Copy this program to a directory
    ///
    /// For an init container of this image, which has no cp: it copies the program to a volume, and the job's container runs it there. The
    /// image has a static build without the agent, which is copied instead: it runs in every image.
    Copy(copy::Arguments),
    /// Find out why an RDMA pod will not start in a namespace
    ///
    /// Asks the API server for what such a pod needs: network attachments and their resources on the nodes, the service account and
    /// its SCC, the PodSecurity level, quotas and the memlock limit. Explains pods that are pending and pods that were refused. Changes nothing.
    /// What may not be read is reported as not checked.
    #[cfg(feature = "agent")]
    Preflight(preflight::Arguments),
    /// Ask the agents of a cluster; also as a plugin: kubectl rdma-health
    ///
    /// Asks the agents through the API server, with the rights of your kubeconfig: list on nodes and pods, get on pods/proxy. What did not
    /// answer is named. To use it as a plugin, link this program as kubectl-rdma_health in a directory of your PATH.
    #[cfg(feature = "agent")]
    Kubectl(kubectl::Arguments),
    /// Print a configuration that records the node's current state as expected
    ///
    /// Nothing is judged: run rdma-health check first, and record a healthy node.
    Baseline(baseline::Arguments),
    /// Watch the node and serve Prometheus metrics
    ///
    /// Reads the node at intervals and whenever a device or link changes, probes active ports, serves /metrics and a status page,
    /// and can publish Node conditions and Events to Kubernetes. SIGHUP reads the configuration files
    /// again and saves the history. Ends on SIGTERM or SIGINT.
    #[cfg(feature = "agent")]
    Agent(agent::Arguments),
    /// Check that the agent in this container is running
    ///
    /// For the liveness and startup probes of a pod. It uses a Unix socket, so that clients of the HTTP server cannot keep it out.
    #[cfg(feature = "agent")]
    Alive(alive::Arguments),
    /// Remove this agent's Node conditions, labels and taints from a cluster
    ///
    /// Run it after the agents are gone: an agent that still runs writes them again.
    #[cfg(feature = "agent")]
    RemoveConditions(remove_conditions::Arguments),
    /// Explain a rule, a cause or an error: what it means and what to do
    Explain(explain::Arguments),
    /// List all rules
    Rules(documents::RulesArguments),
    /// List all metrics
    #[cfg(feature = "agent")]
    Metrics(documents::MetricsArguments),
    /// Print a shell completion script
    Completions(documents::CompletionsArguments),
    /// Print the main manual page, or write the pages of all commands
    Man(man::Arguments),
}

/// Format of what a command prints or logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Where the verbs helper is.
#[derive(Debug, Args)]
struct HelperArguments {
    /// Program that calls libibverbs [default: rdma-health-verbs in the directory of this program, else in PATH]
    #[arg(long, value_name = "PROGRAM", conflicts_with = "helper_socket")]
    helper: Option<PathBuf>,
    /// Unix socket of a verbs helper that is already running
    #[arg(long, value_name = "SOCKET")]
    helper_socket: Option<PathBuf>,
}

impl HelperArguments {
    /// The helper that the flags name, if they name one.
    fn given(&self) -> Option<rdma_health_config::Helper> {
        let given = self.helper.is_some() || self.helper_socket.is_some();
        given.then(|| rdma_health_config::Helper {
            program: self.helper.clone(),
            socket: self.helper_socket.clone(),
        })
    }
}

/// Exit status of a command that could not do its work; monitoring reads it as unknown.
const UNKNOWN: u8 = 3;
/// Exit status of a wrong command line, as clap has it.
const USAGE: u8 = 2;

/// The whole command line, with the help of all commands.
fn command() -> clap::Command {
    help::complete(Cli::command())
}

/// Runs the command line and returns its exit status.
pub(crate) fn run() -> ExitCode {
    // Before anything else: a reload right after the start must not end the agent.
    #[cfg(feature = "agent")]
    if given_arguments().nth(1).is_some_and(|command| command == "agent") {
        crate::agent::Signals::survive_hangup();
    }
    let mut command = command();
    let (cli, matches) = match parse(&mut command) {
        Ok(parsed) => parsed,
        Err(error) => {
            let printed = print(&error).and_then(|()| std::io::stdout().flush());
            return match printed {
                Err(failed) if failed.kind() != std::io::ErrorKind::BrokenPipe => {
                    anstream::eprintln!("rdma-health: cannot write to standard output: {failed}");
                    ExitCode::from(UNKNOWN)
                }
                // The output may be closed, which is not an error.
                _ => usage_status(&error),
            };
        }
    };
    match execute(cli, &Given::of(&matches)) {
        Ok(code) => code,
        // The reader of our output has seen enough, as `head` does.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // All other errors of the system say what was being done.
            let is_output =
                error.chain().count() == 1 && error.chain().any(|one| system_error(one).is_some());
            let error = if is_output {
                error.context("cannot write to standard output")
            } else {
                error
            };
            let text = format!("{error:#}");
            anstream::eprintln!("rdma-health: {}", rdma_health_node::words::printable(&text));
            let status = if is_output {
                UNKNOWN
            } else {
                failed::answer(&matches, &text)
            };
            ExitCode::from(status)
        }
    }
}

/// Prints help or an error of the command line. As a plugin of kubectl, under the name that its user gave.
fn print(error: &clap::Error) -> std::io::Result<()> {
    #[cfg(feature = "agent")]
    if is_plugin() {
        let text = kubectl::as_plugin(&error.render().ansi().to_string());
        return if error.use_stderr() {
            write!(anstream::stderr(), "{text}")
        } else {
            write!(anstream::stdout(), "{text}")
        };
    }
    error.print()
}

/// Whether this program was started as a plugin of kubectl.
fn is_plugin() -> bool {
    #[cfg(feature = "agent")]
    {
        let program = std::env::args_os().next();
        let name = program
            .as_deref()
            .and_then(|program| Path::new(program).file_name());
        name.is_some_and(|name| name == kubectl::PLUGIN)
    }
    #[cfg(not(feature = "agent"))]
    false
}

/// The arguments, with the name of the program. As a plugin of kubectl, this program is its command `kubectl`.
fn given_arguments() -> impl Iterator<Item = OsString> {
    let mut given = std::env::args_os();
    let program = given.next();
    let command = is_plugin().then(|| OsString::from("kubectl"));
    program.into_iter().chain(command).chain(given)
}

fn parse(command: &mut clap::Command) -> Result<(Cli, ArgMatches), clap::Error> {
    let matches = command.try_get_matches_from_mut(given_arguments())?;
    let mut cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(command))?;
    if let Command::Check(arguments) = &mut cli.command
        && let Err(conflict) = arguments.settle(&Given::of(&matches))
    {
        // With the usage of the subcommand.
        let command = command.find_subcommand_mut("check");
        return Err(command.map_or_else(
            || clap::Error::raw(ErrorKind::ArgumentConflict, &conflict),
            |check| check.error(ErrorKind::ArgumentConflict, &conflict),
        ));
    }
    if let Command::Explain(arguments) = &cli.command
        && let Err(unknown) = arguments.settle()
    {
        let command = command.find_subcommand_mut("explain");
        return Err(command.map_or_else(
            || clap::Error::raw(ErrorKind::InvalidValue, &unknown),
            |explain| explain.error(ErrorKind::InvalidValue, &unknown),
        ));
    }
    Ok((cli, matches))
}

/// The exit status where clap ends the program. For a command of [`help::VERDICTS`], [`USAGE`] would mean a failure of the node.
fn usage_status(error: &clap::Error) -> ExitCode {
    // Help and version go to standard output and are not failures.
    if !error.use_stderr() {
        return ExitCode::SUCCESS;
    }
    let judges = given_arguments()
        .nth(1)
        .is_some_and(|command| help::VERDICTS.iter().any(|(name, _)| command == *name));
    ExitCode::from(if judges { UNKNOWN } else { USAGE })
}

fn execute(cli: Cli, given: &Given<'_>) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::Check(arguments) => check::run(&arguments, given),
        Command::Snapshot(arguments) => snapshot::run(&arguments, given),
        Command::Probe(arguments) => probe::run(&arguments),
        Command::Devices(arguments) => devices::run(&arguments),
        Command::Topology(arguments) => topology::run(&arguments),
        Command::Env(arguments) => env::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Wait(arguments) => wait::run(&arguments),
        Command::Copy(arguments) => copy::run(&arguments),
        #[cfg(feature = "agent")]
        Command::Preflight(arguments) => preflight::run(arguments),
        #[cfg(feature = "agent")]
        Command::Kubectl(arguments) => kubectl::run(arguments),
        Command::Baseline(arguments) => baseline::run(&arguments),
        #[cfg(feature = "agent")]
        Command::Agent(arguments) => agent::run(arguments),
        #[cfg(feature = "agent")]
        Command::Alive(arguments) => alive::run(&arguments),
        #[cfg(feature = "agent")]
        Command::RemoveConditions(arguments) => remove_conditions::run(arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Rules(arguments) => documents::rules(&arguments),
        #[cfg(feature = "agent")]
        Command::Metrics(arguments) => documents::metrics(&arguments),
        Command::Completions(arguments) => documents::completions(&arguments),
        Command::Man(arguments) => man::run(&arguments),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| system_error(cause) == Some(std::io::ErrorKind::BrokenPipe))
}

/// The kind of an error of the system, also if JSON was being written.
fn system_error(cause: &(dyn std::error::Error + 'static)) -> Option<std::io::ErrorKind> {
    let io = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    let json = || cause.downcast_ref::<serde_json::Error>()?.io_error_kind();
    io.or_else(json)
}
