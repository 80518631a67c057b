//! The text form of a tree: records are parsed and written.

use std::fmt::{self, Write as _};

use anyhow::{Context as _, Result, bail, ensure};
use rdma_health_kernel::{
    fact::UnreadKind,
    recording::{Answer, Failure, Question},
};

use super::{Entry, Tree, answers};

/// Bytes on one `=` line.
const HEX_WIDTH: usize = 32;

/// What a record of an archive describes.
enum Subject {
    /// A node of the tree.
    Path(String),
    /// A question that no file answers.
    Question(Question),
}

impl Tree {
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
            let (subject, mut entry) =
                parse_record(line).with_context(|| format!("line {number}: {line}"))?;
            while let Some((line, number)) =
                lines.next_if(|(line, _)| line.starts_with(['|', '=', '\\', '~']))
            {
                extend(&mut entry, line).with_context(|| format!("line {number}: {line}"))?;
            }
            let twice = match &subject {
                Subject::Path(path) => tree.entries.contains_key(path),
                Subject::Question(question) => tree.answers.get(question).is_some(),
            };
            ensure!(!twice, "line {number}: {line} appears twice");
            let inserted = match subject {
                Subject::Path(path) => tree.insert(&path, entry),
                Subject::Question(question) => {
                    as_answer(entry).and_then(|answer| tree.answer(question, answer))
                }
            };
            inserted.with_context(|| format!("line {number}: {line}"))?;
        }
        tree.check_parents()?;
        Ok(tree)
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
        for (question, answer) in self.answers.iter() {
            match answer {
                Answer::Bytes(document) => {
                    writeln!(out, "answer {question}")?;
                    // A JSON document is UTF-8.
                    write_text(out, &String::from_utf8_lossy(document))?;
                }
                Answer::Failed(Failure::Errno(errno)) => {
                    writeln!(out, "failure {} {question}", UnreadKind::Errno(*errno))?;
                }
                // `Tree::answer` lets no other in.
                _ => return Err(fmt::Error),
            }
        }
        Ok(())
    }
}

/// The kinds of records, for messages.
const KINDS: &str = "expected `dir`, `file`, `link`, `error`, `answer` or `failure`";

fn parse_record(line: &str) -> Result<(Subject, Entry)> {
    let (kind, rest) = line.split_once(' ').context(KINDS)?;
    match kind {
        "link" => {
            let (path, target) = rest
                .split_once(" -> ")
                .context("expected `link PATH -> TARGET`")?;
            let target = target.to_owned();
            return Ok((Subject::Path(path.to_owned()), Entry::Link { target }));
        }
        "answer" => return Ok((Subject::Question(answers::parse_question(rest)?), file(0o444))),
        "failure" => {
            let (errno, question) = rest
                .split_once(' ')
                .context("expected `failure ERRNO QUESTION`")?;
            let entry = Entry::Unreadable {
                mode: 0o444,
                errno: errno.to_owned(),
            };
            return Ok((Subject::Question(answers::parse_question(question)?), entry));
        }
        _ => {}
    }
    let (mode, rest) = rest.split_once(' ').context("expected a mode and a path")?;
    let mode = u32::from_str_radix(mode, 8).context("the mode is not octal")?;
    ensure!(mode <= 0o777, "a mode has no more than nine bits");
    let (path, entry) = match kind {
        "dir" => (rest, Entry::Directory { mode }),
        "file" => (rest, file(mode)),
        "error" => {
            let (errno, path) = rest.split_once(' ').context("expected `error MODE ERRNO PATH`")?;
            let errno = errno.to_owned();
            (path, Entry::Unreadable { mode, errno })
        }
        _ => bail!(KINDS),
    };
    Ok((Subject::Path(path.to_owned()), entry))
}

/// An empty file, for the lines that follow.
fn file(mode: u32) -> Entry {
    Entry::File {
        mode,
        content: Vec::new(),
        cut: false,
    }
}

/// The record of a question, read like that of a file, as its answer.
fn as_answer(entry: Entry) -> Result<Answer> {
    match entry {
        Entry::File { content, cut, .. } if !cut => Ok(Answer::Bytes(content.into())),
        Entry::Unreadable { errno, .. } => Ok(Answer::Failed(answers::parse_failure(&errno)?)),
        _ => bail!("an answer must be whole"),
    }
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
pub(super) fn as_text(content: &[u8]) -> Option<&str> {
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
