//! `rdma-health baseline`: record the node's current state as expected.

use std::{io::Write, process::ExitCode};

use anyhow::Context;
use clap::Args;
use rdma_health_node::words::printable;
use rdma_health_rules::{Expectations, Profile};
use serde_json::{Value, json};

use super::gather::NodeArguments;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    node: NodeArguments,
}

/// Prints a configuration that expects the node's current state. Nothing is judged: run `check` first.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let config = arguments.node.configuration()?;
    let (node, _) = arguments.node.read(arguments.node.open()?, false, &config)?;
    anyhow::ensure!(
        node.hcas().next().is_some(),
        "no RDMA device found: there is nothing to record as expected"
    );
    let expected = Expectations::baseline(&node);
    let settings = json!({ "expect": settings(&expected)? });
    let mut text = serde_saphyr::to_string(&settings).context("cannot write the expectations as YAML")?;
    if text.lines().any(|line| printable(line) != line) {
        // The name of a device contains characters that a terminal obeys. JSON, which is YAML, can escape them.
        text = escaped(&serde_json::to_string_pretty(&settings)?) + "\n";
    }
    let mut out = anstream::stdout().lock();
    writeln!(
        out,
        "# State of this node as found by rdma-health; pass this file with --config."
    )?;
    if expected.profile == Profile::Auto {
        writeln!(
            out,
            "# Severities depend on what the node is for: set profile to gpudirect, rdma or tcp-only."
        )?;
    }
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// JSON with every character escaped that is not printable.
fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        if character == '\n' || printable(character.encode_utf8(&mut [0; 4])).starts_with(character) {
            text.push(character);
        } else {
            let mut units = [0; 2];
            let units = character.encode_utf16(&mut units);
            text.extend(units.iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    text
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_json_has_the_same_value_and_nothing_that_a_terminal_obeys() {
        let value = json!({ "ports_up": ["a\u{202e}b", "\u{1b}[31m\n", "\u{e0001}", "ä\\\"", "\u{feff}"] });
        let text = escaped(&serde_json::to_string_pretty(&value).unwrap());
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert!(text.lines().all(|line| printable(line) == line), "{text}");
    }
}
