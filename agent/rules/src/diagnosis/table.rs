//! The table of known causes, those that the field sees most often first.

use super::{
    known::KnownCause,
    symptom::SymptomKind::{
        self, BandwidthLow, CallFailed, CollectiveTimeout, ConnectFailed, ConnectInvalid, ConnectNoData,
        ConnectTimedOut, ConnectUnreachable, Corrupted, CreateFailed, DeviceFatal, DeviceGone, GdrDisabled,
        GdrTooFar, IommuFault, JobFailed, LatencyHigh, MemlockWarning, NoDevice, NoGid, NoLibrary,
        NoProvider, NoSocketInterface, OpenFailed, PeerMemorySymbol, PortError, ProbeFailed, ProbeTimedOut,
        RdmaDisabled, RegMrFailed, RegMrNoMemory, ResourceLimit, SocketFallback,
    },
    weigh,
};

const LOC_LEN: SymptomKind = SymptomKind::Completion(1);
const LOC_QP_OP: SymptomKind = SymptomKind::Completion(2);
const LOC_PROT: SymptomKind = SymptomKind::Completion(4);
const WR_FLUSH: SymptomKind = SymptomKind::Completion(5);
const LOC_ACCESS: SymptomKind = SymptomKind::Completion(8);
const REM_INV_REQ: SymptomKind = SymptomKind::Completion(9);
const REM_ACCESS: SymptomKind = SymptomKind::Completion(10);
const REM_OP: SymptomKind = SymptomKind::Completion(11);
const RETRY_EXC: SymptomKind = SymptomKind::Completion(12);
const RNR_RETRY_EXC: SymptomKind = SymptomKind::Completion(13);
const FATAL: SymptomKind = SymptomKind::Completion(19);
const RESP_TIMEOUT: SymptomKind = SymptomKind::Completion(20);
const GENERAL: SymptomKind = SymptomKind::Completion(21);

/// Every known cause.
pub static CAUSES: &[KnownCause] = &[
    KnownCause {
        id: "iommu-translation",
        title: "The IOMMU translates the DMA addresses of RDMA functions or GPUs",
        explanation: "In translation mode an adapter that is handed a peer's physical address reaches nothing, or the IOMMU \
            refuses the transfer: GPU memory over RDMA ends with IBV_WC_LOC_PROT_ERR. Host memory works and is slower.",
        next_step: "Look at the types under /sys/kernel/iommu_groups: only identity is passthrough. Boot with iommu=pt.",
        rules: &[
            "iommu-memory-encryption",
            "iommu-group-translated",
            "iommu-faults",
            "iommu-regressed",
            "iommu-cmdline-mismatch",
        ],
        often: &[LOC_PROT, IommuFault],
        sometimes: &[
            REM_OP,
            LOC_ACCESS,
            RETRY_EXC,
            WR_FLUSH,
            GENERAL,
            BandwidthLow,
            LatencyHigh,
            Corrupted,
            ProbeTimedOut,
        ],
        weigh: weigh::iommu,
    },
    KnownCause {
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
    },
    KnownCause {
        id: "acs-redirect",
        title: "PCIe Access Control Services redirect traffic between GPU and NIC",
        explanation: "With request or completion redirect on, a bridge sends peer-to-peer traffic up to the root complex instead \
            of straight to the peer. That ends with IBV_WC_LOC_PROT_ERR, or at a fraction of the speed.",
        next_step: "As root, look at ACSCtl of the bridges above GPU and NIC: lspci -vvv | grep ACSCtl. ReqRedir+ or CmpltRedir+ \
            on bare metal: switch ACS off in the firmware or with setpci.",
        rules: &["acs-redirect"],
        often: &[LOC_PROT],
        sometimes: &[REM_OP, RETRY_EXC, WR_FLUSH, BandwidthLow],
        weigh: weigh::acs,
    },
    KnownCause {
        id: "peer-memory-path",
        title: "There is no working path between GPU memory and the NIC",
        explanation: "A NIC registers GPU memory through nvidia_peermem or DMA-BUF. Without either, registration fails, or NCCL \
            copies through host memory.",
        next_step: "Run modprobe nvidia_peermem and read what it says; on Kubernetes set driver.rdma.enabled=true in the GPU \
            Operator.",
        rules: &[
            "peer-memory-install-order",
            "peer-memory-missing",
            "nv-peer-mem-legacy",
        ],
        often: &[GdrDisabled, PeerMemorySymbol, RegMrFailed],
        sometimes: &[LOC_PROT, REM_OP],
        weigh: weigh::peer_memory,
    },
    KnownCause {
        id: "port-down",
        title: "A port is down",
        explanation: "A port that is not ACTIVE carries nothing; NCCL leaves it out without a word and takes another, or TCP.",
        next_step: "Look at cable and switch port, and at ip link show for the network device.",
        rules: &["port-down"],
        often: &[PortError, NoDevice, SocketFallback],
        sometimes: &[
            RETRY_EXC,
            ConnectInvalid,
            ConnectNoData,
            ConnectTimedOut,
            ConnectUnreachable,
            ConnectFailed,
            NoGid,
            WR_FLUSH,
        ],
        weigh: weigh::port_down,
    },
    KnownCause {
        id: "no-subnet-manager",
        title: "No subnet manager has configured an InfiniBand port",
        explanation: "The link is up, but the port stays in INIT until a subnet manager gives it a LID.",
        next_step: "Start opensm or reach the one of the fabric; then see that the port becomes ACTIVE.",
        rules: &["no-subnet-manager"],
        often: &[NoDevice],
        sometimes: &[RETRY_EXC, ConnectInvalid, SocketFallback],
        weigh: weigh::infiniband_only,
    },
    KnownCause {
        id: "gid-missing",
        title: "A RoCE port has no usable GID",
        explanation: "RoCE v2 takes its GID from an IP address of the network device. Without the address the GID is gone: moving \
            a queue pair to RTR ends with ENODATA or EINVAL.",
        next_step: "Give the port's network device its IP address again (ip addr show), then look at its GIDs: rdma-health check, \
            or show_gids.",
        rules: &["gid-missing"],
        often: &[ConnectNoData, NoGid, ConnectInvalid],
        sometimes: &[
            ConnectTimedOut,
            ConnectUnreachable,
            ConnectFailed,
            ProbeTimedOut,
            RETRY_EXC,
        ],
        weigh: weigh::gid_missing,
    },
    KnownCause {
        id: "gid-index",
        title: "The job uses a GID index that is not RoCE v2 over IPv4 on every device",
        explanation: "One NCCL_IB_GID_INDEX serves all devices. Where it names another kind of GID on one of them, or an empty \
            entry, connecting fails with EINVAL or ENODATA, or packets are lost.",
        next_step: "Unset NCCL_IB_GID_INDEX with NCCL 2.21 or later, which chooses by itself; with an older one set it to the index \
            of the RoCE v2 IPv4 GID and make it the same on all devices.",
        rules: &["gid-index-differs"],
        often: &[ConnectInvalid, ConnectNoData],
        sometimes: &[ConnectTimedOut, ConnectUnreachable, ConnectFailed, RETRY_EXC],
        weigh: weigh::gid_index,
    },
    KnownCause {
        id: "fabric-or-peer",
        title: "The other node, or the network between, does not answer",
        explanation: "The adapter sent and heard nothing. Everything on this node may be right: the peer's port, a switch, a VLAN, \
            a firewall for UDP port 4791 or a lossy queue may be wrong.",
        next_step: "Run rdma-health check on the peer that the log names, then ib_write_bw between the two nodes over the same \
            devices and GID index.",
        rules: &[],
        often: &[RETRY_EXC, ConnectTimedOut, RESP_TIMEOUT],
        sometimes: &[
            RNR_RETRY_EXC,
            ConnectUnreachable,
            ConnectFailed,
            CollectiveTimeout,
            REM_OP,
        ],
        weigh: weigh::fabric,
    },
    KnownCause {
        id: "link-quality",
        title: "A link flaps, counts errors or runs below its rate",
        explanation: "Each flap breaks the connections that use it; errors on the wire are repaired by sending again until the retry \
            counter is used up.",
        next_step: "Let the agent watch the error counters for an hour; clean or replace cable and transceiver of a port whose \
            counters rise.",
        rules: &["port-flapping", "counter-errors", "width-degraded", "rate-low"],
        often: &[RETRY_EXC, PortError, BandwidthLow],
        sometimes: &[WR_FLUSH, LatencyHigh, CollectiveTimeout],
        weigh: weigh::link_quality,
    },
    KnownCause {
        id: "device-not-given",
        title: "The node has RDMA devices that the job was not given",
        explanation: "A container sees only the devices it asked for: without an RDMA resource in the pod, or without \
            /dev/infiniband, NCCL finds no device and takes TCP.",
        next_step: "Look into the pod: ls /dev/infiniband and env | grep PCIDEVICE. Ask for the RDMA resource in the pod's limits.",
        rules: &[],
        often: &[NoDevice, SocketFallback],
        sometimes: &[OpenFailed],
        weigh: weigh::device_not_given,
    },
    KnownCause {
        id: "rdma-modules",
        title: "RDMA kernel modules are missing",
        explanation: "Without ib_uverbs there is no /dev/infiniband/uverbs*, without the adapter's module no RDMA device at all.",
        next_step: "Load them: modprobe ib_uverbs, and the adapter's module (mlx5_ib, irdma, bnxt_re).",
        rules: &["rdma-modules-missing", "helper-unhealthy"],
        often: &[NoDevice, OpenFailed],
        sometimes: &[SocketFallback, NoProvider, ProbeFailed, CallFailed],
        weigh: weigh::modules,
    },
    KnownCause {
        id: "virtual-functions",
        title: "Virtual functions are missing or not set up",
        explanation: "A pod gets a virtual function. One that does not exist, has no driver or a GUID of zero cannot be used.",
        next_step: "Compare sriov_numvfs with what is configured, and look at the GUIDs: ip -d link show.",
        rules: &[
            "vfs-missing",
            "vf-without-driver",
            "vf-guid-zero",
            "vf-mac-zero",
            "vf-trust",
        ],
        often: &[NoDevice],
        sometimes: &[SocketFallback, DeviceGone, OpenFailed, RETRY_EXC, ConnectInvalid],
        weigh: weigh::nothing,
    },
    KnownCause {
        id: "guids",
        title: "A GUID is zero, or two devices share one",
        explanation: "A subnet manager and rdma_cm tell devices apart by their GUIDs: of two that share one, one is not reached.",
        next_step: "Compare the GUIDs of all devices: rdma-health check, or ibstat -l and ibstat.",
        rules: &["guid-invalid"],
        often: &[],
        sometimes: &[RETRY_EXC, ConnectInvalid, ConnectTimedOut],
        weigh: weigh::nothing,
    },
    KnownCause {
        id: "job-settings",
        title: "The job's own settings keep it from RDMA",
        explanation: "NCCL_IB_DISABLE, NCCL_IB_HCA, NCCL_SOCKET_IFNAME and NCCL_NET decide what NCCL may use; a name that does not \
            exist on the node leaves nothing.",
        next_step: "Run the job with NCCL_DEBUG=INFO and compare NCCL_IB_HCA and NCCL_SOCKET_IFNAME with the names on this node.",
        rules: &[],
        often: &[RdmaDisabled, NoSocketInterface],
        sometimes: &[NoDevice, SocketFallback],
        weigh: weigh::settings,
    },
    KnownCause {
        id: "no-rdma-device",
        title: "The node has no RDMA device",
        explanation: "There is nothing under /sys/class/infiniband.",
        next_step: "Look for the adapter: lspci | grep -i -e mellanox -e infiniband, and at the kernel's log for its driver.",
        rules: &[],
        often: &[NoDevice, SocketFallback],
        sometimes: &[],
        weigh: weigh::no_device,
    },
    KnownCause {
        id: "devices-missing",
        title: "An RDMA device that should be there is not",
        explanation: "A device fell off the bus, was removed, or never came up; jobs use those that are left, or none.",
        next_step: "Look at lspci and at the kernel's log around the time the device was last there; a power cycle often brings \
            it back.",
        rules: &["hcas-missing"],
        often: &[DeviceGone, NoDevice],
        sometimes: &[SocketFallback, OpenFailed],
        weigh: weigh::nothing,
    },
    KnownCause {
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
    },
    KnownCause {
        id: "device-permission",
        title: "The process may not open the RDMA device",
        explanation: "/dev/infiniband/uverbs* must be there, readable and writable, and allowed by the container's device list.",
        next_step: "Where the job runs: ls -l /dev/infiniband, and ask for the RDMA resource rather than mounting the directory.",
        rules: &[],
        often: &[OpenFailed],
        sometimes: &[CallFailed],
        weigh: weigh::permission,
    },
    KnownCause {
        id: "addressing",
        title: "Addresses or routes of the RDMA network devices do not fit",
        explanation: "Several network devices in one subnet answer for each other unless told not to; a peer in another subnet \
            needs a route. Connecting then ends with ENETUNREACH or ETIMEDOUT, or packets go to the wrong port.",
        next_step: "Run ip route get PEER from LOCAL for the two GIDs' addresses; for several devices in one subnet set arp_ignore, \
            arp_announce and rp_filter.",
        rules: &["same-subnet-arp"],
        often: &[ConnectUnreachable, ConnectTimedOut],
        sometimes: &[RETRY_EXC, NoSocketInterface],
        weigh: weigh::addressing,
    },
    KnownCause {
        id: "mtu",
        title: "The path MTU does not fit",
        explanation: "A port below the MTU of its peer or of the switch makes RDMA slower, or lets large packets vanish.",
        next_step: "Compare the MTU of both ends and of the switch ports; RoCE needs about 60 bytes more than its path MTU.",
        rules: &["mtu-low"],
        often: &[],
        sometimes: &[RETRY_EXC, ConnectInvalid, BandwidthLow, REM_INV_REQ],
        weigh: weigh::mtu,
    },
    KnownCause {
        id: "flow-control",
        title: "RoCE runs without flow control",
        explanation: "Without PFC or ECN a switch drops RoCE packets under load, and each drop costs a timeout.",
        next_step: "Set up PFC or ECN alike on adapters and switches: mlnx_qos or dcb pfc show on the network device.",
        rules: &["roce-flow-control"],
        often: &[],
        sometimes: &[RETRY_EXC, RNR_RETRY_EXC, BandwidthLow, LatencyHigh],
        weigh: weigh::ethernet_only,
    },
    KnownCause {
        id: "hca-resources",
        title: "The adapter or a cgroup allows no more memory regions or queues",
        explanation: "An adapter has room for so many memory keys, queues and pages; a cgroup can lower it (rdma.max). Then \
            registration fails with ENOMEM though the memory-lock limit is high.",
        next_step: "Run rdma resource show, look at rdma.max of the job's cgroup and at the kernel's log for 'limits exceeded'.",
        rules: &[],
        often: &[ResourceLimit],
        sometimes: &[RegMrNoMemory, RegMrFailed, CreateFailed, CallFailed],
        weigh: weigh::resources,
    },
    KnownCause {
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
    },
    KnownCause {
        id: "peer-failed",
        title: "Another rank failed or ended first",
        explanation: "When one end goes away, the other sees flushed requests, missing receive buffers or remote errors.",
        next_step: "Look at the logs of all ranks for the first error in time, and check the node that wrote it.",
        rules: &[],
        often: &[WR_FLUSH, RNR_RETRY_EXC, REM_OP, JobFailed],
        sometimes: &[REM_ACCESS, CollectiveTimeout, ConnectTimedOut],
        weigh: weigh::peer_failed,
    },
    KnownCause {
        id: "gpu-nic-distance",
        title: "A GPU has no NIC near it",
        explanation: "Traffic between a GPU and a NIC below another CPU socket crosses the link between sockets; NCCL then leaves \
            GPUDirect off.",
        next_step: "Look at nvidia-smi topo -m and choose for each GPU a NIC below the same PCIe switch or root port.",
        rules: &["gpu-without-local-nic"],
        often: &[GdrTooFar],
        sometimes: &[BandwidthLow, GdrDisabled],
        weigh: weigh::gpu_only,
    },
    KnownCause {
        id: "host-load",
        title: "The processor is busy, saves power, or is far from the adapter",
        explanation: "A small operation takes about as long as the processor needs to notice that it has ended: deep sleep (C-states), \
            power saving of the PCIe link (ASPM), other load, or memory of another NUMA node make it longer.",
        next_step: "Look at what changed since: cpupower idle-info and frequency-info, the kernel's arguments for idle states and ASPM, \
            the load of the adapter's NUMA node; then probe again: rdma-health check --probe.",
        rules: &[],
        often: &[LatencyHigh],
        sometimes: &[BandwidthLow],
        weigh: weigh::host_load,
    },
    KnownCause {
        id: "pci-path",
        title: "The adapter's PCIe link does less than it could",
        explanation: "Speed, width and the largest read request of the PCIe link bound what the port can do.",
        next_step: "Compare LnkSta with LnkCap: lspci -vv -s ADDRESS; reseat the adapter where both ends can do more.",
        rules: &["pci-link-degraded", "pci-max-read-request"],
        often: &[BandwidthLow],
        sometimes: &[LatencyHigh],
        weigh: weigh::pci_path,
    },
    KnownCause {
        id: "pci-errors",
        title: "The adapter's PCIe link has errors",
        explanation: "Advanced Error Reporting counts errors between the adapter and its slot; uncorrectable ones take it away.",
        next_step: "Reseat or replace adapter and riser; look at the kernel's log for AER.",
        rules: &["pci-aer-errors"],
        often: &[DeviceFatal, DeviceGone],
        sometimes: &[BandwidthLow, LatencyHigh, Corrupted, FATAL],
        weigh: weigh::nothing,
    },
    KnownCause {
        id: "device-fault",
        title: "The adapter or its firmware does not work",
        explanation: "The device went away, reported a fatal error or answers no more.",
        next_step: "Look at the kernel's log for the driver's words (dmesg | grep -e mlx5 -e irdma -e bnxt), then, once the node \
            is empty of jobs, update the firmware or reset the adapter.",
        rules: &[],
        often: &[DeviceFatal, DeviceGone, FATAL, Corrupted],
        sometimes: &[ProbeTimedOut, CreateFailed, CallFailed, OpenFailed],
        weigh: weigh::device_fault,
    },
    KnownCause {
        id: "helper-missing",
        title: "The verbs helper is not installed, or cannot be reached",
        explanation: "rdma-health-verbs asks libibverbs on behalf of rdma-health. Without it nothing is known of path MTUs and no \
            port is probed; RDMA itself may work.",
        next_step: "Install rdma-health-verbs beside rdma-health or in PATH, or say where it is (--helper, --helper-socket, \
            helper.program, helper.socket); in a pod, use an image that holds it, or look at the container behind the socket.",
        rules: &["helper-unhealthy"],
        often: &[],
        sometimes: &[],
        weigh: weigh::nothing,
    },
    KnownCause {
        id: "helper-fails",
        title: "The verbs helper fails instead of answering",
        explanation: "Something ends the process that asks libibverbs - a signal, a provider that crashes - or it answers what \
            makes no sense here: another version, a libibverbs that lists no devices. No device needs to be broken for that.",
        next_step: "Read how it ended and what it said (in a pod: kubectl logs -c verbs POD); run rdma-health probe, and ibv_devinfo, which loads the same providers. \
            Where that ends alike, update rdma-core; where a signal ended it, look at memory limits and at the kernel's log \
            (oom-kill, segfault). Where the version does not fit, install helper and rdma-health from one release.",
        rules: &["helper-unhealthy"],
        often: &[],
        sometimes: &[],
        weigh: weigh::nothing,
    },
    KnownCause {
        id: "device-stalled",
        title: "A device or its driver does not answer",
        explanation: "Calls that touch the device hang: its driver waits for firmware that does not answer.",
        next_step: "Look at the kernel's log for hung tasks and command timeouts of the driver; the node needs a reset of the \
            adapter or a reboot, which cut every job's connections.",
        rules: &["helper-unhealthy"],
        often: &[ProbeTimedOut],
        sometimes: &[CollectiveTimeout],
        weigh: weigh::stalled,
    },
    KnownCause {
        id: "driver-firmware",
        title: "Driver or firmware is not the expected one, or not that of the other adapters",
        explanation: "One adapter behaves unlike its siblings: features differ, and faults appear on one rail only.",
        next_step: "Bring all adapters of one kind to the same driver and firmware.",
        rules: &["driver-unexpected", "firmware-mixed"],
        often: &[],
        sometimes: &[DeviceFatal, RETRY_EXC, BandwidthLow],
        weigh: weigh::nothing,
    },
    KnownCause {
        id: "software-rdma",
        title: "RDMA is done in software",
        explanation: "rdma_rxe and siw move data by the CPU: right for tests, a tenth of the speed of an adapter.",
        next_step: "Use the adapter's own RDMA device; remove the software device: rdma link delete NAME.",
        rules: &["softroce-in-use"],
        often: &[BandwidthLow],
        sometimes: &[LatencyHigh],
        weigh: weigh::software,
    },
    KnownCause {
        id: "iommu-next-boot",
        title: "The IOMMU mode in effect is not the one on the kernel command line",
        explanation: "Passthrough is in effect though the command line asks for translation: the next boot may undo it.",
        next_step: "Put iommu=pt on the kernel command line.",
        rules: &["iommu-cmdline-mismatch"],
        often: &[],
        sometimes: &[],
        weigh: weigh::nothing,
    },
];
