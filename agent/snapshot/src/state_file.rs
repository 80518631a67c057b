//! The file with the history of an agent's node (`--state`), which survives restarts and reboots.
//!
//! One JSON file, written next to the old one and renamed over it: a reader finds the old or the new, never half of one.
//! A file that cannot be used is set aside (`state.json.bad`) and reported, and the history starts empty. Nothing but a state
//! file is ever moved or replaced: the path may be a mistake.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use rdma_health_file::Links;
use rdma_health_node::history::{History, SCHEMA};
use serde::Deserialize;

/// Maximum size of the file in bytes; the limits of a history are far lower.
const MAX_FILE: u64 = 16 << 20;

const NOT_A_FILE: &str = "not a regular file";
const FOREIGN: &str = "not a state file of rdma-health; it stays as it is, and no history is saved";
/// The beginning of every state file, of whatever version.
const BEGINNING: &[u8] = b"{\"schema\":";

/// Why the history could not be loaded or saved.
#[derive(Debug, thiserror::Error)]
#[error("state file {}: {what}", path.display())]
pub struct Error {
    path: PathBuf,
    what: String,
}

impl Error {
    fn new(path: &Path, what: impl std::fmt::Display) -> Self {
        Self {
            path: path.to_owned(),
            what: what.to_string(),
        }
    }
}

/// Loads the history. It is empty if there is no file, or if the file is unusable; the error then says why.
pub fn load(path: &Path) -> (History, Option<Error>) {
    let error = match read_if_there(path) {
        Ok(history) => return (history.unwrap_or_default(), None),
        Err(error) => error,
    };
    // Kept for a look at what went wrong: the next save would replace it. Nothing is lost if this fails.
    if refusal(path).is_none() {
        let _ = fs::rename(path, with_suffix(path, "bad"));
    }
    (History::default(), Some(error))
}

/// Reads the history without changing the file.
///
/// # Errors
/// If the file does not exist or is unusable.
pub fn read_only(path: &Path) -> Result<History, Error> {
    read_if_there(path)?.ok_or_else(|| Error::new(path, "no such file"))
}

/// Reads the history without changing the file; `None` if there is no file.
///
/// # Errors
/// If the file is unusable.
pub fn read_if_there(path: &Path) -> Result<Option<History>, Error> {
    #[derive(Deserialize)]
    struct Version {
        schema: u32,
    }
    let bytes = match rdma_health_file::read(path, MAX_FILE, Links::Refuse) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|error| Error::new(path, error))?,
    };
    let malformed =
        |error: serde_json::Error| Error::new(path, format!("not written by rdma-health: {error}"));
    // The version first: another one may have another form.
    let Version { schema } = serde_json::from_slice(&bytes).map_err(malformed)?;
    if schema != SCHEMA {
        let what = format!("it has format version {schema}, but this program reads version {SCHEMA}");
        return Err(Error::new(path, what));
    }
    let history: History = serde_json::from_slice(&bytes).map_err(malformed)?;
    history.check().map_err(|what| Error::new(path, what))?;
    Ok(Some(history))
}

/// Saves the history. The directory is created if missing.
///
/// # Errors
/// If the directory or the file cannot be written; the old file is then unchanged.
pub fn save(path: &Path, history: &History) -> Result<(), Error> {
    let failed = |error: io::Error| Error::new(path, error);
    let new = with_suffix(path, "new");
    for path in [path, &new] {
        if let Some(reason) = refusal(path) {
            return Err(Error::new(path, reason));
        }
    }
    let bytes = serde_json::to_vec(history).map_err(|error| Error::new(path, error))?;
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    let write = || -> io::Result<()> {
        let mut file = rdma_health_file::open(
            OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o640),
            &new,
            Links::Refuse,
        )?;
        file.write_all(&bytes)?;
        // Without this, a power failure could leave an empty file under the final name.
        file.sync_all()?;
        fs::rename(&new, path)
    };
    write().map_err(|error| {
        // Do not leave a partial file on a full disk.
        let _ = fs::remove_file(&new);
        failed(error)
    })
}

/// Why the file at the path must be neither moved nor replaced: it is a directory, link or device, or another program's.
fn refusal(path: &Path) -> Option<&'static str> {
    let found = path.symlink_metadata().ok()?;
    if !found.is_file() {
        return Some(NOT_A_FILE);
    }
    // A full disk may leave an empty or partial file, and a crash one of zeros, which holds nothing of anyone.
    let mut start = Vec::new();
    let read =
        rdma_health_file::open(OpenOptions::new().read(true), path, Links::Refuse).and_then(|mut file| {
            Read::by_ref(&mut file)
                .take(BEGINNING.len() as u64)
                .read_to_end(&mut start)?;
            Ok(BEGINNING.starts_with(&start) || has_only_zeros(&start, file)?)
        });
    (!read.unwrap_or(false)).then_some(FOREIGN)
}

/// Whether a file that begins with `start`, and has at most the size of a state file, consists of zeros.
fn has_only_zeros(start: &[u8], rest: impl Read) -> io::Result<bool> {
    if start.iter().any(|byte| *byte != 0) {
        return Ok(false);
    }
    let mut bytes = Vec::new();
    rest.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    Ok(bytes.len() as u64 <= MAX_FILE && bytes.iter().all(|byte| *byte == 0))
}

/// The file's name with a suffix.
fn with_suffix(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

#[cfg(test)]
mod tests;
