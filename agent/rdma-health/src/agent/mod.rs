//! The agent: reads the node at intervals and whenever the kernel reports a change, probes, and publishes.

mod asking;
mod download;
mod events;
mod liveness;
mod metrics;
mod pages;
mod past;
mod prober;
mod reader;
mod schedule;
mod settings;
mod signals;
mod state;

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use rdma_health_config::{self as config, Config, NodeName, Overrides};
use rdma_health_helper::{Helper, Place};
use rdma_health_kernel::{
    KubeletAnswers, Privileged, Root,
    collector::{Collector, Refresh},
};
use rdma_health_kubernetes::{self as kubernetes, NodeLabels};
use rdma_health_metrics::Exporter;
use rdma_health_web::{BindError, Server, web_config};
use tokio::{
    sync::{Notify, mpsc, watch},
    task::JoinHandle,
};
use tracing::info;

use crate::{descriptors, helper::place, patient};
use liveness::Liveness;
use metrics::Metrics;
pub(crate) use metrics::catalogue;
use pages::Pages;
use reader::{Reader, Reading};
pub(crate) use signals::Signals;
use state::{Late, State};

/// Where the configuration comes from.
#[derive(Debug)]
pub(crate) struct Setup {
    /// What applies now: file and flags.
    pub(crate) config: Config,
    /// The file, which is watched.
    pub(crate) file: Option<PathBuf>,
    /// The flags, which win over the file.
    pub(crate) overrides: Overrides,
    /// The web configuration: who may read the pages; watched, too.
    pub(crate) web_config: Option<PathBuf>,
    /// The socket for `rdma-health alive`.
    pub(crate) liveness_socket: Option<PathBuf>,
}

/// What the tasks of the agent share.
#[derive(Debug)]
struct Agent {
    reader: Reader,
    state: State,
    /// `None` for a captured tree: it would report on this machine.
    helper: Option<Helper>,
    /// What the helper reads for the agent; `None` if it may read no more than the agent.
    privileged: Option<Arc<Privileged>>,
    /// What the helper asks the kubelet for the agent; `None` for a captured tree.
    kubelet: Option<Arc<KubeletAnswers>>,
    /// Asks for the helper's answer about all devices, which may come late: the kernel's facts do not wait for it.
    ask_helper: Notify,
    /// Asks for a reading that uses what the helper has answered.
    read_again: Notify,
    exporter: Exporter,
    metrics: Metrics,
    config: watch::Sender<Config>,
    /// The Node's labels, where Kubernetes shows them.
    labels: NodeLabels,
}

impl Agent {
    /// Reads the node for at most `patience`; `None` once the reader has ended.
    async fn read(&self, what: Refresh, patience: Duration) -> Option<Reading> {
        let began = Instant::now();
        let reading = self.reader.read(what, patience).await?;
        self.metrics.refreshed(what == Refresh::All, began.elapsed());
        Some(reading)
    }
}

/// What an agent knows before its first reading. A helper says what runtimes the node has.
fn starting_state(config: &Config, has_helper: bool) -> State {
    State::new(config.expect.clone(), past::load(config.state.as_deref())).runtimes_by_helper(has_helper)
}

/// Runs until a signal ends it.
///
/// # Errors
/// If the root directory cannot be read, the address cannot be used, or a thread cannot be started.
pub(crate) async fn run(setup: Setup, signals: Signals) -> anyhow::Result<()> {
    // Each open counter needs a descriptor, and virtual functions soon use up 1024. Without it more files are opened and closed for each
    // read, which only costs time.
    descriptors::raise_limit();
    let Setup {
        config,
        file,
        overrides,
        web_config,
        liveness_socket,
    } = setup;
    let web = web_config.as_deref().map(web_config::load).transpose()?;
    let node_name = node_name(&config)?;
    let root = patient::root(&config.root)?;
    let exporter = Exporter::default();
    let metrics = Metrics::new(exporter.registry());
    let server = Server::bind(config.listen, Arc::clone(&metrics.web));
    let mut server = server.await.map_err(explain)?;
    info!(address = %server.address(), "serving /metrics");
    let liveness = match liveness_socket {
        Some(path) => Some(Liveness::bind(&path).await?),
        None => None,
    };
    let (verbs_events, verbs_receiver) = mpsc::channel(64);
    let is_live = root.is_live();
    let (place, root, privileged) = reached(root, &config.helper);
    let kubelet = (is_live && place.is_some()).then(Arc::<KubeletAnswers>::default);
    let root = with_answers(root, kubelet.as_ref());
    let reader = Reader::start(Collector::new(root, config.exclude.clone()));
    let agent = Arc::new(Agent {
        reader,
        state: starting_state(&config, privileged.is_some()),
        helper: place
            .clone()
            .map(|place| Helper::keep_patiently(place, verbs_events.clone())),
        privileged,
        kubelet,
        ask_helper: Notify::new(),
        read_again: Notify::new(),
        exporter,
        metrics,
        config: watch::Sender::new(config),
        labels: NodeLabels::default(),
    });

    let (kernel_events, kernel_receiver) = mpsc::channel(64);
    events::listen(kernel_events);
    // A hangup signal: read the files again and save the history.
    let (hangup, hangups) = watch::channel(());
    let state_file = agent.config.borrow().state.clone();
    if let Some(file) = state_file.clone() {
        tokio::spawn(past::keep(Arc::clone(&agent), file, hangups.clone()));
    }
    let answering = liveness.map(|liveness| tokio::spawn(liveness.serve(Arc::clone(&agent))));
    start_asking(&agent, place);
    tokio::spawn(schedule::keep_reading(
        Arc::clone(&agent),
        kernel_receiver,
        verbs_receiver,
    ));
    if let Some((sources, web)) = web {
        let (sender, receiver) = watch::channel(Arc::new(web));
        server = server.secured(receiver);
        tokio::spawn(web_config::follow(
            sources,
            sender,
            hangups.clone(),
            Arc::clone(&agent.metrics.web),
        ));
    }
    let publishing = node_name.clone().map(|node| publish(&agent, node));
    if let Some(file) = file {
        tokio::spawn(settings::follow_config(
            Arc::clone(&agent),
            file,
            overrides,
            hangups,
        ));
    }

    tokio::spawn(signals::reload_on(signals.hangup, hangup));
    let shutdown = async move {
        signals.ending.received().await;
        // A pod ends all its containers: that the helper ends, too, is not a fault of the node.
        if let Some(publishing) = publishing {
            publishing.abort();
        }
    };
    server
        .run(Pages::new(Arc::clone(&agent), node_name), shutdown)
        .await;
    if let Some(file) = state_file {
        past::save(&agent, file).await;
    }
    if let Some(answering) = answering {
        // Removes the socket.
        answering.abort();
        let _ = answering.await;
    }
    info!("stopped");
    Ok(())
}

/// The helper to ask, the root as it is read with it, and what it reads for the agent. None for a captured tree, unless the
/// configuration names one.
fn reached(root: Root, settings: &config::Helper) -> (Option<Place>, Root, Option<Arc<Privileged>>) {
    let is_named = settings.program.is_some() || settings.socket.is_some();
    let place = (root.is_live() || is_named).then(|| place(settings));
    if let Some(Place::Socket(_)) = place {
        let privileged = Arc::new(Privileged::default());
        return (
            place,
            root.with_privileged(Arc::clone(&privileged)),
            Some(privileged),
        );
    }
    // A helper that the agent starts sees what the agent sees.
    (place, root, None)
}

/// Asks the helper and probes through it, if there is one.
fn start_asking(agent: &Arc<Agent>, place: Option<Place>) {
    if let (Some(helper), Some(place)) = (&agent.helper, place) {
        tokio::spawn(asking::watch_helper(Arc::clone(agent), helper.state()));
        tokio::spawn(asking::keep_asking(Arc::clone(agent), helper.clone(), place));
        tokio::spawn(prober::run(Arc::clone(agent), helper.clone()));
    } else {
        agent.state.has_come(Late::Helper);
        agent.state.has_come(Late::Probes);
    }
}

/// Publishes to Kubernetes until the returned task is aborted.
fn publish(agent: &Arc<Agent>, node: NodeName) -> JoinHandle<()> {
    let publisher = kubernetes::Publisher {
        node,
        views: agent.state.subscribe(),
        config: agent.config.subscribe(),
        labels: agent.labels.clone(),
        metrics: Arc::clone(&agent.metrics.kubernetes),
    };
    tokio::spawn(settings::follow_labels(Arc::clone(agent)));
    tokio::spawn(publisher.run())
}

/// What to do where the address cannot be listened on.
fn explain(error: BindError) -> anyhow::Error {
    if error.is_in_use() {
        anyhow::anyhow!("{error} with --listen or `listen` in the configuration")
    } else {
        error.into()
    }
}

/// The root with what the kubelet answers, if it is asked.
fn with_answers(root: Root, kubelet: Option<&Arc<KubeletAnswers>>) -> Root {
    match kubelet {
        Some(kubelet) => root.with_kubelet(Arc::clone(kubelet)),
        None => root,
    }
}

/// The Node's name where Kubernetes is enabled.
fn node_name(config: &Config) -> anyhow::Result<Option<NodeName>> {
    if !config.kubernetes.enabled {
        return Ok(None);
    }
    if let Some(name) = &config.kubernetes.node {
        return Ok(Some(name.clone()));
    }
    let name = std::env::var("NODE_NAME").ok().filter(|name| !name.is_empty());
    let name = name.context(
        "Kubernetes is enabled, but the name of this Node is unknown: set the environment variable NODE_NAME, --node-name or \
         kubernetes.node",
    )?;
    name.parse().map(Some).context("NODE_NAME")
}
