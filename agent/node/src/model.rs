//! Models of adapters and GPUs by their PCI ids, as engineers call them (`ConnectX-7`).
//!
//! Source of the names: the PCI ID repository (`pci.ids`). An id that is not in the list has no model; it is not guessed from
//! its neighbours.

use rdma_health_kernel::{infiniband::Hca, pci};

use crate::Node;

/// The PCI vendor id of AMD.
pub const AMD: u16 = 0x1002;
/// The PCI vendor id of NVIDIA.
pub const NVIDIA: u16 = 0x10de;
const BROADCOM: u16 = 0x14e4;
const MELLANOX: u16 = 0x15b3;
const AMAZON: u16 = 0x1d0f;
const PENSANDO: u16 = 0x1dd8;
/// The PCI vendor id of Habana Labs.
pub const HABANA: u16 = 0x1da3;
/// The PCI vendor id of Intel.
pub const INTEL: u16 = 0x8086;

/// The model of a PCI function; `None` if its ids are not in the list.
pub fn of_ids(vendor: u16, device: u16) -> Option<&'static str> {
    Some(match (vendor, device) {
        (MELLANOX, 0x1003 | 0x1004) => "ConnectX-3",
        (MELLANOX, 0x1007) => "ConnectX-3 Pro",
        (MELLANOX, 0x1011 | 0x1012) => "Connect-IB",
        (MELLANOX, 0x1013 | 0x1014) => "ConnectX-4",
        (MELLANOX, 0x1015 | 0x1016) => "ConnectX-4 Lx",
        (MELLANOX, 0x1017 | 0x1018) => "ConnectX-5",
        (MELLANOX, 0x1019 | 0x101a) => "ConnectX-5 Ex",
        (MELLANOX, 0x101b | 0x101c) => "ConnectX-6",
        (MELLANOX, 0x101d) => "ConnectX-6 Dx",
        // One id for the virtual functions of ConnectX-6 Dx and everything later.
        (MELLANOX, 0x101e) => "ConnectX VF",
        (MELLANOX, 0x101f) => "ConnectX-6 Lx",
        (MELLANOX, 0x1021) => "ConnectX-7",
        (MELLANOX, 0x1023) => "ConnectX-8",
        (MELLANOX, 0xa2d2 | 0xa2d3) => "BlueField",
        (MELLANOX, 0xa2d6) => "BlueField-2",
        (MELLANOX, 0xa2d9 | 0xa2dc) => "BlueField-3",
        (MELLANOX, 0xa2df) => "BlueField-4",
        (BROADCOM, 0x16d6) => "BCM57412",
        (BROADCOM, 0x16d7) => "BCM57414",
        (BROADCOM, 0x16d8) => "BCM57416",
        (BROADCOM, 0x1750) => "BCM57508",
        (BROADCOM, 0x1751) => "BCM57504",
        (BROADCOM, 0x1752) => "BCM57502",
        (BROADCOM, 0x1760) => "BCM57608",
        (INTEL, 0x1592 | 0x1593) => "E810-C",
        (INTEL, 0x159b) => "E810-XXV",
        (INTEL, 0x37d0..=0x37d2) => "X722",
        (INTEL, 0x0bd5) => "Max 1550",
        (HABANA, 0x1020) => "Gaudi2",
        (HABANA, 0x1060) => "Gaudi3",
        (AMAZON, 0xefa0..=0xefa3) => "EFA",
        (NVIDIA, 0x1db1 | 0x1db5) => "V100",
        (NVIDIA, 0x20b0 | 0x20b2 | 0x20b5 | 0x20f1) => "A100",
        (NVIDIA, 0x2322 | 0x2324) => "H800",
        (NVIDIA, 0x2330 | 0x2331 | 0x2339) => "H100",
        (NVIDIA, 0x2335) => "H200",
        (NVIDIA, 0x2342) => "GH200",
        (NVIDIA, 0x2901) => "B200",
        (NVIDIA, 0x2941) => "GB200",
        (NVIDIA, 0x26b5) => "L40",
        (NVIDIA, 0x26b9) => "L40S",
        (AMD, 0x7408 | 0x740c) => "MI250",
        (AMD, 0x740f) => "MI210",
        (AMD, 0x74a1) => "MI300X",
        (AMD, 0x74a5) => "MI325X",
        _ => return None,
    })
}

/// The model of a PCI function; `None` if its ids are unread or not in the list.
pub fn of(function: &pci::Function) -> Option<&'static str> {
    let (vendor, device) = (*function.vendor.known()?, *function.device.known()?);
    of_ids(vendor, device).or_else(|| of_board(vendor, *function.subsystem.known()?))
}

/// The model by the board, of adapters of which all chips have one id (Pensando).
fn of_board(vendor: u16, board: (u16, u16)) -> Option<&'static str> {
    (vendor == PENSANDO && board == (PENSANDO, 0x5201)).then_some("Pollara 400")
}

impl Node {
    /// The model of an RDMA device, for a virtual function that of its physical function; `None` if it is not known, and for
    /// software devices.
    pub fn model(&self, hca: &Hca) -> Option<&'static str> {
        if hca.is_software() {
            return None;
        }
        let pci = self.link_of(hca).and_then(|(_, function)| of(function));
        pci.or_else(|| by_hca_type(hca.hca_type.known()?))
    }
}

/// The model by the hardware type that `mlx5_ib` reports: `MT` and the device id in decimal.
fn by_hca_type(hca_type: &str) -> Option<&'static str> {
    of_ids(MELLANOX, hca_type.strip_prefix("MT")?.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_the_names_that_engineers_use() {
        assert_eq!(of_ids(0x15b3, 0x1021), Some("ConnectX-7"));
        assert_eq!(of_ids(0x15b3, 0x1020), None, "not guessed from its neighbours");
        assert_eq!(by_hca_type("MT4129"), Some("ConnectX-7"));
        assert_eq!(by_hca_type("MT99999999"), None);
        assert_eq!(by_hca_type("rxe"), None);
        assert_eq!(of_board(0x1dd8, (0x1dd8, 0x5201)), Some("Pollara 400"));
        assert_eq!(
            of_board(0x1dd8, (0x1dd8, 0x4000)),
            None,
            "the first card for services"
        );
    }
}
