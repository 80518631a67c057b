//! Modules that the configuration of modprobe keeps from being loaded.
//!
//! Source: the files `*.conf` of `/etc/modprobe.d`, `/run/modprobe.d`, `/usr/local/lib/modprobe.d`, `/usr/lib/modprobe.d` and
//! `/lib/modprobe.d` (modprobe.d(5)): `blacklist MODULE` and `install MODULE /bin/true`. A file of an earlier directory replaces one with
//! the same name in a later one. In a container these files are those of its image. There, only those of the host count: where its root is
//! mounted at `/host`, otherwise as a privileged helper reads them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{
    fact::{Fact, Unread},
    modules::KNOWN,
    root::Scope,
    source::{Known, Source},
};

const DIRECTORIES: [&str; 5] = [
    "/etc/modprobe.d",
    "/run/modprobe.d",
    "/usr/local/lib/modprobe.d",
    "/usr/lib/modprobe.d",
    "/lib/modprobe.d",
];
/// Where the root of the host is mounted in a container.
const MOUNTED: &str = "/host";
/// What a privileged helper answers; no such file exists. Each line is one of [`Line`]: `FILE:NUMBER:TEXT`.
pub(crate) const OF_HELPER: &str = "/host/modprobe";
/// The maximum number of files that are read.
const MAX_FILES: usize = 256;

/// What the configuration of modprobe says about modules for RDMA.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Modprobe {
    /// Lines that keep one of [`KNOWN`] from being loaded; absent if there is no such directory, or it was not collected.
    pub off: Fact<Vec<Line>>,
}

/// A line that keeps a module from being loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The module, with `_` for `-`.
    pub module: String,
    /// The file.
    pub file: String,
    /// The number of the line in it, from 1.
    pub number: usize,
    /// The line, without a comment.
    pub text: String,
}

impl Source for Modprobe {
    fn read(scope: &Scope<'_>, _: &Known) -> Self {
        let off = if scope.root().is_of_container() {
            from_container(scope)
        } else {
            configured(scope, "")
        };
        Self { off }
    }

    fn unread(why: &Unread) -> Self {
        Self {
            off: why.clone().into(),
        }
    }
}

/// The lines of the configuration below the directory `prefix`; absent if there is none.
fn configured(scope: &Scope<'_>, prefix: &str) -> Fact<Vec<Line>> {
    let mut names = BTreeSet::new();
    let mut files = Vec::new();
    let mut exists = false;
    for directory in DIRECTORIES {
        let directory = format!("{prefix}{directory}");
        let Some(entries) = scope.collected_entries(&directory) else {
            continue;
        };
        exists = true;
        let configurations = entries
            .into_iter()
            .filter(|name| name.strip_suffix(".conf").is_some());
        // `/lib` may be a link to `/usr/lib`.
        let new = configurations.filter(|name| names.insert(name.clone()));
        files.extend(new.map(|name| format!("{directory}/{name}")));
    }
    if !exists {
        return Fact::Absent;
    }
    let mut off = Vec::new();
    for file in files.into_iter().take(MAX_FILES) {
        if let Fact::Known(text) = scope.collected(&file) {
            off.extend(lines(&text).map(|(number, module, text)| Line {
                module,
                file: file.strip_prefix(prefix).unwrap_or(&file).to_owned(),
                number,
                text,
            }));
        }
    }
    Fact::Known(off)
}

/// The lines of the host that a container runs on.
fn from_container(scope: &Scope<'_>) -> Fact<Vec<Line>> {
    match configured(scope, MOUNTED) {
        Fact::Absent => scope.collected(OF_HELPER).map(|answer| parsed(&answer)),
        mounted => mounted,
    }
}

/// The lines of the machine whose root is read, as a privileged helper answers them.
pub fn of_host(scope: &Scope<'_>) -> Fact<String> {
    configured(scope, "").map(|off| answer(&off))
}

fn answer(off: &[Line]) -> String {
    let line = |line: &Line| format!("{}:{}:{}\n", line.file, line.number, line.text);
    off.iter().map(line).collect::<Vec<_>>().concat()
}

/// The lines of a helper's answer, without those that no reader of the configuration would have found.
fn parsed(answer: &str) -> Vec<Line> {
    let line = |line: &str| {
        // A colon may be part of the name, which has this ending.
        let (name, rest) = line.split_once(".conf:")?;
        let (number, text) = rest.split_once(':')?;
        let (_, module, text) = lines(text).next()?;
        is_configuration(name).then_some(())?;
        Some(Line {
            module,
            file: format!("{name}.conf"),
            number: number.parse().ok()?,
            text,
        })
    };
    answer.lines().filter_map(line).collect()
}

/// The lines that keep a module from being loaded: number, module and text.
fn lines(text: &str) -> impl Iterator<Item = (usize, String, String)> {
    text.lines().zip(1..).filter_map(|(line, number)| {
        let words: Vec<_> = line.split_whitespace().collect();
        // A comment may follow.
        let (module, used) = match *words.as_slice() {
            ["blacklist", module] => (module, 2),
            ["blacklist", module, rest, ..] if rest.starts_with('#') => (module, 2),
            ["install", module, command, ..] if does_nothing(command) => (module, 3),
            _ => return None,
        };
        let name = module.replace('-', "_");
        let text = words[..used].join(" ");
        KNOWN.contains(&name.as_str()).then_some((number, name, text))
    })
}

/// Whether a command in place of loading a module does nothing.
fn does_nothing(command: &str) -> bool {
    matches!(
        command,
        "/bin/true" | "/bin/false" | "/usr/bin/true" | "/usr/bin/false" | "true" | "false" | ":"
    )
}

/// What the reader uses of the file, if it is a configuration of modprobe or a helper's answer about it.
pub fn used(path: &str, text: &str) -> Option<String> {
    if path == OF_HELPER {
        return Some(answer(&parsed(text)));
    }
    is_configuration(path).then(|| used_lines(text))
}

fn is_configuration(path: &str) -> bool {
    let path = path.strip_prefix(MOUNTED).unwrap_or(path);
    DIRECTORIES.iter().any(|directory| {
        let rest = path.strip_prefix(directory);
        rest.is_some_and(|rest| rest.starts_with('/'))
    })
}

/// The lines that the reader uses, each at its place; the others are empty.
fn used_lines(text: &str) -> String {
    let mut kept = String::new();
    let mut at = 1;
    for (number, _, line) in lines(text) {
        kept.push_str(&"\n".repeat(number - at));
        kept.push_str(&line);
        at = number;
    }
    if !kept.is_empty() {
        kept.push('\n');
    }
    kept
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::Root;

    const TEXT: &str = "# a policy\nblacklist mlx5-ib # not here\ninstall irdma /bin/true\n\
        install nvidia /sbin/modprobe --ignore-install nvidia\noptions mlx5_core debug_mask=1\nblacklist nouveau\n";

    #[test]
    fn lines_that_keep_a_module_out_are_found_with_their_numbers() {
        let found: Vec<_> = lines(TEXT).collect();
        assert_eq!(
            found,
            [
                (2, "mlx5_ib".to_owned(), "blacklist mlx5-ib".to_owned()),
                (3, "irdma".to_owned(), "install irdma /bin/true".to_owned()),
            ]
        );
        assert_eq!(
            lines(&used_lines(TEXT)).collect::<Vec<_>>(),
            found,
            "a snapshot says the same"
        );
        assert!(!used_lines(TEXT).contains("policy"));
        assert_eq!(lines("blacklist\ninstall mlx5_ib\n").count(), 0);
    }

    #[test]
    fn a_file_of_an_earlier_directory_replaces_that_of_a_later_one() {
        let tree = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("etc/modprobe.d/rdma.conf", "\n"),
            ("usr/lib/modprobe.d/rdma.conf", "blacklist mlx5_ib\n"),
            ("usr/lib/modprobe.d/irdma.conf", "blacklist irdma\n"),
            ("etc/modprobe.d/README", "blacklist efa\n"),
        ] {
            let path = tree.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = Root::open(tree.path()).unwrap();
        let read = Modprobe::read(&Scope::new(&root), &Known::default());
        let found: Vec<_> = read.off.known().unwrap().iter().map(|line| &line.file).collect();
        assert_eq!(found, ["/usr/lib/modprobe.d/irdma.conf"]);
        let empty = tempfile::tempdir().unwrap();
        let root = Root::open(empty.path()).unwrap();
        assert!(
            Modprobe::read(&Scope::new(&root), &Known::default())
                .off
                .is_absent()
        );
    }

    #[test]
    fn in_a_container_the_helpers_answer_stands_for_the_files_of_the_host() {
        let host = tempfile::tempdir().unwrap();
        fs::create_dir_all(host.path().join("etc/modprobe.d")).unwrap();
        fs::write(host.path().join("etc/modprobe.d/rdma.conf"), TEXT).unwrap();
        let with_colon = host.path().join("etc/modprobe.d/site:2.conf");
        fs::write(with_colon, "install rdma_ucm :\n").unwrap();
        let root = Root::open(host.path()).unwrap();
        let on_host = Modprobe::read(&Scope::new(&root), &Known::default()).off;
        let answer = of_host(&Scope::new(&root)).known().cloned().unwrap();
        assert_eq!(
            answer,
            "/etc/modprobe.d/rdma.conf:2:blacklist mlx5-ib\n/etc/modprobe.d/rdma.conf:3:install irdma /bin/true\n\
            /etc/modprobe.d/site:2.conf:1:install rdma_ucm :\n"
        );
        let container = tempfile::tempdir().unwrap();
        let read = |text: Option<&str>| {
            if let Some(text) = text {
                fs::create_dir_all(container.path().join("host")).unwrap();
                fs::write(container.path().join(&OF_HELPER[1..]), text).unwrap();
            }
            let root = Root::open(container.path()).unwrap();
            from_container(&Scope::new(&root))
        };
        assert!(read(None).is_absent());
        assert_eq!(read(Some(&answer)), on_host);
        let hostile = "/etc/shadow.conf:1:blacklist mlx5_ib\n/etc/modprobe.d/a.conf:x:blacklist mlx5_ib\nblacklist mlx5_ib\n\
            /etc/modprobe.d/a.conf:1:blacklist nouveau\n/etc/modprobe.d/a:1:blacklist mlx5_ib\n";
        assert_eq!(read(Some(hostile)), Fact::Known(Vec::new()));
        assert_eq!(used(OF_HELPER, &format!("{answer}secret\n")), Some(answer));
        assert_eq!(used("/etc/passwd", "root"), None);
    }
}
