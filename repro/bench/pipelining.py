"""Our pipeline runtime against torch.distributed.pipelining: the same stages, minibatches, updates and process group.

1F1B with flushes against `Schedule1F1B` and GPipe's schedule against `ScheduleGPipe` are like for like, to the weights;
PipeDream's 1F1B, which never drains and updates with every minibatch, stands beside `Schedule1F1B` too. Real ranks over
gloo, one thread each, a stage a rank; the sides take turns in one run, and a ratio is of two neighbouring turns. Where
ranks share cores throughput is mostly computation, for both.
"""

from __future__ import annotations

import statistics
from typing import Any

from repro.bench.goals import Goal, of_ratio, ratio
from repro.bench.ranks import run_jobs

PROGRAM = "repro.bench.pipelining_program"
WORLDS, MODELS = (2, 4), ("mlp", "vgg16")
# what each updates when
A_FLUSH = "one update a flush, of its minibatches' mean gradient; all use the weights from before it"
UPDATES = {
    "1f1b-flush": A_FLUSH,
    "gpipe": A_FLUSH,
    "torch 1f1b": A_FLUSH,
    "torch gpipe": A_FLUSH,
    "1f1b": "one update a minibatch, with the weights of its forward pass stashed; no flush",
}
THROUGHPUT = Goal("our throughput over torch's, the same updates", 1.0, at_least=True)
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
    """{rows, updates (what each updates when), against_goals}.

    rows: {ranks, model, parameters, cuts, batch, flush, ours, theirs, ours_s, theirs_s (a minibatch, medians),
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
    alike = [one for one in rows if UPDATES[one["ours"]] == UPDATES[one["theirs"]]]
    return {"rows": rows, "updates": UPDATES, "against_goals": [goal(one) for one in alike]}


def goal(one: dict[str, Any]) -> dict[str, Any]:
    """Of a row whose two sides make the same updates."""
    where = f", {one['ours']} and {one['theirs']}, {one['model']}, {one['ranks']} ranks"
    return of_ratio(THROUGHPUT._replace(what=THROUGHPUT.what + where), one["ratio"])


def row(ranks: int, job: dict[str, Any], found: dict[str, Any], ours: str, theirs: str) -> dict[str, Any]:
    """One schedule of ours beside torch's."""
    mine, other = found["seconds"][ours], found["seconds"][theirs]
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
        "ratio": ratio(other, mine),
        "apart": found["apart"].get(ours),
    }


def table(result: dict[str, Any]) -> str:
    lines = ["pipelines on ranks of this machine, gloo: ms a minibatch; throughput of ours over torch's (turns' range)"]
    lines.append(f"  {'ranks':>6}  {'model':8}{'ours':>12}{'ms':>9}  {'torch':12}{'ms':>9}{'ratio':>8}")
    for one in result["rows"]:
        over = one["ratio"]
        lines.append(
            f"  {one['ranks']:>6}  {one['model']:8}{one['ours']:>12}{1e3 * one['ours_s']:>9.2f}  {one['theirs']:12}"
            f"{1e3 * one['theirs_s']:>9.2f}{over['median']:>8.2f} ({over['min']:.2f} to {over['max']:.2f})"
        )
    lines += [f"  {name}: {what}" for name, what in result["updates"].items()]
    return "\n".join(lines)
