//! The ports: state, device, network, probe, and the last day.

use std::collections::BTreeMap;

use rdma_health_node::{
    Port,
    failure::in_words,
    history::Point,
    words::{bandwidth, count, gigabits},
};
use rdma_health_protocol::ProbeReport;
use rdma_health_rules::{Finding, Severity, Verdict, domain::lost::DEVICE_LOST};
use rdma_health_view::View;

use super::{
    frame::badge,
    spark::{self, Kind},
};
use crate::{
    devices::{NO_PORTS, Row, rows},
    markup::Markup,
};

/// Maximum number of ports in the table. A node with more has virtual functions, of which `rdma-health devices` has all.
const MAX_ROWS: usize = 96;
/// The content of an empty cell.
const DASH: &str = "–";

/// The worst severity of a device's and of a port's findings of warning or above, by `mlx5_0` and `mlx5_0:1`, and by PCI address.
pub(super) fn troubled(verdict: &Verdict) -> BTreeMap<String, Severity> {
    let mut worst = BTreeMap::new();
    for finding in &verdict.findings {
        if finding.severity > Severity::Info && finding.subject.device.is_some() {
            let severity = worst
                .entry(finding.subject.to_string())
                .or_insert(finding.severity);
            *severity = finding.severity.max(*severity);
        }
    }
    worst
}

pub(super) fn write(page: &mut Markup, view: &View, troubled: &BTreeMap<String, Severity>) {
    page.html("<section aria-labelledby=ports><h2 id=ports>Ports</h2>");
    let rows = rows(&view.node);
    let gone = gone(view);
    if let Some(unread) = view.node.hcas.unread() {
        page.html("<p>RDMA devices could not be read: ").text(unread);
    } else if rows.is_empty() && gone.is_empty() {
        page.html("<p>No RDMA device.");
    } else {
        table(page, view, &rows, &gone, troubled);
    }
    page.html("</section>");
}

/// The findings about RDMA devices that are gone, which no port shows any more.
fn gone(view: &View) -> Vec<(&str, &Finding)> {
    let findings = view.verdict.findings.iter();
    let lost = findings.filter(|finding| *finding.rule == DEVICE_LOST);
    lost.filter_map(|finding| {
        let name = finding.subject.device.as_deref()?;
        let is_there = view.node.hcas().any(|hca| *hca.name == *name);
        (!is_there).then_some((name, finding))
    })
    .collect()
}

fn table(
    page: &mut Markup,
    view: &View,
    rows: &[Row<'_>],
    gone: &[(&str, &Finding)],
    troubled: &BTreeMap<String, Severity>,
) {
    page.html("<div class=wide tabindex=0 role=region aria-label=\"Table of ports\"><table><thead><tr>")
        .html("<th scope=col>Port<th scope=col>State<th scope=col>Rate<th scope=col>Device<th scope=col>Network")
        .html("<th scope=col>Place<th scope=col>Last probe<th scope=col>Traffic, 24 h<th scope=col>Errors, 24 h")
        .html("<th scope=col>Probes, 24 h</thead><tbody>");
    for (name, finding) in gone.iter().take(MAX_ROWS) {
        page.html("<tr><th scope=row>").text(name).html("<td>");
        badge(page, finding.severity.name(), "gone");
        page.html("<td colspan=8>").text(&finding.message);
    }
    for row in rows.iter().take(MAX_ROWS) {
        let Some(port) = row.of else {
            page.html("<tr><th scope=row>")
                .text(row.device)
                .html("<td>")
                .text(NO_PORTS)
                .html("<td>");
            facts(page, row);
            page.html("<td><td><td><td>");
            continue;
        };
        page.html("<tr><th scope=row>").text(port);
        state(page, &port, troubled);
        let rate = port.rate.known().map(|rate| rate.bits_per_second);
        cell(page, rate.map(gigabits).as_deref());
        facts(page, row);
        probe(page, view, &port);
        day(page, view, &port, rate);
    }
    page.html("</tbody></table></div>");
    let more = rows.len().saturating_sub(MAX_ROWS);
    if more > 0 {
        page.html("<p>")
            .text(count(more, "more port"))
            .html(": <code>rdma-health devices</code> lists all.");
    }
}

/// The state. A port that is down is in the colour of the findings about it: one that is unused is not a problem. An active one with
/// findings has them below its state.
fn state(page: &mut Markup, port: &Port<'_>, troubled: &BTreeMap<String, Severity>) {
    let name = port.state.known().map(|state| state.name.as_str());
    let severity = [port.to_string(), port.hca.name.clone()]
        .iter()
        .filter_map(|subject| troubled.get(subject))
        .max();
    let colour = match (port.is_active(), severity) {
        (Some(true), _) => "ok",
        (_, Some(severity)) => severity.name(),
        (_, None) => "",
    };
    page.html("<td>");
    badge(page, colour, name.unwrap_or("unread"));
    if let Some(physical) = port
        .phys_state
        .known()
        .filter(|_| port.is_active() == Some(false))
    {
        page.html("<small>").text(&physical.name).html("</small>");
    }
    if let Some(severity) = severity {
        page.html("<small class=\"").text(severity.name()).html("\">");
        page.text(severity.name()).html(" finding</small>");
    }
}

/// Device, network and place.
fn facts(page: &mut Markup, row: &Row<'_>) {
    page.html("<td>").text(row.model.unwrap_or(DASH));
    small(page, "firmware ", row.firmware.known());
    cell(
        page,
        row.link_layer.known().map(rdma_health_protocol::LinkLayer::name),
    );
    page.html("<small>").text(row.netdev.unwrap_or(DASH));
    if let Some(mtu) = row.netdev_mtu.or(row.active_mtu) {
        page.html(", MTU ").text(mtu);
    }
    page.html("</small>");
    if let Some(chosen) = &row.gid {
        page.html("<small>GID ").text(chosen.words()).html("</small>");
    }
    cell(page, row.pci_address.known().map(String::as_str));
    small(page, "rail ", row.rail);
    small(page, "NUMA node ", row.numa_node.known());
    small(page, "IOMMU ", row.iommu.as_ref());
}

fn small(page: &mut Markup, label: &'static str, value: Option<impl std::fmt::Display>) {
    if let Some(value) = value {
        page.html("<small>").html(label).text(value).html("</small>");
    }
}

fn cell(page: &mut Markup, text: Option<&str>) {
    page.html("<td>").text(text.unwrap_or(DASH));
}

fn probe(page: &mut Markup, view: &View, port: &Port<'_>) {
    let mut probes = view.node.loopbacks();
    let is_of_port = |report: &ProbeReport| {
        report.path.from.device == port.hca.name && report.path.from.port == port.number
    };
    let Some(probe) = probes.find(|probe| is_of_port(&probe.report)) else {
        return cell(page, None);
    };
    page.html("<td>");
    match (&probe.report.failure, &probe.report.bandwidth) {
        (Some(failure), _) if failure.is_not_probed() => {
            page.text(in_words(failure));
        }
        (Some(failure), _) => {
            badge(page, "critical", "failed");
            page.html("<small>").text(probe.report.stage.name()).html(": ");
            page.text(in_words(failure)).html("</small>");
        }
        (None, Some(measured)) => {
            page.text(bandwidth(measured.bytes_per_second));
        }
        (None, None) => {
            page.html("passed");
        }
    }
    if let Some(age) = view.node.time.checked_sub(probe.time) {
        let age = rdma_health_node::words::duration(age);
        page.html("<small>").text(age).html(" ago</small>");
    }
}

#[allow(clippy::cast_precision_loss)] // a drawing needs no 53 bits
fn day(page: &mut Markup, view: &View, port: &Port<'_>, rate: Option<u64>) {
    let points: &[Point] = view.node.past(port).map_or(&[], |past| &past.trend.points);
    let full = rate.map(|bits| bits as f64 / 8.0);
    for (kind, full) in [(Kind::Traffic, full), (Kind::Errors, None), (Kind::Probe, full)] {
        page.html("<td>");
        spark::draw(page, kind, points, full, view.node.time);
    }
}
