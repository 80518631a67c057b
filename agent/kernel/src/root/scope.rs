//! One pass of reading, which turns answers into facts.

use std::{cell::RefCell, marker::PhantomData, sync::Arc};

use rdma_health_protocol::text::excerpt;
use serde::de::DeserializeOwned;

use super::{
    MAX_ATTRIBUTE, MAX_ENTRIES, MAX_FILE, Root,
    directory::{ListDirectory, ReadLink, ResolvePath},
    log::{ReadLog, Records},
    modes::ReadModes,
    service::AskService,
};
use crate::{
    fact::{Errno, Fact, Unread, UnreadKind},
    recording::{Failure, Question, Target},
};

/// One pass of reading: a tree, and all failures so far.
#[derive(Debug)]
pub struct Scope<'a> {
    root: &'a Root,
    misses: RefCell<Vec<Miss>>,
}

/// A fact that a pass could not read.
#[derive(Debug)]
pub(crate) struct Miss {
    pub(crate) unread: Unread,
    /// Whether it failed in this pass; otherwise in an earlier one, and it was not read again.
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

    /// What could not be read so far in this pass.
    pub(crate) fn unread(&self) -> Vec<Unread> {
        self.misses
            .borrow()
            .iter()
            .map(|miss| miss.unread.clone())
            .collect()
    }

    /// Records a failure and turns it into a fact.
    pub fn fail<T>(&self, unread: Unread) -> Fact<T> {
        self.record(&unread, true);
        unread.into()
    }

    /// Records a cached failure of an earlier pass, and turns it into a fact.
    pub(crate) fn remembered<T>(&self, unread: Unread) -> Fact<T> {
        self.record(&unread, false);
        unread.into()
    }

    fn record(&self, unread: &Unread, tried: bool) {
        let unread = unread.clone();
        self.misses.borrow_mut().push(Miss { unread, tried });
    }

    /// A fact whose content is invalid.
    pub fn malformed<T>(&self, source: &str, found: &str, expected: &str) -> Fact<T> {
        let shown = excerpt(found, 80);
        self.fail(Unread {
            source: source.into(),
            kind: UnreadKind::Malformed,
            detail: format!("expected {expected}, found \"{shown}\""),
        })
    }

    /// The fact that an answer is, where `limit` bytes or entries are allowed; absent where what was asked is missing.
    fn optional_fact<T>(&self, source: &str, limit: usize, answer: Result<T, Failure>) -> Fact<T> {
        match answer {
            Err(failure) if failure.is_missing() => Fact::Absent,
            answer => self.required_fact(source, limit, answer),
        }
    }

    /// The same; unread where what was asked is missing.
    fn required_fact<T>(&self, source: &str, limit: usize, answer: Result<T, Failure>) -> Fact<T> {
        match answer {
            Ok(value) => Fact::Known(value),
            Err(failure) => self.fail(failure.into_unread(source, limit)),
        }
    }

    /// The bytes of a file, at most `limit`.
    fn bytes(&self, path: &str, limit: usize) -> Result<Vec<u8>, Failure> {
        let mut buffer = Vec::new();
        self.root.read(path, &mut buffer, limit)?;
        Ok(buffer)
    }

    /// The bytes of a binary attribute (PCI `config`); a missing one is absent.
    pub fn binary(&self, path: &str) -> Fact<Vec<u8>> {
        self.optional_fact(path, MAX_ATTRIBUTE, self.bytes(path, MAX_ATTRIBUTE))
    }

    /// A binary file that may be long; a missing one is absent.
    pub fn optional_bytes(&self, path: &str) -> Fact<Vec<u8>> {
        self.optional_fact(path, MAX_FILE, self.bytes(path, MAX_FILE))
    }

    fn text_of(&self, path: &str, limit: usize, optional: bool) -> Fact<String> {
        let bytes = self.bytes(path, limit);
        let bytes = if optional {
            self.optional_fact(path, limit, bytes)
        } else {
            self.required_fact(path, limit, bytes)
        };
        self.text(path, bytes)
    }

    fn text(&self, path: &str, bytes: Fact<Vec<u8>>) -> Fact<String> {
        bytes.and_then(|bytes| match String::from_utf8(bytes) {
            Ok(mut text) => {
                text.truncate(text.trim_end_matches(['\n', '\0', ' ']).len());
                // Read into a page-sized buffer, but keep only the few bytes that are needed, for as long as the agent runs.
                text.shrink_to_fit();
                Fact::Known(text)
            }
            Err(error) => self.malformed(path, &String::from_utf8_lossy(error.as_bytes()), "text"),
        })
    }

    /// An attribute that every node has: if it is missing, it is unread.
    pub fn required(&self, path: &str) -> Fact<String> {
        self.text_of(path, MAX_ATTRIBUTE, false)
    }

    /// An attribute that some nodes do not have: if it is missing, it is absent.
    pub fn optional(&self, path: &str) -> Fact<String> {
        self.text_of(path, MAX_ATTRIBUTE, true)
    }

    /// A file that may be long and that every node has.
    pub fn required_file(&self, path: &str) -> Fact<String> {
        self.text_of(path, MAX_FILE, false)
    }

    /// A file that may be long and that some nodes do not have.
    pub fn optional_file(&self, path: &str) -> Fact<String> {
        self.text_of(path, MAX_FILE, true)
    }

    /// An optional file that only makes other facts more precise: if it was not collected, it is absent, too.
    pub fn collected(&self, path: &str) -> Fact<String> {
        self.collected_of(path, MAX_ATTRIBUTE)
    }

    /// The same of a file that may be long.
    pub fn collected_file(&self, path: &str) -> Fact<String> {
        self.collected_of(path, MAX_FILE)
    }

    fn collected_of(&self, path: &str, limit: usize) -> Fact<String> {
        match self.bytes(path, limit) {
            Err(Failure::NotCollected) => Fact::Absent,
            bytes => self.text(path, self.optional_fact(path, limit, bytes)),
        }
    }

    /// The text of a file that only makes other facts more precise, at most `limit` bytes; `None` if it is missing, was not collected or cannot be
    /// read.
    pub(crate) fn collected_up_to(&self, path: &str, limit: usize) -> Option<String> {
        String::from_utf8(self.bytes(path, limit).ok()?).ok()
    }

    /// Which of these device nodes are character devices, with mode and group; `None` if there is none, or that was not collected.
    pub(crate) fn modes(&self, name: &str, paths: &[String]) -> Option<String> {
        self.root.ask(ReadModes { name, paths }).ok()
    }

    /// The names in a directory that only makes other facts more precise; `None` if it is missing, was not collected or cannot be read.
    pub fn collected_entries(&self, path: &str) -> Option<Vec<String>> {
        Some(self.root.ask(ListDirectory(path)).ok()?.text)
    }

    /// An optional attribute, parsed; `expected` describes it in the error.
    pub fn parsed<T>(&self, path: &str, expected: &str, parse: impl FnOnce(&str) -> Option<T>) -> Fact<T> {
        self.optional(path).and_then(|text| match parse(text.trim()) {
            Some(value) => Fact::Known(value),
            None => self.malformed(path, &text, expected),
        })
    }

    /// An optional attribute with a decimal number.
    pub fn number<T: std::str::FromStr>(&self, path: &str) -> Fact<T> {
        self.parsed(path, "a number", |text| text.parse().ok())
    }

    /// The names in a directory, sorted; a missing directory is absent. Names that are not text are recorded as unread.
    pub fn entries(&self, path: &str) -> Fact<Vec<String>> {
        self.optional_fact(path, MAX_ENTRIES, self.root.ask(ListDirectory(path)))
            .map(|names| {
                for name in &names.not_text {
                    let _: Fact<()> = self.malformed(path, name, "names that are text");
                }
                names.text
            })
    }

    /// Whether there is anything in a directory, also with a name that is not text; a missing directory is absent.
    pub fn has_entries(&self, path: &str) -> Fact<bool> {
        self.optional_fact(path, MAX_ENTRIES, self.root.ask(ListDirectory(path)))
            .map(|names| !(names.text.is_empty() && names.not_text.is_empty()))
    }

    /// Whether a directory is missing or empty. One that a recording does not have was not asked for, which says nothing.
    pub(crate) fn is_hidden(&self, path: &str) -> bool {
        match self.root.ask(ListDirectory(path)) {
            Ok(names) => names.text.is_empty() && names.not_text.is_empty(),
            Err(failure) => failure.is_missing(),
        }
    }

    /// A fact that is not visible here, although another fact shows that it exists.
    pub(crate) fn hidden<T>(&self, source: &str, although: &str) -> Fact<T> {
        self.fail(Unread {
            source: source.into(),
            kind: UnreadKind::Missing,
            detail: format!("it is not visible here, although {although}"),
        })
    }

    /// The last component of the target of a link that only makes other facts more precise; `None` if there is none, it was not collected or
    /// cannot be read.
    pub(crate) fn collected_link_name(&self, path: &str) -> Option<String> {
        match self.root.ask(ReadLink(path)).ok()? {
            Target::Text(target) => Some(target.rsplit('/').next().unwrap_or(&target).to_owned()),
            Target::NotText(_) => None,
        }
    }

    /// The unresolved target of a symbolic link; a missing one is absent.
    pub fn link(&self, path: &str) -> Fact<String> {
        self.optional_fact(path, MAX_ATTRIBUTE, self.root.ask(ReadLink(path)))
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

    /// The real path of a file inside the tree, with links resolved (`/sys/devices/…`); a missing one is absent.
    pub fn real_path(&self, path: &str) -> Fact<String> {
        self.optional_fact(path, MAX_ATTRIBUTE, self.root.ask(ResolvePath(path)))
    }

    /// The relevant records of a kernel log; a missing log is absent.
    pub(crate) fn log<R: Records>(&self, path: &str) -> Fact<R> {
        let log = ReadLog {
            path,
            records: PhantomData,
        };
        self.optional_fact(path, MAX_FILE, self.root.ask(log))
    }

    /// The relevant records of a log that only makes other facts more precise; `None` if it is missing, was not collected or cannot be read.
    pub(crate) fn collected_log<R: Records>(&self, path: &str) -> Option<R> {
        let log = ReadLog {
            path,
            records: PhantomData,
        };
        self.root.ask(log).ok()
    }

    /// What a service answers: netlink, the kubelet. `live` asks it on a running machine and returns its answer as a JSON
    /// document; in a replay, in a tree and in a text fixture the recorded answer stands for it.
    pub fn service<T: DeserializeOwned>(
        &self,
        question: Question,
        live: impl FnMut() -> Result<Vec<u8>, Failure>,
    ) -> Fact<T> {
        let source = question.to_string();
        let answer = self.root.ask(AskService { question, live });
        self.document(&source, answer)
    }

    /// The same for netlink, where some errors say that there is no such thing.
    pub(crate) fn netlink<T: DeserializeOwned>(
        &self,
        question: Question,
        absent: &[Errno],
        live: impl FnMut() -> Result<Vec<u8>, Failure>,
    ) -> Fact<T> {
        let source = question.to_string();
        match self.root.ask(AskService { question, live }) {
            Err(Failure::Errno(errno)) if absent.contains(&errno) => Fact::Absent,
            answer => self.document(&source, answer),
        }
    }

    fn document<T: DeserializeOwned>(&self, source: &str, answer: Result<Arc<[u8]>, Failure>) -> Fact<T> {
        self.optional_fact(source, MAX_FILE, answer)
            .and_then(|bytes| match serde_json::from_slice(&bytes) {
                Ok(value) => Fact::Known(value),
                Err(error) => self.fail(Unread {
                    source: source.into(),
                    kind: UnreadKind::Malformed,
                    detail: format!(
                        "the answer does not have the expected content ({error}), found \"{}\"",
                        excerpt(&String::from_utf8_lossy(&bytes), 80)
                    ),
                }),
            })
    }
}
