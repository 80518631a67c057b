"""All nodes: how many have a problem, which, since when, and what they have in common."""

from grafana import *

# One series for each problem on a node: a cause, and the device if it concerns one. The recorded series stay while an agent does not
# answer, as the alerts do.
PROBLEM = f"node:rdma_problem:max{{{FLEET}}}"
OF_NODE = "cluster, node"
ON_NODE = f"max by ({OF_NODE}, cause, severity, domain) ({PROBLEM})"
KNOWN = f"count(node:rdma_up:max{{{FLEET}}})"
NO_ANSWER = f"count(node:rdma_up:max{{{FLEET}}} == 0)"
VERDICTS = STATUS | {"no answer": ORANGE}
KERNEL = f"max by ({NODE}, kernel) (rdma_node_info{{{FLEET}}})"
MODE = f"max by ({NODE}, mode) (rdma_iommu_mode_info{{{FLEET}}})"
# What the devices of nodes with a finding about a device are.
FOUND = f'rdma_finding{{severity=~"warning|critical", device!="", {FLEET}}}'
COMMON = "kernel, model, firmware, driver, mode"
RAILS = f'max by ({NODE}, device, rail) (rdma_device_info{{rail!="", physical_function="", {FLEET}}})'
# A device that is gone has no rail any more.
GONE = "rdma_finding{rule=~\"device-lost|hcas-missing\", severity=\"%s\", " + FLEET + "}"
ROWS = (f'topk(50, count by ({NODE}) ({FOUND} and on ({NODE}, device) {RAILS} or {GONE % "critical"} or {GONE % "warning"}))')
RAIL = f'({RAILS} and on ({NODE}) {ROWS})'
# A matrix has one column for its rows: the node, with its cluster if there is one.
ROW = r'label_replace(label_join(%s, "node", " ", "node", "cluster"), "node", "$1", "node", "(.*[^ ]) *")'

BOARD = dashboard(
    "rdma-health-fleet", "RDMA health: fleet",
    "How many nodes have an RDMA problem, which, since when, and what they have in common.",
    [DATASOURCE, CLUSTER, JOB, SCHEME, DOCS],
    [
        ("Now", [
            (8, 4, stat("Nodes by verdict", "The verdict of a node is the severity of its worst finding.",
                         [query(f"count by (status) (rdma_verdict{{{FLEET}}} == 1)", "{{status}}", instant=True),
                          query(NO_ANSWER, "no answer", instant=True, ref="B")],
                         text="value_and_name", colour="fixed", overrides=coloured(VERDICTS), no_value="no agent is scraped")),
            (4, 4, stat("Agents not scraped", "Agents that Prometheus knows and cannot scrape. It cannot see an agent that was deleted.",
                        [query(f"{NO_ANSWER} or 0 * {KNOWN}", instant=True)],
                        no_value="no agent is scraped", thresholds=steps(GREEN, (1, RED)))),
            (4, 4, stat("Nodes with an IOMMU problem",
                        "Nodes with a problem of the domain iommu, of severity warning or critical.",
                        [query(f'count(count by ({OF_NODE}) (node:rdma_problem:max{{domain="iommu", severity=~"warning|critical", {FLEET}}})) or 0 * {KNOWN}', instant=True)],
                        no_value="no agent is scraped", thresholds=steps(GREEN, (1, RED)))),
            (4, 4, stat("Nodes with stale facts", "Nodes on which the kernel does not answer a read in time.",
                        [query(f"count(group by ({NODE}) (rdma_health_source_stale{{{FLEET}}} == 1)) or vector(0)", instant=True)],
                        thresholds=steps(GREEN, (1, YELLOW)))),
            (4, 4, stat("Recording rules",
                        "Whether Prometheus evaluates dashboards/rules.yaml. Without these rules there are no alerts, and the panels that read them are empty.",
                        [query(f"group(node:rdma_up:max{{{FLEET}}}) or 0 * group(rdma_health_build_info{{{FLEET}}})", instant=True)],
                        mappings=RULES, no_value="no agent is scraped", thresholds=steps(RED, (1, GREEN)))),
        ]),
        ("Over time", [
            (12, 8, graph("Verdicts", "Number of nodes by verdict.",
                          [query(f"sum by (status) (status:rdma_nodes:count{{{FLEET}}})", "{{status}}"),
                           query(NO_ANSWER, "no answer", ref="B")],
                          stacked=True, overrides=coloured(VERDICTS), no_value="no agent is scraped")),
            (12, 8, graph("Nodes by cause", "Number of nodes with a warning or critical problem of this cause; the ten most frequent causes.",
                          [query(f"topk(10, sum by (cause) (cause:rdma_nodes:count{{{FLEET}}}))", "{{cause}}")],
                          no_value="no problem")),
        ]),
        ("What is wrong", [
            (12, 9, table("Top causes", "Number of nodes with a problem of this cause, and of devices if it concerns single devices.",
                          {"nodes": f"count by (cause, severity, domain) ({ON_NODE})",
                           "devices": f'count by (cause, severity, domain) (node:rdma_problem:max{{device!="", {FLEET}}})'},
                          ["cause", "severity", "domain"], sort="nodes", links=[TO_CAUSES], no_value="no problem")),
            (12, 9, table("New in the last hour",
                          """Problems that began less than an hour ago. What an agent saw in the first minute of its history may be older and is
                          left out.""",
                          of_fleet(f"""1000 * ((max by ({NODE}, cause) (rdma_cause_since_timestamp_seconds{{{FLEET}}}) > time() - 3600)
                              > on ({NODE}) group_left () (60 + max by ({NODE}) (rdma_health_observed_since_timestamp_seconds{{{FLEET}}})))
                              and on ({NODE}, cause) rdma_problem{{{FLEET}}}"""),
                          ["node", "cause", "cluster", "instance"], value="since", unit="dateTimeFromNow", sort="since",
                          links=[TO_NODE, TO_CAUSE, TO_PAGE], no_value="nothing new")),
            (24, 10, table("Nodes with a problem", "The number of problems of each severity, the worst node first; of an agent that does not answer the last ones.",
                           {"critical": f'count by ({OF_NODE}) (node:rdma_problem:max{{severity="critical", {FLEET}}})',
                            "warning": f'count by ({OF_NODE}) (node:rdma_problem:max{{severity="warning", {FLEET}}})',
                            "oldest": f"1000 * min by ({OF_NODE}) (node:rdma_cause_since:min{{{FLEET}}} "
                                      f"and on ({OF_NODE}, cause) {PROBLEM})"},
                           ["node", "cluster"], sort="critical", links=[TO_NODE], no_value="no problem",
                           overrides=[override("critical", thresholds=steps("transparent", (1, RED)),
                                               custom_cellOptions={"type": "color-background", "mode": "basic"}),
                                      override("warning", thresholds=steps("transparent", (1, YELLOW)),
                                               custom_cellOptions={"type": "color-background", "mode": "basic"}),
                                      override("oldest", unit="dateTimeFromNow")])),
        ]),
        ("What the nodes have in common", [
            (24, 9, table("Kernel, adapter, firmware and IOMMU mode",
                          "Number of nodes of each combination, and of those with a problem.",
                          {"nodes": f"sum by ({COMMON}) (kernel_adapter_mode:rdma_nodes:count{{{FLEET}}})",
                           "with a problem": f"sum by ({COMMON}) (kernel_adapter_mode:rdma_problem_nodes:count{{{FLEET}}})"},
                          ["kernel", "model", "firmware", "driver", "mode"], sort="with a problem", mappings=IOMMU_MODE,
                          no_value="no RDMA device")),
            (12, 9, table("IOMMU mode by kernel", "Number of nodes by kernel and IOMMU mode.",
                          f"count by (kernel, mode) ({MODE} * on ({NODE}) group_left(kernel) {KERNEL})",
                          ["kernel", "mode"], value="nodes", sort="nodes", mappings=IOMMU_MODE, no_value="no mode is reported")),
            (12, 9, table("Lost passthrough with the last boot",
                          "Nodes that were in passthrough mode at the boot before and are translated now, by the kernels of both boots.",
                          f"""count by (kernel, previous_kernel) (
                              label_replace(max by ({NODE}, kernel) (rdma_iommu_previous_boot_info{{mode="passthrough", {FLEET}}}),
                                            "previous_kernel", "$1", "kernel", "(.*)")
                              * on ({NODE}) group_left() max by ({NODE}) (rdma_iommu_mode_info{{mode="translated", {FLEET}}})
                              * on ({NODE}) group_left(kernel) {KERNEL})""",
                          ["previous_kernel", "kernel"], value="nodes", sort="nodes", no_value="no node")),
            (24, 10, panel(
                "table", "Nodes with findings, by rail",
                """The worst finding about the devices of each rail, on the 50 nodes with the most of them. The column `gone` is about devices that are
                missing. An empty cell is a rail that the node does not have, or has lost.""",
                [query(ROW % of_fleet(f"""(max by ({NODE}, rail) ((2 * rdma_finding{{severity="critical", device!="", {FLEET}}}
                             or rdma_finding{{severity="warning", device!="", {FLEET}}})
                             * on ({NODE}, device) group_left(rail) {RAIL})
                            or label_replace(max by ({NODE}) (2 * {GONE % "critical"} or {GONE % "warning"}), "rail", "gone", "", "")
                            or max by ({NODE}, rail) (0 * {RAIL}))"""),
                       table=True)],
                mappings=VERDICT, no_value="no finding about a device of a rail", custom={"align": "center", "cellOptions": {
                    "type": "color-background", "mode": "basic"}},
                transformations=[{"id": "groupingToMatrix", "options": {"columnField": "rail", "rowField": "node",
                                                                        "valueField": "Value", "emptyValue": "empty"}}],
                overrides=[override("node\\rail", custom_cellOptions={"type": "auto"}, custom_align="left"), EMPTY_CELL],
                options={"showHeader": True, "cellHeight": "sm"})),
        ]),
    ])
