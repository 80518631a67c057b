//! Signs that a page explains what can happen.

use super::signs::{Line, WORDS};

/// A heading, or a label, of a page that helps: `## Solution`, `Cause: …`, `Troubleshooting EFA`.
pub(super) fn is_page_heading(line: &Line<'_>) -> bool {
    const TITLES: [&str; 20] = [
        "possible cause",
        "probable cause",
        "cause",
        "causes",
        "solution",
        "solutions",
        "resolution",
        "resolving the problem",
        "symptom",
        "symptoms",
        "remedy",
        "recommended action",
        "user response",
        "explanation",
        "workaround",
        "known errors",
        "known issues",
        "faq",
        "error codes",
        "return value",
    ];
    /// The most words of a title.
    const LENGTH: usize = 8;
    let plain = line.lower.trim_matches(['#', '*', '_', '-', ' ', '\r']);
    let (label, _) = plain.split_once(':').unwrap_or((plain, ""));
    let is_title = || {
        plain.split_whitespace().count() <= LENGTH
            && (plain.starts_with("troubleshoot")
                || plain.ends_with("troubleshooting")
                || plain.ends_with(" faq"))
    };
    TITLES.contains(&label) || is_title()
}

/// A heading of a list of changes: `### Bug Fixes`, `## Release v1.14.1`.
pub(super) fn is_change_heading(line: &Line<'_>) -> bool {
    const TITLES: [&str; 8] = [
        "release notes",
        "bug fixes",
        "fixes",
        "fixed issues",
        "resolved issues",
        "changelog",
        "change log",
        "what's changed",
    ];
    if !line.text.trim_start().starts_with(['#', '*']) {
        return false;
    }
    let plain = line.lower.trim_matches(['#', '*', '_', '-', ' ', '\r']);
    let is_release = || {
        let version = plain.strip_prefix("release ").unwrap_or(plain);
        let version = version.trim_start_matches(['[', 'v']);
        let (major, rest) = version.split_once('.').unwrap_or_default();
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number(major) && rest.starts_with(|c: char| c.is_ascii_digit())
    };
    TITLES.contains(&plain) || is_release()
}

/// Advice: a condition at the beginning, a request, what should be done.
pub(super) fn advises(line: &Line<'_>) -> bool {
    const BEGINNINGS: [&str; 14] = [
        "if ",
        "when ",
        "to resolve ",
        "to fix ",
        "make sure ",
        "ensure ",
        "check ",
        "verify ",
        "use ",
        "set ",
        "contact ",
        "run ",
        "increase ",
        "add ",
    ];
    const PHRASES: [&str; 12] = [
        " you can ",
        " you must ",
        " should be ",
        " must be ",
        " may be ",
        " can be ",
        " may have ",
        "for more information",
        "refer to",
        "see also",
        "it is recommended",
        "we recommend",
    ];
    let plain = line
        .lower
        .trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '-' | '*' | ' ' | '.' | ')' | '>'));
    plain.split_whitespace().count() >= WORDS
        && (BEGINNINGS.iter().any(|beginning| plain.starts_with(beginning))
            || PHRASES.iter().any(|phrase| line.lower.contains(phrase)))
}

/// What a message means.
pub(super) fn explains(line: &Line<'_>) -> bool {
    const PHRASES: [&str; 12] = [
        " means ",
        " indicates ",
        " indicate that",
        "this error occurs",
        "error occurs when",
        "this message",
        " is displayed",
        " are displayed",
        "is returned when",
        " is generated when",
        " usually ",
        " typically ",
    ];
    PHRASES.iter().any(|phrase| line.lower.contains(phrase))
}

/// A name in angle brackets that stands for a value: `<device>`, `<BDF>`. Or a value that is left out: `qp_num=...`.
pub(super) fn has_placeholder(line: &Line<'_>) -> bool {
    const LEVELS: [&str; 8] = [
        "warn", "info", "error", "debug", "trace", "fatal", "unknown", "none",
    ];
    let is_left_out = line.lower.contains("=...");
    is_left_out
        || line.lower.split('<').skip(1).take(8).any(|part| {
            part.split_once('>').is_some_and(|(name, _)| {
                (2..=24).contains(&name.len())
                    && !LEVELS.contains(&name)
                    && name.starts_with(|c: char| c.is_ascii_lowercase())
                    && name
                        .bytes()
                        .all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'_' | b'-' | b' '))
            })
        })
}
