//! Messages of collective libraries, frameworks and transfer engines that NCCL's and UCX's own rows do not have.

use super::Row;
use crate::symptom::SymptomKind as K;

/// Each row as in the module above.
pub(super) const ROWS: &[Row] = &[
    // Vineyard, and what is built on it, goes on over TCP: the setting is what has to change.
    (&["invalid rdma endpoint"], K::SettingUnmatched),
    // A crash, or a wait, of another accelerator, and what its driver answers.
    (&["notify wait timeout"], K::CollectiveTimeout),
    (&["linksestablishcompleted", "failed"], K::PeerUnreachable),
    (&["wait links establish completed failed"], K::PeerUnreachable),
    (&["hcclcomminit", "fail"], K::BackendFailed),
    (&["stream sync timeout"], K::ComputeError),
    (&["stream synchronize timeout"], K::ComputeError),
    (&["aicore timeout"], K::ComputeError),
    (&["aicpu launch failed"], K::ComputeError),
    (&["aicpu", "timeout"], K::ComputeError),
    (&["aicpu exception"], K::ComputeError),
    // The table of ranks has no address of an NPU's port.
    (&["device_ip", "not set"], K::AddressUnresolved),
    (&["device_ip", "invalid"], K::AddressUnresolved),
    (&["device_ip", "is empty"], K::AddressUnresolved),
    // Memory of a GPU that another process, or another node, cannot open.
    (
        &["importfromshareablehandle", "invalid resource"],
        K::ComputeError,
    ),
    (&["importfromshareablehandle", "fail"], K::ComputeError),
    (&["imex", "channel", "not found"], K::ComputeError),
    (&["imex", "not permitted"], K::ComputeError),
    (&["nvshmem detect topo failed"], K::GpuDoorbellFailed),
    (&["aicore execution times out"], K::ComputeError),
    (&["no rocm-capable device"], K::ComputeError),
    (&["initialize rocm device"], K::ComputeError),
    (&["rsmi_status_", "failed"], K::ComputeError),
    (&["[cuda_error_", "in expression"], K::ComputeError),
    (&["failed: unhandled cuda error"], K::ComputeError),
    (&["failed: unhandled hip error"], K::ComputeError),
    (&["nvidia-container-cli", "driver error"], K::ComputeError),
    (&["nvidia-container-cli", "nvml error"], K::ComputeError),
    // GPUDirect Storage.
    (&["gpudirect storage not supported"], K::GdrDisabled),
    (&["p2pdma not supported"], K::GdrDisabled),
    // The daemon of a cloud's network for GPU memory.
    (
        &["number of gpus detected in the pci tree", "not equal"],
        K::BackendFailed,
    ),
    // Another UCX than the program was built for.
    (&["api version is incompatible", "required"], K::BackendMissing),
    // Accelio.
    (&["session event: connection disconnected"], K::PeerClosed),
    (&["reason: message flushed"], K::PeerClosed),
    // The name of a device in the settings of Mooncake.
    (&["no matched device found: "], K::SettingUnmatched),
    // Any program that goes on without RDMA.
    (&["rdma", "proceeding with tcp"], K::SocketFallback),
    (&["rdma", "continuing with tcp"], K::SocketFallback),
    (&["rdma", "falling back to tcp"], K::SocketFallback),
    (&["rdma", "fall back to tcp"], K::SocketFallback),
    (&["rdma", "using tcp instead"], K::SocketFallback),
    (&["async event", "port error"], K::PortError),
    (&["failed to load rdma transport"], K::NoDevice),
    (&["ibv.h:", "operation not supported"], K::UnsupportedAdapter),
    // An option of libfabric that the plugin knows from its headers, and the library that it loaded does not have.
    (&["net/ofi", "protocol not available"], K::BackendMissing),
    (&["fi_setopt", "protocol not available"], K::BackendMissing),
    (&["fi_opt_", "protocol not available"], K::BackendMissing),
    (&["couldn't set fi_opt_"], K::BackendMissing),
    (&["could not set fi_opt_"], K::BackendMissing),
    (&["failed to set fi_opt_"], K::BackendMissing),
    (&["couldn't get fi_opt_"], K::BackendMissing),
    (&["fi_opt_", "not declared"], K::BackendMissing),
    (&["net/ofi", "gdr disabled on gdr-supported"], K::GdrDisabled),
    (&["gdr support reported to nccl"], K::GdrDisabled),
    (&["network does not support", "cuda buffers"], K::GdrDisabled),
    // NVSHMEM_HCA_LIST and NVSHMEM_HCA_PE_MAPPING.
    (&["user specified hca name", "skipping"], K::SettingUnmatched),
    // NIXL's backends know only the GPUs that their parameters name.
    (&["register memory for unknown device"], K::SettingUnmatched),
    // The script of Intel Gaudi that sets its ports up.
    (&["no habanalabs network interfaces"], K::NoDevice),
    // UCX has two kinds of doorbell pages, and the adapter, or its driver, offers neither.
    (&["uar allocation types", "not supported"], K::CreateRefused),
    // NVML, and the assertions of NVIDIA's driver.
    (&["gpu is lost"], K::GpuStopped),
    // nvidia-smi, with what its library answers.
    (&["unable to determine the device handle for gpu"], K::GpuStopped),
    (&["nv_err_gpu_is_lost"], K::GpuStopped),
    (&["nv_err_reset_required"], K::GpuStopped),
    (&["nvls.cc", "cuda failure"], K::GpuLinkError),
    (&["failed to bind nvlink sharp"], K::GpuLinkError),
    // A container without a network, or without the family of addresses that the job uses.
    (
        &["socket creation failed", "address family not supported"],
        K::NoSocketInterface,
    ),
    // NCCL's list of the devices that it uses has one in software.
    (&["net/ib : using [", "]rxe"], K::BandwidthLow),
    (&["net/ib : using [", "]siw"], K::BandwidthLow),
    (&["_ifname=", "does not exist"], K::NoSocketInterface),
    (
        &["non-zero status: 12", "alloc_and_map_qp_uar failed"],
        K::ResourceLimit,
    ),
    (
        &["unable to create udp socket", "address family not supported"],
        K::BackendFailed,
    ),
    // UCX: settings that exclude each other, or all devices.
    (
        &["both gid_index and roce_subnet_list are specified"],
        K::SettingUnmatched,
    ),
    (&["the device lists are empty"], K::SettingUnmatched),
    (&["requested pkey", "is invalid"], K::PkeyMissing),
    (&["ar=", "was requested for sl="], K::SettingUnmatched),
    // NCCL: settings that this adapter, or the other end, does not follow.
    (&["ooo rq is force enabled"], K::SettingUnmatched),
    (&["net/socket : no interface found"], K::NoSocketInterface),
    // A function that older releases of GDRCopy do not have.
    (&["gdr_pin_buffer_v2 not available"], K::BackendMissing),
    (&["requires gdrcopy with gdr_pin_buffer_v2"], K::BackendMissing),
    (&["failed to resolve gdrcopy v2 api"], K::BackendMissing),
    // NCCL 2.28 and later: communication that the GPU starts.
    (&["peermem is not supported", "dma-buf"], K::GdrDisabled),
    // RCCL reads /proc/cmdline.
    (&["missing \"iommu=pt\""], K::PassthroughMissing),
    // Ranks with different libraries or settings.
    (&["mismatched nccl version detected"], K::PeerDiffers),
    // aws-ofi-nccl: the ends have different numbers of adapters for one GPU.
    (&["unexpected number of remote", "rails"], K::PeerDiffers),
    // NIXL over libfabric, the same.
    (&["rail count mismatch"], K::PeerDiffers),
    (&["published zero rail endpoints"], K::PeerDiffers),
    (&["message truncated", "instead of"], K::PeerDiffers),
    // libfabric's provider for EFA ends the program.
    (&["libfabric efa provider is operating in"], K::ForkUnsafe),
    // brpc ends with it.
    (&["ibv_fork_init", "fail"], K::ForkUnsafe),
    // aws-ofi-nccl.
    (&["aws-ofi-nccl initialization failed"], K::BackendFailed),
    (&["insufficient libfabric devices found"], K::NoDevice),
    (&["net/ofi", "unknown transport"], K::SettingUnmatched),
    (
        &["passed fd handle", "not compiled with dma-buf"],
        K::DmaBufUnsupported,
    ),
    (&["cannot open more connection for device"], K::ResourceLimit),
    // MSCCL++ and others name the interface that a setting selects.
    (&["no interface named"], K::NoSocketInterface),
    // PyTorch's store, over TCP.
    (&["client socket has timed out"], K::TcpError),
    (&["[c10d]", "failed to connect"], K::TcpError),
    (&["driver/library version mismatch"], K::ComputeError),
    // Two ranks of a job on one GPU, and what NCCL says of a wrong call.
    (&["duplicate gpu detected"], K::ComputeError),
    (&["nccl error", "invalid usage"], K::JobFailed),
    (&["ncclinvalidusage"], K::JobFailed),
    (&["cudahostregister", "iomemory"], K::GpuDoorbellFailed),
    (
        &["namespace awareness mode", "expecting it to be"],
        K::NetworkAttachFailed,
    ),
    // Gloo connects over TCP.
    (&["unable to find address for", "gloo"], K::GlooError),
    (&["unable to find interface for", "gloo"], K::GlooError),
    (&["gloo connectfullmesh failed"], K::GlooError),
    (&["connection refused", "gloo"], K::GlooError),
    (&["connect timeout", "gloo"], K::GlooError),
    (&["timed out connecting", "gloo"], K::GlooError),
    (&["connection closed by peer", "gloo"], K::GlooError),
    (&["connection reset by peer", "gloo"], K::GlooError),
    // Huawei's HCCL and HCCP.
    (&["ej0002:"], K::PortNotActive),
    // The port on which HCCL listens is in use.
    (&["ej0003:"], K::AddressInUse),
    (&["hcclsocket", "[listen]", "fail"], K::AddressInUse),
    // What one rank learns of the exception of another.
    (&["exceptiontype:[heartbeat lost"], K::PeerClosed),
    (&["exceptiontype:[error cqe"], K::PeerUnreachable),
    (&["exceptiontype:[stuck"], K::CollectiveTimeout),
    // Mooncake's transport over HCCL.
    (
        &["ascend_direct_transport", "connect timeout to"],
        K::PeerUnreachable,
    ),
    (&["ascend_transport", "connect timeout to"], K::PeerUnreachable),
    (
        &["ascend_direct_transport", "failed to connect to"],
        K::PeerUnreachable,
    ),
    (
        &["transfer_executor", "failed to connect to target"],
        K::PeerUnreachable,
    ),
    (&["failed to connect, local engine:"], K::PeerUnreachable),
    (&["hcclcommprepare", "fail"], K::PeerUnreachable),
    (&["batch data transfer timeout"], K::PeerUnreachable),
    // The text of EI0002 without its code.
    (&["possible cause", "hccl_exec_timeout"], K::CollectiveTimeout),
    (&["possible cause", "hccl_connect_timeout"], K::PeerUnreachable),
    // The other end offers its memory over a transport that this one does not have.
    (&["notsupportedtransport"], K::PeerDiffers),
    // UCCL sends lost packets again, up to a limit.
    (&["rto retransmission threshold"], K::PeerUnreachable),
    // AWS ParallelCluster checks its configuration: packets between the nodes would be dropped.
    (&["efa requires a security group"], K::PeerUnreachable),
    (&["(ei0006)"], K::PeerUnreachable),
    (&["(ei0009)"], K::PeerUnreachable),
    (&["transport init error", "isusedrdma[1]"], K::PeerUnreachable),
    (&["ra rdma init failed"], K::OpenFailed),
    (&["rdma init fail"], K::OpenFailed),
    (
        &["attempted to merge incompatible devices"],
        K::ConnectIncompatible,
    ),
    (&["device is incompatible with the local"], K::ConnectIncompatible),
    // rocSHMEM's transport with an adapter of another vendor than the one that it was built for.
    (&["gdaprovider::", "invalid device"], K::UnsupportedAdapter),
    (&["unsupported broadcom part"], K::UnsupportedAdapter),
    (&["unsupported firmware version"], K::FirmwareMismatch),
    // MORI connects its processes over TCP first.
    (&["acceptsocket timed out"], K::ExchangeFailed),
    (&["failed to connect to root after"], K::ExchangeFailed),
    // UCX, with the words of its statuses (`ucs_status_string`).
    (&["connection reset by remote peer"], K::PeerClosed),
    (&["operation rejected by remote peer"], K::ConnectRefused),
    (&["unable to find specified pkey"], K::PkeyMissing),
    (&["there is no valid pkey"], K::PkeyMissing),
    // NIXL, and what it finds out about UCX.
    (&["support was not found", "gpu(s)"], K::BackendMissing),
    (&["memory is detected as host by ucx"], K::BackendMissing),
    (&["plugin file does not exist", "libplugin_"], K::BackendMissing),
    (&["nixl", "plugin api version mismatch"], K::BackendMissing),
    (
        &["nixl", "handshake from peer", "not received"],
        K::ExchangeFailed,
    ),
    // NVSHMEM's transports are libraries of their own.
    (
        &["incompatible version of the transport interface"],
        K::BackendMissing,
    ),
    (&["unable to find the selected fabric"], K::NoDevice),
    (
        &["registration failed for the specified or all potential backends"],
        K::BackendFailed,
    ),
    (&["nixl", "engine id mismatch"], K::PeerDiffers),
    (&["nixl", "handshake", "failed"], K::ExchangeFailed),
    (&["nixl transfer fail"], K::BackendFailed),
    (&["nixlbackenderror"], K::BackendFailed),
    // SGLang, above Mooncake and NIXL.
    (&["failed to send kv chunk"], K::BackendFailed),
    (&["failed to deserialize", "rail endpoints"], K::PeerDiffers),
    // What a process reports to its own rank, which failed for another reason.
    (&["socket recv failed while polling"], K::JobFailed),
    (&["proxy service", "failed to execute operation"], K::JobFailed),
    // Dask, over UCX.
    (&["timed out", "connect to ucx://"], K::PeerUnreachable),
    (&["timed out", "connect to ucxx://"], K::PeerUnreachable),
    // SparkRDMA and eRPC.
    (&["has no rdma connection to"], K::PeerUnreachable),
    (&["unable to resolve routing info"], K::RouteUnresolved),
    // MORI looks for the adapter's library at run time.
    (&["device detected but lib", "not available"], K::NoProvider),
    // Mooncake, and SGLang above it.
    (&["/dev/infiniband", "is not accessible for"], K::NotPermitted),
    (&["all rails failed for context"], K::PeerUnreachable),
    (&["all peer rails are paused"], K::PeerUnreachable),
    (&["timed out waiting for rdma ready ack"], K::PeerUnreachable),
    (&["rdma ready ack rejected"], K::ConnectRefused),
    (&["peer did not provide efa address"], K::PeerDiffers),
    (&["libibverbs missing required symbol"], K::LibraryMismatch),
    (&["missing required verbs symbol"], K::LibraryMismatch),
    (&["failed to export dma_buf"], K::DmaBufUnsupported),
    (&["cannot make connection for endpoint"], K::ConnectFailed),
    // The address of a request lies in no memory that was registered.
    (&["not registered by any", "device"], K::PostRefused),
    (&["rejected handshake request by peer"], K::ConnectRefused),
    (&["reject the handshake request by peer"], K::ConnectRefused),
    (&["it might be dead", "instance"], K::PeerClosed),
    (&["instance could be dead"], K::PeerClosed),
    (&["is not alive", "mooncake session"], K::PeerClosed),
    // MPICH over libfabric: the processes could not exchange their addresses.
    (&["address vector map failed"], K::JobFailed),
    // UCX found no lane for the communication that a GPU starts, and could not make the handle for it.
    (&["ucp_device.c", "failed to select lane"], K::BackendMissing),
    (&["ucp_device.c", "failed to create handle"], K::BackendMissing),
    // oneCCL. The last three repeat what failed before.
    (&["ccl_error", "fi_getinfo"], K::NoDevice),
    (&["ccl_error", "can't init provider"], K::BackendFailed),
    (&["ccl_error", "atl_status_success failed"], K::BackendFailed),
    (&["ccl_error", "can not open network providers"], K::BackendFailed),
    (&["ccl_error", "can't find suitable provider"], K::BackendFailed),
    // UCX counts each transport of each device.
    (&["exceeded transports/devices limit"], K::BackendFailed),
    // MPICH's device over libfabric, whose provider does not open the device.
    (
        &["ofi fi_open domain failed", "invalid argument"],
        K::BackendFailed,
    ),
    // UCC was built without UCX, or settings leave it out.
    (&["no tls are selected"], K::BackendMissing),
    (&["no tl teams were created"], K::BackendMissing),
    (&["no cl teams were created"], K::BackendMissing),
    // BytePS: its ps-lite was built without RDMA.
    (&["unsupported van type"], K::BackendMissing),
    // MSCCL++ counts the devices that libibverbs lists.
    (&["ib transport out of range"], K::NoDevice),
    (&["no rdma capable nic"], K::NoDevice),
    // The message has NCCL's words without its prefix where a program prints what the library returned.
    (
        &["error while creating shared memory segment /dev/shm/nccl"],
        K::SharedMemory,
    ),
    // UCX names what the system selected for an address, and the setting that leaves it out.
    (
        &["is not enabled, enable it in ucx_net_devices"],
        K::SettingUnmatched,
    ),
    (&["gid index", "out of range"], K::NoGid),
    (&["uninitialized gid "], K::NoGid),
    (&["invalid gid at index"], K::NoGid),
];
