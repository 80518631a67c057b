//! Prometheus' own opinion of what is exported.

use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

/// Checks the text of a scrape with `promtool check metrics`: its syntax, and the conventions for names and types.
///
/// # Errors
/// With what promtool complains about, or if it cannot be downloaded (`tests/promtool`).
pub fn check(text: &str) -> Result<()> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("promtool");
    let found = Command::new(script).stderr(Stdio::inherit()).output()?;
    ensure!(
        found.status.success(),
        "promtool is missing and could not be downloaded"
    );
    let promtool = String::from_utf8(found.stdout)?;
    let mut child = Command::new(promtool.trim_end())
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
