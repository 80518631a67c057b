//! Variables with which users configure communication libraries.

rows! {
    /// Variables by name.
    SETTINGS:
    "NCCL_DEBUG": "how much NCCL logs: VERSION, WARN, INFO or TRACE. INFO shows the network and devices that it chose";
    "NCCL_DEBUG_SUBSYS": "which parts of NCCL log at level INFO: INIT,NET is enough for the choice of devices";
    "NCCL_IB_DISABLE": "1: NCCL does not use verbs, and uses TCP if no plugin is there" ["rdma-disabled", "job-settings"];
    "NCCL_IB_HCA": "the devices that NCCL uses: prefixes (mlx5), = for exact names, ^ for all but these. A name that does not \
        exist leaves none" ["job-settings", "setting-unmatched"];
    "NCCL_IB_GID_INDEX": "the GID that NCCL uses on RoCE. Since version 2.21 NCCL chooses RoCE v2 by itself, and a fixed \
        index is often wrong after a change of addresses" ["gid-index", "job-settings"];
    "NCCL_IB_TIMEOUT": "the time for which a queue pair waits for an acknowledgement: 4.096 microseconds times two to this \
        power. A higher value hides losses" ["IBV_WC_RETRY_EXC_ERR", "fabric-or-peer"];
    "NCCL_IB_RETRY_CNT": "how often a queue pair repeats without an acknowledgement, at most 7"
        ["IBV_WC_RETRY_EXC_ERR", "fabric-or-peer"];
    "NCCL_IB_TC": "the traffic class (four times the DSCP) of RoCE packets. It must match the priority with flow control"
        ["roce-flow-control"];
    "NCCL_IB_FIFO_TC": "the traffic class of NCCL's control messages" ["roce-flow-control"];
    "NCCL_IB_SL": "the InfiniBand service level, or on RoCE without DSCP the priority" ["roce-flow-control"];
    "NCCL_IB_PKEY": "the index of the partition key that NCCL uses" ["partition-key-missing"];
    "NCCL_IB_ROCE_VERSION_NUM": "the version of RoCE of the GID that NCCL chooses" ["gid-index"];
    "NCCL_IB_ADDR_FAMILY": "IPv4 (AF_INET) or IPv6 (AF_INET6): the family of the GID that NCCL chooses" ["gid-index"];
    "NCCL_IB_ADDR_RANGE": "the range of addresses (CIDR) of the GID that NCCL chooses" ["gid-index"];
    "NCCL_IB_ADAPTIVE_ROUTING": "whether NCCL prepares for packets out of order because of adaptive routing. Usual on \
        InfiniBand";
    "NCCL_IB_QPS_PER_CONNECTION": "number of queue pairs of each connection. More of them spread over more paths";
    "NCCL_IB_SPLIT_DATA_ON_QPS": "whether a message is divided over the queue pairs of a connection";
    "NCCL_IB_PCI_RELAXED_ORDERING": "whether NCCL registers memory with relaxed ordering of PCIe. Virtual machines need it \
        for full bandwidth" ["pci-below-port-rate"];
    "NCCL_IB_CUDA_SUPPORT": "old name of NCCL_NET_GDR_LEVEL: whether the NIC reads GPU memory itself" ["gdr-disabled"];
    "NCCL_IB_MERGE_VFS": "whether NCCL treats virtual functions of one adapter as one device";
    "NCCL_IB_MERGE_NICS": "whether NCCL treats the ports of one adapter as one device";
    "NCCL_IB_DATA_DIRECT": "whether NCCL uses the second, direct PCIe path of ConnectX-8 adapters";
    "NCCL_IB_AR_THRESHOLD": "the size from which messages may arrive out of order";
    "NCCL_IB_RETURN_ASYNC_EVENTS": "whether NCCL ends with an error after an asynchronous event of a device" ["port-error"];
    "NCCL_NET": "the network that NCCL uses: IB, Socket, or the name of a plugin" ["job-settings"];
    "NCCL_NET_PLUGIN": "the plugin for the network that NCCL loads: libnccl-net-NAME.so; none loads none"
        ["backend-missing", "job-settings"];
    "NCCL_NET_GDR_LEVEL": "how far a NIC may be from a GPU for GPUDirect RDMA: LOC, PIX, PXB, PHB, SYS"
        ["gdr-too-far", "gpu-nic-distance"];
    "NCCL_NET_GDR_READ": "whether NICs read GPU memory themselves when they send" ["gdr-disabled"];
    "NCCL_NET_GDR_C2C": "whether a NIC near the CPU of a Grace machine uses GPUDirect RDMA over the link between CPU and GPU"
        ["gdr-too-far"];
    "NCCL_DMABUF_ENABLE": "whether NCCL may share GPU memory with a NIC as DMA-BUF, without nvidia_peermem" ["peer-memory-path"];
    "NCCL_SOCKET_IFNAME": "the interfaces that NCCL uses for its bootstrap connection and for TCP: prefixes, = for exact \
        names, ^ for all but these" ["no-socket-interface", "job-settings"];
    "NCCL_SOCKET_FAMILY": "IPv4 (AF_INET) or IPv6 (AF_INET6) for the bootstrap connection" ["no-socket-interface"];
    "NCCL_CROSS_NIC": "whether a ring may use different NICs (rails) on different nodes: 0 no, 1 yes, 2 if it must";
    "NCCL_P2P_DISABLE": "1: GPUs of a node do not exchange data directly (NVLink, PCIe)";
    "NCCL_P2P_LEVEL": "over which distance GPUs of a node exchange data directly: NVL, PIX, PXB, PHB, SYS" ["acs-redirect"];
    "NCCL_SHM_DISABLE": "1: GPUs of a node do not use shared memory; then they use the network";
    "NCCL_ALGO": "the algorithms that NCCL may use: Ring, Tree, CollnetDirect, NVLS";
    "NCCL_PROTO": "the protocols that NCCL may use: LL, LL128, Simple";
    "NCCL_COLLNET_ENABLE": "whether NCCL uses reduction in the network (SHARP)" ["aggregation-manager"];
    "NCCL_NVLS_ENABLE": "whether NCCL uses reduction in NVSwitch";
    "NCCL_TOPO_FILE": "a file that describes the PCIe topology, which virtual machines need" ["gpu-nic-distance"];
    "NCCL_TUNER_PLUGIN": "the plugin that chooses algorithms";
    "NCCL_BUFFSIZE": "the size of the buffers between two GPUs";
    "NCCL_MIN_NCHANNELS": "the smallest number of channels (rings) of NCCL";
    "NCCL_NTHREADS": "the number of threads of one of NCCL's kernels";
    "NCCL_ASYNC_ERROR_HANDLING": "old name of TORCH_NCCL_ASYNC_ERROR_HANDLING" ["collective-timeout"];
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "whether PyTorch ends the process after an error or a timeout of NCCL"
        ["collective-timeout"];
    "TORCH_NCCL_BLOCKING_WAIT": "whether PyTorch waits for collective operations with a timeout" ["collective-timeout"];
    "NCCL_TIMEOUT": "not known as a variable of NCCL: the timeout of collective operations is set in the program"
        ["collective-timeout"];
    "GLOO_SOCKET_IFNAME": "the interface that Gloo uses" ["no-socket-interface"];
    "UCX_NET_DEVICES": "the devices and ports that UCX uses: mlx5_0:1. A name that does not exist is an error"
        ["setting-unmatched", "job-settings"];
    "UCX_TLS": "the transports that UCX may use: rc, dc, ud, tcp, sm, cuda_copy, cuda_ipc. Without rc, dc or ud it does not \
        use RDMA" ["job-settings"];
    "UCX_IB_GID_INDEX": "the GID that UCX uses on RoCE; auto chooses RoCE v2" ["gid-index", "job-settings"];
    "UCX_IB_PKEY": "the partition key that UCX uses" ["partition-key-missing"];
    "UCX_IB_SL": "the InfiniBand service level that UCX uses";
    "UCX_IB_TRAFFIC_CLASS": "the traffic class (four times the DSCP) of UCX's RoCE packets" ["roce-flow-control"];
    "UCX_RC_TIMEOUT": "the time for which UCX's connections wait for an acknowledgement"
        ["IBV_WC_RETRY_EXC_ERR", "fabric-or-peer"];
    "UCX_RC_RETRY_COUNT": "how often UCX's connections repeat without an acknowledgement" ["IBV_WC_RETRY_EXC_ERR"];
    "UCX_RNDV_SCHEME": "how UCX moves large messages: get_zcopy, put_zcopy or am";
    "UCX_IB_GPU_DIRECT_RDMA": "whether UCX lets the adapter read GPU memory" ["peer-memory-path"];
    "UCX_LOG_LEVEL": "how much UCX logs: error, warn, info, debug";
    "FI_PROVIDER": "the provider that libfabric uses: efa, verbs, tcp, cxi, psm3" ["no-device", "job-settings"];
    "FI_LOG_LEVEL": "how much libfabric logs: warn, trace, info, debug";
    "FI_EFA_USE_DEVICE_RDMA": "1: the provider of EFA uses RDMA read of the device. Ignored where the device has none"
        ["job-settings"];
    "FI_EFA_FORK_SAFE": "whether the provider of EFA works in programs that fork";
    "FI_EFA_ENABLE_SHM_TRANSFER": "whether the provider of EFA uses shared memory within a node";
    "FI_MR_CACHE_MONITOR": "how libfabric notices that registered memory was freed" ["application-memory"];
    "FI_CXI_DISABLE_HOST_REGISTER": "a setting of Slingshot's provider: whether host memory is registered with the GPU";
    "RDMAV_FORK_SAFE": "libibverbs keeps registered memory safe when a program forks. It is not needed since Linux 5.12";
    "IBV_FORK_SAFE": "libibverbs keeps registered memory safe when a program forks. It is not needed since Linux 5.12";
    "RDMAV_HUGEPAGES_SAFE": "libibverbs asks for the size of pages before it protects memory for a fork";
    "RDMAV_DRIVERS": "more providers that libibverbs loads" ["userspace-libraries"];
    "MLX5_SINGLE_THREADED": "the provider of mlx5 takes no locks";
    "MLX5_SCATTER_TO_CQE": "whether small messages are written into the completion queue";
    "MLX5_SHUT_UP_BF": "whether the provider of mlx5 uses write-combining doorbells";
    "MELLANOX_RINGS_PER_DEVICE": "number of event queues per device";
    "OMPI_MCA_btl": "the transports of Open MPI below its own messages: openib is old; UCX is used through OMPI_MCA_pml=ucx"
        ["job-settings"];
    "OMPI_MCA_pml": "how Open MPI sends messages: ucx, ob1 or cm" ["job-settings"];
    "OMPI_MCA_btl_openib_allow_ib": "whether Open MPI's old transport openib may use InfiniBand";
    "I_MPI_FABRICS": "the networks of Intel MPI: shm:ofi" ["job-settings"];
    "I_MPI_OFI_PROVIDER": "the provider of libfabric that Intel MPI uses" ["job-settings"];
    "NVSHMEM_HCA_LIST": "the devices that NVSHMEM uses" ["setting-unmatched", "job-settings"];
    "NVSHMEM_HCA_PE_MAPPING": "which GPU uses which device, for NVSHMEM" ["setting-unmatched"];
    "NVSHMEM_REMOTE_TRANSPORT": "the transport of NVSHMEM between nodes: ibrc, ucx, ibdevx, libfabric, none" ["job-settings"];
    "NVSHMEM_IB_ENABLE_IBGDA": "whether GPUs ring the adapter's doorbells themselves" ["gpu-initiated-setup"];
    "NVSHMEM_IBGDA_NIC_HANDLER": "whether the GPU or the CPU rings the doorbells of the adapter: gpu, cpu, auto"
        ["gpu-initiated-setup"];
    "NVSHMEM_IB_GID_INDEX": "the GID that NVSHMEM uses on RoCE" ["gid-index"];
    "NVSHMEM_IB_TRAFFIC_CLASS": "the traffic class of NVSHMEM's RoCE packets" ["roce-flow-control"];
    "MC_GID_INDEX": "the GID that Mooncake uses on RoCE" ["gid-index"];
    "MC_IB_PORT": "the port of the device that Mooncake uses" ["port-not-active"];
    "MC_MTU": "the RDMA MTU that Mooncake asks for" ["mtu-differs"];
    "PYTORCH_CUDA_ALLOC_CONF": "how PyTorch allocates memory of GPUs. expandable_segments:True maps it in pieces, which nvidia_peermem cannot \
        register: Bad address (EFAULT)" ["peer-memory-path", "reg-mr-failed"];
    "NVreg_EnableStreamMemOPs": "a parameter of NVIDIA's driver. 1 permits a GPU to wait for and write to memory of devices, which GPU-initiated \
        communication needs (IBGDA)" ["gpu-initiated-setup"];
    "NVreg_RegistryDwords": "a parameter of NVIDIA's driver. PeerMappingOverride=1 permits GPU-initiated communication"
        ["gpu-initiated-setup"];
    "PeerMappingOverride": "a value of NVIDIA's driver that permits to map the doorbells of an adapter into a GPU"
        ["gpu-initiated-setup"];
}
