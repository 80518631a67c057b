"""The series that dashboards read, of a synthetic fleet, as OpenMetrics: all nodes for the last minutes, one node for a whole day, and the
recorded series of all nodes for a whole day."""

import pathlib
import re

DAY, STEP = 86400, 60
# Kernel and adapter of most nodes, and of those that an update has hit.
KERNELS = ("5.15.0-1052", "5.15.0-1099")
PORTS = [f"mlx5_{n}" for n in range(9)]
SOURCES = [f"infiniband/{device}" for device in PORTS] + ["host", "iommu", "pci", "modules", "limits", "network"]
BUCKETS = ["0.001", "0.0025", "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "+Inf"]
COUNTERS = [
    "data_received_bytes", "data_transmitted_bytes", "link_downed", "link_error_recovery", "symbol_error", "errors_received",
    "discards_transmitted", "local_ack_timeout_errors", "out_of_sequence_packets_received", "rx_icrc_encapsulated_errors",
    "np_cnp_packets_sent", "rp_cnp_packets_handled", "transmit_wait", "out_of_buffer_drops",
]
FLEET = {"cluster": "east", "namespace": "rdma-health", "job": "rdma-health"}


def name_of(node):
    return {**FLEET, "node": f"gpu-{node}", "instance": f"10.0.{node >> 8}.{node & 255}:14791"}


def families(node, now):
    """Returns the series of a node: family, labels, value. One node in five was hit by an update, one in fifty has its own fault."""
    name = name_of(node)
    hit, own = node % 5 == 0, node % 50 == 1
    yield "up", name, 1
    yield "rdma_node_info", {**name, "kernel": KERNELS[hit], "rdma_stack": "inbox", "nvidia_driver": "550.54"}, 1
    yield "rdma_health_build_info", {**name, "version": "0.1.0", "revision": ""}, 1
    yield "rdma_health_node_timestamp_seconds", name, now - 20
    yield "rdma_health_observed_since_timestamp_seconds", name, now - 30 * DAY
    mode = "translated" if hit else "passthrough"
    yield "rdma_iommu_mode_info", {**name, "mode": mode}, 1
    yield "rdma_iommu_previous_boot_info", {**name, "mode": "passthrough", "kernel": KERNELS[0]}, 1
    status = "critical" if hit else "warning" if own else "ok"
    for one in ["ok", "warning", "critical", "unknown"]:
        yield "rdma_verdict", {**name, "status": one}, int(one == status)
    yield "rdma_finding", {**name, "rule": "helper-old", "cause": "", "severity": "info", "domain": "agent", "device": "", "port": ""}, 1
    if hit or own:
        cause, rule, domain = (("iommu-translation", "iommu-group-translated", "iommu") if hit else ("port-down", "port-down", "link"))
        severity = "critical" if hit else "warning"
        for device in PORTS if hit else ["mlx5_3"]:
            what = {**name, "rule": rule, "device": device, "port": "" if hit else "1"}
            yield "rdma_finding", {**what, "cause": cause, "severity": severity, "domain": domain}, 1
            yield "rdma_finding_since_timestamp_seconds", what, now - 1800
        about = {**name, "cause": cause, "severity": severity, "confidence": "likely"}
        yield "rdma_problem", {**about, "domain": domain, "device": "" if hit else "mlx5_3", "port": ""}, 1
        yield "rdma_cause", about, 1
        yield "rdma_cause_since_timestamp_seconds", {**name, "cause": cause}, now - 1800
        yield "ALERTS", {**name, "alertname": "RDMALinkProblem", "alertstate": "firing", "component": "rdma", "severity": severity,
                         "device": "", "port": ""}, 1
    for n, device in enumerate(PORTS):
        about = {**name, "device": device}
        rail = str(n) if n < 8 else ""
        yield "rdma_device_info", {**about, "rail": rail, "model": "ConnectX-7", "firmware": "28.39.1002", "driver": "mlx5_core",
                                   "slot": str(n), "pci_address": f"0000:{n + 16:02x}:00.0", "physical_function": ""}, 1
        group = {**about, "role": "rdma", "type": "DMA-FQ" if hit else "identity", "pci_address": f"0000:{n + 16:02x}:00.0"}
        yield "rdma_iommu_group_info", group, 1
        port = {**about, "port": "1"}
        yield "rdma_port_state_id", port, 1 if own and n == 3 else 4
        yield "rdma_port_rate_bytes_per_second", port, 5e10
        yield "rdma_probe_bandwidth_bytes_per_second", port, 4.8e10 - (node * 9 + n) * 1e4
        yield "rdma_probe_baseline_bandwidth_bytes_per_second", port, 4.8e10
        yield "rdma_probe_last_timestamp_seconds", port, now - (node * 9 + n) % 600
        yield "rdma_probe_latency_seconds", {**port, "statistic": "median"}, 2e-6
        for counter in COUNTERS:
            yield f"rdma_port_{counter}_total", port, (node * 9 + n) % 100
    for source in SOURCES:
        yield "rdma_health_source_stale", {**name, "source": source}, int(own and source == "pci")
        yield "rdma_health_source_unread_facts", {**name, "source": source}, int(own and source == "pci")
    for result in ["success", "failure", "skipped", "helper"]:
        yield "rdma_health_probe_runs_total", {**name, "result": result}, 1
    for result in ["success", "failure"]:
        yield "rdma_health_state_saves_total", {**name, "result": result}, 1
    for family, value in [("rdma_health_helper_up", 1), ("rdma_health_config_last_reload_successful", 1),
                          ("rdma_health_web_config_certificate_expiry_timestamp_seconds", now + 90 * DAY),
                          ("process_resident_memory_bytes", 1e7 + node), ("process_cpu_seconds_total", 1),
                          ("rdma_memlock_limit_bytes", 8 << 20)]:
        more = {"process": "kubelet", "limit": "soft"} if family == "rdma_memlock_limit_bytes" else {}
        yield family, {**name, **more}, value


def recorded():
    """Returns the recorded series of all nodes that dashboards read over time."""
    for status in ["ok", "warning", "critical", "unknown"]:
        yield "status:rdma_nodes:count", {**FLEET, "status": status}, 1000
    for n in range(12):
        yield "cause:rdma_nodes:count", {**FLEET, "cause": f"cause-{n}"}, n
    for rail in map(str, range(8)):
        yield "rail:rdma_ports_active:count", {**FLEET, "rail": rail}, 5000
        for quantile in ["0.5", "0.01"]:
            yield "rail:rdma_probe_bandwidth_ratio:quantile", {**FLEET, "rail": rail, "quantile": quantile}, 0.96
    for kernel, mode in zip(KERNELS, ["passthrough", "translated"]):
        about = {**FLEET, "kernel": kernel, "model": "ConnectX-7", "firmware": "28.39.1002", "driver": "mlx5_core", "mode": mode}
        yield "kernel_adapter_mode:rdma_nodes:count", about, 2500
        yield "kernel_adapter_mode:rdma_problem_nodes:count", about, 25
    for n in range(20):
        port = {**name_of(n), "device": "mlx5_0", "port": "1"}
        yield "port:rdma_probe_bandwidth_ratio:bottom20", port, 0.9
        yield "port:rdma_load_ratio:top20", port, 1.5
    for source in SOURCES:
        yield "source:rdma_nodes_with_unread_facts:count", {**FLEET, "source": source}, 100
    for family, label, words in [("kind:rdma_health_read_errors:rate5m", "kind", ["io", "permission"]),
                                 ("result:rdma_health_probe_runs:rate5m", "result", ["success", "failure", "skipped"]),
                                 ("code:rdma_health_kubernetes_requests:rate5m", "code", ["ok", "409", "403"]),
                                 ("reason:rdma_health_helper_restarts:rate5m", "reason", ["exited", "hung"]),
                                 ("job:rdma_health_memory_bytes:quantile", "quantile", ["0.5", "1"]),
                                 ("job:rdma_health_cpu:quantile", "quantile", ["0.5", "1"])]:
        for word in words:
            yield family, {**FLEET, label: word}, 1
    yield "job:rdma_health_scrape_seconds:p99", FLEET, 0.01


def write(file, series, times):
    """Writes the series at these times. Returns the number of series."""
    by_family = {}
    for family, labels, value in series:
        text = ",".join(f'{name}="{label}"' for name, label in labels.items())
        by_family.setdefault(family, []).append((text, value))
    with open(file, "w") as out:
        for family, rows in by_family.items():
            counter = family.endswith("_total")
            # A recorded series has a colon, which OpenMetrics permits.
            out.write(f"# TYPE {family.removesuffix('_total')} {'counter' if counter else 'gauge'}\n")
            for n, at in enumerate(times):
                for text, value in rows:
                    out.write(f"{family}{{{text}}} {value * (n + 1) if counter else value} {at}\n")
        out.write("# EOF\n")
    return sum(map(len, by_family.values()))


def names():
    """The names of all series that are written."""
    return {family for family, _, _ in [*families(0, 0), *families(1, 0), *recorded()]}


def names_in(expr):
    """The names of the metrics in an expression."""
    return set(re.findall(r"\b((?:[a-z_]+:)?(?:rdma|process|up\b|ALERTS)[a-zA-Z0-9_:]*)\{", expr))


HERE = pathlib.Path(__file__).resolve().parent
