//! Where the lines of a session were printed: on a host, on another one, or in a container.
//!
//! What a tool shows on a host proves nothing of a container whose session follows in the same text.

use std::collections::BTreeSet;

/// Most hosts, and most changes between them, that are kept.
const MOST: usize = 32;

/// What starts a container, enters one or begins a session on another host, and the words of which one must follow; none: any.
const COMMANDS: [(&str, &[&str]); 17] = [
    ("docker", &["run", "exec", "start", "attach"]),
    ("podman", &["run", "exec", "start", "attach"]),
    ("nerdctl", &["run", "exec"]),
    ("kubectl", &["exec", "run", "debug", "attach"]),
    ("oc", &["exec", "rsh", "debug"]),
    ("crictl", &["exec"]),
    ("ctr", &["run", "exec"]),
    ("apptainer", &["run", "exec", "shell"]),
    ("singularity", &["run", "exec", "shell"]),
    ("enroot", &["start", "exec"]),
    ("sarus", &["run"]),
    ("lxc", &["exec", "shell", "console"]),
    ("incus", &["exec", "shell", "console"]),
    ("shifter", &[]),
    ("ch-run", &[]),
    ("ssh", &[]),
    ("srun", &[]),
];

/// The places of a session so far.
#[derive(Debug, Default)]
pub(super) struct Contexts {
    /// The hosts that prompts name, and their places.
    hosts: Vec<(String, usize)>,
    /// The lines with which a place begins, and the place.
    begins: Vec<(u64, usize)>,
    /// How many places there are besides the first one.
    count: usize,
    /// The places where a tool listed an active port.
    active: BTreeSet<usize>,
}

impl Contexts {
    /// Adds a line.
    pub(super) fn add(&mut self, text: &str, line: u64) {
        let Some((host, command)) = prompt(text) else {
            return;
        };
        if let Some(host) = host {
            let known = self.hosts.iter().find(|(name, _)| name == host);
            let place = match known.map(|(_, place)| *place) {
                Some(place) => Some(place),
                // The first prompt is of the host whose lines are above it.
                None if self.hosts.is_empty() => Some(0),
                None if self.count < MOST => {
                    self.count += 1;
                    Some(self.count)
                }
                None => None,
            };
            if let Some(place) = place {
                if known.is_none() && self.hosts.len() < MOST {
                    self.hosts.push((host.to_owned(), place));
                }
                self.begin(line, place);
            }
        }
        if enters(command) && self.count < MOST {
            self.count += 1;
            self.begin(line, self.count);
        }
    }

    fn begin(&mut self, line: u64, place: usize) {
        if self.at(line) != place && self.begins.len() < 2 * MOST {
            self.begins.push((line, place));
        }
    }

    /// The place of a line.
    fn at(&self, line: u64) -> usize {
        let before = self.begins.iter().rev().find(|(begin, _)| *begin <= line);
        before.map_or(0, |(_, place)| *place)
    }

    /// A tool listed an active port in this line.
    pub(super) fn lists_active_port(&mut self, line: u64) {
        self.active.insert(self.at(line));
    }

    /// Whether no tool listed an active port where this line was printed, but one did elsewhere.
    pub(super) fn is_active_elsewhere(&self, line: Option<u64>) -> bool {
        !self.active.is_empty() && line.is_some_and(|line| !self.active.contains(&self.at(line)))
    }
}

/// The host of the prompt of a shell, if it names one, and the command behind it: `[root@node1 ~]# docker run …`, `me@node1:~$ ssh node2`, `$ kubectl exec
/// -it worker-0 -- bash`.
fn prompt(text: &str) -> Option<(Option<&str>, &str)> {
    /// The longest prompt.
    const LONGEST: usize = 160;
    let text = text.trim_start();
    let rest = text.strip_prefix("$ ").or_else(|| text.strip_prefix("# "));
    if let Some(command) = rest {
        return Some((None, command));
    }
    let head = text.strip_prefix('[').unwrap_or(text);
    let (user, rest) = head.split_once('@')?;
    let is_name = |name: &str| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
    };
    let end = rest.find([':', ' ', ']'])?;
    let host = &rest[..end];
    let mark = ["$ ", "# ", "$", "#"].iter().find_map(|mark| {
        let at = rest.find(mark)?;
        (mark.len() > 1 || at + 1 == rest.trim_end().len()).then_some(at + mark.len())
    })?;
    (is_name(user) && is_name(host) && mark <= LONGEST).then(|| (Some(host), &rest[mark..]))
}

/// Whether a command starts or enters a container, or begins a session on another host.
fn enters(command: &str) -> bool {
    let mut words = command.split_whitespace().skip_while(|word| {
        // `sudo`, `time`, and settings before the command.
        matches!(*word, "sudo" | "time" | "exec") || word.contains('=') && !word.starts_with('-')
    });
    let Some(program) = words.next() else {
        return false;
    };
    let program = program.rsplit('/').next().unwrap_or_default();
    COMMANDS.iter().any(|(name, verbs)| {
        *name == program && (verbs.is_empty() || words.clone().take(6).any(|word| verbs.contains(&word)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_ends_where_a_container_or_another_host_begins() {
        // The lines, in the first of which a port is active; whether the last one is elsewhere.
        for (lines, expected) in [
            (
                &["port", "[me@n1 ~]$ sarus run image ibv_devinfo", "fails"][..],
                true,
            ),
            (&["port", "$ docker exec -it job bash", "fails"], true),
            (
                &["port", "# sudo podman run --rm image ibv_devinfo", "fails"],
                true,
            ),
            (&["port", "root@n1:~# ibv_devinfo", "fails"], false),
            (
                &[
                    "port",
                    "root@n1:~# ls",
                    "root@job-0:/workspace# ibv_devinfo",
                    "fails",
                ],
                true,
            ),
            (
                &[
                    "port",
                    "root@n1:~# kubectl exec job-0 -- ls",
                    "x",
                    "root@n1:~# ibv_devinfo",
                    "fails",
                ],
                false,
            ),
            (&["port", "docker exec is what you need", "fails"], false),
            (&["port", "$ docker ps", "fails"], false),
            (&["port", "mail me@n1 about it", "fails"], false),
        ] {
            let mut contexts = Contexts::default();
            for (number, line) in (1..).zip(lines) {
                contexts.add(line, number);
                if number == 1 {
                    contexts.lists_active_port(number);
                }
            }
            let last = u64::try_from(lines.len()).ok();
            assert_eq!(contexts.is_active_elsewhere(last), expected, "{lines:?}");
        }
    }
}
