//! From a fault on a node to a notification: a real agent, Prometheus and Alertmanager with the rules and routes of
//! `dashboards/`. Only their waiting times are shorter.

#![cfg(feature = "agent")]
#![allow(clippy::similar_names)]
#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    thread::{sleep, spawn},
    time::{Duration, Instant},
};

use rdma_health_tests::{
    promtool,
    running::{Running, free_address},
    scrape, tree,
};
use serde_json::Value;

const PRODUCT: &str = env!("CARGO_BIN_EXE_rdma-health");
/// Generous: others may use this machine.
const SOON: Duration = Duration::from_secs(120);
/// Several evaluations, group intervals and resends: what has not come by then does not come.
const QUIET: Duration = Duration::from_secs(15);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Starts a program whose output goes to a file.
fn start(command: &mut Command, log: &Path) -> Running {
    let log = fs::File::create(log).unwrap();
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log);
    Running::start(command).unwrap()
}

/// One notification: the alerts of a group.
type Notifications = Arc<Mutex<Vec<Value>>>;

/// Receives notifications, and shows the metrics of the agent under one path for each node. It ends with the test program.
fn receive(agent: SocketAddr) -> (SocketAddr, Notifications) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let received = Notifications::default();
    let kept = Arc::clone(&received);
    spawn(move || {
        for stream in listener.incoming().flatten() {
            let kept = Arc::clone(&kept);
            // A connection that breaks is tried again by the other side.
            spawn(move || drop(answer(stream, agent, &kept)));
        }
    });
    (address, received)
}

fn answer(stream: TcpStream, agent: SocketAddr, received: &Notifications) -> anyhow::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let (mut length, mut line) = (0, String::new());
    while reader.read_line(&mut line)? > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
        line.clear();
    }
    let body = if first.starts_with("POST") {
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        received.lock().unwrap().push(serde_json::from_slice(&body)?);
        String::new()
    } else {
        scrape::get(agent, "/metrics", Duration::from_secs(5))?.body
    };
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    Ok(())
}

/// `dashboards/rules.yaml` for an impatient test: alerts about problems fire after seconds.
fn rules() -> String {
    let rules = fs::read_to_string(root().join("dashboards/rules.yaml")).unwrap();
    let (problems, agent) = rules.split_once("  - name: rdma-health.agent\n").unwrap();
    let problems = problems
        .replace("for: 1m\n", "for: 1s\n")
        .replace("for: 3m\n", "for: 5s\n")
        .replace("for: 5m\n", "for: 5s\n")
        .replace("keep_firing_for: 10m\n", "keep_firing_for: 4s\n");
    format!("{problems}  - name: rdma-health.agent\n{agent}")
}

/// `dashboards/alertmanager.yaml` with shorter times, and with one receiver.
fn routes(receiver: SocketAddr) -> String {
    let routes = fs::read_to_string(root().join("dashboards/alertmanager.yaml")).unwrap();
    routes
        .replace("group_wait: 30s", "group_wait: 3s")
        .replace("group_interval: 5m", "group_interval: 5s")
        .replace("127.0.0.1:9/", &format!("{receiver}/"))
}

/// The stage of the test.
struct Stage {
    folder: tempfile::TempDir,
    receiver: SocketAddr,
    received: Notifications,
    prometheus: SocketAddr,
    alertmanager: SocketAddr,
    _programs: Vec<Running>,
}

impl Stage {
    fn new(tree: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let [agent, prometheus, alertmanager] = [(); 3].map(|()| free_address().unwrap());
        let (receiver, received) = receive(agent);
        fs::write(path("rules.yaml"), rules()).unwrap();
        fs::write(path("alertmanager.yaml"), routes(receiver)).unwrap();
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [rules.yaml]\nalerting:\n  alertmanagers:\n  \
             - static_configs: [{{targets: ['{alertmanager}']}}]\nscrape_configs:\n- job_name: rdma-health\n  \
             file_sd_configs: [{{files: [nodes.json], refresh_interval: 1s}}]\n"
        );
        fs::write(path("prometheus.yaml"), config).unwrap();
        let programs = vec![
            start(
                Command::new(PRODUCT)
                    .args([
                        "agent",
                        "--no-probe",
                        "--helper",
                        "/nonexistent",
                        "--interval",
                        "1s",
                    ])
                    .arg("--root")
                    .arg(tree)
                    .args(["--listen", &agent.to_string()]),
                &path("agent.log"),
            ),
            start(
                Command::new(Path::new(&promtool::program().unwrap()).with_file_name("prometheus"))
                    .arg(format!("--config.file={}", path("prometheus.yaml").display()))
                    .arg(format!("--storage.tsdb.path={}", path("tsdb").display()))
                    .arg(format!("--web.listen-address={prometheus}"))
                    .arg("--rules.alert.resend-delay=1s"),
                &path("prometheus.log"),
            ),
            start(
                Command::new(promtool::alertmanager().unwrap())
                    .arg(format!("--config.file={}", path("alertmanager.yaml").display()))
                    .arg(format!("--storage.path={}", path("alertmanager").display()))
                    .arg(format!("--web.listen-address={alertmanager}"))
                    .arg("--cluster.listen-address="),
                &path("alertmanager.log"),
            ),
        ];
        let stage = Self {
            folder,
            receiver,
            received,
            prometheus,
            alertmanager,
            _programs: programs,
        };
        stage.scrape(1);
        stage
    }

    /// Lets Prometheus scrape this number of nodes, which are all alike.
    fn scrape(&self, nodes: usize) {
        let receiver = self.receiver;
        let targets: Vec<_> = (1..=nodes)
            .map(|n| {
                serde_json::json!({"targets": [receiver.to_string()],
                    "labels": {"node": format!("gpu-{n}"), "__metrics_path__": format!("/node/{n}")}})
            })
            .collect();
        let new = self.folder.path().join("nodes.new");
        fs::write(&new, serde_json::to_string(&targets).unwrap()).unwrap();
        fs::rename(new, self.folder.path().join("nodes.json")).unwrap();
    }

    /// The value of an expression in Prometheus; `None` without a result.
    fn value(&self, expression: &str) -> Option<f64> {
        #[allow(clippy::format_collect)] // a short text
        let query: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let path = format!("/api/v1/query?query={query}");
        let answer = scrape::get(self.prometheus, &path, Duration::from_secs(5)).ok()?;
        let answer: Value = serde_json::from_str(&answer.body).ok()?;
        answer["data"]["result"][0]["value"][1].as_str()?.parse().ok()
    }

    fn wait(&self, what: &str, condition: impl Fn() -> bool) {
        let end = Instant::now() + SOON;
        while !condition() {
            assert!(Instant::now() < end, "not in time: {what}\n{}", self.state());
            sleep(Duration::from_millis(200));
        }
    }

    /// The firing alerts of each notification so far, by name and node, without notifications that only resolve.
    fn firing(&self) -> Vec<Vec<String>> {
        self.notified("firing")
    }

    fn notified(&self, status: &str) -> Vec<Vec<String>> {
        let received = self.received.lock().unwrap();
        let alerts = |notification: &Value| -> Vec<String> {
            let alerts = notification["alerts"].as_array().unwrap().iter();
            let such = alerts.filter(|alert| alert["status"] == status);
            let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
            such.map(|alert| {
                let labels = &alert["labels"];
                format!(
                    "{} {} {}",
                    text(&labels["alertname"]),
                    text(&labels["cause"]),
                    text(&labels["node"])
                )
            })
            .collect()
        };
        received
            .iter()
            .map(alerts)
            .filter(|alerts| !alerts.is_empty())
            .collect()
    }

    /// What happened, for the message of a failed test.
    fn state(&self) -> String {
        let log = |name: &str| {
            let text = fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
            let last: Vec<_> = text.lines().rev().take(8).collect();
            format!(
                "{name}:\n{}\n",
                last.into_iter().rev().collect::<Vec<_>>().join("\n")
            )
        };
        let alerts = scrape::get(self.alertmanager, "/api/v2/alerts", Duration::from_secs(5));
        format!(
            "firing: {:?}\nresolved: {:?}\nAlertmanager: {:?}\n{}{}{}",
            self.firing(),
            self.notified("resolved"),
            alerts.map(|answer| answer.body),
            log("agent.log"),
            log("prometheus.log"),
            log("alertmanager.log")
        )
    }
}

/// Sets the IOMMU mode of every function of the tree.
fn set_iommu(tree: &Path, mode: &str) {
    for group in fs::read_dir(tree.join("sys/kernel/iommu_groups")).unwrap() {
        fs::write(group.unwrap().path().join("type"), format!("{mode}\n")).unwrap();
    }
}

#[test]
fn one_fault_is_one_notification_on_one_node_and_on_a_fleet() {
    let tree = tree::fixture("h100-connectx7").unwrap();
    let stage = Stage::new(tree.path());
    stage.wait("a healthy node", || {
        stage.value("count(rdma_verdict)") == Some(4.0) && stage.value("node:rdma_up:max") == Some(1.0)
    });
    sleep(QUIET);
    assert!(stage.firing().is_empty(), "a healthy node: {}", stage.state());

    // 17 functions are translated at once.
    set_iommu(tree.path(), "DMA-FQ");
    stage.wait("a notification", || !stage.firing().is_empty());
    sleep(QUIET);
    let one = "RDMAIommuProblem iommu-translation gpu-1";
    assert_eq!(
        stage.firing(),
        [[one]],
        "one fault, one notification: {}",
        stage.state()
    );
    let findings = stage.value("count(rdma_finding{severity=~\"warning|critical\", domain=\"iommu\"})");
    assert!(findings.unwrap_or_default() > 16.0, "{findings:?}");

    // The same kernel on eleven more nodes.
    stage.scrape(12);
    stage.wait("an alert about the fleet", || stage.firing().len() > 1);
    sleep(QUIET);
    let fleet = "RDMAFleetProblem iommu-translation -";
    assert_eq!(stage.firing(), [[one], [fleet]], "{}", stage.state());
    {
        let received = stage.received.lock().unwrap();
        let last = received.iter().rfind(|one| one["status"] == "firing").unwrap();
        let description = last["alerts"][0]["annotations"]["description"].as_str().unwrap();
        assert!(
            description.starts_with("12 nodes have the cause iommu-translation"),
            "{description}"
        );
        assert!(
            description.contains("Kernels of these nodes: 5.15"),
            "{description}"
        );
    }

    set_iommu(tree.path(), "identity");
    stage.wait("the end of the alerts", || {
        let gone = stage.value("count(ALERTS{alertstate=\"firing\"})").is_none();
        gone && stage
            .notified("resolved")
            .iter()
            .flatten()
            .any(|alert| alert == fleet)
    });
    sleep(QUIET);
    assert_eq!(stage.firing(), [[one], [fleet]], "{}", stage.state());
}
