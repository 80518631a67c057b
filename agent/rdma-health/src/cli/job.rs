//! Which job's process to look at, and reading it.

use std::{path::Path, sync::mpsc, thread, time::Duration};

use anyhow::{Context, bail};
use clap::Args;
use rdma_health_kernel::{
    Root, Scope,
    process::{Found, Process, Wanted, find},
};

use super::{gather::NodeArguments, values};

/// How long reading a process may take. Its files can be in a file system that does not respond.
const PATIENCE: Duration = Duration::from_secs(10);

/// A job on the node, by one of its processes.
#[derive(Debug, Clone, Args)]
pub(super) struct JobArguments {
    /// Also read how a job's process sees the node: its limits, network namespace, RDMA devices, environment and libraries.
    /// Requires the permission to trace the process, for example root
    #[arg(long, value_name = "PID", value_parser = values::process, conflicts_with_all = ["container", "pod", "snapshot"])]
    pid: Option<u32>,
    /// The same for the process of a container with this id, on the container's node
    #[arg(long, value_name = "ID", conflicts_with_all = ["pod", "snapshot"])]
    container: Option<String>,
    /// The same for the process of a pod, on the pod's node
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = pod, conflicts_with = "snapshot")]
    pod: Option<Wanted>,
}

fn pod(text: &str) -> Result<Wanted, String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok(Wanted::Pod {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            })
        }
        _ => Err("expected NAMESPACE/NAME".into()),
    }
}

impl JobArguments {
    /// The process, if one was named.
    ///
    /// # Errors
    /// If there is no such process, container or pod on the node, or reading it does not finish in time.
    pub(super) fn read(&self, node: &NodeArguments) -> anyhow::Result<Option<Process>> {
        if self.pid.is_none() && self.container.is_none() && self.pod.is_none() {
            return Ok(None);
        }
        let (arguments, path) = (self.clone(), node.root().to_owned());
        let (send, receive) = mpsc::channel();
        // If it hangs, the thread ends with the program.
        thread::spawn(move || {
            // No one waits for it any more.
            let _ = send.send(arguments.find_and_read(&path));
        });
        match receive.recv_timeout(PATIENCE) {
            Ok(process) => process.map(Some),
            Err(_) => bail!(
                "reading the job's process did not finish within {} s",
                PATIENCE.as_secs()
            ),
        }
    }

    fn find_and_read(&self, path: &Path) -> anyhow::Result<Process> {
        let root =
            Root::open(path).with_context(|| format!("cannot read the root directory {}", path.display()))?;
        let pid = match (self.pid, self.wanted()) {
            (Some(pid), _) => pid,
            (None, Some((what, wanted))) => match find(&Scope::new(&root), &wanted) {
                Found::Process(pid) => pid,
                Found::Nothing(why) => bail!("{what} not found: {why}"),
            },
            (None, None) => bail!("no process was named"),
        };
        Process::read(&root, path, pid).with_context(|| format!("cannot read process {pid}"))
    }

    /// What to find, with its name in messages.
    fn wanted(&self) -> Option<(String, Wanted)> {
        if let Some(id) = &self.container {
            return Some((format!("container {id}"), Wanted::Container(id.clone())));
        }
        let pod = self.pod.clone()?;
        let Wanted::Pod { namespace, name } = &pod else {
            return None;
        };
        Some((format!("pod {namespace}/{name}"), pod))
    }
}
