//! What a node answers.

use std::sync::Arc;

use rustix::{fs::FileType, io::Errno};
use serde::{Deserialize, Serialize};

use super::{Form, Question};
use crate::fact::{Unread, UnreadKind, errno};

/// The answer of a node to a [`Question`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The content of a file, or a JSON document.
    Bytes(Arc<[u8]>),
    /// What a directory lists.
    Names(Names),
    /// The target of a link.
    Target(Target),
    /// A path with all links resolved.
    RealPath(String),
    /// Why there is no answer; valid for every question.
    Failed(Failure),
}

impl Answer {
    /// Whether it has the form that a question expects.
    pub fn fits(&self, question: &Question) -> bool {
        match self {
            Self::Bytes(_) => matches!(question.form(), Form::Content | Form::Document),
            Self::Names(_) => question.form() == Form::Names,
            Self::Target(_) => question.form() == Form::Target,
            Self::RealPath(_) => question.form() == Form::RealPath,
            Self::Failed(_) => true,
        }
    }
}

/// What a directory lists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Names {
    /// The names, sorted.
    pub text: Vec<String>,
    /// Names that are not UTF-8, converted as far as possible.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_text: Vec<String>,
}

/// The target of a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// As written.
    Text(String),
    /// Not UTF-8; converted as far as possible.
    NotText(String),
}

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// The kernel's error, in JSON its number.
    Errno(#[serde(with = "number")] Errno),
    /// It is not a regular file but this.
    NotAFile(FileKind),
    /// It is longer than the readers' limit.
    TooLong,
    /// It has more entries than the readers' limit.
    TooMany,
    /// It was not collected.
    NotCollected,
    /// A service (the verbs helper, the kubelet) could not be queried.
    Unread(Box<Unread>),
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl Failure {
    /// Whether the file does not exist, or its device or process no longer exists.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Errno(Errno::NOENT | Errno::NOTDIR | Errno::SRCH))
    }

    /// The message for a failed question about `source` with a limit of `limit` bytes or entries.
    pub(crate) fn into_unread(self, source: impl Into<String>, limit: usize) -> Unread {
        let (kind, detail) = match self {
            Self::Errno(Errno::NOENT | Errno::NOTDIR) => {
                (UnreadKind::Missing, "there is no such file".into())
            }
            Self::Errno(Errno::SRCH) => (UnreadKind::Missing, "the process has ended".into()),
            Self::Errno(errno) => (UnreadKind::Errno(errno), errno_text(errno)),
            Self::NotAFile(kind) => {
                let detail = format!("it is {}, not a regular file", kind.name());
                (UnreadKind::NotAFile, detail)
            }
            Self::TooLong => (UnreadKind::TooLong, format!("it is longer than {limit} bytes")),
            Self::TooMany => (UnreadKind::TooLong, format!("it has more than {limit} entries")),
            Self::NotCollected => (UnreadKind::NotCollected, "it was not collected".into()),
            Self::Unread(unread) => return *unread,
        };
        Unread {
            source: source.into(),
            kind,
            detail,
        }
    }
}

/// The system's text for an errno, without the number.
fn errno_text(errno: Errno) -> String {
    let text = std::io::Error::from(errno).to_string();
    match text.rfind(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// An errno as its number, which is between 1 and 4095 on Linux.
mod number {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    use super::{Errno, errno};

    #[allow(clippy::trivially_copy_pass_by_ref)] // serde passes a reference
    pub(super) fn serialize<S: Serializer>(errno: &Errno, serializer: S) -> Result<S::Ok, S::Error> {
        errno.raw_os_error().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Errno, D::Error> {
        let number = i32::deserialize(deserializer)?;
        errno(number).ok_or_else(|| D::Error::custom(format_args!("{number} is not an errno")))
    }
}

/// The type of a file that is not a regular file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "&'static str")]
pub enum FileKind {
    /// A directory.
    Directory,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharacterDevice,
    /// A block device.
    BlockDevice,
    /// None of these.
    Other,
}

impl FileKind {
    const ALL: [Self; 6] = [
        Self::Directory,
        Self::Fifo,
        Self::Socket,
        Self::CharacterDevice,
        Self::BlockDevice,
        Self::Other,
    ];

    /// Its name, with an article.
    pub fn name(self) -> &'static str {
        match self {
            Self::Directory => "a directory",
            Self::Fifo => "a FIFO",
            Self::Socket => "a socket",
            Self::CharacterDevice => "a character device",
            Self::BlockDevice => "a block device",
            Self::Other => "something else",
        }
    }
}

impl From<FileType> for FileKind {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::Directory => Self::Directory,
            FileType::Fifo => Self::Fifo,
            FileType::Socket => Self::Socket,
            FileType::CharacterDevice => Self::CharacterDevice,
            FileType::BlockDevice => Self::BlockDevice,
            _ => Self::Other,
        }
    }
}

impl From<String> for FileKind {
    fn from(name: String) -> Self {
        let known = Self::ALL.into_iter().find(|kind| kind.name() == name);
        known.unwrap_or(Self::Other)
    }
}

impl From<FileKind> for &'static str {
    fn from(kind: FileKind) -> Self {
        kind.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_the_form_that_snapshots_have() {
        for (failure, json) in [
            (Failure::Errno(Errno::INVAL), r#"{"errno":22}"#),
            (Failure::NotAFile(FileKind::Fifo), r#"{"not_a_file":"a FIFO"}"#),
            (Failure::TooLong, r#""too_long""#),
            (Failure::NotCollected, r#""not_collected""#),
        ] {
            assert_eq!(serde_json::to_string(&failure).unwrap(), json);
            assert_eq!(serde_json::from_str::<Failure>(json).unwrap(), failure);
        }
        let other: Failure = serde_json::from_str(r#"{"not_a_file":"no log"}"#).unwrap();
        assert_eq!(other, Failure::NotAFile(FileKind::Other));
        for number in [0, -1, 4096] {
            let refused = serde_json::from_str::<Failure>(&format!(r#"{{"errno":{number}}}"#));
            assert!(refused.unwrap_err().to_string().contains("not an errno"));
        }
    }
}
