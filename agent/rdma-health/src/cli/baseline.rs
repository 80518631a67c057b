//! `rdma-health baseline`: record the node's current state as expected.

use std::{io::Write, process::ExitCode};

use anyhow::Context;
use clap::Args;
use rdma_health_node::words::{printable, printable_json};
use rdma_health_rules::{Expectations, Profile, unnameable_ports};
use serde_json::{Value, json};

use super::gather::{NodeArguments, tell_if_foreign};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    node: NodeArguments,
}

/// Prints a configuration that expects the node's current state. Nothing is judged: run `check` first.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let config = arguments.node.configuration()?;
    let (node, _) = arguments.node.read(arguments.node.open()?, false, &config)?;
    if let Some(unread) = node.hcas.unread() {
        anyhow::bail!("the RDMA devices could not be read: {unread}");
    }
    tell_if_foreign(&node);
    anyhow::ensure!(
        node.hcas().next().is_some(),
        "no RDMA device found: there is nothing to record as expected"
    );
    let expected = Expectations::baseline(&node);
    let settings = json!({ "expect": settings(&expected)? });
    let mut text = serde_saphyr::to_string(&settings).context("cannot write the expectations as YAML")?;
    if text.lines().any(|line| printable(line) != line) {
        // The name of a device contains characters that a terminal obeys. JSON, which is YAML, can escape them.
        text = printable_json(serde_json::to_string_pretty(&settings)?) + "\n";
    }
    let mut out = super::output::stdout();
    writeln!(
        out,
        "# State of this node as found by rdma-health; pass this file with --config."
    )?;
    let guessed = match expected.profile {
        Profile::Auto => "set profile to",
        _ => "profile is a guess from the devices of the node, and can be",
    };
    writeln!(
        out,
        "# Severities depend on what the node is for: {guessed} gpudirect, rdma or tcp-only."
    )?;
    for port in unnameable_ports(&node) {
        writeln!(
            out,
            "# Not in ports_up, which cannot hold such a name: {}",
            printable(&port)
        )?;
    }
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The expectations without those at their default; the profile is always included.
fn settings(expected: &Expectations) -> anyhow::Result<Value> {
    let (mut settings, defaults) = (
        serde_json::to_value(expected)?,
        serde_json::to_value(Expectations::default())?,
    );
    if let (Value::Object(settings), Value::Object(defaults)) = (&mut settings, defaults) {
        settings.retain(|key, value| key == "profile" || defaults.get(key) != Some(value));
    }
    Ok(settings)
}
