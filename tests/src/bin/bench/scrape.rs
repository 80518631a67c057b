//! CPU per scrape and resident memory, compared with the Prometheus node exporter, on one tree that both read.
//!
//! The floor is what the kernel takes to read the same files again: one `pread` for each, of files that stay open, by a loop that
//! does nothing else and pauses as long. It depends on the processor, above all on how fast it reads what left its caches.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread::sleep,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use rdma_health_tests::{
    fleet::{self, DEVICES, FILES, Layout},
    running::free_address,
    server::{self, Server},
    virtual_node::built,
};
use rustix::time::{ClockId, clock_gettime};

use super::{
    client::Client,
    table::{self, Target},
};

/// Scrapes of each server that are measured, and before them such that are not.
const SCRAPES: u32 = 240;
const WARM_UP: u32 = 20;
/// Between a scrape of the one and a scrape of the other. Ours lets scrapes within 100 ms share one reading, which must
/// not happen here.
const PAUSE: Duration = Duration::from_millis(60);

/// What scrapes cost one server.
struct Cost {
    /// Milliseconds of CPU for each.
    cpu: f64,
    /// Megabytes resident after them, and at most.
    memory: (f64, f64),
}

pub(crate) fn measure() -> Result<()> {
    let exporter = node_exporter()?;
    let files = FILES * usize::try_from(DEVICES)?;
    table::head(
        &format!(
            "Scrapes of {DEVICES} HCAs, {files} files that both read, {SCRAPES} scrapes of each by turns"
        ),
        "node_exp.",
    );
    let mut memory = None;
    let mut exporter_cpu = 0.0;
    for gzip in [false, true] {
        let [ours, theirs] = run(&exporter, Layout::Equal, gzip)?;
        let what = if gzip {
            "CPU per scrape, gzip as Prometheus asks for"
        } else {
            "CPU per scrape, plain"
        };
        table::compare(what, "ms", ours.cpu, theirs.cpu, Target::RatioAtMost(0.2));
        memory = Some((ours.memory, theirs.memory));
        exporter_cpu = theirs.cpu;
    }
    table::compare(
        "floor: only `pread` of the same files",
        "ms",
        floor()?,
        exporter_cpu,
        Target::None,
    );
    if let Some(((ours, our_peak), (theirs, their_peak))) = memory {
        table::compare("resident memory", "MB", ours, theirs, Target::AtMost(10.0));
        table::compare(
            "resident memory at its peak",
            "MB",
            our_peak,
            their_peak,
            Target::AtMost(10.0),
        );
    }
    let [ours, theirs] = run(&exporter, Layout::Hardware, false)?;
    table::compare(
        "CPU per scrape, hw_counters read by us only",
        "ms",
        ours.cpu,
        theirs.cpu,
        Target::None,
    );
    Ok(())
}

fn run(exporter: &Path, layout: Layout, gzip: bool) -> Result<[Cost; 2]> {
    let tree = fleet::directory()?;
    fleet::write(tree.path(), layout)?;
    let theirs = {
        let (address, mut command) = (free_address()?, Command::new(exporter));
        let sysfs = tree.path().join("sys");
        command
            .args(["--collector.disable-defaults", "--collector.infiniband"])
            .arg(format!("--path.sysfs={}", sysfs.display()))
            .arg(format!("--web.listen-address={address}"))
            .stderr(Stdio::null());
        Server::start(command, address)?
    };
    let ours = agent(tree.path(), &[])?;
    if layout == Layout::Equal {
        same_values(tree.path(), &theirs)?;
    }
    let mut round = 0;
    let [mut at_ours, mut at_theirs] = [&ours, &theirs].map(|server| Client::new(server.address, gzip));
    let mut scrape_both = |scrapes: u32| -> Result<()> {
        for _ in 0..scrapes {
            at_ours.scrape()?;
            sleep(PAUSE);
            at_theirs.scrape()?;
            sleep(PAUSE);
        }
        Ok(())
    };
    scrape_both(WARM_UP)?;
    let before = [ours.cpu()?, theirs.cpu()?];
    for _ in 0..4 {
        scrape_both(SCRAPES / 4)?;
        round += 1;
        read_anew(tree.path(), round, [&ours, &theirs])?;
    }
    let after = [ours.cpu()?, theirs.cpu()?];
    let cost = |n: usize, server: &Server| -> Result<Cost> {
        // The checks between the quarters are scrapes, too.
        let scrapes = f64::from(SCRAPES + 4);
        Ok(Cost {
            cpu: Duration::from_nanos(after[n] - before[n]).as_secs_f64() * 1e3 / scrapes,
            memory: server.memory()?,
        })
    };
    Ok([cost(0, &ours)?, cost(1, &theirs)?])
}

/// Milliseconds of CPU that one `pread` of each file takes, in the rhythm of the scrapes.
fn floor() -> Result<f64> {
    let tree = fleet::directory()?;
    fleet::write(tree.path(), Layout::Equal)?;
    let files = fleet::files(tree.path())?;
    let (mut buffer, mut spent) = ([0; 64], Duration::ZERO);
    let cpu = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime));
    for round in 0..WARM_UP + SCRAPES / 2 {
        sleep(2 * PAUSE);
        let before = cpu()?;
        for file in &files {
            file.read_at(&mut buffer, 0)?;
        }
        if round >= WARM_UP {
            spent += cpu()?.saturating_sub(before);
        }
    }
    Ok(spent.as_secs_f64() * 1e3 / f64::from(SCRAPES / 2))
}

pub(crate) fn agent(tree: &Path, more: &[&str]) -> Result<Server> {
    let (address, mut command) = (free_address()?, server::agent(&built("rdma-health")?));
    command.args(["--no-probe", "--listen", &address.to_string(), "--root"]);
    command.arg(tree).args(more).stderr(Stdio::null());
    Server::start(command, address)
}

/// Checks that neither shows what it read before.
fn read_anew(tree: &Path, round: u64, servers: [&Server; 2]) -> Result<()> {
    let value = fleet::change(tree, round)?;
    sleep(PAUSE);
    for server in servers {
        let body = Client::new(server.address, false).scrape()?;
        let found = series(&body)
            .iter()
            .filter(|(name, found)| name.contains("data_transmitted_bytes_total") && f64_eq(**found, value))
            .count();
        ensure!(found as u64 == DEVICES, "{} shows old values", server.address);
    }
    Ok(())
}

/// Checks that the node exporter's series are ours, value by value.
fn same_values(tree: &Path, theirs: &Server) -> Result<()> {
    let ours = agent(tree, &["--node-exporter-names"])?;
    let ours = series(&Client::new(ours.address, false).scrape()?);
    let theirs = series(&Client::new(theirs.address, false).scrape()?);
    let theirs: Vec<_> = theirs
        .into_iter()
        .filter(|(name, _)| name.starts_with("node_infiniband_"))
        .collect();
    ensure!(!theirs.is_empty(), "node_exporter shows nothing of the tree");
    for (name, value) in &theirs {
        let found = ours.get(name);
        // The exporter writes large numbers as floating point, and so may round the last bit.
        let same = found.is_some_and(|found| (found - value).abs() <= value.abs() * f64::EPSILON);
        ensure!(same, "{name} is {value} there and {found:?} with us");
    }
    println!(
        "  ({} series of node_exporter compared: the same with us)",
        theirs.len()
    );
    Ok(())
}

/// Series and their values; labels in order of name.
fn series(body: &[u8]) -> BTreeMap<String, f64> {
    let text = String::from_utf8_lossy(body);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let one = |line: &str| {
        let (series, value) = line.rsplit_once(' ')?;
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let mut labels: Vec<_> = labels.trim_end_matches('}').split(',').collect();
        labels.sort_unstable();
        Some((format!("{name} {labels:?}"), value.parse().ok()?))
    };
    lines.filter_map(one).collect()
}

// The values that are compared are below 2^53.
#[allow(clippy::cast_precision_loss, clippy::float_cmp)]
fn f64_eq(found: f64, expected: u64) -> bool {
    found == expected as f64
}

/// The program of Debian's package, unpacked into the cache: installing it would start a service.
fn node_exporter() -> Result<PathBuf> {
    const PACKAGE: &str = "prometheus-node-exporter";
    let cache = match std::env::var_os("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => PathBuf::from(std::env::var_os("HOME").context("HOME is not set")?).join(".cache"),
    };
    let directory = cache.join("rdma-health").join(PACKAGE);
    let program = directory.join("usr/bin").join(PACKAGE);
    if !program.is_file() {
        println!("Fetching the Debian package {PACKAGE} into {}", cache.display());
        let part = tempfile::Builder::new().prefix("bench-").tempdir_in({
            fs::create_dir_all(&directory)?;
            &directory
        })?;
        succeed(
            Command::new("apt-get")
                .args(["download", "-q=2", PACKAGE])
                .current_dir(part.path()),
        )?;
        let file = fs::read_dir(part.path())?
            .next()
            .context("apt-get fetched nothing")??;
        succeed(
            Command::new("dpkg-deb")
                .arg("-x")
                .arg(file.path())
                .arg(&directory),
        )?;
    }
    let version = Command::new(&program).arg("--version").output()?;
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    println!("{}", version.lines().next().unwrap_or("node_exporter"));
    Ok(program)
}

fn succeed(command: &mut Command) -> Result<()> {
    let output = command.output()?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
