"""Synthetic summaries for the eager-SGD page: made here, written to tmp_path, never to results/."""

from __future__ import annotations

import math
import random

from repro.records import kinds
from repro.reports.eagersgd.contradictions import HOROVOD, MAJORITY, SOLO, expected
from repro.reports.eagersgd.tables import DEEP500
from tests.reports.data.planned import planned
from tests.reports.data.probes import probe
from tests.reports.data.summaries import make

TRAINING = [
    planned("eagersgd", name)
    for name in ("fig10", "fig10-padded", "fig10-padded-ratio", "fig10-sync", "fig11", "fig11-sync", "fig12", "fig13",
                 "fig13-scaling", "quorum", "beyond")
]  # fmt: skip
FIG10, FIG10_PADDED, FIG10_RATIO, FIG10_SYNC, FIG11, FIG11_SYNC, FIG12, FIG13, FIG13_SCALING, QUORUM, BEYOND = TRAINING

PARAMETERS = {"hyperplane": 8193, "resnet32": 467_194, "resnet50": 25_559_081, "lstm_ucf101": 34_663_525}
MODELS = {FIG12.name: "resnet32", FIG11.name: "resnet50", FIG11_SYNC.name: "resnet32", FIG13.name: "lstm_ucf101",
          FIG13_SCALING.name: "lstm_ucf101"}  # fmt: skip
DATA = {"hyperplane": ("hyperplane", 32_768), "resnet32": ("cifar10", 50_000), "resnet50": ("imagenet", 16_384),
        "lstm_ucf101": ("ucf101-generated-features", 9_537)}  # fmt: skip
BATCH = {"hyperplane": 2048, "resnet32": 512, "resnet50": 8192, "lstm_ucf101": 128}
# seconds of a step as multiples of a computation c, and the share of ranks that are in time
PACE = {DEEP500: 1.0, HOROVOD: 1.02, SOLO: 1.0, MAJORITY: 1.15}
ACTIVE = {SOLO: 0.8, MAJORITY: 0.9}
FINAL = {DEEP500: 0.70, HOROVOD: 0.696, SOLO: 0.61, MAJORITY: 0.697}


def strategy(variant, kind):
    """(strategy, options) of a variant by its name."""
    if variant.startswith("Single node"):
        return "dsync", {}
    for name, plugin in ((DEEP500, "wfbp"), (HOROVOD, "wfbp" if kind == "simulated" else "horovod")):
        if variant.startswith(name):
            return plugin, {"codec": "none"} if plugin == "wfbp" else {}
    eager = {"codec": "none", "density": None, "late": "accumulate"}
    if "majority" in variant:
        return "eager_majority", eager
    if "quorum" in variant:
        return "eager_quorum", eager | {"quorum": int(variant.rpartition("quorum ")[2].rstrip(")"))}
    return "eager_solo", eager | ({"late": "drop"} if "late" in variant else {})


def run(experiment, variant, kind="measured", seed=0, compute=0.02, delay=0.0, workers=8, batch=None, **changes):
    """A training run: c seconds of computation, `delay` seconds that a synchronous step waits for."""
    model = MODELS.get(experiment.name, "hyperplane")
    name, samples = DATA[model]
    plugin, options = strategy(variant, kind)
    base = next((b for b in PACE if variant.startswith(b)), SOLO)
    synchronous = base in (DEEP500, HOROVOD) or workers == 1
    step = compute * PACE[base] * (1 + 0.01 * seed) + (delay if synchronous else delay / workers)
    metric = "mse" if model == "hyperplane" else "top1"
    iterations, per_epoch = 40, 10
    best = 4.7 + 0.01 * seed if metric == "mse" else FINAL[base] + 0.004 * seed
    curve = []
    for i in range(0, iterations + 1, 10):
        fallen = math.exp(-i / 10)
        value = best + 60 * fallen if metric == "mse" else best * (1 - fallen)
        point = {"iteration": i, "epoch": i / per_epoch, "train_s": step * i, "loss": 2 * fallen + 0.1 if i else None,
                 "test_loss": 1.0, metric: value}  # fmt: skip
        if metric == "top1":
            point |= {"top5": min(1.0, 1.3 * value), "train_top1": min(1.0, 1.2 * value),
                      "train_top5": min(1.0, 1.4 * value)}  # fmt: skip
        curve.append(point)
    simulated = kind == "simulated"
    one = make("D-Sync", kind, seed)
    phases = dict.fromkeys(one["phases"], 0.0) | {
        "forward": compute / 3, "backward": 2 * compute / 3, "imbalance": delay / workers,
        "wait": max(0.0, step - compute - delay / workers),
    }  # fmt: skip
    summary = one | {
        "paper": "eagersgd", "experiment": experiment.name, "variant": variant, "program": "train", "metric": metric,
        "strategy": plugin, "options": options, "curve": curve, "epochs": 4, "iterations": iterations,
        "iterations_per_epoch": per_epoch, "targets": {}, "workers": workers, "ranks": workers,
        "batch": batch or BATCH[model], "phases": phases, "step": dict.fromkeys(("mean_s", "median_s"), step),
        "final": {k: v for k, v in curve[-1].items() if k in (metric, "test_loss", "top5", "train_top1", "train_top5")}
        | {"train_s": step * iterations},
        "dataset": {"name": name, "standin": "generated" in name, "train": samples, "test": 1000, "checksum": "0"},
        "model": {"name": model, "parameters": PARAMETERS[model]},
        "testbed": f"paper/eagersgd-{model.replace('_', '-')}" if simulated else "here", "min_compute_s": None,
        "imbalance": {"name": "random_one", "delay_s": delay} if delay else {"name": "none"},
        "counters": {}, "staleness": [], "key": f"{experiment.name}-{variant}-{kind}-{seed}-{workers}",
        "run": f"{variant}-{kind}-{seed}-{workers}",
    }  # fmt: skip
    if plugin.startswith("eager") and workers > 1:
        summary |= rounds(workers, iterations, 1.0 if "quorum" in variant else ACTIVE[base], options["late"] == "drop")
    summary |= changes
    return summary | {"kind": kinds.kind(summary["kind"], None, summary["min_compute_s"])}


def rounds(ranks, iterations, active, drop=False):
    """Counters and staleness of a run in which every rank is late in a share of the rounds."""
    late = round((1 - active) * iterations)
    every = ranks * iterations
    pending = 0 if drop else min(late, 2) * ranks
    counters = {
        "rounds": every, "active": every - late * ranks, "null": 0.5 * late * ranks, "stale": 0.5 * late * ranks,
        "accepted": every - (late * ranks if drop else pending), "pending": pending, "syncs": 0,
        "dropped": late * ranks if drop else 0, "missed": late, "repeated": late, "late": late * ranks,
    }  # fmt: skip
    staleness = [
        {"0": iterations - late, **({"1": max(0, late - 3 - rank % 2), "2": 1, "10": rank % 2} if late > 4 else {})}
        for rank in range(ranks)
    ]
    return {"counters": {name: float(n) for name, n in counters.items()}, "staleness": staleness}


def timing(summary):
    """As a testbed without arithmetic leaves it."""
    final = {name: (value if name == "train_s" else None) for name, value in summary["final"].items()}
    curve = [{name: (value if name in ("iteration", "epoch", "train_s") else None) for name, value in point.items()}
             for point in summary["curve"]]  # fmt: skip
    return summary | {"final": final, "curve": curve}


def delayed(experiment):
    return [variant for variant in experiment.variants if not variant.startswith("Single node")]


def hyperplane(seeds=2):
    """Figure 10: as it is and padded, measured and simulated; and one worker with the whole batch."""
    found = []
    for experiment, kind, compute in (
        (FIG10, "measured", 0.02), (FIG10, "simulated", 0.2), (FIG10_PADDED, "measured", 0.61),
        (FIG10_PADDED, "simulated", 0.61), (FIG10_RATIO, "measured", 0.4), (FIG10_RATIO, "simulated", 0.4),
    ):  # fmt: skip
        pad = {} if experiment is FIG10 else {"min_compute_s": compute}
        for seed in range(seeds):
            for variant in delayed(experiment):
                found.append(run(experiment, variant, kind, seed, compute, int(variant.split()[-2]) / 1e3, **pad))
            one = run(experiment, "Single node", kind, seed, 1.5625, workers=1, **pad)
            if kind == "simulated":  # modelled as another device
                one["testbed_model"] = one["testbed_model"] | {"device": {"name": "Synthetic, other"}}
            found.append(one)
    return found


def resnet50():
    """Figure 11: time only, simulated; one worker with a rank's batch."""
    found = []
    for variant in delayed(FIG11):
        delay = int(variant.split()[-2]) / 1e3 if variant.endswith("ms") else 0.3
        found.append(timing(run(FIG11, variant, "simulated", 0, 0.64, delay, workers=64)))
    return [*found, timing(run(FIG11, "Single node", "simulated", 0, 0.64, workers=1, batch=128))]


def synchronisation(seeds=2):
    """fig10-sync and fig11-sync: with model synchronisation and without."""
    found = [
        run(FIG10_SYNC, variant, kind, 0, 0.61, 0.3, min_compute_s=0.61)
        for kind in ("measured", "simulated")
        for variant in (DEEP500, SOLO, f"{SOLO}, no synchronisation")
    ]
    for seed in range(seeds):
        found.append(run(FIG11_SYNC, DEEP500, "simulated", seed))
        for variant, epochs, gain in ((SOLO, 10, 0.012), (f"{SOLO}, no synchronisation", None, 0.0)):
            one = run(FIG11_SYNC, variant, "simulated", seed)
            one["options"] = one["options"] | {"sync_epochs": epochs}
            one["final"] = one["final"] | {"top1": one["final"]["top1"] + gain}
            found.append(one)
    return found


def curves(seeds=2):
    """Figures 12 and 13."""
    found = []
    for seed in range(seeds):
        found += [run(FIG12, variant, "simulated", seed, 0.3, 0.2) for variant in FIG12.variants]
        found += [run(FIG13, variant, "simulated", seed, 0.3, 0.15) for variant in FIG13.variants]
    return found


def scaling():
    """Section 6.3: one worker with batch 16 and 128, eight with 128."""
    found = [timing(run(FIG13_SCALING, name, "simulated", 0, 1.2, 0.8)) for name in (HOROVOD, MAJORITY, SOLO)]
    found += [
        timing(run(FIG13_SCALING, f"Single node, batch {b}", "simulated", 0, c, workers=1, batch=b))
        for b, c in ((16, 1.15), (128, 1.7))
    ]
    return found


def spectrum(seeds=2):
    """The quorum spectrum of 8 ranks, and what goes beyond the paper."""
    found = []
    for seed in range(seeds):
        for q in (1, 2, 4, 6, 8):
            one = run(QUORUM, f"eager-SGD (quorum {q})", "simulated", seed, 0.3 + 0.03 * q)
            found.append(one | rounds(8, one["iterations"], 0.4 + 0.075 * q))
        found += [run(QUORUM, name, "simulated", seed, 0.35, 0.1) for name in (DEEP500, SOLO, MAJORITY)]
        for variant in (SOLO, f"{SOLO} + quantize8", f"{SOLO} + top-k", f"{SOLO}, late dropped"):
            found.append(run(BEYOND, variant, "simulated", seed, 0.3, 0.1))
    return found


def partial(kind="simulated", ranks=32, seed=0, experiment="fig9"):
    """Figure 9: latencies of the skew alone and a little for the collective itself."""
    skew, of = 0.1 * (ranks - 1), expected(ranks)
    rows = []
    for size in (64, 4096, 1 << 20, 4 << 20):
        for name in ("allreduce", "solo", "majority", "quorum 8"):
            wait = of.get(name, {"wait": 0.02, "nap": 8.0})
            seconds = skew * wait["wait"] + 0.02 + 1e-9 * size
            rows.append({"collective": name, "ranks": ranks, "bytes": size, "skew_s": skew, "calls": 5,
                         "latency_s": {"mean": seconds, "min": 0.9 * seconds, "max": 1.2 * seconds},
                         "nap": wait["nap"]})  # fmt: skip
    testbed = "paper/eagersgd" if kind == "simulated" else "here"
    return probe("partial_collectives", experiment, "partial", {"rows": rows}, kind, seed, testbed, ranks,
                 paper="eagersgd")  # fmt: skip


def batches(experiment, mean, sd, n=300, kind="measured", lengths=True):
    """Runtimes of batches, drawn with a seed."""
    rng = random.Random(experiment)
    sizes = [max(10, round(rng.lognormvariate(5, 0.5))) for _ in range(n)]
    seconds = [mean + sd * (size - 168) / 90 for size in sizes] if lengths else [mean] * (n - 1) + [4 * mean]
    average = sum(seconds) / n
    statistics = {"n": n, "min": min(seconds), "max": max(seconds), "mean": average, "median": sorted(seconds)[n // 2],
                  "sd": (sum((s - average) ** 2 for s in seconds) / (n - 1)) ** 0.5}  # fmt: skip
    result = {"what": f"synthetic <{experiment}>", "batches": n, "seconds": seconds, "statistics": statistics,
              "lengths": sizes if lengths else None, "unit_note": "seconds of a synthetic batch"}  # fmt: skip
    return probe("runtimes", experiment, "runtimes", result, kind, workers=1, paper="eagersgd")


def lengths(standin=False, median=167):
    """Figure 2 (a)."""
    split = {
        "n": 9537,
        "min": 29,
        "max": 1776,
        "median": median,
        "mean": 187.28,
        "sd": 96.6,
        "histogram": [[29 + 40 * i, 69 + 40 * i, round(3000 * math.exp(-abs(i - 3) / 3))] for i in range(44)],
    }
    result = {"splits": {"train": split, "test": split | {"n": 3783, "max": 891, "median": 161}}}
    data = {"name": f"ucf101-standin-{'lengths' if standin else 'features'}", "standin": True}
    return probe("lengths", "fig2-lengths", "lengths", result, workers=1, paper="eagersgd", dataset=data)


def probes():
    """All of Figures 2, 3, 4 and 9."""
    return [
        lengths(), batches("fig2-runtimes", 0.12, 0.06), batches("fig2-runtimes", 1.2, 0.6, kind="simulated"),
        batches("fig3-runtimes", 0.05, 0.01),
        batches("fig4-runtimes", 0.045, 0.0, lengths=False), partial(),
        partial("measured", experiment="fig9-measured"),
    ]  # fmt: skip


def everything(seeds=2):
    """Results for every section of the page."""
    return [*hyperplane(seeds), *resnet50(), *synchronisation(seeds), *curves(seeds), *scaling(), *spectrum(seeds),
            *probes()]  # fmt: skip
