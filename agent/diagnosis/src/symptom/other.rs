//! What to do about an error that is not of RDMA.

use super::SymptomKind;

impl SymptomKind {
    /// What to do about it, if it is an error of something else than RDMA.
    pub fn step_of_other(self) -> Option<&'static str> {
        Some(match self {
            Self::ComputeError => {
                "Correct the error of CUDA or ROCm first: what other ranks report of their connections follows from it. Out of memory: give each process its own GPU, or \
                less work (nvidia-smi or rocm-smi shows what else uses the memory). An illegal access: CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer shows where. A \
                version or an architecture that does not fit: compare the driver (nvidia-smi) with the libraries of the image."
            }
            Self::SharedMemory => {
                "Give the processes of the node more shared memory: df -h /dev/shm where the job runs shows its size. docker run --shm-size=16g or --ipc=host; in a pod an \
                emptyDir with medium: Memory at /dev/shm. Remove what ended processes left there. A process without access runs as another user, or in another IPC or \
                PID namespace than its peers."
            }
            Self::TcpError => {
                "Find why the connection over TCP failed: the log of the process at the other end, and whether the address in the message is one that other nodes reach \
                (ip -brief address; not that of lo or docker0). Select the interface: NCCL_SOCKET_IFNAME with NCCL, UCX_NET_DEVICES with UCX, and permit its ports in the \
                firewall between the nodes."
            }
            Self::GlooError => {
                "Set GLOO_SOCKET_IFNAME to the interface whose address the other nodes reach (ip -brief address), on every node. Where the message names 127.0.0.1 or another \
                address of the host itself, /etc/hosts gives the host name that address (getent hosts NAME): correct it. Then check the firewall between the nodes."
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_of_something_else_has_a_step() {
        for kind in SymptomKind::all() {
            assert_eq!(kind.step_of_other().is_some(), kind.is_of_other(), "{kind}");
        }
    }
}
