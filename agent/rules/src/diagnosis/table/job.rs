//! The job itself: what it may lock and open, what it was given, what it asks for.

use super::{
    LOC_ACCESS, LOC_LEN, LOC_PROT, LOC_QP_OP, REM_ACCESS, REM_INV_REQ, REM_OP, RNR_RETRY_EXC, WR_FLUSH,
};
use crate::diagnosis::symptom::SymptomKind::{
    CallFailed, CollectiveTimeout, ConnectTimedOut, CreateFailed, JobFailed, MemlockWarning, NoDevice,
    NoLibrary, NoProvider, NoSocketInterface, OpenFailed, RdmaDisabled, RegMrFailed, RegMrNoMemory,
    ResourceLimit, SocketFallback,
};
use crate::diagnosis::{known::KnownCause, weigh};

pub(super) static MEMLOCK_LIMIT: KnownCause = KnownCause {
    id: "memlock-limit",
    title: "The process may lock too little memory",
    explanation: "Registered memory is locked memory. Beyond RLIMIT_MEMLOCK, and without the capability IPC_LOCK, \
        registration and the creation of queues fail with ENOMEM. A pod inherits the limit of the container runtime.",
    next_step: "Run ulimit -l where the job runs, in its pod. If it is not unlimited, raise LimitMEMLOCK of the container \
        runtime or give the pod IPC_LOCK.",
    rules: &["memlock-low"],
    often: &[RegMrNoMemory, CreateFailed, MemlockWarning],
    sometimes: &[RegMrFailed, LOC_PROT],
    weigh: weigh::memlock,
};

pub(super) static DEVICE_NOT_GIVEN: KnownCause = KnownCause {
    id: "device-not-given",
    title: "The node has RDMA devices that the job was not given",
    explanation: "A container sees only the devices it asked for: without an RDMA resource in the pod, or without \
        /dev/infiniband, NCCL finds no device and takes TCP.",
    next_step: "Look into the pod: ls /dev/infiniband and env | grep PCIDEVICE. Ask for the RDMA resource in the pod's limits.",
    rules: &[],
    often: &[NoDevice, SocketFallback],
    sometimes: &[OpenFailed],
    weigh: weigh::device_not_given,
};

pub(super) static JOB_SETTINGS: KnownCause = KnownCause {
    id: "job-settings",
    title: "The job's own settings keep it from RDMA",
    explanation: "NCCL_IB_DISABLE, NCCL_IB_HCA, NCCL_SOCKET_IFNAME and NCCL_NET decide what NCCL may use; a name that does not \
        exist on the node leaves nothing.",
    next_step: "Run the job with NCCL_DEBUG=INFO and compare NCCL_IB_HCA and NCCL_SOCKET_IFNAME with the names on this node.",
    rules: &[],
    often: &[RdmaDisabled, NoSocketInterface],
    sometimes: &[NoDevice, SocketFallback],
    weigh: weigh::settings,
};

pub(super) static USERSPACE_LIBRARIES: KnownCause = KnownCause {
    id: "userspace-libraries",
    title: "libibverbs or the adapter's provider is missing where the job or the verbs helper runs",
    explanation: "The kernel part alone does not do: the container image needs libibverbs and the provider of the adapter \
        (rdma-core), in a version that fits the kernel.",
    next_step: "Install rdma-core (libibverbs1 and ibverbs-providers on Debian and Ubuntu) where the job, or the verbs helper, \
        runs and run ibv_devinfo there.",
    rules: &["helper-unhealthy"],
    often: &[NoLibrary, NoProvider],
    sometimes: &[NoDevice, SocketFallback, OpenFailed],
    weigh: weigh::userspace,
};

pub(super) static DEVICE_PERMISSION: KnownCause = KnownCause {
    id: "device-permission",
    title: "The process may not open the RDMA device",
    explanation: "/dev/infiniband/uverbs* must be there, readable and writable, and allowed by the container's device list.",
    next_step: "Where the job runs: ls -l /dev/infiniband, and ask for the RDMA resource rather than mounting the directory.",
    rules: &[],
    often: &[OpenFailed],
    sometimes: &[CallFailed],
    weigh: weigh::permission,
};

pub(super) static HCA_RESOURCES: KnownCause = KnownCause {
    id: "hca-resources",
    title: "The adapter or a cgroup allows no more memory regions or queues",
    explanation: "An adapter has room for so many memory keys, queues and pages; a cgroup can lower it (rdma.max). Then \
        registration fails with ENOMEM though the memory-lock limit is high.",
    next_step: "Run rdma resource show, look at rdma.max of the job's cgroup and at the kernel's log for 'limits exceeded'.",
    rules: &[],
    often: &[ResourceLimit],
    sometimes: &[RegMrNoMemory, RegMrFailed, CreateFailed, CallFailed],
    weigh: weigh::resources,
};

pub(super) static APPLICATION_MEMORY: KnownCause = KnownCause {
    id: "application-memory",
    title: "The application uses memory that it has not registered, or not for this access",
    explanation: "A buffer that was freed or is longer than its registration, a stale lkey or rkey, a missing access flag: the \
        adapter refuses, and rightly.",
    next_step: "Run ib_write_bw, and nccl-tests, over the same devices on this node. Where they pass, the fault is in the \
        application or its library: look at the buffer that the failing operation names.",
    rules: &[],
    often: &[LOC_QP_OP, LOC_LEN, LOC_ACCESS, REM_INV_REQ, REM_ACCESS],
    sometimes: &[LOC_PROT, REM_OP, RegMrFailed, CallFailed],
    weigh: weigh::application,
};

pub(super) static PEER_FAILED: KnownCause = KnownCause {
    id: "peer-failed",
    title: "Another rank failed or ended first",
    explanation: "When one end goes away, the other sees flushed requests, missing receive buffers or remote errors.",
    next_step: "Look at the logs of all ranks for the first error in time, and check the node that wrote it.",
    rules: &[],
    often: &[WR_FLUSH, RNR_RETRY_EXC, REM_OP, JobFailed],
    sometimes: &[REM_ACCESS, CollectiveTimeout, ConnectTimedOut],
    weigh: weigh::peer_failed,
};
