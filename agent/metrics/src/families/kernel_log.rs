//! What the kernel logged about adapters and GPUs.

use std::collections::BTreeMap;

use rdma_health_node::{
    Function, Node,
    kmsg::{EventClass, EventKind},
};

use crate::table::{Labelled, table};

/// Maximum number of devices and kinds with samples.
const MAX_SUBJECTS: usize = 256;

table! {
    /// Families of each device and kind of event.
    EVENTS {"device", "kind"}: u64;

    Gauge "rdma_kernel_log_messages" [""] {}
        "Number of messages in the kernel log that report a fault or an error of a device. It falls when the log overwrites old \
        messages. kind is" one_of EventKind::NAMES
        => value(|count| Some(*count));
}

/// The number of messages of each kind about each device.
pub(crate) fn events<'a>(node: &'a Node, functions: &[Function<'a>]) -> Vec<Labelled<u64>> {
    let mut counts: BTreeMap<(String, EventKind), u64> = BTreeMap::new();
    for found in node.device_events_of(functions) {
        let kind = found.event.kind;
        if kind.class() != EventClass::Recovery {
            *counts.entry((found.subject(), kind)).or_default() += found.event.count;
        }
    }
    let shown = counts.into_iter().take(MAX_SUBJECTS);
    shown
        .map(|((device, kind), count)| EVENTS.labelled(&[&device, kind.name()], count))
        .collect()
}
