//! Reads files of an operator or another program, which may be anything: only a regular file, only up to a size, and only for
//! a time.
//!
//! Two things can block a reader for ever. Opening a FIFO waits for a writer: [`read`] and [`open`] do not wait, and refuse
//! everything but a regular file. A file system that hangs blocks the thread in the kernel, where nothing ends it:
//! [`within`] and [`Worker`] run the reading in a separate thread and stop waiting for it after [`DEADLINE`].

#![forbid(unsafe_code)]

mod worker;

use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use rustix::fs::OFlags;

pub use worker::{DEADLINE, Unanswered, Worker, within};

/// Whether a symbolic link may be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// As for most files; Kubernetes replaces configuration by swapping a link.
    Follow,
    /// A link is an error, because it could redirect what is read or written.
    Refuse,
}

/// Reads a regular file of at most `limit` bytes.
///
/// # Errors
/// If it does not exist, may not be read, is not a regular file, or is longer.
pub fn read(path: &Path, limit: u64, links: Links) -> io::Result<Vec<u8>> {
    let file = open(OpenOptions::new().read(true), path, links)?;
    let mut content = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut content)?;
    if content.len() as u64 > limit {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("longer than {}", size(limit)),
        ));
    }
    Ok(content)
}

/// Opens a regular file, or creates it if the options say so, without waiting.
///
/// # Errors
/// If it cannot be opened, or if the path is taken by something else than a regular file.
pub fn open(options: &mut OpenOptions, path: &Path, links: Links) -> io::Result<File> {
    let not_regular = || io::Error::other("not a regular file");
    let found = match links {
        Links::Follow => path.metadata(),
        Links::Refuse => path.symlink_metadata(),
    };
    // Opening a device can have effects, so that the kind is checked before, too.
    if found.is_ok_and(|found| !found.is_file()) {
        return Err(not_regular());
    }
    let mut flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    if links == Links::Refuse {
        flags |= OFlags::NOFOLLOW;
    }
    // The flags of open(2) fit into an int.
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file = options.custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(not_regular());
    }
    Ok(file)
}

fn size(bytes: u64) -> String {
    match bytes {
        0x10_0000.. => format!("{} MiB", bytes >> 20),
        0x400.. => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // in a test, a failure is a panic

    use std::{fs, os::unix::fs::symlink};

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn only_a_regular_file_within_its_limit_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name| folder.path().join(name);
        fs::write(path("file"), "four").unwrap();
        symlink("file", path("link")).unwrap();
        mknodat(CWD, path("fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        let read = |name, limit, links| {
            read(&path(name), limit, links)
                .map(|bytes| String::from_utf8(bytes).unwrap())
                .map_err(|error| error.to_string())
        };
        let other: Result<String, String> = Err("not a regular file".into());
        assert_eq!(read("file", 4, Links::Refuse), Ok("four".into()));
        assert_eq!(read("link", 4, Links::Follow), Ok("four".into()));
        assert_eq!(read("link", 4, Links::Refuse), other);
        assert_eq!(read("file", 3, Links::Follow), Err("longer than 3 bytes".into()));
        for name in ["fifo", "socket", "."] {
            assert_eq!(read(name, 4, Links::Follow), other, "{name}");
        }
        assert!(
            read("missing", 4, Links::Follow)
                .unwrap_err()
                .contains("No such file")
        );
    }
}
