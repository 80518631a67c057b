//! The loopback probe: two reliable connected queue pairs on one port, and RDMA WRITE between them.
//!
//! It goes through the stages of [`Stage`] in order; the report names the one it stopped at and why. The data takes
//! the way that training traffic takes: memory, IOMMU, PCIe, HCA and back. Most HCAs turn loopback traffic around
//! inside, so that cable and switch have no part in it.
//!
//! **Bytes.** A probe never writes more than its byte budget, all parts together: an eighth at most for the first,
//! verified write, a quarter of the rest for latency, the remainder for bandwidth.
//!
//! **Time.** Every waiting loop looks at the deadline. The latency part takes half of the remaining time at most;
//! the bandwidth part stops posting when a fifth of the time is left, and reports what had completed. A verbs call
//! that the kernel never returns from is beyond the reach of this module: whoever runs the helper kills it then.
//!
//! **Place.** The probe runs in a thread of its own on the CPUs of the NIC's NUMA node.
//!
//! **iWARP** devices cannot be probed this way and end at [`Stage::Open`] with `EOPNOTSUPP`: that is no fault.
//!
//! **Busy ports.** Where no traffic counter can be read (rxe has none, and its network device's counters leave
//! loopback out) the port counts as free.

mod busy;
mod gid;
mod latency;
mod measure;
mod numa;
mod pair;
mod pattern;
mod quantile;
mod request;
mod watch;

use std::{
    panic,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rdma_health_protocol::{Gid, ProbeFailure, ProbeReport, ProbeRequest, Stage};
use rustix::io::Errno;

pub use gid::choose as choose_gid;
pub use request::{MAX_DEPTH, MAX_LATENCY_MESSAGE, MAX_MESSAGE, MAX_SAMPLES, MAX_TIME_MS, is_sane};

use self::{pair::Pair, watch::Watch};
use crate::{
    devices, errno as errno_names, nodes,
    sys::{self, Context, DeviceList, PortAttributes},
};

/// Where sysfs is mounted.
const SYSFS: &str = "/sys";

/// `IBV_PORT_ACTIVE`.
const ACTIVE: u32 = 4;

/// Makes one probe. Never fails as such: the report tells what did. A request that is not sane (see [`is_sane`])
/// ends at [`Stage::Open`] with `EINVAL`.
pub fn run(request: &ProbeRequest) -> ProbeReport {
    let started = Instant::now();
    let mut report = ProbeReport {
        device: request.device.clone(),
        port: request.port,
        stage: Stage::Open,
        failure: None,
        gid: None,
        numa_node: None,
        bandwidth: None,
        latency: None,
        elapsed_us: 0,
    };
    let result = if is_sane(request) {
        in_own_thread(|| steps(request, started, &mut report))
    } else {
        Err(errno(Errno::INVAL))
    };
    report.failure = result.err();
    report.elapsed_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
    report
}

/// A thread of its own, so that the caller keeps its CPUs.
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

fn steps(request: &ProbeRequest, started: Instant, report: &mut ProbeReport) -> Result<(), ProbeFailure> {
    let sysfs = Path::new(SYSFS);
    let list = DeviceList::read().map_err(failed)?;
    let Some(device) = list.find(&request.device) else {
        let node = nodes::list(Path::new(nodes::CLASS)).remove(&request.device);
        return Err(node.map_or(ProbeFailure::NoSuchPort, |node| {
            let errno = nodes::why_unlisted(&node.uverbs);
            failed(sys::Error {
                call: "ibv_get_device_list",
                errno,
            })
        }));
    };
    if device.is_iwarp() {
        return Err(errno(Errno::OPNOTSUPP));
    }
    let presence = Path::new(nodes::CLASS).join(device.uverbs());
    report.numa_node = numa::pin(sysfs, &request.device);
    let watch = Watch::new(started, Duration::from_millis(request.time_budget_ms), presence);
    let context = device.open().map_err(failed)?;
    drop(list);

    report.stage = Stage::QueryPort;
    watch.check()?;
    let ports = context.attributes().map_err(failed)?.ports;
    if !(1..=ports).contains(&request.port) {
        return Err(ProbeFailure::NoSuchPort);
    }
    let port = context.port(request.port).map_err(failed)?;
    if port.state != ACTIVE {
        return Err(ProbeFailure::NotActive {
            state: u8::try_from(port.state).unwrap_or(u8::MAX),
        });
    }

    report.stage = Stage::BusyCheck;
    if !request.even_if_busy {
        check_busy(request, &context, &watch)?;
    }

    report.stage = Stage::Gid;
    watch.check()?;
    let gid = choose(request, &context, &port)?;
    report.gid.clone_from(&gid);

    let mut pair = Pair::connect(&context, &port, gid.as_ref(), request, &watch, report)?;
    measure::run(&mut pair, request, port.max_message, &watch, report)
}

/// Fails where the port carries as much traffic as the request calls busy.
fn check_busy(request: &ProbeRequest, context: &Context, watch: &Watch) -> Result<(), ProbeFailure> {
    // A table that cannot be read is told at the next stage.
    let gids = devices::gids(context, request.port).unwrap_or_default();
    let netdev = gids.first().and_then(|gid| gid.netdev_index);
    let sources = busy::Traffic::sources(Path::new(SYSFS), &request.device, request.port, netdev);
    match busy::bytes_per_second(&sources, watch.left()) {
        Some(bytes_per_second) if bytes_per_second >= request.busy_bytes_per_second => {
            Err(ProbeFailure::Busy { bytes_per_second })
        }
        _ => Ok(()),
    }
}

/// The GID that addresses carry; `None` on InfiniBand, unless the port has no LID or asks for a GID.
fn choose(
    request: &ProbeRequest,
    context: &Context,
    port: &PortAttributes,
) -> Result<Option<Gid>, ProbeFailure> {
    let needed = port.is_ethernet() || port.lid == 0 || port.grh_required || request.gid_index.is_some();
    if !needed {
        return Ok(None);
    }
    let gids = devices::gids(context, request.port).map_err(failed)?;
    let chosen = match request.gid_index {
        Some(index) => gids.iter().find(|gid| gid.index == index),
        None if port.is_ethernet() => gid::choose(&gids),
        None => gids.first(),
    };
    chosen.cloned().map(Some).ok_or(ProbeFailure::NoGid)
}

fn failed(error: sys::Error) -> ProbeFailure {
    ProbeFailure::Errno {
        errno: error.errno,
        name: errno_names::name(error.errno),
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
        let report = run(&ProbeRequest {
            message_size: 0,
            ..request::sane()
        });
        assert_eq!(report.stage, Stage::Open);
        let einval = ProbeFailure::Errno {
            errno: 22,
            name: "EINVAL".into(),
        };
        assert_eq!(report.failure, Some(einval));
    }

    #[test]
    fn without_the_device_it_ends_at_open() {
        let report = run(&ProbeRequest {
            device: "no_such_0".into(),
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
