"""How ours is computed for gTop-k's claims about convergence, collectives and selection."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from repro.reporting.evaluate import Outcome, ratio
from repro.reporting.stats import median
from repro.reports.compute import by_seed, function, paired, probe_function
from repro.reports.groups import Group
from repro.reports.loading import Summary
from repro.reports.probes import ProbeGroup

Row = dict[str, Any]  # an entry of a probe's result.rows
Place = tuple[int, float]  # workers, bytes of the gradient


# --- convergence


def losses(run: Summary) -> list[float]:
    """The training losses of a run's stops that have one."""
    return [point["loss"] for point in run["curve"] if point.get("loss") is not None]


def behind(one: Summary, base: Summary) -> float:
    """Training loss of `one` above that of `base` at the end / what `base` descended; NaN where nothing descended."""
    ours, theirs = losses(one), losses(base)
    if not ours or len(theirs) < 2 or theirs[0] <= theirs[-1]:
        return math.nan
    return (ours[-1] - theirs[-1]) / (theirs[0] - theirs[-1])


@function
def loss_gap(group: Group, setting: str, over: str) -> Outcome:
    """Final training loss of `setting` minus that of `over`, in units of what `over`'s loss fell from its first stop.

    Above 0: `setting` converges worse. A curve's loss is the mean since the last stop, as the paper's figures plot it.
    """
    lengths = {run["iterations"] for name in (setting, over) for run in group.runs(name).values()}
    if len(lengths) > 1:
        return Outcome(reason="the variants ran different numbers of iterations")
    found = paired(group, [setting, over], behind)
    if found.values and all(math.isnan(value) for value in found.values.values()):
        return Outcome(reason=f"the loss of {over} did not fall between its first stop and its last")
    return found


@function
def extra_compression(group: Group, setting: str, over: str) -> Outcome:
    """(compression of `setting` - that of `over`) / communication of `setting`, all on the main line."""
    return paired(
        group,
        [setting, over],
        phases=True,
        number=lambda one, base: ratio(
            max(0.0, one["phases"]["compress"] - base["phases"]["compress"]),
            one["phases"]["communicate"] + one["phases"]["wait"],
        ),
    )


# --- collectives (Table I, Figure 9)


def rows(runs: Sequence[Summary], algorithm: str) -> Iterator[Row]:
    """The rows of an algorithm."""
    return (row for run in runs for row in run["result"]["rows"] if row["algorithm"] == algorithm)


def _seconds(row: Row) -> float:
    return row["seconds"]["median"]


def _power(ranks: int) -> bool:
    """Whether it is a power of two, which the formulas are for."""
    return ranks > 1 and ranks & (ranks - 1) == 0


def seconds_of(runs: Sequence[Summary], algorithm: str) -> dict[Place, float]:
    """(workers, bytes of the gradient) -> seconds; one worker alone sends nothing."""
    return {(row["ranks"], row["bytes"]): _seconds(row) for row in rows(runs, algorithm) if row["ranks"] > 1}


def advantage(runs: Sequence[Summary], of: str, over: str) -> dict[Place, float]:
    """Seconds of `over` / those of `of`, where both were run."""
    one, base = seconds_of(runs, of), seconds_of(runs, over)
    return {place: base[place] / seconds for place, seconds in one.items() if place in base}


UNITS: dict[str, Callable[[float], float]] = {"log2 P": math.log2, "P - 1": lambda P: P - 1, "bytes": lambda size: size}


@probe_function("sparse_collectives")
def collective_growth(group: ProbeGroup, algorithm: str, by: str) -> Outcome:
    """(seconds / unit) with most workers / the same with fewest; unit: log2 P or P - 1. Near 1: it grows like that.

    by `bytes`: seconds a byte of the gradient, the largest against the smallest, in the largest world with several.
    """

    def growth(runs: list[Summary]) -> float | None:
        every = {place: s for place, s in seconds_of(runs, algorithm).items() if by == "bytes" or _power(place[0])}
        return _last_over_first([s / UNITS[by](x) for x, s in _line(every, 1 if by == "bytes" else 0)])

    return by_seed(group, growth, f"{algorithm} was not run at several sizes")


@probe_function("sparse_collectives")
def advantage_growth(group: ProbeGroup, of: str, over: str, by: str) -> Outcome:
    """(seconds of `over` / of `of`) at the most workers or bytes / the same at the fewest; above 1: it grows."""

    def growth(runs: list[Summary]) -> float | None:
        return _last_over_first([value for _, value in _line(advantage(runs, of, over), 0 if by == "ranks" else 1)])

    return by_seed(group, growth, f"{of} and {over} were not run at several {by}")


def _line(values: Mapping[Place, float], along: int) -> list[tuple[float, float]]:
    """(workers or bytes, value) of places equal in the other one: where they are most, the larger one where tied."""
    lines: dict[float, dict[float, float]] = {}
    for place, value in values.items():
        lines.setdefault(place[1 - along], {})[place[along]] = value
    return sorted(lines[max(lines, key=lambda same: (len(lines[same]), same))].items()) if lines else []


def _last_over_first(values: Sequence[float]) -> float | None:
    return values[-1] / values[0] if len(values) > 1 else None


# --- selection (Figure 11)


def selections(runs: Sequence[Summary], model: str, method: str, on_gpu: bool) -> list[Row]:
    """The rows of a model and method on a GPU, or on a CPU."""
    every = [row for run in runs for row in run["result"]["rows"]]
    return [r for r in every if (r["model"], r["method"], _is_gpu(r)) == (model, method, on_gpu)]


def _is_gpu(row: Row) -> bool:
    return not str(row["device"]).lower().startswith("cpu")


@probe_function("selection")
def selection_share(group: ProbeGroup, model: str, method: str = "exact", gpu: bool = False) -> Outcome:
    """Seconds of selecting k gradients / the published seconds of an iteration's computation (Table VI)."""
    return by_seed(
        group,
        lambda runs: median(_seconds(row) / row["iteration_s"] for row in selections(runs, model, method, gpu)),
        f"no {method} selection of {model} on a {'GPU' if gpu else 'CPU'}",
    )


@probe_function("selection")
def gpu_gain(group: ProbeGroup, model: str, method: str = "exact") -> Outcome:
    """Seconds of selecting on the CPU / on the GPU."""

    def gain(runs: list[Summary]) -> float | None:
        cpu, gpu = (median(map(_seconds, selections(runs, model, method, on))) for on in (False, True))
        return cpu / gpu if cpu and gpu else None

    return by_seed(group, gain, f"no {method} selection of {model} on both CPU and GPU")
