//! The kernel log.
//!
//! Source: `/dev/kmsg` (`Documentation/ABI/testing/dev-kmsg`) on a running machine; in a captured tree the same records, or
//! lines of `dmesg`, as a regular file; without one, what a syslog daemon saved in `/var/log`. Kept are what drivers report about RDMA adapters, the PCI core and the IOMMU about any
//! function, and the other lines about IOMMU, RDMA and the GPU driver that rules need. Only records of the kernel itself count:
//! those that a process wrote have another facility.

mod collect;
mod saved;

use collect::MAX_DEVICES;
pub(crate) use collect::{Collected, relevant};
use rdma_health_kernel_log::split;
pub use rdma_health_kernel_log::{
    Call, Device, Event, EventClass, EventKind, Report, classify, is_adapter, is_rdma_consumer,
    is_software_rdma,
};
pub use saved::is_saved;

use serde::{Deserialize, Serialize};

use crate::{
    fact::{Fact, Unread},
    root::Scope,
    source::{Known, Source},
};

/// The device of the kernel log.
pub(crate) const KMSG: &str = "/dev/kmsg";

/// Words that mark a line that is kept although it is not an event.
const TOPICS: [&str; 28] = [
    "iommu",
    "DMAR",
    "AMD-Vi",
    "arm-smmu",
    "mlx5",
    "mlx4",
    "infiniband",
    "ib_register_peer_memory_client",
    "nvidia",
    "nv_peer_mem",
    "rdma_rxe",
    "AER:",
    "irdma",
    "bnxt_re",
    "Memory Encryption",
    "peermem",
    "PCIe Bus Error",
    "efa ",
    "hfi1",
    "ib_uverbs",
    // A PCI function got no address range; since Linux 6.9, and before.
    "can't assign; no space",
    "no space for [mem",
    "]: failed to assign",
    // The reason why the driver of an adapter offers no RDMA.
    "RDMA is not supported",
    // The kernel refuses a module because of its signature.
    "Loading of ",
    // A driver did not find the file that it loads into its adapter.
    "Direct firmware load",
    // The ARP or IPv6 neighbour table is full.
    "table overflow",
    // The driver of a board that takes its adapters off the bus, and puts them there again.
    "hotplug",
];

/// The line of a saved log with its message replaced. What the reader needs to find the message stays: time, severity, and how
/// often a message was repeated.
pub fn with_message(line: &str, replaced: impl FnOnce(&str) -> String) -> String {
    if collect::is_marker(line) {
        return line.to_owned();
    }
    let (header, text) = split(line);
    header + &replaced(text)
}

/// What the kernel logged about IOMMU, RDMA and GPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Log {
    /// The text of the kept lines, oldest first: of each topic the first and the last ones, of each event the first and the
    /// last one.
    pub lines: Vec<String>,
    /// What happened to which device, in the order of the last message.
    pub events: Vec<Event>,
    /// Number of messages about further devices that were not kept.
    pub dropped: u64,
}

/// What the kernel logged.
pub type KernelLog = Fact<Log>;

impl Source for KernelLog {
    fn read(scope: &Scope<'_>, _: &Known) -> Self {
        let log = scope.log::<Collected>(KMSG).and_then(|log| match log.foreign() {
            Some(line) => scope.malformed(KMSG, line, "lines of /dev/kmsg, dmesg or journalctl -k"),
            None => Fact::Known(log.into_log()),
        });
        match log {
            Fact::Absent if !scope.root().is_live() => saved::read(scope),
            log => log,
        }
    }

    fn unread(why: &Unread) -> Self {
        why.clone().into()
    }

    /// The kernel overwrites old messages, at a flood within seconds. What happened to a device is remembered.
    fn completed(self, earlier: &Self) -> Self {
        match earlier.known() {
            Some(earlier) => self.map(|log| log.remembering(&earlier.events)),
            None => self,
        }
    }
}

/// Whether two events are of one kind and device, so that they are counted as one.
fn is_same(one: &Event, other: &Event) -> bool {
    one.kind == other.kind && one.device == other.device
}

impl Log {
    /// Whether the kernel has overwritten some of the messages of an earlier reading of the same boot.
    pub fn has_lost(&self, earlier: &[Event]) -> bool {
        earlier.iter().any(|old| {
            let event = self.events.iter().find(|event| is_same(event, old));
            event.is_none_or(|event| {
                old.count > event.count || old.first.is_some() && old.first != event.first
            })
        })
    }

    /// The log with the events of an earlier reading of the same boot.
    #[must_use]
    pub fn remembering(mut self, earlier: &[Event]) -> Self {
        let mut forgotten = Vec::new();
        for old in earlier {
            match self.events.iter_mut().find(|event| is_same(event, old)) {
                Some(event) => {
                    event.first = old.first.or(event.first);
                    event.count = event.count.max(old.count);
                }
                None => forgotten.push(old.clone()),
            }
        }
        if forgotten.is_empty() {
            return self;
        }
        // The devices of which something is kept are as bounded as those of one reading.
        forgotten
            .retain(|old| self.events.iter().filter(|event| event.kind == old.kind).count() < MAX_DEVICES);
        forgotten.sort_by_key(|old| old.order);
        let later = forgotten.len();
        for (order, old) in forgotten.iter_mut().enumerate() {
            old.order = order;
        }
        for event in &mut self.events {
            event.order += later;
        }
        forgotten.append(&mut self.events);
        self.events = forgotten;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(lines: &[&str]) -> Log {
        let mut collected = Collected::default();
        for line in lines {
            crate::root::Records::add(&mut collected, line);
        }
        collected.into_log()
    }

    #[test]
    fn what_the_kernel_overwrote_is_remembered() {
        let fault = "3,1,1000000,-;mlx5_core 0000:14:00.0: device's health compromised";
        let flood = "3,2,9000000,-;mlx5_core 0000:24:00.0: cmd timed out";
        let later = "6,3,9900000,-;mlx5_core 0000:14:00.0: firmware version: 28.41.1000";
        let first = log(&[fault, fault, flood]);
        let second = log(&[flood, flood, flood]).remembering(&first.events);
        let third = log(&[flood, later]).remembering(&second.events);
        let shown: Vec<_> = third
            .events
            .iter()
            .map(|event| (event.kind, event.count, event.order))
            .collect();
        assert_eq!(
            shown,
            [
                (EventKind::AdapterHealth, 2, 0),
                (EventKind::CommandTimeout, 3, 1),
                (EventKind::Started, 1, 2),
            ]
        );
        assert_eq!(third.clone().remembering(&third.events), third);
        assert!(second.has_lost(&third.events) && !third.has_lost(&second.events));
    }
}
