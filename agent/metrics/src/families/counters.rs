//! Families of port counters, and which file each comes from.

use rdma_health_instrument::{Entry, Family, Kind, families};

pub(crate) const NOTE: &str = "Every file of `/sys/class/infiniband/DEVICE/ports/PORT/counters` and `hw_counters` is \
    exported. A file that the Prometheus node exporter knows has its own family, with the node exporter's suffix. All other \
    files are series of `rdma_port_statistic_total`, or of `rdma_port_level` for the few values that also fall (`active_*` \
    and `watermark_*` of bnxt_re), with the file name as a label. The set of families is fixed: a file never moves from one \
    form to the other.";

families! {
    OTHER: Counter "rdma_port_statistic_total" [""] {"device", "port", "directory", "counter"}
        "A counter of the driver by file name; directory is counters or hw_counters.";
    LEVEL: Gauge "rdma_port_level" [""] {"device", "port", "directory", "level"}
        "A value of the driver that also falls, by file name; directory is counters or hw_counters.";
}

/// The directory that a counter lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Directory {
    /// `counters`.
    Counters,
    /// `hw_counters`.
    HwCounters,
}

impl Directory {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Counters => "counters",
            Self::HwCounters => "hw_counters",
        }
    }
}

/// A counter that has its own family.
#[derive(Debug)]
pub(crate) struct Named {
    /// Where the file lies.
    pub(crate) directory: Directory,
    /// The file's name.
    pub(crate) file: &'static str,
    /// What one unit of the file is in units of the family.
    pub(crate) scale: u32,
    /// The family.
    pub(crate) family: Family<2>,
    /// The node exporter's family.
    pub(crate) legacy: Family<2>,
}

/// The place of a file in [`NAMED`]. A right guess saves the search.
pub(crate) fn position(directory: Directory, file: &str, guess: usize) -> Option<usize> {
    let is_it = |named: &Named| named.directory == directory && named.file == file;
    if NAMED.get(guess).is_some_and(is_it) {
        return Some(guess);
    }
    NAMED
        .binary_search_by(|named| (named.directory, named.file).cmp(&(directory, file)))
        .ok()
}

/// The place of a directory's first file in [`NAMED`].
pub(crate) fn first(directory: Directory) -> usize {
    NAMED.partition_point(|named| named.directory < directory)
}

/// Whether a file that has no family of its own falls as well as rises.
pub(crate) fn is_level(file: &str) -> bool {
    file.starts_with("active_") || file.starts_with("watermark_")
}

/// Every family of a counter.
pub(crate) fn entries() -> impl Iterator<Item = &'static Entry> {
    let named = NAMED.iter().map(|named| named.family.entry());
    named.chain(ALL.iter().copied())
}

/// The node exporter's families of counters.
pub(crate) fn legacy() -> impl Iterator<Item = &'static Entry> {
    NAMED.iter().map(|named| named.legacy.entry())
}

macro_rules! named {
    ($($directory:ident $file:literal $scale:literal $unit:literal: $name:literal $help:literal
        $legacy:literal $legacy_help:literal;)*) => {
        /// Every counter that has its own family, in order of directory and file.
        pub(crate) static NAMED: &[Named] = &[$(Named {
            directory: Directory::$directory,
            file: $file,
            scale: $scale,
            family: Family::new(Kind::Counter, $name, $unit, &["device", "port"], $help),
            legacy: Family::new(Kind::Counter, $legacy, $unit, &["device", "port"], $legacy_help),
        }),*];
    };
}

named! {
    Counters "VL15_dropped" 1 "": "rdma_port_vl15_dropped_total"
        "Management packets (VL15) dropped because of missing resources."
        "node_infiniband_vl15_dropped_total"
        "Number of incoming VL15 packets dropped due to resource limitations.";
    Counters "excessive_buffer_overrun_errors" 1 "": "rdma_port_excessive_buffer_overrun_errors_total"
        "Number of times that buffers overran in more consecutive flow-control periods than configured."
        "node_infiniband_excessive_buffer_overrun_errors_total"
        "Number of times that OverrunErrors consecutive flow control update periods occurred, each having at least one overrun error.";
    Counters "link_downed" 1 "": "rdma_port_link_downed_total"
        "Number of times that the link failed to recover from an error and went down."
        "node_infiniband_link_downed_total"
        "Number of times the link failed to recover from an error state and went down";
    Counters "link_error_recovery" 1 "": "rdma_port_link_error_recovery_total"
        "Number of times that the link recovered from an error."
        "node_infiniband_link_error_recovery_total"
        "Number of times the link successfully recovered from an error state";
    Counters "local_link_integrity_errors" 1 "": "rdma_port_local_link_integrity_errors_total"
        "Number of times that local physical errors exceeded their threshold."
        "node_infiniband_local_link_integrity_errors_total"
        "Number of times that the count of local physical errors exceeded the threshold specified by LocalPhyErrors.";
    Counters "multicast_rcv_packets" 1 "": "rdma_port_multicast_packets_received_total"
        "Multicast packets received, errors included."
        "node_infiniband_multicast_packets_received_total"
        "Number of multicast packets received (including errors)";
    Counters "multicast_xmit_packets" 1 "": "rdma_port_multicast_packets_transmitted_total"
        "Multicast packets sent, errors included."
        "node_infiniband_multicast_packets_transmitted_total"
        "Number of multicast packets transmitted (including errors)";
    Counters "port_rcv_constraint_errors" 1 "": "rdma_port_constraint_errors_received_total"
        "Packets received and dropped because of a constraint, such as a partition key."
        "node_infiniband_port_constraint_errors_received_total"
        "Number of packets received on the switch physical port that are discarded";
    Counters "port_rcv_data" 4 "bytes": "rdma_port_data_received_bytes_total"
        "Bytes received: the kernel's number of 4-byte words, times four."
        "node_infiniband_port_data_received_bytes_total"
        "Number of data octets received on all links";
    Counters "port_rcv_discards" 1 "": "rdma_port_discards_received_total"
        "Packets received and dropped because the port was down or congested."
        "node_infiniband_port_discards_received_total"
        "Number of inbound packets discarded by the port because the port is down or congested";
    Counters "port_rcv_errors" 1 "": "rdma_port_errors_received_total"
        "Packets received with an error."
        "node_infiniband_port_errors_received_total"
        "Number of packets containing an error that were received on this port";
    Counters "port_rcv_packets" 1 "": "rdma_port_packets_received_total"
        "Packets received, errors included."
        "node_infiniband_port_packets_received_total"
        "Number of packets received on all VLs by this port (including errors)";
    Counters "port_rcv_remote_physical_errors" 1 "": "rdma_port_receive_remote_physical_errors_total"
        "Packets received that a switch on the path marked as bad (EBP)."
        "node_infiniband_port_receive_remote_physical_errors_total"
        "Number of packets marked with the EBP (End of Bad Packet) delimiter received on the port.";
    Counters "port_rcv_switch_relay_errors" 1 "": "rdma_port_receive_switch_relay_errors_total"
        "Packets that a switch could not forward."
        "node_infiniband_port_receive_switch_relay_errors_total"
        "Number of packets that could not be forwarded by the switch.";
    Counters "port_xmit_constraint_errors" 1 "": "rdma_port_constraint_errors_transmitted_total"
        "Packets not sent because of a constraint, such as a partition key."
        "node_infiniband_port_constraint_errors_transmitted_total"
        "Number of packets not transmitted from the switch physical port";
    Counters "port_xmit_data" 4 "bytes": "rdma_port_data_transmitted_bytes_total"
        "Bytes sent: the kernel's number of 4-byte words, times four."
        "node_infiniband_port_data_transmitted_bytes_total"
        "Number of data octets transmitted on all links";
    Counters "port_xmit_discards" 1 "": "rdma_port_discards_transmitted_total"
        "Outgoing packets dropped because the port was down or congested."
        "node_infiniband_port_discards_transmitted_total"
        "Number of outbound packets discarded by the port because the port is down or congested";
    Counters "port_xmit_packets" 1 "": "rdma_port_packets_transmitted_total"
        "Packets sent, errors included."
        "node_infiniband_port_packets_transmitted_total"
        "Number of packets transmitted on all VLs from this port (including errors)";
    Counters "port_xmit_wait" 1 "": "rdma_port_transmit_wait_total"
        "Ticks during which the port had data to send but could not send any."
        "node_infiniband_port_transmit_wait_total"
        "Number of ticks during which the port had data to transmit but no data was sent during the entire tick";
    Counters "symbol_error" 1 "": "rdma_port_symbol_error_total"
        "Minor link errors on one or more lanes."
        "node_infiniband_symbol_error_total"
        "Number of minor link errors detected on one or more physical lanes.";
    Counters "unicast_rcv_packets" 1 "": "rdma_port_unicast_packets_received_total"
        "Unicast packets received, errors included."
        "node_infiniband_unicast_packets_received_total"
        "Number of unicast packets received (including errors)";
    Counters "unicast_xmit_packets" 1 "": "rdma_port_unicast_packets_transmitted_total"
        "Unicast packets sent, errors included."
        "node_infiniband_unicast_packets_transmitted_total"
        "Number of unicast packets transmitted (including errors)";
    HwCounters "duplicate_request" 1 "": "rdma_port_duplicate_requests_packets_total"
        "Requests received that were executed before."
        "node_infiniband_duplicate_requests_packets_total"
        "The number of received packets. A duplicate request is a request that had been previously executed.";
    HwCounters "implied_nak_seq_err" 1 "": "rdma_port_implied_nak_seq_errors_total"
        "Read responses and acknowledgements with a larger sequence number than expected."
        "node_infiniband_implied_nak_seq_errors_total"
        "The number of time the requested decided an ACK. with a PSN larger than the expected PSN for an RDMA read or response.";
    HwCounters "local_ack_timeout_err" 1 "": "rdma_port_local_ack_timeout_errors_total"
        "Number of times that an acknowledgement timed out; the packet is sent again."
        "node_infiniband_local_ack_timeout_errors_total"
        "The number of times QP's ack timer expired for RC, XRC, DCT QPs at the sender side. The QP retry limit was not exceed, therefore it is still recoverable error.";
    HwCounters "np_cnp_sent" 1 "": "rdma_port_np_cnp_packets_sent_total"
        "Congestion notification packets (CNP) sent as notification point."
        "node_infiniband_np_cnp_packets_sent_total"
        "The number of CNP packets sent by the Notification Point when it noticed congestion experienced in the RoCEv2 IP header (ECN bits). The counters was added in MLNX_OFED 4.1";
    HwCounters "np_ecn_marked_roce_packets" 1 "": "rdma_port_np_ecn_marked_roce_packets_received_total"
        "RoCE v2 packets received with a congestion mark (ECN)."
        "node_infiniband_np_ecn_marked_roce_packets_received_total"
        "The number of RoCEv2 packets received by the notification point which were marked for experiencing the congestion (ECN bits where '11' on the ingress RoCE traffic) . The counters was added in MLNX_OFED 4.1";
    HwCounters "out_of_buffer" 1 "": "rdma_port_out_of_buffer_drops_total"
        "Packets dropped because no receive request was posted."
        "node_infiniband_out_of_buffer_drops_total"
        "The number of drops occurred due to lack of WQE for the associated QPs.";
    HwCounters "out_of_sequence" 1 "": "rdma_port_out_of_sequence_packets_received_total"
        "Packets received out of sequence."
        "node_infiniband_out_of_sequence_packets_received_total"
        "The number of out of sequence packets received.";
    HwCounters "packet_seq_err" 1 "": "rdma_port_packet_sequence_errors_total"
        "Sequence errors (NAK) received from the remote end."
        "node_infiniband_packet_sequence_errors_total"
        "The number of received NAK sequence error packets. The QP retry limit was not exceeded.";
    HwCounters "req_cqe_error" 1 "": "rdma_port_req_cqes_errors_total"
        "Completions with an error, as requester."
        "node_infiniband_req_cqes_errors_total"
        "The number of times requester detected CQEs completed with errors. The counters was added in MLNX_OFED 4.1";
    HwCounters "req_cqe_flush_error" 1 "": "rdma_port_req_cqes_flush_errors_total"
        "Completions flushed with an error, as requester."
        "node_infiniband_req_cqes_flush_errors_total"
        "The number of times requester detected CQEs completed with flushed errors. The counters was added in MLNX_OFED 4.1";
    HwCounters "req_remote_access_errors" 1 "": "rdma_port_req_remote_access_errors_total"
        "Remote access errors, as requester."
        "node_infiniband_req_remote_access_errors_total"
        "The number of times requester detected remote access errors. The counters was added in MLNX_OFED 4.1";
    HwCounters "req_remote_invalid_request" 1 "": "rdma_port_req_remote_invalid_request_errors_total"
        "Requests that the remote end rejected as invalid."
        "node_infiniband_req_remote_invalid_request_errors_total"
        "The number of times requester detected remote invalid request errors. The counters was added in MLNX_OFED 4.1";
    HwCounters "resp_cqe_error" 1 "": "rdma_port_resp_cqes_errors_total"
        "Completions with an error, as responder."
        "node_infiniband_resp_cqes_errors_total"
        "The number of times responder detected CQEs completed with errors. The counters was added in MLNX_OFED 4.1";
    HwCounters "resp_cqe_flush_error" 1 "": "rdma_port_resp_cqes_flush_errors_total"
        "Completions flushed with an error, as responder."
        "node_infiniband_resp_cqes_flush_errors_total"
        "The number of times responder detected CQEs completed with flushed errors. The counters was added in MLNX_OFED 4.1";
    HwCounters "resp_local_length_error" 1 "": "rdma_port_resp_local_length_errors_total"
        "Requests received that did not fit the local buffer."
        "node_infiniband_resp_local_length_errors_total"
        "The number of times responder detected local length errors. The counters was added in MLNX_OFED 4.1";
    HwCounters "resp_remote_access_errors" 1 "": "rdma_port_resp_remote_access_errors_total"
        "Requests received that were not permitted."
        "node_infiniband_resp_remote_access_errors_total"
        "The number of times responder detected remote access errors. The counters was added in MLNX_OFED 4.1";
    HwCounters "rnr_nak_retry_err" 1 "": "rdma_port_rnr_nak_retry_packets_received_total"
        "Number of times that the remote end was not ready to receive (RNR NAK); the request is sent again."
        "node_infiniband_rnr_nak_retry_packets_received_total"
        "The number of received RNR NAK packets. The QP retry limit was not exceeded.";
    HwCounters "roce_adp_retrans" 1 "": "rdma_port_roce_adp_retransmits_total"
        "Adaptive retransmissions of RoCE traffic."
        "node_infiniband_roce_adp_retransmits_total"
        "The number of adaptive retransmissions for RoCE traffic. The counter was added in MLNX_OFED rev 5.0-1.0.0.0 and kernel v5.6.0";
    HwCounters "roce_adp_retrans_to" 1 "": "rdma_port_roce_adp_retransmits_timeout_total"
        "Timeouts of RoCE traffic that led to an adaptive retransmission."
        "node_infiniband_roce_adp_retransmits_timeout_total"
        "The number of times RoCE traffic reached timeout due to adaptive retransmission. The counter was added in MLNX_OFED rev 5.0-1.0.0.0 and kernel v5.6.0";
    HwCounters "roce_slow_restart" 1 "": "rdma_port_roce_slow_restart_used_total"
        "Number of times that RoCE slow restart was used."
        "node_infiniband_roce_slow_restart_used_total"
        "The number of times RoCE slow restart was used. The counter was added in MLNX_OFED rev 5.0-1.0.0.0 and kernel v5.6.0";
    HwCounters "roce_slow_restart_cnps" 1 "": "rdma_port_roce_slow_restart_cnps_total"
        "Congestion notification packets (CNP) that RoCE slow restart generated."
        "node_infiniband_roce_slow_restart_cnps_total"
        "The number of times RoCE slow restart generated CNP packets. The counter was added in MLNX_OFED rev 5.0-1.0.0.0 and kernel v5.6.0";
    HwCounters "roce_slow_restart_trans" 1 "": "rdma_port_roce_slow_restart_total"
        "Number of times that RoCE changed its state to slow restart."
        "node_infiniband_roce_slow_restart_total"
        "The number of times RoCE slow restart changed state to slow restart. The counter was added in MLNX_OFED rev 5.0-1.0.0.0 and kernel v5.6.0";
    HwCounters "rp_cnp_handled" 1 "": "rdma_port_rp_cnp_packets_handled_total"
        "Congestion notification packets (CNP) that slowed down this end as reaction point."
        "node_infiniband_rp_cnp_packets_handled_total"
        "The number of CNP packets handled by the Reaction Point HCA to throttle the transmission rate. The counters was added in MLNX_OFED 4.1";
    HwCounters "rp_cnp_ignored" 1 "": "rdma_port_rp_cnp_ignored_packets_received_total"
        "Congestion notification packets (CNP) received and ignored as reaction point."
        "node_infiniband_rp_cnp_ignored_packets_received_total"
        "The number of CNP packets received and ignored by the Reaction Point HCA. This counter should not raise if RoCE Congestion Control was enabled in the network. If this counter raise, verify that ECN was enabled on the adapter.";
    HwCounters "rx_atomic_requests" 1 "": "rdma_port_rx_atomic_requests_total"
        "Atomic requests received."
        "node_infiniband_rx_atomic_requests_total"
        "The number of received ATOMIC request for the associated QPs.";
    HwCounters "rx_dct_connect" 1 "": "rdma_port_rx_dct_connect_requests_total"
        "Connection requests received for a dynamically connected transport (DCT)."
        "node_infiniband_rx_dct_connect_requests_total"
        "The number of received connection requests for the associated DCTs.";
    HwCounters "rx_icrc_encapsulated" 1 "": "rdma_port_rx_icrc_encapsulated_errors_total"
        "RoCE packets received with a wrong invariant checksum (ICRC)."
        "node_infiniband_rx_icrc_encapsulated_errors_total"
        "The number of RoCE packets with ICRC errors. This counter was added in MLNX_OFED 4.4 and kernel 4.19";
    HwCounters "rx_read_requests" 1 "": "rdma_port_rx_read_requests_total"
        "Read requests received."
        "node_infiniband_rx_read_requests_total"
        "The number of received READ requests for the associated QPs.";
    HwCounters "rx_write_requests" 1 "": "rdma_port_rx_write_requests_total"
        "Write requests received."
        "node_infiniband_rx_write_requests_total"
        "The number of received WRITE requests for the associated QPs.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_so_that_every_file_is_found() {
        for (at, named) in NAMED.iter().enumerate() {
            for guess in [0, at, at + 1, NAMED.len()] {
                assert_eq!(
                    position(named.directory, named.file, guess),
                    Some(at),
                    "{}",
                    named.file
                );
            }
        }
        assert_eq!(position(Directory::HwCounters, "port_rcv_data", 0), None);
        assert_eq!(position(Directory::Counters, "sent_pkts", 0), None);
    }
}
