//! The verbs helper: see `--help`.

use std::{
    env,
    fs::File,
    io,
    process::{self, ExitCode},
};

use rdma_health_verbs::{
    args::{self, Command},
    supervisor, sys,
    worker::{self, End, Lost, Outbox},
};

/// It cannot start or go on.
const FAILED: u8 = 1;
/// The command line or the peer is wrong.
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
        Ok(Command::Stdio) => stdio(),
        Ok(Command::Serve { socket }) => match serve(&socket) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => complain(&format!("cannot serve {}: {error}", socket.display()), FAILED),
        },
        Err(error) => complain(&format!("{error}; --help tells more"), MISUSED),
    }
}

fn serve(socket: &std::path::Path) -> io::Result<()> {
    let stop = sys::termination()?;
    supervisor::serve(socket, &stop, || {
        // By this name even where the file was replaced meanwhile.
        let mut worker = process::Command::new("/proc/self/exe");
        worker.arg("stdio");
        worker
    })
}

fn stdio() -> ExitCode {
    let outbox = output().and_then(|output| Outbox::start(output, lost));
    let outbox = match outbox {
        Ok(outbox) => outbox,
        Err(error) => return complain(&format!("cannot start: {error}"), FAILED),
    };
    match worker::run(&mut io::stdin().lock(), &outbox) {
        Ok(()) => ExitCode::SUCCESS,
        Err(end @ End::Frame(_)) => complain(&end.to_string(), MISUSED),
        Err(end @ End::Thread(_)) => complain(&end.to_string(), FAILED),
    }
}

/// Standard output for frames alone: what providers print there goes to standard error.
fn output() -> io::Result<File> {
    let output = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok(File::from(output))
}

/// Ends the process: nobody is left to answer.
fn lost(why: Lost) {
    let status = match why {
        Lost::Full => {
            eprintln!("rdma-health-verbs: the peer does not read");
            MISUSED
        }
        Lost::Failed(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
        Lost::Failed(error) => {
            eprintln!("rdma-health-verbs: cannot write: {error}");
            FAILED
        }
    };
    process::exit(status.into());
}

fn complain(what: &str, status: u8) -> ExitCode {
    eprintln!("rdma-health-verbs: {what}");
    ExitCode::from(status)
}
