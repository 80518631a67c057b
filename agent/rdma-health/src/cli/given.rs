//! What `env`, `run` and `wait` share: the devices that this pod was given, and the settings for them.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::Context;
use clap::{Args, ValueEnum};
use rdma_health_job::{
    given::Given,
    rails::{Rails, Refused},
    readiness::{self, none_usable},
    settings::{self, NcclVersion, Settings},
    user::User,
};
use rdma_health_kernel::{
    Root, access,
    collector::{Collector, Refresh},
};
use rdma_health_node::{Fact, Function, Node, UnreadKind, access::Access, model, words::printable};
use rdma_health_protocol::Errno;

use crate::{descriptors, patient};

/// How long reading the node may take; sources that have not answered by then are unread.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether a job uses RDMA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Mode {
    /// RDMA if it can be used, otherwise TCP with a message
    Auto,
    /// RDMA on every device that this pod was given; fail with the reason if one cannot be used, or if NCCL would use TCP, not start or not
    /// connect with a variable that is set or with its version
    Rdma,
    /// TCP, even if RDMA could be used
    Tcp,
}

#[derive(Debug, Args)]
pub(super) struct JobArguments {
    /// Whether to use RDMA
    #[arg(long, value_enum, value_name = "MODE", default_value = "auto")]
    mode: Mode,
    /// Version of NCCL, because versions need other variables: before 2.21 the GID index, from 2.30 on the numbers of rails [default:
    /// the version set in the image (NVIDIA images set it), otherwise settings for 2.21 and later without numbers of rails]
    #[arg(long, value_name = "VERSION")]
    nccl_version: Option<String>,
    #[command(flatten)]
    pod: PodArguments,
}

/// Where to find what this pod was given.
#[derive(Debug, Clone, Args)]
pub(super) struct PodArguments {
    /// File with the Multus annotation k8s.v1.cni.cncf.io/network-status, mounted from the downward API
    #[arg(long, value_name = "FILE")]
    network_status: Option<PathBuf>,
    /// Root directory: / in a pod, or a captured tree
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
}

/// What this process was given, and what the node has.
pub(super) struct Job {
    node: Node,
    access: Access,
    given: Given,
    user: User,
}

/// Why RDMA cannot be used; the message names every device and its reason.
#[derive(Debug)]
pub(super) struct Unusable(String);

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RDMA cannot be used: {}", self.0)
    }
}

impl std::error::Error for Unusable {}

impl PodArguments {
    /// Prepares to read, once or repeatedly.
    pub(super) fn collector(&self) -> anyhow::Result<Collector> {
        Ok(Collector::new(self.open()?, Vec::new()))
    }

    fn open(&self) -> anyhow::Result<Root> {
        descriptors::ensure()?;
        patient::root(&self.root)
    }

    /// Reads what the pod was given and what the node has.
    pub(super) fn read(&self, collector: &mut Collector) -> anyhow::Result<Job> {
        // A variable that is not text is one that cannot be understood, and not one that is not set.
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        let variables: BTreeMap<_, _> = std::env::vars_os()
            .map(|(name, value)| (text(name), text(value)))
            .collect();
        let root = self.open()?;
        let mut access = Access::read(&root);
        let mut given = Given::in_environment(&variables);
        for (file, content) in &access.metadata {
            match content {
                Fact::Known(text) => given.add_metadata(file, text),
                Fact::Absent => {}
                Fact::Unread { unread } => given.unread(unread.to_string()),
            }
        }
        if let Some(file) = &self.network_status {
            let file = std::path::absolute(file)?.display().to_string();
            // A captured tree has its own files.
            let name = if self.root.as_os_str() == "/" {
                file.clone()
            } else {
                format!("{file} in {}", self.root.display())
            };
            match access::file(&root, &file) {
                Fact::Known(text) => given.add_network_status(&name, &text),
                Fact::Absent => given.not_written(&name, "does not exist"),
                Fact::Unread { unread } if unread.kind == UnreadKind::Missing => {
                    given.not_written(&name, "does not exist");
                }
                Fact::Unread { unread } => given.unread(unread.to_string()),
            }
        }
        let addresses = given
            .grants
            .iter()
            .filter_map(|grant| grant.pci_address.as_deref());
        access.read_functions(&root, addresses);
        collector.refresh(Refresh::All, Instant::now() + PATIENCE);
        let node = Node::new(collector.facts());
        let user = user(variables, &root, library(&node), &mut given);
        Ok(Job {
            node,
            access,
            given,
            user,
        })
    }
}

impl JobArguments {
    /// Reads what the pod was given.
    pub(super) fn read(&self) -> anyhow::Result<Job> {
        self.pod.read(&mut self.pod.collector()?)
    }

    /// The version of NCCL, if it is known.
    ///
    /// # Errors
    /// If the flag is not a version. A variable that is not one is ignored.
    fn nccl(&self, variables: &BTreeMap<String, String>) -> anyhow::Result<Option<NcclVersion>> {
        match &self.nccl_version {
            Some(text) => NcclVersion::parse(text)
                .with_context(|| format!("--nccl-version: expected a version like 2.27.3, found \"{text}\""))
                .map(Some),
            None => Ok(variables
                .get("NCCL_VERSION")
                .and_then(|text| NcclVersion::parse(text))),
        }
    }

    /// The settings for the mode. Reports all remarks on stderr.
    ///
    /// # Errors
    /// [`Unusable`] if the mode is RDMA, and a device that the job needs cannot be used or the user has disabled RDMA.
    pub(super) fn settle(&self, job: &Job, rails: &Rails<'_>) -> anyhow::Result<Settings> {
        let nccl = self.nccl(job.user.variables())?;
        // Before any failure: they may be the reason for it.
        let mut remarks = rails.notes.clone();
        report(&remarks);
        let settings = match self.mode {
            Mode::Tcp => settings::tcp(&job.node, &job.access, "TCP was requested", &job.user),
            Mode::Rdma => rdma(job, rails, nccl)?,
            Mode::Auto if rails.is_empty() => {
                let why = none_usable(&job.node, rails);
                let why = format!("falling back to TCP, which is much slower: {why}");
                report([&why]);
                remarks.push(why);
                settings::tcp(&job.node, &job.access, "RDMA cannot be used here", &job.user)
            }
            Mode::Auto => settings::rdma(&job.node, rails, &job.access, nccl, &job.user),
        };
        let mut unused = Vec::new();
        if self.mode != Mode::Tcp {
            for (line, important) in readiness::unused(rails) {
                if important {
                    report([&line]);
                    remarks.push(line);
                } else {
                    unused.push(line);
                }
            }
        }
        report(&settings.remarks);
        remarks.extend(settings.remarks);
        Ok(Settings {
            remarks,
            unused,
            ..settings
        })
    }
}

/// The settings for a job that must use RDMA.
fn rdma(job: &Job, rails: &Rails<'_>, nccl: Option<NcclVersion>) -> anyhow::Result<Settings> {
    if let Some(why) = readiness::unmet(&job.node, rails) {
        return Err(Unusable(why).into());
    }
    let settings = settings::rdma(&job.node, rails, &job.access, nccl, &job.user);
    let against: Vec<_> = [settings.overruled.as_slice(), settings.stopped.as_slice()].concat();
    if !against.is_empty() {
        return Err(Unusable(against.join("; ")).into());
    }
    Ok(settings)
}

impl Job {
    /// The ports that the job can use.
    pub(super) fn rails(&self) -> Rails<'_> {
        Rails::find(&self.node, &self.access, &self.given)
    }

    /// Why the job cannot start yet; empty if it can.
    pub(super) fn missing(&self, rails: &Rails<'_>, at_least: Option<usize>) -> Vec<Refused> {
        readiness::missing(&self.node, rails, at_least)
    }

    /// What could not be understood of what the pod was given.
    pub(super) fn problems(&self) -> Vec<String> {
        let problems = self.given.problems.iter();
        problems.map(|problem| problem.text.clone()).collect()
    }
}

/// Reports each line on stderr.
fn report<'a>(lines: impl IntoIterator<Item = &'a String>) {
    for line in lines {
        anstream::eprintln!("rdma-health: {}", printable(line));
    }
}

/// The name in the configuration files of the library that a job on this node uses: RCCL has its own files.
fn library(node: &Node) -> &'static str {
    let of_amd = |gpu: &Function<'_>| gpu.pci.is_some_and(|pci| pci.vendor.known() == Some(&model::AMD));
    if node.gpus().any(|gpu| of_amd(&gpu)) {
        "rccl"
    } else {
        "nccl"
    }
}

/// The variables, and the configuration files of NCCL or RCCL in the order in which it reads them.
fn user(variables: BTreeMap<String, String>, root: &Root, library: &str, given: &mut Given) -> User {
    let named = |name: &str| variables.get(name).filter(|value| !value.is_empty());
    let of_user = match (named("NCCL_CONF_FILE"), named("HOME")) {
        (Some(file), _) => Some(file.clone()),
        (None, Some(home)) => Some(format!("{home}/.{library}.conf")),
        (None, None) => None,
    };
    let mut user = User::new(variables);
    let of_all = format!("/etc/{library}.conf");
    for file in of_user.into_iter().chain([of_all]) {
        let absolute = std::path::absolute(&file).unwrap_or_else(|_| file.into());
        let file = absolute.display().to_string();
        match access::optional_file(root, &file) {
            Fact::Known(text) => user.add_nccl_configuration(&file, &text),
            Fact::Absent => {}
            // The library may not read it either.
            Fact::Unread { unread } if root.is_live() && is_refused(&unread.kind) => {}
            Fact::Unread { unread } => {
                given.note(format!("{unread}; what it sets for NCCL may be overridden"));
            }
        }
    }
    user
}

/// Whether the kernel refuses this user a file.
fn is_refused(kind: &UnreadKind) -> bool {
    matches!(kind, UnreadKind::Errno(errno) if errno.raw_os_error() == Errno::EACCES.0)
}
