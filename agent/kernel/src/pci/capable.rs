//! Network functions whose hardware supports RDMA, identified by vendor and device.

use super::{DEVICES, hexadecimal};
use crate::{fact::Fact, root::Scope};

/// Base class of network controllers. An adapter may be of any class below it: ConnectX-3 is of kind "other" (0x0280) because each port is
/// InfiniBand or Ethernet.
const NETWORK: u32 = 0x02;
/// Class of InfiniBand adapters among serial buses.
const SERIAL_INFINIBAND: u32 = 0x0c06;

/// Whether a class, with its programming interface, is that of a network controller or InfiniBand adapter.
pub(super) fn is_network(class: u32) -> bool {
    class >> 16 == NETWORK || class >> 8 == SERIAL_INFINIBAND
}

/// Whether a function that was not read as an RDMA device has one, as it does if the configuration excludes the device. `None` if the
/// hardware does not support RDMA.
pub(super) fn has_device(scope: &Scope<'_>, address: &str) -> Option<Fact<bool>> {
    let path = format!("{DEVICES}/{address}");
    let id = |name: &str| {
        let id = scope.parsed(&format!("{path}/{name}"), "a hexadecimal id", hexadecimal::<u32>);
        id.known().copied()
    };
    // The class first: most functions are not network controllers and need only one read.
    id("class").filter(|class| is_network(*class))?;
    let (vendor, device) = (id("vendor")?, id("device")?);
    is_capable(vendor, device).then(|| device_below(scope, &path))
}

/// Whether a network controller with these ids supports RDMA.
fn is_capable(vendor: u32, device: u32) -> bool {
    match vendor {
        // InfiniHost, ConnectX, ConnectX-2, and from ConnectX-3 on all but the chips of switches (mlxsw).
        0x15b3 => {
            matches!(device, 0x1002 | 0x5a44 | 0x6274 | 0x6278 | 0x6282)
                || (device >= 0x1003 && !matches!(device, 0xc000..=0xdfff))
        }
        // Omni-Path, IPU (idpf), E810, E830 and X722.
        0x8086 => {
            matches!(
                device,
                0x24f0 | 0x24f1 | 0x1452 | 0x145c | 0x1591..=0x1593 | 0x1599..=0x159b | 0x12d1..=0x12d5 | 0x37d0..=0x37d3
            )
        }
        // NetXtreme-E from BCM57414 on, and Thor.
        0x14e4 => matches!(device, 0x16d7..=0x16d9 | 0x1750..=0x1752 | 0x1760),
        // Elastic Fabric Adapter.
        0x1d0f => matches!(device, 0xefa0..=0xefaf),
        // AMD Pensando (ionic).
        0x1dd8 => matches!(device, 0x1002 | 0x1003),
        // Alibaba Cloud's elastic RDMA adapter (drivers/infiniband/hw/erdma).
        0x1ded => device == 0x107f,
        // HiSilicon (hns3) with RDMA (`HNAE3_DEV_ID_*_RDMA*` in drivers/net/ethernet/hisilicon/hns3/hnae3.h).
        0x19e5 => matches!(device, 0xa222..=0xa226 | 0xa228),
        // Chelsio T4 to T6, the function for the network (drivers/net/ethernet/chelsio/cxgb4/t4_pci_id_tbl.h).
        0x1425 => matches!(device >> 8, 0x44 | 0x54 | 0x64),
        // The RDMA device of VMware (drivers/infiniband/hw/vmw_pvrdma).
        0x15ad => device == 0x0820,
        // QLogic FastLinQ 45000 and 41000 with their virtual functions (drivers/net/ethernet/qlogic/qede/qede_main.c).
        0x1077 => {
            matches!(
                device,
                0x1634 | 0x1636 | 0x1644 | 0x1654 | 0x1656 | 0x1664 | 0x1666 | 0x8070 | 0x8090
            )
        }
        // Emulex OneConnect with RoCE (Skyhawk; drivers/net/ethernet/emulex/benet/be.h).
        0x10df => matches!(device, 0x0720 | 0x0728),
        // Microsoft Azure Network Adapter.
        0x1414 => device == 0x00ba,
        _ => false,
    }
}

/// Whether the function has an RDMA device, directly or on an auxiliary device (`ice.roce.0`).
fn device_below(scope: &Scope<'_>, path: &str) -> Fact<bool> {
    let entries = match scope.entries(path) {
        Fact::Known(entries) => entries,
        Fact::Absent => return Fact::Absent,
        Fact::Unread { unread } => return Fact::Unread { unread },
    };
    let auxiliary = entries
        .into_iter()
        .filter(|name| name.contains('.') && !name.contains(':'))
        .map(|name| format!("{path}/{name}/infiniband"));
    let mut answer = Fact::Known(false);
    for directory in std::iter::once(format!("{path}/infiniband")).chain(auxiliary) {
        // The directory may outlive its devices.
        match scope.has_entries(&directory) {
            Fact::Known(true) => return Fact::Known(true),
            Fact::Known(false) | Fact::Absent => {}
            Fact::Unread { unread } => answer = Fact::Unread { unread },
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use std::{
        ffi::OsStr,
        fs,
        os::unix::{ffi::OsStrExt, fs::symlink},
    };

    use super::*;
    use crate::root::Root;

    #[test]
    fn a_device_that_cannot_be_read_is_not_missing() {
        let tree = tempfile::tempdir().unwrap();
        let function = tree.path().join("sys/bus/pci/devices/0000:01:00.0");
        let devices = function.join("infiniband");
        fs::create_dir_all(&devices).unwrap();
        for (name, id) in [("class", "0x020700"), ("vendor", "0x15b3"), ("device", "0x1021")] {
            fs::write(function.join(name), id).unwrap();
        }
        let root = Root::open(tree.path()).unwrap();
        let read = || has_device(&Scope::new(&root), "0000:01:00.0").unwrap();
        assert_eq!(read(), Fact::Known(false));
        fs::write(devices.join(OsStr::from_bytes(b"\xff")), "").unwrap();
        assert_eq!(read(), Fact::Known(true));
        // ELOOP stands for any error.
        fs::remove_dir_all(&devices).unwrap();
        symlink("infiniband", &devices).unwrap();
        assert!(read().unread().is_some());
    }

    #[test]
    fn adapters_differ_from_other_functions_of_their_vendors() {
        for (vendor, device) in [
            (0x15b3, 0x1021),
            (0x15b3, 0x101e),
            (0x15b3, 0x1003),
            (0x15b3, 0x673c),
            (0x1d0f, 0xefa1),
            (0x1ded, 0x107f),
            (0x8086, 0x24f0),
            (0x8086, 0x1592),
            (0x1077, 0x1656),
            (0x1077, 0x8070),
        ] {
            assert!(is_capable(vendor, device), "{vendor:#06x}:{device:#06x}");
        }
        // A BCM57840 of QLogic, an ENA, an I350, and the chips of a Spectrum-4 and a Quantum-2 switch do not support RDMA.
        for (vendor, device) in [
            (0x1077, 0x16a1),
            (0x1d0f, 0xec20),
            (0x8086, 0x1521),
            (0x15b3, 0xcf80),
            (0x15b3, 0xd2f2),
        ] {
            assert!(!is_capable(vendor, device), "{vendor:#06x}:{device:#06x}");
        }
    }

    #[test]
    fn an_adapter_may_be_of_any_class_of_network_controllers() {
        for class in [0x02_0000, 0x02_0700, 0x02_0800, 0x02_8000, 0x0c_0600] {
            assert!(is_network(class), "{class:#08x}");
        }
        // A DMA engine of an adapter, and a USB controller.
        assert!(!is_network(0x08_0100));
        assert!(!is_network(0x0c_0330));
    }
}
