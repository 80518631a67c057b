//! One attribute that is read again and again.
//!
//! The file stays open: `pread` on a kept descriptor costs a third of opening by path. Kept descriptors of a device that
//! goes away do not hold it back; they answer `ENODEV`.

use std::{
    os::fd::OwnedFd,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    process::{Resource, getrlimit},
};

use crate::{
    fact::Unread,
    root::{MAX_ATTRIBUTE, ReadError, Root, read_again},
};

/// How long a passing failure is remembered before the file is asked again.
const RETRY_AFTER: Duration = Duration::from_secs(300);

/// Descriptors kept open by all attributes together.
static KEPT: AtomicU64 = AtomicU64::new(0);

/// Half of what the process may open; the rest is for everything else. Beyond it files are opened for each read.
fn most_kept() -> u64 {
    static MOST: OnceLock<u64> = OnceLock::new();
    *MOST.get_or_init(|| getrlimit(Resource::Nofile).current.unwrap_or(1 << 20) / 2)
}

/// A descriptor that counts against [`most_kept`] for as long as it lives.
#[derive(Debug)]
struct Kept(OwnedFd);

impl Kept {
    fn new(file: OwnedFd) -> Option<Self> {
        let before = KEPT.fetch_add(1, Ordering::Relaxed);
        let kept = Self(file);
        // Dropping `kept` gives the place back.
        (before < most_kept()).then_some(kept)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        KEPT.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An attribute and what is known about reading it. Kept small: a scrape goes through a thousand of them.
#[derive(Debug)]
pub(super) struct Attribute {
    path: Box<str>,
    file: Option<Kept>,
    failed: Option<Box<Failure>>,
}

#[derive(Debug)]
struct Failure {
    unread: Unread,
    /// When to try again; `None` is never, as long as the device is there.
    retry: Option<Instant>,
}

/// What reading came to.
pub(super) enum Outcome<'a> {
    /// The bytes.
    Read(&'a [u8]),
    /// There is no such file.
    Missing,
    /// It failed just now.
    Failed(Unread),
    /// It failed before and was not tried again.
    Remembered(Unread),
}

impl Attribute {
    pub(super) fn new(path: String) -> Self {
        Self {
            path: path.into(),
            file: None,
            failed: None,
        }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Reads the attribute into `buffer`.
    pub(super) fn read<'b>(&mut self, root: &Root, buffer: &'b mut Vec<u8>) -> Outcome<'b> {
        if let Some(failure) = &self.failed {
            if failure.retry.is_none_or(|retry| Instant::now() < retry) {
                return Outcome::Remembered(failure.unread.clone());
            }
            self.failed = None;
        }
        match self.read_now(root, buffer) {
            Ok(()) => Outcome::Read(buffer),
            Err(error) => {
                self.file = None;
                if error.is_missing() {
                    Outcome::Missing
                } else {
                    Outcome::Failed(error.into_unread(&*self.path))
                }
            }
        }
    }

    /// Remembers a failure so that the next reads do not repeat it: on some devices each failing read puts a line into
    /// the kernel's log (`prometheus/node_exporter#3434`).
    pub(super) fn remember(&mut self, unread: Unread) {
        let permanent = matches!(
            unread.kind.as_str(),
            "EINVAL" | "EOPNOTSUPP" | "ENODEV" | "ENXIO" | "malformed"
        );
        self.failed = Some(Box::new(Failure {
            unread,
            retry: (!permanent).then(|| Instant::now() + RETRY_AFTER),
        }));
    }

    fn read_now(&mut self, root: &Root, buffer: &mut Vec<u8>) -> Result<(), ReadError> {
        if let Some(Kept(file)) = &self.file {
            match read_again(file, buffer, MAX_ATTRIBUTE) {
                // The device went away; one of the same name may have come, so ask by path.
                Err(ReadError::Errno(Errno::NODEV)) => self.file = None,
                other => return other,
            }
        }
        let file = root.read(&self.path, buffer, MAX_ATTRIBUTE)?;
        self.file = file.and_then(Kept::new);
        Ok(())
    }
}
