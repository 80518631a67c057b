"""All nodes: how many have a problem, which, since when, and what they have in common."""

from grafana import *

BAD = f'rdma_finding{{severity=~"warning|critical", {FLEET}}}'
# One series for each rule on a node, whatever the number of devices.
ON_NODE = f"count by ({NODE}, rule, severity, domain) ({BAD})"
KERNEL = f"max by ({NODE}, kernel) (rdma_node_info{{{FLEET}}})"
TYPE_OF_DEVICE = f'max by ({NODE}, device, type) (rdma_iommu_group_info{{role="rdma", {FLEET}}})'
MODELS = values({kind: (name, "text") for kind, name in {
    "MT4115": "ConnectX-4", "MT4117": "ConnectX-4 Lx", "MT4119": "ConnectX-5", "MT4121": "ConnectX-5 Ex", "MT4123": "ConnectX-6",
    "MT4125": "ConnectX-6 Dx", "MT4126": "ConnectX VF", "MT4127": "ConnectX-6 Lx", "MT4129": "ConnectX-7", "MT4131": "ConnectX-8",
    "MT41686": "BlueField-2", "MT41692": "BlueField-3"}.items()})

BOARD = dashboard(
    "rdma-health-fleet", "RDMA health: fleet",
    "How many nodes have an RDMA problem, which, since when, and what they have in common.",
    [DATASOURCE, CLUSTER, JOB, SCHEME, DOCS],
    [
        ("Now", [
            (10, 4, stat("Nodes by verdict", "The verdict of a node is the severity of its worst finding.",
                         [query(f"count by (status) (rdma_verdict{{{FLEET}}} == 1)", "{{status}}", instant=True)],
                         text="value_and_name", colour="fixed", overrides=coloured(STATUS), no_value="no agent is scraped")),
            (5, 4, stat("Agents not scraped", "Agents that Prometheus knows and cannot scrape. It cannot see an agent that was deleted.",
                        [query(f"count(up{{{FLEET}}} == 0) or vector(0)", instant=True)],
                        thresholds=steps(GREEN, (1, RED)))),
            (5, 4, stat("Nodes with unwanted IOMMU translation",
                        "Nodes on which a rule reports translated DMA addresses as warning or critical.",
                        [query(f"""count(count by ({NODE}) (rdma_finding{{rule=~"iommu-group-translated|iommu-regressed",
                                   severity=~"warning|critical", {FLEET}}})) or vector(0)""", instant=True)],
                        thresholds=steps(GREEN, (1, RED)))),
            (4, 4, stat("Nodes with stale facts", "Nodes on which the kernel does not answer a read in time.",
                        [query(f"count(max by ({NODE}) (rdma_health_source_stale{{{FLEET}}}) == 1) or vector(0)", instant=True)],
                        thresholds=steps(GREEN, (1, YELLOW)))),
        ]),
        ("Over time", [
            (12, 8, graph("Verdicts", "Number of nodes by verdict.",
                          [query(f"count by (status) (rdma_verdict{{{FLEET}}} == 1)", "{{status}}")],
                          stacked=True, overrides=coloured(STATUS), no_value="no agent is scraped")),
            (12, 8, graph("Nodes by rule", "Number of nodes on which a rule reports a warning or critical finding; the ten most frequent.",
                          [query(f"topk(10, count by (rule) (count by ({NODE}, rule) ({BAD})))", "{{rule}}")],
                          no_value="no finding of warning or above")),
        ]),
        ("What is wrong", [
            (12, 9, table("Rules that fire", "The most frequent first. One fault on eight devices of a node counts once.",
                          f"count by (rule, severity, domain) ({ON_NODE})", ["rule", "severity", "domain"], value="nodes",
                          sort="nodes", links=[TO_CATALOGUE], no_value="no finding of warning or above")),
            (12, 9, table("New in the last hour", "Findings that did not exist an hour ago, on nodes that were scraped then.",
                          f"""({ON_NODE} unless count by ({NODE}, rule, severity, domain) ({BAD} offset 1h))
                              and on ({NODE}) max by ({NODE}) (rdma_verdict{{{FLEET}}} offset 1h)""",
                          ["node", "rule", "severity", "domain", "cluster", "instance"], value="devices",
                          links=[TO_NODE, TO_RULE, TO_PAGE], no_value="nothing new")),
            (24, 10, table("Nodes with a problem", "Nodes with warnings or critical findings, the worst first.",
                           {"critical": f'count by ({NODE}) (count by ({NODE}, rule) (rdma_finding{{severity="critical", {FLEET}}}))',
                            "warning": f'count by ({NODE}) (count by ({NODE}, rule) (rdma_finding{{severity="warning", {FLEET}}}))'},
                           ["node", "cluster", "instance"], sort="critical", links=[TO_NODE, TO_PAGE],
                           no_value="no finding of warning or above",
                           overrides=[override("critical", thresholds=steps("transparent", (1, RED)),
                                               custom_cellOptions={"type": "color-background", "mode": "basic"}),
                                      override("warning", thresholds=steps("transparent", (1, YELLOW)),
                                               custom_cellOptions={"type": "color-background", "mode": "basic"})])),
        ]),
        ("What the nodes have in common", [
            (12, 9, table("IOMMU mode by kernel", "Number of nodes by kernel and by IOMMU mode of their RDMA devices and GPUs.",
                          f"""count by (kernel, type) (max by ({NODE}, type) (rdma_iommu_group_info{{{FLEET}}})
                              * on ({NODE}) group_left(kernel) {KERNEL})""",
                          ["kernel", "type"], value="nodes", sort="nodes", mappings=IOMMU, no_value="no IOMMU is active")),
            (12, 9, table("Findings by kernel", "Number of nodes by kernel and rule.",
                          f"""count by (kernel, rule, severity) (count by ({NODE}, rule, severity) ({BAD})
                              * on ({NODE}) group_left(kernel) {KERNEL})""",
                          ["kernel", "rule", "severity"], value="nodes", sort="nodes", links=[TO_CATALOGUE],
                          no_value="no finding of warning or above")),
            (24, 9, table("Kernel, adapter, firmware and IOMMU mode", "Number of RDMA devices of each combination.",
                          f"""count by (kernel, hca_type, firmware, driver, type) (
                              (max by ({NODE}, device, hca_type, firmware, driver) (rdma_device_info{{{FLEET}}})
                               * on ({NODE}, device) group_left(type) {TYPE_OF_DEVICE})
                              * on ({NODE}) group_left(kernel) {KERNEL})""",
                          ["kernel", "hca_type", "firmware", "driver", "type"], value="devices", sort="devices", mappings=IOMMU,
                          overrides=[override("hca_type", mappings=MODELS)], no_value="no IOMMU group of an RDMA device")),
            (24, 10, panel(
                "table", "Nodes with findings, by device",
                """The worst finding about each device, on nodes that have one. A device without a finding is ok; an empty cell is a device
                that the node does not have.""",
                [query(f"""(max by (node, device) (2 * rdma_finding{{severity="critical", device!="", {FLEET}}}
                             or rdma_finding{{severity="warning", device!="", {FLEET}}})
                            or max by (node, device) (0 * rdma_device_info{{{FLEET}}}))
                           and on (node) max by (node) (rdma_finding{{severity=~"warning|critical", device!="", {FLEET}}})""",
                       table=True)],
                mappings=VERDICT, no_value="no finding about a device", custom={"align": "center", "cellOptions": {
                    "type": "color-background", "mode": "basic"}},
                transformations=[{"id": "groupingToMatrix", "options": {"columnField": "device", "rowField": "node",
                                                                        "valueField": "Value", "emptyValue": "empty"}}],
                options={"showHeader": True, "cellHeight": "sm"})),
        ]),
    ])
