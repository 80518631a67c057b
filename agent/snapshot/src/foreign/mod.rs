//! Nodes that other tools saved: a sosreport, or the `nodes/NAME` folder of an OpenShift must-gather, unpacked.
//!
//! Both hold some files of a node as they are and others as what a command printed. The former are read where they lie, the
//! latter are turned into what the kernel would have said and go before them. All else was not collected, and is told as
//! such: a directory that is not there proves nothing.

mod command;
mod ibstat;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rdma_health_node::{
    Root,
    recording::{Failure, Recording},
    root::Scope,
};

/// A node that another tool saved.
#[derive(Debug)]
pub struct Foreign {
    /// The tool (`sosreport`).
    pub tool: &'static str,
    /// What was found of the node.
    pub root: Root,
}

/// Why a folder is a tool's but cannot be read as one node.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system's word.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// Which of them?
    #[error("this must-gather holds {} nodes; name one of them: {}", .0.len(), names(.0))]
    SeveralNodes(Vec<PathBuf>),
    /// Nothing about any node's kernel.
    #[error(
        "this must-gather holds nothing about the kernel of any node (no nodes/NAME/proc_cmdline or sysinfo); \
         a sosreport or `rdma-health snapshot` of the node does"
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

/// Opens a folder if its layout is one of a tool's; `None` where it is not.
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

/// The folder itself, or the only one below it: archives unpack into a folder of their own name.
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
        put(&mut made, "/proc/cmdline", cmdline);
    }
    if text("proc/modules").is_none()
        && let Some(list) = command("kernel/lsmod").or_else(|| text("lsmod"))
    {
        put(&mut made, "/proc/modules", command::modules(&list));
    }
    if let Some(log) = command("kernel/dmesg").or_else(|| text("var/log/dmesg")) {
        put(&mut made, "/dev/kmsg", command::log(&log));
    }
    let uname = command("kernel/uname_-a").or_else(|| text("uname"));
    if let Some((host, release)) = uname.as_deref().and_then(command::uname) {
        put(&mut made, "/proc/sys/kernel/hostname", host);
        put(&mut made, "/proc/sys/kernel/osrelease", release);
    }
    if text("uptime").is_none() {
        made.entry("/proc/uptime").read = Some(Err(Failure::NotCollected));
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
        put(&mut made, "/proc/cmdline", cmdline);
    }
    if let Some(log) = text("dmesg") {
        if let Some(release) = command::release(&log) {
            put(&mut made, "/proc/sys/kernel/osrelease", release);
        }
        put(&mut made, "/dev/kmsg", command::log(&log));
    }
    if let Some(name) = path.file_name().and_then(|name| name.to_str()) {
        put(&mut made, "/proc/sys/kernel/hostname", name.to_owned());
    }
    // `sysinfo.tgz` holds parts of /proc and /sys; unpacked beside itself or into a folder of its name.
    let unpacked = path.join("sysinfo");
    let below = if unpacked.join("sys").is_dir() {
        &unpacked
    } else {
        path
    };
    Root::partial(below, Arc::new(made))
}

/// Which processes ran is collected by nobody in the form of `/proc`.
fn nothing_below_proc() -> Recording {
    let mut made = Recording::default();
    made.entry("/proc").list = Some(Err(Failure::NotCollected));
    made
}

fn put(recording: &mut Recording, path: &str, text: String) {
    recording.entry(path).read = Some(Ok(text.into_bytes().into()));
}
