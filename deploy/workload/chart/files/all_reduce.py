#!/usr/bin/env python3
"""Measure all-reduce with PyTorch, and report which transport NCCL really used.

    torchrun --nproc-per-node=8 all_reduce.py --expect rdma
    python3 all_reduce.py --parse nccl-*.log        reads existing logs of NCCL (NCCL_DEBUG=INFO); needs no PyTorch

Every rank writes NCCL's debug log to a file and reads from it how each channel reaches its peer. Rank 0 prints the result. With
--expect rdma the exit status is 1 if a channel between nodes uses TCP: NCCL falls back to TCP without an error.

Bandwidths follow nccl-tests: algorithm bandwidth is bytes / seconds; bus bandwidth is that times 2 (n - 1) / n, which can be
compared with the rate of the network. approx_alg_BW in the line [bench] is the bus bandwidth: the name is historic.

Exit status: 0 passed, 1 failed, 2 wrong arguments, 3 unknown: the log does not show how NCCL communicated. torchrun reports
every failure as 1.
"""

import argparse
import glob
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

GIB = 1 << 30
PASSED, FAILED, UNKNOWN = 0, 1, 3
# Where the chart has rdma-health.
IN_CHART = "/opt/rdma-health/rdma-health"
# The most channels that the JSON lists. A thousand GPUs have more; the counts include them all.
MOST_CHANNELS = 4096

# NCCL 2.4 writes "Ring 00 : 3 -> 10 [send] via …", 2.7 "Channel 00 : 2[c7000] -> 0[87000] …", 2.12 and later
# "Channel 00/0 : 0[0] -> 8[0] …" with the connection after the slash.
CHANNEL = re.compile(
    r"NCCL INFO (?:Channel|Ring|Tree) (?P<channel>\d+)(?:/(?P<connection>\d+))? : "
    r"(?P<source>\d+)(?:\[[^\]]*\])? -> (?P<target>\d+)(?:\[[^\]]*\])?(?: \[(?:send|receive)\])? via (?P<via>.+?)\s*$"
)
# An offload by switches has no peer: "CollNet 00/0 : 6 [receive] via COLLNET/SHARP/1/GDRDMA".
COLLNET = re.compile(r"NCCL INFO CollNet (?P<channel>\d+)/(?P<connection>\d+) : (?P<source>\d+) \[(?:send|receive)\] via (?P<via>COLLNET/\S+)")
# NET/PLUGIN/DEVICE, then in parentheses the rank that forwards (PXN), then GDRDMA or GDRDMA(PCI), then other marks.
NETWORK = re.compile(r"(?:NET|COLLNET)/(?P<name>.+?)/(?P<device>\d+)(?:\(\d+\))?(?P<gpudirect>/GDRDMA(?:\(PCI\))?)?(?:/(?:Shared|flush=\w+))*")
USING = re.compile(r"NCCL INFO NET/(?P<name>\S+) : Using (?P<devices>\[0\].*)")
HOST = re.compile(r"(?:^|\s|:)(?P<host>[^\s:]+):\d+:\d+ \[-?\d+\] NCCL ")
VERSION = re.compile(r"NCCL version (\d\S*)")
PROVIDER = re.compile(r"NET/OFI Selected [Pp]rovider is ([\w;-]+)")
# What explains a fall-back.
REASON = re.compile(
    r"NCCL (?:INFO|WARN) (.*(?:NET/IB : No device found|Failed to initialize NET plugin|Failed to open libibverbs"
    r"|NCCL_IB_DISABLE set|NCCL_NET set|NCCL_IB_HCA set|NET/OFI .*failed|Call to ibv_\w+ failed).*)"
)


def kind(name, provider=None):
    """Whether a network of NCCL is RDMA or TCP; None if that is unknown."""
    lower = name.lower()
    if "socket" in lower or "fastrak" in lower or "tcpx" in lower:
        return "tcp"
    if "libfabric" in lower or "ofi" in lower:
        first = (provider or "").lower()
        return "tcp" if first.startswith(("tcp", "sockets")) else "rdma" if first.startswith(("efa", "verbs", "cxi")) else None
    if re.match(r"(g?ib|roce|ucx|sharp)", lower):
        return "rdma"
    return None


def read_log(text):
    """Returns what a log of NCCL, of one or several ranks, reports about its channels."""
    channels, devices, hosts, reasons, version, provider = {}, {}, set(), [], None, None
    for line in text.splitlines():
        host = HOST.search(line)
        if host:
            hosts.add(host["host"])
        if found := VERSION.search(line):
            version = found[1]
        if found := PROVIDER.search(line):
            provider = found[1]
        if found := USING.search(line):
            named = re.findall(r"\[(\d+)\](\S+)", found["devices"])
            devices[host and host["host"], found["name"]] = dict(named)
        if (found := REASON.search(line)) and found[1].strip() not in reasons:
            reasons.append(found[1].strip())
        found = CHANNEL.search(line) or COLLNET.search(line)
        if not found:
            continue
        network = NETWORK.fullmatch(found["via"])
        name = network["name"] if network else None
        entry = {
            "channel": int(found["channel"]),
            "connection": int(found["connection"] or 0),
            "from": int(found["source"]),
            "to": int(found["target"]) if "target" in found.groupdict() else None,
            "transport": f"{found['via'].split('/')[0]}/{name}" if network else "SHM" if "shared memory" in found["via"] else found["via"].split("/")[0],
            "kind": kind(name, provider) if network else "local",
            "gpudirect": bool(network and network["gpudirect"]),
        }
        if network:
            own = devices.get((host and host["host"], name)) or devices.get((None, name)) or {}
            entry["device"] = own.get(network["device"], network["device"])
        key = (entry["channel"], entry["connection"], entry["from"], entry["to"])
        known = channels.setdefault(key, entry)
        # Sender and receiver both report a channel. GPUDirect is used on the path only if both have it.
        known["gpudirect"] = known["gpudirect"] and entry["gpudirect"]
    return {"version": version, "hosts": sorted(hosts), "reasons": reasons[:20], "channels": list(channels.values())}


def join(logs):
    """Returns the summary of several logs."""
    merged = {}
    for entry in (entry for log in logs for entry in log["channels"]):
        key = (entry["channel"], entry["connection"], entry["from"], entry["to"])
        known = merged.setdefault(key, dict(entry))
        known["gpudirect"] = known["gpudirect"] and entry["gpudirect"]
    return {
        "version": next((log["version"] for log in logs if log["version"]), None),
        "hosts": sorted({host for log in logs for host in log["hosts"]}),
        "reasons": list(dict.fromkeys(reason for log in logs for reason in log["reasons"]))[:20],
        "channels": sorted(merged.values(), key=lambda one: (one["from"], one["to"] or 0, one["channel"], one["connection"])),
    }


def transports(channels):
    """Counts the channels of each transport."""
    groups = {}
    for one in channels:
        group = groups.setdefault(
            (one["transport"], one["gpudirect"]),
            {"transport": one["transport"], "kind": one["kind"], "gpudirect": one["gpudirect"], "channels": 0, "devices": set()},
        )
        group["channels"] += 1
        group["devices"].update([one["device"]] if "device" in one else [])
    ordered = sorted(groups.values(), key=lambda group: (group["transport"], group["gpudirect"]))
    return [group | {"devices": sorted(group["devices"])} for group in ordered]


def judge(expect, nodes, used, reasons):
    """Returns the exit status and the sentences of the verdict."""
    networks = [group for group in used if group["kind"] != "local"]
    count = {name: sum(g["channels"] for g in networks if g["kind"] == name) for name in ("rdma", "tcp", None)}
    total = sum(count.values())
    if not used:
        return (UNKNOWN if expect == "rdma" else PASSED), ["NCCL's log shows no channel: how the ranks communicate is unknown"]
    if count["tcp"] and expect == "rdma":
        said = [f"fell back to TCP: {count['tcp']} of {total} channels of the network use {tcp_names(networks)}, although RDMA is expected"]
        said += [f"NCCL: {reason}" for reason in reasons]
        return FAILED, said + ["run rdma-health check on the node and rdma-health env in the pod to see why RDMA is not used"]
    if count[None] and expect == "rdma":
        names = ", ".join(sorted({group["transport"] for group in networks if group["kind"] is None}))
        return UNKNOWN, [f"{count[None]} of {total} channels of the network use {names}, which may or may not be RDMA"]
    if not total:
        if nodes is None or nodes > 1:
            said = "no channel uses a network, although the ranks are on several nodes" if nodes else "no channel uses a network"
            return (UNKNOWN if expect == "rdma" else PASSED), [said]
        return PASSED, [
            "all ranks are on one node and no channel uses the network: RDMA was not measured; set NCCL_P2P_DISABLE=1 and "
            "NCCL_SHM_DISABLE=1 to send everything through the adapters"
        ]
    if count["tcp"]:
        return PASSED, [f"TCP: {count['tcp']} of {total} channels of the network use {tcp_names(networks)}"]
    if count[None]:
        return PASSED, ["it is unknown whether the channels of the network use RDMA"]
    staged = sum(group["channels"] for group in networks if not group["gpudirect"])
    said = [f"RDMA: all {total} channels of the network use RDMA"]
    if staged:
        said.append(f"{staged} of them without GPUDirect: data passes through host memory, which is slower; run rdma-health check on the node")
    if expect == "tcp":
        said.append("TCP was expected")
    return PASSED, said


def tcp_names(networks):
    return ", ".join(sorted({group["transport"] for group in networks if group["kind"] == "tcp"}))


def measured(bytes_, iterations, seconds, world):
    """Returns one row of the result; seconds is the average of one operation."""
    algorithm = bytes_ / seconds
    return {
        "op": "all_reduce",
        "world": world,
        "bytes": bytes_,
        "iterations": iterations,
        "average_seconds": seconds,
        "algorithm_bytes_per_second": algorithm,
        "bus_bytes_per_second": algorithm * 2 * (world - 1) / world,
    }


def bench_line(row):
    return (
        f"[bench] op={row['op']} world={row['world']} bytes={row['bytes']} iters={row['iterations']} "
        f"avg_sec={row['average_seconds']:.6f} approx_alg_BW={row['bus_bytes_per_second'] / GIB:.2f} GiB/s"
    )


def compare(rows, rate, fail_below):
    """Compares the best bus bandwidth with the rate of a node's RDMA ports: status and sentence."""
    best = max(row["bus_bytes_per_second"] for row in rows)
    percent = 100 * best / rate["bytes_per_second"]
    said = (
        f"best bus bandwidth {best / GIB:.2f} GiB/s is {percent:.0f} % of the rate of the node's RDMA ports, "
        f"{rate['bytes_per_second'] / GIB:.2f} GiB/s ({', '.join(rate['ports'])})"
    )
    if fail_below and percent < fail_below:
        return FAILED, f"{said}; at least {fail_below} % is expected"
    return PASSED, said


def usable_rate(listing, hcas):
    """Returns the rate of the active ports in the JSON of `rdma-health devices`, limited to those in NCCL_IB_HCA."""
    wanted = None
    if hcas and hcas.startswith("="):
        wanted = [item.split(":") for item in hcas[1:].split(",") if item]
    ports, rate = [], 0
    devices = listing.get("devices")
    for port in devices if isinstance(devices, list) else []:
        chosen = wanted is None or any(
            item[0] == port.get("device") and (len(item) < 2 or item[1] in ("", str(port.get("port")))) for item in wanted
        )
        bits = port.get("rate")
        if chosen and port.get("state") == "ACTIVE" and isinstance(bits, int):
            ports.append(f"{port['device']}:{port['port']}")
            rate += bits / 8
    return {"ports": ports, "bytes_per_second": rate} if rate else None


def node_rate(program):
    """Asks rdma-health for the rate of this node's ports: the rate, or None, and then why it is unknown."""
    program = program or shutil.which("rdma-health") or IN_CHART
    try:
        answer = subprocess.run([program, "devices", "--output", "json"], capture_output=True, timeout=60, check=True).stdout
        rate = usable_rate(json.loads(answer), os.environ.get("NCCL_IB_HCA"))
        return rate, None if rate else f"{program} devices finds no active port"
    except OSError as error:
        return None, f"{program}: {error.strerror or error}"
    except subprocess.SubprocessError as error:
        said = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip().splitlines()
        return None, said[-1] if said else str(error)
    except ValueError:
        return None, f"{program} devices printed no JSON"


def render(report):
    """Returns the report as text."""
    lines = []
    if report["results"]:
        lines.append(f"{'bytes':>12} {'seconds':>11} {'algorithm':>16} {'bus':>16}")
        for row in report["results"]:
            algorithm, bus = row["algorithm_bytes_per_second"] / GIB, row["bus_bytes_per_second"] / GIB
            lines.append(f"{row['bytes']:>12} {row['average_seconds']:>11.6f} {algorithm:>10.2f} GiB/s {bus:>10.2f} GiB/s")
    for group in report["transports"]:
        direct = " with GPUDirect" if group["gpudirect"] else ""
        devices = f" on {', '.join(group['devices'])}" if group["devices"] else ""
        lines.append(f"transport: {group['transport']}{direct}, {group['channels']} channels{devices}")
    status = {PASSED: "passed", FAILED: "FAILED", UNKNOWN: "unknown"}[report["status"]]
    first, *more = report["verdict"]
    return "\n".join(lines + [f"{status}: {first}"] + [f"  {sentence}" for sentence in more])


def textfile(report):
    """Returns the report in Prometheus' text format, for the textfile collector of node_exporter."""
    out = []

    def family(name, help_, samples):
        out.append(f"# HELP rdma_bench_{name} {help_}\n# TYPE rdma_bench_{name} gauge")
        for labels, value in samples:
            text = ",".join(f'{key}="{escape(str(text))}"' for key, text in labels.items())
            out.append(f"rdma_bench_{name}{{{text}}} {value}" if text else f"rdma_bench_{name} {value}")

    sizes = [({"op": row["op"], "world": row["world"], "bytes": row["bytes"]}, row) for row in report["results"]]
    family("duration_seconds", "Average time of one operation.", [(labels, row["average_seconds"]) for labels, row in sizes])
    family(
        "algorithm_bandwidth_bytes_per_second",
        "Bytes of one operation by its time.",
        [(labels, row["algorithm_bytes_per_second"]) for labels, row in sizes],
    )
    family(
        "bus_bandwidth_bytes_per_second",
        "Algorithm bandwidth by 2 (n - 1) / n, to compare with the rate of the network.",
        [(labels, row["bus_bytes_per_second"]) for labels, row in sizes],
    )
    family(
        "channels",
        "Channels of NCCL by transport.",
        [({"transport": group["transport"], "gpudirect": str(group["gpudirect"]).lower()}, group["channels"]) for group in report["transports"]],
    )
    family("status", "Exit status of the benchmark: 0 passed, 1 failed, 3 unknown.", [({}, report["status"])])
    if report["rdma_rate"]:
        family("node_rdma_rate_bytes_per_second", "Rate of the node's active RDMA ports.", [({}, report["rdma_rate"]["bytes_per_second"])])
    family("last_timestamp_seconds", "End of the benchmark, in Unix time.", [({}, report["timestamp"])])
    return "\n".join(out) + "\n"


def escape(text):
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def write(path, text):
    """Replaces a file in one step, so that no reader sees a part of it."""
    with tempfile.NamedTemporaryFile("w", dir=os.path.dirname(os.path.abspath(path)), delete=False) as file:
        try:
            file.write(text)
            file.close()
            os.chmod(file.name, 0o644)
            os.replace(file.name, path)
        except OSError:
            os.remove(file.name)
            raise


def worse(one, other):
    """Returns the worse of two exit statuses."""
    return max(one, other, key=[PASSED, UNKNOWN, FAILED].index)


def finish(report, arguments):
    """Prints and writes the report."""
    print(render(report), flush=True)
    status = report["status"]
    short = report | {"channels": report["channels"][:MOST_CHANNELS]}
    for path, text in ((arguments.json, lambda: json.dumps(short, indent=2) + "\n"), (arguments.textfile, lambda: textfile(report))):
        try:
            if path:
                write(path, text())
        except OSError as error:
            # The verdict stands, but a benchmark without its report has not done what the user wants.
            print(f"all_reduce.py: cannot write {path}: {error.strerror or error}", file=sys.stderr)
            status = worse(status, UNKNOWN)
    return status


def log_nccl(directory):
    """Makes NCCL write its log to a file of this process, which is returned. NCCL reads the variables when it starts."""
    if os.environ.get("NCCL_DEBUG_FILE"):
        print(f"[bench] NCCL_DEBUG_FILE is set; the log goes to {directory} instead", file=sys.stderr)
    os.makedirs(directory, exist_ok=True)
    if os.environ.get("NCCL_DEBUG", "").upper() != "TRACE":
        os.environ["NCCL_DEBUG"] = "INFO"
    os.environ["NCCL_DEBUG_SUBSYS"] = "INIT,NET,GRAPH,ENV"
    path = os.path.join(directory, f"nccl-{socket.gethostname()}-{os.getpid()}.log")
    os.environ["NCCL_DEBUG_FILE"] = path
    return path


def measure(arguments):
    """Runs the benchmark in this rank and returns the exit status, which is the same in all ranks."""
    import torch
    import torch.distributed as dist

    rank, local = int(os.environ.get("RANK", 0)), int(os.environ.get("LOCAL_RANK", 0))
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "1"), ("MASTER_ADDR", "localhost"), ("MASTER_PORT", "29500")):
        os.environ.setdefault(name, value)
    on_gpu = arguments.backend == "nccl"
    directory = arguments.nccl_log or tempfile.mkdtemp(prefix="nccl-log-")
    log = log_nccl(directory)
    if on_gpu:
        torch.cuda.set_device(local)
    device = torch.device("cuda", local) if on_gpu else torch.device("cpu")
    dist.init_process_group(arguments.backend)
    world = dist.get_world_size()

    def settled():
        if on_gpu:
            torch.cuda.synchronize()

    rows, wrong = [], []
    for bytes_ in arguments.sizes:
        tensor = torch.full((bytes_ // 4,), float(rank + 1), dtype=torch.float32, device=device)
        dist.all_reduce(tensor)
        expected = world * (world + 1) / 2
        if not bool((tensor == expected).all()):
            wrong.append(bytes_)
        tensor.zero_()
        for _ in range(arguments.warmup):
            dist.all_reduce(tensor)
        dist.barrier(**({"device_ids": [local]} if on_gpu else {}))
        settled()
        start = time.perf_counter()
        for _ in range(arguments.iterations):
            dist.all_reduce(tensor)
        settled()
        # The slowest rank counts.
        took = torch.tensor([(time.perf_counter() - start) / arguments.iterations], dtype=torch.float64, device=device)
        dist.all_reduce(took, op=dist.ReduceOp.MAX)
        rows.append(measured(bytes_, arguments.iterations, float(took), world))
        if rank == 0:
            print(bench_line(rows[-1]), flush=True)

    rate, why = node_rate(arguments.rdma_health) if local == 0 else (None, None)
    own = {"host": socket.gethostname(), "wrong": wrong, "log": None, "rate": rate, "no_rate": why}
    if on_gpu:
        try:
            with open(log, errors="replace") as file:
                own["log"] = read_log(file.read(64 << 20))
        except OSError as error:
            print(f"[bench] rank {rank}: cannot read NCCL's log: {error}", file=sys.stderr)
    everyone = [None] * world
    dist.all_gather_object(everyone, own)
    status = [PASSED]
    if rank == 0:
        status = [finish(conclude(arguments, rows, everyone), arguments)]
        if arguments.nccl_log:
            print(f"NCCL's logs are in {directory} of each node")
    dist.broadcast_object_list(status, src=0)
    dist.destroy_process_group()
    if not arguments.nccl_log and os.path.exists(log):
        os.remove(log)
        os.rmdir(directory)
    return status[0]


def conclude(arguments, rows, everyone):
    """Joins what the ranks found into the report."""
    logs = join([own["log"] for own in everyone if own["log"]])
    nodes = len({own["host"] for own in everyone})
    used = transports(logs["channels"])
    if arguments.backend == "nccl":
        status, verdict = judge(arguments.expect, nodes, used, logs["reasons"])
    else:
        status = UNKNOWN if arguments.expect == "rdma" else PASSED
        verdict = [f"{arguments.backend} does not write a log: its transport is unknown"]
    rates = [own["rate"] for own in everyone if own["rate"]]
    # The slowest node limits all.
    rate = min(rates, key=lambda one: one["bytes_per_second"], default=None)
    if rate and any(group["kind"] == "rdma" for group in used):
        slow, said = compare(rows, rate, arguments.fail_below)
        status, verdict = worse(status, slow), verdict + [said]
    elif any(group["kind"] == "rdma" for group in used):
        # Asked for a comparison, no answer is not a good one.
        why = next((own["no_rate"] for own in everyone if own.get("no_rate")), "no rank asked")
        status = worse(status, UNKNOWN if arguments.fail_below else PASSED)
        verdict = verdict + [f"the bandwidth was not compared with the rate of the RDMA ports, which is unknown: {why}"]
    wrong = sorted({bytes_ for own in everyone for bytes_ in own["wrong"]})
    if wrong:
        status, verdict = FAILED, [f"wrong sums at {', '.join(map(str, wrong))} bytes: do not train on these nodes"] + verdict
    return report(arguments.expect, nodes, logs, used, status, verdict) | {
        "world": len(everyone), "backend": arguments.backend, "results": rows, "rdma_rate": rate,
    }


def report(expect, nodes, logs, used, status, verdict):
    """Returns the report without measurements."""
    return {
        "schema": 1, "op": "all_reduce", "world": None, "nodes": nodes, "backend": "nccl", "nccl": logs["version"], "expected": expect,
        "status": status, "verdict": verdict, "results": [], "rdma_rate": None, "transports": used, "channels": logs["channels"],
        "reasons": logs["reasons"], "timestamp": int(time.time()),
    }


def parse_logs(arguments):
    """Judges existing logs, without PyTorch."""
    logs = []
    for path in (path for pattern in arguments.parse for path in (glob.glob(pattern) or [pattern])):
        try:
            with open(path, errors="replace") as file:
                logs.append(read_log(file.read(64 << 20)))
        except OSError as error:
            print(f"all_reduce.py: {error}", file=sys.stderr)
            return UNKNOWN
    logs = join(logs)
    used = transports(logs["channels"])
    status, verdict = judge(arguments.expect, len(logs["hosts"]) or None, used, logs["reasons"])
    return finish(report(arguments.expect, len(logs["hosts"]), logs, used, status, verdict), arguments)


def size(text):
    """Parses 64K, 256M or 1G, a multiple of four bytes."""
    found = re.fullmatch(r"(\d+)([KMG]?)", text.upper())
    value = int(found[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[found[2]] if found else 0
    if value < 4 or value % 4:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a size like 256M, a multiple of 4 bytes")
    return value


def positive(text):
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number above zero")
    return int(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = [size(text) for text in ("1M", "16M", "64M", "256M", "1G")]
    parser.add_argument("--sizes", type=lambda text: [size(one) for one in text.split(",")], default=default, metavar="SIZE,…", help="default: 1M,16M,64M,256M,1G")
    parser.add_argument("--iterations", type=positive, default=50, metavar="N", help="default: 50")
    parser.add_argument("--warmup", type=positive, default=5, metavar="N", help="default: 5")
    parser.add_argument("--backend", choices=["nccl", "gloo"], default="nccl", help="gloo measures on CPUs")
    parser.add_argument("--expect", choices=["rdma", "tcp", "any"], default="any", help="rdma: fail if NCCL uses TCP")
    parser.add_argument("--fail-below", type=positive, metavar="PERCENT", help="fail if the bus bandwidth is a smaller part of the node's RDMA rate")
    parser.add_argument("--json", metavar="FILE", help="write the report as JSON")
    parser.add_argument("--textfile", metavar="FILE", help="write the report as Prometheus text")
    parser.add_argument("--nccl-log", metavar="DIR", help="keep NCCL's logs in this directory")
    parser.add_argument("--rdma-health", metavar="PROGRAM", help=f"asked for the rate of the node's ports; default: rdma-health in PATH, else {IN_CHART}")
    parser.add_argument("--parse", nargs="+", metavar="LOG", help="judge existing logs instead of measuring")
    arguments = parser.parse_args()
    sys.exit(parse_logs(arguments) if arguments.parse else measure(arguments))


if __name__ == "__main__":
    main()
