//! What the help and the manual page of each command add to its flags: examples and exit status.

mod examples;
mod exit_status;

pub(super) use self::examples::examples;
pub(super) use self::exit_status::{ExitStatus, OTHERS, VERDICTS, exit_status};

/// The environment variables that replace flags.
pub(super) const ENVIRONMENT: &str = "RDMA_HEALTH_CONFIG, RDMA_HEALTH_ROOT, RDMA_HEALTH_STATE and RDMA_HEALTH_LIVENESS_SOCKET replace \
     --config, --root, --state and --liveness-socket. The Helm chart sets them to the agent's values, so that commands in its pods use the agent's configuration. \
     RDMA_HEALTH_LOG sets the log level of the agent.";

/// What a program that reads JSON gets without a result.
const FAILED_AS_JSON: &str = "An error is printed on standard error. With JSON as the format, standard output then has an object with \
                              schema and error. After a wrong command line it is empty.";

/// Adds examples and exit status to the help of the program and of all its commands. A paragraph is one line: clap wraps it to
/// the terminal.
pub(super) fn complete(command: clap::Command) -> clap::Command {
    let command = command.after_help(overview());
    command.mut_subcommands(|command| {
        let name = command.get_name();
        let ExitStatus { brief, detail } = exit_status(name);
        let names = ["output", "format"];
        let has_format = command
            .get_arguments()
            .any(|flag| names.contains(&flag.get_id().as_str()));
        let json = if has_format { FAILED_AS_JSON } else { "" };
        let text = format!("{}\nExit status:\n  {brief}\n{detail}\n{json}", listed(name));
        command.after_help(text.trim_end().to_owned())
    })
}

fn overview() -> String {
    // Only of commands that this program was built with.
    let built = |name: &str| cfg!(feature = "agent") || !matches!(name, "preflight" | "kubectl");
    let statuses = VERDICTS.iter().filter(|(name, _)| built(name));
    let statuses: Vec<_> = statuses
        .map(|(name, status)| format!("  {name:<16}{}\n", status.brief))
        .collect();
    format!(
        "{}\nExit status:\n{}  other commands  {}\n\nEnvironment:\n{ENVIRONMENT}",
        listed("rdma-health"),
        statuses.concat(),
        OTHERS.brief
    )
}

fn listed(command: &str) -> String {
    let lines = examples(command).map(|(purpose, line)| format!("  # {purpose}\n  {line}\n"));
    format!("Examples:\n{}", lines.collect::<Vec<_>>().join("\n"))
}
