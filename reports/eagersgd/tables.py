"""The tables behind the page that are no tidy ones: ours beside the paper's own numbers, and arithmetic on these."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache, partial
from typing import TYPE_CHECKING

from repro.records import tidy
from repro.reporting.stats import DASH, TIMES, number, spread
from repro.reports import arithmetic, compute
from repro.reports.arithmetic import Check, check, plain
from repro.reports.eagersgd import derived
from repro.reports.eagersgd.experiments import (
    DEEP500,
    FIG2,
    FIG2_LENGTHS,
    FIG3,
    FIG4,
    FIG9,
    FIG10,
    FIG10_PADDED,
    FIG10_RATIO,
    FIG11,
    FIG12,
    FIG13,
    FIG13_SCALING,
    HOROVOD,
    MAJORITY,
    PAPER,
    SOLO,
    TASKS,
)
from repro.reports.eagersgd.results import Results
from repro.reports.groups import Group
from repro.reports.reference import Quoted, read

if TYPE_CHECKING:
    import pandas as pd

RUNTIMES = {
    FIG2: ("Figure 2", "Figure 2 (b), LSTM on UCF101"),
    FIG3: ("Figure 3", "Figure 3, Transformer"),
    FIG4: ("Figure 4", "Figure 4, ResNet-50"),
}
STATISTICS = ("n", "min", "median", "mean", "sd", "max")
SPEEDUP = "speed-up over "
# Figure -> its experiments, and what tells their bars apart where there are several
FIGURES = {
    "Figure 10": {FIG10.name: "", FIG10_PADDED.name: "step of 0.61 s", FIG10_RATIO.name: "step of 0.4 s"},
    "Figure 11": {FIG11.name: ""},
    "Figure 12": {FIG12.name: ""},
    "Figure 13": {FIG13.name: "", FIG13_SCALING.name: "full size"},
}


class Published(Quoted):
    """The paper's numbers."""

    paper = PAPER

    def table1(self, task: str, quantity: str) -> int:
        return int(self.text("Table 1", task, "all", quantity))

    def statistic(self, place: str, row: str, setting: str, name: str) -> float:
        """NaN where it is not printed."""
        return float(self.maybe(place, row, setting, name) or math.nan)


@cache
def published() -> Published:
    return Published(read(PAPER))


def table1(found: Results) -> pd.DataFrame:
    """A row a task: the paper's line, and the parameters of the models that ran here."""
    import pandas as pd

    paper, counts = published(), {}
    for experiment, task in TASKS.items():
        for group in found.training[experiment].values():
            ran = {run["model"].get("parameters") for run in group.used()} - {None}
            counts[task] = counts.get(task, set()) | ran
    names = ("parameters", "training samples", "batch size", "epochs", "processes")
    return pd.DataFrame(
        {"task": task, "model": paper.text("Table 1", task, "all", "model")}
        | {name: f"{paper.table1(task, name):,}" for name in names}
        | {"ours": " or ".join(f"{count:,}" for count in sorted(ran)) or DASH}
        for task, ran in ((task, counts.get(task, set())) for task in TASKS.values())
    )


def distributions(found: Results) -> pd.DataFrame:
    """A row a figure and kind: frames of the videos, milliseconds of the batches."""
    import pandas as pd

    paper, what = published(), "Figure 2 (a), frames of a video"

    def printed(place: str, row: str, setting: str, n: str) -> dict[str, float]:
        names = {"n": n} | {name: name for name in STATISTICS[1:]}
        return {name: paper.statistic(place, row, setting, called) for name, called in names.items()}

    rows = [{"what": what, "kind": "paper", **printed("Figure 2", "lengths", "UCF101", "videos")}]
    for kind, group in found.probes[FIG2_LENGTHS].items():
        split = next(of for name, of in group.first["result"]["splits"].items() if name.startswith("train"))
        rows.append({"what": what, "kind": kind, **{name: float(split[name]) for name in STATISTICS}})
    for experiment, (place, what) in RUNTIMES.items():
        setting = next(s for p, r, s in _rows(place) if r == "runtimes")
        rows.append({"what": what, "kind": "paper", **printed(place, "runtimes", setting, "batches")})
        for kind, group in found.probes[experiment].items():
            of = [run["result"]["statistics"] for run in group.summaries]
            ms = {name: 1e3 * spread(each[name] for each in of).median for name in STATISTICS[1:]}
            rows.append({"what": what, "kind": kind, "n": float(sum(each["n"] for each in of)), **ms})
    return pd.DataFrame(rows)


def _rows(place: str) -> list[tuple[str, str, str]]:
    """(place, row, setting) of what the paper prints there, each once."""
    t = published().table
    t = t[t["place"] == place]
    return list(dict.fromkeys(zip(t["place"], t["row"], t["setting"])))


def runtimes(found: Results) -> pd.DataFrame:
    """A row a batch: its seconds over the mean of its run."""
    import pandas as pd

    return pd.DataFrame(
        {"figure": what, "kind": kind, "over_mean": seconds / run["result"]["statistics"]["mean"]}
        for experiment, (_, what) in RUNTIMES.items()
        for kind, group in found.probes[experiment].items()
        for run in group.summaries
        for seconds in run["result"]["seconds"]
    )


def expected(ranks: int) -> dict[str, dict[str, float]]:
    """Of linear skew alone: NAP, and the mean wait of a rank in units of the largest skew.

    Ranks come at 0, 1 .. P-1 (units of skew / (P-1)). MPI_Allreduce waits for the last, (P-1)/2 in the mean; solo for
    nobody; majority for a rank drawn uniformly: (P^2-1)/6P in the mean, and (P+1)/2 ranks are there in time.
    """
    P = ranks
    return {
        "allreduce": {"nap": float(P), "wait": 0.5},
        "solo": {"nap": 1.0, "wait": 0.0},
        "majority": {"nap": (P + 1) / 2, "wait": (P * P - 1) / (6 * P) / (P - 1)},
    }


def collectives(found: Results) -> pd.DataFrame:
    """Figure 9 in numbers, a row a kind and collective: how much less latency than MPI_Allreduce, and NAP."""
    import pandas as pd

    paper, place, row = published(), "Figure 9", "microbenchmark"
    P, quantity = int(paper.value(place, row, "all", "processes")), "latency reduction over MPI_Allreduce"
    rows = []
    for name in ("solo", "majority"):
        of = {"collective": name, "expected": expected(P)[name]["nap"]}
        rows.append(
            of | {"kind": "paper", "times": paper.value(place, row, name, quantity),
                  "nap": paper.value(place, row, name, "NAP")}
        )  # fmt: skip
        for kind, group in found.probes[FIG9].items():
            times = derived.latency_reduction(group, name, ranks=P).values.values()
            nap = derived.active_processes(group, name, ranks=P).values.values()
            rows.append(of | {"kind": kind, "times": spread(times).median, "nap": spread(nap).median})
    return pd.DataFrame(rows)


def speedups(found: Results) -> pd.DataFrame:
    """A row a printed speed-up of Figures 10 to 13 and a source: the paper, or an experiment and kind of ours."""
    import pandas as pd

    t, rows = published().table, []
    for line in t[t["quantity"].str.startswith(SPEEDUP)].to_dict("records"):
        over = line["quantity"].removeprefix(SPEEDUP)
        delay = f", {line['row']}" if line["row"] != "all" else ""
        case = {"figure": line["place"], "case": f"{line['setting']} over {over}{delay}"}
        case |= {"delay": line["row"], "variant": line["setting"]}
        rows.append(case | {"kind": "paper", "source": "paper", "speedup": float(line["value"])})
        for name, what in FIGURES[line["place"]].items():
            for kind, group in found.training[name].items():
                values = _speedup(group, line["setting"], HOROVOD if over == "Horovod" else DEEP500, line["row"])
                rows += [
                    case | {"kind": kind, "source": ", ".join(filter(None, (kind, what))), "speedup": value}
                    for value in values
                ]
    return pd.DataFrame(rows)


def _speedup(group: Group, setting: str, over: str, row: str) -> list[float]:
    """Of each seed; the variants may have the injected delay in their names."""
    names = [next((n for n in (name, f"{name} {row}") if n in group.covered()), "") for name in (setting, over)]
    return list(compute.speedup(group, *names).values.values()) if all(names) else []


def losses(found: Results) -> pd.DataFrame:
    """Figure 10's curves: a row an evaluation, by how long a step computes and the kind of number."""
    rows = []
    for name, step in FIGURES["Figure 10"].items():
        for kind, group in found.training[name].items():
            for run in group.used():
                own = {"panel": f"{step or 'step as it is'}: {kind}", "kind": kind, "variant": run["setting"]}
                rows += [own | point for point in tidy.rows("points", run)]
    return tidy.frame(rows)


# --- what does not add up

_check = partial(check, written=(plain, plain))


def implied(found: Results) -> pd.DataFrame:
    """Seconds of computation a step that each printed speed-up over Deep500 implies, if the delay is all that Synch-SGD
    loses: (c + d) / c = s."""
    import pandas as pd

    paper, rows = published(), []
    for line in _speedups_over_deep500():
        place, ms, s = line["place"], line["row"], float(line["value"])
        one = paper.maybe(place, "one node", "single GPU node", "throughput") if place == "Figure 11" else None
        steps = paper.maybe(place, ms, SOLO, "throughput")
        rows.append(
            {"kind": "paper", "figure": place, "injected": ms, "speedup": s, "implied": float(ms.split()[0]) / 1e3 / (s - 1),
             "alone": 1 / float(one) if one else math.nan, "step": 1 / float(steps) if steps else math.nan}
        )  # fmt: skip
    return pd.DataFrame(rows)


def _speedups_over_deep500() -> Iterator[dict[str, str]]:
    t = published().table
    yield from t[(t["quantity"] == f"{SPEEDUP}Deep500") & (t["setting"] == SOLO)].to_dict("records")


def checks(found: Results) -> pd.DataFrame:
    """Numbers of the paper that follow from other numbers of it."""
    return arithmetic.table([*_hyperplane(), *_resnet50(), *_ucf101(), *_microbenchmark()])


def _hyperplane() -> list[Check]:
    paper, place = published(), "Figure 10"
    solo = paper.value(place, "200 ms", SOLO, "throughput")
    one = paper.value(place, "one node", "single GPU node", "throughput")
    scaling = paper.value(place, "400 ms", SOLO, "strong scaling on 8 nodes")
    speedup = paper.value(place, "200 ms", SOLO, f"{SPEEDUP}Deep500")
    return [
        _check("Hyperplane: strong scaling with 400 ms", scaling, solo / one, TIMES,
               f"{solo:g} steps/s (solo, 200 ms; \"stable\") over {one:g} steps/s on one node"),
        _check("Hyperplane: seconds a step that 200 ms can cost Synch-SGD", 0.2, speedup / solo - 1 / solo, " s",
               f"1 / ({solo:g} / {speedup:g}) - 1 / {solo:g}: more than was injected"),
    ]  # fmt: skip


def _resnet50() -> list[Check]:
    paper, place = published(), "Figure 11"
    one = paper.value(place, "one node", "single GPU node", "throughput")
    solo, P = paper.value(place, "460 ms", SOLO, "throughput"), paper.table1("ImageNet", "processes")
    step = paper.value(place, "460 ms", SOLO, f"{SPEEDUP}Deep500") / solo
    return [
        _check("ResNet-50: weak scaling with 460 ms", paper.value(place, "460 ms", SOLO, "weak scaling on 64 nodes"),
               P * solo / one, TIMES, f"{P} times {solo:g} over {one:g} steps/s"),
        _check("ResNet-50: seconds a step of Synch-SGD (Deep500) with 460 ms", step, 1 / one + 0.46, " s",
               f"one node's computation 1 / {one:g} and the delay of the slowest rank: it cannot take less"),
    ]  # fmt: skip


def _ucf101() -> list[Check]:
    """Section 6.3 against Figure 2 and Table 1."""
    paper, place = published(), "Figure 13"
    epochs, samples = paper.table1("UCF101", "epochs"), paper.table1("UCF101", "training samples")
    at = {b: paper.value(place, "one node", f"batch size {b}", "training time of 50 epochs") for b in (16, 128)}
    runtime = {name: paper.value("Figure 2", "runtimes", "LSTM on UCF101", name) for name in ("min", "mean", "max")}
    weak = {name: at[16] / paper.value(place, "8 nodes", name, "weak scaling") for name in (HOROVOD, MAJORITY)}
    frames = [paper.value("Figure 2", "lengths", "UCF101", name) for name in ("max", "min")]
    top1 = {name: paper.value(place, "all", name, "test top-1") for name in (SOLO, HOROVOD)}
    gain, printed = (paper.value(place, "all", name, f"{SPEEDUP}Horovod") for name in (SOLO, MAJORITY))
    return [
        _check(f"UCF101: seconds of {epochs} epochs on one node with batch 16", at[16],
               epochs * (samples // 16) * runtime["mean"] / 1e3, " s",
               f"{epochs} times {samples // 16} batches times the mean of Figure 2 (b), {runtime['mean']:g} ms"),
        _check("UCF101: strong scaling of solo", paper.value(place, "8 nodes", SOLO, "strong scaling"),
               at[128] * gain / weak[HOROVOD], TIMES, f"{at[128]:,.0f} s over what weak scaling and {gain:g}{TIMES} leave"),
        Check("UCF101: Horovod and majority on 8 nodes against one with batch 128", "no speed-up",
              " and ".join(f"{number(at[128] / seconds)}{TIMES}" for seconds in weak.values()),
              f"{at[128]:,.0f} s on one node; so {printed:g}{TIMES} is over a baseline slower than one GPU"),
        _check("UCF101: longest over shortest runtime (\"proportional to the number of frames\")",
               frames[0] / frames[1], runtime["max"] / runtime["min"], TIMES,
               f"{runtime['max']:,.0f} over {runtime['min']:,.0f} ms: videos seem to be cut"),
        Check("UCF101: \"a negligible loss of accuracy\" with solo (section 8)", "negligible",
              f"{100 * (top1[HOROVOD] - top1[SOLO]):.1f} points", f"{100 * top1[SOLO]:.1f} % against "
              f"{100 * top1[HOROVOD]:.1f} % (section 6.3)"),
    ]  # fmt: skip


def _microbenchmark() -> list[Check]:
    """Section 6.1 against what a uniformly drawn initiator implies."""
    paper, place, row = published(), "Figure 9", "microbenchmark"
    P = int(paper.value(place, row, "all", "processes"))
    of, fewer = expected(P), P // 2 - 1
    return [
        Check("Majority: \"at least half must contribute\" (abstract)", "always",
              f"not in {100 * fewer / P:.0f} % of the rounds", f"{fewer} of {P} ranks come before half are there, and "
              "each is drawn as often"),
        _check("Majority: latency reduction",
               paper.value(place, row, "majority", "latency reduction over MPI_Allreduce"),
               of["allreduce"]["wait"] / of["majority"]["wait"], TIMES,
               "of the skew alone; the rest is what the collectives themselves take"),
    ]  # fmt: skip


TABLES = {
    "table1": table1, "distributions": distributions, "runtimes": runtimes, "collectives": collectives,
    "speedups": speedups, "losses": losses, "implied": implied, "checks": checks,
}  # fmt: skip
