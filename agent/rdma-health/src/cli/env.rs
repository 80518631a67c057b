//! `rdma-health env`: the settings of communication libraries for the devices that this pod was given.

use std::{io::Write, process::ExitCode};

use clap::{Args, ValueEnum};
use rdma_health_job::format;

use super::given::{JobArguments, Unusable};

/// Exit status if the mode is RDMA and RDMA cannot be used.
pub(super) const UNUSABLE: u8 = 2;

/// Format of the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Statements for a shell: eval "$(rdma-health env)"
    Sh,
    /// NAME=VALUE lines for docker run --env-file
    Env,
    /// For programs, with the devices that cannot be used
    Json,
    /// For the env list of a container in Kubernetes
    Yaml,
}

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    job: JobArguments,
    /// Format of the settings
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "sh")]
    format: Format,
}

/// Prints the settings. Nothing but settings and comments goes to stdout.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let job = arguments.job.read()?;
    let rails = job.rails();
    let settings = match arguments.job.settle(&job, &rails) {
        Ok(settled) => settled,
        Err(error) => {
            let reason = error.downcast::<Unusable>()?;
            if arguments.format == Format::Json {
                print(&format::json(Err(&reason.to_string()), &rails, &job.problems()))?;
            }
            return unusable(reason.into());
        }
    };
    let text = match arguments.format {
        Format::Sh => format::shell(&settings),
        Format::Env => format::environment_file(&settings),
        Format::Json => format::json(Ok(&settings), &rails, &job.problems()),
        Format::Yaml => format::yaml(&settings),
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn print(text: &str) -> std::io::Result<()> {
    let mut out = super::output::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Reports that RDMA cannot be used; passes on any other error.
pub(super) fn unusable(error: anyhow::Error) -> anyhow::Result<ExitCode> {
    let reason = error.downcast::<Unusable>()?;
    anstream::eprintln!(
        "rdma-health: {}",
        rdma_health_node::words::printable(&reason.to_string())
    );
    Ok(ExitCode::from(UNUSABLE))
}
