//! Captures the part of a machine's `/sys` and `/proc` that is about RDMA, as a [`Tree`].
//!
//! Everything here is bounded and chosen by name: a whole `/sys` is a hundred thousand files, some of which block,
//! change the device when they are read, or contain what no user wants in a bug report (serial numbers, the log of
//! other programs).

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rdma_health_kernel::fact;
use rustix::fs::{Mode, OFlags};

use crate::tree::{Entry, Tree};

/// The most that is kept of one file.
const MAX_FILE: usize = 64 << 10;
/// Table entries kept whatever they hold. A GID or `P_Key` table has up to a thousand entries, all but a few empty.
const TABLE_HEAD: usize = 16;

/// Names that are never read: they act, block, give binary resources, or show nothing of the device.
#[rustfmt::skip]
const SKIPPED: &[&str] = &[
    "firmware_node", "hugepages", "msi_irqs", "physical_node", "power", "queues", "remove", "rescan",
    "reset", "rom", "vpd", "wakeup", "waiting_for_supplier",
];
/// Files of `/proc` that are kept whole.
#[rustfmt::skip]
const PROC: &[&str] = &[
    "cmdline", "driver/nvidia/version", "meminfo", "modules", "self/limits", "sys/kernel/osrelease",
    "version",
];
/// Programs whose limits a pod inherits.
const RUNTIMES: &[&str] = &["containerd", "crio", "dockerd", "kubelet"];
/// Beginnings of the names of modules that take part in RDMA or peer memory.
#[rustfmt::skip]
const MODULES: &[&str] = &[
    "amdgpu", "bnxt_re", "efa", "erdma", "gdrdrv", "hns_roce", "ib_", "irdma", "iw_", "mana_ib", "mlx",
    "nv_peer", "nvidia", "qedr", "rdma", "siw",
];
/// Words that make a line of the kernel log relevant, in lower case.
#[rustfmt::skip]
const LOG_WORDS: &[&str] = &[
    " acs", "aer:", "amd-vi", "command line", "dmar", "gid", "hypervisor", "ib_", "infiniband", "iommu",
    "irdma", "linux version", "memory encryption", "mlx", "nvidia", "nvrm", "peer", "rdma", " roce",
    "rxe",
];

/// Captures the machine whose root directory is `root`: `/`, or an unpacked tree.
///
/// # Errors
/// Where `root` cannot be listed. A single file that fails is part of the capture.
pub fn capture(root: &Path) -> Result<Tree> {
    let root = root
        .canonicalize()
        .with_context(|| format!("no root directory {}", root.display()))?;
    let mut capture = Capture {
        root,
        tree: Tree::default(),
        netdevs: BTreeSet::new(),
    };
    capture.rdma();
    capture.pci();
    capture.iommu();
    capture.system();
    capture.modules();
    capture.processes();
    capture.kernel_log();
    capture.netdevs();
    capture.link_targets();
    Ok(capture.tree)
}

struct Capture {
    root: PathBuf,
    tree: Tree,
    /// Network interfaces that an RDMA device names.
    netdevs: BTreeSet<String>,
}

impl Capture {
    fn rdma(&mut self) {
        for device in self.class("sys/class/infiniband", 6) {
            if let Some(netdev) = self.text(&format!("{device}/parent")) {
                self.netdevs.insert(netdev);
            }
            for port in self.list(&format!("{device}/ports")) {
                let ndevs = format!("{device}/ports/{port}/gid_attrs/ndevs");
                let named = self
                    .list(&ndevs)
                    .into_iter()
                    .filter_map(|index| self.text(&format!("{ndevs}/{index}")));
                self.netdevs.extend(named.collect::<Vec<_>>());
            }
        }
        for class in ["infiniband_cm", "infiniband_mad", "infiniband_verbs"] {
            self.class(&format!("sys/class/{class}"), 1);
        }
    }

    fn pci(&mut self) {
        for device in self.class("sys/bus/pci/devices", 0) {
            for netdev in self.list(&format!("{device}/net")) {
                self.netdevs.insert(netdev);
            }
        }
    }

    fn iommu(&mut self) {
        self.class("sys/class/iommu", 2);
        self.directory("sys/kernel/iommu_groups", 3);
    }

    fn netdevs(&mut self) {
        for name in self.list("sys/class/net") {
            let path = format!("sys/class/net/{name}");
            let has = |file: &str| self.root.join(&path).join(file).exists();
            if !self.netdevs.contains(&name) && !has("device") && !has("bonding") {
                continue;
            }
            if let Some(target) = self.link(&path) {
                self.directory(&target, 2);
                // Between a network interface and its PCI function there may be one more device, as with virtio.
                if let Some(device) = self.resolve(&format!("{target}/device")) {
                    self.directory(&device, 0);
                }
            }
        }
    }

    fn system(&mut self) {
        let nodes = "sys/devices/system/node";
        self.directory(nodes, 0);
        for node in self
            .list(nodes)
            .into_iter()
            .filter(|name| name.starts_with("node"))
        {
            for file in ["cpulist", "cpumap", "distance", "meminfo"] {
                self.file(&format!("{nodes}/{node}/{file}"));
            }
        }
        for file in ["product_name", "sys_vendor"] {
            self.file(&format!("sys/devices/virtual/dmi/id/{file}"));
        }
        self.file("sys/hypervisor/type");
        for file in PROC {
            self.file(&format!("proc/{file}"));
        }
    }

    fn modules(&mut self) {
        for name in self.list("sys/module") {
            if MODULES.iter().any(|beginning| name.starts_with(beginning)) {
                for file in ["refcnt", "srcversion", "version"] {
                    self.file(&format!("sys/module/{name}/{file}"));
                }
                self.directory(&format!("sys/module/{name}/parameters"), 0);
            }
        }
    }

    fn processes(&mut self) {
        for pid in self
            .list("proc")
            .into_iter()
            .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        {
            let comm = format!("proc/{pid}/comm");
            if self
                .text(&comm)
                .is_some_and(|comm| RUNTIMES.contains(&comm.as_str()))
            {
                self.file(&comm);
                for name in ["cgroup", "limits", "status"] {
                    self.file(&format!("proc/{pid}/{name}"));
                }
            }
        }
    }

    /// Keeps the relevant records of the kernel log, as the device gives them: `PRIORITY,SEQUENCE,MICROSECONDS,FLAG;TEXT`.
    fn kernel_log(&mut self) {
        let Ok(records) = read_records(&self.root.join("dev/kmsg")) else {
            return;
        };
        let mut content = String::new();
        let mut cut = false;
        for record in records {
            // Lines after the first are the device's properties.
            let text = record.lines().next().unwrap_or_default().to_lowercase();
            if !LOG_WORDS.iter().any(|word| text.contains(word)) {
                continue;
            }
            cut = content.len() + record.len() > MAX_FILE;
            if cut {
                break;
            }
            content.push_str(&record);
        }
        self.insert(
            "dev/kmsg",
            Entry::File {
                mode: 0o644,
                content: content.into_bytes(),
                cut,
            },
        );
    }

    /// Captures every member of a class or bus, whose entries are links, `depth` directories deep. Returns where the
    /// links lead.
    fn class(&mut self, class: &str, depth: usize) -> Vec<String> {
        let mut targets = Vec::new();
        for name in self.list(class) {
            if let Some(target) = self.link(&format!("{class}/{name}")) {
                self.directory(&target, depth);
                targets.push(target);
            }
        }
        if targets.is_empty() && self.root.join(class).is_dir() {
            self.insert(class, Entry::Directory { mode: 0o755 });
        }
        targets
    }

    /// Captures the link `path`. Returns where it leads.
    fn link(&mut self, path: &str) -> Option<String> {
        let target = fs::read_link(self.root.join(path)).ok()?.to_str()?.to_owned();
        self.insert(path, Entry::Link { target });
        self.resolve(path)
    }

    fn directory(&mut self, path: &str, depth: usize) {
        let names = self.list(path);
        if names.is_empty() && self.root.join(path).is_dir() {
            self.insert(path, Entry::Directory { mode: 0o755 });
        }
        for name in names.iter().filter(|name| !is_skipped(name)) {
            let below = format!("{path}/{name}");
            let Ok(metadata) = fs::symlink_metadata(self.root.join(&below)) else {
                continue;
            };
            if metadata.is_symlink() {
                self.link(&below);
            } else if metadata.is_file() {
                self.file(&below);
            } else if metadata.is_dir() && depth > 0 {
                self.directory(&below, depth - 1);
            }
        }
    }

    fn file(&mut self, path: &str) {
        let Ok(metadata) = fs::metadata(self.root.join(path)) else {
            return;
        };
        let mode = metadata.permissions().mode() & 0o777;
        let entry = match read_head(&self.root.join(path)) {
            // Root may open a file without any read bit, but its read acts on the device or fails.
            _ if mode & 0o444 == 0 => Entry::File {
                mode,
                content: Vec::new(),
                cut: false,
            },
            Ok((content, cut)) => Entry::File { mode, content, cut },
            Err(error) => Entry::Unreadable {
                mode,
                errno: errno_name(&error),
            },
        };
        if !is_empty_table_entry(path, &entry) {
            self.insert(path, entry);
        }
    }

    /// Gives every captured link the directory that it leads to, so that what exists on the node exists in the tree.
    fn link_targets(&mut self) {
        // Twice: a driver's directory brings one more link, to its module.
        for _ in 0..2 {
            let links = self
                .tree
                .entries()
                .filter(|(_, entry)| matches!(entry, Entry::Link { .. }));
            let targets: BTreeSet<_> = links.filter_map(|(path, _)| self.resolve(path)).collect();
            for target in &targets {
                let below = format!("{target}/");
                if self
                    .tree
                    .entries()
                    .any(|(path, _)| path == target || path.starts_with(&below))
                {
                    continue;
                }
                let module = format!("{target}/module");
                if self.link(&module).is_none() {
                    self.insert(target, Entry::Directory { mode: 0o755 });
                }
            }
        }
    }

    /// Where `path` leads, relative to the root, if it exists and stays below it.
    fn resolve(&self, path: &str) -> Option<String> {
        let path = self.root.join(path).canonicalize().ok()?;
        Some(path.strip_prefix(&self.root).ok()?.to_str()?.to_owned())
    }

    fn text(&self, path: &str) -> Option<String> {
        let text = fs::read_to_string(self.root.join(path)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// The names in a directory, sorted; none where it does not exist.
    fn list(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(path)).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    /// Adds an entry; one that an archive cannot express (a link out of the tree, an odd name) is left out.
    fn insert(&mut self, path: &str, entry: Entry) {
        let _ = self.tree.insert(path, entry);
    }
}

fn is_skipped(name: &str) -> bool {
    // `resource` lists the regions, `resource0` is one of them.
    let region = name.strip_prefix("resource").is_some_and(|rest| !rest.is_empty());
    region || name.contains(':') || SKIPPED.contains(&name)
}

/// Whether this is an entry of a GID or `P_Key` table, beyond the first few, that holds nothing.
fn is_empty_table_entry(path: &str, entry: &Entry) -> bool {
    let mut parts = path.rsplit('/');
    let Some(index) = parts.next().and_then(|name| name.parse::<usize>().ok()) else {
        return false;
    };
    if index < TABLE_HEAD || !parts.any(|name| matches!(name, "gids" | "gid_attrs" | "pkeys")) {
        return false;
    }
    match entry {
        Entry::File { content, .. } => content
            .iter()
            .all(|byte| matches!(byte, b'0' | b':' | b'x' | b'\n')),
        _ => true,
    }
}

/// The beginning of a file, and whether it goes on.
fn read_head(path: &Path) -> io::Result<(Vec<u8>, bool)> {
    let mut content = Vec::new();
    File::open(path)?
        .take(MAX_FILE as u64 + 1)
        .read_to_end(&mut content)?;
    let cut = content.len() > MAX_FILE;
    content.truncate(MAX_FILE);
    Ok((content, cut))
}

/// The records of the kernel log. The device gives one for each read; a captured tree has a plain file instead.
fn read_records(path: &Path) -> io::Result<Vec<String>> {
    let mut file = File::from(rustix::fs::open(
        path,
        OFlags::RDONLY | OFlags::NONBLOCK,
        Mode::empty(),
    )?);
    let mut records = Vec::new();
    if file.metadata()?.is_file() {
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        records.extend(text.split_inclusive('\n').map(str::to_owned));
        return Ok(records);
    }
    let mut buffer = vec![0; 8192];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(records),
            Ok(length) => records.push(String::from_utf8_lossy(&buffer[..length]).into_owned()),
            // The record was overwritten while we read: go on with the oldest that is left.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::PIPE.raw_os_error()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(records),
            Err(error) => return Err(error),
        }
    }
}

fn errno_name(error: &io::Error) -> String {
    let number = error.raw_os_error().unwrap_or_default();
    let known = fact::errno(number).and_then(fact::errno_name);
    known.map_or_else(|| format!("E{number}"), str::to_owned)
}

#[cfg(test)]
mod tests;
