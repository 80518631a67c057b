//! What a tree answered, kept so that the same readers can ask again without the tree.
//!
//! Readers ask four questions of a path: what a file holds, what a directory lists, where a link points, and where the
//! path really lies. A recording holds each answer, errors included, so that it can be replayed exactly: see
//! [`crate::Root::replay`]. What nobody asked is not in it, and a replay says so.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

/// Why a question had no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The kernel's error, as in `errno.h`.
    Errno(i32),
    /// It is no regular file; what it is instead, in words.
    NotAFile(String),
    /// It is longer than readers take.
    TooLong,
    /// It has more entries than readers take.
    TooMany,
    /// Nobody asked when the rest was collected.
    NotCollected,
}

impl Failure {
    /// Whether there was no such file.
    pub fn is_missing(&self) -> bool {
        use rustix::io::Errno;
        let missing = [Errno::NOENT, Errno::NOTDIR, Errno::SRCH].map(Errno::raw_os_error);
        matches!(self, Self::Errno(errno) if missing.contains(errno))
    }
}

/// What a directory lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// The names, sorted.
    pub text: Vec<String>,
    /// Names that are not UTF-8, as far as they can be shown.
    pub not_text: Vec<String>,
}

/// Where a link points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// As written.
    Text(String),
    /// Not UTF-8; as far as it can be shown.
    NotText(String),
}

/// The answers about one path; `None` where nobody asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answers {
    /// What the file holds.
    pub read: Option<Result<Arc<[u8]>, Failure>>,
    /// What the directory lists.
    pub list: Option<Result<Names, Failure>>,
    /// Where the link points.
    pub link: Option<Result<Target, Failure>>,
    /// The path itself with all links resolved.
    pub real_path: Option<Result<String, Failure>>,
}

/// Every answer of a tree, by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recording {
    answers: BTreeMap<String, Answers>,
}

impl Recording {
    /// The answers about a path; `None` where nobody asked anything.
    pub fn get(&self, path: &str) -> Option<&Answers> {
        self.answers.get(path)
    }

    /// The answers about a path, to be changed.
    pub fn entry(&mut self, path: &str) -> &mut Answers {
        self.answers.entry(path.to_owned()).or_default()
    }

    /// Forgets every answer about a path.
    pub fn remove(&mut self, path: &str) {
        self.answers.remove(path);
    }

    /// Every path with its answers, in order of path.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Answers)> {
        self.answers
            .iter()
            .map(|(path, answers)| (path.as_str(), answers))
    }
}

/// Keeps what a tree answers while it is read; shared by all readers.
#[derive(Debug, Default)]
pub struct Recorder(Mutex<Recording>);

impl Recorder {
    /// What was answered so far.
    pub fn recording(&self) -> Recording {
        self.lock().clone()
    }

    pub(crate) fn note(&self, path: &str, write: impl FnOnce(&mut Answers)) {
        write(self.lock().entry(path));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Recording> {
        // Each change is one assignment, so the recording is whole after a panic elsewhere.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
