//! Counters that rise because the network is congested or does not answer: no cable explains them.

use rdma_health_node::{
    Port,
    history::{BROKEN_CONNECTIONS, LOST_PACKETS},
};

use super::{COUNTER_ERRORS, Rise};
use crate::{FindingCase, Remedy};

/// Packets that were dropped before they were sent, and senders that slowed down.
const OF_CONGESTION: [&str; 2] = ["port_xmit_discards", "roce_slow_restart"];
/// Packets without an acknowledgement in time.
const UNANSWERED: &str = "local_ack_timeout_err";

/// What the counters of a port that rose mean together, and what to do.
pub(super) fn case(port: &Port<'_>, rises: &[Rise]) -> (FindingCase, Remedy) {
    let all = |is_meant: &dyn Fn(&str) -> bool| rises.iter().all(|rise| is_meant(rise.counter));
    let is_broken = |counter: &str| BROKEN_CONNECTIONS.contains(&counter);
    let is_lost =
        |counter: &str| counter == UNANSWERED || LOST_PACKETS.contains(&counter) || is_broken(counter);
    if all(&|counter| counter == UNANSWERED) {
        (FindingCase::Unanswered, NO_ACKNOWLEDGEMENT)
    } else if all(&is_broken) {
        (FindingCase::Unanswered, BROKEN)
    } else if all(&is_lost) {
        (FindingCase::Unanswered, LOST)
    } else if !all(&|counter| is_lost(counter) || OF_CONGESTION.contains(&counter)) {
        (FindingCase::LinkErrors, COUNTER_ERRORS.remedy)
    } else if port.is_infiniband() {
        (FindingCase::Unanswered, CONGESTED_INFINIBAND)
    } else {
        (FindingCase::Congested, CONGESTED)
    }
}

/// What to do about an Ethernet port that drops what it should send.
const CONGESTED: Remedy = Remedy {
    any: "The network behind this port is congested; its counters show no bad signal, so leave the cable as it is. Compare the flow control settings (PFC, ECN, \
        priorities) of this port with those of its switch port and of the equal ports, and find the receiver that many nodes send to at once.",
    host: "dcb pfc show dev NETDEV, or mlnx_qos -i NETDEV; ethtool -S NETDEV | grep -i -e discard -e pause",
    ..Remedy::all("")
};

/// What to do about an InfiniBand port that drops what it should send.
const CONGESTED_INFINIBAND: Remedy = Remedy {
    any: "The port could not send packets before their lifetime in the fabric ended: what is behind it is congested, or a receiver takes nothing. The counters \
        show no bad signal, so leave the cable as it is. Compare PortXmitWait and PortXmitDiscards of the ports of its switch.",
    host: "perfquery -x; ibqueryerrors",
    ..Remedy::all("")
};

/// What to do about lost packets without another error.
const LOST: Remedy = Remedy {
    any: "Packets of this port are lost on the way. The counters show no bad signal, so leave the cable as it is. Compare the flow control \
        (PFC, ECN, priorities) of this port and of its switch port with that of the equal ports, and read the drop and error counters of the switch port.",
    host: "ethtool -S NETDEV | grep -i -e discard -e pause -e err; mlnx_qos -i NETDEV, or dcb pfc show dev NETDEV",
    ..Remedy::all("")
};

/// What to do about connections that break without another error.
const BROKEN: Remedy = Remedy {
    any: "Connections of this port broke: retries ended without an answer, or the adapter itself gave them up. Read the kernel log for errors of the adapter and \
        the error of the job. Run rdma-health check on the nodes that this one talks to, and read the drop and error counters of the switch ports between them.",
    host: "journalctl -k | grep -e ADDRESS -e NETDEV; rdma statistic show link DEVICE/1",
    ..Remedy::all("")
};

/// What to do about missing acknowledgements without another error.
const NO_ACKNOWLEDGEMENT: Remedy = Remedy {
    any: "The other ends do not acknowledge in time: packets are lost on the way, or a peer has stopped. The counters show no bad signal, so leave the cable as it \
        is. Run rdma-health check on the nodes that this one talks to, read the drop counters of the switch ports between them, and compare PFC and ECN.",
    host: "Ethernet: ethtool -S NETDEV | grep -i -e discard -e pause; InfiniBand: ibqueryerrors",
    ..Remedy::all("")
};
