//! The node that listens: admits nodes that know the token, and measures with one at a time.

use std::{io::Write, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context;
use rdma_health_node::words::{printable, printable_json};
use rdma_health_peer::{Admission, ChannelError, Measurement, Own, Token, admit, serve};
use rdma_health_rules::Status;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::Mutex,
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use super::{Output, Show, offer::Reader, worse};

/// Maximum number of connections whose handshake is not complete.
const HANDSHAKES: usize = 16;
/// How long a connection that failed keeps its place, so that tokens cannot be tried out quickly.
const PENALTY: Duration = Duration::from_secs(1);

/// What ended.
enum Ended {
    Handshake(Result<Box<Admission>, ChannelError>),
    Session(anyhow::Result<Measurement>),
}

pub(super) async fn run(
    address: SocketAddr,
    once: bool,
    wait: Option<Duration>,
    token: Token,
    own: Own,
    reader: Reader,
    show: &Show,
) -> anyhow::Result<Status> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("cannot listen on {address}"))?;
    let ports: Vec<_> = own
        .introduction
        .ports
        .iter()
        .map(|offer| offer.port.to_string())
        .collect();
    let ready = format!(
        "{} listens on {}, offers {}",
        own.introduction.node,
        listener.local_addr()?,
        ports.join(", ")
    );
    anstream::eprintln!("rdma-health: {}", printable(&ready));
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let until = wait.filter(|_| once).map(|wait| Instant::now() + wait);
    let turns = Arc::new(Mutex::new(()));
    let mut tasks: JoinSet<(SocketAddr, Ended)> = JoinSet::new();
    let mut worst = Status::Ok;
    let mut admitted = false;
    loop {
        tokio::select! {
            // With all places taken, further connections wait in the kernel.
            accepted = listener.accept(), if tasks.len() < HANDSHAKES => {
                let Ok((stream, peer)) = accepted else {
                    // Such as too many open files.
                    sleep(PENALTY).await;
                    continue;
                };
                let (token, turns) = (token.clone(), Arc::clone(&turns));
                tasks.spawn(async move {
                    let admission = admit(stream, &token, turns).await.map(Box::new);
                    if admission.is_err() {
                        sleep(PENALTY).await;
                    }
                    (peer, Ended::Handshake(admission))
                });
            }
            Some(ended) = tasks.join_next() => match ended? {
                (peer, Ended::Handshake(Ok(admission))) => {
                    admitted = true;
                    let (mut own, reader) = (own.clone(), reader.clone());
                    tasks.spawn(async move {
                        let session = async {
                            own.introduction = reader.read().await?;
                            Ok(serve(*admission, &own).await?)
                        };
                        (peer, Ended::Session(session.await))
                    });
                }
                (peer, Ended::Handshake(Err(error))) => {
                    let refused = format!("{peer} was refused: {error}");
                    anstream::eprintln!("rdma-health: {}", printable(&refused));
                }
                (peer, Ended::Session(session)) => {
                    let status = show_session(peer, session, show)?;
                    worst = worse(worst, status);
                    if once {
                        return Ok(worst);
                    }
                }
            },
            _ = terminate.recv() => return Ok(worst),
            _ = interrupt.recv() => return Ok(worst),
            () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() && !admitted => {
                anyhow::bail!("no node has connected within {:?}", wait.unwrap_or_default());
            }
        }
    }
}

fn show_session(
    peer: SocketAddr,
    session: anyhow::Result<Measurement>,
    show: &Show,
) -> anyhow::Result<Status> {
    match session {
        Ok(measurement) => {
            let (status, document) = show.write(&measurement)?;
            if show.output == Output::Json {
                // One line for each node: this program may go on.
                let mut out = crate::cli::output::stdout();
                writeln!(out, "{}", printable_json(document.to_string()))?;
                out.flush()?;
            }
            Ok(status)
        }
        Err(error) => {
            let broken = format!("the measurement with {peer} was not completed: {error:#}");
            anstream::eprintln!("rdma-health: {}", printable(&broken));
            Ok(Status::Unknown)
        }
    }
}
