//! What the user or the administrator has set, which is never overridden.

use std::collections::BTreeMap;

/// Variables, and the settings in NCCL's configuration files. In NCCL a variable takes precedence over these files, so a variable
/// that `rdma-health` set would override them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    variables: BTreeMap<String, String>,
    /// Value and file of each setting in a file.
    in_files: BTreeMap<String, (String, String)>,
}

impl User {
    /// The variables of a process.
    pub fn new(variables: BTreeMap<String, String>) -> Self {
        Self {
            variables,
            in_files: BTreeMap::new(),
        }
    }

    /// Adds the settings in a configuration file of NCCL, in the order in which NCCL reads the files: the first one wins.
    pub fn add_nccl_configuration(&mut self, file: &str, text: &str) {
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            // As NCCL reads it: nothing is trimmed.
            if let Some((name, value)) = line.split_once('=') {
                self.in_files
                    .entry(name.to_owned())
                    .or_insert_with(|| (value.to_owned(), file.to_owned()));
            }
        }
    }

    /// The value of a variable, and the file in which it is set if it is not in the environment.
    pub fn get(&self, name: &str) -> Option<(&str, Option<&str>)> {
        if let Some(value) = self.variables.get(name) {
            return Some((value, None));
        }
        let (value, file) = self.in_files.get(name)?;
        Some((value, Some(file)))
    }

    /// The value of a variable or setting.
    pub fn value(&self, name: &str) -> Option<&str> {
        Some(self.get(name)?.0)
    }

    /// A variable with its value and where it is set, to begin a sentence: `NCCL_IB_HCA is already set to 'mlx5_1'`.
    pub fn as_set(&self, name: &str) -> Option<String> {
        let (value, file) = self.get(name)?;
        let place = file.map_or_else(|| "already set".to_owned(), |file| format!("set in {file}"));
        Some(format!("{name} is {place} to '{value}'"))
    }

    /// The variables of the process.
    pub fn variables(&self) -> &BTreeMap<String, String> {
        &self.variables
    }
}
