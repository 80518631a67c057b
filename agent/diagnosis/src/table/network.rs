//! Ports, their GIDs and addresses, and the network between nodes.

use rdma_health_rules::{
    FindingCase,
    domain::{
        adapter_events, bond, gids, link, neighbour_table, network, optics, pods, priorities, rails, rate,
        signal, trend,
    },
};

use super::{LOC_LEN, REM_INV_REQ, REM_OP, RESP_TIMEOUT, RETRY_EXC, RNR_RETRY_EXC, WR_FLUSH};
use crate::symptom::SymptomKind::{
    AdapterHot, AddressInUse, AddressUnresolved, BandwidthLow, BondMemberDown, CmFailed, CollectiveTimeout,
    ConnectFailed, ConnectIncompatible, ConnectInvalid, ConnectNoData, ConnectNoDevice, ConnectRefused,
    ConnectTimedOut, ConnectUnreachable, DefaultSubnetPrefix, DeviceAbsent, ExchangeFailed, GidChanged,
    GidUnusable, GuidDuplicated, GuidZero, InitRefused, InterfaceHidden, JoinRefused, LatencyHigh,
    LinkDegraded, LinkTypeOther, ManagerNotStarted, ModuleFault, MtuDiffers, NeighbourTableFull, NoDevice,
    NoGid, NoSocketInterface, NoSubnetManager, NoVirtualNetwork, PauseStorm, PeerClosed, PeerUnreachable,
    PkeyMissing, PortError, PortInitializing, PortNotActive, PortUnauthorised, ProbeTimedOut, QueueFull,
    RouteUnresolved, SharpUnavailable, SocketFallback,
};
use crate::{known::KnownCause, weigh};

pub(super) static PORT_DOWN: KnownCause = KnownCause {
    id: "port-down",
    title: "A port is down",
    explanation: "A port that is not ACTIVE carries no traffic. NCCL silently skips it and uses another port, or TCP.",
    next_step: "Check the cable, the switch port, and ip link show for the network device.",
    // What explains that the port is down first.
    rules: &[
        &adapter_events::CABLE_UNPLUGGED,
        &adapter_events::MODULE_FAULT,
        &link::PORT_DOWN,
        &pods::VF_PORT_DOWN,
    ],
    cases: &[FindingCase::ModuleOff],
    often: &[PortError, NoDevice, SocketFallback, PortNotActive],
    sometimes: &[
        RETRY_EXC,
        ConnectInvalid,
        ConnectNoData,
        ConnectTimedOut,
        ConnectUnreachable,
        ConnectFailed,
        NoGid,
        WR_FLUSH,
        PeerUnreachable,
        AddressUnresolved,
        GidChanged,
    ],
    weigh: weigh::port_down,
};

pub(super) static PORT_AUTHENTICATION: KnownCause = KnownCause {
    id: "port-authentication",
    title: "The switch does not admit the port: its 802.1X authentication fails",
    explanation: "Some RDMA networks, such as cluster networks of clouds, let a port send only after 802.1X: wpa_supplicant presents the \
    node's certificate to the switch. Until then the link is up, but no packet passes.",
    next_step: "Run journalctl -u wpa_supplicant and that of the service that starts it (oci-cn-auth on OCI), and check the certificate that \
    it uses: that it has not expired, and that the clock is right (timedatectl). Renew it, restart the service, and check that \
    wpa_cli -i NETDEV status shows Authorized.",
    rules: &[],
    cases: &[],
    often: &[PortUnauthorised],
    sometimes: &[],
    weigh: weigh::logged,
};

pub(super) static VIRTUAL_NETWORK: KnownCause = KnownCause {
    id: "virtual-network",
    title: "The workload manager gave the job no virtual network (VNI) of the Slingshot fabric",
    explanation: "A process may send over Slingshot only within a virtual network (VNI). The workload manager allocates one to each job step, and \
    allows it to the user of the job on the adapters of its nodes (a CXI service). Processes that are started in another way, over ssh or by a \
    daemon of another launcher, have none. Slurm gives none to a step on one node unless the job requests it.",
    next_step: "Start the job with srun, on one node with srun --network=single_node_vni: only the workload manager can give a job its VNI. Processes that mpirun \
    starts over ssh have none; if those of its own srun have none, update Open MPI (PRRTE). echo $SLINGSHOT_VNIS $SLINGSHOT_SVC_IDS shows what the job got, \
    cxi_service list who may use which service, and scontrol show config | grep -i switch the plugin (switch/hpe_slingshot).",
    rules: &[],
    cases: &[],
    often: &[NoVirtualNetwork],
    sometimes: &[],
    weigh: weigh::logged,
};

pub(super) static LINK_TYPE: KnownCause = KnownCause {
    id: "link-type",
    title: "A port has the link type InfiniBand where the others have Ethernet, or the reverse",
    explanation: "Adapters for both link types (VPI) keep the type in their firmware settings, which a reset of these settings, an update or \
    a replacement changes. The port then finds no partner of its type: it stays down, or waits for a subnet manager.",
    next_step: "Set the link type of the port to that of the others (1 is InfiniBand, 2 is Ethernet) and reset the adapter: mlxconfig -d ADDRESS \
    set LINK_TYPE_P1=TYPE.",
    rules: &[&rails::LINK_TYPE_DIFFERS],
    cases: &[],
    often: &[LinkTypeOther],
    sometimes: &[],
    weigh: weigh::logged,
};

pub(super) static NO_SUBNET_MANAGER: KnownCause = KnownCause {
    id: "no-subnet-manager",
    title: "No subnet manager has configured an InfiniBand port",
    explanation: "The link is up, but the port stays in INIT until a subnet manager gives it a LID.",
    next_step: "Start opensm, or restore the connection to the fabric's subnet manager. Then check that the port becomes \
    ACTIVE: ibstat.",
    rules: &[&link::NO_SUBNET_MANAGER],
    cases: &[],
    often: &[NoDevice, PortInitializing, NoSubnetManager, ManagerNotStarted],
    sometimes: &[
        RETRY_EXC,
        ConnectInvalid,
        SocketFallback,
        RouteUnresolved,
        PortNotActive,
        JoinRefused,
    ],
    weigh: weigh::infiniband_only,
};

pub(super) static PARTITION_KEY: KnownCause = KnownCause {
    id: "partition-key",
    title: "An InfiniBand port is not in the partition (P_Key) of its peers",
    explanation: "Ports reach each other only in a common partition. The subnet manager decides which port belongs to which.",
    next_step: "Compare the partition keys of both ends: grep . /sys/class/infiniband/*/ports/*/pkeys/* | grep -v 0x0000. Correct \
    the partition in the subnet manager.",
    rules: &[&rails::PARTITION_KEY_MISSING],
    cases: &[],
    often: &[InitRefused, JoinRefused, PkeyMissing],
    sometimes: &[RETRY_EXC, ConnectInvalid],
    weigh: weigh::infiniband_member,
};

pub(super) static BOND_DEGRADED: KnownCause = KnownCause {
    id: "bond-degraded",
    title: "A member (slave) of a bond (RoCE LAG) carries no traffic",
    explanation: "The RDMA device of a bond stays ACTIVE while one of its ports works. Another one has no link, or LACP leaves it out: half of the bandwidth is \
    gone.",
    next_step: "Show the members of the bond: cat /proc/net/bonding/BOND. Check cable and switch port of the one that is down, and the port channel of the switch.",
    rules: &[&bond::BOND_DEGRADED],
    cases: &[],
    often: &[BondMemberDown],
    sometimes: &[RETRY_EXC, BandwidthLow],
    weigh: weigh::nothing,
};

pub(super) static GID_MISSING: KnownCause = KnownCause {
    id: "gid-missing",
    title: "A RoCE port has no usable GID",
    explanation: "A RoCE v2 GID comes from an IP address of the network device. Without the address there is no GID, and \
    moving a queue pair to RTR fails with ENODATA or EINVAL.",
    next_step: "Restore the IP address of the port's network device (ip addr show), then check its GIDs with rdma-health \
    check or show_gids.",
    rules: &[&gids::GID_MISSING],
    cases: &[],
    often: &[ConnectNoData, NoGid, ConnectInvalid],
    sometimes: &[
        ConnectTimedOut,
        ConnectUnreachable,
        ConnectFailed,
        ProbeTimedOut,
        RETRY_EXC,
        ConnectNoDevice,
        AddressUnresolved,
        GidChanged,
    ],
    weigh: weigh::gid_missing,
};

pub(super) static GID_INDEX: KnownCause = KnownCause {
    id: "gid-index",
    title: "The job uses a GID index that is not RoCE v2 over IPv4 on every device",
    explanation: "NCCL_IB_GID_INDEX applies to all devices. If that entry is empty or has another GID type on one of them, \
    connecting fails with EINVAL or ENODATA, or packets are lost.",
    next_step: "With NCCL 2.21 or later, unset NCCL_IB_GID_INDEX: NCCL then selects the GID itself. With older versions, set \
    it to the index of the RoCE v2 IPv4 GID, and make that index the same on all devices.",
    rules: &[&gids::GID_INDEX_DIFFERS],
    cases: &[],
    often: &[ConnectFailed, ConnectInvalid, ConnectNoData, NoGid, GidUnusable],
    sometimes: &[
        ConnectTimedOut,
        ConnectUnreachable,
        RETRY_EXC,
        ConnectNoDevice,
        ConnectIncompatible,
    ],
    weigh: weigh::gid_index,
};

pub(super) static GID_OTHER_NAMESPACE: KnownCause = KnownCause {
    id: "gid-other-namespace",
    title: "The device or its GID belongs to another network namespace than the job's",
    explanation: "A RoCE GID is bound to a network device. In a pod, the kernel refuses a GID whose network device is in another \
    network namespace: moving a queue pair to RTR fails with ENODEV, or the entry reads as ::, although the adapter works on the \
    host.",
    next_step: "Where the job runs, compare grep . /sys/class/infiniband/*/ports/1/gid_attrs/ndevs/* with ip -brief link: a device whose \
    network device is not listed cannot be used there. In a pod, attach that network device (SR-IOV, host-device or macvlan network) or use hostNetwork: true. Or \
    restrict the job to the devices that it has: NCCL_IB_HCA, UCX_NET_DEVICES.",
    rules: &[],
    cases: &[],
    often: &[ConnectNoDevice, InterfaceHidden],
    sometimes: &[
        ConnectInvalid,
        ConnectNoData,
        ConnectFailed,
        AddressUnresolved,
        NoGid,
        DeviceAbsent,
    ],
    weigh: weigh::other_namespace,
};

pub(super) static FABRIC_OR_PEER: KnownCause = KnownCause {
    id: "fabric-or-peer",
    title: "The other node, or the network to it, does not respond",
    explanation: "The adapter sent packets and got no response. This node may be healthy. Possible faults are the peer's port, \
    a switch, a VLAN, a firewall for UDP port 4791, or a lossy queue.",
    next_step: "Run rdma-health check on the peer that the log names, then ib_write_bw between the two nodes over the same \
    devices and GID index.",
    rules: &[],
    cases: &[],
    often: &[RETRY_EXC, ConnectTimedOut, RESP_TIMEOUT, PeerUnreachable],
    sometimes: &[
        RNR_RETRY_EXC,
        ConnectUnreachable,
        ConnectFailed,
        CollectiveTimeout,
        REM_OP,
        RouteUnresolved,
        ConnectRefused,
        ExchangeFailed,
        CmFailed,
        PeerClosed,
        WR_FLUSH,
        QueueFull,
    ],
    weigh: weigh::fabric,
};

pub(super) static LINK_QUALITY: KnownCause = KnownCause {
    id: "link-quality",
    title: "A cable or link is faulty, flaps, counts errors or runs below its rate",
    explanation: "Each flap breaks the connections over the link. After an error on the wire the adapter resends, until the \
    retry counter is exceeded.",
    next_step: "Run journalctl -k | grep -i link on the node. Show the error counters twice, with ten minutes between: perfquery on InfiniBand, ethtool -S NETDEV | \
    grep -i err on Ethernet. If those of a port rise, or its link goes down again, clean or replace its cable and transceiver.",
    rules: &[
        &adapter_events::MODULE_FAULT,
        &optics::MODULE_HOT,
        &optics::MODULE_LIGHT_LOW,
        &signal::BIT_ERRORS_HIGH,
        &trend::PORT_FLAPPING,
        &trend::COUNTER_ERRORS,
        &rate::WIDTH_DEGRADED,
        &rate::RATE_LOW,
    ],
    cases: &[FindingCase::ModuleFaulty, FindingCase::LinkErrors],
    often: &[RETRY_EXC, PortError, BandwidthLow, ModuleFault, LinkDegraded],
    sometimes: &[
        WR_FLUSH,
        LatencyHigh,
        CollectiveTimeout,
        PeerUnreachable,
        AdapterHot,
        GidChanged,
    ],
    weigh: weigh::link_quality,
};

pub(super) static GUIDS: KnownCause = KnownCause {
    id: "guids",
    title: "A GUID is zero, or two devices share one",
    explanation: "A subnet manager and rdma_cm identify devices by GUID: if two devices share one, one of them is unreachable.",
    next_step: "Compare the GUIDs of all devices with rdma-health check, or with ibstat -l and ibstat.",
    rules: &[&gids::GUID_INVALID],
    cases: &[],
    often: &[GuidDuplicated, GuidZero],
    sometimes: &[RETRY_EXC, ConnectInvalid, ConnectTimedOut, AddressUnresolved],
    weigh: weigh::guids,
};

pub(super) static ADDRESSING: KnownCause = KnownCause {
    id: "addressing",
    title: "Addresses or routes of the RDMA network devices are wrong",
    explanation: "Network devices in the same subnet answer ARP requests for each other unless configured otherwise, and a peer \
    in another subnet needs a route. Connecting then fails with ENETUNREACH or ETIMEDOUT, or packets go to the wrong port.",
    next_step: "Run ip route get PEER from LOCAL with the addresses of the two GIDs. If several \
    devices are in one subnet: sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2 net.ipv4.conf.all.rp_filter=2.",
    rules: &[&rails::RAIL_ADDRESSES, &network::SAME_SUBNET_ARP],
    cases: &[],
    often: &[
        ConnectUnreachable,
        ConnectTimedOut,
        AddressUnresolved,
        AddressInUse,
        RouteUnresolved,
        GidChanged,
        DefaultSubnetPrefix,
    ],
    sometimes: &[
        RETRY_EXC,
        NoSocketInterface,
        PeerUnreachable,
        ConnectFailed,
        ConnectRefused,
    ],
    weigh: weigh::addressing,
};

pub(super) static NEIGHBOUR_TABLE: KnownCause = KnownCause {
    id: "neighbour-table-full",
    title: "The neighbour (ARP) table of the kernel is full",
    explanation: "The kernel keeps at most gc_thresh3 MAC addresses of peers, 1024 by default, for each address family. A peer that finds no room cannot be \
    resolved, and connecting to it fails or waits. A fleet needs about the number of its nodes times the number of rails.",
    next_step: "Raise the three limits on every node: sysctl -w net.ipv4.neigh.default.gc_thresh1=8192 net.ipv4.neigh.default.gc_thresh2=32768 \
    net.ipv4.neigh.default.gc_thresh3=65536 (net.ipv6.neigh.default.* for ndisc_cache), and keep them in /etc/sysctl.d.",
    rules: &[&neighbour_table::NEIGHBOUR_TABLE_FULL],
    cases: &[],
    often: &[NeighbourTableFull],
    sometimes: &[],
    weigh: weigh::logged,
};

pub(super) static MTU: KnownCause = KnownCause {
    id: "mtu",
    title: "The MTU is too low or differs along the path",
    explanation: "If a port has a lower MTU than its peer or the switch, RDMA is slower, or large packets are dropped.",
    next_step: "Compare the MTU of both ends and of the switch ports. RoCE needs about 60 bytes more than its path MTU.",
    rules: &[&rate::MTU_LOW],
    cases: &[],
    often: &[MtuDiffers],
    sometimes: &[
        RETRY_EXC,
        ConnectInvalid,
        BandwidthLow,
        REM_INV_REQ,
        LOC_LEN,
        JoinRefused,
    ],
    weigh: weigh::mtu,
};

pub(super) static FLOW_CONTROL: KnownCause = KnownCause {
    id: "flow-control",
    title: "Flow control for RoCE is missing, does not apply, or stops the port",
    explanation: "Without PFC or ECN, a switch or port drops RoCE packets under load, and each drop costs a timeout.",
    next_step: "Configure the same PFC or ECN settings on adapters and switches. Check the node with mlnx_qos -i DEVICE or \
    dcb pfc show dev DEVICE.",
    rules: &[
        &signal::PAUSE_STORM,
        &priorities::PFC_UNREACHABLE,
        &network::ROCE_FLOW_CONTROL,
        &trend::COUNTER_ERRORS,
    ],
    cases: &[FindingCase::Congested],
    often: &[PauseStorm],
    sometimes: &[RETRY_EXC, RNR_RETRY_EXC, BandwidthLow, LatencyHigh],
    weigh: weigh::ethernet_only,
};

pub(super) static AGGREGATION: KnownCause = KnownCause {
    id: "aggregation-manager",
    title: "The InfiniBand fabric offers the job no in-network reduction (SHARP)",
    explanation: "SHARP needs an aggregation manager (sharp_am) next to the subnet manager, sharpd or its library on each node, and free \
    resources on the switches. Without one of them NCCL uses its ordinary algorithms, or stops if only SHARP is allowed (NCCL_ALGO).",
    next_step: "On the node of the subnet manager, check that sharp_am runs and what its log says about the job. If the fabric has no SHARP, \
    unset NCCL_COLLNET_ENABLE.",
    rules: &[],
    cases: &[],
    often: &[SharpUnavailable],
    sometimes: &[],
    weigh: weigh::logged,
};
