//! What a program that reads the output gets instead of a result: the error in the format that it asked for.

use std::io::Write;

use clap::ArgMatches;
use rdma_health_node::words::write_json;
use rdma_health_report as report;
use rdma_health_rules::Status;
use rdma_health_time::now;

use super::UNKNOWN;

/// Writes the error to standard output, if the command prints for programs. The exit status.
pub(super) fn answer(matches: &ArgMatches, error: &str) -> u8 {
    let mut out = super::output::stdout();
    // The reader may be gone, and the error is on standard error, too.
    let format = format(matches);
    let _ = match format.as_deref() {
        Some("json") => write_json(&mut out, &Failed { schema: 1, error }),
        Some("line") => report::quiet_failed(&mut out, error),
        Some("nagios") => report::nagios_failed(&mut out, error),
        Some("npd") => report::npd_failed(&mut out, error),
        Some("junit") => report::junit_failed(&mut out, error, now()),
        _ => Ok(()),
    };
    let _ = out.flush();
    match format.as_deref() {
        Some("npd") => report::npd_exit_code(Status::Unknown),
        _ => UNKNOWN,
    }
}

#[derive(serde::Serialize)]
struct Failed<'a> {
    schema: u32,
    error: &'a str,
}

/// The format that the command line chose.
fn format(matches: &ArgMatches) -> Option<String> {
    let mut deepest = matches;
    while let Some((_, below)) = deepest.subcommand() {
        deepest = below;
    }
    let value = |flag| {
        let mut values = deepest.try_get_raw(flag).ok().flatten()?;
        values
            .next_back()
            .map(|value| value.to_string_lossy().into_owned())
    };
    // The same as --output line.
    let is_quiet = deepest
        .try_get_one::<bool>("quiet")
        .is_ok_and(|quiet| quiet == Some(&true));
    if is_quiet {
        return Some("line".into());
    }
    ["output", "format"].into_iter().find_map(value)
}
