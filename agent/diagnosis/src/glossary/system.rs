//! Names of the operating system, of Kubernetes and of tools, and the states of ports and devices.

rows! {
    /// Limits, modules, files, programs, and what Kubernetes shows.
    SYSTEM:
    "RLIMIT_MEMLOCK": "the limit of memory that a process may lock. Registered memory is locked" ["memlock-low", "memlock-limit"];
    "LimitMEMLOCK": "systemd's setting for the memlock limit of a service, such as containerd. infinity is right for RDMA"
        ["memlock-low", "memlock-limit"];
    "LimitMEMLOCK=infinity": "systemd's setting for an unlimited memlock limit of a service. Right for RDMA" ["memlock-low"];
    "ulimit -l": "shows the memlock limit of a shell in KiB. RDMA needs unlimited" ["memlock-low", "memlock-limit"];
    "max locked memory": "the memlock limit, as ulimit -a and /proc/PID/limits show it" ["memlock-low", "memlock-limit"];
    "IPC_LOCK": "the capability that lifts the memlock limit of a container" ["memlock-limit", "admission-policy"];
    "CAP_IPC_LOCK": "the capability that lifts the memlock limit of a process" ["memlock-limit", "admission-policy"];
    "PropagateResourceLimitsExcept": "Slurm's setting for limits that a job does not inherit from the node where it was \
        submitted. MEMLOCK belongs here" ["memlock-low"];
    "ib_uverbs": "module behind /dev/infiniband/uverbs*, through which programs use RDMA devices" ["rdma-modules-missing"];
    "rdma_ucm": "module behind /dev/infiniband/rdma_cm, which rdma_cm needs in user space"
        ["rdma-modules-missing", "cm-unavailable"];
    "rdma_cm": "the connection manager that finds devices by IP address and connects queue pairs; also a module"
        ["cm-unavailable", "rdma-modules-missing"];
    "ib_umad": "module behind /dev/infiniband/umad*, which opensm, ibstat and other tools of InfiniBand need"
        ["rdma-modules-missing"];
    "ib_core": "the module that all of RDMA in the kernel needs" ["rdma-modules-missing"];
    "ib_cm": "module of the connection manager of InfiniBand and RoCE" ["rdma-modules-missing"];
    "iw_cm": "module of the connection manager of iWARP" ["rdma-modules-missing"];
    "ib_ipoib": "module of IP over InfiniBand (ib0)" ["rdma-modules-missing"];
    "mlx5_core": "module that drives mlx5 adapters (ConnectX-4 and later, BlueField)" ["rdma-modules-missing"];
    "mlx5_ib": "module that makes RDMA devices of mlx5 adapters" ["rdma-modules-missing"];
    "mlx4_core": "module that drives ConnectX-3 and older adapters. MLNX_OFED 5.1 and later do not have it"
        ["rdma-modules-missing"];
    "mlx4_ib": "module that makes RDMA devices of ConnectX-3 and older adapters" ["rdma-modules-missing"];
    "bnxt_re": "module that makes RDMA devices of Broadcom adapters" ["rdma-modules-missing"];
    "irdma": "module that makes RDMA devices of Intel adapters (E810, X722)" ["rdma-modules-missing"];
    "ionic_rdma": "module that makes RDMA devices of AMD Pensando adapters" ["rdma-modules-missing"];
    "mana_ib": "module that makes RDMA devices of Azure's adapter MANA" ["rdma-modules-missing"];
    "erdma": "Alibaba Cloud's RDMA adapter and its module" ["rdma-modules-missing"];
    "rdma_rxe": "SoftRoCE: RDMA in software, for tests" ["softroce-in-use", "software-rdma"];
    "siw": "iWARP in software, for tests" ["softroce-in-use", "software-rdma"];
    "nv_peer_mem": "the old module through which a NIC registers memory of NVIDIA GPUs. nvidia_peermem replaces it"
        ["nv-peer-mem-legacy"];
    "gdrdrv": "the module of GDRCopy";
    "GDRCopy": "a library with which the CPU copies small data to and from GPU memory. It is not GPUDirect RDMA";
    "uverbs0": "/dev/infiniband/uverbs0: the file through which programs use an RDMA device"
        ["device-permission", "device-not-given"];
    "/dev/infiniband/uverbsN": "the file through which programs use an RDMA device. It must be in the container and writable"
        ["device-permission", "device-not-given"];
    "/dev/infiniband/rdma_cm": "the file that rdma_cm needs; the module rdma_ucm makes it"
        ["cm-unavailable", "rdma-modules-missing"];
    "/dev/infiniband": "the directory of the files through which programs use RDMA devices"
        ["device-not-given", "device-permission"];
    "OFED": "drivers and libraries for RDMA by a vendor or by the OpenFabrics Alliance, instead of those of the distribution"
        ["driver-firmware"];
    "MLNX_OFED": "NVIDIA's drivers and libraries for its adapters; DOCA-OFED follows it" ["driver-firmware"];
    "MOFED": "NVIDIA's drivers and libraries for its adapters (MLNX_OFED), often as a container of the network operator"
        ["driver-firmware"];
    "DOCA": "NVIDIA's software for adapters and DPUs; DOCA-OFED is its driver package" ["driver-firmware"];
    "inbox driver": "the driver of the distribution's kernel, instead of one from a vendor's package" ["driver-firmware"];
    "openibd": "the service of MLNX_OFED that loads the modules of RDMA" ["rdma-modules-missing"];
    "rdma-core": "the libraries and tools of RDMA: libibverbs, librdmacm, the providers of all adapters" ["userspace-libraries"];
    "libibverbs": "the library through which programs use RDMA devices. It needs the provider of the adapter"
        ["userspace-libraries", "no-library"];
    "librdmacm": "the library of rdma_cm" ["userspace-libraries", "cm-unavailable"];
    "libfabric": "a library over several networks; EFA and Slingshot are used through it" ["userspace-libraries"];
    "UCX": "a communication library of Open MPI, NIXL and others" ["userspace-libraries", "job-settings"];
    "aws-ofi-nccl": "the plugin with which NCCL uses libfabric and so EFA" ["backend-missing"];
    "NET/IB": "NCCL's own network over libibverbs" ["no-device"];
    "NET/OFI": "NCCL's network over libfabric: the plugin aws-ofi-nccl" ["no-device", "backend-missing"];
    "NET/Socket": "NCCL's network over TCP, without RDMA" ["socket-fallback"];
    "opensm": "the subnet manager of InfiniBand as a program. One must run in the fabric, on a node or a switch"
        ["no-subnet-manager"];
    "UFM": "NVIDIA's manager of InfiniBand fabrics, with a subnet manager" ["no-subnet-manager"];
    "ibstat": "a tool that shows devices and ports" ["port-down"];
    "ibv_devinfo": "a tool that shows devices and ports as libibverbs sees them" ["no-device"];
    "ibdev2netdev": "a script that shows which network device belongs to which RDMA device and port";
    "show_gids": "a script of MLNX_OFED that shows the GIDs of each port" ["gid-missing", "gid-index"];
    "ibdiagnet": "a tool that examines an InfiniBand fabric" ["link-quality"];
    "mlxlink": "a tool that shows the state, errors and reasons of a link" ["link-quality", "port-down"];
    "mlxconfig": "a tool that changes the stored settings of an adapter. They apply after a reset"
        ["link-type-differs", "firmware-pending"];
    "mst": "the service of NVIDIA's firmware tools";
    "perftest": "programs that measure RDMA: ib_write_bw, ib_send_lat and others" ["bandwidth-low"];
    "ib_write_bw": "a program of perftest that measures the bandwidth of RDMA WRITE" ["bandwidth-low"];
    "ib_read_bw": "a program of perftest that measures the bandwidth of RDMA READ" ["bandwidth-low"];
    "ib_send_bw": "a program of perftest that measures the bandwidth of SEND" ["bandwidth-low"];
    "ib_write_lat": "a program of perftest that measures the latency of RDMA WRITE" ["latency-high"];
    "nccl-tests": "programs that measure NCCL: all_reduce_perf and others";
    "all_reduce_perf": "a program of nccl-tests that measures an all-reduce over GPUs";
    "rping": "a tool that tests rdma_cm between two nodes" ["cm-connect-failed"];
    "FailedScheduling": "event of the scheduler: no node fits the pod. Its text says what is missing, such as an RDMA resource"
        ["resource-unavailable"];
    "FailedCreatePodSandBox": "event of the kubelet: the pod's network could not be set up. The text after it is the network \
        plugin's" ["pod-network", "network-attach-failed"];
    "FailedPrepareDynamicResources": "event of the kubelet: a driver of dynamic resource allocation (DRA) could not prepare a \
        device of the pod" ["network-attach-failed", "resource-unavailable"];
    "UnexpectedAdmissionError": "status of a pod for which the kubelet could not allocate a device of a device plugin, often \
        after it restarted" ["resource-unavailable"];
    "CreateContainerError": "status of a container that could not be made; the event says why";
    "ContainerCreating": "status of a pod that waits for its network, volumes or image; kubectl describe pod shows why"
        ["network-attach-failed"];
    "CrashLoopBackOff": "status of a container that ends again and again; its log says why";
    "rdma/hca": "an RDMA resource of a device plugin. Its name is a choice of the cluster"
        ["resource-unavailable", "device-not-given"];
    "rdma/hca_shared_devices_a": "the RDMA resource of the shared device plugin by its default name: several pods use the \
        devices" ["resource-unavailable", "device-not-given"];
    "nvidia.com/hostdev": "the RDMA resource of the network operator for whole adapters, by its usual name"
        ["resource-unavailable", "device-not-given"];
    "vpc.amazonaws.com/efa": "the resource of AWS's device plugin for the adapter EFA"
        ["resource-unavailable", "device-not-given"];
    "k8s.v1.cni.cncf.io/networks": "annotation of a pod that lists its additional networks (Multus)" ["pod-network"];
    "NetworkAttachmentDefinition": "object that describes an additional network of pods (Multus): plugin, addresses, resource"
        ["pod-network"];
    "NicClusterPolicy": "object of NVIDIA's network operator: drivers, device plugins and networks of the nodes"
        ["rdma-modules-missing"];
    "SriovNetworkNodePolicy": "object of the SR-IOV network operator: how many virtual functions an adapter has, and for \
        which resource" ["vfs-missing", "virtual-functions"];
    "PodSecurity": "the policy of Kubernetes for what pods may do. Levels baseline and restricted forbid IPC_LOCK and host \
        paths" ["admission-policy"];
    "SecurityContextConstraints": "OpenShift's policy for what pods may do. The default forbids IPC_LOCK" ["admission-policy"];
    "hostNetwork": "a pod in the network of the node: it sees the node's network devices, and so their GIDs"
        ["gid-other-namespace"];
}

rows! {
    /// States of ports, links and devices.
    STATES:
    "DOWN": "state of a port: no link, or not configured. phys_state says why: Disabled by the host, Polling for a peer"
        ["port-down"];
    "INIT": "state of a port: the link is up, and the port waits for the subnet manager" ["no-subnet-manager"];
    "Initializing": "state of a port (INIT): the link is up, and the port waits for the subnet manager" ["no-subnet-manager"];
    "ARMED": "state of a port: the subnet manager has configured it and not yet activated it" ["no-subnet-manager"];
    "ACTIVE": "state of a port that works";
    "ACTIVE_DEFER": "state of a port that was active and whose link is lost for a moment" ["port-flapping"];
    "Polling": "physical state of a port without a link: it looks for a peer. Cable, transceiver, or the port of the switch"
        ["port-down"];
    "Disabled": "physical state of a port that the host or the subnet manager disabled, such as an Ethernet device that is \
        not up" ["port-down"];
    "Unspecified": "link layer of a port that the driver does not name, as old ones of InfiniBand do, or of a port without a network";
    "return code -1": "what many programs return for any failure. It is EPERM only where it is called errno or where a driver of the kernel returns it: \
        the reason is in a line before";
    "LinkUp": "physical state of a port with a working link";
    "PortConfigurationTraining": "physical state of a port that agrees with its peer on width and speed" ["port-down"];
    "Sleep": "physical state of a port that saves power: no link" ["port-down"];
    "Phy Test": "physical state of a port in a test of the link" ["port-down"];
    "NO-CARRIER": "a network device that is up and has no link: cable, transceiver, or the port of the switch" ["port-down"];
    "LOWER_UP": "a network device with a link (carrier). Its absence is like NO-CARRIER";
    "link_layer": "InfiniBand or Ethernet (RoCE). Some adapters can be switched with mlxconfig (LINK_TYPE_P1)"
        ["link-type-differs"];
    "LINK_TYPE_P1": "the setting of mlxconfig that selects the network of a port: 1 is InfiniBand, 2 is Ethernet"
        ["link-type-differs"];
    "IB(1)": "value of mlxconfig's LINK_TYPE_P1: the port is InfiniBand" ["link-type-differs"];
    "ETH(2)": "value of mlxconfig's LINK_TYPE_P1: the port is Ethernet" ["link-type-differs"];
    "netns shared": "mode of the RDMA subsystem (rdma system): all network namespaces see all RDMA devices"
        ["gid-other-namespace"];
    "netns exclusive": "mode of the RDMA subsystem (rdma system): an RDMA device belongs to one network namespace"
        ["gid-other-namespace", "pod-network"];
    "fw": "devlink health reporter of an mlx5 adapter for errors of its firmware" ["health-reporter-error", "device-fault"];
    "fw_fatal": "devlink health reporter of an mlx5 adapter for fatal errors of its firmware, after which the adapter is reset"
        ["health-reporter-error", "device-fault"];
    "vnic": "devlink health reporter of an mlx5 adapter with counters of a function, such as queues that ran out of buffers"
        ["health-reporter-error"];
    "devlink health": "reports of an adapter's driver about faults and recoveries. devlink health show lists the reporters; \
        state error means that recovery failed" ["health-reporter-error"];
    "health reporter": "a part of a driver that reports faults and recoveries (devlink health show)" ["health-reporter-error"];
    "tx reporter": "devlink health reporter of an mlx5 network device for send queues that stopped"
        ["health-reporter-error", "adapter-timeout"];
    "rx reporter": "devlink health reporter of an mlx5 network device for receive queues that stopped"
        ["health-reporter-error", "adapter-timeout"];
}

rows! {
    /// States of queue pairs (`enum ibv_qp_state`), besides those that are terms of the field.
    QUEUE_STATES:
    "SQD": "the send queue is drained: what was posted is finished, and nothing new begins";
    "SQE": "a request of the send queue failed, and what was posted after it is flushed. The receive queue goes on. Only unreliable queue pairs have \
        this state" ["queue-error"];
    "QPS_ERR": "what was posted is flushed. The first failed completion says why" ["queue-error"];
}
