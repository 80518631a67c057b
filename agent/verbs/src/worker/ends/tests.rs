use std::{os::unix::net::UnixStream, sync::mpsc::channel, thread};

use rdma_health_protocol::{
    HelperError, Message, Path, QueuePairAddress, RegionAddress, Response, Stage, frame,
};

use super::*;

/// Longer than any test.
const LONG: Duration = Duration::from_secs(600);

fn address() -> EndAddress {
    EndAddress {
        queue_pairs: vec![QueuePairAddress {
            number: 17,
            psn: 4711,
        }],
        lid: 3,
        gid: None,
        mtu: 4096,
        region: RegionAddress {
            address: 4096,
            key: 1,
            length: 4096,
        },
        pattern: 42,
    }
}

fn report(stage: Stage) -> Box<ProbeReport> {
    Box::new(ProbeReport {
        path: Path::loopback("mlx5_0", 1),
        stage,
        failure: None,
        gid: None,
        numa_node: None,
        bandwidth: None,
        latency: None,
        elapsed_us: 0,
    })
}

/// An end without a device: connects to its own address only, and is done with measuring once it is let go.
struct Fake {
    role: Role,
    probing: Arc<AtomicBool>,
    go: Receiver<()>,
}

impl End for Fake {
    fn role(&self) -> Role {
        self.role
    }

    fn address(&self) -> EndAddress {
        address()
    }

    fn connect(&mut self, to: &EndAddress) -> Result<(), Box<ProbeReport>> {
        if *to == address() {
            Ok(())
        } else {
            Err(report(Stage::Rtr))
        }
    }

    fn measure(self) -> ProbeReport {
        // Also where the test is over.
        let _ = self.go.recv();
        let others_may_write = Turn::take(&self.probing).is_some();
        assert_eq!(others_may_write, self.role == Role::Respond);
        *report(Stage::Done)
    }
}

struct Desk {
    ends: Ends,
    replies: UnixStream,
    last_id: u64,
}

impl Desk {
    fn new(idle: Duration) -> Self {
        let (replies, output) = UnixStream::pair().unwrap();
        replies.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let outbox = Outbox::start(output, |_| {}).unwrap();
        Self {
            ends: Ends::new(outbox, Arc::default(), idle),
            replies,
            last_id: 0,
        }
    }

    fn reply(&mut self) -> (u64, Reply) {
        match frame::read::<Message>(&mut self.replies).unwrap() {
            Message::Response(Response { id, reply }) => (id, reply),
            other => panic!("{other:?}"),
        }
    }

    /// Offers an end; its number, and what lets it measure.
    fn offer(&mut self, role: Role) -> (Result<u64, Reply>, SyncSender<()>) {
        let (sender, go) = sync_channel(1);
        let probing = Arc::clone(&self.ends.probing);
        self.last_id += 1;
        self.ends
            .offer(self.last_id, move || Ok(Fake { role, probing, go }));
        let (id, reply) = self.reply();
        assert_eq!(id, self.last_id);
        let number = match reply {
            Reply::Offer(Ok(offer)) => {
                assert_eq!(offer.address, address());
                Ok(offer.end)
            }
            other => Err(other),
        };
        (number, sender)
    }

    fn ask(&mut self, number: u64, step: Step) -> u64 {
        self.last_id += 1;
        self.ends.ask(self.last_id, number, step);
        self.last_id
    }

    fn answer(&mut self, number: u64, step: Step) -> Reply {
        let asked = self.ask(number, step);
        let (id, reply) = self.reply();
        assert_eq!(id, asked);
        reply
    }

    fn connected(&mut self, role: Role) -> (u64, SyncSender<()>) {
        let (number, go) = self.offer(role);
        let number = number.unwrap();
        assert_eq!(
            self.answer(number, Step::Connect(address())),
            Reply::Connect(None)
        );
        (number, go)
    }
}

fn refused(call: &str, errno: Errno) -> Reply {
    Reply::Failed(HelperError {
        device: None,
        call: call.into(),
        errno: errno.raw_os_error(),
    })
}

#[test]
fn an_end_is_connected_then_measures_once() {
    let mut desk = Desk::new(LONG);
    let (number, go) = desk.offer(Role::Write);
    let number = number.unwrap();
    let early = desk.answer(number, Step::Measure);
    assert_eq!(early, refused("measure", Errno::NOTCONN));
    let connect = || Step::Connect(address());
    assert_eq!(desk.answer(number, connect()), Reply::Connect(None));
    let again = desk.answer(number, connect());
    assert_eq!(again, refused("connect", Errno::ISCONN));
    go.send(()).unwrap();
    let measured = desk.answer(number, Step::Measure);
    assert_eq!(measured, Reply::Probe(report(Stage::Done)));
    let late = desk.answer(number, Step::Measure);
    assert_eq!(late, refused("measure", Errno::NOENT));
}

#[test]
fn an_end_that_fails_reports_how_far_it_got_and_frees_its_place() {
    let mut desk = Desk::new(LONG);
    for _ in 0..=MAX_ENDS {
        desk.ends.offer(1, || Err::<Fake, _>(report(Stage::RegMr)));
        assert_eq!(desk.reply(), (1, Reply::Offer(Err(report(Stage::RegMr)))));
        let (number, _go) = desk.offer(Role::Write);
        let elsewhere = EndAddress { lid: 4, ..address() };
        let failed = desk.answer(number.unwrap(), Step::Connect(elsewhere));
        assert_eq!(failed, Reply::Connect(Some(report(Stage::Rtr))));
    }
}

#[test]
fn one_end_too_many_is_refused() {
    let mut desk = Desk::new(LONG);
    let open: Vec<_> = (0..MAX_ENDS).map(|_| desk.connected(Role::Respond)).collect();
    let (number, _go) = desk.offer(Role::Respond);
    assert_eq!(number, Err(refused("offer", Errno::BUSY)));
    open[0].1.send(()).unwrap();
    desk.answer(open[0].0, Step::Measure);
    assert!(desk.offer(Role::Respond).0.is_ok());
}

#[test]
fn an_end_that_is_asked_nothing_is_closed() {
    let mut desk = Desk::new(Duration::from_millis(1));
    let (number, _go) = desk.offer(Role::Respond);
    let number = number.unwrap();
    let closed = refused("measure", Errno::NOENT);
    // Each question restarts the time.
    let answers = (0..1000).map(|_| {
        thread::sleep(Duration::from_millis(10));
        desk.answer(number, Step::Measure)
    });
    assert!(answers.into_iter().any(|answer| answer == closed));
}

#[test]
fn a_question_that_waits_for_an_end_that_closes_is_answered() {
    let mut desk = Desk::new(LONG);
    let (sender, go) = channel::<()>();
    desk.ends.offer(1, move || {
        // Until both questions are asked.
        let _ = go.recv();
        Err::<Fake, _>(report(Stage::RegMr))
    });
    desk.ends.ask(2, 1, Step::Measure);
    desk.ends.ask(3, 1, Step::Measure);
    assert_eq!(desk.reply(), (3, refused("measure", Errno::BUSY)));
    drop(sender);
    assert_eq!(desk.reply(), (2, refused("measure", Errno::NOENT)));
    assert_eq!(desk.reply(), (1, Reply::Offer(Err(report(Stage::RegMr)))));
}

#[test]
fn one_writes_at_a_time_while_others_respond() {
    let mut desk = Desk::new(LONG);
    let ends = [Role::Write, Role::Respond].map(|role| desk.connected(role));
    for (_, go) in &ends {
        go.send(()).unwrap();
    }
    // As a probe or another end has it.
    let turn = Turn::take(&desk.ends.probing).unwrap();
    let busy = desk.answer(ends[0].0, Step::Measure);
    assert_eq!(busy, refused("measure", Errno::BUSY));
    drop(turn);
    for (number, _) in ends {
        let measured = desk.answer(number, Step::Measure);
        assert_eq!(measured, Reply::Probe(report(Stage::Done)));
    }
}

#[test]
fn an_end_that_panics_frees_its_place() {
    let mut desk = Desk::new(LONG);
    for _ in 0..MAX_ENDS {
        let (sender, panicked) = channel::<()>();
        desk.ends.offer(1, move || -> Result<Fake, _> {
            let _sender = sender;
            panic!("as a test");
        });
        assert!(panicked.recv().is_err());
    }
    let mut offers = (0..1000).map(|_| {
        thread::sleep(Duration::from_millis(1));
        desk.offer(Role::Respond).0
    });
    assert!(offers.any(|number| number.is_ok()));
}
