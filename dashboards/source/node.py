"""One node: what is wrong, since when, and what its devices did."""

from grafana import *

ON = f"on ({NODE}, device, port)"
SPEED = f"max by ({NODE}, device, port) (rdma_port_rate_bytes_per_second{{{NODES}}})"


def rate(name):
    return f"sum by ({NODE}, device, port) (rate({name}{{{NODES}}}[$__rate_interval]))"


ERRORS = {
    "link down": "rdma_port_link_downed_total", "link recovered": "rdma_port_link_error_recovery_total",
    "symbol errors": "rdma_port_symbol_error_total", "errors received": "rdma_port_errors_received_total",
    "discards sent": "rdma_port_discards_transmitted_total", "ACK timeouts": "rdma_port_local_ack_timeout_errors_total",
    "out of sequence": "rdma_port_out_of_sequence_packets_received_total", "ICRC": "rdma_port_rx_icrc_encapsulated_errors_total",
}
# Which errors a device counts depends on its driver.
ALL_ERRORS = " or ".join(
    f'label_replace(sum by ({NODE}, device, port) (increase({name}{{{NODES}}}[$__rate_interval])), "error", "{label}", "", "")'
    for label, name in ERRORS.items())

BOARD = dashboard(
    "rdma-health-node", "RDMA health: node", "What is wrong with one node, since when, and what its devices did.",
    [DATASOURCE, CLUSTER, JOB, node_variable(multi=False), SCHEME, DOCS],
    [
        ("Now", [
            (4, 4, stat("Verdict", "The severity of the worst finding.",
                        [query(VERDICT_NUMBER % {"select": NODES}, "{{node}}", instant=True)], mappings=VERDICT,
                        no_value="not scraped", thresholds=steps(GREEN, (1, YELLOW), (2, RED), (3, GREY)))),
            (4, 4, stat("IOMMU", "IOMMU mode of the RDMA devices and GPUs: translated if one of them is.",
                        [query(f"group by (mode) (rdma_iommu_mode_info{{{NODES}}})", "{{mode}}", instant=True)],
                        text="name", no_value="unknown or not scraped", colour="fixed",
                        overrides=coloured({"passthrough": GREEN, "translated": YELLOW, "no_iommu": GREY, "other": GREY}))),
            (4, 4, stat("Ports", "Number of ports by state.",
                        [query(f'count(rdma_port_state_id{{{NODES}}} == 4) or 0 * count(rdma_port_state_id{{{NODES}}})', "ACTIVE", instant=True),
                         query(f'count(rdma_port_state_id{{{NODES}}} != 4) or 0 * count(rdma_port_state_id{{{NODES}}})', "other", instant=True)],
                        text="value_and_name", no_value="no RDMA device", colour="fixed",
                        overrides=coloured({"ACTIVE": GREEN, "other": GREY}))),
            (4, 4, stat("Facts read", "Age of the facts at the last scrape.",
                        [query(f"time() - rdma_health_node_timestamp_seconds{{{NODES}}}", "{{node}}", instant=True)], unit="s",
                        no_value="not scraped", thresholds=steps(GREEN, (300, YELLOW), (900, RED)))),
            (8, 4, table("Kernel and drivers", "What runs on the node. The links lead to the agent's page and to the runbooks.",
                         f"max by ({NODE}, kernel, rdma_stack, nvidia_driver) (rdma_node_info{{{NODES}}})",
                         ["kernel", "rdma_stack", "nvidia_driver", "instance"], links=[TO_PAGE], no_value="not scraped")),
        ]),
        ("What is wrong", [
            (14, 8, table("Causes", "What explains the findings, and since when. The first link leads to the explanation.",
                          f"""1000 * max by ({NODE}, cause) (rdma_cause_since_timestamp_seconds{{{NODES}}})
                              * on ({NODE}, cause) group_left(severity, confidence)
                              max by ({NODE}, cause, severity, confidence) (rdma_cause{{{NODES}}})""",
                          ["severity", "cause", "confidence", "instance"], value="since", unit="dateTimeFromNow",
                          links=[TO_CAUSE, TO_PAGE], no_value="no cause")),
            (10, 8, table("Firing alerts", "Alerts of this node, and of the fleet if this node has the same fault. The link leads to the runbook.",
                          # Alerts of the fleet have no node: those of a problem or fault that this node has.
                          f'max by ({NODE}, alertname, severity, cause, device, port) '
                          f'(ALERTS{{alertstate="firing", component="rdma", {NODES}}} '
                          f'or ALERTS{{alertstate="firing", alertname="RDMAFleetProblem", node=""}} '
                          f'and on (cluster, namespace, job, cause) node:rdma_problem:max{{{NODES}}} '
                          f'or ALERTS{{alertstate="firing", alertname="RDMAHealthFleetProblem", node=""}} '
                          f'and on (cluster, namespace, job, fault) node:rdma_agent_fault:value{{{NODES}}})',
                          ["alertname", "severity", "cause", "device", "port"], links=[TO_RUNBOOK], no_value="no alert")),
            (24, 8, table("Findings", "Findings of the node, and since when. The links lead to the explanation of the rule.",
                          f"""1000 * max by ({NODE}, rule, device, port) (rdma_finding_since_timestamp_seconds{{{NODES}}})
                              * on ({NODE}, rule, device, port) group_left(severity, domain)
                              max by ({NODE}, rule, severity, domain, device, port) (rdma_finding{{{NODES}}})""",
                          ["severity", "rule", "device", "port", "domain", "instance"], value="since", unit="dateTimeFromNow",
                          sort="since", links=[TO_RULE, TO_CATALOGUE, TO_PAGE], no_value="no finding")),
            (24, 6, states("Verdict over time", "The severity of the worst finding.",
                           [query(VERDICT_NUMBER % {"select": NODES}, "{{node}}")], mappings=VERDICT, no_value="not scraped",
                           thresholds=steps(GREEN, (1, YELLOW), (2, RED), (3, GREY)))),
            (24, 8, states("Findings over time", "Each rule while it reports something.",
                           [query(f'max by (rule) (2 * rdma_finding{{severity="critical", {NODES}}} or '
                                  f'rdma_finding{{severity="warning", {NODES}}} or 0 * rdma_finding{{severity="info", {NODES}}})',
                                  "{{rule}}")],
                           mappings=values({0: ("info", BLUE), 1: ("warning", YELLOW), 2: ("critical", RED)}), no_value="no finding")),
        ]),
        ("Ports", [
            (24, 8, states("Port states", "The logical state of each port. A port that is DOWN and unused is not a problem.",
                           [query(f"max by (device, port) (rdma_port_state_id{{{NODES}}})", "{{device}}:{{port}}")],
                           mappings=PORT_STATE, no_value="no RDMA device")),
            (12, 9, graph("Traffic", "Received above the axis, sent below.",
                          [query(f"8 * {rate('rdma_port_data_received_bytes_total')}", "{{device}}:{{port}} received"),
                           query(f"0 - 8 * {rate('rdma_port_data_transmitted_bytes_total')}", "{{device}}:{{port}} sent")],
                          unit="bps", no_value="the driver has no byte counters")),
            (12, 9, graph("Errors", "Errors for each interval. Ports without errors are left out.",
                          [query(f"({ALL_ERRORS}) > 0", "{{device}}:{{port}} {{error}}")], no_value="no errors",
                          custom={"drawStyle": "bars", "fillOpacity": 80}, interval="5m")),
        ]),
        ("Probes", [
            (6, 8, graph("Loopback bandwidth", "Bandwidth that the probe measured, relative to the rate of the port.",
                         [query(f"max by ({NODE}, device, port) (rdma_probe_bandwidth_bytes_per_second{{{NODES}}}) / {ON} {SPEED}",
                                "{{device}}:{{port}}")],
                         unit="percentunit", min=0, max=1.1, no_value="no probe has run",
                         thresholds=steps(RED, (0.5, YELLOW), (0.8, GREEN)))),
            (6, 8, graph("Loopback bandwidth, relative to earlier probes",
                         "The median of earlier probes of the same port is 100 %; the agent remembers it.",
                         [query(f"max by ({NODE}, device, port) (rdma_probe_bandwidth_bytes_per_second{{{NODES}}}) / {ON} "
                                f"max by ({NODE}, device, port) (rdma_probe_baseline_bandwidth_bytes_per_second{{{NODES}}})",
                                "{{device}}:{{port}}")],
                         unit="percentunit", min=0, no_value="no port was probed twice")),
            (6, 8, graph("Loopback latency", "Median latency of small writes.",
                         [query(f'max by ({NODE}, device, port) (rdma_probe_latency_seconds{{statistic="median", {NODES}}})',
                                "{{device}}:{{port}}")], unit="s", no_value="no probe has run")),
            (6, 8, table("Failed probes", "Why the last probe of a port failed.",
                         f"max by ({NODE}, device, port, stage, reason, vendor_error) (rdma_probe_failure_info{{{NODES}}})",
                         ["device", "port", "stage", "reason", "vendor_error"], no_value="no probe failed")),
        ]),
        ("Hardware", [
            (16, 9, table("RDMA devices", "Model, firmware, rail, slot, PCI address and IOMMU mode of each device.",
                          f"""max by ({NODE}, device, rail, model, firmware, slot, driver, pci_address) (rdma_device_info{{{NODES}}})
                              * on ({NODE}, device) group_left(type)
                              max by ({NODE}, device, type) (rdma_iommu_group_info{{role="rdma", {NODES}}})
                              or max by ({NODE}, device, rail, model, firmware, slot, driver, pci_address) (rdma_device_info{{{NODES}}})
                              unless on ({NODE}, device) rdma_iommu_group_info{{role="rdma", {NODES}}}""",
                          ["device", "rail", "model", "firmware", "slot", "driver", "pci_address", "type"], mappings=IOMMU,
                          no_value="no RDMA device, or not scraped")),
            (8, 9, table("Limited locked memory", "Processes whose memlock limit is not unlimited. Pods inherit that of the runtime.",
                         f"min by ({NODE}, process, limit) (rdma_memlock_limit_bytes{{{NODES}}}) < +Inf",
                         ["process", "limit"], value="bytes", unit="bytes", no_value="no limit")),
        ]),
    ])

# An agent that is not scraped has no series either: a panel does not know the reason. Alerts stay while an agent does not answer.
for cell in BOARD["panels"]:
    default = cell.get("fieldConfig", {}).get("defaults", {})
    if "not scraped" not in default.get("noValue", "not scraped") and cell["title"] != "Firing alerts":
        default["noValue"] += ", or not scraped"
