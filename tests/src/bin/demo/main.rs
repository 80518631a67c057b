//! `make demo`: two virtual nodes with an agent each, one of them with the fault that this product was made for, and a Prometheus
//! and an Alertmanager that notice it.
//!
//! `demo [--fixed] [-- COMMAND…]`: the IOMMU of the first node is in translation mode. With `--fixed`, the node reboots in passthrough mode once
//! the alert has fired, and the alert resolves. With a command, it runs that once all is there to be seen, and ends with it.

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
/// The name of the node with the fault.
const FAULTY: &str = "translated";
/// How often the demo looks for news.
const POLL: Duration = Duration::from_millis(250);

fn main() -> Result<ExitCode> {
    let (fixed, command) = arguments()?;
    let turn = Turn::take()?;
    anstream::println!(
        "Booting two virtual nodes (about twenty seconds). Each has four SoftRoCE adapters.\n  \
         {FAULTY:<10}  Intel IOMMU in translation mode, the kernel's default\n  \
         healthy     Intel IOMMU in passthrough mode (iommu=pt)",
    );
    let [mut first, healthy] = boot(&turn)?;
    let (mut agent, healthy_agent) = (first.start_agent()?, healthy.start_agent()?);

    let mut check = String::new();
    for (node, arguments) in [(&first, &["check"][..]), (&healthy, &["check", "--quiet"])] {
        let text = node.run(arguments)?;
        anstream::print!("\n{text}");
        check = check + "\n" + &text;
    }
    first.wait_for_agent(&agent)?;
    healthy.wait_for_agent(&healthy_agent)?;

    // Until here, the end of this program is enough to end the nodes. Prometheus also leaves files.
    let interrupt = Interrupt::watch()?;
    let (receiver, notifications) = Notifications::receive(|| bail!("only notifications"))?;
    let addresses = Addresses {
        prometheus: loopback(free_port(9090)?),
        alertmanager: loopback(free_port(9093)?),
        receiver,
    };
    let monitoring = Monitoring::start(&addresses, &alerts::pages(addresses.prometheus)?)?;
    let targets = [target(&first), target(&healthy)];
    monitoring.scrape(&targets)?;
    let show = |what: &str, address: SocketAddr, path: &str| {
        anstream::println!("  http://{:<30} {what}", format!("{address}{path}"));
    };
    anstream::println!("\nOpen in a browser:");
    for node in [&first, &healthy] {
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
    let mut done = watch(
        &mut alerts,
        &[&agent, &healthy_agent],
        &interrupt,
        &monitoring,
        Alerts::notified,
    )?;
    if fixed && done {
        alerts.print(&format!("The fix: {FAULTY} reboots with iommu=pt"));
        let port = first.address().port();
        // In this order: an agent needs its node, and the port is free once the node is gone.
        drop(agent);
        drop(first);
        first = Node::boot(&turn, FAULTY, true, port)?;
        agent = first.start_agent()?;
        first.wait_for_agent(&agent)?;
        done = watch(
            &mut alerts,
            &[&agent, &healthy_agent],
            &interrupt,
            &monitoring,
            Alerts::resolved,
        )?;
    }
    let mut status = ExitCode::SUCCESS;
    if let Some(command) = command.filter(|_| done) {
        status = run(&command, &check, &alerts, &targets[0])?;
    } else if done {
        anstream::println!("\nCtrl-C ends everything.");
        watch(
            &mut alerts,
            &[&agent, &healthy_agent],
            &interrupt,
            &monitoring,
            |_| false,
        )?;
    }
    anstream::println!("\nEnding the nodes, Prometheus and Alertmanager.");
    Ok(status)
}

/// Boots both nodes at once, the first one with the fault.
fn boot(turn: &Turn) -> Result<[Node; 2]> {
    let ports = [free_port(PORT)?, free_port(PORT + 1)?];
    thread::scope(|scope| {
        let boot = |name, passthrough, port| scope.spawn(move || Node::boot(turn, name, passthrough, port));
        let booting = [boot(FAULTY, false, ports[0]), boot("healthy", true, ports[1])];
        let [first, second] =
            booting.map(|thread| thread.join().unwrap_or_else(|_| bail!("the boot panicked")));
        Ok([first?, second?])
    })
}

/// Prints what happens until all that is awaited has happened; `false` if Ctrl-C came first.
fn watch(
    alerts: &mut Alerts,
    agents: &[&Job<'_>],
    interrupt: &Interrupt,
    monitoring: &Monitoring,
    done: impl Fn(&Alerts) -> bool,
) -> Result<bool> {
    loop {
        for agent in agents {
            if agent.status()?.is_some() {
                bail!("an agent ended:\n{}{}", agent.stdout()?, agent.stderr()?);
            }
        }
        alerts
            .print_news()
            .with_context(|| format!("Prometheus does not answer\n{}", monitoring.logs()))?;
        if done(alerts) {
            return Ok(true);
        }
        if interrupt.within(POLL) {
            return Ok(false);
        }
    }
}

/// Runs a command that looks at everything. Its exit status is that of the demo.
fn run(command: &[String], check: &str, alerts: &Alerts, page: &Target) -> Result<ExitCode> {
    let status = Command::new(&command[0])
        .args(&command[1..])
        .env("DEMO_CHECK", check)
        .env("DEMO_ALERTS", alerts.printed())
        .env("DEMO_PAGE", format!("http://{}/", page.address))
        .status()
        .with_context(|| format!("starting {}", command[0]))?;
    let code = status.code().unwrap_or(128 + status.signal().unwrap_or(0));
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
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
