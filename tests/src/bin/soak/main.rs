//! `make soak`: an agent and a helper under attack for an hour, on a node of 16 HCAs that changes all the time.
//!
//! `soak [MINUTES] [SEED]`. Four attackers work side by side: one changes the tree that the agent reads, one sends hostile HTTP
//! requests, one hostile frames to the helper's socket, one has hostile snapshots checked. Meanwhile the agent is scraped
//! every second, and the helper is asked a proper question. The run fails if a scrape or a question is not answered in time,
//! if a program ends or panics, or if the agent's memory grows beyond its limit.

mod clients;
mod dice;
mod frames;
mod snapshots;
mod tree;

use std::{
    fs::{self, File},
    net::SocketAddr,
    path::Path,
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use dice::Dice;
use rdma_health_tests::{
    fleet::{self, DEVICES, Layout},
    running::free_address,
    scrape,
    server::{self, Server},
    virtual_node::built,
};

/// The most that the agent may occupy, in megabytes.
const MEMORY: f64 = 16.0;
/// Within which a scrape and a proper question must be answered. A kernel that does not answer may hold a scrape for 0.6 s.
const PATIENCE: Duration = Duration::from_secs(2);

/// What all attackers share.
#[derive(Debug, Default)]
pub(crate) struct Run {
    over: AtomicBool,
    faults: Mutex<Vec<String>>,
}

impl Run {
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Records what must not happen, and ends the run.
    pub(crate) fn fault(&self, what: String) {
        eprintln!("FAULT: {what}");
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.push(what);
        self.over.store(true, Ordering::Relaxed);
    }

    /// Repeats `round` until the run is over, and counts.
    pub(crate) fn repeat(&self, mut round: impl FnMut() -> Result<()>) -> u64 {
        let mut rounds = 0;
        while !self.is_over() {
            match round() {
                Ok(()) => rounds += 1,
                Err(error) => self.fault(format!("{error:#}")),
            }
        }
        rounds
    }
}

fn main() -> Result<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let minutes: f64 = arguments.next().map_or(Ok(60.0), |text| text.parse())?;
    let seed: u64 = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let folder = fleet::directory()?;
    let root = folder.path().join("root");
    fleet::write(&root, Layout::Hardware)?;
    let log = folder.path().join("agent.log");
    let agent = agent(&root, &log)?;
    let socket = folder.path().join("helper.sock");
    let helper = frames::Helper::start(&socket)?;
    let recorded = snapshots::record(&root, folder.path())?;

    println!("{minutes} minutes, seed {seed}, {DEVICES} HCAs");
    let run = Run::default();
    let dice = |of: u64| Dice::new(seed.wrapping_mul(1000) + of);
    let (requests, scrapes) = (AtomicU64::new(0), AtomicU64::new(0));
    let counts = thread::scope(|scope| -> Result<[u64; 3]> {
        let changes = scope.spawn(|| tree::attack(&run, &root, dice(1)));
        for of in 0..4 {
            let (run, requests, address) = (&run, &requests, agent.address);
            scope.spawn(move || {
                let count = clients::attack(run, address, dice(10 + of));
                requests.fetch_add(count, Ordering::Relaxed);
            });
        }
        let frames = scope.spawn(|| frames::attack(&run, &socket, dice(2)));
        let snapshots = scope.spawn(|| snapshots::attack(&run, &recorded, folder.path(), dice(3)));
        watch(&run, &agent, &scrapes, Duration::from_secs_f64(minutes * 60.0));
        run.over.store(true, Ordering::Relaxed);
        let count = |handle: thread::ScopedJoinHandle<'_, u64>| {
            handle.join().map_err(|_| anyhow::anyhow!("an attacker panicked"))
        };
        Ok([count(changes)?, count(frames)?, count(snapshots)?])
    })?;
    helper.end()?;
    let (now, peak) = agent.memory()?;
    let [changes, frames, snapshots] = counts;
    println!(
        "{changes} changes of the tree, {} hostile requests, {frames} hostile frames, {snapshots} hostile snapshots",
        requests.into_inner()
    );
    println!(
        "{} scrapes answered; agent: {now:.1} MB resident, {peak:.1} MB at its peak, limit {MEMORY} MB",
        scrapes.into_inner()
    );
    let text = fs::read_to_string(&log)?;
    if let Some(line) = text.lines().find(|line| line.contains("panicked")) {
        run.fault(format!("the agent's log: {line}"));
    }
    let faults = run.faults.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("{} faults", faults.len());
    Ok(if faults.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn agent(root: &Path, log: &Path) -> Result<Server> {
    let address = free_address()?;
    let mut command = server::agent(&built("rdma-health")?);
    command
        .args(["--no-probe", "--listen", &address.to_string(), "--root"])
        .arg(root)
        .stderr(File::create(log)?);
    Server::start(command, address)
}

/// Scrapes every second until the time is over, and looks at the agent's memory.
fn watch(run: &Run, agent: &Server, scrapes: &AtomicU64, length: Duration) {
    let began = Instant::now();
    let mut shown = Duration::ZERO;
    while began.elapsed() < length && !run.is_over() {
        match answered(agent.address) {
            Ok(()) => {
                scrapes.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => run.fault(format!("after {:?}: {error:#}", began.elapsed())),
        }
        match agent.memory() {
            Ok((now, peak)) if peak > MEMORY => run.fault(format!("the agent occupies {now:.1} MB")),
            Ok((now, _)) if began.elapsed() >= shown => {
                println!("{:>5} s: {now:.1} MB", began.elapsed().as_secs());
                shown += Duration::from_secs(300);
            }
            Ok(_) => {}
            Err(error) => run.fault(format!("the agent ended: {error:#}")),
        }
        thread::sleep(Duration::from_secs(1));
    }
}

/// A scrape that shows what it should.
fn answered(address: SocketAddr) -> Result<()> {
    let began = Instant::now();
    let answer = scrape::get(address, "/metrics", PATIENCE).context("a scrape was not answered")?;
    ensure!(answer.status == 200, "a scrape has status {}", answer.status);
    ensure!(
        answer.body.contains("rdma_health_build_info"),
        "a scrape without rdma_health_build_info"
    );
    ensure!(began.elapsed() < PATIENCE, "a scrape took {:?}", began.elapsed());
    Ok(())
}
