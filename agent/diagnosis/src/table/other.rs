//! Errors of something else than RDMA, which end a job all the same.

use crate::symptom::SymptomKind::{ComputeError, GlooError, SharedMemory, TcpError};
use crate::{known::KnownCause, weigh};

pub(super) static SHARED_MEMORY: KnownCause = KnownCause {
    id: "shared-memory",
    title: "The processes of the job on one node have too little shared memory, or no access to it; RDMA did not fail",
    explanation: "The processes of one node exchange data through files in /dev/shm, or through segments of System V, before RDMA and together with it. A \
    container has 64 MiB in /dev/shm by default, which fills up with a few GPUs.",
    next_step: "Give the processes of the node more shared memory: df -h /dev/shm where the job runs shows its size. docker run --shm-size=16g or \
    --ipc=host; in a pod an emptyDir with medium: Memory at /dev/shm. Remove what ended processes left there. A process without access runs as \
    another user, or in another IPC or PID namespace than its peers. ipcs -l shows the limits of System V segments.",
    rules: &[],
    cases: &[],
    often: &[SharedMemory],
    sometimes: &[],
    weigh: weigh::shared_memory,
};

pub(super) static TCP_CONNECTION: KnownCause = KnownCause {
    id: "tcp-connection",
    title: "A connection of the job over TCP failed; RDMA did not fail",
    explanation: "The processes of a job find each other over TCP (MPI's and PyTorch's start, NCCL's bootstrap, Gloo), and some carry all of their data over \
    it. A firewall, an address that other nodes do not reach, or a process that ended breaks these connections.",
    next_step: "Find why the connection failed: the log of the process at the other end, and whether the address in the message is one that other nodes \
    reach (ip -brief address; not that of lo or docker0). If /etc/hosts gives the host name a loopback address (getent hosts NAME), correct it. Select the \
    interface on every node: NCCL_SOCKET_IFNAME with NCCL, GLOO_SOCKET_IFNAME with Gloo, UCX_NET_DEVICES with UCX, and permit its ports in the firewall \
    between the nodes.",
    rules: &[],
    cases: &[],
    often: &[TcpError, GlooError],
    sometimes: &[],
    weigh: weigh::tcp_connection,
};

pub(super) static GPU_PROGRAM: KnownCause = KnownCause {
    id: "gpu-program",
    title: "CUDA or ROCm failed in the job, or the job uses its GPUs in a wrong way; RDMA did not fail",
    explanation: "What other ranks report of their connections follows from it: a process that gets an error of its GPU ends, and its peers lose it.",
    next_step: "Correct the error of CUDA or ROCm. Out of memory: give each process its own GPU, or less work (nvidia-smi or rocm-smi shows \
    what else uses the memory). An illegal access: CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer shows where. A version or an architecture that does not \
    fit: compare the driver (nvidia-smi) with the libraries of the image.",
    rules: &[],
    cases: &[],
    often: &[ComputeError],
    sometimes: &[],
    weigh: weigh::gpu_program,
};
