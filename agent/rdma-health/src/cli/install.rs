//! `rdma-health install`: copies this program into a directory, for init containers. The image has no `cp`.

use std::{fs::Permissions, os::unix::fs::PermissionsExt, path::PathBuf, process::ExitCode};

use anyhow::Context;
use clap::Args;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Directory for the program
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let target = arguments.directory.join("rdma-health");
    let failed = || format!("cannot copy this program to {}", target.display());
    // A program that was replaced or deleted while it runs is still readable here.
    let mut source = std::fs::File::open("/proc/self/exe").with_context(failed)?;
    // In one step: a container that starts again never runs half of a program.
    let mut file = tempfile::NamedTempFile::new_in(&arguments.directory).with_context(failed)?;
    std::io::copy(&mut source, &mut file).with_context(failed)?;
    file.as_file()
        .set_permissions(Permissions::from_mode(0o755))
        .with_context(failed)?;
    file.as_file().sync_all().with_context(failed)?;
    file.persist(&target).with_context(failed)?;
    anstream::println!("{}", target.display());
    Ok(ExitCode::SUCCESS)
}
