"""Synthetic summaries for the gTop-k page: made here, written to tmp_path, never to results/."""

from __future__ import annotations

import math

from repro.reports.gtopk.published import ALGORITHMS, FORMS, MODELS, NAMES, PARAMETERS, WORLDS, selected
from tests.reports.data.planned import planned
from tests.reports.data.probes import probe
from tests.reports.data.summaries import make

CONVERGENCE = ("fig5-vgg16", "fig5-resnet20", "fig6-alexnet", "fig6-resnet50", "fig7-lstm", "fig12-vgg16",
               "fig12-resnet20", "conservation", "beyond")  # fmt: skip
TRAINING = [planned("gtopk", name) for name in CONVERGENCE]
ALPHA, BETA = 0.436e-3, 9e-9
ITERATION = {"VGG-16": 0.097, "ResNet-20": 0.146, "AlexNet": 0.369, "ResNet-50": 4.842}
BATCH = {"VGG-16": 128, "ResNet-20": 128, "AlexNet": 64, "ResNet-50": 256}
SELECT = 1.5e-9  # seconds a byte
# final training loss of each variant, of 2.3 at the start, and final top-1
LOSS = {"Dense": 0.50, "Top-k": 0.52, "gTop-k": 0.53, "gTop-k, exact residual": 0.51, "rho = 0.0005": 0.60}
STRATEGIES = {"Dense": "dsync", "Top-k": "topk", "gTop-k": "gtopk"}


def curve(variant, seed, metric, step, epochs=4, per_epoch=20):
    """Loss and metric that come down (or up) exponentially; at iteration 0 there is no loss yet."""
    last, points = LOSS.get(variant, 0.55) + 0.01 * seed, []
    for i in range(0, epochs * per_epoch + 1, per_epoch // 2):
        fallen = math.exp(-i / (0.25 * epochs * per_epoch))
        loss = last + (2.3 - last) * fallen
        value = 90 * last + 9000 * fallen if metric == "perplexity" else (1 - 0.4 * last) * (1 - fallen)
        points.append({"iteration": i, "epoch": i / per_epoch, "train_s": step * i, "loss": loss if i else None,
                       "test_loss": loss, metric: value})  # fmt: skip
    return points


def training(experiment, variant, kind, seed=0, **changes):
    """A convergence run of one of the page's experiments."""
    metric = "perplexity" if experiment.name == "fig7-lstm" else "top1"
    model = experiment.name.partition("-")[2]
    one = make("D-Sync", kind, seed)
    strategy, options = experiment.variants[variant]
    warmup = {} if strategy == "dsync" else {"density": 0.001, "warmup_densities": [0.25, 0.0725]}
    points = curve(variant, seed, metric, one["step"]["mean_s"])
    lossy = {"sent_mass": 100.0, "dropped_mass": 40.0, "lost_mass": 0.0 if "exact" in variant else 3.0}
    simulated = kind == "simulated"
    more = {
        "paper": "gtopk", "experiment": experiment.name, "variant": variant, "program": "train", "strategy": strategy,
        "options": warmup | dict(options), "metric": metric, "curve": points, "epochs": 4, "iterations": 80,
        "final": {metric: points[-1][metric], "test_loss": 1.0, "train_s": points[-1]["train_s"]}, "targets": {},
        "dataset": {"name": "ptb" if metric == "perplexity" else "cifar10-subset", "standin": False, "train": 5000,
                    "test": 1000, "checksum": "0"},
        "model": {"name": model, "parameters": 5_000_000},
        "testbed": f"paper/gtopk-{model}" if simulated else "shaped/1g", "batch": 512,
        "counters": lossy if strategy == "gtopk" else {}, "key": f"{experiment.name}-{variant}-{kind}-{seed}",
        "run": f"{variant}-{kind}-{seed}", "optimizer": {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.0},
    }  # fmt: skip
    return one | more | changes


def convergence(seeds=2):
    """Every training experiment in the kinds that it has."""
    return [
        training(experiment, variant, kind, seed)
        for experiment in TRAINING
        for variant in experiment.variants
        for kind in ("measured", "simulated")
        for seed in range(seeds)
    ]


def step(model, algorithm, workers, compression=1.0):
    """(iteration, computation, compression, communication) in seconds by the published numbers."""
    n = PARAMETERS[model]
    form = FORMS[algorithm]
    sent = form(workers, 4 * n, selected(n, 0.001), ALPHA, BETA) if workers > 1 else 0.0
    select = 0.0 if algorithm == "Dense" or workers == 1 else compression * 4 * n * SELECT
    return ITERATION[model] + select + sent, ITERATION[model], select, sent


def scaled(model, algorithm, workers, compression=1.0, seed=0):
    """A run of fig10: time only."""
    total, passes, select, sent = step(model, algorithm, workers, compression)
    one = make("D-Sync", "simulated", seed)
    variant = f"{model}, {algorithm}, P={workers}"
    phases = dict.fromkeys(one["phases"], 0.0) | {
        "forward": passes / 3, "backward": 2 * passes / 3, "compress": select, "communicate": sent,
    }  # fmt: skip
    return one | {
        "paper": "gtopk", "experiment": "fig10", "variant": variant, "program": "train", "workers": workers,
        "factors": {"model": model, "method": algorithm, "workers": workers},
        "strategy": STRATEGIES[algorithm], "options": {}, "ranks": workers, "batch": workers * BATCH[model],
        "testbed": f"paper/gtopk-{model.lower().replace('-', '')}", "phases": phases, "targets": {}, "curve": [],
        "step": dict.fromkeys(("mean_s", "median_s", "min_s", "max_s"), total),
        "communication": {"total_s": sent, "exposed_s": sent, "overlapped_s": 0.0},
        "final": {"top1": None, "test_loss": None, "train_s": 10 * total}, "iterations": 10,
        "model": {"name": model.lower(), "parameters": PARAMETERS[model]}, "counters": {},
        "key": variant, "run": variant.replace(", ", "-"),
    }  # fmt: skip


def sweep(compression=1.0):
    """All of fig10."""
    return [scaled(m, a, P, compression) for m in MODELS for a in ALGORITHMS for P in WORLDS]


def message_times(kind="measured", testbed="shaped/1g", alpha=0.1e-3, beta=8.4e-9):
    """Figure 8: points that lie on a line but for one per mill."""
    points = [{"bytes": 10**e, "mean_s": (alpha + beta * 10**e) * 1.001, "deviation_s": 0.02 * alpha, "runs": 5}
              for e in range(1, 8)]  # fmt: skip
    fit = {"alpha_s": alpha, "beta_s_per_byte": beta, "relative_error": 0.001}
    return probe("p2p", "fig8", "p2p", {"points": points, "fit": fit}, kind, testbed=testbed, workers=2, paper="gtopk")


def row(algorithm, ranks, size, slow=1.0, alpha=ALPHA, beta=BETA):
    """A collective run in its closed form's time."""
    k = selected(size // 4, 0.001)
    seconds = FORMS[NAMES[algorithm]](ranks, size, k, alpha, beta)
    wire = 2 * size if algorithm == "dense" else 8 * k
    return {"algorithm": algorithm, "ranks": ranks, "bytes": size, "density": 0.001, "k": k,
            "seconds": {"median": slow * seconds, "min": slow * seconds, "max": 1.05 * slow * seconds},
            "closed_form_s": seconds, "wire_bytes": wire}  # fmt: skip


def collectives(kind="simulated", slow=1.0):
    """fig9: runs of worlds and of sizes."""
    network = {"alpha_s": ALPHA, "beta_s_per_byte": BETA} if kind == "simulated" else {
        "alpha_s": 1e-4, "beta_s_per_byte": 8.4e-9}  # fmt: skip
    given = {"alpha": network["alpha_s"], "beta": network["beta_s_per_byte"]}
    worlds = (2, 4, 8, 16, 32, 64, 128) if kind == "simulated" else (2, 4)
    runs = [[row(a, P, 100_000_000, slow, **given) for a in NAMES] for P in worlds]
    if kind == "simulated":
        runs += [[row(a, 32, size, slow, **given) for a in NAMES] for size in (10**6, 10**7, 10**8, 10**9)]
    testbed = "paper/gtopk" if kind == "simulated" else "shaped/1g"
    return [
        probe("sparse_collectives", "fig9", f"run {i}", {"network": network, "rows": rows}, kind, testbed=testbed,
              workers=rows[0]["ranks"], paper="gtopk")
        for i, rows in enumerate(runs)
    ]  # fmt: skip


def selections(device="cpu", rate=4e-9):
    """fig11: three sizes, three methods."""
    rows = [
        {"model": model, "elements": PARAMETERS[model], "k": selected(PARAMETERS[model], 0.001), "method": method,
         "device": device, "iteration_s": ITERATION[model], "found": selected(PARAMETERS[model], 0.001),
         "seconds": dict.fromkeys(("median", "min", "max"), cost * rate * PARAMETERS[model]),
         "share": cost * rate * PARAMETERS[model] / ITERATION[model]}
        for model in ("ResNet-20", "VGG-16", "AlexNet")
        for method, cost in (("exact", 1.0), ("sampled", 0.4), ("torch.topk", 1.1))
    ]  # fmt: skip
    machine = {"class": f"{device}-synthetic", "cpu": "Synthetic CPU", "cores": 2}
    return probe("selection", "fig11", f"selection {device}", {"rows": rows}, workers=1, testbed="here", paper="gtopk",
                 hardware=machine)  # fmt: skip


def links(workers=4):
    """fig10-measured: the models' steps on real links."""
    rows = []
    for model in MODELS:
        for algorithm in ALGORITHMS:
            total, passes, *_ = step(model, algorithm, workers)
            rows.append({"variant": algorithm, "strategy": STRATEGIES[algorithm], "twin": STRATEGIES[algorithm],
                         "bytes": 4 * PARAMETERS[model], "simulated_s": 1.01 * total, "computation_s": passes,
                         "observed_s": {"median": total, "min": 0.98 * total, "max": 1.03 * total}})  # fmt: skip
    result = {"computation": "sleep", "networks": {}, "rows": rows}
    return probe("validation", "fig10-measured", f"P={workers}", result, testbed="shaped/1g", workers=workers,
                 paper="gtopk")  # fmt: skip


def everything(seeds=2):
    """Results for every section of the page."""
    return [
        *convergence(seeds), *sweep(), message_times(), message_times(testbed="here", alpha=2e-5, beta=5e-10),
        message_times("simulated", "paper/gtopk", ALPHA, BETA), *collectives(), *collectives("measured", 1.1),
        selections(), selections("cuda: Synthetic GPU", 2e-10), links(2), links(4),
    ]  # fmt: skip
