//! Rates of corrected bits and of pause frames, compared with the equal ports of the node.

use rdma_health_node::{
    Cable, Node,
    netdev::counters::{FEC_CORRECTED_BITS, PAUSE_RECEIVED, PAUSE_SENT},
};

use super::compared::{TIMES, compared, link_total as total, per_second_of_link as per_second};
use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Severity, Subject, Writer, draft::Draft,
    policy::Exception,
};

/// The bit error ratio before correction that oci-hpc's health check takes as a bad signal.
const BAD_SIGNAL: f64 = 1e-7;
/// The bit error ratio before correction for which IEEE 802.3 specifies its strongest code, RS(544,514).
const TOO_MUCH: f64 = 2.4e-4;

/// `bit-errors-high`.
pub static BIT_ERRORS_HIGH: Rule = Rule {
    id: "bit-errors-high",
    domain: Domain::Link,
    policy: Policy::of(Severities::WARNING.tcp_only(Severity::Info)),
    title: "Forward error correction corrects many bits",
    explanation: "The bit error ratio before correction is above 1e-7 (oci-hpc's health check calls that a bad signal) and ten times that of \
        the equal ports of the node, or above 2.4e-4, the ratio for which IEEE 802.3 specifies RS(544,514). Packets still arrive whole, but \
        the reserve of the link is used up: it is the next one to lose blocks and to flap. Cable, transceiver or connector.",
    remedy: Remedy {
        any: "Clean and reseat both ends of the cable, then exchange it, and then the transceivers.",
        host: "ethtool -I --show-fec NETDEV; ethtool -m NETDEV; mlxlink -d DEVICE -c -e",
        ..Remedy::all("")
    },
    false_alarms: "Links of 50 Gb/s per lane and more have bit errors at all times, so below 2.4e-4 a port is compared with at least two equal \
        ports. Silent without an earlier reading, and for drivers that do not count corrected bits.",
    inputs: &[Writer::Hardware, Writer::Fabric, Writer::Agent],
    judge: bit_errors_high,
};

fn bit_errors_high(node: &Node, _: &Expectations) -> Vec<Draft> {
    let ratio = |cable: &Cable<'_>| {
        let rate = cable.port.rate.known()?.bits_per_second;
        let per_second = per_second(node, cable, FEC_CORRECTED_BITS)?;
        // A rate in bits per second is exact.
        #[expect(clippy::cast_precision_loss)]
        let rate = rate as f64;
        (rate > 0.0).then(|| per_second / rate)
    };
    let ratios = compared(node, ratio);
    let found = ratios.into_values().filter_map(|of| {
        let is_unusual = of.value > BAD_SIGNAL && of.usual.is_some_and(|usual| of.value > TIMES * usual);
        if !is_unusual && of.value <= TOO_MUCH {
            return None;
        }
        let subject = Subject::of_port(&of.cable.port);
        let netdev = of.cable.netdev?;
        let equals = of.usual.map_or(String::new(), |usual| {
            format!(", median of equal ports {usual:.1e}")
        });
        let message = format!(
            "{} has a bit error ratio of {:.1e} before correction{equals}",
            of.cable, of.value
        );
        Some(
            Draft::new(&BIT_ERRORS_HIGH, subject, message)
                .fill("NETDEV", netdev)
                .evidence(
                    format!("ethtool -I --show-fec {netdev}: corrected_bits"),
                    total(node, &of.cable, FEC_CORRECTED_BITS)?,
                ),
        )
    });
    found.collect()
}

/// `pause-storm`.
pub static PAUSE_STORM: Rule = Rule {
    id: "pause-storm",
    domain: Domain::Link,
    policy: Policy::of(Severities::WARNING.tcp_only(Severity::Info)).except(&[&RECEIVED]),
    title: "A port stops traffic with pause frames most of the time",
    explanation: "The port sends or receives so many pause frames (IEEE 802.3x, or priority flow control) that they can stop the link more \
        than half of the time: one frame stops it for up to 65535 times 512 bit times (IEEE 802.3, annex 31B). A port that sends them cannot \
        take what it receives: PCIe link, IOMMU, memory or the adapter itself is too slow or hangs. Pause spreads through the switches, \
        and jobs on other nodes become slow (Guo et al., RDMA over Commodity Ethernet at Scale, SIGCOMM 2016).",
    remedy: Remedy {
        any: "If the port sends pause frames: check its PCIe link and the findings about IOMMU and PCIe of this node, then reset the adapter. If \
            it receives them: check the switch port and the receivers of this node's traffic.",
        host: "ethtool -I --show-pause NETDEV; dcb -s pfc show dev NETDEV; ethtool -S NETDEV | grep -i -e pause -e discard",
        ..Remedy::all("")
    },
    false_alarms: "A frame can also end a pause, so the share is an upper limit. With three or more equal ports, a port is reported only if it \
        has ten times the frames of the median: then it is not a congested fabric. Silent without an earlier reading, and for drivers that \
        do not count.",
    inputs: &[Writer::Hardware, Writer::Fabric, Writer::Agent, Writer::Job],
    judge: pause_storm,
};

static RECEIVED: Exception = Exception {
    condition: "if the port receives the pause frames: then the cause is elsewhere",
    severities: Severities::INFO,
};

fn pause_storm(node: &Node, _: &Expectations) -> Vec<Draft> {
    /// The bits that a link could send while one frame stops it.
    const BITS_OF_PAUSE: f64 = 65_535.0 * 512.0;
    let directions = [
        (PAUSE_SENT, "sends", None),
        (PAUSE_RECEIVED, "receives", Some(&RECEIVED)),
    ];
    let found = directions.into_iter().flat_map(|(counter, verb, exception)| {
        let rates = compared(node, |cable| per_second(node, cable, counter));
        rates.into_values().filter_map(move |of| {
            #[expect(clippy::cast_precision_loss)]
            let rate = of.cable.port.rate.known()?.bits_per_second as f64;
            let share = of.value * BITS_OF_PAUSE / rate;
            let is_unusual = of.usual.is_none_or(|usual| of.value > TIMES * usual);
            // `Inf` for a port without a rate.
            if share.is_nan() || share < 0.5 || !share.is_finite() || !is_unusual {
                return None;
            }
            let subject = Subject::of_port(&of.cable.port);
            let netdev = of.cable.netdev?;
            let equals = of.usual.map_or(String::new(), |usual| {
                format!("; median of equal ports {usual:.0}")
            });
            let message = format!(
                "{} {verb} {:.0} pause frames per second, up to {:.0} % of the time{equals}",
                of.cable,
                of.value,
                (share * 100.0).min(100.0)
            );
            Some(
                Draft::new(&PAUSE_STORM, subject, message)
                    .exception(exception)
                    .fill("NETDEV", netdev)
                    .evidence(
                        format!("pause frames that {netdev} {verb}"),
                        total(node, &of.cable, counter)?,
                    ),
            )
        })
    });
    found.collect()
}
