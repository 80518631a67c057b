//! What never leaves the node, asked for or not: see `docs/snapshots.md`.
//!
//! The kernel command line loses its secrets when it is read already, and of the kernel's log only lines about the topic
//! are kept ([`rdma_health_node::kmsg`]), so that their files are replaced by what was made of them.

use std::collections::BTreeSet;

use rdma_health_node::{cmdline, limits::RUNTIMES, recording::Recording};

/// Takes out what says nothing about RDMA and could name a user or hold a secret. The readers find the same facts after
/// it as before.
pub fn redact(recording: &mut Recording) {
    command_line(recording);
    processes(recording);
}

fn command_line(recording: &mut Recording) {
    const CMDLINE: &str = "/proc/cmdline";
    if recording.get(CMDLINE).is_none() {
        return;
    }
    if let Some(Ok(bytes)) = &mut recording.entry(CMDLINE).read {
        // What is not text is told as such, but not what it is.
        let text = String::from_utf8_lossy(bytes);
        *bytes = if text.contains(char::REPLACEMENT_CHARACTER) {
            b"\xff\n"[..].into()
        } else {
            (cmdline::without_secrets(&text) + "\n").into_bytes().into()
        };
    }
}

/// Forgets every process that is no container runtime: what runs on a node is nobody's business.
fn processes(recording: &mut Recording) {
    let others: BTreeSet<String> = recording
        .iter()
        .filter_map(|(path, answers)| {
            let pid = path.strip_prefix("/proc/")?.strip_suffix("/comm")?;
            pid.parse::<u32>().ok()?;
            let runtime = match answers.read.as_ref()? {
                Ok(bytes) => std::str::from_utf8(bytes).is_ok_and(|name| RUNTIMES.contains(&name.trim())),
                // A failure is told in the report, and names nobody. A process that ended meanwhile is none.
                Err(failure) => !failure.is_missing(),
            };
            (!runtime).then(|| pid.to_owned())
        })
        .collect();
    for pid in &others {
        recording.remove(&format!("/proc/{pid}/comm"));
    }
    if recording.get("/proc").is_some()
        && let Some(Ok(names)) = &mut recording.entry("/proc").list
    {
        names.text.retain(|name| !others.contains(name));
    }
}
