//! `serve`: one worker process per connection on a Unix socket.
//!
//! The supervisor makes no verbs call, so that nothing of libibverbs can hang or crash it. When a peer hangs up its
//! worker is killed, whatever it is doing.

use std::{
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

/// Connections served at the same time; one more is closed at once.
pub const MAX_CONNECTIONS: usize = 4;

/// A connection and its worker.
struct Session {
    peer: UnixStream,
    worker: Child,
    /// Readable when the worker has ended.
    ended: OwnedFd,
    killed: bool,
}

/// Serves connections until `stop` is readable; `worker` makes the command that speaks to one over its standard
/// input and output. Workers are killed at the end, and the socket's file is removed.
///
/// # Errors
/// Where the socket cannot be made: `EADDRINUSE` where somebody listens on it, `EEXIST` where the file is no socket.
pub fn serve(path: &Path, stop: &impl AsFd, worker: impl Fn() -> Command) -> io::Result<()> {
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
            // A peer that was hung up on stays so; waiting for its worker is all that is left.
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
            accept(&listener, &mut sessions, &worker);
        }
    }
}

/// Takes one connection. One that cannot be served is closed, and said so on standard error.
fn accept(listener: &UnixListener, sessions: &mut Vec<Session>, worker: &impl Fn() -> Command) {
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
            eprintln!("rdma-health-verbs: cannot accept: {error}");
            // The connection is still waiting: no descriptors or memory are left to take it with.
            std::thread::sleep(Duration::from_millis(100));
            return;
        }
    };
    if sessions.len() >= MAX_CONNECTIONS {
        eprintln!("rdma-health-verbs: a connection was closed: {MAX_CONNECTIONS} are being served");
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
        // Fails only where it has ended.
        let _ = self.worker.kill();
    }

    /// Whether the worker has ended and is gone from the process table.
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

/// Listens on `path` with mode 0660, in place of a socket that nobody listens on any more.
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
    // So that the file never has any other mode. Nothing else makes files at this time.
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
