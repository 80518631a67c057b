//! The agent: reads the node at intervals and whenever the kernel reports a change, probes, and publishes.

mod download;
mod events;
mod liveness;
mod metrics;
mod pages;
mod past;
mod prober;
mod reader;
mod state;

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use rdma_health_config::{self as config, Config, NodeName, Overrides};
use rdma_health_helper::{Failure, Helper, Place, State as HelperState};
use rdma_health_kernel::{
    KubeletAnswers, Privileged, Root,
    collector::{Collector, Refresh},
};
use rdma_health_kubernetes::{self as kubernetes, NodeLabels};
use rdma_health_metrics::Exporter;
use rdma_health_protocol::{AsyncEvent, AsyncEventKind};
use rdma_health_web::{BindError, Server, web_config};
use tokio::{
    select,
    signal::unix::{Signal, SignalKind, signal},
    sync::{Notify, mpsc, watch},
    task::JoinHandle,
    time::{MissedTickBehavior, interval, sleep},
};
use tracing::{info, warn};

use crate::{
    helper::{ask_kubelet, ask_privileged, place},
    patient,
};
use events::Event;
use liveness::Liveness;
use metrics::Metrics;
pub(crate) use metrics::catalogue;
use pages::Pages;
use reader::{Reader, Reading};
use state::State;

/// How long a full reading waits for sources that do not answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Changes that come together are read once: a device that appears sends a dozen messages.
const SETTLE: Duration = Duration::from_millis(150);

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

/// The signals that the agent handles. Until they are taken over, each ends the process.
#[derive(Debug)]
pub(crate) struct Signals {
    ending: Ending,
    hangup: Signal,
}

/// The signals that end the agent.
#[derive(Debug)]
struct Ending {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
}

impl Ending {
    async fn received(mut self) {
        select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.quit.recv() => {}
        }
    }
}

impl Signals {
    /// From now on, SIGHUP does not end the process. One that arrives before [`Signals::take_over`] has no other effect: the files have
    /// not been read yet.
    pub(crate) fn survive_hangup() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        if let Ok(runtime) = runtime {
            let _entered = runtime.enter();
            // The handler stays after the runtime is gone. If the system refuses it, `take_over` reports it.
            let _ = signal(SignalKind::hangup());
        }
    }

    /// Takes them over. Needs a Tokio runtime.
    ///
    /// # Errors
    /// If the system refuses it.
    pub(crate) fn take_over() -> std::io::Result<Self> {
        // Not used: they have no effect from now on, also after these are dropped.
        let _ = (
            signal(SignalKind::user_defined1())?,
            signal(SignalKind::user_defined2())?,
        );
        Ok(Self {
            ending: Ending {
                terminate: signal(SignalKind::terminate())?,
                interrupt: signal(SignalKind::interrupt())?,
                quit: signal(SignalKind::quit())?,
            },
            hangup: signal(SignalKind::hangup())?,
        })
    }
}

/// Runs until a signal ends it.
///
/// # Errors
/// If the root directory cannot be read, the address cannot be used, or a thread cannot be started.
pub(crate) async fn run(setup: Setup, signals: Signals) -> anyhow::Result<()> {
    raise_descriptor_limit();
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
    let root = match &kubelet {
        Some(kubelet) => root.with_kubelet(Arc::clone(kubelet)),
        None => root,
    };
    let reader = Reader::start(Collector::new(root, config.exclude.clone()));
    let agent = Arc::new(Agent {
        reader,
        state: State::new(config.expect.clone(), past::load(config.state.as_deref())),
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
    if let (Some(helper), Some(place)) = (&agent.helper, place) {
        tokio::spawn(watch_helper(Arc::clone(&agent), helper.state()));
        tokio::spawn(keep_asking(Arc::clone(&agent), helper.clone(), place));
        tokio::spawn(prober::run(Arc::clone(&agent), helper.clone()));
    }
    tokio::spawn(keep_reading(Arc::clone(&agent), kernel_receiver, verbs_receiver));
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
    let publishing = node_name.map(|node| publish(&agent, node));
    if let Some(file) = file {
        tokio::spawn(follow_config(Arc::clone(&agent), file, overrides, hangups));
    }

    tokio::spawn(reload_on(signals.hangup, hangup));
    let shutdown = async move {
        signals.ending.received().await;
        // A pod ends all its containers: that the helper ends, too, is not a fault of the node.
        if let Some(publishing) = publishing {
            publishing.abort();
        }
    };
    server.run(Pages::new(Arc::clone(&agent)), shutdown).await;
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

/// Publishes to Kubernetes until the returned task is aborted.
fn publish(agent: &Arc<Agent>, node: NodeName) -> JoinHandle<()> {
    let publisher = kubernetes::Publisher {
        node,
        views: agent.state.subscribe(),
        config: agent.config.subscribe(),
        labels: agent.labels.clone(),
        metrics: Arc::clone(&agent.metrics.kubernetes),
    };
    tokio::spawn(follow_labels(Arc::clone(agent)));
    tokio::spawn(publisher.run())
}

/// Passes hangup signals on, as long as the agent runs.
async fn reload_on(mut signals: Signal, hangup: watch::Sender<()>) {
    while signals.recv().await.is_some() {
        info!("SIGHUP: reading the configuration files again and saving the history");
        hangup.send_replace(());
    }
}

/// What to do where the address cannot be listened on.
fn explain(error: BindError) -> anyhow::Error {
    if error.is_in_use() {
        anyhow::anyhow!("{error} with --listen or `listen` in the configuration")
    } else {
        error.into()
    }
}

/// Each open counter needs a descriptor, and virtual functions soon use up 1024.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Without it more files are opened and closed for each read, which only costs time.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Reads everything at intervals, and what changed as soon as an event reports it.
async fn keep_reading(
    agent: Arc<Agent>,
    mut kernel: mpsc::Receiver<Event>,
    mut verbs: mpsc::Receiver<AsyncEvent>,
) {
    let mut config = agent.config.subscribe();
    let mut interval = full_interval(&mut config);
    let mut pending: Option<Refresh> = Some(Refresh::All);
    // A reading because of the helper's answer must not ask for the next answer.
    let mut ask = true;
    loop {
        if let Some(what) = pending.take() {
            if ask {
                agent.ask_helper.notify_one();
            }
            ask = true;
            let Some(reading) = agent.read(what, PATIENCE).await else {
                return;
            };
            agent.state.remember(reading);
        }
        select! {
            _ = interval.tick() => pending = Some(Refresh::All),
            () = agent.read_again.notified() => {
                pending = Some(Refresh::All);
                ask = false;
            }
            Some(event) = kernel.recv() => {
                agent.metrics.event(event.name());
                pending = Some(if event == Event::Device { Refresh::All } else { Refresh::Ports });
            }
            event = verbs.recv() => match event {
                Some(event) => {
                    agent.metrics.event("verbs");
                    pending = Some(scope_of(event.kind));
                }
                None => return,
            },
            changed = config.changed() => {
                if changed.is_err() {
                    return;
                }
                interval = full_interval(&mut config);
                pending = Some(Refresh::All);
            }
        }
        // Let the rest of a burst arrive, and read as much as the widest message asks for.
        sleep(SETTLE).await;
        while let Ok(event) = kernel.try_recv() {
            ask = true;
            agent.metrics.event(event.name());
            if event == Event::Device {
                pending = Some(Refresh::All);
            }
        }
        while let Ok(event) = verbs.try_recv() {
            ask = true;
            agent.metrics.event("verbs");
            if scope_of(event.kind) == Refresh::All {
                pending = Some(Refresh::All);
            }
        }
    }
}

fn full_interval(config: &mut watch::Receiver<Config>) -> tokio::time::Interval {
    let mut interval = interval(config.borrow_and_update().interval);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval.reset();
    interval
}

/// How much an event of libibverbs asks to be read again.
fn scope_of(kind: AsyncEventKind) -> Refresh {
    match kind {
        AsyncEventKind::DeviceAdded | AsyncEventKind::DeviceRemoved | AsyncEventKind::DeviceFatal => {
            Refresh::All
        }
        _ => Refresh::Ports,
    }
}

/// Asks the helper about all devices on request; requests that arrive meanwhile are merged into one.
async fn keep_asking(agent: Arc<Agent>, helper: Helper, place: Place) {
    loop {
        agent.ask_helper.notified().await;
        agent.state.verbs(helper.devices().await);
        let mut is_new = false;
        if let Some(kubelet) = &agent.kubelet {
            is_new |= ask_kubelet(&helper, &place, kubelet).await;
        }
        if let Some(privileged) = &agent.privileged {
            agent.state.runtimes(helper.runtimes().await);
            is_new |= ask_privileged(&helper, privileged).await;
        }
        if is_new {
            agent.read_again.notify_one();
        }
    }
}

/// Counts starts and failures of the helper, and asks it about all devices when it is back.
async fn watch_helper(agent: Arc<Agent>, mut state: watch::Receiver<HelperState>) {
    while state.changed().await.is_ok() {
        let now = state.borrow_and_update().clone();
        agent.metrics.helper.observe(&now);
        match now {
            HelperState::Up => agent.ask_helper.notify_one(),
            HelperState::Down(failure) => agent.state.verbs(Err::<_, Failure>(failure)),
            HelperState::Starting | HelperState::Away(_) => {}
        }
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

/// Applies expectations that the labels of the Node set, as they change.
async fn follow_labels(agent: Arc<Agent>) {
    agent.labels.follow(|| expect(&agent)).await;
}

/// Sets what is expected of the node: the configuration, overridden by labels.
fn expect(agent: &Agent) {
    let configured = agent.config.borrow().expect.clone();
    let labelled = agent.labels.over(configured.clone());
    agent.state.expect(labelled.unwrap_or_else(|error| {
        warn!(%error, "labels of the Node ignored; the expectations of the configuration stay active");
        configured
    }));
}

/// Applies new configurations as they come; after a bad one the previous one stays active.
async fn follow_config(
    agent: Arc<Agent>,
    file: PathBuf,
    overrides: Overrides,
    requests: watch::Receiver<()>,
) {
    let current = agent.config.borrow().clone();
    let reloads = agent.metrics.config.clone();
    let mut changes = config::watch(file.clone(), overrides, current, requests, reloads);
    while let Some(change) = changes.recv().await {
        match change {
            Ok(config) => {
                agent.metrics.config.reloaded(true);
                info!(file = %file.display(), "configuration reloaded");
                agent.reader.exclude(config.exclude.clone()).await;
                agent.config.send_replace(config);
                expect(&agent);
            }
            Err(error) => {
                agent.metrics.config.reloaded(false);
                warn!(%error, "configuration not reloaded; the previous one stays active");
            }
        }
    }
}
