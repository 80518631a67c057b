//! Rates of corrected bits and of pause frames, compared with the equal ports of the node.

use rdma_health_node::{
    Cable, Node,
    drivers::PAUSE_GIVEN_UP,
    kmsg::EventKind,
    netdev::counters::{
        FEC_CORRECTED_BITS, PAUSE_RECEIVED, PAUSE_RECEIVED_TIME, PAUSE_SENT, PAUSE_SENT_TIME, PAUSE_STORMS,
    },
};

use super::compared::{
    TIMES, compared, link_total as total, per_second_of_link as per_second, percent, period,
};
use super::logged::{Part, faults, is_past};
use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Severity, Subject, Writer, draft::Draft,
    policy::Exception,
};

/// Below this bit error ratio before correction, no link is reported, whatever its equals have: the weakest code that IEEE 802.3 specifies
/// for 25 Gb/s and more corrects five hundred times as much.
const WORTH_A_LOOK: f64 = 1e-7;
/// The bit error ratio before correction for which IEEE 802.3 specifies RS(544,514), the code of lanes with PAM4.
const TOO_MUCH: f64 = 2.4e-4;
/// The same for RS(528,514), the code of lanes of 25 Gb/s with NRZ (clauses 91 and 108; 100GBASE-SR4 and 25GBASE-SR, for example).
const TOO_MUCH_FOR_NRZ: f64 = 5e-5;

/// The bit error ratio for which the code of a link is specified; `None` if no standard gives one. The kernel reports both codes of IEEE 802.3 as
/// `RS`; the rate of a lane distinguishes them. If it is not known, the stronger code may be in use.
fn too_much(node: &Node, cable: &Cable<'_>) -> Option<f64> {
    /// Between the rates of lanes of 25 and of 50 Gb/s.
    const FASTEST_NRZ_LANE: u64 = 30_000_000_000;
    // `LLRS` is RS(272,257) of the 25G Ethernet Consortium, `BaseR` the code of clause 74.
    let fec = node.link_of_netdev(cable.netdev?)?.fec.known()?;
    if fec.mode.as_deref() != Some("RS") {
        return None;
    }
    let rate = node.rate_of_cable(cable)?;
    let lanes = rate.lanes.map_or(1, u64::from).max(1);
    Some(if rate.bits_per_second / lanes <= FASTEST_NRZ_LANE {
        TOO_MUCH_FOR_NRZ
    } else {
        TOO_MUCH
    })
}

/// In one second.
const MICROSECONDS: f64 = 1e6;

/// `bit-errors-high`.
pub static BIT_ERRORS_HIGH: Rule = Rule {
    id: "bit-errors-high",
    domain: Domain::Link,
    policy: Policy::of(Severities::WARNING.tcp_only(Severity::Info)),
    title: "Forward error correction corrects many bits",
    explanation: "The bit error ratio before correction is above 1e-7 and ten times that of \
        the equal ports of the node, or above the ratio for which IEEE 802.3 specifies the code: 2.4e-4 for RS(544,514), and 5e-5 for RS(528,514) of \
        lanes of 25 Gb/s (25G, 50G over two lanes, 100G over four). Other codes (LLRS, BaseR) have no such ratio and are only compared. Packets still arrive whole, but \
        the reserve of the link is used up: it is the next one to lose blocks and to flap. Cable, transceiver or connector.",
    remedy: Remedy {
        any: "Clean and reseat both ends of the cable, then exchange it, and then the transceivers.",
        host: "ethtool -I --show-fec NETDEV; ethtool -m NETDEV; mlxlink -d DEVICE -c -e",
        ..Remedy::all("")
    },
    false_alarms: "Links of 50 Gb/s per lane and more have bit errors at all times, so below that ratio a port is compared with at least two equal \
        ports. Speed and lanes are those that ethtool reports, or else those of the RDMA device if its driver knows them (mlx5, InfiniBand). Bits that were corrected while the link came up do not count. Silent without an earlier reading, and for drivers that do not count corrected bits.",
    inputs: &[Writer::Hardware, Writer::Fabric, Writer::Agent],
    judge: bit_errors_high,
};

fn bit_errors_high(node: &Node, _: &Expectations) -> Vec<Draft> {
    let ratio = |cable: &Cable<'_>| {
        let rate = node.rate_of_cable(cable)?.bits_per_second;
        let per_second = per_second(node, cable, FEC_CORRECTED_BITS)?;
        // A rate in bits per second is exact.
        #[expect(clippy::cast_precision_loss)]
        let rate = rate as f64;
        (rate > 0.0).then(|| per_second / rate)
    };
    let ratios = compared(node, ratio);
    let found = ratios.into_values().filter_map(|of| {
        let is_unusual = of.value > WORTH_A_LOOK && of.usual.is_some_and(|usual| of.value > TIMES * usual);
        let limit = too_much(node, &of.cable).filter(|limit| of.value > *limit);
        if !is_unusual && limit.is_none() {
            return None;
        }
        let subject = Subject::of_port(&of.cable.port);
        let netdev = of.cable.netdev?;
        #[expect(clippy::cast_precision_loss, reason = "a rate in bits per second is exact")]
        let bits = node.rate_of_cable(&of.cable)?.bits_per_second as f64;
        let equals = of.usual.map_or(String::new(), |usual| {
            format!(", median of equal ports {usual:.1e}")
        });
        let above = limit.map_or(String::new(), |limit| {
            format!(" (its code is specified for {limit:.1e})")
        });
        let message = format!(
            "{} has a bit error ratio of {:.1e} before correction{above}{equals}, {}",
            of.cable,
            of.value,
            period(node, &of.cable, FEC_CORRECTED_BITS, |per_second| format!(
                "{:.1e}",
                per_second / bits
            ))
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
    policy: Policy::of(Severities::WARNING.tcp_only(Severity::Info)).except(&[&RECEIVED, &UNSURE, &PAST]),
    title: "A port stops traffic with pause frames most of the time",
    explanation: "The port sends or receives so many pause frames (IEEE 802.3x, or priority flow control) that they can stop the link more \
        than half of the time: one frame stops it for up to 65535 times 512 bit times (IEEE 802.3, annex 31B), and the next one can end this. Drivers \
        that count the duration of pauses (mlx5 of both kinds; bnxt_en and ionic of priority flow control) show how long it really was, also where the kernel does not show the frames. Of priority flow control, the priority \
        with the most frames counts. A port that sends them cannot \
        take what it receives: PCIe link, IOMMU, memory or the adapter itself is too slow or hangs. Pause spreads through the switches, \
        and jobs on other nodes become slow. After about a second without a break, mlx5 stops to send pause frames and drops packets \
        (tx_pause_storm_error_events; any is reported). The driver bnxt_en logs 'Pause Storm detected!'. (Guo et al., RDMA over Commodity Ethernet at Scale, SIGCOMM 2016.)",
    remedy: Remedy {
        any: "If the port sends pause frames: check its PCIe link and the findings about IOMMU and PCIe of this node, then reset the adapter. If \
            it receives them: check the switch port and the receivers of this node's traffic.",
        host: "ethtool -I --show-pause NETDEV; dcb -s pfc show dev NETDEV; ethtool -S NETDEV | grep -i -e pause -e discard",
        ..Remedy::all("")
    },
    false_alarms: "A frame can also end a pause, so without a duration the share is an upper limit: then a port is a warning only if it \
        has ten times the frames of the median of three or more equal ports. A port that receives them like its equals is not reported: that is a \
        congested fabric. Ports that all send them are: what slows them is part of this node. Silent without an earlier reading, and for drivers that \
        do not count.",
    inputs: &[Writer::Hardware, Writer::Fabric, Writer::Agent, Writer::Job],
    judge: pause_storm,
};

static RECEIVED: Exception = Exception {
    condition: "if the port receives the pause frames: then the cause is elsewhere",
    severities: Severities::INFO,
};

static UNSURE: Exception = Exception {
    condition: "if the driver does not count the duration of pauses and no equal ports have clearly fewer frames: many short pauses look the same",
    severities: Severities::INFO,
};

static PAST: Exception = Exception {
    condition: "if the kernel log alone shows it, and the last message is more than a day old or the driver started again",
    severities: Severities::INFO,
};

fn pause_storm(node: &Node, _: &Expectations) -> Vec<Draft> {
    /// The bits that a link could send while one frame stops it.
    const BITS_OF_PAUSE: f64 = 65_535.0 * 512.0;
    let directions = [
        (PAUSE_SENT, PAUSE_SENT_TIME, "sends", None),
        (PAUSE_RECEIVED, PAUSE_RECEIVED_TIME, "receives", Some(&RECEIVED)),
    ];
    let by_duration = directions
        .iter()
        .flat_map(|(counters, times, verb, exception)| stopped(node, counters, times, verb, *exception));
    let by_duration: Vec<_> = by_duration.collect();
    let found = directions
        .into_iter()
        .flat_map(|(counters, times, verb, exception)| {
            let rates = compared(node, |cable| {
                highest(node, cable, &counters).map(|(rate, _)| rate)
            });
            rates.into_values().filter_map(move |of| {
                let counter = highest(node, &of.cable, &counters)?.1;
                let measured = time(node, &of.cable, counter, &counters, &times);
                #[expect(clippy::cast_precision_loss)]
                let rate = node.rate_of_cable(&of.cable)?.bits_per_second as f64;
                let share = measured.unwrap_or(of.value * BITS_OF_PAUSE / rate);
                let is_unusual = of.usual.is_none_or(|usual| of.value > TIMES * usual);
                // `Inf` for a port without a rate.
                if share.is_nan() || share < 0.5 || !share.is_finite() || exception.is_some() && !is_unusual {
                    return None;
                }
                let subject = Subject::of_port(&of.cable.port);
                let netdev = of.cable.netdev?;
                let equals = of.usual.map_or(String::new(), |usual| {
                    format!("; median of equal ports {usual:.0}")
                });
                let period = period(node, &of.cable, counter, |per_second| {
                    format!("{per_second:.0} per second")
                });
                let (cable, share) = (&of.cable, percent(share));
                let how = if measured.is_some() { "for" } else { "at most" };
                // One frame can stop traffic for long.
                let message = if measured.is_some() && of.value < 1.0 {
                    format!("{cable} {verb} pause frames for {share:.0} % of the time (limit 50 %), fewer than one per second")
                } else {
                    format!(
                        "{cable} {verb} {:.0} pause frames per second, {how} {share:.0} % of the time (limit 50 %), {period}{equals}",
                        of.value
                    )
                };
                let is_compared = of.usual.is_some() && is_unusual;
                let unsure = (measured.is_none() && !is_compared).then_some(&UNSURE);
                Some(
                    Draft::new(&PAUSE_STORM, subject, message)
                        .exception(exception.or(unsure))
                        .fill("NETDEV", netdev)
                        .evidence(
                            format!("pause frames that {netdev} {verb}"),
                            total(node, &of.cable, counter)?,
                        ),
                )
            })
        });
    found
        .chain(by_duration)
        .chain(given_up(node))
        .chain(logged_storms(node))
        .collect()
}

/// Adapters whose driver logged a storm (`bnxt_en`: `Pause Storm detected!`).
fn logged_storms(node: &Node) -> Vec<Draft> {
    faults(
        node,
        &PAUSE_STORM,
        Part::Adapters,
        &[EventKind::PauseStorm],
        |fault, finding| {
            let is_over = fault.is_over || is_past(node, fault);
            Some(finding.exception(is_over.then_some(&PAST)))
        },
    )
}

/// Ports that stopped to send pause frames after a long time.
fn given_up(node: &Node) -> Vec<Draft> {
    let rates = compared(node, |cable| per_second(node, cable, PAUSE_STORMS));
    let found = rates.into_values().filter(|of| of.value > 0.0).filter_map(|of| {
        let netdev = of.cable.netdev?;
        let period = period(node, &of.cable, PAUSE_STORMS, |per_second| {
            format!("{:.0} per hour", per_second * 3600.0)
        });
        let message = format!(
            "{} sent pause frames for so long that the adapter stopped to send them and drops packets: {:.0} times per hour, {period}",
            of.cable,
            (of.value * 3600.0).ceil(),
        );
        Some(
            Draft::new(&PAUSE_STORM, Subject::of_port(&of.cable.port), message)
                .fill("NETDEV", netdev)
                .evidence(
                    format!("ethtool -S {netdev}: {PAUSE_GIVEN_UP}"),
                    total(node, &of.cable, PAUSE_STORMS)?,
                ),
        )
    });
    found.collect()
}

/// Ports whose driver counts how long traffic is stopped, although the kernel shows no such frames.
fn stopped(
    node: &Node,
    counters: &[&'static str; 9],
    times: &[&'static str; 9],
    verb: &str,
    exception: Option<&'static Exception>,
) -> Vec<Draft> {
    let shares = compared(node, |cable| {
        longest(node, cable, counters, times).map(|(share, _)| share)
    });
    let found = shares.into_values().filter_map(|of| {
        let is_unusual = of.usual.is_none_or(|usual| of.value > TIMES * usual);
        if of.value < 0.5 || exception.is_some() && !is_unusual {
            return None;
        }
        let netdev = of.cable.netdev?;
        let counter = longest(node, &of.cable, counters, times)?.1;
        let place = times.iter().position(|name| *name == counter)?;
        let where_to = match place.checked_sub(1) {
            Some(priority) => format!(" on priority {priority}"),
            None => String::new(),
        };
        let equals = of.usual.map_or(String::new(), |usual| {
            format!("; median of equal ports {:.0} %", percent(usual))
        });
        let period = period(node, &of.cable, counter, |per_second| {
            format!("{:.0} %", percent(per_second / MICROSECONDS))
        });
        let message = format!(
            "{} {verb} pause frames for {:.0} % of the time{where_to} (limit 50 %), {period}{equals}",
            of.cable,
            percent(of.value)
        );
        let mut durations = node.pause_durations(netdev, exception.is_some());
        let (_, statistic, _) = durations.find(|(of, ..)| *of == place)?;
        Some(
            Draft::new(&PAUSE_STORM, Subject::of_port(&of.cable.port), message)
                .exception(exception)
                .fill("NETDEV", netdev)
                .evidence(
                    format!("ethtool -S {netdev}: {statistic}"),
                    total(node, &of.cable, counter)?,
                ),
        )
    });
    found.collect()
}

/// The share of the time in which the priority was stopped that was stopped for longest, or all traffic, with its counter; of those whose frames the kernel
/// does not show.
fn longest(
    node: &Node,
    cable: &Cable<'_>,
    counters: &[&'static str; 9],
    times: &[&'static str; 9],
) -> Option<(f64, &'static str)> {
    let of_cable = node.link_counters(cable.netdev?);
    let is_shown = |counter: &str| of_cable.iter().any(|(name, _)| *name == counter);
    let shares = counters
        .iter()
        .zip(times)
        .filter(|(frames, time)| !is_shown(frames) && is_shown(time))
        .filter_map(|(_, time)| Some((per_second(node, cable, time)? / MICROSECONDS, *time)));
    shares.max_by(|(a, _), (b, _)| a.total_cmp(b))
}

/// The share of the time in which a priority was stopped, by the duration of its pauses; `None` if the driver does not count it. One that does not
/// may report zeros.
fn time(
    node: &Node,
    cable: &Cable<'_>,
    counter: &str,
    counters: &[&'static str; 9],
    times: &[&'static str; 9],
) -> Option<f64> {
    let place = counters.iter().position(|name| *name == counter)?;
    let per_second = per_second(node, cable, times[place])?;
    (per_second > 0.0).then_some(per_second / MICROSECONDS)
}

/// The highest rate of some counters, with its counter.
fn highest(node: &Node, cable: &Cable<'_>, counters: &[&'static str]) -> Option<(f64, &'static str)> {
    let rates = counters
        .iter()
        .filter_map(|counter| Some((per_second(node, cable, counter)?, *counter)));
    rates.max_by(|(a, _), (b, _)| a.total_cmp(b))
}
