//! `kubectl rdma-health nodes`: the verdict of every node.

use std::{collections::BTreeMap, io::Write, process::ExitCode};

use clap::Args;
use rdma_health_kubernetes::Fleet;
use rdma_health_node::words::count;
use rdma_health_report::table;
use serde::Serialize;

use super::{
    ClusterArguments, FormatArguments,
    answer::{MAX_VERDICT, Problem, Since, Status, VerdictAnswer},
    pool, report_missing,
};
use crate::cli::{Output, UNKNOWN};

/// Maximum number of lines of a table, unless all are asked for.
const MANY: usize = 50;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Only nodes with these labels, as in kubectl get nodes --selector
    #[arg(short = 'l', long, value_name = "SELECTOR", default_value = "")]
    selector: String,
    /// Label that names the pool of a node [default: that of Karpenter, EKS, GKE, AKS, OKE or OpenShift]
    #[arg(long, value_name = "KEY")]
    pool_label: Option<String>,
    /// List every node, not only the first 50 that are not ok
    #[arg(short, long)]
    all: bool,
    #[command(flatten)]
    cluster: ClusterArguments,
    #[command(flatten)]
    format: FormatArguments,
}

/// One node, as the JSON has it.
#[derive(Debug, Serialize)]
struct Row<'a> {
    node: &'a str,
    pool: &'a str,
    kernel: Option<&'a str>,
    /// `None` if the agent did not answer.
    verdict: Option<Status>,
    /// Seconds since 1970.
    since: Option<u64>,
    /// Whether a reading shortly before `since` did not show it.
    since_exact: Option<bool>,
    causes: Vec<Problem>,
    unknown_because: Option<String>,
    /// Why the agent gave no answer.
    error: Option<String>,
}

impl Row<'_> {
    fn observed(&self) -> Option<Since> {
        let (time, exact) = self.since.zip(self.since_exact)?;
        Some(Since { time, exact })
    }
}

pub(super) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let cluster = &arguments.cluster;
    let fleet = Fleet::find(&cluster.options(), &arguments.selector, None).await?;
    let mut answers: Vec<Option<Result<VerdictAnswer, String>>> = vec![None; fleet.nodes.len()];
    let take = |(n, answer): (usize, Result<Vec<u8>, String>)| {
        let node = &fleet.nodes[n].name;
        answers[n] = Some(answer.and_then(|body| VerdictAnswer::parse(&body, node)));
    };
    fleet.ask("/api/v1/verdict", MAX_VERDICT, take).await;
    let rows: Vec<Row<'_>> = fleet
        .nodes
        .iter()
        .zip(answers)
        .map(|(node, answer)| {
            let (answer, error) = match answer {
                Some(Ok(answer)) => (Some(answer), None),
                Some(Err(error)) => (None, Some(error)),
                None => (None, Some("not asked".into())),
            };
            let since = answer.as_ref().and_then(VerdictAnswer::since);
            Row {
                node: &node.name,
                pool: pool(node, arguments.pool_label.as_deref()),
                kernel: node.kernel.as_deref(),
                verdict: answer.as_ref().map(|answer| answer.status),
                since: since.map(|since| since.time),
                since_exact: since.map(|since| since.exact),
                unknown_because: answer.as_ref().and_then(|answer| answer.unknown_because.clone()),
                causes: answer.map(|answer| answer.problems).unwrap_or_default(),
                error,
            }
        })
        .collect();
    let mut out = crate::cli::output::stdout();
    match arguments.format.output {
        Output::Text => text(&mut out, &rows, arguments.all)?,
        Output::Json => {
            let answered = rows.iter().filter(|row| row.error.is_none()).count();
            let document =
                serde_json::json!({"schema": 1, "asked": rows.len(), "answered": answered, "nodes": rows});
            serde_json::to_writer_pretty(&mut out, &document)?;
            writeln!(out)?;
        }
    }
    out.flush()?;
    drop(out);
    let missing: Vec<_> = rows
        .iter()
        .filter_map(|row| Some((row.node, row.error.as_deref()?)))
        .collect();
    report_missing(&missing, rows.len());
    Ok(ExitCode::from(exit_status(&rows)))
}

/// The worst verdict; a missing answer counts as unknown, and so does a cluster without nodes.
fn exit_status(rows: &[Row<'_>]) -> u8 {
    let worst = rows
        .iter()
        .map(|row| row.verdict.unwrap_or(Status::Unknown))
        .max();
    match worst {
        Some(Status::Ok) => 0,
        Some(Status::Warning) => 1,
        Some(Status::Critical) => 2,
        Some(Status::Unknown) | None => UNKNOWN,
    }
}

fn text(out: &mut impl Write, rows: &[Row<'_>], all: bool) -> std::io::Result<()> {
    let of = |status: Status| rows.iter().filter(|row| row.verdict == Some(status)).count();
    let mut parts: Vec<_> = Status::ALL
        .into_iter()
        .filter(|status| of(*status) > 0)
        .map(|status| format!("{} {}", of(status), status.name()))
        .collect();
    let silent = rows.iter().filter(|row| row.verdict.is_none()).count();
    if silent > 0 {
        parts.push(format!("{silent} without an answer"));
    }
    writeln!(out, "{}: {}", count(rows.len(), "node"), parts.join(", "))?;

    let mut groups = BTreeMap::<(&str, &str), [usize; 5]>::new();
    for row in rows {
        let counts = groups.entry((row.pool, row.kernel.unwrap_or("-"))).or_default();
        let place = row
            .verdict
            .and_then(|verdict| Status::ALL.iter().position(|one| *one == verdict));
        counts[place.unwrap_or(4)] += 1;
    }
    let lines: Vec<_> = groups
        .iter()
        .map(|((pool, kernel), counts)| {
            let mut cells = vec![(*pool).to_owned(), (*kernel).to_owned()];
            cells.extend(counts.iter().map(ToString::to_string));
            cells
        })
        .collect();
    writeln!(out)?;
    let head = [
        "POOL",
        "KERNEL",
        "OK",
        "WARNING",
        "CRITICAL",
        "UNKNOWN",
        "NO ANSWER",
    ];
    table::write(out, &head.map(str::to_owned), &lines)?;

    by_cause(out, rows)?;
    let now = rdma_health_time::now();
    let mut shown: Vec<_> = rows
        .iter()
        .filter(|row| row.verdict.is_some_and(|verdict| all || verdict != Status::Ok))
        .collect();
    shown.sort_by_key(|row| (std::cmp::Reverse(row.verdict), row.node));
    if shown.is_empty() {
        return Ok(());
    }
    let more = if all { 0 } else { shown.len().saturating_sub(MANY) };
    shown.truncate(shown.len() - more);
    let lines: Vec<_> = shown
        .into_iter()
        .map(|row| {
            let since = row.observed().map_or("-".into(), |since| since.ago(now));
            vec![
                row.node.to_owned(),
                row.verdict.map_or("-", Status::name).to_owned(),
                since,
                row.pool.to_owned(),
                row.kernel.unwrap_or("-").to_owned(),
                causes(row),
            ]
        })
        .collect();
    writeln!(out)?;
    let head = ["NODE", "VERDICT", "SINCE", "POOL", "KERNEL", "CAUSES"];
    table::write(out, &head.map(str::to_owned), &lines)?;
    if more > 0 {
        writeln!(out, "and {}; --all lists all", count(more, "more node"))?;
    }
    Ok(())
}

/// How many nodes have each cause, the most frequent first.
fn by_cause(out: &mut impl Write, rows: &[Row<'_>]) -> std::io::Result<()> {
    let mut causes = BTreeMap::<&str, (usize, &str)>::new();
    for row in rows {
        let mut own: Vec<_> = row
            .causes
            .iter()
            .map(|problem| (&*problem.cause, &*problem.title))
            .collect();
        own.sort_unstable();
        own.dedup_by_key(|(cause, _)| *cause);
        for (cause, title) in own {
            causes.entry(cause).or_insert((0, title)).0 += 1;
        }
    }
    if causes.is_empty() {
        return Ok(());
    }
    let mut causes: Vec<_> = causes.into_iter().collect();
    causes.sort_by_key(|(cause, (nodes, _))| (std::cmp::Reverse(*nodes), *cause));
    let lines: Vec<_> = causes
        .into_iter()
        .take(MANY)
        .map(|(cause, (nodes, title))| vec![nodes.to_string(), cause.to_owned(), title.to_owned()])
        .collect();
    writeln!(out)?;
    table::write(out, &["NODES", "CAUSE", "WHAT IT IS"].map(str::to_owned), &lines)
}

/// `iommu-translation, port-down (mlx5_3)`.
fn causes(row: &Row<'_>) -> String {
    let words: Vec<_> = row
        .causes
        .iter()
        .map(|problem| match &problem.device {
            Some(device) => format!("{} ({device})", problem.cause),
            None => problem.cause.clone(),
        })
        .collect();
    match (words.is_empty(), &row.unknown_because) {
        (true, Some(why)) => why.clone(),
        (true, None) => "-".into(),
        (false, _) => words.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(node: &str, verdict: Option<Status>) -> Row<'_> {
        let error = verdict.is_none().then(|| "no agent runs on the node".to_owned());
        let cause = Problem {
            cause: "link\u{1b}[31m".into(),
            title: String::new(),
            severity: "critical".into(),
            device: Some("mlx5_0".into()),
            since: None,
        };
        Row {
            node,
            pool: "a",
            kernel: Some("6.1.0"),
            verdict,
            since: None,
            since_exact: None,
            causes: if verdict == Some(Status::Critical) {
                vec![cause]
            } else {
                Vec::new()
            },
            unknown_because: None,
            error,
        }
    }

    #[test]
    fn the_worst_node_is_first_and_no_text_of_an_agent_reaches_the_terminal_unescaped() {
        let rows = [
            row("one", Some(Status::Ok)),
            row("two", Some(Status::Critical)),
            row("three", None),
        ];
        let mut out = Vec::new();
        text(&mut out, &rows, true).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(
            out.starts_with("3 nodes: 1 ok, 1 critical, 1 without an answer\n"),
            "{out}"
        );
        assert!(out.find("\ntwo ").unwrap() < out.find("\none ").unwrap(), "{out}");
        assert!(!out.contains('\u{1b}') && out.contains("(mlx5_0)"), "{out}");
        assert_eq!(exit_status(&rows), 2);
        assert_eq!(exit_status(&rows[..1]), 0);
        assert_eq!(
            exit_status(&[row("one", Some(Status::Ok)), row("three", None)]),
            UNKNOWN
        );
        assert_eq!(exit_status(&[]), UNKNOWN);
    }
}
