//! Ports of ConnectX-3 and older whose link type is not the one that is configured.

use rdma_health_node::{Node, infiniband::LinkLayer, mlx4::PortType};

use crate::{Remedy, Subject, draft::Draft};

use super::LINK_TYPE_DIFFERS;

/// What to do about such a port. The driver takes the type from the configuration when it is loaded by a program that reads it.
const SET: Remedy = Remedy {
    any: "If the other end of the cable is TYPE, set the type of the port: echo KERNEL_TYPE > /sys/bus/pci/devices/ADDRESS/PORT_FILE. If it comes back after a reboot, the driver was loaded before \
        its configuration was read: write the initramfs again (dracut -f, update-initramfs -u), or set the type in the firmware (mstconfig -d ADDRESS set \
        LINK_TYPE_P1=VALUE LINK_TYPE_P2=VALUE; 1 is InfiniBand, 2 is Ethernet). Otherwise correct the file that the finding names.",
    host: "ibstat DEVICE; grep . /sys/bus/pci/devices/ADDRESS/mlx4_port*; cat /etc/rdma/mlx4.conf /etc/infiniband/connectx.conf",
    ..Remedy::all("")
};

/// The findings about ports that are not ACTIVE, so that nothing shows that the actual type is the right one.
pub(super) fn differs(node: &Node) -> Vec<Draft> {
    let mut findings = Vec::new();
    for port in node.ports().filter(|port| port.is_active() == Some(false)) {
        let address = port.hca.pci_address.known();
        let types = node
            .mlx4
            .ports
            .known()
            .zip(address)
            .and_then(|(all, address)| all.get(address));
        let at = usize::from(port.number).checked_sub(1);
        let (Some(kind), Some(address)) = (types.zip(at).and_then(|(types, at)| types.get(at)), address)
        else {
            continue;
        };
        let Some((wanted, file)) = other_than_configured(kind) else {
            continue;
        };
        let [is, should] = [&kind.actual, wanted].map(|kind| name(kind));
        let path = format!("/sys/bus/pci/devices/{address}/mlx4_port{}", port.number);
        let message = format!("{port} has link type {is} and is not ACTIVE; {file} sets {should}");
        let finding = Draft::new(&LINK_TYPE_DIFFERS, Subject::of_port(&port), message)
            .remedy(SET)
            .fill("TYPE", should)
            .fill("KERNEL_TYPE", wanted)
            .fill("VALUE", if wanted == "ib" { "1" } else { "2" })
            .fill("PORT_FILE", format!("mlx4_port{}", port.number))
            .evidence(path, &kind.actual)
            .evidence(file, format!("{address} port {}: {wanted}", port.number));
        findings.push(finding);
    }
    findings
}

/// The type that the configuration wants and the port does not have, with the file.
fn other_than_configured(kind: &PortType) -> Option<(&String, &String)> {
    let (wanted, file) = kind.configured.as_ref()?;
    (wanted != "auto" && *wanted != kind.actual).then_some((wanted, file))
}

fn name(kind: &str) -> &'static str {
    static INFINIBAND: LinkLayer = LinkLayer::InfiniBand;
    static ETHERNET: LinkLayer = LinkLayer::Ethernet;
    if kind == "ib" {
        INFINIBAND.name()
    } else {
        ETHERNET.name()
    }
}
