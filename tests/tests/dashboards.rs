//! Every expression of the dashboards, on a real Prometheus that scraped real agents of a healthy and of two faulty nodes.

#![allow(clippy::unwrap_used, missing_docs)] // in a test, a failure is a panic

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use rdma_health_tests::{
    promtool,
    running::{Running, free_address},
    scrape::get,
    tree,
    virtual_node::built,
};
use serde_json::Value;
use tempfile::TempDir;

/// Generous: others may use this machine.
const SOON: Duration = Duration::from_secs(120);
const HEALTHY: &str = "healthy";
/// The nodes by name, with their fixtures.
const NODES: [(&str, &str); 3] = [
    (HEALTHY, "h100-connectx7"),
    ("translated", "connectx7-gpu"),
    ("infiniband", "infiniband-ndr"),
];
const BOARDS: [&str; 4] = ["fleet", "node", "ports", "agent"];

/// The fixture of a node without the label `node`, whose agent leaves out the fixed metrics.
const UNLABELLED: &str = "connectx7-gpu";

/// An agent of a captured node.
fn agent(tree: &Path, arguments: &[&str]) -> (Running, SocketAddr) {
    let address = free_address().unwrap();
    let mut agent = Command::new(built("rdma-health").unwrap());
    agent
        .args(["agent", "--no-probe", "--listen", &address.to_string(), "--root"])
        .arg(tree)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    (Running::start(&mut agent).unwrap(), address)
}

fn prometheus(directory: &Path, agents: &[(&str, SocketAddr)]) -> (Running, SocketAddr) {
    let mut config =
        "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\nscrape_configs:\n- job_name: rdma-health\n  \
                      static_configs:\n"
            .to_owned();
    for (node, address) in agents {
        let _ = write!(
            config,
            "  - targets: ['{address}']\n    labels: {{node: '{node}', cluster: test}}\n"
        );
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dashboards/rules.yaml");
    let rules = directory.join("rules.yaml");
    // At the interval of everything else here, so that this test does not wait for a minute.
    let text = fs::read_to_string(source)
        .unwrap()
        .replace("    interval: 1m\n", "");
    fs::write(&rules, text).unwrap();
    let _ = writeln!(config, "rule_files: ['{}']", rules.display());
    let file = directory.join("prometheus.yml");
    fs::write(&file, config).unwrap();
    let address = free_address().unwrap();
    let mut prometheus = Command::new(promtool::prometheus().unwrap());
    prometheus
        .arg(format!("--config.file={}", file.display()))
        .arg(format!(
            "--storage.tsdb.path={}",
            directory.join("data").display()
        ))
        .arg(format!("--web.listen-address={address}"))
        .stdout(Stdio::null())
        .stderr(fs::File::create(directory.join("log")).unwrap());
    (Running::start(&mut prometheus).unwrap(), address)
}

struct Stage {
    prometheus: SocketAddr,
    /// The instance of the node without the label `node`.
    unlabelled: String,
    _processes: Vec<Running>,
    _trees: Vec<TempDir>,
    directory: TempDir,
}

impl Stage {
    /// Starts everything, and waits until each agent was scraped often enough for a rate.
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut trees: Vec<_> = NODES
            .iter()
            .map(|(_, name)| tree::fixture(name).unwrap())
            .collect();
        let (mut processes, mut agents) = (Vec::new(), Vec::new());
        for ((node, _), tree) in NODES.iter().zip(&trees) {
            let (process, address) = agent(tree.path(), &[]);
            processes.push(process);
            agents.push((*node, address));
        }
        let tree = tree::fixture(UNLABELLED).unwrap();
        let (process, unlabelled) = agent(tree.path(), &["--no-fixed-metrics"]);
        trees.push(tree);
        processes.push(process);
        // Prometheus drops an empty label.
        agents.push(("", unlabelled));
        let (process, prometheus) = prometheus(directory.path(), &agents);
        processes.push(process);
        let stage = Self {
            prometheus,
            unlabelled: unlabelled.to_string(),
            _processes: processes,
            _trees: trees,
            directory,
        };
        let end = Instant::now() + SOON;
        let scraped = "count(count_over_time(rdma_verdict{status=\"ok\"}[1m]) > 3) and on () rail:rdma_ports_active:count";
        while !stage
            .rows(scraped)
            .is_ok_and(|rows| value(&rows) == Some("4".into()))
        {
            let log = || fs::read_to_string(stage.directory.path().join("log")).unwrap_or_default();
            assert!(
                Instant::now() < end,
                "Prometheus did not scrape all agents:\n{}",
                log()
            );
            sleep(Duration::from_millis(250));
        }
        stage
    }

    /// The rows that an expression gives, or why Prometheus refuses it.
    fn rows(&self, expr: &str) -> Result<Vec<Value>, String> {
        self.ask(&format!("/api/v1/query?query={}", encoded(expr)))
    }

    /// The rows with their values at each second from `start` to `end`.
    fn over_time(&self, expr: &str, start: u64, end: u64) -> Vec<Value> {
        let path = format!(
            "/api/v1/query_range?query={}&start={start}&end={end}&step=1",
            encoded(expr)
        );
        self.ask(&path).unwrap()
    }

    /// The rows at a time: Grafana asks all questions of a panel about the same one.
    fn at(&self, expr: &str, time: u64) -> Vec<Value> {
        self.ask(&format!("/api/v1/query?query={}&time={time}", encoded(expr)))
            .unwrap()
    }

    fn ask(&self, path: &str) -> Result<Vec<Value>, String> {
        let answer = get(self.prometheus, path, SOON).map_err(|error| error.to_string())?;
        let body = &answer.body;
        let reply: Value = serde_json::from_str(body).map_err(|error| format!("{error}: {body}"))?;
        match reply["status"].as_str() {
            Some("success") => Ok(reply["data"]["result"].as_array().cloned().unwrap_or_default()),
            _ => Err(reply["error"].to_string()),
        }
    }
}

fn value(rows: &[Value]) -> Option<String> {
    Some(rows.first()?["value"][1].as_str()?.to_owned())
}

fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let of = |byte: u8| {
        if plain(byte) {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    text.bytes().map(of).collect()
}

/// A dashboard's panels with the expressions of each, for these nodes.
fn panels(board: &str, nodes: &str) -> Vec<(String, Vec<String>)> {
    let file =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../dashboards/rdma-health-{board}.json"));
    let board: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let selected = |expr: &str| {
        let expr = expr.replace("$node", nodes).replace("$__rate_interval", "30s");
        ["$cluster", "$job", "$device", "$port"]
            .iter()
            .fold(expr, |expr, name| expr.replace(name, ".*"))
    };
    let panels = board["panels"].as_array().unwrap();
    let is_panel = |panel: &&Value| panel["type"] != "row";
    panels
        .iter()
        .filter(is_panel)
        .map(|panel| {
            let targets = panel["targets"].as_array().unwrap();
            let expr = |target: &Value| selected(target["expr"].as_str().unwrap());
            (
                panel["title"].as_str().unwrap().to_owned(),
                targets.iter().map(expr).collect(),
            )
        })
        .collect()
}

#[test]
fn every_panel_works_on_a_prometheus_that_scraped_agents() {
    let stage = Stage::start();
    let rows = |board: &str, nodes: &str, title: &str| -> Vec<Value> {
        let panels = panels(board, nodes);
        let (_, exprs) = panels
            .iter()
            .find(|(name, _)| name == title)
            .unwrap_or_else(|| panic!("{title}"));
        exprs.iter().flat_map(|expr| stage.rows(expr).unwrap()).collect()
    };
    for board in BOARDS {
        for (title, exprs) in panels(board, ".*") {
            for expr in exprs {
                // A group of a regular expression is not a variable.
                assert!(
                    !expr.replace("\"$1\"", "").contains('$'),
                    "{board}: {title}: a variable is not known: {expr}"
                );
                if let Err(error) = stage.rows(&expr) {
                    panic!("{board}: {title}: {error}: {expr}");
                }
            }
        }
    }
    let label = |rows: &[Value], name: &str| -> Vec<String> {
        rows.iter()
            .filter_map(|row| Some(row["metric"][name].as_str()?.to_owned()))
            .collect()
    };

    // What an operator opens the dashboards for.
    let bad = rows("fleet", ".*", "Nodes with a problem");
    assert!(label(&bad, "node").contains(&"translated".to_owned()), "{bad:?}");
    let critical = stage
        .rows("rdma_problem{severity=\"critical\", node=\"healthy\"}")
        .unwrap();
    assert_eq!(critical, [] as [Value; 0]);
    let causes = rows("fleet", ".*", "Top causes");
    assert!(
        label(&causes, "cause").contains(&"iommu-translation".to_owned()),
        "{causes:?}"
    );
    let modes = rows("fleet", ".*", "IOMMU mode by kernel");
    assert!(
        label(&modes, "mode").contains(&"passthrough".to_owned()) && !label(&modes, "kernel").is_empty(),
        "{modes:?}"
    );
    let kinds = rows("fleet", ".*", "Kernel, adapter, firmware and IOMMU mode");
    for name in ["kernel", "model", "firmware", "driver", "mode"] {
        assert!(!label(&kinds, name).is_empty(), "{name}: {kinds:?}");
    }
    for title in ["Causes", "Findings"] {
        let since = rows("node", "translated", title);
        assert!(!since.is_empty(), "{title} of a faulty node have a time");
    }
    assert!(!rows("ports", HEALTHY, "Active ports by rail").is_empty());
    let devices = rows("node", HEALTHY, "RDMA devices");
    assert!(
        label(&devices, "device").contains(&"mlx5_0".to_owned()),
        "{devices:?}"
    );

    // A node without the label `node` has its instance as its name, and one without fixed metrics its mode and devices.
    assert!(label(&bad, "node").contains(&stage.unlabelled), "{bad:?}");
    for title in ["Verdict", "Causes", "Findings", "RDMA devices", "Port states"] {
        let found = rows("node", &stage.unlabelled, title);
        assert!(!found.is_empty(), "{title} of a node without the label");
    }
    let mode = rows("node", &stage.unlabelled, "IOMMU");
    assert_eq!(label(&mode, "mode"), ["translated"], "{mode:?}");
    let found = rows("ports", ".*", "Findings about ports and devices");
    let names: BTreeSet<_> = label(&found, "node").into_iter().collect();
    assert!(names.contains(&stage.unlabelled), "{found:?}");

    // A healthy node shows nothing red. On a machine without RDMA in its kernel, the verbs helper cannot answer.
    for found in rows("node", HEALTHY, "Findings") {
        let labels = &found["metric"];
        assert!(
            labels["severity"] == "info" || labels["rule"] == "helper-unhealthy",
            "{found}"
        );
    }
    for title in ["Firing alerts", "Failed probes"] {
        assert_eq!(rows("node", HEALTHY, title), [] as [Value; 0], "{title}");
    }
    for title in ["Not scraped", "Helpers that do not answer"] {
        let rows = rows("agent", ".*", title);
        assert!(
            value(&rows).is_some(),
            "{title}: a number, not an empty panel: {rows:?}"
        );
    }
    if let Some(directory) = std::env::var_os("DASHBOARD_ANSWERS") {
        write_answers(&stage, Path::new(&directory));
    }
}

/// Writes each dashboard with the answers to its questions, for `tests/dashboards/render`.
fn write_answers(stage: &Stage, directory: &Path) {
    let end = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let start = end - 60;
    for (board, nodes) in [
        ("fleet", ".*"),
        ("node", HEALTHY),
        ("node", "translated"),
        ("ports", HEALTHY),
        ("agent", ".*"),
    ] {
        let file =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../dashboards/rdma-health-{board}.json"));
        let json: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        let all = json["panels"].as_array().unwrap();
        let targets = all
            .iter()
            .filter(|panel| panel["type"] != "row")
            .map(|panel| &panel["targets"]);
        let answers: Vec<Vec<_>> = targets
            .zip(panels(board, nodes))
            .map(|(targets, (_, exprs))| {
                let of = |(target, expr): (&Value, &String)| {
                    if target["range"] == true {
                        stage.over_time(expr, start, end)
                    } else {
                        stage.at(expr, end)
                    }
                };
                targets.as_array().unwrap().iter().zip(&exprs).map(of).collect()
            })
            .collect();
        let name = if nodes == ".*" { "all" } else { nodes };
        let document =
            serde_json::json!({"board": json, "node": name, "start": start, "end": end, "answers": answers});
        fs::write(
            directory.join(format!("{board}-{name}.json")),
            document.to_string(),
        )
        .unwrap();
    }
}

/// A panel that is empty must say why, and a number must have a unit and colours.
#[test]
fn every_panel_has_a_unit_and_says_why_it_is_empty() {
    for board in BOARDS {
        let file =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../dashboards/rdma-health-{board}.json"));
        let board: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        for panel in board["panels"].as_array().unwrap() {
            if panel["type"] == "row" {
                continue;
            }
            let defaults = &panel["fieldConfig"]["defaults"];
            for key in ["unit", "noValue"] {
                assert!(
                    defaults[key].as_str().is_some_and(|text| !text.is_empty()),
                    "{key}: {panel}"
                );
            }
            assert!(
                defaults["thresholds"]["steps"]
                    .as_array()
                    .is_some_and(|steps| !steps.is_empty()),
                "{panel}"
            );
            assert!(
                panel["description"]
                    .as_str()
                    .is_some_and(|text| text.ends_with('.')),
                "{panel}"
            );
        }
    }
}
