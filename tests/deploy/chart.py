#!/usr/bin/env python3
"""Lints, packages and renders the chart, validates each object against the schema of a current Kubernetes, and checks that
the kustomize base matches the chart.

Usage: chart.py [--update]    --update regenerates deploy/kustomize
"""

import copy
import json
import pathlib
import re
import shutil
import tempfile

import foreign
import helm
import helm_sdkpy
import yaml

from helm import ROOT, SCHEMA

CHART = ROOT / "deploy/helm/rdma-health"
KUSTOMIZE = ROOT / "deploy/kustomize"
NAMESPACE = "rdma-health"
DEFAULT_BASE = yaml.safe_load((CHART / "values.yaml").read_text())["prometheusRule"]["runbookBase"]
DEFAULT_PRIORITY = yaml.safe_load((CHART / "values.yaml").read_text())["priorityClass"]
DEFAULT_DOCS = yaml.safe_load((CHART / "values.yaml").read_text())["dashboards"]["docsBase"]
# Groups that are not in Kubernetes' own schema, but in foreign.yaml.
FOREIGN = {"monitoring.coreos.com", "security.openshift.io", "machineconfiguration.openshift.io"}

MONITORING = {"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}}
VARIANTS = {
    "defaults": {},
    "everything": MONITORING | {
        "openshift": {"enabled": True},
        "networkPolicy": {"enabled": True, "from": [{"namespaceSelector": {}}]},
        "webConfig": {"secret": "rdma-health-web"},
        "kubernetes": {"patchNodes": True},
        "agent": {"seLinuxType": "spc_t", "config": {"probe": {"interval": "5m"}}},
        "image": {"digest": "sha256:" + "0" * 64, "pullSecrets": [{"name": "x"}]},
        "dashboards": {"enabled": True, "namespace": "monitoring", "annotations": {"grafana_folder": "RDMA"}},
        "podLabels": {"a": "b"}, "podAnnotations": {"a": "b"}, "affinity": {"nodeAffinity": {}},
    },
    "another priority": {"priorityClass": {"value": 2000000}},
    "an own scheme": {"webConfig": {"secret": "x"}, "serviceMonitor": {"enabled": True, "endpoint": {"scheme": "https"}}},
    "another interval": {"podMonitor": {"enabled": True, "interval": "1m30s"}},
    "runbooks elsewhere": {"prometheusRule": {"enabled": True, "runbookBase": "https://wiki.example.com/rdma"}},
    "another name": MONITORING | {"nameOverride": "doctor"},
    "aliases": {"agent": {"config": {"kubernetes": {"aliases": [
        {"type": "AcceleratedHardwareReady", "delay": "10m"}, {"type": "kubernetes.azure.com/NodeHealthy", "meaning": "ready"}]}}}},
    "dashboards": {"dashboards": {"enabled": True, "docsBase": "https://wiki.example.com/rdma/"}},
    "least privilege": {"helper": {"deviceAccess": "resource", "peers": "10.0.0.0/8,2001:db8::/32"}, "hostNetwork": False,
                        "networkPolicy": {"enabled": True}, "openshift": {"enabled": True}},
    "history lost with the pod": {"agent": {"hostState": False}, "openshift": {"enabled": True}},
    "no Kubernetes, no helper": {"kubernetes": {"enabled": False}, "helper": {"enabled": False},
                                 "networkPolicy": {"enabled": True}},
}
# Values that must be refused, and a word of the expected error.
REFUSED = [
    ({"agnet": {}}, "agnet"),
    ({"agent": {"port": "14791"}}, "port"),
    ({"agent": {"privilege": "full"}}, "privilege"),
    ({"agent": {"config": {"root": "/"}}}, "root"),
    ({"agent": {"config": {"state": "/data/state"}}}, "state"),
    ({"serviceMonitor": {"endpoint": {"interval": "10s"}}}, "interval"),
    ({"podMonitor": {"endpoint": {"port": "x"}}}, "port"),
    ({"podMonitor": {"endpoint": {"relabelings": []}}}, "relabelings"),
    ({"helper": {"deviceAccess": "maybe"}}, "deviceAccess"),
    ({"helper": {"peers": "10.0.0.1"}}, "peers"),
    ({"image": {"digest": "latest"}}, "digest"),
    ({"agent": {"config": {"kubernetes": {"aliases": [{"type": "Ready"}]}}}}, "aliases"),
    ({"agent": {"config": {"kubernetes": {"aliases": [{"type": "a'] || true || 'a' in ['a"}]}}}}, "aliases"),
    ({"agent": {"config": {"kubernetes": {"aliases": [{"type": "A", "meaning": "maybe"}]}}}}, "aliases"),
    ({"prometheusRule": {"runbookBase": "docs/runbooks/"}}, "runbookBase"),
    ({"dashboards": {"docsBase": "docs"}}, "docsBase"),
    ({"updateStrategy": {"type": "Recreate"}}, "updateStrategy"),
    ({"podMonitor": {"enabled": True, "interval": "30"}}, "interval"),
]


def render(values):
    """Returns the chart's objects for these values, and those of the uninstall hook."""
    with tempfile.TemporaryDirectory() as directory:
        # Turn hooks into plain objects, so that Helm sends them, too.
        chart = pathlib.Path(directory) / "chart"
        shutil.copytree(CHART, chart)
        hooks = chart / "templates/uninstall.yaml"
        hooks.write_text(hooks.read_text().replace("helm.sh/hook", "hook.example/hook"))
        sent = helm.install(chart, "rdma-health", NAMESPACE, values)
    at_end = [v for v in sent if v["metadata"]["name"].endswith("-uninstall")]
    return [v for v in sent if v not in at_end], at_end


def check(objects):
    for value in objects:
        if value["apiVersion"].rpartition("/")[0] not in FOREIGN:
            helm.validate(value)
        elif problem := foreign.problem(plain(value)):
            raise SystemExit(f"{value['kind']} {value['metadata']['name']}: {problem}")


def check_foreign():
    """Checks that the schema of foreign objects notices what a user would: a field that is missing, unknown or of another type."""
    objects = {v["kind"]: plain(v) for v in render(VARIANTS["everything"])[0]}
    scc, rule = objects["SecurityContextConstraints"], objects["PrometheusRule"]
    for value, word in [
        ({k: v for k, v in scc.items() if k != "priority"}, "priority"),
        (scc | {"allowPrivileged": True}, "allowPrivileged"),
        (scc | {"volumes": "hostPath"}, "volumes"),
        (objects["ServiceMonitor"] | {"spec": {"endpoints": []}}, "selector"),
        (objects["PodMonitor"] | {"spec": objects["PodMonitor"]["spec"] | {"endpoints": []}}, "endpoints"),
        (rule | {"spec": {"groups": [{"name": "x", "rules": [{"alert": "A", "expr": "1", "for": "5 minutes"}]}]}}, "5 minutes"),
    ]:
        if word not in str(foreign.problem(value)):
            raise SystemExit(f"{value['kind']} with an error in {word} is accepted: {foreign.problem(value)}")


async def package_size(config, directory):
    package = await helm_sdkpy.Package(config).run(str(CHART), str(directory))
    return (directory / pathlib.Path(package).name).stat().st_size


def check_runbooks(objects, values):
    """Checks that every alert links to its page below the configured base."""
    base = values.get("prometheusRule", {}).get("runbookBase", DEFAULT_BASE).rstrip("/")
    for rule in (r for v in objects if v["kind"] == "PrometheusRule" for g in v["spec"]["groups"] for r in g["rules"]):
        if "alert" in rule and rule["annotations"]["runbook_url"] != f"{base}/{rule['alert']}.md":
            raise SystemExit(f"{rule['alert']}: {rule['annotations']['runbook_url']} is not its page below {base}")


def check_priority(objects, values):
    """Checks the name of the priority class: it has the value in it, unless that is the default, which is in values.yaml and in a helper."""
    given = values.get("priorityClass", {}).get("value")
    expected = DEFAULT_PRIORITY["name"] + (f"-{given}" if given else "")
    found = [(v["metadata"]["name"], v["value"]) for v in objects if v["kind"] == "PriorityClass"]
    if found != [(expected, given or DEFAULT_PRIORITY["value"])]:
        raise SystemExit(f"priority class {found}, expected {expected}: has _helpers.tpl the default of values.yaml?")


def check_hooks(hooks):
    """Checks that nothing but the Job and its log stays if the Job fails. Helm then deletes what came before it as it does after a success
    (since the fix of helm/helm#10279)."""
    order = sorted((int(v["metadata"]["annotations"]["hook.example/hook-weight"]), v["kind"]) for v in hooks)
    if hooks and order[-1][1] != "Job" or [weight for weight, kind in order[:-1] if weight >= order[-1][0]]:
        raise SystemExit(f"the Job must run after its permissions exist, and last: {order}")
    for value in hooks:
        policy = value["metadata"]["annotations"]["hook.example/hook-delete-policy"].split(",")
        if sorted(policy) != ["before-hook-creation", "hook-succeeded"]:
            raise SystemExit(f"{value['kind']} {value['metadata']['name']}: hook-delete-policy {policy}")


def check_job(objects, name):
    """Checks that the rules recognise the agents and their DaemonSet, whatever the objects are called."""
    [daemonset] = [v for v in objects if v["kind"] == "DaemonSet"]
    [service] = [v for v in objects if v["kind"] == "Service"] or [None]
    labelled = {"ServiceMonitor": service, "PodMonitor": daemonset["spec"]["template"]}
    for value in objects:
        if value["kind"] in labelled:
            # Without a jobLabel, the operator names the job after the Service or the PodMonitor.
            job = labelled[value["kind"]]["metadata"]["labels"].get(value["spec"].get("jobLabel"))
            if job != "rdma-health":
                raise SystemExit(f"{name}: the job of the {value['kind']} is {job}, and the rules expect rdma-health")
    for rule in (r for v in objects if v["kind"] == "PrometheusRule" for g in v["spec"]["groups"] for r in g["rules"]):
        for matcher in re.findall(r'daemonset=~?"([^"]*)"', rule["expr"]):
            if not re.fullmatch(matcher, daemonset["metadata"]["name"]):
                raise SystemExit(f"{name}: {rule['alert']} does not recognise the DaemonSet {daemonset['metadata']['name']}")


def check_aliases(objects, values):
    """Checks that the admission policy lets the agent write the aggregate condition and the configured aliases, and no other."""
    policies = [v for v in objects if v["kind"] == "ValidatingAdmissionPolicy"]
    aliases = values.get("agent", {}).get("config", {}).get("kubernetes", {}).get("aliases", [])
    allowed = ["rdma-health.io/RDMAReady"] + [alias["type"] for alias in aliases]
    for expression in (r["expression"] for v in policies for r in v["spec"]["validations"] if "variables.before.all" in r["expression"]):
        listed = re.findall(r"type in \[([^]]*)\]", expression)
        if [re.findall(r"'([^']*)'", one) for one in listed] != [allowed] * 2:
            raise SystemExit(f"the policy lists {listed}, expected {allowed}")
        return
    if policies:
        raise SystemExit("the policy has no rule about conditions")


def check_dashboards(objects, values):
    """Checks that the ConfigMap has every dashboard, the label of Grafana's sidecar, and the configured links."""
    found = [v for v in objects if v["metadata"]["name"].endswith("-dashboards")]
    wanted = values.get("dashboards", {})
    if not wanted.get("enabled"):
        if found:
            raise SystemExit("dashboards are installed although they are disabled")
        return
    [found] = found
    files = {file.name for file in (ROOT / "dashboards").glob("*.json")}
    if set(found["data"]) != files or found["metadata"]["labels"].get("grafana_dashboard") != "1":
        raise SystemExit(f"dashboards: {sorted(found['data'])}, labels {found['metadata']['labels']}")
    base = wanted.get("docsBase", DEFAULT_DOCS).rstrip("/")
    for name, text in found["data"].items():
        [docs] = [v["query"] for v in json.loads(text)["templating"]["list"] if v["name"] == "docs"]
        if docs != base:
            raise SystemExit(f"{name}: links lead to {docs}, not {base}")


def plain(value):
    """Removes what only Helm needs."""
    value = copy.deepcopy(value)
    value.pop("status", None)
    metadata = value["metadata"]
    metadata.pop("annotations", None) if "meta.helm.sh/release-name" in metadata.get("annotations", {}) else None
    (metadata.get("labels") or {}).pop("app.kubernetes.io/managed-by", None)
    return value


def kustomize():
    """Returns the files of the base and of the overlays, each with its objects."""
    base, _ = render({})
    monitoring, _ = render(MONITORING)
    # The OpenShift overlay includes monitoring.
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
    helm.lint(CHART)
    size, _ = helm.with_server(NAMESPACE, package_size)
    print(f"lint and package: ok, {size} bytes")
    check_foreign()
    for name, values in VARIANTS.items():
        installed, hooks = render(values)
        check(installed + hooks)
        check_runbooks(installed, values)
        check_dashboards(installed, values)
        check_job(installed, name)
        check_aliases(installed, values)
        check_priority(installed, values)
        check_hooks(hooks)
        print(f"{name}: {len(installed)} objects and {len(hooks)} at uninstallation are valid in Kubernetes {SCHEMA}")
    helm.refuse(render, REFUSED)
    print(f"{len(REFUSED)} invalid values are refused")
    generated = "# Generated from the chart by `make deploy-update`. Change the chart instead.\n"
    helm.match((KUSTOMIZE / name, generated + yaml.safe_dump_all(map(plain, objects), sort_keys=False, width=120, explicit_start=True))
               for name, objects in kustomize().items())
    print("kustomize: matches the chart")


main()
