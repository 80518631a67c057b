//! The families of the Prometheus node exporter, word for word, so that dashboards made for it keep working.

use rdma_health_node::Port;

use super::{devices::Device, text};
use crate::table::table;

pub(crate) const NOTE: &str = "Only with `node_exporter_names: true` (`--node-exporter-names`): names, types, help texts and \
    values are those of the node exporter, for existing dashboards. Its `node_infiniband_lifespan_seconds` (a setting in \
    milliseconds, divided as an integer) and its `legacy_*` families (kernels before 4.5) are left out.";

table! {
    /// Families of each RDMA device.
    DEVICES {"device"}: Device<'_>;

    Gauge "node_infiniband_info" [""] {"board_id", "firmware_version", "hca_type"}
        "Non-numeric data from /sys/class/infiniband/<device>, value is always 1."
        => samples(|device, samples| {
            let hca = device.hca;
            samples.info([text(&hca.board_id), text(&hca.firmware), text(&hca.hca_type)]);
        });
}

table! {
    /// Families of each port, except for counters.
    PORTS {"device", "port"}: Port<'_>;

    Gauge "node_infiniband_state_id" [""] {}
        "State of the InfiniBand port (0: no change, 1: down, 2: init, 3: armed, 4: active, 5: act defer)"
        => value(|port| Some(port.state.known()?.code));
    Gauge "node_infiniband_physical_state_id" [""] {}
        "Physical state of the InfiniBand port (0: no change, 1: sleep, 2: polling, 3: disable, 4: shift, 5: link up, 6: link error recover, 7: phytest)"
        => value(|port| Some(port.phys_state.known()?.code));
    Gauge "node_infiniband_rate_bytes_per_second" ["bytes/s"] {}
        "Maximum signal transfer rate"
        => value(|port| Some(port.rate.known()?.bits_per_second / 8));
}

#[cfg(test)]
mod tests;
