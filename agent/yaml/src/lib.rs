//! YAML files that an operator edits: error messages with line and key, and notification of changes.
//!
//! Both the agent's configuration and the web configuration use it.

#![forbid(unsafe_code)]

mod error;
mod explain;
mod follow;
mod watch;

pub use error::Error;
pub use explain::{Section, explain, line_of};
pub use follow::{Follower, Pace};
