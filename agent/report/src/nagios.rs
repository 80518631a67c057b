//! The verdict as Nagios plugins print it, for Icinga, Checkmk, Sensu and others: one line with performance data, then the
//! findings.

use std::{fmt::Write as _, io::Write};

use rdma_health_node::words::printable;
use rdma_health_rules::{Severity, Status};

use super::{Report, text::outcome};

/// Writes the verdict. `status` is that of the exit status, which can be another one than the node's: what a check fails on is
/// chosen.
///
/// # Errors
/// If writing fails.
pub fn write(out: &mut impl Write, report: &Report<'_>, status: Status) -> std::io::Result<()> {
    let mut what = plain(&match report.information(status) {
        Some(rules) => format!("information: {rules}"),
        None => outcome(report),
    });
    if let Some(subject) = report.first_subject() {
        // Writing to a string cannot fail, here and below.
        let _ = write!(what, " ({})", plain(&subject));
    }
    if let Some(unread) = report.unread() {
        let _ = write!(what, "; {unread}");
    }
    let status = status.name().to_uppercase();
    writeln!(out, "RDMA {status} - {what} | {}", numbers(report))?;
    for finding in &report.verdict.findings {
        let severity = finding.severity.name().to_uppercase();
        writeln!(
            out,
            "{severity}: {}: {}",
            finding.rule.id,
            plain(&finding.message_with_pods())
        )?;
    }
    Ok(())
}

/// Writes why the node could not be judged.
///
/// # Errors
/// If writing fails.
pub fn failed(out: &mut impl Write, error: &str) -> std::io::Result<()> {
    writeln!(out, "RDMA UNKNOWN - {}", plain(error))
}

/// Text in a plugin's output: the bar separates performance data.
fn plain(text: &str) -> String {
    printable(text).replace('|', "/")
}

/// `'label'=value;warning;critical;minimum` for each number.
fn numbers(report: &Report<'_>) -> String {
    let node = report.node;
    let (critical, warning) = report.problems();
    let critical = critical + report.symptoms_of_job(Severity::Critical);
    let warning = warning + report.symptoms_of_job(Severity::Warning);
    let mut all = format!("critical={critical};;0;0 warning={warning};0;;0");
    if node.hcas.known().is_some() {
        // Writing to a string cannot fail, here and below.
        let _ = write!(all, " active_ports={};;;0", node.active_ports().count());
    }
    for probe in node.loopbacks() {
        let Some(measured) = &probe.report.bandwidth else {
            continue;
        };
        let gigabits = measured.bytes_per_second * 8e-9;
        let port = label(&format!("{} bandwidth_gbps", probe.report.path.from));
        let _ = write!(all, " {port}={gigabits:.2};;;0");
    }
    all
}

/// A label in quotes. It may contain neither `=` nor a bar, and a quote is doubled.
fn label(text: &str) -> String {
    let text = plain(text).replace('=', "_").replace('\'', "''");
    format!("'{text}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_name_stays_within_its_label() {
        assert_eq!(label("mlx5'=1|x\n"), "'mlx5''_1/x\\n'");
        assert_eq!(plain("a|b\u{1b}[2J"), "a/b\\u{1b}[2J");
    }
}
