//! The questions that a directory answers: the contents of files, the names in directories, the targets of links.

use std::{
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::{Path, PathBuf},
};

use procfs::process::Process;
use rustix::{
    buffer::spare_capacity,
    fs::{
        AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, StatxFlags, fstat, major, minor, openat2,
        readlinkat, statx,
    },
    io::Errno,
};

use super::{Ask, MAX_ATTRIBUTE, MAX_ENTRIES, Root};
use crate::recording::{Answer, Failure, Names, Question, Target};

/// As much of a PCI configuration space as the kernel shows to a process without `CAP_SYS_ADMIN`, in bytes.
const UNPRIVILEGED_SPACE: usize = 64;

/// A directory below which every path is resolved.
#[derive(Debug)]
pub(super) struct Directory {
    file: OwnedFd,
    /// Its path on this machine.
    path: PathBuf,
}

impl Directory {
    pub(super) fn open(path: &Path) -> std::io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty())?;
        openat2(&file, ".", flags, Mode::empty(), ResolveFlags::IN_ROOT)?;
        Ok(Self {
            file,
            path: path.to_owned(),
        })
    }

    /// Opens one path of the tree. Links resolve inside the tree; `/proc`'s magic links do not resolve at all.
    pub(super) fn open_at(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        // NONBLOCK: opening a FIFO must not wait for a writer. A PATH descriptor never waits, and accepts neither flag.
        let calm = if flags.contains(OFlags::PATH) {
            OFlags::empty()
        } else {
            OFlags::NONBLOCK | OFlags::NOCTTY
        };
        let flags = flags | calm | OFlags::CLOEXEC;
        loop {
            match openat2(&self.file, path, flags, Mode::empty(), resolve) {
                // openat2 returns EAGAIN if a concurrent rename interfered with the resolution.
                Err(Errno::AGAIN | Errno::INTR) => {}
                other => return other,
            }
        }
    }

    /// Why this process may not open a character device: `EACCES` for its mode, `EPERM` for the rules of a container. A file that is not the
    /// device with this number is not opened.
    pub(super) fn refuses_device(&self, path: &str, number: &str) -> Option<Errno> {
        let found = fstat(self.open_at(path, OFlags::PATH).ok()?).ok()?;
        let is_device = FileType::from_raw_mode(found.st_mode) == FileType::CharacterDevice;
        if !is_device || format!("{}:{}", major(found.st_rdev), minor(found.st_rdev)) != number {
            return None;
        }
        let refused = self.open_at(path, OFlags::RDWR).err()?;
        matches!(refused, Errno::ACCESS | Errno::PERM).then_some(refused)
    }

    /// Whether the directory at `path` is in a devtmpfs, which only the list of this process's mounts shows. False before Linux 5.8, whose
    /// `statx` does not say in which mount a file is.
    pub(super) fn is_devtmpfs(&self, path: &str) -> bool {
        let mount = || {
            let directory = self.open_at(path, OFlags::PATH | OFlags::DIRECTORY)?;
            let found = statx(&directory, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
            Ok::<_, Errno>((found.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(found.stx_mnt_id))
        };
        let Ok(Some(mount)) = mount() else {
            return false;
        };
        let mounts = Process::myself().and_then(|process| process.mountinfo());
        mounts.is_ok_and(|mounts| {
            mounts
                .into_iter()
                .any(|one| u64::try_from(one.mnt_id) == Ok(mount) && one.fs_type == "devtmpfs")
        })
    }

    /// Whether a file that is missing from a partial tree was missing on the node, too: the directory of the one
    /// device or module that it belongs to was collected. Directories above these (`/proc`, `/sys/class/net`) never are
    /// collected whole.
    pub(super) fn holds_all_beside(&self, path: &str) -> bool {
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

/// Reads a regular file into a buffer; the file is handed out for repeated reads with [`read_again`].
pub(super) struct ReadFile<'a> {
    pub(super) path: &'a str,
    pub(super) buffer: &'a mut Vec<u8>,
    /// Maximum number of bytes.
    pub(super) limit: usize,
}

impl Ask for ReadFile<'_> {
    /// `None` if there is no file to keep open.
    type Found = Option<OwnedFd>;

    fn question(&self) -> Question {
        Question::Read(self.path.to_owned())
    }

    fn ask(&mut self, root: &Root) -> Result<Self::Found, Failure> {
        self.buffer.clear();
        let file = match root.directory()?.open_at(self.path, OFlags::RDONLY) {
            Err(Errno::NOENT) => {
                let helper = root.privileged.as_ref();
                let content = helper.and_then(|helper| helper.file(self.path));
                self.buffer.extend_from_slice(&content.ok_or(Errno::NOENT)??);
                return Ok(None);
            }
            file => file?,
        };
        match FileType::from_raw_mode(fstat(&file)?.st_mode) {
            FileType::RegularFile => {}
            other => return Err(Failure::NotAFile(other.into())),
        }
        read_again(&file, self.buffer, self.limit)?;
        if self.buffer.len() <= UNPRIVILEGED_SPACE
            && let Some(space) = root
                .privileged
                .as_ref()
                .and_then(|helper| helper.space(self.path))
        {
            self.buffer.clear();
            self.buffer.extend_from_slice(&space?);
            return Ok(None);
        }
        Ok(Some(file))
    }

    fn replay(&mut self, answer: &Answer) -> Result<Self::Found, Failure> {
        let Answer::Bytes(bytes) = answer else {
            return Err(Failure::NotCollected);
        };
        self.buffer.clear();
        if bytes.len() > self.limit {
            return Err(Failure::TooLong);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(None)
    }

    fn answer(&self, _: &Self::Found) -> Answer {
        Answer::Bytes(self.buffer.as_slice().into())
    }
}

/// Lists a directory.
pub(super) struct ListDirectory<'a>(pub(super) &'a str);

impl Ask for ListDirectory<'_> {
    type Found = Names;

    fn question(&self) -> Question {
        Question::List(self.0.to_owned())
    }

    fn ask(&mut self, root: &Root) -> Result<Names, Failure> {
        let directory = root
            .directory()?
            .open_at(self.0, OFlags::RDONLY | OFlags::DIRECTORY);
        let directory = match directory {
            Err(Errno::NOENT) => {
                let helper = root.privileged.as_ref();
                return helper
                    .and_then(|helper| helper.names(self.0))
                    .ok_or(Errno::NOENT)?;
            }
            directory => directory?,
        };
        let mut names = Names::default();
        for entry in Dir::new(directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            if names.text.len() + names.not_text.len() == MAX_ENTRIES {
                return Err(Failure::TooMany);
            }
            match name.to_str() {
                Ok(name) => names.text.push(name.to_owned()),
                Err(_) => names.not_text.push(name.to_string_lossy().into_owned()),
            }
        }
        names.text.sort();
        names.not_text.sort();
        Ok(names)
    }

    fn replay(&mut self, answer: &Answer) -> Result<Names, Failure> {
        match answer {
            Answer::Names(names) => Ok(names.clone()),
            _ => Err(Failure::NotCollected),
        }
    }

    fn answer(&self, found: &Names) -> Answer {
        Answer::Names(found.clone())
    }
}

/// Reads a symbolic link.
pub(super) struct ReadLink<'a>(pub(super) &'a str);

impl Ask for ReadLink<'_> {
    type Found = Target;

    fn question(&self) -> Question {
        Question::Link(self.0.to_owned())
    }

    fn ask(&mut self, root: &Root) -> Result<Target, Failure> {
        // Resolve the parent inside the tree first, because readlinkat itself can leave the tree.
        let (parent, name) = self.0.rsplit_once('/').unwrap_or((".", self.0));
        let parent = root
            .directory()?
            .open_at(parent, OFlags::PATH | OFlags::DIRECTORY)?;
        let target = readlinkat(&parent, name, Vec::new())?;
        Ok(match target.into_string() {
            Ok(target) => Target::Text(target),
            Err(error) => Target::NotText(error.into_cstring().to_string_lossy().into_owned()),
        })
    }

    fn replay(&mut self, answer: &Answer) -> Result<Target, Failure> {
        match answer {
            Answer::Target(target) => Ok(target.clone()),
            _ => Err(Failure::NotCollected),
        }
    }

    fn answer(&self, found: &Target) -> Answer {
        Answer::Target(found.clone())
    }
}

/// Resolves all links of a path, inside the tree.
pub(super) struct ResolvePath<'a>(pub(super) &'a str);

impl Ask for ResolvePath<'_> {
    type Found = String;

    fn question(&self) -> Question {
        Question::RealPath(self.0.to_owned())
    }

    fn ask(&mut self, root: &Root) -> Result<String, Failure> {
        let directory = root.directory()?;
        let file = directory.open_at(self.0, OFlags::PATH)?;
        let own = format!("/proc/self/fd/{}", file.as_raw_fd());
        let found = readlinkat(CWD, own, Vec::new())?;
        let prefix = match std::fs::canonicalize(&directory.path) {
            Ok(prefix) => prefix.to_string_lossy().trim_end_matches('/').to_owned(),
            Err(_) => String::new(),
        };
        let found = found.to_string_lossy();
        Ok(found.strip_prefix(prefix.as_str()).unwrap_or(&found).to_owned())
    }

    fn replay(&mut self, answer: &Answer) -> Result<String, Failure> {
        match answer {
            Answer::RealPath(path) => Ok(path.clone()),
            _ => Err(Failure::NotCollected),
        }
    }

    fn answer(&self, found: &String) -> Answer {
        Answer::RealPath(found.clone())
    }
}

/// Reads a kept file from its start into `buffer`, which is emptied first and never grows much beyond `limit`.
pub(crate) fn read_again(file: impl AsFd, buffer: &mut Vec<u8>, limit: usize) -> Result<(), Failure> {
    buffer.clear();
    loop {
        // Reads into uninitialised memory, because zeroing it would cost more than reading the few bytes of an attribute.
        buffer.reserve(MAX_ATTRIBUTE);
        let (read, room) = (buffer.len(), buffer.capacity() - buffer.len());
        // The file offset never changes, so the same descriptor works for the next read.
        let n = match rustix::io::pread(&file, spare_capacity(buffer), read as u64) {
            Err(Errno::INTR) => continue,
            other => other?,
        };
        if buffer.len() > limit {
            return Err(Failure::TooLong);
        }
        // A short read is the end of a sysfs attribute; reading again would call into the driver again.
        if n == 0 || (n < room && limit <= MAX_ATTRIBUTE) {
            return Ok(());
        }
    }
}
