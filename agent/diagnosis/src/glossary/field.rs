//! Terms of the field: protocols, objects of verbs, PCIe, the IOMMU.

rows! {
    /// Terms of the field.
    FIELD:
    "PFC": "priority flow control (IEEE 802.1Qbb): a full receiver pauses one priority of the sender, so that RoCE loses no \
        packets. Adapter, DSCP mapping and every switch must agree on the priority"
        ["roce-flow-control", "pfc-unreachable", "pause-storm", "flow-control"];
    "ECN": "explicit congestion notification: a switch marks packets instead of dropping them; the receiver answers with a CNP"
        ["roce-flow-control", "flow-control"];
    "CNP": "congestion notification packet of RoCE v2: the receiver of a marked packet asks the sender to slow down (counters \
        np_cnp_sent, rp_cnp_handled). Some are normal; many mean congestion" ["roce-flow-control", "flow-control"];
    "DCQCN": "the congestion control of RoCE v2 adapters: ECN marks, CNPs, and a rate limit per flow"
        ["roce-flow-control", "flow-control"];
    "ACS": "PCIe Access Control Services: with redirection on, a bridge sends traffic between GPU and NIC up to the root \
        complex" ["acs-redirect"];
    "ATS": "PCIe Address Translation Services: a device caches translations of the IOMMU" ["iommu-translation"];
    "IOMMU": "the unit that translates the addresses of DMA. RDMA with GPUs needs passthrough (iommu=pt)"
        ["iommu-translation", "iommu-group-translated"];
    "GDR": "GPUDirect RDMA: the NIC reads and writes GPU memory itself" ["peer-memory-path", "gdr-disabled", "gpu-nic-distance"];
    "GPUDirect": "the NIC reads and writes GPU memory itself, through nvidia_peermem or DMA-BUF"
        ["peer-memory-path", "gdr-disabled"];
    "DMA-BUF": "the kernel's way to share GPU memory with a NIC, without nvidia_peermem" ["peer-memory-path"];
    "nvidia_peermem": "the module through which a NIC registers memory of NVIDIA GPUs"
        ["peer-memory-missing", "peer-memory-install-order"];
    "ib_register_peer_memory_client": "the function of ib_core in NVIDIA's RDMA driver package with which nvidia_peermem registers itself. \
        The kernel's own ib_core does not have it: build the GPU driver after the RDMA driver package, or use DMA-BUF"
        ["peer-memory-symbol", "peer-memory-path"];
    "IBV_ACCESS_REMOTE_ATOMIC": "the access flag (8) with which a memory region permits atomic operations of the peer. Adapters without atomics \
        refuse it (EINVAL); ibv_devinfo -v shows atomic_cap" ["reg-mr-failed", "unsupported-adapter"];
    "IBV_ACCESS_REMOTE_WRITE": "the access flag (2) with which a memory region permits the peer to write to it. It needs IBV_ACCESS_LOCAL_WRITE, too"
        ["IBV_WC_REM_ACCESS_ERR", "application-memory"];
    "IBV_ACCESS_REMOTE_READ": "the access flag (4) with which a memory region permits the peer to read it"
        ["IBV_WC_REM_ACCESS_ERR", "application-memory"];
    "IBV_ACCESS_LOCAL_WRITE": "the access flag (1) with which the adapter may write to a memory region, as a receive buffer needs"
        ["IBV_WC_LOC_PROT_ERR", "application-memory"];
    "IBV_ACCESS_RELAXED_ORDERING": "the access flag with which the adapter may write to a memory region out of order over PCIe"
        ["pci-below-port-rate"];
    "memlock": "the limit of memory that a process may lock (RLIMIT_MEMLOCK), which registration needs"
        ["memlock-low", "memlock-limit"];
    "GID": "the address of an RDMA port. On RoCE, each IP address has GIDs, and a job chooses one by its index"
        ["gid-missing", "gid-index"];
    "PKEY": "the partition key of InfiniBand, which the subnet manager gives to a port" ["partition-key-missing"];
    "SM": "the subnet manager of InfiniBand, which makes ports ACTIVE" ["no-subnet-manager"];
    "RNR": "receiver not ready: the receiver had no buffer posted. After as many retries as the queue pair allows, the sender \
        fails" ["IBV_WC_RNR_RETRY_EXC_ERR", "peer-failed"];
    "CQE": "an entry of a completion queue. With an error it has a status, and on mlx5 a vendor syndrome"
        ["IBV_WC_RETRY_EXC_ERR", "IBV_WC_LOC_PROT_ERR"];
    "AER": "PCIe Advanced Error Reporting" ["pci-aer-errors", "pci-fault-logged"];
    "REJ": "the answer of rdma_cm's peer that rejects a connection; its reason says why"
        ["connect-refused", "no-listener-answered"];
    "NCCL WARN": "NCCL's only level for what goes wrong. The text after it says what";
    "ACS control": "the bits of PCIe Access Control Services that lspci -vvv prints as ACSCtl: SrcValid, ReqRedir, \
        CmpltRedir, UpstreamFwd. ReqRedir+ or CmpltRedir+ on a bridge sends traffic between GPU and NIC through the root \
        complex" ["acs-redirect"];
    "ACSCtl": "the active bits of PCIe Access Control Services, as lspci -vvv prints them. ReqRedir+ or CmpltRedir+ on a \
        bridge sends traffic between GPU and NIC through the root complex" ["acs-redirect"];
    "adaptive routing": "switches spread the packets of one flow over several paths. Packets then arrive out of order, which \
        the adapters of both ends must support";
    "AETH": "the header of an acknowledgement. Its syndrome says ACK, RNR NAK or NAK with a reason";
    "AH": "address handle: where packets of an unreliable queue pair go, and for RoCE the GID and MAC of the peer" ["addressing"];
    "BAR1": "the PCIe window through which other devices reach the memory of a GPU. GPUDirect RDMA can map only as much \
        memory as fits in it" ["peer-memory-path", "gpu-bar-address"];
    "BER": "bit error rate of a link: bits received wrong per bit received, before (raw) or after (effective) forward error \
        correction" ["bit-errors-high", "link-quality"];
    "BTH": "the base transport header of each InfiniBand or RoCE packet: operation, partition key, queue pair and packet \
        sequence number";
    "CM": "connection manager: the protocol with which two queue pairs exchange numbers and parameters (rdma_cm, ib_cm)"
        ["cm-connect-failed"];
    "CQ": "completion queue: the adapter reports here how each work request ended" ["IBV_WC_RETRY_EXC_ERR", "queue-error"];
    "DC": "dynamically connected transport of mlx5 adapters: one queue pair reaches many peers";
    "DCI": "the sending queue pair of the dynamically connected transport of mlx5 adapters";
    "DCT": "the receiving end of the dynamically connected transport of mlx5 adapters";
    "DEVX": "the interface through which libraries (UCX, DPDK, NVSHMEM) send commands to the firmware of an mlx5 adapter \
        directly" ["gpu-initiated-setup"];
    "DMAR": "the Intel IOMMU, as the kernel log names it (DMA remapping)" ["iommu-translation", "iommu-faults"];
    "AMD-Vi": "the AMD IOMMU, as the kernel log names it" ["iommu-translation", "iommu-faults"];
    "SMMU": "the IOMMU of Arm machines" ["iommu-translation", "iommu-faults"];
    "VT-d": "Intel's IOMMU" ["iommu-translation"];
    "IOVA": "the address that a device uses for DMA. With a translating IOMMU it is not the physical address"
        ["iommu-translation"];
    "SWIOTLB": "bounce buffers: memory of the host into which DMA is copied if a device cannot reach the memory itself, or if \
        it is encrypted (confidential virtual machines)" ["iommu-memory-encryption"];
    "SEV-SNP": "memory encryption of virtual machines by AMD. On a host with it the kernel keeps the IOMMU translating"
        ["iommu-memory-encryption"];
    "iommu=pt": "kernel parameter: devices of the host use physical addresses (passthrough, IOMMU groups of type identity). \
        Right for RDMA with GPUs" ["iommu-group-translated", "iommu-cmdline-mismatch"];
    "iommu.passthrough=1": "kernel parameter: devices of the host use physical addresses (passthrough); the usual form on Arm"
        ["iommu-group-translated", "iommu-cmdline-mismatch"];
    "iommu.strict=1": "kernel parameter: the IOMMU forgets each address as soon as it is unmapped. It slows devices whose \
        addresses are translated" ["iommu-translation"];
    "intel_iommu=on": "kernel parameter that enables the Intel IOMMU. Without iommu=pt, devices of the host are translated"
        ["iommu-group-translated"];
    "amd_iommu=on": "not a value that Linux knows: the AMD IOMMU is on by default. iommu=pt selects passthrough, \
        amd_iommu=off disables it" ["iommu-group-translated"];
    "intel_iommu=off": "kernel parameter that disables the Intel IOMMU: no address is translated, and no device can be given \
        to a virtual machine" ["iommu-translation"];
    "amd_iommu=off": "kernel parameter that disables the AMD IOMMU: no address is translated, and no device can be given to a \
        virtual machine" ["iommu-translation"];
    "identity": "type of an IOMMU group whose devices use physical addresses: passthrough" ["iommu-group-translated"];
    "DMA-FQ": "type of an IOMMU group whose addresses are translated, with delayed (lazy) invalidation"
        ["iommu-group-translated"];
    "passthrough": "mode of the IOMMU in which devices of the host use physical addresses. Right for RDMA with GPUs"
        ["iommu-group-translated"];
    "pcie_acs_override": "parameter of patched kernels that makes IOMMU groups smaller for virtual machines. It does not turn \
        off redirection between GPU and NIC" ["acs-redirect"];
    "DSCP": "six bits of the IP header by which switches and adapters choose the priority (traffic class) of a packet. RoCE \
        needs the same mapping everywhere" ["roce-flow-control"];
    "ETS": "enhanced transmission selection (IEEE 802.1Qaz): how traffic classes share the bandwidth of a port"
        ["roce-flow-control"];
    "DCBX": "the protocol with which a switch and an adapter agree on priorities and flow control" ["roce-flow-control"];
    "traffic class": "the queue of a port for packets of some priorities; in verbs the field of the GRH with the DSCP"
        ["roce-flow-control"];
    "service level": "the class of an InfiniBand packet, which switches map to a virtual lane";
    "global pause": "flow control of a whole link (IEEE 802.3x). RoCE normally uses priority flow control instead"
        ["roce-flow-control", "pause-storm"];
    "FEC": "forward error correction: the link adds redundancy and repairs bits. Both ends must use the same code (RS or FC), \
        or the link stays down" ["bit-errors-high", "port-down"];
    "RS-FEC": "Reed-Solomon forward error correction, which links from 25 Gb/s per lane on need. Both ends must use it"
        ["bit-errors-high", "port-down"];
    "FC-FEC": "forward error correction of 10 and 25 Gb/s links (BASE-R, Fire code). Both ends must use it" ["bit-errors-high"];
    "LLR": "link-level retransmission: the two ends of a link repeat damaged cells. It hides errors until there are too many"
        ["link-quality"];
    "GRH": "global route header of an InfiniBand packet, with source and destination GID. RoCE packets always have it"
        ["gid-missing"];
    "GUID": "the 64-bit identity of an InfiniBand device or port. It must be unique in the fabric and not zero"
        ["guid-invalid", "guids"];
    "node GUID": "the 64-bit identity of an RDMA device. rdma_cm needs one that is not zero" ["guid-invalid", "vf-guid-zero"];
    "HCA": "host channel adapter: an RDMA adapter" ["no-rdma-device"];
    "RNIC": "an RDMA adapter for Ethernet" ["no-rdma-device"];
    "ICRC": "the checksum of a RoCE or InfiniBand packet that switches do not change" ["link-quality"];
    "infiniband": "a network for RDMA with its own links, switches and addresses. A subnet manager configures the ports"
        ["no-subnet-manager"];
    "IPoIB": "IP over InfiniBand: a network device (ib0) on an InfiniBand port. rdma_cm uses its address"
        ["addressing", "multicast-join-refused"];
    "iWARP": "RDMA over TCP, of Intel and Chelsio adapters. It has no GIDs to choose and needs rdma_cm";
    "RoCE": "RDMA over Converged Ethernet: InfiniBand's transport on Ethernet. Version 2 uses UDP port 4791 over IP"
        ["gid-missing", "roce-flow-control"];
    "RoCE v1": "RoCE without IP, EtherType 0x8915: it cannot be routed. GIDs of type IB/RoCE v1 use it" ["gid-index"];
    "RoCE v2": "RDMA over Ethernet with UDP port 4791 over IP. A job must choose a GID of this type" ["gid-index", "gid-missing"];
    "SRD": "scalable reliable datagram: the transport of AWS's adapter EFA. It is reliable and does not keep packets in order";
    "EFA": "Elastic Fabric Adapter: AWS's RDMA adapter. It has no RoCE, no rdma_cm and no GID to choose; jobs use it through \
        libfabric" ["unsupported-adapter"];
    "LAG": "link aggregation: ports of one adapter as one RDMA device (mlx5_bond_0) over a bond" ["bond-degraded"];
    "bond": "several network devices as one. mlx5 makes one RDMA device of a bond over two ports of an adapter" ["bond-degraded"];
    "LID": "the address of an InfiniBand port within its subnet, from the subnet manager. 0 or 65535: none yet. RoCE has none"
        ["no-subnet-manager"];
    "SM LID": "the address of the subnet manager. 0: the port has not heard of one" ["no-subnet-manager"];
    "LMC": "number of low bits of a LID that may vary, for several paths to one port";
    "lkey": "the key with which an adapter accepts a local buffer of a work request" ["IBV_WC_LOC_PROT_ERR"];
    "rkey": "the key with which an adapter accepts an access of the peer to its memory" ["IBV_WC_REM_ACCESS_ERR"];
    "MKey": "the adapter's entry for a memory region of mlx5; lkey and rkey name it. An adapter has a limited number"
        ["hca-resources"];
    "MAD": "management datagram of InfiniBand, of the subnet manager and of tools such as ibstat (/dev/infiniband/umad)"
        ["no-subnet-manager"];
    "SMI": "the interface of subnet management packets: queue pair 0" ["no-subnet-manager"];
    "GSI": "the interface of other management packets, such as those of rdma_cm: queue pair 1" ["cm-connect-failed"];
    "SA": "subnet administration: the part of the subnet manager that answers queries about paths" ["no-subnet-manager"];
    "MR": "memory region: memory that is registered with an adapter and locked" ["reg-mr-failed", "memlock-limit"];
    "MTT": "memory translation table of an mlx adapter: its pages of registered memory" ["hca-resources"];
    "MTU": "the largest packet. RoCE and InfiniBand use 256 to 4096 bytes for RDMA (active_mtu); the MTU of the Ethernet \
        device must be larger" ["mtu-low", "mtu"];
    "active_mtu": "the RDMA MTU that a port uses now. On RoCE it follows the MTU of the network device: 4096 needs about 4200 \
        there" ["mtu-low"];
    "NAK": "negative acknowledgement: the receiver refuses a packet: wrong sequence, invalid request, no access, or not ready";
    "NUMA": "memory and PCIe slots near one CPU socket. A job is fastest on cores near its adapter"
        ["host-load", "gpu-nic-distance"];
    "ODP": "on-demand paging: an adapter that uses memory which is not locked" ["reg-mr-failed"];
    "PD": "protection domain: queues and memory regions in one domain may be used together" ["create-failed"];
    "PSN": "packet sequence number, by which a receiver finds lost packets";
    "QP": "queue pair: the two queues, send and receive, of one connection or endpoint" ["queue-error"];
    "QPN": "the number of a queue pair";
    "RC": "reliable connection: the transport of most RDMA traffic, with acknowledgements and retries" ["IBV_WC_RETRY_EXC_ERR"];
    "UC": "unreliable connection: no acknowledgements";
    "UD": "unreliable datagram: single packets without acknowledgement, to any peer";
    "XRC": "extended reliable connection: processes of a node share the receiving end of connections";
    "rail": "the adapters with the same place in each node, which are connected to the same switches" ["rail-addresses"];
    "RDMA": "remote direct memory access: an adapter reads and writes the memory of another machine without its CPU";
    "relaxed ordering": "permission for PCIe to reorder writes. It raises the bandwidth of adapters on some hosts and in \
        virtual machines" ["pci-below-port-rate"];
    "RTR": "ready to receive: the state of a queue pair after it has learned the address of its peer. A failure here is about \
        addresses: GID, route, MTU" ["connect-failed", "addressing"];
    "RTS": "ready to send: the last state of a queue pair" ["rts-refused"];
    "SHARP": "reduction of data in InfiniBand switches. Without it, collective operations use the nodes"
        ["sharp-unavailable", "aggregation-manager"];
    "SF": "subfunction: a part of an mlx5 adapter with its own devices, without its own PCI function";
    "SGE": "one buffer of a work request: address, length and lkey" ["IBV_WC_LOC_PROT_ERR"];
    "SR-IOV": "an adapter that shows several PCI functions, which pods or virtual machines use"
        ["vfs-missing", "virtual-functions"];
    "PF": "physical function: the PCI function of an adapter that the host manages";
    "VF": "virtual function: a PCI function of an adapter that a pod or a virtual machine uses (SR-IOV)"
        ["vfs-missing", "vf-without-driver", "virtual-functions"];
    "representor": "the network device of the host or DPU that stands for a virtual function in the switch of the adapter";
    "switchdev": "mode of an adapter in which the host programs its switch; legacy is the other one";
    "SRQ": "shared receive queue: several queue pairs take their receive buffers from it";
    "UAR": "user access region: the page with the doorbells of an mlx5 adapter. GPU-initiated communication maps it into the \
        GPU" ["gpu-initiated-setup"];
    "UMR": "user-mode memory registration: changes the mapping of a memory key by a work request";
    "VL": "virtual lane of an InfiniBand link, with its own credits";
    "credits": "permissions to send. A sender without credits of the receiver waits (port_xmit_wait), as a PCIe device \
        without credits does";
    "WQE": "a work request as the adapter reads it";
    "EEH": "error handling of PCIe on IBM Power: a device with an error is isolated and reset" ["pci-errors"];
    "DPC": "PCIe Downstream Port Containment: a port that sees a fatal error cuts off the device below it"
        ["pci-fault-logged", "pci-errors"];
    "BadTLP": "PCIe: a packet arrived damaged and was sent again (correctable). Many of them mean a bad slot, riser or cable"
        ["pci-aer-errors"];
    "BadDLLP": "PCIe: a packet of the link layer arrived damaged (correctable). Many of them mean a bad slot, riser or cable"
        ["pci-aer-errors"];
    "RxErr": "PCIe: the receiver saw a damaged symbol (correctable). Many of them mean a bad slot, riser or cable"
        ["pci-aer-errors"];
    "Rollover": "PCIe: a packet was sent four times without acknowledgement (correctable)" ["pci-aer-errors"];
    "CmpltTO": "PCIe completion timeout: a device did not answer a read in time (uncorrectable)" ["pci-aer-errors", "pci-errors"];
    "CmpltAbrt": "PCIe completer abort: a device refused a request (uncorrectable)" ["pci-aer-errors", "pci-errors"];
    "UnxCmplt": "PCIe: an answer to a request that the device did not make (uncorrectable)" ["pci-aer-errors"];
    "UnsupReq": "PCIe: a request that the device does not support (uncorrectable, often without a consequence at start)"
        ["pci-aer-errors"];
    "ECRC": "PCIe: the end-to-end checksum of a packet is wrong (uncorrectable)" ["pci-aer-errors"];
    "MalfTLP": "PCIe: a packet that violates the rules (uncorrectable, fatal)" ["pci-aer-errors", "pci-errors"];
    "SDES": "PCIe surprise down: the link below a port went down without notice (uncorrectable, fatal)"
        ["pci-aer-errors", "pci-errors"];
    "SurpriseDown": "PCIe: the link below a port went down without notice (uncorrectable, fatal)"
        ["pci-aer-errors", "pci-errors"];
    "DLP": "PCIe: a violation of the protocol of the link layer (uncorrectable, fatal)" ["pci-aer-errors", "pci-errors"];
    "severity=Corrected": "PCIe repaired the error. Single ones are normal; many of them mean a bad slot, riser or cable"
        ["pci-aer-errors"];
    "severity=Uncorrected": "PCIe lost a packet. Non-fatal: one transfer failed. Fatal: the link is not reliable and is reset"
        ["pci-aer-errors", "pci-errors"];
    "TLP": "a packet of PCIe" ["pci-aer-errors"];
    "LnkSta": "the present speed and width of a PCIe link, as lspci -vvv prints it. (downgraded): below what both ends support"
        ["pci-link-degraded"];
    "LnkCap": "the highest speed and width of a PCIe port, as lspci -vvv prints it" ["pci-link-degraded"];
    "downgraded": "lspci's word for a PCIe link below what the device supports in speed or width" ["pci-link-degraded"];
    "N.N GT/s": "speed of a PCIe lane: 2.5 is generation 1, 5.0 is 2, 8.0 is 3, 16.0 is 4, 32.0 is 5 and 64.0 is 6"
        ["pci-link-degraded"];
    "N.N GT/s PCIe": "speed of a PCIe lane: 2.5 is generation 1, 5.0 is 2, 8.0 is 3, 16.0 is 4, 32.0 is 5 and 64.0 is 6"
        ["pci-link-degraded"];
    "MaxReadReq": "the largest amount that a PCIe device reads at once. 512 bytes can limit an adapter; 4096 is usual"
        ["pci-max-read-request"];
    "MaxPayload": "the largest data of a PCIe packet, the smallest that all devices of the path support";
    "SDR": "InfiniBand speed of 2.5 Gb/s per lane (signalling rate)" ["rate-low"];
    "QDR": "InfiniBand speed of 10 Gb/s per lane (signalling rate)" ["rate-low"];
    "FDR": "InfiniBand speed of 14 Gb/s per lane" ["rate-low"];
    "EDR": "InfiniBand speed of 25 Gb/s per lane, 100 with four lanes" ["rate-low"];
    "HDR": "InfiniBand speed of 50 Gb/s per lane, 200 with four lanes" ["rate-low"];
    "NDR": "InfiniBand speed of 100 Gb/s per lane, 400 with four lanes" ["rate-low"];
    "XDR": "InfiniBand speed of 200 Gb/s per lane, 800 with four lanes" ["rate-low"];
    "NCCL": "NVIDIA's library for communication between GPUs. Over RDMA it uses libibverbs, or libfabric through a plugin"
        ["job-settings"];
    "RCCL": "AMD's library for communication between GPUs, derived from NCCL" ["job-settings"];
    "NVLink": "NVIDIA's link between GPUs" ["gpu-link-error-logged"];
    "NVSwitch": "NVIDIA's switch between the GPUs of a node or rack" ["gpu-link-error-logged"];
    "IBGDA": "GPU-initiated RDMA (InfiniBand GPUDirect Async): a GPU rings the doorbells of the adapter itself"
        ["gpu-initiated-setup"];
    "SXid": "an error that NVIDIA's driver reports of an NVSwitch. What a number means is not listed here; NVIDIA's Fabric \
        Manager guide lists them" ["gpu-errors-logged"];
    "SXid N": "an error that NVIDIA's driver reports of an NVSwitch. What this number means is not listed here; NVIDIA's \
        Fabric Manager guide lists them" ["gpu-errors-logged"];
}
