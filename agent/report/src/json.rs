//! The verdict as JSON.

use std::io::Write;

use rdma_health_diagnosis::Diagnosis;
use rdma_health_node::Node;
use rdma_health_rules::{Finding, Status};
use serde::Serialize;

use super::Report;

/// Version of the format. New fields do not change it.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Form<'a> {
    schema: u32,
    /// The combined status of the node and of the log, if there is one.
    status: Status,
    /// Why the absence of findings does not mean that the node is healthy; independent of the status, and findings are still
    /// valid. The text's headline has it too, unless there is a critical finding.
    unknown_because: Option<&'a str>,
    findings: &'a [Finding],
    diagnosis: &'a Diagnosis,
    node: &'a Node,
}

/// Writes one JSON object and a line end.
///
/// # Errors
/// If writing fails.
pub fn write(out: &mut impl Write, report: &Report<'_>) -> anyhow::Result<()> {
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
