//! Writes how the agent itself fares, counters that are kept in [`super::OwnMetrics`] apart.

use std::{
    fs::File,
    os::unix::fs::{FileExt, MetadataExt},
    sync::OnceLock,
};

use rustix::{
    process::{Resource, getrlimit},
    time::{ClockId, clock_gettime},
};

use super::{catalogue::own as family, sink::Sink};
use crate::view::View;

/// The revision that this was built from, where the build tells it.
const REVISION: Option<&str> = option_env!("RDMA_HEALTH_REVISION");

/// Writes what the view tells of the reading.
pub(super) fn write_view(view: &View, sink: &mut Sink<'_>) {
    sink.single(&family::NODE_TIME, Some(view.node.time));
    let mut errors = sink.family(&family::READ_ERRORS);
    for error in &view.read_errors {
        errors.sample([&error.source, &error.kind], error.count);
    }
    let sources = &view.node.sources;
    let mut stale = sink.family(&family::SOURCE_STALE);
    for (name, status) in sources {
        stale.sample([name], status.stale);
    }
    let mut times = sink.family(&family::SOURCE_TIME);
    for (name, status) in sources {
        if let Some(time) = status.time {
            times.sample([name], time);
        }
    }
    let mut seconds = sink.family(&family::SOURCE_SECONDS);
    for (name, status) in sources {
        if status.time.is_some() {
            seconds.sample([name], status.seconds);
        }
    }
    let mut unread = sink.family(&family::SOURCE_UNREAD);
    for (name, status) in sources {
        unread.sample([name], status.unread.len());
    }
    sink.single(&family::THREADS, Some(view.reader_threads));
}

/// Writes what the system tells of the process.
pub(super) fn write(started: f64, sink: &mut Sink<'_>) {
    let labels = [env!("CARGO_PKG_VERSION"), REVISION.unwrap_or_default()];
    sink.family(&family::BUILD).sample(labels, 1_u8);
    sink.single(&family::PROCESS_CPU, Some(cpu_seconds()));
    if let Some((total, resident)) = memory() {
        sink.single(&family::PROCESS_RESIDENT, Some(resident));
        sink.single(&family::PROCESS_VIRTUAL, Some(total));
    }
    sink.single(&family::PROCESS_START, Some(started));
    sink.single(&family::PROCESS_FDS, open_files());
    let most = getrlimit(Resource::Nofile).current;
    sink.single(&family::PROCESS_MAX_FDS, Some(most.map_or(f64::INFINITY, limit)));
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

/// Bytes of address space and of resident memory, from `/proc/self/statm`, which stays open.
fn memory() -> Option<(u64, u64)> {
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
    Some((pages.next()?.ok()? * size, pages.next()?.ok()? * size))
}

/// How many files are open: the size of `/proc/self/fd` since Linux 6.2. Counting its entries would cost a scrape more
/// than all the rest, with a file open for each counter.
fn open_files() -> Option<u64> {
    let size = std::fs::metadata("/proc/self/fd").ok()?.size();
    (size > 0).then_some(size)
}
