//! A cluster with one node: control plane on this machine, kubelet, containerd and runc in a virtual node.
//!
//! The programs come from `tests/kubernetes/prepare node` and `tests/pod`; `KUBEBUILDER_ASSETS` and `CONTAINERD` name directories with
//! other versions. The node's disk outlives the node, so that a test can
//! reboot it with other hardware.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    api_server::{ApiServer, HOST, KUBELET, NODE, Process, free_ports, spawn},
    tunnel,
    virtual_node::{Iommu, Options, VirtualNode, quote},
};

/// How long a step of the cluster may take: a pod that starts, a node that boots. A minute on two idle cores.
pub const PATIENCE: Duration = Duration::from_secs(600);
/// The address of the node, as `tests/pod/node` sets it, and the port of the agent there.
const ADDRESS: &str = "10.0.2.15";
const AGENT: u16 = 14791;
const START: &str = include_str!("../pod/node");

/// Control plane and disk. The node comes and goes with [`Cluster::boot`].
#[derive(Debug)]
pub struct Cluster {
    /// The API server.
    pub api: ApiServer,
    kubeconfig: PathBuf,
    kubelet_port: u16,
    /// The port of this machine that leads to the agent.
    agent_port: u16,
    runtime: PathBuf,
    images: PathBuf,
    disk: TempDir,
    _controllers: Process,
    _scheduler: Process,
}

impl Cluster {
    /// Starts the control plane. `images` has what `tests/pod/images` saved.
    ///
    /// # Errors
    /// If a program is missing or does not start.
    pub fn start(images: &Path) -> Result<Self> {
        let runtime = printed(Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/pod/runtime")))?;
        let api = ApiServer::start_for_nodes()?;
        let (kubeconfig, _) = api.kubeconfig("admin", "admin-of-a-test")?;
        let at = |name: &str| api.directory().join(name).display().to_string();
        let [controllers_port, scheduler_port, kubelet_port, agent_port] = free_ports()?;
        tunnel::serve(&api.egress(), vec![(format!("{ADDRESS}:{AGENT}"), agent_port)])?;
        let started = |program: &str, port: u16, mut options: Vec<String>| {
            options.push(format!("--kubeconfig={}", kubeconfig.display()));
            options.push(format!("--secure-port={port}"));
            options.push("--bind-address=127.0.0.1".into());
            options.push("--leader-elect=false".into());
            options.push(format!("--cert-dir={}", at("certificates")));
            // Later versions have no insecure port.
            if api.version()?.starts_with("v1.20.") {
                options.push("--port=0".into());
            }
            spawn(
                &api.assets().join(program),
                &options,
                &api.directory().join(format!("{program}.log")),
            )
        };
        let controllers = started(
            "kube-controller-manager",
            controllers_port,
            vec![
                format!(
                    "--service-account-private-key-file={}",
                    at("service-accounts.key")
                ),
                format!("--root-ca-file={}", at("ca.crt")),
                "--controllers=*,-nodeipam,-route,-service,-cloud-node-lifecycle".into(),
            ],
        )?;
        let scheduler = started("kube-scheduler", scheduler_port, Vec::new())?;
        let folder = tempfile::Builder::new().prefix("rdma-health-disk-").tempdir()?;
        let disk = Command::new("mkfs.ext4")
            .args(["-q", "-F"])
            .arg(folder.path().join("disk"))
            .arg("3G")
            .output()
            .context("mkfs.ext4")?;
        ensure!(
            disk.status.success(),
            "mkfs.ext4: {}",
            String::from_utf8_lossy(&disk.stderr)
        );
        Ok(Self {
            kubeconfig,
            kubelet_port,
            agent_port,
            runtime,
            images: images.to_owned(),
            disk: folder,
            _controllers: controllers,
            _scheduler: scheduler,
            api,
        })
    }

    /// Boots the node with its disk, and waits until it is ready.
    ///
    /// # Errors
    /// If it does not boot, or its kubelet does not report that it is ready.
    pub fn boot(&self, iommu: Iommu, kernel_args: &str) -> Result<VirtualNode> {
        let disk = self.disk.path().join("disk");
        let (port, agent) = (self.kubelet_port, self.agent_port);
        let node = VirtualNode::boot(&Options {
            iommu,
            kernel_args: kernel_args.into(),
            nics: 2,
            memory_mib: 3072,
            lifetime: Duration::from_secs(3 * 3600),
            qemu_args: [
                "-drive",
                &format!("file={},format=raw,if=none,id=disk", disk.display()),
                "-device",
                "virtio-blk-pci,drive=disk,bus=pcie.0",
                // Another driver than that of the RDMA devices' interfaces, which the node sets up.
                "-netdev",
                &format!(
                    "user,id=cluster,net=10.0.2.0/24,hostfwd=tcp:127.0.0.1:{port}-{ADDRESS}:{port},\
                     hostfwd=tcp:127.0.0.1:{agent}-{ADDRESS}:{AGENT}"
                ),
                "-device",
                "e1000,netdev=cluster,romfile=,bus=pcie.0",
            ]
            .map(str::to_owned)
            .to_vec(),
            modules_added: ["virtio_blk", "ext4", "e1000", "bridge", "veth"]
                .map(str::to_owned)
                .to_vec(),
            ..Options::default()
        })?;
        let authority = fs::read_to_string(self.api.certificate_authority())?;
        node.write_file("/run/node/ca.crt", authority)?;
        node.write_file(
            "/run/node/kubeconfig",
            format!(
                "apiVersion: v1\nkind: Config\ncurrent-context: node\n\
                 clusters: [{{name: node, cluster: {{server: \"https://{HOST}:{}\", certificate-authority: /run/node/ca.crt}}}}]\n\
                 users: [{{name: node, user: {{token: {KUBELET}}}}}]\n\
                 contexts: [{{name: node, context: {{cluster: node, user: node}}}}]\n",
                self.api.port()
            ),
        )?;
        let booted = self.heartbeat();
        let script = format!(
            "kubernetes={} runtime={} containerd={} images={} api_port={} kubelet_port={port}\n{START}",
            quote(&self.api.assets().display().to_string()),
            quote(&self.runtime.display().to_string()),
            quote(&std::env::var("CONTAINERD").unwrap_or_default()),
            quote(&self.images.display().to_string()),
            self.api.port(),
        );
        let started = node.run_within(PATIENCE, &script)?;
        ensure!(
            started.status == 0,
            "starting the kubelet: {}",
            started.stderr_text()
        );
        let ready = self.within("the node is ready", || {
            let condition = self.api.condition(NODE, "Ready").ok().flatten()?;
            let newer = condition["lastHeartbeatTime"].as_str().map(str::to_owned) != booted;
            (newer && condition["status"] == "True").then_some(())
        });
        if let Err(error) = ready {
            bail!("{error:#}\n{}", self.logs(&node));
        }
        Ok(node)
    }

    fn heartbeat(&self) -> Option<String> {
        let ready = self.api.condition(NODE, "Ready").ok().flatten()?;
        ready["lastHeartbeatTime"].as_str().map(str::to_owned)
    }

    /// Ends what a shutdown ends, in its order, and then the node. Its disk is whole.
    ///
    /// # Errors
    /// If the node does not answer.
    pub fn shut_down(&self, node: VirtualNode) -> Result<()> {
        node.run_within(
            PATIENCE,
            "pkill -x kubelet; pkill -TERM -f '^/usr/bin/rdma-health'; sleep 3; pkill -x containerd; sleep 1; sync",
        )?;
        drop(node);
        Ok(())
    }

    /// What the node's services wrote last.
    pub fn logs(&self, node: &VirtualNode) -> String {
        let script = "cd /run/node; tail -n 15 containerd.log | cut -c1-400; grep -E '^[EFW]' kubelet.log | tail -n 25 | cut -c1-400";
        node.run(script).map_or_else(
            |error| error.to_string(),
            |output| output.stdout_text().into_owned(),
        )
    }

    /// Runs kubectl as an administrator.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<Output> {
        let mut kubectl = Command::new(self.api.assets().join("kubectl"));
        kubectl.arg("--kubeconfig").arg(&self.kubeconfig).args(arguments);
        kubectl.output().context("kubectl")
    }

    /// Its configuration file for clients.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Waits for something.
    ///
    /// # Errors
    /// If it does not come true in time.
    pub fn within<T>(&self, what: &str, mut test: impl FnMut() -> Option<T>) -> Result<T> {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = test() {
                return Ok(found);
            }
            ensure!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
            sleep(Duration::from_millis(200));
        }
    }

    /// Pods of a namespace, as JSON.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn pods(&self, namespace: &str) -> Result<Vec<Value>> {
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let list = self.api.must("GET", &path, None)?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }
}

/// The path that a program prints.
fn printed(mut command: Command) -> Result<PathBuf> {
    let output = command.output().context("cannot start")?;
    ensure!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?.trim().into())
}
