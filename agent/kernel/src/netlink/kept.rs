//! The messages of an answer that can be used, if others are malformed.
//!
//! One device whose driver answers nonsense must not hide the others.

use std::{fmt, marker::PhantomData};

use rdma_health_protocol::text::excerpt;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, SeqAccess, Visitor},
};
use serde_json::Value;

use super::wire::MALFORMED;
use crate::{
    fact::{Unread, UnreadKind},
    recording::Failure,
};

/// Maximum number of characters of a malformed message that are shown.
const SHOWN: usize = 80;

/// The messages that can be used, and what is left out.
#[derive(Debug)]
pub(super) struct Kept<T> {
    pub(super) messages: Vec<T>,
    /// Number of messages, and of entries of lists in them, that are malformed.
    pub(super) left_out: usize,
    /// Why the first of them cannot be used.
    pub(super) reason: Option<String>,
}

impl<T> Kept<T> {
    fn leave_out(&mut self, reason: impl FnOnce() -> String) {
        self.left_out += 1;
        self.reason.get_or_insert_with(reason);
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Kept<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Messages(PhantomData))
    }
}

struct Messages<T>(PhantomData<T>);

impl<'de, T: DeserializeOwned> Visitor<'de> for Messages<T> {
    type Value = Kept<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut kept = Kept {
            messages: Vec::new(),
            left_out: 0,
            reason: None,
        };
        while let Some(mut message) = list.next_element::<Value>()? {
            let found = |message: &Value| excerpt(&message.to_string(), SHOWN);
            if let Some(reason) = defect(&mut message, &mut kept) {
                kept.leave_out(|| format!("{reason}, in {}", found(&message)));
                continue;
            }
            match T::deserialize(&message) {
                Ok(message) => kept.messages.push(message),
                Err(error) => kept.leave_out(|| format!("{error}, found {}", found(&message))),
            }
        }
        Ok(kept)
    }
}

/// Why a part of a message could not be read. An entry of a list is removed, and what is around it can be used.
fn defect<T>(part: &mut Value, kept: &mut Kept<T>) -> Option<String> {
    let Value::Object(fields) = part else { return None };
    // First, because the rest of what is malformed does not matter.
    if let Some(Value::String(reason)) = fields.get(MALFORMED) {
        return Some(reason.clone());
    }
    let mut first = None;
    for field in fields.values_mut() {
        match field {
            Value::Array(entries) => entries.retain_mut(|entry| match defect(entry, kept) {
                Some(reason) => {
                    kept.leave_out(|| reason);
                    false
                }
                None => true,
            }),
            nest => first = first.or(defect(nest, kept)),
        }
    }
    first
}

/// Whether a message or a part of it could not be read.
pub(super) fn is_malformed(part: &Value) -> bool {
    match part {
        Value::Object(fields) => fields.contains_key(MALFORMED) || fields.values().any(is_malformed),
        Value::Array(entries) => entries.iter().any(is_malformed),
        _ => false,
    }
}

/// The failure of an answer of which a part could not be read, if no part can be used without it.
pub(super) fn malformed(source: &str, message: &Value) -> Failure {
    Failure::Unread(Box::new(Unread {
        source: source.to_owned(),
        kind: UnreadKind::Malformed,
        detail: format!(
            "a part of it could not be read: {}",
            excerpt(&message.to_string(), SHOWN)
        ),
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    struct Device {
        name: String,
        #[serde(default)]
        ports: Vec<Port>,
    }

    #[derive(Debug, Deserialize)]
    struct Port {
        number: u64,
    }

    fn kept(answer: Value) -> (Vec<(String, usize)>, usize, String) {
        let kept: Kept<Device> = serde_json::from_value(answer).unwrap();
        let devices = kept.messages.into_iter();
        let devices = devices.map(|device| {
            (
                device.name,
                device.ports.iter().filter(|port| port.number > 0).count(),
            )
        });
        (devices.collect(), kept.left_out, kept.reason.unwrap_or_default())
    }

    #[test]
    fn a_malformed_message_hides_no_other() {
        let (devices, left_out, reason) =
            kept(json!([{"name": "a"}, {"dev": "b"}, {"name": 7}, {"name": "d"}, 7]));
        assert_eq!(devices, [("a".into(), 0), ("d".into(), 0)]);
        assert_eq!(left_out, 3);
        assert_eq!(reason, "missing field `name`, found {\"dev\":\"b\"}");
    }

    #[test]
    fn a_message_that_could_not_be_read_is_left_out_and_named() {
        let answer = json!([{"name": "a", "nest": {"malformed": "x with 3 bytes"}}, {"malformed": "y"}, {"name": "c"}]);
        let (devices, left_out, reason) = kept(answer);
        assert_eq!((devices, left_out), (vec![("c".into(), 0)], 2));
        assert!(
            reason.starts_with("x with 3 bytes, in {\"name\":\"a\""),
            "{reason}"
        );
    }

    #[test]
    fn an_entry_that_could_not_be_read_hides_no_other() {
        let answer = json!([{"name": "a", "ports": [{"number": 1}, {"malformed": "number with 3 bytes"}, {"number": 3}]}]);
        assert_eq!(
            kept(answer),
            (vec![("a".into(), 2)], 1, "number with 3 bytes".into())
        );
    }
}
