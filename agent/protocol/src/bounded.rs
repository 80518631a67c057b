//! Lists and texts that stop at a limit while they are read, instead of taking whatever comes into memory.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor},
};

/// Reads a list of at most `MOST` entries (`#[serde(deserialize_with = "list::<_, _, 8>")]`).
///
/// # Errors
/// At the first entry that is too many.
pub fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>, const MOST: usize>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_seq(List::<T, MOST>(PhantomData))
}

/// Reads a text of at most `MOST` bytes (`#[serde(deserialize_with = "text::<_, 8>")]`).
///
/// # Errors
/// Where it is longer.
pub fn text<'de, D: Deserializer<'de>, const MOST: usize>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.len() > MOST {
        return Err(D::Error::custom(format_args!("more than {MOST} bytes")));
    }
    Ok(text)
}

struct List<T, const MOST: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for List<T, MOST> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MOST} entries")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = seq.next_element()? {
            if entries.len() == MOST {
                return Err(Error::custom(format_args!("more than {MOST} entries")));
            }
            entries.push(entry);
        }
        Ok(entries)
    }
}
