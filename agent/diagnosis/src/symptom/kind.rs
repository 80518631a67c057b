//! The kinds of symptoms and their meanings.

use rdma_health_protocol::{Errno, WcStatus};
use serde::{Serialize, Serializer};

use super::completion;

/// How much a symptom says about the cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// Without consequence for this job or node.
    Note,
    /// Something failed, and shows nothing of RDMA: the line is not recognised, or RDMA did not fail.
    Unrecognised,
    /// A consequence of another failure.
    Secondary,
    /// Something works, but worse than it should.
    Degraded,
    /// Something failed.
    Failure,
}

impl Grade {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Unrecognised => "unrecognised",
            Self::Secondary => "secondary",
            Self::Degraded => "degraded",
            Self::Failure => "failure",
        }
    }
}

/// Generates the type, its ids, grades and meanings from one list.
macro_rules! kinds {
    ($($kind:ident: $grade:ident, $id:literal, $meaning:literal;)*) => {
        /// What went wrong, from a fixed vocabulary.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum SymptomKind {
            /// A completion failed with this status.
            Completion(WcStatus),
            $(#[doc = concat!("`", $id, "`")] $kind,)*
        }

        /// Every kind except completions.
        const OTHERS: &[SymptomKind] = &[$(SymptomKind::$kind,)*];

        impl SymptomKind {
            /// Its id: `IBV_WC_LOC_PROT_ERR`, `reg-mr-no-memory`.
            pub fn id(self) -> &'static str {
                match self {
                    Self::Completion(status) => status.name(),
                    $(Self::$kind => $id,)*
                }
            }

            /// What it means, as part of a sentence or as one.
            pub fn meaning(self) -> &'static str {
                match self {
                    Self::Completion(status) => completion::meaning(status),
                    $(Self::$kind => $meaning,)*
                }
            }

            /// How much it says about the cause.
            pub fn grade(self) -> Grade {
                match self {
                    // Flushed because of an earlier failure.
                    Self::Completion(WcStatus::WrFlushErr) => Grade::Secondary,
                    Self::Completion(_) => Grade::Failure,
                    $(Self::$kind => Grade::$grade,)*
                }
            }
        }
    };
}

kinds! {
    RegMrNoMemory: Failure, "reg-mr-no-memory", "memory could not be registered: Cannot allocate memory (ENOMEM)";
    MapNoMemory: Failure, "map-no-memory", "VFIO could not lock and map memory for a PCI function: Cannot allocate memory (ENOMEM)";
    RegMrFailed: Failure, "reg-mr-failed", "memory could not be registered";
    CommandRefused: Failure, "command-refused", "the adapter's firmware refused a command of its driver";
    ResourceLimit: Failure, "resource-limit", "a limit of the adapter, of its firmware or of a cgroup is reached";
    CreateFailed: Failure, "create-failed", "a queue pair or completion queue could not be created";
    CreateRefused: Failure, "create-refused", "a queue pair or completion queue with these attributes is not supported by device, driver or library";
    CreateUnexplained: Failure, "create-unexplained",
        "a queue pair or completion queue could not be created, and the log does not show the error number";
    NoMemory: Failure, "no-memory", "an RDMA operation failed: Cannot allocate memory (ENOMEM)";
    NotPermitted: Failure, "not-permitted", "an RDMA operation is not permitted (EPERM, EACCES)";
    NoVirtualNetwork: Failure, "virtual-network-missing", "the job has no virtual network (VNI) of the Slingshot fabric, or not the one that it uses";
    ConnectInvalid: Failure, "connect-invalid", "a queue pair could not be connected: Invalid argument (EINVAL)";
    ConnectNoData: Failure, "connect-no-data", "a queue pair could not be connected: No data available (ENODATA)";
    ConnectUnreachable: Failure, "connect-unreachable",
        "a queue pair could not be connected: the peer's address is unreachable (ENETUNREACH, EHOSTUNREACH)";
    InitRefused: Failure, "init-refused",
        "a queue pair could not be moved from RESET to INIT (EINVAL): partition key, port or access flags are not valid";
    RtsRefused: Failure, "rts-refused",
        "a queue pair could not be moved from RTR to RTS (EINVAL): timeout, retries or number of reads are not valid";
    ConnectTimedOut: Failure, "connect-timed-out", "a queue pair could not be connected: Connection timed out (ETIMEDOUT)";
    ConnectNoDevice: Failure, "connect-no-device",
        "a queue pair could not be connected: No such device (ENODEV): the network device of the GID is not in the network namespace of the process";
    ConnectRefused: Failure, "connect-refused", "the peer rejected or reset the connection";
    NoListener: Failure, "no-listener-answered", "no program listens at the address and port of the peer";
    CmFailed: Failure, "cm-connect-failed", "rdma_cm could not establish a connection";
    ConnectIncompatible: Failure, "connect-incompatible", "the two ends of a connection use different link layers (InfiniBand and RoCE) or GID types";
    AddressUnresolved: Failure, "address-unresolved", "rdma_cm found no RDMA device for an IP address";
    AddressInUse: Failure, "address-in-use", "the local address and port are already bound (EADDRINUSE)";
    RouteUnresolved: Failure, "route-unresolved", "rdma_cm found no route to the peer";
    CmUnavailable: Failure, "cm-unavailable", "/dev/infiniband/rdma_cm cannot be used, which rdma_cm needs";
    PeerUnreachable: Failure, "peer-unreachable", "the peer did not respond";
    PeerClosed: Secondary, "peer-closed", "the peer closed the connection or ended";
    ExchangeFailed: Failure, "exchange-failed", "the two ends could not exchange their addresses over TCP";
    ConnectFailed: Failure, "connect-failed", "a queue pair could not be connected";
    NoGid: Failure, "no-gid", "a port has no usable GID";
    GidUnusable: Failure, "gid-unusable", "the GID at the index that the job was configured to use cannot be used";
    InterfaceHidden: Degraded, "interface-not-visible",
        "the network device of an RDMA port, or its address, is not visible where the program runs";
    ModuleInUse: Failure, "module-in-use", "a kernel module of the RDMA stack could not be unloaded, because it is in use";
    PortUnauthorised: Failure, "port-unauthorised", "the switch did not admit the port: its 802.1X authentication failed";
    DeviceAbsent: Failure, "device-absent", "an RDMA device or its file is not there (ENODEV, ENXIO, ENOENT)";
    ModuleMissing: Failure, "module-missing", "a kernel module of RDMA is not loaded";
    ModuleMismatch: Failure, "module-mismatch", "a kernel module was built for other RDMA modules than those that are loaded";
    DriverNotBuilt: Failure, "driver-not-built", "the driver package could not be built or installed for the kernel of the node";
    DriverNotReady: Secondary, "driver-not-ready", "the container that installs the driver is not ready";
    VersionMismatch: Failure, "version-mismatch", "the RDMA library and the driver of the kernel do not match";
    UnsupportedAdapter: Failure, "adapter-unsupported", "the program does not support this kind of adapter";
    ForkUnsafe: Failure, "fork-unsafe", "the program calls fork() while it has registered memory, and is not set up for it";
    TooManyFiles: Failure, "too-many-files", "the process has too many open files (EMFILE, ENFILE)";
    PciFault: Failure, "pci-error", "an uncorrectable PCIe error";
    AdapterHot: Failure, "adapter-too-hot", "the adapter is too hot";
    ModuleFault: Failure, "module-fault", "the cable or transceiver of a port is faulty";
    PauseStorm: Degraded, "pause-storm-reported", "an adapter reports that pause frames stopped a port for long";
    AdapterNotStarted: Failure, "adapter-start-failed", "the driver could not start an adapter";
    SlotPower: Degraded, "slot-power-low", "the PCIe slot offers less power than the adapter may draw";
    DeviceStalled: Failure, "adapter-stuck", "the adapter does not process commands or packets in time";
    QueueError: Failure, "queue-error", "the adapter put a queue pair or completion queue into the error state";
    QueueFatal: Failure, "queue-fatal",
        "the adapter could not go on with a queue pair: an error of its own or in the request (IBV_EVENT_QP_FATAL)";
    QueueFull: Secondary, "queue-full", "the program posted more requests than its queue has room for, often because the peer does not answer";
    CqError: Failure, "cq-error", "the adapter could not write to a completion queue: it is full, or its memory cannot be reached";
    PostRefused: Failure, "post-refused", "the library refused a work request before it was sent: Invalid argument (EINVAL, EFAULT)";
    QueueAccess: Failure, "queue-access-error", "the adapter refused a memory access of a queue pair";
    PortNotActive: Failure, "port-not-active", "the port that the job selected is not active";
    LinkTypeOther: Failure, "link-type-other", "a port has the other link type than the one that the program works with: InfiniBand or Ethernet";
    PortInitializing: Failure, "port-initializing", "the port that the job selected waits for the subnet manager";
    NoSubnetManager: Failure, "subnet-manager-silent", "the subnet manager did not answer";
    GidChanged: Degraded, "gid-changed", "the GID table or the address of a port changed while the job ran";
    MtuDiffers: Degraded, "mtu-differs", "the MTU that the program requested differs from the port's";
    DeviceGone: Failure, "device-gone", "an RDMA device disappeared or stopped working (ENODEV, EIO)";
    OpenFailed: Failure, "open-failed", "an RDMA device could not be opened";
    NoDevice: Failure, "no-device", "the job found no usable RDMA device";
    NoLibrary: Failure, "no-library", "the job did not find libibverbs";
    NoProvider: Degraded, "no-provider", "libibverbs could not load the provider of a device";
    NoSocketInterface: Failure, "no-socket-interface", "the job found no network interface for its bootstrap connection";
    SettingUnmatched: Failure, "setting-unmatched", "a setting of the job names a device or transport that does not exist where it runs, or has a value that is not valid";
    AdmissionRefused: Failure, "admission-refused", "Kubernetes or OpenShift refused the pod, because its policy forbids what the pod requests";
    ResourceUnavailable: Failure, "resource-unavailable", "the RDMA resource that the pod requests is not available on a node";
    NetworkAttachFailed: Failure, "network-attach-failed", "the secondary network of a pod could not be attached";
    FunctionUnconfigured: Failure, "function-unconfigured", "a virtual function could not be created, or not be configured for a pod or a virtual machine";
    GpuDoorbellFailed: Failure, "gpu-doorbell-failed", "the adapter's doorbells could not be mapped for GPU-initiated communication (IBGDA)";
    GpuStopped: Failure, "gpu-stopped", "the kernel log shows that a GPU failed and must be reset";
    GpuNotStarted: Degraded, "gpu-not-started", "the driver of a GPU did not start it";
    GpuLinkError: Degraded, "gpu-link-error-logged", "the kernel log shows an error of a connection between GPUs (NVLink, xGMI)";
    GpuError: Secondary, "gpu-error-logged", "the kernel log shows an error of a GPU that most often an application causes";
    PeerMemoryError: Failure, "peer-memory-error", "the peer-memory module reported an error";
    RdmaDisabled: Degraded, "rdma-disabled", "RDMA is disabled in the job's settings";
    SocketFallback: Degraded, "socket-fallback", "the job uses TCP instead of RDMA";
    GdrDisabled: Degraded, "gdr-disabled", "GPU memory is copied through host memory: no path between GPU and NIC";
    AcsRedirected: Degraded, "acs-redirect-reported", "the kernel reports that a bridge sends the traffic between two PCI functions through the root complex";
    GdrTooFar: Degraded, "gdr-too-far", "GPU memory is copied through host memory: GPU and NIC are too distant from each other";
    PeerMemorySymbol: Failure, "peer-memory-symbol", "the peer-memory module cannot load: symbol ib_register_peer_memory_client is missing";
    MemlockWarning: Degraded, "memlock-warning", "a program warns of a low memory-lock limit, or a container runtime may not raise it";
    IommuFault: Failure, "iommu-fault", "the IOMMU blocked a DMA transfer";
    PortError: Failure, "port-error", "a port went down while the job ran";
    DeviceFatal: Failure, "device-fatal", "the adapter reported a fatal error";
    ProbeTimedOut: Failure, "probe-timed-out", "the loopback probe timed out";
    Corrupted: Failure, "corrupted", "the received bytes differ from the bytes sent";
    ProbeFailed: Failure, "probe-error", "the loopback probe failed";
    BandwidthLow: Degraded, "bandwidth-low", "RDMA works, but its bandwidth is lower than it should be";
    LatencyHigh: Degraded, "latency-high", "RDMA works, but its latency is higher than it should be";
    RankFailed: Failure, "rank-failed", "a process of the job ended by itself or was killed: out of memory, a crash or a signal";
    JoinRefused: Failure, "multicast-join-refused",
        "the subnet manager refused to let a port of IP over InfiniBand join its multicast group";
    NeighbourTableFull: Degraded, "neighbour-table-full", "the kernel's neighbour table has no room for the MAC address of another peer";
    DefaultSubnetPrefix: Note, "default-subnet-prefix",
        "several ports have the default subnet prefix fe80::/64, so that a program takes their fabrics for one";
    BondMemberDown: Degraded, "bond-member-down", "a member of a bond (RoCE LAG) lost its link";
    DriverCrashed: Failure, "driver-crashed", "the kernel crashed in a module of the RDMA stack";
    DriverWarned: Degraded, "driver-warned", "a check of the kernel failed in a module of the RDMA stack, which goes on";
    BackendMissing: Failure, "backend-missing",
        "the library that the job communicates with, its plugin or its GPU support is missing, too old or does not load";
    ToolNoAccess: Degraded, "tool-no-access", "a tool for the adapter's firmware has no access to the adapter";
    FirmwareRefused: Degraded, "firmware-refused", "a tool for the adapter's firmware refused an image or a setting, or could not write it";
    PkeyMissing: Failure, "pkey-missing", "a port does not have the partition key that the program uses";
    PassthroughMissing: Degraded, "passthrough-missing", "the library finds no iommu=pt on the kernel command line";
    GuidDuplicated: Failure, "guid-duplicated", "two devices of the InfiniBand fabric have the same GUID";
    GuidZero: Degraded, "guid-zero", "a device has a GUID of zeros";
    SettingAdvised: Degraded, "setting-advised", "a program works badly or not safely with its settings, and the message names what to set";
    LinkDegraded: Degraded, "link-degraded", "a link of the fabric runs below its speed or width, or counts errors";
    ManagerNotStarted: Failure, "subnet-manager-not-started", "a subnet manager could not start on its port";
    LibraryMismatch: Failure, "library-mismatch", "libraries of rdma-core are of different releases";
    DmaBufUnsupported: Failure, "dma-buf-unsupported", "GPU memory cannot be exported as DMA-BUF, or the library was built without it";
    BackendFailed: Failure, "backend-failed", "the library that the job communicates with failed, and the line does not say why";
    SharpUnavailable: Degraded, "sharp-unavailable", "the switches do not take part in collective operations (SHARP): the job goes on without";
    ComputeError: Note, "compute-error", "an error of CUDA or ROCm, or of how the job uses its GPUs, not of RDMA";
    SharedMemory: Note, "shared-memory-error", "an error of shared memory within the node (/dev/shm), not of RDMA";
    TcpError: Note, "tcp-error", "an error of a connection over TCP, not of RDMA";
    GlooError: Note, "gloo-error",
        "an error of Gloo, which connects over TCP and not over RDMA: GLOO_SOCKET_IFNAME selects the interface that it uses";
    HostMemory: Failure, "host-memory-short", "the kernel had no memory left for the RDMA stack or for what uses it";
    ModuleUnsigned: Failure, "module-unsigned", "the kernel refused a module because of its signature";
    FirmwareMissing: Failure, "firmware-file-missing", "the driver of an adapter did not find a firmware file";
    FirmwareMismatch: Failure, "firmware-mismatch", "the driver and the firmware of an adapter do not fit together";
    PciRoom: Failure, "pci-room-missing", "a PCI function got no address range or bus number";
    PciLimited: Degraded, "pci-link-limited", "the PCIe link of the adapter runs at a third of its capability or less";
    AssignRefused: Failure, "assignment-refused", "a PCI function could not be given to a virtual machine";
    StorageRefused: Failure, "storage-refused", "the storage target refused this host, or does not have what it asked for";
    OptionsRefused: Failure, "connect-options-refused", "the kernel did not accept the options of a connection to an NVMe target";
    PeerDiffers: Failure, "peer-settings-differ", "the two ends of a connection are configured differently";
    JobFailed: Secondary, "job-failed", "the job gave up";
    Unrecognised: Unrecognised, "unrecognised", "it looks like an RDMA failure that rdma-health does not know";
    CollectiveTimeout: Secondary, "collective-timeout", "a collective operation timed out";
}

impl SymptomKind {
    /// Every kind.
    pub fn all() -> impl Iterator<Item = Self> {
        let completions = WcStatus::ALL.iter().map(|status| Self::Completion(*status));
        completions.chain(OTHERS.iter().copied())
    }

    /// The kind with this id; for a completion, its short name or number is accepted too.
    pub fn named(id: &str) -> Option<Self> {
        let name = id.to_ascii_uppercase();
        // The kernel's name.
        let status = WcStatus::named(name.strip_prefix("IB_WC_").unwrap_or(&name));
        let status = status.or_else(|| WcStatus::of(id.parse::<u64>().ok()?));
        let other = || OTHERS.iter().copied().find(|kind| kind.id() == id);
        status.map(Self::Completion).or_else(other)
    }

    /// Whether a faulty adapter or link can be behind it. What a job sets, finds installed or has permission for cannot.
    pub(crate) fn may_come_from_device(self) -> bool {
        !matches!(
            self,
            Self::NoLibrary
                | Self::MapNoMemory
                | Self::NoProvider
                | Self::NoSocketInterface
                | Self::RdmaDisabled
                | Self::GdrDisabled
                | Self::GdrTooFar
                | Self::PeerMemorySymbol
                | Self::MemlockWarning
                | Self::ModuleMismatch
                | Self::ModuleInUse
                | Self::DriverNotBuilt
                | Self::DriverNotReady
                | Self::ForkUnsafe
                | Self::PortUnauthorised
                | Self::NoVirtualNetwork
                | Self::InterfaceHidden
                | Self::GidUnusable
                | Self::VersionMismatch
                | Self::UnsupportedAdapter
                | Self::TooManyFiles
                | Self::NoListener
                | Self::ResourceUnavailable
                | Self::AdmissionRefused
                | Self::JoinRefused
                | Self::PkeyMissing
                | Self::GuidDuplicated
                | Self::ManagerNotStarted
                | Self::LibraryMismatch
                | Self::DmaBufUnsupported
                | Self::DefaultSubnetPrefix
                | Self::GuidZero
                | Self::SettingAdvised
                | Self::BackendMissing
                | Self::SharpUnavailable
                | Self::ToolNoAccess
                | Self::FirmwareRefused
                | Self::HostMemory
                | Self::ModuleUnsigned
                | Self::FirmwareMissing
                | Self::PciRoom
                | Self::AssignRefused
                | Self::StorageRefused
                | Self::OptionsRefused
                | Self::PeerDiffers
                | Self::ComputeError
                | Self::SharedMemory
                | Self::TcpError
                | Self::GlooError
                | Self::Unrecognised
        )
    }

    /// Whether it is an error of something else than RDMA, which a program that uses RDMA reports.
    pub fn is_of_other(self) -> bool {
        matches!(
            self,
            Self::ComputeError | Self::SharedMemory | Self::TcpError | Self::GlooError
        )
    }

    /// The kind for an error number of a failed connection attempt.
    pub(crate) fn of_connect(errno: Errno) -> Self {
        match errno {
            Errno::EINVAL => Self::ConnectInvalid,
            Errno::ENODATA => Self::ConnectNoData,
            Errno::ENETDOWN | Errno::ENETUNREACH | Errno::EHOSTUNREACH => Self::ConnectUnreachable,
            Errno::ETIMEDOUT => Self::ConnectTimedOut,
            Errno::ENODEV => Self::ConnectNoDevice,
            Errno::ECONNREFUSED | Errno::ECONNRESET | Errno::ECONNABORTED | Errno::EPIPE => {
                Self::ConnectRefused
            }
            Errno::EMFILE | Errno::ENFILE => Self::TooManyFiles,
            Errno::EPERM | Errno::EACCES => Self::NotPermitted,
            Errno::EADDRINUSE => Self::AddressInUse,
            Errno::EADDRNOTAVAIL => Self::AddressUnresolved,
            Errno::EIO => Self::DeviceGone,
            _ => Self::ConnectFailed,
        }
    }

    /// Whether a queue pair could not be connected, for a reason that the GID of an end may be.
    pub(crate) fn is_of_connecting(self) -> bool {
        matches!(
            self,
            Self::ConnectFailed | Self::ConnectInvalid | Self::ConnectNoData | Self::ConnectTimedOut
        )
    }

    /// The kind for an error number of a call or of an unknown program's line about RDMA. EIO alone does not show a fault of the
    /// device: UCX and others return it for anything.
    pub(crate) fn of_call(errno: Errno) -> Self {
        match errno {
            Errno::ENOMEM => Self::NoMemory,
            Errno::EMFILE | Errno::ENFILE => Self::TooManyFiles,
            Errno::EPERM | Errno::EACCES => Self::NotPermitted,
            Errno::ENODEV | Errno::ENXIO | Errno::ENOENT => Self::DeviceAbsent,
            Errno::ETIMEDOUT | Errno::ETIME => Self::PeerUnreachable,
            Errno::ENETDOWN | Errno::ENETUNREACH | Errno::EHOSTUNREACH => Self::ConnectUnreachable,
            Errno::ECONNREFUSED | Errno::ECONNRESET | Errno::ECONNABORTED | Errno::EPIPE => {
                Self::ConnectRefused
            }
            Errno::EADDRINUSE => Self::AddressInUse,
            Errno::EADDRNOTAVAIL => Self::AddressUnresolved,
            Errno::EFAULT => Self::RegMrFailed,
            _ => Self::Unrecognised,
        }
    }
}

impl std::fmt::Display for SymptomKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Completion(status) => write!(f, "{}({})", self.id(), status.number()),
            other => f.write_str(other.id()),
        }
    }
}

impl Serialize for SymptomKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kind_has_a_unique_id_and_a_meaning() {
        let kinds: Vec<_> = SymptomKind::all().collect();
        let ids: BTreeSet<_> = kinds.iter().map(|kind| kind.id()).collect();
        assert_eq!(ids.len(), kinds.len());
        for kind in kinds {
            assert_eq!(SymptomKind::named(kind.id()), Some(kind));
            assert!(!kind.meaning().is_empty(), "{kind}");
        }
        assert_eq!(
            SymptomKind::named("loc_prot_err"),
            Some(SymptomKind::Completion(WcStatus::LocProtErr))
        );
        assert_eq!(
            SymptomKind::named("12"),
            Some(SymptomKind::Completion(WcStatus::RetryExcErr))
        );
        assert_eq!(SymptomKind::named("0"), None);
    }
}
