//! Nodes saved by other tools: an unpacked sosreport, or the `nodes/NAME` folder of an unpacked OpenShift must-gather.
//!
//! Both contain some files of a node unchanged, and the output of commands. The files are read in place. Command output
//! is converted to the kernel's format and takes precedence. Everything else counts as not collected, because a missing
//! directory proves nothing.

mod command;
mod ibstat;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rdma_health_kernel::{
    Root,
    recording::{Answer, Failure, Question, Recording},
    root::Scope,
};

/// A node that another tool saved.
#[derive(Debug)]
pub struct Foreign {
    /// The tool (`sosreport`).
    pub tool: &'static str,
    /// The node's files.
    pub root: Root,
}

/// Why a tool's folder cannot be read as one node.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system's error.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// It has several nodes.
    #[error("this must-gather contains {} nodes; pass the folder of one of them: {}", .0.len(), names(.0))]
    SeveralNodes(Vec<PathBuf>),
    /// It has no kernel files of any node.
    #[error(
        "this must-gather contains no kernel files of any node (no nodes/NAME/proc_cmdline or sysinfo); use a sosreport or \
        `rdma-health snapshot` of the node"
    )]
    NoNode,
}

fn names(nodes: &[PathBuf]) -> String {
    let mut shown: Vec<_> = nodes
        .iter()
        .take(8)
        .map(|node| node.display().to_string())
        .collect();
    if nodes.len() > shown.len() {
        shown.push("…".into());
    }
    shown.join(", ")
}

/// Opens a folder if it has the layout of a tool; otherwise `None`.
///
/// # Errors
/// Any [`Error`].
pub fn open(path: &Path) -> Result<Option<Foreign>, Error> {
    if let Some(sos) = with_only_child(path, is_sosreport) {
        return Ok(Some(Foreign {
            tool: "sosreport",
            root: sosreport(&sos)?,
        }));
    }
    let node = match with_only_child(path, is_must_gather) {
        Some(must_gather) => only_node(&must_gather.join("nodes"))?,
        None if is_node(path) => path.to_owned(),
        None => return Ok(None),
    };
    Ok(Some(Foreign {
        tool: "must-gather",
        root: must_gather_node(&node)?,
    }))
}

/// The folder itself, or its only subfolder, because archives unpack into a folder with their own name.
fn with_only_child(path: &Path, fits: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    if fits(path) {
        return Some(path.to_owned());
    }
    let mut folders = folders(path);
    let only = folders.pop().filter(|_| folders.is_empty())?;
    fits(&only).then_some(only)
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .take(10_000)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

fn is_sosreport(path: &Path) -> bool {
    path.join("sos_commands").is_dir()
        && ["version.txt", "sos_logs", "sos_reports"]
            .iter()
            .any(|name| path.join(name).exists())
}

fn is_must_gather(path: &Path) -> bool {
    path.join("nodes").is_dir()
        && ["cluster-scoped-resources", "host_service_logs", "namespaces"]
            .iter()
            .any(|name| path.join(name).is_dir())
        || path.join("cluster-scoped-resources").is_dir() && path.join("namespaces").is_dir()
}

fn is_node(path: &Path) -> bool {
    path.join("proc_cmdline").is_file()
        || (path.join("sysinfo.log").is_file() && path.join("lspci").is_file())
}

fn only_node(nodes: &Path) -> Result<PathBuf, Error> {
    let mut found = folders(nodes);
    found.retain(|node| is_node(node));
    match found.as_slice() {
        [] => Err(Error::NoNode),
        [only] => Ok(only.clone()),
        _ => Err(Error::SeveralNodes(found)),
    }
}

fn sosreport(path: &Path) -> std::io::Result<Root> {
    let tree = Root::open(path)?;
    let scope = Scope::new(&tree);
    let text = |name: &str| scope.optional_file(name).known().cloned();
    let command = |name: &str| text(&format!("sos_commands/{name}"));
    let mut made = nothing_below_proc();
    if text("proc/cmdline").is_none()
        && let Some(log) = command("kernel/dmesg")
        && let Some(cmdline) = command::cmdline(&log)
    {
        made.insert_file("/proc/cmdline", cmdline.into_bytes());
    }
    if text("proc/modules").is_none()
        && let Some(list) = command("kernel/lsmod").or_else(|| text("lsmod"))
    {
        made.insert_file("/proc/modules", command::modules(&list).into_bytes());
    }
    if let Some(log) = command("kernel/dmesg").or_else(|| text("var/log/dmesg")) {
        made.insert_file("/dev/kmsg", log.into_bytes());
    }
    let uname = command("kernel/uname_-a").or_else(|| text("uname"));
    if let Some((host, release)) = uname.as_deref().and_then(command::uname) {
        made.insert_file("/proc/sys/kernel/hostname", host.into_bytes());
        made.insert_file("/proc/sys/kernel/osrelease", release.into_bytes());
    }
    if text("uptime").is_none() {
        not_collected(&mut made, Question::Read("/proc/uptime".into()));
    }
    if scope.entries("sys/class/infiniband").known().is_none()
        && let Some(report) = command("infiniband/ibstat")
    {
        ibstat::devices(&report, &mut made);
    }
    Root::partial(path, Arc::new(made))
}

fn must_gather_node(path: &Path) -> std::io::Result<Root> {
    let tree = Root::open(path)?;
    let scope = Scope::new(&tree);
    let text = |name: &str| scope.optional_file(name).known().cloned();
    let mut made = nothing_below_proc();
    if let Some(cmdline) = text("proc_cmdline") {
        made.insert_file("/proc/cmdline", cmdline.into_bytes());
    }
    if let Some(log) = text("dmesg") {
        if let Some(release) = command::release(&log) {
            made.insert_file("/proc/sys/kernel/osrelease", release.into_bytes());
        }
        made.insert_file("/dev/kmsg", log.into_bytes());
    }
    if let Some(name) = path.file_name().and_then(|name| name.to_str()) {
        made.insert_file("/proc/sys/kernel/hostname", name.as_bytes());
    }
    // `sysinfo.tgz` contains parts of /proc and /sys; it is unpacked in place or into a folder with its name.
    let unpacked = path.join("sysinfo");
    let below = if unpacked.join("sys").is_dir() {
        &unpacked
    } else {
        path
    };
    Root::partial(below, Arc::new(made))
}

/// Neither tool collects processes in the format of `/proc`.
fn nothing_below_proc() -> Recording {
    let mut made = Recording::default();
    not_collected(&mut made, Question::List("/proc".into()));
    made
}

fn not_collected(made: &mut Recording, question: Question) {
    made.insert(question, Answer::Failed(Failure::NotCollected));
}
