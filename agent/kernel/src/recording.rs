//! Recorded answers of a node, so that the same readers can run again without the node.
//!
//! A recording contains questions and answers, including failures, so that it can be replayed exactly: see
//! [`crate::Root::replay`]. Files, netlink, libibverbs and the kubelet all use a [`Question`] and an [`Answer`], and
//! snapshots, anonymisation and text fixtures use only these. A question that is not in a recording was not asked, and a
//! replay reports it as not collected.

mod answer;
mod question;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

pub use answer::{Answer, Failure, FileKind, Names, Target};
pub use question::{Form, Question};

/// Every answer of a node, by question.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recording {
    answers: BTreeMap<Question, Answer>,
    /// Sources that did not respond in time, and for how many seconds: they do not respond in a replay either.
    pub hung: BTreeMap<String, u64>,
}

impl Recording {
    /// The answer to a question; `None` if it was not asked.
    pub fn get(&self, question: &Question) -> Option<&Answer> {
        self.answers.get(question)
    }

    /// The content of a file; `None` if it was not read or could not be.
    pub fn file(&self, path: &str) -> Option<&Arc<[u8]>> {
        match self.get(&Question::Read(path.to_owned()))? {
            Answer::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Adds an answer, and returns the one that it replaces.
    pub fn insert(&mut self, question: Question, answer: Answer) -> Option<Answer> {
        self.answers.insert(question, answer)
    }

    /// Adds the content of a file.
    pub fn insert_file(&mut self, path: &str, content: impl Into<Arc<[u8]>>) {
        self.insert(Question::Read(path.to_owned()), Answer::Bytes(content.into()));
    }

    /// Adds the names in a directory.
    pub fn insert_list(&mut self, path: &str, names: Vec<String>) {
        let names = Names {
            text: names,
            not_text: Vec::new(),
        };
        self.insert(Question::List(path.to_owned()), Answer::Names(names));
    }

    /// Keeps only the answers for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&Question, &mut Answer) -> bool) {
        self.answers.retain(|question, answer| keep(question, answer));
    }

    /// Every question with its answer, in the order of [`Question`].
    pub fn iter(&self) -> impl Iterator<Item = (&Question, &Answer)> {
        self.answers.iter()
    }
}

/// Records the answers of a node while it is read; shared by all readers.
#[derive(Debug, Default)]
pub struct Recorder(Mutex<Recording>);

impl Recorder {
    /// The answers so far.
    pub fn recording(&self) -> Recording {
        self.lock().clone()
    }

    pub(crate) fn insert(&self, question: Question, answer: Answer) {
        self.lock().insert(question, answer);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Recording> {
        // Each change is one call, so the recording is consistent after a panic elsewhere.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
