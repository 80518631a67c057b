//! `serve`: one worker process per connection on a Unix socket.
//!
//! The supervisor makes no verbs calls, so that libibverbs cannot hang or crash it. When a peer disconnects, its worker is
//! killed, whatever it is doing. Who may connect is decided by the user of the peer as the kernel reports it (`SO_PEERCRED`),
//! in addition to the mode of the socket: a group may have more members than one expects.
//!
//! The places are few, and a peer could occupy all of them. If all are taken, a new connection gets the place of the one that
//! has been silent for longest: its peer has sent nothing and read nothing.

mod refusals;

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
    time::{Duration, Instant},
};

use refusals::Refusals;
use rustix::{
    event::{PollFd, PollFlags, Timespec, epoll, poll},
    fs::Mode,
    io::Errno,
    process::{Pid, PidfdFlags, pidfd_open, umask},
};

use crate::sys;

/// Maximum number of connections.
pub const MAX_CONNECTIONS: usize = 4;
/// Maximum number of workers, including those that were killed and have not ended because the kernel holds them.
const MAX_WORKERS: usize = 2 * MAX_CONNECTIONS;
/// How long a new connection keeps its place: long enough for an answer, and it bounds the workers that are started.
const PLACE: Duration = Duration::from_secs(2);

/// A connection and its worker.
struct Session {
    peer: UnixStream,
    worker: Child,
    /// Becomes readable when the worker ends.
    ended: OwnedFd,
    killed: bool,
    /// When the peer connected.
    began: Instant,
    /// When the peer last sent or read something.
    heard: Instant,
}

/// Serves connections of these users until `stop` is readable. `worker` creates the command that serves one connection of a user over its standard
/// input and output. At the end the workers are killed, and the socket file is removed.
///
/// # Errors
/// If the socket cannot be created: `EADDRINUSE` if another process listens on it, `EEXIST` if the file is not a socket.
pub fn serve(
    path: &Path,
    users: &BTreeSet<u32>,
    stop: &impl AsFd,
    worker: impl Fn(u32) -> Command,
) -> io::Result<()> {
    let listener = bind(path)?;
    let _removed = RemoveFile(path.to_owned());
    listener.set_nonblocking(true)?;
    let arrivals = Arrivals::new()?;
    let mut refusals = Refusals::default();
    let mut sessions: Vec<Session> = Vec::new();
    loop {
        let mut fds = vec![
            PollFd::new(stop, PollFlags::IN),
            PollFd::new(&listener, PollFlags::IN),
            PollFd::new(&arrivals.0, PollFlags::IN),
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
        let heard = ready.next() == Some(true);
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
        if heard {
            arrivals.note(&mut sessions)?;
        }
        let mut states = states.iter();
        sessions.retain_mut(|session| {
            let ended = states.next().is_some_and(|(_, ended)| *ended);
            !(ended && session.reap(&mut refusals))
        });
        if called
            && let Some((peer, user)) = accept(&listener, users, &mut refusals)
            && make_place(&mut sessions, &mut refusals)
        {
            match Session::start(peer, worker(user), &arrivals) {
                Ok(session) => sessions.push(session),
                Err(error) => refusals.report(format_args!("cannot start a worker: {error}")),
            }
        }
    }
}

/// Accepts one connection of one of the users, with the user. Another one is closed, with a message on standard error.
fn accept(
    listener: &UnixListener,
    users: &BTreeSet<u32>,
    refusals: &mut Refusals,
) -> Option<(UnixStream, u32)> {
    let peer = match listener.accept() {
        Ok((peer, _)) => peer,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ) =>
        {
            return None;
        }
        Err(error) => {
            refusals.report(format_args!("cannot accept a connection: {error}"));
            // The connection is still pending, because no file descriptor or memory is left.
            std::thread::sleep(Duration::from_millis(100));
            return None;
        }
    };
    match sys::peer_user(&peer) {
        Ok(uid) if users.contains(&uid) => return Some((peer, uid)),
        Ok(uid) => refusals.report(format_args!(
            "closed a connection of user {uid}, who may not connect"
        )),
        Err(error) => refusals.report(format_args!("closed a connection of an unknown user: {error}")),
    }
    None
}

/// Whether a place is left for a new connection. If all are taken, the connection that has waited longest loses its own.
fn make_place(sessions: &mut [Session], refusals: &mut Refusals) -> bool {
    let workers = sessions.len();
    let served = sessions.iter_mut().filter(|session| !session.killed);
    let mut served: Vec<_> = served.collect();
    if served.len() < MAX_CONNECTIONS && workers < MAX_WORKERS {
        return true;
    }
    served.retain(|session| session.began.elapsed() >= PLACE);
    let longest = served.into_iter().min_by_key(|session| session.heard);
    if let Some(session) = longest.filter(|_| workers < MAX_WORKERS) {
        session.kill();
        refusals.report(format_args!(
            "closed the connection that has been silent for longest: the limit of {MAX_CONNECTIONS} is reached"
        ));
        true
    } else {
        refusals.report(format_args!(
            "closed a new connection: the limit of {MAX_CONNECTIONS} is reached"
        ));
        false
    }
}

/// Reports once whenever a peer sent or read something, whether or not its worker has read it by then.
struct Arrivals(OwnedFd);

impl Arrivals {
    fn new() -> io::Result<Self> {
        Ok(Self(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    /// Reports what happens at this peer. The process of its worker is its identity.
    ///
    /// Data wake up an edge-triggered descriptor, but the kernel then reports it only if it is still ready for something that
    /// was requested. A fast worker has read the data by then; the socket is still writable.
    fn follow(&self, peer: &UnixStream, worker: &Child) -> io::Result<()> {
        let data = epoll::EventData::new_u64(worker.id().into());
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        Ok(epoll::add(&self.0, peer, data, flags)?)
    }

    fn note(&self, sessions: &mut [Session]) -> io::Result<()> {
        let mut events = Vec::with_capacity(MAX_WORKERS);
        match epoll::wait(
            &self.0,
            rustix::buffer::spare_capacity(&mut events),
            Some(&Timespec::default()),
        ) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in events {
            let of = |session: &&mut Session| u64::from(session.worker.id()) == event.data.u64();
            if let Some(session) = sessions.iter_mut().find(of) {
                session.heard = Instant::now();
            }
        }
        Ok(())
    }
}

impl Session {
    fn start(peer: UnixStream, mut command: Command, arrivals: &Arrivals) -> io::Result<Self> {
        peer.set_nonblocking(false)?;
        let input = OwnedFd::from(peer.try_clone()?);
        let output = OwnedFd::from(peer.try_clone()?);
        let mut worker = command
            .stdin(Stdio::from(input))
            .stdout(Stdio::from(output))
            .spawn()?;
        let followed = arrivals.follow(&peer, &worker);
        match followed.and_then(|()| pidfd(&worker)) {
            Ok(ended) => Ok(Self {
                peer,
                worker,
                ended,
                killed: false,
                began: Instant::now(),
                heard: Instant::now(),
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
    fn reap(&mut self, refusals: &mut Refusals) -> bool {
        match self.worker.try_wait() {
            Ok(None) => false,
            Ok(Some(status)) => {
                if !self.killed && !status.success() {
                    refusals.report(format_args!("a worker ended: {status}"));
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
mod tests;
