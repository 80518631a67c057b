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
    rails::{Origin, Rails, Refused},
    readiness::{self, none_usable},
    settings::{self, NcclVersion, Settings},
    user::User,
};
use rdma_health_kernel::{
    Root, access,
    collector::{Collector, Refresh},
};
use rdma_health_node::{Fact, Function, Node, access::Access, model, words::printable};

use crate::patient;

/// How long reading the node may take; sources that have not answered by then are unread.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether a job uses RDMA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Mode {
    /// RDMA if it can be used, otherwise TCP with a message
    Auto,
    /// RDMA; fail with the reason if it cannot be used
    Rdma,
    /// TCP, even if RDMA could be used
    Tcp,
}

#[derive(Debug, Args)]
pub(super) struct JobArguments {
    /// Whether to use RDMA
    #[arg(long, value_enum, value_name = "MODE", default_value = "auto")]
    mode: Mode,
    /// Version of NCCL: older versions need other variables [default: the version set in the image (NVIDIA images set it), otherwise a recent one]
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
        let access = Access::read(&root);
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
            match access::file(&root, &file) {
                Fact::Known(text) => given.add_network_status(&file, &text),
                Fact::Absent => given.unread(format!("{file} does not exist")),
                Fact::Unread { unread } => given.unread(unread.to_string()),
            }
        }
        collector.refresh(Refresh::All, Instant::now() + PATIENCE);
        let node = Node::new(collector.facts());
        let user = user(variables, &root, library(&node), &mut given.problems);
        Ok(Job {
            node,
            access,
            given,
            user,
        })
    }
}

impl JobArguments {
    /// Reads what the pod was given. Reports on stderr what could not be understood.
    pub(super) fn read(&self) -> anyhow::Result<Job> {
        let job = self.pod.read(&mut self.pod.collector()?)?;
        // Before any failure: it may be the reason for it.
        for problem in job.problems() {
            anstream::eprintln!("rdma-health: {}", printable(problem));
        }
        Ok(job)
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

    /// The settings for the mode, and the ports they are for.
    ///
    /// # Errors
    /// [`Unusable`] if the mode is RDMA and no port can be used.
    pub(super) fn settle<'a>(&self, job: &'a Job) -> anyhow::Result<(Settings, Rails<'a>)> {
        let nccl = self.nccl(job.user.variables())?;
        let rails = job.rails();
        let tcp = |reason: &str| settings::tcp(&job.node, &job.access, reason, &job.user);
        let settings = match self.mode {
            Mode::Tcp => tcp("TCP was requested"),
            _ if !rails.is_empty() => settings::rdma(&job.node, &rails, &job.access, nccl, &job.user),
            Mode::Rdma => return Err(Unusable(none_usable(&job.node, &rails)).into()),
            Mode::Auto => {
                let why = none_usable(&job.node, &rails);
                anstream::eprintln!(
                    "rdma-health: falling back to TCP, which is much slower: {}",
                    printable(&why)
                );
                tcp("RDMA cannot be used here")
            }
        };
        Ok((settings, rails))
    }
}

impl Job {
    /// The ports that the job can use.
    pub(super) fn rails(&self) -> Rails<'_> {
        Rails::find(&self.node, &self.access, &self.given)
    }

    /// Why the job cannot start yet; empty if it can.
    pub(super) fn missing(&self, rails: &Rails<'_>, at_least: Option<usize>) -> Vec<Refused> {
        readiness::missing(&self.node, rails, &self.given, at_least)
    }

    /// What could not be understood of what the pod was given.
    pub(super) fn problems(&self) -> &[String] {
        &self.given.problems
    }
}

/// Reports on stderr which given devices are not used, and why. If none is used, the reason was reported already.
pub(super) fn report_refused(rails: &Rails<'_>) {
    if rails.origin == Origin::Given && !rails.is_empty() {
        for refused in &rails.refused {
            let line = format!("{} is not used: {}", refused.what, refused.why);
            anstream::eprintln!("rdma-health: {}", printable(&line));
        }
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
fn user(variables: BTreeMap<String, String>, root: &Root, library: &str, problems: &mut Vec<String>) -> User {
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
            Fact::Unread { unread } => {
                problems.push(format!("{unread}; what it sets for NCCL may be overridden"));
            }
        }
    }
    user
}
