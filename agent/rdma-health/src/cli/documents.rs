//! What is made from the catalogues and from the command line itself: explanations, lists, completions, manual page.

use std::{io::Write, process::ExitCode};

use clap::{Args, CommandFactory, ValueEnum};
use clap_complete::Shell;
use rdma_health_rules::{CATALOGUE, Rule, rule};

use super::{Cli, Output};
use crate::{metrics, report};

#[derive(Debug, Args)]
pub(super) struct ExplainArguments {
    /// The rule's id, as findings name it
    #[arg(value_name = "RULE")]
    rule: String,
}

#[derive(Debug, Args)]
pub(super) struct ListArguments {
    /// How to print the list
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
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
    let Some(rule) = rule(&arguments.rule) else {
        let nearest = CATALOGUE.iter().max_by(|a, b| {
            let alike = |rule: &Rule| strsim::jaro_winkler(rule.id, &arguments.rule);
            alike(a).total_cmp(&alike(b))
        });
        let hint = nearest
            .map(|rule| format!("; did you mean {}?", rule.id))
            .unwrap_or_default();
        anyhow::bail!(
            "there is no rule \"{}\"{hint} (rdma-health rules lists them all)",
            arguments.rule
        );
    };
    let mut out = anstream::stdout().lock();
    let width = report::Style::of_terminal().width;
    writeln!(out, "{}: {}", rule.id, rule.title)?;
    writeln!(
        out,
        "domain {}, severity {} unless said otherwise below",
        rule.domain.name(),
        rule.severity.name()
    )?;
    for (heading, text) in [
        ("Why", rule.explanation),
        ("What to do", rule.remedy.to_string().as_str()),
        ("False alarms", rule.false_alarms),
    ] {
        writeln!(out, "\n{heading}")?;
        let options = textwrap::Options::new(width)
            .initial_indent("  ")
            .subsequent_indent("  ")
            .break_words(false);
        writeln!(out, "{}", textwrap::fill(text, options))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn rules(arguments: &ListArguments) -> anyhow::Result<ExitCode> {
    let mut out = anstream::stdout().lock();
    match arguments.output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, CATALOGUE)?;
            writeln!(out)?;
        }
        Output::Text => {
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

#[allow(clippy::unnecessary_wraps)] // every command returns the same
pub(super) fn completions(arguments: &CompletionsArguments) -> anyhow::Result<ExitCode> {
    clap_complete::generate(
        arguments.shell,
        &mut Cli::command(),
        "rdma-health",
        &mut std::io::stdout().lock(),
    );
    Ok(ExitCode::SUCCESS)
}

pub(super) fn man() -> anyhow::Result<ExitCode> {
    clap_mangen::Man::new(Cli::command()).render(&mut std::io::stdout().lock())?;
    Ok(ExitCode::SUCCESS)
}
