//! Prometheus' own opinion of what is exported.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

/// The path of promtool.
///
/// # Errors
/// If it cannot be downloaded (`tests/promtool`).
pub fn program() -> Result<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("promtool");
    let found = Command::new(script).stderr(Stdio::inherit()).output()?;
    ensure!(
        found.status.success(),
        "promtool is missing and could not be downloaded"
    );
    Ok(String::from_utf8(found.stdout)?.trim_end().to_owned())
}

/// The path of Prometheus itself, from the same package.
///
/// # Errors
/// If it cannot be downloaded.
pub fn prometheus() -> Result<PathBuf> {
    Ok(PathBuf::from(program()?).with_file_name("prometheus"))
}

/// The path of Debian's Alertmanager.
///
/// # Errors
/// If it cannot be downloaded (`tests/alertmanager`).
pub fn alertmanager() -> Result<std::path::PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("alertmanager");
    let found = Command::new(script).stderr(Stdio::inherit()).output()?;
    ensure!(
        found.status.success(),
        "Alertmanager is missing and could not be downloaded"
    );
    Ok(Path::new(String::from_utf8(found.stdout)?.trim_end()).join("prometheus-alertmanager"))
}

/// Imports an OpenMetrics text into a database of Prometheus, whose OpenMetrics parser is strict.
///
/// # Errors
/// With what promtool complains about, or if it cannot be downloaded.
pub fn import(text: &str) -> Result<()> {
    // Only samples with a time can be imported.
    let timed = text.lines().map(|line| {
        if line.starts_with('#') {
            format!("{line}\n")
        } else {
            format!("{line} 1790000000\n")
        }
    });
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("metrics");
    std::fs::write(&file, timed.collect::<String>())?;
    let output = Command::new(program()?)
        .args(["tsdb", "create-blocks-from", "openmetrics"])
        .args([&file, &folder.path().join("blocks")])
        .output()?;
    ensure!(
        output.status.success(),
        "promtool: {}",
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat())
    );
    Ok(())
}

/// Checks the text of a scrape with `promtool check metrics`: its syntax, and the conventions for names and types.
///
/// # Errors
/// With what promtool complains about, or if it cannot be downloaded (`tests/promtool`).
pub fn check(text: &str) -> Result<()> {
    let mut child = Command::new(program()?)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // It reads everything before it writes. The pipe closes at the end of the statement.
    child
        .stdin
        .take()
        .context("a pipe to promtool")?
        .write_all(text.as_bytes())?;
    let output = child.wait_with_output()?;
    let complaints = [output.stdout, output.stderr].concat();
    ensure!(
        output.status.success() && complaints.is_empty(),
        "promtool: {}",
        String::from_utf8_lossy(&complaints)
    );
    Ok(())
}
