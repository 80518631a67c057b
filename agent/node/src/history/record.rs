//! Records a node in the history.

use std::collections::BTreeMap;

use super::series::MAX_VALUES;
use super::{
    Boot, DownCounter, FORGET_AFTER, History, Logged, MAX_ARGUMENTS, MAX_BOOTS, MAX_MEASURED,
    MAX_MEASURED_IN_ALL, MAX_SUBJECTS, Measured, PortHistory, Probed, Sample, Seen, Series, add_downs, short,
};
use crate::Node;
use rdma_health_kernel::infiniband::{Hca, Port};

/// The counters whose rise is evaluated.
pub(super) const COUNTERS: [&str; 10] = [
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_ack_timeout_err",
    "local_link_integrity_errors",
    "port_rcv_errors",
    "port_xmit_discards",
    "roce_slow_restart",
    "rx_icrc_encapsulated",
    "symbol_error",
];

/// Counters of packets that were lost, damaged or not acknowledged, and were sent again, other than those of [`COUNTERS`]. Their rise is compared with that
/// of equal ports. By driver, as its source in the kernel names them; those of ionic come from its firmware.
pub const LOST_PACKETS: [&str; 21] = [
    // mlx5
    "implied_nak_seq_err",
    "out_of_sequence",
    "packet_seq_err",
    // bnxt_re
    "missing_resp",
    "oos_drop_count",
    "rx_roce_discards",
    "rx_roce_errors",
    "seq_err_naks_rcvd",
    "to_retransmits",
    // irdma (TCP of iWARP)
    "tcpRetransSegs",
    // mana
    "requester_implicit_nak",
    "requester_oos_nak",
    "requester_timeout",
    "responder_oos",
    // ionic
    "req_rx_impl_nak_seq_err",
    "req_rx_pkt_seq_err",
    "resp_rx_outouf_seq",
    "resp_tx_pkt_seq_err",
    "rx_rdma_mtu_discard_pkts",
    "tx_rdma_ack_timeout",
    "tx_rdma_retx_pkts",
];

/// Counters of connections that broke, and of errors of the hardware that break them: each count is one connection or one error, and not a packet that is
/// sent again. Their rise is compared with that of equal ports, too, because a job that ends breaks the connections of all of them.
pub const BROKEN_CONNECTIONS: [&str; 8] = [
    // mlx5
    "req_transport_retries_exceeded",
    // bnxt_re
    "max_retry_exceeded",
    "res_mem_error",
    "unrecoverable_err",
    // mana
    "general_hw_error",
    "requester_retries_exceeded",
    "total_fatal_error",
    // ionic
    "req_tx_retry_excd_err",
];

/// Those of `efa`, which are not errors of the port itself.
const EFA_COUNTERS: [&str; 8] = [
    "impaired_remote_conn_events",
    "rdma_read_wr_err",
    "rdma_write_wr_err",
    "retrans_bytes",
    "retrans_pkts",
    "retrans_timeout_events",
    "rx_drops",
    "unresponsive_remote_events",
];

/// Samples of a port's counters: every five minutes, for a little over an hour.
const PORT_SAMPLES: (u64, u64) = (300, 4200);
/// Samples of a function's errors: every hour, for a little over a day.
const FUNCTION_SAMPLES: (u64, u64) = (3600, 26 * 3600);
/// Links go up and down while a node boots.
const BOOT_GRACE: u64 = 1800;
/// Samples of the errors of health reporters: every five minutes, for a little over an hour.
const REPORTER_SAMPLES: (u64, u64) = (300, 4200);
/// All of the first measurements are kept, then one per hour, so that a temporary fault does not become the baseline.
const MEASURED_AT_ONCE: usize = 8;
const MEASURED_SPACING: u64 = 3600;

impl History {
    /// Records a node at `now`, in seconds since 1970. Call it after the rules, because they compare the node with
    /// earlier readings.
    pub fn record(&mut self, node: &Node, now: u64) {
        let trusted = self.align(&node.facts, now);
        if trusted {
            self.drop_future(now);
        }
        if let Some(observed) = &mut self.observed {
            observed.last = now;
        }
        let rebooted = self.record_boot(node, now);
        if let Some(logged) = Logged::of(node) {
            self.logged = Some(logged);
        }
        for hca in node.hcas() {
            for (number, port) in &hca.ports {
                let past = self.ports.entry(Self::port_key(hca, *number)).or_default();
                if rebooted {
                    past.counters = Series::default();
                    past.links.clear();
                    past.down_count = None;
                    past.trend.rebooted();
                }
                let booting = node
                    .host
                    .uptime
                    .known()
                    .is_some_and(|uptime| *uptime < BOOT_GRACE);
                past.see_links(node, port, booting, now);
                let is_compared = !hca.is_virtual() && !hca.is_software();
                let counters = watched(port, is_compared)
                    .chain(node.recorded_counters(port))
                    .take(MAX_VALUES)
                    .collect();
                past.see(port, counters, booting, now);
                // The trend of a virtual function is the pod's that has it; there may be thousands of them.
                if !hca.is_virtual() {
                    past.trend.see(port, probed(node, &hca.name, *number), now);
                }
            }
        }
        for probe in &node.probes {
            let report = &probe.report;
            let from = &report.path.from;
            let hca = node.hcas.known().and_then(|all| all.get(from.device.as_str()));
            let port = hca.and_then(|hca| Some((hca, hca.ports.get(&from.port)?)));
            if let Some((hca, port)) = port.filter(|_| report.failure.is_none()) {
                let measured = Measured {
                    to: report.path.to.clone(),
                    time: probe.time,
                    bytes_per_second: report.bandwidth.as_ref().map(|part| part.bytes_per_second),
                    latency: report.latency.as_ref().map(|part| part.median),
                };
                let past = self.ports.entry(Self::port_key(hca, from.port)).or_default();
                past.measure(measured, port.rate.known().map(|rate| rate.bits_per_second));
            }
        }
        for (address, function) in node.pci.functions.known().into_iter().flatten() {
            let Some(aer) = function.aer.known() else { continue };
            let counts = [
                ("correctable", &aer.correctable),
                ("nonfatal", &aer.nonfatal),
                ("fatal", &aer.fatal),
            ];
            let values = counts
                .into_iter()
                .filter_map(|(name, count)| Some((name.to_owned(), count.known()?.total)))
                .collect();
            let (spacing, keep) = FUNCTION_SAMPLES;
            let sample = Sample { time: now, values };
            self.functions
                .entry(short(address).to_owned())
                .or_default()
                .push(sample, spacing, keep);
        }
        for (address, device) in node.physical_devlink_devices() {
            let counted = device.reporters.iter().filter(|reporter| !reporter.has_recovery);
            let values: BTreeMap<_, _> = counted
                .take(MAX_VALUES)
                .map(|reporter| (Self::reporter_key(reporter), reporter.errors))
                .collect();
            if !values.is_empty() {
                let (spacing, keep) = REPORTER_SAMPLES;
                let past = self.functions.entry(Self::reporters_key(address));
                past.or_default()
                    .push(Sample { time: now, values }, spacing, keep);
            }
        }
        if trusted {
            self.forget(now);
        }
        self.limit();
    }

    /// Records the boot. Returns whether it differs from the last one.
    fn record_boot(&mut self, node: &Node, now: u64) -> bool {
        let Some(id) = node.host.boot_id.known() else {
            return false;
        };
        let is_new = self.boots.last().is_none_or(|boot| boot.id != *id);
        if is_new {
            // An id that reappears (a saved state that is older than the node) starts a new entry.
            self.boots.retain(|boot| boot.id != *id);
            self.boots.push(Boot {
                id: short(id).to_owned(),
                first: now,
                ..Boot::default()
            });
            let surplus = self.boots.len().saturating_sub(MAX_BOOTS);
            self.boots.drain(..surplus);
        }
        let Some(boot) = self.boots.last_mut() else {
            return false;
        };
        boot.last = now;
        boot.kernel = node.host.kernel.known().map(|kernel| short(kernel).to_owned());
        if let Some(arguments) = node.host.iommu_arguments.known() {
            boot.arguments = arguments
                .arguments
                .iter()
                .take(MAX_ARGUMENTS)
                .map(|text| short(text).to_owned())
                .collect();
        }
        for function in node.dma_functions() {
            let Some(domain) = function.dma else {
                continue;
            };
            let address = short(function.address);
            if boot.domains.len() < MAX_SUBJECTS || boot.domains.contains_key(address) {
                boot.domains.insert(address.to_owned(), domain.clone());
            }
        }
        for hca in node.hcas() {
            let identity = short(hca.identity()).to_owned();
            if boot.hcas.len() < MAX_SUBJECTS || boot.hcas.contains_key(&identity) {
                boot.hcas.insert(
                    identity,
                    Seen {
                        last: now,
                        ..Seen::of(node, hca)
                    },
                );
            }
        }
        is_new
    }

    fn forget(&mut self, now: u64) {
        let oldest = now.saturating_sub(FORGET_AFTER);
        self.ports.retain(|_, port| port.last >= oldest);
        self.functions
            .retain(|_, series| series.samples.last().is_some_and(|sample| sample.time >= oldest));
    }

    /// Drops the ports and functions that were not seen for the longest time if there are too many.
    fn limit(&mut self) {
        while self.ports.len() > MAX_SUBJECTS
            && let Some((key, _)) = self.ports.iter().min_by_key(|(_, port)| port.last)
        {
            let key = key.clone();
            self.ports.remove(&key);
        }
        let last = |series: &Series| series.samples.last().map(|sample| sample.time);
        while self.functions.len() > MAX_SUBJECTS
            && let Some((key, _)) = self.functions.iter().min_by_key(|(_, series)| last(series))
        {
            let key = key.clone();
            self.functions.remove(&key);
        }
    }
}

impl PortHistory {
    fn see(&mut self, port: &Port, values: BTreeMap<String, u64>, booting: bool, now: u64) {
        let (spacing, keep) = PORT_SAMPLES;
        self.counters.push(Sample { time: now, values }, spacing, keep);

        let (counter, count) = down_count(port).unzip();
        let active = port.is_active();
        let downs = match (self.down_count, count) {
            // The network device may move to a pod's namespace and back.
            (Some(before), Some(count)) if self.down_counter == counter => count.saturating_sub(before),
            // Without a counter, only observed link downs count.
            (None, None) => u64::from(self.active == Some(true) && active == Some(false)),
            _ => 0,
        };
        // After a pause without readings, it is not known when the link went down: not before the last reading.
        let paused = now.saturating_sub(self.last) > super::since::GAP;
        let time = if paused { self.last } else { now };
        if !booting {
            add_downs(&mut self.downs, downs, time);
        }
        (self.down_counter, self.down_count) = (counter, count);
        self.active = active.or(self.active);
        self.last = now;
    }

    fn measure(&mut self, measured: Measured, rate: Option<u64>) {
        if rate.is_some() && rate != self.rate {
            // The rate changed, so earlier measurements are not comparable.
            self.measured.clear();
            self.rate = rate;
        }
        // A later one was recorded with a wrong clock.
        let earlier = self
            .measured_to(&measured.to)
            .filter(|earlier| earlier.time <= measured.time);
        let last = earlier.clone().last().map_or(0, |last| last.time);
        let number = earlier.count();
        let due = number < MEASURED_AT_ONCE || measured.time >= last.saturating_add(MEASURED_SPACING);
        if measured.time <= last || !due {
            return;
        }
        if self.measured_to(&measured.to).count() >= MAX_MEASURED {
            self.forget_oldest(|earlier| earlier.to == measured.to);
        } else if self.measured.len() >= MAX_MEASURED_IN_ALL {
            // What the port does by itself is compared most often.
            self.forget_oldest(|earlier| !earlier.to.is_loopback());
        }
        self.measured.push(measured);
        self.sort();
    }

    fn forget_oldest(&mut self, which: impl Fn(&Measured) -> bool) {
        if let Some(at) = self.measured.iter().position(which) {
            self.measured.remove(at);
        }
    }
}

/// The counters in the files of a port whose rise is evaluated; `is_compared` says whether the port is compared with equal ones.
fn watched(port: &Port, is_compared: bool) -> impl Iterator<Item = (String, u64)> {
    let is_watched = move |name: &str| {
        COUNTERS.contains(&name)
            || EFA_COUNTERS.contains(&name)
            || is_compared && (LOST_PACKETS.contains(&name) || BROKEN_CONNECTIONS.contains(&name))
    };
    let counters = port.counters.iter().chain(&port.hw_counters);
    counters
        .filter(move |counter| is_watched(&counter.name))
        .filter_map(|counter| Some((counter.name.to_string(), *counter.value.known()?)))
}

/// The number of link downs of a port: from its network device, otherwise from the RDMA device.
fn down_count(port: &Port) -> Option<(DownCounter, u64)> {
    let netdev = port.netdev.known();
    if let Some(count) = netdev.and_then(|netdev| netdev.carrier_downs.known()) {
        return Some((DownCounter::Carrier, *count));
    }
    let mut counters = port.counters.iter();
    let counter = counters.find(|counter| &*counter.name == "link_downed")?;
    Some((DownCounter::LinkDowned, *counter.value.known()?))
}

/// The last probe of a port by itself. One that did not measure anything because the port was in use is neither good nor bad.
fn probed(node: &Node, device: &str, port: u8) -> Option<Probed> {
    let mut probes = node.loopbacks();
    let probe = probes
        .find(|probe| probe.report.path.from.device == device && probe.report.path.from.port == port)?;
    let bandwidth = probe.report.bandwidth.as_ref();
    match &probe.report.failure {
        Some(failure) if failure.is_not_probed() => None,
        Some(_) => Some(None),
        None => bandwidth.map(|measured| Some(measured.bytes_per_second)),
    }
    .map(|bytes_per_second| Probed {
        time: probe.time,
        bytes_per_second,
    })
}

impl Seen {
    /// A device as it is now.
    pub fn of(node: &Node, hca: &Hca) -> Self {
        let netdev = hca.ports.values().find_map(|port| port.netdev.known());
        let function = node.link_of(hca).map(|(_, function)| function);
        let slot = function.and_then(|function| function.slot.known());
        Self {
            name: short(&hca.name).to_owned(),
            driver: hca.driver.known().map(|driver| short(driver).to_owned()),
            is_virtual: hca.is_virtual(),
            netdev: netdev.map(|netdev| short(&netdev.name).to_owned()),
            slot: slot.map(|slot| short(slot).to_owned()),
            ids: function.and_then(|function| Some((*function.vendor.known()?, *function.device.known()?))),
            last: node.time,
        }
    }
}
