//! PCI addresses in paths.

pub use rdma_health_kernel_log::is_address;

use super::DEVICES;

/// The last PCI address in a real path: the function of a device below it.
pub fn address_in(path: &str) -> Option<&str> {
    path.rsplit('/').find(|part| is_address(part))
}

/// The address of the function whose configuration space the file at `path` is.
pub(crate) fn of_config(path: &str) -> Option<&str> {
    let address = path
        .strip_prefix(DEVICES)?
        .strip_prefix('/')?
        .strip_suffix("/config")?;
    is_address(address).then_some(address)
}

/// The addresses of the bridges above the function of a real path, from the root port down.
pub(super) fn bridges_above(real_path: &str) -> Vec<String> {
    let mut addresses: Vec<_> = real_path
        .split('/')
        .filter(|part| is_address(part))
        .map(str::to_owned)
        .collect();
    addresses.pop();
    addresses
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_differ_from_other_path_components() {
        assert!(is_address("0000:41:00.0") && is_address("10000:e1:00.1"));
        for other in [
            "pci0000:40",
            "virtio0",
            "0000:41:00",
            "0000:41:00.0:pcie004",
            "",
            "0000:41:00.x",
        ] {
            assert!(!is_address(other), "{other}");
        }
        let path = "/sys/devices/pci0000:40/0000:40:01.0/0000:41:00.0/virtio1/net/eth0";
        assert_eq!(address_in(path), Some("0000:41:00.0"));
        assert_eq!(
            bridges_above("/sys/devices/pci0000:40/0000:40:01.0/0000:41:00.0"),
            ["0000:40:01.0"]
        );
        assert_eq!(address_in("/sys/devices/virtual/net/lo"), None);
    }

    proptest! {
        /// Every function of a path is an address, and only the last is not above the device.
        #[test]
        fn the_bridges_above_a_device_are_those_of_its_path(
            functions in proptest::collection::vec((0..=0xffff_u32, 0..=0xff_u8, 0..32_u8, 0..8_u8), 1..6),
            between in "(net|virtio[0-9]|[0-9a-f:.]{0,6}|\\PC{0,9})",
        ) {
            let addresses: Vec<_> = functions
                .iter()
                .map(|(domain, bus, slot, function)| format!("{domain:04x}:{bus:02x}:{slot:02x}.{function}"))
                .collect();
            prop_assume!(!between.contains('/'));
            let path = format!("/sys/devices/pci0000:40/{}/{between}", addresses.join("/"));
            prop_assert_eq!(address_in(&path), addresses.last().map(String::as_str));
            prop_assert_eq!(bridges_above(&path), &addresses[..addresses.len() - 1]);
        }
    }
}
