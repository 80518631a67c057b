//! The first stages of a probe: its port is opened, active, idle, and has an address.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use rdma_health_protocol::{Gid, PortKey, ProbeFailure, ProbeReport, ProbeRequest, Stage, best_gid};
use rustix::io::Errno;

use super::{busy, errno, failed, numa, watch::Watch};
use crate::{
    devices, nodes,
    sys::{self, Context, DeviceList, PortAttributes},
};

/// Where sysfs is mounted.
const SYSFS: &str = "/sys";

/// `IBV_PORT_ACTIVE`.
const ACTIVE: u32 = 4;

/// A port that can be probed.
#[derive(Debug)]
pub(super) struct ReadyPort {
    pub(super) context: Context,
    pub(super) attributes: PortAttributes,
    /// The GID that addresses carry; `None` on InfiniBand where a LID is enough.
    pub(super) gid: Option<Gid>,
    pub(super) watch: Watch,
}

impl ReadyPort {
    /// Goes through the stages up to [`Stage::Gid`], from `started` on. The calling thread moves to the CPUs of the device.
    pub(super) fn open(
        request: &ProbeRequest,
        started: Instant,
        report: &mut ProbeReport,
    ) -> Result<Self, ProbeFailure> {
        let PortKey { device: name, port } = &request.path.from;
        let list = DeviceList::read().map_err(failed)?;
        let Some(device) = list.find(name) else {
            let node = nodes::list(Path::new(nodes::CLASS)).remove(name);
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
        report.numa_node = numa::pin(Path::new(SYSFS), name);
        let watch = Watch::new(started, Duration::from_millis(request.time_budget_ms), presence);
        let context = device.open().map_err(failed)?;
        drop(list);

        report.stage = Stage::QueryPort;
        watch.check()?;
        let ports = context.attributes().map_err(failed)?.ports;
        if !(1..=ports).contains(port) {
            return Err(ProbeFailure::NoSuchPort);
        }
        let attributes = context.port(*port).map_err(failed)?;
        if attributes.state != ACTIVE {
            return Err(ProbeFailure::NotActive {
                state: u8::try_from(attributes.state).unwrap_or(u8::MAX),
            });
        }

        report.stage = Stage::BusyCheck;
        if !request.even_if_busy {
            check_busy(request, &context, &watch)?;
        }

        report.stage = Stage::Gid;
        watch.check()?;
        let gid = choose(request, &context, &attributes)?;
        report.gid.clone_from(&gid);
        Ok(Self {
            context,
            attributes,
            gid,
            watch,
        })
    }
}

/// Fails where the port carries as much traffic as the request calls busy.
fn check_busy(request: &ProbeRequest, context: &Context, watch: &Watch) -> Result<(), ProbeFailure> {
    let PortKey { device, port } = &request.path.from;
    // A table that cannot be read is reported at the next stage.
    let gids = devices::gids(context, *port).unwrap_or_default();
    let netdev = gids.first().and_then(|gid| gid.netdev_index);
    let sources = busy::Traffic::sources(Path::new(SYSFS), device, *port, netdev);
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
    let gids = devices::gids(context, request.path.from.port).map_err(failed)?;
    let chosen = match request.gid_index {
        Some(index) => gids.iter().find(|gid| gid.index == index),
        None if port.is_ethernet() => best_gid(&gids),
        None => gids.first(),
    };
    chosen.cloned().map(Some).ok_or(ProbeFailure::NoGid)
}
