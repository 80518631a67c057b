#!/usr/bin/env python3
"""Evaluates the admission policy on requests as an API server sees them, with the interpreter cel-python.

It is quick and needs only Python. `make check-admission` runs the same requests through Kubernetes' own code, which also
compiles the expressions and counts their cost.
"""

import copy
import pathlib
import sys

import celpy
import yaml

HERE = pathlib.Path(__file__).resolve().parent
policy = next(v for v in yaml.safe_load_all((HERE / "../../deploy/kustomize/base/admission.yaml").read_text())
              if v["kind"] == "ValidatingAdmissionPolicy")["spec"]
environment = celpy.Environment()


def compiled(expression):
    return environment.program(environment.compile(expression))


conditions = [compiled(c["expression"]) for c in policy["matchConditions"]]
variables = [(v["name"], compiled(v["expression"])) for v in policy["variables"]]
validations = [(compiled(v["expression"]), v.get("message"), compiled(v.get("messageExpression", "''")))
               for v in policy["validations"]]


def admit(request, new, old):
    """Returns None if the request is admitted, else the reason."""
    values = celpy.json_to_cel({"request": request, "object": new, "oldObject": old, "variables": {}})

    def run(program):
        return program.evaluate(values)

    if not all(run(condition) for condition in conditions):
        return None
    for name, variable in variables:
        values["variables"][celpy.celtypes.StringType(name)] = run(variable)
    for valid, message, expression in validations:
        if not run(valid):
            return str(run(expression)).strip() or message
    return None


def merge(target, patch):
    """Applies a JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    merged = copy.deepcopy(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def requests(content):
    """Yields name, request, object, old object and expected refusal of every case."""
    for case in content["cases"]:
        resource, _, group = case.get("resource", "nodes").partition(".")
        base = content["objects"][case.get("resource", "nodes")]
        old = None if "create" in case else merge(base, case.get("before", {}))
        new = merge(base, case["create"]) if old is None else merge(old, case["patch"])
        request = {"userInfo": merge(content["agent"], case.get("user", {})), "resource": {"group": group, "resource": resource},
                   "operation": "UPDATE" if old else "CREATE"}
        for subresource in ["", "status"] if resource == "nodes" else [""]:
            yield case["name"], request | {"subResource": subresource}, new, old, case.get("refused")


asked = list(requests(yaml.safe_load((HERE / "admission/cases.yaml").read_text())))
for name, request, new, old, expected in asked:
    got = admit(request, new, old)
    if got != expected:
        sys.exit(f"{name}: expected {expected!r}, got {got!r}")
print(f"admission policy: {len(asked)} requests are decided as expected")
