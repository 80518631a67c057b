//! A real kube-apiserver with a real etcd, on loopback, for as long as a test needs them.
//!
//! The programs come from `KUBEBUILDER_ASSETS` or from the cache that `tests/kubernetes/prepare` fills. The server speaks
//! TLS, checks RBAC and issues service-account tokens, as in a cluster; there is no controller, no kubelet and no node.

use std::{
    fmt::Write as _,
    fs,
    io::Write as _,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

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

/// A child that does not outlive us.
#[derive(Debug)]
pub(crate) struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An answer of the server.
#[derive(Debug, Clone)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// The body, as JSON where it is that.
    pub body: Value,
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
        let shm = Path::new("/dev/shm");
        let directory = if shm.is_dir() {
            tempfile::Builder::new()
                .prefix("rdma-health-api-")
                .tempdir_in(shm)?
        } else {
            tempfile::Builder::new().prefix("rdma-health-api-").tempdir()?
        };
        let at = |name: &str| directory.path().join(name);
        let key = at("service-accounts.key");
        let made = Command::new("openssl")
            .args(["genrsa", "-out"])
            .arg(&key)
            .arg("2048")
            .stderr(Stdio::null())
            .status()
            .context("openssl, to make a key")?;
        ensure!(made.success(), "openssl made no key");
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

    /// Asks it as a user who may do anything, as `kubectl` would. `body` is sent as JSON, as a merge patch to PATCH.
    ///
    /// # Errors
    /// Where there is no answer within ten seconds.
    pub fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Answer> {
        let kind = if method == "PATCH" {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        self.ask_as(ADMIN, method, path, kind, body)
    }

    /// Asks it as the bearer of a token.
    ///
    /// # Errors
    /// Where there is no answer within ten seconds.
    pub fn ask_as(
        &self,
        token: &str,
        method: &str,
        path: &str,
        kind: &str,
        body: Option<&Value>,
    ) -> Result<Answer> {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--max-time", "10", "--cacert"])
            .arg(self.certificate_authority())
            .args(["--request", method, "--header"])
            .arg(format!("Authorization: Bearer {token}"))
            .args(["--header", &format!("Content-Type: {kind}")])
            .args(["--write-out", "\n%{http_code}"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if body.is_some() {
            curl.args(["--data-binary", "@-"]);
        }
        let mut child = curl
            .arg(format!("{}{path}", self.url()))
            .spawn()
            .context("curl")?;
        if let (Some(body), Some(stdin)) = (body, child.stdin.as_mut()) {
            stdin.write_all(body.to_string().as_bytes())?;
        }
        let output = child.wait_with_output()?;
        let text = String::from_utf8(output.stdout)?;
        let (body, status) = text.rsplit_once('\n').context("no status")?;
        let status = status.trim().parse()?;
        ensure!(
            status != 0,
            "no answer: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        let body = serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned()));
        Ok(Answer { status, body })
    }

    /// Asks and insists on a success.
    ///
    /// # Errors
    /// Where it answers otherwise.
    pub fn must(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        let answer = self.ask(method, path, body)?;
        ensure!(
            (200..300).contains(&answer.status),
            "{method} {path}: {} {}",
            answer.status,
            answer.body
        );
        Ok(answer.body)
    }

    /// Registers a Node, as a kubelet would.
    ///
    /// # Errors
    /// Where the server refuses.
    pub fn create_node(&self, name: &str) -> Result<Value> {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        self.must("POST", "/api/v1/nodes", Some(&node))
    }

    /// A Node as it is.
    ///
    /// # Errors
    /// Where the server does not know it or does not answer.
    pub fn node(&self, name: &str) -> Result<Value> {
        self.must("GET", &format!("/api/v1/nodes/{name}"), None)
    }

    /// One condition of a Node; `None` where it has none of that type.
    ///
    /// # Errors
    /// As for [`ApiServer::node`].
    pub fn condition(&self, node: &str, kind: &str) -> Result<Option<Value>> {
        let node = self.node(node)?;
        let conditions = node["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        Ok(conditions.into_iter().find(|condition| condition["type"] == kind))
    }

    /// Events about a Node.
    ///
    /// # Errors
    /// Where the server does not answer.
    pub fn events(&self, node: &str) -> Result<Vec<Value>> {
        let path = format!(
            "/api/v1/namespaces/default/events?fieldSelector=involvedObject.kind=Node,involvedObject.name={node}"
        );
        let list = self.must("GET", &path, None)?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// The agent's service account and what it may do: no more than the product's manifests grant.
    fn prepare_rbac(&self) -> Result<()> {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        self.must("POST", "/api/v1/namespaces", Some(&namespace))?;
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "agent"}});
        let accounts = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts");
        self.must("POST", &accounts, Some(&account))?;
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "remover"}});
        self.must("POST", &accounts, Some(&account))?;
        self.allow(
            "agent",
            &json!([
                {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["get", "patch"]},
                {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
            ]),
        )?;
        self.allow(
            "remover",
            &json!([
                {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]},
                {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
            ]),
        )
    }

    /// Makes the rules of a service account of [`NAMESPACE`] these.
    ///
    /// # Errors
    /// Where the server refuses.
    pub fn allow(&self, account: &str, rules: &Value) -> Result<()> {
        const GROUP: &str = "/apis/rbac.authorization.k8s.io/v1";
        let name = format!("rdma-health-{account}");
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": rules,
        });
        let path = format!("{GROUP}/clusterroles");
        if self.ask("POST", &path, Some(&role))?.status == 409 {
            self.must("PUT", &format!("{path}/{name}"), Some(&role))?;
        }
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}],
        });
        let answer = self.ask("POST", &format!("{GROUP}/clusterrolebindings"), Some(&binding))?;
        ensure!(matches!(answer.status, 201 | 409), "{}", answer.body);
        Ok(())
    }

    /// A token of a service account of [`NAMESPACE`].
    ///
    /// # Errors
    /// Where the server issues none.
    pub fn token(&self, account: &str) -> Result<String> {
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600},
        });
        let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token");
        let issued = self.must("POST", &path, Some(&request))?;
        let token = issued["status"]["token"].as_str().context("no token")?;
        Ok(token.to_owned())
    }

    /// The same token as it would be if it had expired an hour ago: signed with the server's own key.
    ///
    /// # Errors
    /// If it is not a token, or openssl fails.
    pub fn expired(&self, token: &str) -> Result<String> {
        let mut parts = token.split('.');
        let (head, claims) = (parts.next(), parts.next());
        let (head, claims) = head.zip(claims).context("no token")?;
        let standard = claims.replace('-', "+").replace('_', "/");
        let padding = "=".repeat(standard.len().wrapping_neg() % 4);
        let decode = ["base64", "-d", "-A"];
        let decoded = openssl(&decode, format!("{standard}{padding}").as_bytes())?;
        let mut claims: Value = serde_json::from_slice(&decoded)?;
        for time in ["iat", "nbf", "exp"] {
            let was = claims[time].as_i64().context("a token without times")?;
            claims[time] = json!(was - 2 * 3600);
        }
        let encode = |bytes: &[u8]| -> Result<String> {
            let text = String::from_utf8(openssl(&["base64", "-A"], bytes)?)?;
            Ok(text.trim_end_matches('=').replace('+', "-").replace('/', "_"))
        };
        let signed = format!("{head}.{}", encode(claims.to_string().as_bytes())?);
        let key = self.directory.path().join("service-accounts.key");
        let key = key.to_str().context("an odd path")?;
        let signature = openssl(&["dgst", "-sha256", "-sign", key], signed.as_bytes())?;
        Ok(format!("{signed}.{}", encode(&signature)?))
    }

    /// Writes a kubeconfig whose token is read from a file in the same directory, as a pod's is. Returns both paths.
    ///
    /// # Errors
    /// Where they cannot be written.
    pub fn kubeconfig(&self, name: &str, token: &str) -> Result<(PathBuf, PathBuf)> {
        let config = self.directory.path().join(format!("{name}.kubeconfig"));
        let token_file = self.directory.path().join(format!("{name}.token"));
        fs::write(&token_file, token)?;
        let mut text = String::from("apiVersion: v1\nkind: Config\ncurrent-context: test\n");
        let _ = write!(
            text,
            "clusters: [{{name: test, cluster: {{server: \"{}\", certificate-authority: \"{}\"}}}}]\n\
             users: [{{name: test, user: {{tokenFile: \"{}\"}}}}]\n\
             contexts: [{{name: test, context: {{cluster: test, user: test}}}}]\n",
            self.url(),
            self.certificate_authority().display(),
            token_file.display()
        );
        fs::write(&config, text)?;
        Ok((config, token_file))
    }
}

/// Where the programs are.
fn assets() -> Result<PathBuf> {
    let named = std::env::var_os("KUBEBUILDER_ASSETS").filter(|path| !path.is_empty());
    let assets = if let Some(path) = named {
        PathBuf::from(path)
    } else {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
        let cache = cache.or_else(home).context("neither XDG_CACHE_HOME nor HOME")?;
        cache.join("rdma-health/kubernetes")
    };
    for program in ["kube-apiserver", "etcd"] {
        ensure!(
            assets.join(program).exists(),
            "no {program} in {}: make test-kubernetes makes one",
            assets.display()
        );
    }
    Ok(assets)
}

/// Makes an authority and a certificate of the server, which clients accept on this machine, in a node and in a pod.
fn certify(directory: &Path) -> Result<()> {
    let names = format!(
        "subjectAltName=IP:10.96.0.1,IP:{HOST},IP:127.0.0.1\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n"
    );
    fs::write(directory.join("server.cnf"), names)?;
    let script = "openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 2 -subj /CN=test
        openssl req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=kube-apiserver
        openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out server.crt -days 2 -extfile server.cnf";
    let made = Command::new("bash")
        .args(["-ec", script])
        .current_dir(directory)
        .output()?;
    ensure!(
        made.status.success(),
        "openssl: {}",
        String::from_utf8_lossy(&made.stderr)
    );
    Ok(())
}

fn openssl(arguments: &[&str], input: &[u8]) -> Result<Vec<u8>> {
    let mut child = Command::new("openssl")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("openssl")?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input)?;
    }
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "openssl {arguments:?} failed");
    Ok(output.stdout)
}

pub(crate) fn spawn(program: &Path, arguments: &[String], log: &Path) -> Result<Process> {
    let log = fs::File::options().create(true).append(true).open(log)?;
    // It ends with us even where we are killed.
    let child = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--"])
        .arg(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .with_context(|| format!("starting {}", program.display()))?;
    Ok(Process(child))
}

/// Ports of this machine on which no process listens.
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut ports = [0; N];
    // All are held until all are known, so that they differ.
    let mut held = Vec::new();
    for port in &mut ports {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}
