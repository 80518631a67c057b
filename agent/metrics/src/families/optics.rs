//! What transceivers measure.

use rdma_health_node::{
    Node,
    transceiver::{Lane, Measure, Module},
};

use crate::table::{Labelled, table};

table! {
    /// Families of each port with a transceiver that could be read.
    MODULES {"device", "port"}: &Module;

    Gauge "rdma_port_module_info" [""] {"form", "vendor", "part"}
        "Form, vendor and part number of the transceiver or cable of a port."
        => samples(|module, samples| {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            samples.info([&module.form, &text(&module.vendor), &text(&module.part)]);
        });
    Gauge "rdma_port_module_temperature_celsius" ["celsius"] {}
        "Temperature of the transceiver of a port."
        => value(|module| Some(thousandths(module.temperature?.value)));
    Gauge "rdma_port_module_temperature_limit_celsius" ["celsius"] {}
        "Temperature from which the transceiver of a port raises an alarm."
        => value(|module| Some(thousandths(module.temperature?.high?)));
    Gauge "rdma_port_module_voltage_volts" ["volts"] {}
        "Supply voltage of the transceiver of a port."
        => value(|module| Some(thousandths(module.voltage?.value) / 1e3));
}

table! {
    /// Families of each lane in use of a transceiver that measures light.
    LANES {"device", "port", "lane"}: &Lane;

    Gauge "rdma_port_module_receive_power_watts" ["watts"] {}
        "Power of the light that a lane of the transceiver receives. In dBm: 10 * log10(1000 * watts)."
        => value(|lane| Some(nano(lane.rx_power?)));
    Gauge "rdma_port_module_receive_power_limit_watts" ["watts"] {}
        "Received power below which the transceiver raises an alarm."
        => value(|lane| Some(nano(low(lane.rx_power?)?)));
    Gauge "rdma_port_module_transmit_power_watts" ["watts"] {}
        "Power of the light that a lane of the transceiver sends."
        => value(|lane| Some(nano(lane.tx_power?)));
    Gauge "rdma_port_module_bias_current_amperes" ["amperes"] {}
        "Bias current of the laser of a lane."
        => value(|lane| Some(thousandths(lane.bias?.value) / 1e3));
}

/// The limit as a value.
fn low(measure: Measure) -> Option<Measure> {
    Some(Measure {
        value: measure.low?,
        ..measure
    })
}

#[expect(clippy::cast_precision_loss, reason = "measured values have a few digits")]
fn thousandths(value: i64) -> f64 {
    value as f64 / 1e3
}

/// From billionths.
fn nano(measure: Measure) -> f64 {
    thousandths(measure.value) / 1e6
}

/// The transceivers of ports.
pub(crate) fn modules(node: &Node) -> Vec<Labelled<&Module>> {
    let mut found = Vec::new();
    for port in node.ports() {
        if let Some(module) = node.transceiver(port.kernel) {
            let mut number = itoa::Buffer::new();
            let labels = [port.hca.name.as_str(), number.format(port.number)];
            found.push(MODULES.labelled(&labels, module));
        }
    }
    found
}

/// Their lanes, with the numbers that the module gives them.
pub(crate) fn lanes(node: &Node) -> Vec<Labelled<&Lane>> {
    let mut found = Vec::new();
    for port in node.ports() {
        let module = node.transceiver(port.kernel).into_iter();
        for lane in module.flat_map(|module| &module.lanes) {
            let (mut of_port, mut of_lane) = (itoa::Buffer::new(), itoa::Buffer::new());
            let labels = [
                port.hca.name.as_str(),
                of_port.format(port.number),
                of_lane.format(lane.number),
            ];
            found.push(LANES.labelled(&labels, lane));
        }
    }
    found
}
