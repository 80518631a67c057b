#!/usr/bin/env python3
"""Runs expressions of the dashboards with promtool on series that take longer than a test may wait. Usage: panels_test.py PROMTOOL"""

import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def panel(board, title):
    panels = json.loads((ROOT / f"dashboards/rdma-health-{board}.json").read_text())["panels"]
    (expr,) = [target["expr"] for panel in panels if panel["title"] == title for target in panel["targets"]]
    return expr.replace("$cluster", ".*").replace("$job", ".*")


def series(node, watched, began):
    """A node that is watched from a minute on, and has a problem that began at another."""
    labels = f'cluster="c", {node}, instance="{began}:14791"'
    return [{"series": f"rdma_health_observed_since_timestamp_seconds{{{labels}}}", "values": f"{60 * watched}x200"},
            {"series": f'rdma_cause_since_timestamp_seconds{{{labels}, cause="port-down"}}', "values": f"_x{began} {60 * began}x200"},
            {"series": f'rdma_problem{{{labels}, cause="port-down"}}', "values": f"_x{began} 1x200"}]


def new(node, began):
    return {"labels": f'{{cluster="c", node="{node}", instance="{began}:14791", cause="port-down"}}', "value": 60_000 * began}


def main():
    # Two break ten minutes after their agents started; one was broken at the start, one breaks after an hour and a half.
    given = (series('node="young"', 0, 10) + series('node=""', 0, 11) + series('node="before"', 0, 0) + series('node="later"', 0, 90))
    cases = [(9, []), (12, [new("11:14791", 11), new("young", 10)]), (80, []), (95, [new("later", 90)])]
    checks = [{"expr": panel("fleet", "New in the last hour"), "eval_time": f"{minute}m", "exp_samples": expected}
              for minute, expected in cases]
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "test.yaml"
        # JSON is YAML.
        file.write_text(json.dumps({"tests": [{"interval": "1m", "input_series": given, "promql_expr_test": checks}]}))
        done = subprocess.run([sys.argv[1], "test", "rules", file], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"panels: {done.stdout}{done.stderr}")
    print(f"panels: {len(cases)} answers of 'New in the last hour' are right")


main()
