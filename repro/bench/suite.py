"""`repro bench all` (`make bench`): every benchmark of the harness itself, printed and written to results/bench/."""

from __future__ import annotations

import importlib
import json
import sys
import time
from typing import Any

from repro.bench import goals
from repro.core import safe_files
from repro.core.atomic import write_atomically
from repro.core.errors import unknown
from repro.core.paths import results_root
from repro.records.kinds import MEASURED
from repro.records.provenance import hardware, utc_now

# modules beside this one, each with measure() and table()
BENCHMARKS = (
    "start", "loop", "allreduce", "codecs", "virtual", "gtopk", "selection", "partial", "pipelining",
    "parameter_server", "loading",
)  # fmt: skip
NETWORK = "shared memory and loopback of one machine"


def run_suite(only: str | None) -> dict[str, Any]:
    """Run all benchmarks, or one; {name: result}. Tables go to stderr (so that --json has stdout to itself).

    Each result is on disk before the next benchmark starts. InputError for an unknown name.
    """
    if only is not None and only not in BENCHMARKS:
        raise unknown("benchmark", only, BENCHMARKS)
    folder = results_root() / "bench"
    safe_files.make_folder(folder)
    results = {}
    for name in BENCHMARKS if only is None else (only,):
        module = importlib.import_module(f"repro.bench.{name}")
        began = time.perf_counter()
        facts = {"benchmark": name, "kind": MEASURED, "date": utc_now(), "hardware": hardware(NETWORK, "cpu")}
        result = facts | module.measure()
        result["took_s"] = round(time.perf_counter() - began, 1)
        path = folder / f"{name}.json"
        write_atomically(path, json.dumps(result, indent=1, allow_nan=False) + "\n")
        said = "\n".join(filter(None, (module.table(result), goals.table(result.get("against_goals", ())))))
        print(f"{said}\n  took {result['took_s']} s; written to {path}\n", file=sys.stderr)
        results[name] = result
    return results
