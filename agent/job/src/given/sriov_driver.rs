//! The variables of dra-driver-sriov (`pkg/devicestate/state.go`, `pkg/cdi/cdi.go`).
//!
//! - `SRIOVNETWORK_VF_DEVICE_DEVICE=ADDRESS` for each device of this container; `SRIOVNETWORK_DEVICE_RDMA_DEVICE=mlx5_6`,
//!   `SRIOVNETWORK_DEVICE_RDMA_UVERB=/dev/infiniband/uverbs6` if it is for RDMA; `SRIOVNETWORK_DEVICE_VFIO_DEVICE` if it is for user space.
//! - `SRIOVNETWORK_PCI_ADDRESSES=ADDRESS,…` has the devices of all containers of the pod, and is used only without the others.

use std::collections::BTreeMap;

use super::{Given, Grant, Subfunctions, is_pci_address};

/// What the names of all its variables begin with.
pub(crate) const PREFIX: &str = "SRIOVNETWORK_";
const FUNCTION: &str = "SRIOVNETWORK_VF_DEVICE_";
const ADDRESSES: &str = "SRIOVNETWORK_PCI_ADDRESSES";
const RDMA_DEVICE: &str = "_RDMA_DEVICE";

impl Given {
    /// Adds the devices in these variables.
    pub(super) fn sriov_driver(
        &mut self,
        variables: &BTreeMap<String, String>,
        subfunctions: &mut Subfunctions,
    ) {
        let mut functions = variables
            .iter()
            .filter_map(|(name, value)| Some((name, name.strip_prefix(FUNCTION)?, value)))
            .peekable();
        let is_precise = functions.peek().is_some();
        for (name, device, value) in functions {
            self.function(name, device, value.trim(), variables);
        }
        for (name, value) in variables.iter().filter(|(name, _)| name.starts_with(PREFIX)) {
            if name == ADDRESSES && !is_precise {
                self.addresses(name, value, subfunctions);
            } else if let Some(device) = name
                .strip_prefix(PREFIX)
                .and_then(|name| name.strip_suffix(RDMA_DEVICE))
                && !variables.contains_key(&format!("{FUNCTION}{device}"))
            {
                self.rdma_devices(name, value);
            }
        }
    }

    /// One function, with what the other variables say about it.
    fn function(&mut self, name: &str, device: &str, address: &str, variables: &BTreeMap<String, String>) {
        let of = |what: &str| variables.get(&format!("{PREFIX}{device}_{what}"));
        if !is_pci_address(address) {
            return self.not_an_address(name, address);
        }
        let uverbs = of("RDMA_UVERB").and_then(|path| Some(path.rsplit_once('/')?.1.to_owned()));
        let rdma_devices = of("RDMA_DEVICE").map(String::as_str).unwrap_or_default();
        let for_rdma = match (&uverbs, rdma_devices, of("VFIO_DEVICE")) {
            // Older versions of the driver name only the function.
            (None, "", None) => None,
            (None, "", Some(_)) => Some(false),
            _ => Some(true),
        };
        // Several RDMA devices of one function are separated by commas.
        for rdma_device in rdma_devices.split(',').map(str::trim) {
            self.add(Grant {
                pci_address: Some(address.to_ascii_lowercase()),
                device: Some(rdma_device.to_owned()).filter(|device| !device.is_empty()),
                uverbs: uverbs.clone(),
                for_rdma,
                source: name.to_owned(),
                ..Grant::default()
            });
        }
    }
}
