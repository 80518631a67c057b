#!/usr/bin/env python3
"""Checks the dashboards against the types of Grafana's own package @grafana/schema with the TypeScript compiler. Both come from npm,
once per machine, into a cache. Without npm or network it prints NOT RUN and succeeds: nothing that is shipped needs them."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "rdma-health/grafana"
WANTED = ["@grafana/schema@13.2.3", "typescript@5.9.3"]
# The panels with the module of their options, and the names of the types of options and of custom fields.
PANELS = {
    "stat": ("stat", "Stat", "Options", None),
    "table": ("table", "Table", "Options", "FieldConfig"),
    "timeseries": ("timeseries", "TimeSeries", "Options", "FieldConfig"),
    "state-timeline": ("statetimeline", "StateTimeline", "Options", "FieldConfig"),
    "heatmap": ("heatmap", "Heatmap", "Options", "FieldConfig"),
}
# Enumerations are words and numbers in JSON.
HEAD = """import type * as schema from '@grafana/schema';
type Loose<T> = T extends string ? `${T}` : T extends number ? (`${T}` extends `${infer N extends number}` ? N : T)
  : T extends (infer U)[] ? Loose<U>[] : T extends object ? { [K in keyof T]: Loose<T[K]> } : T;
// The colour that applies below the first threshold has no value.
type Panel = Omit<Loose<schema.Panel>, 'fieldConfig'> & { id: number, gridPos: schema.GridPos, fieldConfig: {
  defaults: Omit<Loose<schema.FieldConfig>, 'thresholds'> & { thresholds: { mode: 'absolute', steps: { color: string, value: number | null }[] } },
  overrides: Loose<schema.FieldConfigSource['overrides']> } };
type Dashboard = Omit<Loose<schema.Dashboard>, 'panels'>;
"""


def install():
    if (CACHE / "wanted").exists() and (CACHE / "wanted").read_text() == "\n".join(WANTED):
        return True
    if not shutil.which("npm"):
        return False
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / "package.json").write_text('{"private": true}\n')
    done = subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--no-save", "--ignore-scripts", *WANTED],
                          cwd=CACHE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if done.returncode == 0:
        (CACHE / "wanted").write_text("\n".join(WANTED))
    return done.returncode == 0


def source(board):
    lines = [HEAD]
    for kind, (directory, name, options, custom) in PANELS.items():
        module = f"@grafana/schema/dist/esm/raw/composable/{directory}/panelcfg/x/{name}PanelCfg_types.gen"
        lines.append(f"import type * as {name} from '{module}';")
    for panel in board.pop("panels"):
        if panel["type"] == "row":
            lines.append(f"const row{panel['id']}: schema.RowPanel = {json.dumps(panel)};")
            continue
        directory, name, options, custom = PANELS[panel["type"]]
        number = panel["id"]
        lines.append(f"// {panel['title']}")
        lines.append(f"const options{number}: Loose<Partial<{name}.{options}>> = {json.dumps(panel['options'])};")
        if custom:
            fields = panel["fieldConfig"]["defaults"]["custom"]
            lines.append(f"const custom{number}: Loose<Partial<{name}.{custom}>> = {json.dumps(fields)};")
        lines.append(f"const panel{number}: Panel = {json.dumps(panel)};")
    lines.append(f"const board: Dashboard = {json.dumps(board)};")
    return "\n".join(lines) + "\nexport {};\n"


if not install():
    print("NOT RUN: dashboards against @grafana/schema: npm or its registry is not available", file=sys.stderr)
    sys.exit()
files = []
for file in sorted((ROOT / "dashboards").glob("*.json")):
    out = CACHE / f"{file.stem}.ts"
    out.write_text(source(json.loads(file.read_text())))
    files.append(out.name)
done = subprocess.run(["node_modules/.bin/tsc", "--noEmit", "--strict", "--skipLibCheck", "--target", "es2022", "--module", "nodenext",
                       "--moduleResolution", "nodenext", *files], cwd=CACHE, capture_output=True, text=True)
if done.returncode:
    sys.exit(f"dashboards do not have the types of @grafana/schema:\n{done.stdout[:6000]}{done.stderr}")
print(f"{len(files)} dashboards have the types of {WANTED[0]}")
