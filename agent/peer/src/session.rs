//! The connecting node: drives the measurement of each rail.

use std::{net::SocketAddr, time::Duration};

use rdma_health_helper::{Failure, Helper};
use rdma_health_protocol::{EndAddress, OfferRequest, Path, Peer, PortKey, ProbeRequest, RemotePort, Role};
use serde::{Deserialize, Serialize};
use tokio::{net::TcpStream, time::timeout};

use crate::{
    channel::{Channel, ChannelError, PROMPT},
    measured::{Direction, EndResult, Measurement, RailResult},
    message::{Answer, Ask, Introduction, Open},
    rail::Rail,
    token::Token,
};

/// How much longer the end that responds waits: it begins first, and has the last word.
const RESPONDER_EXTRA: Duration = Duration::from_secs(2);
/// Extra time for an answer of the other node beyond what it may take itself.
pub(crate) const ANSWER_GRACE: Duration = Duration::from_secs(10);
/// How long the other node may take to read which ports it has.
const INTRODUCTION: Duration = Duration::from_secs(30);
/// The longest time budget of a probe in milliseconds.
const MAX_TIME_MS: u64 = 600_000;

/// What is measured on each rail. Both nodes use the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Size of one bandwidth message in bytes.
    pub message_size: u32,
    /// Outstanding writes on each queue pair.
    pub depth: u32,
    /// Bytes to write at most, in each direction.
    pub byte_budget: u64,
    /// The longest time for opening, connecting and measuring each, in milliseconds.
    pub time_budget_ms: u64,
    /// Small writes of the latency part.
    pub latency_samples: u32,
    /// Their size in bytes.
    pub latency_size: u32,
}

/// This node's part: its helper, and what only this node decides.
#[derive(Debug, Clone)]
pub struct Own {
    /// This node and the ports that it offers.
    pub introduction: Introduction,
    /// The verbs helper.
    pub helper: Helper,
    /// The GID index to use instead of the best one.
    pub gid_index: Option<u32>,
    /// Measure even ports that carry traffic.
    pub even_if_busy: bool,
    /// A port counts as busy from this many bytes per second on.
    pub busy_bytes_per_second: u64,
}

/// An open end of this node.
pub(crate) struct OwnEnd {
    number: u64,
    pub(crate) address: EndAddress,
    within: Duration,
}

impl Own {
    /// Opens an end on a port of this node.
    pub(crate) async fn open(
        &self,
        port: &PortKey,
        to: RemotePort,
        role: Role,
        plan: &Plan,
        queue_pairs: u32,
    ) -> Result<OwnEnd, EndResult> {
        let mut within = Duration::from_millis(plan.time_budget_ms);
        if role == Role::Respond {
            within += RESPONDER_EXTRA;
        }
        let time = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        let probe = ProbeRequest {
            path: Path {
                from: port.clone(),
                to: Peer::Remote(to),
            },
            message_size: plan.message_size,
            depth: plan.depth,
            queue_pairs,
            byte_budget: plan.byte_budget,
            time_budget_ms: time.min(MAX_TIME_MS),
            latency_samples: plan.latency_samples,
            latency_size: plan.latency_size,
            gid_index: self.gid_index,
            even_if_busy: self.even_if_busy,
            memory_node: None,
            busy_bytes_per_second: self.busy_bytes_per_second,
        };
        match self.helper.offer(OfferRequest { role, probe }, within).await {
            Ok(Ok(offered)) => Ok(OwnEnd {
                number: offered.end,
                address: offered.address,
                within,
            }),
            Ok(Err(report)) => Err(EndResult::Report(report)),
            Err(failure) => Err(failed(&failure)),
        }
    }

    /// Connects an end. Returns how far it got if that failed.
    pub(crate) async fn connect(&self, end: &OwnEnd, to: EndAddress) -> Option<EndResult> {
        match self.helper.connect(end.number, to, end.within).await {
            Ok(failed) => failed.map(EndResult::Report),
            Err(failure) => Some(failed(&failure)),
        }
    }

    /// Does this end's part of the measurement.
    pub(crate) async fn measure(&self, end: OwnEnd) -> EndResult {
        match self.helper.measure(end.number, end.within).await {
            Ok(report) => EndResult::Report(Box::new(report)),
            Err(failure) => failed(&failure),
        }
    }
}

fn failed(failure: &Failure) -> EndResult {
    EndResult::error(failure)
}

/// A connection to a node that listens.
#[derive(Debug)]
pub struct Session {
    channel: Channel,
    /// The other node and its ports.
    pub peer: Introduction,
}

/// Connects to a node that listens.
///
/// # Errors
/// [`ChannelError`].
pub async fn connect(address: SocketAddr, token: &Token, own: &Own) -> Result<Session, ChannelError> {
    let stream = timeout(PROMPT, TcpStream::connect(address)).await;
    let stream = stream.map_err(|_| ChannelError::Io(std::io::ErrorKind::TimedOut.into()))??;
    let mut channel = Channel::connect(stream, token).await?;
    channel.send(&Ask::Introduce(own.introduction.clone())).await?;
    match channel.receive(INTRODUCTION).await? {
        Answer::Introduce(peer) => Ok(Session { channel, peer }),
        other => Err(ChannelError::Unexpected(other.name())),
    }
}

impl Session {
    /// Measures one rail, first from this node to the other, then back. The second direction is left out if the first failed:
    /// a reliable connection needs both.
    ///
    /// # Errors
    /// [`ChannelError`]; a measurement that fails is a result.
    pub async fn measure(
        &mut self,
        own: &Own,
        rail: &Rail,
        plan: &Plan,
        queue_pairs: u32,
    ) -> Result<RailResult, ChannelError> {
        let mut result = RailResult {
            here: rail.here.clone(),
            there: rail.there.clone(),
            matched_by: rail.by.clone(),
            queue_pairs,
            out: None,
            back: None,
        };
        let [here, there] = self.direction(own, rail, plan, queue_pairs, Role::Write).await?;
        let out = Direction {
            writer: here,
            responder: there,
        };
        let is_measured = out.writer.report().is_some_and(|report| report.failure.is_none());
        result.out = Some(out);
        if is_measured {
            let [here, there] = self
                .direction(own, rail, plan, queue_pairs, Role::Respond)
                .await?;
            result.back = Some(Direction {
                writer: there,
                responder: here,
            });
        }
        Ok(result)
    }

    /// Measures one direction; what the end here and the end there reported.
    async fn direction(
        &mut self,
        own: &Own,
        rail: &Rail,
        plan: &Plan,
        queue_pairs: u32,
        role: Role,
    ) -> Result<[EndResult; 2], ChannelError> {
        let open = Open {
            port: rail.there.port.clone(),
            to: rail.here.port.clone(),
            role: match role {
                Role::Write => Role::Respond,
                Role::Respond => Role::Write,
            },
            plan: *plan,
            queue_pairs,
        };
        let patience = Duration::from_millis(plan.time_budget_ms) + RESPONDER_EXTRA + ANSWER_GRACE;
        // Both ends at the same time: one that waits too long for the other is closed.
        let to = RemotePort {
            node: self.peer.node.clone(),
            port: rail.there.port.clone(),
        };
        let (here, there) = tokio::join!(
            own.open(&rail.here.port, to, role, plan, queue_pairs),
            self.ask(Ask::Open(open), patience)
        );
        let there = match there? {
            Answer::Open(opened) => opened,
            other => return Err(ChannelError::Unexpected(other.name())),
        };
        let (here, there) = match (here, there) {
            (Ok(here), Ok(there)) => (here, there),
            (here, there) => return Ok([here.err(), there.err()].map(|end| end.unwrap_or(EndResult::NotRun))),
        };
        let (connected, answer) = tokio::join!(
            own.connect(&here, there),
            self.ask(Ask::Connect(here.address.clone()), patience)
        );
        match (connected, answer?) {
            (None, Answer::Connect(None)) => {}
            (here, Answer::Connect(there)) => {
                return Ok([here, there].map(|end| end.unwrap_or(EndResult::NotRun)));
            }
            (_, other) => return Err(ChannelError::Unexpected(other.name())),
        }
        let measured = async { Ok(own.measure(here).await) };
        let (here, there) = tokio::try_join!(measured, self.ask(Ask::Measure, patience))?;
        match there {
            Answer::Measure(there) => Ok([here, there]),
            other => Err(ChannelError::Unexpected(other.name())),
        }
    }

    async fn ask(&mut self, ask: Ask, within: Duration) -> Result<Answer, ChannelError> {
        self.channel.send(&ask).await?;
        self.channel.receive(within).await
    }

    /// Shows the other node what came of all rails.
    ///
    /// # Errors
    /// [`ChannelError`].
    pub async fn finish(mut self, measurement: Measurement) -> Result<(), ChannelError> {
        self.channel.send(&Ask::Finish(Box::new(measurement))).await
    }
}
