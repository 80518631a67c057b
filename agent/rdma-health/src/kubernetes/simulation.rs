//! Thousands of agents and one real API server: how many writes, and how a cluster recovers.
//!
//! What is real: the API server, its etcd, the requests, and everything of this module from the conditions on: each node
//! has a session of its own with its own schedule and its own randomness, in real time. What is not: one process holds all
//! of them, and a hundred nodes share a connection, which saves the server the memory and the TLS handshakes of thousands;
//! nothing is read from any node; the server and everything else share this machine.
//!
//! `make simulate-cluster`; `NODES` says how many (5000).

#![allow(clippy::print_stdout)]

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use rdma_health_tests::api_server::ApiServer;
use serde_json::json;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{sleep, sleep_until},
};

use super::{
    api::{Access, Api, connect},
    condition::{Condition, Status, kinds},
    jitter::Jitter,
    schedule::{HEARTBEAT, Stated},
    session::{Extras, Manner, Session},
};
use crate::metrics::{OwnMetrics, RenderOptions, render};

const NODES_PER_CONNECTION: usize = 100;
/// Requests under way at once while the cluster is set up.
const SETUP: usize = 64;
const STEADY: Duration = Duration::from_secs(180);
const OUTAGE: Duration = Duration::from_secs(30);
const AFTERWARDS: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(600);

/// Which nodes have a problem: those below the number.
type Problems = usize;

fn conditions(problem: bool) -> Vec<Condition> {
    let said = kinds().map(|kind| {
        let problem = problem && kind == "RDMAIommuProblem";
        Condition {
            kind,
            status: if problem { Status::True } else { Status::False },
            reason: if problem { "IommuGroupTranslated" } else { "NoProblem" }.into(),
            message: "mlx5_0 (0000:18:00.0): IOMMU group 7 is DMA-FQ, translated with lazy invalidation (and 7 more). Boot \
                with iommu=pt, then check again."
                .into(),
        }
    });
    said.collect()
}

fn name(n: usize) -> String {
    format!("node-{n:05}")
}

/// What was asked of the server so far: by verb and outcome.
fn asked(own: &OwnMetrics) -> BTreeMap<String, u64> {
    let mut text = Vec::new();
    render(None, RenderOptions::default(), own, &mut text);
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines = text.lines().filter_map(|line| {
        let (labels, value) = line
            .strip_prefix("rdma_health_kubernetes_requests_total{")?
            .rsplit_once("} ")?;
        Some((labels.to_owned(), value.parse().ok()?))
    });
    lines.collect()
}

/// Writes that arrived, and requests that did not succeed.
fn counts(own: &OwnMetrics) -> (u64, u64) {
    let all = asked(own);
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

/// Watches the counters each second until `done`; tells the writes and failures of each.
async fn observe(own: &OwnMetrics, mut done: impl FnMut(Duration) -> bool) -> Vec<(u64, u64)> {
    let start = Instant::now();
    let (mut seconds, mut before) = (Vec::new(), counts(own));
    while !done(start.elapsed()) {
        assert!(start.elapsed() < PATIENCE, "not done in time: {:?}", asked(own));
        sleep(Duration::from_secs(1)).await;
        let now = counts(own);
        seconds.push((now.0 - before.0, now.1 - before.1));
        before = now;
    }
    seconds
}

fn tell(what: &str, seconds: &[(u64, u64)]) {
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

/// How many nodes the server was told of.
#[derive(Default)]
struct Told {
    /// Whose conditions are right, and whose agent knows it.
    right: AtomicUsize,
    /// Whose conditions changed.
    changes: AtomicUsize,
}

async fn live(mut session: Session, n: usize, mut problems: watch::Receiver<Problems>, told: Arc<Told>) {
    let (mut counted, mut said) = (None, None);
    loop {
        let wanted = *problems.borrow_and_update();
        let problem = n < wanted;
        session.observe(conditions(problem), Extras::default(), Instant::now());
        let next = session.drive().await;
        let says = session.says() == Some(problem);
        if says && said != Some(problem) {
            said = Some(problem);
            told.changes.fetch_add(1, Ordering::Relaxed);
        }
        if says && counted != Some(wanted) && session.is_well() {
            counted = Some(wanted);
            told.right.fetch_add(1, Ordering::Relaxed);
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
    };
    println!("{nodes} nodes, kube-apiserver {}", server.version().unwrap());

    let mut clients = Vec::new();
    for _ in 0..nodes.div_ceil(NODES_PER_CONNECTION) {
        clients.push(connect(&access).await.unwrap());
    }
    let own = Arc::new(OwnMetrics::new());
    let client_of = |n: usize| clients[n / NODES_PER_CONNECTION].clone();
    create(&server, nodes, |n| Api::sharing(client_of(n), Arc::clone(&own))).await;

    let problems = watch::Sender::new(0);
    let told = Arc::new(Told::default());
    let mut sessions = JoinSet::new();
    for n in 0..nodes {
        let api = Api::sharing(client_of(n), Arc::clone(&own));
        let manner = Manner {
            node: name(n),
            events: true,
            force: false,
        };
        let session = Session::new(api, manner, Instant::now());
        sessions.spawn(live(session, n, problems.subscribe(), Arc::clone(&told)));
    }
    let all_right = |most: usize| {
        let told = Arc::clone(&told);
        move |_: Duration| told.right.load(Ordering::Relaxed) >= most
    };
    let started = observe(&own, all_right(nodes)).await;
    tell("all agents started at one moment", &started);
    let steady = observe(&own, |elapsed| elapsed >= STEADY).await;
    tell("steady", &steady);

    told.right.store(0, Ordering::Relaxed);
    problems.send_replace(nodes);
    let regression = observe(&own, all_right(nodes)).await;
    tell("every node got a problem at one moment", &regression);
    let after = observe(&own, |elapsed| elapsed >= AFTERWARDS).await;
    tell("afterwards", &after);

    server.stop();
    told.changes.store(0, Ordering::Relaxed);
    problems.send_replace(nodes / 2);
    let outage = observe(&own, |elapsed| elapsed >= OUTAGE).await;
    tell("the server is away, and half of the nodes recovered", &outage);
    server.start_server().unwrap();
    let (begun, half) = (Instant::now(), nodes - nodes / 2);
    let changes = || told.changes.load(Ordering::Relaxed);
    // Nodes without a change have nothing to say but their heartbeat.
    let (mut ready, mut after_five) = (None, None);
    let back = observe(&own, |_| changes() >= half);
    let look = async {
        // Waiting would hold the sessions up.
        while !is_ready(&clients[0]).await {
            sleep(Duration::from_millis(100)).await;
        }
        ready = Some((begun.elapsed(), changes()));
        sleep(Duration::from_secs(5)).await;
        after_five = Some(changes());
    };
    let (back, ()) = tokio::join!(back, look);
    tell("the server starts, until it was told of each change", &back);
    println!(
        "ready after, and changes told by then: {ready:?}; five seconds later: {after_five:?} of {half}"
    );
    let after = observe(&own, |elapsed| elapsed >= AFTERWARDS).await;
    tell("afterwards", &after);
    println!("asked in all: {:#?}", asked(&own));
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

/// Registers every node and writes what it said last, as if the cluster had been running for long.
async fn create(server: &ApiServer, nodes: usize, api_of: impl Fn(usize) -> Api) {
    let (config, _) = server.kubeconfig("admin", "admin-of-a-test").unwrap();
    let admin = connect(&Access {
        kubeconfig: Some(config),
    })
    .await
    .unwrap();
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
            let stated: Vec<_> = conditions(false)
                .into_iter()
                .map(|condition| Stated {
                    condition,
                    since: wall.clone(),
                })
                .collect();
            api.apply(&name(n), &stated, &BTreeMap::new(), &wall, false)
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
    println!("set up in {took:.0} s: {rate:.0} nodes/s, which is what this server on this machine can do");
}
