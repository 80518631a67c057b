//! `make demo`: a virtual node with four RDMA devices, the agent in it, and its page on a port of this machine.
//!
//! `demo [--fixed]`: the node's IOMMU is in translation mode, the fault that this product was made for, or with
//! `--fixed` in passthrough mode.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rdma_health_tests::virtual_node::{Forward, Options, VirtualNode, built, quote};

/// The agent's port, in the node and, where it is free, here.
const PORT: u16 = 14791;
/// How long the agent may take to listen; everything is emulated.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> Result<()> {
    let fixed = match std::env::args().nth(1).as_deref() {
        None => false,
        Some("--fixed") => true,
        Some(other) => bail!("usage: demo [--fixed], not {other}"),
    };
    let program = built("rdma-health")?;
    let program = quote(program.to_str().context("the path of rdma-health is not UTF-8")?);
    let port = free_port()?;
    let mode = if fixed { "passthrough" } else { "translation" };
    println!("Booting a virtual node: four SoftRoCE HCAs, Intel IOMMU in {mode} mode (about ten seconds) …");
    let node = VirtualNode::boot(&Options {
        kernel_args: if fixed { "iommu=pt".into() } else { String::new() },
        nics: 4,
        lifetime: Duration::from_secs(24 * 3600),
        forward: Some(Forward {
            host: port,
            guest: PORT,
        }),
        ..Options::default()
    })?;
    let agent = node.spawn(&format!("exec {program} agent --listen 0.0.0.0:{PORT}"))?;

    println!("\nvirtual-node # rdma-health check");
    let check = node.run(&format!("{program} check"))?;
    print!("{}{}", check.stdout_text(), check.stderr_text());
    println!("(exit status {})", check.status);

    // QEMU accepts the connection itself, so only an answer tells that the agent is there.
    let end = Instant::now() + PATIENCE;
    while let Err(error) = answers(port) {
        if let Some(status) = agent.status()? {
            bail!(
                "the agent ended with status {status}:\n{}{}",
                agent.stdout()?,
                agent.stderr()?
            );
        }
        ensure!(
            Instant::now() < end,
            "the agent does not answer: {error:#}\n{}",
            agent.stderr()?
        );
        sleep(Duration::from_millis(200));
    }
    println!("\nThe agent in the node answers on");
    println!("    http://127.0.0.1:{port}/          its status page");
    println!("    http://127.0.0.1:{port}/metrics   what Prometheus reads");
    println!("Ctrl-C ends the node.");
    // The node ends with this process, whatever ends that.
    while agent.status()?.is_none() {
        sleep(Duration::from_secs(1));
    }
    bail!("the agent ended:\n{}{}", agent.stdout()?, agent.stderr()?);
}

/// The usual port, or any other where that is taken.
fn free_port() -> Result<u16> {
    let listen = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let listener = listen(PORT).or_else(|_| listen(0)).context("no free port")?;
    Ok(listener.local_addr()?.port())
}

fn answers(port: u16) -> Result<()> {
    use std::io::{Read as _, Write as _};
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut start = [0; 5];
    stream.read_exact(&mut start)?;
    ensure!(&start == b"HTTP/", "no HTTP: {start:?}");
    Ok(())
}
