//! What is wrong with a configuration, and where.

use std::path::{Path, PathBuf};

/// What is wrong with a configuration: `config.yaml:4: unknown key …`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", place(.file.as_deref(), *.line))]
pub(crate) struct Error {
    file: Option<PathBuf>,
    line: Option<u64>,
    message: String,
}

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            file: None,
            line: None,
            message: message.into(),
        }
    }

    pub(crate) fn at(mut self, line: Option<u64>) -> Self {
        self.line = line;
        self
    }

    pub(crate) fn in_file(mut self, file: &Path) -> Self {
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
