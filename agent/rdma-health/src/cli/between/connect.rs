//! The node that connects: measures with one listening node after the other.

use std::{net::SocketAddr, time::Duration};

use anyhow::Context;
use rdma_health_config::Config;
use rdma_health_node::words::{printable, write_json};
use rdma_health_peer::{
    ChannelError, Measurement, Own, Plan, Rail, Rails, Session, Token, connect, match_rails,
};
use rdma_health_protocol::queue_pairs_for;
use rdma_health_rules::Status;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::{Output, Show, worse};
use crate::{
    cli::{gather::progress, probe},
    helper::probe_request,
};

/// How long the lookup of a name may take.
const LOOKUP: Duration = Duration::from_secs(10);
/// Pause between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(500);

/// What is measured.
pub(super) struct Settings {
    plan: Plan,
    /// `None`: by the rate of the ports.
    queue_pairs: Option<u32>,
    /// Whether the user named ports of this node. Then the other node may have more.
    is_restricted: bool,
}

impl Settings {
    pub(super) fn new(arguments: &probe::Arguments, config: &Config) -> Self {
        let mut request = probe_request(&config.probe, "", 1, None);
        arguments.sizes.apply(&mut request);
        Self {
            plan: Plan {
                message_size: request.message_size,
                depth: request.depth,
                byte_budget: request.byte_budget,
                time_budget_ms: request.time_budget_ms,
                latency_samples: request.latency_samples,
                latency_size: request.latency_size,
            },
            queue_pairs: arguments.sizes.queue_pairs.or(config.probe.queue_pairs),
            is_restricted: !arguments.targets.is_empty(),
        }
    }

    /// As many as the faster of two ports needs for its slower one.
    fn queue_pairs(&self, rail: &Rail) -> u32 {
        let rates = [rail.here.capacity, rail.there.capacity].into_iter().flatten();
        self.queue_pairs
            .unwrap_or_else(|| queue_pairs_for(rates.min().unwrap_or_default()))
    }
}

pub(super) async fn run(
    hosts: &[(String, u16)],
    wait: Option<Duration>,
    token: &Token,
    own: &Own,
    settings: &Settings,
    show: &Show,
) -> anyhow::Result<Status> {
    let mut worst = Status::Ok;
    let mut documents = Vec::new();
    for (host, port) in hosts {
        let measured = one(host, *port, wait, token, own, settings).await;
        progress("");
        let (status, document) = match measured {
            Ok((measurement, None)) => show.write(&measurement)?,
            Ok((measurement, Some(broken))) => {
                let (status, mut document) = show.write(&measurement)?;
                let error = format!("{host}: {broken}");
                anstream::eprintln!("rdma-health: {}", printable(&error));
                document["error"] = json!(error);
                (worse(status, Status::Unknown), document)
            }
            Err(error) => {
                let error = format!("{host}: {error:#}");
                anstream::eprintln!("rdma-health: {}", printable(&error));
                (
                    Status::Unknown,
                    json!({"there": host, "status": Status::Unknown, "error": error}),
                )
            }
        };
        worst = worse(worst, status);
        documents.push(document);
    }
    if show.output == Output::Json {
        let mut out = crate::cli::output::stdout();
        write_json(&mut out, &Value::Array(documents))?;
    }
    Ok(worst)
}

/// Measures with one node. Where it vanishes on the way, returns what was measured until then with the reason.
async fn one(
    host: &str,
    port: u16,
    wait: Option<Duration>,
    token: &Token,
    own: &Own,
    settings: &Settings,
) -> anyhow::Result<(Measurement, Option<String>)> {
    let until = Instant::now() + wait.unwrap_or_default();
    let mut session = loop {
        match open(host, port, token, own).await {
            Ok(session) => break session,
            Err(error) if is_temporary(&error) && Instant::now() < until => {
                progress(&format!("waiting for {host}: {error:#}"));
                sleep(PAUSE).await;
            }
            Err(error) => return Err(error),
        }
    };
    let Rails {
        rails,
        only_here,
        only_there,
    } = match_rails(&own.introduction.ports, &session.peer.ports);
    let mut measurement = Measurement {
        here: own.introduction.node.clone(),
        there: session.peer.node.clone(),
        rails: Vec::new(),
        only_here,
        only_there: if settings.is_restricted {
            Vec::new()
        } else {
            only_there
        },
    };
    if rails.is_empty() {
        let error = no_rail(own, &session);
        session.finish(measurement).await?;
        anyhow::bail!("{error}");
    }
    for (n, rail) in rails.iter().enumerate() {
        let step = format!(
            "measuring {} with {host} ({} of {})",
            rail.here.port,
            n + 1,
            rails.len()
        );
        progress(&step);
        let queue_pairs = settings.queue_pairs(rail);
        match session.measure(own, rail, &settings.plan, queue_pairs).await {
            Ok(result) => measurement.rails.push(result),
            Err(error) => {
                let broken = format!(
                    "{error}, while {} was measured; {} of {} rails were measured",
                    rail.here.port,
                    n,
                    rails.len()
                );
                return Ok((measurement, Some(broken)));
            }
        }
    }
    let finished = session.finish(measurement.clone()).await;
    Ok((measurement, finished.err().map(|error| error.to_string())))
}

/// Whether it may be different a moment later.
fn is_temporary(error: &anyhow::Error) -> bool {
    let channel = error.downcast_ref::<ChannelError>();
    channel.is_some_and(|error| matches!(error, ChannelError::Io(_) | ChannelError::Busy))
}

async fn open(host: &str, port: u16, token: &Token, own: &Own) -> anyhow::Result<Session> {
    let found = timeout(LOOKUP, tokio::net::lookup_host((host, port)));
    let found = found.await.context("the lookup of its address takes too long")?;
    let addresses: Vec<SocketAddr> = found.context("its address was not found")?.collect();
    let mut last = None;
    for address in addresses {
        match connect(address, token, own).await {
            Ok(session) => return Ok(session),
            Err(error @ ChannelError::Io(_)) => {
                let refused = matches!(&error, ChannelError::Io(io) if io.kind() == std::io::ErrorKind::ConnectionRefused);
                let hint = if refused {
                    "; is rdma-health probe --listen running there?"
                } else {
                    ""
                };
                let where_to = format!("cannot connect to {address}{hint}");
                last = Some(anyhow::Error::new(error).context(where_to));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(last.unwrap_or_else(|| anyhow::anyhow!("it has no address")))
}

fn no_rail(own: &Own, session: &Session) -> String {
    let listed = |introduction: &rdma_health_peer::Introduction| {
        let one = |port: &rdma_health_peer::PortOffer| {
            format!(
                "{} ({}{}{})",
                port.port,
                port.link_layer.name(),
                if port.subnets.is_empty() { "" } else { ", " },
                port.subnets.join(", ")
            )
        };
        let ports: Vec<_> = introduction.ports.iter().map(one).collect();
        format!("{} has {}", introduction.node, ports.join(", "))
    };
    format!(
        "no port of the two nodes has a counterpart with the same link layer and subnet: {}; {}",
        listed(&own.introduction),
        listed(&session.peer)
    )
}
