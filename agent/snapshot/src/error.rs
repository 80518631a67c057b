//! Why an archive was refused.

use rdma_health_protocol::text::excerpt;

/// Why an archive was rejected; names the entry if there is one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// It is not Zstandard data.
    #[error("not a snapshot: not compressed with Zstandard")]
    NotCompressed,
    /// It starts correctly but is damaged.
    #[error("damaged or incomplete: {0}")]
    Broken(String),
    /// It is well compressed, but of something else.
    #[error("not a snapshot: {0}")]
    NotASnapshot(String),
    /// It was made by a newer program.
    #[error(
        "it has format version {found}, written by rdma-health {version}, but this program reads versions up to {known}: use a \
         newer rdma-health"
    )]
    Future {
        /// Its format version.
        found: u32,
        /// The latest version that this program supports.
        known: u32,
        /// The version of the program that wrote it.
        version: String,
    },
    /// It is too large.
    #[error("{0}")]
    TooBig(String),
    /// An entry is unexpected or invalid.
    #[error("entry {entry}: {reason}")]
    Entry {
        /// Its name, with control characters escaped.
        entry: String,
        /// The reason.
        reason: String,
    },
}

impl Error {
    pub(crate) fn entry(name: &str, reason: impl Into<String>) -> Self {
        Self::Entry {
            entry: format!("\"{}\"", excerpt(name, 200)),
            reason: reason.into(),
        }
    }
}
