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
    /// Its value; absent if the device reports that it does not have it (`N/A (no PMA)`).
    pub value: Fact<u64>,
}

/// Reads one directory of counters repeatedly.
#[derive(Debug, Default)]
pub(super) struct CounterReader {
    counters: Vec<(Arc<str>, Attribute)>,
}

impl CounterReader {
    /// Lists the counters in `directory`. Known counters keep their open file and their cached failure.
    pub(super) fn list(&mut self, scope: &Scope<'_>, directory: &str) {
        let names = scope.entries(directory);
        let mut known = std::mem::take(&mut self.counters).into_iter().peekable();
        // Both lists are sorted by name.
        for name in names.known().into_iter().flatten() {
            // The lifetime of the kernel's cache in milliseconds: a setting, not a counter.
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

    /// Reads every counter, in order of name, and reuses the memory of an earlier reading of the same list.
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

/// A shared name for the same counter of all ports. A reading changes the reference count of each name, and a thousand
/// names that are far from each other in memory would cost as much as reading the files.
fn shared(name: &str) -> Arc<str> {
    static NAMES: Mutex<BTreeSet<Arc<str>>> = Mutex::new(BTreeSet::new());
    // No code panics while it holds the lock; the set is consistent either way.
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return Arc::clone(known);
    }
    let new: Arc<str> = name.into();
    // Drivers have a few hundred. A tree with more is not real, and its names must not stay in memory for ever.
    if names.len() < 4096 {
        names.insert(Arc::clone(&new));
    }
    new
}

fn value(scope: &Scope<'_>, attribute: &mut Attribute, buffer: &mut Vec<u8>) -> Fact<u64> {
    let bytes = match attribute.read(scope.root(), buffer) {
        Outcome::Read(bytes) => bytes.trim_ascii(),
        Outcome::Absent => return Fact::Absent,
        Outcome::Remembered(unread) => return scope.remembered(unread),
        Outcome::Failed(unread) => {
            attribute.remember(unread.clone());
            return scope.fail(unread);
        }
    };
    match number(bytes) {
        // What a driver shows instead of a count that it cannot decode (ionic), and a device that no longer answers reads as.
        Some(u64::MAX) => return scope.malformed(attribute.path(), &u64::MAX.to_string(), "a count"),
        Some(value) => return Fact::Known(value),
        None => {}
    }
    let text = String::from_utf8_lossy(bytes).into_owned();
    if text.starts_with("N/A") {
        // Not an error: the device reports that it does not have this counter.
        attribute.remember_absent();
        return Fact::Absent;
    }
    // The device answered, so reading again costs nothing more, and the file may be whole the next time.
    scope.malformed(attribute.path(), &text, "a number")
}

/// Parses a decimal number directly from bytes, without converting them to text.
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
