//! Errors and statuses of libfabric, UCX, NCCL and the driver of mlx5 adapters.

rows! {
    /// libfabric's own errors (`rdma/fi_errno.h`); the others have the names and numbers of errno(3).
    FABRIC:
    "FI_EOTHER": "an error that the provider does not name; its own number follows in prov_errno";
    "FI_ETOOSMALL": "the buffer of the caller is too small";
    "FI_EOPBADSTATE": "the operation is not permitted in the state of the endpoint: it is not enabled or was shut down"
        ["peer-failed"];
    "FI_EAVAIL": "an error entry is waiting: the program must read it with fi_cq_readerr or fi_eq_readerr";
    "FI_EBADFLAGS": "flags that the provider does not support" ["userspace-libraries"];
    "FI_ENOEQ": "the endpoint has no event queue";
    "FI_EDOMAIN": "resources of different domains were combined";
    "FI_ENOCQ": "the endpoint has no completion queue";
    "FI_ECRC": "the checksum of a message is wrong" ["link-quality"];
    "FI_ETRUNC": "the message is longer than the buffer of the receiver" ["application-memory"];
    "FI_ENOKEY": "the key of the remote memory is not valid" ["application-memory"];
    "FI_ENOAV": "the address is not in the address vector";
    "FI_EOVERRUN": "a queue overflowed, and entries are lost" ["queue-error"];
    "FI_ENORX": "the receiver has no buffer posted" ["IBV_WC_RNR_RETRY_EXC_ERR"];
    "FI_ENOMR": "the provider cannot register more memory" ["memlock-limit", "hca-resources"];
}

rows! {
    /// The statuses of UCX (`ucs/type/status.h`).
    UCX:
    "UCS_ERR_NO_RESOURCE": "a resource is used up for the moment; UCX tries again";
    "UCS_ERR_IO_ERROR": "an input or output error; the line before it names the operation" ["device-fault"];
    "UCS_ERR_NO_MEMORY": "memory could not be allocated or registered" ["memlock-limit", "hca-resources"];
    "UCS_ERR_INVALID_PARAM": "a parameter is not valid" ["job-settings"];
    "UCS_ERR_UNREACHABLE": "no transport of UCX_TLS reaches the peer from a device of UCX_NET_DEVICES"
        ["job-settings", "device-not-given"];
    "UCS_ERR_INVALID_ADDR": "the address of the peer is not valid" ["addressing"];
    "UCS_ERR_MESSAGE_TRUNCATED": "the message is longer than the buffer of the receiver" ["application-memory"];
    "UCS_ERR_NO_DEVICE": "no device of UCX_NET_DEVICES exists where the job runs"
        ["job-settings", "device-not-given", "no-device"];
    "UCS_ERR_BUSY": "the resource is in use";
    "UCS_ERR_CANCELED": "the request was cancelled, most often after another error" ["peer-failed"];
    "UCS_ERR_TIMED_OUT": "the operation timed out" ["peer-unreachable", "fabric-or-peer"];
    "UCS_ERR_EXCEEDS_LIMIT": "a limit of the device or of the process is exceeded" ["hca-resources", "memlock-limit"];
    "UCS_ERR_UNSUPPORTED": "the device or its library does not support the operation" ["userspace-libraries"];
    "UCS_ERR_REJECTED": "the peer rejected the connection" ["connect-refused", "no-listener"];
    "UCS_ERR_NOT_CONNECTED": "the endpoint is not connected" ["peer-failed"];
    "UCS_ERR_CONNECTION_RESET": "the peer closed the connection or ended" ["peer-failed"];
    "UCS_ERR_ENDPOINT_TIMEOUT": "the peer did not answer: transport retries are used up"
        ["IBV_WC_RETRY_EXC_ERR", "fabric-or-peer"];
}

rows! {
    /// Results of NCCL (`nccl.h`), and events and numbers of adapters (`verbs.h`, `include/linux/mlx5/device.h` of the kernel).
    STATUS:
    "ncclUnhandledCudaError": "a call of CUDA failed: the error is of the GPU, not of RDMA" ["compute-error"];
    "ncclSystemError": "a call of the system or of libibverbs failed. The line NCCL WARN before it names the call" ["job-failed"];
    "ncclInternalError": "a check inside NCCL failed; a line NCCL WARN before it says which. Often the network changed, or \
        versions differ" ["job-failed"];
    "ncclInvalidArgument": "the program gave NCCL a wrong argument";
    "ncclInvalidUsage": "the program used NCCL wrongly, such as two ranks on one GPU, or versions of NCCL differ";
    "ncclRemoteError": "another rank failed or ended first, or the network to it broke" ["job-failed", "peer-failed"];
    "ncclInProgress": "an operation of NCCL goes on; this is not an error";
    "MLX5_EVENT_TYPE_WQ_CATAS_ERROR": "event of an mlx5 adapter: a queue pair failed and cannot be used" ["queue-error"];
    "MLX5_EVENT_TYPE_CQ_ERROR": "event of an mlx5 adapter: a completion queue overran or cannot be written" ["cq-error"];
    "MLX5_EVENT_TYPE_WQ_INVAL_REQ_ERROR": "event of an mlx5 adapter: a queue pair received a request that is not valid"
        ["queue-error"];
    "MLX5_EVENT_TYPE_WQ_ACCESS_ERROR": "event of an mlx5 adapter: a queue pair had a memory access refused"
        ["queue-access-error"];
    "MLX5_EVENT_TYPE_PORT_CHANGE": "event of an mlx5 adapter: the state of a port changed" ["port-error"];
    "hw_synd": "UCX prints here a further syndrome of the adapter (hw_synd 0/0: none). The vendor publishes no list"
        ["IBV_WC_RETRY_EXC_ERR"];
    "hw_synd N/N": "UCX prints here a further syndrome of the adapter; 0/0 is none. The vendor publishes no list"
        ["IBV_WC_RETRY_EXC_ERR"];
    "IBV_EVENT_SM_CHANGE": "event of a port: another subnet manager took over. Programs go on" ["no-subnet-manager"];
    "IBV_EVENT_LID_CHANGE": "event of a port: the subnet manager gave it another LID. Programs go on if they connect again"
        ["no-subnet-manager"];
    "IBV_EVENT_CLIENT_REREGISTER": "event of a port: the subnet manager asks programs to register again. It is normal after \
        it restarted" ["no-subnet-manager"];
}
