//! Prometheus' own opinion of what is exported.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

/// The path of promtool; it is downloaded if it is not installed.
///
/// # Errors
/// If it cannot be downloaded (`tests/promtool`).
fn promtool() -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("promtool");
    let found = Command::new(script).stderr(Stdio::inherit()).output()?;
    ensure!(
        found.status.success(),
        "promtool is missing and could not be downloaded"
    );
    Ok(PathBuf::from(String::from_utf8(found.stdout)?.trim_end()))
}

/// The path of Prometheus itself, from the same package.
///
/// # Errors
/// If it cannot be downloaded.
pub fn prometheus() -> Result<PathBuf> {
    Ok(promtool()?.with_file_name("prometheus"))
}

/// Checks the text of a scrape with `promtool check metrics`: its syntax, and the conventions for names and types.
///
/// # Errors
/// With what promtool complains about, or if it cannot be downloaded (`tests/promtool`).
pub fn check(text: &str) -> Result<()> {
    let mut child = Command::new(promtool()?)
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
