"""Synthetic summaries for the tests of the reports room: made here, written to tmp_path, never to results/."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path

from repro.answers.claims.evaluate import judge_claim
from repro.answers.claims.evidence import ClaimEvaluator, claims_of
from tests.reports.data.planned import NOWHERE, planned, shown
from tests.support.records import record_of, write_summary

FIG4, ALEXNET = planned("pipesgd", "fig4-mnist"), planned("pipesgd", "fig4-alexnet")

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
    experiment=FIG4,
    **changes,
):
    """A synthetic summary; `changes` replace entries, dictionaries by update."""
    strategy, options = experiment.variants[variant]
    compress, total, hidden = SYNTHETIC[variant]
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
        "imbalance": 0.0,
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
        "status": "finished", "key": f"{variant}-{seed}", "run": f"{variant}-{kind}-{seed}",
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
        "bytes_sent": 3888060.0, "weights_sha256": "0" * 64, "trace": _trace(phases, variant, slow * total),
        "hardware": {"class": "cpu-2core-synthetic", "cpu": "Synthetic CPU <1>", "cores": 2, "memory_gb": 8,
                     "gpu": None, "network": "shared memory"},
        "testbed_model": {"alpha_s": 5e-5, "inputs": {}, "device": {"name": "Synthetic XP", "peak_flops": 1e12},
                          "sources": {"alpha_s": "estimated: synthetic", "device": "estimated"}} if simulated else None,
        "provenance": {"commit": "0123456789abcdef", "dirty": False, "versions": {"python": "3.11.0", "torch": "9.9.9"},
                       "started_at": "2026-02-03T04:00:00+00:00", "finished_at": finished, "command": "synthetic"},
        "wall": {"train_s": 1.0, "evaluation_s": 0.1, "checkpoint_s": 0.1, "logging_s": 0.1, "total_s": 2.0,
                 "resumes": 0},
    }  # fmt: skip
    for name, value in changes.items():
        own = summary.get(name)
        summary[name] = own | value if isinstance(value, dict) and isinstance(own, dict) else value
    return {"identity": record_of(summary).identity} | summary


def taken_by_others(share):
    """The entry `cpu_taken` of a record."""
    return {"processes_s": share, "hypervisor_s": 0.0, "available_s": 1.0}


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


def all_runs(kinds=("measured", "simulated"), seeds=2, **changes):
    return [make(s, kind, seed, **changes) for kind in kinds for s in SYNTHETIC for seed in range(seeds)]


def put(root: Path, summaries) -> Path:
    for i, summary in enumerate(summaries):
        folder = root / summary["paper"] / summary["experiment"] / f"run-{i:03d}"
        folder.mkdir(parents=True)
        write_summary(folder, {"key": folder.name} | summary | {"run": folder.name})
    return root


def claim(name):
    return next(claim for claim in claims_of("pipesgd").claims if claim.id == name)


def of_runs(summaries, results=NOWHERE):
    """Judges claims by Figure 4's runs alone; without `results` nothing was validated."""
    return evaluator(shown("pipesgd", summaries, FIG4), results)


def evaluator(of_kinds, results=NOWHERE):
    """Judges claims by these runs, kind -> runs, whichever experiment a claim names."""
    return ClaimEvaluator(claims_of("pipesgd"), lambda name, kind: of_kinds.get(kind), results)


def verdict(runs, name, kind="measured"):
    """The verdict on a claim; runs: a ClaimEvaluator."""
    return judge_claim(claim(name), kind, runs.evidence(claim(name), kind), runs.file.effect(claim(name)))


# --- the other experiments of the page


def timing_only(summary):
    """As a testbed with `arithmetic: none` leaves it: no metric, no losses."""
    summary["testbed_model"] = (summary["testbed_model"] or {}) | {"arithmetic": "none"}
    summary["final"] |= {"top1": None, "test_loss": None}
    summary["curve"] = [point | {"top1": None, "loss": None, "test_loss": None} for point in summary["curve"]]
    summary["targets"] = {}
    return summary


IMAGENET = {"name": "imagenet-standin", "standin": True, "train": 512, "test": 256}


def alexnet(seeds):
    """AlexNet's row of Figure 4: simulated without arithmetic, measured scaled down."""
    found = []
    for kind, variant, seed in product(("measured", "simulated"), ALEXNET.variants, range(seeds)):
        one = make(variant, kind, seed, experiment=ALEXNET, best=0.48, dataset=IMAGENET)
        if one["strategy"] == "pipe_sgd":
            one["options"] = one["options"] | {"warmup_epochs": 4 if kind == "measured" else 0}
        found.append(timing_only(one) if kind == "simulated" else one)
    return found
