//! The tree from which a node is read: `/`, `/host` in a container, a captured tree, or a recording.
//!
//! Every read is bounded in size, never leaves the tree (not even through symbolic links), opens only regular files, and
//! never waits for a writer. The device node of an RDMA device is opened and closed again, to find out whether this process may. A kernel that does not respond cannot be bounded here: see [`crate::collector`].

pub(crate) mod directory;
mod kubelet;
mod log;
mod modes;
mod privileged;
mod scope;
mod service;

use std::{os::fd::OwnedFd, path::Path, sync::Arc};

use rdma_health_protocol::{KubeletMethod, ModulePage};
use rustix::{
    fs::{OFlags, fstatfs},
    io::Errno,
};

use crate::recording::{Answer, Failure, Question, Recorder, Recording};
use directory::{Directory, ReadFile};
pub use kubelet::KubeletAnswers;
pub use log::LogFollower;
pub(crate) use log::Records;
pub use privileged::Privileged;
pub(crate) use scope::Miss;
pub use scope::Scope;

/// Maximum size of an attribute in bytes. Sysfs never exceeds a page.
pub const MAX_ATTRIBUTE: usize = 4096;
/// Maximum size of other files (`/proc/modules`, a saved kernel log) in bytes.
pub const MAX_FILE: usize = 16 << 20;
/// Maximum number of entries of a directory that are read.
pub const MAX_ENTRIES: usize = 65_536;

/// `f_type` of procfs (statfs(2)).
const PROC_SUPER_MAGIC: rustix::fs::FsWord = 0x9fa0;
/// `f_type` of overlayfs, which container runtimes use for the root of a container.
const OVERLAYFS_SUPER_MAGIC: rustix::fs::FsWord = 0x794c_7630;

/// The root of a node: a directory, recorded answers, or both.
#[derive(Debug)]
pub struct Root {
    /// `None` if there is only the recording.
    directory: Option<Directory>,
    live: bool,
    /// Whether it is the root of a running container, as far as its file system shows it.
    of_container: bool,
    /// Whether a file may be missing only because it was not collected.
    partial: bool,
    /// Answers that take precedence over the directory.
    recording: Option<Arc<Recording>>,
    /// Records the answers.
    recorder: Option<Arc<Recorder>>,
    /// What a privileged helper reads for this process.
    privileged: Option<Arc<Privileged>>,
    /// What the helper asked the kubelet.
    kubelet: Option<Arc<KubeletAnswers>>,
}

/// A question as a reader asks it: with the form in which the reader takes the answer.
pub(crate) trait Ask {
    /// What the reader gets.
    type Found;

    /// The question in its recorded form.
    fn question(&self) -> Question;

    /// Asks the tree, or the machine that it belongs to.
    fn ask(&mut self, root: &Root) -> Result<Self::Found, Failure>;

    /// Converts a recorded answer; not collected if it does not match the question.
    fn replay(&mut self, answer: &Answer) -> Result<Self::Found, Failure>;

    /// The answer in its recorded form.
    fn answer(&self, found: &Self::Found) -> Answer;
}

impl Root {
    /// Opens the tree below `path`.
    ///
    /// # Errors
    /// If `path` is not a directory that can be opened, or the kernel has no `openat2` (before 5.6).
    pub fn open(path: &Path) -> std::io::Result<Self> {
        let directory = Directory::open(path)?;
        let live = directory
            .open_at("proc", OFlags::PATH | OFlags::DIRECTORY)
            .and_then(fstatfs)
            .is_ok_and(|found| found.f_type == PROC_SUPER_MAGIC);
        let of_container = live
            && directory
                .open_at(".", OFlags::PATH | OFlags::DIRECTORY)
                .and_then(fstatfs)
                .is_ok_and(|found| found.f_type == OVERLAYFS_SUPER_MAGIC);
        Ok(Self {
            directory: Some(directory),
            live,
            of_container,
            partial: false,
            recording: None,
            recorder: None,
            privileged: None,
            kubelet: None,
        })
    }

    /// Opens a directory with parts of a node's tree, like a support bundle. The recording takes precedence; what neither
    /// it nor the directory has counts as not collected.
    ///
    /// # Errors
    /// As for [`Root::open`].
    pub fn partial(path: &Path, recording: Arc<Recording>) -> std::io::Result<Self> {
        Ok(Self {
            live: false,
            of_container: false,
            partial: true,
            ..Self::open(path)?.answering(recording)
        })
    }

    /// Replays the recorded answers of a tree. `live` is whether it was a running machine.
    pub fn replay(recording: Arc<Recording>, live: bool) -> Self {
        Self {
            directory: None,
            live,
            of_container: false,
            partial: true,
            recording: Some(recording),
            recorder: None,
            privileged: None,
            kubelet: None,
        }
    }

    /// Sets a recording that takes precedence over the directory.
    #[must_use]
    pub fn answering(self, recording: Arc<Recording>) -> Self {
        Self {
            recording: Some(recording),
            ..self
        }
    }

    /// Sets what a privileged helper reads where the kernel refuses this process.
    #[must_use]
    pub fn with_privileged(self, privileged: Arc<Privileged>) -> Self {
        Self {
            privileged: Some(privileged),
            ..self
        }
    }

    /// Sets what the helper asked the kubelet. Without it, this node has none.
    #[must_use]
    pub fn with_kubelet(self, kubelet: Arc<KubeletAnswers>) -> Self {
        Self {
            kubelet: Some(kubelet),
            ..self
        }
    }

    /// Records the answers of the tree from now on.
    pub fn record(&mut self) -> Arc<Recorder> {
        Arc::clone(self.recorder.get_or_insert_default())
    }

    /// Whether this is the running machine's own tree, at `/` or mounted elsewhere: its `/proc` is a procfs. Determined
    /// once when it is opened, because another check could hang.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Whether it is read now, and not replayed from a recording.
    pub(crate) fn is_running(&self) -> bool {
        self.live && !self.partial
    }

    /// Whether the files outside `/proc` and `/sys` may be those of a container's image. A diskless host may have such a root, too.
    pub(crate) fn is_of_container(&self) -> bool {
        self.of_container
    }

    /// Whether the directory holds the device nodes that the kernel made, and not those that a container was given.
    pub(crate) fn has_devices_of_kernel(&self, path: &str) -> bool {
        let directory = self.directory.as_ref();
        directory.is_some_and(|directory| directory.is_devtmpfs(path))
    }

    /// Whether there is anything that answers netlink questions: the kernel of a running machine, or a recording of one. A tree of files
    /// has none.
    pub(crate) fn answers_netlink(&self) -> bool {
        let is_netlink = |(question, _): (&Question, &Answer)| matches!(question, Question::Netlink { .. });
        self.live
            || self
                .recording
                .as_ref()
                .is_some_and(|recording| recording.iter().any(is_netlink))
    }

    /// Whether there is anything that answers for the kubelet: the helper, or a recording.
    pub(crate) fn answers_kubelet(&self) -> bool {
        let is_kubelet = |(question, _): (&Question, &Answer)| matches!(question, Question::Kubelet { .. });
        let recording = self.recording.as_ref();
        self.kubelet.is_some() || recording.is_some_and(|recording| recording.iter().any(is_kubelet))
    }

    /// What the kubelet answered the helper.
    pub(crate) fn ask_kubelet(&self, method: KubeletMethod) -> Result<Vec<u8>, Failure> {
        self.kubelet.as_ref().ok_or(Failure::NotCollected)?.get(method)
    }

    /// The memory of a transceiver as a privileged helper has read it; `None` without such a helper.
    pub(crate) fn module_memory(&self, netdev: &str) -> Option<Result<Vec<ModulePage>, Failure>> {
        Some(self.privileged.as_ref()?.module(netdev))
    }

    /// Whether there is anything that answers for network drivers: a helper, or a recording.
    pub(crate) fn answers_statistics(&self) -> bool {
        let recording = self.recording.as_ref();
        // A helper reads the running machine, not a tree.
        (self.live && self.privileged.is_some())
            || recording.is_some_and(|recording| recording.get(&Question::DriverStatistics).is_some())
    }

    /// What network drivers count, as a helper has read it.
    pub(crate) fn driver_statistics(&self) -> Result<Vec<u8>, Failure> {
        self.privileged
            .as_ref()
            .ok_or(Failure::NotCollected)?
            .statistics()
    }

    /// For how many seconds a source had not responded when this was recorded; `None` if it had.
    pub(crate) fn hung(&self, source: &str) -> Option<u64> {
        self.recording.as_ref()?.hung.get(source).copied()
    }

    /// Asks the recording first, then the tree. Records the answer if recording is enabled.
    pub(crate) fn ask<A: Ask>(&self, mut ask: A) -> Result<A::Found, Failure> {
        let recorded = match &self.recording {
            Some(recording) => recording.get(&ask.question()),
            None => None,
        };
        let found = match recorded {
            Some(Answer::Failed(failure)) => Err(failure.clone()),
            Some(answer) => ask.replay(answer),
            None => ask.ask(self).map_err(|failure| self.refine(&ask, failure)),
        };
        if let Some(recorder) = &self.recorder {
            let answer = match &found {
                Ok(found) => ask.answer(found),
                Err(failure) => Answer::Failed(failure.clone()),
            };
            recorder.insert(ask.question(), answer);
        }
        found
    }

    /// Distinguishes a missing file from one that was not collected.
    fn refine(&self, ask: &impl Ask, failure: Failure) -> Failure {
        if !self.partial || !failure.is_missing() {
            return failure;
        }
        let directory = self.directory.as_ref();
        let question = ask.question();
        let collected = directory
            .zip(question.path())
            .is_some_and(|(directory, path)| directory.holds_all_beside(path));
        if collected { failure } else { Failure::NotCollected }
    }

    /// Why this process may not open the character device with this number (`231:192`) at a path. Only on a running machine: a tree that
    /// was copied says nothing about this process, and its device nodes can lead anywhere.
    pub(crate) fn refuses_device(&self, path: &str, number: &str) -> Option<Errno> {
        let directory = self.directory.as_ref().filter(|_| self.live)?;
        directory.refuses_device(path, number)
    }

    /// The directory to ask.
    fn directory(&self) -> Result<&Directory, Failure> {
        self.directory.as_ref().ok_or(Failure::NotCollected)
    }

    /// Reads a regular file into `buffer`, and returns it for repeated reads with [`directory::read_again`]; `None` if
    /// there is no file to keep open.
    pub(crate) fn read(
        &self,
        path: &str,
        buffer: &mut Vec<u8>,
        limit: usize,
    ) -> Result<Option<OwnedFd>, Failure> {
        self.ask(ReadFile { path, buffer, limit })
    }
}
