//! `rdma-health copy`: the program for jobs to a volume, from an image that has no `cp`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use clap::Args;

use super::file;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Directory to copy to, for example where a volume is mounted
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// The static build for jobs, relative to the directory of this program. The image has it; it runs in images without this program's
/// C library.
const STATIC: &str = "../libexec/rdma-health/rdma-health";

/// Copies the static build, or this program where there is none. Other containers of the pod then run it. A copy that is there is
/// replaced as a whole, because another container may run it.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let own = std::env::current_exe().context("cannot find this program")?;
    let program = own
        .parent()
        .map(|directory| directory.join(STATIC))
        .filter(|path| path.is_file())
        .unwrap_or(own);
    let target = arguments.directory.join("rdma-health");
    copy(&program, &arguments.directory, &target)
        .with_context(|| format!("cannot write {}", target.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn copy(program: &Path, directory: &Path, target: &Path) -> anyhow::Result<()> {
    let temporary = file::temporary(directory, 0o700)?;
    // With the permissions.
    fs::copy(program, temporary.path())?;
    temporary.persist(target).map_err(|error| error.error)?;
    Ok(())
}
