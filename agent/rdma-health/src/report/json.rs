//! The verdict as JSON.

use std::io::Write;

use rdma_health_node::Node;
use rdma_health_rules::{Diagnosis, Finding, Status};
use serde::Serialize;

use super::Report;

/// Version of this form. Fields may be added without a new one.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Form<'a> {
    schema: u32,
    /// Of the node and of the log together, where one was given.
    status: Status,
    /// What keeps it from being said that nothing is wrong, beside any status: what was found is no less true for it. The
    /// text's headline tells it, too, unless something critical was found.
    unknown_because: Option<&'a str>,
    findings: &'a [Finding],
    diagnosis: &'a Diagnosis,
    node: &'a Node,
}

/// Writes one JSON object and a line end.
///
/// # Errors
/// The system's.
pub(crate) fn write(out: &mut impl Write, report: &Report<'_>) -> anyhow::Result<()> {
    let form = Form {
        schema: SCHEMA,
        status: report.status(),
        unknown_because: report.verdict.unknown_because.as_deref(),
        findings: &report.verdict.findings,
        diagnosis: report.diagnosis,
        node: report.node,
    };
    serde_json::to_writer_pretty(&mut *out, &form)?;
    writeln!(out)?;
    Ok(())
}
