#!/usr/bin/env python3
"""Prints the objects of the overlay for Kubernetes as JSON, one list: overlay.py [--without-policy]

Debian's kubectl is too old to render it. This follows `resources` and `images`, which is all that the overlay uses. Without policy:
the API server does not know ValidatingAdmissionPolicy.
"""

import json
import pathlib
import sys

import yaml

OVERLAY = pathlib.Path(__file__).resolve().parents[2] / "deploy/kustomize/overlays/kubernetes"
KNOWN = {"apiVersion", "kind", "resources", "images"}


def load(directory):
    """The objects of a kustomization, as one with more than `resources` and `images` would not be rendered correctly."""
    settings = yaml.safe_load((directory / "kustomization.yaml").read_text())
    if unknown := settings.keys() - KNOWN:
        sys.exit(f"{directory}: {', '.join(unknown)}: not supported")
    objects = []
    for resource in settings["resources"]:
        path = directory / resource
        objects += load(path) if path.is_dir() else filter(None, yaml.safe_load_all(path.read_text()))
    for image in settings.get("images", []):
        new = f"{image.get('newName', image['name'])}:{image['newTag']}"
        for value in objects:
            pod = value.get("spec", {}).get("template", {}).get("spec", {})
            for container in pod.get("initContainers", []) + pod.get("containers", []):
                if container["image"].rpartition(":")[0] == image["name"]:
                    container["image"] = new
    return objects


items = load(OVERLAY)
if "--without-policy" in sys.argv[1:]:
    items = [value for value in items if not value["kind"].startswith("ValidatingAdmission")]
print(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
