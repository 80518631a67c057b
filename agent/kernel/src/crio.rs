//! The limits that CRI-O gives to containers.
//!
//! Source: `default_ulimits` of `[crio.runtime]` in `/etc/crio/crio.conf` and of the files in `/etc/crio/crio.conf.d`
//! (crio.conf(5)): `default_ulimits = ["memlock=-1:-1"]`. It replaces the limit of the daemon.

use crate::{fact::Fact, limits::Memlock, root::Scope};

const FILE: &str = "/etc/crio/crio.conf";
const DIRECTORY: &str = "/etc/crio/crio.conf.d";
/// The maximum number of files that are read.
const MAX_FILES: usize = 64;

/// The memlock limit of containers; absent if CRI-O is not configured here, or its configuration sets none.
pub(crate) fn default_memlock(scope: &Scope<'_>) -> Fact<Memlock> {
    let names = scope.entries(DIRECTORY);
    let names = names.known().into_iter().flatten().take(MAX_FILES);
    let files = std::iter::once(FILE.to_owned()).chain(names.map(|name| format!("{DIRECTORY}/{name}")));
    let mut found = Fact::Absent;
    // In the order in which CRI-O reads them: the last one that sets the key wins.
    for file in files {
        match scope.optional_file(&file) {
            Fact::Known(text) => {
                if let Some(values) = default_ulimits(&text) {
                    found = Fact::from(memlock(&values));
                }
            }
            Fact::Absent => {}
            Fact::Unread { unread } => found = Fact::Unread { unread },
        }
    }
    found
}

/// The lines of a configuration that are read of it: the array of limits. The others may contain anything.
pub fn used_lines(text: &str) -> String {
    default_ulimits(text).map_or_else(String::new, |values| {
        let quoted: Vec<_> = values
            .iter()
            .filter(|value| value.trim().starts_with("memlock="))
            .map(|value| format!("\"{value}\""))
            .collect();
        format!("default_ulimits = [{}]\n", quoted.join(", "))
    })
}

/// Whether the file is a configuration of CRI-O.
pub fn is_configuration(path: &str) -> bool {
    path == FILE
        || path
            .strip_prefix(DIRECTORY)
            .is_some_and(|rest| rest.starts_with('/'))
}

/// The strings of the array, which may span lines; `None` if the file does not set it.
fn default_ulimits(text: &str) -> Option<Vec<&str>> {
    let sets_it = |line: &str| {
        line.split('=')
            .next()
            .is_some_and(|key| key.trim() == "default_ulimits")
    };
    let code = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let mut values = Vec::new();
    let mut array = code.skip_while(|line| !sets_it(line)).peekable();
    array.peek()?;
    for line in array {
        values.extend(line.split('"').skip(1).step_by(2));
        if line.contains(']') {
            break;
        }
    }
    Some(values)
}

/// The value for memlock: `memlock=SOFT:HARD`, where -1 is unlimited.
fn memlock(values: &[&str]) -> Option<Memlock> {
    let limits = values
        .iter()
        .find_map(|value| value.trim().strip_prefix("memlock="))?;
    let (soft, hard) = limits.split_once(':').unwrap_or((limits, limits));
    let bytes = |text: &str| match text.trim() {
        "-1" => Some(None),
        number => number.parse::<u64>().ok().map(Some),
    };
    Some(Memlock {
        soft: bytes(soft)?,
        hard: bytes(hard)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_read_from_an_array_over_several_lines() {
        let text = "[crio.runtime]\n# default_ulimits = [\"memlock=1:1\"]\ndefault_ulimits = [\n  \"nofile=1024:2048\",\n  \"memlock=-1:-1\",\n]\n";
        let values = default_ulimits(text).unwrap();
        assert_eq!(values, ["nofile=1024:2048", "memlock=-1:-1"]);
        let unlimited = Memlock {
            soft: None,
            hard: None,
        };
        assert_eq!(memlock(&values), Some(unlimited));
        assert_eq!(memlock(&["memlock=65536:-1"]).unwrap().soft, Some(65536));
        assert_eq!(memlock(&["nofile=1:2"]), None);
        assert_eq!(default_ulimits("[crio.runtime]\n"), None);
        assert_eq!(used_lines("[crio.api]\nstream_address = \"10.1.2.3\"\n"), "");
        assert_eq!(used_lines(text), "default_ulimits = [\"memlock=-1:-1\"]\n");
        assert_eq!(used_lines("default_ulimits = []"), "default_ulimits = []\n");
    }
}
