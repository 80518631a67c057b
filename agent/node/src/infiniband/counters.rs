//! The counters of a port: every file of `counters/` and `hw_counters/`.
//!
//! On hardware each file of `counters/` is a management datagram to the device and may be slow or refused; those of
//! `hw_counters/` are cached by the kernel. One bad file loses one counter.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};

use super::attribute::{Attribute, Outcome};
use crate::{fact::Fact, root::Scope};

/// One counter.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counter {
    /// The file's name.
    pub name: Arc<str>,
    /// What it holds; absent where the device answers that it has none (`N/A (no PMA)`).
    pub value: Fact<u64>,
}

/// Reads one directory of counters again and again.
#[derive(Debug, Default)]
pub(super) struct CounterReader {
    counters: Vec<(Arc<str>, Attribute)>,
}

impl CounterReader {
    /// Lists the counters in `directory`. Those known before keep their open file and their remembered failure.
    pub(super) fn list(&mut self, scope: &Scope<'_>, directory: &str) {
        let names = scope.entries(directory);
        let mut known = std::mem::take(&mut self.counters).into_iter().peekable();
        // Both sides are in order of name.
        for name in names.known().into_iter().flatten() {
            // How long the kernel caches the others, in milliseconds: a setting, no counter.
            if name == "lifespan" {
                continue;
            }
            while known.next_if(|(earlier, _)| **earlier < **name).is_some() {}
            self.counters
                .push(match known.next_if(|(same, _)| **same == **name) {
                    Some(counter) => counter,
                    None => (shared(name), Attribute::new(format!("{directory}/{name}"))),
                });
        }
    }

    /// Reads every counter, in order of name, into the memory of an earlier reading of the same list.
    pub(super) fn read(&mut self, scope: &Scope<'_>, buffer: &mut Vec<u8>, into: &mut Vec<Counter>) {
        into.resize_with(self.counters.len(), Counter::default);
        for (counter, (name, attribute)) in into.iter_mut().zip(&mut self.counters) {
            if !Arc::ptr_eq(&counter.name, name) {
                counter.name = Arc::clone(name);
            }
            counter.value = value(scope, attribute, buffer);
        }
    }
}

/// One name for the same counter of all ports: a reading counts each name's users up and down, and a thousand names
/// apart in memory cost as much as the files behind them.
fn shared(name: &str) -> Arc<str> {
    static NAMES: Mutex<BTreeSet<Arc<str>>> = Mutex::new(BTreeSet::new());
    // No code panics while it holds the lock; the set is whole either way.
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return Arc::clone(known);
    }
    let new: Arc<str> = name.into();
    // Drivers have a few hundred. A tree with more is made up, and its names are not kept for ever.
    if names.len() < 4096 {
        names.insert(Arc::clone(&new));
    }
    new
}

fn value(scope: &Scope<'_>, attribute: &mut Attribute, buffer: &mut Vec<u8>) -> Fact<u64> {
    let bytes = match attribute.read(scope.root(), buffer) {
        Outcome::Read(bytes) => bytes.trim_ascii(),
        Outcome::Missing => return Fact::Absent,
        Outcome::Remembered(unread) => {
            return if unread.kind == NOT_OFFERED {
                Fact::Absent
            } else {
                scope.remembered(unread)
            };
        }
        Outcome::Failed(unread) => {
            attribute.remember(unread.clone());
            return scope.fail(unread);
        }
    };
    if let Some(value) = number(bytes) {
        return Fact::Known(value);
    }
    let text = String::from_utf8_lossy(bytes).into_owned();
    if text.starts_with("N/A") {
        // Not an error: the device says that it has no such counter. Asking again would be another datagram.
        attribute.remember(crate::fact::Unread {
            source: attribute.path().to_owned(),
            kind: NOT_OFFERED.into(),
            detail: text,
        });
        return Fact::Absent;
    }
    let fact = scope.malformed(attribute.path(), &text, "a number");
    if let Some(unread) = fact.unread() {
        attribute.remember(unread.clone());
    }
    fact
}

/// Marks a remembered answer that the device has no such counter.
const NOT_OFFERED: &str = "not_offered";

/// A decimal number; the bytes are plain digits in all but broken drivers, so no detour through text.
fn number(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() {
        return None;
    }
    bytes.iter().try_fold(0_u64, |value, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_are_read_as_the_standard_library_does(text in "[0-9]{1,22}") {
            prop_assert_eq!(number(text.as_bytes()), text.parse().ok());
        }

        #[test]
        fn nothing_else_is_a_number(text in ".{0,30}") {
            prop_assume!(text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()));
            prop_assert_eq!(number(text.as_bytes()), None);
        }
    }
}
