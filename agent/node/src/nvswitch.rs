//! The InfiniBand devices through which the Fabric Manager controls the `NVSwitches` of an HGX B200 or B300 board.
//!
//! They are ConnectX-7 functions on the board that belong to the `NVLink` fabric: its own subnet manager (`nvlsm`) configures them,
//! and they carry no traffic of jobs. Their VPD has `SW_MNG`, but reading VPD takes long, so they are recognised by what
//! else they have: another board id than the rails, and no network device.

use std::collections::BTreeMap;

use crate::{Node, Port, model};

/// The device ids of NVIDIA's GPUs on such boards: B200 and B300 (`SXM`).
const BOARDS: [u16; 2] = [0x2901, 0x3182];

impl Node {
    /// The board id of the devices that control `NVSwitches`, if the node has such devices.
    pub fn nvswitch_board(&self) -> Option<&str> {
        let is_on_board = |gpu: &crate::Function<'_>| {
            gpu.pci.is_some_and(|pci| {
                pci.vendor.known() == Some(&model::NVIDIA)
                    && pci.device.known().is_some_and(|id| BOARDS.contains(id))
            })
        };
        if !self.gpus().any(|gpu| is_on_board(&gpu)) {
            return None;
        }
        // Ports by board, and those of them that could control a switch.
        let mut boards: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for port in self
            .ports()
            .filter(|port| !port.hca.is_software() && !port.is_lent())
        {
            let Some(board) = port.hca.board_id.known() else {
                continue;
            };
            let (all, without_netdev) = boards.entry(board).or_default();
            *all += 1;
            *without_netdev += usize::from(port.is_infiniband() && port.kernel.netdev.is_absent());
        }
        // The rails may be of a driver that reports no board, such as EFA.
        let unnamed = self.ports().filter(|port| port.hca.board_id.known().is_none());
        let most = boards.values().map(|(all, _)| *all).max()?.max(unnamed.count());
        let mut candidates = boards
            .into_iter()
            .filter(|(_, (all, without_netdev))| all == without_netdev && *all < most);
        candidates.next().map(|(board, _)| board)
    }

    /// Whether a port controls an `NVSwitch`.
    pub fn controls_nvswitch(&self, port: &Port<'_>) -> bool {
        let board = self.nvswitch_board();
        board.is_some() && port.hca.board_id.known().map(String::as_str) == board
    }
}
