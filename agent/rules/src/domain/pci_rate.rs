//! Whether the PCIe link of an adapter carries what its port receives.

use std::collections::BTreeMap;

use rdma_health_node::{Node, Port, words::gigabits};

use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Subject, Writer, draft::Draft, policy::Exception,
};

/// `pci-below-port-rate`.
pub static PCI_BELOW_PORT_RATE: Rule = Rule {
    id: "pci-below-port-rate",
    domain: Domain::Pci,
    policy: Policy::of(Severities::WARNING).except(&[&BY_GENERATION, &ENOUGH_LANES]),
    title: "The PCIe link of an adapter is too slow for the rate of its port",
    explanation: "The link runs at the best speed and width that card and slot have in common, and that is less than the port \
        can transfer: a 400 Gb/s port needs 16 lanes at 32 GT/s. The port never reaches its rate, and congestion spreads into \
        the network because the adapter cannot take packets as fast as they arrive.",
    remedy: Remedy {
        any: "Move the card to a slot with more lanes or a higher speed, if the machine has one, and check bifurcation and the speed limit of the slot \
            in the firmware setup.",
        host: "lspci -vv -s ADDRESS | grep -e LnkCap: -e LnkSta:",
        ..Remedy::all("")
    },
    false_alarms: "A warning only if the link carries less than three quarters of the rate. In a virtual machine the link is made \
        up. A card whose own link is slower than its ports together cannot reach their rate by design and is not reported. An adapter with a second PCIe connection (Socket Direct) is not judged, because each carries a part.",
    inputs: &[Writer::Hardware, Writer::HostRoot, Writer::Fabric],
    judge: pci_below_port_rate,
};

/// What to do where the adapter is part of the board.
const SOLDERED: Remedy = Remedy {
    any: "The adapter is part of the board: update the firmware of the machine (fwupdmgr refresh; fwupdmgr update), shut it down, unplug it for a \
        minute, and start it again, because links train at boot. If the link stays so, have the machine replaced.",
    host: "lspci -vv -s ADDRESS | grep -e LnkCap: -e LnkSta:",
    ..Remedy::all("")
};

static BY_GENERATION: Exception = Exception {
    condition: "if no slot of the machine offers this model of adapter a higher speed",
    severities: Severities::INFO,
};

static ENOUGH_LANES: Exception = Exception {
    condition: "if the link carries the rate of the port, and the slot gives the card half of its lanes or fewer",
    severities: Severities::INFO,
};

/// What to do about a slot with fewer lanes than the card has.
const FEWER_LANES: Remedy = Remedy {
    any: "Nothing, if this is what the machine is built for: the link carries what the port receives now. For all ports of the card, or for its full rate, move it to a slot with \
        more lanes, or change the bifurcation of the slot in the firmware setup.",
    host: "lspci -vv -s ADDRESS | grep -e LnkCap: -e LnkSta:",
    ..Remedy::all("")
};

fn pci_below_port_rate(node: &Node, _: &Expectations) -> Vec<Draft> {
    if node.is_virtual_machine() {
        return Vec::new();
    }
    // The buses on which functions of one adapter are.
    let mut buses: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for hca in node.hcas().filter(|hca| !hca.is_virtual()) {
        if let (Some(guid), Some(address)) = (hca.system_image_guid.known(), hca.pci_address.known()) {
            let bus = address.rsplit_once(':').map_or("", |(bus, _)| bus);
            let known = buses.entry(guid.0).or_default();
            if !known.contains(&bus) {
                known.push(bus);
            }
        }
    }
    // The best speed that each model of adapter has in this machine.
    let mut fastest: BTreeMap<_, u32> = BTreeMap::new();
    for nic in node.pci.functions.known().into_iter().flat_map(BTreeMap::values) {
        if let (Some(speed), _) = node.pci.best_link(nic) {
            let best = fastest
                .entry((nic.vendor.known(), nic.device.known()))
                .or_default();
            *best = speed.max(*best);
        }
    }
    let found = node.active_ports().filter_map(|port| {
        let hca = port.hca;
        if port.is_lent() || hca.is_software() {
            return None;
        }
        let several = hca.system_image_guid.known().and_then(|guid| buses.get(&guid.0));
        if several.is_some_and(|buses| buses.len() > 1) {
            return None;
        }
        let rate = port.rate.known()?.bits_per_second;
        let (address, function) = node.link_of(hca)?;
        // A link below what its ends support is reported by pci-link-degraded.
        let (Some(speed), Some(width)) = node.pci.best_link(function) else {
            return None;
        };
        let is_degraded =
            function.link.speed.known() != Some(&speed) || function.link.width.known() != Some(&width);
        let capacity = capacity(speed, width);
        let (own_speed, own_width) = (function.link.max_speed.known(), function.link.max_width.known());
        let is_own_limit = own_speed == Some(&speed) && own_width == Some(&width);
        if is_degraded || is_own_limit {
            return None;
        }
        if capacity >= rate / 4 * 3 {
            let (Some(own_speed), Some(own_width)) = (own_speed, own_width) else {
                return None;
            };
            let own = self::capacity(*own_speed.min(&speed), *own_width);
            return (own_width / 2 >= width && width > 0)
                .then(|| with_fewer_lanes(&port, address, (width, capacity), (*own_width, own)));
        }
        let best = fastest.get(&(function.vendor.known(), function.device.known()));
        let is_generation = own_width == Some(&width) && best <= Some(&speed);
        let subject = Subject::of_port(&port);
        let message = format!(
            "the PCIe link of {subject} ({address}) carries about {}, its port {}",
            gigabits(capacity),
            gigabits(rate)
        );
        let directory = format!("/sys/bus/pci/devices/{address}");
        let words = format!("{}.{} GT/s, x{width}", speed / 1000, speed % 1000 / 100);
        Some(
            Draft::new(&PCI_BELOW_PORT_RATE, subject, message)
                .exception(is_generation.then_some(&BY_GENERATION))
                .remedy(if node.is_gb10() {
                    SOLDERED
                } else {
                    PCI_BELOW_PORT_RATE.remedy
                })
                .evidence(format!("{directory}/current_link_{{speed,width}}"), words)
                .evidence(port.file("rate"), gigabits(rate)),
        )
    });
    found.collect()
}

/// A link that carries the rate of the port with half of the lanes of the card: lanes and capacity of the link and of the card.
fn with_fewer_lanes(port: &Port<'_>, address: &str, link: (u32, u64), card: (u32, u64)) -> Draft {
    let subject = Subject::of_port(port);
    let message = format!(
        "the slot gives {subject} ({address}) {} of the {} lanes that the card has: the PCIe link carries about {} instead of {}",
        link.0,
        card.0,
        gigabits(link.1),
        gigabits(card.1)
    );
    let file = format!("/sys/bus/pci/devices/{address}/{{current,max}}_link_width");
    Draft::new(&PCI_BELOW_PORT_RATE, subject, message)
        .exception(&ENOUGH_LANES)
        .remedy(FEWER_LANES)
        .evidence(file, format!("x{}, x{}", link.0, card.0))
}

/// What a link carries in bits per second, without the encoding: 8b/10b below 8 GT/s, 128b/130b from there on.
fn capacity(mega_transfers: u32, width: u32) -> u64 {
    let raw = u64::from(mega_transfers) * 1_000_000 * u64::from(width);
    if mega_transfers < 8_000 {
        raw / 10 * 8
    } else {
        raw / 130 * 128
    }
}
