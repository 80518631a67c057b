//! From a fault on a node to a notification: a real agent, Prometheus and Alertmanager with the rules and routes of
//! `dashboards/`. Only their waiting times are shorter.

#![cfg(feature = "agent")]
#![allow(clippy::similar_names)]
#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use rdma_health_tests::{
    monitoring::{Addresses, Monitoring, Target},
    notifications::Notifications,
    running::{Running, free_address},
    scrape, tree,
};
use serde_json::Value;

const PRODUCT: &str = env!("CARGO_BIN_EXE_rdma-health");
/// Generous: others may use this machine.
const SOON: Duration = Duration::from_secs(120);
/// Several evaluations, group intervals and resends: what has not come by then does not come.
const QUIET: Duration = Duration::from_secs(15);

/// The stage of the test.
struct Stage {
    receiver: SocketAddr,
    received: Notifications,
    prometheus: SocketAddr,
    alertmanager: SocketAddr,
    monitoring: Monitoring,
    _agent: Running,
}

impl Stage {
    fn new(tree: &Path) -> Self {
        let [agent, prometheus, alertmanager] = [(); 3].map(|()| free_address().unwrap());
        // Every path shows the metrics of the agent, so there is one for each node.
        let metrics = move || Ok(scrape::get(agent, "/metrics", Duration::from_secs(5))?.body);
        let (receiver, received) = Notifications::receive(metrics).unwrap();
        let addresses = Addresses {
            prometheus,
            alertmanager,
            receiver,
        };
        let monitoring = Monitoring::start(&addresses, &[]).unwrap();
        let agent = Running::start(
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
                .args(["--listen", &agent.to_string()])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(monitoring.agent_log().unwrap()),
        );
        let stage = Self {
            receiver,
            received,
            prometheus,
            alertmanager,
            monitoring,
            _agent: agent.unwrap(),
        };
        stage.scrape(1);
        stage
    }

    /// Lets Prometheus scrape this number of nodes, which are all alike.
    fn scrape(&self, nodes: usize) {
        let target = |n| Target {
            address: self.receiver,
            node: format!("gpu-{n}"),
            path: format!("/node/{n}"),
        };
        let targets: Vec<_> = (1..=nodes).map(target).collect();
        self.monitoring.scrape(&targets).unwrap();
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
        let received = self.received.so_far();
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
        // The receiver of critical alerts gets them in addition.
        received
            .iter()
            .filter(|notification| notification["receiver"] == "rdma")
            .map(alerts)
            .filter(|alerts| !alerts.is_empty())
            .collect()
    }

    /// What happened, for the message of a failed test.
    fn state(&self) -> String {
        let alerts = scrape::get(self.alertmanager, "/api/v2/alerts", Duration::from_secs(5));
        format!(
            "firing: {:?}\nresolved: {:?}\nAlertmanager: {:?}\n{}",
            self.firing(),
            self.notified("resolved"),
            alerts.map(|answer| answer.body),
            self.monitoring.logs()
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
        let received = stage.received.so_far();
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

/// The severity of an alert, and whether it fires.
type Sent<'a> = (&'a str, bool);

/// Sends alerts of one problem to Alertmanager, as Prometheus would.
fn send(alertmanager: SocketAddr, severities: &[Sent]) {
    let alerts: Vec<Value> = severities
        .iter()
        .map(|(severity, fires)| {
            let labels = serde_json::json!({"alertname": "RDMALinkProblem", "component": "rdma", "cause": "port-down",
                "node": "gpu-1", "device": "mlx5_3", "port": "1", "severity": severity});
            let end = if *fires { "2100-01-01T00:00:00Z" } else { "2020-01-01T00:00:01Z" };
            serde_json::json!({"labels": labels, "startsAt": "2020-01-01T00:00:00Z", "endsAt": end})
        })
        .collect();
    let body = serde_json::to_string(&alerts).unwrap();
    let mut stream = TcpStream::connect(alertmanager).unwrap();
    write!(
        stream,
        "POST /api/v2/alerts HTTP/1.1\r\nHost: alertmanager\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn the_end_of_a_critical_problem_names_the_warning_that_remains() {
    let tree = tree::fixture("h100-connectx7").unwrap();
    let stage = Stage::new(tree.path());
    stage.wait("Alertmanager", || {
        scrape::get(stage.alertmanager, "/-/ready", Duration::from_secs(5)).is_ok()
    });
    // The severities and states of the last notification to everyone.
    let last = || -> Vec<String> {
        let received = stage.received.so_far();
        let to_all = |notification: &&Value| notification["receiver"] == "rdma";
        let Some(notification) = received.iter().rfind(to_all) else {
            return Vec::new();
        };
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let alerts = notification["alerts"].as_array().unwrap().iter();
        let mut states: Vec<_> = alerts
            .map(|alert| {
                format!(
                    "{} {}",
                    text(&alert["labels"]["severity"]),
                    text(&alert["status"])
                )
            })
            .collect();
        states.sort();
        states
    };
    let steps: [(&[Sent], &[&str]); 3] = [
        (&[("warning", true)], &["warning firing"]),
        (&[("warning", false), ("critical", true)], &["critical firing"]),
        (
            &[("warning", true), ("critical", false)],
            &["critical resolved", "warning firing"],
        ),
    ];
    for (sent, expected) in steps {
        send(stage.alertmanager, sent);
        stage.wait(&format!("{expected:?}"), || last() == expected);
    }
}
