//! `rdma-health wait`: until the RDMA devices of this pod can be used.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    process::ExitCode,
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use clap::Args;
use rdma_health_config::Config;
use rdma_health_helper::{Failure, Helper, Place, hint};
use rdma_health_job::{
    rails::{Prospect, Rails, Refused},
    readiness,
};
use rdma_health_node::{
    failure::in_words,
    words::{count, printable, size},
};
use rdma_health_protocol::{Errno, ProbeFailure};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc as async_mpsc,
    time::timeout,
};

use super::{
    HelperArguments,
    env::UNUSABLE,
    given::{Job, PodArguments},
    memlock, values,
};
use crate::{
    descriptors,
    helper::{place, probe_request},
};

/// Time between two readings.
const PAUSE: Duration = Duration::from_secs(1);
/// How much a probe writes: enough to see whether the port works, and little on a port that others use, too.
const PROBE_BYTES: u64 = 4 << 20;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Longest time to wait
    #[arg(long, value_name = "TIME", value_parser = values::wait_time, default_value = "5m")]
    timeout: Duration,
    /// Least number of usable ports, in addition to every device that this pod was given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    ports: Option<u16>,
    /// Least memory that the job must be able to lock, such as 8GiB or unlimited; 0 skips the check [default: 64GiB]
    #[arg(long, value_name = "SIZE", value_parser = values::memlock)]
    memlock: Option<u64>,
    /// Also measure a loopback RDMA WRITE on each port; needs rdma-health-verbs and libibverbs. EFA devices are not measured
    #[arg(long)]
    probe: bool,
    #[command(flatten)]
    pod: PodArguments,
    #[command(flatten)]
    helper: HelperArguments,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    end_on_signals()?;
    let start = Instant::now();
    let deadline = start + arguments.timeout;
    let readings = readings(arguments.pod.clone());
    let mut progress = Progress::new(start);
    let mut prober = arguments.probe.then(|| Prober::new(arguments)).transpose()?;
    loop {
        let job = match readings.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(job) => job?,
            Err(RecvTimeoutError::Timeout) => return Ok(progress.give_up(arguments.timeout)),
            // The thread ends only after an error, which it sends, or a panic.
            Err(RecvTimeoutError::Disconnected) => anyhow::bail!("reading the node failed"),
        };
        let rails = job.rails();
        progress.note(&rails);
        let mut missing = job.missing(&rails, arguments.ports.map(usize::from));
        missing.extend(memlock_too_low(arguments.memlock));
        if missing.is_empty()
            && let Some(prober) = &mut prober
        {
            missing = prober.probe(&rails, deadline);
        }
        if missing.is_empty() {
            return progress.ready(&rails);
        }
        let hopeless = missing.iter().any(|refused| refused.prospect == Prospect::Never);
        progress.update(missing, !hopeless);
        if hopeless || Instant::now() >= deadline {
            return Ok(progress.give_up(arguments.timeout));
        }
    }
}

/// Reads again and again in a separate thread: a reading that hangs must not outlast the deadline. The thread ends with
/// the program.
fn readings(pod: PodArguments) -> Receiver<anyhow::Result<Job>> {
    // No reading is made in advance, so none is old when it is used.
    let (send, receive) = mpsc::sync_channel(0);
    thread::spawn(move || {
        let mut collector = match pod.collector() {
            Ok(collector) => collector,
            Err(error) => return drop(send.send(Err(error))),
        };
        loop {
            let job = pod.read(&mut collector);
            let failed = job.is_err();
            if send.send(job).is_err() || failed {
                return;
            }
            thread::sleep(PAUSE);
        }
    });
    receive
}

/// What `rdma-health run` cannot raise.
fn memlock_too_low(expected: Option<u64>) -> Option<Refused> {
    let expected = expected.unwrap_or_else(|| Config::default().expect.memlock_bytes);
    let limit = memlock::raise().filter(|limit| *limit < expected)?;
    let expected = if expected == u64::MAX {
        "unlimited".into()
    } else {
        size(expected)
    };
    (!memlock::is_exempt()).then(|| Refused {
        what: "memlock limit".into(),
        why: format!(
            "{}, expected {expected} or CAP_IPC_LOCK; run rdma-health explain memlock-low",
            size(limit),
        ),
        prospect: Prospect::Never,
    })
}

/// What was reported so far.
struct Progress {
    start: Instant,
    missing: BTreeMap<String, String>,
    noted: BTreeSet<String>,
}

impl Progress {
    fn new(start: Instant) -> Self {
        Self {
            start,
            missing: BTreeMap::new(),
            noted: BTreeSet::new(),
        }
    }

    /// Prints what is odd, once. What is still to be written is waited for, and so it is not odd.
    fn note(&mut self, rails: &Rails<'_>) {
        if rails.not_written.is_empty() {
            for note in &rails.notes {
                if self.noted.insert(note.clone()) {
                    self.line(note);
                }
            }
        }
    }

    /// Takes what is missing now. Prints what changed, if it is waited for.
    fn update(&mut self, missing: Vec<Refused>, waits: bool) {
        let mut now: BTreeMap<String, String> = BTreeMap::new();
        for refused in missing {
            let why = now.entry(refused.what).or_default();
            if !why.is_empty() {
                why.push_str("; ");
            }
            why.push_str(&refused.why);
        }
        if waits {
            for (what, why) in &now {
                if self.missing.get(what) != Some(why) {
                    self.line(&format!("waiting for {what}: {why}"));
                }
            }
            for what in self.missing.keys().filter(|what| !now.contains_key(*what)) {
                self.line(&format!("{what} is ready"));
            }
        }
        self.missing = now;
    }

    fn ready(&self, rails: &Rails<'_>) -> anyhow::Result<ExitCode> {
        let ports = rails.rails.iter().map(|rail| match rail.gid {
            Some(gid) => format!("{} (GID {}: {})", rail.port, gid.index, address(gid.gid)),
            None => rail.port.to_string(),
        });
        let efa = rails.efa.iter().map(|hca| hca.name.clone());
        let all: Vec<_> = ports.chain(efa).collect();
        let line = format!(
            "RDMA is ready: {} after {} s: {}",
            count(rails.count(), "port"),
            self.start.elapsed().as_secs(),
            all.join(", ")
        );
        for (unused, _) in readiness::unused(rails)
            .iter()
            .filter(|(_, important)| *important)
        {
            self.line(unused);
        }
        let mut out = super::output::stdout();
        writeln!(out, "{}", printable(&line))?;
        out.flush()?;
        Ok(ExitCode::SUCCESS)
    }

    /// Prints all that is missing.
    fn give_up(&self, timeout: Duration) -> ExitCode {
        if self.missing.is_empty() {
            self.line(&format!(
                "RDMA is not ready: reading the node did not end within {} s",
                timeout.as_secs()
            ));
        } else {
            self.line("RDMA is not ready:");
        }
        for (what, why) in &self.missing {
            anstream::eprintln!("  {}", printable(&format!("{what}: {why}")));
        }
        ExitCode::from(UNUSABLE)
    }

    fn line(&self, text: &str) {
        let seconds = self.start.elapsed().as_secs();
        anstream::eprintln!("rdma-health: [{seconds} s] {}", printable(text));
    }
}

/// A GID as its users know it: the IPv4 address where it is mapped from one.
fn address(gid: std::net::Ipv6Addr) -> String {
    gid.to_ipv4_mapped()
        .map_or_else(|| gid.to_string(), |address| address.to_string())
}

/// Measures each port until it has passed once.
struct Prober {
    /// `None` only while it is dropped.
    runtime: Option<tokio::runtime::Runtime>,
    helper: Helper,
    /// Whether the helper is a program, and not a socket.
    is_program: bool,
    passed: BTreeSet<(String, u8)>,
}

impl Prober {
    fn new(arguments: &Arguments) -> anyhow::Result<Self> {
        let runtime = descriptors::runtime()?;
        let place = place(&arguments.helper.given().unwrap_or_default());
        let is_program = matches!(place, Place::Program(_));
        let helper = {
            let _context = runtime.enter();
            Helper::keep(place, async_mpsc::channel(1).0)
        };
        Ok(Self {
            runtime: Some(runtime),
            helper,
            is_program,
            passed: BTreeSet::new(),
        })
    }

    /// Measures the ports that have not passed yet. Returns those that do not pass now.
    fn probe(&mut self, rails: &Rails<'_>, deadline: Instant) -> Vec<Refused> {
        let mut failed = Vec::new();
        for rail in &rails.rails {
            let key = (rail.port.hca.name.clone(), rail.port.number);
            if self.passed.contains(&key) {
                continue;
            }
            match self.measure(rail.port.hca.name.as_str(), rail.port.number, deadline) {
                None => drop(self.passed.insert(key)),
                Some((why, prospect)) => failed.push(Refused {
                    what: rail.port.to_string(),
                    why: format!("loopback probe: {why}"),
                    prospect,
                }),
            }
        }
        failed
    }

    /// Why the probe of a port failed.
    fn measure(&self, device: &str, port: u8, deadline: Instant) -> Option<(String, Prospect)> {
        let mut request = probe_request(&Config::default().probe, device, port, None);
        request.byte_budget = PROBE_BYTES;
        // Other pods can use the port as well.
        request.even_if_busy = true;
        let patience = deadline.saturating_duration_since(Instant::now());
        let runtime = self.runtime.as_ref()?;
        let probe = self.helper.probe(request);
        let later = |why: String| Some((why, Prospect::Later));
        match runtime.block_on(async { timeout(patience, probe).await }) {
            Err(_) => later("it did not end in time".into()),
            Ok(Err(failure)) => {
                // A program that is missing stays missing; a socket can appear.
                let never = match &failure {
                    Failure::Unreachable(_)
                    | Failure::WrongVersion { .. }
                    | Failure::OtherBuild(_)
                    | Failure::NotLoaded(_) => self.is_program,
                    Failure::Refused(error) => !hint(error.errno).is_empty(),
                    _ => false,
                };
                let prospect = if never { Prospect::Never } else { Prospect::Later };
                Some((failure.to_string(), prospect))
            }
            Ok(Ok(report)) => {
                let failure = report.failure?;
                let (hint, prospect) = prospect(&failure);
                let (stage, words) = (report.stage.name(), in_words(&failure));
                Some((format!("failed at {stage}: {words}{hint}"), prospect))
            }
        }
    }
}

/// What to do about the failure of a probe, and whether waiting can help: a kernel without support and a device node that may not be opened
/// stay as they are.
fn prospect(failure: &ProbeFailure) -> (&'static str, Prospect) {
    let ProbeFailure::Errno { errno, .. } = failure else {
        return ("", Prospect::Later);
    };
    let hint = hint(*errno);
    let stays = !hint.is_empty() || [Errno::EACCES, Errno::EPERM].contains(&Errno(*errno));
    (hint, if stays { Prospect::Never } else { Prospect::Later })
}

impl Drop for Prober {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A helper that hangs must not delay the exit.
            runtime.shutdown_background();
        }
    }
}

/// Ends the program on SIGTERM and SIGINT. The kernel ignores them in the first process of a container unless it handles them.
fn end_on_signals() -> anyhow::Result<()> {
    let runtime = descriptors::runtime()?;
    let context = runtime.enter();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    drop(context);
    thread::spawn(move || {
        let number = runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => SignalKind::terminate(),
                _ = interrupt.recv() => SignalKind::interrupt(),
            }
        });
        // The status that a shell shows for a process that a signal ended.
        std::process::exit(128 + number.as_raw_value());
    });
    Ok(())
}
