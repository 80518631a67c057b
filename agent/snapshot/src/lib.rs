//! Saves a node as one file, stores an agent's history, and reads nodes that other tools saved.
//!
//! This is a separate crate because readers do not depend on archives: they read a [`Root`], which is a directory or a
//! recording. [`Snapshot`] converts a recording to a file and back, [`mod@redact`] and [`mod@anonymize`] remove what must
//! not leave the node, [`mod@foreign`] maps the layouts of support bundles to the paths of a node, and [`state_file`]
//! stores the history of an agent's node. An archive is untrusted: it is read into bounded memory and never unpacked.
//!
//! `tar` writes and reads the headers, `ruzstd` compresses. Both are well maintained, and `ruzstd` is pure Rust, so that
//! no C code parses an untrusted file. It compresses about as well as `zstd -1`, which is enough: a node is about 100
//! KiB.

#![forbid(unsafe_code)]

pub mod anonymize;
mod error;
pub mod foreign;
mod manifest;
mod read;
pub mod redact;
pub mod runtimes;
pub mod state_file;
pub mod verbs;
mod write;

use std::sync::Arc;

pub use error::Error;
pub use manifest::{FORMAT, SCHEMA};
use rdma_health_kernel::{Root, recording::Recording};
use rdma_health_node::{Node, history::History, node::Probe};

/// Maximum size of an uncompressed archive in bytes; that of a node is about 2 MiB.
pub const MAX_TOTAL: u64 = 64 << 20;
/// Maximum number of answers in an archive.
pub const MAX_ANSWERS: usize = 200_000;

/// Everything that was read from one node.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// Version of the program that wrote it.
    pub version: String,
    /// When it was taken, in seconds since 1970.
    pub time: u64,
    /// Whether it was taken from a running machine, not from a tree.
    pub live: bool,
    /// Whether addresses and names were replaced.
    pub anonymized: bool,
    /// The questions and answers.
    pub recording: Recording,
    /// The probes.
    pub probes: Vec<Arc<Probe>>,
    /// The history of the node; `None` if there is none.
    pub history: Option<Arc<History>>,
    /// The expectations in the format of the configuration; `None` if there are none.
    pub expectations: Option<serde_json::Value>,
}

impl Snapshot {
    /// A root that replays the node's answers.
    pub fn root(&self) -> Root {
        Root::replay(Arc::new(self.recording.clone()), self.live)
    }

    /// Adds to a node that was read from [`Snapshot::root`] what does not come from files: the time, the helper's
    /// answers, and the history.
    pub fn complete(&self, node: &mut Node) {
        node.time = self.time;
        for status in node.sources.values_mut() {
            let status = Arc::make_mut(status);
            status.time = status.time.map(|_| self.time);
        }
        node.verbs = verbs::replay(&self.recording);
        if let Some(runtimes) = runtimes::replay(&self.recording) {
            node.see_runtimes(runtimes);
        }
        node.probes.clone_from(&self.probes);
        node.history.clone_from(&self.history);
    }
}
