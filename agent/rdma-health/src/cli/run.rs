//! `rdma-health run`: a command with the settings of `rdma-health env`.

use std::{
    ffi::OsString,
    os::unix::process::CommandExt,
    process::{Command, ExitCode},
};

use anyhow::Context;
use clap::Args;
use rdma_health_job::{format, settings::Transport};
use rdma_health_node::words::size;

use super::{env::unusable, given::JobArguments, memlock};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    job: JobArguments,
    /// Command to run, and its arguments
    // What begins with a hyphen before the command is an option of this program, and an error if it has no such option.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Replaces this process with the command. Returns only if that fails.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let job = arguments.job.read()?;
    let settings = match arguments.job.settle(&job, &job.rails()) {
        Ok(settled) => settled,
        Err(error) => return unusable(error),
    };

    raise_memlock(settings.transport);
    // clap requires one.
    let (program, rest) = arguments.command.split_first().context("no command")?;
    let mut command = Command::new(program);
    command.args(rest);
    for setting in format::new(&settings) {
        command.env(setting.name, &setting.value);
    }
    Err(command.exec()).with_context(|| format!("cannot run {}", program.display()))
}

/// Raises the memlock limit as far as allowed, and reports if it stays limited and matters.
fn raise_memlock(transport: Transport) {
    let limit = memlock::raise().filter(|_| transport == Transport::Rdma && !memlock::is_exempt());
    if let Some(most) = limit {
        anstream::eprintln!(
            "rdma-health: the memlock limit stays at {}: registering more memory fails with ENOMEM unless the container has \
             CAP_IPC_LOCK; run rdma-health explain memlock-low",
            size(most)
        );
    }
}
