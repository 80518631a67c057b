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
//! ```
//!
//! - Paths are relative to the root of the tree. A directory is listed only where it is empty or its mode is not 755.
//! - `|` begins one line of text. A `\` line after it: the text does not end in a newline. A `~` line: the file
//!   went on, the capture cut it there.
//! - `=` begins bytes in hexadecimal at an offset, which is hexadecimal too. Bytes that no line gives are zero, and
//!   the last line may be an offset alone: the length of the file.
//! - `error`: a file whose read fails on the real node. It is unpacked as a directory, since that too can be opened
//!   and fails only when it is read (with `EISDIR`), for root as for everybody else.
//! - No path and no link leads out of the tree, so that a test never sees the machine it runs on.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use tempfile::TempDir;

/// Bytes on one `=` line.
const HEX_WIDTH: usize = 32;

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

    /// Reads an archive.
    ///
    /// # Errors
    /// Where a line is malformed, a path appears twice, or something leads out of the tree.
    pub fn parse(text: &str) -> Result<Self> {
        let mut tree = Self::default();
        let mut lines = text.lines().zip(1..).peekable();
        while let Some((line, number)) = lines.next() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let (path, mut entry) = parse_record(line).with_context(|| format!("line {number}: {line}"))?;
            while let Some((line, number)) =
                lines.next_if(|(line, _)| line.starts_with(['|', '=', '\\', '~']))
            {
                extend(&mut entry, line).with_context(|| format!("line {number}: {line}"))?;
            }
            ensure!(
                !tree.entries.contains_key(&path),
                "line {number}: {path} appears twice"
            );
            tree.insert(&path, entry)
                .with_context(|| format!("line {number}: {line}"))?;
        }
        tree.check_parents()?;
        Ok(tree)
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

    /// Unpacks into a new temporary directory.
    ///
    /// # Errors
    /// Where an entry lies below one that is no directory, or the directory cannot be written.
    pub fn unpack(&self) -> Result<TempDir> {
        let root = tempfile::Builder::new().prefix("rdma-health-tree-").tempdir()?;
        self.unpack_into(root.path())?;
        Ok(root)
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
                    Some(_) => bail!("{name} lies below {parent}, which is no directory"),
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Tree {
    /// Writes the archive: the same tree gives the same text.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (path, entry) in &self.entries {
            match entry {
                Entry::Directory { mode } => writeln!(out, "dir {mode:o} {path}")?,
                Entry::Link { target } => writeln!(out, "link {path} -> {target}")?,
                Entry::Unreadable { mode, errno } => writeln!(out, "error {mode:o} {errno} {path}")?,
                Entry::File { mode, content, cut } => {
                    writeln!(out, "file {mode:o} {path}")?;
                    match as_text(content) {
                        Some(text) => write_text(out, text)?,
                        None => write_hex(out, content)?,
                    }
                    if *cut {
                        out.write_str("~\n")?;
                    }
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

fn parse_record(line: &str) -> Result<(String, Entry)> {
    let (kind, rest) = line
        .split_once(' ')
        .context("expected `dir`, `file`, `link` or `error`")?;
    if kind == "link" {
        let (path, target) = rest
            .split_once(" -> ")
            .context("expected `link PATH -> TARGET`")?;
        return Ok((
            path.to_owned(),
            Entry::Link {
                target: target.to_owned(),
            },
        ));
    }
    let (mode, rest) = rest.split_once(' ').context("expected a mode and a path")?;
    let mode = u32::from_str_radix(mode, 8).context("the mode is not octal")?;
    ensure!(mode <= 0o777, "a mode has no more than nine bits");
    Ok(match kind {
        "dir" => (rest.to_owned(), Entry::Directory { mode }),
        "file" => (
            rest.to_owned(),
            Entry::File {
                mode,
                content: Vec::new(),
                cut: false,
            },
        ),
        "error" => {
            let (errno, path) = rest.split_once(' ').context("expected `error MODE ERRNO PATH`")?;
            (
                path.to_owned(),
                Entry::Unreadable {
                    mode,
                    errno: errno.to_owned(),
                },
            )
        }
        _ => bail!("expected `dir`, `file`, `link` or `error`"),
    })
}

/// Adds one line of content to the file that precedes it.
fn extend(entry: &mut Entry, line: &str) -> Result<()> {
    let Entry::File { content, cut, .. } = entry else {
        bail!("only a file has content")
    };
    ensure!(!*cut, "content after the cut");
    match line.split_at(1) {
        ("|", text) => {
            content.extend_from_slice(text.as_bytes());
            content.push(b'\n');
        }
        ("=", hex) => extend_hex(content, hex)?,
        ("\\", "") => ensure!(content.pop() == Some(b'\n'), "no line before it"),
        ("~", "") => *cut = true,
        _ => bail!("expected nothing after the sign"),
    }
    Ok(())
}

fn extend_hex(content: &mut Vec<u8>, line: &str) -> Result<()> {
    let (offset, digits) = line.split_once(' ').unwrap_or((line, ""));
    let offset = usize::from_str_radix(offset, 16).context("the offset is not hexadecimal")?;
    ensure!(offset >= content.len(), "offsets must rise");
    ensure!(offset <= 1 << 20, "the file is too long for an archive");
    ensure!(
        digits.is_ascii() && digits.len() % 2 == 0,
        "two digits to each byte"
    );
    content.resize(offset, 0);
    for at in (0..digits.len()).step_by(2) {
        content.push(u8::from_str_radix(&digits[at..at + 2], 16).context("a byte is not hexadecimal")?);
    }
    Ok(())
}

/// The content as text, where lines of text give it back byte for byte.
fn as_text(content: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(content).ok()?;
    text.chars()
        .all(|char| !char.is_control() || char == '\n' || char == '\t')
        .then_some(text)
}

fn write_text(out: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    for line in text.split_inclusive('\n') {
        writeln!(out, "|{}", line.trim_end_matches('\n'))?;
    }
    if !text.is_empty() && !text.ends_with('\n') {
        out.write_str("\\\n")?;
    }
    Ok(())
}

fn write_hex(out: &mut fmt::Formatter<'_>, content: &[u8]) -> fmt::Result {
    let mut written = 0;
    for (chunk, number) in content.chunks(HEX_WIDTH).zip(0..) {
        // PCI configuration space is 4 KiB of which all but a few lines are zero.
        if chunk.iter().all(|byte| *byte == 0) {
            continue;
        }
        write!(out, "={:04x} ", number * HEX_WIDTH)?;
        chunk.iter().try_for_each(|byte| write!(out, "{byte:02x}"))?;
        out.write_char('\n')?;
        written = number * HEX_WIDTH + chunk.len();
    }
    if written < content.len() {
        writeln!(out, "={:04x}", content.len())?;
    }
    Ok(())
}

fn is_inside(path: &str) -> bool {
    !path.is_empty()
        && !path.contains(" -> ")
        && !path.contains(char::is_control)
        && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// Whether the link at `path` cannot lead above the root. A `..` may stand only at the front, as in every link of
/// sysfs: after another link it would mean a directory that the text does not tell.
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
