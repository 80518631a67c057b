#!/usr/bin/env python3
"""Installs, upgrades or uninstalls the chart on a real API server: release.py install|upgrade|uninstall KUBECONFIG VALUES

VALUES is JSON. Templates are validated against the server's own schema. If the server is older than the chart requires, the
requirement is removed and a message is printed: Debian's server, the only one that can be built everywhere, is 1.20. Rollback is
not offered, because it does not work in this library.
"""

import asyncio
import json
import pathlib
import re
import shutil
import sys
import tempfile

import helm_sdkpy

CHART = pathlib.Path(__file__).resolve().parents[2] / "deploy/helm/rdma-health"
RELEASE = NAMESPACE = "rdma-health"


async def run(action, kubeconfig, values):
    config = helm_sdkpy.Configuration(namespace=NAMESPACE, kubeconfig=kubeconfig)
    if action == "uninstall":
        return await helm_sdkpy.Uninstall(config).run(RELEASE, wait=False, timeout=900)
    with tempfile.TemporaryDirectory() as directory:
        chart = pathlib.Path(directory) / "rdma-health"
        shutil.copytree(CHART, chart)
        act = {"install": helm_sdkpy.Install, "upgrade": helm_sdkpy.Upgrade}[action](config).run
        try:
            await act(RELEASE, str(chart), values=values, wait=False, disable_openapi_validation=False)
        except helm_sdkpy.HelmError as error:
            if "incompatible with Kubernetes" not in str(error):
                raise
            print(f"{error}; continuing {action} without that requirement")
            meta = chart / "Chart.yaml"
            meta.write_text(re.sub("^kubeVersion:.*\n", "", meta.read_text(), flags=re.M))
            await act(RELEASE, str(chart), values=values, wait=False, disable_openapi_validation=False)


action, kubeconfig, values = sys.argv[1:]
try:
    asyncio.run(run(action, kubeconfig, json.loads(values)))
except helm_sdkpy.HelmError as error:
    sys.exit(f"{action}: {error}")
