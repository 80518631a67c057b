//! Keeps one helper: starts it, hands calls over, notices that it hangs or ends, starts it again.

use std::{collections::BTreeMap, time::Duration};

use rdma_health_protocol::{AsyncEvent, Message, Request};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep_until},
};
use tracing::{debug, info, warn};

use super::{Call, Failure, Place, State, connection::Connection, killed::Killed};

/// The first pause after a failure; doubled for each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A helper that answered for this long has recovered: the next failure starts from the first pause.
const RECOVERED_AFTER: Duration = Duration::from_secs(60);

/// A request whose answer is awaited.
struct Pending {
    until: Instant,
    deadline: Duration,
    answer: oneshot::Sender<Result<rdma_health_protocol::Reply, Failure>>,
}

/// Runs until the last handle is dropped.
pub(super) async fn run(
    place: Place,
    mut calls: mpsc::Receiver<Call>,
    events: mpsc::Sender<AsyncEvent>,
    state: watch::Sender<State>,
) {
    let mut pause = FIRST_PAUSE;
    let killed = Killed::default();
    loop {
        let began = Instant::now();
        let failure = match Connection::open(&place, &killed).await {
            Ok(connection) => {
                info!(helper = %place.path().display(), "the verbs helper is up");
                state.send_replace(State::Up);
                match serve(connection, &mut calls, &events).await {
                    Some(failure) => failure,
                    None => return,
                }
            }
            Err(failure) => failure,
        };
        if began.elapsed() >= RECOVERED_AFTER {
            pause = FIRST_PAUSE;
        }
        warn!(%failure, "the verbs helper is down; next try in {pause:?}");
        state.send_replace(State::Down(failure.clone()));
        if !refuse_until(Instant::now() + pause, &failure, &mut calls).await {
            return;
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Serves one connection until it fails; `None` when nobody needs the helper any more.
async fn serve(
    mut connection: Connection,
    calls: &mut mpsc::Receiver<Call>,
    events: &mpsc::Sender<AsyncEvent>,
) -> Option<Failure> {
    let mut pending: BTreeMap<u64, Pending> = BTreeMap::new();
    let mut next_id = 1_u64;
    let failure = loop {
        let first = pending.values().map(|pending| pending.until).min();
        tokio::select! {
            call = calls.recv() => {
                let Call { ask, deadline, answer } = call?;
                let id = next_id;
                next_id += 1;
                pending.insert(id, Pending { until: Instant::now() + deadline, deadline, answer });
                if let Err(failure) = connection.send(&Request { id, ask }).await {
                    break failure;
                }
            }
            message = connection.receive() => match message {
                Ok(Message::Response(response)) => match pending.remove(&response.id) {
                    // The caller may have gone away meanwhile.
                    Some(pending) => drop(pending.answer.send(Ok(response.reply))),
                    None => break Failure::Malformed(format!("an answer to request {}, which was never made", response.id).into()),
                },
                Ok(Message::Event(event)) => {
                    debug!(?event, "asynchronous event");
                    // Events only say that something is to be read again; one that does not fit in is made good by
                    // those that wait.
                    let _ = events.try_send(event);
                }
                Ok(Message::Greeting(_)) => break Failure::Malformed("a second greeting".into()),
                Err(failure) => break failure,
            },
            () = sleep_until(first.unwrap_or_else(Instant::now)), if first.is_some() => {
                let late = pending.values().find(|pending| pending.until <= Instant::now());
                if let Some(late) = late {
                    break Failure::Hung(late.deadline);
                }
            }
        }
    };
    for (_, pending) in pending {
        let _ = pending.answer.send(Err(failure.clone()));
    }
    Some(failure)
}

/// Answers calls with the failure until the pause is over; `false` when nobody needs the helper any more.
async fn refuse_until(until: Instant, failure: &Failure, calls: &mut mpsc::Receiver<Call>) -> bool {
    loop {
        tokio::select! {
            () = sleep_until(until) => return true,
            call = calls.recv() => match call {
                Some(call) => drop(call.answer.send(Err(failure.clone()))),
                None => return false,
            },
        }
    }
}
