"""Synthetic summaries for the tests of the reports room: made here, written to tmp_path, never to results/."""

from __future__ import annotations

import math
from pathlib import Path

from reports import groups, verdicts
from reports.claims import read_claims
from reports.experiments import FIG1, FIG2, FIGURE4, K_SPECTRUM, LOSSY, MNIST, RESNET20, RESNET20_PLAIN
from repro.results import write_summary

FIG4 = MNIST.experiment

MS = 1e-3
FORWARD, BACKWARD, UPDATE = 1 * MS, 2 * MS, 0.5 * MS
# setting -> (compression, communication in all, of it hidden behind computation), seconds an iteration
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
    setting="D-Sync", kind="measured", seed=0, epochs=2, best=0.98, finished="2026-02-03T04:05:06", like=None,
    experiment=FIG4, **changes,
):
    """A synthetic summary with the schema of `repro.results`; `changes` replace entries, dictionaries by update.

    like: the setting of Figure 4 whose times it has, if its own is none of those.
    """
    strategy, options = experiment.settings[setting]
    compress, total, hidden = SYNTHETIC[like or setting]
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
        "schema": 1, "status": "finished", "key": f"{setting}-{seed}", "cell": f"{setting}-{kind}-{seed}",
        "paper": "pipesgd", "experiment": experiment.name, "setting": setting, "strategy": strategy,
        "options": dict(options), "kind": kind, "testbed": "paper/pipesgd" if simulated else "here",
        "fabric": "virtual" if simulated else "mpi", "launcher": "virtual" if simulated else "mpirun", "workers": 4,
        "ranks": 5 if setting == "PS-Sync" else 4, "seed": seed, "scale": "small", "breakdown": False, "batch": 100,
        "epochs": epochs, "iterations": iterations, "iterations_per_epoch": PER_EPOCH, "metric": "top1",
        "dataset": {"name": "mnist", "standin": False, "checksum": "0" * 8, "train": 60000, "test": 10000},
        "model": {"name": "mnist_mlp", "parameters": 648010},
        "optimizer": {"lr": 0.1, "momentum": 0.0, "weight_decay": 0.0}, "curve": curve,
        "final": {"top1": curve[-1]["top1"], "test_loss": 0.1, "train_s": step * iterations}, "targets": reached,
        "step": {"mean_s": step, "median_s": step, "min_s": step, "max_s": step}, "phases": phases,
        "server_phases": {"communicate": step, "update": 1 * MS} if setting == "PS-Sync" else None,
        "communication": {"total_s": slow * total, "exposed_s": slow * (total - hidden), "overlapped_s": slow * hidden},
        "bytes_sent": 3888060.0, "weights_sha256": "0" * 64, "trace": _trace(phases, like or setting, slow * total),
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


def _trace(phases, setting, communication):
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
            if setting.startswith("Pipe"):
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


def all_cells(kinds=("measured", "simulated"), seeds=2, settings=SYNTHETIC, **changes):
    return [make(s, kind, seed, **changes) for kind in kinds for s in settings for seed in range(seeds)]


def put(root: Path, summaries) -> Path:
    for i, summary in enumerate(summaries):
        folder = root / summary["paper"] / summary["experiment"] / f"cell-{i:03d}"
        folder.mkdir(parents=True)
        write_summary(folder, summary)
    return root

def claim(name):
    return next(c for c in read_claims("pipesgd").claims if c.id == name)


def judged(name, summaries, kind="measured", experiment=FIG4):
    chosen, _ = groups.choose(summaries, experiment)
    return verdicts.judge(claim(name), kind, chosen.get(kind))


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
    for row in FIGURE4[1:]:
        for setting in row.experiment.settings:
            for kind in ("measured", "simulated"):
                for seed in range(seeds):
                    one = make(setting, kind, seed, experiment=row.experiment, best=0.48)
                    one["targets"] = {"0.2": one["curve"][2] | {"train_s": 1.0 + seed}}
                    if row.label != "CIFAR100-Convex":
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
                for setting, (strategy, options) in experiment.settings.items():
                    like = "Pipe-SGD" if options.get("K") == 2 else "D-Sync"
                    one = make(setting, kind, seed, experiment=experiment, like=like)
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
        for setting in LOSSY.settings:
            best = 0.98 - (0.02 if setting == "Parameters + T" else 0.03 if setting == "Parameters + Q" else 0)
            found.append(make(setting, "simulated", seed, experiment=LOSSY, like="D-Sync", best=best))
        for experiment, setting in [(e, s) for e in (RESNET20, RESNET20_PLAIN) for s in e.settings]:
            like = setting if setting in SYNTHETIC else "Pipe-SGD"
            data = {"name": "cifar10", "train": 5000, "test": 1000}
            one = make(setting, "simulated", seed, experiment=experiment, like=like, best=0.6, dataset=data)
            if "warm-up" in setting:
                one["options"] = one["options"] | {"warmup_epochs": 1}
            found.append(one)
    return found


def probe(program, experiment, setting, result, kind="measured", seed=0, testbed=None, workers=4, **changes):
    """A synthetic summary of a probe."""
    one = make("D-Sync", kind, seed)
    keep = ("schema", "status", "paper", "kind", "fabric", "launcher", "seed", "scale", "hardware", "testbed_model",
            "provenance", "batch", "breakdown")  # fmt: skip
    testbed = testbed or one["testbed"]
    name = f"{setting}-{testbed}-{workers}-{kind}-{seed}"
    return {key: one[key] for key in keep} | {
        "experiment": experiment, "setting": setting, "program": program, "testbed": testbed, "workers": workers,
        "ranks": workers, "strategy": "dsync", "options": {}, "model": {"name": "mnist_mlp", "parameters": 648010},
        "dataset": {"name": "mnist", "standin": False}, "key": name, "cell": name, "metrics": {}, "line": "",
        "result": result,
    } | changes  # fmt: skip


def timing_entry(setting, step, predicted, comp, comm, equation, strategy="pipe_sgd", **options):
    """One of a timing result's settings; seconds."""
    options = {"codec": "none", "algorithm": "ring"} | options
    return {
        "setting": setting, "strategy": strategy, "options": options, "steps": 20,
        "observed_s": {"median": step, "min": 0.95 * step, "max": 1.2 * step}, "predicted_s": predicted,
        "equation": equation, "printed_s": None if equation == "server" else 0.98 * predicted,
        "terms": {"l_up": 0.1 * comp, "l_comp": 0.9 * comp, "l_comm": comm},
        "phases": {}, "communication": {"total_s": comm, "exposed_s": 0.0, "overlapped_s": comm},
        "efficiency_predicted": comp / max(comp, comm), "efficiency_observed": min(1.0, comp / step),
    }  # fmt: skip


FIT_SIZES = (1e3, 1e5, 1e7)


def timing_result(workers, beta, slow=1.0, kinds=("D-Sync", "Pipe-SGD", "Pipe-SGD + T"), segments=(1, 2, 4)):
    """A timing result whose numbers follow the equations, the observed ones `slow` times as long."""
    comp, n, alpha = 4 * MS, 2_592_040, 5e-5

    def ring(factor=1.0, L=1):
        return 2 * (workers - 1) * alpha * L + 2 * (workers - 1) / workers * n * factor * beta

    made = []
    if "D-Sync" in kinds:
        made.append(timing_entry("D-Sync", slow * (comp + ring()), comp + ring(), comp, ring(), "(2)", "dsync"))
        made.append(timing_entry("PS-Sync", slow * (comp + 2 * ring()), comp + 2 * ring(), comp, 2 * ring(), "server",
                                 "ps_sync"))  # fmt: skip
    for L in segments:
        name = "Pipe-SGD" if L == 1 else f"Pipe-SGD, L = {L}"
        step = max(comp, ring(L=L))
        given = {"segments": L} if L > 1 else {}  # as in a probe's configuration: K = 2 and L = 1 go without saying
        equation = "(5)" if L == 1 else "(6)"
        made.append(timing_entry(name, slow * step, step, comp, ring(L=L), equation, **given))
        if len(segments) > 1:
            step = comp + ring(L=L) / L
            made.append(timing_entry(f"K = 1, L = {L}", slow * step, step, comp, ring(L=L), "(2)", K=1, segments=L))
    if "Pipe-SGD + T" in kinds:
        step = max(comp, ring(0.5))
        made.append(timing_entry("Pipe-SGD + T", slow * step, step, comp, ring(0.5), "(5)", codec="truncate16"))
    points = [{"bytes": size, "seconds": 1.1 * (alpha + size * beta), "fitted_s": alpha + size * beta}
              for size in FIT_SIZES]  # fmt: skip
    return {
        "gradient_bytes": n,
        "fit": {"alpha_s": alpha, "beta_s_per_byte": beta, "gamma_s_per_byte": 1e-10, "sync_s": 0.0,
                "relative_error": 0.02, "points": points},
        "codecs": {}, "compute": {"forward_s": MS, "backward_s": 2 * MS, "update_s": MS,
                                  "first_segment_backward_s": {"2": MS}},
        "settings": made,
    }  # fmt: skip


def timings(seeds=2):
    """timing-model at several world sizes, gradient-communication on several networks."""
    found = []
    for seed in range(seeds):
        for workers in (2, 3, 4):
            result = timing_result(workers, 2e-9, 1.3 + 0.1 * seed, segments=(1,))
            found.append(probe("timing", "timing-model", f"p = {workers}", result, "measured", seed, workers=workers))
    for workers in (2, 4, 8, 16):
        for model in ("mnist_mlp", "alexnet"):
            result = timing_result(workers, 8e-10 if model == "mnist_mlp" else 8e-9, 1.01, segments=(1,))
            name = "AlexNet" if model == "alexnet" else "MNIST-MLP"
            one = probe("timing", "timing-model", f"{name}, p={workers}", result, "simulated", workers=workers)
            found.append(one | {"model": {"name": model, "parameters": 5}})
    for gigabits in (1, 10, 25, 100):
        beta = 8e-10 * 10 / gigabits
        result = timing_result(4, beta, kinds=(), segments=(1, 2, 4, 8))
        if gigabits == 100:
            result["settings"][2]["observed_s"] |= {"median": 3.5 * MS, "min": 3.5 * MS}
        one = probe("timing", "gradient-communication", f"MNIST-MLP on {gigabits} Gbit/s", result, "simulated",
                    testbed=f"paper/pipesgd-{gigabits}g")  # fmt: skip
        found.append(one | {"testbed_model": one["testbed_model"] | {"beta_s_per_byte": beta}})
    return found


def ring_trace(pipelined, codec, workers):
    """Blocks of a ring: transfer, then work; or both at once, in halves."""
    work = "reduce" if codec == "none" else "decompress+sum+compress"
    found = []
    for rank in range(workers):
        at = 0.0
        for hop in range(2 * (workers - 1)):
            found += _ms(rank, "main", ("communicate", at, at + 2))
            at += 2
            if hop < workers - 1:
                found += _ms(rank, "main", (work, at, at + 1))  # on one line, also where both happen at once
                at += 0 if pipelined else 1
    return found


CODECS = {"": "none", " + T": "truncate16", " + Q": "quantize8", " + TernGrad": "ternary"}


def rings(seeds=2):
    """fig3-ring among three and four ranks."""
    found = []
    for kind in ("measured", "simulated"):
        for seed in range(seeds):
            for workers in (3, 4):
                variants = []
                for suffix, codec in CODECS.items():
                    for name in ("native", "pipelined"):
                        seconds = (12 if name == "native" else 10) * MS * (1 + 0.1 * seed)
                        variants.append({
                            "name": name + suffix, "algorithm": "ring" if name == "native" else "ring_pipelined",
                            "codec": codec, "bytes": 2_592_040, "pieces": 1 if name == "native" else 4,
                            "seconds": {"median": seconds, "min": 0.9 * seconds, "max": 1.1 * seconds},
                            "communication_s": 9 * MS, "work_s": 3 * MS,
                            "overlapped_s": 0.0 if name == "native" else 2 * MS,
                            "closed_form_s": None if kind == "measured" else seconds,
                            "trace": ring_trace(name == "pipelined", codec, workers),
                        })  # fmt: skip
                overheads = [
                    {"benchmark": benchmark, "bytes": size, "codec": codec, "work_s": work * MS,
                     "communication_uncompressed_s": 10 * MS, "communication_compressed_s": 1 * MS,
                     "per_uncompressed": work / 10, "per_compressed": float(work)}
                    for benchmark, size, work in (("MNIST-MLP", 2_592_040, 18), ("AlexNet", 244_000_000, 22))
                    for codec in ("truncate16", "ternary")
                ]  # fmt: skip
                result = {"variants": variants, "overheads": overheads}
                found.append(probe("ring", "fig3-ring", f"p = {workers}", result, kind, seed, workers=workers))
    return found


def rates(seeds=2):
    """Convergence of a convex and a strongly convex objective for three K."""
    found = []
    for objective, slope in (("convex", -0.52), ("strongly convex", -0.95)):
        for K in (1, 2, 4):
            for seed in range(seeds):
                ts = [2**i for i in range(4, 12)]
                points = [{"t": t, "regret": (1 + 0.05 * seed) * K**0.5 * t**slope, "bound": 9 * K**0.5 * t**-0.5}
                          for t in ts]  # fmt: skip
                result = {"objective": objective, "K": K, "T": ts[-1], "F": 1.0, "L": 1.0, "optimum": 0.1,
                          "step_rule": "c / sqrt(t)", "points": points, "slope": slope + 0.01 * K, "slope_from_t": 64,
                          "within_bound": True}  # fmt: skip
                found.append(probe("convergence", "convergence", f"{objective}, K = {K}", result, seed=seed))
    return found


def everything(seeds=2):
    """Results for every section of the page."""
    return [
        *all_cells(seeds=seeds), *rows(seeds), *pictures(), *findings(seeds), *timings(seeds), *rings(seeds),
        *rates(seeds),
    ]  # fmt: skip
