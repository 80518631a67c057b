//! A real kube-apiserver with a real etcd, on loopback, for as long as a test needs them.
//!
//! The programs come from `KUBEBUILDER_ASSETS` or from the cache that `tests/kubernetes/prepare` fills. The server speaks
//! TLS, checks RBAC and issues service-account tokens, as in a cluster; there is no controller, no kubelet and no node.

mod accounts;
mod openssl;
mod programs;
mod requests;

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

pub(crate) use self::programs::{Process, free_ports, spawn};
pub use self::requests::Answer;
use self::{
    openssl::{certify, make_key},
    programs::assets,
};

/// How long the server may take to be ready; five seconds on two idle cores.
const READY: Duration = Duration::from_secs(120);
/// The token of a user who may do anything.
const ADMIN: &str = "admin-of-a-test";
/// The token of the kubelet of [`NODE`].
pub const KUBELET: &str = "kubelet-of-a-test";
/// The Node of a cluster. The server reaches its kubelet by this name, at a port of this machine that leads into the node.
pub const NODE: &str = "localhost";
/// The address of this machine in the network of the node.
pub const HOST: &str = "10.0.2.2";
/// The service network of a cluster; its first address is that of the API server.
pub const SERVICES: &str = "10.96.0.0/24";
/// Where the agent's service account is.
pub const NAMESPACE: &str = "rdma-health";

/// The pair of them. Both end with it.
#[derive(Debug)]
pub struct ApiServer {
    assets: PathBuf,
    directory: TempDir,
    port: u16,
    etcd_port: u16,
    cluster: bool,
    _etcd: Process,
    server: Option<Process>,
}

impl ApiServer {
    /// Starts both and waits until the server is ready.
    ///
    /// # Errors
    /// Where the programs are not there or do not start.
    pub fn start() -> Result<Self> {
        Self::start_as(false)
    }

    /// Starts both as the control plane of a cluster whose nodes reach this machine at [`HOST`]. Its service network is
    /// [`SERVICES`], and its certificate is signed by an authority, as a pod expects it. It connects to nodes and pods through the proxy
    /// that the caller serves at the socket [`ApiServer::egress`].
    ///
    /// # Errors
    /// Where the programs are not there or do not start.
    pub fn start_for_nodes() -> Result<Self> {
        Self::start_as(true)
    }

    fn start_as(cluster: bool) -> Result<Self> {
        let assets = assets()?;
        // Memory where there is some: etcd syncs each write, which is what a disk is slow at.
        let shm = PathBuf::from("/dev/shm");
        let place = if shm.is_dir() { shm } else { std::env::temp_dir() };
        let directory = tempfile::Builder::new()
            .prefix("rdma-health-api-")
            .tempdir_in(place)?;
        let at = |name: &str| directory.path().join(name);
        make_key(&at("service-accounts.key"))?;
        let mut tokens = format!("{ADMIN},admin,admin,system:masters\n");
        if cluster {
            let _ = writeln!(tokens, "{KUBELET},system:node:{NODE},kubelet,system:nodes");
            certify(directory.path())?;
            fs::write(
                at("egress.yaml"),
                format!(
                    "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n\
                     - name: cluster\n  connection: {{proxyProtocol: HTTPConnect, transport: {{uds: {{udsName: \"{}\"}}}}}}\n",
                    at("egress").display()
                ),
            )?;
        }
        fs::write(at("tokens.csv"), tokens)?;
        let [port, etcd_port, peer_port] = free_ports()?;
        let peer = format!("http://127.0.0.1:{peer_port}");
        let client = format!("http://127.0.0.1:{etcd_port}");
        let etcd = spawn(
            &assets.join("etcd"),
            &[
                format!("--data-dir={}", at("etcd").display()),
                format!("--listen-client-urls={client}"),
                format!("--advertise-client-urls={client}"),
                format!("--listen-peer-urls={peer}"),
                format!("--initial-advertise-peer-urls={peer}"),
                format!("--initial-cluster=default={peer}"),
            ],
            &at("etcd.log"),
        )?;
        let mut all = Self {
            assets,
            directory,
            port,
            etcd_port,
            cluster,
            _etcd: etcd,
            server: None,
        };
        all.start_server()?;
        all.wait_until_ready()?;
        if !cluster {
            all.prepare_rbac()?;
        }
        Ok(all)
    }

    /// Starts the server after [`ApiServer::stop`], on the same port and data; does not wait for it.
    ///
    /// # Errors
    /// The system's.
    pub fn start_server(&mut self) -> Result<()> {
        let at = |name: &str| self.directory.path().join(name).display().to_string();
        let mut arguments = vec![
            format!("--etcd-servers=http://127.0.0.1:{}", self.etcd_port),
            format!("--secure-port={}", self.port),
            "--bind-address=127.0.0.1".into(),
            "--service-account-issuer=https://rdma-health.test".into(),
            format!("--service-account-key-file={}", at("service-accounts.key")),
            format!(
                "--service-account-signing-key-file={}",
                at("service-accounts.key")
            ),
            "--anonymous-auth=false".into(),
            // As every cluster is set up; who may make such pods is decided elsewhere.
            "--allow-privileged=true".into(),
            format!("--token-auth-file={}", at("tokens.csv")),
        ];
        arguments.extend(if self.cluster {
            vec![
                format!("--advertise-address={HOST}"),
                format!("--tls-cert-file={}", at("server.crt")),
                format!("--tls-private-key-file={}", at("server.key")),
                format!("--service-cluster-ip-range={SERVICES}"),
                "--authorization-mode=Node,RBAC".into(),
                "--enable-admission-plugins=NodeRestriction".into(),
                // The node's address is one of the virtual network; its name is that of this machine's loopback.
                "--kubelet-preferred-address-types=Hostname".into(),
                format!("--egress-selector-config-file={}", at("egress.yaml")),
            ]
        } else {
            vec![
                "--advertise-address=127.0.0.1".into(),
                format!("--cert-dir={}", at("certificates")),
                "--service-cluster-ip-range=10.0.0.0/24".into(),
                "--authorization-mode=RBAC".into(),
            ]
        });
        let log = self.directory.path().join("kube-apiserver.log");
        self.server = Some(spawn(&self.assets.join("kube-apiserver"), &arguments, &log)?);
        Ok(())
    }

    /// Waits until it answers that it is ready.
    ///
    /// # Errors
    /// Where it does not in time; with the end of its log.
    pub fn wait_until_ready(&self) -> Result<()> {
        let end = Instant::now() + READY;
        loop {
            match self.ask("GET", "/readyz", None) {
                Ok(answer) if answer.status == 200 => return Ok(()),
                _ if Instant::now() > end => {
                    let log = fs::read_to_string(self.directory.path().join("kube-apiserver.log"));
                    let log = log.unwrap_or_default();
                    let tail: Vec<_> = log.lines().rev().take(20).collect();
                    bail!("the API server is not ready:\n{}", tail.join("\n"));
                }
                _ => sleep(Duration::from_millis(100)),
            }
        }
    }

    /// Kills the server: no process listens anymore, and connections break.
    pub fn stop(&mut self) {
        self.server = None;
    }

    /// Stops it in its tracks: connections are made and nothing answers.
    ///
    /// # Errors
    /// Where it does not run.
    pub fn freeze(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// Where it does not run.
    pub fn thaw(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let process = self.server.as_ref().context("the server does not run")?;
        kill_process(Pid::from_child(&process.0), signal)?;
        Ok(())
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// The socket of the proxy that leads to nodes and pods.
    pub fn egress(&self) -> PathBuf {
        self.directory.path().join("egress")
    }

    /// What vouches for it.
    pub fn certificate_authority(&self) -> PathBuf {
        self.directory.path().join(if self.cluster {
            "ca.crt"
        } else {
            "certificates/apiserver.crt"
        })
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The directory of the programs.
    pub fn assets(&self) -> &Path {
        &self.assets
    }

    /// A directory that goes away with the server.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// What the server says of itself: `v1.20.2`.
    ///
    /// # Errors
    /// Where it does not answer.
    pub fn version(&self) -> Result<String> {
        let answer = self.ask("GET", "/version", None)?;
        Ok(answer.body["gitVersion"].as_str().unwrap_or_default().to_owned())
    }
}
