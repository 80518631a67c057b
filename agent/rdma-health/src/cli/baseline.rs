//! `rdma-health baseline`: take the node as it is now for what is expected of it from now on.

use std::{io::Write, path::PathBuf, process::ExitCode};

use anyhow::Context;
use clap::Args;
use rdma_health_rules::{Expectations, Profile};
use serde_json::{Value, json};

use super::{
    HelperArguments,
    check::{self, Source},
    environment::{CONFIG, ROOT},
};
use crate::config::{self, Overrides};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Directory that holds the node's root: / on the node itself, /host in a container, or a captured tree
    #[arg(long, value_name = "DIR", env = ROOT, default_value = "/")]
    root: PathBuf,
    /// Configuration file, for devices to leave out and for where the helper is
    #[arg(long, value_name = "FILE", env = CONFIG)]
    config: Option<PathBuf>,
    /// Do not read devices whose name matches ('*' stands for any characters); may be repeated
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    #[command(flatten)]
    helper: HelperArguments,
}

/// Prints a configuration that expects what is there. Nothing is judged: look at the node with `check` first.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let config = config::load(arguments.config.as_deref(), &Overrides::default())?;
    let source = Source {
        path: &arguments.root,
        probe: false,
        exclude: &arguments.exclude,
        helper: &arguments.helper,
    };
    let (node, _) = check::read(check::open(&arguments.root)?, &source, &config)?;
    anyhow::ensure!(
        node.hcas().next().is_some(),
        "there is no RDMA device to take for expected"
    );
    let expected = Expectations::baseline(&node);
    let text = serde_saphyr::to_string(&json!({ "expect": told(&expected)? }))
        .context("cannot write the expectations as YAML")?;
    let mut out = anstream::stdout().lock();
    writeln!(out, "# What rdma-health found on this node; give it to --config.")?;
    if expected.profile == Profile::Auto {
        writeln!(
            out,
            "# Say what the node is for (profile: gpudirect, rdma or tcp-only) and severities follow it."
        )?;
    }
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The expectations without what is not expected one way or the other, and without thresholds nobody chose.
fn told(expected: &Expectations) -> anyhow::Result<Value> {
    let (mut told, unsaid) = (
        serde_json::to_value(expected)?,
        serde_json::to_value(Expectations::default())?,
    );
    if let (Value::Object(told), Value::Object(unsaid)) = (&mut told, unsaid) {
        told.retain(|key, value| key == "profile" || unsaid.get(key) != Some(value));
    }
    Ok(told)
}
