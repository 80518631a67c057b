#!/usr/bin/env python3
"""Checks the chart of the RDMA job: renders every controller in both modes, validates the objects against the schema of a current
Kubernetes, and checks what must fit together. Then checks that kustomize and the examples match the chart.

Usage: workload.py [--update]    --update regenerates deploy/workload/kustomize and deploy/workload/examples
"""

import json

import helm
import yaml

from helm import ROOT, SCHEMA

WORKLOAD = ROOT / "deploy/workload"
CHART = WORKLOAD / "chart"
NETWORKS = "k8s.v1.cni.cncf.io/networks"
RESOURCE = "k8s.v1.cni.cncf.io/resourceName"

# The four rails of the field's setup guide, and two that exist in another namespace.
FOUR = [
    {"resource": f"openshift.io/eno{n}np0rdma", "cni": {"ipam": {"type": "whereabouts", "range": f"10.0.{98 + n}.0/24"}}}
    for n in range(5, 9)
]
EXISTING = [{"resource": "openshift.io/rdma_rail_0", "attachment": "default/rail-0", "count": 2},
            {"resource": "openshift.io/rdma_rail_1", "attachment": "rail-1"}]
SHARED = [{"resource": "rdma/hca_shared_devices_a"}]
TWO = [{"resource": f"openshift.io/rdma_rail_{n}", "cni": {"ipam": {"type": "whereabouts", "range": f"10.0.{100 + n}.0/24"}}}
       for n in range(2)]
VARIANTS = {
    "four rails": {"rails": FOUR},
    "four rails, OpenShift": {"rails": FOUR, "openshift": {"enabled": True}},
    "one node": {"rails": FOUR, "nodes": 1, "controller": "Job"},
    "existing attachments": {"rails": EXISTING, "controller": "Job"},
    "shared device plugin": {"rails": SHARED, "ipcLock": False},
    "user of the pod": {"rails": FOUR, "podSecurityContext": {"runAsUser": 1000660000}},
    "tcp": {"mode": "tcp", "rails": FOUR, "openshift": {"enabled": True}},
    "tcp, no rails": {"mode": "tcp", "controller": "Job"},
    "JobSet": {"rails": TWO, "controller": "JobSet"},
    "PyTorchJob": {"rails": TWO, "controller": "PyTorchJob", "nodes": 4},
    "everything": {
        "rails": FOUR, "command": ["torchrun", "train.py"], "env": [{"name": "A", "value": "b"}], "priorityClassName": "x",
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}], "nodeSelector": {"a": "b"}, "podLabels": {"a": "b"},
        "podAnnotations": {"a": "b"}, "podSecurityContext": {"fsGroup": 1}, "securityContext": {"runAsUser": 1000},
        "image": {"pullSecrets": [{"name": "x"}]}, "serviceAccount": {"annotations": {"a": "b"}}, "tolerations": [],
    },
}
# Values that must be refused, and a word of the expected error.
REFUSED = [
    ({}, "rails"),
    ({"mode": "ib"}, "mode"),
    ({"rails": [{"resource": "no-slash"}]}, "resource"),
    ({"rails": [{"resource": "a/b", "cni": {}, "attachment": "x"}]}, "rails"),
    ({"rails": FOUR, "nodes": 0}, "nodes"),
    ({"rails": FOUR, "controller": "Deployment"}, "controller"),
    ({"rails": FOUR, "node": 2}, "node"),
]


def render(values, release="train", namespace="team-a"):
    return helm.install(CHART, release, namespace, values)


def pod_templates(value):
    """The pod templates of an object of any controller."""
    spec = value.get("spec", {})
    if value["kind"] in ("StatefulSet", "Job"):
        return [spec["template"]]
    if value["kind"] == "JobSet":
        return [job["template"]["spec"]["template"] for job in spec["replicatedJobs"]]
    if value["kind"] == "PyTorchJob":
        return [replica["template"] for replica in spec["pytorchReplicaSpecs"].values()]
    return []


def validate(value):
    """Validates against Kubernetes' schema. Of a custom resource, the pods in it."""
    foreign = value["apiVersion"].split("/")[0] in ("k8s.cni.cncf.io", "jobset.x-k8s.io", "kubeflow.org")
    if not foreign:
        helm.validate(value)
    for one in pod_templates(value):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"} | one.get("metadata", {}), "spec": one["spec"]}
        helm.validate(pod, f"{value['kind']} {value['metadata']['name']}")


def insist(condition, said):
    if not condition:
        raise SystemExit(said)


def fits(name, values, objects):
    """Checks what must fit together for the job to start."""
    by_kind = {}
    for value in objects:
        by_kind.setdefault(value["kind"], []).append(value)
        insist(value["metadata"].get("namespace", "team-a") == "team-a", f"{name}: {value['kind']} has a fixed namespace")
    rdma = values.get("mode", "rdma") == "rdma"
    rails = values.get("rails", []) if rdma else []
    attachments = {one["metadata"]["name"]: one for one in by_kind.get("NetworkAttachmentDefinition", [])}
    insist(len(attachments) == sum("cni" in rail for rail in rails), f"{name}: {len(attachments)} attachments")
    for number, rail in enumerate(rails):
        if "cni" in rail:
            one = attachments[f"train-rail-{number}"]
            config = json.loads(one["spec"]["config"])
            insist(one["metadata"]["annotations"][RESOURCE] == rail["resource"], f"{name}: rail {number} has another resource")
            insist(config["type"] == "sriov" and config["ipam"] == rail["cni"]["ipam"], f"{name}: {config}")
    accounts = {one["metadata"]["name"] for one in by_kind["ServiceAccount"]}
    granted = [subject for one in by_kind.get("RoleBinding", []) for subject in one["subjects"]]
    wanted = [{"kind": "ServiceAccount", "name": "train", "namespace": "team-a"}] if rdma and values.get("openshift") else []
    insist(granted == wanted, f"{name}: the SCC is granted to {granted}")

    templates = [template for value in objects for template in pod_templates(value)]
    insist(templates, f"{name}: no pod")
    for template in templates:
        spec, labels = template["spec"], template["metadata"]["labels"]
        insist(spec["serviceAccountName"] in accounts, f"{name}: unknown service account")
        main, init = spec["containers"][0], {one["name"]: one for one in spec["initContainers"]}
        networks = [one for one in template["metadata"].get("annotations", {}).get(NETWORKS, "").split(",") if one]
        counts = {}
        for rail in rails:
            counts[rail["resource"]] = counts.get(rail["resource"], 0) + rail.get("count", 1)
        attached = sum(rail.get("count", 1) for rail in rails if "cni" in rail or "attachment" in rail)
        insist(len(networks) == attached, f"{name}: networks {networks}")
        for container in [main] + ([init["wait"]] if rdma else []):
            found = {key: int(value) for key, value in container["resources"]["limits"].items() if "/" in key and "gpu" not in key}
            insist(found == counts, f"{name}: {container['name']} has {found}")
            insist({k: v for k, v in container["resources"]["requests"].items() if k in counts} == {k: str(v) for k, v in counts.items()},
                   f"{name}: requests differ from limits")
            added = container["securityContext"].get("capabilities", {}).get("add", [])
            insist(added == (["IPC_LOCK"] if rdma and values.get("ipcLock", True) else []), f"{name}: capabilities {added}")
        if rdma:
            # The image of rdma-health does not run as root, and IPC_LOCK has no effect for another user.
            named = values.get("podSecurityContext", {}) | values.get("securityContext", {})
            user = named.get("runAsUser", 0 if values.get("ipcLock", True) else None)
            found = init["wait"]["securityContext"].get("runAsUser", spec.get("securityContext", {}).get("runAsUser"))
            insist(found == user, f"{name}: wait runs as {found}, expected {user}")
            insist(init["wait"]["command"][-2:] == ["--memlock", "64GiB"], f"{name}: {init['wait']['command']}")
        insist(("wait" in init) == rdma, f"{name}: init containers {list(init)}")
        insist(main["resources"]["limits"]["nvidia.com/gpu"] == "8", f"{name}: GPUs")
        insist(main["command"][:4] == ["/opt/rdma-health/rdma-health", "run", "--mode", "rdma" if rdma else "tcp"], f"{name}: {main['command']}")
        insist(("--network-status" in main["command"]) == bool(networks), f"{name}: network status without networks")
        env = {one["name"]: one.get("value") for one in main.get("env", [])}
        controller = values.get("controller", "StatefulSet")
        if controller != "PyTorchJob":
            insist(env["PET_NNODES"] == str(values.get("nodes", 2)), f"{name}: {env}")
            host, service = env["PET_RDZV_ENDPOINT"].rsplit(":", 1)[0].split(".")
            insist(host == ("train-nodes-0-0" if controller == "JobSet" else "train-0"), f"{name}: first host {host}")
        if controller in ("StatefulSet", "Job"):
            (one,) = by_kind["Service"]
            insist(one["metadata"]["name"] == service, f"{name}: the service is not {service}")
            insist(one["spec"]["clusterIP"] == "None" and one["spec"]["publishNotReadyAddresses"], f"{name}: not headless")
            insist(one["spec"]["selector"].items() <= labels.items(), f"{name}: the service selects no pod")
            owner = by_kind[controller][0]["spec"]
            insist(owner.get("serviceName", spec.get("subdomain")) == service, f"{name}: the pods have no name in DNS")


def plain(value):
    """Removes what only Helm needs, and the namespace: the user chooses it."""
    value = json.loads(json.dumps(value))
    value.pop("status", None)
    metadata = value["metadata"]
    metadata.pop("namespace", None)
    annotations = {key: text for key, text in metadata.pop("annotations", {}).items() if not key.startswith("meta.helm.sh/")}
    if annotations:
        metadata["annotations"] = annotations
    (metadata.get("labels") or {}).pop("app.kubernetes.io/managed-by", None)
    return value


def generated():
    """The files of kustomize and the examples, each with its comment and objects. Helm sends objects of a kind in any order."""
    def rendered(**values):
        objects = [plain(value) for value in render(values, release="rdma-job", namespace="default")]
        return sorted(objects, key=lambda value: (KINDS.index(value["kind"]), value["metadata"]["name"]))

    rdma = rendered(rails=TWO)
    names = {(value["kind"], value["metadata"]["name"]) for value in rdma}
    scc = rendered(rails=TWO, openshift={"enabled": True})
    script = [value for value in rdma if value["kind"] == "ConfigMap"]
    generated = "# Generated from the chart by `make deploy-update`. Change the chart instead.\n"
    apply = "# kubectl create configmap rdma-job --from-file=deploy/workload/chart/files/all_reduce.py\n# kubectl apply -f deploy/workload/{}\n"
    files = {
        "kustomize/benchmark/script.yaml": script,
        "kustomize/rdma/job.yaml": [value for value in rdma if value not in script],
        "kustomize/tcp/job.yaml": [value for value in rendered(mode="tcp") if value not in script],
        "kustomize/openshift/scc.yaml": [value for value in scc if (value["kind"], value["metadata"]["name"]) not in names],
        "examples/jobset.yaml": [value for value in rendered(rails=TWO, controller="JobSet") if value not in script],
        "examples/pytorchjob.yaml": [value for value in rendered(rails=TWO, controller="PyTorchJob") if value not in script],
    }
    comment = {name: generated + (apply.format(name) if name.startswith("examples") else "") for name in files}
    return {name: comment[name] + dump(objects) for name, objects in files.items()}


# The order of the objects in a file.
KINDS = ["ServiceAccount", "Role", "RoleBinding", "ConfigMap", "NetworkAttachmentDefinition", "Service", "StatefulSet", "Job",
         "JobSet", "PyTorchJob"]


class Block(str):
    """A text of several lines, which is written as a block."""


yaml.SafeDumper.add_representer(Block, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style="|"))


def blocks(value):
    if isinstance(value, dict):
        return {key: blocks(part) for key, part in value.items()}
    if isinstance(value, list):
        return [blocks(part) for part in value]
    return Block(value) if isinstance(value, str) and "\n" in value else value


def dump(objects):
    return yaml.safe_dump_all(map(blocks, objects), sort_keys=False, width=1000, explicit_start=True, allow_unicode=True)


def main():
    # Without rails, which have no default, the templates say so.
    helm.lint(CHART, ignored=["rails"])
    count = 0
    for name, values in VARIANTS.items():
        objects = render(values)
        for value in objects:
            validate(value)
        fits(name, values, objects)
        count += len(objects)
    print(f"RDMA job: {len(VARIANTS)} variants with {count} objects are valid in Kubernetes {SCHEMA} and fit together")
    helm.refuse(render, REFUSED)
    print(f"RDMA job: {len(REFUSED)} invalid values are refused")
    helm.match((WORKLOAD / name, text) for name, text in generated().items())
    print("RDMA job: kustomize and examples match the chart")


main()
