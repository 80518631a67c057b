"""What the checks of the charts share: Helm as a library, Kubernetes' schema, and files that are generated from a chart."""

import asyncio
import json
import os
import pathlib
import sys
import tempfile

# Keep releases in memory, so that the recorder only needs JSON. Go reads the environment of the process start, hence execve.
if os.environ.get("HELM_DRIVER") != "memory":
    os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"HELM_DRIVER": "memory"})

import helm_sdkpy
import kubernetes_validate
import yaml

from recorder import Recorder

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = "1.33"


def with_server(namespace, work):
    """What `work` returns, given a Helm configuration for a recording API server and a directory; and what was sent."""
    recorder = Recorder()
    with tempfile.TemporaryDirectory() as directory:
        kubeconfig = pathlib.Path(directory) / "kubeconfig"
        kubeconfig.write_text(recorder.kubeconfig())
        config = helm_sdkpy.Configuration(namespace=namespace, kubeconfig=str(kubeconfig))
        result = asyncio.run(work(config, pathlib.Path(directory)))
    recorder.server.shutdown()
    return result, recorder.sent


def install(chart, release, namespace, values):
    """The objects that Helm sends when it installs a chart with these values."""
    async def work(config, _):
        await helm_sdkpy.Install(config).run(release, str(chart), values=values, wait=False)

    return with_server(namespace, work)[1]


def lint(chart, ignored=()):
    """Fails if Helm's linter reports an error about the chart without one of the words that are ignored."""
    async def work(config, _):
        return await helm_sdkpy.Lint(config).run(str(chart))

    result, _ = with_server("default", work)
    errors = [error for error in result.get("Errors") or result.get("errors") or []
              if not any(word in str(error) for word in ignored)]
    if errors:
        raise SystemExit(f"lint: {json.dumps(result, indent=2, default=str)}")


def validate(value, place=""):
    """Fails if an object does not follow Kubernetes' schema."""
    clean = {key: part for key, part in value.items() if key != "status"}
    try:
        kubernetes_validate.validate(clean, SCHEMA, strict=True)
    except Exception as error:
        name = place or f"{value['kind']} {value['metadata']['name']}"
        raise SystemExit(f"{name}: {error}\n{yaml.safe_dump(clean)}")


def refuse(render, cases):
    """Fails if the chart accepts values that it must refuse, or refuses them for another reason than the word of the case."""
    for values, word in cases:
        try:
            render(values)
        except helm_sdkpy.HelmError as error:
            if word not in str(error):
                raise SystemExit(f"{values} was refused for another reason: {error}")
        else:
            raise SystemExit(f"{values} was not refused")


def match(files):
    """Fails if a generated file is not what the chart gives; with --update, writes it."""
    update = "--update" in sys.argv[1:]
    for file, text in files:
        if update:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        elif not file.exists() or file.read_text() != text:
            raise SystemExit(f"{file} does not match the chart; run `make deploy-update`")
