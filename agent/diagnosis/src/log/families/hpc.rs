//! Messages of MPI libraries, PSM, DAPL, libfabric's users, DPDK and the tools of adapters.

use rdma_health_protocol::WcStatus;

use super::Row;
use crate::symptom::SymptomKind::{self as K};

/// Each row as in the module above.
pub(super) const ROWS: &[Row] = &[
    // GASNet: the memory that a process wants to share is more than it may pin.
    (&["segsize too large"], K::SettingUnmatched),
    (&["gasnet", "segment", "too large"], K::SettingUnmatched),
    // Its errors have a name, and their reason stands in another line.
    (
        &["gasnet", "returning an error code: gasnet_err"],
        K::BackendFailed,
    ),
    // Open MPI's start.
    (&["pml add procs failed"], K::BackendFailed),
    // Mercury.
    (
        &["fi_cq_readerr got err", "input/output error"],
        K::PeerUnreachable,
    ),
    // Ceph's messenger.
    (&["/rdma/", "failed assert"], K::BackendFailed),
    (&["/rdma/", "failed ceph_assert"], K::BackendFailed),
    // MPICH does not say which error it was.
    (&["ofi fi_getinfo() failure"], K::NoDevice),
    // MVAPICH2 asks the subnet manager for the service level of a path.
    (&["no response from sa"], K::NoSubnetManager),
    // PSM2, PSM3 and libfabric's opx.
    (&["psm", "and driver version mismatch"], K::VersionMismatch),
    (&["psm", " state = inactive"], K::PortNotActive),
    (&["user major version", "driver major"], K::VersionMismatch),
    (&["pkey", "please use psm"], K::PkeyMissing),
    (&["can't get a valid pkey"], K::PkeyMissing),
    // The library of one vendor on a node that has no such adapter, or whose driver is not loaded.
    (&["/dev/hfi", "failed to appear"], K::DeviceAbsent),
    (&["/dev/ipath", "failed to appear"], K::DeviceAbsent),
    (&["could not find an infinipath unit"], K::DeviceAbsent),
    (&["infinipath", "no units are available"], K::DeviceAbsent),
    (&["psm", "no nic units are available"], K::NoDevice),
    (&["unable to initialize verbs nic"], K::UnsupportedAdapter),
    // Open MPI's transport over TCP reached another process than the one that it looked for.
    (&["unexpected process identifier", "btl_tcp"], K::TcpError),
    (&["failed to tcp connect to a peer mpi"], K::TcpError),
    // One process reads the memory of another one on the node, which the kernel refuses: Open MPI's vader and sm, UCX's cma.
    (&["read -1, expected ", "errno = "], K::SharedMemory),
    (&["cma support is not available"], K::SharedMemory),
    (&["process_vm_readv", "returned -1"], K::SharedMemory),
    (&["process_vm_writev", "returned -1"], K::SharedMemory),
    (&["ucp_ep_create(", "shared memory error"], K::SharedMemory),
    // The launcher of Open MPI, whose daemons connect over TCP.
    (&["has lost communication with a remote daemon"], K::TcpError),
    (&["unable to reliably start one or more daemons"], K::TcpError),
    // Memory that processes of one node share.
    (&["xpmem", "failed to attach"], K::SharedMemory),
    (&["failed to attach xpmem"], K::SharedMemory),
    // The status of a completion in the words of UCX, where a program prints them without their beginning.
    (&["local qp operation on "], K::Completion(WcStatus::LocQpOpErr)),
    (&["local protection on "], K::Completion(WcStatus::LocProtErr)),
    (&["remote access on "], K::Completion(WcStatus::RemAccessErr)),
    // The launcher of MPICH and Intel MPI.
    (&["hydu_sock_connect"], K::TcpError),
    (&["btl_tcp_endpoint", "connect() to", "failed"], K::TcpError),
    (&["no free", "contexts available"], K::ResourceLimit),
    // A process asks PSM after another one, or itself, closed its endpoint.
    (&["psm endpoint is closed"], K::PeerClosed),
    (&["ofi endpoint open failed"], K::OpenFailed),
    // PSM2 found a unit that is active, and got no context there.
    (&["psm2 can't open hfi unit"], K::CreateUnexplained),
    // A mapping of locked memory that is over the limit (EAGAIN, mmap(2)), in whichever function of PSM.
    (
        &["mmap of", "hfi", "resource temporarily unavailable"],
        K::RegMrNoMemory,
    ),
    // PSM of InfiniPath adapters answers the same where all contexts are in use.
    (&["open /dev/ipath", "network down"], K::CreateUnexplained),
    (
        &["ipath_userinit", "command failed: network is down"],
        K::CreateUnexplained,
    ),
    (&["ipath_userinit", "resource busy"], K::ResourceLimit),
    (&["ipath_userinit", "failed"], K::OpenFailed),
    // libfabric's provider opx.
    (
        &["unrecoverable error occurred while communicating with the driver"],
        K::CommandRefused,
    ),
    // Omni-Path: what the driver logs of a port.
    (&["logical state changed to port_down"], K::PortError),
    (&["physical state changed to phys_offline"], K::PortError),
    (&["network down", "hfi1"], K::PortError),
    (&["network down", "psm"], K::PortError),
    (&["driver initialization failure on /dev/hfi"], K::OpenFailed),
    (&["driver initialization failure on /dev/ipath"], K::OpenFailed),
    (&["endpoint could not be reached"], K::PeerUnreachable),
    (&["couldn't connect to", "still trying"], K::PeerUnreachable),
    (&["couldn't connect to", "others)"], K::PeerUnreachable),
    (&["psm", "unable to pin gpu pages"], K::ResourceLimit),
    (&["is the sm running"], K::NoSubnetManager),
    // opensm found no port of InfiniBand.
    (&["no local ports detected"], K::NoDevice),
    (&["error from osm_opensm_bind"], K::ManagerNotStarted),
    (&["make sure sm is running"], K::NoSubnetManager),
    // DAPL: the connection events of DAT (`DAT_CONNECTION_EVENT_*`).
    (&["unexpected dapl event 0x4002"], K::ConnectRefused),
    (&["unexpected dapl event 0x4003"], K::ConnectRefused),
    (&["unexpected dapl event 0x4005"], K::PeerClosed),
    (&["unexpected dapl event 0x4006"], K::PeerClosed),
    (&["unexpected dapl event 0x4007"], K::PeerUnreachable),
    (&["unexpected dapl event 0x4008"], K::PeerUnreachable),
    (&["dapl", "conn_err", "timeout"], K::PeerUnreachable),
    (&["dapl", "conn_err", "reject"], K::ConnectRefused),
    (&["dapl", "retries exhausted"], K::PeerUnreachable),
    (&["fabric is not available"], K::NoDevice),
    (&["open_hca", "not found"], K::NoDevice),
    // Open MPI.
    (&["partition key", "not found"], K::PkeyMissing),
    (
        &["not able to find endpoint information for a remote"],
        K::PeerClosed,
    ),
    (&["ofi mtl is aborting"], K::BackendFailed),
    // UCX knows the speeds and widths of ports that its release knows.
    (&["ucx", "invalid active_"], K::UnsupportedAdapter),
    (&["failed to create ucp worker"], K::BackendFailed),
    (&["failed to create ucp context"], K::BackendFailed),
    (&["ofi get endpoint name failed"], K::BackendFailed),
    (&["assertion failure at psm"], K::BackendFailed),
    // UCX's transport DC: the driver or the library does not have it.
    (&["dct to rtr", "invalid argument"], K::CreateRefused),
    // UCX was built without threads.
    (&["does not support mpi_thread_multiple"], K::BackendMissing),
    (
        &["no components were able to be opened in the pml framework"],
        K::BackendMissing,
    ),
    // The address that PSM3 took belongs to another network than the peer's.
    (
        &["trying to connect from", "on a different subnet"],
        K::ConnectUnreachable,
    ),
    // The status of UCX (UCS_ERR_NO_RESOURCE) at the start: of shared memory, or of the adapter.
    (
        &["ucx function returned", "no resources are available"],
        K::ResourceLimit,
    ),
    (&["pml ucx cannot be selected"], K::NoDevice),
    (&["pml cm cannot be selected"], K::NoDevice),
    (&["unable to find any relevant network interfaces"], K::NoDevice),
    // Open MPI before 1.3.
    (&["unable to find any hcas"], K::NoDevice),
    // Intel MPI (I_MPI_DEBUG=5) shows which provider it took.
    (&["mpi startup(): libfabric provider: tcp"], K::SocketFallback),
    (&["mpi startup(): libfabric provider: sockets"], K::SocketFallback),
    // HP-MPI and Platform MPI choose the first port of each node. MPI_IB_PORT_GID names the fabric.
    (&["do not have the same subnet_prefix"], K::SettingUnmatched),
    (&["initialization of psm2 library failed"], K::OpenFailed),
    // Mercury and DAOS.
    (&["no provider found for", "on domain"], K::SettingUnmatched),
    (&["no provider found for", "provider"], K::NoDevice),
    (&["fabric provider", "not supported"], K::SettingUnmatched),
    (&["fabric interface", "not found"], K::SettingUnmatched),
    (&["crt_req_timeout_hdlr"], K::PeerUnreachable),
    // Slingshot: what the adapter of the peer answered (`enum c_return_code`).
    (&["ptlte_not_found"], K::PeerClosed),
    (&["no_matching_conn"], K::PeerClosed),
    (&["undeliverable", "cxi"], K::PeerUnreachable),
    (&["undeliverable", "ofi"], K::PeerUnreachable),
    (&["failed to allocate lni"], K::NoVirtualNetwork),
    // Slingshot: the job has no virtual network (VNI), or not this one.
    (&["cxip_gen_auth_key"], K::NoVirtualNetwork),
    (&["vni_not_found"], K::NoVirtualNetwork),
    (&["no vni", "cxi"], K::NoVirtualNetwork),
    (&["cxi", "rgroup and vni"], K::NoVirtualNetwork),
    (&["failed to get slingshot_vnis"], K::NoVirtualNetwork),
    (
        &["failing to make progress", "queue exhaustion"],
        K::ResourceLimit,
    ),
    // libfabric's provider cxi, of a queue that the program does not read fast enough.
    (&["event queue overflow"], K::ResourceLimit),
    // The adapter has no more entries for the receives that a process posts.
    (&["failure to append le"], K::ResourceLimit),
    (&["le resources not recovered"], K::ResourceLimit),
    // Charm++.
    (&["lrtsinit::fi_getinfo error"], K::NoDevice),
    (&["lrtsinit::no provider found"], K::NoDevice),
    // GASNet.
    (&["unable to alloc/register pinned memory"], K::RegMrNoMemory),
    // Slingshot: the driver answers EINVAL to a service that reserves more than the adapter has left.
    (&["cxil_alloc_svc", "invalid argument"], K::ResourceLimit),
    (&["cxil_alloc_svc", "no space left"], K::ResourceLimit),
    // UCX: the firmware refused the command, and says why in the syndrome.
    (&["devx", "syndrome 0x", "remote i/o error"], K::CommandRefused),
    (
        &["no supported sockaddr auxiliary transports"],
        K::SettingUnmatched,
    ),
    // Transports of RDMA read remote memory themselves; those over TCP do not.
    (
        &["no zero-copy protocol found for", "host from host"],
        K::NoDevice,
    ),
    // MVAPICH2 read attributes of the adapter that are all zero.
    (&["attributes failed sanity check"], K::VersionMismatch),
    // DPDK.
    (&["devx", "syndrome="], K::CommandRefused),
    (&["bad devx status", "syndrome"], K::CommandRefused),
    // perftest and rdma-core's examples.
    (&["couldn't get local lid"], K::PortInitializing),
    (&["couldn't get device attribute"], K::OpenFailed),
    (&["failed to allocate hugepage"], K::HostMemory),
    (&["can't read sgid of index"], K::NoGid),
    (&["requested size larger than port mtu"], K::MtuDiffers),
    (&["no usable transports/devices"], K::SettingUnmatched),
    (&["incompatibility issue with gid types"], K::ConnectIncompatible),
    (&["size might be too big. try reducing"], K::CreateFailed),
    (&["dma-buf is not supported on this"], K::DmaBufUnsupported),
    (&["does not support dma-buf"], K::DmaBufUnsupported),
    (&["dmabuf requested but not supported"], K::DmaBufUnsupported),
    (&["pcie mapping requires dma-buf"], K::DmaBufUnsupported),
    (&["failed to export dmabuf"], K::DmaBufUnsupported),
    (&["failed to export dm as dmabuf"], K::DmaBufUnsupported),
    // Libraries of rdma-core that are of different releases.
    (&["undefined symbol", "-rdmav"], K::LibraryMismatch),
    (&["undefined symbol", "ibverbs_"], K::LibraryMismatch),
    (&["undefined symbol", "mlx5_1."], K::LibraryMismatch),
    (&["not found (required by", "libmlx5"], K::LibraryMismatch),
    (&["not found (required by", "libmlx4"], K::LibraryMismatch),
    (&["not found (required by", "ibverbs_"], K::LibraryMismatch),
    (&["not found (required by", "rdmacm_"], K::LibraryMismatch),
    // The component that a setting selects, in the words of Open MPI's help text.
    (&["component: ucx"], K::BackendMissing),
    (&["component: ofi"], K::BackendMissing),
    // ibstatus, without any device.
    (&["sys files not found", "infiniband"], K::NoDevice),
    // Tools of adapters, and the start of the driver.
    (&["-e- no devices found"], K::ToolNoAccess),
    (&["mst might be stopped"], K::ToolNoAccess),
    (&["no mst devices were found"], K::ToolNoAccess),
    (&["-e- you must be root"], K::ToolNoAccess),
    (&["-e- there are no mellanox devices"], K::ToolNoAccess),
    (&["-e- the device does not exist"], K::ToolNoAccess),
    (&["-e- the device doesn't exist"], K::ToolNoAccess),
    (&["-e- failed to open the device"], K::ToolNoAccess),
    (&["-e- failed to open device"], K::ToolNoAccess),
    (&["-e- unable to open device"], K::ToolNoAccess),
    (&["-e- unsupported device"], K::UnsupportedAdapter),
    (
        &["-e- failed to query device capabilities"],
        K::UnsupportedAdapter,
    ),
    (&["-e- failed to identify the device"], K::ToolNoAccess),
    (&["-e- cannot open device"], K::ToolNoAccess),
    // What mlxfwmanager prints of a device.
    (&["status:", "failed to open device"], K::ToolNoAccess),
    (&["cannot open device: /dev/mst"], K::ToolNoAccess),
    // The module `mst_pci` is old; `mst status` names it although the tools do not need it.
    (&["mst pci configuration module is not loaded"], K::ToolNoAccess),
    (&["loading mst pci", "failure"], K::ToolNoAccess),
    (&["-e- failed to identify device"], K::ToolNoAccess),
    (&["unable to open gdr driver"], K::GdrDisabled),
    // GDRCopy's own tests and library.
    (&["gdr_open", "is gdrdrv"], K::GdrDisabled),
    // GDRCopy's own library and tests.
    (&["error getting the gdrdrv driver version"], K::GdrDisabled),
    (&["gdr_pin_buffer", "failed at"], K::GdrDisabled),
    (&["gdr_open", "error"], K::GdrDisabled),
    (&["gdr_open", "failed"], K::GdrDisabled),
    (&["error opening driver (errno"], K::GdrDisabled),
    (&["livefish"], K::AdapterNotStarted),
    // What lspci calls an adapter that runs without firmware.
    (&["flash recovery"], K::AdapterNotStarted),
    // The installer of MLNX_OFED.
    (&["one or more devices are not supported"], K::UnsupportedAdapter),
    (&["belong to kernel which is not a part of"], K::ModuleMismatch),
    (&["loading", "hca driver", "[failed]"], K::ModuleMismatch),
    (
        &["could not insert", "unknown symbol in module"],
        K::ModuleMismatch,
    ),
    // smcss: the socket uses TCP; the code is that of the CLC decline (`SMC_CLC_DECL_*`).
    (&[" tcp 0x030"], K::SocketFallback),
];
