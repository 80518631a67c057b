//! The tree a node is read from: `/`, `/host` in a container, or a captured tree.
//!
//! Every read is bounded in size, never leaves the tree (symbolic links included), never opens anything but regular
//! files, and never waits for a writer. What cannot be bounded here is a kernel that does not answer: see
//! [`crate::collector`].

use std::{
    cell::RefCell,
    ffi::CString,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat2, readlinkat},
    io::Errno,
};

use crate::fact::{Fact, Unread};

/// The longest attribute that is read, in bytes. Sysfs never exceeds a page.
pub const MAX_ATTRIBUTE: usize = 4096;
/// The longest other file that is read (`/proc/modules`, a saved kernel log), in bytes.
pub const MAX_FILE: usize = 16 << 20;
/// The most entries of one directory that are looked at.
pub const MAX_ENTRIES: usize = 65_536;

/// `f_type` of procfs (statfs(2)).
const PROC_SUPER_MAGIC: rustix::fs::FsWord = 0x9fa0;

/// A directory that stands for the root of a node.
#[derive(Debug)]
pub struct Root {
    directory: OwnedFd,
    path: PathBuf,
    live: bool,
}

impl Root {
    /// Opens the tree below `path`.
    ///
    /// # Errors
    /// The system's, where `path` is not a directory that can be opened or the kernel has no `openat2` (before 5.6).
    pub fn open(path: &Path) -> std::io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty())?;
        openat2(&directory, ".", flags, Mode::empty(), ResolveFlags::IN_ROOT)?;
        let mut root = Self {
            directory,
            path: path.to_owned(),
            live: false,
        };
        root.live = root
            .open_at("proc", OFlags::PATH | OFlags::DIRECTORY)
            .and_then(rustix::fs::fstatfs)
            .is_ok_and(|found| found.f_type == PROC_SUPER_MAGIC);
        Ok(root)
    }

    /// Where the tree lies on this machine.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this is the running machine's own tree, at `/` or mounted elsewhere: its `/proc` is a procfs. Found out when
    /// it was opened; asking again could hang.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Opens one path of the tree. Links resolve inside the tree; `/proc`'s magic links do not resolve at all.
    fn open_at(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        // NONBLOCK: opening a FIFO must not wait for a writer. A PATH descriptor waits for nobody and takes neither flag.
        let calm = if flags.contains(OFlags::PATH) {
            OFlags::empty()
        } else {
            OFlags::NONBLOCK | OFlags::NOCTTY
        };
        let flags = flags | calm | OFlags::CLOEXEC;
        loop {
            match openat2(&self.directory, path, flags, Mode::empty(), resolve) {
                // openat2 asks to try again where a rename elsewhere raced with the resolution.
                Err(Errno::AGAIN | Errno::INTR) => {}
                other => return other,
            }
        }
    }

    /// Opens a regular file for repeated reads with [`read_again`].
    pub(crate) fn open_file(&self, path: &str) -> Result<OwnedFd, ReadError> {
        let file = self.open_at(path, OFlags::RDONLY)?;
        match FileType::from_raw_mode(fstat(&file)?.st_mode) {
            FileType::RegularFile => Ok(file),
            other => Err(ReadError::NotAFile(kind_name(other))),
        }
    }

    /// Opens a file of any type without waiting; for `/dev/kmsg`, which is a character device.
    pub(crate) fn open_any(&self, path: &str) -> Result<(OwnedFd, FileType), ReadError> {
        let file = self.open_at(path, OFlags::RDONLY)?;
        let kind = FileType::from_raw_mode(fstat(&file)?.st_mode);
        Ok((file, kind))
    }
}

fn kind_name(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => "a directory",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice => "a character device",
        FileType::BlockDevice => "a block device",
        _ => "something else",
    }
}

/// Why a read failed, before it is put into words.
#[derive(Debug)]
pub(crate) enum ReadError {
    Errno(Errno),
    NotAFile(&'static str),
    TooLong(usize),
    TooMany(usize),
}

impl From<Errno> for ReadError {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl ReadError {
    /// Whether the file is simply not there (or the device behind it is gone).
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Errno(Errno::NOENT | Errno::NOTDIR))
    }

    pub(crate) fn into_unread(self, source: impl Into<String>) -> Unread {
        let (kind, detail) = match self {
            Self::Errno(Errno::NOENT | Errno::NOTDIR) => ("missing".into(), "there is no such file".into()),
            Self::Errno(errno) => (errno_name(errno), errno_text(errno)),
            Self::NotAFile(kind) => ("not_a_file".into(), format!("it is {kind}, not a regular file")),
            Self::TooLong(limit) => ("too_long".into(), format!("it is longer than {limit} bytes")),
            Self::TooMany(limit) => ("too_long".into(), format!("it has more than {limit} entries")),
        };
        Unread {
            source: source.into(),
            kind,
            detail,
        }
    }
}

/// The symbol of an errno as sysfs and procfs return it, or `errno N`.
pub(crate) fn errno_name(errno: Errno) -> String {
    let name = match errno {
        Errno::PERM => "EPERM",
        Errno::NOENT => "ENOENT",
        Errno::INTR => "EINTR",
        Errno::IO => "EIO",
        Errno::NXIO => "ENXIO",
        Errno::AGAIN => "EAGAIN",
        Errno::NOMEM => "ENOMEM",
        Errno::ACCESS => "EACCES",
        Errno::BUSY => "EBUSY",
        Errno::NODEV => "ENODEV",
        Errno::NOTDIR => "ENOTDIR",
        Errno::ISDIR => "EISDIR",
        Errno::INVAL => "EINVAL",
        Errno::MFILE => "EMFILE",
        Errno::NFILE => "ENFILE",
        Errno::LOOP => "ELOOP",
        Errno::NAMETOOLONG => "ENAMETOOLONG",
        Errno::NODATA => "ENODATA",
        Errno::OPNOTSUPP => "EOPNOTSUPP",
        Errno::TIMEDOUT => "ETIMEDOUT",
        Errno::STALE => "ESTALE",
        Errno::NOSYS => "ENOSYS",
        Errno::XDEV => "EXDEV",
        other => return format!("errno {}", other.raw_os_error()),
    };
    name.into()
}

fn errno_text(errno: Errno) -> String {
    let text = std::io::Error::from(errno).to_string();
    match text.rfind(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// Reads a kept file from its start into `buffer`, which is emptied first and never grows beyond `limit`.
pub(crate) fn read_again(file: impl AsFd, buffer: &mut Vec<u8>, limit: usize) -> Result<(), ReadError> {
    buffer.clear();
    let mut chunk = [0; MAX_ATTRIBUTE];
    loop {
        // The file offset is never moved, so that the same descriptor serves the next read.
        let n = match rustix::io::pread(&file, &mut chunk[..], buffer.len() as u64) {
            Err(Errno::INTR) => continue,
            other => other?,
        };
        if n == 0 {
            return Ok(());
        }
        if buffer.len() + n > limit {
            return Err(ReadError::TooLong(limit));
        }
        buffer.extend_from_slice(&chunk[..n]);
        // A short read is the end of a sysfs attribute; asking once more would call into the driver again.
        if n < chunk.len() && limit <= MAX_ATTRIBUTE {
            return Ok(());
        }
    }
}

/// One pass of reading: a tree, and every failure met on the way.
#[derive(Debug)]
pub struct Scope<'a> {
    root: &'a Root,
    unread: RefCell<Vec<Unread>>,
}

impl<'a> Scope<'a> {
    /// Starts a pass over `root`.
    pub fn new(root: &'a Root) -> Self {
        Self {
            root,
            unread: RefCell::default(),
        }
    }

    /// The tree.
    pub fn root(&self) -> &'a Root {
        self.root
    }

    /// Ends the pass: everything that could not be read.
    pub fn finish(self) -> Vec<Unread> {
        self.unread.into_inner()
    }

    /// Records a failure and turns it into a fact.
    pub fn fail<T>(&self, unread: Unread) -> Fact<T> {
        self.unread.borrow_mut().push(unread.clone());
        unread.into()
    }

    /// A fact that was read and makes no sense.
    pub fn malformed<T>(&self, source: &str, found: &str, expected: &str) -> Fact<T> {
        let mut shown: String = found.chars().take(80).flat_map(char::escape_debug).collect();
        if found.chars().nth(80).is_some() {
            shown.push('…');
        }
        self.fail(Unread {
            source: source.into(),
            kind: "malformed".into(),
            detail: format!("expected {expected}, found \"{shown}\""),
        })
    }

    pub(crate) fn settle<T>(&self, source: &str, result: Result<T, ReadError>, optional: bool) -> Fact<T> {
        match result {
            Ok(value) => Fact::Known(value),
            Err(error) if optional && error.is_missing() => Fact::Absent,
            Err(error) => self.fail(error.into_unread(source)),
        }
    }

    /// The bytes of a file, at most `limit`.
    fn bytes(&self, path: &str, limit: usize) -> Result<Vec<u8>, ReadError> {
        let file = self.root.open_file(path)?;
        let mut buffer = Vec::new();
        read_again(&file, &mut buffer, limit)?;
        Ok(buffer)
    }

    /// The bytes of a binary attribute (PCI `config`); a missing one is absent.
    pub fn binary(&self, path: &str) -> Fact<Vec<u8>> {
        self.settle(path, self.bytes(path, MAX_ATTRIBUTE), true)
    }

    fn text_of(&self, path: &str, limit: usize, optional: bool) -> Fact<String> {
        self.settle(path, self.bytes(path, limit), optional)
            .and_then(|bytes| match String::from_utf8(bytes) {
                Ok(mut text) => {
                    text.truncate(text.trim_end_matches(['\n', '\0', ' ']).len());
                    Fact::Known(text)
                }
                Err(error) => self.malformed(path, &String::from_utf8_lossy(error.as_bytes()), "text"),
            })
    }

    /// An attribute that every such node has: a missing one is unread.
    pub fn required(&self, path: &str) -> Fact<String> {
        self.text_of(path, MAX_ATTRIBUTE, false)
    }

    /// An attribute that some nodes lack: a missing one is absent.
    pub fn optional(&self, path: &str) -> Fact<String> {
        self.text_of(path, MAX_ATTRIBUTE, true)
    }

    /// A file that may be long, that every such node has.
    pub fn required_file(&self, path: &str) -> Fact<String> {
        self.text_of(path, MAX_FILE, false)
    }

    /// A file that may be long, that some nodes lack.
    pub fn optional_file(&self, path: &str) -> Fact<String> {
        self.text_of(path, MAX_FILE, true)
    }

    /// An optional attribute, parsed; `expected` words the error.
    pub fn parsed<T>(&self, path: &str, expected: &str, parse: impl FnOnce(&str) -> Option<T>) -> Fact<T> {
        self.optional(path).and_then(|text| match parse(text.trim()) {
            Some(value) => Fact::Known(value),
            None => self.malformed(path, &text, expected),
        })
    }

    /// An optional attribute that holds a decimal number.
    pub fn number<T: std::str::FromStr>(&self, path: &str) -> Fact<T> {
        self.parsed(path, "a number", |text| text.parse().ok())
    }

    /// The names in a directory, sorted; a missing directory is absent. Names that are not text are told as unread.
    pub fn entries(&self, path: &str) -> Fact<Vec<String>> {
        let read = || -> Result<Vec<String>, ReadError> {
            let directory = self.root.open_at(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
            let mut names = Vec::new();
            for entry in Dir::new(directory)? {
                let entry = entry?;
                let name = entry.file_name();
                if name == c"." || name == c".." {
                    continue;
                }
                if names.len() == MAX_ENTRIES {
                    return Err(ReadError::TooMany(MAX_ENTRIES));
                }
                match name.to_str() {
                    Ok(name) => names.push(name.to_owned()),
                    Err(_) => {
                        let _: Fact<()> =
                            self.malformed(path, &name.to_string_lossy(), "names that are text");
                    }
                }
            }
            names.sort();
            Ok(names)
        };
        self.settle(path, read(), true)
    }

    /// Where a symbolic link points, as written; a missing one is absent.
    pub fn link(&self, path: &str) -> Fact<String> {
        let read = || -> Result<CString, ReadError> {
            // The parent is resolved inside the tree first: readlinkat itself knows no such bound.
            let (parent, name) = path.rsplit_once('/').unwrap_or((".", path));
            let parent = self.root.open_at(parent, OFlags::PATH | OFlags::DIRECTORY)?;
            Ok(readlinkat(&parent, name, Vec::new())?)
        };
        self.settle(path, read(), true)
            .and_then(|target| match target.into_string() {
                Ok(target) => Fact::Known(target),
                Err(error) => self.malformed(path, &error.into_cstring().to_string_lossy(), "a link to text"),
            })
    }

    /// The last component of a link's target: a driver's or device's name.
    pub fn link_name(&self, path: &str) -> Fact<String> {
        self.link(path).map(|target| match target.rsplit('/').next() {
            Some(name) => name.to_owned(),
            None => target,
        })
    }

    /// The path a file really has inside the tree, links resolved (`/sys/devices/…`); a missing one is absent.
    pub fn real_path(&self, path: &str) -> Fact<String> {
        let read = || -> Result<CString, ReadError> {
            let file = self.root.open_at(path, OFlags::PATH)?;
            let own = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
            Ok(readlinkat(CWD, own, Vec::new())?)
        };
        let prefix = match std::fs::canonicalize(self.root.path()) {
            Ok(prefix) => prefix.to_string_lossy().trim_end_matches('/').to_owned(),
            Err(_) => String::new(),
        };
        self.settle(path, read(), true).map(|found| {
            let found = found.to_string_lossy();
            found.strip_prefix(prefix.as_str()).unwrap_or(&found).to_owned()
        })
    }
}
