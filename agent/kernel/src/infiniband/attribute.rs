//! An attribute that is read repeatedly.
//!
//! The file stays open: `pread` on an open descriptor costs a third of opening by path. Open descriptors do not prevent
//! the removal of a device; they then return `ENODEV`.

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
    fact::{Fact, Unread, UnreadKind},
    recording::Failure,
    root::{MAX_ATTRIBUTE, Root, Scope, directory::read_again},
};

/// How long a temporary failure is cached before the file is read again.
const RETRY_AFTER: Duration = Duration::from_secs(300);

/// Number of descriptors that all attributes keep open.
static KEPT: AtomicU64 = AtomicU64::new(0);

/// Half of the process's limit of open files. Beyond it, files are opened for each read.
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
        // Dropping `kept` decrements the count.
        (before < most_kept()).then_some(kept)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        KEPT.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An attribute and its cached failure. It is small, because a scrape reads a thousand of them.
#[derive(Debug)]
pub(super) struct Attribute {
    path: Box<str>,
    file: Option<Kept>,
    remembered: Option<Box<Remembered>>,
}

/// A cached answer: the file is not read again.
#[derive(Debug)]
enum Remembered {
    /// The device does not have it.
    NotOffered,
    /// It failed.
    Failed {
        unread: Unread,
        /// When to read it again; `None` is never, as long as the device exists.
        retry: Option<Instant>,
    },
}

/// The outcome of reading.
pub(super) enum Outcome<'a> {
    /// The bytes.
    Read(&'a [u8]),
    /// The file does not exist, or the device reports that it does not have it.
    Absent,
    /// It failed.
    Failed(Unread),
    /// It failed before and was not read again.
    Remembered(Unread),
}

impl Attribute {
    pub(super) fn new(path: String) -> Self {
        Self {
            path: path.into(),
            file: None,
            remembered: None,
        }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Reads the attribute into `buffer`.
    pub(super) fn read<'b>(&mut self, root: &Root, buffer: &'b mut Vec<u8>) -> Outcome<'b> {
        match self.remembered.as_deref() {
            None => {}
            Some(Remembered::NotOffered) => return Outcome::Absent,
            Some(Remembered::Failed { unread, retry }) => {
                if retry.is_none_or(|retry| Instant::now() < retry) {
                    return Outcome::Remembered(unread.clone());
                }
                self.remembered = None;
            }
        }
        match self.read_now(root, buffer) {
            Ok(()) => Outcome::Read(buffer),
            Err(error) => {
                self.file = None;
                if error.is_missing() {
                    Outcome::Absent
                } else {
                    Outcome::Failed(error.into_unread(&*self.path, MAX_ATTRIBUTE))
                }
            }
        }
    }

    /// Caches a failure so that the next reads do not repeat it: on some devices each failed read adds a line to the
    /// kernel log (`prometheus/node_exporter#3434`).
    pub(super) fn remember(&mut self, unread: Unread) {
        let permanent = matches!(
            unread.kind,
            UnreadKind::Errno(Errno::INVAL | Errno::OPNOTSUPP | Errno::NODEV | Errno::NXIO)
        );
        self.remembered = Some(Box::new(Remembered::Failed {
            unread,
            retry: (!permanent).then(|| Instant::now() + RETRY_AFTER),
        }));
    }

    /// Caches the device's answer that it does not have it, because reading again could send another datagram to it.
    pub(super) fn remember_absent(&mut self) {
        self.remembered = Some(Box::new(Remembered::NotOffered));
    }

    fn read_now(&mut self, root: &Root, buffer: &mut Vec<u8>) -> Result<(), Failure> {
        if let Some(Kept(file)) = &self.file {
            match read_again(file, buffer, MAX_ATTRIBUTE) {
                // The device was removed; another one may have the same name, so open the file by path.
                Err(Failure::Errno(Errno::NODEV)) => self.file = None,
                other => return other,
            }
        }
        let file = root.read(&self.path, buffer, MAX_ATTRIBUTE)?;
        self.file = file.and_then(Kept::new);
        Ok(())
    }
}

/// An attribute that is always read again: with some drivers, `rate` fails with EINVAL while the port is down.
pub(super) fn parsed<T>(
    scope: &Scope<'_>,
    attribute: &mut Attribute,
    buffer: &mut Vec<u8>,
    expected: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Fact<T> {
    let bytes = match attribute.read(scope.root(), buffer) {
        Outcome::Read(bytes) => bytes,
        Outcome::Absent => return Fact::Absent,
        Outcome::Failed(unread) | Outcome::Remembered(unread) => return scope.fail(unread),
    };
    let text = String::from_utf8_lossy(bytes);
    match parse(text.trim()) {
        Some(value) => Fact::Known(value),
        None => scope.malformed(attribute.path(), &text, expected),
    }
}
