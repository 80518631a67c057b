//! The configuration: one YAML file, flags that override it, and a watch that notices when the file changes.
//!
//! Every key has a default, so an empty file is a whole configuration. A key that is not known is refused, since a
//! misspelt one would silently do nothing.

mod error;
mod kubernetes;
mod overrides;
mod parse;
mod settings;
mod size;
mod watch;

use std::path::Path;

pub(crate) use error::Error;
pub(crate) use kubernetes::Taint;
pub(crate) use overrides::Overrides;
pub(crate) use parse::{explain, line_of, listen_address, parse};
pub(crate) use settings::{Config, Helper, Probe};
pub(crate) use size::parse as parse_size;
pub(crate) use watch::{Watched, watch, watch_directory};

/// The longest configuration that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Reads the file, applies the flags and checks the outcome. Without a file the flags apply to the defaults.
///
/// # Errors
/// Where the file cannot be read, is not what a configuration looks like, or the outcome makes no sense.
pub(crate) fn load(path: Option<&Path>, overrides: &Overrides) -> Result<Config, Error> {
    match path {
        Some(path) => read(path).and_then(|text| from_text(path, &text, overrides)),
        None => overrides.apply(Config::default(), None),
    }
}

/// What [`load`] does once the text is there.
fn from_text(path: &Path, text: &str, overrides: &Overrides) -> Result<Config, Error> {
    let parsed = parse(text).and_then(|config| overrides.apply(config, Some(text)));
    parsed.map_err(|error| error.in_file(path))
}

/// The file's text.
fn read(path: &Path) -> Result<String, Error> {
    use std::io::Read;
    let failed = |error: std::io::Error| Error::new(error.to_string()).in_file(path);
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(Error::new(format!("longer than {} KiB", MAX_FILE >> 10)).in_file(path));
    }
    String::from_utf8(bytes).map_err(|_| Error::new("not UTF-8 text").in_file(path))
}

#[cfg(test)]
mod tests;
