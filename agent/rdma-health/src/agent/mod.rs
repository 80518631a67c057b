//! The agent: reads the node at intervals and whenever the kernel tells of a change, probes, and publishes.

mod events;
mod handler;
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
use rdma_health_node::{
    Root,
    collector::{Collector, Refresh},
};
use rdma_health_protocol::{AsyncEvent, AsyncEventKind};
use tokio::{
    select,
    signal::unix::{SignalKind, signal},
    sync::{Notify, mpsc, watch},
    time::{MissedTickBehavior, interval, sleep},
};
use tracing::{info, warn};

use crate::{
    config::{self, Config, Overrides},
    helper::{Failure, Helper, Place, State as HelperState},
    http::{self, web_config},
    kubernetes,
    metrics::OwnMetrics,
};
use events::Event;
use handler::Publisher;
pub(crate) use prober::request as probe_request;
use reader::{Reader, Reading};
use state::State;
pub(crate) use state::{now, verbs_fact};

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
    /// The file that tells who may read the pages; watched, too.
    pub(crate) web_config: Option<PathBuf>,
}

/// What the tasks of the agent share.
#[derive(Debug)]
struct Agent {
    reader: Reader,
    state: State,
    helper: Helper,
    /// Asks for the helper's answer about all devices, which may come late: the kernel's facts do not wait for it.
    ask_helper: Notify,
    own: Arc<OwnMetrics>,
    config: watch::Sender<Config>,
    /// The Node's labels, where Kubernetes tells them.
    labels: watch::Sender<kubernetes::Labels>,
}

impl Agent {
    /// Reads the node for at most `patience`; `None` once the reader has ended.
    async fn read(&self, what: Refresh, patience: Duration) -> Option<Reading> {
        let began = Instant::now();
        let reading = self.reader.read(what, patience).await?;
        self.own.refreshed(what == Refresh::All, began.elapsed());
        Some(reading)
    }
}

/// Runs until a signal ends it.
///
/// # Errors
/// Where the tree, the address or the threads that it needs are not to be had.
pub(crate) async fn run(setup: Setup) -> anyhow::Result<()> {
    raise_descriptor_limit();
    let Setup {
        config,
        file,
        overrides,
        web_config,
    } = setup;
    let web = web_config.as_deref().map(web_config::load).transpose()?;
    let node_name = node_name(&config)?;
    let root = Root::open(&config.root)
        .with_context(|| format!("cannot read the tree {}", config.root.display()))?;
    let mut server = http::Server::bind(config.listen).await?;
    info!(address = %server.address(), "serving /metrics");
    let reader = Reader::start(Collector::new(root, config.exclude.clone()));
    let (verbs_events, verbs_receiver) = mpsc::channel(64);
    let agent = Arc::new(Agent {
        reader,
        state: State::new(config.expect.clone(), past::load(config.state.as_deref())),
        helper: Helper::keep(Place::of(&config.helper), verbs_events),
        ask_helper: Notify::new(),
        own: Arc::new(OwnMetrics::new()),
        config: watch::Sender::new(config),
        labels: watch::Sender::default(),
    });

    let (kernel_events, kernel_receiver) = mpsc::channel(64);
    events::listen(kernel_events);
    let state_file = agent.config.borrow().state.clone();
    if let Some(file) = state_file.clone() {
        tokio::spawn(past::keep(Arc::clone(&agent), file));
    }
    tokio::spawn(watch_helper(Arc::clone(&agent)));
    tokio::spawn(keep_asking(Arc::clone(&agent)));
    tokio::spawn(keep_reading(Arc::clone(&agent), kernel_receiver, verbs_receiver));
    tokio::spawn(prober::run(Arc::clone(&agent)));
    if let Some((sources, web)) = web {
        if let Some(error) = web.expired() {
            warn!(%error, "clients will refuse it");
        }
        agent.own.certificate_expires(web.expires());
        let (sender, receiver) = watch::channel(Arc::new(web));
        server = server.secured(receiver);
        let own = Arc::clone(&agent.own);
        tokio::spawn(web_config::follow(sources, sender, move |change| {
            own.web_config_reloaded(change.is_ok());
            match change {
                Ok(web) => {
                    own.certificate_expires(web.expires());
                    info!("new web configuration");
                }
                Err(error) => {
                    warn!(%error, "the new web configuration is not used; the old one stays in force");
                }
            }
        }));
    }
    if let Some(node) = node_name {
        let publisher = kubernetes::Publisher {
            node,
            views: agent.state.subscribe(),
            config: agent.config.subscribe(),
            labels: agent.labels.clone(),
            own: Arc::clone(&agent.own),
        };
        tokio::spawn(publisher.run());
        tokio::spawn(follow_labels(Arc::clone(&agent)));
    }
    if let Some(file) = file {
        tokio::spawn(follow_config(Arc::clone(&agent), file, overrides));
    }

    let mut terminate = signal(SignalKind::terminate())?;
    let shutdown = async move {
        select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    };
    server.run(Publisher::new(Arc::clone(&agent)), shutdown).await;
    if let Some(file) = state_file {
        past::save(&agent, file).await;
    }
    info!("stopped");
    Ok(())
}

/// Kept descriptors of counters need one each, and 1024 is soon used up by virtual functions.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Without it more files are opened and closed for each read, which only costs time.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Reads everything at intervals, and what changed as soon as somebody says so.
async fn keep_reading(
    agent: Arc<Agent>,
    mut kernel: mpsc::Receiver<Event>,
    mut verbs: mpsc::Receiver<AsyncEvent>,
) {
    let mut config = agent.config.subscribe();
    let mut interval = full_interval(&mut config);
    let mut pending: Option<Refresh> = Some(Refresh::All);
    loop {
        if let Some(what) = pending.take() {
            agent.ask_helper.notify_one();
            let Some(reading) = agent.read(what, PATIENCE).await else {
                return;
            };
            agent.state.remember(reading);
        }
        select! {
            _ = interval.tick() => pending = Some(Refresh::All),
            Some(event) = kernel.recv() => {
                agent.own.event(event.name());
                pending = Some(if event == Event::Device { Refresh::All } else { Refresh::Ports });
            }
            event = verbs.recv() => match event {
                Some(event) => {
                    agent.own.event("verbs");
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
            agent.own.event(event.name());
            if event == Event::Device {
                pending = Some(Refresh::All);
            }
        }
        while let Ok(event) = verbs.try_recv() {
            agent.own.event("verbs");
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

/// Asks the helper about all devices whenever somebody wants to know; requests that come meanwhile are one.
async fn keep_asking(agent: Arc<Agent>) {
    loop {
        agent.ask_helper.notified().await;
        agent.state.verbs(agent.helper.devices().await);
    }
}

/// Tells metrics how the helper fares, and asks it anew once it is back.
async fn watch_helper(agent: Arc<Agent>) {
    let mut state = agent.helper.state();
    while state.changed().await.is_ok() {
        let now = state.borrow_and_update().clone();
        match now {
            HelperState::Up => {
                agent.own.helper_up(true);
                agent.ask_helper.notify_one();
            }
            HelperState::Down(failure) => {
                agent.own.helper_up(false);
                agent.own.helper_restarted(failure.reason());
                agent.state.verbs(Err::<_, Failure>(failure));
            }
            HelperState::Starting => {}
        }
    }
}

/// The Node's name where Kubernetes is enabled.
fn node_name(config: &Config) -> anyhow::Result<Option<String>> {
    if !config.kubernetes.enabled {
        return Ok(None);
    }
    let given = config.kubernetes.node.clone();
    let name = given.or_else(|| std::env::var("NODE_NAME").ok().filter(|name| !name.is_empty()));
    let name = name.context(
        "Kubernetes is enabled, but not which Node this is: give NODE_NAME, --node-name or kubernetes.node",
    )?;
    anyhow::ensure!(
        kubernetes::is_node_name(&name),
        "NODE_NAME: {name:?} cannot be a Node's name"
    );
    Ok(Some(name))
}

/// Takes over what labels of the Node say is expected of it, as they change.
async fn follow_labels(agent: Arc<Agent>) {
    let mut labels = agent.labels.subscribe();
    while labels.changed().await.is_ok() {
        expect(&agent);
    }
}

/// What is expected of the node: the configuration's word, and that of labels over it.
fn expect(agent: &Agent) {
    let configured = agent.config.borrow().expect.clone();
    let labels = agent.labels.borrow();
    let labelled = configured
        .clone()
        .with_labels(labels.iter().map(|(key, value)| (key.as_str(), value.as_str())));
    drop(labels);
    agent.state.expect(labelled.unwrap_or_else(|error| {
        warn!(%error, "the Node's labels are not used; the configuration's expectations stay in force");
        configured
    }));
}

/// Takes new configurations over as they come; a bad one leaves the old in force.
async fn follow_config(agent: Arc<Agent>, file: PathBuf, overrides: Overrides) {
    let current = agent.config.borrow().clone();
    let mut changes = config::watch(file.clone(), overrides, current);
    while let Some(change) = changes.recv().await {
        match change {
            Ok(config) => {
                agent.own.config_reloaded(true);
                info!(file = %file.display(), "new configuration");
                agent.reader.exclude(config.exclude.clone()).await;
                agent.config.send_replace(config);
                expect(&agent);
            }
            Err(error) => {
                agent.own.config_reloaded(false);
                warn!(%error, "the new configuration is not used; the old one stays in force");
            }
        }
    }
}
