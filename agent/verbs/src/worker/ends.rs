//! The ends that are open for a peer in another process.
//!
//! Each end has its own thread, which opens it, connects it and measures, as it is asked to; the table here only knows
//! where to hand a question. So an end that hangs in a verbs call holds up no other. At most [`MAX_ENDS`] are open at a time,
//! and one that is asked nothing for [`END_IDLE`](rdma_health_protocol::END_IDLE) is closed.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::AtomicBool,
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    time::Duration,
};

use rdma_health_protocol::{EndAddress, MAX_ENDS, OfferedEnd as Offer, ProbeReport, Reply, Role};
use rustix::io::Errno;

use super::{Outbox, Turn, refuse, respond, spawn};
use crate::probe::OfferedEnd;

/// What an end can be asked once it is open.
#[derive(Debug)]
pub(super) enum Step {
    Connect(EndAddress),
    Measure,
}

impl Step {
    fn name(&self) -> &'static str {
        match self {
            Self::Connect(_) => "connect",
            Self::Measure => "measure",
        }
    }
}

/// A step, and the id of the request.
type Question = (u64, Step);

/// An end as its thread needs it; tests have one without a device.
pub(super) trait End {
    fn role(&self) -> Role;
    fn address(&self) -> EndAddress;
    fn connect(&mut self, to: &EndAddress) -> Result<(), Box<ProbeReport>>;
    fn measure(self) -> ProbeReport;
}

impl End for OfferedEnd {
    fn role(&self) -> Role {
        self.role()
    }

    fn address(&self) -> EndAddress {
        self.address()
    }

    fn connect(&mut self, to: &EndAddress) -> Result<(), Box<ProbeReport>> {
        self.connect(to)
    }

    fn measure(self) -> ProbeReport {
        self.measure()
    }
}

/// The ends that are open, by number.
pub(super) struct Ends {
    table: Arc<Mutex<Table>>,
    outbox: Outbox,
    /// Taken by the one probe or end that writes.
    probing: Arc<AtomicBool>,
    idle: Duration,
}

#[derive(Default)]
struct Table {
    last: u64,
    ends: BTreeMap<u64, SyncSender<Question>>,
}

impl Ends {
    pub(super) fn new(outbox: Outbox, probing: Arc<AtomicBool>, idle: Duration) -> Self {
        Self {
            table: Arc::default(),
            outbox,
            probing,
            idle,
        }
    }

    /// Opens an end in its own thread, which answers the request.
    pub(super) fn offer<E: End>(
        &self,
        id: u64,
        open: impl FnOnce() -> Result<E, Box<ProbeReport>> + Send + 'static,
    ) {
        let (sender, questions) = sync_channel(1);
        let mut table = lock(&self.table);
        if table.ends.len() >= MAX_ENDS {
            drop(table);
            return refuse(&self.outbox, id, None, "offer", Errno::BUSY);
        }
        table.last += 1;
        let number = table.last;
        table.ends.insert(number, sender);
        drop(table);
        let open_end = OpenEnd {
            number,
            questions,
            table: Arc::clone(&self.table),
            outbox: self.outbox.clone(),
        };
        let (probing, idle) = (Arc::clone(&self.probing), self.idle);
        if spawn("end", move || open_end.serve(id, open, &probing, idle)).is_err() {
            refuse(&self.outbox, id, None, "offer", Errno::AGAIN);
        }
    }

    /// Hands a question to the end of this number.
    pub(super) fn ask(&self, id: u64, number: u64, step: Step) {
        let call = step.name();
        // Under the lock: an end that leaves the table takes no more questions.
        let table = lock(&self.table);
        let asked = match table.ends.get(&number) {
            Some(end) => end.try_send((id, step)).map_err(|error| match error {
                TrySendError::Full(_) => Errno::BUSY,
                TrySendError::Disconnected(_) => Errno::NOENT,
            }),
            None => Err(Errno::NOENT),
        };
        drop(table);
        if let Err(errno) = asked {
            refuse(&self.outbox, id, None, call, errno);
        }
    }
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    // Nothing that holds the lock leaves the table half changed.
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The place of an end in the table. Dropped when the end is closed, also by a panic.
struct OpenEnd {
    number: u64,
    questions: Receiver<Question>,
    table: Arc<Mutex<Table>>,
    outbox: Outbox,
}

impl OpenEnd {
    /// Opens the end and does what it is asked, until it has measured, failed, or waited in vain.
    fn serve<E: End>(
        self,
        id: u64,
        open: impl FnOnce() -> Result<E, Box<ProbeReport>>,
        probing: &Arc<AtomicBool>,
        idle: Duration,
    ) {
        let mut end = match open() {
            Ok(end) => end,
            Err(report) => return self.close(id, Reply::Offer(Err(report))),
        };
        let offer = Offer {
            end: self.number,
            address: end.address(),
        };
        respond(&self.outbox, id, Reply::Offer(Ok(offer)));
        let mut connected = false;
        while let Ok((id, step)) = self.questions.recv_timeout(idle) {
            let call = step.name();
            match step {
                Step::Connect(_) if connected => {
                    refuse(&self.outbox, id, None, call, Errno::ISCONN);
                }
                Step::Connect(to) => match end.connect(&to) {
                    Ok(()) => {
                        connected = true;
                        respond(&self.outbox, id, Reply::Connect(None));
                    }
                    Err(report) => {
                        drop(end);
                        return self.close(id, Reply::Connect(Some(report)));
                    }
                },
                Step::Measure if !connected => {
                    refuse(&self.outbox, id, None, call, Errno::NOTCONN);
                }
                Step::Measure => {
                    let turn = match end.role() {
                        Role::Respond => None,
                        Role::Write => {
                            let Some(turn) = Turn::take(probing) else {
                                refuse(&self.outbox, id, None, call, Errno::BUSY);
                                continue;
                            };
                            Some(turn)
                        }
                    };
                    let report = end.measure();
                    drop(turn);
                    return self.close(id, Reply::Probe(Box::new(report)));
                }
            }
        }
    }

    /// Leaves the table, then answers: who gets the answer may offer the next end.
    fn close(self, id: u64, reply: Reply) {
        let outbox = self.outbox.clone();
        drop(self);
        respond(&outbox, id, reply);
    }
}

impl Drop for OpenEnd {
    fn drop(&mut self) {
        lock(&self.table).ends.remove(&self.number);
        // What was asked before that has no answer yet.
        for (id, step) in self.questions.try_iter() {
            refuse(&self.outbox, id, None, step.name(), Errno::NOENT);
        }
    }
}

#[cfg(test)]
mod tests;
