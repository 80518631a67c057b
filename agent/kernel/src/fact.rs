//! A fact: a value, the answer that there is none, or why it could not be read.

mod unread;

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeOwned, Error},
};
pub use unread::{Errno, HelperTrouble, Unread, UnreadKind, errno, errno_name};

/// One fact about the node.
///
/// In JSON a known fact is its value, an absent one `null`, and an unread one
/// `{"unread": {"source": "/sys/…", "kind": "EINVAL", "detail": "Invalid argument"}}`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(untagged)]
pub enum Fact<T> {
    /// It could not be read; never replaced by a default.
    Unread {
        /// The source and the error.
        unread: Box<Unread>,
    },
    /// The kernel does not provide it here, which is also an answer.
    #[default]
    Absent,
    /// The value.
    Known(T),
}

impl<T> Fact<T> {
    /// The value, if it is known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Absent | Self::Unread { .. } => None,
        }
    }

    /// The reason, if it is unread.
    pub fn unread(&self) -> Option<&Unread> {
        match self {
            Self::Unread { unread } => Some(unread),
            Self::Absent | Self::Known(_) => None,
        }
    }

    /// Whether the kernel answered that there is none.
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

// Implemented by hand because serde's untagged format does not deserialize maps with numeric keys.
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
    fn json_distinguishes_known_absent_and_unread() {
        let facts: [Fact<u64>; 3] = [
            Fact::Known(0),
            Fact::Absent,
            Unread {
                source: "/sys/x".into(),
                kind: UnreadKind::Errno(Errno::INVAL),
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
