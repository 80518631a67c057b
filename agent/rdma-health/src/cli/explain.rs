//! `rdma-health explain NAME`: a rule, a cause, or an error that a log shows.

use std::fmt::Write;

use rdma_health_rules::{
    CATALOGUE, Rule,
    diagnosis::{
        known::{CAUSES, KnownCause, Link, cause},
        symptom::SymptomKind,
    },
    rule,
};

/// Every name that can be explained.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let rules = CATALOGUE.iter().map(|rule| rule.id);
    let causes = CAUSES.iter().map(|cause| cause.id);
    rules.chain(causes).chain(SymptomKind::all().map(SymptomKind::id))
}

/// What a name means; `None` where nothing has it. A cause and a rule of one name are told together.
pub(super) fn of(name: &str, width: usize) -> Option<String> {
    let parts = [
        rule(name).map(|rule| of_rule(rule, width)),
        cause(name).map(|cause| of_cause(cause, width)),
        SymptomKind::named(name).map(|kind| of_symptom(kind, width)),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("\n"))
}

// Writing to a string cannot fail, here and below.
fn section(page: &mut String, heading: &str, text: &str, width: usize) {
    let options = textwrap::Options::new(width)
        .initial_indent("  ")
        .subsequent_indent("  ")
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .break_words(false);
    let _ = writeln!(page, "\n{heading}\n{}", textwrap::fill(text, options));
}

fn items(page: &mut String, heading: &str, items: &[String], width: usize) {
    if items.is_empty() {
        return;
    }
    let _ = writeln!(page, "\n{heading}");
    for item in items {
        let options = textwrap::Options::new(width)
            .initial_indent("  ")
            .subsequent_indent("      ")
            .word_splitter(textwrap::WordSplitter::NoHyphenation)
            .break_words(false);
        let _ = writeln!(page, "{}", textwrap::fill(item, options));
    }
}

fn of_rule(rule: &Rule, width: usize) -> String {
    let mut page = format!(
        "{}: {}\ndomain {}, severity {} unless said otherwise below\n",
        rule.id,
        rule.title,
        rule.domain.name(),
        rule.severity.name()
    );
    section(&mut page, "Why", rule.explanation, width);
    section(&mut page, "What to do", &rule.remedy.to_string(), width);
    section(&mut page, "False alarms", rule.false_alarms, width);
    let causes = CAUSES.iter().filter(|cause| cause.rules.contains(&rule.id));
    let causes: Vec<_> = causes
        .map(|cause| format!("{}: {}", cause.id, cause.title))
        .collect();
    items(&mut page, "Shows the cause", &causes, width);
    page
}

fn of_cause(cause: &KnownCause, width: usize) -> String {
    let mut page = format!("{}: {}\na cause\n", cause.id, cause.title);
    section(&mut page, "Why", cause.explanation, width);
    section(&mut page, "What to do", cause.next_step, width);
    let symptoms = |kinds: &[SymptomKind]| {
        let words = |kind: &SymptomKind| format!("{kind}: {}", kind.meaning());
        kinds.iter().map(words).collect::<Vec<_>>()
    };
    items(&mut page, "Often explains", &symptoms(cause.often), width);
    items(&mut page, "Sometimes explains", &symptoms(cause.sometimes), width);
    let rules = cause.rules.iter().filter_map(|id| rule(id));
    let rules: Vec<_> = rules.map(|rule| format!("{}: {}", rule.id, rule.title)).collect();
    items(&mut page, "Shown by findings of", &rules, width);
    page
}

fn of_symptom(kind: SymptomKind, width: usize) -> String {
    let mut page = match kind {
        SymptomKind::Completion(number) => format!("{}: ibv_wc_status {number}\n", kind.id()),
        _ => format!("{}: a symptom\n", kind.id()),
    };
    section(&mut page, "What it says", &sentence(kind.meaning()), width);
    let causes = |wanted: Link| {
        let linked = CAUSES.iter().filter(|cause| cause.link(kind) == Some(wanted));
        linked
            .map(|cause| format!("{}: {}", cause.id, cause.title))
            .collect::<Vec<_>>()
    };
    items(&mut page, "Usual causes", &causes(Link::Often), width);
    items(&mut page, "Rarer causes", &causes(Link::Sometimes), width);
    section(
        &mut page,
        "What to do",
        "Run rdma-health check --log FILE on the node that wrote it: it weighs these causes by what the node shows.",
        width,
    );
    page
}

/// A meaning as a sentence: with a capital letter and an end.
fn sentence(meaning: &str) -> String {
    let mut letters = meaning.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    let end = if meaning.ends_with('.') { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_explained_within_the_width() {
        for name in names() {
            let text = of(name, 80).unwrap_or_else(|| panic!("{name}"));
            assert!(
                text.contains(name) && text.contains("What to do"),
                "{name}: {text}"
            );
            for line in text.lines().skip(1) {
                assert!(
                    line.chars().count() <= 80 || !line.trim().contains(' '),
                    "{name}: {line}"
                );
            }
        }
    }

    #[test]
    fn an_error_is_found_as_logs_write_it() {
        for name in ["IBV_WC_LOC_PROT_ERR", "LOC_PROT_ERR", "loc_prot_err", "4"] {
            let text = of(name, 80).unwrap();
            assert!(
                text.contains("iommu-translation") && text.contains("81"),
                "{name}: {text}"
            );
        }
        assert_eq!(of("no-such-thing", 80), None);
    }
}
