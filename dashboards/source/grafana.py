"""Panels and dashboards of Grafana with the project's colours, units and value mappings. See https://grafana.com/docs/."""

import re

# The data source, and the labels that every series of one node has. Without the monitors' label `node`, `instance` is the name.
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
NODE = "cluster, node, instance"
# What the variables select. A label that a series does not have matches ".*", which is what "All" stands for.
FLEET = 'cluster=~"$cluster", job=~"$job"'
OF_NODES, OF_INSTANCES = 'node=~"$node"', 'node="", instance=~"$node"'
NODES = f"{FLEET}, {OF_NODES}"
PORTS = f'{NODES}, device=~"$device", port=~"$port"'

GREEN, YELLOW, ORANGE, RED, BLUE, GREY = "green", "#d99a00", "orange", "#d0342c", "blue", "#8b949e"
STATUS = {"ok": GREEN, "warning": YELLOW, "critical": RED, "unknown": GREY}
SEVERITY = {"info": BLUE, "warning": YELLOW, "critical": RED}


def values(mapping):
    """A value mapping of {value: (text, colour)}."""
    options = {str(value): {"text": text, "color": colour, "index": n}
               for n, (value, (text, colour)) in enumerate(mapping.items())}
    return [{"type": "value", "options": options}]


# 0 to 3, as the expressions below count them.
VERDICT = values({0: ("ok", GREEN), 1: ("warning", YELLOW), 2: ("critical", RED), 3: ("unknown", GREY)})
PORT_STATE = values({1: ("DOWN", GREY), 2: ("INIT", YELLOW), 3: ("ARMED", YELLOW), 4: ("ACTIVE", GREEN),
                     5: ("ACTIVE, deferred", YELLOW)})
YES = values({0: ("no", RED), 1: ("yes", GREEN)})
RULES = values({0: ("not loaded", RED), 1: ("loaded", GREEN)})
STATUS_WORDS = values({word: (word, colour) for word, colour in (STATUS | SEVERITY).items()})
IOMMU = values({"identity": ("passthrough (identity)", GREEN), "DMA": ("translated (DMA)", YELLOW),
                "DMA-FQ": ("translated (DMA-FQ)", YELLOW), "blocked": ("blocked", RED), "auto": ("auto", GREY)})
IOMMU_MODE = values({"passthrough": ("passthrough", GREEN), "translated": ("translated", YELLOW), "no_iommu": ("no IOMMU", GREY),
                     "other": ("other", GREY)})
# The verdict of each node as one number: critical outweighs warning, and unknown has its own number.
VERDICT_NUMBER = (f'sum by ({NODE}) (rdma_verdict{{status="warning", %(select)s}})'
                  f' + 2 * sum by ({NODE}) (rdma_verdict{{status="critical", %(select)s}})'
                  f' + 3 * sum by ({NODE}) (rdma_verdict{{status="unknown", %(select)s}})')


def steps(*pairs):
    """Thresholds: the first colour without a value, then (value, colour)."""
    first, *others = pairs
    return {"mode": "absolute",
            "steps": [{"color": first, "value": None}] + [{"color": colour, "value": value} for value, colour in others]}


def named(labelled, unlabelled):
    """Joins an expression of series with the label `node` and one of series without it, whose node is then their `instance`."""
    return f'{labelled} or label_replace({unlabelled}, "node", "$1", "instance", "(.+)")'


def of_fleet(expr):
    """An expression of all nodes, each with the label `node`."""
    return named(expr.replace(FLEET, f'{FLEET}, node!=""'), expr.replace(FLEET, f'{FLEET}, node=""'))


def for_nodes(expr):
    """Adds series without the label `node`: the recording rules, and so the variable Node, name such a node by its `instance`."""
    expr = " ".join(expr.split())
    if OF_NODES not in expr:
        return expr
    value = expr.removesuffix(" or vector(0)")
    unlabelled = value.replace(OF_NODES, OF_INSTANCES)
    # A number of many nodes: both halves would count the nodes without the label if all are chosen, and then the first one counts.
    if re.match(r"(count|min|max|sum|group)( by \((?!cluster, node)[^)]*\))? ?\(", value):
        return f"{value} or {unlabelled}{expr[len(value):]}"
    return named(value.replace(OF_NODES, f'{OF_NODES}, node!=""'), unlabelled)


def query(expr, legend="", instant=False, table=False, ref=None):
    target = {"refId": ref or "A", "datasource": SOURCE, "expr": for_nodes(expr), "legendFormat": legend or "__auto",
              "editorMode": "code"}
    if instant or table:
        target |= {"instant": True, "range": False}
    else:
        target |= {"instant": False, "range": True}
    target["format"] = "table" if table else "time_series"
    return target


def override(field, **properties):
    return {"matcher": {"id": "byName", "options": field},
            "properties": [{"id": name.replace("_", "."), "value": value} for name, value in properties.items()]}


# Grafana would write a panel's reason for being empty into each empty cell.
# Series that dashboards/rules.yaml records, and those of its alerts. Without the rules, a panel that reads them is as empty as that of a sound fleet.
RECORDED = re.compile(r"\w:\w+:\w|\bALERTS\b")
EMPTY_CELL = {"matcher": {"id": "byRegexp", "options": "/.*/"}, "properties": [{"id": "noValue", "value": "–"}]}


def coloured(colours):
    """Overrides that give each series of this name its colour."""
    return [override(name, color={"mode": "fixed", "fixedColor": colour}) for name, colour in colours.items()]


def panel(kind, title, description, targets, unit="short", no_value="none", thresholds=None, mappings=(), overrides=(),
          options=None, custom=None, transformations=(), links=(), colour="thresholds", interval=None, **defaults):
    for n, target in enumerate(targets):
        target["refId"] = "ABCDEFGHIJKL"[n]
    if any(RECORDED.search(target["expr"]) for target in targets):
        no_value += ", or no recording rules"
    return {
        "type": kind, "title": title, "description": " ".join(description.split()), "datasource": SOURCE, "targets": targets,
        "fieldConfig": {
            "defaults": {"unit": unit, "noValue": no_value, "mappings": list(mappings), "color": {"mode": colour},
                         "thresholds": thresholds or steps(GREEN), "links": list(links), "custom": custom or {}} | defaults,
            "overrides": list(overrides),
        },
        "options": options or {}, "transformations": list(transformations), "transparent": False,
    } | ({"interval": interval} if interval else {})


def stat(title, description, targets, text="auto", **more):
    options = {"colorMode": "background", "graphMode": "none", "justifyMode": "center", "orientation": "auto",
               "reduceOptions": {"calcs": ["lastNotNull"], "fields": more.pop("fields", ""), "values": False}, "textMode": text,
               "wideLayout": True}
    return panel("stat", title, description, targets, options=options, **more)


def graph(title, description, targets, stacked=False, **more):
    custom = {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 60 if stacked else 8, "showPoints": "never",
              "spanNulls": False, "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
              "lineInterpolation": "stepAfter" if stacked else "linear"} | more.pop("custom", {})
    options = {"legend": {"displayMode": "table", "placement": "right", "showLegend": True, "calcs": more.pop("calcs", ["lastNotNull"]),
                          "sortBy": "Last *", "sortDesc": True},
               "tooltip": {"mode": "multi", "sort": "desc"}}
    more.setdefault("colour", "palette-classic")
    return panel("timeseries", title, description, targets, options=options, custom=custom, **more)


def table(title, description, expr, columns, value=None, sort=None, links=(), overrides=(), mappings=STATUS_WORDS, **more):
    """One row for each series: the labels in `columns`, in this order, and the value under the name `value`, if given.

    `expr` may be several expressions by name, which are then columns of one table."""
    exprs = expr if isinstance(expr, dict) else {value or "Value": expr}
    targets = [query(text, table=True) for text in exprs.values()]
    names = {}
    for n, name in enumerate(exprs):
        names["Value" if len(exprs) == 1 else f"Value #{'ABCDEFGHIJKL'[n]}"] = name
    order = list(columns) + list(exprs)
    rename = {old: new for old, new in names.items()}
    hidden = {"Time": True} | ({"Value": True} if value is None and len(exprs) == 1 else {})
    index = {label: n for n, label in enumerate([*columns, *names])}
    transformations = [{"id": "merge", "options": {}}] if len(exprs) > 1 else []
    transformations += [
        {"id": "organize", "options": {"excludeByName": hidden, "indexByName": index, "renameByName": rename}},
        {"id": "filterFieldsByName", "options": {"include": {"names": [name for name in order if name != "Value" or value]}}},
    ]
    # A unit is that of the values. Grafana would also read labels as numbers, and a PCI address as a date.
    unit = more.pop("unit", "short")
    overrides = [override(field, custom_cellOptions={"type": "color-background", "mode": "basic"})
                 for field in ("severity", "status", "type", "mode") if field in columns] + [
                     override(name, unit=unit) for name in exprs] + [EMPTY_CELL] + list(overrides)
    options = {"showHeader": True, "cellHeight": "sm",
               "sortBy": [{"displayName": sort, "desc": True}] if sort else []}
    return panel("table", title, description, targets, options=options, transformations=transformations, links=links,
                 overrides=overrides, mappings=mappings, custom={"align": "auto", "filterable": True}, unit="string", **more)


def states(title, description, targets, **more):
    options = {"mergeValues": True, "showValue": "never", "alignValue": "left", "rowHeight": 0.85,
               "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
               "tooltip": {"mode": "single", "sort": "none"}}
    return panel("state-timeline", title, description, targets, options=options,
                 custom={"fillOpacity": 75, "lineWidth": 0}, **more)


def heatmap(title, description, target, unit, **more):
    options = {"calculate": True,
               "calculation": {"xBuckets": {"mode": "size", "value": "30m"}, "yBuckets": {"mode": "count", "value": "20"}},
               "cellGap": 1, "color": {"mode": "scheme", "scheme": "RdYlGn", "fill": "dark-green", "steps": 64, "exponent": 0.5,
                                       "reverse": True, "scale": "exponential"},
               "filterValues": {"le": 1e-9}, "legend": {"show": True}, "rowsFrame": {"layout": "auto"},
               "tooltip": {"mode": "single", "yHistogram": False, "showColorScale": False},
               "yAxis": {"axisPlacement": "left", "reverse": False, "unit": unit}}
    return panel("heatmap", title, description, [target], unit=unit, options=options, **more)


def link(title, url):
    """A link of a table's row or of a series."""
    return {"title": title, "url": url, "targetBlank": True}


# With the cluster of the row: two clusters may have nodes of the same name. Where no series has the label, Grafana 11 and later leave the
# value empty, which matches series without it.
TO_NODE = link("Node dashboard",
               "/d/rdma-health-node?${datasource:queryparam}&${job:queryparam}&var-cluster=${__data.fields.cluster}"
               "&var-node=${__data.fields.node}&${__url_time_range}")
TO_NODE_OF_SERIES = link("Node dashboard",
                         "/d/rdma-health-node?${datasource:queryparam}&${job:queryparam}&var-cluster=${__field.labels.cluster}"
                         "&var-node=${__field.labels.node}&${__url_time_range}")
TO_PORTS = link("Ports of this node",
                "/d/rdma-health-ports?${datasource:queryparam}&${job:queryparam}&var-cluster=${__data.fields.cluster}"
                "&var-node=${__data.fields.node}&${__url_time_range}")
TO_PAGE = link("Page of the agent", "${scheme}://${__data.fields.instance}/")
TO_RULE = link("Explanation by the agent", "${scheme}://${__data.fields.instance}/explain/${__data.fields.rule}")
TO_CAUSE = link("Explanation by the agent", "${scheme}://${__data.fields.instance}/explain/${__data.fields.cause}")
TO_CAUSES = link("Causes in the catalogue", "${docs}/rules.md#causes")
TO_CATALOGUE = link("Rule in the catalogue", "${docs}/rules.md#${__data.fields.rule}")
TO_RUNBOOK = link("Runbook", "${docs}/runbooks/${__data.fields.alertname}.md")


def variable(name, label, of, multi=True, **more):
    return {"name": name, "type": "query", "label": label, "datasource": SOURCE, "query": {"query": of, "refId": name},
            "refresh": 2, "sort": 7, "multi": multi, "includeAll": multi,
            "hide": 0, "regex": "", "skipUrlSync": False, "options": []} | (
                {"allValue": ".*", "current": {"text": ["All"], "value": ["$__all"]}} if multi else {}) | more


DATASOURCE = {"name": "datasource", "type": "datasource", "label": "Data source", "query": "prometheus", "hide": 0,
              "includeAll": False, "multi": False, "refresh": 1, "regex": "", "skipUrlSync": False, "options": []}
SCHEME = {"name": "scheme", "type": "custom", "label": "Agent over", "query": "http,https", "hide": 0, "includeAll": False,
          "multi": False, "skipUrlSync": False, "current": {"text": "http", "value": "http"},
          "options": [{"text": word, "value": word, "selected": word == "http"} for word in ("http", "https")]}
DOCS = {"name": "docs", "type": "constant", "label": "Base of the documentation", "hide": 2, "skipUrlSync": True,
        "query": "https://github.com/rdma-health/rdma-health/blob/main/docs"}
CLUSTER = variable("cluster", "Cluster", "label_values(rdma_verdict, cluster)")
JOB = variable("job", "Job", "label_values(rdma_verdict, job)")


def node_variable(multi, all_nodes=True):
    names = variable("node", "Node", f"label_values(node:rdma_kernel:timestamp{{{FLEET}}}, node)", multi and all_nodes)
    return names | {"multi": multi}


DEVICE = variable("device", "Device", f"label_values(rdma_port_state_id{{{NODES}}}, device)")
PORT = variable("port", "Port", f'label_values(rdma_port_state_id{{{NODES}, device=~"$device"}}, port)')


def dashboard(name, title, description, variables, rows, since="now-24h"):
    """A dashboard of rows: (title, [(width, height, panel), …]). Panels that do not fit go to the next line."""
    panels, y, number = [], 0, 1
    for row_title, cells in rows:
        panels.append({"id": number, "type": "row", "title": row_title, "collapsed": False, "panels": [],
                       "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}})
        number, y, x, tallest = number + 1, y + 1, 0, 0
        for width, height, cell in cells:
            if x + width > 24:
                x, y, tallest = 0, y + tallest, 0
            panels.append({"id": number, "gridPos": {"x": x, "y": y, "w": width, "h": height}} | cell)
            number, x, tallest = number + 1, x + width, max(tallest, height)
        y += tallest
    boards = {"rdma-health-fleet": "Fleet", "rdma-health-node": "Node", "rdma-health-ports": "Ports and rails",
              "rdma-health-agent": "Agents"}
    links = [{"type": "link", "title": other, "url": f"/d/{uid}", "icon": "dashboard", "includeVars": True, "keepTime": True,
              "targetBlank": False, "asDropdown": False, "tags": [], "tooltip": ""}
             for uid, other in boards.items() if uid != name]
    return {
        "uid": name, "title": title, "description": description, "tags": ["rdma", "rdma-health"], "schemaVersion": 39, "version": 1,
        "editable": True, "graphTooltip": 1, "refresh": "1m", "time": {"from": since, "to": "now"}, "timezone": "browser",
        "timepicker": {}, "weekStart": "", "fiscalYearStartMonth": 0, "liveNow": False, "links": links,
        "annotations": {"list": []}, "templating": {"list": variables}, "panels": panels,
    }
