"""Our ring allreduce (codec none) against the fabric's own: OpenMPI's and gloo's, 4 ranks on this machine."""

from __future__ import annotations

import statistics
from typing import Any

from repro.bench.ranks import run_jobs
from repro.timing import closed_forms
from repro.timing.fit import fit_form

RANKS = 4
MEGABYTES = (1, 4, 10, 40, 100)
FABRICS = ("mpi", "torch")
ROUNDS = 2


def measure(
    sizes: tuple[int, ...] = MEGABYTES, fabrics: tuple[str, ...] = FABRICS, rounds: int = ROUNDS
) -> dict[str, Any]:
    """{ranks, rows: [{fabric, bytes, ring_s, native_s (medians, with all repetitions), ratio}], fits}.

    ring and native take turns at every size. fits: alpha and beta (seconds, seconds a byte, gamma within beta) of the
    ring's closed form on each fabric, with the largest relative error of the fit.
    """
    rows, fits = [], {}
    for fabric in fabrics:
        jobs = [
            {"name": name, "bytes": megabytes * 1_000_000, "codec": "none", "repeat": max(3, min(10, 40 // megabytes))}
            for megabytes in sizes
            for name in ("ring", "native")
        ]
        times = run_jobs(fabric, RANKS, jobs, rounds)
        points = []
        for index in range(0, len(jobs), 2):
            ring, native = times[index], times[index + 1]
            row: dict[str, Any] = {
                "fabric": fabric,
                "bytes": jobs[index]["bytes"],
                "ring_s": {"median": statistics.median(ring), "all": ring},
                "native_s": {"median": statistics.median(native), "all": native},
            }
            row["ratio"] = row["ring_s"]["median"] / row["native_s"]["median"]
            rows.append(row)
            points.append((row["bytes"], row["ring_s"]["median"]))
        if len(points) > 1:
            fit = fit_form(lambda n, a, b, g: closed_forms.ring(RANKS, n, a, b, g), points)
            fits[fabric] = {"alpha": fit.alpha, "beta": fit.beta, "relative_error": fit.relative_error}
    return {"ranks": RANKS, "rows": rows, "fits": fits}


def table(result: dict[str, Any]) -> str:
    lines = [f"allreduce, {result['ranks']} ranks on this machine: our ring against the fabric's own (median ms)"]
    lines.append(f"  {'fabric':8}{'MB':>6}{'ring':>10}{'native':>10}{'ring / native':>16}")
    for row in result["rows"]:
        ring, native = row["ring_s"]["median"] * 1e3, row["native_s"]["median"] * 1e3
        lines.append(f"  {row['fabric']:8}{row['bytes'] / 1e6:>6g}{ring:>10.2f}{native:>10.2f}{row['ratio']:>16.2f}")
    for fabric, fit in result["fits"].items():
        lines.append(
            f"  {fabric}: the ring's form fits with alpha {fit['alpha']:.3g} s, beta {fit['beta']:.3g} s/byte, "
            f"off by up to {fit['relative_error']:.0%}"
        )
    return "\n".join(lines)
