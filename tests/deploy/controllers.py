#!/usr/bin/env python3
"""Checks deploy/examples/controllers: each file against the interface of its controller, the conditions and reasons in it against
what the agent writes, the expressions on Nodes, and the chart's values by rendering the chart."""

import json
import pathlib
import re
import sys

import celpy
import jsonschema
import yaml

import helm

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "deploy/examples/controllers"
CHART = ROOT / "deploy/helm/rdma-health"
READY = "rdma-health.io/RDMAReady"
schemas = yaml.safe_load((pathlib.Path(__file__).parent / "controllers/schemas.yaml").read_text())["files"]
helping = dict(re.findall(r"^\| `(\w+)`.*\| (.+) \|$", (ROOT / "docs/reasons.md").read_text(), re.M))
reasons = set(helping)
own = set(re.findall(r"^\| `(\w+Problem)`", (ROOT / "docs/conditions.md").read_text(), re.M)) | {READY}


# The other names that the examples of the chart's values give to the aggregate condition.
aliases = set(re.findall(r"type: ([\w./]+)", "".join(path.read_text() for path in EXAMPLES.glob("rdma-health-values-*.yaml"))))


def load(path):
    return json.loads(path.read_text()) if path.suffix == ".json" else yaml.safe_load(path.read_text())


def conditions(value):
    """Yields the condition types that a controller waits for."""
    if isinstance(value, dict):
        if "type" in value and ({"status", "requiredStatus"} & set(value)):
            yield value["type"]
        for inner in value.values():
            yield from conditions(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from conditions(inner)


def matching(policies, status, reason, age):
    """Returns the names of the policies that match a Node whose condition has been like this for `age` seconds."""
    now = 1_800_000_000
    stamp = celpy.celtypes.TimestampType
    since = stamp.fromtimestamp(now - age, tz=stamp("2026-01-01T00:00:00Z").tzinfo).strftime("%Y-%m-%dT%H:%M:%SZ")
    node = {"status": {"conditions": [
        {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": since},
        {"type": READY, "status": status, "reason": reason, "lastTransitionTime": since}]}}
    environment = celpy.Environment()
    found = []
    for policy in policies:
        program = environment.program(environment.compile(policy["predicate"]["expression"]))
        at = stamp.fromtimestamp(now, tz=stamp("2026-01-01T00:00:00Z").tzinfo)
        values = {"resource": celpy.json_to_cel(node), "now": stamp(at.strftime("%Y-%m-%dT%H:%M:%SZ"))}
        if program.evaluate(values):
            found.append(policy["name"])
    return found


def check(path):
    value = load(path)
    if path.name.startswith("rdma-health-values"):
        objects = helm.install(CHART, "rdma-health", "rdma-health", value)
        text = yaml.safe_dump_all(objects)
        for alias in value["agent"]["config"]["kubernetes"]["aliases"]:
            if text.count(alias["type"]) < 3:
                sys.exit(f"{path.name}: {alias['type']} is not in the configuration and twice in the admission policy")
        return
    if path.name not in schemas:
        sys.exit(f"{path.name}: there is no schema for it in tests/deploy/controllers/schemas.yaml")
    jsonschema.validate(value, schemas[path.name])
    for condition in conditions(value):
        if condition not in own | aliases:
            sys.exit(f"{path.name}: rdma-health does not write the condition {condition}")
    for reason in set(re.findall(r'"([A-Z][a-z]\w+)"', path.read_text())) - {"True", "False"}:
        if path.name.startswith("nvsentinel") and reason not in reasons:
            sys.exit(f"{path.name}: there is no reason {reason}")
    if path.name.startswith("nvsentinel"):
        policies = value["kubernetes-object-monitor"]["policies"]
        cases = [("True", "PortsReady", 9999, []), ("Unknown", "NotProbed", 9999, []), ("False", "AdapterFailed", 60, []),
                 ("False", "AdapterFailed", 9999, ["rdma-reboot"]), ("False", "IommuGroupTranslated", 9999, ["rdma-person"])]
        # docs/reasons.md says which faults a reboot may help with.
        cases += [("False", reason, 9999, ["rdma-reboot" if helps == "reboot, once" else "rdma-person"])
                  for reason, helps in helping.items()]
        # Unknown clears the event: after each boot of a node whose fault stays, it would be rebooted again.
        for policy in policies:
            if policy["healthEvent"]["recommendedAction"].startswith(("RESTART", "REPLACE")):
                sys.exit(f"{path.name}: {policy['name']} repeats {policy['healthEvent']['recommendedAction']} without a limit")
        for *given, expected in cases:
            if matching(policies, *given) != expected:
                sys.exit(f"{path.name}: {given}: expected {expected}, got {matching(policies, *given)}")


files = sorted(EXAMPLES.iterdir())
for file in files:
    try:
        check(file)
    except jsonschema.ValidationError as error:
        sys.exit(f"{file.name}: {error.json_path}: {error.message}")
missing = set(schemas) - {file.name for file in files}
if missing:
    sys.exit(f"examples without a file: {missing}")
print(f"controllers: {len(files)} examples are valid")
