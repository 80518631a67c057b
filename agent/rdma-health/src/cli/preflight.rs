//! `rdma-health preflight`: why an RDMA pod will not start in a namespace.

use std::{
    io::{Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, bail};
use clap::Args;
use rdma_health_file::Links;
use rdma_health_kubernetes::{Access, read_cluster};
use rdma_health_node::words::{count, printable, write_json};
use rdma_health_preflight::{Report, preflight};
use rdma_health_rules::Severity;
use serde_json::Value;

use super::{Output, values};
use crate::descriptors;

/// Maximum size of a manifest.
const MAX_MANIFEST: u64 = 8 << 20;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Namespace of the pods
    #[arg(short, long, value_name = "NAME", value_parser = values::namespace)]
    namespace: String,
    /// Manifest to check instead of what is in the namespace, as YAML or JSON; - is standard input. Can be repeated
    #[arg(short, long, value_name = "FILE")]
    file: Vec<PathBuf>,
    /// Kubeconfig file [default: the service account of the pod, else the file that kubectl uses]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Format of the report
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    output: Output,
}

pub(super) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let mut objects = Vec::new();
    for file in &arguments.file {
        objects.extend(manifest(file)?);
    }
    let access = Access {
        kubeconfig: arguments.kubeconfig,
        ..Access::default()
    };
    let runtime = descriptors::runtime()?;
    let objects = (!arguments.file.is_empty()).then_some(objects.as_slice());
    let (cluster, workloads) = runtime.block_on(read_cluster(access, &arguments.namespace, objects))?;
    let has_nothing = workloads.as_ref().is_some_and(Vec::is_empty) && cluster.not_understood.is_empty();
    if has_nothing {
        bail!("the manifests contain no pod and nothing that creates pods");
    }
    let report = preflight(&cluster, workloads.as_deref());
    let mut out = super::output::stdout();
    match arguments.output {
        Output::Text => text(&mut out, &report, !arguments.file.is_empty())?,
        Output::Json => write_json(&mut out, &report)?,
    }
    out.flush()?;
    Ok(ExitCode::from(report.exit_status()))
}

/// The objects of a manifest.
fn manifest(file: &Path) -> anyhow::Result<Vec<Value>> {
    let failed = || format!("cannot read {}", file.display());
    let bytes = if file == Path::new("-") {
        let mut bytes = Vec::new();
        let mut input = std::io::stdin().lock().take(MAX_MANIFEST + 1);
        input.read_to_end(&mut bytes).with_context(failed)?;
        if bytes.len() as u64 > MAX_MANIFEST {
            bail!("standard input has more than {MAX_MANIFEST} bytes");
        }
        bytes
    } else {
        rdma_health_file::read(file, MAX_MANIFEST, Links::Follow).with_context(failed)?
    };
    let text = String::from_utf8(bytes).with_context(failed)?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).with_context(failed)?;
    let mut objects = Vec::new();
    for document in documents {
        match document {
            Value::Object(mut object) if object.contains_key("items") => {
                if let Some(Value::Array(items)) = object.remove("items") {
                    objects.extend(items);
                }
            }
            Value::Object(_) => objects.push(document),
            // An empty document.
            _ => {}
        }
    }
    Ok(objects)
}

fn text(out: &mut impl Write, report: &Report, from_manifests: bool) -> std::io::Result<()> {
    let number = |severity| {
        report
            .findings
            .iter()
            .filter(|one| one.severity == severity)
            .count()
    };
    let of = |severity: Severity, word: &str| {
        let number = number(severity);
        (number > 0).then(|| count(number, word))
    };
    let found: Vec<_> = [
        of(Severity::Critical, "critical finding"),
        of(Severity::Warning, "warning"),
        of(Severity::Info, "remark"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let verdict = match report.exit_status() {
        0 => "OK",
        1 => "WARNING",
        2 => "CRITICAL",
        _ => "UNKNOWN",
    };
    let checked = report.checked(from_manifests);
    let found = if found.is_empty() {
        "nothing found".to_owned()
    } else {
        found.join(", ")
    };
    line(
        out,
        &format!("{verdict}  namespace {}: {found}; {checked}", report.namespace),
    )?;
    for finding in &report.findings {
        writeln!(out)?;
        line(
            out,
            &format!(
                "{}  {}  {}",
                finding.severity.name(),
                finding.rule,
                finding.subject
            ),
        )?;
        line(out, &format!("  {}", finding.summary))?;
        for evidence in &finding.evidence {
            line(out, &format!("  evidence: {evidence}"))?;
        }
        line(out, &format!("  fix: {}", finding.remedy))?;
    }
    if report.more > 0 {
        line(out, &format!("\n{} more findings are not shown", report.more))?;
    }
    for (first, missing) in report
        .not_checked
        .iter()
        .enumerate()
        .map(|(i, one)| (i == 0, one))
    {
        if first {
            writeln!(out)?;
        }
        line(out, &format!("not checked: {}: {}", missing.what, missing.why))?;
    }
    Ok(())
}

fn line(out: &mut impl Write, text: &str) -> std::io::Result<()> {
    writeln!(out, "{}", printable(text))
}
