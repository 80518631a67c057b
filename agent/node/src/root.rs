//! The tree a node is read from: `/`, `/host` in a container, a captured tree, or a recording of one.
//!
//! Every read is bounded in size, never leaves the tree (symbolic links included), never opens anything but regular
//! files, and never waits for a writer. What cannot be bounded here is a kernel that does not answer: see
//! [`crate::collector`].

use std::{
    cell::RefCell,
    collections::BTreeMap,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::{
    buffer::spare_capacity,
    fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat2, readlinkat},
    io::Errno,
};

use crate::{
    fact::{Fact, Unread},
    recording::{Answers, Failure, Names, Recorder, Recording, Target},
};

/// The longest attribute that is read, in bytes. Sysfs never exceeds a page.
pub const MAX_ATTRIBUTE: usize = 4096;
/// The longest other file that is read (`/proc/modules`, a saved kernel log), in bytes.
pub const MAX_FILE: usize = 16 << 20;
/// The most entries of one directory that are looked at.
pub const MAX_ENTRIES: usize = 65_536;

/// `f_type` of procfs (statfs(2)).
const PROC_SUPER_MAGIC: rustix::fs::FsWord = 0x9fa0;

/// What stands for the root of a node: a directory, or what one answered earlier.
#[derive(Debug)]
pub struct Root {
    /// `None`: all there is to ask is the recording.
    directory: Option<OwnedFd>,
    path: PathBuf,
    live: bool,
    /// Answers that go before those of the directory.
    recorded: Option<Arc<Recording>>,
    /// Keeps what the directory answers.
    recorder: Option<Arc<Recorder>>,
    /// Whether files may be missing only because nobody collected them.
    partial: bool,
    /// Sources that did not answer when this was recorded, and for how many seconds.
    hung: BTreeMap<String, u64>,
}

/// A kernel log, opened.
pub(crate) enum Log {
    /// `/dev/kmsg`: one record to each read.
    Device(OwnedFd),
    /// One record to each line.
    Lines(Vec<u8>),
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
            directory: Some(directory),
            path: path.to_owned(),
            live: false,
            recorded: None,
            recorder: None,
            partial: false,
            hung: BTreeMap::new(),
        };
        root.live = root
            .open_at("proc", OFlags::PATH | OFlags::DIRECTORY)
            .and_then(rustix::fs::fstatfs)
            .is_ok_and(|found| found.f_type == PROC_SUPER_MAGIC);
        Ok(root)
    }

    /// Stands in for a tree that is not here: answers what it answered. `live` tells whether it was a running machine.
    pub fn replay(recording: Arc<Recording>, live: bool) -> Self {
        Self {
            directory: None,
            path: PathBuf::new(),
            live,
            recorded: Some(recording),
            recorder: None,
            partial: true,
            hung: BTreeMap::new(),
        }
    }

    /// Makes these sources hang as they did when the recording was made, for so many seconds.
    #[must_use]
    pub fn with_hung(self, hung: BTreeMap<String, u64>) -> Self {
        Self { hung, ..self }
    }

    /// For how many seconds a source did not answer when this was recorded; `None` where it did.
    pub(crate) fn hung(&self, source: &str) -> Option<u64> {
        self.hung.get(source).copied()
    }

    /// Opens a directory that holds parts of a node's tree, as support bundles do. The recording answers first; what
    /// neither it nor the directory has was not collected.
    ///
    /// # Errors
    /// As for [`Root::open`].
    pub fn partial(path: &Path, recording: Arc<Recording>) -> std::io::Result<Self> {
        Ok(Self {
            live: false,
            recorded: Some(recording),
            partial: true,
            ..Self::open(path)?
        })
    }

    /// Keeps what the tree answers from now on.
    pub fn record(&mut self) -> Arc<Recorder> {
        Arc::clone(self.recorder.get_or_insert_default())
    }

    /// Where the tree lies on this machine; empty for a recording.
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
        let Some(directory) = &self.directory else {
            return Err(Errno::NOENT);
        };
        loop {
            match openat2(directory, path, flags, Mode::empty(), resolve) {
                // openat2 asks to try again where a rename elsewhere raced with the resolution.
                Err(Errno::AGAIN | Errno::INTR) => {}
                other => return other,
            }
        }
    }

    /// Reads a regular file into `buffer`, and hands it out for repeated reads with [`read_again`]; `None` where there
    /// is none to keep open.
    pub(crate) fn read(
        &self,
        path: &str,
        buffer: &mut Vec<u8>,
        limit: usize,
    ) -> Result<Option<OwnedFd>, ReadError> {
        buffer.clear();
        if let Some(answer) = self.recorded(path, |answers| answers.read.as_ref()) {
            let bytes = answer.map_err(|failure| ReadError::of(failure, limit))?;
            if bytes.len() > limit {
                return Err(ReadError::TooLong(limit));
            }
            buffer.extend_from_slice(bytes);
            return Ok(None);
        }
        let mut read = || -> Result<OwnedFd, ReadError> {
            let file = self.open_at(path, OFlags::RDONLY)?;
            match FileType::from_raw_mode(fstat(&file)?.st_mode) {
                FileType::RegularFile => {}
                other => return Err(ReadError::NotAFile(kind_name(other))),
            }
            read_again(&file, buffer, limit)?;
            Ok(file)
        };
        let result = self.refine(path, read());
        self.note(path, |answers| {
            answers.read = Some(match &result {
                Ok(_) => Ok(buffer.as_slice().into()),
                Err(error) => Err(error.into()),
            });
        });
        result.map(Some)
    }

    /// What a directory lists.
    fn list(&self, path: &str) -> Result<Names, ReadError> {
        if let Some(answer) = self.recorded(path, |answers| answers.list.as_ref()) {
            return answer
                .cloned()
                .map_err(|failure| ReadError::of(failure, MAX_ENTRIES));
        }
        let list = || -> Result<Names, ReadError> {
            let directory = self.open_at(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
            let mut names = Names::default();
            for entry in Dir::new(directory)? {
                let entry = entry?;
                let name = entry.file_name();
                if name == c"." || name == c".." {
                    continue;
                }
                if names.text.len() + names.not_text.len() == MAX_ENTRIES {
                    return Err(ReadError::TooMany(MAX_ENTRIES));
                }
                match name.to_str() {
                    Ok(name) => names.text.push(name.to_owned()),
                    Err(_) => names.not_text.push(name.to_string_lossy().into_owned()),
                }
            }
            names.text.sort();
            names.not_text.sort();
            Ok(names)
        };
        let result = self.refine(path, list());
        self.note(path, |answers| {
            answers.list = Some(result.as_ref().map(Names::clone).map_err(Failure::from));
        });
        result
    }

    /// Where a link points.
    fn link(&self, path: &str) -> Result<Target, ReadError> {
        if let Some(answer) = self.recorded(path, |answers| answers.link.as_ref()) {
            return answer.cloned().map_err(|failure| ReadError::of(failure, 0));
        }
        let link = || -> Result<Target, ReadError> {
            // The parent is resolved inside the tree first: readlinkat itself knows no such bound.
            let (parent, name) = path.rsplit_once('/').unwrap_or((".", path));
            let parent = self.open_at(parent, OFlags::PATH | OFlags::DIRECTORY)?;
            let target = readlinkat(&parent, name, Vec::new())?;
            Ok(match target.into_string() {
                Ok(target) => Target::Text(target),
                Err(error) => Target::NotText(error.into_cstring().to_string_lossy().into_owned()),
            })
        };
        let result = self.refine(path, link());
        self.note(path, |answers| {
            answers.link = Some(result.as_ref().map(Target::clone).map_err(Failure::from));
        });
        result
    }

    /// Where a path really lies inside the tree.
    fn real_path(&self, path: &str) -> Result<String, ReadError> {
        if let Some(answer) = self.recorded(path, |answers| answers.real_path.as_ref()) {
            return answer.cloned().map_err(|failure| ReadError::of(failure, 0));
        }
        let find = || -> Result<String, ReadError> {
            let file = self.open_at(path, OFlags::PATH)?;
            let own = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
            let found = readlinkat(CWD, own, Vec::new())?;
            let prefix = match std::fs::canonicalize(&self.path) {
                Ok(prefix) => prefix.to_string_lossy().trim_end_matches('/').to_owned(),
                Err(_) => String::new(),
            };
            let found = found.to_string_lossy();
            Ok(found.strip_prefix(prefix.as_str()).unwrap_or(&found).to_owned())
        };
        let result = self.refine(path, find());
        self.note(path, |answers| {
            answers.real_path = Some(result.as_ref().map(String::clone).map_err(Failure::from));
        });
        result
    }

    /// Opens a kernel log without waiting. What of it matters is noted with [`Root::note_log`].
    pub(crate) fn open_log(&self, path: &str) -> Result<Log, ReadError> {
        if let Some(answer) = self.recorded(path, |answers| answers.read.as_ref()) {
            let bytes = answer.map_err(|failure| ReadError::of(failure, MAX_FILE))?;
            return Ok(Log::Lines(bytes.to_vec()));
        }
        let open = || -> Result<Log, ReadError> {
            let file = self.open_at(path, OFlags::RDONLY)?;
            match FileType::from_raw_mode(fstat(&file)?.st_mode) {
                FileType::CharacterDevice => Ok(Log::Device(file)),
                FileType::RegularFile => {
                    let mut bytes = Vec::new();
                    read_again(&file, &mut bytes, MAX_FILE)?;
                    Ok(Log::Lines(bytes))
                }
                _ => Err(ReadError::NotAFile(NOT_FILES[6])),
            }
        };
        self.refine(path, open())
    }

    /// Keeps the records of a log that matter, or why there are none.
    pub(crate) fn note_log<'r>(
        &self,
        path: &str,
        records: Result<impl Iterator<Item = &'r str>, &ReadError>,
    ) {
        self.note(path, |answers| {
            answers.read = Some(match records {
                Ok(records) => {
                    let text: String = records.flat_map(|record| [record, "\n"]).collect();
                    Ok(text.into_bytes().into())
                }
                Err(error) => Err(error.into()),
            });
        });
    }

    /// The answer of the recording, where there is one and it has it.
    fn recorded<T>(
        &self,
        path: &str,
        which: impl Fn(&Answers) -> Option<&Result<T, Failure>>,
    ) -> Option<Result<&T, &Failure>> {
        which(self.recorded.as_deref()?.get(path)?).map(Result::as_ref)
    }

    fn note(&self, path: &str, write: impl FnOnce(&mut Answers)) {
        if let Some(recorder) = &self.recorder {
            recorder.note(path, write);
        }
    }

    /// Tells a file that is not there from one that nobody collected.
    fn refine<T>(&self, path: &str, result: Result<T, ReadError>) -> Result<T, ReadError> {
        match result {
            Err(error) if self.partial && error.is_missing() && !self.is_collected(path) => {
                Err(ReadError::NotCollected)
            }
            other => other,
        }
    }

    /// Whether a file that is missing from a partial tree was missing on the node, too: the directory of the one
    /// device or module that it belongs to was collected. Directories above these (`/proc`, `/sys/class/net`) never are
    /// collected whole.
    fn is_collected(&self, path: &str) -> bool {
        let depth = path.split('/').filter(|part| !part.is_empty()).count();
        let whole = if path.starts_with("/proc/driver/") {
            "/proc/driver"
        } else if path.starts_with("/sys/module/") && depth >= 4 || path.starts_with("/sys/") && depth >= 5 {
            path.rsplit_once('/').map_or(path, |(parent, _)| parent)
        } else {
            return false;
        };
        self.open_at(whole, OFlags::PATH | OFlags::DIRECTORY).is_ok()
    }
}

/// What a path can be in place of a file; the last is a kernel log's.
const NOT_FILES: [&str; 7] = [
    "a directory",
    "a FIFO",
    "a socket",
    "a character device",
    "a block device",
    "something else",
    "no log",
];

fn kind_name(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => NOT_FILES[0],
        FileType::Fifo => NOT_FILES[1],
        FileType::Socket => NOT_FILES[2],
        FileType::CharacterDevice => NOT_FILES[3],
        FileType::BlockDevice => NOT_FILES[4],
        _ => NOT_FILES[5],
    }
}

/// Why a read failed, before it is put into words.
#[derive(Debug)]
pub(crate) enum ReadError {
    Errno(Errno),
    NotAFile(&'static str),
    TooLong(usize),
    TooMany(usize),
    NotCollected,
}

impl From<Errno> for ReadError {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl From<&ReadError> for Failure {
    fn from(error: &ReadError) -> Self {
        match error {
            ReadError::Errno(errno) => Self::Errno(errno.raw_os_error()),
            ReadError::NotAFile(kind) => Self::NotAFile((*kind).to_owned()),
            ReadError::TooLong(_) => Self::TooLong,
            ReadError::TooMany(_) => Self::TooMany,
            ReadError::NotCollected => Self::NotCollected,
        }
    }
}

impl ReadError {
    /// The error that was recorded; `limit` is the asker's.
    fn of(failure: &Failure, limit: usize) -> Self {
        match failure {
            Failure::Errno(errno) => Self::Errno(Errno::from_raw_os_error(*errno)),
            Failure::NotAFile(kind) => Self::NotAFile(
                NOT_FILES
                    .into_iter()
                    .find(|known| known == kind)
                    .unwrap_or("something else"),
            ),
            Failure::TooLong => Self::TooLong(limit),
            Failure::TooMany => Self::TooMany(MAX_ENTRIES),
            Failure::NotCollected => Self::NotCollected,
        }
    }

    /// Whether the file is simply not there (or the device behind it is gone).
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Errno(Errno::NOENT | Errno::NOTDIR | Errno::SRCH))
    }

    pub(crate) fn into_unread(self, source: impl Into<String>) -> Unread {
        let (kind, detail) = match self {
            Self::Errno(Errno::NOENT | Errno::NOTDIR) => ("missing".into(), "there is no such file".into()),
            Self::Errno(Errno::SRCH) => ("missing".into(), "the process has ended".into()),
            Self::Errno(errno) => (errno_name(errno), errno_text(errno)),
            Self::NotAFile(kind) => ("not_a_file".into(), format!("it is {kind}, not a regular file")),
            Self::TooLong(limit) => ("too_long".into(), format!("it is longer than {limit} bytes")),
            Self::TooMany(limit) => ("too_long".into(), format!("it has more than {limit} entries")),
            Self::NotCollected => ("not_collected".into(), "it was not collected".into()),
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

/// Reads a kept file from its start into `buffer`, which is emptied first and never grows much beyond `limit`.
pub(crate) fn read_again(file: impl AsFd, buffer: &mut Vec<u8>, limit: usize) -> Result<(), ReadError> {
    buffer.clear();
    loop {
        // Into room that was never written to: zeroing it would cost more than reading the few bytes of an attribute.
        buffer.reserve(MAX_ATTRIBUTE);
        let (read, room) = (buffer.len(), buffer.capacity() - buffer.len());
        // The file offset is never moved, so that the same descriptor serves the next read.
        let n = match rustix::io::pread(&file, spare_capacity(buffer), read as u64) {
            Err(Errno::INTR) => continue,
            other => other?,
        };
        if buffer.len() > limit {
            return Err(ReadError::TooLong(limit));
        }
        // A short read is the end of a sysfs attribute; asking once more would call into the driver again.
        if n == 0 || (n < room && limit <= MAX_ATTRIBUTE) {
            return Ok(());
        }
    }
}

/// One pass of reading: a tree, and every failure met on the way.
#[derive(Debug)]
pub struct Scope<'a> {
    root: &'a Root,
    misses: RefCell<Vec<Miss>>,
}

/// A fact that a pass could not read.
#[derive(Debug)]
pub(crate) struct Miss {
    pub(crate) unread: Unread,
    /// Whether it failed in this pass, rather than in an earlier one after which it was not tried again.
    pub(crate) tried: bool,
}

impl<'a> Scope<'a> {
    /// Starts a pass over `root`.
    pub fn new(root: &'a Root) -> Self {
        Self {
            root,
            misses: RefCell::default(),
        }
    }

    /// The tree.
    pub fn root(&self) -> &'a Root {
        self.root
    }

    /// Ends the pass: everything that could not be read.
    pub(crate) fn finish(self) -> Vec<Miss> {
        self.misses.into_inner()
    }

    /// Records a failure and turns it into a fact.
    pub fn fail<T>(&self, unread: Unread) -> Fact<T> {
        self.record(&unread, true);
        unread.into()
    }

    /// Records a failure that is remembered from an earlier pass, and turns it into a fact.
    pub(crate) fn remembered<T>(&self, unread: Unread) -> Fact<T> {
        self.record(&unread, false);
        unread.into()
    }

    fn record(&self, unread: &Unread, tried: bool) {
        let unread = unread.clone();
        self.misses.borrow_mut().push(Miss { unread, tried });
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
        let mut buffer = Vec::new();
        self.root.read(path, &mut buffer, limit)?;
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
                    // Read into a page; a few bytes of it are kept, for as long as the agent runs.
                    text.shrink_to_fit();
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
        self.settle(path, self.root.list(path), true).map(|names| {
            for name in &names.not_text {
                let _: Fact<()> = self.malformed(path, name, "names that are text");
            }
            names.text
        })
    }

    /// Where a symbolic link points, as written; a missing one is absent.
    pub fn link(&self, path: &str) -> Fact<String> {
        self.settle(path, self.root.link(path), true)
            .and_then(|target| match target {
                Target::Text(target) => Fact::Known(target),
                Target::NotText(shown) => self.malformed(path, &shown, "a link to text"),
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
        self.settle(path, self.root.real_path(path), true)
    }
}
