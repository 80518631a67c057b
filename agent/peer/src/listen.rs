//! The listening node: admits one other node at a time, and answers it.

use std::{sync::Arc, time::Duration};

use rdma_health_protocol::{EndAddress, RemotePort};
use tokio::{
    net::TcpStream,
    sync::{Mutex, OwnedMutexGuard},
};

use crate::{
    channel::{Channel, ChannelError},
    measured::{EndResult, Measurement},
    message::{Answer, Ask, Introduction, Open},
    session::{ANSWER_GRACE, Own, OwnEnd},
    token::Token,
};

/// How long the connecting node may take between two questions, beyond the time budget of its probe.
const IDLE: Duration = Duration::from_secs(30);

/// Another node that proved that it knows the token. No other is admitted while this exists.
#[derive(Debug)]
pub struct Admission {
    channel: Channel,
    _turn: OwnedMutexGuard<()>,
}

/// The handshake with a node that has connected. Of several nodes, `turns` admits one at a time.
///
/// # Errors
/// [`ChannelError`]; [`ChannelError::Busy`] if another node is being measured.
pub async fn admit(
    stream: TcpStream,
    token: &Token,
    turns: Arc<Mutex<()>>,
) -> Result<Admission, ChannelError> {
    let accepted = Channel::accept(stream, token).await?;
    let Ok(turn) = turns.try_lock_owned() else {
        accepted.refuse().await?;
        return Err(ChannelError::Busy);
    };
    Ok(Admission {
        channel: accepted.admit().await?,
        _turn: turn,
    })
}

/// Answers the other node until it has finished. Returns who it is, and what came of it as this node sees it.
///
/// # Errors
/// [`ChannelError`]: the other node vanished, or sent something else than a question.
pub async fn serve(admission: Admission, own: &Own) -> Result<Measurement, ChannelError> {
    let Admission { mut channel, _turn } = admission;
    let Ask::Introduce(peer) = channel.receive(IDLE).await? else {
        return Err(ChannelError::Unexpected("a question before its introduction"));
    };
    channel.send(&Answer::Introduce(own.introduction.clone())).await?;
    let mut patience = IDLE;
    let mut end: Option<OwnEnd> = None;
    loop {
        let answer = match channel.receive(patience).await? {
            Ask::Introduce(_) => return Err(ChannelError::Unexpected("a second introduction")),
            Ask::Open(open) => {
                // The helper closes an earlier end that is asked nothing more.
                patience = IDLE + Duration::from_millis(open.plan.time_budget_ms.min(600_000)) + ANSWER_GRACE;
                let opened = opened(own, &peer, open).await;
                Answer::Open(opened.map(|opened| end.insert(opened).address.clone()))
            }
            Ask::Connect(to) => Answer::Connect(connected(own, end.as_ref(), to).await),
            Ask::Measure => Answer::Measure(match end.take() {
                Some(end) => own.measure(end).await,
                None => EndResult::error(&"no end is open"),
            }),
            Ask::Finish(measurement) => {
                // The names are what the two nodes said at the start.
                return Ok(Measurement {
                    here: own.introduction.node.clone(),
                    there: peer.node,
                    ..measurement.mirrored()
                });
            }
        };
        channel.send(&answer).await?;
    }
}

async fn opened(own: &Own, peer: &Introduction, open: Open) -> Result<OwnEnd, EndResult> {
    let offered = own.introduction.ports.iter().any(|offer| offer.port == open.port);
    if !offered {
        let refused = format!("{} does not offer {}", own.introduction.node, open.port);
        return Err(EndResult::error(&refused));
    }
    let to = RemotePort {
        node: peer.node.clone(),
        port: open.to,
    };
    own.open(&open.port, to, open.role, &open.plan, open.queue_pairs)
        .await
}

async fn connected(own: &Own, end: Option<&OwnEnd>, to: EndAddress) -> Option<EndResult> {
    match end {
        Some(end) => own.connect(end, to).await,
        None => Some(EndResult::error(&"no end is open")),
    }
}
