//! Contractions: programs write `could not`, `couldn't` and, in pages, `couldn’t`. A message is known in one of the wordings.

use super::reading::{Reading, read_as_worded};
use crate::{
    log::{line::Lower, trace::is_crash_in_library},
    symptom::SymptomKind,
};

/// A word that contracts, and its contraction.
const CONTRACTIONS: [(&str, &str); 13] = [
    ("can not", "can't"),
    ("cannot", "can't"),
    ("could not", "couldn't"),
    ("does not", "doesn't"),
    ("do not", "don't"),
    ("did not", "didn't"),
    ("is not", "isn't"),
    ("are not", "aren't"),
    ("was not", "wasn't"),
    ("were not", "weren't"),
    ("has not", "hasn't"),
    ("have not", "haven't"),
    ("will not", "won't"),
];

/// What a line shows, in whichever wording it is known.
pub(in crate::log) fn read(line: &Lower<'_>, of_driver: bool) -> Option<Reading> {
    if is_crash_in_library(&line.lower) {
        return Some(Reading::unrecognised());
    }
    let reading = read_as_worded(line, of_driver);
    if reading
        .as_ref()
        .is_some_and(|reading| reading.kind != SymptomKind::Unrecognised)
    {
        return reading;
    }
    let in_other_words = |text: String| {
        read_as_worded(&Lower::of(&text), of_driver)
            .filter(|reading| reading.kind != SymptomKind::Unrecognised)
            .map(|reading| reading.within(line.text))
    };
    let other = expanded(line.text).and_then(in_other_words).or_else(|| {
        let failed = reading.is_some();
        contracted(&line.lower)
            .filter(|_| failed)
            .and_then(in_other_words)
    });
    other.or(reading)
}

/// A text without its contractions; `None` if it has none.
pub(in crate::log) fn expanded(text: &str) -> Option<String> {
    let has = |sign: &str| text.contains(sign);
    if !(has("n't") || has("n\u{2019}t")) {
        return None;
    }
    let mut plain = text.replace('\u{2019}', "'");
    for (whole, word) in CONTRACTIONS.iter().skip(1) {
        for (whole, word) in [
            ((*whole).to_owned(), (*word).to_owned()),
            (capital(whole), capital(word)),
        ] {
            if plain.contains(&word) {
                plain = plain.replace(&word, &whole);
            }
        }
    }
    Some(plain)
}

/// A text in lower case with contractions; `None` if nothing in it contracts.
fn contracted(lower: &str) -> Option<String> {
    let mut plain = None;
    for (whole, word) in CONTRACTIONS {
        let text = plain.as_deref().unwrap_or(lower);
        if text.contains(whole) {
            plain = Some(text.replace(whole, word));
        }
    }
    plain
}

/// A word at the beginning of a sentence.
fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_known_in_each_wording() {
        for (line, expected) in [
            (
                "NCCL WARN NET/OFI Couldn't find any optimal provider",
                SymptomKind::NoDevice,
            ),
            (
                "NCCL WARN NET/OFI Couldn\u{2019}t find any optimal provider",
                SymptomKind::NoDevice,
            ),
            (
                "NCCL WARN NET/OFI Could not find any optimal provider",
                SymptomKind::NoDevice,
            ),
            (
                "libibverbs: Warning: could not load driver 'libmlx5-rdmav34.so'",
                SymptomKind::NoProvider,
            ),
            (
                "NET/OFI error: the requested capabilities aren't supported by the provider",
                SymptomKind::UnsupportedAdapter,
            ),
        ] {
            let reading = read(&Lower::of(line), false);
            assert_eq!(reading.map(|reading| reading.kind), Some(expected), "{line}");
        }
        assert_eq!(expanded("could not be read"), None);
        assert_eq!(expanded("It Can't start"), Some("It Cannot start".into()));
        assert_eq!(expanded("don't"), Some("do not".into()));
    }
}
