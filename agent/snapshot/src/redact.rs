//! Removes what must never leave the node: see `docs/snapshots.md`.
//!
//! The readers already remove secrets from the kernel command line, and keep only relevant lines of the kernel log
//! ([`rdma_health_node::kmsg`]). The recorded files are replaced by these results.

use std::{collections::BTreeSet, sync::Arc};

use rdma_health_kernel::{
    Root, boot, crio, limits, mlx4, modprobe, os_release,
    recording::{Answer, Question, Recording},
    root::Scope,
};
use rdma_health_node::cmdline;

/// Removes everything that is not about RDMA and could identify a user or contain a secret. The facts that readers find
/// do not change.
pub fn redact(recording: &mut Recording) {
    command_line(recording);
    processes(recording);
    runtimes(recording);
    distribution(recording);
    configuration(recording);
}

/// Removes all of the description of the distribution but its identifiers.
fn distribution(recording: &mut Recording) {
    recording.retain(|question, answer| {
        if let (Question::Read(path), Answer::Bytes(bytes)) = (question, answer)
            && os_release::is_release(path)
        {
            *bytes = os_release::used_lines(&String::from_utf8_lossy(bytes))
                .into_bytes()
                .into();
        }
        true
    });
}

/// Removes all of the configuration of modprobe but the lines that keep RDMA modules from being loaded, and all of that of the boot but IOMMU
/// arguments and RDMA modules.
fn configuration(recording: &mut Recording) {
    recording.retain(|question, answer| {
        if let (Question::Read(path), Answer::Bytes(bytes)) = (question, answer)
            && let text = String::from_utf8_lossy(bytes)
            && let Some(used) = modprobe::used(path, &text)
                .or_else(|| boot::used(path, &text).or_else(|| mlx4::used(path, &text)))
        {
            *bytes = used.into_bytes().into();
        }
        true
    });
}

/// Removes all of the configuration of CRI-O that no reader uses.
fn runtimes(recording: &mut Recording) {
    recording.retain(|question, answer| {
        if let (Question::Read(path), Answer::Bytes(bytes)) = (question, answer)
            && crio::is_configuration(path)
            && let Ok(text) = std::str::from_utf8(bytes)
        {
            *bytes = crio::used_lines(text).into_bytes().into();
        }
        true
    });
}

fn command_line(recording: &mut Recording) {
    const CMDLINE: &str = "/proc/cmdline";
    let Some(bytes) = recording.file(CMDLINE) else {
        return;
    };
    // Report that it is not text, without its content.
    let text = String::from_utf8_lossy(bytes);
    let redacted = if text.contains(char::REPLACEMENT_CHARACTER) {
        b"\xff\n".to_vec()
    } else {
        (cmdline::without_secrets(&text) + "\n").into_bytes()
    };
    recording.insert_file(CMDLINE, redacted);
}

/// Removes every process that is not a container runtime or the kubelet: name, number, limits.
fn processes(recording: &mut Recording) {
    let root = Root::replay(Arc::new(recording.clone()), false);
    let runtimes = limits::runtimes(&Scope::new(&root));
    let found = runtimes.known().into_iter().flatten();
    let pids: BTreeSet<String> = found.map(|runtime| runtime.pid.to_string()).collect();
    recording.retain(|question, answer| match process_of(question) {
        None => true,
        Some(pid) if pids.contains(pid) => true,
        // A failure appears in the report and identifies no process. A process that ended meanwhile is not a failure.
        Some(_) => matches!(answer, Answer::Failed(failure) if !failure.is_missing()),
    });
    let mut asked = BTreeSet::new();
    recording.retain(|question, answer| {
        if let Some(pid) = process_of(question) {
            asked.insert(pid.to_owned());
        }
        if let (Question::Read(path), Answer::Bytes(bytes)) = (question, answer)
            && path.ends_with("/status")
            && (process_of(question).is_some() || path.starts_with("/proc/self/"))
        {
            *bytes = limits::used_lines(bytes).into();
        }
        true
    });
    recording.retain(|question, answer| {
        if let (Question::List(path), Answer::Names(names)) = (question, answer)
            && path == "/proc"
        {
            names
                .text
                .retain(|name| asked.contains(name) || name.parse::<u32>().is_err());
        }
        true
    });
}

/// The process in a question about one.
fn process_of(question: &Question) -> Option<&str> {
    let (pid, _) = question.path()?.strip_prefix("/proc/")?.split_once('/')?;
    // The routes and the cgroup of process 1 are those of the host.
    let is_of_host = question.path()?.contains("/net/") || question.path()? == limits::FIRST_PROCESS;
    let is_process = pid.parse::<u32>().is_ok() && !is_of_host;
    is_process.then_some(pid)
}
