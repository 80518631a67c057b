//! Both ends of a loopback connection, on one port.

use rdma_health_protocol::{ProbeFailure, ProbeReport, ProbeRequest};

use super::{end::End, port::ReadyPort};

/// Two ends that are connected to each other: `a` writes bulk data to `b`, and small messages go to and fro.
pub(super) struct Pair {
    pub(super) a: End,
    pub(super) b: End,
}

impl Pair {
    /// Opens both ends and connects them.
    pub(super) fn connect(
        port: &ReadyPort,
        request: &ProbeRequest,
        report: &mut ProbeReport,
    ) -> Result<Self, ProbeFailure> {
        let mut a = End::open(port, request, report)?;
        let mut b = End::open(port, request, report)?;
        a.connect(&b.address(), &port.watch, report)?;
        b.connect(&a.address(), &port.watch, report)?;
        Ok(Self { a, b })
    }
}
