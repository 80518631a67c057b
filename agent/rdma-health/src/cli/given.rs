//! What `env` and `run` share: the devices that this pod was given, and the settings for them.

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use rdma_health_job::{
    given::Given,
    rails::{Origin, Rails},
    settings::{self, NcclVersion, Settings},
};
use rdma_health_kernel::{Root, access};
use rdma_health_node::{Fact, Node, access::Access, words::printable};

use super::gather::read_kernel;

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
    variables: BTreeMap<String, String>,
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

impl JobArguments {
    /// Reads what the pod was given. Reports on stderr what could not be understood.
    pub(super) fn read(&self) -> anyhow::Result<Job> {
        let variables: BTreeMap<_, _> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let root = Root::open(&self.root)
            .with_context(|| format!("cannot read the root directory {}", self.root.display()))?;
        let access = Access::read(&root);
        let mut given = Given::in_environment(&variables);
        for (file, content) in &access.metadata {
            match content {
                Fact::Known(text) => given.add_metadata(file, text),
                Fact::Absent => {}
                Fact::Unread { unread } => given.problems.push(unread.to_string()),
            }
        }
        if let Some(file) = &self.network_status {
            let file = std::path::absolute(file)?.display().to_string();
            match access::file(&root, &file) {
                Fact::Known(text) => given.add_network_status(&file, &text),
                Fact::Absent => given.problems.push(format!("{file} does not exist")),
                Fact::Unread { unread } => given.problems.push(unread.to_string()),
            }
        }
        // Before any failure: it may be the reason for it.
        for problem in &given.problems {
            anstream::eprintln!("rdma-health: {}", printable(problem));
        }
        Ok(Job {
            node: read_kernel(root, Vec::new()).0,
            access,
            given,
            variables,
        })
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
        let nccl = self.nccl(&job.variables)?;
        let rails = Rails::find(&job.node, &job.access, &job.given);
        let tcp = |reason: &str| settings::tcp(&job.access, reason, &job.variables);
        let settings = match self.mode {
            Mode::Tcp => tcp("TCP was requested"),
            _ if !rails.is_empty() => settings::rdma(&rails, &job.access, nccl, &job.variables),
            Mode::Rdma => return Err(Unusable(why(&job.node, &rails)).into()),
            Mode::Auto => {
                let why = why(&job.node, &rails);
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
    /// What could not be understood of what the pod was given.
    pub(super) fn problems(&self) -> &[String] {
        &self.given.problems
    }
}

/// Reports on stderr which given devices are not used, and why.
pub(super) fn report_refused(rails: &Rails<'_>) {
    if rails.origin == Origin::Given {
        for refused in &rails.refused {
            let line = format!("{} is not used: {}", refused.what, refused.why);
            anstream::eprintln!("rdma-health: {}", printable(&line));
        }
    }
}

/// Why no port can be used, in one line.
fn why(node: &Node, rails: &Rails<'_>) -> String {
    if let Some(unread) = node.hcas.unread() {
        return format!("RDMA devices could not be read: {unread}");
    }
    if rails.refused.is_empty() {
        return "this container sees no RDMA device".into();
    }
    let refused: Vec<_> = rails
        .refused
        .iter()
        .map(|refused| format!("{}: {}", refused.what, refused.why))
        .collect();
    refused.join("; ")
}
