//! A node's `/sys` and `/proc` as one text file.
//!
//! A fixture needs what git and an editor handle badly: thousands of one-line files, symbolic links that lead from
//! one class to another, modes, and files whose read fails. So a tree is kept as an archive, one record per node
//! of the tree, sorted by path, which a reviewer can read and edit:
//!
//! ```text
//! # A comment; blank lines are ignored too.
//! dir 755 sys/kernel/iommu_groups
//! file 444 sys/class/net/eth0/mtu
//! |1500
//! file 644 sys/devices/pci0000:00/0000:00:03.0/config
//! =0000 f41a411007051000
//! =0100
//! link sys/class/net/eth0 -> ../../devices/pci0000:00/0000:00:03.0/virtio1/net/eth0
//! error 444 EINVAL sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/7
//! answer netlink ethtool pause-get eth0
//! |{"rx": true, "tx": true}
//! failure EOPNOTSUPP netlink ethtool fec-get eth0
//! ```
//!
//! - Paths are relative to the root of the tree. A directory is listed only where it is empty or its mode is not 755.
//! - `|` begins one line of text. A `\` line after it: the text does not end in a newline. A `~` line: the file
//!   went on, the capture cut it there.
//! - `=` begins bytes in hexadecimal at an offset, which is hexadecimal too. Bytes that no line gives are zero, and
//!   the last line may be an offset alone: the length of the file.
//! - `error`: a file whose read fails on the real node. It is unpacked as a directory, since that too can be opened
//!   and fails only when it is read (with `EISDIR`), for root as for everybody else.
//! - `answer`: what something other than a file answers, as a JSON document in lines of text. The question is `netlink
//!   FAMILY COMMAND [OBJECT]`, `verbs devices` or `kubelet METHOD`: see [`Question`], which has the form of each answer.
//! - `failure`: such a question that fails with an errno. Answers are not unpacked: [`Tree::open`] gives them to the
//!   root that readers ask.
//! - No path and no link leads out of the tree, so that a test never sees the machine it runs on.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use rdma_health_kernel::{
    Root,
    recording::{Answer, Question, Recording},
};
use tempfile::TempDir;

mod answers;
mod archive;
mod changes;

pub use changes::GidFile;

/// One node of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A directory, empty or with an unusual mode.
    Directory {
        /// Permission bits.
        mode: u32,
    },
    /// A regular file, or what was read of one.
    File {
        /// Permission bits.
        mode: u32,
        /// What it holds.
        content: Vec<u8>,
        /// Whether the real file goes on after `content`.
        cut: bool,
    },
    /// A symbolic link, as `readlink` returns it.
    Link {
        /// Where it leads, relative to the directory it is in.
        target: String,
    },
    /// A file whose read fails.
    Unreadable {
        /// Permission bits.
        mode: u32,
        /// The error by its name, such as `EINVAL`.
        errno: String,
    },
}

/// A tree, by path; paths are relative to its root and sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    entries: BTreeMap<String, Entry>,
    /// What is answered by something other than a file.
    answers: Recording,
}

/// Unpacks the archive `text` into a new temporary directory, which is the root of the tree.
///
/// # Errors
/// Where the archive is malformed (the message names the line) or the directory cannot be written.
pub fn unpack(text: &str) -> Result<TempDir> {
    Tree::parse(text)?.unpack()
}

/// Unpacks `fixtures/NAME.tree` of this repository.
///
/// # Errors
/// As for [`unpack`], and where there is no such fixture.
pub fn fixture(name: &str) -> Result<TempDir> {
    Tree::fixture(name)?.unpack()
}

impl Tree {
    /// Reads `fixtures/NAME.tree` of this repository, to be changed before it is unpacked.
    ///
    /// # Errors
    /// Where there is no such fixture or it is malformed.
    pub fn fixture(name: &str) -> Result<Self> {
        let path = fixtures().join(format!("{name}.tree"));
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("in {}", path.display()))
    }

    /// Adds an entry or replaces the one at `path`.
    ///
    /// # Errors
    /// Where the path or the link leads out of the tree, or the archive could not express it.
    pub fn insert(&mut self, path: &str, entry: Entry) -> Result<()> {
        ensure!(is_inside(path), "not a plain path inside the tree: {path:?}");
        if let Entry::Link { target } = &entry {
            ensure!(
                stays_inside(path, target),
                "a link that leads out of the tree: {path} -> {target}"
            );
        }
        self.entries.insert(path.to_owned(), entry);
        Ok(())
    }

    /// Adds or replaces the readable file `path`.
    ///
    /// # Errors
    /// As for [`Tree::insert`].
    pub fn write(&mut self, path: &str, content: impl AsRef<[u8]>) -> Result<()> {
        let content = content.as_ref().to_vec();
        self.insert(
            path,
            Entry::File {
                mode: 0o644,
                content,
                cut: false,
            },
        )
    }

    /// Adds or replaces the answer to a question that no file answers: a JSON document or an errno.
    ///
    /// # Errors
    /// Where the archive could not express it.
    pub fn answer(&mut self, question: Question, answer: Answer) -> Result<()> {
        answers::check(&question, &answer)?;
        self.answers.insert(question, answer);
        Ok(())
    }

    /// Takes `path` and all below it out of the tree. Returns whether there was anything.
    pub fn remove(&mut self, path: &str) -> bool {
        let before = self.entries.len();
        let below = format!("{path}/");
        self.entries
            .retain(|name, _| name != path && !name.starts_with(&below));
        self.entries.len() < before
    }

    /// The entry at `path`; links on the way are not followed.
    pub fn get(&self, path: &str) -> Option<&Entry> {
        self.entries.get(path)
    }

    /// Every entry with its path, sorted.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(path, entry)| (path.as_str(), entry))
    }

    /// The only path that ends so.
    ///
    /// # Panics
    /// If none or several do: the test is wrong.
    pub fn path(&self, end: &str) -> String {
        let mut paths = self.entries.keys().filter(|path| path.ends_with(end));
        let only = paths.next().unwrap_or_else(|| panic!("no path ends in {end}"));
        assert_eq!(paths.next(), None, "several paths end in {end}");
        only.clone()
    }

    /// Unpacks into a new temporary directory.
    ///
    /// # Errors
    /// Where an entry lies below one that is not a directory, or the directory cannot be written.
    pub fn unpack(&self) -> Result<TempDir> {
        let root = tempfile::Builder::new().prefix("rdma-health-tree-").tempdir()?;
        self.unpack_into(root.path())?;
        Ok(root)
    }

    /// Unpacks into a new temporary directory and opens it as the root of a node, which also answers what no file does.
    /// The directory must outlive the root.
    ///
    /// # Errors
    /// As for [`Tree::unpack`].
    pub fn open(&self) -> Result<(TempDir, Root)> {
        let folder = self.unpack()?;
        let root = Root::open(folder.path())?.answering(Arc::new(self.answers.clone()));
        Ok((folder, root))
    }

    /// Unpacks into the existing directory `root`.
    ///
    /// # Errors
    /// As for [`Tree::unpack`].
    pub fn unpack_into(&self, root: &Path) -> Result<()> {
        self.check_parents()?;
        for (name, entry) in &self.entries {
            let path = root.join(name);
            create(&path, entry).with_context(|| format!("unpacking {}", path.display()))?;
        }
        // Modes last, so that a read-only directory can be filled. The owner keeps every right to a directory:
        // without it the tree could not be removed.
        for (name, entry) in &self.entries {
            let mode = match entry {
                Entry::Link { .. } => continue,
                Entry::File { mode, .. } => *mode,
                Entry::Directory { mode } | Entry::Unreadable { mode, .. } => mode | 0o700,
            };
            fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode & 0o777))?;
        }
        Ok(())
    }

    /// Refuses an entry below a link or a file: through a link, unpacking could write anywhere.
    fn check_parents(&self) -> Result<()> {
        for name in self.entries.keys() {
            for parent in Path::new(name).ancestors().skip(1).filter_map(Path::to_str) {
                match self.entries.get(parent) {
                    None | Some(Entry::Directory { .. }) => {}
                    Some(_) => bail!("{name} lies below {parent}, which is not a directory"),
                }
            }
        }
        Ok(())
    }
}

/// The folder of this repository that holds the archives.
pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures")
}

fn create(path: &Path, entry: &Entry) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    match entry {
        Entry::Directory { .. } | Entry::Unreadable { .. } => fs::create_dir_all(path),
        Entry::File { content, .. } => fs::write(path, content),
        Entry::Link { target } => symlink(target, path),
    }
}

fn is_inside(path: &str) -> bool {
    !path.is_empty()
        && !path.contains(" -> ")
        && !path.contains(char::is_control)
        && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// Whether the link at `path` cannot lead above the root. A `..` may stand only at the front, as in every link of
/// sysfs: after another link it would mean a directory that the text does not define.
fn stays_inside(path: &str, target: &str) -> bool {
    let depth = path.split('/').count() - 1;
    let up = target.split('/').take_while(|part| *part == "..").count();
    !target.is_empty()
        && !target.starts_with('/')
        && !target.contains(char::is_control)
        && up <= depth
        && target.split('/').skip(up).all(|part| part != "..")
}

#[cfg(test)]
mod tests;
