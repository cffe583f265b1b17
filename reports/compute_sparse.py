"""How ours is computed for gTop-k's claims about convergence, lost gradients, collectives, messages and selection."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from repro.reporting.stats import TIMES
from repro.reports.compute import Outcome, _paired, _ratio, final, function, probe_function
from repro.reports.compute_timing import _range, by_seed, median
from repro.reports.groups import Group
from repro.reports.loading import Summary
from repro.reports.probes import ProbeGroup
from repro.reports.sparse_forms import ALGORITHMS

Row = dict[str, Any]  # an entry of a probe's result.rows
WORD = 4  # bytes

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
    found = _paired(group, [setting, over], behind)
    if found.values and all(math.isnan(value) for value in found.values.values()):
        return Outcome(reason=f"the loss of {over} did not fall between its first stop and its last")
    return found


@function
def metric_ratio(group: Group, setting: str, over: str) -> Outcome:
    """Final metric of `setting` / that of `over`, seed by seed: for metrics that fall, as perplexity."""
    return _paired(group, [setting, over], lambda one, base: _ratio(final(one), final(base)))


@function
def lost_share(group: Group, setting: str, what: str = "lost_mass") -> Outcome:
    """Sum of |values lost| (or `dropped_mass`: dropped at merges) / sum of |values sent|, over ranks and steps."""
    if not all((run.get("counters") or {}).get("sent_mass") for run in group.runs(setting).values()):
        return Outcome(reason=f"no masses counted for {setting}")
    return _paired(group, [setting], lambda one: one["counters"].get(what, 0.0) / one["counters"]["sent_mass"])


@function
def extra_compression(group: Group, setting: str, over: str) -> Outcome:
    """(compression of `setting` - that of `over`) / communication of `setting`, all on the main line."""
    return _paired(
        group,
        [setting, over],
        phases=True,
        number=lambda one, base: _ratio(
            max(0.0, one["phases"]["compress"] - base["phases"]["compress"]),
            one["phases"]["communicate"] + one["phases"]["wait"],
        ),
    )


# --- messages between two workers (Figure 8)


@probe_function("p2p")
def fit_error(group: ProbeGroup) -> Outcome:
    """Relative error of the fit of alpha + beta bytes to the measured times."""
    return by_seed(
        group, lambda runs: median(c["result"]["fit"]["relative_error"] for c in runs), "no fit", _places(group)
    )


@probe_function("p2p")
def fitted(group: ProbeGroup, what: str) -> Outcome:
    """A fitted parameter: alpha_s or beta_s_per_byte, in milliseconds (a byte)."""
    return by_seed(group, lambda runs: median(1e3 * c["result"]["fit"][what] for c in runs), "no fit", _places(group))


def _places(group: ProbeGroup) -> str:
    return ", ".join(dict.fromkeys(run["testbed"] for run in group.summaries))


# --- collectives (Table I, Figure 9)


def rows(runs: list[Summary], algorithm: str | None = None) -> Iterator[Row]:
    """The rows of sparse_collectives runs, each collective once: later runs before earlier ones do not matter."""
    for run in runs:
        for row in run["result"]["rows"]:
            if algorithm is None or row["algorithm"] == algorithm:
                yield row


def _at(runs: list[Summary], algorithm: str, ranks: int, size: float | None) -> Row | None:
    """The row of an algorithm, world and gradient; without a size that of 100 MB, else the largest."""
    found = [row for row in rows(runs, algorithm) if row["ranks"] == ranks]
    if size is not None:
        found = [row for row in found if row["bytes"] == size]
    return min(found, key=lambda row: (abs(row["bytes"] - PAPER_BYTES), row["bytes"]), default=None)


PAPER_BYTES = 100e6  # Figure 9, left


def _seconds(row: Row) -> float:
    return row["seconds"]["median"]


@probe_function("sparse_collectives")
def table1_ratio(group: ProbeGroup, algorithm: str) -> Outcome:
    """Seconds of a collective run / Table I's formula for it with the network's alpha and beta; median over rows.

    Only worlds that are powers of two, which the formulas are for.
    """

    def ratios(runs: list[Summary]) -> list[float]:
        found = [row for row in rows(runs, algorithm) if row["ranks"] & (row["ranks"] - 1) == 0]
        return [_seconds(row) / row["closed_form_s"] for row in found if row["closed_form_s"]]

    every = ratios(list(group.summaries))
    note = f"{_range(every)} over {len(every)} collectives" if every else ""
    return by_seed(group, lambda runs: median(ratios(runs)), f"no {ALGORITHMS[algorithm]} collectives", note)


@probe_function("sparse_collectives")
def collective_speedup(group: ProbeGroup, of: str, over: str, ranks: int) -> Outcome:
    """Seconds of `over` / those of `of`, same gradient (100 MB, or the nearest to it that was run), `ranks` workers."""

    def ratio(runs: list[Summary]) -> float | None:
        one, base = (_at(runs, name, ranks, None) for name in (of, over))
        return _ratio(_seconds(base), _seconds(one)) if one and base and one["bytes"] == base["bytes"] else None

    return by_seed(group, ratio, f"not run with {ranks} workers", "")


@probe_function("sparse_collectives")
def collective_growth(group: ProbeGroup, algorithm: str, by: str) -> Outcome:
    """(seconds / unit) with most workers / the same with fewest; unit: log2 P or P - 1. Near 1: it grows like that.

    by `bytes`: seconds a byte of the gradient, the largest against the smallest, in the largest world with several.
    """
    if by not in ("log2 P", "P - 1", "bytes"):
        return Outcome(reason=f"by is '{by}', not log2 P, P - 1 or bytes")

    def growth(runs: list[Summary]) -> float | None:
        found = list(rows(runs, algorithm))
        if by == "bytes":
            chain = _several(found, "ranks", "bytes")
            units = {id(row): row["bytes"] for row in chain}
        else:
            powers = [row for row in found if row["ranks"] & (row["ranks"] - 1) == 0 and row["ranks"] > 1]
            chain = _several(powers, "bytes", "ranks")
            units = {id(row): math.log2(row["ranks"]) if by == "log2 P" else row["ranks"] - 1 for row in chain}
        if len(chain) < 2:
            return None
        first, last = chain[0], chain[-1]
        return (_seconds(last) / units[id(last)]) / (_seconds(first) / units[id(first)])

    return by_seed(group, growth, f"{ALGORITHMS[algorithm]} was not run at several sizes", "")


@probe_function("sparse_collectives")
def advantage_growth(group: ProbeGroup, of: str, over: str, by: str) -> Outcome:
    """(seconds of `over` / of `of`) at the most workers or bytes / the same at the fewest; above 1: it grows."""
    same, along = ("bytes", "ranks") if by == "ranks" else ("ranks", "bytes")

    def growth(runs: list[Summary]) -> float | None:
        one = _several([row for row in rows(runs, of) if row["ranks"] > 1], same, along)
        base = {(row["ranks"], row["bytes"]): row for row in rows(runs, over)}
        both = [(row, base[row["ranks"], row["bytes"]]) for row in one if (row["ranks"], row["bytes"]) in base]
        if len(both) < 2:
            return None
        first, last = (_seconds(b) / _seconds(a) for a, b in (both[0], both[-1]))
        return last / first

    return by_seed(group, growth, f"{ALGORITHMS[of]} and {ALGORITHMS[over]} were not run at several {by}", "")


def _several(found: list[Row], same: str, along: str) -> list[Row]:
    """Of rows equal in `same` those with most values of `along`, in its order; the larger `same` where tied."""
    chains: dict[Any, dict[Any, Row]] = {}
    for row in found:
        chains.setdefault(row[same], {})[row[along]] = row
    if not chains:
        return []
    best = max(chains, key=lambda value: (len(chains[value]), value))
    return [chains[best][value] for value in sorted(chains[best])]


@probe_function("sparse_collectives")
def words_on_wire(group: ProbeGroup, algorithm: str = "gtopk") -> Outcome:
    """Words of 4 bytes that a message holds for each gradient selected, of the bytes counted on the wire."""

    def words(runs: list[Summary]) -> list[float]:
        return [row["wire_bytes"] / (WORD * row["k"]) for row in rows(runs, algorithm) if row["wire_bytes"]]

    every = words(list(group.summaries))
    note = f"{_range(every)} over {len(every)} collectives" if every else ""
    return by_seed(group, lambda runs: median(words(runs)), "no bytes counted", note)


@probe_function("sparse_collectives")
def message_reduction(group: ProbeGroup, algorithm: str = "gtopk") -> Outcome:
    """Bytes of the dense gradient / bytes of a sparse message."""

    def factors(runs: list[Summary]) -> list[float]:
        return [row["bytes"] / row["wire_bytes"] for row in rows(runs, algorithm) if row["wire_bytes"]]

    every = factors(list(group.summaries))
    note = f"{_range(every, TIMES)} over {len(every)} collectives" if every else ""
    return by_seed(group, lambda runs: median(factors(runs)), "no bytes counted", note)


# --- selection (Figure 11)


def selections(runs: list[Summary], model: str, method: str, on_gpu: bool) -> list[Row]:
    """The rows of a model and method on a GPU, or on a CPU."""
    every = [row for run in runs for row in run["result"]["rows"]]
    return [r for r in every if r["model"] == model and r["method"] == method and is_gpu(r) == on_gpu]


def is_gpu(row: Row) -> bool:
    return not str(row["device"]).lower().startswith("cpu")


@probe_function("selection")
def selection_share(group: ProbeGroup, model: str, method: str = "exact", gpu: bool = False) -> Outcome:
    """Seconds of selecting k gradients / the published seconds of an iteration's computation (Table VI)."""
    return by_seed(
        group,
        lambda runs: median(_seconds(row) / row["iteration_s"] for row in selections(runs, model, method, gpu)),
        f"no {method} selection of {model} on a {'GPU' if gpu else 'CPU'}",
        f"selection on {_devices(group, gpu)}; iteration: Table VI, P102-100",
    )


@probe_function("selection")
def gpu_gain(group: ProbeGroup, model: str, method: str = "exact") -> Outcome:
    """Seconds of selecting on the CPU / on the GPU."""

    def gain(runs: list[Summary]) -> float | None:
        cpu, gpu = (median(map(_seconds, selections(runs, model, method, on))) for on in (False, True))
        return cpu / gpu if cpu and gpu else None

    return by_seed(group, gain, f"no {method} selection of {model} on both CPU and GPU", "")


def _devices(group: ProbeGroup, gpu: bool) -> str:
    found = dict.fromkeys(str(r["device"]) for c in group.summaries for r in c["result"]["rows"] if is_gpu(r) == gpu)
    return ", ".join(found)


# --- steps on limited links (Table VII with few workers)


@probe_function("validation")
def step_speedup(group: ProbeGroup, of: str, over: str, workers: int, parameters: int) -> Outcome:
    """Step time of `over` / that of `of` with a model of about so many parameters (within 2 %)."""

    def ratio(runs: list[Summary]) -> float | None:
        found: dict[str, list[float]] = {}
        for run in runs:
            for row in run["result"]["rows"]:
                if run["workers"] == workers and abs(row["bytes"] / (WORD * parameters) - 1) < 0.02:
                    found.setdefault(row["setting"], []).append(row["observed_s"]["median"])
        one, base = (median(found.get(name, ())) for name in (of, over))
        return base / one if one and base else None

    reason = f"no steps of {of} and {over} with {workers} workers and {parameters:,} parameters"
    return by_seed(group, ratio, reason, "")
