//! What to do where the log shows neither NCCL nor GPUs nor Lustre, of which the table speaks.

/// The next step of the cause with this id where the log names no GPU and none of their libraries; `None` if it is the same.
pub(crate) fn next_step(id: &str) -> Option<&'static str> {
    Some(match id {
        "job-settings" => {
            "Compare the devices, ports, interfaces and transports that the command and the environment of the program name (env | grep -e UCX_ -e FI_ -e OMPI_MCA) with \
            those where it runs: rdma link show, ip -brief address. Unset what is not needed: most programs select the device themselves."
        }
        "application-memory" => {
            "Run ib_write_bw over the same devices on this node. If it passes, the fault is in the application or its library: check the buffer of the failing operation."
        }
        "peer-failed" => {
            "Read the log of the other end at the same time (in a job, those of all ranks): its earliest error is the reason. Run rdma-health check on the node that logged it."
        }
        "peer-settings" => {
            "Compare on both ends what the message names, and make it the same; update the older end if the versions differ."
        }
        _ => return None,
    })
}

/// The same where only the kernel reports what the cause explains.
pub(crate) fn of_kernel(id: &str) -> Option<&'static str> {
    Some(match id {
        "application-memory" => {
            "Look which module of the kernel uses the connection (rdma resource show qp shows it in the column comm, the lines next to this one name it: NFS, NVMe, SMB, SMC, Lustre): the request that \
            failed is its own. Compare the versions of the kernel or of that module on both ends, and update the older one. ib_write_bw over the same devices shows whether RDMA itself works."
        }
        _ => return next_step(id),
    })
}
