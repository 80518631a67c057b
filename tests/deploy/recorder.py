"""An API server that only records the objects that Helm sends.

It shows what the templates render, not whether a cluster accepts it; the schema check and a real API server test that.
"""

import http.server
import json
import re
import threading
from urllib.parse import parse_qs, urlsplit

# (group/version, kind, plural, namespaced)
KINDS = [
    ("v1", "Namespace", "namespaces", False),
    ("v1", "ConfigMap", "configmaps", True),
    ("v1", "Secret", "secrets", True),
    ("v1", "Service", "services", True),
    ("v1", "ServiceAccount", "serviceaccounts", True),
    ("apps/v1", "DaemonSet", "daemonsets", True),
    ("apps/v1", "StatefulSet", "statefulsets", True),
    ("batch/v1", "Job", "jobs", True),
    ("rbac.authorization.k8s.io/v1", "Role", "roles", True),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings", True),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", False),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", False),
    ("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", True),
    ("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", False),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", False),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", False),
    ("monitoring.coreos.com/v1", "ServiceMonitor", "servicemonitors", True),
    ("monitoring.coreos.com/v1", "PodMonitor", "podmonitors", True),
    ("monitoring.coreos.com/v1", "PrometheusRule", "prometheusrules", True),
    ("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", "network-attachment-definitions", True),
    ("jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets", True),
    ("kubeflow.org/v1", "PyTorchJob", "pytorchjobs", True),
    ("security.openshift.io/v1", "SecurityContextConstraints", "securitycontextconstraints", False),
]
VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]


def discovery(path):
    if path == "/version":
        return {"major": "1", "minor": "33", "gitVersion": "v1.33.0"}
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        groups = []
        for name in dict.fromkeys(gv for gv, *_ in KINDS if "/" in gv):
            group, version = name.split("/")
            entry = {"groupVersion": name, "version": version}
            groups.append({"name": group, "versions": [entry], "preferredVersion": entry})
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    name = re.fullmatch(r"/api/(v1)|/apis/([^/]+/[^/]+)", path)
    if not name:
        return None
    name = name[1] or name[2]
    resources = [
        {"name": plural, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": VERBS}
        for gv, kind, plural, namespaced in KINDS
        if gv == name
    ]
    return {"kind": "APIResourceList", "groupVersion": name, "resources": resources} if resources else None


class Recorder:
    def __init__(self):
        self.objects = {}
        self.sent = []
        recorder = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self, code, value):
                body = json.dumps(value).encode()
                self.send_response(code)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def missing(self):
                self.answer(404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound",
                                  "code": 404, "message": "not found"})

            def body(self):
                return json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")

            def do_GET(self):
                url = urlsplit(self.path)
                found = discovery(url.path)
                if found is None:
                    found = recorder.objects.get(url.path)
                plural = url.path.rsplit("/", 1)[-1]
                if found is None and any(plural == known for _, _, known, _ in KINDS):
                    wanted = parse_qs(url.query).get("labelSelector", [""])[0]
                    pairs = [pair.split("=") for pair in wanted.split(",") if "=" in pair and "!" not in pair]
                    items = [
                        item
                        for place, item in recorder.objects.items()
                        if place.startswith(url.path + "/")
                        and all(item["metadata"].get("labels", {}).get(k) == v for k, v in pairs)
                    ]
                    kind = next(kind for _, kind, known, _ in KINDS if known == plural)
                    found = {"kind": kind + "List", "apiVersion": "v1", "metadata": {}, "items": items}
                self.answer(200, found) if found is not None else self.missing()

            def do_POST(self):
                url = urlsplit(self.path)
                value = self.body()
                if value.get("kind") == "Job":
                    value["status"] = {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}
                recorder.objects[f"{url.path}/{value['metadata']['name']}"] = value
                if value.get("type") != "helm.sh/release.v1":
                    recorder.sent.append(value)
                self.answer(201, value)

            def do_PUT(self):
                value = self.body()
                recorder.objects[urlsplit(self.path).path] = value
                self.answer(200, value)

            do_PATCH = do_PUT

            def do_DELETE(self):
                self.body()
                path = urlsplit(self.path).path
                if recorder.objects.pop(path, None) is None:
                    return self.missing()
                self.answer(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def kubeconfig(self):
        return json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{"name": "x", "cluster": {"server": f"http://127.0.0.1:{self.server.server_port}"}}],
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "users": [{"name": "x", "user": {}}],
        })
