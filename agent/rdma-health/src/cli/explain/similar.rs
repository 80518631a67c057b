//! Every name that can be explained, and those that are like an unknown one.

use rdma_health_diagnosis::{CAUSES, glossary::terms, symptom::SymptomKind};
use rdma_health_rules::CATALOGUE;

/// Names at least this similar to an unknown one are suggested, from 0 to 1.
const SIMILAR: f64 = 0.7;
/// The most names that are suggested.
const SUGGESTIONS: usize = 8;

/// Every id of a rule, a cause or a symptom, and every term.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let rules = CATALOGUE.iter().map(|rule| rule.id);
    let causes = CAUSES.iter().map(|cause| cause.id);
    let terms = terms().map(|term| term.name);
    rules
        .chain(causes)
        .chain(SymptomKind::all().map(SymptomKind::id))
        .chain(terms)
}

/// The name that a single word misspells by one letter, or by two if it is long.
pub(super) fn misspelled(text: &str) -> Option<&'static str> {
    /// The fewest letters of a name that is not like another one by chance.
    const LONG: usize = 8;
    let name = text.trim().to_lowercase();
    let is_name = (LONG..=64).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    // Names in a row differ in their numbers: rx_prio0_discards, rx_prio1_discards.
    let letters = |name: &str| name.replace(|c: char| c.is_ascii_digit(), "");
    let is_near = |known: &str| {
        let known = known.to_lowercase();
        let distance = strsim::damerau_levenshtein(&known, &name);
        let most = if name.len() >= 2 * LONG { 2 } else { 1 };
        (1..=most).contains(&distance) && letters(&known) != letters(&name)
    };
    is_name.then(|| names().find(|known| is_near(known)))?
}

/// A question about the names that may be meant.
pub(super) fn hint(near: &[&str]) -> String {
    match near {
        [] => String::new(),
        [one] => format!("; did you mean {one}?"),
        several => {
            let dots = if several.len() > SUGGESTIONS { ", …" } else { "" };
            let shown = &several[..several.len().min(SUGGESTIONS)];
            format!("; did you mean one of {}{dots}?", shown.join(", "))
        }
    }
}

/// Names that contain the unknown one, or else the most similar name.
pub(super) fn suggestions(name: &str) -> Vec<&'static str> {
    let name = name.to_lowercase();
    let mut containing: Vec<_> = names()
        .filter(|known| name.len() >= 3 && known.to_lowercase().contains(&name))
        .collect();
    if !containing.is_empty() {
        // A cause may have the name of its rule.
        containing.sort_unstable();
        containing.dedup();
        return containing;
    }
    let similarity = |known: &&str| strsim::normalized_damerau_levenshtein(&known.to_lowercase(), &name);
    let nearest = names()
        // Comparing takes the square of the length, and a long text is not a misspelled name.
        .filter(|known| name.len() <= 64 && similarity(known) >= SIMILAR)
        .max_by(|a, b| similarity(a).total_cmp(&similarity(b)));
    nearest.into_iter().collect()
}
