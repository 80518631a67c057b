#!/usr/bin/env python3
"""Checks that every metric in rules and dashboards is in the catalogue, and that every alert has a runbook."""

import json
import pathlib
import re
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
known = set(re.findall(r"^\| `([a-z_0-9:]+)`", (ROOT / "docs/metrics.md").read_text(), re.M))
# Added by Prometheus and the monitors.
labels = {"cluster", "namespace", "node", "instance", "job", "daemonset", "alertname", "alertstate", "component", "le"}
label_names = set()
for line in (ROOT / "docs/metrics.md").read_text().splitlines():
    cells = [cell.strip() for cell in line.split("|")]
    if len(cells) > 5 and cells[1].startswith("`"):
        label_names |= set(re.findall(r"`([^`]+)`", cells[4]))
WORDS = set("by on and or unless without ignoring group_left group_right bool offset count sum max min rate increase vector "
            "label_values humanizePercentage quantile_over_time max_over_time min_over_time up time humanizeDuration absent "
            "count_values floor label_join label_replace last_over_time ALERTS kube_daemonset_status_number_unavailable "
            "kube_daemonset_status_desired_number_scheduled kube_node_info "
            "fault changes resets group previous_kernel topk bottomk quantile histogram_quantile Inf count_over_time".split())
problems = []
rules = yaml.safe_load((ROOT / "dashboards/rules.yaml").read_text())
recorded = {r["record"] for g in rules["groups"] for r in g["rules"] if "record" in r}
texts = [(r.get("alert") or r["record"], r["expr"]) for g in rules["groups"] for r in g["rules"]]
for file in sorted((ROOT / "dashboards").glob("*.json")):
    board = json.loads(file.read_text())
    texts += [(f"{file.name}: {p['title']}", t["expr"]) for p in board["panels"] for t in p.get("targets", [])]
    texts += [(f"{file.name}: {v['name']}", v["query"]["query"]) for v in board["templating"]["list"]
              if isinstance(v["query"], dict)]
used = set()
for where, text in texts:
    for name in re.findall(r"[a-zA-Z_:][a-zA-Z0-9_:]*", re.sub(r'"[^"]*"', "", re.sub(r"\[[^\]]*\]|offset \w+", "", text))):
        if name in WORDS or name in labels or name in label_names:
            continue
        used.add(name)
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        if name not in known and base not in known and name not in recorded:
            problems.append(f"{where}: {name} is not in docs/metrics.md")
alerts = {r["alert"] for g in rules["groups"] for r in g["rules"] if "alert" in r}
pages = {page.stem for page in (ROOT / "docs/runbooks").glob("*.md")} - {"README"}
problems += [f"{alert} has no page docs/runbooks/{alert}.md" for alert in sorted(alerts - pages)]
problems += [f"docs/runbooks/{page}.md belongs to no alert" for page in sorted(pages - alerts)]
if problems:
    sys.exit("\n".join(problems))
print(f"{len(used)} names in {len(texts)} expressions are in the catalogue; {len(alerts)} alerts have a runbook")
