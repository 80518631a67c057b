//! Environment variables that replace flags. The Helm chart sets them in its pods, so that a command run in a pod uses the
//! agent's configuration.

use std::path::Path;

use anyhow::Context;
use clap::{ArgMatches, parser::ValueSource};
use rdma_health_file::within;
use rdma_health_node::history::History;
use rdma_health_snapshot::state_file;
use rdma_health_time::now;

/// Replaces `--config`.
pub(super) const CONFIG: &str = "RDMA_HEALTH_CONFIG";
/// Replaces `--root`.
pub(super) const ROOT: &str = "RDMA_HEALTH_ROOT";
/// Replaces `--state`.
pub(super) const STATE: &str = "RDMA_HEALTH_STATE";
/// Replaces `--liveness-socket`.
#[cfg(feature = "agent")]
pub(super) const LIVENESS_SOCKET: &str = "RDMA_HEALTH_LIVENESS_SOCKET";

/// Where the values of a command's flags come from: the command line or the environment.
pub(super) struct Given<'a>(Option<&'a ArgMatches>);

impl<'a> Given<'a> {
    /// Of the subcommand that was parsed.
    pub(super) fn of(matches: &'a ArgMatches) -> Self {
        Self(matches.subcommand().map(|(_, matches)| matches))
    }

    fn source(&self, flag: &str) -> Option<ValueSource> {
        // Not every command has every flag.
        let matches = self.0?;
        matches.try_contains_id(flag).ok()?;
        matches.value_source(flag)
    }

    /// Whether the environment gave it.
    pub(super) fn by_environment(&self, flag: &str) -> bool {
        self.source(flag) == Some(ValueSource::EnvVariable)
    }

    /// Whether the user gave it. clap's own conflicts count the environment's values, too.
    pub(super) fn on_command_line(&self, flag: &str) -> bool {
        self.source(flag) == Some(ValueSource::CommandLine)
    }

    /// The history in an agent's state file. A file that the environment names may be missing: an agent first writes it
    /// some minutes after its start.
    pub(super) fn history(&self, file: &Path) -> anyhow::Result<Option<History>> {
        let (by_environment, own) = (self.by_environment("state"), file.to_owned());
        let read = move || {
            if by_environment {
                state_file::read_if_there(&own)
            } else {
                state_file::read_only(&own).map(Some)
            }
        };
        let history = within(read).with_context(|| format!("state file {}", file.display()))??;
        Ok(history.map(until_now))
    }
}

/// The history without what a clock that was ahead recorded. The agent itself keeps it until its clock is trusted; this
/// program reads a copy and saves nothing.
pub(super) fn until_now(mut history: History) -> History {
    history.drop_future(now());
    history
}
