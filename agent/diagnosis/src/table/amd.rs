//! What to do where the job uses AMD's GPUs and the table speaks of NVIDIA's tools.

/// The next step of the cause with this id with AMD's GPUs; `None` if it is the same.
pub(crate) fn next_step(id: &str) -> Option<&'static str> {
    Some(match id {
        "gpu-nic-distance" => {
            "Run rocm-smi --showtopo and lspci -tv, and use for each GPU a NIC below the same PCIe switch or root port."
        }
        "gpu-fault" => {
            "Drain the node and read what the driver logged: journalctl -k -b | grep amdgpu. Reset the GPU (rocm-smi --gpureset -d INDEX) or \
            restart the node. If it happens again, replace the GPU."
        }
        "gpu-initiated-setup" => {
            "Check that the adapter's library supports queues in GPU memory (libmlx5, libbnxt_re or libionic in the version of the vendor's \
            driver package) and that the container is privileged or has the RDMA devices and the capability IPC_LOCK. Otherwise let the CPU \
            start the transfers."
        }
        _ => return None,
    })
}
