"""Tables of provenance: a row for each group of runs, a column for each property with all values of these runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from repro.answers.claims.stats import DASH, TIMES
from repro.core.registry import home_module
from repro.records.kinds import SIMULATED
from repro.records.rebased import read_rebased
from repro.records.record import TrainResult
from repro.records.variants import finished_at

if TYPE_CHECKING:
    from repro.answers.tables.runs import Runs
    from repro.records.record import Found

Group = tuple[dict[str, str], "Sequence[Found]"]  # first columns of a row, and its runs
REBASED = "rebased away"  # column: runs whose commit the history no longer has
SHOWN = ("hardware", "network", "launcher", "data set", "model", "workers", "batch", "optimizer", "epochs",
         "iterations", "scale", "runs", REBASED, "seed", "results", "commit", "finished")  # fmt: skip
OTHERS = ("variant", "testbed", "launcher", "hardware", "data set", "options", "epochs", "batch", "scale", "seed",
          "finished")  # fmt: skip
# what a page has room for; the CSV has all
ON_PAGE = ("experiment", "kind", "claims", "runs", "hardware", "network", "data set", "commit", REBASED)
BETWEEN, LISTED = " / ", 3  # between values of a cell; how many of them a page lists
OTHERS_ON_PAGE = ("experiment", "kind", "variant", "testbed", "data set", "scale", "finished")


def of_groups(groups: Mapping[tuple[str, str], Runs], claims: Callable[[str, str], str]) -> pd.DataFrame:
    """The shown runs by experiment and kind, with the claims that they are evidence for."""
    return table(
        ({"experiment": name, "kind": kind, "claims": claims(name, kind)}, [*group.records.values()])
        for (name, kind), group in groups.items()
    )


def others(groups: Iterable[Runs]) -> pd.DataFrame:
    """The runs that no figure of the page shows."""
    rows = (
        ({"experiment": group.first.identity.experiment, "kind": group.kind}, [*group.records.values()])
        for group in groups
    )
    return table(rows, OTHERS)


def for_page(rows: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """These columns of a table for a page: rows with claims first, and a few of a cell's values."""

    def few(cell: str) -> str:
        values = cell.split(BETWEEN)
        more = len(values) - LISTED
        return cell if more <= 1 else f"{BETWEEN.join(values[:LISTED])} and {more} more"

    if rows.empty:
        return rows
    if "claims" in rows:
        rows = rows.sort_values("claims", key=lambda claims: claims == DASH, kind="stable")
    return rows[[*columns]].map(few)


def group_by(names: Sequence[str], runs: Iterable[Found]) -> list[Group]:
    """The runs grouped by these properties (`PROPERTIES`), in order."""
    groups: dict[tuple[str, ...], list[Found]] = {}
    for run in runs:
        groups.setdefault(tuple(str(PROPERTIES[name](run)) for name in names), []).append(run)
    return [(dict(zip(names, values)), group) for values, group in groups.items()]


def table(rows: Iterable[Group], columns: Sequence[str] = SHOWN) -> pd.DataFrame:
    """A row of text for each group of runs."""
    rebased = read_rebased() if REBASED in columns else frozenset()
    return pd.DataFrame([head | {name: _values(name, runs, rebased) for name in columns} for head, runs in rows])


def versions(runs: Iterable[Found]) -> list[str]:
    """The versions of Python, PyTorch and other libraries in the provenance of the runs, each combination once."""
    every = (run.provenance.get("versions") or {} for run in runs)
    return sorted(
        {", ".join(f"{name} {value}" for name, value in sorted(entries.items()) if value) for entries in every}
    )


def _values(name: str, runs: Sequence[Found], rebased: Collection[str]) -> str:
    """The distinct values of the runs, sorted. rebased: commits that the history no longer has."""
    if name == "runs":
        return str(len(runs))
    if name == REBASED:
        count = sum(run.provenance.get("commit") in rebased for run in runs)
        return f"{count} of {len(runs)}" if count else DASH
    values = {PROPERTIES[name](run) for run in runs} - {None, ""}
    return BETWEEN.join(map(str, sorted(values, key=lambda value: (isinstance(value, str), value)))) or DASH


def _hardware(run: Found) -> str:
    hardware = run.record.hardware
    more = hardware.more
    parts = [more.get("cpu"), hardware.cores and f"{hardware.cores} cores"]
    parts += [more.get("memory_gb") and f"{more['memory_gb']:g} GB", more.get("gpu") or "no GPU"]
    if shared := more.get("gpu_shared_by"):
        through = more.get("gpu_shared_through")
        parts.append(f"{shared} ranks on a GPU" + (f" by {through}" if through else ""))
    machine = f"{', '.join(str(part) for part in parts if part)} ({hardware.class_})"
    if run.kind != SIMULATED:
        return machine
    testbed = run.identity.testbed
    device = (testbed.parameters.get("device") or {}).get("name") or testbed.name
    return f"modelled: {device}; computed on {machine}"


def _network(run: Found) -> str | None:
    simulated = run.kind == SIMULATED
    return f"modelled: {run.identity.testbed.name}" if simulated else run.record.hardware.more.get("network")


def _model(run: Found) -> str:
    name = run.model_name or "no model"
    return f"{name}, {run.parameters:,} parameters" if isinstance(run.parameters, int) else name


def _data(run: Found) -> str:
    """Name, number of examples, and other properties of the data in the record (image size, classes)."""
    data = run.dataset
    if data is None or not data.name:
        return ""
    counts = [f"{data.more[part]:,} {part}" for part in ("train", "test") if isinstance(data.more.get(part), int)]
    others = sorted(data.more.keys() - {"checksum", "train", "test"})
    more = [f"{name.replace('_', ' ')} {_shape(data.more[name])}" for name in others if data.more[name] is not None]
    return ", ".join([data.name + (" (STAND-IN)" if data.standin else ""), *counts, *more])


def _shape(value: Any) -> Any:
    """`1×28×28` for a list."""
    return TIMES.join(map(str, value)) if isinstance(value, list) else value


def _optimizer(run: Found) -> str:
    """`lr 0.1, momentum 0`, and the schedule of the learning rate if it is not constant."""
    effective = home_module("optimizer").effective_optimizer
    return _joined(effective(run.identity.optimizer), " ", ", ") if run.identity.trains else ""


def _joined(entries: Mapping[str, Any], between: str, after: str) -> str:
    return after.join(f"{name}{between}{value:g}" if isinstance(value, float) else f"{name}{between}{value}"
                      for name, value in entries.items())  # fmt: skip


def _commit(run: Found) -> str:
    commit = str(run.provenance.get("commit") or "unknown")[:10]
    return commit + (" + uncommitted changes" if run.provenance.get("dirty") else "")


def _of_training(name: str) -> Callable[[Found], Any]:
    """An entry of a training's result; None for a probe."""
    return lambda run: getattr(run.record.result, name) if isinstance(run.record.result, TrainResult) else None


PROPERTIES: Mapping[str, Callable[[Found], Any]] = {
    "experiment": lambda run: run.identity.experiment,
    "variant": lambda run: run.label,
    "testbed": lambda run: run.identity.testbed.name,
    "launcher": lambda run: run.identity.testbed.launcher,
    "scale": lambda run: run.identity.scale,
    "seed": lambda run: run.identity.seed,
    "workers": lambda run: run.identity.workers,
    "batch": lambda run: run.identity.batch,
    "epochs": lambda run: run.identity.epochs if run.identity.trains else None,
    "iterations": _of_training("iterations"),
    "hardware": _hardware,
    "network": _network,
    "model": _model,
    "data set": _data,
    "optimizer": _optimizer,
    "commit": _commit,
    "results": lambda run: run.origin,
    "finished": lambda run: finished_at(run)[:10],
    "torch": lambda run: (run.provenance.get("versions") or {}).get("torch"),
    "options": lambda run: _joined(run.identity.strategy.options, "=", " "),
    "strategy's own arithmetic": lambda run: (
        "costs nothing in this simulation" if _of_training("free_arithmetic")(run) else None
    ),
}
