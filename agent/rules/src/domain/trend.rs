//! Changes over time: links that go up and down, error counters that rise.

use rdma_health_node::{
    Cable, Node, Port,
    events::DeviceEvent,
    history::PortHistory,
    kmsg::EventKind,
    netdev::{counters::FEC_UNCORRECTABLE, name_in_history},
    words::duration,
};

use super::compared::{lately, link_total};
use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Subject, Writer, draft::Draft,
    expectations::Thresholds, policy::Exception,
};

mod congestion;
mod damaged;
mod members;
mod packets;
mod totals;

const HOUR: u64 = 3600;
/// Loading drivers and setting addresses takes a link down a few times.
const BOOT_DOWNS: u64 = 3;
/// How often maintenance takes a link down, for each day and at most.
const MAINTENANCE: (u64, u64) = (3, 30);

/// `port-flapping`.
pub static PORT_FLAPPING: Rule = Rule {
    id: "port-flapping",
    domain: Domain::Link,
    policy: Policy::of(Severities::WARNING).except(&[&A_FEW_TIMES, &PERHAPS_LONG_AGO]),
    title: "A port goes down repeatedly",
    explanation: "The link went down several times within 12 hours (expect.thresholds.flaps_in_12_hours). Each time, \
        all connections over it break and jobs fail with IBV_WC_RETRY_EXC_ERR(12). Usual causes are a bad cable or \
        transceiver, a dirty optical connector, a switch port or a firmware bug.",
    remedy: Remedy {
        any: "Reseat or replace the cable or transceiver, clean the connectors, and try another switch port. Compare \
            with the log of the switch. Update the firmware of the adapter.",
        host: "Show when the link went down: journalctl -k | grep -i link; show why it did last: mlxlink -d DEVICE -c",
        ..Remedy::all("")
    },
    false_alarms: "The first half hour after boot is not counted. A port that is down now is reported by port-down. \
        Virtual functions and their representors go down whenever a pod ends and are not judged. Without earlier \
        readings, a port is judged by the kernel log, which many drivers write when the link of an Ethernet port changes, and by its counter \
        since the boot (carrier_down_count of the network device, link_downed of the port): within 12 hours of the boot if it went down more often than a \
        boot explains. The members of a bond, whose port stays ACTIVE while one of them has a link, are judged likewise. link_downed counts since the adapter was reset, which may be before the boot, so it counts only if it is more than twice the \
        median of the equal ports. Later, the counter does not say when, and is information only.",
    inputs: &[Writer::Hardware, Writer::Fabric, Writer::Agent, Writer::Job],
    judge: port_flapping,
};

static A_FEW_TIMES: Exception = Exception {
    condition: "if it went down less often, the last time within six hours, and was ACTIVE again",
    severities: Severities::INFO,
};

static PERHAPS_LONG_AGO: Exception = Exception {
    condition: "if only the counter of a node that runs for longer than 12 hours shows it: as often on average since the boot, or at least 10 times and \
        ten times as often as the median of the equal ports, of which there must be three",
    severities: Severities::INFO,
};

fn port_flapping(node: &Node, expectations: &Expectations) -> Vec<Draft> {
    let limit = expectations.thresholds.flaps_in_12_hours as usize;
    let events = node.device_events();
    let found = node.ports().filter(|port| !port.is_lent()).filter_map(|port| {
        let past = node.past(&port);
        let logged = || logged(node, &events, &port, limit);
        let (exception, words) = went_down(node, &port, past, limit, logged)?;
        let subject = Subject::of_port(&port);
        // How often it goes down now, and how often it has.
        let in_all = downs_of(&port)
            .filter(|downs| {
                !words.contains("since the boot") && !words.starts_with(&format!("{downs} times"))
            })
            .map_or_else(String::new, |downs| format!("; its counter has {downs} in all"));
        let message = format!("{subject} went down {words}{in_all}");
        let mut finding = Draft::new(&PORT_FLAPPING, subject, message).exception(exception);
        let of_netdev = port
            .netdev
            .known()
            .and_then(|netdev| Some((netdev.name.as_str(), *netdev.carrier_downs.known()?)));
        let own = counter(&port, "link_downed");
        if let Some((name, downs)) = of_netdev
            && own.is_none_or(|own| own <= downs)
        {
            let file = format!("/sys/class/net/{name}/carrier_down_count");
            finding = finding.evidence(file, downs);
        } else if let Some(downs) = own {
            finding = finding.evidence(port.file("counters/link_downed"), downs);
        }
        if let Some(last) = past.and_then(|past| past.last_down(node.time)) {
            let ago = duration(node.time.saturating_sub(last));
            finding = finding.evidence("history, last down", format!("{ago} ago"));
        }
        Some(finding)
    });
    let mut findings: Vec<_> = found.collect();
    findings.extend(members::flapping(node, limit));
    findings
}

/// How often a port went down, in words, if that is reported.
fn went_down(
    node: &Node,
    port: &Port<'_>,
    past: Option<&PortHistory>,
    limit: usize,
    logged: impl FnOnce() -> Option<(Option<&'static Exception>, String)>,
) -> Option<(Option<&'static Exception>, String)> {
    let Some(past) = past else {
        let words = |(downs, uptime)| format!("{downs} times since the boot {} ago", duration(uptime));
        return since_boot(node, port, limit)
            .map(|counted| (None, words(counted)))
            .or_else(logged)
            .or_else(|| {
                let often = long_since_boot(node, port, limit).or_else(|| unlike_equals(node, port))?;
                Some((Some(&PERHAPS_LONG_AGO), words(often)))
            });
    };
    let since = |seconds| past.downs_within(seconds, node.time);
    let recent = since(12 * HOUR);
    if recent >= limit {
        return Some((
            None,
            format!("{recent} times within 12 hours, expected fewer than {limit}"),
        ));
    }
    // A port that is down now is reported by port-down; the times before are not over because of it.
    let is_down_since_before = port.is_active() == Some(false) && past.active == Some(false);
    let latest = since(6 * HOUR).saturating_sub(usize::from(is_down_since_before));
    let times = if latest == 1 {
        "once".into()
    } else {
        format!("{latest} times")
    };
    (latest > 0 && port.is_active().is_some())
        .then(|| (Some(&A_FEW_TIMES), format!("{times} within 6 hours")))
}

/// The number of times a port went down since boot and the uptime in seconds, if that is within 12 hours and more than
/// booting explains.
fn since_boot(node: &Node, port: &Port<'_>, limit: usize) -> Option<(u64, u64)> {
    let uptime = *node.host.uptime.known().filter(|uptime| **uptime < 12 * HOUR)?;
    let is_often = |downs: &u64| *downs >= limit as u64 + BOOT_DOWNS;
    // The adapter may have counted before the boot.
    let own = || {
        let own = counter(port, "link_downed")
            .filter(|downs| is_often(downs) && !port.hca.is_virtual() && !port.hca.is_software())?;
        let usual = median(downs_of_equals(node, port).into_iter());
        usual.is_none_or(|usual| own / 2 > usual).then_some(own)
    };
    let downs = carrier_downs(port).filter(is_often).or_else(own)?;
    Some((downs, uptime))
}

/// How often each port went down that is equal to a port.
fn downs_of_equals(node: &Node, port: &Port<'_>) -> Vec<u64> {
    let peers = node.peers();
    let group = peers
        .iter()
        .find(|peers| peers.ports.iter().any(|member| member.is(port)));
    let others = group.into_iter().flat_map(|peers| peers.ports.iter());
    others
        .filter(|other| !other.is(port))
        .filter_map(downs_of)
        .collect()
}

/// The number of times a port of a node that runs for longer went down, and the uptime, if its equals went down far less often.
fn unlike_equals(node: &Node, port: &Port<'_>) -> Option<(u64, u64)> {
    const LEAST: u64 = 10;
    let uptime = *node.host.uptime.known().filter(|uptime| **uptime >= 12 * HOUR)?;
    let downs = downs_of(port)
        .filter(|downs| *downs >= LEAST && !port.hca.is_virtual() && !port.hca.is_software())?;
    let equals = downs_of_equals(node, port);
    let is_enough = equals.len() >= FEWEST;
    let usual = median(equals.into_iter()).filter(|_| is_enough)?;
    (usual.saturating_mul(10) <= downs).then_some((downs, uptime))
}

/// The same for a node that runs for longer, if the port went down more often than the limit on average, without the times of
/// booting and maintenance. Virtual functions go down with each pod.
fn long_since_boot(node: &Node, port: &Port<'_>, limit: usize) -> Option<(u64, u64)> {
    let uptime = *node.host.uptime.known().filter(|uptime| **uptime >= 12 * HOUR)?;
    let downs = downs_of(port)?;
    (in_12_hours(downs, uptime) >= limit as u64 && !port.hca.is_virtual() && !port.hca.is_software())
        .then_some((downs, uptime))
}

/// How often a link went down in 12 hours on average, without the times of booting and maintenance.
fn in_12_hours(downs: u64, uptime: u64) -> u64 {
    let maintenance = (uptime.div_ceil(24 * HOUR) * MAINTENANCE.0).min(MAINTENANCE.1);
    let counted = downs.saturating_sub(BOOT_DOWNS + maintenance);
    counted.saturating_mul(12 * HOUR) / uptime
}

/// How often the network device of a port lost its carrier since the boot.
fn carrier_downs(port: &Port<'_>) -> Option<u64> {
    port.netdev.known()?.carrier_downs.known().copied()
}

/// How often a port went down since the boot. An InfiniBand port counts it itself, and an Ethernet port often as well.
fn downs_of(port: &Port<'_>) -> Option<u64> {
    let own = counter(port, "link_downed");
    carrier_downs(port)
        .filter(|_| !port.is_infiniband() || own.is_none())
        .max(own)
}

/// An unusual count is so many times the median of the equal ones, of which there are [`FEWEST`] at least.
const TIMES: u64 = 100;
const FEWEST: usize = 3;

/// The median of the equal ones, the higher of two: so it is that of a good one as long as at most half of all are bad.
fn median<T: Copy + PartialOrd>(equals: impl Iterator<Item = T>) -> Option<T> {
    let mut equals: Vec<T> = equals.collect();
    equals.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    equals.get(equals.len() / 2).copied()
}

/// Whether a count is unusual: 100 times the median of the equal ones, of which there are three at least. Returns that median.
pub(super) fn far_above(count: u64, equals: impl Iterator<Item = u64>) -> Option<u64> {
    let equals: Vec<u64> = equals.collect();
    let usual = median(equals.iter().copied()).filter(|_| equals.len() >= FEWEST)?;
    (count >= usual.saturating_mul(TIMES)).then_some(usual)
}

/// How often the kernel logged that the link of an active port went down, if the last time is less than 12 hours ago.
fn logged(
    node: &Node,
    events: &[DeviceEvent<'_>],
    port: &Port<'_>,
    limit: usize,
) -> Option<(Option<&'static Exception>, String)> {
    /// Changes so soon after the boot, in seconds, are those of drivers and settings.
    const BOOTING: u64 = HOUR / 2;
    if port.is_active() != Some(true) || port.hca.is_virtual() {
        return None;
    }
    let uptime = *node.host.uptime.known()?;
    let address = port.hca.pci_address.known()?;
    let name = port.netdev.known().map(|netdev| netdev.name.as_str());
    let is_alone = port.hca.ports.len() == 1;
    let found = events.iter().find(|fault| {
        let function = fault.function.as_ref().filter(|_| !fault.is_above);
        fault.event.kind == EventKind::LinkDown
            && function.is_some_and(|function| function.address == address)
            && (is_alone || name.is_some_and(|name| fault.event.message.contains(name)))
    })?;
    let (first, last) = (found.event.first?, found.event.last?);
    let (age, count) = (uptime.saturating_sub(first), found.event.count);
    if uptime.saturating_sub(last) >= 12 * HOUR || last < BOOTING {
        return None;
    }
    // The log keeps the number since the first time. If that is longer ago, the usual number in 12 hours counts.
    let in_12_hours = if age > 12 * HOUR {
        count * 12 * HOUR / age
    } else {
        count
    };
    let times = if count == 1 {
        "once".into()
    } else {
        format!("{count} times")
    };
    let words = format!("{times} in the last {}, as the kernel logged", duration(age));
    if in_12_hours >= limit as u64 && first >= BOOTING {
        return Some((None, words));
    }
    (uptime.saturating_sub(last) < 6 * HOUR).then_some((Some(&A_FEW_TIMES), words))
}

fn counter(port: &Port<'_>, name: &str) -> Option<u64> {
    let mut all = port.counters.iter().chain(&port.hw_counters);
    all.find(|counter| &*counter.name == name)?.value.known().copied()
}

/// Of a port without an earlier reading.
static WITHOUT_EQUALS: Exception = Exception {
    condition: "if a RoCE port without an earlier reading and without equal ports counted 1000 lost packets or more since its driver started, or more errors of \
        its signal than its uptime and the times that its link went down explain; with an earlier reading, if nothing but its counters of lost packets rose, by 100000 in about an hour",
    severities: Severities::INFO,
};

static OF_THE_LINK: Exception = Exception {
    condition: "if a port without an earlier reading counted far more errors of its signal than equal ports (fec_uncorrectable, fcs_errors, \
        physical_symbol_errors), but not more than its uptime and the times that its link went down explain",
    severities: Severities::INFO,
};

/// `counter-errors`.
pub static COUNTER_ERRORS: Rule = Rule {
    id: "counter-errors",
    domain: Domain::Link,
    policy: Policy::of(Severities::WARNING).except(&[&WITHOUT_EQUALS, &OF_THE_LINK]),
    title: "Error counters of a port are rising",
    explanation: "Since an earlier reading, counters rose faster than on a healthy link: symbol_error and \
        link_error_recovery (signal quality: cable, transceiver), port_rcv_errors (packets that arrived damaged), \
        local_link_integrity_errors and excessive_buffer_overrun_errors (any rise; flow control or hardware), \
        fec_uncorrectable (blocks that forward error correction gave up: cable, transceiver; IEEE 802.3 allows a bit error ratio of 1e-12 after \
        correction up to 100 Gb/s and 1e-13 above, which is 46 blocks an hour at 100 Gb/s with RS(528,514) and 10 at 400 Gb/s), \
        rx_icrc_encapsulated (any rise; packets damaged inside an adapter or switch), \
        fcs_errors and physical_symbol_errors of an Ethernet port (frames with a wrong checksum and errors that correction left: more than one for each \
        1e12 bits of the rate, which IEEE 802.3 allows, or a tenth of that and ten times the median of the equal ports), \
        port_xmit_discards and roce_slow_restart (congestion: PFC, ECN), local_ack_timeout_err (missing \
        acknowledgements), and the counters of lost packets of each driver (mlx5 out_of_sequence and packet_seq_err, bnxt_re to_retransmits, seq_err_naks_rcvd and \
        oos_drop_count, irdma tcpRetransSegs, ionic tx_rdma_ack_timeout, resp_rx_outouf_seq and req_rx_pkt_seq_err, and the like; by 100000 in about an hour, and 100 times \
        as fast as the median of the equal ports, of which there must be three), and its counters of connections that broke and of errors of the hardware \
        (mlx5 req_transport_retries_exceeded, bnxt_re max_retry_exceeded, unrecoverable_err and res_mem_error, ionic req_tx_retry_excd_err, mana requester_retries_exceeded, \
        general_hw_error and total_fatal_error; by 100, compared likewise). Packets are sent again and bandwidth drops, or connections break. The limits are in \
        expect.thresholds.",
    remedy: Remedy {
        any: "For signal errors, reseat or replace cable and transceiver. For discards, slow restarts and timeouts, \
            compare the flow control settings (PFC, ECN, priorities) of adapter and switch.",
        host: "InfiniBand: perfquery; Ethernet: ethtool -S NETDEV; mlxlink -d DEVICE -c -e",
        ..Remedy::all("")
    },
    false_alarms: "With an earlier reading, only the rise of a counter is judged: one that is high and does not rise is not reported. What a port counts \
        while its link goes down or comes up is not an error of the running link: errors of the signal, discards, slow restarts and timeouts are compared only \
        with readings since the link came up, and port-flapping reports a link that goes down again and again. Without an earlier reading, \
        a counter of lost packets is reported if it is at least 100000 and 100 times the median of the equal ports of the node, of which there must \
        be three, so several bad ports are found if at most half of them are bad; one of broken connections likewise from 1000, and impaired_remote_conn_events and unresponsive_remote_events of efa from 5000; symbol_error from 10000, port_rcv_errors from 65535 (their 16 bits stop there), link_error_recovery from 50. fec_uncorrectable, fcs_errors and physical_symbol_errors are then a warning only if they are more than IEEE 802.3 allows since \
        boot and, for each time that the link went down and once for the boot, all blocks of a tenth of a second. An InfiniBand port is also reported \
        without equals if it counted 10000 in symbol_error, or 65535, and more on average since boot than the limit for an hour. A sender tries again at most 7 times (InfiniBand Architecture Specification, 9.7.5), so one failed job with thousands of \
        queue pairs counts less. A switch that forwards a frame before it has received all of it passes a wrong checksum on: with fcs_errors and without \
        physical_symbol_errors, look at the ports behind the switch port, too. A counter that fell was reset. A counter that cannot be read is not judged.",
    inputs: &[Writer::Hardware, Writer::Fabric, Writer::Agent, Writer::Job],
    judge: counter_errors,
};

/// A counter, how much it may rise, and in how many seconds.
type Limit = (&'static str, u32, u64);

fn limits(thresholds: &Thresholds) -> [Limit; 10] {
    [
        ("symbol_error", thresholds.symbol_errors_per_hour, HOUR),
        (FEC_UNCORRECTABLE, thresholds.fec_uncorrectable_per_hour, HOUR),
        ("link_error_recovery", thresholds.link_recoveries_per_minute, 60),
        ("port_rcv_errors", thresholds.receive_errors_per_second, 1),
        ("local_ack_timeout_err", thresholds.ack_timeouts_per_second, 1),
        ("port_xmit_discards", thresholds.discards_per_second, 1),
        ("roce_slow_restart", thresholds.slow_restarts_per_second, 1),
        // Any rise counts.
        ("excessive_buffer_overrun_errors", 0, HOUR),
        ("local_link_integrity_errors", 0, HOUR),
        ("rx_icrc_encapsulated", 0, HOUR),
    ]
}

fn counter_errors(node: &Node, expectations: &Expectations) -> Vec<Draft> {
    let limits = limits(&expectations.thresholds);
    let (damaged, lost) = (damaged::rises(node), packets::rises(node));
    let rises = node.ports().filter_map(|port| {
        let of_counters = limits.iter().flat_map(|limit| rises_above(node, &port, limit));
        let of_others = damaged
            .iter()
            .chain(&lost)
            .filter(|(of, _)| of.is(&port))
            .map(|(_, rise)| rise.clone());
        let rises: Vec<_> = of_counters.chain(of_others).collect();
        if rises.is_empty() {
            return None;
        }
        let subject = Subject::of_port(&port);
        let words: Vec<_> = rises.iter().map(|rise| rise.words.as_str()).collect();
        let message = format!("error counters of {subject} rose: {}", words.join(", "));
        let (case, remedy) = congestion::case(&port, &rises);
        let is_alone = rises.iter().all(|rise| rise.is_alone);
        let finding = Draft::new(&COUNTER_ERRORS, subject, message)
            .case(case)
            .exception(is_alone.then_some(&WITHOUT_EQUALS))
            .remedy(remedy);
        Some(
            rises
                .iter()
                .fold(finding, |finding, rise| finding.evidence(&rise.file, rise.value)),
        )
    });
    rises
        .chain(totals::findings(node, &expectations.thresholds))
        .collect()
}

/// A counter that rose faster than its limit.
#[derive(Debug, Clone)]
struct Rise {
    counter: &'static str,
    /// `symbol_error by 200 in 60 min (limit 120)`.
    words: String,
    file: String,
    value: u64,
    /// Whether it needs equal ports to be more than information, and there are none.
    is_alone: bool,
}

/// The rises of a counter; those of forward error correction for each cable.
fn rises_above(node: &Node, port: &Port<'_>, limit: &Limit) -> Vec<Rise> {
    let name = limit.0;
    if name == FEC_UNCORRECTABLE {
        let cables = node.cables_of(port);
        return cables
            .iter()
            .filter_map(|cable| rise_of_fec(node, cable, limit))
            .collect();
    }
    let Some(value) = counter(port, name) else {
        return Vec::new();
    };
    let is_standard = port.counters.iter().any(|counter| &*counter.name == name);
    let directory = if is_standard { "counters" } else { "hw_counters" };
    let words = rise_above(node, port, None, name, value, limit);
    let rise = words.map(|words| Rise {
        counter: name,
        words,
        file: port.file(&format!("{directory}/{name}")),
        value,
        is_alone: false,
    });
    rise.into_iter().collect()
}

fn rise_of_fec(node: &Node, cable: &Cable<'_>, limit: &Limit) -> Option<Rise> {
    let netdev = cable.netdev?;
    let value = link_total(node, cable, FEC_UNCORRECTABLE)?;
    let member = cable.member();
    let words = rise_above(node, &cable.port, member, FEC_UNCORRECTABLE, value, limit)?;
    Some(Rise {
        counter: FEC_UNCORRECTABLE,
        words,
        file: damaged::file_of(netdev, FEC_UNCORRECTABLE),
        value,
        is_alone: false,
    })
}

/// What to say of a counter that rose faster than its limit.
fn rise_above(
    node: &Node,
    port: &Port<'_>,
    member: Option<&str>,
    name: &str,
    value: u64,
    limit: &Limit,
) -> Option<String> {
    let (_, limit, unit) = *limit;
    // A burst shows in a few minutes; what is counted by the hour needs an hour.
    let window = if unit == HOUR { HOUR + 300 } else { 900 };
    let (rise, seconds) = node.rise(port, member, name, value, (60, window))?;
    let counter = name;
    let name = name_in_history(name, member);
    let allowed = u64::from(limit).saturating_mul(seconds.max(unit)) / unit;
    let now = match lately(node, port, member, counter, value, seconds) {
        Some((0, lately)) => format!(", none in the last {}", duration(lately)),
        _ => String::new(),
    };
    (rise > allowed).then(|| format!("{name} by {rise} in {} (limit {allowed}{now})", duration(seconds)))
}
