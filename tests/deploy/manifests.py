#!/usr/bin/env python3
"""Validates each object in the given files (- is standard input) against the schema of a current Kubernetes."""

import sys

import kubernetes_validate
import yaml

import foreign

# Groups whose objects are checked against foreign.yaml, and those whose objects are not checked.
FOREIGN = {"monitoring.coreos.com", "security.openshift.io", "machineconfiguration.openshift.io"}
UNCHECKED = {"k8s.cni.cncf.io", "jobset.x-k8s.io", "kubeflow.org"}
checked, skipped = 0, set()
for name in sys.argv[1:]:
    text = sys.stdin.read() if name == "-" else open(name).read()
    for value in filter(None, yaml.safe_load_all(text)):
        group = value["apiVersion"].rpartition("/")[0]
        if group in FOREIGN:
            if problem := foreign.problem(value):
                sys.exit(f"{name}: {value['kind']} {value['metadata']['name']}: {problem}")
            checked += 1
            continue
        if group in UNCHECKED:
            skipped.add(f"{group}/{value['kind']}")
            continue
        try:
            kubernetes_validate.validate(value, "1.33", strict=True)
        except Exception as error:
            sys.exit(f"{name}: {value['kind']} {value['metadata']['name']}: {error}")
        checked += 1
print(f"{checked} objects are valid; not checked: {', '.join(sorted(skipped)) or 'none'}")
