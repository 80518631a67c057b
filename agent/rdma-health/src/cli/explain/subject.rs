//! What a text stands for: a rule, a cause, an error, a published name or a line of a log.

use rdma_health_diagnosis::{
    KnownCause, cause,
    lookup::{Meaning, Xid, lookup},
    symptom::{Symptom, SymptomKind},
};
use rdma_health_kernel::fact::{HelperTrouble, UnreadKind};
use rdma_health_node::words::printable;
use rdma_health_protocol::{Errno, WcStatus};
use rdma_health_rules::{CATALOGUE, Domain, Rule, rule, rule_with_reason};

use super::REPEATED;
use crate::cli::names::{Published, published};

/// One thing that a text stands for.
pub(super) enum Subject {
    Rule(&'static Rule),
    Cause(&'static KnownCause),
    Symptom(SymptomKind),
    Errno(Errno),
    VendorError(u32, WcStatus),
    UnlistedVendorError(u32),
    CqeSyndrome(u32, WcStatus),
    Syndrome(u64),
    Xid(u16, Option<&'static Xid>),
    /// A name of another library, a term or a number: its kind, name, meaning, and names to read about next.
    Term(&'static str, String, String, &'static [&'static str]),
    Line(Box<Symptom>),
    Published(Published),
}

/// What has a name that this program gives: a cause and a rule may share one.
fn named(name: &str) -> Vec<Subject> {
    let id = name.to_ascii_lowercase();
    let named = [
        rule(&id).or_else(|| rule_with_reason(name)).map(Subject::Rule),
        cause(&id).map(Subject::Cause),
        published(name).map(Subject::Published),
    ];
    named.into_iter().flatten().collect()
}

/// The value of a label of this program's metrics: why a fact is unread, why the helper was restarted, or a domain of rules.
fn label_value(name: &str) -> Option<Subject> {
    let of_helper = HelperTrouble::ALL
        .iter()
        .find(|trouble| trouble.reason() == name)
        .map(|trouble| UnreadKind::Helper(*trouble));
    let mut kinds = UnreadKind::ALL.iter();
    let unread = kinds.find(|(kind, _)| kind.name() == name || of_helper.as_ref() == Some(kind));
    let (meaning, see): (String, &[&str]) = if let Some((kind, meaning)) = unread {
        let see: &[&str] = match kind {
            UnreadKind::Helper(_) => &["helper-unhealthy"],
            _ => &["facts-unreadable"],
        };
        ((*meaning).to_owned(), see)
    } else {
        let domain = Domain::ALL.into_iter().find(|domain| domain.name() == name)?;
        let of_domain = CATALOGUE.iter().filter(|rule| rule.domain == domain);
        let rules: Vec<_> = of_domain.map(|rule| rule.id).collect();
        (format!("The domain of the rules {}.", rules.join(", ")), &[])
    };
    Some(Subject::Term("label value", name.to_owned(), meaning, see))
}

/// The same for the names within a text that was published, such as `rule="port-down"`, or a condition as kubectl shows it. Names of rules
/// and causes say more than those of alerts, conditions and metrics.
fn named_within(text: &str) -> Vec<Subject> {
    // Other names are words that any program may use.
    let is_distinct = |word: &&str| {
        word.contains(['-', '_']) || word.chars().filter(char::is_ascii_uppercase).nth(1).is_some()
    };
    let mut words: Vec<&str> = Vec::new();
    for word in text
        .split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '/' | '.')))
        .map(|word| word.trim_matches(['.', '/', '-']))
        .filter(is_distinct)
    {
        if !words.contains(&word) {
            words.push(word);
        }
    }
    let (published, ids): (Vec<_>, Vec<_>) = words
        .into_iter()
        .flat_map(named)
        .partition(|subject| matches!(subject, Subject::Published(_)));
    if ids.is_empty() { published } else { ids }
}

/// All that a text stands for: a name of this program, those within it, or what a log says; 12 is a status and an error number.
pub(super) fn subjects(text: &str) -> Vec<Subject> {
    let name = text.trim();
    let mut found = named(name);
    if found.is_empty() {
        found = named_within(name);
        if !found.is_empty() {
            return found;
        }
    }
    let is_id = !found.is_empty();
    for meaning in lookup(name) {
        found.push(match meaning {
            Meaning::Symptom(kind) => Subject::Symptom(kind),
            Meaning::Errno(errno) => Subject::Errno(errno),
            Meaning::VendorError(code, status) => Subject::VendorError(code, status),
            Meaning::UnlistedVendorError(code) => Subject::UnlistedVendorError(code),
            Meaning::CqeSyndrome(code, status) => Subject::CqeSyndrome(code, status),
            Meaning::Syndrome(code) => Subject::Syndrome(code),
            Meaning::Xid(number, xid) => Subject::Xid(number, xid),
            // An id needs no further meaning.
            Meaning::Term(_) | Meaning::Line(_) if is_id => continue,
            Meaning::Term(term) => {
                Subject::Term(term.kind, term.name.to_owned(), term.meaning.to_owned(), term.see)
            }
            Meaning::Rejection(number, meaning, see) => Subject::Term(
                "reason",
                number.to_string(),
                format!("a connection was rejected: {meaning}"),
                see,
            ),
            Meaning::Harmless(text) => {
                let shown: String = text.chars().take(REPEATED).collect();
                let meaning = "a normal event or a message without a consequence";
                Subject::Term("harmless", printable(&shown), meaning.to_owned(), &[])
            }
            Meaning::Line(symptom) => Subject::Line(symptom),
        });
    }
    if !is_id && let Some(value) = label_value(name) {
        // A single word is not a line of a log.
        found.retain(|subject| !matches!(subject, Subject::Line(_)));
        found.insert(0, value);
    }
    found
}
