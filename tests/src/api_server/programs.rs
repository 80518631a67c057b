//! The programs: where they are, and children that do not outlive us.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};

/// A child that does not outlive us.
#[derive(Debug)]
pub(crate) struct Process(pub(super) Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Where the programs are.
pub(super) fn assets() -> Result<PathBuf> {
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
