//! Ports, their addresses, and the network between nodes.

use super::{REM_INV_REQ, REM_OP, RESP_TIMEOUT, RETRY_EXC, RNR_RETRY_EXC, WR_FLUSH};
use crate::diagnosis::symptom::SymptomKind::{
    BandwidthLow, CollectiveTimeout, ConnectFailed, ConnectInvalid, ConnectNoData, ConnectTimedOut,
    ConnectUnreachable, LatencyHigh, NoDevice, NoGid, NoSocketInterface, PortError, ProbeTimedOut,
    SocketFallback,
};
use crate::diagnosis::{known::KnownCause, weigh};

pub(super) static PORT_DOWN: KnownCause = KnownCause {
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
};

pub(super) static NO_SUBNET_MANAGER: KnownCause = KnownCause {
    id: "no-subnet-manager",
    title: "No subnet manager has configured an InfiniBand port",
    explanation: "The link is up, but the port stays in INIT until a subnet manager gives it a LID.",
    next_step: "Start opensm or reach the one of the fabric; then see that the port becomes ACTIVE.",
    rules: &["no-subnet-manager"],
    often: &[NoDevice],
    sometimes: &[RETRY_EXC, ConnectInvalid, SocketFallback],
    weigh: weigh::infiniband_only,
};

pub(super) static GID_MISSING: KnownCause = KnownCause {
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
};

pub(super) static GID_INDEX: KnownCause = KnownCause {
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
};

pub(super) static FABRIC_OR_PEER: KnownCause = KnownCause {
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
};

pub(super) static LINK_QUALITY: KnownCause = KnownCause {
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
};

pub(super) static GUIDS: KnownCause = KnownCause {
    id: "guids",
    title: "A GUID is zero, or two devices share one",
    explanation: "A subnet manager and rdma_cm tell devices apart by their GUIDs: of two that share one, one is not reached.",
    next_step: "Compare the GUIDs of all devices: rdma-health check, or ibstat -l and ibstat.",
    rules: &["guid-invalid"],
    often: &[],
    sometimes: &[RETRY_EXC, ConnectInvalid, ConnectTimedOut],
    weigh: weigh::nothing,
};

pub(super) static ADDRESSING: KnownCause = KnownCause {
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
};

pub(super) static MTU: KnownCause = KnownCause {
    id: "mtu",
    title: "The path MTU does not fit",
    explanation: "A port below the MTU of its peer or of the switch makes RDMA slower, or lets large packets vanish.",
    next_step: "Compare the MTU of both ends and of the switch ports; RoCE needs about 60 bytes more than its path MTU.",
    rules: &["mtu-low"],
    often: &[],
    sometimes: &[RETRY_EXC, ConnectInvalid, BandwidthLow, REM_INV_REQ],
    weigh: weigh::mtu,
};

pub(super) static FLOW_CONTROL: KnownCause = KnownCause {
    id: "flow-control",
    title: "RoCE runs without flow control",
    explanation: "Without PFC or ECN a switch drops RoCE packets under load, and each drop costs a timeout.",
    next_step: "Set up PFC or ECN alike on adapters and switches: mlnx_qos or dcb pfc show on the network device.",
    rules: &["roce-flow-control"],
    often: &[],
    sometimes: &[RETRY_EXC, RNR_RETRY_EXC, BandwidthLow, LatencyHigh],
    weigh: weigh::ethernet_only,
};
