//! Messages of perftest, libibverbs, rdma-core's tools and infiniband-diags.

use super::Row;
use crate::symptom::SymptomKind::{self as K};

/// In order of the subject.
pub(super) const ROWS: &[Row] = &[
    // NVIDIA's module for storage, built without the symbols of the GPU's driver.
    (&["no symbol version for nvidia_p2p_"], K::DriverNotBuilt),
    (&["nvidia_p2p_", "undefined!"], K::DriverNotBuilt),
    (&["the tool crashed, segmentation fault"], K::ToolNoAccess),
    (&["disagrees about version of symbol"], K::ModuleMismatch),
    (&["unknown symbol", "(err"], K::ModuleMismatch),
    (&["did not detect devices"], K::NoDevice),
    // The driver of an adapter that has iWARP, or no XRC.
    (&["unsupported qp type"], K::UnsupportedAdapter),
    (&["qp type", "not supported"], K::UnsupportedAdapter),
    (&["couldn't get context for the device"], K::OpenFailed),
    (&["failed to open device"], K::OpenFailed),
    // Its socket of TCP, on this host.
    (&["couldn't listen to port"], K::TcpError),
    // perftest counts the events of rdma_cm before it gives up.
    (&["times addr_error"], K::AddressUnresolved),
    (&["missing master sm"], K::NoSubnetManager),
    // mlnx_tune.
    (&["pci width status is below pci capabilities"], K::PciLimited),
    (&["pci speed status is below pci capabilities"], K::PciLimited),
    // The health checks of nodes: NHC, gpud.
    (&["check_hw_ib", "no ib port", "is active"], K::PortNotActive),
    (&["are active and", "expect >="], K::PortNotActive),
    // show_gids lists the GIDs of all ports.
    (&["n_gids_found=0"], K::NoGid),
    // ethtool reads the transceiver.
    (&["rx power low alarm", ": on"], K::ModuleFault),
    (&["rx power high alarm", ": on"], K::ModuleFault),
    (&["output power low alarm", ": on"], K::ModuleFault),
    (&["output power high alarm", ": on"], K::ModuleFault),
    (&["bias current low alarm", ": on"], K::ModuleFault),
    (&["bias current high alarm", ": on"], K::ModuleFault),
    (&["module temperature high alarm", ": on"], K::ModuleFault),
    // The drivers of Intel's adapters.
    (&["module type was detected", "unsupported"], K::ModuleFault),
    (&["unqualified module was detected"], K::ModuleFault),
    // mlxlink's advice.
    (&["recommendation", ": cable is unplugged"], K::PortNotActive),
    // UFM's log of events.
    (&["link went down: ("], K::PortError),
    (&["counter rate threshold exceeded"], K::LinkDegraded),
    (&["non-optimal link width"], K::LinkDegraded),
    (&["non-optimal link speed"], K::LinkDegraded),
    (&["doesn't support roce"], K::UnsupportedAdapter),
    // devlink: the driver does not create what the mode of the adapter does not have.
    (
        &["only supported in eswitch switchdev mode"],
        K::FunctionUnconfigured,
    ),
    (&["must be in switchdev mode"], K::FunctionUnconfigured),
    // What ibstat prints of a port.
    (&["state: initializing"], K::PortInitializing),
    (&["unable to find the infiniband/roce device"], K::NoDevice),
    (&["ib device", "not found"], K::NoDevice),
    (&["does not support the kernel abi"], K::NoProvider),
    (&["couldn't load driver"], K::NoProvider),
    (&["no userspace device-specific driver found"], K::NoProvider),
    (&["couldn't open config directory", "libibverbs"], K::NoProvider),
    (&["libibverbs.so", "cannot open shared object"], K::NoLibrary),
    (&["librdmacm.so", "cannot open shared object"], K::NoLibrary),
    (&["libmlx5.so", "cannot open shared object"], K::NoLibrary),
    (&["couldn't read uverbs abi version"], K::ModuleMissing),
    (&["ib_uverbs", "not loaded"], K::ModuleMissing),
    (&["is ib_uverbs loaded"], K::ModuleMissing),
    (&["couldn't read abi version", "librdmacm"], K::CmUnavailable),
    (&["librdmacm", "fatal"], K::CmUnavailable),
    (&["librdmacm", "no rdma devices"], K::NoDevice),
    (&["port number", "state is down"], K::PortNotActive),
    (&["port number", "state is init"], K::PortInitializing),
    (&["port number", "state is"], K::PortNotActive),
    (&["port is not active"], K::PortNotActive),
    (&["port", "is not in active state"], K::PortNotActive),
    (&["port", "not active"], K::PortNotActive),
    (&["link is down", "rdma"], K::PortNotActive),
    (&["requested mtu is higher than active mtu"], K::MtuDiffers),
    (&["mtu mismatch"], K::MtuDiffers),
    (&["failed to complete run_iter"], K::JobFailed),
    (
        &["unable to connect the hca's through the link"],
        K::ConnectFailed,
    ),
    (&["completion with error at"], K::JobFailed),
    (&["couldn't connect to remote qp"], K::ConnectFailed),
    (&["couldn't connect to"], K::ExchangeFailed),
    (&["could not connect to server", "rdma"], K::ExchangeFailed),
    (
        &["unable to open file descriptor for socket connection"],
        K::ExchangeFailed,
    ),
    (
        &["failed to exchange data between server and client"],
        K::ExchangeFailed,
    ),
    (&["couldn't read remote address"], K::PeerClosed),
    // The examples of libibverbs.
    (&["couldn't read/write remote address"], K::PeerClosed),
    // perftest prints the number of the event (`enum rdma_cm_event_type`) in place of RDMA_CM_EVENT_ESTABLISHED.
    (&["cm event bl blka 6"], K::ConnectFailed),
    (&["cm event bl blka 7"], K::PeerUnreachable),
    (&["cm event bl blka 8"], K::ConnectRefused),
    (&["unable to perform rdma_client function"], K::CmFailed),
    (&["unable to read to socket/rdma_cm"], K::PeerClosed),
    (&["unable to init the socket connection"], K::ExchangeFailed),
    (&["stat of ib device"], K::NoDevice),
    // libibverbs looks up the hardware address of a peer itself.
    (&["neighbour doesn't have a hw addr"], K::ConnectUnreachable),
    (&["neigh resolution process failed"], K::ConnectUnreachable),
    (&["ibwarn", "timeout"], K::NoSubnetManager),
    // srp_daemon asks the subnet manager for targets.
    (&["srp_daemon", "bad mad status (110)"], K::NoSubnetManager),
    (&["no response to inform info registration"], K::NoSubnetManager),
    // rping.
    (&["wait for connected state"], K::CmFailed),
    // A program that was written for InfiniBand, over RoCE (libmlx5); one that looks for a port of one kind (eRPC).
    (&["grh is mandatory for roce"], K::UnsupportedAdapter),
    (&["failed to resolve", "port index"], K::NoDevice),
    (&["-e- failed to send register"], K::FirmwareRefused),
    (&["-e- failed to send access register"], K::FirmwareRefused),
    (&["mlx5_common: failed to", "using devx"], K::CommandRefused),
    // dpdk-devbind.py: DPDK's driver for these adapters needs that of the kernel.
    (&["drv=igb_uio", "unused=mlx5_core"], K::NoDevice),
    (&["drv=uio_pci_generic", "unused=mlx5_core"], K::NoDevice),
    (&["no sm"], K::NoSubnetManager),
    (&["sminfo", "failed"], K::NoSubnetManager),
    (&["sa query", "timed out"], K::NoSubnetManager),
    (&["sa query", "failed"], K::NoSubnetManager),
    (&["path record", "failed"], K::NoSubnetManager),
];
