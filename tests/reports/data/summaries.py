"""Synthetic summaries for the tests of the reports room: made here, written to tmp_path, never to results/."""

from __future__ import annotations

import math
from pathlib import Path

from repro.answers.claims.evaluate import judge
from repro.answers.claims.evidence import ClaimEvaluator, claims_of
from repro.reports.pipesgd.tables import FIGURE4
from tests.reports.data.planned import NOWHERE, planned, shown
from tests.support.records import write_summary

FIG4, ALEXNET = planned("pipesgd", "fig4-mnist"), planned("pipesgd", "fig4-alexnet")
BY_NAME = {name: planned("pipesgd", name) for name in FIGURE4}
FIG1, FIG2, K_SPECTRUM, LOSSY, RESNET20, RESNET20_PLAIN = (
    planned("pipesgd", name)
    for name in ("fig1", "fig2", "k-spectrum", "lossy-parameters", "resnet20-cifar10", "resnet20-cifar10-plain")
)

MS = 1e-3
FORWARD, BACKWARD, UPDATE = 1 * MS, 2 * MS, 0.5 * MS
# variant -> (compression, communication in all, of it hidden behind computation), seconds an iteration
SYNTHETIC = {
    "PS-Sync": (0.0, 12 * MS, 0.0),
    "D-Sync": (0.0, 6 * MS, 0.0),
    "D-Sync + T": (0.5 * MS, 3.2 * MS, 0.0),
    "D-Sync + Q": (0.8 * MS, 1.8 * MS, 0.0),
    "Pipe-SGD": (0.0, 6 * MS, 3.5 * MS),
    "Pipe-SGD + T": (0.5 * MS, 3.2 * MS, 3.2 * MS),
    "Pipe-SGD + Q": (0.8 * MS, 1.8 * MS, 1.8 * MS),
}
PER_EPOCH = 600


def make(
    variant="D-Sync",
    kind="measured",
    seed=0,
    epochs=2,
    best=0.98,
    finished="2026-02-03T04:05:06",
    like=None,
    experiment=FIG4,
    **changes,
):
    """A synthetic summary with the schema of `repro.records.store`; `changes` replace entries, dictionaries by update.

    like: the variant of Figure 4 whose times it has, if its own is none of those.
    """
    strategy, options = experiment.variants[variant]
    compress, total, hidden = SYNTHETIC[like or variant]
    slow = 1.0 if kind == "simulated" else 2.0 + 0.05 * seed  # obviously made up
    phases = {
        "forward": FORWARD,
        "backward": BACKWARD,
        "compress": compress,
        "communicate": total - hidden,
        "wait": 0.0,
        "update": UPDATE,
        "data": 0.0,
        "other": 0.0,
    }
    phases = {name: slow * seconds for name, seconds in phases.items()}
    step, iterations = sum(phases.values()), epochs * PER_EPOCH
    curve = [
        {
            "iteration": i,
            "epoch": i / PER_EPOCH,
            "train_s": step * i,
            "loss": 1 / (1 + i),
            "test_loss": 1 / (1 + i),
            "top1": (best + 0.0005 * seed) * (1 - 0.9 * math.exp(-i / 90)),
        }
        for i in range(0, iterations + 1, 150)
    ]
    reached = {
        goal: next(
            ({k: p[k] for k in ("train_s", "epoch", "iteration")} for p in curve if p["top1"] >= float(goal)), None
        )
        for goal in ("0.95", "0.97", "0.98")
    }
    simulated = kind == "simulated"
    summary = {
        "schema": 1, "status": "finished", "key": f"{variant}-{seed}", "run": f"{variant}-{kind}-{seed}",
        "paper": "pipesgd", "experiment": experiment.name, "variant": variant, "strategy": strategy,
        "options": dict(options), "kind": kind, "testbed": "paper/pipesgd" if simulated else "here",
        "fabric": "virtual" if simulated else "mpi", "launcher": "virtual" if simulated else "mpirun", "workers": 4,
        "ranks": 5 if variant == "PS-Sync" else 4, "seed": seed, "scale": "full", "breakdown": False, "batch": 100,
        "epochs": epochs, "iterations": iterations, "iterations_per_epoch": PER_EPOCH, "metric": "top1",
        "dataset": {"name": "mnist", "standin": False, "checksum": "0" * 8, "train": 60000, "test": 10000},
        "model": {"name": "mnist_mlp", "parameters": 648010},
        "optimizer": {"lr": 0.1, "momentum": 0.0, "weight_decay": 0.0}, "curve": curve,
        "final": {"top1": curve[-1]["top1"], "test_loss": 0.1, "train_s": step * iterations}, "targets": reached,
        "step": {"mean_s": step, "median_s": step, "min_s": step, "max_s": step}, "phases": phases,
        "server_phases": {"communicate": step, "update": 1 * MS} if variant == "PS-Sync" else None,
        "communication": {"total_s": slow * total, "exposed_s": slow * (total - hidden), "overlapped_s": slow * hidden},
        "bytes_sent": 3888060.0, "weights_sha256": "0" * 64, "trace": _trace(phases, like or variant, slow * total),
        "hardware": {"class": "cpu-2core-synthetic", "cpu": "Synthetic CPU <1>", "cores": 2, "memory_gb": 8,
                     "gpu": None, "network": "shared memory"},
        "testbed_model": {"alpha_s": 5e-5, "device": {"name": "Synthetic XP", "peak_flops": 1e12},
                          "sources": {"alpha_s": "estimated: synthetic", "device": "estimated"}} if simulated else None,
        "provenance": {"commit": "0123456789abcdef", "dirty": False, "versions": {"python": "3.11.0", "torch": "9.9.9"},
                       "started_at": "2026-02-03T04:00:00+00:00", "finished_at": finished, "command": "synthetic"},
        "wall": {"train_s": 1.0, "evaluation_s": 0.1, "checkpoint_s": 0.1, "logging_s": 0.1, "total_s": 2.0,
                 "resumes": 0},
    }  # fmt: skip
    for name, value in changes.items():
        summary[name] = summary[name] | value if isinstance(value, dict) and isinstance(summary[name], dict) else value
    return summary


def _trace(phases, variant, communication):
    intervals, step = [], sum(phases.values())
    for rank in range(4):
        for i in range(3):
            at = i * step
            for name in ("forward", "backward", "compress", "communicate", "update"):
                if phases[name]:
                    intervals.append(
                        {"rank": rank, "line": "main", "name": name, "start": at, "end": at + phases[name]}
                    )
                    at += phases[name]
            if variant.startswith("Pipe"):
                intervals.append(
                    {
                        "rank": rank,
                        "line": "communication",
                        "name": "communicate",
                        "start": i * step,
                        "end": i * step + min(communication, step),
                    }
                )
    return intervals


def all_runs(kinds=("measured", "simulated"), seeds=2, variants=SYNTHETIC, **changes):
    return [make(s, kind, seed, **changes) for kind in kinds for s in variants for seed in range(seeds)]


def put(root: Path, summaries) -> Path:
    for i, summary in enumerate(summaries):
        folder = root / summary["paper"] / summary["experiment"] / f"run-{i:03d}"
        folder.mkdir(parents=True)
        write_summary(folder, {"key": folder.name} | summary | {"run": folder.name})
    return root


def claim(name, paper="pipesgd"):
    return next(claim for claim in claims_of(paper).claims if claim.id == name)


def judged(name, summaries, kind="measured", experiment=FIG4):
    """The verdict on a claim of an experiment, from these runs alone; nothing was validated."""
    found, one = evaluator(shown("pipesgd", summaries, experiment)), claim(name)
    return judge(one, kind, found.evidence(one, kind), found.file.effect(one))


def evaluator(of_kinds, results=NOWHERE):
    """What judges claims by these runs, kind -> runs, whichever experiment they name."""
    return ClaimEvaluator(claims_of("pipesgd"), lambda name, kind: of_kinds.get(kind), results)


# --- the other experiments of the page


def timing_only(summary):
    """As a testbed with `arithmetic: none` leaves it: no metric, no losses."""
    summary["final"] |= {"top1": None, "test_loss": None}
    summary["curve"] = [point | {"top1": None, "loss": None, "test_loss": None} for point in summary["curve"]]
    summary["targets"] = {}
    return summary


IMAGENET = {"name": "imagenet-standin", "standin": True, "train": 512, "test": 256}


def rows(seeds=2):
    """Figure 4's other rows: AlexNet and ResNet18 simulated without arithmetic, all measured scaled down."""
    found = []
    for name in list(FIGURE4)[1:]:
        for variant in BY_NAME[name].variants:
            for kind in ("measured", "simulated"):
                for seed in range(seeds):
                    one = make(variant, kind, seed, experiment=BY_NAME[name], best=0.48)
                    reached = {name: one["curve"][2][name] for name in ("epoch", "iteration")}
                    one["targets"] = {"0.2": reached | {"train_s": 1.0 + seed}}
                    if name != "fig4-cifar100-convex":
                        one["dataset"] = one["dataset"] | IMAGENET
                        if one["strategy"] == "pipe_sgd":
                            one["options"] = one["options"] | {"warmup_epochs": 4 if kind == "measured" else 0}
                        if kind == "simulated":
                            one = timing_only(one)
                    found.append(one)
    return found


def _ms(rank, line, *boxes):
    return [{"rank": rank, "line": line, "name": n, "start": s * MS, "end": e * MS} for n, s, e in boxes]


def asynchronous_trace():
    """Two pushes and pulls of four workers and a server's updates."""
    found = []
    for rank in range(4):
        for step in range(3):
            at = 4 * step + 0.7 * rank
            found += _ms(rank, "main", ("forward", at, at + 0.5), ("backward", at + 0.5, at + 1.5),
                         ("communicate", at + 1.5, at + 2.2), ("communicate", at + 2.2, at + 3.5))  # fmt: skip
            found += _ms(4, "main", ("communicate", at + 1, at + 2.2), ("update", at + 2.2, at + 2.5))
    return found


def segmented_trace(segments):
    """Iterations with K = 1: the backward pass hands over `segments` segments to the communication line."""
    found = []
    for rank in range(4):
        for step in range(3):
            at, length = 8.0 * step, 3.0 / segments
            found += _ms(rank, "main", ("forward", at, at + 1))
            for i in range(segments):
                start = at + 1 + i * length
                found += _ms(rank, "main", ("backward", start, start + length))
                sent = max(start + length, at + 1 + length + i * 4.0 / segments)
                found += _ms(rank, "communication", ("communicate", sent, sent + 3.9 / segments))
            found += _ms(rank, "main", ("communicate", at + 4, at + 7.7), ("update", at + 7.7, at + 8))
    return found


def pictures(seeds=1):
    """The runs behind figures 1 and 2."""
    found = []
    for kind in ("measured", "simulated"):
        for seed in range(seeds):
            for experiment in (FIG1, FIG2):
                for variant, (strategy, options) in experiment.variants.items():
                    like = "Pipe-SGD" if options.get("K") == 2 else "D-Sync"
                    one = make(variant, kind, seed, experiment=experiment, like=like)
                    if strategy == "ps_async":
                        one["trace"] = asynchronous_trace()
                    if options.get("K") == 1:
                        one["trace"] = segmented_trace(options["segments"])
                    found.append(one)
    return found


def findings(seeds=2):
    """K as a spectrum, lossy compression, ResNet-20."""
    found = []
    for kind in ("measured", "simulated"):
        for seed in range(seeds):
            for K in (1, 2, 3, 4, 8):
                for suffix in ("", ", staleness lr") if K in (4, 8) else ("",):
                    like = "D-Sync" if K == 1 else "Pipe-SGD"
                    best = 0.98 - 0.002 * K * (0.5 if suffix else 1)
                    one = make(f"K = {K}{suffix}", kind, seed, experiment=K_SPECTRUM, like=like, best=best)
                    found.append(one)
    for seed in range(seeds):
        for variant in LOSSY.variants:
            best = 0.98 - (0.02 if variant == "Parameters + T" else 0.03 if variant == "Parameters + Q" else 0)
            found.append(make(variant, "simulated", seed, experiment=LOSSY, like="D-Sync", best=best))
        for experiment, variant in [(e, s) for e in (RESNET20, RESNET20_PLAIN) for s in e.variants]:
            like = variant if variant in SYNTHETIC else "Pipe-SGD"
            data = {"name": "cifar10", "train": 5000, "test": 1000}
            one = make(variant, "simulated", seed, experiment=experiment, like=like, best=0.6, dataset=data)
            if "warm-up" in variant:
                one["options"] = one["options"] | {"warmup_epochs": 1}
            found.append(one)
    return found
