//! Flags whose default the environment gives: what the pods of the chart set, so that a command run in one of them goes by
//! what the agent goes by.

use std::path::Path;

use clap::{ArgMatches, error::ErrorKind, parser::ValueSource};
use rdma_health_node::history::History;

use crate::history;

/// Stands in for `--config`.
pub(super) const CONFIG: &str = "RDMA_HEALTH_CONFIG";
/// Stands in for `--root`.
pub(super) const ROOT: &str = "RDMA_HEALTH_ROOT";
/// Stands in for `--state`.
pub(super) const STATE: &str = "RDMA_HEALTH_STATE";

/// Who gave the flags of a command: its user, or the environment.
pub(super) struct Given<'a>(Option<&'a ArgMatches>);

impl<'a> Given<'a> {
    /// Of the command that the user chose.
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

    /// Refuses a flag that the user gave together with another one. clap's own conflicts would refuse the environment's
    /// word, too.
    pub(super) fn refuse_beside(&self, other: &str, flag: &str) -> Result<(), clap::Error> {
        if self.source(flag) == Some(ValueSource::CommandLine) {
            let told = format!("the argument '--{other}' cannot be used with '--{flag}'");
            return Err(clap::Error::raw(ErrorKind::ArgumentConflict, told));
        }
        Ok(())
    }

    /// What an agent remembers of the node. A file that the environment names need not be there: an agent writes it some
    /// minutes after its start.
    pub(super) fn history(&self, file: &Path) -> Result<Option<History>, history::Error> {
        if self.by_environment("state") {
            history::read_if_there(file)
        } else {
            history::read_only(file).map(Some)
        }
    }
}
