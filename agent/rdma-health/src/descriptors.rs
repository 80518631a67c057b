//! The file descriptors that a command needs, and the event loop that needs some of them.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
};

use anyhow::{Context, bail};
use rustix::{
    fs::OFlags,
    io::Errno,
    process::{Resource, getrlimit, setrlimit},
};
use tokio::runtime::{Builder, Runtime};

/// How many files a command may have open at a time in addition to those that are already open: the event loop, the verbs helper
/// with its pipes, sockets, and what is being read. The agent serves a few connections with it.
const NEEDED: usize = 32;

/// Makes sure that enough files can be opened. Without them every reading would fail, one by one.
///
/// # Errors
/// The limit, how many files can be opened, and how to raise it.
pub(crate) fn ensure() -> anyhow::Result<()> {
    let Err((free, _)) = reserve() else {
        return Ok(());
    };
    raise_limit();
    let Err((now_free, error)) = reserve() else {
        return Ok(());
    };
    let free = now_free.max(free);
    let reason = error.raw_os_error().map(Errno::from_raw_os_error);
    if reason == Some(Errno::NFILE) {
        bail!(
            "the kernel's table of open files is full and leaves {free}, {NEEDED} are needed; see /proc/sys/fs/file-nr and raise it \
             with sysctl -w fs.file-max=NUMBER"
        );
    }
    if reason != Some(Errno::MFILE) {
        return Err(error).context(format!("{free} more files can be opened, {NEEDED} are needed"));
    }
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    bail!(
        "the limit of open files is {limit} and leaves {free}, {NEEDED} are needed; raise it with ulimit -n 1024 or, in a systemd unit, \
         LimitNOFILE=1024"
    )
}

/// An event loop in this thread.
///
/// # Errors
/// As for [`ensure`], and if the system refuses it.
pub(crate) fn runtime() -> anyhow::Result<Runtime> {
    // Tokio panics if it cannot open the sockets for its signals.
    ensure()?;
    Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the event loop")
}

/// Raises the limit as far as this process may.
pub(crate) fn raise_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Without it, `ensure` reports the limit that remains.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Opens as many files as are needed and closes them again. Else how many could be opened, and why no more.
fn reserve() -> Result<(), (usize, io::Error)> {
    // A descriptor of a path: opening it does not wait for a file system.
    let path = i32::try_from(OFlags::PATH.bits()).unwrap_or_default();
    let mut open: Vec<File> = Vec::with_capacity(NEEDED);
    while open.len() < NEEDED {
        match OpenOptions::new().read(true).custom_flags(path).open("/") {
            Ok(file) => open.push(file),
            Err(error) => return Err((open.len(), error)),
        }
    }
    Ok(())
}
