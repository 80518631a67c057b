//! Simulates thousands of agents with one real API server: counts writes, and shows how a cluster recovers.
//!
//! Real are the API server, its etcd, the requests, and everything of this module from the conditions on: each node has
//! its own session with its own schedule and random numbers, in real time. Simulated: one process runs all nodes, and a
//! hundred nodes share a connection, which saves the server the memory and the TLS handshakes of thousands; no node is
//! read; the server and the nodes share this machine.
//!
//! Run it with `make simulate-cluster`; `NODES` sets the number of nodes (5000).

#![allow(clippy::print_stdout)]

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use prometheus::{Registry, TextEncoder};
use rdma_health_tests::api_server::ApiServer;
use rdma_health_time::Jitter;
use serde_json::json;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{sleep, sleep_until},
};

use super::{
    api::{Access, Api, connect},
    condition::{Condition, Status},
    kind::{ConditionKind, ConditionType},
    schedule::{HEARTBEAT, Published},
    session::{LabelsAndTaint, Session, SessionConfig},
};
use crate::Metrics;

const NODES_PER_CONNECTION: usize = 100;
/// Concurrent requests while the cluster is set up.
const SETUP: usize = 64;
const STEADY: Duration = Duration::from_secs(180);
const OUTAGE: Duration = Duration::from_secs(30);
const AFTERWARDS: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(600);

/// Nodes with a number below this one have a problem.
type Problems = usize;

fn conditions(problem: bool) -> Vec<Condition> {
    let said = ConditionKind::ALL.map(|kind| {
        let problem = problem && kind == ConditionKind::Iommu;
        Condition {
            kind: kind.into(),
            status: if problem { Status::True } else { Status::False },
            reason: if problem { "IommuGroupTranslated" } else { "NoProblem" }.into(),
            message: "mlx5_0 (0000:18:00.0): IOMMU group 7 is DMA-FQ, translated with lazy invalidation (and 7 more). Boot \
                with iommu=pt, then check again."
                .into(),
        }
    });
    said.into()
}

fn name(n: usize) -> String {
    format!("node-{n:05}")
}

/// The requests so far, by verb and outcome.
fn requests(registry: &Registry) -> BTreeMap<String, u64> {
    let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
    let lines = text.lines().filter_map(|line| {
        let (labels, value) = line
            .strip_prefix("rdma_health_kubernetes_requests_total{")?
            .rsplit_once("} ")?;
        Some((labels.to_owned(), value.parse().ok()?))
    });
    lines.collect()
}

/// Successful writes, and failed requests.
fn counts(registry: &Registry) -> (u64, u64) {
    let all = requests(registry);
    let sum = |wanted: &dyn Fn(&str) -> bool| {
        all.iter()
            .filter(|(labels, _)| wanted(labels))
            .map(|(_, n)| n)
            .sum()
    };
    let ok = "code=\"ok\"";
    (
        sum(&|labels| {
            labels.contains(ok)
                && labels.contains("resource=\"nodes/status\"")
                && labels.contains("\"patch\"")
        }),
        sum(&|labels| !labels.contains(ok)),
    )
}

/// Samples the counters each second until `done`; returns the writes and failures of each second.
async fn observe(registry: &Registry, mut done: impl FnMut(Duration) -> bool) -> Vec<(u64, u64)> {
    let start = Instant::now();
    let (mut seconds, mut before) = (Vec::new(), counts(registry));
    while !done(start.elapsed()) {
        assert!(
            start.elapsed() < PATIENCE,
            "not done in time: {:?}",
            requests(registry)
        );
        sleep(Duration::from_secs(1)).await;
        let now = counts(registry);
        seconds.push((now.0 - before.0, now.1 - before.1));
        before = now;
    }
    seconds
}

fn print_summary(what: &str, seconds: &[(u64, u64)]) {
    let writes: Vec<u64> = seconds.iter().map(|second| second.0).collect();
    let sum: u64 = writes.iter().sum();
    let failed: Vec<u64> = seconds.iter().map(|second| second.1).collect();
    #[allow(clippy::cast_precision_loss)] // a few thousand
    let mean = sum as f64 / seconds.len().max(1) as f64;
    println!(
        "{what}: {} s, {sum} writes, mean {mean:.1}/s, at most {}/s; failed requests {}, at most {}/s",
        seconds.len(),
        writes.iter().max().unwrap_or(&0),
        failed.iter().sum::<u64>(),
        failed.iter().max().unwrap_or(&0),
    );
}

/// The numbers of nodes whose state has reached the server.
#[derive(Default)]
struct Progress {
    /// Nodes whose conditions are up to date, and whose agent knows it.
    right: AtomicUsize,
    /// Nodes whose conditions changed.
    changes: AtomicUsize,
}

async fn live(
    mut session: Session,
    n: usize,
    mut problems: watch::Receiver<Problems>,
    progress: Arc<Progress>,
) {
    let (mut counted, mut written) = (None, None);
    loop {
        let wanted = *problems.borrow_and_update();
        let problem = n < wanted;
        session.observe(conditions(problem), LabelsAndTaint::default(), Instant::now());
        let next = session.drive().await;
        let up_to_date = session.reported_problem() == Some(problem);
        if up_to_date && written != Some(problem) {
            written = Some(problem);
            progress.changes.fetch_add(1, Ordering::Relaxed);
        }
        if up_to_date && counted != Some(wanted) && session.is_well() {
            counted = Some(wanted);
            progress.right.fetch_add(1, Ordering::Relaxed);
        }
        tokio::select! {
            changed = problems.changed() => if changed.is_err() { return },
            () = sleep_until(next.into()) => {}
        }
    }
}

#[test]
#[ignore = "takes ten minutes and a kube-apiserver: make simulate-cluster"]
fn a_cluster_in_its_steady_state_after_a_regression_and_after_an_outage() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(simulate());
}

async fn simulate() {
    let nodes: usize = std::env::var("NODES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(5000);
    let mut server = ApiServer::start().unwrap();
    let token = server.token("agent").unwrap();
    let (kubeconfig, _) = server.kubeconfig("simulation", &token).unwrap();
    let access = Access {
        kubeconfig: Some(kubeconfig),
        ..Access::default()
    };
    println!("{nodes} nodes, kube-apiserver {}", server.version().unwrap());

    let mut clients = Vec::new();
    for _ in 0..nodes.div_ceil(NODES_PER_CONNECTION) {
        clients.push(connect(access.clone()).await.unwrap().client);
    }
    let registry = Registry::new();
    let metrics = Arc::new(Metrics::new(&registry));
    let client_of = |n: usize| clients[n / NODES_PER_CONNECTION].clone();
    create(&server, nodes, |n| {
        Api::sharing(client_of(n), Arc::clone(&metrics))
    })
    .await;

    let problems = watch::Sender::new(0);
    let progress = Arc::new(Progress::default());
    let mut sessions = JoinSet::new();
    for n in 0..nodes {
        let api = Api::sharing(client_of(n), Arc::clone(&metrics));
        let config = SessionConfig {
            node: name(n),
            events: true,
            force: false,
            types: ConditionType::all([]),
        };
        let session = Session::new(api, config, Instant::now());
        sessions.spawn(live(session, n, problems.subscribe(), Arc::clone(&progress)));
    }
    let all_right = |most: usize| {
        let progress = Arc::clone(&progress);
        move |_: Duration| progress.right.load(Ordering::Relaxed) >= most
    };
    let started = observe(&registry, all_right(nodes)).await;
    print_summary("all agents started at one moment", &started);
    let steady = observe(&registry, |elapsed| elapsed >= STEADY).await;
    print_summary("steady", &steady);

    progress.right.store(0, Ordering::Relaxed);
    problems.send_replace(nodes);
    let regression = observe(&registry, all_right(nodes)).await;
    print_summary("every node got a problem at one moment", &regression);
    let after = observe(&registry, |elapsed| elapsed >= AFTERWARDS).await;
    print_summary("afterwards", &after);

    server.stop();
    progress.changes.store(0, Ordering::Relaxed);
    problems.send_replace(nodes / 2);
    let outage = observe(&registry, |elapsed| elapsed >= OUTAGE).await;
    print_summary("the server is away, and half of the nodes recovered", &outage);
    server.start_server().unwrap();
    let (begun, half) = (Instant::now(), nodes - nodes / 2);
    let changes = || progress.changes.load(Ordering::Relaxed);
    // Nodes without a change only send heartbeats.
    let (mut ready, mut after_five) = (None, None);
    let back = observe(&registry, |_| changes() >= half);
    let look = async {
        // Waiting would block the sessions.
        while !is_ready(&clients[0]).await {
            sleep(Duration::from_millis(100)).await;
        }
        ready = Some((begun.elapsed(), changes()));
        sleep(Duration::from_secs(5)).await;
        after_five = Some(changes());
    };
    let (back, ()) = tokio::join!(back, look);
    print_summary("the server starts, until it has each change", &back);
    println!(
        "ready after, and changes written by then: {ready:?}; five seconds later: {after_five:?} of {half}"
    );
    let after = observe(&registry, |elapsed| elapsed >= AFTERWARDS).await;
    print_summary("afterwards", &after);
    println!("requests in total: {:#?}", requests(&registry));
    sessions.shutdown().await;
}

async fn is_ready(client: &kube::Client) -> bool {
    let request = hyper::Request::get("/readyz")
        .body(Vec::new())
        .unwrap_or_default();
    tokio::time::timeout(Duration::from_secs(2), client.request_text(request))
        .await
        .is_ok_and(|answer| answer.is_ok())
}

/// Registers every node with its last conditions, as if the cluster had been running for a long time.
async fn create(server: &ApiServer, nodes: usize, api_of: impl Fn(usize) -> Api) {
    let (config, _) = server.kubeconfig("admin", "admin-of-a-test").unwrap();
    let admin = connect(Access {
        kubeconfig: Some(config),
        ..Access::default()
    })
    .await
    .unwrap()
    .client;
    let begun = Instant::now();
    let mut setup = JoinSet::new();
    let mut ages = Jitter::seeded(1);
    for n in 0..nodes {
        if setup.len() >= SETUP {
            setup.join_next().await.unwrap().unwrap();
        }
        let (admin, mut api) = (admin.clone(), api_of(n));
        let age = ages.between(Duration::ZERO, HEARTBEAT);
        setup.spawn(async move {
            let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name(n)}});
            let request = hyper::Request::post("/api/v1/nodes")
                .header("content-type", "application/json")
                .body(node.to_string().into_bytes())
                .unwrap();
            admin.request_text(request).await.unwrap();
            let wall = humantime::format_rfc3339_seconds(SystemTime::now() - age).to_string();
            let published: Vec<_> = conditions(false)
                .into_iter()
                .map(|condition| Published {
                    condition,
                    since: wall.clone(),
                })
                .collect();
            api.apply(&name(n), &published, &BTreeMap::new(), &wall, false)
                .await
                .unwrap();
        });
    }
    while let Some(done) = setup.join_next().await {
        done.unwrap();
    }
    let took = begun.elapsed().as_secs_f64();
    #[allow(clippy::cast_precision_loss)]
    let rate = nodes as f64 / took;
    println!("set up in {took:.0} s: {rate:.0} nodes/s, the maximum of this server on this machine");
}
