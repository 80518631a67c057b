//! One end whose other end is in another process, on this node or another.

use std::time::Instant;

use rdma_health_protocol::{EndAddress, OfferRequest, ProbeFailure, ProbeReport, Role};
use rustix::io::Errno;

use super::{
    blank,
    end::End,
    errno, finish, is_sane,
    measure::{self, Far},
    pattern::Pattern,
    port::ReadyPort,
    respond,
    shares::Shares,
    watch::Watch,
};

/// An open end. All of it happens in the thread that opened it, which moves to the CPUs of the device.
pub struct OfferedEnd {
    end: End,
    request: OfferRequest,
    watch: Watch,
    report: ProbeReport,
    /// The bytes that the other end writes, once connected.
    arriving: Option<Pattern>,
}

impl OfferedEnd {
    /// Opens an end.
    ///
    /// # Errors
    /// The report of how far it got; `EINVAL` where the request is not sane (see [`is_sane`]).
    pub fn open(request: OfferRequest) -> Result<Self, Box<ProbeReport>> {
        let started = Instant::now();
        let mut report = blank(&request.probe);
        let opened = if is_sane(&request.probe) {
            ReadyPort::open(&request.probe, started, &mut report).and_then(|port| {
                let end = End::open(&port, &request.probe, &mut report)?;
                Ok((end, port.watch))
            })
        } else {
            Err(errno(Errno::INVAL))
        };
        match opened {
            Ok((end, watch)) => {
                finish(&mut report, Ok(()), started);
                Ok(Self {
                    end,
                    request,
                    watch,
                    report,
                    arriving: None,
                })
            }
            Err(failure) => {
                finish(&mut report, Err(failure), started);
                Err(Box::new(report))
            }
        }
    }

    /// What it does in the measurement.
    pub fn role(&self) -> Role {
        self.request.role
    }

    /// What the other end needs to connect to it.
    pub fn address(&self) -> EndAddress {
        self.end.address()
    }

    /// Connects it to the other end, which may write from then on.
    ///
    /// # Errors
    /// The report of how far it got. The end is of no further use then.
    pub fn connect(&mut self, to: &EndAddress) -> Result<(), Box<ProbeReport>> {
        let arriving = Pattern::of(to.pattern);
        if self.role() == Role::Respond {
            respond::lay_out(&self.end, arriving, &Shares::of(&self.request.probe));
        }
        self.arriving = Some(arriving);
        self.part(|end, watch, report| end.connect(to, watch, report));
        match self.report.failure {
            None => Ok(()),
            Some(_) => Err(Box::new(self.report.clone())),
        }
    }

    /// Does this end's part of the measurement; it must be connected.
    pub fn measure(mut self) -> ProbeReport {
        let (OfferRequest { role, probe }, arriving) = (self.request.clone(), self.arriving);
        self.part(|end, watch, report| match role {
            Role::Write => measure::run(end, Far::Elsewhere, &probe, watch, report),
            Role::Respond => {
                let arriving = arriving.ok_or_else(|| errno(Errno::NOTCONN))?;
                respond::run(end, arriving, &probe, watch, report)
            }
        });
        self.report
    }

    /// Does a part that may take the whole time budget; the report has how it ended.
    fn part(&mut self, work: impl FnOnce(&mut End, &Watch, &mut ProbeReport) -> Result<(), ProbeFailure>) {
        let started = Instant::now();
        let watch = self.watch.again(started);
        let result = work(&mut self.end, &watch, &mut self.report);
        finish(&mut self.report, result, started);
    }
}
