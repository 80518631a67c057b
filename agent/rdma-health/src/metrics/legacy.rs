//! Writes the families of the Prometheus node exporter, so that dashboards made for it go on working.

use rdma_health_node::Node;

use super::{catalogue::ports::legacy as family, counters::Values, facts::text, ports::Labelled, sink::Sink};

pub(super) fn write(node: &Node, ports: &[Labelled<'_>], values: &Values<'_>, sink: &mut Sink<'_>) {
    let mut info = sink.family(&family::INFO);
    for hca in node.hcas() {
        let labels = [
            &hca.name,
            text(&hca.board_id),
            text(&hca.firmware),
            text(&hca.hca_type),
        ];
        info.sample(labels, 1_u8);
    }
    let mut each = |family, value: &dyn Fn(&Labelled<'_>) -> Option<u64>| {
        let mut series = sink.family(family);
        for at in ports {
            if let Some(value) = value(at) {
                series.port(&at.labels, value);
            }
        }
    };
    each(&family::STATE, &|at| Some(at.port.state.known()?.code.into()));
    each(&family::PHYSICAL_STATE, &|at| {
        Some(at.port.phys_state.known()?.code.into())
    });
    each(&family::RATE, &|at| {
        Some(at.port.rate.known()?.bits_per_second / 8)
    });
    values.write_named(ports, sink, |named| &named.legacy);
}

#[cfg(test)]
mod tests;
