//! What netlink and the driver report of the network device of a port.

use std::collections::{BTreeMap, BTreeSet};

use rdma_health_kernel::{
    drivers::{self, PAUSE_GIVEN_UP, STALLED_READ_SECONDS, STALLED_WRITE_SECONDS},
    infiniband,
    lldp::Neighbour,
    netlink::{
        dcb::Bridging,
        interfaces::{Interface, VfSettings},
        transceiver::Module,
    },
};

use crate::Node;

/// The names in the history of counters that no file of a port holds.
pub mod counters {
    /// Blocks that forward error correction could not correct.
    pub const FEC_UNCORRECTABLE: &str = "fec_uncorrectable";
    /// Bits that forward error correction corrected.
    pub const FEC_CORRECTED_BITS: &str = "fec_corrected_bits";
    /// Pause frames that the port sent: those that stop all traffic, then those of each priority. A frame of priority flow control can be
    /// about several priorities and counts for each, so their sum means nothing.
    pub const PAUSE_SENT: [&str; 9] = [
        "pause_sent",
        "pause_sent_0",
        "pause_sent_1",
        "pause_sent_2",
        "pause_sent_3",
        "pause_sent_4",
        "pause_sent_5",
        "pause_sent_6",
        "pause_sent_7",
    ];
    /// Pause frames that the port received, likewise.
    pub const PAUSE_RECEIVED: [&str; 9] = [
        "pause_received",
        "pause_received_0",
        "pause_received_1",
        "pause_received_2",
        "pause_received_3",
        "pause_received_4",
        "pause_received_5",
        "pause_received_6",
        "pause_received_7",
    ];
    /// How long those lasted that the port sent, in microseconds, likewise.
    pub const PAUSE_SENT_TIME: [&str; 9] = [
        "pause_sent_microseconds",
        "pause_sent_0_microseconds",
        "pause_sent_1_microseconds",
        "pause_sent_2_microseconds",
        "pause_sent_3_microseconds",
        "pause_sent_4_microseconds",
        "pause_sent_5_microseconds",
        "pause_sent_6_microseconds",
        "pause_sent_7_microseconds",
    ];
    /// How long those lasted that it received.
    pub const PAUSE_RECEIVED_TIME: [&str; 9] = [
        "pause_received_microseconds",
        "pause_received_0_microseconds",
        "pause_received_1_microseconds",
        "pause_received_2_microseconds",
        "pause_received_3_microseconds",
        "pause_received_4_microseconds",
        "pause_received_5_microseconds",
        "pause_received_6_microseconds",
        "pause_received_7_microseconds",
    ];
    /// Number of times that the port sent pause frames for so long that the adapter stopped to send them.
    pub const PAUSE_STORMS: &str = "pause_storms";
    /// Received frames with a wrong checksum (FCS).
    pub const FCS_ERRORS: &str = "fcs_errors";
    /// Received symbols with an error that remains after forward error correction.
    pub const SYMBOL_ERRORS: &str = "physical_symbol_errors";
    /// Seconds in which the adapter waited for PCIe credits to read memory for more than 30 % of the time.
    pub const PCI_STALLED_READ: &str = "pci_stalled_read_seconds";
    /// The same to write memory.
    pub const PCI_STALLED_WRITE: &str = "pci_stalled_write_seconds";
}

impl Node {
    /// The priorities and the flow control of a port's network device, if its driver reports them.
    pub fn bridging(&self, port: &infiniband::Port) -> Option<&Bridging> {
        self.dcb.netdevs.known()?.get(&port.netdev.known()?.name)
    }

    /// What the driver of a port's network device counts by names of its own, if it does and a helper could read it.
    pub fn driver_statistics(&self, port: &infiniband::Port) -> Option<&BTreeMap<String, u64>> {
        self.drivers.netdevs.known()?.get(&port.netdev.known()?.name)
    }

    /// The switch port that a port is or was connected to, if a daemon saves it.
    pub fn lldp_neighbour(&self, port: &infiniband::Port) -> Option<&Neighbour> {
        self.lldp.netdevs.known()?.get(&port.netdev.known()?.name)
    }

    /// The transceiver of a port, if it has one that could be read.
    pub fn transceiver(&self, port: &infiniband::Port) -> Option<&Module> {
        self.module_of_netdev(&port.netdev.known()?.name)
    }

    /// What rtnetlink reports of a port's network device.
    pub fn interface(&self, port: &infiniband::Port) -> Option<&Interface> {
        self.interfaces.netdevs.known()?.get(&port.netdev.known()?.name)
    }

    /// What a physical function has set for its virtual function of this number, with the name of the network device that reports it.
    pub fn vf_settings(&self, physical: &str, number: u32) -> Option<(&str, &VfSettings)> {
        let hcas = self
            .hcas()
            .filter(|hca| hca.pci_address.known().is_some_and(|address| address == physical));
        let mut ports = hcas.flat_map(|hca| hca.ports.values());
        ports.find_map(|port| {
            let netdev = port.netdev.known()?;
            let mut vfs = self.interface(port)?.vfs.iter();
            let vf = vfs.find(|vf| vf.number == u64::from(number))?;
            Some((netdev.name.as_str(), vf))
        })
    }

    /// The counters of a network device that no file holds and whose rise is evaluated, by [`counters`].
    pub fn link_counters(&self, netdev: &str) -> Vec<(&'static str, u64)> {
        let link = self.link_of_netdev(netdev);
        let fec = link.and_then(|link| link.fec.known());
        let pause = link.and_then(|link| link.pause.known());
        let bridging = self.dcb.netdevs.known().and_then(|all| all.get(netdev));
        let pfc = bridging.and_then(|bridging| bridging.pfc.as_ref());
        let of_driver = |name| self.statistic_of_netdev(netdev, name);
        // Only a priority with flow control is stopped.
        let of_priorities = |names: &[&'static str; 9], frames: Option<&Vec<u64>>| {
            let on = pfc.map_or(&[][..], |pfc| &pfc.on);
            let counted = (0_u8..8).zip(&names[1..]).zip(frames.into_iter().flatten());
            let counted = counted.filter(|((priority, _), _)| on.contains(priority));
            counted
                .map(|((_, name), frames)| (*name, Some(*frames)))
                .collect::<Vec<_>>()
        };
        // Which priorities have flow control is not always known. One that is never stopped has a duration of 0, and so has each of a driver
        // that does not count it.
        let both = [false, true].into_iter();
        let paused: BTreeSet<usize> = both
            .flat_map(|is_received| self.pause_durations(netdev, is_received))
            .filter(|(_, _, time)| *time > 0)
            .map(|(place, ..)| place)
            .collect();
        let times = |names: &[&'static str; 9], is_received: bool| {
            let durations = self.pause_durations(netdev, is_received);
            let counted = durations.filter_map(|(place, _, time)| {
                let is_stopped = match (place.checked_sub(1), pfc) {
                    // A driver has it only while it counts it.
                    (None, _) => true,
                    (Some(_), None) => paused.contains(&place),
                    (Some(priority), Some(pfc)) => pfc.on.iter().any(|on| usize::from(*on) == priority),
                };
                is_stopped.then_some((*names.get(place)?, Some(time)))
            });
            counted.collect::<Vec<_>>()
        };
        let error = |name: &str| {
            let errors = link.and_then(|link| link.errors.known());
            errors.and_then(|errors| errors.get(name)).copied()
        };
        [
            (counters::FEC_UNCORRECTABLE, fec.and_then(|fec| fec.uncorrectable)),
            (
                counters::FEC_CORRECTED_BITS,
                fec.and_then(|fec| fec.corrected_bits),
            ),
            (counters::PAUSE_SENT[0], pause.and_then(|pause| pause.tx_frames)),
            (
                counters::PAUSE_RECEIVED[0],
                pause.and_then(|pause| pause.rx_frames),
            ),
            (counters::PAUSE_STORMS, of_driver(PAUSE_GIVEN_UP)),
            (counters::FCS_ERRORS, error("fcs")),
            (counters::SYMBOL_ERRORS, error("symbol")),
            (counters::PCI_STALLED_READ, of_driver(STALLED_READ_SECONDS)),
            (counters::PCI_STALLED_WRITE, of_driver(STALLED_WRITE_SECONDS)),
        ]
        .into_iter()
        .chain(of_priorities(&counters::PAUSE_SENT, pfc.map(|pfc| &pfc.sent)))
        .chain(of_priorities(
            &counters::PAUSE_RECEIVED,
            pfc.map(|pfc| &pfc.received),
        ))
        .chain(times(&counters::PAUSE_SENT_TIME, false))
        .chain(times(&counters::PAUSE_RECEIVED_TIME, true))
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }

    /// How long pause frames stopped traffic, as the driver counts it: the place among [`counters::PAUSE_SENT_TIME`], the driver's name of the statistic, and
    /// its value in microseconds.
    pub fn pause_durations(
        &self,
        netdev: &str,
        is_received: bool,
    ) -> impl Iterator<Item = (usize, &str, u64)> {
        let of_netdev = self.drivers.netdevs.known().and_then(|all| all.get(netdev));
        of_netdev.into_iter().flatten().filter_map(move |(name, time)| {
            let pause =
                drivers::pause(name).filter(|pause| pause.is_duration && pause.is_received == is_received)?;
            let place = pause.priority.map_or(0, |priority| usize::from(priority) + 1);
            Some((place, name.as_str(), *time))
        })
    }

    /// The counters of a port that no file holds as the history records them: those of its network device by their names, those of
    /// the members of a bond by [`name_of_member`].
    pub(crate) fn recorded_counters(&self, port: &infiniband::Port) -> Vec<(String, u64)> {
        let Some(netdev) = port.netdev.known() else {
            return Vec::new();
        };
        let own = self.link_counters(&netdev.name).into_iter();
        let own = own.map(|(name, count)| (name.to_owned(), count));
        let members = self.members(port).into_iter().flat_map(|member| {
            let counters = self.link_counters(member).into_iter();
            counters.map(move |(name, count)| (name_of_member(name, member), count))
        });
        own.chain(members).collect()
    }
}

/// The name of a counter of a member in the history of the port: `fec_corrected_bits ens9f1np1`.
pub fn name_of_member(counter: &str, member: &str) -> String {
    format!("{counter} {member}")
}

/// The same for a counter of a member, or of the port itself, which has its plain name.
pub fn name_in_history(counter: &str, member: Option<&str>) -> String {
    member.map_or_else(|| counter.to_owned(), |member| name_of_member(counter, member))
}
