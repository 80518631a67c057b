//! The names and numbers in a text.

use rdma_health_protocol::WcStatus;

use super::Meaning;
use crate::{
    glossary::{self, Term},
    log::{efa_status, status_in, strerror, vendor_error},
    symptom::{SymptomKind, completion::of_vendor_error},
};

/// What single words of a text stand for: the status, the vendor's error and the symbols in it.
pub(super) fn of_words(text: &str) -> Vec<Meaning> {
    /// A text of so few words is a name and its value.
    const FEW: usize = 4;
    let lower = text.to_ascii_lowercase();
    let mut found = Vec::new();
    let vendor = vendor_error(&lower);
    found.extend(status_in(text).map(|status| Meaning::Symptom(SymptomKind::Completion(status))));
    let status = lower
        .split_once("status")
        .map(|(_, rest)| rest.trim_start_matches([' ', '=', ':', '(']))
        .map(|rest| {
            rest.split(|c: char| !c.is_ascii_digit())
                .next()
                .unwrap_or_default()
        })
        .and_then(|digits| WcStatus::of(digits.parse::<u64>().ok()?));
    found.extend(
        status
            .filter(|_| vendor.is_some())
            .map(|status| Meaning::Symptom(SymptomKind::Completion(status)))
            .filter(|meaning| !found.contains(meaning)),
    );
    found.extend(vendor.and_then(|code| Some(Meaning::VendorError(code, of_vendor_error(code)?))));
    let is_short = text.split_whitespace().count() <= FEW;
    // `hbldv_modify_qp(INIT) failed`: the state of a queue pair is an argument there, not what the line is about.
    let is_argument = |meaning: &Meaning| {
        matches!(meaning, Meaning::Term(term) if term.kind == "state") && text.split_whitespace().count() > 2
    };
    for word in parts(text) {
        let is_name = word.contains('_');
        let is_symbol = word.len() > 2
            && word
                .bytes()
                .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
        let is_term = |meaning: &Meaning| is_short || is_name || !matches!(meaning, Meaning::Term(_));
        let meaning = if is_symbol {
            strerror::named(word)
                .map(Meaning::Errno)
                .or_else(|| SymptomKind::named(word).map(Meaning::Symptom))
                .or_else(|| efa_status(&word.to_ascii_lowercase()).map(Meaning::Symptom))
                .or_else(|| super::by_name(word).into_iter().next())
                .filter(is_term)
        } else {
            let is_listed = is_name || is_short || word.contains(['=', '/']);
            is_listed
                .then(|| glossary::named(word).map(Meaning::Term))
                .flatten()
        };
        if let Some(meaning) = meaning.filter(|meaning| !found.contains(meaning) && !is_argument(meaning)) {
            found.push(meaning);
        }
    }
    if found.is_empty() {
        let several =
            |term: &Term| term.name.contains(' ') && lower.contains(&term.name.to_ascii_lowercase());
        found.extend(glossary::terms().find(several).map(Meaning::Term));
    }
    found
}

/// The words of a text, each whole and in the parts that punctuation separates: `severity=Corrected,` and its two parts.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    /// The most words that are looked up.
    const MOST: usize = 64;
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let whole = text
        .split_whitespace()
        .map(move |word| word.trim_matches(|c| !is_of_name(c)));
    whole
        .flat_map(move |word| std::iter::once(word).chain(word.split(move |c| !is_of_name(c))))
        .filter(|word| !word.is_empty())
        .take(MOST)
}

/// The number in `Xid 79`, `Xid: 79`, `NVRM: Xid (PCI:0000:18:00): 79, …`.
pub(super) fn numbered(text: &str) -> Option<u16> {
    let lower = text.to_ascii_lowercase();
    let (before, rest) = lower.split_once("xid")?;
    let is_word = before
        .bytes()
        .last()
        .is_none_or(|byte| !byte.is_ascii_alphanumeric());
    let rest = match rest.split_once("): ") {
        Some((address, rest)) if address.starts_with(" (pci:") => rest,
        _ => rest.trim_start_matches([' ', ':', '=', '#']),
    };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    rest[..digits].parse().ok().filter(|_| is_word)
}

/// The last number of a text.
pub(super) fn last_number(text: &str) -> Option<u64> {
    let mut numbers = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    numbers
        .rfind(|word| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit()))?
        .parse()
        .ok()
}

/// A decimal or hexadecimal number, without its sign: programs print error numbers as `-110`.
pub(super) fn number(text: &str) -> Option<u64> {
    let text = text.trim_start_matches('-');
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
