//! Measures between two ends in two helper processes, as two agents would: `two_ends HELPER DEVICE DEVICE [--expect-other-bytes]`.
//!
//! Prints the report of the end that writes and that of the one that responds, each as JSON in one line.

use std::{
    io::BufReader,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};
use rdma_health_protocol::{
    Ask, ConnectRequest, Message, OfferRequest, OfferedEnd, Path, Peer, PortKey, ProbeReport, ProbeRequest,
    RemotePort, Reply, Request, Role,
    frame::{read, write},
};

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let (helper, near, far, other_bytes) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..]
    {
        [helper, near, far] => (helper, near, far, false),
        [helper, near, far, "--expect-other-bytes"] => (helper, near, far, true),
        _ => bail!("usage: two_ends HELPER DEVICE DEVICE [--expect-other-bytes]"),
    };
    let mut writer = Helper::start(helper)?;
    let mut responder = Helper::start(helper)?;
    let mut a = writer.offer(Role::Write, near, far)?;
    let b = responder.offer(Role::Respond, far, near)?;
    writer.connect(&a, &b)?;
    if other_bytes {
        a.address.pattern = !a.address.pattern;
    }
    responder.connect(&b, &a)?;
    // The end that responds begins to wait; its answer comes when the other has written all.
    responder.ask(Ask::Measure(b.end))?;
    writer.ask(Ask::Measure(a.end))?;
    for helper in [&mut writer, &mut responder] {
        println!("{}", serde_json::to_string(&helper.report()?)?);
    }
    Ok(())
}

/// A helper process, killed when dropped.
struct Helper {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Helper {
    fn start(program: &str) -> Result<Self> {
        let mut process = Command::new(program)
            .arg("stdio")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {program}"))?;
        let input = process.stdin.take().context("no standard input")?;
        let output = process.stdout.take().context("no standard output")?;
        Ok(Self {
            process,
            input,
            output: BufReader::new(output),
        })
    }

    fn ask(&mut self, ask: Ask) -> Result<()> {
        Ok(write(&mut self.input, &Request { id: 1, ask })?)
    }

    fn reply(&mut self) -> Result<Reply> {
        loop {
            if let Message::Response(response) = read(&mut self.output)? {
                return Ok(response.reply);
            }
        }
    }

    fn offer(&mut self, role: Role, from: &str, to: &str) -> Result<OfferedEnd> {
        let port = |device: &str| PortKey {
            device: device.to_owned(),
            port: 1,
        };
        let probe = ProbeRequest {
            path: Path {
                from: port(from),
                to: Peer::Remote(RemotePort {
                    node: "another".into(),
                    port: port(to),
                }),
            },
            message_size: 65_536,
            depth: 16,
            queue_pairs: 3,
            byte_budget: 4 << 20,
            time_budget_ms: 20_000,
            latency_samples: 100,
            latency_size: 8,
            gid_index: None,
            even_if_busy: true,
            memory_node: None,
            busy_bytes_per_second: u64::MAX,
        };
        self.ask(Ask::Offer(OfferRequest { role, probe }))?;
        match self.reply()? {
            Reply::Offer(Ok(end)) => Ok(end),
            other => bail!("no end was offered: {other:?}"),
        }
    }

    fn connect(&mut self, end: &OfferedEnd, to: &OfferedEnd) -> Result<()> {
        let request = ConnectRequest {
            end: end.end,
            to: to.address.clone(),
        };
        self.ask(Ask::Connect(request))?;
        let reply = self.reply()?;
        ensure!(reply == Reply::Connect(None), "not connected: {reply:?}");
        Ok(())
    }

    fn report(&mut self) -> Result<ProbeReport> {
        match self.reply()? {
            Reply::Probe(report) => Ok(*report),
            other => bail!("no report: {other:?}"),
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
