//! The process of the agent, under the names that every Prometheus client library uses.

use std::{
    fs::File,
    os::unix::fs::{FileExt, MetadataExt},
    sync::OnceLock,
};

use rustix::{
    process::{Resource, getrlimit},
    time::{ClockId, clock_gettime},
};

use crate::table::{Labelled, table};

table! {
    /// Families of the process.
    PROCESS {}: Process;

    Counter "process_cpu_seconds_total" ["seconds"] {}
        "Total user and system CPU time spent in seconds."
        => value(|_| Some(cpu_seconds()));
    Gauge "process_resident_memory_bytes" ["bytes"] {}
        "Resident memory size in bytes."
        => value(|process| Some(process.memory.as_ref()?.resident));
    Gauge "process_virtual_memory_bytes" ["bytes"] {}
        "Virtual memory size in bytes."
        => value(|process| Some(process.memory.as_ref()?.total));
    Gauge "process_start_time_seconds" ["seconds since 1970"] {}
        "Start time of the process since unix epoch in seconds."
        => value(|process| Some(process.started));
    Gauge "process_open_fds" [""] {}
        "Number of open file descriptors (Linux 6.2 or later)."
        => value(|_| open_files());
    Gauge "process_max_fds" [""] {}
        "Maximum number of open file descriptors."
        => value(|_| Some(getrlimit(Resource::Nofile).current.map_or(f64::INFINITY, limit)));
}

/// What all families of the process need.
pub(crate) struct Process {
    /// In seconds since 1970.
    started: f64,
    memory: Option<Memory>,
}

/// In bytes.
struct Memory {
    total: u64,
    resident: u64,
}

/// This process as the subject of its families. `started` is in seconds since 1970.
pub(crate) fn subject(started: f64) -> [Labelled<Process>; 1] {
    let memory = memory();
    [PROCESS.labelled(&[], Process { started, memory })]
}

// A limit on files is far below 2^53.
#[allow(clippy::cast_precision_loss)]
fn limit(files: u64) -> f64 {
    files as f64
}

// Seconds are far below 2^53, nanoseconds below 2^30.
#[allow(clippy::cast_precision_loss)]
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The size of the address space and of what is resident, from `/proc/self/statm`, which stays open.
fn memory() -> Option<Memory> {
    static STATM: OnceLock<Option<File>> = OnceLock::new();
    let file = STATM
        .get_or_init(|| File::open("/proc/self/statm").ok())
        .as_ref()?;
    // Seven numbers.
    let mut text = [0; 160];
    let read = file.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(&text[..read]).ok()?;
    let mut pages = text.split_whitespace().map(str::parse::<u64>);
    let size = rustix::param::page_size() as u64;
    Some(Memory {
        total: pages.next()?.ok()? * size,
        resident: pages.next()?.ok()? * size,
    })
}

/// The number of open files: the size of `/proc/self/fd` since Linux 6.2. Counting its entries would cost a scrape more
/// than all the rest, because a file is open for each counter.
fn open_files() -> Option<u64> {
    let size = std::fs::metadata("/proc/self/fd").ok()?.size();
    (size > 0).then_some(size)
}
