//! Sizes of PCIe packets on the way from a device to the processor.

use rdma_health_node::{
    Function, Node,
    pci::{self, Role},
};

use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Severity, Subject, Writer, draft::Draft,
    remedy::kernel_argument,
};

/// `pci-payload-mismatch`.
pub static PAYLOAD_MISMATCH: Rule = Rule {
    id: "pci-payload-mismatch",
    domain: Domain::Pci,
    policy: Policy::of(Severities::WARNING.rdma_expected(Severity::Critical)),
    title: "A device sends larger PCIe packets than a port above it accepts",
    explanation: "The maximum payload size (MPS in the PCIe Device Control register) of an RDMA device or GPU is larger than that of a PCIe port \
        between it and the processor. The port rejects a packet above its own size as malformed (MalfTLP), which is a fatal error: \
        transfers fail, and the device is taken offline. A hot-plugged or reset device, or a firmware that sets each device by itself, causes it.",
    remedy: Remedy {
        any: ANY,
        host: "Show what is set: lspci -vv -s ADDRESS | grep MaxPayload. pci=pcie_bus_safe goes into GRUB_CMDLINE_LINUX in /etc/default/grub; \
            run update-grub or grub2-mkconfig, then reboot.",
        ..Remedy::all("")
    },
    false_alarms: "A device with a smaller size than the port above it is not reported: it works. Virtual functions have no such setting, and the \
        ports of a virtual machine are not those of the hardware: neither is judged.",
    inputs: &[Writer::Hardware, Writer::HostRoot],
    judge: payload_mismatch,
};

const ANY: &str = "Boot with the kernel argument pci=pcie_bus_safe, which sets all devices below a port to what each of them supports, or set one \
    maximum payload size for all slots in the firmware setup of the machine. Update that firmware.";

fn payload_mismatch(node: &Node, _: &Expectations) -> Vec<Draft> {
    let Some(known) = node.pci.functions.known().filter(|_| !node.is_virtual_machine()) else {
        return Vec::new();
    };
    let size = |function: &pci::Function| function.capabilities.known()?.max_payload;
    let functions = node.functions();
    let is_judged = |function: &&Function<'_>| {
        let is_end = matches!(function.role, Role::Rdma | Role::Gpu | Role::Capable);
        is_end && !function.is_software && !function.is_virtual()
    };
    let found = functions.iter().filter(is_judged).filter_map(|function| {
        let own = size(function.pci?)?;
        let below = |address: &&String| {
            let accepted = known.get(*address).and_then(size);
            accepted.is_some_and(|accepted| accepted < own)
        };
        let bridge = function.bridges().iter().rev().find(below)?;
        let accepted = size(known.get(bridge)?)?;
        let message = format!(
            "{} sends PCIe packets of up to {own} bytes; PCIe port {bridge} above it accepts {accepted}",
            function.title()
        );
        let file = |address: &str| format!("/sys/bus/pci/devices/{address}/config");
        let subject = Subject::device(function.subject());
        Some(
            Draft::new(&PAYLOAD_MISMATCH, subject, message)
                .written_remedy(kernel_argument::added(node, ANY, "pci=pcie_bus_safe"))
                .evidence(file(function.address), format!("MaxPayload {own} bytes"))
                .evidence(file(bridge), format!("MaxPayload {accepted} bytes")),
        )
    });
    found.collect()
}
