//! The job itself: its limits and permissions, its devices, its settings.

use rdma_health_rules::{
    FindingCase,
    domain::{access, adapter_events, limits, objects, reading},
};

use super::{
    LOC_ACCESS, LOC_LEN, LOC_PROT, LOC_QP_OP, MW_BIND, REM_ACCESS, REM_INV_REQ, REM_OP, RNR_RETRY_EXC,
    WR_FLUSH,
};
use crate::symptom::SymptomKind::{
    AdmissionRefused, BackendFailed, BackendMissing, CmFailed, CmUnavailable, CollectiveTimeout,
    ConnectIncompatible, ConnectNoDevice, ConnectRefused, ConnectTimedOut, CqError, CreateFailed,
    CreateRefused, CreateUnexplained, DeviceAbsent, ExchangeFailed, ForkUnsafe, GpuDoorbellFailed,
    InitRefused, JobFailed, LibraryMismatch, MapNoMemory, MemlockWarning, NetworkAttachFailed, NoDevice,
    NoLibrary, NoListener, NoMemory, NoProvider, NoSocketInterface, NotPermitted, OpenFailed, PeerClosed,
    PeerMemoryError, PeerUnreachable, PortInitializing, PortNotActive, PostRefused, QueueAccess, QueueError,
    QueueFatal, QueueFull, RankFailed, RdmaDisabled, RegMrFailed, RegMrNoMemory, ResourceLimit,
    ResourceUnavailable, RtsRefused, SettingAdvised, SettingUnmatched, SocketFallback, TooManyFiles,
    UnsupportedAdapter, VersionMismatch,
};
use crate::{known::KnownCause, weigh};

pub(super) static MEMLOCK_LIMIT: KnownCause = KnownCause {
    id: "memlock-limit",
    title: "The memlock limit of a process, or of what starts it, is too low",
    explanation: "Registered memory is locked memory. Beyond RLIMIT_MEMLOCK, and without the capability IPC_LOCK, \
    registering memory and creating queues fail with ENOMEM. A pod inherits the limit of the container runtime.",
    next_step: "Run ulimit -l where the job runs, started the same way. If it is not unlimited: with Kubernetes, raise LimitMEMLOCK of the \
    container runtime or add the capability IPC_LOCK to the pod; with Slurm or without a scheduler, write '* - memlock unlimited' to a file in \
    /etc/security/limits.d and set LimitMEMLOCK=infinity for slurmd or the service.",
    rules: &[&limits::MEMLOCK_LOW],
    cases: &[],
    often: &[RegMrNoMemory, MapNoMemory, CreateFailed, MemlockWarning, NoMemory],
    sometimes: &[RegMrFailed, CreateUnexplained],
    weigh: weigh::memlock,
};

pub(super) static DEVICE_NOT_GIVEN: KnownCause = KnownCause {
    id: "device-not-given",
    title: "The RDMA devices of the node are not available where the job runs",
    explanation: "A container has only the devices that its pod requests. Without an RDMA resource in the pod, or without \
    /dev/infiniband, NCCL finds no device and uses TCP.",
    next_step: "Where the job runs, run ls /dev/infiniband and ibv_devinfo. With Kubernetes, add the RDMA resource to the pod's limits (env | grep \
    PCIDEVICE shows what a pod got); another container needs /dev/infiniband in it (docker run --device); without containers, check that the \
    modules are loaded and the adapter supports RDMA: lspci, lsmod | grep ib_uverbs.",
    rules: &[],
    cases: &[],
    often: &[
        NoDevice,
        SocketFallback,
        OpenFailed,
        DeviceAbsent,
        ResourceUnavailable,
    ],
    sometimes: &[CmUnavailable, ConnectNoDevice, PortNotActive],
    weigh: weigh::device_not_given,
};

pub(super) static JOB_SETTINGS: KnownCause = KnownCause {
    id: "job-settings",
    title: "The job's own settings disable RDMA or do not fit the devices",
    explanation: "NCCL_IB_DISABLE, NCCL_IB_HCA, NCCL_SOCKET_IFNAME and NCCL_NET select what NCCL uses. If they name a device \
    that does not exist on the node, NCCL finds none.",
    next_step: "Run the job with NCCL_DEBUG=INFO and compare NCCL_IB_HCA and NCCL_SOCKET_IFNAME with the names on this node.",
    rules: &[],
    cases: &[],
    often: &[
        RdmaDisabled,
        InitRefused,
        RtsRefused,
        NoSocketInterface,
        SettingUnmatched,
        SettingAdvised,
        ConnectIncompatible,
        ForkUnsafe,
    ],
    sometimes: &[
        UnsupportedAdapter,
        NoDevice,
        SocketFallback,
        ConnectNoDevice,
        PortNotActive,
        BackendFailed,
        BackendMissing,
    ],
    weigh: weigh::settings,
};

pub(super) static USERSPACE_LIBRARIES: KnownCause = KnownCause {
    id: "userspace-libraries",
    title: "libibverbs or the adapter's provider is missing or does not fit where the job or the verbs helper runs",
    explanation: "The kernel modules are not enough: the container image also needs libibverbs and the adapter's provider \
    (rdma-core), in a version that supports the kernel.",
    next_step: "Install rdma-core (on Debian and Ubuntu libibverbs1 and ibverbs-providers) where the job or the verbs helper \
    runs, and run ibv_devinfo there.",
    rules: &[&reading::HELPER_UNHEALTHY],
    cases: &[FindingCase::LibraryNotLoaded],
    often: &[NoLibrary, NoProvider, LibraryMismatch, VersionMismatch],
    sometimes: &[
        BackendFailed,
        NoDevice,
        SocketFallback,
        OpenFailed,
        CreateRefused,
        CreateUnexplained,
        UnsupportedAdapter,
    ],
    weigh: weigh::userspace,
};

pub(super) static COMMUNICATION_LIBRARY: KnownCause = KnownCause {
    id: "communication-library",
    title: "The job's communication library, a plugin of it or its GPU support does not load",
    explanation: "The program found no usable copy of the library (NCCL's network plugin, UCX, libfabric, NVSHMEM, NIXL): it is not installed, \
    was built for a newer C library or another version of a library that it needs, or has no support for the GPUs. The program then stops, \
    or goes on with a slower transport.",
    next_step: "In the job's image, run ldd on the library that the message names: it shows what is missing or too old. Install the version \
    that was built for this image (GLIBC: ldd --version) and check LD_LIBRARY_PATH for a second copy.",
    rules: &[],
    cases: &[],
    often: &[BackendMissing, BackendFailed],
    // A library that calls a port inactive which is ACTIVE.
    sometimes: &[PortNotActive, PortInitializing],
    weigh: weigh::backend,
};

pub(super) static DEVICE_PERMISSION: KnownCause = KnownCause {
    id: "device-permission",
    title: "The process is not permitted to open the RDMA device",
    explanation: "/dev/infiniband/uverbs* must exist, be readable and writable, and be in the container's device list.",
    next_step: "Where the job runs, compare ls -lZ /dev/infiniband with the program's user and groups (id): it needs to read and write uverbs* and rdma_cm. If \
    the modes allow it, SELinux or AppArmor refuse it: ausearch -m avc -ts recent, dmesg | grep -i denied. In a pod, request the RDMA resource \
    instead of mounting the directory.",
    rules: &[&access::ACCESS_DENIED],
    cases: &[],
    often: &[OpenFailed, NotPermitted],
    sometimes: &[GpuDoorbellFailed, CmUnavailable],
    weigh: weigh::permission,
};

pub(super) static HCA_RESOURCES: KnownCause = KnownCause {
    id: "hca-resources",
    title: "The adapter or a cgroup is out of memory regions or queues",
    explanation: "An adapter supports a limited number of memory keys, queues and pages, and a cgroup can set a lower limit \
    (rdma.max). Beyond it, registration fails with ENOMEM even if the memlock limit is high.",
    next_step: "Run rdma resource show, and check rdma.max of the job's cgroup and the kernel log for 'limits exceeded'.",
    rules: &[
        &adapter_events::ADAPTER_NOT_STARTED,
        &adapter_events::DRIVER_ERRORS,
        &objects::REGISTRATION_LIMIT,
    ],
    cases: &[FindingCase::RegistrationRefused, FindingCase::WithoutResources],
    often: &[ResourceLimit],
    sometimes: &[
        RegMrNoMemory,
        RegMrFailed,
        OpenFailed,
        CreateFailed,
        CreateUnexplained,
        CreateRefused,
        NoMemory,
        QueueFull,
    ],
    weigh: weigh::resources,
};

pub(super) static APPLICATION_MEMORY: KnownCause = KnownCause {
    id: "application-memory",
    title: "The application uses memory that is not registered, or not for this access",
    explanation: "The buffer was freed or is longer than its registration, the lkey or rkey is stale, or an access flag is \
    missing. The adapter is right to reject the access.",
    next_step: "Run ib_write_bw over the same devices on this node, and with GPUs nccl-tests. If they pass, the fault is in the \
    application or its library: check the buffer of the failing operation.",
    rules: &[],
    cases: &[],
    often: &[
        LOC_QP_OP,
        LOC_LEN,
        LOC_ACCESS,
        REM_INV_REQ,
        REM_ACCESS,
        PostRefused,
        QueueAccess,
        MW_BIND,
    ],
    sometimes: &[
        LOC_PROT,
        REM_OP,
        RegMrFailed,
        QueueError,
        QueueFatal,
        CqError,
        PeerMemoryError,
        QueueFull,
    ],
    weigh: weigh::application,
};

pub(super) static ADMISSION_POLICY: KnownCause = KnownCause {
    id: "admission-policy",
    title: "The cluster's policy refuses what the pod needs for RDMA",
    explanation: "RDMA in a pod usually needs the capability IPC_LOCK, or an unlimited memlock limit of the container runtime. PodSecurity \
    level restricted and the default SecurityContextConstraints (SCC) of OpenShift forbid added capabilities and host paths.",
    next_step: "Drop from the pod what the message refuses and RDMA does not need: hostNetwork, privileged and host paths (request the RDMA resource of \
    the device plugin in place of mounting /dev/infiniband). Allow what is left, most often the capability IPC_LOCK: on OpenShift, bind the pod's service account to an SCC with \
    allowedCapabilities: [IPC_LOCK]; with PodSecurity, label the namespace pod-security.kubernetes.io/enforce=privileged; \
    with Kyverno or Gatekeeper, exempt the namespace from the policy that the message names.",
    rules: &[],
    cases: &[],
    often: &[AdmissionRefused],
    sometimes: &[],
    weigh: weigh::admission,
};

pub(super) static POD_NETWORK: KnownCause = KnownCause {
    id: "pod-network",
    title: "The pod's RDMA network cannot be attached",
    explanation: "Multus calls a plugin (SR-IOV, host-device, rdma) that moves a network device, and in exclusive mode the RDMA device, into the \
    pod. It fails if the device is in use, if the RDMA subsystem is in the wrong namespace mode, or if no address is left.",
    next_step: "Read the plugin's message: for RDMA isolation the node needs rdma system set netns exclusive before any device is in use; for \
    IPAM check the range of the NetworkAttachmentDefinition; compare the resource name of the network with the node's allocatable \
    resources: kubectl describe node NODE.",
    rules: &[],
    cases: &[],
    often: &[NetworkAttachFailed],
    sometimes: &[],
    weigh: weigh::pod_network,
};

pub(super) static GPU_INITIATED: KnownCause = KnownCause {
    id: "gpu-initiated-setup",
    title: "The node is not set up for GPU-initiated RDMA (IBGDA)",
    explanation: "NVSHMEM with IBGDA, which DeepEP uses, maps the doorbells of the adapter into the GPU. The NVIDIA driver permits it only with \
    PeerMappingOverride=1, and DEVX needs the privileges of the container.",
    next_step: "Set options nvidia NVreg_EnableStreamMemOPs=1 NVreg_RegistryDwords=\"PeerMappingOverride=1;\" in /etc/modprobe.d and reload the \
    driver, or use the CPU-assisted handler: NVSHMEM_IBGDA_NIC_HANDLER=cpu. In a pod, check that it is privileged or has the RDMA \
    devices and the capability IPC_LOCK.",
    rules: &[],
    cases: &[],
    often: &[GpuDoorbellFailed],
    sometimes: &[],
    weigh: weigh::gpu_initiated,
};

pub(super) static NO_LISTENER: KnownCause = KnownCause {
    id: "no-listener",
    title: "No program listens where the job connects to",
    explanation: "The peer answered that no program accepts connections at this address and port (service ID): the server is not running, \
    listens on another address or port, or a firewall rejects the TCP port over which the two ends exchange their addresses.",
    next_step: "On the peer, check that the server runs and on which address and port it listens: rdma resource show cm_id for \
    rdma_cm, ss -ltn for TCP. Then compare them with those in the log.",
    rules: &[],
    cases: &[],
    often: &[NoListener, ExchangeFailed],
    sometimes: &[CmFailed, ConnectRefused],
    weigh: weigh::no_listener,
};

pub(super) static UNSUPPORTED_ADAPTER: KnownCause = KnownCause {
    id: "unsupported-adapter",
    title: "The program does not support this adapter",
    explanation: "Some software works with the adapters of one vendor only: IBGDA and UCX's accelerated transports with those of NVIDIA \
    (mlx5), the EFA protocols with those of AWS.",
    next_step: "Select a transport that works with this adapter, such as NVSHMEM_REMOTE_TRANSPORT=ibrc instead of IBGDA, or use nodes with \
    the adapter that the program requires. ibv_devinfo shows the vendor.",
    rules: &[],
    cases: &[],
    often: &[UnsupportedAdapter],
    sometimes: &[CreateRefused, CreateUnexplained, InitRefused],
    weigh: weigh::unsupported,
};

pub(super) static OPEN_FILES: KnownCause = KnownCause {
    id: "open-files-limit",
    title: "The process has too many open files",
    explanation: "Each device context, completion channel and connection needs a file descriptor. Beyond RLIMIT_NOFILE, opening or \
    creating one fails with EMFILE.",
    next_step: "Where the job runs, compare ulimit -n with the number of open files (ls /proc/PID/fd | wc -l). Raise LimitNOFILE of its \
    service or of the container runtime, or find what the program does not close.",
    rules: &[],
    cases: &[],
    often: &[TooManyFiles],
    sometimes: &[],
    weigh: weigh::logged,
};

pub(super) static PEER_FAILED: KnownCause = KnownCause {
    id: "peer-failed",
    title: "The peer (another rank, the server or the target) failed or ended first",
    explanation: "When one end of a connection ends, the other sees flushed requests, missing receive buffers or remote errors.",
    next_step: "Find the earliest error in the logs of all ranks, and run rdma-health check on the node that logged it.",
    rules: &[],
    cases: &[],
    often: &[
        WR_FLUSH,
        RankFailed,
        RNR_RETRY_EXC,
        REM_OP,
        JobFailed,
        ConnectRefused,
        PeerClosed,
        CmFailed,
        QueueError,
    ],
    sometimes: &[
        NoListener,
        QueueFull,
        ExchangeFailed,
        QueueAccess,
        REM_ACCESS,
        CollectiveTimeout,
        ConnectTimedOut,
        PeerUnreachable,
    ],
    weigh: weigh::peer_failed,
};
