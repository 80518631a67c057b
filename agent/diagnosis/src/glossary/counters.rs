//! Counters of RDMA devices and statistics of network drivers.
//!
//! The names are those of sysfs (`ports/PORT/counters`, `hw_counters`) and of `ethtool -S`. `N` stands for a number.

rows! {
    /// Counters of RDMA ports by their file names.
    COUNTERS:
    "VL15_dropped": "management packets that were dropped because of missing resources" ["counter-errors"];
    "excessive_buffer_overrun_errors": "times that the receive buffer overran: flow control of the link does not work"
        ["link-quality"];
    "link_downed": "times that the link went down. A link that flaps is often a bad cable or transceiver"
        ["port-flapping", "link-quality"];
    "link_error_recovery": "times that the link recovered from an error by itself. Rising: cable or transceiver. As a \
        physical state: it recovers now" ["link-quality"];
    "local_link_integrity_errors": "times that errors of the link exceeded their threshold. Cable or transceiver"
        ["link-quality"];
    "symbol_error": "symbols that the port received wrong. Rising: cable, transceiver or dirt on the fibre" ["link-quality"];
    "port_rcv_errors": "packets received with an error, such as a wrong checksum. Cable or transceiver" ["link-quality"];
    "port_rcv_remote_physical_errors": "packets that a switch on the way marked as bad: another link of the fabric has errors"
        ["link-quality"];
    "port_rcv_switch_relay_errors": "packets that a switch could not forward" ["fabric-or-peer"];
    "port_rcv_constraint_errors": "packets received and dropped because of a constraint, such as a wrong partition key"
        ["partition-key"];
    "port_xmit_constraint_errors": "packets not sent because of a constraint, such as a wrong partition key" ["partition-key"];
    "port_xmit_discards": "packets that the port could not send and dropped: it was down, or congested for too long"
        ["counter-errors", "flow-control"];
    "port_rcv_discards": "packets received and dropped because the port was down or congested" ["counter-errors"];
    "port_xmit_wait": "ticks in which the port had data and could not send, because the receiver gave no credits: congestion. \
        Some are normal" ["flow-control"];
    "port_rcv_data": "data received, in words of 4 bytes";
    "port_xmit_data": "data sent, in words of 4 bytes";
    "port_rcv_packets": "packets received";
    "port_xmit_packets": "packets sent";
    "unicast_rcv_packets": "packets received for one receiver";
    "unicast_xmit_packets": "packets sent to one receiver";
    "multicast_rcv_packets": "packets received for a multicast group";
    "multicast_xmit_packets": "packets sent to a multicast group";
    "duplicate_request": "requests received twice: the sender repeated them because an acknowledgement was late or lost"
        ["fabric-or-peer"];
    "implied_nak_seq_err": "the sender saw an acknowledgement beyond the expected packet of a READ or atomic operation: \
        packets were lost" ["fabric-or-peer", "flow-control"];
    "local_ack_timeout_err": "times that no acknowledgement came in time, and the sender repeated. Packets are lost, or the \
        peer is gone" ["fabric-or-peer", "IBV_WC_RETRY_EXC_ERR"];
    "packet_seq_err": "negative acknowledgements for a wrong packet sequence that the sender received: packets were lost on \
        the way" ["fabric-or-peer", "flow-control"];
    "out_of_sequence": "packets that arrived out of order: packets were lost, or the network spreads a flow over several paths"
        ["fabric-or-peer", "flow-control"];
    "out_of_buffer": "packets dropped because the queue had no receive buffer: the program posts too few or is too slow"
        ["IBV_WC_RNR_RETRY_EXC_ERR"];
    "rnr_nak_retry_err": "answers \"receiver not ready\" that the sender received: the peer's program posts too few receive \
        buffers" ["IBV_WC_RNR_RETRY_EXC_ERR"];
    "req_cqe_error": "work requests of this side that ended with an error" ["IBV_WC_RETRY_EXC_ERR"];
    "req_cqe_flush_error": "work requests of this side that were flushed after an earlier error, or when the program ended"
        ["IBV_WC_WR_FLUSH_ERR"];
    "resp_cqe_error": "receive requests that ended with an error" ["IBV_WC_LOC_LEN_ERR"];
    "resp_cqe_flush_error": "receive requests that were flushed after an error, or when the program ended"
        ["IBV_WC_WR_FLUSH_ERR"];
    "req_remote_access_errors": "requests that the peer refused because of a wrong key or address" ["IBV_WC_REM_ACCESS_ERR"];
    "resp_remote_access_errors": "requests of peers that this side refused because of a wrong key or address"
        ["IBV_WC_REM_ACCESS_ERR"];
    "req_remote_invalid_request": "requests that the peer refused as invalid" ["IBV_WC_REM_INV_REQ_ERR"];
    "resp_local_length_error": "messages that were longer than the receive buffer" ["IBV_WC_LOC_LEN_ERR"];
    "req_transport_retries_exceeded": "requests for which the peer did not answer until all retries were used up"
        ["IBV_WC_RETRY_EXC_ERR", "fabric-or-peer"];
    "req_rnr_retries_exceeded": "requests for which the peer was not ready until all retries were used up"
        ["IBV_WC_RNR_RETRY_EXC_ERR"];
    "roce_adp_retrans": "retransmissions that RoCE's adaptive timer started: packets were lost"
        ["fabric-or-peer", "flow-control"];
    "roce_adp_retrans_to": "times that RoCE's adaptive timer reached its timeout" ["fabric-or-peer", "flow-control"];
    "roce_slow_restart": "times that RoCE began to send slowly after a pause" ["flow-control"];
    "roce_slow_restart_cnps": "congestion packets sent during a slow restart of RoCE" ["flow-control"];
    "roce_slow_restart_trans": "times that RoCE changed to the slow restart" ["flow-control"];
    "np_cnp_sent": "congestion notifications that this receiver sent, because packets arrived marked by a switch. Some are \
        normal" ["flow-control"];
    "np_ecn_marked_roce_packets": "RoCE packets that arrived with a mark of congestion (ECN) by a switch. Some are normal"
        ["flow-control"];
    "rp_cnp_handled": "congestion notifications that made this sender slow down. Some are normal" ["flow-control"];
    "rp_cnp_ignored": "congestion notifications that this sender received and ignored: congestion control is off for the \
        priority" ["flow-control", "roce-flow-control"];
    "rx_icrc_encapsulated": "RoCE packets with a wrong checksum (ICRC): something on the way changes packets" ["link-quality"];
    "rx_read_requests": "READ requests received";
    "rx_write_requests": "WRITE requests received";
    "rx_atomic_requests": "atomic requests received";
    "rx_dct_connect": "connection requests to dynamically connected targets";
    "lifespan": "how long the driver keeps counters before it reads them again, in milliseconds. It is a setting and counts \
        nothing";
    "active_qps": "queue pairs that exist now (bnxt_re)";
    "watermark_qps": "the most queue pairs that existed at once (bnxt_re)";
    "seq_err_naks_rcvd": "negative acknowledgements for a wrong sequence that the sender received (bnxt_re): packets were lost"
        ["fabric-or-peer", "flow-control"];
    "max_retry_exceeded": "requests for which the peer did not answer until all retries were used up (bnxt_re)"
        ["IBV_WC_RETRY_EXC_ERR", "fabric-or-peer"];
    "rnr_naks_rcvd": "answers \"receiver not ready\" that the sender received (bnxt_re)" ["IBV_WC_RNR_RETRY_EXC_ERR"];
    "missing_resp": "answers of a READ or atomic operation that did not come (bnxt_re): packets were lost" ["fabric-or-peer"];
    "to_retransmits": "retransmissions after a timeout (bnxt_re): packets or acknowledgements were lost"
        ["fabric-or-peer", "flow-control"];
    "res_oos_drop_count": "packets dropped because they arrived out of order (bnxt_re): packets were lost before them"
        ["fabric-or-peer", "flow-control"];
    "oos_drop_count": "packets dropped because they arrived out of order (bnxt_re): packets were lost before them"
        ["fabric-or-peer", "flow-control"];
    "unrecoverable_err": "errors after which a queue pair could not go on (bnxt_re)" ["queue-error"];
    "bad_resp_err": "answers that were not valid (bnxt_re)" ["fabric-or-peer"];
    "local_qp_op_err": "work requests that the adapter refused (bnxt_re)" ["IBV_WC_LOC_QP_OP_ERR"];
    "local_protection_err": "work requests with a wrong lkey or address (bnxt_re)" ["IBV_WC_LOC_PROT_ERR"];
    "remote_access_err": "requests that the peer refused because of a wrong key or address (bnxt_re)" ["IBV_WC_REM_ACCESS_ERR"];
    "remote_op_err": "requests that the peer could not carry out (bnxt_re)" ["IBV_WC_REM_OP_ERR"];
    "rx_roce_discards": "RoCE packets dropped by the receiving port (bnxt_re): no buffer. Flow control does not reach the \
        sender" ["flow-control"];
    "rx_roce_errors": "RoCE packets received with an error (bnxt_re)" ["link-quality"];
    "tx_roce_discards": "RoCE packets dropped before they were sent (bnxt_re)" ["flow-control"];
    "rx_roce_good_pkts": "RoCE packets received without an error (bnxt_re)";
    "rx_ecn_marked_pkts": "RoCE packets that arrived with a mark of congestion (bnxt_re). Some are normal" ["flow-control"];
    "cnp_tx_pkts": "congestion notifications sent. Some are normal" ["flow-control"];
    "cnp_rx_pkts": "congestion notifications received. Some are normal" ["flow-control"];
    "tx_cnp_pkts": "congestion notifications sent. Some are normal" ["flow-control"];
    "rx_cnp_pkts": "congestion notifications received. Some are normal" ["flow-control"];
    "rx_drops": "packets that EFA dropped because the receive queue had no buffer" ["efa-remote-impaired"];
    "retrans_pkts": "packets that EFA sent again. Some are normal" ["efa-remote-impaired"];
    "retrans_bytes": "bytes that EFA sent again. Some are normal" ["efa-remote-impaired"];
    "retrans_timeout_events": "times that EFA sent again because no acknowledgement came in time" ["efa-remote-impaired"];
    "impaired_remote_conn_events": "times that EFA found the connection to a remote end impaired" ["efa-remote-impaired"];
    "unresponsive_remote_events": "times that EFA found a remote end that does not respond: the peer is gone, or a security \
        group blocks it" ["efa-remote-impaired"];
    "rdma_read_wrs": "READ requests posted (EFA)";
    "rdma_read_bytes": "bytes that this side read from peers (EFA)";
    "rdma_read_wr_err": "READ requests that failed (EFA)" ["efa-remote-impaired"];
    "rdma_read_resp_bytes": "bytes that peers read from this side (EFA)";
    "rdma_write_wrs": "WRITE requests posted (EFA)";
    "rdma_write_bytes": "bytes that this side wrote to peers (EFA)";
    "rdma_write_wr_err": "WRITE requests that failed (EFA)" ["efa-remote-impaired"];
    "rdma_write_recv_bytes": "bytes that peers wrote to this side (EFA)";
    "send_wrs": "SEND requests posted (EFA)";
    "recv_wrs": "receive requests posted (EFA)";
    "submitted_cmds": "commands that the driver gave to the adapter (EFA)";
    "completed_cmds": "commands that the adapter completed (EFA). It follows submitted_cmds";
    "cmds_err": "commands that the adapter refused (EFA)" ["device-fault"];
    "no_completion_cmds": "commands that the adapter did not answer (EFA)" ["device-stalled"];
    "keep_alive_rcvd": "signs of life that the adapter sent to its driver (EFA). It must rise";
    "alloc_pd_err": "protection domains that could not be created (EFA)" ["hca-resources"];
    "create_qp_err": "queue pairs that could not be created (EFA)" ["hca-resources"];
    "create_cq_err": "completion queues that could not be created (EFA)" ["hca-resources"];
    "reg_mr_err": "memory regions that could not be registered (EFA)" ["memlock-limit", "hca-resources"];
    "alloc_ucontext_err": "device contexts that could not be created (EFA)" ["hca-resources"];
    "create_ah_err": "address handles that could not be created (EFA)" ["addressing"];
    "mmio_read_cnt": "reads of the adapter's registers that used memory (EFA)";
    "RxDscdPkts": "packets that the port received and dropped" ["counter-errors"];
    "ip4InDiscards": "IPv4 packets that irdma dropped" ["counter-errors"];
    "tcpRetransSegs": "TCP segments of iWARP that irdma sent again: packets are lost" ["fabric-or-peer"];
    "rxVlanErrors": "packets with a wrong VLAN (irdma)" ["addressing"];
    "cnpHandled": "congestion notifications that made this sender slow down (irdma). Some are normal" ["flow-control"];
    "cnpIgnored": "congestion notifications that were ignored (irdma)" ["flow-control"];
    "cnpSent": "congestion notifications sent (irdma). Some are normal" ["flow-control"];
    "RxECNMrkd": "packets that arrived with a mark of congestion (irdma). Some are normal" ["flow-control"];
}

rows! {
    /// Statistics of network drivers.
    STATISTICS:
    "rx_discards_phy": "packets that the port received and dropped because its buffer was full: no flow control, or one that \
        does not reach the sender" ["flow-control", "roce-flow-control"];
    "tx_discards_phy": "packets dropped before they were sent: the port was congested for too long" ["flow-control"];
    "rx_discards": "packets that were received and dropped because no buffer was free" ["flow-control"];
    "tx_discards": "packets that were dropped before they were sent" ["flow-control"];
    "rx_out_of_buffer": "packets dropped because a queue had no receive buffer: the program or the CPU is too slow" ["host-load"];
    "rx_steer_missed_packets": "packets that matched no rule of the adapter's steering and were dropped";
    "rx_prioN_pause": "pause frames received for one priority: the switch stopped this sender. Some are normal"
        ["pause-storm", "roce-flow-control"];
    "tx_prioN_pause": "pause frames sent for one priority: this host could not take more. Many: the host or PCIe is slow"
        ["pause-storm", "pci-path"];
    "rx_prioN_pause_duration": "microseconds for which pause frames of a priority stopped this sender" ["pause-storm"];
    "tx_prioN_pause_duration": "microseconds for which this host stopped its sender by pause frames of a priority"
        ["pause-storm", "pci-path"];
    "rx_prioN_pause_transition": "times that pause of a priority began at this sender" ["pause-storm"];
    "tx_prioN_pause_transition": "times that this host began to pause a priority" ["pause-storm"];
    "rx_prioN_discards": "packets of one priority that the port dropped because its buffer was full. Not zero on the RoCE \
        priority: flow control does not work" ["flow-control", "roce-flow-control"];
    "rx_prioN_buf_discard": "packets of one priority that the port dropped because its buffer was full. Not zero on the RoCE \
        priority: flow control does not work" ["flow-control", "roce-flow-control"];
    "rx_prioN_cong_discard": "packets of one priority that the port dropped because of congestion" ["flow-control"];
    "rx_prioN_marked": "packets of one priority that the adapter marked as congested (ECN)" ["flow-control"];
    "rx_prioN_bytes": "bytes received with one priority";
    "tx_prioN_bytes": "bytes sent with one priority";
    "rx_prioN_packets": "packets received with one priority";
    "tx_prioN_packets": "packets sent with one priority";
    "rx_pause_ctrl_phy": "pause frames received, of the whole link" ["pause-storm"];
    "tx_pause_ctrl_phy": "pause frames sent, of the whole link" ["pause-storm"];
    "rx_global_pause": "pause frames received for the whole link" ["pause-storm"];
    "tx_global_pause": "pause frames sent for the whole link" ["pause-storm"];
    "tx_pause_storm_warning_events": "times that this host paused its sender for long: it cannot take the data" ["pause-storm"];
    "tx_pause_storm_error_events": "times that this host paused its sender for so long that the adapter began to drop packets"
        ["pause-storm"];
    "rx_symbol_err_phy": "symbols that the port received wrong. Rising: cable or transceiver" ["link-quality"];
    "rx_pcs_symbol_err_phy": "symbols that were wrong after forward error correction (FEC): packets are lost"
        ["link-quality", "bit-errors-high"];
    "rx_corrected_bits_phy": "bits that forward error correction (FEC) repaired. Normal from 50 Gb/s per lane on; a fast rise \
        means a bad cable" ["bit-errors-high"];
    "rx_err_lane_N_phy": "errors of one lane of the port before correction" ["link-quality"];
    "rx_crc_errors_phy": "packets with a wrong checksum (CRC). Cable or transceiver" ["link-quality"];
    "rx_in_range_len_errors_phy": "packets whose length does not fit their header" ["link-quality"];
    "rx_out_of_range_len_phy": "packets whose length is not allowed" ["link-quality"];
    "rx_oversize_pkts_phy": "packets longer than the MTU of the port: the peer or switch has a larger one" ["mtu"];
    "rx_undersize_pkts_phy": "packets shorter than Ethernet allows" ["link-quality"];
    "rx_fragments_phy": "parts of packets with a wrong checksum" ["link-quality"];
    "rx_jabbers_phy": "packets that are too long and have a wrong checksum" ["link-quality"];
    "rx_unsupported_op_phy": "control frames that the port does not know";
    "link_down_events_phy": "times that the link went down" ["port-flapping", "link-quality"];
    "link_down_events": "times that the link went down" ["port-flapping", "link-quality"];
    "rx_pci_signal_integrity": "errors of the PCIe signal that the adapter received: slot, riser or cable" ["pci-errors"];
    "tx_pci_signal_integrity": "times that the PCIe link had to be repaired: slot, riser or cable" ["pci-errors"];
    "outbound_pci_stalled_rd": "percent of the last second in which the adapter waited for PCIe credits to read memory"
        ["pci-stalled", "pci-path"];
    "outbound_pci_stalled_wr": "percent of the last second in which the adapter waited for PCIe credits to write memory"
        ["pci-stalled", "pci-path"];
    "outbound_pci_stalled_rd_events": "seconds in which the adapter waited for PCIe reads for more than 30 percent"
        ["pci-stalled", "pci-path"];
    "outbound_pci_stalled_wr_events": "seconds in which the adapter waited for PCIe writes for more than 30 percent"
        ["pci-stalled", "pci-path"];
    "outbound_pci_buffer_overflow": "packets dropped because PCIe did not take the data in time" ["pci-stalled", "pci-path"];
    "module_unplug": "times that a transceiver or cable was pulled out" ["port-cable-unplugged"];
    "module_bus_stuck": "times that the transceiver's management bus was stuck" ["port-module-fault"];
    "module_high_temp": "times that a transceiver was too hot" ["module-hot"];
    "module_bad_shorted": "times that a cable or module was found bad or short-circuited" ["port-module-fault"];
    "rx_vport_rdma_unicast_bytes": "bytes received by RDMA";
    "tx_vport_rdma_unicast_bytes": "bytes sent by RDMA";
    "rx_vport_rdma_unicast_packets": "packets received by RDMA";
    "tx_vport_rdma_unicast_packets": "packets sent by RDMA";
    "rx_vport_unicast_bytes": "bytes received by the function, without RDMA";
    "tx_vport_unicast_bytes": "bytes sent by the function, without RDMA";
    "rx_bytes_phy": "bytes received by the port, with RDMA";
    "tx_bytes_phy": "bytes sent by the port, with RDMA";
    "rx_packets_phy": "packets received by the port, with RDMA";
    "tx_packets_phy": "packets sent by the port, with RDMA";
    "rx_stats_discard": "packets that the port received and dropped (bnxt_en)" ["flow-control"];
    "rx_pfc_ena_frames_priN": "pause frames received for one priority (bnxt_en). Some are normal" ["pause-storm"];
    "tx_pfc_ena_frames_priN": "pause frames sent for one priority (bnxt_en). Some are normal" ["pause-storm"];
    "rx_fcs_err_frames": "packets with a wrong checksum (bnxt_en). Cable or transceiver" ["link-quality"];
    "rx_fec_corrected_blocks": "blocks that forward error correction repaired. A fast rise means a bad cable" ["bit-errors-high"];
    "rx_fec_uncorrectable_blocks": "blocks that forward error correction could not repair: packets are lost"
        ["bit-errors-high", "link-quality"];
    "continuous_pause_events": "times that a port was paused for long (bnxt_en)" ["pause-storm"];
    "resume_pause_events": "times that a port was released after a long pause (bnxt_en)" ["pause-storm"];
    "rx_crc_errors": "packets with a wrong checksum (CRC). Cable or transceiver" ["link-quality"];
    "rx_missed_errors": "packets dropped because the host took them too slowly" ["host-load"];
    "rx_no_dma_resources": "packets dropped because the host had no buffer for them" ["host-load"];
    "rx_dropped": "packets that were received and dropped";
    "tx_dropped": "packets that were not sent and dropped";
    "rx_errors": "packets received with an error" ["link-quality"];
    "tx_errors": "packets that could not be sent" ["link-quality"];
    "carrier_changes": "times that the link of a network device came or went" ["port-flapping"];
    "carrier_down_count": "times that the link of a network device went" ["port-flapping"];
}
