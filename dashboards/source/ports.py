"""Ports and rails of one or many nodes: load, errors, congestion, and how the probes of a rail compare."""

from grafana import *

BY = f"{NODE}, device, port"
SPEED = f"max by ({BY}) (rdma_port_rate_bytes_per_second{{{PORTS}}})"
PROBED = f"max by ({BY}) (rdma_probe_bandwidth_bytes_per_second{{{PORTS}}}) / on ({BY}) {SPEED}"
NAME = "{{node}} {{device}}:{{port}}"


def rate(name):
    return f"sum by ({BY}) (rate({name}{{{PORTS}}}[$__rate_interval]))"


def top(expr):
    return f"topk(20, {expr})"


BOARD = dashboard(
    "rdma-health-ports", "RDMA health: ports and rails",
    "How the rails of all nodes compare, which ports are the slowest and the busiest, and the load, errors and congestion of chosen nodes.",
    [DATASOURCE, CLUSTER, JOB, node_variable(multi=True, all_nodes=False), DEVICE, PORT, SCHEME, DOCS],
    [
        ("All nodes", [
            (12, 9, graph("Active ports by rail", "Number of active ports of each rail, over all nodes: a rail that is lost shows.",
                          [query(f"sum by (rail) (rail:rdma_ports_active:count{{{FLEET}}})", "rail {{rail}}")],
                          no_value="no rail: no GPU, or no adapter that serves them")),
            (12, 9, graph("Probe bandwidth by rail", """Loopback bandwidth of the ports of a rail, relative to their rate: the median, and
                          what one port in a hundred does not reach.""",
                          [query(f'min by (rail) (rail:rdma_probe_bandwidth_ratio:quantile{{quantile="0.5", {FLEET}}})',
                                 "rail {{rail}} median"),
                           query(f'min by (rail) (rail:rdma_probe_bandwidth_ratio:quantile{{quantile="0.01", {FLEET}}})',
                                 "rail {{rail}} 1st percentile")],
                          unit="percentunit", min=0, max=1.1, no_value="no rail, or no probe has run",
                          thresholds=steps(RED, (0.5, YELLOW), (0.8, GREEN)))),
            (12, 9, table("Slowest probes", "The ports whose probe measured the least, relative to their rate.",
                          of_fleet(f"bottomk(20, port:rdma_probe_bandwidth_ratio:bottom20{{{FLEET}}})"), ["node", "device", "port", "cluster", "instance"], value="bandwidth of the rate",
                          unit="percentunit", links=[TO_NODE, TO_PAGE], no_value="no probe has run",
                          overrides=[override("bandwidth of the rate", thresholds=steps(RED, (0.5, YELLOW), (0.8, GREEN)),
                                              custom_cellOptions={"type": "color-background", "mode": "basic"})])),
            (12, 9, table("Findings about ports and devices", "Warnings and critical findings.",
                          # Processes have findings, too, and theirs are about limits.
                          of_fleet(f"max by ({BY}, rule, severity) "
                                   f'(rdma_finding{{severity=~"warning|critical", {FLEET}, device!="", domain!="limits"}})'),
                          ["node", "device", "port", "severity", "rule", "cluster", "instance"], links=[TO_NODE, TO_RULE],
                          no_value="no finding of warning or above")),
            (24, 9, table("Busiest ports", """The ports that received and sent the most in the last five minutes, relative to their rate. 200 % is
                          the most: the rate applies to each direction.""",
                          of_fleet(f"topk(20, port:rdma_load_ratio:top20{{{FLEET}}})"), ["node", "device", "port", "cluster", "instance"],
                          value="load", sort="load", unit="percentunit", links=[TO_PORTS, TO_NODE, TO_PAGE],
                          no_value="the drivers have no byte counters")),
        ]),
        ("Load of the chosen nodes", [
            (24, 9, heatmap("Probe bandwidth relative to the rate", "Distribution over the chosen ports. A slow rail is a second band.",
                            query(PROBED, NAME), "percentunit", no_value="no probe has run")),
            (12, 9, graph("Received, share of the rate", "The busiest 20 ports.",
                          [query(top(f"{rate('rdma_port_data_received_bytes_total')} / on ({BY}) {SPEED}"), NAME)],
                          unit="percentunit", min=0, no_value="the driver has no byte counters", links=[TO_NODE_OF_SERIES])),
            (12, 9, graph("Sent, share of the rate", "The busiest 20 ports.",
                          [query(top(f"{rate('rdma_port_data_transmitted_bytes_total')} / on ({BY}) {SPEED}"), NAME)],
                          unit="percentunit", min=0, no_value="the driver has no byte counters", links=[TO_NODE_OF_SERIES])),
        ]),
        ("Congestion of the chosen nodes", [
            (8, 9, graph("Congestion notifications sent (RoCE)", "CNP packets that this end sent because marked packets arrived.",
                         [query(top(rate("rdma_port_np_cnp_packets_sent_total")), NAME)], unit="pps", no_value="no RoCE counters")),
            (8, 9, graph("Congestion notifications handled (RoCE)", "CNP packets that slowed this end down.",
                         [query(top(rate("rdma_port_rp_cnp_packets_handled_total")), NAME)], unit="pps",
                         no_value="no RoCE counters")),
            (8, 9, graph("Waiting to send (InfiniBand)", "Ticks of the adapter in which it had data and no credits, for each second.",
                         [query(top(rate("rdma_port_transmit_wait_total")), NAME)], unit="cps",
                         no_value="no InfiniBand counters")),
        ]),
        ("Errors of the chosen nodes", [
            (8, 9, graph("Link", "Links that went down or recovered, symbol errors, and packets that arrived damaged.",
                         [query(top(f"{rate('rdma_port_link_downed_total')} > 0"), f"{NAME} down"),
                          query(top(f"{rate('rdma_port_link_error_recovery_total')} > 0"), f"{NAME} recovered"),
                          query(top(f"{rate('rdma_port_symbol_error_total')} > 0"), f"{NAME} symbol errors"),
                          query(top(f"{rate('rdma_port_errors_received_total')} > 0"), f"{NAME} damaged packets")],
                         unit="cps", no_value="no errors")),
            (8, 9, graph("Transport", "Acknowledgements that timed out and packets out of sequence.",
                         [query(top(f"{rate('rdma_port_local_ack_timeout_errors_total')} > 0"), f"{NAME} ACK timeout"),
                          query(top(f"{rate('rdma_port_out_of_sequence_packets_received_total')} > 0"), f"{NAME} out of sequence")],
                         unit="cps", no_value="no errors")),
            (8, 9, graph("Discards", "Packets that were not sent, and packets dropped because no receive buffer was posted.",
                         [query(top(f"{rate('rdma_port_discards_transmitted_total')} > 0"), f"{NAME} not sent"),
                          query(top(f"{rate('rdma_port_out_of_buffer_drops_total')} > 0"), f"{NAME} no buffer")],
                         unit="pps", no_value="no errors")),
        ]),
    ])
