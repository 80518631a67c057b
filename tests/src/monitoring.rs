//! A Prometheus and an Alertmanager with the rules and routes of `dashboards/`. Only their waiting times are shorter.

use std::{
    fs::{self, File},
    net::SocketAddr,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result};
use serde_json::json;
use tempfile::TempDir;

use crate::{promtool, running::Running};

/// Where the two servers listen, and where notifications go.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// Of Prometheus.
    pub prometheus: SocketAddr,
    /// Of Alertmanager.
    pub alertmanager: SocketAddr,
    /// Of the receiver of all notifications, see [`crate::notifications`].
    pub receiver: SocketAddr,
}

/// An agent that Prometheus scrapes.
#[derive(Clone, Debug)]
pub struct Target {
    /// Where the agent listens.
    pub address: SocketAddr,
    /// The label `node`.
    pub node: String,
    /// The path of the metrics.
    pub path: String,
}

/// Both servers while they run. They end when this is dropped, and also when the thread ends that started them.
#[derive(Debug)]
pub struct Monitoring {
    // Dropped in this order: the programs write to the folder.
    _programs: [Running; 2],
    folder: TempDir,
}

impl Monitoring {
    /// Starts both, at first without targets. `arguments` are added to the command line of Prometheus.
    ///
    /// # Errors
    /// If they cannot be downloaded or started.
    pub fn start(addresses: &Addresses, arguments: &[String]) -> Result<Self> {
        let Addresses {
            prometheus,
            alertmanager,
            receiver,
        } = addresses;
        let folder = tempfile::Builder::new().prefix("monitoring-").tempdir()?;
        let path = |name: &str| folder.path().join(name).display().to_string();
        fs::write(path("rules.yaml"), rules()?)?;
        fs::write(path("alertmanager.yaml"), routes(*receiver)?)?;
        fs::write(path("nodes.json"), "[]")?;
        fs::write(
            path("prometheus.yaml"),
            format!(
                "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
                 rule_files: [rules.yaml]\n\
                 alerting: {{alertmanagers: [{{static_configs: [{{targets: ['{alertmanager}']}}]}}]}}\n\
                 scrape_configs:\n- job_name: rdma-health\n  \
                 file_sd_configs: [{{files: [nodes.json], refresh_interval: 1s}}]\n"
            ),
        )?;
        let prometheus = start(
            Command::new("setpriv")
                .args(["--pdeathsig", "KILL"])
                .arg(promtool::prometheus()?)
                .arg(format!("--config.file={}", path("prometheus.yaml")))
                .arg(format!("--storage.tsdb.path={}", path("tsdb")))
                .arg(format!("--web.listen-address={prometheus}"))
                .arg("--rules.alert.resend-delay=1s")
                .args(arguments),
            &path("prometheus.log"),
        )?;
        let alertmanager = start(
            Command::new("setpriv")
                .args(["--pdeathsig", "KILL"])
                .arg(promtool::alertmanager()?)
                .arg(format!("--config.file={}", path("alertmanager.yaml")))
                .arg(format!("--storage.path={}", path("alertmanager")))
                .arg(format!("--web.listen-address={alertmanager}"))
                .arg("--cluster.listen-address="),
            &path("alertmanager.log"),
        )?;
        Ok(Self {
            _programs: [prometheus, alertmanager],
            folder,
        })
    }

    /// Lets Prometheus scrape these nodes, and no others, within a second.
    ///
    /// # Errors
    /// If the list cannot be written.
    pub fn scrape(&self, targets: &[Target]) -> Result<()> {
        let target = |target: &Target| {
            json!({"targets": [target.address.to_string()],
                "labels": {"node": target.node, "__metrics_path__": target.path}})
        };
        let list: Vec<_> = targets.iter().map(target).collect();
        let new = self.folder.path().join("nodes.new");
        fs::write(&new, serde_json::to_string(&list)?)?;
        fs::rename(new, self.folder.path().join("nodes.json"))?;
        Ok(())
    }

    /// A new file for the output of an agent, which [`Monitoring::logs`] includes.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn agent_log(&self) -> Result<File> {
        Ok(File::create(self.folder.path().join("agent.log"))?)
    }

    /// The last lines of all logs, for an error message.
    pub fn logs(&self) -> String {
        let log = |name: &str| {
            let text = fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            let last = lines[lines.len().saturating_sub(8)..].join("\n");
            format!("{name}:\n{last}\n")
        };
        ["agent.log", "prometheus.log", "alertmanager.log"]
            .map(log)
            .concat()
    }
}

/// Starts a program whose output goes to a file. Ctrl-C in a terminal does not reach it: it ends with this program.
fn start(command: &mut Command, log: &str) -> Result<Running> {
    let log = File::create(log)?;
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0);
    Running::start(command).with_context(|| format!("starting {command:?}"))
}

fn dashboards(name: &str) -> Result<String> {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../dashboards")
        .join(name);
    fs::read_to_string(&path).with_context(|| path.display().to_string())
}

/// `dashboards/rules.yaml`, but alerts about problems fire after seconds.
fn rules() -> Result<String> {
    let rules = dashboards("rules.yaml")?;
    let group = "  - name: rdma-health.agent\n";
    let (problems, agent) = rules
        .split_once(group)
        .context("dashboards/rules.yaml has no group rdma-health.agent")?;
    let problems = problems
        .replace("for: 2m\n", "for: 1s\n")
        .replace("for: 3m\n", "for: 5s\n")
        .replace("for: 5m\n", "for: 5s\n")
        .replace("keep_firing_for: 10m\n", "keep_firing_for: 4s\n");
    Ok(format!("{problems}{group}{agent}"))
}

/// `dashboards/alertmanager.yaml` with shorter times, and with one receiver.
fn routes(receiver: SocketAddr) -> Result<String> {
    let routes = dashboards("alertmanager.yaml")?;
    Ok(routes
        .replace("group_wait: 30s", "group_wait: 3s")
        .replace("group_interval: 5m", "group_interval: 5s")
        .replace("127.0.0.1:9/", &format!("{receiver}/")))
}
