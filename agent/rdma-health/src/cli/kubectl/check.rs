//! `kubectl rdma-health check NODE`: what the agent of one node reports.

use std::{io::Write, process::ExitCode};

use clap::Args;
use rdma_health_config::NodeName;
use rdma_health_node::words::{duration, printable};
use serde::Deserialize;
use serde_json::Value;

use super::{
    ClusterArguments, FormatArguments,
    answer::{MAX_REPORT, Problem, Since, Status, old, parse},
    ask_one,
};
use crate::cli::{Output, UNKNOWN};

/// Maximum number of findings that are printed.
const MANY: usize = 200;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Name of the Node
    #[arg(value_name = "NODE")]
    node: NodeName,
    #[command(flatten)]
    cluster: ClusterArguments,
    #[command(flatten)]
    format: FormatArguments,
}

/// The part of the report that is printed as text.
#[derive(Debug, Deserialize)]
struct Document {
    status: Status,
    unknown_because: Option<String>,
    time: u64,
    findings: Vec<Finding>,
    #[serde(default)]
    problems: Vec<Problem>,
    diagnosis: Diagnosis,
}

#[derive(Debug, Deserialize)]
struct Diagnosis {
    next_step: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Finding {
    rule: String,
    severity: String,
    message: String,
    remedy: String,
    since: Option<Since>,
}

impl Finding {
    /// Whether the same is to be done about both.
    fn is_like(&self, other: &Self) -> bool {
        (&self.rule, &self.severity, &self.remedy) == (&other.rule, &other.severity, &other.remedy)
    }
}

pub(super) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let body = ask_one(&arguments.cluster, &arguments.node, "/api/v1/report", MAX_REPORT).await?;
    let wrong = |why| anyhow::anyhow!("{}: {why}", arguments.node);
    let mut document: Document = parse(&body, arguments.node.as_str()).map_err(wrong)?;
    if let Some(why) = old(document.time, rdma_health_time::now()) {
        document.status = Status::Unknown;
        document.unknown_because = Some(why);
    }
    let mut out = crate::cli::output::stdout();
    match arguments.format.output {
        Output::Text => text(&mut out, &arguments.node, &document)?,
        Output::Json => {
            // Parsed and written again, so that nothing but JSON reaches the terminal.
            let value: Value = serde_json::from_slice(&body)?;
            serde_json::to_writer_pretty(&mut out, &value)?;
            writeln!(out)?;
        }
    }
    out.flush()?;
    Ok(ExitCode::from(match document.status {
        Status::Ok => 0,
        Status::Warning => 1,
        Status::Critical => 2,
        Status::Unknown => UNKNOWN,
    }))
}

fn text(out: &mut impl Write, node: &NodeName, document: &Document) -> std::io::Result<()> {
    let now = rdma_health_time::now();
    let age = duration(now.saturating_sub(document.time));
    writeln!(
        out,
        "{}  {node}, read {age} ago",
        document.status.name().to_uppercase()
    )?;
    if let Some(why) = &document.unknown_because {
        writeln!(out, "  unknown     {}", printable(why))?;
    }
    if let Some(step) = &document.diagnosis.next_step {
        for (n, line) in step.lines().enumerate() {
            let head = if n == 0 { "  next step   " } else { "    " };
            writeln!(out, "{head}{}", printable(line))?;
        }
    }
    for problem in document.problems.iter().take(MANY) {
        let device = problem.device.as_deref().map(|device| format!(" ({device})"));
        writeln!(
            out,
            "  cause       {}{}: {}{}",
            printable(&problem.cause),
            printable(&device.unwrap_or_default()),
            printable(&problem.title),
            age_of(problem.since, now)
        )?;
    }
    let findings = &document.findings[..document.findings.len().min(MANY)];
    for group in findings.chunk_by(Finding::is_like) {
        let Some(first) = group.first() else { continue };
        writeln!(
            out,
            "\n{}  {}",
            printable(&first.severity),
            printable(&first.rule)
        )?;
        for finding in group {
            let since = age_of(finding.since, now);
            writeln!(out, "  found       {}{since}", printable(&finding.message))?;
        }
        let fix = first.remedy.lines().next().unwrap_or_default();
        writeln!(out, "  fix         {}", printable(fix))?;
    }
    if let Some(more) = document.findings.len().checked_sub(MANY).filter(|more| *more > 0) {
        writeln!(out, "\n{more} more findings are not shown")?;
    }
    Ok(())
}

/// ` (for 2 h or longer)`.
fn age_of(since: Option<Since>, now: u64) -> String {
    since.map_or_else(String::new, |since| format!(" (for {})", since.ago(now)))
}
