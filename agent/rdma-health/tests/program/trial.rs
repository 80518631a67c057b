//! A helper that answers about devices and ends at the next question, again and again, as one does whose driver crashes in one call.

use std::{
    os::unix::net::{UnixListener, UnixStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use rdma_health_protocol::{Ask, Greeting, HelperError, Message, Reply, Request, Response, frame};

use super::*;

/// What the test and its helper share.
#[derive(Default)]
struct Shared {
    /// Whether the helper answers everything.
    is_well: AtomicBool,
    connections: AtomicUsize,
}

/// Serves one connection until the helper "crashes".
fn serve(mut stream: UnixStream, shared: &Shared) -> Option<()> {
    shared.connections.fetch_add(1, Ordering::SeqCst);
    let greeting = Greeting {
        protocol: PROTOCOL_VERSION,
        version: "1".into(),
        fingerprint: FINGERPRINT,
    };
    frame::write(&mut stream, &Message::Greeting(greeting)).ok()?;
    loop {
        let Request { id, ask } = frame::read(&mut stream).ok()?;
        let reply = match ask {
            Ask::Devices => Reply::Devices(Vec::new()),
            _ if !shared.is_well.load(Ordering::SeqCst) => return None,
            // ENOSYS: it does not see the host.
            _ => Reply::Failed(HelperError {
                device: None,
                call: "x".into(),
                errno: 38,
            }),
        };
        frame::write(&mut stream, &Message::Response(Response { id, reply })).ok()?;
    }
}

#[test]
fn a_helper_that_fails_at_a_later_question_is_not_well_in_between() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    fs::create_dir(file("root")).unwrap();
    let listener = UnixListener::bind(file("helper.sock")).unwrap();
    let shared = Arc::new(Shared::default());
    let of_helper = Arc::clone(&shared);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let shared = Arc::clone(&of_helper);
            thread::spawn(move || serve(stream.unwrap(), &shared));
        }
    });
    let mut agent = Command::new(PRODUCT)
        .args([
            "agent",
            "--no-probe",
            "--listen",
            "127.0.0.1:0",
            "--interval",
            "1s",
        ])
        .arg("--root")
        .arg(file("root"))
        .arg("--helper-socket")
        .arg(file("helper.sock"))
        .stderr(fs::File::create(file("log")).unwrap())
        .spawn()
        .unwrap();
    let log = || fs::read_to_string(file("log")).unwrap();
    let count = |words: &str| {
        log()
            .lines()
            .filter(|line| line.contains("helper-unhealthy") && line.contains(words))
            .count()
    };
    let mut wait_for = |what: &str, condition: &dyn Fn() -> bool| {
        let end = Instant::now() + Duration::from_secs(60);
        while !condition() {
            let ended = agent.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < end, "{what}:\n{}", log());
            thread::sleep(Duration::from_millis(50));
        }
    };
    wait_for("the helper is reported", &|| count("does not answer") > 0);
    let before = shared.connections.load(Ordering::SeqCst);
    wait_for("it is started again twice", &|| {
        shared.connections.load(Ordering::SeqCst) >= before + 2
    });
    let resolved = count("resolved");
    shared.is_well.store(true, Ordering::SeqCst);
    wait_for("it is well", &|| count("resolved") > 0);
    agent.kill().unwrap();
    agent.wait().unwrap();
    assert_eq!(resolved, 0, "it seemed well in between:\n{}", log());
    assert_eq!(count("resolved"), 1, "{}", log());
}
