//! What probes measured, compared with what the hardware allows and with earlier probes.

use rdma_health_node::{Node, Port, history::PortHistory, node::Probe, words::gigabits};
use rdma_health_protocol::{Bandwidth, Peer, queue_pairs_for};

use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Severity, Subject, Writer, draft::Draft,
    expectations::Thresholds, policy::Exception,
};

/// The least number of earlier measurements to compare with.
const ENOUGH: usize = 5;

/// `probe-bandwidth-low`.
pub static BANDWIDTH_LOW: Rule = Rule {
    id: "probe-bandwidth-low",
    domain: Domain::Probe,
    policy: Policy::of(Severities::WARNING).except(&[&BELOW_HARDWARE, &SOFTWARE_BELOW_PAST]),
    title: "The loopback bandwidth of a port is too low",
    explanation: "The bandwidth of the loopback probe is below 90% (expect.thresholds.bandwidth_percent) of what the \
        port rate and the PCIe link allow, below 80% (bandwidth_percent_of_earlier) of the median of earlier probes \
        at the same rate or of the equal ports of this node, or below the configuration's expect.bandwidth_gbps. Usual causes: a degraded PCIe link, \
        IOMMU translation, a small maximum read request, a process on the wrong NUMA node, CPU power saving.",
    remedy: Remedy::all(
        "Check pci-link-degraded, iommu-group-translated and pci-max-read-request first. Then measure on the idle \
        node, pinned to the NUMA node of the port: numactl -N NUMA_NODE ib_write_bw -d DEVICE -i PORT.",
    ),
    false_alarms: "Software devices are only compared with their own past and with the expectation. A port that \
        carries traffic is not probed. A port is not compared with its rate if the probe used fewer queue pairs than one \
        for each 100 Gb/s (probe.queue_pairs). The limit of the PCIe link includes the headers of its packets.",
    inputs: &[
        Writer::Hardware,
        Writer::HostRoot,
        Writer::Configuration,
        Writer::Agent,
        Writer::Job,
    ],
    judge: bandwidth_low,
};

static BELOW_HARDWARE: Exception = Exception {
    condition: "if it is only below what the hardware allows or the equal ports reach, but at least half of that",
    severities: Severities::INFO.rdma_expected(Severity::Warning),
};

static SOFTWARE_BELOW_PAST: Exception = Exception {
    condition: "if a software device, which shares the CPU with everything else, is only slower than in earlier probes",
    severities: Severities::INFO,
};

/// Probes that measured, with their port and its past.
fn probed(node: &Node) -> impl Iterator<Item = (&Probe, Port<'_>, Option<&PortHistory>)> {
    node.loopbacks().filter_map(|probe| {
        let report = &probe.report;
        let port = node.port(&report.path.from.device, report.path.from.port)?;
        let past = node.past(&port);
        report.failure.is_none().then_some((probe, port, past))
    })
}

/// Bits per second that the port can carry, and what limits it: `its rate` or `its PCIe link`.
pub fn capacity(node: &Node, port: &Port<'_>) -> Option<(u64, &'static str)> {
    let rate = port.rate.known()?.bits_per_second;
    let pcie = node.link_of(port.hca).and_then(|(_, function)| {
        let (speed, width) = (
            u64::from(*function.link.speed.known()?),
            u64::from(*function.link.width.known()?),
        );
        // 8b/10b up to 5 GT/s, 128b/130b beyond.
        let (bits, of) = if speed <= 5000 { (8, 10) } else { (128, 130) };
        let payload = function
            .capabilities
            .known()
            .and_then(|found| found.max_payload)
            .unwrap_or(256);
        // A packet of data has about 26 bytes of framing, header and checks.
        let payload = u64::from(payload.max(1));
        Some(speed * 1_000_000 * width * bits / of * payload / (payload + 26))
    });
    Some(match pcie {
        Some(pcie) if pcie < rate => (pcie, "its PCIe link"),
        _ => (rate, "its rate"),
    })
}

fn bandwidth_low(node: &Node, expectations: &Expectations) -> Vec<Draft> {
    let found = probed(node).filter_map(|(probe, port, past)| {
        let measured = probe.report.bandwidth.as_ref()?;
        let bytes = measured.bytes_per_second;
        let thresholds = &expectations.thresholds;
        let reasons: Vec<_> = [
            below_hardware(node, &port, measured, thresholds),
            below_equals(node, &port, bytes, thresholds),
            below_past(probe, &port, past, thresholds),
            below_expectation(bytes * 8.0, expectations.bandwidth_gbps),
        ]
        .into_iter()
        .flatten()
        .collect();
        // One reason of the usual severity is enough.
        let exception = reasons
            .iter()
            .map(|reason| reason.exception)
            .min_by_key(Option::is_some)?;
        let words: Vec<_> = reasons.iter().map(|reason| reason.words.as_str()).collect();
        let subject = Subject::of_port(&port);
        let message = format!(
            "the loopback bandwidth of {subject} is {}; {}",
            in_gigabits(bytes * 8.0),
            words.join("; ")
        );
        let finding = Draft::new(&BANDWIDTH_LOW, subject, message).exception(exception);
        Some(finding.evidence("probe, bandwidth", format!("{bytes:.0} bytes/s")))
    });
    found.collect()
}

/// What a bandwidth is too low for.
struct Reason {
    words: String,
    exception: Option<&'static Exception>,
}

fn below_hardware(
    node: &Node,
    port: &Port<'_>,
    measured: &Bandwidth,
    thresholds: &Thresholds,
) -> Option<Reason> {
    let (capacity, limit) = capacity(node, port).filter(|_| !port.hca.is_software())?;
    if measured.queue_pairs < queue_pairs_for(capacity) {
        return None;
    }
    let bits = measured.bytes_per_second * 8.0;
    #[allow(clippy::cast_precision_loss)] // compared to a few percent
    let possible = capacity as f64;
    let is_low = bits < possible * f64::from(thresholds.bandwidth_percent) / 100.0;
    is_low.then(|| Reason {
        words: format!("{limit} allows {}", gigabits(capacity)),
        exception: (bits >= possible / 2.0).then_some(&BELOW_HARDWARE),
    })
}

/// Compares with the median of the equal ports of the same rate, of which at least two were measured.
fn below_equals(node: &Node, port: &Port<'_>, bytes: f64, thresholds: &Thresholds) -> Option<Reason> {
    let group = node
        .peers()
        .into_iter()
        .find(|group| group.ports.iter().any(|peer| peer.is(port)))?;
    let rate = |port: &Port<'_>| port.rate.known().map(|rate| rate.bits_per_second);
    let others = probed(node).filter(|(_, other, _)| {
        !other.is(port) && rate(other) == rate(port) && group.ports.iter().any(|peer| peer.is(other))
    });
    let mut others: Vec<f64> = others
        .filter_map(|(probe, ..)| Some(probe.report.bandwidth.as_ref()?.bytes_per_second))
        .collect();
    others.sort_by(f64::total_cmp);
    let median = *others.get(others.len() / 2).filter(|_| others.len() >= 2)?;
    let is_low = bytes < median * f64::from(thresholds.bandwidth_percent_of_earlier) / 100.0;
    is_low.then(|| Reason {
        words: format!(
            "the median of {} equal ports is {}",
            others.len(),
            in_gigabits(median * 8.0)
        ),
        exception: (bytes >= median / 2.0).then_some(&BELOW_HARDWARE),
    })
}

fn below_past(
    probe: &Probe,
    port: &Port<'_>,
    past: Option<&PortHistory>,
    thresholds: &Thresholds,
) -> Option<Reason> {
    let bytes = probe.report.bandwidth.as_ref()?.bytes_per_second;
    let (median, number) = past?.median(&Peer::Loopback, probe.time, |measured| measured.bytes_per_second)?;
    let is_low = bytes < median * f64::from(thresholds.bandwidth_percent_of_earlier) / 100.0;
    (is_low && number >= ENOUGH).then(|| Reason {
        words: format!(
            "the median of {number} earlier probes is {}",
            in_gigabits(median * 8.0)
        ),
        exception: port.hca.is_software().then_some(&SOFTWARE_BELOW_PAST),
    })
}

fn below_expectation(bits: f64, expected: Option<u32>) -> Option<Reason> {
    let expected = expected.filter(|expected| bits < f64::from(*expected) * 1e9)?;
    Some(Reason {
        words: format!("expected {expected} Gb/s"),
        exception: None,
    })
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // shown to three digits
fn in_gigabits(bits_per_second: f64) -> String {
    gigabits(bits_per_second.clamp(0.0, 1e15) as u64)
}

/// `probe-latency-high`.
pub static LATENCY_HIGH: Rule = Rule {
    id: "probe-latency-high",
    domain: Domain::Probe,
    policy: Policy::of(Severities::WARNING),
    title: "The loopback latency of a port is higher than before",
    explanation: "The median latency of the probe's small writes is more than twice \
        (expect.thresholds.latency_percent_of_earlier) the median of earlier probes of the port. Usual causes: power \
        saving of the CPU or the PCIe link (ASPM), IOMMU translation that was enabled since, a busy CPU.",
    remedy: Remedy::all(
        "Check what changed: kernel, firmware, power settings (cpupower idle-info, cpupower frequency-info), other \
        load on the NUMA node.",
    ),
    false_alarms: "A port is only compared with its own past: at least five earlier probes, and a difference of more \
        than one microsecond. Software devices share the CPU with everything else and are not judged.",
    inputs: &[Writer::Hardware, Writer::HostRoot, Writer::Agent, Writer::Job],
    judge: latency_high,
};

fn latency_high(node: &Node, expectations: &Expectations) -> Vec<Draft> {
    const MICROSECOND: f64 = 1e-6;
    let factor = f64::from(expectations.thresholds.latency_percent_of_earlier) / 100.0;
    let hardware = probed(node).filter(|(_, port, _)| !port.hca.is_software());
    let found = hardware.filter_map(|(probe, port, past)| {
        let latency = probe.report.latency.as_ref()?.median;
        let (median, number) = past?.median(&Peer::Loopback, probe.time, |measured| measured.latency)?;
        let high = number >= ENOUGH && latency > median * factor && latency > median + MICROSECOND;
        if !high {
            return None;
        }
        let subject = Subject::of_port(&port);
        let message = format!(
            "the loopback latency of {subject} is {:.2} µs; the median of {number} earlier probes is {:.2} µs",
            latency / MICROSECOND,
            median / MICROSECOND
        );
        Some(Draft::new(&LATENCY_HIGH, subject, message).evidence(
            "probe, latency, median",
            format!("{:.2} µs", latency / MICROSECOND),
        ))
    });
    found.collect()
}
