//! A fact: what the kernel said, that it says nothing, or why it could not be asked.

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeOwned, Error},
};

/// One fact about the node.
///
/// In JSON a known fact is its value, an absent one `null`, and an unread one
/// `{"unread": {"source": "/sys/…", "kind": "EINVAL", "detail": "Invalid argument"}}`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(untagged)]
pub enum Fact<T> {
    /// It could not be read; never replaced by a default.
    Unread {
        /// What was tried and what happened.
        unread: Box<Unread>,
    },
    /// The kernel does not offer it here, which is itself an answer.
    #[default]
    Absent,
    /// The value.
    Known(T),
}

/// Why a fact could not be read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Unread {
    /// The file, as a path on the node itself (without the `--root` in front), or what else was asked.
    pub source: String,
    /// A short word from a bounded vocabulary: an errno symbol (`EINVAL`), `malformed`, `too_long`, `not_a_file`,
    /// `missing`, `not_collected`, `hung`; of the verbs helper `helper_unreachable`, `helper_hung`, `helper_ended`,
    /// `helper_not_loaded`, `helper_version`, `helper_malformed`, `helper_refused`.
    pub kind: String,
    /// What was found, for a person.
    pub detail: String,
}

impl std::fmt::Display for Unread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} ({})", self.source, self.detail, self.kind)
    }
}

impl<T> Fact<T> {
    /// The value, where it is known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Absent | Self::Unread { .. } => None,
        }
    }

    /// Why it is unread, where it is.
    pub fn unread(&self) -> Option<&Unread> {
        match self {
            Self::Unread { unread } => Some(unread),
            Self::Absent | Self::Known(_) => None,
        }
    }

    /// Whether the kernel answered that it has no such thing.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// Applies `f` to a known value.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Fact<U> {
        match self {
            Self::Known(value) => Fact::Known(f(value)),
            Self::Absent => Fact::Absent,
            Self::Unread { unread } => Fact::Unread { unread },
        }
    }

    /// Applies `f` to a known value, which may turn out absent or unread.
    pub fn and_then<U>(self, f: impl FnOnce(T) -> Fact<U>) -> Fact<U> {
        match self {
            Self::Known(value) => f(value),
            Self::Absent => Fact::Absent,
            Self::Unread { unread } => Fact::Unread { unread },
        }
    }

    /// The fact with its value borrowed.
    pub fn as_ref(&self) -> Fact<&T> {
        match self {
            Self::Known(value) => Fact::Known(value),
            Self::Absent => Fact::Absent,
            Self::Unread { unread } => Fact::Unread {
                unread: unread.clone(),
            },
        }
    }
}

// By hand, since serde's untagged form does not read back maps whose keys are numbers.
impl<'de, T: DeserializeOwned> Deserialize<'de> for Fact<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde_json::Value;
        match Value::deserialize(deserializer)? {
            Value::Null => Ok(Self::Absent),
            Value::Object(mut map) if map.len() == 1 && map.contains_key("unread") => {
                let unread = serde_json::from_value(map["unread"].take()).map_err(Error::custom)?;
                Ok(Self::Unread { unread })
            }
            value => serde_json::from_value(value)
                .map(Self::Known)
                .map_err(Error::custom),
        }
    }
}

impl<T> From<Unread> for Fact<T> {
    fn from(unread: Unread) -> Self {
        Self::Unread {
            unread: Box::new(unread),
        }
    }
}

impl<T> From<Option<T>> for Fact<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Absent, Self::Known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_tells_known_absent_and_unread_apart() {
        let facts: [Fact<u64>; 3] = [
            Fact::Known(0),
            Fact::Absent,
            Unread {
                source: "/sys/x".into(),
                kind: "EINVAL".into(),
                detail: "Invalid argument".into(),
            }
            .into(),
        ];
        let json = serde_json::to_string(&facts).unwrap();
        assert_eq!(
            json,
            r#"[0,null,{"unread":{"source":"/sys/x","kind":"EINVAL","detail":"Invalid argument"}}]"#
        );
        assert_eq!(serde_json::from_str::<[Fact<u64>; 3]>(&json).unwrap(), facts);
    }
}
