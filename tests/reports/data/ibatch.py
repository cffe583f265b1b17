"""Synthetic summaries for the iBatch page: made here, written to tmp_path, never to results/.

Times follow the pipeline model of `repro.algorithms.batching`: what is made up are the sizes of layers and the
network's speed.
"""

from __future__ import annotations

from repro.algorithms.batching.exact import exact
from repro.algorithms.batching.modes import decide
from repro.algorithms.batching.profile import PullProfile
from repro.algorithms.batching.times import executed_s, exetime_s, meets_constraint, timeline
from repro.reports.ibatch.derived import MODES
from repro.reports.ibatch.tables import SINGLE
from repro.training.clock import overlap
from tests.reports.data.probes import probe
from tests.reports.data.summaries import make

STRATEGIES = {"default": "ps_default", "layerwise": "ps_layerwise", "ibatch": "ibatch"}
SIZES = (6, 12, 24, 30, 48, 72)
ONE = 1.0  # seconds of a single node's iteration, a third of it forward
STARTUP = 0.004
# network -> model, parameters (millions a layer), share of the forward computation a layer
NETWORKS = {
    "googlenet": ("googlenet", (0.1, 0.4, *[0.5] * 9, 1.0), (2, 4, *[1] * 9, 0.1)),
    "inception": ("inception_v3", (*[1.2] * 17, 2.0), (3, 3, *[1] * 15, 0.1)),
    "vgg19": ("vgg19", (*[1.25] * 16, 102.8, 16.8, 4.1), (*[2] * 16, 0.5, 0.1, 0.1)),
    "vgg19-22k": ("vgg19", (*[1.25] * 16, 102.8, 16.8, 89.5), (*[2] * 16, 0.5, 0.1, 0.3)),
}
TESTBEDS = ("paper/ibatch", "paper/ibatch-implied")
PER_MILLION = {"paper/ibatch": 5e-5, "paper/ibatch-implied": 8e-5}  # seconds a million parameters and node


def profile(network, nodes, testbed=TESTBEDS[0], servers=0, scale=1.0):
    """What a run on that many nodes measures; scale: of all times."""
    _, millions, shares = NETWORKS[network]
    per = scale * PER_MILLION.get(testbed, 5e-5) * nodes
    forward = [scale * ONE / 3 * share / sum(shares) for share in shares]
    names = (*(f"block{i}" for i in range(1, len(millions))), "fc")
    return PullProfile(scale * STARTUP, tuple(per * m for m in millions), tuple(forward), names, workers=nodes,
                   servers=servers, parameters=tuple(int(1e6 * m) for m in millions), batch=4, hardware="synthetic",
                   source="measured")  # fmt: skip


def spans(found, mode):
    """(pulls, forward) of the pipeline model's boxes: lists of (start, end)."""
    boxes = timeline(found, decide(found, mode))
    return [[(b.start, b.end) for b in boxes if (b.kind == "forward") == forward] for forward in (False, True)]


def described(found, mode, strategy, measured=True, **more):
    """summary["pipeline"]."""
    batches = decide(found, mode)
    times = {"profile": None, "exetime_s": None, "executed_s": None, "exact_s": None, "meets_constraint": None}
    if measured:
        times = {
            "profile": found.as_dict(), "exetime_s": exetime_s(found, batches),
            "executed_s": executed_s(found, batches), "exact_s": executed_s(found, exact(found)),
            "meets_constraint": meets_constraint(found, batches),
        }  # fmt: skip
    return {"batches": [list(batch) for batch in batches], "layers": list(found.layers),
            "parameters": list(found.parameters), **times, "mode": strategy, "push": "after", "sync": "bsp",
            "servers": found.servers, "placement": "layers", "drop": 0.0} | more  # fmt: skip


def worker(found, mode, slow=1.0):
    """An entry of summary["per_rank"]."""
    pulls, forward = spans(found, mode)
    took = {
        "forward_end_s": slow * forward[-1][1], "pull_s": sum(end - start for start, end in pulls),
        "forward_s": sum(end - start for start, end in forward), "overlap_s": overlap(pulls, forward),
    }  # fmt: skip
    return {"role": "worker", **took, "steps": 3, "first_step": took}


def trace(found, mode, ranks=2, steps=2, by_batch=False):
    """Recorded intervals: each step's pulls, forward and backward pass, then the push."""
    batches, every = decide(found, mode), []
    length = executed_s(found, batches) + 3 * sum(found.forward_s)
    for rank in range(ranks):
        for step in range(steps):
            at = step * length
            boxes = timeline(found, batches)
            if by_batch:  # as real machines record it: a batch's transfers and forward passes are one each
                boxes = merged(boxes)
            pulled = [b for b in boxes if b.kind != "forward"]
            for batch in range(1, len(batches) + 1):
                of = [b for b in pulled if b.batch == batch]
                startup = next((b for b in of if b.kind == "startup"), None)
                begin = startup.end if startup else of[0].start
                if startup:
                    every.append({"rank": rank, "line": "pull", "name": "startup", "start": at + startup.start,
                                  "end": at + startup.end})  # fmt: skip
                every.append({"rank": rank, "line": "pull", "name": "communicate", "start": at + begin,
                              "end": at + of[-1].end})  # fmt: skip
            forward = [b for b in boxes if b.kind == "forward"]
            every += [{"rank": rank, "line": "main", "name": "forward", "start": at + b.start, "end": at + b.end}
                      for b in forward]  # fmt: skip
            end = at + forward[-1].end
            for i in range(2):
                share = sum(found.forward_s)
                every.append({"rank": rank, "line": "main", "name": "backward", "start": end + i * share,
                              "end": end + (i + 1) * share})  # fmt: skip
    return every


def merged(boxes):
    """Forward boxes of a batch as one."""
    found = [b for b in boxes if b.kind != "forward"]
    for batch in sorted({b.batch for b in boxes}):
        of = [b for b in boxes if b.kind == "forward" and b.batch == batch]
        found.append(of[0]._replace(layer=None, end=of[-1].end))
    return found


def run(experiment, variant, mode, found, testbed=TESTBEDS[0], kind="simulated", seed=0, workers=None, push=1.0,
        network="vgg19", slow=1.0, **changes):  # fmt: skip
    """A run; push: how long pushing takes over pulling without startups."""
    model, millions, _ = NETWORKS[network]
    workers = workers or found.workers
    batches = decide(found, mode)
    communication = sum(found.transfer_s)
    step = slow * (executed_s(found, batches) + 2 * sum(found.forward_s) + push * communication)
    one = make("D-Sync", kind, seed)
    phases = dict.fromkeys(one["phases"], 0.0) | {
        "forward": sum(found.forward_s), "backward": 2 * sum(found.forward_s),
        "communicate": step - 3 * sum(found.forward_s),
    }  # fmt: skip
    own = found.servers if found.servers else 0
    return one | {
        "paper": "ibatch", "experiment": experiment, "variant": variant, "program": "train",
        "strategy": STRATEGIES.get(mode, "ibatch"), "options": {}, "workers": workers, "ranks": workers + own,
        "batch": 4 * workers, "iterations": 3, "iterations_per_epoch": 3, "epochs": 1, "targets": {}, "phases": phases,
        "trace": [], "step": dict.fromkeys(("mean_s", "median_s", "min_s", "max_s"), step), "testbed": testbed,
        "final": one["final"] | {"train_s": 3 * step},
        "model": {"name": model, "parameters": int(1e6 * sum(millions))},
        "dataset": {"name": "imagenet (shapes only)", "standin": False, "train": 12 * workers, "test": 4},
        "pipeline": described(found, mode, STRATEGIES.get(mode, "ibatch")),
        "per_rank": [worker(found, mode)] * workers + [{"role": "server"}] * own,
        "key": f"{experiment}-{model}-{variant}-{testbed}-{kind}-{seed}",
        "run": f"{model}-{variant}-{testbed}-{kind}-{seed}".replace("/", "-"),
    } | changes  # fmt: skip


def timing(summary):
    """As a testbed without arithmetic leaves it."""
    curve = [point | {"top1": None, "loss": None, "test_loss": None} for point in summary["curve"]]
    return summary | {"final": summary["final"] | {"top1": None, "test_loss": None}, "curve": curve}


def fig3(testbed=TESTBEDS[0], modes=MODES):
    """The case study: six workers, six servers, with recorded intervals."""
    found = profile("googlenet", 300, testbed, servers=6, scale=0.2)
    return [timing(run("fig3", mode, mode_of(mode), found, testbed, network="googlenet", workers=6,
                       trace=trace(found, mode_of(mode)))) for mode in modes]  # fmt: skip


def mode_of(name):
    """The mode of a variant's first word, as `decide` knows it."""
    return {"ibatch": "greedy"}.get(name, name)


def scaling(family="fig5", networks=tuple(NETWORKS), sizes=SIZES, testbed=TESTBEDS[0], push=1.0):
    """Figure 5, or 6 with pushes that cost little: every network, mode and size."""
    found = []
    for network in networks:
        alone = profile(network, 1, testbed)
        nothing = PullProfile(0.0, (0.0,) * len(alone.transfer_s), alone.forward_s, alone.layers, workers=1)
        one = run(family, SINGLE, "default", nothing, testbed, network=network, workers=1)
        found.append(timing(one | {"pipeline": described(nothing, "default", "ps_default", measured=False)}))
        for n in sizes:
            for mode in MODES:
                at = profile(network, n, testbed)
                one = run(family, f"{mode} {n}", mode_of(mode), at, testbed, network=network, push=push)
                if mode != "ibatch" and n != max(sizes):
                    one["pipeline"] = described(at, mode, STRATEGIES[mode], measured=False)
                found.append(timing(one))
    return found


def beyond(testbed=TESTBEDS[0]):
    """Pushes and placements on 72 nodes of VGG19."""
    at = profile("vgg19", 72, testbed)
    found = []
    for kind, push in (("after", 1.0), ("layerwise", 0.7), ("batches", 0.5), ("vector", 1.6)):
        for mode in MODES:
            one = run("beyond", f"{mode} {kind}", mode_of(mode), at, testbed, push=push)
            placement = "vector" if kind == "vector" else "layers"
            one["pipeline"] = one["pipeline"] | {"placement": placement, "push": "after" if kind == "vector" else kind}
            found.append(timing(one))
    return [*found, timing(run("beyond", "exact after", "exact", at, testbed))]


def measured(network="vgg19", seeds=1, testbed="shaped/1g", sizes=(2, 3, 4), equal=True):
    """Real ranks: a model of a tenth of the time, forward passes that end a little later than predicted."""
    found = []
    for seed in range(seeds):
        for n in sizes:
            for mode in MODES:
                at = profile(network, 60 * n, servers=0, scale=0.02)
                one = run("measured", f"{mode} {n}", mode_of(mode), at, testbed, "measured", seed, workers=n,
                          network=network, slow=1 + 0.01 * seed)  # fmt: skip
                one["model"] = {"name": "vgg16" if network == "vgg19" else network, "parameters": 1_000_000}
                one["per_rank"] = [worker(at, mode_of(mode), slow=1.08)] * n
                one["weights_sha256"] = f"{seed}{n}{'' if equal else mode}".ljust(64, "0")
                found.append(one)
    return found


def sync(seeds=1):
    """Synchronisations of a small network."""
    found = []
    for seed in range(seeds):
        for variant, slow in (("bsp", 1.0), ("ssp-1", 0.9), ("ssp-3", 0.8), ("asp", 0.7)):
            at = profile("googlenet", 4, scale=0.01)
            one = run("sync", variant, "greedy", at, "virtual", seed=seed, network="googlenet", slow=slow)
            staleness = [{"0": 10} if variant == "bsp" else {"0": 6, "2": 4}]
            data = {"name": "mnist", "standin": False, "train": 60000, "test": 10000}
            found.append(one | {"staleness": staleness, "dataset": data})
    return found


def random_profiles(seed=0):
    """The probe's result: four families, two sizes, two startups."""

    def row(family, layers, startup, off):
        gaps = {"compared": 50, "optimal": 0.9 - off, "median": 0.0, "p95": off, "max": 2 * off}
        none = {"compared": 0, "optimal": None, "median": None, "p95": None, "max": None}
        names = ("greedy", "algorithm1", "algorithm2", "default", "layerwise")
        modes = {name: gaps for name in names} | {"constrained": none if family == "uniform" else gaps}
        return {"family": family, "layers": layers, "startup": startup, "profiles": 50, "modes": modes,
                "no_pair": {"algorithm1": 0.1, "algorithm2": 0.02}, "exetime_below": 0.3, "prefers_longer": 0.05,
                "prefers_longer_max": 0.2}  # fmt: skip

    families = ("convolutional", "uniform", "communication", "computation")
    rows = [row(family, layers, startup, 0.02 * (i + 1) + 0.001 * layers)
            for i, family in enumerate(families) for layers in (4, 8, 12) for startup in (0.0, 0.5, 2.0)]  # fmt: skip
    result = {"rows": [*rows, row(None, None, None, 0.05)]}
    return probe("batching", "random-profiles", "random", result, kind="simulated", seed=seed, testbed="virtual",
                 workers=1, paper="ibatch", dataset={"name": "mnist-standin-digits", "standin": True})  # fmt: skip


def everything(seeds=1):
    """Results for every section of the page."""
    found = []
    for testbed in TESTBEDS:
        found += [*fig3(testbed), *scaling(testbed=testbed), *beyond(testbed),
                  *scaling("fig6", ("inception", "vgg19"), testbed=testbed, push=0.01)]  # fmt: skip
    for network in ("vgg19", "googlenet"):
        for testbed in ("here", "shaped/1g"):
            found += measured(network, seeds, testbed)
    return [*found, *sync(seeds), random_profiles()]
