#!/usr/bin/env python3
"""Lints, packages and renders the chart, checks each object against the schema of a current Kubernetes, and keeps the
kustomize base the same as what the chart makes.

Usage: chart.py [--update]    --update writes deploy/kustomize anew
"""

import asyncio
import copy
import json
import os
import pathlib
import shutil
import sys
import tempfile

# Releases are kept in memory: the recorder need only understand JSON. Go sees the environment that a process began with.
if os.environ.get("HELM_DRIVER") != "memory":
    os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"HELM_DRIVER": "memory"})

import helm_sdkpy
import kubernetes_validate
import yaml

from recorder import Recorder

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm/rdma-health"
KUSTOMIZE = ROOT / "deploy/kustomize"
NAMESPACE = "rdma-health"
SCHEMA = "1.33"
DEFAULT_BASE = yaml.safe_load((CHART / "values.yaml").read_text())["prometheusRule"]["runbookBase"]
# What Kubernetes' own schema does not know.
FOREIGN = {"monitoring.coreos.com", "security.openshift.io", "machineconfiguration.openshift.io"}

MONITORING = {"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}}
VARIANTS = {
    "defaults": {},
    "everything": MONITORING | {
        "openshift": {"enabled": True},
        "networkPolicy": {"enabled": True, "from": [{"namespaceSelector": {}}]},
        "webConfig": {"secret": "rdma-health-web", "clientCertificates": True},
        "kubernetes": {"patchNodes": True},
        "agent": {"privilege": "full", "seLinuxType": "spc_t", "config": {"probe": {"interval": "5m"}}},
        "image": {"digest": "sha256:" + "0" * 64, "pullSecrets": [{"name": "x"}]},
        "podLabels": {"a": "b"}, "podAnnotations": {"a": "b"}, "affinity": {"nodeAffinity": {}},
    },
    "runbooks elsewhere": {"prometheusRule": {"enabled": True, "runbookBase": "https://wiki.example.com/rdma"}},
    "least privilege": {"helper": {"deviceAccess": "resource"}, "hostNetwork": False,
                        "networkPolicy": {"enabled": True}, "openshift": {"enabled": True}},
    "no Kubernetes, no helper": {"kubernetes": {"enabled": False}, "helper": {"enabled": False},
                                 "networkPolicy": {"enabled": True}},
}
# Values that must be refused, and a word of the reason.
REFUSED = [
    ({"agnet": {}}, "agnet"),
    ({"agent": {"port": "9879"}}, "port"),
    ({"agent": {"config": {"root": "/"}}}, "root"),
    ({"helper": {"deviceAccess": "maybe"}}, "deviceAccess"),
    ({"image": {"digest": "latest"}}, "digest"),
    ({"prometheusRule": {"runbookBase": "docs/runbooks/"}}, "runbookBase"),
]


def render(values):
    """The chart's objects with these values, and those that come at its uninstallation."""

    async def run():
        recorder = Recorder()
        with tempfile.TemporaryDirectory() as directory:
            # Hooks are made plain objects, so that they are sent, too.
            chart = pathlib.Path(directory) / "chart"
            shutil.copytree(CHART, chart)
            hooks = chart / "templates/uninstall.yaml"
            hooks.write_text(hooks.read_text().replace("helm.sh/hook", "hook.example/hook"))
            kubeconfig = pathlib.Path(directory) / "kubeconfig"
            kubeconfig.write_text(recorder.kubeconfig())
            config = helm_sdkpy.Configuration(namespace=NAMESPACE, kubeconfig=str(kubeconfig))
            await helm_sdkpy.Install(config).run("rdma-health", str(chart), values=values, wait=False)
        recorder.server.shutdown()
        at_end = [v for v in recorder.sent if v["metadata"]["name"].endswith("-uninstall")]
        return [v for v in recorder.sent if v not in at_end], at_end

    return asyncio.run(run())


def check(objects, unknown):
    for value in objects:
        group = value["apiVersion"].rpartition("/")[0]
        if group in FOREIGN:
            unknown.add(f"{group}/{value['kind']}")
            continue
        clean = {key: part for key, part in value.items() if key != "status"}
        try:
            kubernetes_validate.validate(clean, SCHEMA, strict=True)
        except Exception as error:
            raise SystemExit(f"{value['kind']} {value['metadata']['name']}: {error}\n{yaml.safe_dump(clean)}")


def check_runbooks(objects, values):
    """Every alert links its page where the values say."""
    base = values.get("prometheusRule", {}).get("runbookBase", DEFAULT_BASE).rstrip("/")
    for rule in (r for v in objects if v["kind"] == "PrometheusRule" for g in v["spec"]["groups"] for r in g["rules"]):
        if "alert" in rule and rule["annotations"]["runbook_url"] != f"{base}/{rule['alert']}.md":
            raise SystemExit(f"{rule['alert']}: {rule['annotations']['runbook_url']} is not its page below {base}")


def plain(value):
    """Without what only Helm needs."""
    value = copy.deepcopy(value)
    value.pop("status", None)
    metadata = value["metadata"]
    metadata.pop("annotations", None) if "meta.helm.sh/release-name" in metadata.get("annotations", {}) else None
    (metadata.get("labels") or {}).pop("app.kubernetes.io/managed-by", None)
    return value


def kustomize():
    """The base and what the overlays add to it, each as its files."""
    base, _ = render({})
    monitoring, _ = render(MONITORING)
    # The OpenShift overlay comes with monitoring.
    openshift, _ = render(MONITORING | {"openshift": {"enabled": True}})
    names = {(value["kind"], value["metadata"]["name"], value["metadata"].get("namespace")) for value in base}

    def more(objects, than=()):
        known = names | {(v["kind"], v["metadata"]["name"], v["metadata"].get("namespace")) for v in than}
        return [v for v in objects if (v["kind"], v["metadata"]["name"], v["metadata"].get("namespace")) not in known]

    admission = [v for v in base if v["kind"].startswith("ValidatingAdmission")]
    return {
        "base/rdma-health.yaml": [v for v in base if v not in admission],
        "base/admission.yaml": admission,
        "components/monitoring/monitoring.yaml": [v for v in more(monitoring) if v["kind"] != "PodMonitor"],
        "overlays/openshift/openshift.yaml": more(openshift, than=monitoring),
    }


def main():
    update = "--update" in sys.argv[1:]
    config_file = Recorder()
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "kubeconfig"
        path.write_text(config_file.kubeconfig())
        config = helm_sdkpy.Configuration(namespace=NAMESPACE, kubeconfig=str(path))
        lint = asyncio.run(helm_sdkpy.Lint(config).run(str(CHART)))
        problems = lint.get("Errors") or lint.get("errors") or []
        if problems:
            raise SystemExit(f"lint: {json.dumps(lint, indent=2, default=str)}")
        package = asyncio.run(helm_sdkpy.Package(config).run(str(CHART), directory))
        size = (pathlib.Path(directory) / pathlib.Path(package).name).stat().st_size
        print(f"lint and package: ok, {size} bytes")
    unknown = set()
    for name, values in VARIANTS.items():
        installed, hooks = render(values)
        check(installed + hooks, unknown)
        check_runbooks(installed, values)
        print(f"{name}: {len(installed)} objects and {len(hooks)} at uninstallation fit Kubernetes {SCHEMA}")
    print(f"not checked, not of Kubernetes' schema: {', '.join(sorted(unknown))}")
    for values, word in REFUSED:
        try:
            render(values)
        except helm_sdkpy.HelmError as error:
            if word not in str(error):
                raise SystemExit(f"{values} was refused for another reason: {error}")
        else:
            raise SystemExit(f"{values} was not refused")
    print(f"{len(REFUSED)} wrong values are refused")
    for name, objects in kustomize().items():
        text = f"# Made from the chart by `make deploy-update`; change the chart.\n"
        text += yaml.safe_dump_all(map(plain, objects), sort_keys=False, width=120, explicit_start=True)
        file = KUSTOMIZE / name
        if update:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        elif not file.exists() or file.read_text() != text:
            raise SystemExit(f"{file} is not what the chart makes; run `make deploy-update`")
    print("kustomize: the same as the chart")


main()
