"""Tables of provenance: a row for each group of runs, a column for each property with all values of these runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from repro.answers.claims.stats import DASH, TIMES
from repro.answers.tables.loading import Summary
from repro.answers.tables.selection import optimizer
from repro.records.variants import finished_at

if TYPE_CHECKING:
    from repro.answers.tables.runs import Runs

Group = tuple[dict[str, str], Sequence[Summary]]  # first columns of a row, and its runs
SHOWN = ("hardware", "network", "launcher", "data set", "model", "workers", "batch", "optimizer", "epochs",
         "iterations", "scale", "runs", "seed", "results", "commit", "finished")  # fmt: skip
OTHERS = ("variant", "testbed", "launcher", "hardware", "data set", "options", "epochs", "batch", "scale", "seed",
          "finished")  # fmt: skip


def of_groups(groups: Mapping[tuple[str, str], Runs], claims: Callable[[str, str], str]) -> pd.DataFrame:
    """The shown runs by experiment and kind, with the claims that they are evidence for."""
    return table(
        ({"experiment": name, "kind": kind, "claims": claims(name, kind)}, [*group.records.values()])
        for (name, kind), group in groups.items()
    )


def others(groups: Iterable[Runs]) -> pd.DataFrame:
    """The runs that no figure of the page shows."""
    rows = (
        ({"experiment": group.first["experiment"], "kind": group.kind}, [*group.records.values()]) for group in groups
    )
    return table(rows, OTHERS)


def by(names: Sequence[str], runs: Iterable[Summary]) -> list[Group]:
    """The runs grouped by these entries, in order."""
    groups: dict[tuple[str, ...], list[Summary]] = {}
    for run in runs:
        groups.setdefault(tuple(str(run[name]) for name in names), []).append(run)
    return [(dict(zip(names, values)), of) for values, of in groups.items()]


def table(rows: Iterable[Group], columns: Sequence[str] = SHOWN) -> pd.DataFrame:
    """A row of text for each group of runs."""
    return pd.DataFrame([head | {name: _values(name, runs) for name in columns} for head, runs in rows])


def versions(runs: Iterable[Summary]) -> list[str]:
    """The versions of Python, PyTorch and other libraries in the provenance of the runs, each combination once."""
    every = (run["provenance"].get("versions") or {} for run in runs)
    return sorted({", ".join(f"{name} {value}" for name, value in sorted(of.items()) if value) for of in every})


def _values(name: str, runs: Sequence[Summary]) -> str:
    """The distinct values of the runs, sorted."""
    if name == "runs":
        return str(len(runs))
    values = {OF[name](run) if name in OF else run.get(name) for run in runs} - {None, ""}
    return " / ".join(map(str, sorted(values, key=lambda value: (isinstance(value, str), value)))) or DASH


def _hardware(run: Summary) -> str:
    own = run["hardware"]
    parts = [own.get("cpu"), own.get("cores") and f"{own['cores']} cores"]
    parts += [own.get("memory_gb") and f"{own['memory_gb']:g} GB", own.get("gpu") or "no GPU"]
    if shared := own.get("gpu_shared_by"):
        through = own.get("gpu_shared_through")
        parts.append(f"{shared} ranks on a GPU" + (f" by {through}" if through else ""))
    machine = f"{', '.join(str(part) for part in parts if part)} ({own['class']})"
    if run["kind"] != "simulated":
        return machine
    device = ((run.get("testbed_model") or {}).get("device") or {}).get("name") or run["testbed"]
    return f"modelled: {device}; computed on {machine}"


def _network(run: Summary) -> str | None:
    return f"modelled: {run['testbed']}" if run["kind"] == "simulated" else run["hardware"].get("network")


def _model(run: Summary) -> str:
    model = run.get("model")
    if not isinstance(model, Mapping):
        return str(model or "")
    count = model.get("parameters")
    return str(model.get("name") or "no model") + (f", {count:,} parameters" if isinstance(count, int) else "")


def _data(run: Summary) -> str:
    """Name, number of examples, and other properties of the data in the record (image size, classes)."""
    data = run.get("dataset")
    if not isinstance(data, Mapping) or not data.get("name"):
        return ""
    counts = [f"{data[part]:,} {part}" for part in ("train", "test") if isinstance(data.get(part), int)]
    others = sorted(data.keys() - {"name", "standin", "checksum", "train", "test"})
    more = [f"{name.replace('_', ' ')} {_shape(data[name])}" for name in others if data[name] is not None]
    return ", ".join([data["name"] + (" (STAND-IN)" if data.get("standin") else ""), *counts, *more])


def _shape(value: Any) -> Any:
    """`1×28×28` for a list."""
    return TIMES.join(map(str, value)) if isinstance(value, list) else value


def _optimizer(run: Summary) -> str:
    """`lr 0.1, momentum 0`, and the schedule of the learning rate if it is not constant."""
    return _joined(optimizer(run), " ", ", ") if run.get("optimizer") else ""


def _joined(of: Mapping[str, Any], between: str, after: str) -> str:
    return after.join(f"{name}{between}{value:g}" if isinstance(value, float) else f"{name}{between}{value}"
                      for name, value in of.items())  # fmt: skip


def _commit(run: Summary) -> str:
    own = run["provenance"]
    return str(own.get("commit") or "unknown")[:10] + (" + uncommitted changes" if own.get("dirty") else "")


OF: Mapping[str, Callable[[Summary], Any]] = {
    "hardware": _hardware, "network": _network, "model": _model, "data set": _data, "optimizer": _optimizer,
    "commit": _commit, "results": lambda run: run.get("root"), "finished": lambda run: finished_at(run)[:10],
    "torch": lambda run: (run["provenance"].get("versions") or {}).get("torch"),
    "options": lambda run: _joined(run.get("options") or {}, "=", " "),
    "strategy's own arithmetic": lambda run: "costs nothing in this simulation" if run.get("free_arithmetic") else None,
}  # fmt: skip
