#!/usr/bin/env python3
"""Tests of the all-reduce benchmark that need no PyTorch and no GPU: logs of real NCCL versions, arithmetic, output, verdicts.

Usage: all_reduce_test.py [PROMTOOL]
"""

import argparse
import contextlib
import importlib.util
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SCRIPT = HERE.parents[1] / "deploy/workload/chart/files/all_reduce.py"
PROMTOOL = sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else None

spec = importlib.util.spec_from_file_location("all_reduce", SCRIPT)
bench = importlib.util.module_from_spec(spec)
sys.dont_write_bytecode = True
spec.loader.exec_module(bench)

# File, its groups as (transport, kind, GPUDirect, channels), and the exit status with --expect rdma.
LOGS = [
    ("2.4-ib-staged", [("NET/IB", "rdma", False, 2), ("P2P", "local", False, 1)], 0),
    ("2.4-libfabric", [("NET/AWS Libfabric", "rdma", False, 2), ("P2P", "local", False, 2)], 0),
    ("2.8-gpudirect", [("NET/IB", "rdma", True, 3)], 0),
    ("2.18-ib-staged", [("NET/IB", "rdma", False, 3), ("P2P", "local", False, 1)], 0),
    ("2.18-socket", [("NET/Socket", "tcp", False, 2), ("P2P", "local", False, 1)], 1),
    ("2.20-ibext", [("NET/IBext_v8", "rdma", False, 3)], 0),
    ("2.27-mpi-shared", [("NET/IB", "rdma", True, 2), ("P2P", "local", False, 1)], 0),
    ("2.27-pxn-and-c2c", [("NET/IB", "rdma", True, 3)], 0),
    ("2.28-nvlink", [("P2P", "local", False, 8)], 0),
    ("2.28-socket", [("NET/Socket", "tcp", False, 4)], 1),
    ("2.31-libfabric", [("NET/Libfabric", "rdma", True, 2)], 0),
    ("libfabric-unknown", [("NET/Libfabric", None, False, 1), ("SHM", "local", False, 1)], 3),
    ("gib", [("NET/gIB", "rdma", True, 2)], 0),
    ("collnet", [("COLLNET/SHARP", "rdma", True, 2)], 0),
]


def log(name):
    return bench.read_log((HERE / f"nccl-logs/{name}.log").read_text())


def run(*arguments):
    """Runs the script as users do, without PyTorch: exit status, stdout, stderr."""
    done = subprocess.run([sys.executable, SCRIPT, *map(str, arguments)], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


class Logs(unittest.TestCase):
    def test_every_file_is_listed(self):
        self.assertEqual({path.stem for path in (HERE / "nccl-logs").iterdir()}, {name for name, *_ in LOGS})

    def test_transports_of_every_version(self):
        for name, expected, status in LOGS:
            with self.subTest(name):
                used = bench.transports(log(name)["channels"])
                self.assertEqual([(g["transport"], g["kind"], g["gpudirect"], g["channels"]) for g in used], expected)
                code, out, err = run("--parse", HERE / f"nccl-logs/{name}.log", "--expect", "rdma")
                self.assertEqual((code, err), (status, ""), out)

    def test_devices_and_peers(self):
        read = log("2.27-pxn-and-c2c")
        self.assertEqual([one["device"] for one in read["channels"]], ["mlx5_2:1/RoCE", "mlx5_0:1/RoCE", "mlx5_1:1/RoCE"])
        self.assertEqual((read["channels"][0]["from"], read["channels"][0]["to"]), (0, 8))
        self.assertEqual(log("2.28-socket")["version"], "2.28.9+cuda13.0")
        self.assertEqual(log("2.27-mpi-shared")["hosts"], ["host-70", "host-72"])

    def test_a_channel_reported_by_both_ends_counts_once_and_needs_gpudirect_at_both(self):
        line = "a:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [{}] via NET/IB/0{}\n"
        both = bench.join([bench.read_log(line.format("send", "/GDRDMA")), bench.read_log(line.format("receive", ""))])
        self.assertEqual([(g["channels"], g["gpudirect"]) for g in bench.transports(both["channels"])], [(1, False)])

    def test_lines_that_only_look_alike(self):
        for text in (
            "vm:1:1 [0] NCCL INFO Channel 00/02 : 0 1",
            "vm:1:1 [0] NCCL INFO Ring 00 : 1 -> 0 -> 1",
            "vm:1:1 [0] NCCL INFO Using network Socket",
            "Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0",
            "\0\xff NCCL INFO Channel",
        ):
            self.assertEqual(bench.read_log(text)["channels"], [], text)


class Verdicts(unittest.TestCase):
    def verdict(self, expect, nodes, *lines):
        text = "".join(f"a:1:2 [0] NCCL INFO Channel 0{i}/0 : 0[0] -> 1[0] via {via}\n" for i, via in enumerate(lines))
        return bench.judge(expect, nodes, bench.transports(bench.read_log(text)["channels"]), ["NET/IB : No device found."])

    def test_one_tcp_channel_of_two_is_a_fall_back_with_its_reason(self):
        status, said = self.verdict("rdma", 2, "NET/IB/0/GDRDMA", "NET/Socket/0")
        self.assertEqual(status, 1)
        self.assertIn("1 of 2 channels of the network use NET/Socket", said[0])
        self.assertIn("NCCL: NET/IB : No device found.", said)

    def test_rdma_without_gpudirect_passes_and_is_reported(self):
        status, said = self.verdict("rdma", 2, "NET/IB/0/GDRDMA", "NET/IB/1")
        self.assertEqual(status, 0)
        self.assertIn("1 of them without GPUDirect", said[1])

    def test_what_the_log_does_not_show_is_unknown(self):
        self.assertEqual(self.verdict("rdma", 2)[0], 3)
        self.assertEqual(self.verdict("rdma", 2, "P2P/CUMEM")[0], 3)
        self.assertEqual(self.verdict("rdma", 2, "NET/NewPlugin/0")[0], 3)
        self.assertEqual(self.verdict("any", 2)[0], 0)

    def test_one_node_passes_with_a_remark(self):
        status, said = self.verdict("rdma", 1, "P2P/CUMEM")
        self.assertEqual(status, 0)
        self.assertIn("RDMA was not measured", said[0])

    def test_tcp_is_fine_if_it_is_expected(self):
        self.assertEqual(self.verdict("tcp", 2, "NET/Socket/0")[0], 0)


class Figures(unittest.TestCase):
    def test_the_line_is_the_one_that_administrators_know(self):
        # The line of a measurement in the field: eight H100 of two nodes over TCP.
        row = bench.measured(268435456, 50, 0.447717, 8)
        self.assertEqual(
            bench.bench_line(row),
            "[bench] op=all_reduce world=8 bytes=268435456 iters=50 avg_sec=0.447717 approx_alg_BW=0.98 GiB/s",
        )
        self.assertAlmostEqual(row["algorithm_bytes_per_second"] / bench.GIB, 0.5584, 4)

    def test_the_rate_of_the_ports_that_nccl_may_use(self):
        listing = {"devices": [
            {"device": "mlx5_6", "port": 1, "state": "ACTIVE", "rate": 400_000_000_000},
            {"device": "mlx5_7", "port": 1, "state": "ACTIVE", "rate": 400_000_000_000},
            {"device": "mlx5_8", "port": 1, "state": "DOWN", "rate": 400_000_000_000},
            {"device": "mlx5_9", "port": 1, "state": "ACTIVE", "rate": {"unread": "…"}},
            {"device": "mlx5_60", "port": 1, "state": "ACTIVE", "rate": 25_000_000_000},
        ]}
        self.assertEqual(bench.usable_rate(listing, "=mlx5_6:1,mlx5_8:1"), {"ports": ["mlx5_6:1"], "bytes_per_second": 50e9})
        self.assertEqual(bench.usable_rate(listing, None)["ports"], ["mlx5_6:1", "mlx5_7:1", "mlx5_60:1"])
        self.assertIsNone(bench.usable_rate({"devices": {"unread": "…"}}, None))

    def test_an_unknown_rate_has_its_reason(self):
        self.assertEqual(bench.node_rate("/no/such/program"), (None, "/no/such/program: No such file or directory"))
        self.assertEqual(bench.node_rate("/bin/echo"), (None, "/bin/echo devices printed no JSON"))
        rate, why = bench.node_rate("/bin/false")
        self.assertIsNone(rate)
        self.assertIn("returned non-zero exit status", why)

    def test_a_comparison_that_was_asked_for_and_not_made_is_no_pass(self):
        def conclude(fail_below, rate=None):
            arguments = argparse.Namespace(backend="nccl", expect="rdma", fail_below=fail_below)
            rows = [bench.measured(1 << 28, 50, 0.066, 2)]
            own = {"host": "a", "wrong": [], "log": log("2.8-gpudirect"), "rate": rate, "no_rate": "rdma-health is not here"}
            return bench.conclude(arguments, rows, [own, own | {"host": "b"}])

        without = conclude(None)
        self.assertEqual(without["status"], 0)
        self.assertIn("which is unknown: rdma-health is not here", without["verdict"][-1])
        self.assertEqual(conclude(50)["status"], 3)
        self.assertEqual(conclude(None, {"ports": ["mlx5_6:1"], "bytes_per_second": 50e9})["status"], 0)

    def test_too_slow_fails_only_if_a_limit_was_given(self):
        rows = [bench.measured(1 << 30, 5, 0.1, 2)]
        rate = {"ports": ["mlx5_6:1"], "bytes_per_second": 50e9}
        self.assertEqual(bench.compare(rows, rate, None)[0], 0)
        status, said = bench.compare(rows, rate, 50)
        self.assertEqual(status, 1)
        self.assertIn("10.00 GiB/s is 21 %", said)

    def test_sizes(self):
        self.assertEqual(bench.size("256M"), 268435456)
        for wrong in ("0", "3", "1T", "-4", "x", ""):
            with self.assertRaises(Exception, msg=wrong):
                bench.size(wrong)


class Output(unittest.TestCase):
    def report(self):
        read = log("2.28-socket")
        used = bench.transports(read["channels"])
        status, said = bench.judge("rdma", 2, used, read["reasons"])
        rows = [bench.measured(1 << 28, 50, 0.066, 2)]
        rate = {"ports": ["mlx5_6:1"], "bytes_per_second": 50e9}
        return bench.report("rdma", 2, read, used, status, said) | {"results": rows, "rdma_rate": rate, "world": 2}

    def test_prometheus_accepts_the_textfile(self):
        text = bench.textfile(self.report())
        self.assertIn('rdma_bench_channels{transport="NET/Socket",gpudirect="false"} 4', text)
        self.assertIn("rdma_bench_status 1", text)
        if PROMTOOL:
            done = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_a_name_in_a_label_is_escaped(self):
        self.assertEqual(bench.escape('a"\\\n'), r"a\"\\" + r"\n")

    def test_files_and_text_agree(self):
        with tempfile.TemporaryDirectory() as directory:
            out = pathlib.Path(directory)
            code, text, _ = run(
                "--parse", HERE / "nccl-logs/2.28-socket.log", "--expect", "rdma", "--json", out / "r.json", "--textfile", out / "r.prom"
            )
            self.assertEqual(code, 1)
            found = json.loads((out / "r.json").read_text())
            self.assertEqual((found["schema"], found["status"], found["nccl"]), (1, 1, "2.28.9+cuda13.0"))
            self.assertIn(found["verdict"][0], text)
            self.assertEqual(len(found["channels"]), 4)
            self.assertEqual(sorted(path.name for path in out.iterdir()), ["r.json", "r.prom"])

    def test_a_report_that_cannot_be_written_is_an_error_after_the_verdict(self):
        for option in ("--json", "--textfile"):
            code, text, err = run("--parse", HERE / "nccl-logs/2.8-gpudirect.log", "--expect", "rdma", option, "/no/such/file")
            self.assertEqual(code, 3)
            self.assertIn("passed", text)
            self.assertIn("cannot write /no/such/file: No such file or directory", err)
            self.assertNotIn("Traceback", err)

    def test_a_file_that_does_not_exist_is_an_error_and_not_a_pass(self):
        code, _, err = run("--parse", "/no/such.log")
        self.assertEqual(code, 3)
        self.assertIn("/no/such.log", err)


if __name__ == "__main__":
    with contextlib.redirect_stderr(io.StringIO()) as said:
        done = unittest.main(exit=False)
    if not done.result.wasSuccessful():
        sys.exit(said.getvalue())
    print(f"all-reduce benchmark: {done.result.testsRun} tests passed, logs of {len(LOGS)} NCCL versions and plugins")
