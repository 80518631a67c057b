//! Opens what a user names, which may be on a file system that hangs.

use std::{
    fs::File,
    io::{self, Cursor, Read},
    path::Path,
};

use anyhow::Context;
use rdma_health_file::within;
use rdma_health_kernel::Root;

/// The longest regular file that is read as a whole, in bytes.
const MOST: u64 = 128 << 20;

/// Opens a node's root directory.
///
/// # Errors
/// As for [`Root::open`], and if the file system does not respond.
pub(crate) fn root(path: &Path) -> anyhow::Result<Root> {
    let own = path.to_owned();
    within(move || Root::open(&own))
        .map_err(io::Error::from)
        .and_then(|opened| opened)
        .with_context(|| format!("cannot read the root directory {}", path.display()))
}

/// Opens a file to read. A regular file is read at once; a pipe is waited for.
///
/// # Errors
/// If it cannot be read, if a regular file is too long, or if its file system does not respond.
pub(crate) fn file(path: &Path) -> io::Result<Box<dyn Read>> {
    let own = path.to_owned();
    let regular = within(move || own.metadata().map(|found| found.is_file()))??;
    if !regular {
        return Ok(Box::new(File::open(path)?));
    }
    let own = path.to_owned();
    let content = within(move || rdma_health_file::read(&own, MOST, rdma_health_file::Links::Follow))??;
    Ok(Box::new(Cursor::new(content)))
}
