//! Messages of the kernel, of the loader of its modules and of what gives functions to virtual machines.

use rdma_health_protocol::WcStatus;

use super::Row;
use crate::symptom::SymptomKind::{self as K};

/// In order of the subject: start, firmware, objects, queues, modules.
pub(super) const ROWS: &[Row] = &[
    // The kernel was built to check how drivers use DMA, and names the driver.
    (&["dma-api: "], K::DriverWarned),
    // The own work requests of mlx5, with which it changes keys of memory regions.
    (&["_post_send_wait", "reg umr"], K::CommandRefused),
    (&["pagefault_", "failed to update"], K::CommandRefused),
    (&["umr", "failed to update", "mkey"], K::CommandRefused),
    // The adapters of QLogic; what follows in brackets names the part that failed.
    (&["qed_hw_err_notify", "hw error occurred"], K::DeviceFatal),
    // Address ranges and bus numbers. Option ROMs and the bridge's own windows (BAR 6, 13 to 15) are not needed; virtual functions
    // are created later.
    (&["not enough mmio resources for sr-iov"], K::PciRoom),
    (&["bus number out of range", "sr-iov"], K::PciRoom),
    (&["can't enable", "vfs (bus"], K::PciRoom),
    (&["error requesting bars"], K::PciRoom),
    (&["region assigned to your nvidia device is invalid"], K::PciRoom),
    // Another driver, most often nouveau, holds the GPU.
    (&["is already bound to ", "nvrm: gpu"], K::GpuNotStarted),
    (
        &["failed to enable sriov", "msi-x interrupts"],
        K::FunctionUnconfigured,
    ),
    (
        &["msi-x interrupts available for sr-iov"],
        K::FunctionUnconfigured,
    ),
    (&["not enough resources for", " vfs"], K::FunctionUnconfigured),
    (&["pci_enable_sriov failed", "-12"], K::PciRoom),
    (&["pci_enable_sriov failed", "-28"], K::PciRoom),
    (&["failed to enable sr-iov", "-28"], K::FunctionUnconfigured),
    (&["failed to enable sr-iov", "-12"], K::PciRoom),
    (&["64bit pref]: failed to assign"], K::PciRoom),
    (&["64bit pref]: can't assign"], K::PciRoom),
    (&["failed to assign [mem", "64bit pref"], K::PciRoom),
    (&["no space for [mem", "64bit pref"], K::PciRoom),
    // ENOMEM: the ranges of its registers or doorbells were not there to be mapped.
    (&["amdgpu", "probe of", "failed with error -12"], K::PciRoom),
    (
        &["drm", "not enough pci address space for a large bar"],
        K::PciRoom,
    ),
    // qed, bnxt and others, before they give up.
    (&["no memory region found in bar"], K::PciRoom),
    (&["cannot find pci device base address"], K::PciRoom),
    (&["missing uar, aborting"], K::PciRoom),
    (&["missing dcs, aborting"], K::PciRoom),
    (&["bars unavailable. requested"], K::PciRoom),
    (&["doorbells bar unavailable. requested"], K::PciRoom),
    (&["erdma", "device init done failed"], K::AdapterNotStarted),
    (&["pf failed to honor vf"], K::FunctionUnconfigured),
    // iavf and i40evf: the host refuses what the function asks for.
    (&["pf returned error", "to our request"], K::FunctionUnconfigured),
    (&["reset but vf never came up"], K::FunctionUnconfigured),
    (&["failed to enable eswitch sriov"], K::FunctionUnconfigured),
    (
        &["can't change mode when there are active vfs"],
        K::FunctionUnconfigured,
    ),
    (
        &["reject sriov config request since if is down"],
        K::FunctionUnconfigured,
    ),
    (&["unable to allocate vf resources"], K::FunctionUnconfigured),
    (
        &["support sr-iov configuration via sysfs"],
        K::FunctionUnconfigured,
    ),
    (&["nmlx5_core", "failed to init hca"], K::AdapterNotStarted),
    (&["qedr", "failed to init rdma"], K::AdapterNotStarted),
    (&["iommu required but not present"], K::AdapterNotStarted),
    (&["cqp op[", "failed with major error"], K::CommandRefused),
    (
        &["i40iw", "error cqp command", "completion maj"],
        K::CommandRefused,
    ),
    (
        &["probe error: roce is not supported on this device"],
        K::UnsupportedAdapter,
    ),
    (
        &["rdma functionality is not available with"],
        K::UnsupportedAdapter,
    ),
    (&["bnxt_re", "failed to modify hw qp"], K::CommandRefused),
    (
        &["package download failed", "rdma functionality not available"],
        K::FirmwareMismatch,
    ),
    // DPDK's drivers of ConnectX, and of Intel's adapters.
    (&["failed to initialize ddp package"], K::FirmwareMissing),
    (&["failed to allocate tx devx uar"], K::ResourceLimit),
    (&["mlx5_", "failed to create", "using devx"], K::CreateRefused),
    (&["cannot use device, are drivers up to date"], K::VersionMismatch),
    // Files of firmware.
    (&["ddp package file was not found"], K::FirmwareMissing),
    (&["cannot find firmware"], K::FirmwareMissing),
    (&["can't load firmware file"], K::FirmwareMissing),
    (&["unable to load firmware", "-2"], K::FirmwareMissing),
    (&["failed to load firmware", "-2"], K::FirmwareMissing),
    (&["could not load firmware", "-2"], K::FirmwareMissing),
    (&["failed to load firmware", "no such file"], K::FirmwareMissing),
    (&["unable to load firmware image"], K::FirmwareMissing),
    // Versions.
    (&["interface version mismatch"], K::FirmwareMismatch),
    (&["hsi version mismatch"], K::FirmwareMismatch),
    (&["upgrade to later fw"], K::FirmwareMismatch),
    (
        &["lower than the minimal", "the driver supports"],
        K::FirmwareMismatch,
    ),
    // mthca and mlx4 start with a command that must answer by an interrupt.
    (&["failed to generate interrupt"], K::AdapterNotStarted),
    (&["ib_mthca", "catastrophic error"], K::DeviceFatal),
    (&["unsupported command interface revision"], K::FirmwareMismatch),
    (
        &["driver is not compatible with", "firmware"],
        K::FirmwareMismatch,
    ),
    (
        &["is not supported by this driver", "firmware"],
        K::FirmwareMismatch,
    ),
    // Modules.
    (
        &["configure: error:", "no ofed nor kernel openib"],
        K::DriverNotBuilt,
    ),
    (&["unable to find a match: kernel-"], K::DriverNotBuilt),
    (&["cannot stat", "module.symvers"], K::DriverNotBuilt),
    // mana: the firmware of the host did not accept a message.
    (&["failed to send mana message"], K::CommandRefused),
    (&["hwc: failed hw_channel"], K::CommandRefused),
    // DPDK's drivers of other makers: `ice_dev_init(): Failed to initialize HW`, `eth_ena_dev_init(): Failed to init ENA device`.
    (&["dev_init(): failed to init"], K::AdapterNotStarted),
    // The driver gave sysfs a name twice: it does not fit this kernel.
    (
        &["cannot create duplicate filename", "/infiniband"],
        K::AdapterNotStarted,
    ),
    (&["skipping linkcontrol sysfs info"], K::AdapterNotStarted),
    (&["failed to create /sys/class/infiniband"], K::AdapterNotStarted),
    (&["failed loading kernel module"], K::ModuleMissing),
    (&["could not unload nvidia driver kernel modules"], K::ModuleInUse),
    (&["storage modules are loaded", "reload"], K::ModuleInUse),
    // ice: channels, TxTime and queueing disciplines.
    (&["cannot change", "when rdma is active"], K::ModuleInUse),
    (&["third-party", "modules are loaded", "reload"], K::ModuleInUse),
    (&["third party", "modules are loaded", "reload"], K::ModuleInUse),
    (&["key was rejected by service"], K::ModuleUnsigned),
    (&["required key not available"], K::ModuleUnsigned),
    (&["unsigned module loading is restricted"], K::ModuleUnsigned),
    (
        &["could not insert", "operation not permitted"],
        K::ModuleUnsigned,
    ),
    (&["loading of unsigned module"], K::Unrecognised),
    (&["loading of module with unavailable key"], K::Unrecognised),
    (&["could not insert", "exec format error"], K::ModuleMismatch),
    // The limit on locked memory is one of programs.
    (&["could not insert", "cannot allocate memory"], K::HostMemory),
    (&["could not insert", "invalid module format"], K::ModuleMismatch),
    (&["version magic", "should be"], K::ModuleMismatch),
    // The core of another package has another interface than the driver was built for.
    (
        &["warning: ", "infiniband/core/", "ib_register_device"],
        K::ModuleMismatch,
    ),
    (&["missing mandatory ops"], K::ModuleMismatch),
    (&["module '", "' is unsupported"], K::ModuleUnsigned),
    // Virtual machines.
    (&["is not viable", "group"], K::AssignRefused),
    (&["ineligible for iommu domain attach"], K::AssignRefused),
    (&["failed to setup container for group"], K::AssignRefused),
    (&["failed to get group", "vfio"], K::AssignRefused),
    (&["no iommu group", "vfio"], K::AssignRefused),
    (&["no iommu_group found"], K::AssignRefused),
    (&["error opening /dev/vfio/"], K::AssignRefused),
    (&["unknown header type 7f"], K::PciFault),
    (&["rlimit_memlock (", "exceeded"], K::MemlockWarning),
    // Memory of the host, for which the kernel does not print a report.
    (&["svcrdma", "failed to allocate memory"], K::HostMemory),
    (&["give_pages", "err -12"], K::HostMemory),
    // SoftRoCE needs the module crc32, and a network device that is not a VLAN.
    (&["rdma_rxe: ", "crc", "err"], K::ModuleMissing),
    (&["rxe", "failed to allocate crc"], K::ModuleMissing),
    (
        &["rxe creation allowed on top of a real device"],
        K::SettingUnmatched,
    ),
    (&["rdma_rxe: ", "no route to"], K::ConnectUnreachable),
    (&["rdma_rxe: ", "not reachable"], K::ConnectUnreachable),
    // SoftRoCE cannot reach a page of the memory that it registers.
    (&["rdma_rxe: ", "null vaddr"], K::DriverWarned),
    (&["rdma_rxe: ", "unable to get virtual address"], K::DriverWarned),
    // SoftRoCE and soft iWARP have no memory but the host's.
    (&["rdma_rxe: ", "err -12"], K::HostMemory),
    (&["rdma_rxe: ", "cannot allocate memory"], K::HostMemory),
    (&["siw: ", "err -12"], K::HostMemory),
    (&["give fail -12"], K::HostMemory),
    // The directory is there if configfs is mounted and rdma_cm is loaded. In its place is a part of sysfs, where no one makes directories.
    (&["/sys/kernel/config/rdma_cm", "no such file"], K::ModuleMissing),
    (&["/sys/kernel/config/rdma_cm", "not permitted"], K::CmUnavailable),
    // The process opened the device with other privileges than those with which it uses it.
    (&["changed security contexts after opening"], K::NotPermitted),
    // Limits.
    (&["rdmacg", "-11"], K::ResourceLimit),
    (&["rdma msi-x vectors"], K::ResourceLimit),
    (&["no msi-x vectors reserved for rdma"], K::ResourceLimit),
    (&["assert_var"], K::DeviceFatal),
    (&["mlx5_cmd", "failed, status limits exceeded"], K::ResourceLimit),
    (&["mlx5_cmd", "failed, status no resources"], K::ResourceLimit),
    (&["mlx5_cmd", "failed, status internal error"], K::DeviceFatal),
    (&["2rtr_qp", "failed, status bad"], K::ConnectInvalid),
    (&["2rts_qp", "failed, status bad"], K::ConnectInvalid),
    (&["mlx5_cmd", "failed, status bad"], K::CommandRefused),
    (&["qplib: cmdq[", "status 0x"], K::CommandRefused),
    // mlx4 in MLNX_OFED: `command SET_PORT (0xc) failed: in_param=…, fw status = 0x40`.
    (&["fw status = 0x", "command "], K::CommandRefused),
    // mlx4 makes the special queue pairs of its virtual functions.
    (&["couldn't create special qp"], K::CommandRefused),
    // SoftRoCE and a user of its memory regions do not agree about a key.
    (&["rxe_invalidate_m", "rkey"], K::CommandRefused),
    // hfi1: the other end did not acknowledge a TID RDMA request of a queue pair.
    (&["hfi1_tid_timeout"], K::PeerUnreachable),
    (&["cmdq io error"], K::CommandRefused),
    (&["vhcr command", "failed with error"], K::CommandRefused),
    (&["fail to reset hca"], K::DeviceFatal),
    // irdma: `[Modify QP Cmd Error][op_code=12] status=-5 … maj=0xffff min=0x8008`.
    (&["][op_code=", "maj=0x"], K::CommandRefused),
    (&["cqp opcode", "maj_err_code"], K::CommandRefused),
    (&["cqp: [", "maj=0x"], K::CommandRefused),
    (&["completion_err=", "maj=0x"], K::CommandRefused),
    (&["invalid userspace driver version"], K::VersionMismatch),
    (&["mtu setting", "too low for rdma traffic"], K::MtuDiffers),
    // devlink repeats what mlx5 could not do.
    (&["failed setting eswitch"], K::CommandRefused),
    // Broadcom's firmware answers a command with a code: 4 is RESOURCE_ALLOC_ERROR (`bnxt_hsi.h`).
    (&["hwrm req_type", "error 0x4"], K::ResourceLimit),
    (&["hwrm req_type", "error 0x"], K::CommandRefused),
    (&["firmware status: 0x"], K::DeviceFatal),
    (&["fw_status_reg: 0x"], K::DeviceFatal),
    (&["fw_status: 0x"], K::DeviceFatal),
    (&["hwrm", "timeout"], K::DeviceStalled),
    (&["create_mkey", "limits exceeded"], K::ResourceLimit),
    (&["efa", "reg_mr", "err -12"], K::ResourceLimit),
    // Without the address of the adapter, as people shorten it.
    (&["mlx5_core tx timeout"], K::DeviceStalled),
    (&["mlx4_en tx timeout"], K::DeviceStalled),
    (&["didn't receive any msi-x interrupt"], K::DeviceStalled),
    (&["reading register timed out"], K::DeviceStalled),
    (&["efa", "init readless mmio"], K::AdapterNotStarted),
    (&["erdma", "init done failed"], K::AdapterNotStarted),
    (&["erdma", "request irq vectors failed"], K::AdapterNotStarted),
    (&["erdma_", "out of mr size"], K::ResourceLimit),
    (&["erdma_", "exceed cqe"], K::ResourceLimit),
    (&["erdma_", "return with error"], K::CommandRefused),
    (&["translating pkey", "failed"], K::PkeyMissing),
    // EINVAL: the group has another partition, rate or MTU than the port.
    (&["ib_sa_join_multicast failed", "status -22"], K::JoinRefused),
    (&["ib_sa_join_multicast failed"], K::NoSubnetManager),
    (&["multicast join failed", "status -22"], K::JoinRefused),
    (&["multicast join failed"], K::NoSubnetManager),
    (&["ipoib_mcast_join failed", "status -22"], K::JoinRefused),
    (&["ipoib_mcast_join failed"], K::NoSubnetManager),
    // A queue that the adapter, or a driver without one, put into the error state, in the words of each driver.
    (&["c4iw", "cq overflow"], K::CqError),
    (&["cq error on cqn"], K::CqError),
    (&["cq overrun on cqn"], K::CqError),
    (&["cq access violation on cqn"], K::CqError),
    (&["mlx5e_cq_error_event"], K::CqError),
    (&["moved to error state", "qp"], K::QueueError),
    // qedr and its provider.
    (&["wq is full"], K::QueueFull),
    (&["wq pbl is full"], K::QueueFull),
    (&["qp_async_event"], K::QueueError),
    (&["overflow", "cq", "hns"], K::CqError),
    (&["fatal error (", "mad qp"], K::QueueError),
    (&["local work queue catastrophic"], K::QueueFatal),
    // hns names the queue between the words: the adapter could not go on with it (`IB_EVENT_QP_FATAL`).
    (
        &["local work queue", "catas error"],
        K::Completion(WcStatus::FatalErr),
    ),
    (
        &["local work queue", "catast error"],
        K::Completion(WcStatus::FatalErr),
    ),
    (&["invalid request local work queue"], K::QueueError),
    (&["local access violation work queue"], K::QueueAccess),
    // The core of the kernel's RDMA stack cannot use a port: the driver refused its management queue pair.
    (&["couldn't create ib_mad"], K::CommandRefused),
    (&["infiniband", "couldn't start port"], K::CommandRefused),
    (&["infiniband", "couldn't open port"], K::CommandRefused),
    (&["opcode", "error bad_"], K::CommandRefused),
    // A GPU, in several lines or one.
    (&["fallen off the bus"], K::GpuStopped),
    (&["uncorrectable ecc error encountered"], K::GpuStopped),
    // cudaErrorSystemNotReady (802): the fabric manager does not run, or is of another version than the driver.
    (&["system not yet initialized"], K::GpuLinkError),
    (&["cuda_error_system_not_ready"], K::GpuLinkError),
    (&["cudaerrorsystemnotready"], K::GpuLinkError),
    (&["nv_err_fabric_state_out_of_sync"], K::GpuLinkError),
    // An address that got no entry in the GID table of a port; -28: the table is full.
    (&["unable to add gid", "error=-28"], K::ResourceLimit),
    (&["unable to add gid"], K::NoGid),
    (&["sgid_index", "too large. max is"], K::NoGid),
    (&["failed to add gid"], K::NoGid),
    // A client of the kernel says which option of the kernel it is missing: `CIFS: VFS: CONFIG_CIFS_SMB_DIRECT is not enabled`.
    (&["config_", "smb_direct is not enabled"], K::ModuleMissing),
    (&["config_", "smbdirect is not enabled"], K::ModuleMissing),
    (&["config_", "rdma is not enabled"], K::ModuleMissing),
    (&["config_infiniband", " is not enabled"], K::ModuleMissing),
    (&["neighbor table overflow"], K::NeighbourTableFull),
    (&["neighbour table overflow"], K::NeighbourTableFull),
    // A limit on locked memory.
    (&["no mlock permission"], K::RegMrNoMemory),
    (&["failed to lock addr", "pages"], K::RegMrNoMemory),
    (&["failed to pin", "pages"], K::RegMrNoMemory),
    (
        &["ib_register_peer_memory_client", "nknown symbol"],
        K::PeerMemorySymbol,
    ),
    (
        &["ib_register_peer_memory_client", "disagrees about"],
        K::PeerMemorySymbol,
    ),
    (&["nvidia_p2p_get_pages", "error"], K::PeerMemoryError),
    // Other modules pin memory of GPUs, too: gdrdrv.
    (&["nvidia_p2p_get_pages", "failed"], K::PeerMemoryError),
    // mlx5: the kernel found no pages behind the address, or may not lock them.
    (&["umem get failed", "-12"], K::RegMrNoMemory),
    (&["umem get failed"], K::RegMrFailed),
    (&["nvidia-peermem", "error"], K::PeerMemoryError),
    (&["nvidia_peermem", "error"], K::PeerMemoryError),
    (&["nv_peer_mem", "error"], K::PeerMemoryError),
    // A symbol has another version than the one for which the module was built, or a parameter of it is wrong.
    (&["could not insert", "invalid argument"], K::ModuleMismatch),
    (&["could not insert", "invalid parameters"], K::ModuleMismatch),
];
