//! Error messages for operators.

use std::collections::BTreeSet;

use serde_saphyr::{Error as Yaml, MessageFormatter, UserMessageFormatter};

use crate::Error;

/// The similarity, from 0 to 1, from which on a word counts as a misspelling.
const ALIKE: f64 = 0.75;

/// A section of the file format, to name the right place of a misplaced key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Its name; empty at the top level.
    pub name: String,
    /// Its keys.
    pub keys: BTreeSet<String>,
}

/// Turns an error of the YAML parser into a message with line and key.
pub fn explain(error: &Yaml, text: &str, sections: &[Section]) -> Error {
    let error = match error.without_snippet() {
        Yaml::AliasError { error, .. } => error.without_snippet(),
        error => error,
    };
    let place = error.location();
    let line = place.map(|place| place.line()).filter(|line| *line > 0);
    let key = place.and_then(|place| key_at(text, place.line(), place.column()));
    let named = |what: String| match &key {
        Some(key) => format!("`{key}`: {what}"),
        None => what,
    };
    let message = match error {
        Yaml::SerdeUnknownField { field, expected, .. } => unknown_key(field, expected, sections),
        Yaml::SerdeUnknownVariant {
            variant, expected, ..
        } => named(format!(
            "unknown value `{variant}`{}; expected one of {}",
            did_you_mean(variant, expected.iter().copied()),
            expected.join(", ")
        )),
        Yaml::SerdeInvalidType {
            unexpected, expected, ..
        }
        | Yaml::SerdeInvalidValue {
            unexpected, expected, ..
        } => named(format!("expected {expected}, found {unexpected}")),
        Yaml::InvalidScalar { ty, .. } => named(format!("expected {}", in_words(ty))),
        Yaml::Unexpected { expected, .. } => named(format!("expected {}", in_words(expected))),
        Yaml::DuplicateMappingKey { key: Some(key), .. } => format!("`{key}` is set twice"),
        Yaml::Message { msg, .. } => named(msg.clone()),
        Yaml::MultipleDocuments { .. } => {
            "a second YAML document begins here; the file may have only one: remove the line `---` and what follows".into()
        }
        // Its words for users, without the line, which is named already.
        other => UserMessageFormatter.format_message(other).into_owned(),
    };
    Error::new(message).at(line)
}

/// Descriptions of the parser's names for types and YAML syntax.
fn in_words(name: &str) -> &str {
    match name {
        "mapping start" => "keys with values below it",
        "sequence start" => "a list",
        "bool" | "boolean" => "true or false",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        other => other,
    }
}

fn unknown_key(field: &str, known: &[&str], sections: &[Section]) -> String {
    let known_here: BTreeSet<&str> = known.iter().copied().collect();
    let section = sections
        .iter()
        .find(|section| {
            section
                .keys
                .iter()
                .map(String::as_str)
                .eq(known_here.iter().copied())
        })
        .map_or("", |section| section.name.as_str());
    let place = if section.is_empty() {
        String::new()
    } else {
        format!(" in `{section}`")
    };
    let mut suggestion = did_you_mean(field, known.iter().copied());
    if suggestion.is_empty()
        && let Some(other) = sections.iter().find(|section| section.keys.contains(field))
    {
        suggestion = if other.name.is_empty() {
            "; it belongs to the top level".into()
        } else {
            format!("; it belongs to `{}`", other.name)
        };
    }
    if suggestion.is_empty() {
        suggestion = format!("; known keys are {}", known.join(", "));
    }
    format!("unknown key `{field}`{place}{suggestion}")
}

fn did_you_mean<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> String {
    let likeness = |known: &&str| strsim::normalized_damerau_levenshtein(word, known);
    // The comparison takes quadratic time, and a long text is not a misspelling.
    let best = known
        .filter(|known| word.len() <= 64 && likeness(known) >= ALIKE)
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    best.map_or(String::new(), |known| format!("; did you mean `{known}`?"))
}

/// The key at a position, or the key of the value at that position: the last key before it in the line, otherwise the first
/// key of a line above.
fn key_at(text: &str, line: u64, column: u64) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let at = usize::try_from(line).ok()?.checked_sub(1)?;
    let column = usize::try_from(column).ok()?.saturating_sub(1);
    let (split, _) = lines
        .get(at)?
        .char_indices()
        .nth(column)
        .unwrap_or((lines[at].len(), ' '));
    let (before, after) = lines[at].split_at(split);
    if let Some((key, _)) = after.split_once(':')
        && !key.is_empty()
        && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    {
        return Some(key.to_owned());
    }
    let here = before.rsplit_once(':').and_then(|(key, _)| word_at_end(key));
    let above = || {
        let mut keys = lines[..at].iter().rev().filter_map(|line| line.split_once(':'));
        keys.find_map(|(key, _)| word_at_end(key))
    };
    here.or_else(above)
}

fn word_at_end(text: &str) -> Option<String> {
    let word = text
        .rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .next()?;
    (!word.is_empty()).then(|| word.to_owned())
}

/// The line number of a key (`probe.interval`), from 1.
pub fn line_of(text: &str, key: &str) -> Option<u64> {
    let mut wanted = key.split('.').peekable();
    for (number, line) in (1..).zip(text.lines()) {
        let name = line.trim_start().split(':').next()?.trim_end();
        if Some(&name) == wanted.peek() && line.contains(':') {
            wanted.next();
            if wanted.peek().is_none() {
                return Some(number);
            }
        }
    }
    None
}
