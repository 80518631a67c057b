//! `serve`: one worker process per connection on a Unix socket.
//!
//! The supervisor makes no verbs calls, so that libibverbs cannot hang or crash it. When a peer disconnects, its worker is
//! killed, whatever it is doing. Who may connect is decided by the user of the peer as the kernel reports it (`SO_PEERCRED`),
//! in addition to the mode of the socket: a group may have more members than one expects.

use std::{
    collections::BTreeSet,
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{
            fs::FileTypeExt,
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::Mode,
    io::Errno,
    process::{Pid, PidfdFlags, pidfd_open, umask},
};

use crate::sys;

/// Maximum number of connections; a further one is closed at once.
pub const MAX_CONNECTIONS: usize = 4;

/// A connection and its worker.
struct Session {
    peer: UnixStream,
    worker: Child,
    /// Becomes readable when the worker ends.
    ended: OwnedFd,
    killed: bool,
}

/// Serves connections of these users until `stop` is readable. `worker` creates the command that serves one connection over its standard
/// input and output. At the end the workers are killed, and the socket file is removed.
///
/// # Errors
/// If the socket cannot be created: `EADDRINUSE` if another process listens on it, `EEXIST` if the file is not a socket.
pub fn serve(
    path: &Path,
    users: &BTreeSet<u32>,
    stop: &impl AsFd,
    worker: impl Fn() -> Command,
) -> io::Result<()> {
    let listener = bind(path)?;
    let _removed = RemoveFile(path.to_owned());
    listener.set_nonblocking(true)?;
    let mut sessions: Vec<Session> = Vec::new();
    loop {
        let mut fds = vec![
            PollFd::new(stop, PollFlags::IN),
            PollFd::new(&listener, PollFlags::IN),
        ];
        for session in &sessions {
            // The peer has disconnected; only wait for its worker to end.
            let wanted = if session.killed {
                PollFlags::empty()
            } else {
                PollFlags::RDHUP
            };
            if !session.killed {
                fds.push(PollFd::new(&session.peer, wanted));
            }
            fds.push(PollFd::new(&session.ended, PollFlags::IN));
        }
        match poll(&mut fds, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
        let (stopped, called) = (ready.next() == Some(true), ready.next() == Some(true));
        let states: Vec<_> = sessions
            .iter()
            .map(|session| {
                let hung_up = !session.killed && ready.next() == Some(true);
                (hung_up, ready.next() == Some(true))
            })
            .collect();
        drop(ready);
        drop(fds);
        if stopped {
            sessions.iter_mut().for_each(Session::kill);
            return Ok(());
        }
        for (session, (hung_up, _)) in sessions.iter_mut().zip(&states) {
            if *hung_up {
                session.kill();
            }
        }
        let mut states = states.iter();
        sessions.retain_mut(|session| {
            let ended = states.next().is_some_and(|(_, ended)| *ended);
            !(ended && session.reap())
        });
        if called {
            accept(&listener, users, &mut sessions, &worker);
        }
    }
}

/// Accepts one connection. A connection that cannot be served is closed, with a message on standard error.
fn accept(
    listener: &UnixListener,
    users: &BTreeSet<u32>,
    sessions: &mut Vec<Session>,
    worker: &impl Fn() -> Command,
) {
    let peer = match listener.accept() {
        Ok((peer, _)) => peer,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ) =>
        {
            return;
        }
        Err(error) => {
            eprintln!("rdma-health-verbs: cannot accept a connection: {error}");
            // The connection is still pending, because no file descriptor or memory is left.
            std::thread::sleep(Duration::from_millis(100));
            return;
        }
    };
    match sys::peer_user(&peer) {
        Ok(uid) if users.contains(&uid) => {}
        Ok(uid) => {
            eprintln!("rdma-health-verbs: closed a connection of user {uid}, who may not connect");
            return;
        }
        Err(error) => {
            eprintln!("rdma-health-verbs: closed a connection of an unknown user: {error}");
            return;
        }
    }
    if sessions.len() >= MAX_CONNECTIONS {
        eprintln!("rdma-health-verbs: closed a connection: the limit of {MAX_CONNECTIONS} is reached");
        return;
    }
    match Session::start(peer, worker()) {
        Ok(session) => sessions.push(session),
        Err(error) => eprintln!("rdma-health-verbs: cannot start a worker: {error}"),
    }
}

impl Session {
    fn start(peer: UnixStream, mut command: Command) -> io::Result<Self> {
        peer.set_nonblocking(false)?;
        let input = OwnedFd::from(peer.try_clone()?);
        let output = OwnedFd::from(peer.try_clone()?);
        let mut worker = command
            .stdin(Stdio::from(input))
            .stdout(Stdio::from(output))
            .spawn()?;
        match pidfd(&worker) {
            Ok(ended) => Ok(Self {
                peer,
                worker,
                ended,
                killed: false,
            }),
            Err(error) => {
                let _ = worker.kill();
                let _ = worker.wait();
                Err(error)
            }
        }
    }

    fn kill(&mut self) {
        self.killed = true;
        // Fails only if it has ended.
        let _ = self.worker.kill();
    }

    /// Whether the worker has ended and was reaped.
    fn reap(&mut self) -> bool {
        match self.worker.try_wait() {
            Ok(None) => false,
            Ok(Some(status)) => {
                if !self.killed && !status.success() {
                    eprintln!("rdma-health-verbs: a worker ended: {status}");
                }
                true
            }
            Err(_) => true,
        }
    }
}

fn pidfd(child: &Child) -> io::Result<OwnedFd> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    Ok(pidfd_open(pid.ok_or(Errno::SRCH)?, PidfdFlags::empty())?)
}

/// Listens on `path` with mode 0660. Replaces a stale socket, on which no process listens.
fn bind(path: &Path) -> io::Result<UnixListener> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => return Err(Errno::EXIST.into()),
        Ok(_) => match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path)?,
            Err(error) => return Err(error),
            Ok(_) => return Err(Errno::ADDRINUSE.into()),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    // The file must never have another mode. No other thread creates files at this time.
    let before = umask(Mode::from_raw_mode(0o117));
    let listener = UnixListener::bind(path);
    umask(before);
    listener
}

struct RemoveFile(PathBuf);

impl Drop for RemoveFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
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
                serve(&path, &BTreeSet::from([own]), &stopped, || {
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
    fn a_connection_beyond_the_limit_is_closed_and_slots_are_reused() {
        let running = Running::start("echo $$; exec cat");
        // The connection that checked the socket may still occupy a slot.
        let mut peers = Vec::new();
        wait_for(|| {
            let mut peer = running.connect();
            let served = line(&mut peer).parse::<u32>().is_ok();
            if served {
                peers.push(peer);
            }
            peers.len() == MAX_CONNECTIONS
        });
        assert_eq!(running.connect().read(&mut [0]).unwrap(), 0);
        peers.pop();
        wait_for(|| !line(&mut running.connect()).is_empty());
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
}
