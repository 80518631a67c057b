//! Lists of the rules and metrics, and shell completions.

use std::{io::Write, process::ExitCode};

use clap::{Args, ValueEnum};
use clap_complete::Shell;
#[cfg(feature = "agent")]
use rdma_health_metrics::catalogue;
use rdma_health_rules::CATALOGUE;

use super::{alerts, rules_page};
#[cfg(feature = "agent")]
use crate::agent;

/// Format of the rule catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RulesOutput {
    /// One line per rule
    Text,
    /// For programs
    Json,
    /// docs/rules.md
    Markdown,
    /// Recording rules and alerts for Prometheus 2.42 or later
    Prometheus,
}

#[derive(Debug, Args)]
pub(super) struct RulesArguments {
    /// Format of the list
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    output: RulesOutput,
}

/// Format of the metric catalogue.
#[cfg(feature = "agent")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MetricsOutput {
    /// One line per metric
    Text,
    /// docs/metrics.md
    Markdown,
}

#[cfg(feature = "agent")]
#[derive(Debug, Args)]
pub(super) struct MetricsArguments {
    /// Format of the list
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    output: MetricsOutput,
}

#[derive(Debug, Args)]
pub(super) struct CompletionsArguments {
    /// Shell to complete commands in
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn rules(arguments: &RulesArguments) -> anyhow::Result<ExitCode> {
    let mut out = super::output::stdout();
    match arguments.output {
        RulesOutput::Json => {
            serde_json::to_writer_pretty(&mut out, CATALOGUE)?;
            writeln!(out)?;
        }
        RulesOutput::Text => {
            let width = CATALOGUE
                .iter()
                .map(|rule| rule.id.len())
                .max()
                .unwrap_or_default();
            for rule in CATALOGUE {
                writeln!(
                    out,
                    "{:<width$}  {:<8}  {}",
                    rule.id,
                    rule.severity().name(),
                    rule.title
                )?;
            }
        }
        RulesOutput::Prometheus => out.write_all(alerts::rules().as_bytes())?,
        RulesOutput::Markdown => out.write_all(rules_page::markdown().as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(feature = "agent")]
pub(super) fn metrics(arguments: &MetricsArguments) -> anyhow::Result<ExitCode> {
    let groups = agent::catalogue();
    let text = match arguments.output {
        MetricsOutput::Text => catalogue::text(&groups),
        MetricsOutput::Markdown => catalogue::markdown(&groups),
    };
    super::output::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn completions(arguments: &CompletionsArguments) -> anyhow::Result<ExitCode> {
    // Into memory first: the generator panics on a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut super::command(), "rdma-health", &mut script);
    let mut script = String::from_utf8(script)?;
    if arguments.shell == clap_complete::Shell::Bash {
        // clap_complete 4.6 sets `cmd` to one form of a name with a hyphen, and compares it with another one.
        script = script.replace("rdma__subcmd__health", "rdma__health");
    }
    std::io::stdout().lock().write_all(script.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
