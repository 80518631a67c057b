//! Takes a node into the history.

use super::{
    Boot, DownCounter, FORGET_AFTER, History, MAX_ARGUMENTS, MAX_BOOTS, MAX_DOWNS, MAX_MEASURED,
    MAX_SUBJECTS, Measured, PortHistory, Sample, Seen, short,
};
use crate::{
    infiniband::{Hca, Port},
    node::Node,
    pci::Role,
};

/// The counters whose rise is judged.
const COUNTERS: [&str; 9] = [
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_ack_timeout_err",
    "local_link_integrity_errors",
    "port_rcv_errors",
    "port_xmit_discards",
    "roce_slow_restart",
    "symbol_error",
];

/// Samples of a port's counters: every five minutes, for a little over an hour.
const PORT_SAMPLES: (u64, u64) = (300, 4200);
/// Samples of a function's errors: every hour, for a little over a day.
const FUNCTION_SAMPLES: (u64, u64) = (3600, 26 * 3600);
/// Links come and go while a node boots.
const BOOT_GRACE: u64 = 1800;
/// The first measurements are all kept, then one an hour: what is bad for a while does not become the rule.
const MEASURED_AT_ONCE: usize = 8;
const MEASURED_SPACING: u64 = 3600;

impl History {
    /// Takes what a node is like at `now`, in seconds since 1970. To be called after the node was judged: a rule compares
    /// the node with what came before it.
    pub fn record(&mut self, node: &Node, now: u64) {
        let rebooted = self.record_boot(node, now);
        for hca in node.hcas() {
            for (number, port) in &hca.ports {
                let past = self.ports.entry(Self::port_key(hca, *number)).or_default();
                if rebooted {
                    past.counters = super::Series::default();
                    past.down_count = None;
                }
                let booting = node
                    .host
                    .uptime
                    .known()
                    .is_some_and(|uptime| *uptime < BOOT_GRACE);
                past.see(port, booting, now);
            }
        }
        for probe in &node.probes {
            let report = &probe.report;
            let hca = node.hcas.known().and_then(|all| all.get(&report.device));
            let port = hca.and_then(|hca| Some((hca, hca.ports.get(&report.port)?)));
            if let Some((hca, port)) = port.filter(|_| report.failure.is_none()) {
                let measured = Measured {
                    time: probe.time,
                    bytes_per_second: report.bandwidth.as_ref().map(|part| part.bytes_per_second),
                    latency: report.latency.as_ref().map(|part| part.median),
                };
                let past = self.ports.entry(Self::port_key(hca, report.port)).or_default();
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
        self.forget(now);
    }

    /// Whether this is another boot than the last that was seen.
    fn record_boot(&mut self, node: &Node, now: u64) -> bool {
        let Some(id) = node.host.boot_id.known() else {
            return false;
        };
        let is_new = self.boots.last().is_none_or(|boot| boot.id != *id);
        if is_new {
            // An id that comes back (a saved state that is older than the node) starts anew.
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
        for (address, domain) in domains(node) {
            if boot.domains.len() < MAX_SUBJECTS || boot.domains.contains_key(&address) {
                boot.domains.insert(address, domain);
            }
        }
        for hca in node.hcas() {
            let identity = short(hca.identity()).to_owned();
            if boot.hcas.len() < MAX_SUBJECTS || boot.hcas.contains_key(&identity) {
                boot.hcas.insert(identity, seen(hca, now));
            }
        }
        is_new
    }

    fn forget(&mut self, now: u64) {
        let oldest = now.saturating_sub(FORGET_AFTER);
        self.ports.retain(|_, port| port.last >= oldest);
        self.functions
            .retain(|_, series| series.samples.last().is_some_and(|sample| sample.time >= oldest));
        while self.ports.len() > MAX_SUBJECTS {
            self.ports.pop_last();
        }
        while self.functions.len() > MAX_SUBJECTS {
            self.functions.pop_last();
        }
    }
}

impl PortHistory {
    fn see(&mut self, port: &Port, booting: bool, now: u64) {
        let counters = || port.counters.iter().chain(&port.hw_counters);
        let watched = counters().filter(|counter| COUNTERS.contains(&&*counter.name));
        let values = watched
            .filter_map(|counter| Some((counter.name.to_string(), *counter.value.known()?)))
            .collect();
        let (spacing, keep) = PORT_SAMPLES;
        self.counters.push(Sample { time: now, values }, spacing, keep);

        let (counter, count) = down_count(port).unzip();
        let active = port.is_active();
        let downs = match (self.down_count, count) {
            // The network device may go to a pod's namespace and come back.
            (Some(before), Some(count)) if self.down_counter == counter => count.saturating_sub(before),
            // Nobody counts: what was seen has to do.
            (None, None) => u64::from(self.active == Some(true) && active == Some(false)),
            _ => 0,
        };
        if !booting {
            self.downs.extend(std::iter::repeat_n(
                now,
                usize::try_from(downs).map_or(MAX_DOWNS, |n| n.min(MAX_DOWNS)),
            ));
            let surplus = self.downs.len().saturating_sub(MAX_DOWNS);
            self.downs.drain(..surplus);
        }
        (self.down_counter, self.down_count) = (counter, count);
        self.active = active.or(self.active);
        self.last = now;
    }

    fn measure(&mut self, measured: Measured, rate: Option<u64>) {
        if rate.is_some() && rate != self.rate {
            // Another speed was agreed on: what was measured before is no yardstick.
            self.measured.clear();
            self.rate = rate;
        }
        let last = self.measured.last().map_or(0, |last| last.time);
        let due =
            self.measured.len() < MEASURED_AT_ONCE || measured.time >= last.saturating_add(MEASURED_SPACING);
        if measured.time > last && due {
            self.measured.push(measured);
            let surplus = self.measured.len().saturating_sub(MAX_MEASURED);
            self.measured.drain(..surplus);
        }
    }
}

/// How often a port went down: its network device's word, else the device's.
fn down_count(port: &Port) -> Option<(DownCounter, u64)> {
    let netdev = port.netdev.known();
    if let Some(count) = netdev.and_then(|netdev| netdev.carrier_downs.known()) {
        return Some((DownCounter::Carrier, *count));
    }
    let mut counters = port.counters.iter();
    let counter = counters.find(|counter| &*counter.name == "link_downed")?;
    Some((DownCounter::LinkDowned, *counter.value.known()?))
}

/// The type of the IOMMU group of each RDMA function and GPU.
fn domains(node: &Node) -> impl Iterator<Item = (String, String)> {
    let rdma = node.hcas().filter_map(|hca| hca.pci_address.known());
    let gpus = node.pci.with_role(Role::Gpu).map(|(address, _)| address);
    rdma.chain(gpus).filter_map(|address| {
        let (_, group) = node.iommu.group_of(address)?;
        Some((
            short(address).to_owned(),
            short(group.domain.known()?.as_str()).to_owned(),
        ))
    })
}

fn seen(hca: &Hca, now: u64) -> Seen {
    Seen {
        name: short(&hca.name).to_owned(),
        driver: hca.driver.known().map(|driver| short(driver).to_owned()),
        is_virtual: hca.physical_function.known().is_some(),
        last: now,
    }
}
