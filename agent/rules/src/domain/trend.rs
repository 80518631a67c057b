//! What changes over time: links that go up and down, error counters that rise.

use rdma_health_node::{Node, infiniband::Port, node::PortOf};

use super::common::{ago, is_lent, port_file, severity};
use crate::{Domain, Expectations, Finding, Remedy, Rule, Severity, Subject, expectations::Thresholds};

const HOUR: u64 = 3600;

/// `port-flapping`.
pub(crate) static PORT_FLAPPING: Rule = Rule {
    id: "port-flapping",
    domain: Domain::Link,
    severity: Severity::Warning,
    title: "A port goes down again and again",
    explanation: "The link went down several times within 12 hours (expect.thresholds.flaps_in_12_hours). Each time every \
        connection over it breaks: jobs end with IBV_WC_RETRY_EXC_ERR(12). The usual causes are a bad cable or transceiver, \
        dirt on an optical connector, a switch port or a firmware fault. One time within six hours is for information.",
    remedy: Remedy {
        any: "Reseat or replace the cable or transceiver, clean the connectors, try another switch port; compare with the \
            switch's log. Update the adapter's firmware.",
        host: "mlxlink -d DEVICE -c shows why the link went down last; journalctl -k | grep -i link shows when.",
        ..Remedy::all("")
    },
    false_alarms: "What happens in the first half hour after boot is not counted. A port that is down now is port-down. \
        Virtual functions and their representors go down with each pod that ends and are not judged. Without \
        earlier readings only a count that is high for a node that was booted within 12 hours tells.",
    judge: port_flapping,
};

fn port_flapping(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    let Some(warning) = severity(expectations, Severity::Warning, Severity::Warning) else {
        return Vec::new();
    };
    let limit = expectations.thresholds.flaps_in_12_hours as usize;
    let mut findings = Vec::new();
    for (hca, number, port) in node.ports().filter(|port| !is_lent(port)) {
        let past = node
            .history
            .as_ref()
            .and_then(|history| history.port(hca, number));
        let recent = past.map_or(0, |past| past.downs_since(node.time.saturating_sub(12 * HOUR)));
        let latest = past.map_or(0, |past| past.downs_since(node.time.saturating_sub(6 * HOUR)));
        let subject = Subject::port(&hca.name, number);
        let (severity, message) = if recent >= limit {
            (
                warning,
                format!("{subject} went down {recent} times within 12 hours"),
            )
        } else if latest > 0 && port.is_active() == Some(true) {
            let times = if latest == 1 {
                "once".into()
            } else {
                format!("{latest} times")
            };
            (
                Severity::Info,
                format!("{subject} went down {times} within 6 hours"),
            )
        } else if let (None, Some((downs, uptime))) = (past, since_boot(node, port, limit)) {
            (
                warning,
                format!(
                    "{subject} went down {downs} times since boot, {} ago",
                    ago(uptime)
                ),
            )
        } else {
            continue;
        };
        let mut finding = Finding::new(&PORT_FLAPPING, subject, message).severity(severity);
        if let Some(netdev) = port.netdev.known()
            && let Some(downs) = netdev.carrier_downs.known()
        {
            finding = finding.evidence(
                format!("/sys/class/net/{}/carrier_down_count", netdev.name),
                downs,
            );
        } else if let Some(downs) = counter(port, "link_downed") {
            finding = finding.evidence(port_file(hca, number, "counters/link_downed"), downs);
        }
        if let Some(last) = past.and_then(|past| past.downs.last()) {
            finding = finding.evidence(
                "history, last down",
                format!("{} ago", ago(node.time.saturating_sub(*last))),
            );
        }
        findings.push(finding);
    }
    findings
}

/// How often a port went down since a boot within the last 12 hours, where that is more than booting explains.
fn since_boot(node: &Node, port: &Port, limit: usize) -> Option<(u64, u64)> {
    // Loading drivers and setting addresses takes a link down a few times.
    const BOOTING: u64 = 3;
    let uptime = *node.host.uptime.known().filter(|uptime| **uptime < 12 * HOUR)?;
    let downs = *port.netdev.known()?.carrier_downs.known()?;
    (downs >= limit as u64 + BOOTING).then_some((downs, uptime))
}

fn counter(port: &Port, name: &str) -> Option<u64> {
    let mut all = port.counters.iter().chain(&port.hw_counters);
    all.find(|counter| &*counter.name == name)?.value.known().copied()
}

/// `counter-errors`.
pub(crate) static COUNTER_ERRORS: Rule = Rule {
    id: "counter-errors",
    domain: Domain::Link,
    severity: Severity::Warning,
    title: "Error counters of a port rise",
    explanation: "Counters rose faster than a sound link explains since an earlier reading: symbol_error and \
        link_error_recovery (signal: cable, transceiver), port_rcv_errors (packets that arrived broken), \
        local_link_integrity_errors and excessive_buffer_overrun_errors (any rise; flow control or hardware), \
        port_xmit_discards and roce_slow_restart (congestion: PFC, ECN), local_ack_timeout_err (answers that never came). \
        Packets are sent again and bandwidth falls, or connections break. The limits are in expect.thresholds.",
    remedy: Remedy {
        any: "Signal errors: reseat or replace cable and transceiver. Discards, slow restarts and timeouts: compare flow \
            control (PFC, ECN, priorities) of adapter and switch.",
        host: "mlxlink -d DEVICE -c -e; perfquery for InfiniBand; ethtool -S NETDEV.",
        ..Remedy::all("")
    },
    false_alarms: "What a counter holds says nothing, only its rise does; without an earlier reading the rule is silent. A \
        counter that fell was reset. A counter that cannot be read is not judged.",
    judge: counter_errors,
};

/// A counter, how much it may rise, and in how many seconds.
fn limits(thresholds: &Thresholds) -> [(&'static str, u32, u64); 8] {
    [
        ("symbol_error", thresholds.symbol_errors_per_hour, HOUR),
        ("link_error_recovery", thresholds.link_recoveries_per_minute, 60),
        ("port_rcv_errors", thresholds.receive_errors_per_second, 1),
        ("local_ack_timeout_err", thresholds.ack_timeouts_per_second, 1),
        ("port_xmit_discards", thresholds.discards_per_second, 1),
        ("roce_slow_restart", thresholds.slow_restarts_per_second, 1),
        // Any rise counts.
        ("excessive_buffer_overrun_errors", 0, HOUR),
        ("local_link_integrity_errors", 0, HOUR),
    ]
}

fn counter_errors(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    let Some(severity) = severity(expectations, Severity::Warning, Severity::Warning) else {
        return Vec::new();
    };
    let rising = |(hca, number, port): PortOf<'_>| {
        let past = node.history.as_ref()?.port(hca, number)?;
        let mut words = Vec::new();
        let mut evidence = Vec::new();
        for (name, limit, unit) in limits(&expectations.thresholds) {
            let Some(value) = counter(port, name) else {
                continue;
            };
            // A burst shows in a few minutes; what is counted by the hour needs one.
            let window = if unit == HOUR { HOUR + 300 } else { 900 };
            let Some((rise, seconds)) = past.counters.rise(name, value, node.time, 60, window) else {
                continue;
            };
            let allowed = u64::from(limit).saturating_mul(seconds.max(unit)) / unit;
            if rise > allowed {
                words.push(format!("{name} by {rise} in {}", ago(seconds)));
                let directory = if port.counters.iter().any(|counter| &*counter.name == name) {
                    "counters"
                } else {
                    "hw_counters"
                };
                evidence.push((port_file(hca, number, &format!("{directory}/{name}")), value));
            }
        }
        let subject = Subject::port(&hca.name, number);
        let message = format!("errors of {subject} rose: {}", words.join(", "));
        let mut finding = Finding::new(&COUNTER_ERRORS, subject, message).severity(severity);
        for (file, value) in evidence {
            finding = finding.evidence(file, value);
        }
        (!words.is_empty()).then_some(finding)
    };
    node.ports().filter_map(rising).collect()
}
