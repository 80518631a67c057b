//! The probe: two reliable connected queue pairs, and RDMA WRITE between them.
//!
//! A connection has two ends. An end is opened and has an address; it is connected to the address of the other end; then
//! one end writes and measures, and the other verifies and responds. For a loopback, both ends are here, on one port ([`run`]).
//! Otherwise each end is in its own helper ([`OfferedEnd`]), and the addresses travel through the agents.
//!
//! A probe goes through the stages of [`Stage`] in order; the report names the one it stopped at and why. The data takes
//! the way that training traffic takes: memory, IOMMU, PCIe, HCA and back. Most HCAs turn loopback traffic around
//! inside, so that cable and switch have no part in it.
//!
//! **Bytes.** A probe never writes more than its byte budget, all parts together: an eighth at most for the first,
//! verified write, a quarter of the rest for latency, the remainder for bandwidth.
//!
//! **Time.** Every waiting loop looks at the deadline. The latency part takes half of the remaining time at most;
//! the bandwidth part stops posting when a fifth of the time is left, and reports what had completed. A verbs call
//! that the kernel never returns from is beyond the reach of this module: the agent kills the helper then.
//!
//! **Place.** The probe runs in its own thread on the CPUs of the NIC's NUMA node.
//!
//! **iWARP** devices cannot be probed this way and end at [`Stage::Open`] with `EOPNOTSUPP`: that is not a fault.
//!
//! **Busy ports.** Where no traffic counter can be read (rxe has none, and its network device's counters leave
//! loopback out) the port counts as free.

mod busy;
mod end;
mod latency;
mod layout;
mod measure;
mod numa;
mod offered;
mod pair;
mod pattern;
mod port;
mod quantile;
mod request;
mod respond;
mod shares;
mod signal;
mod watch;

use std::{panic, thread, time::Instant};

use rdma_health_protocol::{ProbeFailure, ProbeReport, ProbeRequest, Stage};
use rustix::io::Errno;

pub use offered::OfferedEnd;
#[cfg(test)]
pub(crate) use request::sane;
pub use request::{MAX_DEPTH, MAX_LATENCY_MESSAGE, MAX_MESSAGE, MAX_SAMPLES, MAX_TIME_MS, is_sane};

use self::{measure::Far, pair::Pair, port::ReadyPort};
use crate::{errno as errno_names, sys};

/// Makes one loopback probe. Never fails as such: the report says what did. A request that is not sane (see [`is_sane`]), or
/// whose path is not a loopback, ends at [`Stage::Open`] with `EINVAL`.
pub fn run(request: &ProbeRequest) -> ProbeReport {
    let started = Instant::now();
    let mut report = blank(request);
    let result = if is_sane(request) && request.path.is_loopback() {
        in_own_thread(|| loopback(request, started, &mut report))
    } else {
        Err(errno(Errno::INVAL))
    };
    finish(&mut report, result, started);
    report
}

fn loopback(request: &ProbeRequest, started: Instant, report: &mut ProbeReport) -> Result<(), ProbeFailure> {
    let port = ReadyPort::open(request, started, report)?;
    let mut pair = Pair::connect(&port, request, report)?;
    measure::run(&mut pair.a, Far::Here(&mut pair.b), request, &port.watch, report)
}

/// Runs `work` in a separate thread, so that the CPUs of the calling thread do not change.
fn in_own_thread(work: impl FnOnce() -> Result<(), ProbeFailure> + Send) -> Result<(), ProbeFailure> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("probe-run".into())
            .spawn_scoped(scope, work);
        match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic)),
            Err(_) => Err(errno(Errno::AGAIN)),
        }
    })
}

/// The report of a probe that has not begun.
fn blank(request: &ProbeRequest) -> ProbeReport {
    ProbeReport {
        path: request.path.clone(),
        stage: Stage::Open,
        failure: None,
        gid: None,
        numa_node: None,
        bandwidth: None,
        latency: None,
        elapsed_us: 0,
    }
}

/// Adds how a part ended, and the time that it took.
fn finish(report: &mut ProbeReport, result: Result<(), ProbeFailure>, started: Instant) {
    report.failure = result.err();
    let elapsed = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
    report.elapsed_us = report.elapsed_us.saturating_add(elapsed);
}

fn failed(error: sys::Error) -> ProbeFailure {
    let (errno, name) = (error.errno, errno_names::name(error.errno));
    match error.call {
        sys::MBIND => ProbeFailure::Placement { errno, name },
        _ => ProbeFailure::Errno { errno, name },
    }
}

fn errno(errno: Errno) -> ProbeFailure {
    failed(sys::Error {
        call: "",
        errno: errno.raw_os_error(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_is_not_sane_ends_at_open() {
        let without_size = ProbeRequest {
            message_size: 0,
            ..request::sane()
        };
        // One end alone cannot probe a path to another node.
        let to_another = request::sane_between();
        for request in [without_size, to_another] {
            let report = run(&request);
            assert_eq!(report.stage, Stage::Open);
            let einval = ProbeFailure::Errno {
                errno: 22,
                name: "EINVAL".into(),
            };
            assert_eq!(report.failure, Some(einval));
        }
    }

    #[test]
    fn without_the_device_it_ends_at_open() {
        let report = run(&ProbeRequest {
            path: rdma_health_protocol::Path::loopback("no_such_0", 1),
            ..request::sane()
        });
        assert_eq!(report.stage, Stage::Open);
        assert!(
            matches!(
                report.failure,
                Some(ProbeFailure::NoSuchPort | ProbeFailure::Errno { .. })
            ),
            "{report:?}"
        );
    }
}
