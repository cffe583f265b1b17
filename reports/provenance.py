"""What a page's numbers were made with, computed from the summaries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from repro.reporting.stats import DASH
from repro.reports.groups import Group, finished, optimizer
from repro.reports.loading import Summary, origin
from repro.reports.probes import ProbeGroup

if TYPE_CHECKING:
    import pandas as pd

Value = Callable[[Group | ProbeGroup], str]


def header(groups: Mapping[tuple[str, str], Group | ProbeGroup]) -> pd.DataFrame:
    """A row an experiment and kind, a column a property."""
    import pandas as pd

    columns: list[tuple[str, Value]] = [
        ("hardware", _hardware),
        ("network", _network),
        ("launcher", lambda g: ", ".join(_all(g, "launcher"))),
        ("data set", _dataset),
        ("model", lambda g: " / ".join(sorted({_model(c) for c in g.used()}))),
        ("workers, global batch", lambda g: ", ".join(_all(g, "workers", "batch"))),
        ("optimizer", lambda g: _optimizer(g.first) if isinstance(g, Group) else DASH),
        ("epochs, iterations", _length),
        ("scale", lambda g: ", ".join(_all(g, "scale"))),
        ("done", lambda g: f"{len(g.covered())} variants" if isinstance(g, Group) else f"{len(g.summaries)} runs"),
        ("seeds", _seeds),
        ("results", lambda g: origin(g.used())),
        ("commit", _commits),
        ("finished", _dates),
    ]
    rows = [
        {"experiment": name, "kind": kind, **{title: value(group) for title, value in columns}}
        for (name, kind), group in groups.items()
    ]
    return pd.DataFrame(rows, columns=["experiment", "kind", *(title for title, _ in columns)])


def versions(groups: Iterable[Group | ProbeGroup]) -> list[str]:
    """The versions of Python, PyTorch and so on that the shown results were made with, each once."""
    return sorted({_versions(run) for group in groups for run in group.used()})


def _all(group: Group | ProbeGroup, *names: str) -> list[str]:
    """For each name its values in the group's runs; numbers by size."""
    found = [{c.get(name, DASH) for c in group.used()} for name in names]
    return [" / ".join(map(str, sorted(some, key=lambda v: (isinstance(v, str), v)))) for some in found]


def _network(group: Group | ProbeGroup) -> str:
    if group.kind != "simulated":
        return str(group.first["hardware"].get("network") or DASH)
    return f"modelled: {', '.join(_all(group, 'testbed'))}"


def _model(run: Summary) -> str:
    model = run.get("model")
    if not isinstance(model, Mapping):
        return str(model or DASH)
    count = model.get("parameters")
    return str(model.get("name") or "no model") + (f", {_count(count)} parameters" if count is not None else "")


def _optimizer(run: Summary) -> str:
    """`lr 0.1, momentum 0`, and the schedule of the learning rate where it is not constant."""
    shown = {name: value for name, value in optimizer(run).items() if value is not None}
    return ", ".join(f"{k} {v:g}" if isinstance(v, int | float) else f"{k} {v}" for k, v in shown.items())


def _length(group: Group | ProbeGroup) -> str:
    if isinstance(group, ProbeGroup):
        return DASH
    counts = " or ".join(f"{n:,}" for n in sorted({c["iterations"] for c in group.used()}))
    return f"{group.first['epochs']:g}, {counts}"


def _count(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else DASH


def _machine(run: Summary) -> str:
    h = run["hardware"]
    parts = [
        h.get("cpu"),
        f"{h['cores']} cores" if h.get("cores") else None,
        f"{h['memory_gb']:g} GB" if h.get("memory_gb") else None,
        h.get("gpu") or "no GPU",
    ]
    return ", ".join(str(part) for part in parts if part) + f" ({h['class']})"


def _hardware(group: Group | ProbeGroup) -> str:
    machines = " / ".join(sorted({_machine(run) for run in group.used()}))
    if group.kind != "simulated":
        return machines
    devices = {((c.get("testbed_model") or {}).get("device") or {}).get("name") or c["testbed"] for c in group.used()}
    return f"modelled: {' / '.join(sorted(devices))}; computed on {machines}"


def _dataset(group: Group | ProbeGroup) -> str:
    """Name, size and what else the run says of the data (image size, classes)."""
    found = []
    for run in group.used():
        data = run.get("dataset")
        if not isinstance(data, Mapping) or not data.get("name"):
            continue
        text = data["name"] + (" (STAND-IN)" if data.get("standin") else "")
        if data.get("train") is not None:
            text += f", {_count(data['train'])} training and {_count(data.get('test'))} test examples"
        found.append(text + "".join(f", {key} {value}" for key, value in _shape(data)))
    return " / ".join(sorted(set(found))) or DASH


def _shape(data: Mapping[str, Any]) -> list[tuple[str, Any]]:
    known = {"name", "standin", "checksum", "train", "test"}
    return [
        (key.replace("_", " "), value) for key, value in sorted(data.items()) if key not in known and value is not None
    ]


def _seeds(group: Group | ProbeGroup) -> str:
    seeds = ", ".join(str(seed) for seed in group.seeds())
    if isinstance(group, ProbeGroup):
        return f"{len(group.seeds())} ({seeds})"
    counts = {name: len(group.runs(name)) for name in group.covered()}
    if len(set(counts.values())) <= 1:
        return f"{max(counts.values(), default=0)} ({seeds})"
    return f"{min(counts.values())} to {max(counts.values())} a variant ({seeds})"


def _commits(group: Group | ProbeGroup) -> str:
    found: dict[str, bool] = {}
    for run in group.used():
        commit = str(run["provenance"].get("commit") or "unknown")[:10]
        found[commit] = found.get(commit, False) or bool(run["provenance"].get("dirty"))
    return ", ".join(name + (" + uncommitted changes" if dirty else "") for name, dirty in sorted(found.items()))


def _dates(group: Group | ProbeGroup) -> str:
    ends = sorted(finished(c)[:19] for c in group.used())
    return ends[0] if ends[0] == ends[-1] else f"{ends[0]} to {ends[-1]}"


def _versions(run: Summary) -> str:
    return ", ".join(f"{k} {v}" for k, v in sorted((run["provenance"].get("versions") or {}).items()) if v)
