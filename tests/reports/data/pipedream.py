"""Synthetic summaries for the PipeDream page: made here, written to tmp_path, never to results/."""

from __future__ import annotations

import math

from repro.answers.pages.reference import quoted
from repro.reports.pipedream.stages import ALLREDUCE, ASP, BSP, PIPEDREAM, SINGLE, replicas
from repro.reports.pipedream.stages import ROWS as LABELS
from tests.reports.data.probes import probe
from tests.reports.data.summaries import make

GIVEN, STRAIGHT, MODEL, GPIPE, FLUSH = "paper-config", "straight", "model-parallel", "gpipe", "1f1b-flush"
STASHING, VERTICAL, NAIVE = "stashing", "vertical-sync", "naive"
DATA_PARALLEL, REPLICATED = "data-parallel", "replicated"
# name, output (MB for a minibatch of 32), parameters (MB): VGG16 with a layer a convolution and its pooling
VGG16 = (
    ("conv1_1", 411.0, 0.007), ("conv1_2", 102.8, 0.148), ("conv2_1", 205.5, 0.295), ("conv2_2", 51.4, 0.590),
    ("conv3_1", 102.8, 1.18), ("conv3_2", 102.8, 2.36), ("conv3_3", 25.7, 2.36), ("conv4_1", 51.4, 4.72),
    ("conv4_2", 51.4, 9.44), ("conv4_3", 12.8, 9.44), ("conv5_1", 12.8, 9.44), ("conv5_2", 12.8, 9.44),
    ("conv5_3", 3.21, 9.44), ("fc6", 0.524, 411.1), ("fc7", 0.524, 67.1), ("fc8", 0.128, 16.4),
)  # fmt: skip
COUNTS = {"VGG16": 138_357_544, "Inception-v3": 27_161_264, "S2VT": 80_000_000, "AlexNet": 61_100_840,
          "ResNet-50": 25_557_032}  # fmt: skip
PLUGINS = {
    BSP: ("wfbp", {"algorithm": "sharded_server"}), ALLREDUCE: ("wfbp", {"algorithm": "ring"}), ASP: ("ps_async", {}),
    SINGLE: ("dsync", {}), MODEL: ("model_parallel", {}), GPIPE: ("gpipe", {}), FLUSH: ("one_f_one_b_flush", {}),
    DATA_PARALLEL: ("wfbp", {}), VERTICAL: ("pipedream", {"semantics": "vertical_sync"}),
    NAIVE: ("pipedream", {"semantics": "naive"}),
}  # fmt: skip
STAGES = ("pipedream", {"semantics": "stashing"})
# row -> speed-up over one machine of BSP and PipeDream, its configuration and share of BSP's bytes
ROWS = {
    "table1-vgg16-4a": (1.55, 2.9, "2-1-1", 0.08), "table1-vgg16-8a": (2.2, 6.8, "7-1", 0.11),
    "table1-vgg16-16a": (4.4, 9.0, "14-2", 0.2), "table1-vgg16-8b": (0.9, 6.1, "7-1", 0.11),
    "table1-inception-8a": (7.4, 7.4, "8", 1.0), "table1-inception-8b": (5.2, 6.5, "6-2", 0.6),
    "table1-s2vt-4a": (1.2, 2.2, "1-1-1-1", 0.05), "throughput-alexnet-8b": (1.0, 6.0, "7-1", 0.1),
    "throughput-resnet50-8b": (5.0, 5.0, "8", 1.0),
}  # fmt: skip

_CONFIGURATIONS = quoted("pipedream").table.query("quantity == 'configuration'").set_index("row")["value"]
PRINTED = {row: _CONFIGURATIONS[LABELS[row]] for row in ROWS if LABELS[row] in _CONFIGURATIONS}


def machines(row):
    return int(LABELS[row].split()[1])


def place(row):
    """(network, cluster) of a row, as the paper writes them."""
    return LABELS[row].split(",")[0], LABELS[row][-2]


def noam(config):
    """Section 3.2: machines over machines in the input stage, rounded up."""
    return math.ceil(sum(replicas(config)) / replicas(config)[0])


def stages(config, schedule="1f1b", semantics="stashing", source="auto"):
    """What a summary says of a pipeline with this configuration, two blocks a stage."""
    counts = replicas(config)
    found = [{"first": 2 * i, "last": 2 * i + 1, "replicas": m, "blocks": [f"block{2 * i}", f"block{2 * i + 1}"],
              "seconds": 0.1 / m} for i, m in enumerate(counts)]  # fmt: skip
    return {"config": config, "cuts": [2 * i for i in range(1, len(counts))], "noam": noam(config), "stages": found,
            "schedule": schedule, "semantics": semantics, "source": source}  # fmt: skip


def per_rank(config, off=1.0):
    """Memory of each rank: 100 MB of weights a stage; the observed is `off` times the predicted."""
    found = []
    for stage, m in enumerate(replicas(config)):
        flying = noam(config) if stage == 0 else len(replicas(config)) - stage
        said = {"weights_bytes": 1e8, "stash_bytes": 1e8 * (flying - 1), "activation_bytes": 5e7 * flying}
        found += [
            {"stage": stage, "replica": replica, **{name: off * value for name, value in said.items()},
             "in_flight": flying, "buffer_bytes": 1e6, "predicted": said}
            for replica in range(m)
        ]  # fmt: skip
    return found


def run(experiment, variant, kind="simulated", seed=0, step=0.1, workers=4, batch=128, testbed=None, config=None,
        stall=0.0, hidden=0.0, **changes):  # fmt: skip
    """A run of an experiment (its name); step: seconds of an iteration, stall: of it blocked on communication."""
    name = variant.rsplit("-", 1)[0] if variant.rsplit("-", 1)[-1].isdigit() else variant
    strategy, options = PLUGINS.get(name, STAGES)
    one = make("D-Sync", kind, seed)
    computing = step - stall
    phases = dict.fromkeys(one["phases"], 0.0) | {
        "forward": computing / 3, "backward": 2 * computing / 3, "communicate": stall,
    }  # fmt: skip
    return one | {
        "paper": "pipedream", "experiment": experiment, "variant": variant, "program": "train", "strategy": strategy,
        "options": options, "workers": workers, "ranks": workers, "batch": batch, "iterations": 40,
        "iterations_per_epoch": 10, "epochs": 4, "targets": {}, "phases": phases, "trace": [],
        "step": dict.fromkeys(("mean_s", "median_s", "min_s", "max_s"), step),
        "communication": {"total_s": stall + hidden, "exposed_s": stall, "overlapped_s": hidden},
        "final": one["final"] | {"train_s": 40 * step}, "bytes_sent": 1e8,
        "pipeline": stages(config, semantics=options.get("semantics", "stashing")) if config else None,
        "per_rank": per_rank(config) if config else [],
        "testbed": testbed or ("paper/pipedream-a" if kind == "simulated" else "here"),
        "key": f"{experiment}-{variant}-{kind}-{seed}-{testbed}",
        "run": f"{variant}-{kind}-{seed}-{testbed}",
    } | changes  # fmt: skip


def timing(summary):
    """As a testbed without arithmetic leaves it."""
    curve = [point | {"top1": None, "loss": None, "test_loss": None} for point in summary["curve"]]
    return summary | {"final": summary["final"] | {"top1": None, "test_loss": None}, "curve": curve}


def row(name, variants=None):
    """All variants of a row of Table 1, or some: time only."""
    bsp, pipedream, config, share = ROWS[name]
    count, model, alone = machines(name), place(name)[0], 0.2
    batch = (80 if model == "S2VT" else 32) * count
    sent = 2 * (count - 1) / count * 4 * COUNTS[model]
    # speed-up over one machine, configuration, share of BSP's bytes
    every = {
        SINGLE: (1.0, None, 0.0), BSP: (bsp, None, 1.0), ALLREDUCE: (1.1 * bsp, None, 1.0),
        PIPEDREAM: (pipedream, config, share), GIVEN: (0.95 * pipedream, PRINTED.get(name), 1.2 * share),
        STRAIGHT: (0.5 * count, "-".join("1" * count), 0.04),
        MODEL: (0.9, "-".join("1" * count), 0.04),
    }  # fmt: skip
    found = []
    for variant in variants or [s for s in every if s != GIVEN or name in PRINTED]:
        speedup, stages_of, part = every[variant]
        workers = 1 if variant == SINGLE else count
        step = alone * count / speedup if workers > 1 else alone
        one = run(name, variant, step=step, workers=workers, batch=batch if workers > 1 else batch // count,
                  testbed=f"paper/pipedream-{place(name)[1].lower()}", config=stages_of, bytes_sent=part * sent,
                  stall=max(0.0, step - alone) if variant == BSP else 0.0)  # fmt: skip
        one |= {
            "dataset": {"name": "imagenet (shapes only)", "standin": False, "train": 1_281_167, "test": 50_000},
            "model": {"name": model.lower(), "parameters": COUNTS[model]},
        }
        found.append(timing(one))
    return found


def table1():
    """Every row of Table 1, AlexNet and ResNet-50."""
    return [summary for name in ROWS for summary in row(name)]


def fig1(models=("vgg16", "alexnet", "s2vt", "resnet50", "inception_v3"), devices=("k80", "titanx", "v100")):
    """Overheads that grow with workers and GPUs, of some models more than of others."""
    found = []
    for m, model in enumerate(models):
        for d, device in enumerate(devices):
            for workers in (1, 2, 4, 8, 16, 32):
                share = 0 if workers == 1 else (0.8 - 0.15 * m) * (0.5 + 0.25 * d) * (1 - 0.5 / workers)
                step = 0.3 / (d + 1) / (1 - share)
                one = run("fig1", f"{model}-{workers}", step=step, workers=workers, batch=32 * workers,
                          stall=share * step, testbed=f"paper/pipedream-fig1-{device}")  # fmt: skip
                one |= {
                    "model": {"name": {"vgg16": "vgg16_imagenet"}.get(model, model), "parameters": 1},
                    "strategy": "wfbp",
                    "options": {},
                }
                one["testbed_model"] = one["testbed_model"] | {"device": {"name": device}}
                found.append(timing(one))
    return found


# --- schedules


def one_f_one_b(machines=4, minibatches=10, forward=1.0, backward=1.0, message=0.1):
    """Intervals of 1F1B on a straight pipeline, every pass in two blocks, messages on a line of their own."""
    done = {(-1, "forward", b): 0.0 for b in range(minibatches)}
    at = [0.0] * machines
    orders = []
    for s in range(machines):
        order = [("forward", b) for b in range(machines - s)]
        for b in range(minibatches):
            order.append(("backward", b))
            if b + machines - s < minibatches:
                order.append(("forward", b + machines - s))
        orders.append(order)
    trace = []
    while any(orders):
        for s, order in enumerate(orders):
            if not order:
                continue
            name, b = order[0]
            if name == "forward":
                ready = done.get((s - 1, name, b))
            else:
                ready = done.get((s, "forward", b)) if s == machines - 1 else done.get((s + 1, name, b))
            if ready is None:
                continue
            order.pop(0)
            start, length = max(at[s], ready), forward if name == "forward" else backward
            trace += [_box(s, "main", name, start + i * length / 2, start + (i + 1) * length / 2, b) for i in (0, 1)]
            at[s] = start + length
            to = s + (1 if name == "forward" else -1)
            arrives = at[s] + (message if 0 <= to < machines else 0.0)
            if arrives > at[s]:
                trace.append(_box(s, "messages", "communicate", at[s], arrives))
            done[s, name, b] = arrives
    return trace


def _box(rank, line, name, start, end, minibatch=None):
    box = {"rank": rank, "line": line, "name": name, "start": 0.01 * start, "end": 0.01 * end}
    return box if minibatch is None else box | {"minibatch": minibatch}


def model_parallel(machines=4, minibatches=3):
    """One minibatch after another through all machines and back."""
    trace, at = [], 0.0
    for b in range(minibatches):
        for name, order in (("forward", range(machines)), ("backward", reversed(range(machines)))):
            for rank in order:
                trace.append(_box(rank, "main", name, at, at + 1, b))
                at += 1
    return trace


def data_parallel(machines=4, iterations=3):
    """Passes without minibatch numbers, gradients on a line of their own, and stalls until they are exchanged."""
    trace = []
    for rank in range(machines):
        for i in range(iterations):
            at = 7.0 * i
            trace += [_box(rank, "main", "forward", at, at + 1), _box(rank, "main", "backward", at + 1, at + 3),
                      _box(rank, "main", "wait", at + 3, at + 6.5), _box(rank, "main", "update", at + 6.5, at + 7),
                      _box(rank, "gradients", "communicate", at + 2, at + 6.5)]  # fmt: skip
    return trace


def replicated():
    """A stage on machines 1 and 2, twice as long as that on machine 3."""
    trace = []
    for rank in (0, 1):
        for i in range(6):
            at, b = 4.0 * i + 2 * rank, 2 * i + rank
            trace.append(_box(rank, "main", "forward", at, at + 2, b))
            trace.append(_box(rank, "main", "backward", at + 6, at + 8, b))
    for b in range(12):
        trace.append(_box(2, "main", "forward", 2 + 2 * b, 3 + 2 * b, b))
        trace.append(_box(2, "main", "backward", 3 + 2 * b, 4 + 2 * b, b))
    return trace


def timelines():
    """Figures 2, 3, 4 and 6."""
    return [
        timing(run("timelines", DATA_PARALLEL, trace=data_parallel(), stall=0.05, hidden=0.01)),
        timing(run("timelines", MODEL, trace=model_parallel(), config="1-1-1-1", stall=0.07)),
        timing(run("timelines", PIPEDREAM, trace=one_f_one_b(), config="1-1-1-1", hidden=0.02)),
        timing(run("timelines", REPLICATED, trace=replicated(), config="2-1", workers=3, batch=96)),
    ]


def fig8(kind="simulated", backward=1.0, experiment="fig8"):
    """1F1B with four machines."""
    trace = one_f_one_b(backward=backward, message=0.0 if kind == "simulated" else 0.2)
    one = run(experiment, PIPEDREAM, kind, trace=trace, config="1-1-1-1", hidden=0.01)
    return timing(one) if kind == "simulated" else one


# --- training


def learned(experiment, variant, seed, best, speed, kind="simulated", step=0.1, **changes):
    """A run whose accuracy rises to `best`; speed: epochs to two thirds of it."""
    curve = [
        {"iteration": 10 * e, "epoch": float(e), "train_s": 10 * step * e, "loss": 1 / (1 + e), "test_loss": 1.0,
         "top1": (best + 0.004 * seed) * (1 - math.exp(-1.1 * e / speed))}
        for e in range(13)
    ]  # fmt: skip
    data = {"name": "cifar10", "standin": False, "train": 50_000, "test": 10_000}
    one = run(experiment, variant, kind, seed, step, dataset=data, **changes)
    targets = {goal: None for goal in ("0.4", "0.6")}
    return one | {"curve": curve, "epochs": 12, "final": one["final"] | {"top1": curve[-1]["top1"]}, "targets": targets,
                  "model": {"name": "vgg_small", "parameters": 500_000}}  # fmt: skip


def accuracy(seeds=3):
    """Figures 10 to 12: ASP needs three times the epochs."""
    found = []
    for seed in range(seeds):
        for n in (4, 8, 16):
            sizes = {"workers": n, "batch": 32 * n, "testbed": "paper/pipedream-a"}
            found.append(learned("accuracy-vgg16", f"{BSP}-{n}", seed, 0.7, 2.0, **sizes))
            found.append(learned("accuracy-vgg16", f"{PIPEDREAM}-{n}", seed, 0.7, 2.1, config=f"{n - 1}-1", **sizes))
        found.append(learned("accuracy-vgg16", f"{ASP}-4", seed, 0.68, 6.0, testbed="paper/pipedream-a"))
    return found


def versions(experiment="semantics", seeds=3):
    """Weight versions: naive is worse."""
    finals = {STASHING: 0.70, VERTICAL: 0.698, NAIVE: 0.55, BSP: 0.695, SINGLE: 0.71}
    found = []
    for seed in range(seeds):
        for variant, best in finals.items():
            config = "1-1-1-1" if variant in (STASHING, VERTICAL, NAIVE) else None
            workers = 1 if variant == SINGLE else 4
            found.append(learned(experiment, variant, seed, best, 2.0, config=config, workers=workers,
                                 batch=32 * workers))  # fmt: skip
    return found


def measured(experiment="measured-vgg", testbed="shaped/1g", seeds=2, slow=1.0):
    """What is measured here: step times by variant."""
    steps = {BSP: 1.0, ALLREDUCE: 0.9, ASP: 0.7, MODEL: 1.3, STRAIGHT: 0.6, PIPEDREAM: 0.5, GPIPE: 0.8, FLUSH: 0.75}
    found = []
    for seed in range(seeds):
        for variant, step in steps.items():
            stages_of = {MODEL: "1-1-1-1", STRAIGHT: "1-1-1-1", PIPEDREAM: "3-1", GPIPE: "1-1-1-1", FLUSH: "1-1-1-1"}
            one = learned(experiment, variant, seed, 0.6, 2.0, "measured", slow * step * (1 + 0.01 * seed),
                          testbed=testbed, config=stages_of.get(variant), stall=0.1)  # fmt: skip
            if one["pipeline"]:
                one["pipeline"]["schedule"] = variant if variant in (GPIPE, FLUSH) else "1f1b"
            found.append(one)
    return found


def memory(kind="measured"):
    """Two configurations; what is observed is a little more than what is predicted."""
    found = []
    for variant, config in (("straight", "1-1-1-1"), ("pipedream", "3-1")):
        found.append(run("memory", variant, kind, config=config) | {"per_rank": per_rank(config, 1.02)})
    return found


# --- probes


def layer_sizes():
    """Figure 5."""
    layers = [
        {"name": n, "activation_bytes": round(1e6 * out), "parameter_bytes": round(1e6 * w)} for n, out, w in VGG16
    ]
    result = {"layers": layers, "parameter_bytes": sum(layer["parameter_bytes"] for layer in layers), "batch": 32}
    return probe("layer_sizes", "fig5", "vgg16", result, "simulated", workers=1, paper="pipedream",
                 testbed="paper/pipedream-a", model={"name": "vgg16", "parameters": COUNTS["VGG16"]})  # fmt: skip


def configuration_row(model, cluster, machines, bandwidth, cost_model, config):
    single = 1.0
    pipeline = single / (0.9 * machines)
    data_parallel = single / (0.3 * machines)
    return {"model": model, "cluster": cluster, "machines": machines, "bandwidth_Bps": bandwidth,
            "cost_model": cost_model, "config": config, "cuts": [3] if "-" in config else [], "pipeline_s": pipeline,
            "data_parallel_s": data_parallel, "single_s": single, "noam": noam(config), "optima": 1,
            "speedup_single": single / pipeline, "speedup_bsp": data_parallel / pipeline}  # fmt: skip


def configurations():
    """Rows of Table 1 by cost model."""
    names = {"VGG16": "vgg16", "Inception-v3": "inception_v3", "S2VT": "s2vt", "AlexNet": "alexnet",
             "ResNet-50": "resnet50"}  # fmt: skip
    rows = []
    for name, (_, _, config, _) in ROWS.items():
        count = machines(name)
        for cost_model in ("paper", "released-sum", "released-max"):
            found = config if cost_model == "paper" else f"{count - 1}-1"
            speed = 3.125e9 if place(name)[1] == "A" else 1.25e9
            rows.append(configuration_row(names[place(name)[0]], place(name)[1], count, speed, cost_model, found))
    return probe("configurations", "configurations", "table1", {"rows": rows}, "simulated", workers=1,
                 paper="pipedream", testbed="paper/pipedream-a")  # fmt: skip


def everything(seeds=2):
    """Results of every kind that the page knows."""
    return [
        *table1(), *fig1(), *timelines(), fig8(), fig8("measured", 1.8, "fig8-measured"), *accuracy(seeds),
        *versions(seeds=seeds), *versions("semantics-alexnet", seeds), *measured(seeds=seeds),
        *measured(testbed="here", seeds=1, slow=0.5), *measured("measured-alexnet", seeds=seeds), *memory(),
        layer_sizes(), configurations(),
    ]  # fmt: skip
