//! A server whose CPU time and memory are measured.

use std::{
    fs,
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};

/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(20);

/// The unit of systemd for the agent. The chart sets the same variables for its allocator.
const UNIT: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../deploy/systemd/rdma-health.service"
));

/// The command of an agent, with the environment that it has where it is installed.
pub fn agent(program: &Path) -> Command {
    let mut command = Command::new(program);
    let variables = UNIT.lines().filter_map(|line| line.strip_prefix("Environment="));
    command.envs(variables.filter_map(|variable| variable.split_once('=')));
    command.arg("agent");
    command
}

/// A server, which ends with this value.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Server {
    /// Starts a server and waits until it listens on `address`. Its standard error is the command's.
    ///
    /// # Errors
    /// If it cannot be started or does not listen in time.
    pub fn start(mut command: Command, address: SocketAddr) -> Result<Self> {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {}", command.get_program().display()))?;
        let server = Self { child, address };
        let end = Instant::now() + PATIENCE;
        while TcpStream::connect(address).is_err() {
            ensure!(
                Instant::now() < end,
                "{} does not listen",
                command.get_program().display()
            );
            sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// CPU time of all threads so far, in nanoseconds (`/proc/PID/task/TID/schedstat`). A thread that has ended no longer counts.
    ///
    /// # Errors
    /// If the server has ended.
    pub fn cpu(&self) -> Result<u64> {
        let mut sum = 0;
        for task in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let text = fs::read_to_string(task?.path().join("schedstat"))?;
            let time = text.split(' ').next().context("an empty schedstat")?;
            sum += time.parse::<u64>()?;
        }
        Ok(sum)
    }

    /// Resident memory now and at most so far, in megabytes (`VmRSS`, `VmHWM`).
    ///
    /// # Errors
    /// If the server has ended.
    pub fn memory(&self) -> Result<(f64, f64)> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let field = |name: &str| -> Result<f64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next());
            let kibibytes: f64 = number.with_context(|| format!("no {name}"))?.parse()?;
            Ok(kibibytes * 1024.0 / 1e6)
        };
        Ok((field("VmRSS:")?, field("VmHWM:")?))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_sets_the_same_variables_of_the_allocator() {
        let chart = include_str!("../../deploy/helm/rdma-health/templates/daemonset.yaml");
        let command = agent(Path::new("rdma-health"));
        let variables: Vec<_> = command.get_envs().collect();
        assert!(!variables.is_empty());
        for (name, value) in variables {
            let (name, value) = (name.display(), value.unwrap_or_default().display());
            let line = format!("- {{name: {name}, value: \"{value}\"}}");
            assert!(chart.contains(&line), "{line}");
        }
    }
}
