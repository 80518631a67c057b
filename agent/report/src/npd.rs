//! The verdict for a custom plugin of the Kubernetes node-problem-detector: one short line, and its own exit status.

use std::io::Write;

use rdma_health_node::words::printable;
use rdma_health_rules::{Severity, Status};

use super::Report;

/// The most bytes that node-problem-detector keeps of a plugin's output by default, without the line end.
const LONGEST: usize = 79;

/// Writes the line. `status` is that of the exit status: what a check fails on is chosen.
///
/// # Errors
/// If writing fails.
pub fn write(out: &mut impl Write, report: &Report<'_>, status: Status) -> std::io::Result<()> {
    writeln!(out, "{}", cut(&printable(&line(report, status))))
}

/// Writes why the node could not be judged.
///
/// # Errors
/// If writing fails.
pub fn failed(out: &mut impl Write, error: &str) -> std::io::Result<()> {
    writeln!(out, "{}", cut(&printable(&format!("RDMA unknown: {error}"))))
}

/// The exit status: 0 healthy, 1 a problem of any severity, 2 unknown.
pub fn exit_code(status: Status) -> u8 {
    match status {
        Status::Ok => 0,
        Status::Warning | Status::Critical => 1,
        Status::Unknown => 2,
    }
}

/// The status and the cause to look at first. Without a cause, the rules.
fn line(report: &Report<'_>, status: Status) -> String {
    let mut rules: Vec<&str> = Vec::new();
    for finding in &report.verdict.findings {
        if finding.severity > Severity::Info && !rules.contains(&finding.rule.id) {
            rules.push(finding.rule.id);
        }
    }
    let what = match (
        report.status(),
        report.diagnosis.first(),
        report.unknown_because(),
    ) {
        (Status::Ok, ..) => match (report.information(status), report.unread()) {
            (Some(rules), _) => format!("information: {rules}"),
            (None, Some(unread)) => format!("no problem found; {unread}"),
            (None, None) => "no problem found".to_owned(),
        },
        (Status::Unknown, _, Some(why)) => why,
        (_, Some(cause), _) if rules.contains(&cause.id) || rules.is_empty() => {
            let subject = report.first_subject();
            let on = subject.map_or_else(String::new, |subject| format!(" on {subject}"));
            format!("{}{on}: {}", cause.id, cause.title)
        }
        (_, Some(cause), _) => format!("{} ({})", cause.id, rules.join(", ")),
        (_, None, _) => rules.join(", "),
    };
    format!("RDMA {}: {what}", status.name())
}

/// The first bytes of a text, with dots if that is not all.
fn cut(text: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let mut end = LONGEST - 3;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}...", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_never_longer_than_what_is_kept() {
        for text in [
            "short".to_owned(),
            "x".repeat(79),
            "x".repeat(80),
            "ä".repeat(400),
        ] {
            let line = cut(&text);
            assert!(line.len() <= LONGEST, "{line}");
            assert!(line == text || line.ends_with("..."), "{line}");
        }
    }

    #[test]
    fn any_problem_is_1() {
        let codes = [Status::Ok, Status::Warning, Status::Critical, Status::Unknown].map(exit_code);
        assert_eq!(codes, [0, 1, 1, 2]);
    }
}
