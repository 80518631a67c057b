//! A node whose agent reads a captured tree and publishes to a real API server.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use rdma_health_tests::{
    api_server::ApiServer,
    scrape::{Scrape, wait_until},
    tree,
    virtual_node::built,
};
use serde_json::Value;
use tempfile::TempDir;

/// Generous: others may use this machine.
pub const SOON: Duration = Duration::from_secs(30);
pub const LINK: &str = "RDMALinkProblem";

/// A node: its tree, and the agent that reads it.
pub struct Node<'a> {
    pub server: &'a ApiServer,
    pub name: String,
    pub tree: TempDir,
    pub kubeconfig: PathBuf,
    pub token: PathBuf,
    pub agent: Option<Agent>,
}

pub struct Agent {
    pub child: Child,
    pub address: SocketAddr,
    pub log: PathBuf,
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl<'a> Node<'a> {
    /// Registers a Node and prepares its tree; the agent is not started yet.
    pub fn new(server: &'a ApiServer, name: &str) -> Self {
        server.create_node(name).unwrap();
        Self::unregistered(server, name)
    }

    pub fn unregistered(server: &'a ApiServer, name: &str) -> Self {
        let token = server.token("agent").unwrap();
        let (kubeconfig, token) = server.kubeconfig(name, &token).unwrap();
        Self {
            server,
            name: name.into(),
            tree: tree::fixture("virtual-node-passthrough").unwrap(),
            kubeconfig,
            token,
            agent: None,
        }
    }

    pub fn start(&mut self) {
        self.start_with(&[]);
    }

    pub fn start_with(&mut self, arguments: &[&str]) {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        self.start_both(address, arguments);
    }

    /// Starts the agent at this address.
    pub fn start_at(&mut self, address: SocketAddr) {
        self.start_both(address, &[]);
    }

    fn start_both(&mut self, address: SocketAddr, arguments: &[&str]) {
        let log = self.server.directory().join(format!("{}.log", self.name));
        let child = Command::new(built("rdma-health").unwrap())
            .args(["agent", "--interval", "1s", "--no-probe", "--kubernetes"])
            .args([
                "--listen",
                &address.to_string(),
                "--helper-socket",
                "/nonexistent",
            ])
            .arg("--root")
            .arg(self.tree.path())
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(arguments)
            .env_clear()
            .env("NODE_NAME", &self.name)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::options().create(true).append(true).open(&log).unwrap())
            .spawn()
            .unwrap();
        self.agent = Some(Agent { child, address, log });
    }

    pub fn stop(&mut self) {
        self.agent = None;
    }

    pub fn agent(&self) -> &Agent {
        self.agent.as_ref().unwrap()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.agent().log).unwrap()
    }

    pub fn set_port(&self, state: &str) {
        let path = self.tree.path().join("sys/class/infiniband/rxe0/ports/1/state");
        fs::write(path, format!("{state}\n")).unwrap();
    }

    /// Breaks a port that is in use.
    pub fn fault(&self) {
        self.set_port("1: DOWN");
    }

    pub fn repair(&self) {
        self.set_port("4: ACTIVE");
    }

    pub fn condition(&self, kind: &str) -> Option<Value> {
        self.server.condition(&self.name, kind).unwrap()
    }

    /// Waits until the link's condition has this status; returns it.
    pub fn until(&self, status: &str) -> Value {
        self.until_within(status, SOON)
    }

    pub fn until_within(&self, status: &str, patience: Duration) -> Value {
        let mut last = None;
        let found = within(patience, || {
            last = self.server.condition(&self.name, LINK).ok().flatten();
            last.clone().filter(|condition| condition["status"] == status)
        });
        found.unwrap_or_else(|| panic!("{LINK} is not {status} but {last:?}:\n{}", self.log()))
    }

    pub fn log_says(&self, words: &str) -> String {
        within(SOON, || Some(self.log()).filter(|log| log.contains(words)))
            .unwrap_or_else(|| panic!("the log does not say {words:?}:\n{}", self.log()))
    }

    /// The agent measures and answers whatever the API server does.
    pub fn serves(&self, what: &str, condition: impl Fn(&Scrape) -> bool) {
        if let Err(error) = wait_until(self.agent().address, SOON, what, condition) {
            panic!("{error:#}\n{}", self.log());
        }
    }

    pub fn requests(&self, labels: &[&str]) -> f64 {
        let scrape = Scrape::of(self.agent().address, SOON).unwrap();
        scrape
            .value("rdma_health_kubernetes_requests_total", labels)
            .unwrap_or_default()
    }
}

pub fn within<T>(patience: Duration, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + patience;
    loop {
        if let Some(value) = attempt() {
            return Some(value);
        }
        if Instant::now() > end {
            return None;
        }
        sleep(Duration::from_millis(100));
    }
}

pub fn kinds(node: &Value) -> Vec<String> {
    let conditions = node["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let names = conditions
        .iter()
        .map(|condition| condition["type"].as_str().unwrap().to_owned());
    names.collect()
}
