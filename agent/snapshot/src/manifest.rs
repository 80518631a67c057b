//! The first entry of an archive: its version, and every question with its answer.
//!
//! The contents of files and documents are separate entries; all other answers are in the manifest itself.

mod legacy;

use std::{collections::BTreeMap, sync::Arc};

use rdma_health_kernel::{
    recording::{Answer, Failure, Form, Names, Question, Recording, Target},
    root::{MAX_ENTRIES, MAX_FILE},
};
use rdma_health_protocol::bounded;
use serde::{Deserialize, Serialize};

use crate::{Error, MAX_ANSWERS};
pub(crate) use legacy::PathEntry;

/// The format's name in the manifest.
pub const FORMAT: &str = "rdma-health snapshot";
/// Version of the format. A program rejects later versions. Version 1 has no `history.json`; version 2 has only questions
/// about paths, and a `verbs.json`; version 3 has no question about runtimes.
pub const SCHEMA: u32 = 4;
/// The last version in which every question is about a path.
pub(crate) const SCHEMA_OF_PATHS: u32 = 2;

/// Maximum length of a path in bytes (`PATH_MAX`).
const MAX_PATH: usize = 4096;
/// Maximum length in bytes of a word in a question that is not about a path.
const MAX_WORD: usize = 255;
/// Maximum length of a path that fits below `files` in a plain tar header.
const MAX_NAME: usize = 90;

/// The fields that every version has.
#[derive(Deserialize)]
pub(crate) struct Head {
    pub format: String,
    pub schema: u32,
    #[serde(default)]
    pub version: String,
}

/// The manifest.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "E: Deserialize<'de>"))]
pub(crate) struct Manifest<E> {
    pub format: String,
    pub schema: u32,
    pub version: String,
    pub time: u64,
    pub live: bool,
    pub anonymized: bool,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hung: BTreeMap<String, u64>,
    #[serde(deserialize_with = "bounded::list::<_, _, MAX_ANSWERS>")]
    pub answers: Vec<E>,
}

/// A question and its answer.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    question: Question,
    answer: Given,
}

/// An answer without bytes that are in a separate entry.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Given {
    /// Number of bytes.
    Bytes(u64),
    Names(Names),
    Target(Target),
    RealPath(String),
    Failed(Failure),
}

/// Bytes for a separate entry.
pub(crate) struct Content {
    pub entry: String,
    pub bytes: Arc<[u8]>,
}

/// The expected entries: the question that each one answers, and its size in bytes.
pub(crate) type Expected = BTreeMap<String, (Question, u64)>;

/// The name of an answer's entry: its path, so that a person can find it; a number if the question is not about a path,
/// or the path is too long for a plain tar header.
fn entry_name(question: &Question, number: usize) -> String {
    match question {
        Question::Read(path) if path.len() <= MAX_NAME && path.is_ascii() => format!("files{path}"),
        question if question.form() == Form::Document => format!("documents/{number}.json"),
        _ => format!("long/{number}"),
    }
}

/// The answers in the manifest's format, and the contents of separate entries.
pub(crate) fn from_recording(recording: &Recording) -> (Vec<Entry>, Vec<Content>) {
    let mut contents = Vec::new();
    let entry = |(number, (question, answer)): (usize, (&Question, &Answer))| Entry {
        question: question.clone(),
        answer: match answer {
            Answer::Bytes(bytes) => {
                contents.push(Content {
                    entry: entry_name(question, number),
                    bytes: Arc::clone(bytes),
                });
                Given::Bytes(bytes.len() as u64)
            }
            Answer::Names(names) => Given::Names(names.clone()),
            Answer::Target(target) => Given::Target(target.clone()),
            Answer::RealPath(path) => Given::RealPath(path.clone()),
            Answer::Failed(failure) => Given::Failed(failure.clone()),
        },
    };
    let entries = recording.iter().enumerate().map(entry).collect();
    (entries, contents)
}

/// The answers as a recording without bytes, and the names and sizes of the entries that contain them.
pub(crate) fn into_recording(entries: Vec<Entry>) -> Result<(Recording, Expected), Error> {
    let mut recording = Recording::default();
    let mut expected = Expected::new();
    for (number, Entry { question, answer }) in entries.into_iter().enumerate() {
        let subject = question.to_string();
        let refuse = |reason: &str| Err(Error::entry(&subject, format!("in manifest.json: {reason}")));
        if let Some(reason) = unfit_question(&question).or_else(|| unfit_answer(&answer)) {
            return refuse(reason);
        }
        let answer = match answer {
            Given::Bytes(size) => {
                expected.insert(entry_name(&question, number), (question.clone(), size));
                Answer::Bytes(Arc::default())
            }
            Given::Names(names) => Answer::Names(names),
            Given::Target(target) => Answer::Target(target),
            Given::RealPath(path) => Answer::RealPath(path),
            Given::Failed(failure) => Answer::Failed(failure),
        };
        if !answer.fits(&question) {
            return refuse("the answer does not match the question");
        }
        if recording.insert(question, answer).is_some() {
            return refuse("the question has two answers");
        }
    }
    Ok((recording, expected))
}

/// Why a reader cannot have asked a question. Archives are not unpacked, so such a question is harmless, but it shows
/// that the archive was manipulated.
fn unfit_question(question: &Question) -> Option<&'static str> {
    match question {
        Question::Netlink {
            family,
            command,
            object,
        } => unfit_words(&[family, command, object]),
        Question::Kubelet { method } => unfit_words(&[method]),
        Question::VerbsDevices | Question::Runtimes | Question::DriverStatistics => None,
        Question::Read(path) | Question::List(path) | Question::Link(path) | Question::RealPath(path) => {
            unfit_path(path)
        }
    }
}

fn unfit_words(words: &[&str]) -> Option<&'static str> {
    let unfit = |word: &&str| word.len() > MAX_WORD || word.contains(char::is_control);
    words.iter().any(unfit).then_some("words that no reader uses")
}

fn unfit_path(path: &str) -> Option<&'static str> {
    if path.len() > MAX_PATH {
        Some("longer than any path")
    } else if !path.starts_with('/') {
        Some("not an absolute path of a node")
    } else if path.contains('\0') {
        // Other control characters are valid: a tenant may name a device so.
        Some("a NUL character in a path")
    } else if path[1..].split('/').any(|part| part == ".." || part == ".") {
        Some("a path that leads out of the node")
    } else {
        None
    }
}

/// Why a node cannot have given an answer.
fn unfit_answer(answer: &Given) -> Option<&'static str> {
    match answer {
        Given::Bytes(size) if *size > MAX_FILE as u64 => Some("longer than the maximum size of a file"),
        Given::Names(names) if names.text.len() + names.not_text.len() > MAX_ENTRIES => {
            Some("more names than the maximum of a directory")
        }
        Given::Names(names) if names.text.iter().any(|name| unfit_name(name)) => {
            Some("a name that is invalid in a directory")
        }
        _ => None,
    }
}

fn unfit_name(name: &str) -> bool {
    name.is_empty() || name.len() > 255 || name == "." || name == ".." || name.contains(['/', '\0'])
}
