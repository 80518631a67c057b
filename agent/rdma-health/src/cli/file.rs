//! Files that commands write: as a whole or not at all.

use std::{
    fs::{self, Permissions},
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use anyhow::Context;
use tempfile::NamedTempFile;

/// Fails if the file cannot be written, or if it exists and may not be overwritten. Call it before work that takes long.
pub(super) fn may_write(file: &Path, force: bool) -> anyhow::Result<()> {
    if let Ok(found) = file.symlink_metadata() {
        anyhow::ensure!(found.is_file(), "{} is not a regular file", file.display());
        anyhow::ensure!(force, "{} exists; pass --force to overwrite it", file.display());
    }
    temporary(directory_of(file), 0o600)
        .map(drop)
        .with_context(|| format!("cannot write {}", file.display()))
}

/// Writes the whole file or nothing. Only its owner may read it: it contains addresses.
pub(super) fn save(file: &Path, bytes: &[u8], force: bool) -> anyhow::Result<()> {
    let write = || {
        anyhow::ensure!(
            file.symlink_metadata().map_or(true, |found| found.is_file()),
            "not a regular file"
        );
        write(file, bytes, 0o600, force)
    };
    write().with_context(|| format!("cannot write {}", file.display()))
}

/// Writes the whole file or nothing, for everyone to read. Replaces one that exists.
pub(super) fn publish(file: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    write(file, bytes, 0o644, true).with_context(|| format!("cannot write {}", file.display()))
}

/// A file next to the one that it becomes.
///
/// # Errors
/// If the directory is missing or cannot be written to. The reason has no name of a temporary file, which means nothing to the user.
pub(super) fn temporary(directory: &Path, mode: u32) -> anyhow::Result<NamedTempFile> {
    match directory.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            anyhow::bail!("the directory {} does not exist", directory.display())
        }
        Ok(found) if !found.is_dir() => anyhow::bail!("{} is not a directory", directory.display()),
        _ => {}
    }
    let created = tempfile::Builder::new()
        .prefix(".rdma-health-")
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(directory);
    Ok(created.map_err(plain)?)
}

fn write(file: &Path, bytes: &[u8], mode: u32, force: bool) -> anyhow::Result<()> {
    let mut temporary = temporary(directory_of(file), mode)?;
    temporary.write_all(bytes).map_err(plain)?;
    temporary.as_file().sync_all()?;
    if force {
        temporary.persist(file).map_err(|error| error.error)?;
    } else {
        // If another process created the file in the meantime, it stays.
        temporary.persist_noclobber(file).map_err(|error| error.error)?;
    }
    Ok(())
}

/// Makes a directory and those above it.
pub(super) fn make_directory(directory: &Path) -> anyhow::Result<()> {
    let made = fs::create_dir_all(directory);
    let is_taken = made
        .as_ref()
        .is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists);
    if is_taken {
        anyhow::bail!("cannot write to {}: it is not a directory", directory.display());
    }
    made.with_context(|| format!("cannot make the directory {}", directory.display()))
}

fn directory_of(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// The system's error without the name of the temporary file.
fn plain(error: io::Error) -> io::Error {
    match error.to_string().split_once(" at path ") {
        Some((system, _)) => io::Error::new(error.kind(), system),
        None => error,
    }
}
