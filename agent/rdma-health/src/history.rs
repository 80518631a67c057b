//! Keeps the history of a node in a file, so that it outlives restarts and reboots.
//!
//! One JSON file, written anew beside the old one and renamed over it: whoever reads finds the old or the new, never half
//! of one. A file that cannot be used is set aside (`state.json.bad`), told, and the history begins anew.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use rdma_health_node::history::{History, SCHEMA};
use serde::Deserialize;

/// The longest file that is read or written, in bytes; what is remembered is bounded to far less.
const MAX_FILE: u64 = 16 << 20;

/// Why the history could not be loaded or saved.
#[derive(Debug, thiserror::Error)]
#[error("{}: {what}", path.display())]
pub(crate) struct Error {
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

/// Loads what was saved; an empty history where nothing was. Where the file cannot be used the history is empty, too,
/// and the error says why.
pub(crate) fn load(path: &Path) -> (History, Option<Error>) {
    let error = match read_if_there(path) {
        Ok(history) => return (history.unwrap_or_default(), None),
        Err(error) => error,
    };
    // So that whoever wants to know can look at it; the next save would replace it. Nothing is lost where this fails.
    let _ = fs::rename(path, beside(path, "bad"));
    (History::default(), Some(error))
}

/// The history in the file, which is left as it is.
///
/// # Errors
/// Where there is no such file, or it cannot be used.
pub(crate) fn read_only(path: &Path) -> Result<History, Error> {
    read_if_there(path)?.ok_or_else(|| Error::new(path, "there is no such file"))
}

/// The history in the file, which is left as it is; `None` where there is no file.
///
/// # Errors
/// Where it cannot be used.
pub(crate) fn read_if_there(path: &Path) -> Result<Option<History>, Error> {
    #[derive(Deserialize)]
    struct Version {
        schema: u32,
    }
    let failed = |error: io::Error| Error::new(path, error);
    let file = match open(OpenOptions::new().read(true), path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(failed)?,
    };
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(Error::new(path, "it is no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(Error::new(path, format!("longer than {} MiB", MAX_FILE >> 20)));
    }
    let malformed = |error: serde_json::Error| Error::new(path, format!("it is no history: {error}"));
    // The version first: another one may have another form.
    let Version { schema } = serde_json::from_slice(&bytes).map_err(malformed)?;
    if schema != SCHEMA {
        let what = format!("it is of version {schema}, this program knows version {SCHEMA}");
        return Err(Error::new(path, what));
    }
    let history: History = serde_json::from_slice(&bytes).map_err(malformed)?;
    history.check().map_err(|what| Error::new(path, what))?;
    Ok(Some(history))
}

/// Saves the history. The directory is made where it lacks.
///
/// # Errors
/// Where the directory or the file cannot be written; what was saved before stays.
pub(crate) fn save(path: &Path, history: &History) -> Result<(), Error> {
    let failed = |error: io::Error| Error::new(path, error);
    let bytes = serde_json::to_vec(history).map_err(|error| Error::new(path, error))?;
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    let new = beside(path, "new");
    let write = || -> io::Result<()> {
        let mut file = open(
            OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o640),
            &new,
        )?;
        file.write_all(&bytes)?;
        // Without this, a power failure could leave an empty file under the final name.
        file.sync_all()?;
        fs::rename(&new, path)
    };
    write().map_err(|error| {
        // A full disk is no reason to leave half a file behind.
        let _ = fs::remove_file(&new);
        failed(error)
    })
}

/// Opens without following a link, so that nobody makes us read or write elsewhere, and without waiting for a FIFO.
fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    options
        .custom_flags(i32::try_from(flags.bits()).unwrap_or_default())
        .open(path)
}

/// The file's name with an ending.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

#[cfg(test)]
mod tests;
