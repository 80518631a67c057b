//! What a privileged helper has read for this process: answers to questions that the tree refuses it.
//!
//! The kernel shows an unprivileged process only the first 64 bytes of a PCI configuration space, and a container has neither
//! `/dev/kmsg` nor the files of its host. The helper's answers take the place of these files, so that readers, recordings and snapshots do not differ.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rdma_health_protocol::{
    DriverStatistics, HostFile, HostFileName, LogPart, MAX_DRIVERS, MAX_HOST_FILES, MAX_MODULES, MAX_SPACES,
    ModuleMemory, ModulePage, PciSpace,
};

use super::Records;
use crate::{
    device_nodes, drivers,
    fact::{self, Errno, Unread, UnreadKind},
    kmsg::Collected,
    lldp, modprobe, os_release, pci,
    recording::{Failure, Names, Question},
};

/// What the helper has answered so far; shared by the reader and by what asks the helper. Its answers stay when it fails later:
/// `helper-unhealthy` reports that failure.
#[derive(Debug)]
pub struct Privileged(Mutex<Answers>);

/// The content of files by path, or why one could not be read.
type Files = BTreeMap<String, Result<Arc<[u8]>, Errno>>;

#[derive(Debug)]
struct Answers {
    /// Excerpts of configuration spaces by PCI address.
    spaces: Result<BTreeMap<String, Arc<[u8]>>, Unread>,
    /// The memory of transceivers by network device, or why it could not be read.
    modules: Result<BTreeMap<String, Result<Vec<ModulePage>, Errno>>, Unread>,
    /// What network drivers count, as a document, or why it could not be read.
    statistics: Result<Vec<u8>, Unread>,
    /// Files of the host by their path, or why they could not be read.
    files: Result<Files, Unread>,
    log: Collected,
    /// The sequence number of the next record of the log.
    next: u64,
    /// Why no part of the log could be read so far.
    log_failed: Option<Unread>,
}

impl Default for Privileged {
    fn default() -> Self {
        let unasked = Unread {
            source: "rdma-health-verbs".into(),
            kind: UnreadKind::NotCollected,
            detail: "the verbs helper, which may read it, has not answered yet".into(),
        };
        Self(Mutex::new(Answers {
            spaces: Err(unasked.clone()),
            modules: Err(unasked.clone()),
            statistics: Err(unasked.clone()),
            files: Err(unasked.clone()),
            log: Collected::default(),
            next: 0,
            log_failed: Some(unasked),
        }))
    }
}

impl Privileged {
    /// Takes the configuration spaces, or why there are none; then earlier ones stay. Returns whether anything changed.
    pub fn set_spaces(&self, spaces: Result<Vec<PciSpace>, Unread>) -> bool {
        let spaces = spaces.map(|spaces| {
            let spaces = spaces.into_iter().take(MAX_SPACES);
            spaces.map(|found| (found.address, found.space.into())).collect()
        });
        let mut answers = self.lock();
        let changed = answers.spaces != spaces && (spaces.is_ok() || answers.spaces.is_err());
        if changed {
            answers.spaces = spaces;
        }
        changed
    }

    /// Takes the memory of transceivers, or why there is none; then earlier ones stay. Returns whether the answer is the first one: what
    /// modules measure changes all the time, and the next reading is soon enough.
    pub fn set_modules(&self, modules: Result<Vec<ModuleMemory>, Unread>) -> bool {
        let modules = modules.map(|modules| {
            let modules = modules.into_iter().take(MAX_MODULES);
            let module = |found: ModuleMemory| match found.errno {
                0 => (found.netdev, Ok(found.pages)),
                errno => (found.netdev, Err(fact::errno(errno).unwrap_or(Errno::IO))),
            };
            modules.map(module).collect()
        });
        let mut answers = self.lock();
        let is_first = answers.modules.is_err() && answers.modules != modules;
        if modules.is_ok() || answers.modules.is_err() {
            answers.modules = modules;
        }
        is_first
    }

    /// Takes what network drivers count, or why that could not be read; then the last answer stays. Returns whether the answer is the
    /// first one: counters change all the time, and the next reading is soon enough.
    pub fn set_statistics(&self, statistics: Result<Vec<DriverStatistics>, Unread>) -> bool {
        let statistics = statistics.map(|mut all| {
            all.truncate(MAX_DRIVERS);
            let used = |driver: &mut DriverStatistics| {
                driver
                    .statistics
                    .retain(|statistic| drivers::is_used(&statistic.name));
            };
            all.iter_mut().for_each(used);
            // Fails only for maps with keys that are not text.
            serde_json::to_vec(&all).unwrap_or_default()
        });
        let mut answers = self.lock();
        let is_first = answers.statistics.is_err() && answers.statistics != statistics;
        if statistics.is_ok() || answers.statistics.is_err() {
            answers.statistics = statistics;
        }
        is_first
    }

    /// Takes the files of the host, or why there are none; then earlier ones stay. Returns whether anything changed.
    pub fn set_files(&self, files: Result<Vec<HostFile>, Unread>) -> bool {
        let files = files.map(|files| {
            let file = |found: HostFile| {
                let content = match found.errno {
                    0 => Ok(found.content.into()),
                    errno => Err(fact::errno(errno).unwrap_or(Errno::IO)),
                };
                (path_of(found.name), content)
            };
            files.into_iter().take(MAX_HOST_FILES).map(file).collect()
        });
        let mut answers = self.lock();
        let changed = answers.files != files && (files.is_ok() || answers.files.is_err());
        if changed {
            answers.files = files;
        }
        changed
    }

    /// The sequence number of the record of the kernel log to ask for.
    pub fn log_from(&self) -> u64 {
        self.lock().next
    }

    /// Takes the next part of the kernel log, or why it could not be read; then earlier parts stay. Returns whether anything
    /// changed.
    pub fn add_log(&self, part: Result<LogPart, Unread>) -> bool {
        let mut answers = self.lock();
        match part {
            Ok(part) => {
                let changed = answers.log_failed.take().is_some() || !part.records.is_empty();
                // What a record of the kernel starts with is a number; other lines have a meaning in a saved log.
                let records = part.records.iter().filter(|record| !record.starts_with(' '));
                records.for_each(|record| answers.log.add(record));
                answers.next = answers.next.max(part.next);
                changed
            }
            Err(unread) => {
                let changed = answers
                    .log_failed
                    .as_ref()
                    .is_some_and(|earlier| *earlier != unread);
                if changed {
                    answers.log_failed = Some(unread);
                }
                changed
            }
        }
    }

    /// The excerpt of a configuration space that the helper has read; `None` if the file at `path` is not such a space, or the
    /// helper read no more of it.
    pub(super) fn space(&self, path: &str) -> Option<Result<Arc<[u8]>, Failure>> {
        let address = pci::of_config(path)?;
        match &self.lock().spaces {
            Ok(spaces) => spaces.get(address).cloned().map(Ok),
            Err(unread) => Some(Err(failure(path, unread))),
        }
    }

    /// A file of the host that the helper has read; `None` if it is none of those, or if the host has no such file.
    pub(super) fn file(&self, path: &str) -> Option<Result<Arc<[u8]>, Failure>> {
        let neighbour = path.strip_prefix(lldp::DIRECTORY);
        let is_answered = [
            os_release::OF_HELPER,
            modprobe::OF_HELPER,
            device_nodes::OF_HELPER,
        ]
        .contains(&path)
            || neighbour.is_some_and(|rest| rest.starts_with('/'));
        if !is_answered {
            return None;
        }
        self.found(path)
    }

    /// The names in a directory of the host that the helper has listed, as [`Privileged::file`].
    pub(super) fn names(&self, path: &str) -> Option<Result<Names, Failure>> {
        if path != lldp::DIRECTORY {
            return None;
        }
        let listed = self.found(path)?;
        Some(listed.map(|_| {
            let prefix = format!("{path}/");
            let answers = self.lock();
            let files = answers.files.iter().flat_map(BTreeMap::keys);
            Names {
                text: files
                    .filter_map(|file| file.strip_prefix(&prefix).map(str::to_owned))
                    .collect(),
                ..Names::default()
            }
        }))
    }

    fn found(&self, path: &str) -> Option<Result<Arc<[u8]>, Failure>> {
        match &self.lock().files {
            Ok(files) => Some(files.get(path)?.clone().map_err(Failure::Errno)),
            Err(unread) => Some(Err(failure(path, unread))),
        }
    }

    /// The memory of a transceiver that the helper has read.
    pub(super) fn module(&self, netdev: &str) -> Result<Vec<ModulePage>, Failure> {
        match &self.lock().modules {
            Ok(modules) => match modules.get(netdev) {
                Some(Ok(pages)) => Ok(pages.clone()),
                Some(Err(errno)) => Err(Failure::Errno(*errno)),
                // The helper asks about every physical function with an RDMA device.
                None => Err(Failure::Errno(Errno::OPNOTSUPP)),
            },
            Err(unread) => Err(failure(
                &format!("netlink ethtool module-eeprom-get {netdev}"),
                unread,
            )),
        }
    }

    /// What network drivers count, as a document.
    pub(super) fn statistics(&self) -> Result<Vec<u8>, Failure> {
        match &self.lock().statistics {
            Ok(document) => Ok(document.clone()),
            Err(unread) => Err(failure(&Question::DriverStatistics.to_string(), unread)),
        }
    }

    /// The relevant records of the kernel log, as a file.
    pub(super) fn log(&self, path: &str) -> Result<String, Failure> {
        let answers = self.lock();
        match &answers.log_failed {
            None => Ok(answers.log.saved()),
            Some(unread) => Err(failure(path, unread)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Answers> {
        // Each change leaves whole answers, also after a panic elsewhere.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where readers look for a file of the host.
fn path_of(name: HostFileName) -> String {
    match name {
        HostFileName::OsRelease => os_release::OF_HELPER.to_owned(),
        HostFileName::Modprobe => modprobe::OF_HELPER.to_owned(),
        HostFileName::DeviceNodes => device_nodes::OF_HELPER.to_owned(),
        HostFileName::Lldp => lldp::DIRECTORY.to_owned(),
        HostFileName::Neighbour(index) => format!("{}/{index}", lldp::DIRECTORY),
    }
}

/// The helper's failure as that of the file which it was to read.
fn failure(path: &str, unread: &Unread) -> Failure {
    Failure::Unread(Box::new(Unread {
        source: path.into(),
        kind: unread.kind.clone(),
        detail: unread.detail.clone(),
    }))
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use crate::{
        Fact,
        root::{MAX_ATTRIBUTE, Root, Scope},
    };

    const CONFIG: &str = "/sys/bus/pci/devices/0000:41:00.0/config";

    fn why() -> Unread {
        Unread {
            source: "x".into(),
            kind: UnreadKind::Malformed,
            detail: "y".into(),
        }
    }

    fn tree(space: &[u8]) -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        let path = tree.path().join(&CONFIG[1..]);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, space).unwrap();
        tree
    }

    fn read(path: &Path, privileged: &Arc<Privileged>) -> Result<Vec<u8>, Failure> {
        let root = Root::open(path).unwrap().with_privileged(Arc::clone(privileged));
        let mut buffer = Vec::new();
        root.read(CONFIG, &mut buffer, MAX_ATTRIBUTE)?;
        Ok(buffer)
    }

    #[test]
    fn the_helpers_answer_replaces_only_what_the_kernel_cut() {
        let privileged = Arc::new(Privileged::default());
        let short = tree(&[1; 64]);
        assert!(matches!(read(short.path(), &privileged), Err(Failure::Unread(_))));
        let space = PciSpace {
            address: "0000:41:00.0".into(),
            space: vec![2; 100],
        };
        assert!(privileged.set_spaces(Ok(vec![space.clone()])));
        assert!(!privileged.set_spaces(Ok(vec![space])));
        assert_eq!(read(short.path(), &privileged).unwrap(), vec![2; 100]);
        // A process that may read it believes its own eyes.
        assert_eq!(read(tree(&[3; 256]).path(), &privileged).unwrap(), vec![3; 256]);
        assert!(!privileged.set_spaces(Err(why())), "it may be restarted");
        assert!(read(short.path(), &privileged).is_ok());
        privileged.set_spaces(Ok(Vec::new()));
        assert_eq!(read(short.path(), &privileged).unwrap(), vec![1; 64]);
    }

    #[test]
    fn files_of_the_host_are_those_that_a_container_lacks() {
        let file = |name, content: &[u8], errno| HostFile {
            name,
            content: content.to_vec(),
            errno,
        };
        let tree = tempfile::tempdir().unwrap();
        let privileged = Arc::new(Privileged::default());
        let root = Root::open(tree.path()).unwrap();
        let root = root.with_privileged(Arc::clone(&privileged));
        let read = |path: &str| {
            let mut buffer = Vec::new();
            root.read(path, &mut buffer, MAX_ATTRIBUTE).map(|_| buffer)
        };
        let names = || Scope::new(&root).entries(lldp::DIRECTORY);
        assert!(matches!(read(os_release::OF_HELPER), Err(Failure::Unread(_))));
        assert!(privileged.set_files(Ok(Vec::new())));
        assert!(names().is_absent(), "a host without such a daemon");
        let answer = vec![
            file(HostFileName::OsRelease, b"ID=rhcos\n", 0),
            file(HostFileName::Lldp, b"", 0),
            file(HostFileName::Neighbour(4), b"frame", 0),
            file(HostFileName::Neighbour(11), b"", Errno::ACCESS.raw_os_error()),
        ];
        assert!(privileged.set_files(Ok(answer.clone())) && !privileged.set_files(Ok(answer)));
        assert_eq!(read(os_release::OF_HELPER).unwrap(), b"ID=rhcos\n");
        assert_eq!(names(), Fact::Known(vec!["11".into(), "4".into()]));
        assert_eq!(read("/run/systemd/netif/lldp/4").unwrap(), b"frame");
        assert!(matches!(
            read("/run/systemd/netif/lldp/11"),
            Err(Failure::Errno(Errno::ACCESS))
        ));
        for other in [
            "/etc/shadow",
            "/run/systemd/netif/lldp/5",
            "/run/systemd/netif/lldpx",
        ] {
            assert!(read(other).unwrap_err().is_missing(), "{other}");
        }
        // A file in the tree comes first, such as that of a program that runs on the host.
        fs::create_dir_all(tree.path().join("run/systemd/netif/lldp")).unwrap();
        assert_eq!(names(), Fact::Known(Vec::new()));
        assert!(!privileged.set_files(Err(why())), "it may be restarted");
    }

    #[test]
    fn the_log_is_what_came_in_parts_or_why_none_came() {
        let part = |number: u64| {
            let record =
                format!("3,{number},{number}000000,-;mlx5_core 0000:14:00.0: device's health compromised");
            Ok(LogPart {
                records: vec![record, " REPEATED=99".into()],
                next: number + 1,
                more: false,
            })
        };
        let privileged = Privileged::default();
        let Err(Failure::Unread(unread)) = privileged.log("/dev/kmsg") else {
            panic!("not asked yet")
        };
        assert_eq!(
            (unread.source.as_str(), unread.kind),
            ("/dev/kmsg", UnreadKind::NotCollected)
        );
        assert!(privileged.add_log(Err(why())) && !privileged.add_log(Err(why())));
        assert!(matches!(privileged.log("/dev/kmsg"), Err(Failure::Unread(unread)) if unread.detail == "y"));
        assert!(privileged.add_log(part(4)) && privileged.add_log(part(9)));
        assert_eq!(privileged.log_from(), 10);
        let saved = privileged.log("/dev/kmsg").unwrap();
        assert_eq!(saved.matches("health compromised").count(), 2);
        assert!(!saved.contains("REPEATED"), "{saved}");
        assert!(!privileged.add_log(Ok(LogPart {
            next: 3,
            ..LogPart::default()
        })));
        assert_eq!(privileged.log_from(), 10, "the log does not begin again");
        assert!(!privileged.add_log(Err(why())));
        assert_eq!(privileged.log("/dev/kmsg").unwrap(), saved);
    }
}
