"""What the gTop-k page draws besides the tidy tables: ours beside the paper's tables, its time model and its formulas.

Rows of kind `paper` are printed numbers; those of kind `paper's model` are Table I's formulas with the published alpha
and beta and, for an iteration, Table VI's, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from repro.common.known import known
from repro.reports.gtopk.forms import FORMS, NAMES, selected
from repro.reports.gtopk.published import of_model, of_tables, published
from repro.reports.gtopk.results import DENSITY, FIG8, FIG9, FIG10, MOST, Results, runs_of
from repro.reports.gtopk.steps import ALGORITHMS, MODELS, PARTS, Steps, of_runs

if TYPE_CHECKING:
    import pandas as pd

PAPER, MODEL, SIMULATED = "paper", "paper's model", "simulated"
WORKERS_PANEL, SIZE_PANEL = "100 MB, by workers", "32 workers, by MB"


def framed(rows: Callable[[Results], Iterator[dict[str, Any]]]) -> Callable[[Results], pd.DataFrame]:
    def made(found: Results) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame(list(rows(found)))

    return made


def sources(found: Results) -> Mapping[str, Steps]:
    """Iterations by the kind of number: the paper's tables, its time model, our simulation where there is one."""
    paper = published()
    steps = {MODEL: of_model(paper), PAPER: of_tables(paper)}
    runs = [run for run in runs_of(found, FIG10) if run["kind"] == SIMULATED and not run["breakdown"]]
    return steps | ({SIMULATED: of_runs(runs)} if runs else {})


@framed
def messages(found: Results) -> Iterator[dict[str, Any]]:
    """Seconds of a message, of every kind, and the paper's line at the same sizes."""
    paper, sizes = published(), set()
    for run in runs_of(found, FIG8):
        for point in run["result"]["points"]:
            sizes.add(point["bytes"])
            yield {"kind": run["kind"], "seed": run["seed"], "bytes": point["bytes"], "seconds": point["mean_s"]}
    for size in sorted(sizes):
        yield {"kind": PAPER, "seed": 0, "bytes": size, "seconds": paper.alpha_s + paper.beta_s * size}


@framed
def collectives(found: Results) -> Iterator[dict[str, Any]]:
    """Seconds of the collectives of Figure 9 run and by the formulas, which are what the paper draws."""
    paper, places = published(), set()
    for run in runs_of(found, FIG9):
        for row in run["result"]["rows"]:
            algorithm, size, ranks = NAMES[row["algorithm"]], row["bytes"], row["ranks"]
            for panel, x in _panels(size, ranks):
                places.add((panel, x, algorithm, ranks, size))
                about = {"panel": panel, "x": x, "algorithm": algorithm, "kind": run["kind"], "seed": run["seed"]}
                yield about | {"seconds": row["seconds"]["median"]}
    for panel, x, algorithm, ranks, size in sorted(places):
        k = selected(round(size / 4), DENSITY)
        seconds = FORMS[algorithm](ranks, size, k, paper.alpha_s, paper.beta_s)
        yield {"panel": panel, "x": x, "algorithm": algorithm, "kind": MODEL, "seed": 0, "seconds": seconds}


def _panels(size: float, ranks: int) -> Iterator[tuple[str, float]]:
    """In which panels of Figure 9 a gradient of so many bytes stands, and where; one worker alone sends nothing."""
    if size == 100e6 and ranks > 1:
        yield WORKERS_PANEL, ranks
    if ranks == MOST:
        yield SIZE_PANEL, size / 1e6


@framed
def efficiency(found: Results) -> Iterator[dict[str, Any]]:
    """Scaling efficiency, equation (4), in percent: Figure 10."""
    for kind, steps in sources(found).items():
        for model, algorithm, workers in sorted(steps.seconds, key=lambda place: (MODELS.index(place[0]), *place[1:])):
            share = steps.efficiency(model, algorithm, workers)
            if share is not None and workers > 1:
                about = {"kind": kind, "model": model, "algorithm": algorithm, "workers": str(workers)}
                yield about | {"percent": 100 * share}


@framed
def speedups(found: Results) -> Iterator[dict[str, Any]]:
    """gTop-k's speed-up with 32 workers as Table VII prints it, by the time model, and simulated."""
    printed = published().ratios
    for over in ("Dense", "Top-k"):
        for model in MODELS:
            for kind, steps in sources(found).items():
                value = printed[model, over] if kind == PAPER else steps.speedup(model, "gTop-k", over, MOST)
                if value is not None:
                    yield {"over": f"gTop-k over {over}", "model": model, "kind": kind, "speedup": value}


@framed
def throughput(found: Results) -> Iterator[dict[str, Any]]:
    """Table VII beside time model and simulation, and the network that would make the time model print it."""
    paper, steps = published(), sources(found)
    for model in MODELS:
        for algorithm in ALGORITHMS:
            line = {kind: each.throughput(model, algorithm, MOST) for kind, each in steps.items()}
            printed, seconds = steps[PAPER], steps[MODEL].seconds
            yield {"model": model, "algorithm": algorithm, SIMULATED: None} | line | {
                "model_over_paper": printed.seconds[model, algorithm, MOST] / seconds[model, algorithm, MOST],
                "efficiency": 100 * known(printed.efficiency(model, algorithm, MOST)),
                "mbit": paper.implied_mbit(model, algorithm),
            }  # fmt: skip


@framed
def breakdown(found: Results) -> Iterator[dict[str, Any]]:
    """Figure 11: seconds of the parts of an iteration, simulated; of Table VII's, what Table VI leaves is one part."""
    paper, steps = published(), sources(found)
    simulated = steps[SIMULATED].parts if SIMULATED in steps else {}
    for model in MODELS:
        about = {"model": model, "algorithm": "gTop-k"}
        for part in PARTS if (model, "gTop-k", MOST) in simulated else ():
            seconds = simulated[model, "gTop-k", MOST][part]
            yield about | {"kind": SIMULATED, "part": part, "seconds": seconds}
        rest = steps[PAPER].seconds[model, "gTop-k", MOST] - paper.iteration_s[model]
        yield about | {"kind": PAPER, "part": PARTS[0], "seconds": paper.iteration_s[model]}
        yield about | {"kind": PAPER, "part": "all else", "seconds": rest}


TABLES = {
    "messages": messages, "collectives": collectives, "efficiency": efficiency, "speedups": speedups,
    "throughput": throughput, "breakdown": breakdown,
}  # fmt: skip
