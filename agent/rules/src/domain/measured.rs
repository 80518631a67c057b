//! What probes measured, against what the hardware can do and against earlier probes.

use rdma_health_node::{
    Node,
    history::PortHistory,
    infiniband::{Hca, Port},
    node::Probe,
};

use super::common::{gigabits, severity};
use crate::{Domain, Expectations, Finding, Remedy, Rule, Severity, Subject};

/// Fewer earlier measurements than this are no yardstick.
const ENOUGH: usize = 5;

/// `probe-bandwidth-low`.
pub(crate) static BANDWIDTH_LOW: Rule = Rule {
    id: "probe-bandwidth-low",
    domain: Domain::Probe,
    severity: Severity::Warning,
    title: "A loopback RDMA WRITE is slower than expected, than the hardware allows, or than it was",
    explanation: "The bandwidth of the loopback probe is below 90% (expect.thresholds.bandwidth_percent) of what the port's rate \
        and its PCIe link can carry, or below 80% (bandwidth_percent_of_earlier) of the median of earlier probes at the same \
        rate, or below what is expected (expect.bandwidth_gbps). Usual causes: a degraded PCIe link, translation by the IOMMU, a small maximum read request, a process on the wrong \
        NUMA node, a power-saving processor. A warning where RDMA is expected by the profile, below half of what the hardware \
        allows, below earlier probes, or below the expectation; for information otherwise.",
    remedy: Remedy::all(
        "Look at pci-link-degraded, iommu-group-translated and pci-max-read-request first. Then compare with ib_write_bw on the \
        same port, pinned to its NUMA node, while nothing else runs.",
    ),
    false_alarms: "Software devices are only compared with their own past and with an expectation. A port that carried traffic was not probed. The PCIe \
        link's limit counts headers of its packets.",
    judge: bandwidth_low,
};

/// Probes that measured, with their port and its past.
fn probed(node: &Node) -> impl Iterator<Item = (&Probe, &Hca, &Port, Option<&PortHistory>)> {
    node.probes.iter().filter_map(|probe| {
        let report = &probe.report;
        let hca = node.hcas.known()?.get(&report.device)?;
        let port = hca.ports.get(&report.port)?;
        let past = node
            .history
            .as_ref()
            .and_then(|history| history.port(hca, report.port));
        report
            .failure
            .is_none()
            .then_some((&**probe, &**hca, &**port, past))
    })
}

/// Bits per second that the port can carry, and what limits it.
fn capacity(node: &Node, hca: &Hca, port: &Port) -> Option<(u64, &'static str)> {
    let rate = port.rate.known()?.bits_per_second;
    let functions = node.pci.functions.known();
    let function = |address: Option<&String>| functions?.get(address?);
    // A virtual function has no link of its own.
    let link = function(hca.physical_function.known()).or_else(|| function(hca.pci_address.known()));
    let pcie = link.and_then(|function| {
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
        // A packet of data has some 26 bytes of framing, header and checks.
        let payload = u64::from(payload.max(1));
        Some(speed * 1_000_000 * width * bits / of * payload / (payload + 26))
    });
    Some(match pcie {
        Some(pcie) if pcie < rate => (pcie, "its PCIe link"),
        _ => (rate, "its rate"),
    })
}

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)] // shown to three digits
fn bandwidth_low(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    let thresholds = &expectations.thresholds;
    let mut findings = Vec::new();
    for (probe, hca, port, past) in probed(node) {
        let Some(bandwidth) = &probe.report.bandwidth else {
            continue;
        };
        let bits = bandwidth.bytes_per_second * 8.0;
        let words = |bits: f64| gigabits(bits.clamp(0.0, 1e15) as u64);
        let subject = Subject::port(&hca.name, probe.report.port);
        let mut why = Vec::new();
        let mut worst: Option<Severity> = None;
        if let Some((capacity, what)) = capacity(node, hca, port).filter(|_| !hca.is_software())
            && bits < capacity as f64 * f64::from(thresholds.bandwidth_percent) / 100.0
        {
            let auto = if bits < capacity as f64 / 2.0 {
                Severity::Warning
            } else {
                Severity::Info
            };
            worst = worst.max(severity(expectations, auto, Severity::Warning));
            why.push(format!("{what} allows {}", gigabits(capacity)));
        }
        let earlier = past.and_then(|past| past.median(probe.time, |measured| measured.bytes_per_second));
        if let Some((median, number)) = earlier.filter(|(_, number)| *number >= ENOUGH)
            && bandwidth.bytes_per_second
                < median * f64::from(thresholds.bandwidth_percent_of_earlier) / 100.0
        {
            // Software shares the processor with everything else.
            let auto = if hca.is_software() {
                Severity::Info
            } else {
                Severity::Warning
            };
            worst = worst.max(severity(expectations, auto, auto));
            why.push(format!(
                "the median of {number} earlier probes is {}",
                words(median * 8.0)
            ));
        }
        if let Some(expected) = expectations.bandwidth_gbps
            && bits < f64::from(expected) * 1e9
        {
            worst = worst.max(severity(expectations, Severity::Warning, Severity::Warning));
            why.push(format!("expected are {expected} Gb/s"));
        }
        if let Some(severity) = worst {
            let message = format!(
                "the loopback write on {subject} reached {}; {}",
                words(bits),
                why.join("; ")
            );
            let finding = Finding::new(&BANDWIDTH_LOW, subject, message).severity(severity);
            findings.push(finding.evidence(
                "probe, bandwidth",
                format!("{:.0} bytes/s", bandwidth.bytes_per_second),
            ));
        }
    }
    findings
}

/// `probe-latency-high`.
pub(crate) static LATENCY_HIGH: Rule = Rule {
    id: "probe-latency-high",
    domain: Domain::Probe,
    severity: Severity::Warning,
    title: "A small loopback RDMA WRITE takes longer than it did",
    explanation: "The median latency of the probe's small writes is more than twice (expect.thresholds.latency_percent_of_earlier) \
        the median of earlier probes of the port. Usual causes: power saving of the processor or of the PCIe link (ASPM), \
        translation by the IOMMU that was switched on since, a busy processor.",
    remedy: Remedy {
        any: "Look at what changed since: kernel, firmware, power settings (C-states, cpupower), other load on the NUMA node.",
        ..Remedy::all("")
    },
    false_alarms: "Only compared with the port's own past, with at least five earlier probes and a difference of more than a \
        microsecond. Software devices, which share the processor with everything else, are not judged.",
    judge: latency_high,
};

fn latency_high(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    const MICROSECOND: f64 = 1e-6;
    let factor = f64::from(expectations.thresholds.latency_percent_of_earlier) / 100.0;
    let found = probed(node).filter(|(_, hca, ..)| !hca.is_software()).filter_map(|(probe, hca, _, past)| {
        let latency = probe.report.latency.as_ref()?.median;
        let (median, number) = past?.median(probe.time, |measured| measured.latency)?;
        let high = number >= ENOUGH && latency > median * factor && latency > median + MICROSECOND;
        let severity = severity(expectations, Severity::Warning, Severity::Warning).filter(|_| high)?;
        let subject = Subject::port(&hca.name, probe.report.port);
        let message = format!(
            "a small write on {subject} takes {:.2} µs; the median of {number} earlier probes is {:.2} µs",
            latency / MICROSECOND,
            median / MICROSECOND
        );
        Some(
            Finding::new(&LATENCY_HIGH, subject, message)
                .severity(severity)
                .evidence("probe, latency, median", format!("{:.2} µs", latency / MICROSECOND)),
        )
    });
    found.collect()
}
