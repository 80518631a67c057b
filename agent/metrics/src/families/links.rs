//! What netlink shows: the links of ports, and what drivers say of the health of their devices.

use std::collections::BTreeMap;

use rdma_health_node::{
    Node,
    devlink::{Device, Reporter},
    ethtool::Link,
    lldp::Neighbour,
};

use crate::table::{Labelled, table};

table! {
    /// Families of each port with a network device that ethtool was asked about.
    LINKS {"device", "port"}: &Link;

    Gauge "rdma_port_link_down_reason_info" [""] {"reason"}
        "Why the link of a port is down, in the words of the program ethtool; only while it is down and if the driver knows."
        => samples(|link, samples| {
            if let Some(down) = link.down_reason.known() {
                samples.info([&down.reason]);
            }
        });
    Counter "rdma_port_physical_link_downs_total" [""] {}
        "Number of times the physical link of a port went down, as its driver counts (ethtool)."
        => value(|link| link.downs.known().copied());
    Gauge "rdma_port_link_speed_bytes_per_second" ["bytes/s"] {}
        "Speed of the network device of a port in bytes per second, as its driver reports it (ethtool); only while it is up."
        => value(|link| link.speed.known().map(|speed| speed.bits_per_second / 8));
    Gauge "rdma_port_link_lanes" ["lanes"] {}
        "Number of lanes of the network device of a port, if its driver reports it (ethtool); only while it is up."
        => value(|link| link.speed.known()?.lanes);
    Gauge "rdma_port_fec_info" [""] {"mode"}
        "Active forward error correction of a port: RS, BaseR, LLRS or off."
        => samples(|link, samples| {
            if let Some(mode) = link.fec.known().and_then(|fec| fec.mode.as_deref()) {
                samples.info([mode]);
            }
        });
    Counter "rdma_port_fec_corrected_blocks_total" [""] {}
        "Number of blocks that forward error correction corrected."
        => value(|link| link.fec.known()?.corrected);
    Counter "rdma_port_fec_uncorrectable_blocks_total" [""] {}
        "Number of blocks that forward error correction could not correct. Their packets are lost."
        => value(|link| link.fec.known()?.uncorrectable);
    Counter "rdma_port_fec_corrections_total" [""] {}
        "Number of corrections of single bits by forward error correction."
        => value(|link| link.fec.known()?.corrected_bits);
    Counter "rdma_port_pause_frames_total" [""] {"direction"}
        "Number of pause frames of link-level flow control, by direction: rx or tx."
        => samples(|link, samples| {
            let Some(pause) = link.pause.known() else {
                return;
            };
            for (direction, frames) in [("rx", pause.rx_frames), ("tx", pause.tx_frames)] {
                if let Some(frames) = frames {
                    samples.add([direction], frames);
                }
            }
        });
    Counter "rdma_port_receive_physical_errors_total" [""] {"kind"}
        "Number of received symbols and frames with an error, by kind: symbol, fcs, alignment, in_range_length, out_of_range_length, too_long (IEEE 802.3, clause 30), undersize, oversize, fragment or jabber (RMON)."
        => samples(|link, samples| {
            for (kind, count) in link.errors.known().into_iter().flatten() {
                samples.add([kind], *count);
            }
        });
}

table! {
    /// Families of each port whose neighbour a daemon saves.
    NEIGHBOURS {"device", "port"}: &Neighbour;

    Gauge "rdma_port_lldp_neighbour_info" [""] {"switch", "switch_port"}
        "The switch port that a port is connected to, as LLDP announced it and systemd-networkd saved it."
        => samples(|neighbour, samples| {
            if !neighbour.is_past {
                samples.info([&neighbour.switch, &neighbour.port]);
            }
        });
}

table! {
    /// Families of each health reporter of a physical function. Those of its devlink ports count together.
    REPORTERS {"pci_address", "reporter"}: Reporters;

    Gauge "rdma_devlink_health_reporter_in_error" [""] {}
        "Whether a health reporter of a driver is in the state error (devlink health show)."
        => value(|reporters| Some(reporters.in_error));
    Counter "rdma_devlink_health_reporter_errors_total" [""] {}
        "Number of errors that a health reporter of a driver has seen since the driver was loaded."
        => value(|reporters| Some(reporters.errors));
    Counter "rdma_devlink_health_reporter_recoveries_total" [""] {}
        "Number of errors that a driver recovered from, by health reporter."
        => value(|reporters| Some(reporters.recoveries));
}

table! {
    /// Families of each physical function whose driver reports its firmware.
    FIRMWARE {"pci_address"}: &Device;

    Gauge "rdma_device_firmware_pending" [""] {}
        "Whether the firmware that is stored on an adapter differs from the one that runs, so that the next reset changes it."
        => value(|device| Some(device.firmware.known()?.pending().next().is_some()));
}

/// The reporters of one name.
#[derive(Debug, Default)]
pub(crate) struct Reporters {
    in_error: bool,
    errors: u64,
    recoveries: u64,
}

impl Reporters {
    fn add(&mut self, reporter: &Reporter) {
        self.in_error |= reporter.in_error;
        // Those of subfunctions are known only as long as they are in error, and a counter does not fall.
        if reporter.subfunction.is_some() {
            return;
        }
        self.errors = self.errors.saturating_add(reporter.errors);
        self.recoveries = self.recoveries.saturating_add(reporter.recoveries);
    }
}

/// The links of ports, in order of device and number.
pub(crate) fn links(node: &Node) -> Vec<Labelled<&Link>> {
    let link = |port: rdma_health_node::Port<'_>| {
        let link = node.ethernet_link(port.kernel)?;
        Some(LINKS.labelled(&[&port.hca.name, itoa::Buffer::new().format(port.number)], link))
    };
    // A closure that returns a reference to the node, not to the port.
    let mut found = Vec::new();
    for port in node.ports() {
        found.extend(link(port));
    }
    found
}

/// The neighbours of ports, in the same order.
pub(crate) fn neighbours(node: &Node) -> Vec<Labelled<&Neighbour>> {
    let mut found = Vec::new();
    for port in node.ports() {
        if let Some(neighbour) = node.lldp_neighbour(port.kernel) {
            let mut number = itoa::Buffer::new();
            let labels = [port.hca.name.as_str(), number.format(port.number)];
            found.push(NEIGHBOURS.labelled(&labels, neighbour));
        }
    }
    found
}

/// The health reporters of physical functions. Those of virtual functions would be thousands.
pub(crate) fn reporters(node: &Node) -> Vec<Labelled<Reporters>> {
    let mut found = Vec::new();
    for (address, device) in node.physical_devlink_devices() {
        let mut names: BTreeMap<&str, Reporters> = BTreeMap::new();
        for reporter in &device.reporters {
            names.entry(&reporter.name).or_default().add(reporter);
        }
        found.extend(
            names
                .into_iter()
                .map(|(name, of)| REPORTERS.labelled(&[address, name], of)),
        );
    }
    found
}

/// The physical functions.
pub(crate) fn firmware(node: &Node) -> Vec<Labelled<&Device>> {
    let devices = node.physical_devlink_devices();
    devices
        .map(|(address, device)| FIRMWARE.labelled(&[address], device))
        .collect()
}
