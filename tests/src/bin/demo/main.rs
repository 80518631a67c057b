//! `make demo`: two virtual nodes with an agent each, one of them with the fault that this product was made for, and a Prometheus
//! and an Alertmanager that notice it.
//!
//! `demo [--fixed] [-- COMMAND…]`: the IOMMU of the first node is in translation mode, or with `--fixed` in passthrough mode as on
//! the second one. With a command, it runs that once all is there to be seen, and ends with it.

mod alerts;
mod interrupt;
mod node;

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::unix::process::ExitStatusExt as _,
    process::{Command, ExitCode},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use rdma_health_tests::{
    monitoring::{Addresses, Monitoring, Target},
    notifications::Notifications,
    virtual_node::{Job, Turn},
};

use self::{alerts::Alerts, interrupt::Interrupt, node::Node};

/// The agent's port in the nodes. Here it is the port of the first node's agent if no other program uses it.
const PORT: u16 = 14791;
/// How long nothing must happen before everything has been seen without a fault.
const QUIET: Duration = Duration::from_secs(15);
/// How often the demo looks for news.
const POLL: Duration = Duration::from_millis(250);

fn main() -> Result<ExitCode> {
    let (fixed, command) = arguments()?;
    let (first, mode) = if fixed {
        ("fixed", "passthrough")
    } else {
        ("translated", "translation")
    };
    let turn = Turn::take()?;
    anstream::println!(
        "Booting two virtual nodes (about twenty seconds). Each has four SoftRoCE adapters.\n  \
         {first:<10}  Intel IOMMU in {mode} mode{}\n  healthy     Intel IOMMU in passthrough mode (iommu=pt)",
        if fixed {
            " (iommu=pt)"
        } else {
            ", the kernel's default"
        }
    );
    let nodes = boot(&turn, first, fixed)?;
    let agents = nodes.iter().map(Node::start_agent).collect::<Result<Vec<_>>>()?;

    let mut checks = nodes.iter().zip([&["check"][..], &["check", "--quiet"]]);
    let check = checks.try_fold(String::new(), |all, (node, arguments)| {
        let text = node.run(arguments)?;
        anstream::print!("\n{text}");
        anyhow::Ok(all + "\n" + &text)
    })?;
    for (node, agent) in nodes.iter().zip(&agents) {
        node.wait_for_agent(agent)?;
    }

    // Until here, the end of this program is enough to end the nodes. Prometheus also leaves files.
    let interrupt = Interrupt::watch()?;
    let (receiver, notifications) = Notifications::receive(|| bail!("only notifications"))?;
    let addresses = Addresses {
        prometheus: loopback(free_port(9090)?),
        alertmanager: loopback(free_port(9093)?),
        receiver,
    };
    let monitoring = Monitoring::start(&addresses, &alerts::pages(addresses.prometheus)?)?;
    let targets: Vec<_> = nodes.iter().map(target).collect();
    monitoring.scrape(&targets)?;
    let show = |what: &str, address: SocketAddr, path: &str| {
        anstream::println!("  http://{:<30} {what}", format!("{address}{path}"));
    };
    anstream::println!("\nOpen in a browser:");
    for node in &nodes {
        show(&format!("the agent of {}", node.name()), node.address(), "/");
    }
    show(
        "the alerts in Prometheus",
        addresses.prometheus,
        "/classic/alerts",
    );
    show(
        "the alerts in Alertmanager, as JSON",
        addresses.alertmanager,
        "/api/v2/alerts",
    );
    anstream::println!(
        "\nPrometheus reads both agents every second. Waiting times are seconds here, not minutes."
    );

    let mut alerts = Alerts::new(addresses.prometheus, notifications);
    let status = watch(&mut alerts, &agents, &interrupt, fixed, &monitoring, |alerts| {
        command.as_deref().map(|command| {
            let mut run = Command::new(&command[0]);
            run.args(&command[1..])
                .env("DEMO_CHECK", &check)
                .env("DEMO_ALERTS", alerts.printed())
                .env("DEMO_PAGE", format!("http://{}/", targets[0].address));
            run
        })
    })?;
    anstream::println!("\nEnding the nodes, Prometheus and Alertmanager.");
    Ok(status)
}

/// Boots both nodes at once. The first one is in passthrough mode if it is fixed.
fn boot(turn: &Turn, first: &'static str, fixed: bool) -> Result<Vec<Node>> {
    let ports = [free_port(PORT)?, free_port(PORT + 1)?];
    thread::scope(|scope| {
        let boot = |name, passthrough, port| scope.spawn(move || Node::boot(turn, name, passthrough, port));
        let booting = [boot(first, fixed, ports[0]), boot("healthy", true, ports[1])];
        let booted = booting.map(|thread| thread.join().unwrap_or_else(|_| bail!("the boot panicked")));
        booted.into_iter().collect()
    })
}

/// Prints what happens until Ctrl-C, or until the command that `ready` returns has ended.
fn watch(
    alerts: &mut Alerts,
    agents: &[Job<'_>],
    interrupt: &Interrupt,
    fixed: bool,
    monitoring: &Monitoring,
    ready: impl Fn(&Alerts) -> Option<Command>,
) -> Result<ExitCode> {
    let mut is_ready = false;
    loop {
        for agent in agents {
            if agent.status()?.is_some() {
                bail!("an agent ended:\n{}{}", agent.stdout()?, agent.stderr()?);
            }
        }
        alerts
            .print_news()
            .with_context(|| format!("Prometheus does not answer\n{}", monitoring.logs()))?;
        if !is_ready && (alerts.notified() || fixed && alerts.elapsed() > QUIET) {
            is_ready = true;
            if fixed {
                alerts.print("no alert");
            }
            if let Some(mut command) = ready(alerts) {
                let status = command
                    .status()
                    .with_context(|| format!("starting {command:?}"))?;
                let code = status.code().unwrap_or(128 + status.signal().unwrap_or(0));
                return Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)));
            }
            anstream::println!("\nCtrl-C ends everything.");
        }
        if interrupt.within(POLL) {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

fn arguments() -> Result<(bool, Option<Vec<String>>)> {
    let all: Vec<String> = std::env::args().skip(1).collect();
    let (options, command) = match all.iter().position(|word| word == "--") {
        Some(at) if at + 1 < all.len() => (&all[..at], Some(all[at + 1..].to_vec())),
        Some(_) => bail!("no command after --"),
        None => (&all[..], None),
    };
    match options {
        [] => Ok((false, command)),
        [option] if option == "--fixed" => Ok((true, command)),
        _ => bail!("usage: demo [--fixed] [-- COMMAND...]"),
    }
}

fn target(node: &Node) -> Target {
    Target {
        address: node.address(),
        node: node.name().to_owned(),
        path: "/metrics".to_owned(),
    }
}

fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// The usual port, or any other if that is in use.
fn free_port(usual: u16) -> Result<u16> {
    let listen = |port| TcpListener::bind(loopback(port));
    let listener = listen(usual).or_else(|_| listen(0)).context("no free port")?;
    Ok(listener.local_addr()?.port())
}
