"""`python -m repro.testing.serve FABRIC FOLDER`: a rank that runs `repro.testing.real`'s jobs, until a file `end`."""

from __future__ import annotations

import pickle
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import torch

from repro import fabric as fabrics
from repro.fabric.base import Fabric
from repro.rank.main import run_guarded
from repro.testing import small
from repro.testing.ranks import LIMIT_S


def serve_jobs(whole: Fabric, folder: Path) -> None:
    groups: dict[int, Fabric | None] = {}
    number = 0
    while True:
        job, idle_s = folder / f"job{number}", 0.002
        while not job.exists():
            if (folder / "end").exists():
                whole.close()
                return
            time.sleep(idle_s)
            idle_s = min(1.1 * idle_s, 0.05)  # idle ranks leave the cores to others
        size, setup = pickle.loads(job.read_bytes())
        if size not in groups:
            groups[size] = whole.subgroup(range(size))
        if (fabric := groups[size]) is not None:
            fabric.bytes_sent = 0
            result: Any
            try:
                result = small.one_rank(fabric, setup)
            except Exception:
                result = traceback.format_exc()
            new = folder / f"new{fabric.rank}"
            new.write_bytes(pickle.dumps(result))
            new.rename(folder / f"job{number}.rank{fabric.rank}")
        number += 1


if __name__ == "__main__":
    torch.set_num_threads(1)
    kind, folder = sys.argv[1:]
    run_guarded(lambda: serve_jobs(fabrics.load_fabric(kind).start("cpu", "gloo", LIMIT_S), Path(folder)))
