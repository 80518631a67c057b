//! The verbs helper: see `--help`.

use std::{
    env,
    fs::File,
    io,
    path::Path,
    process::{self, ExitCode},
};

use rdma_health_protocol::text::excerpt;
use rdma_health_verbs::{
    args::{self, Command},
    prepare, supervisor, sys,
    worker::{self, ConnectionError, Lost, Outbox, Places, Requests},
};

/// Exit status: it cannot start or continue.
const FAILED: u8 = 1;
/// Exit status: the command line or the peer is invalid.
const MISUSED: u8 = 2;

fn main() -> ExitCode {
    match args::parse(env::args_os().skip(1)) {
        Ok(Command::Help) => {
            print!("{}", args::HELP);
            ExitCode::SUCCESS
        }
        Ok(Command::Version) => {
            println!("rdma-health-verbs {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        Ok(Command::Stdio {
            host,
            kubelet,
            bounds,
        }) => stdio(Places {
            bounds,
            ..Places::new(host, kubelet)
        }),
        Ok(Command::Serve {
            socket,
            allow_uid,
            host,
            kubelet,
            peers,
        }) => match serve(&socket, allow_uid, &Places::new(host, kubelet), peers.as_deref()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => complain(&format!("cannot serve {}: {error}", socket.display()), FAILED),
        },
        Ok(Command::Prepare { directory, uid }) => match prepare::prepare(&directory, uid) {
            Ok(None) => ExitCode::SUCCESS,
            // The agent works without its history.
            Ok(Some(error)) => complain(&format!("{}: {error}", directory.display()), 0),
            Err(error) => complain(
                &format!("cannot prepare {}: {error}", directory.display()),
                FAILED,
            ),
        },
        Err(error) => complain(&format!("{error}; see --help"), MISUSED),
    }
}

fn serve(socket: &Path, allow_uid: Option<u32>, places: &Places, peers: Option<&str>) -> io::Result<()> {
    let stop = sys::termination()?;
    let own = rustix::process::geteuid().as_raw();
    let users = [Some(0), Some(own), allow_uid].into_iter().flatten().collect();
    supervisor::serve(socket, &users, &stop, |user| {
        // Works even if the file was replaced meanwhile.
        let mut worker = process::Command::new("/proc/self/exe");
        worker.arg("stdio").arg("--kubelet").arg(&places.kubelet);
        if let Some(host) = &places.host {
            worker.arg("--host").arg(host);
        }
        if ![0, own].contains(&user) {
            worker.arg("--peers").arg(peers.unwrap_or("any"));
        }
        worker
    })
}

fn stdio(places: Places) -> ExitCode {
    let outbox = output().and_then(|output| Outbox::start(output, lost));
    let outbox = match outbox {
        Ok(outbox) => outbox,
        Err(error) => return complain(&format!("cannot start: {error}"), FAILED),
    };
    // Not the buffer of the standard library, which would hide from `poll` what is already read.
    let mut requests = match rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3) {
        Ok(input) => Requests::new(File::from(input)),
        Err(error) => return complain(&format!("cannot start: {error}"), FAILED),
    };
    match worker::run(&mut requests, &outbox, places) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error @ ConnectionError::Frame(_)) => complain(&error.to_string(), MISUSED),
        Err(error @ ConnectionError::Thread(_)) => complain(&error.to_string(), FAILED),
    }
}

/// Standard output, for frames only: the output of providers is redirected to standard error.
fn output() -> io::Result<File> {
    let output = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok(File::from(output))
}

/// Ends the process, because no peer is left.
fn lost(why: Lost) {
    let status = match why {
        Lost::Full => {
            eprintln!("rdma-health-verbs: the peer does not read its replies: closing the connection");
            MISUSED
        }
        Lost::Failed(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
        Lost::Failed(error) => {
            eprintln!("rdma-health-verbs: cannot write to the peer: {error}");
            FAILED
        }
    };
    process::exit(status.into());
}

/// Logs why the process ends. The reason may quote what the peer sent.
fn complain(what: &str, status: u8) -> ExitCode {
    const MOST: usize = 400;
    eprintln!("rdma-health-verbs: {}", excerpt(what, MOST));
    ExitCode::from(status)
}
