//! The configuration: a YAML file, flags that override it, and a watch for changes of the file.
//!
//! Every key has a default, so an empty file is a complete configuration. An unknown key is an error, because a misspelt key
//! would silently have no effect.

#![forbid(unsafe_code)]

mod alias;
mod kubernetes;
pub mod metrics;
mod node_name;
mod overrides;
mod parse;
mod settings;
mod size;
mod watch;

use std::path::Path;

use rdma_health_file::{Links, within};

pub use alias::{Alias, ConditionName, MAX_ALIASES, Meaning, NotAConditionName, RepairedBy};
pub use kubernetes::{Kubernetes, Taint, Threshold};
pub use node_name::{NodeName, NotANodeName};
pub use overrides::Overrides;
pub use parse::{listen_address, parse};
pub use rdma_health_yaml::Error;
pub use settings::{Config, Helper, Probe};
pub use size::parse as parse_size;
pub use watch::watch;

/// Maximum size of the configuration file in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Reads the file, applies the flags and validates the result. Without a file the flags apply to the defaults.
///
/// # Errors
/// If the file cannot be read, has the wrong format, or the result is invalid.
pub fn load(path: Option<&Path>, overrides: &Overrides) -> Result<Config, Error> {
    let Some(path) = path else {
        return overrides.apply(Config::default(), None);
    };
    let file = path.to_owned();
    let text = within(move || read(&file)).unwrap_or_else(|error| Err(unreadable(path, &error)))?;
    from_text(path, &text, overrides)
}

/// [`load`] with the text of the file.
fn from_text(path: &Path, text: &str, overrides: &Overrides) -> Result<Config, Error> {
    let parsed = parse(text).and_then(|config| overrides.apply(config, Some(text)));
    parsed.map_err(|error| error.in_file(path))
}

/// The file's text.
fn read(path: &Path) -> Result<String, Error> {
    let bytes =
        rdma_health_file::read(path, MAX_FILE, Links::Follow).map_err(|error| unreadable(path, &error))?;
    String::from_utf8(bytes).map_err(|_| Error::new("not UTF-8 text").in_file(path))
}

fn unreadable(path: &Path, error: &dyn std::error::Error) -> Error {
    Error::new(format!("cannot read the configuration: {error}")).in_file(path)
}

#[cfg(test)]
mod tests;
