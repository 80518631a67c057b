//! The first entry of an archive: who made it, and every question with its answer.
//!
//! What a file holds is kept as an entry of its own, `files/PATH`; all other answers are in the manifest itself.

use std::{collections::BTreeMap, sync::Arc};

use rdma_health_node::{
    recording::{Failure, Names, Recording, Target},
    root::{MAX_ENTRIES, MAX_FILE},
};
use rdma_health_protocol::bounded;
use serde::{Deserialize, Serialize};

use crate::{Error, MAX_ANSWERS};

/// What the manifest says it is.
pub const FORMAT: &str = "rdma-health snapshot";
/// Version of the form. A program refuses those above its own. Version 1 has no `history.json`.
pub const SCHEMA: u32 = 2;

/// The longest path of a node, in bytes (`PATH_MAX`).
const MAX_PATH: usize = 4096;
/// The longest path that fits into a plain tar header below `files`.
const MAX_NAME: usize = 90;

/// What every version of the form has.
#[derive(Deserialize)]
pub(crate) struct Head {
    pub format: String,
    pub schema: u32,
    #[serde(default)]
    pub version: String,
}

/// The manifest.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    pub format: String,
    pub schema: u32,
    pub version: String,
    pub time: u64,
    pub live: bool,
    pub anonymized: bool,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hung: BTreeMap<String, u64>,
    #[serde(deserialize_with = "bounded::list::<_, _, MAX_ANSWERS>")]
    pub answers: Vec<Answer>,
}

/// A question and its answer: exactly one of the fields after `ask`, as it fits.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answer {
    pub path: String,
    pub ask: Ask,
    /// To `read`: how many bytes, in the entry of that name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// To `list`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<Vec<String>>,
    /// To `list`, beside `names`: names that are not UTF-8, as far as they can be shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names_not_text: Vec<String>,
    /// To `link` and `real_path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// To `link`, where the target is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_not_text: Option<String>,
    /// To any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Reason>,
}

/// What was asked about a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ask {
    Read,
    List,
    Link,
    RealPath,
}

/// Why there was no answer.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Reason {
    Errno(i32),
    NotAFile(String),
    TooLong,
    TooMany,
    NotCollected,
}

/// A file's content that goes into an entry of its own.
pub(crate) struct Content {
    pub entry: String,
    pub bytes: Arc<[u8]>,
}

/// The name of the entry that holds what a file holds: by path, so that a person finds it, or by number where no plain
/// tar header has room for the path.
pub(crate) fn entry_name(path: &str, number: usize) -> String {
    if path.len() <= MAX_NAME && path.is_ascii() {
        format!("files{path}")
    } else {
        format!("long/{number}")
    }
}

/// The answers in the manifest's form, and what goes beside it.
pub(crate) fn from_recording(recording: &Recording) -> (Vec<Answer>, Vec<Content>) {
    let mut answers = Vec::new();
    let mut contents = Vec::new();
    for (path, found) in recording.iter() {
        let empty = |ask| Answer {
            path: path.to_owned(),
            ask,
            bytes: None,
            names: None,
            names_not_text: Vec::new(),
            target: None,
            target_not_text: None,
            error: None,
        };
        if let Some(read) = &found.read {
            let mut answer = empty(Ask::Read);
            match read {
                Ok(bytes) => {
                    answer.bytes = Some(bytes.len() as u64);
                    contents.push(Content {
                        entry: entry_name(path, answers.len()),
                        bytes: Arc::clone(bytes),
                    });
                }
                Err(failure) => answer.error = Some(failure.into()),
            }
            answers.push(answer);
        }
        if let Some(list) = &found.list {
            let mut answer = empty(Ask::List);
            match list {
                Ok(names) => {
                    answer.names = Some(names.text.clone());
                    answer.names_not_text.clone_from(&names.not_text);
                }
                Err(failure) => answer.error = Some(failure.into()),
            }
            answers.push(answer);
        }
        if let Some(link) = &found.link {
            let mut answer = empty(Ask::Link);
            match link {
                Ok(Target::Text(target)) => answer.target = Some(target.clone()),
                Ok(Target::NotText(shown)) => answer.target_not_text = Some(shown.clone()),
                Err(failure) => answer.error = Some(failure.into()),
            }
            answers.push(answer);
        }
        if let Some(real_path) = &found.real_path {
            let mut answer = empty(Ask::RealPath);
            match real_path {
                Ok(target) => answer.target = Some(target.clone()),
                Err(failure) => answer.error = Some(failure.into()),
            }
            answers.push(answer);
        }
    }
    (answers, contents)
}

/// The answers as a recording, but for what files hold: that is still to come, in entries of these names and sizes.
pub(crate) fn into_recording(answers: Vec<Answer>) -> Result<(Recording, Expected), Error> {
    let mut recording = Recording::default();
    let mut expected = Expected::new();
    for (number, answer) in answers.into_iter().enumerate() {
        let path = answer.path.clone();
        let refuse = |reason: &str| Error::entry(&path, format!("in manifest.json: {reason}"));
        if let Some(reason) = unfit_path(&path) {
            return Err(refuse(reason));
        }
        let slot = recording.entry(&path);
        let twice = match answer.ask {
            Ask::Read => slot.read.is_some(),
            Ask::List => slot.list.is_some(),
            Ask::Link => slot.link.is_some(),
            Ask::RealPath => slot.real_path.is_some(),
        };
        if twice {
            return Err(refuse("answered twice"));
        }
        match answer {
            Answer {
                ask: Ask::Read,
                bytes: Some(size),
                names: None,
                target: None,
                target_not_text: None,
                error: None,
                ..
            } => {
                if size > MAX_FILE as u64 {
                    return Err(refuse("longer than any file that is read"));
                }
                // Filled in when its entry comes.
                slot.read = Some(Ok(Arc::default()));
                expected.insert(entry_name(&path, number), (path.clone(), size));
            }
            Answer {
                ask: Ask::List,
                bytes: None,
                names: Some(text),
                names_not_text: not_text,
                target: None,
                target_not_text: None,
                error: None,
                ..
            } => {
                if text.len() + not_text.len() > MAX_ENTRIES {
                    return Err(refuse("more names than any directory that is read"));
                }
                if text.iter().any(|name| unfit_name(name)) {
                    return Err(refuse("a name that no directory can hold"));
                }
                slot.list = Some(Ok(Names { text, not_text }));
            }
            Answer {
                ask: Ask::Link,
                bytes: None,
                names: None,
                target,
                target_not_text,
                error: None,
                ..
            } => {
                slot.link = Some(Ok(match (target, target_not_text) {
                    (Some(target), None) => Target::Text(target),
                    (None, Some(shown)) => Target::NotText(shown),
                    _ => return Err(refuse("an answer that does not fit the question")),
                }));
            }
            Answer {
                ask: Ask::RealPath,
                bytes: None,
                names: None,
                target: Some(target),
                target_not_text: None,
                error: None,
                ..
            } => slot.real_path = Some(Ok(target)),
            Answer {
                ask,
                bytes: None,
                names: None,
                target: None,
                target_not_text: None,
                error: Some(reason),
                ..
            } => {
                let failure = Failure::from(reason);
                match ask {
                    Ask::Read => slot.read = Some(Err(failure)),
                    Ask::List => slot.list = Some(Err(failure)),
                    Ask::Link => slot.link = Some(Err(failure)),
                    Ask::RealPath => slot.real_path = Some(Err(failure)),
                }
            }
            _ => return Err(refuse("an answer that does not fit the question")),
        }
    }
    Ok((recording, expected))
}

/// Entries that are still to come: the path that each belongs to, and its size in bytes.
pub(crate) type Expected = BTreeMap<String, (String, u64)>;

/// Why something cannot be a path that a reader asked for. Nothing is ever unpacked, so that none could do harm; but one
/// of these says that somebody made the archive who wants to.
fn unfit_path(path: &str) -> Option<&'static str> {
    if path.len() > MAX_PATH {
        Some("longer than any path")
    } else if !path.starts_with('/') {
        Some("not an absolute path of a node")
    } else if path.contains(char::is_control) {
        Some("control characters in a path")
    } else if path[1..].split('/').any(|part| part == ".." || part == ".") {
        Some("a path that leads out of the node")
    } else {
        None
    }
}

fn unfit_name(name: &str) -> bool {
    name.is_empty() || name.len() > 255 || name == "." || name == ".." || name.contains(['/', '\0'])
}

impl From<&Failure> for Reason {
    fn from(failure: &Failure) -> Self {
        match failure {
            Failure::Errno(errno) => Self::Errno(*errno),
            Failure::NotAFile(kind) => Self::NotAFile(kind.clone()),
            Failure::TooLong => Self::TooLong,
            Failure::TooMany => Self::TooMany,
            Failure::NotCollected => Self::NotCollected,
        }
    }
}

impl From<Reason> for Failure {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Errno(errno) => Self::Errno(errno),
            Reason::NotAFile(kind) => Self::NotAFile(kind),
            Reason::TooLong => Self::TooLong,
            Reason::TooMany => Self::TooMany,
            Reason::NotCollected => Self::NotCollected,
        }
    }
}
