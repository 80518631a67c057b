//! Names of PCI slots.
//!
//! Source: `/sys/bus/pci/slots/NAME/address` (`Documentation/ABI/testing/sysfs-bus-pci`), which holds domain, bus and device
//! of the slot (`0000:41:00`).

use std::collections::BTreeMap;

use super::Function;
use crate::{fact::Fact, root::Scope};

const SLOTS: &str = "/sys/bus/pci/slots";
/// The maximum number of slots that are read.
const MAX_SLOTS: usize = 256;

/// Sets the slot of each function that is in one.
pub(super) fn name(scope: &Scope<'_>, functions: &mut BTreeMap<String, Function>) {
    let slots = scope.entries(SLOTS);
    for slot in slots.known().into_iter().flatten().take(MAX_SLOTS) {
        let address = scope.optional(&format!("{SLOTS}/{slot}/address"));
        let Some(device) = address.known().filter(|device| !device.is_empty()) else {
            continue;
        };
        let first = format!("{device}.");
        let below = functions.range_mut(first.clone()..);
        for (_, function) in below.take_while(|(address, _)| address.starts_with(&first)) {
            function.slot = Fact::Known(slot.clone());
        }
    }
}
