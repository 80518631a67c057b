//! Errors with file and line.

use std::path::{Path, PathBuf};

/// An error in a file: `config.yaml:4: unknown key …`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", place(.file.as_deref(), *.line))]
pub struct Error {
    file: Option<PathBuf>,
    line: Option<u64>,
    message: String,
}

impl Error {
    /// An error without file and line.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            file: None,
            line: None,
            message: message.into(),
        }
    }

    /// Sets the line number, from 1.
    #[must_use]
    pub fn at(mut self, line: Option<u64>) -> Self {
        self.line = line;
        self
    }

    /// Sets the file.
    #[must_use]
    pub fn in_file(mut self, file: &Path) -> Self {
        self.file = Some(file.to_owned());
        self
    }
}

fn place(file: Option<&Path>, line: Option<u64>) -> String {
    match (file, line) {
        (Some(file), Some(line)) => format!("{}:{line}: ", file.display()),
        (Some(file), None) => format!("{}: ", file.display()),
        (None, Some(line)) => format!("line {line}: "),
        (None, None) => String::new(),
    }
}
