"""PipeDream's released partitioner beside this project's, on the profiles that its authors released.

    python pipedream_partitioner.py CLONE    (a clone of github.com/msr-fiddle/pipedream)

Their program runs as it is, in a process of its own, with a stub of the drawing library that it imports.
docs/controls.md has the results.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd

NETWORKS = ("vgg16", "resnet50", "alexnet", "resnet101", "squeezenet1_0")
BANDWIDTHS = (1.25e9, 3.125e9)  # bytes/s: 10 and 25 Gbit/s, the paper's clusters B and A
MACHINES = (2, 3, 4, 8)
STUB = """
class Digraph:
    def __init__(self, *_, **__): pass
    def __getattr__(self, _): return lambda *_, **__: None
"""


def run_theirs(clone: Path, profile: Path, machines: int, bandwidth: float, transfers: bool) -> dict[str, float | str]:
    """Seconds a minibatch of their best partition, and machines of each stage. transfers: of activations count."""
    with tempfile.TemporaryDirectory() as stubs:
        (Path(stubs) / "graphviz.py").write_text(STUB)
        command = [sys.executable, "optimizer_graph_hierarchical.py", "-f", str(profile), "-n", str(machines)]
        command += ["-b", str(bandwidth), "-o", stubs, *(["--activation_compression_ratio", "1"] if transfers else [])]
        environment = os.environ | {"PYTHONPATH": stubs, "MPLBACKEND": "agg"}
        done = subprocess.run(
            command, cwd=clone / "optimizer", env=environment, capture_output=True, text=True, check=True
        )
    stages = re.findall(r"^\(\d+, \d+\) \S+ (\d+)$", done.stdout, re.MULTILINE)
    seconds = re.search(r"Time per stage in pipeline: (\S+)", done.stdout)
    return {"theirs_ms": 1e3 * float(seconds[1]) if seconds else float("nan"), "theirs": "-".join(stages)}


def run_ours(profile: Path, machines: int, bandwidth: float, transfers: bool) -> dict[str, float | str]:
    command = [sys.executable, "-m", "repro", "partition", str(profile), "--machines", str(machines), "--json"]
    command += ["--bandwidth", str(bandwidth), "--cost-model", "released-sum"]
    command += ["--activations", "on" if transfers else "off"]
    plan = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return {"ours_ms": 1e3 * plan["pipeline_s"], "ours": plan["config"]}


def compare(clone: Path) -> pd.DataFrame:
    rows = []
    for network in NETWORKS:
        profile = clone / "profiler/image_classification/profiles" / network / "graph.txt"
        for machines in MACHINES:
            for bandwidth in BANDWIDTHS:
                for transfers in (False, True):
                    setting = (profile, machines, bandwidth, transfers)
                    case = {"network": network, "machines": machines, "GB/s": bandwidth / 1e9, "transfers": transfers}
                    rows.append(case | run_theirs(clone, *setting) | run_ours(*setting))
    return pd.DataFrame(rows)


if __name__ == "__main__":
    table = compare(Path(sys.argv[1]).resolve())
    table["ours / theirs"] = table["ours_ms"] / table["theirs_ms"]
    print(table.to_string(index=False))
