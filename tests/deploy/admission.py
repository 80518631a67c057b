#!/usr/bin/env python3
"""Runs the expressions of the admission policy on requests as an API server would make of them.

By cel-python, not by an API server: Debian's is too old to know admission policies. It shows what the expressions decide; that a
server compiles them against its own types it does not show.
"""

import copy
import pathlib
import sys

import celpy
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
policy = next(v for v in yaml.safe_load_all((ROOT / "deploy/kustomize/base/admission.yaml").read_text())
              if v["kind"] == "ValidatingAdmissionPolicy")["spec"]
environment = celpy.Environment()
AGENT = "system:serviceaccount:rdma-health:rdma-health"
READY = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
OURS = {"type": "RDMAIommuProblem", "status": "True", "reason": "IommuGroupTranslated"}


def run(expression, values):
    return environment.program(environment.compile(expression)).evaluate(celpy.json_to_cel(values))


def admit(request, new, old):
    """None where it is admitted, else why not."""
    values = {"request": request, "object": new, "oldObject": old, "variables": {}}
    if not all(run(c["expression"], values) for c in policy["matchConditions"]):
        return None
    for variable in policy["variables"]:
        # An expression that is not there is null to CEL; a variable is evaluated when it is first used.
        values["variables"][variable["name"]] = run(variable["expression"], values)
    for validation in policy["validations"]:
        if not run(validation["expression"], values):
            if "messageExpression" in validation:
                return str(run(validation["messageExpression"], values))
            return validation["message"]
    return None


def request(resource="nodes", node="a", user=AGENT, group="", extra=True):
    info = {"username": user}
    if extra:
        info["extra"] = {"authentication.kubernetes.io/node-name": [node]} if node else {}
    return {"userInfo": info, "resource": {"group": group, "resource": resource}}


ZONE = {"topology.kubernetes.io/zone": "z1"}
LABELS = ZONE | {"state.rdma-health.io/verdict": "ok"}
OTHER = {"key": "other", "effect": "NoSchedule"}
TAINT = {"key": "state.rdma-health.io/critical", "value": "port-down", "effect": "NoSchedule"}


def node(name="a", conditions=(READY,), labels=None, annotations=None, spec=None, **status):
    metadata = {"name": name} | ({"labels": labels} if labels else {}) | ({"annotations": annotations} if annotations else {})
    return {"metadata": metadata, "spec": spec or {},
            "status": {"conditions": list(conditions), "capacity": {"cpu": "8"}, **status}}


core = {"metadata": {"name": "x"}, "involvedObject": {"kind": "Node", "name": "a"}}
other = {"metadata": {"name": "x"}, "involvedObject": {"kind": "Node", "name": "b"}}
new = {"metadata": {"name": "x"}, "regarding": {"kind": "Node", "name": "b"}}
CASES = [
    ("its condition on its Node", request(), node(conditions=[READY, OURS]), node(), None),
    ("its condition changed", request(), node(conditions=[READY, OURS | {"status": "False"}]), node(conditions=[READY, OURS]), None),
    ("its condition taken away", request(), node(), node(conditions=[READY, OURS]), None),
    ("another Node", request(), node("b", [READY, OURS]), node("b"), "the agent on Node a may not write about b"),
    ("a token without a Node", request(node=None), node(conditions=[READY, OURS]), node(), "does not name its Node"),
    ("a token of an older server", request(extra=False), node(conditions=[READY, OURS]), node(), "does not name its Node"),
    ("Ready forged", request(), node(conditions=[READY | {"status": "False"}]), node(), "its own conditions only"),
    ("Ready taken away", request(), node(conditions=[OURS]), node(), "its own conditions only"),
    ("another condition added", request(), node(conditions=[READY, {"type": "DiskPressure", "status": "True"}]), node(), "its own conditions only"),
    ("capacity changed", request(), node(capacity={"cpu": "80"}), node(), "capacity"),
    ("addresses added", request(), node(addresses=[{"type": "InternalIP", "address": "1.2.3.4"}]), node(), "addresses"),
    ("the kubelet's port changed", request(), node(daemonEndpoints={"kubeletEndpoint": {"Port": 1}}), node(), "endpoints"),
    ("its labels", request(), node(labels=LABELS), node(labels=ZONE), None),
    ("its labels on a Node without any", request(), node(labels={"state.rdma-health.io/iommu": "none"}), node(), None),
    ("its labels taken away", request(), node(), node(labels={"state.rdma-health.io/iommu": "none"}), None),
    ("another label added", request(), node(labels=ZONE | {"node-role.kubernetes.io/x": ""}), node(labels=ZONE), "its own labels only"),
    ("another label changed", request(), node(labels={"topology.kubernetes.io/zone": "z2"}), node(labels=ZONE), "its own labels only"),
    ("another label taken away", request(), node(), node(labels=ZONE), "its own labels only"),
    ("its taint", request(), node(spec={"taints": [OTHER, TAINT]}), node(spec={"taints": [OTHER]}), None),
    ("its taint taken away", request(), node(), node(spec={"taints": [TAINT]}), None),
    ("another taint added", request(), node(spec={"taints": [OTHER]}), node(), "its own taint only"),
    ("another taint taken away", request(), node(spec={"taints": [TAINT]}), node(spec={"taints": [OTHER]}), "its own taint only"),
    ("cordoned", request(), node(spec={"unschedulable": True}), node(), "schedulable"),
    ("uncordoned", request(), node(), node(spec={"unschedulable": True}), "schedulable"),
    ("an annotation added", request(), node(annotations={"a": "b"}), node(), "annotations"),
    ("its first conditions", request(), node(conditions=[OURS]), {"metadata": {"name": "a"}, "spec": {}, "status": {"capacity": {"cpu": "8"}}}, None),
    ("an Event about its Node", request("events"), core, None, None),
    ("an Event about another Node", request("events"), other, None, "may not write about b"),
    ("a newer Event about another Node", request("events", group="events.k8s.io"), new, None, "may not write about b"),
    ("somebody else", request(user="system:admin", node="z"), node("b", []), node("b"), None),
]
for name, asked, now, before, expected in CASES:
    got = admit(asked, copy.deepcopy(now), copy.deepcopy(before))
    if (got is None) != (expected is None) or (expected and expected not in got):
        sys.exit(f"{name}: expected {expected!r}, got {got!r}")
print(f"admission policy: {len(CASES)} requests are decided as they should be")
