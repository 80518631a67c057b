//! The part of the end that is written to, where the end that writes is in another process.

use rdma_health_protocol::{ProbeFailure, ProbeReport, ProbeRequest, Stage};

use super::{
    end::End,
    latency::{self, Trips},
    pattern::Pattern,
    shares::Shares,
    signal,
    watch::Watch,
};

/// Lays out the bytes that the other end's writes will change: every single one of them, at the first write and again by
/// those of the bandwidth part. To be called before the other end writes.
pub(super) fn lay_out(end: &End, pattern: Pattern, shares: &Shares) {
    pattern.fill(&end.region, shares.compared() as usize);
    pattern.complement().fill(&end.region, shares.verified as usize);
}

/// Verifies what arrives, signals the other end, and answers its small messages, until all is written.
pub(super) fn run(
    end: &mut End,
    pattern: Pattern,
    request: &ProbeRequest,
    watch: &Watch,
    report: &mut ProbeReport,
) -> Result<(), ProbeFailure> {
    let shares = Shares::of(request);
    verify(
        end,
        signal::FIRST_WRITTEN,
        pattern,
        shares.verified,
        watch,
        report,
    )?;
    if shares.round_trips > 0 {
        report.stage = Stage::Poll;
        latency::answer(end, Trips::of(request, &shares), watch)?;
    }
    let last = pattern.complement();
    verify(end, signal::ALL_WRITTEN, last, shares.compared(), watch, report)?;
    report.stage = Stage::Done;
    Ok(())
}

/// Waits for a signal, compares, and answers with what was found.
fn verify(
    end: &End,
    number: u64,
    pattern: Pattern,
    length: u32,
    watch: &Watch,
    report: &mut ProbeReport,
) -> Result<(), ProbeFailure> {
    report.stage = Stage::Poll;
    signal::wait(end, number, watch).map_err(|failure| match failure {
        // Which direction of the path loses packets shows in what arrived.
        ProbeFailure::TimedOut if number == signal::FIRST_WRITTEN => ProbeFailure::Silent {
            arrived: pattern
                .first_difference(&end.region, length as usize)
                .map_or(u64::from(length), |at| at as u64),
        },
        failure => failure,
    })?;
    report.stage = Stage::Verify;
    let verdict = signal::verdict(pattern.first_difference(&end.region, length as usize));
    let sent = signal::send(end, number, verdict, watch);
    signal::judge(verdict)?;
    if number == signal::ALL_WRITTEN {
        // The other end may be closed as soon as it has the verdict, before it acknowledges it. If it gets none it reports
        // that itself.
        return Ok(());
    }
    sent
}
