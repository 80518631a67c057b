//! A node saved as one file, and nodes that other tools saved.
//!
//! A crate of its own, since archives are no business of the readers: they ask a [`Root`], and whether that is a directory
//! or a recording is all the same to them. Here is what turns a recording into a file and back ([`Snapshot`]), what must
//! not leave the node ([`mod@redact`], [`mod@anonymize`]), and what maps the layouts of support bundles to the paths of a
//! node ([`mod@foreign`]). An archive is untrusted: all of it is read into bounded memory, nothing is ever unpacked.
//!
//! `tar` writes and reads the headers, `ruzstd` compresses: both are kept well, and `ruzstd` is Rust throughout, so that no
//! C code meets a file that somebody sent. It compresses about as `zstd -1` does, which is ample: a node is some 100 KiB.

#![forbid(unsafe_code)]

pub mod anonymize;
mod error;
pub mod foreign;
mod manifest;
mod read;
pub mod redact;
mod write;

use std::{collections::BTreeMap, sync::Arc};

pub use error::Error;
pub use manifest::{FORMAT, SCHEMA};
use rdma_health_node::{
    Fact, Node, Root,
    history::History,
    node::{Probe, VerbsDevice},
    recording::Recording,
};

/// The most bytes that an archive may hold, uncompressed; a node's is some 2 MiB.
pub const MAX_TOTAL: u64 = 64 << 20;
/// The most answers that an archive may hold.
pub const MAX_ANSWERS: usize = 200_000;

/// Everything that was read of one node.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// Version of the program that took it.
    pub version: String,
    /// When it was taken, in seconds since 1970.
    pub time: u64,
    /// Whether it was taken of a running machine rather than of a tree.
    pub live: bool,
    /// Whether addresses and names were replaced.
    pub anonymized: bool,
    /// Sources that did not answer in time, and for how many seconds.
    pub hung: BTreeMap<String, u64>,
    /// What the readers asked, and the answers.
    pub recording: Recording,
    /// What libibverbs said; absent where nobody asked.
    pub verbs: Fact<Arc<BTreeMap<String, VerbsDevice>>>,
    /// The probes that were made.
    pub probes: Vec<Arc<Probe>>,
    /// What was remembered of the node; `None` where nobody kept it.
    pub history: Option<Arc<History>>,
    /// What was expected of the node, in the words of the configuration; `None` where nothing was said.
    pub expectations: Option<serde_json::Value>,
}

impl Snapshot {
    /// A root that answers as the node did.
    pub fn root(&self) -> Root {
        Root::replay(Arc::new(self.recording.clone()), self.live).with_hung(self.hung.clone())
    }

    /// Gives a node that was read from [`Snapshot::root`] what did not come from files: the time, the helper's
    /// answers, and what was remembered of it.
    pub fn complete(&self, node: &mut Node) {
        node.time = self.time;
        for status in node.sources.values_mut() {
            let status = Arc::make_mut(status);
            status.time = status.time.map(|_| self.time);
        }
        node.verbs = self.verbs.clone();
        node.probes.clone_from(&self.probes);
        node.history.clone_from(&self.history);
    }
}
