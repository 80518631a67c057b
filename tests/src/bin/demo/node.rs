//! A virtual node with an agent.

use std::{
    net::{Ipv4Addr, SocketAddr},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use rdma_health_tests::{
    scrape,
    virtual_node::{Forward, Job, Options, Turn, VirtualNode, built, quote},
};

use crate::{POLL, PORT};

/// How long the agent may take to listen; everything is emulated.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Node {
    machine: VirtualNode,
    name: &'static str,
    address: SocketAddr,
}

impl Node {
    /// Boots a node, the port of whose agent becomes `port` of this machine.
    pub(crate) fn boot(turn: &Turn, name: &'static str, passthrough: bool, port: u16) -> Result<Self> {
        let machine = turn.boot(&Options {
            hostname: name.to_owned(),
            kernel_args: if passthrough {
                "iommu=pt".into()
            } else {
                String::new()
            },
            nics: 4,
            lifetime: Duration::from_secs(24 * 3600),
            forward: Some(Forward {
                host: port,
                guest: PORT,
            }),
            ..Options::default()
        })?;
        Ok(Self {
            machine,
            name,
            address: (Ipv4Addr::LOCALHOST, port).into(),
        })
    }

    /// Its host name.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Where its agent answers.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn start_agent(&self) -> Result<Job<'_>> {
        let program = program()?;
        self.machine
            .spawn(&format!("exec {program} agent --listen 0.0.0.0:{PORT}"))
    }

    /// What a terminal of this node shows when a user runs `rdma-health`, with colours.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<String> {
        let (program, arguments) = (program()?, arguments.join(" "));
        let output = self
            .machine
            .run(&format!("CLICOLOR_FORCE=1 {program} {arguments}"))?;
        Ok(format!(
            "{} # rdma-health {arguments}\n{}{}(exit status {})\n",
            self.name,
            output.stdout_text(),
            output.stderr_text(),
            output.status
        ))
    }

    /// Waits until the agent answers.
    pub(crate) fn wait_for_agent(&self, agent: &Job<'_>) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        // QEMU accepts the connection itself, so only an answer proves that the agent is there.
        while let Err(error) = scrape::get(self.address, "/", Duration::from_secs(5)) {
            if let Some(status) = agent.status()? {
                let (out, err) = (agent.stdout()?, agent.stderr()?);
                bail!("the agent ended with status {status}:\n{out}{err}");
            }
            if Instant::now() > end {
                let log = agent.stderr()?;
                return Err(error.context(format!("the agent does not answer\n{log}")));
            }
            sleep(POLL);
        }
        Ok(())
    }
}

/// The program under its path on this machine, which the node sees.
fn program() -> Result<String> {
    let path = built("rdma-health")?;
    Ok(quote(
        path.to_str().context("the path of rdma-health is not UTF-8")?,
    ))
}
