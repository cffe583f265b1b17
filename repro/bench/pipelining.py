"""Our pipeline runtime against torch.distributed.pipelining: the same stages, minibatches, updates and process group.

1F1B with flushes against `Schedule1F1B`, GPipe's schedule against `ScheduleGPipe`, and PipeDream's 1F1B, which never
drains, against `Schedule1F1B` too. Real ranks over gloo, one thread each, a stage a rank; the sides take turns in one
run, and a ratio is of two neighbouring turns. Where ranks share cores throughput is mostly computation, for both.
"""

from __future__ import annotations

import statistics
from typing import Any

from repro.bench.ranks import run_jobs

PROGRAM = "repro.bench.pipelining_program"
WORLDS, MODELS = (2, 4), ("mlp", "vgg16")
COMPARED = {"1f1b-flush": "torch 1f1b", "gpipe": "torch gpipe", "1f1b": "torch 1f1b"}  # ours -> torch's
BATCH, FLUSH, MINIBATCHES, TURNS = 32, 8, 64, 6


def measure(
    worlds: tuple[int, ...] = WORLDS,
    models: tuple[str, ...] = MODELS,
    batch: int = BATCH,
    flush: int = FLUSH,
    minibatches: int = MINIBATCHES,
    turns: int = TURNS,
) -> dict[str, Any]:
    """{rows}: {ranks, model, parameters, cuts, batch, flush, ours, theirs, ours_s, theirs_s (a minibatch, medians),
    ratio (of throughputs, ours over theirs) {median, min, max}, apart (largest difference of a weight, or null)}."""
    rows = []
    sides = [*dict.fromkeys((*COMPARED, *COMPARED.values()))]
    for ranks in worlds:
        jobs = [
            {"model": model, "sides": sides, "batch": batch, "flush": flush, "minibatches": minibatches, "turns": turns}
            for model in models
        ]
        for job, found in zip(jobs, run_jobs("torch", ranks, jobs, 1, PROGRAM), strict=True):
            (one,) = found
            rows += [row(ranks, job, one, ours, theirs) for ours, theirs in COMPARED.items()]
    return {"rows": rows}


def row(ranks: int, job: dict[str, Any], found: dict[str, Any], ours: str, theirs: str) -> dict[str, Any]:
    """One schedule of ours beside torch's."""
    mine, other = found["seconds"][ours], found["seconds"][theirs]
    ratios = [b / a for a, b in zip(mine, other, strict=True)]
    return {
        "ranks": ranks,
        "model": job["model"],
        "parameters": found["parameters"],
        "cuts": found["cuts"],
        "batch": job["batch"],
        "flush": job["flush"],
        "ours": ours,
        "theirs": theirs,
        "ours_s": statistics.median(mine) / job["minibatches"],
        "theirs_s": statistics.median(other) / job["minibatches"],
        "ratio": {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)},
        "apart": found["apart"].get(ours),
    }


def table(result: dict[str, Any]) -> str:
    lines = ["pipelines on ranks of this machine, gloo: ms a minibatch; throughput of ours over torch's (turns' range)"]
    lines.append(f"  {'ranks':>6}  {'model':8}{'ours':>12}{'ms':>9}  {'torch':12}{'ms':>9}{'ratio':>8}")
    for one in result["rows"]:
        ratio = one["ratio"]
        lines.append(
            f"  {one['ranks']:>6}  {one['model']:8}{one['ours']:>12}{1e3 * one['ours_s']:>9.2f}  {one['theirs']:12}"
            f"{1e3 * one['theirs_s']:>9.2f}{ratio['median']:>8.2f} ({ratio['min']:.2f} to {ratio['max']:.2f})"
        )
    return "\n".join(lines)
