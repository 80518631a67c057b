//! Device nodes in sysfs and `/dev`.
//!
//! libibverbs skips devices whose node is missing, and reports `ENOENT` for a node that may not be opened. Both occur in a
//! container without its devices; this module distinguishes them.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::fs::MetadataExt,
    path::Path,
};

use rustix::io::Errno;

/// The kernel's class of devices that user space can open.
pub const CLASS: &str = "/sys/class/infiniband_verbs";

/// The directory of their nodes.
const NODES: &str = "/dev/infiniband";

/// One device in the class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name (`uverbs0`).
    pub uverbs: String,
    /// Inode of its directory in sysfs, which changes if the device is removed and added again.
    pub inode: u64,
}

/// The devices in a class directory by name of the RDMA device; empty if it cannot be read.
pub fn list(class: &Path) -> BTreeMap<String, Node> {
    let entries = fs::read_dir(class).into_iter().flatten().flatten();
    let device = |entry: fs::DirEntry| {
        let path = entry.path();
        let name = fs::read_to_string(path.join("ibdev")).ok()?.trim().to_owned();
        let node = Node {
            uverbs: entry.file_name().into_string().ok()?,
            inode: fs::metadata(path).ok()?.ino(),
        };
        Some((name, node))
    };
    entries.filter_map(device).collect()
}

/// Why the library does not list a device that the kernel has, as an errno: the error of opening its node, or `ENOPKG` if
/// the node opens, because then the provider is missing.
pub fn why_unlisted(uverbs: &str) -> i32 {
    open_error(Path::new(NODES), uverbs).unwrap_or_else(|| Errno::NOPKG.raw_os_error())
}

/// The error of opening a node; `None` if it opens.
pub fn why_closed(uverbs: &str) -> Option<i32> {
    open_error(Path::new(NODES), uverbs)
}

fn open_error(nodes: &Path, uverbs: &str) -> Option<i32> {
    let opened = File::options().read(true).write(true).open(nodes.join(uverbs));
    opened
        .err()
        .map(|error| error.raw_os_error().unwrap_or_else(|| Errno::IO.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listing_is_by_device_name() {
        let root = tempfile::tempdir().unwrap();
        assert!(list(&root.path().join("missing")).is_empty());
        for (uverbs, name) in [("uverbs0", "mlx5_3\n"), ("uverbs1", "rxe0\n")] {
            fs::create_dir(root.path().join(uverbs)).unwrap();
            fs::write(root.path().join(uverbs).join("ibdev"), name).unwrap();
        }
        fs::write(root.path().join("abi_version"), "6\n").unwrap();
        let found: Vec<_> = list(root.path())
            .into_iter()
            .map(|(name, node)| (name, node.uverbs))
            .collect();
        assert_eq!(
            found,
            [
                ("mlx5_3".into(), "uverbs0".into()),
                ("rxe0".into(), "uverbs1".into())
            ]
        );
    }

    #[test]
    fn a_missing_node_differs_from_one_that_opens() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(open_error(root.path(), "uverbs0"), Some(2));
        fs::write(root.path().join("uverbs0"), "").unwrap();
        assert_eq!(open_error(root.path(), "uverbs0"), None);
    }
}
