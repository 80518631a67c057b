//! The answers of versions 1 and 2, each about a path.

use rdma_health_kernel::recording::{Failure, Names, Question, Target};
use serde::Deserialize;

use super::{Entry, Given};
use crate::Error;

/// A question and its answer: either `error` or one other field.
#[derive(Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum PathEntry {
    Read {
        path: String,
        bytes: Option<u64>,
        error: Option<Failure>,
    },
    List {
        path: String,
        names: Option<Vec<String>>,
        #[serde(default)]
        names_not_text: Vec<String>,
        error: Option<Failure>,
    },
    Link {
        path: String,
        target: Option<String>,
        target_not_text: Option<String>,
        error: Option<Failure>,
    },
    RealPath {
        path: String,
        target: Option<String>,
        error: Option<Failure>,
    },
}

impl TryFrom<PathEntry> for Entry {
    type Error = Error;

    fn try_from(entry: PathEntry) -> Result<Self, Error> {
        let (question, given, error) = match entry {
            PathEntry::Read { path, bytes, error } => (Question::Read(path), bytes.map(Given::Bytes), error),
            PathEntry::List {
                path,
                names,
                names_not_text: not_text,
                error,
            } => {
                let given = names.map(|text| Given::Names(Names { text, not_text }));
                (Question::List(path), given, error)
            }
            PathEntry::Link {
                path,
                target,
                target_not_text,
                error,
            } => {
                let given = match (target, target_not_text) {
                    (Some(target), None) => Some(Given::Target(Target::Text(target))),
                    (None, Some(shown)) => Some(Given::Target(Target::NotText(shown))),
                    _ => None,
                };
                (Question::Link(path), given, error)
            }
            PathEntry::RealPath { path, target, error } => {
                (Question::RealPath(path), target.map(Given::RealPath), error)
            }
        };
        let answer = match (given, error) {
            (Some(given), None) => given,
            (None, Some(failure)) => Given::Failed(failure),
            _ => {
                let reason = "in manifest.json: the answer does not match the question";
                return Err(Error::entry(&question.to_string(), reason));
            }
        };
        Ok(Self { question, answer })
    }
}
