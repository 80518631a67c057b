//! What `check`, `snapshot` and `baseline` share: which node to read, and reading it.

use std::{
    collections::BTreeMap,
    io::{BufReader, IsTerminal, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use clap::Args;
use rdma_health_config::{self as config, Config, Overrides};
use rdma_health_helper::{Helper, Place};
use rdma_health_kernel::{
    KubeletAnswers, Privileged, Root,
    collector::{Collector, Refresh},
};
use rdma_health_node::{Fact, Node, node::Probe, words::printable};
use rdma_health_snapshot::{Snapshot, foreign};
use rdma_health_time::now;
use tokio::sync::mpsc;

use super::{
    HelperArguments,
    environment::{CONFIG, ROOT},
};
use crate::{
    descriptors,
    helper::{
        ask_kubelet, ask_privileged, may_find_kubelet, place, probe_request, rate_of, runtimes_fact,
        verbs_fact,
    },
    patient,
};

/// How long reading the node may take; sources that have not answered by then are reported as unread.
const PATIENCE: Duration = Duration::from_secs(10);

/// Which node to read, and how.
#[derive(Debug, Args)]
pub(super) struct NodeArguments {
    /// Root directory of the node: / on the node itself, /host in a container, or a captured tree
    #[arg(long, value_name = "DIR", env = ROOT, default_value = "/")]
    root: PathBuf,
    /// Configuration file: expectations, excluded devices, verbs helper
    #[arg(long, value_name = "FILE", env = CONFIG)]
    pub(super) config: Option<PathBuf>,
    /// Do not read RDMA devices with this name; '*' matches any characters; may be repeated
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    #[command(flatten)]
    helper: HelperArguments,
}

impl NodeArguments {
    /// The configuration file's content, or the defaults without one.
    pub(super) fn configuration(&self) -> Result<Config, config::Error> {
        config::load(self.config.as_deref(), &Overrides::default())
    }

    /// The node's root directory.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Opens the node's root, or a support bundle (sosreport, must-gather) in its place.
    pub(super) fn open(&self) -> anyhow::Result<Root> {
        descriptors::ensure()?;
        let path = &self.root;
        // First, because it does not wait for a file system that hangs.
        let root = patient::root(path)?;
        let failed = || format!("cannot read the root directory {}", path.display());
        let Some(foreign) = foreign::open(path).with_context(failed)? else {
            return Ok(root);
        };
        anstream::eprintln!(
            "{} is a {}: facts that it does not contain are reported as not collected",
            printable(&path.display().to_string()),
            foreign.tool
        );
        Ok(foreign.root)
    }

    /// Reads the node, with libibverbs and probes where it is a running one. Also returns the sources that did not answer,
    /// with the seconds they were waited for.
    pub(super) fn read(
        &self,
        root: Root,
        probe: bool,
        config: &Config,
    ) -> anyhow::Result<(Node, BTreeMap<String, u64>)> {
        let live = root.is_live();
        let place = place(self.helper.given().as_ref().unwrap_or(&config.helper));
        let root = if live { ask_first(root, &place)? } else { root };
        let (mut node, hung) = self.read_kernel(root, config);
        if !live {
            anyhow::ensure!(
                !probe,
                "--probe needs a running node; {} is a captured tree",
                self.root.display()
            );
            return Ok((node, hung));
        }
        // Without a device there is nothing to ask libibverbs about.
        if node.hcas().next().is_none() && !probe {
            return Ok((node, hung));
        }
        with_runtime(ask_helper(place, probe, config, &mut node))?;
        Ok((node, hung))
    }

    /// Reads a saved node with the readers that saved it.
    pub(super) fn replay(&self, snapshot: &Snapshot, config: &Config) -> Node {
        let (mut node, _) = self.read_kernel(snapshot.root(), config);
        snapshot.complete(&mut node);
        node
    }

    fn read_kernel(&self, root: Root, config: &Config) -> (Node, BTreeMap<String, u64>) {
        read_kernel(
            root,
            config.exclude.iter().chain(&self.exclude).cloned().collect(),
        )
    }
}

/// Reads what the kernel shows, without devices whose name matches a pattern in `exclude`. Also returns the sources that did
/// not answer, with the seconds they were waited for.
pub(super) fn read_kernel(root: Root, exclude: Vec<String>) -> (Node, BTreeMap<String, u64>) {
    let mut collector = Collector::new(root, exclude);
    collector.refresh(Refresh::All, Instant::now() + PATIENCE);
    (Node::new(collector.facts()), collector.hung())
}

/// A node to show without judging it: the running one, a captured tree, or a snapshot.
#[derive(Debug, Args)]
pub(super) struct SavedOrLive {
    #[command(flatten)]
    node: NodeArguments,
    /// Show a saved node (see rdma-health snapshot) instead of this one; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["helper", "helper_socket"])]
    snapshot: Option<PathBuf>,
}

impl SavedOrLive {
    /// Reads it. Sources that did not answer are unread facts of the node.
    pub(super) fn read(&self) -> anyhow::Result<Node> {
        let config = self.node.configuration()?;
        let node = match &self.snapshot {
            Some(file) => self.node.replay(&load(file)?, &config),
            None => self.node.read(self.node.open()?, false, &config)?.0,
        };
        tell_if_foreign(&node);
        Ok(node)
    }
}

/// Says on standard error that something other than a node was read: then empty lists say nothing.
pub(super) fn tell_if_foreign(node: &Node) {
    if let Some(unread) = node.host.kernel.unread() {
        anstream::eprintln!("warning: this is not the tree of a running node: {unread}");
    }
}

/// Reads a snapshot; - is standard input.
pub(super) fn load(file: &Path) -> anyhow::Result<Snapshot> {
    let read = || -> anyhow::Result<Snapshot> {
        if file == Path::new("-") {
            return Ok(Snapshot::read(std::io::stdin().lock())?);
        }
        Ok(Snapshot::read(BufReader::new(patient::file(file)?))?)
    };
    read().with_context(|| format!("cannot read the snapshot {}", file.display()))
}

/// Asks the helper what readers need. One behind a socket may read what this process may not; one that this program starts may
/// read no more, and is only started if there is a kubelet to ask.
fn ask_first(root: Root, place: &Place) -> anyhow::Result<Root> {
    let privileged = matches!(place, Place::Socket(_)).then(Arc::<Privileged>::default);
    if !may_find_kubelet(place) {
        return Ok(root);
    }
    let kubelet = Arc::<KubeletAnswers>::default();
    with_runtime(async {
        let helper = Helper::keep(place.clone(), mpsc::channel(1).0);
        ask_kubelet(&helper, place, &kubelet).await;
        if let Some(privileged) = &privileged {
            ask_privileged(&helper, privileged).await;
        }
    })?;
    let root = root.with_kubelet(kubelet);
    Ok(match privileged {
        Some(privileged) => root.with_privileged(privileged),
        None => root,
    })
}

fn with_runtime(future: impl Future<Output = ()>) -> anyhow::Result<()> {
    let runtime = descriptors::runtime()?;
    runtime.block_on(future);
    // A helper that hangs must not delay the exit.
    runtime.shutdown_background();
    Ok(())
}

/// Adds what libibverbs says and, on request, a probe of every port that may be active.
async fn ask_helper(place: Place, probe: bool, config: &Config, node: &mut Node) {
    // The receiver of events is dropped: one reading does not react to them.
    let sees_more = matches!(place, Place::Socket(_));
    let helper = Helper::keep(place, mpsc::channel(1).0);
    node.verbs = verbs_fact(helper.devices().await);
    if sees_more && let Some(runtimes) = runtimes_fact(helper.runtimes().await) {
        node.see_runtimes(runtimes);
    }
    if !probe || node.verbs.unread().is_some() {
        return;
    }
    let ports: Vec<_> = node
        .ports()
        .filter(|port| port.is_active() != Some(false))
        .map(|port| (port.hca.name.clone(), port.number))
        .collect();
    for (n, (device, number)) in ports.iter().enumerate() {
        progress(&format!(
            "probing {device}:{number} ({} of {})",
            n + 1,
            ports.len()
        ));
        let request = probe_request(&config.probe, device, *number, rate_of(node, device, *number));
        match helper.probe(request).await {
            Ok(report) => node.probes.push(Arc::new(Probe { time: now(), report })),
            Err(failure) => {
                node.verbs = verbs_fact(Err(failure)).and_then(|_: Arc<_>| Fact::Absent);
                break;
            }
        }
    }
    progress("");
}

/// Shows the current step on a terminal, in place of the previous one; shows nothing elsewhere.
pub(super) fn progress(step: &str) {
    let mut err = std::io::stderr().lock();
    if err.is_terminal() {
        // Continue even if progress cannot be shown.
        let _ = write!(err, "\r\x1b[K{}", printable(step));
        let _ = err.flush();
    }
}
