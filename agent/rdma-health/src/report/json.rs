//! The verdict as JSON.

use std::io::Write;

use rdma_health_node::Node;
use rdma_health_rules::{Finding, Status, Verdict};
use serde::Serialize;

/// Version of this form. Fields may be added without a new one.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    status: Status,
    /// Why nothing could be judged, where the status is `unknown`.
    unknown_because: Option<&'a str>,
    findings: &'a [Finding],
    node: &'a Node,
}

/// Writes one JSON object and a line end.
///
/// # Errors
/// The system's.
pub(crate) fn write(out: &mut impl Write, node: &Node, verdict: &Verdict) -> anyhow::Result<()> {
    let unknown_because = verdict
        .unknown_because
        .as_deref()
        .filter(|_| verdict.status == Status::Unknown);
    let report = Report {
        schema: SCHEMA,
        status: verdict.status,
        unknown_because,
        findings: &verdict.findings,
        node,
    };
    serde_json::to_writer_pretty(&mut *out, &report)?;
    writeln!(out)?;
    Ok(())
}
