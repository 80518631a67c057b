//! Why an archive was refused.

/// Why an archive was refused; each names the entry where there is one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// It is no Zstandard data.
    #[error("this is no snapshot: it does not begin as Zstandard data does")]
    NotCompressed,
    /// It begins right and is broken later.
    #[error("broken or cut off: {0}")]
    Broken(String),
    /// It is well compressed, but of something else.
    #[error("this is no snapshot: {0}")]
    NotASnapshot(String),
    /// It was made by a newer program.
    #[error(
        "its form is version {found}, made by rdma-health {version}; this program knows version {known} and earlier: use a \
         newer rdma-health"
    )]
    Future {
        /// Its schema.
        found: u32,
        /// Ours.
        known: u32,
        /// The program that made it.
        version: String,
    },
    /// It is too big.
    #[error("{0}")]
    TooBig(String),
    /// An entry should not be there or is not what it should be.
    #[error("entry {entry}: {reason}")]
    Entry {
        /// Its name, made fit for a terminal.
        entry: String,
        /// What is wrong.
        reason: String,
    },
}

impl Error {
    pub(crate) fn entry(name: &str, reason: impl Into<String>) -> Self {
        let mut entry: String = name.chars().take(200).flat_map(char::escape_debug).collect();
        if name.chars().nth(200).is_some() {
            entry.push('…');
        }
        Self::Entry {
            entry: format!("\"{entry}\""),
            reason: reason.into(),
        }
    }
}
