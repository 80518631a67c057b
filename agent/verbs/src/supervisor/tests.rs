//! Real workers, peers and sockets.

use std::{
    io::{Read, Write},
    os::unix::fs::PermissionsExt,
    thread::{self, JoinHandle},
    time::Instant,
};

use super::*;

/// A supervisor in a thread, with a shell script as its worker.
struct Running {
    folder: tempfile::TempDir,
    stop: UnixStream,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Running {
    fn start(script: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (stop, stopped) = UnixStream::pair().unwrap();
        let (path, home) = (folder.path().join("socket"), folder.path().to_owned());
        let thread = thread::spawn(move || {
            let own = rustix::process::geteuid().as_raw();
            serve(&path, &BTreeSet::from([own]), &stopped, |_| {
                let mut command = Command::new("sh");
                command.args(["-c", script]).current_dir(&home);
                command
            })
        });
        let running = Self {
            folder,
            stop,
            thread: Some(thread),
        };
        wait_for(|| UnixStream::connect(running.path()).is_ok());
        running
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn connect(&self) -> UnixStream {
        let peer = UnixStream::connect(self.path()).unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        peer
    }

    fn stop(mut self) -> io::Result<()> {
        self.stop.write_all(b"x").unwrap();
        self.thread.take().unwrap().join().unwrap()
    }
}

fn wait_for(mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "the condition did not become true"
        );
        thread::sleep(Duration::from_millis(5));
    }
}

/// The first line from a worker.
fn line(peer: &mut UnixStream) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    // Retries after a signal, which another test of this process may send.
    while peer.read_exact(&mut byte).is_ok() && byte != *b"\n" {
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}

fn is_alive(pid: &str) -> bool {
    // A zombie has no command line.
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

#[test]
fn each_connection_has_its_own_worker_and_gets_its_own_bytes() {
    let running = Running::start("echo $$; exec cat");
    let (mut one, mut two) = (running.connect(), running.connect());
    assert_ne!(line(&mut one), line(&mut two));
    two.write_all(b"to two\n").unwrap();
    one.write_all(b"to one\n").unwrap();
    assert_eq!(
        (line(&mut one), line(&mut two)),
        ("to one".into(), "to two".into())
    );
    running.stop().unwrap();
}

#[test]
fn a_worker_is_killed_when_its_peer_disconnects() {
    // The first does not read and ignores signals; the second is stopped.
    for script in [
        "trap '' TERM HUP PIPE; echo $$; exec sleep 1000",
        "echo $$; kill -STOP $$",
    ] {
        let running = Running::start(script);
        let mut peer = running.connect();
        let pid = line(&mut peer);
        // Wait, because the command line is empty for a moment during `exec`.
        wait_for(|| is_alive(&pid));
        drop(peer);
        wait_for(|| !Path::new(&format!("/proc/{pid}")).exists());
        running.stop().unwrap();
    }
}

#[test]
fn a_peer_is_disconnected_when_its_worker_ends() {
    let running = Running::start("echo gone; exit 1");
    let mut peer = running.connect();
    assert_eq!(line(&mut peer), "gone");
    assert_eq!(peer.read(&mut [0]).unwrap(), 0);
    running.stop().unwrap();
}

#[test]
fn a_connection_beyond_the_limit_takes_the_place_of_the_one_that_has_waited_longest() {
    let running = Running::start("echo $$; exec cat");
    // The connection that checked the socket may still occupy a place.
    let mut peers = Vec::new();
    wait_for(|| {
        let mut peer = running.connect();
        let served = line(&mut peer).parse::<u32>().is_ok();
        if served {
            peers.push(peer);
        }
        peers.len() == MAX_CONNECTIONS
    });
    // A new connection keeps its place for a moment.
    thread::sleep(PLACE);
    // All but the second ask something.
    for (at, peer) in peers.iter_mut().enumerate() {
        if at != 1 {
            peer.write_all(b"asked\n").unwrap();
            assert_eq!(line(peer), "asked");
        }
    }
    wait_for(|| line(&mut running.connect()).parse::<u32>().is_ok());
    for (at, peer) in peers.iter_mut().enumerate() {
        // The peer of a worker that was killed may have gone already.
        let _ = peer.write_all(b"again\n");
        assert_eq!(line(peer), if at == 1 { "" } else { "again" }, "{at}");
    }
    running.stop().unwrap();
}

#[test]
fn the_socket_is_for_owner_and_group_and_removed_at_the_end() {
    let running = Running::start("echo $$; exec cat");
    let mut peer = running.connect();
    let pid = line(&mut peer);
    let path = running.path();
    let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
    // The group gets access after the socket exists.
    wait_for(|| mode() == 0o660);
    running.stop().unwrap();
    assert!(!path.exists());
    wait_for(|| !is_alive(&pid));
}

#[test]
fn only_a_stale_socket_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    drop(UnixListener::bind(&path).unwrap());
    // A process that another test starts at this moment has the listener open until its `exec`.
    let mut listener = bind(&path);
    wait_for(|| {
        if listener
            .as_ref()
            .is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse)
        {
            listener = bind(&path);
        }
        listener.is_ok()
    });
    assert_eq!(bind(&path).unwrap_err().raw_os_error(), Some(98));
    drop(listener);
    fs::remove_file(&path).unwrap();
    fs::write(&path, "precious").unwrap();
    assert_eq!(bind(&path).unwrap_err().raw_os_error(), Some(17));
    assert_eq!(fs::read(&path).unwrap(), b"precious");
}
