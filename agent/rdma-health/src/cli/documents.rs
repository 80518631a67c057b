//! What is made from the catalogues and from the command line itself: explanations, lists, completions, manual page.

use std::{io::Write, process::ExitCode};

use clap::{Args, CommandFactory, ValueEnum};
use clap_complete::Shell;
use rdma_health_rules::CATALOGUE;

use super::{Cli, explain, rules_page};
use crate::{metrics, report};

#[derive(Debug, Args)]
pub(super) struct ExplainArguments {
    /// A rule's or cause's id, or an error as a log has it: port-down, iommu-translation, `IBV_WC_LOC_PROT_ERR`
    #[arg(value_name = "NAME")]
    name: String,
}

/// Forms of the rule catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RulesOutput {
    /// One line per rule.
    Text,
    /// For a program.
    Json,
    /// docs/rules.md.
    Markdown,
}

#[derive(Debug, Args)]
pub(super) struct RulesArguments {
    /// How to print the list
    #[arg(long, value_enum, default_value = "text")]
    output: RulesOutput,
}

/// Forms of the metric catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MetricsOutput {
    /// One line per metric.
    Text,
    /// docs/metrics.md.
    Markdown,
}

#[derive(Debug, Args)]
pub(super) struct MetricsArguments {
    /// How to print the list
    #[arg(long, value_enum, default_value = "text")]
    output: MetricsOutput,
}

#[derive(Debug, Args)]
pub(super) struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn explain(arguments: &ExplainArguments) -> anyhow::Result<ExitCode> {
    let name = &arguments.name;
    let text = explain::of(name, report::Style::of_terminal().width);
    let Some(text) = text else {
        let alike = |known: &&str| strsim::jaro_winkler(known, name);
        let nearest = explain::names().max_by(|a, b| alike(a).total_cmp(&alike(b)));
        let hint = nearest
            .map(|nearest| format!("; did you mean {nearest}?"))
            .unwrap_or_default();
        anyhow::bail!(
            "there is no rule, cause or error \"{name}\"{hint} (rdma-health rules lists all rules)"
        );
    };
    anstream::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn rules(arguments: &RulesArguments) -> anyhow::Result<ExitCode> {
    let mut out = anstream::stdout().lock();
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
                    rule.severity.name(),
                    rule.title
                )?;
            }
        }
        RulesOutput::Markdown => out.write_all(rules_page::markdown().as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn metrics(arguments: &MetricsArguments) -> anyhow::Result<ExitCode> {
    let text = match arguments.output {
        MetricsOutput::Text => metrics::catalogue::text(),
        MetricsOutput::Markdown => metrics::catalogue::markdown(),
    };
    anstream::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn completions(arguments: &CompletionsArguments) -> anyhow::Result<ExitCode> {
    // Into memory first: the generator panics where it cannot write, at a closed pipe too.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "rdma-health", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn man() -> anyhow::Result<ExitCode> {
    clap_mangen::Man::new(Cli::command()).render(&mut std::io::stdout().lock())?;
    Ok(ExitCode::SUCCESS)
}
