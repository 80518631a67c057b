//! Supervises the helper: starts it, forwards calls, detects that it hangs or ends, and restarts it.

use std::{collections::BTreeMap, time::Duration};

use rdma_health_protocol::{AsyncEvent, Message, Request};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep, sleep_until},
};
use tracing::{debug, info, warn};

use super::{
    Call, Failure, Missing, Place, State, connection::Connection, errors::Log, killed::Killed,
    orphans::Orphans,
};

/// Initial pause after a failure; each further failure doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Maximum pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A helper that worked for this long has recovered: the next failure starts with the initial pause.
const RECOVERED_AFTER: Duration = Duration::from_secs(60);

/// How long after the start a helper behind a socket may be missing before that is reported. Another service starts it, and in a
/// pod the agent's container starts first.
const START_GRACE: Duration = Duration::from_secs(30);
/// How long a helper behind a socket may be missing after it worked: a container that ends for the first time is back within
/// seconds, and a pod that is deleted ends both of its containers.
const RESTART_GRACE: Duration = Duration::from_secs(10);
/// Pause between attempts to connect in that time.
const RECONNECT: Duration = Duration::from_millis(200);

/// A request without a response yet.
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
    missing: Missing,
) {
    let mut pause = FIRST_PAUSE;
    let tolerant = missing == Missing::Tolerated && matches!(place, Place::Socket(_));
    let mut tolerated_until = tolerant.then(|| Instant::now() + START_GRACE);
    let (killed, log) = (Killed::default(), Log::default());
    let mut orphans = Orphans::of_this_process();
    loop {
        let began = Instant::now();
        let failure = match Connection::open(&place, &killed, &log).await {
            Ok(connection) => {
                info!(helper = %place.path().display(), "verbs helper up");
                state.send_replace(State::Up);
                let up = Instant::now();
                tolerated_until = None;
                match serve(connection, &mut calls, &events, &killed, &mut orphans).await {
                    // One that soon ends again is not tolerated: something ends it.
                    Some(failure) => {
                        if tolerant && failure.is_missing() && up.elapsed() >= RESTART_GRACE {
                            tolerated_until = Some(Instant::now() + RESTART_GRACE);
                            info!(%failure, "verbs helper down; waiting for it");
                            state.send_replace(State::Away(failure.clone()));
                        }
                        failure
                    }
                    None => return,
                }
            }
            Err(failure) => failure,
        };
        if failure.is_missing() && tolerated_until.is_some_and(|until| Instant::now() < until) {
            // Requests wait, too.
            sleep(RECONNECT).await;
            if calls.is_closed() {
                return;
            }
            continue;
        }
        if began.elapsed() >= RECOVERED_AFTER {
            pause = FIRST_PAUSE;
        }
        warn!(%failure, "verbs helper down; retrying in {pause:?}");
        state.send_replace(State::Down(failure.clone()));
        let refused = refuse_until(Instant::now() + pause, &failure, &mut calls);
        let reaped = async {
            loop {
                orphans.ended().await;
                killed.left();
                orphans.reap();
            }
        };
        tokio::select! {
            go_on = refused => if !go_on { return },
            () = reaped => {}
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Serves one connection until it fails; `None` when all handles are dropped.
async fn serve(
    mut connection: Connection,
    calls: &mut mpsc::Receiver<Call>,
    events: &mpsc::Sender<AsyncEvent>,
    killed: &Killed,
    orphans: &mut Orphans,
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
                    // The caller may have given up meanwhile.
                    Some(pending) => drop(pending.answer.send(Ok(response.reply))),
                    None => break Failure::Malformed(format!("an answer to request {}, which was never sent", response.id).into()),
                },
                Ok(Message::Event(event)) => {
                    debug!(?event, "asynchronous event");
                    // An event only triggers another reading. If the queue is full, the queued events do the same.
                    let _ = events.try_send(event);
                }
                Ok(Message::Greeting(_)) => break Failure::Malformed("second greeting".into()),
                Err(failure) => break failure,
            },
            () = orphans.ended() => {
                connection.collect_status();
                killed.left();
                orphans.reap();
            }
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

/// Fails calls with `failure` until the pause is over; `false` when all handles are dropped.
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
