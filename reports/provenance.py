"""What a page's numbers were made with, and how that differs from the paper: both computed from the summaries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from repro.reporting.stats import DASH
from repro.reports.groups import Group, finished, optimizer
from repro.reports.loading import Summary, origin
from repro.reports.pipesgd.experiments import Row
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
    if group.kind == "measured":
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
    if group.kind == "measured":
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
    found = {}
    for run in group.used():
        commit = str(run["provenance"].get("commit") or "unknown")[:10]
        found[commit] = found.get(commit, False) or bool(run["provenance"].get("dirty"))
    return ", ".join(name + (" + uncommitted changes" if dirty else "") for name, dirty in sorted(found.items()))


def _dates(group: Group | ProbeGroup) -> str:
    ends = sorted(finished(c)[:19] for c in group.used())
    return ends[0] if ends[0] == ends[-1] else f"{ends[0]} to {ends[-1]}"


def _versions(run: Summary) -> str:
    return ", ".join(f"{k} {v}" for k, v in sorted((run["provenance"].get("versions") or {}).items()) if v)


def run_deviations(training: Mapping[str, Mapping[str, Group]], rows: Sequence[Row]) -> list[tuple[str, str]]:
    """(how runs of Figure 4 differ from the paper, which runs do), each difference once."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for kind, group in training[row.name].items():
            for line in deviations(group, row.stated):
                found.setdefault(line, []).append(f"{row.label} {kind}")
    return [(line, ", ".join(where)) for line, where in found.items()]


def deviations(group: Group, paper: Mapping[str, Any]) -> list[str]:
    """How a group's runs differ from the paper, as far as the summaries tell; `paper` is what the paper states."""
    one, kind = group.first, group.kind
    data, hardware, model = one["dataset"], one["hardware"], one["model"]
    found = []
    if data["standin"]:
        found.append(f"Data: {data['name']} stands in for {paper['dataset']}; its accuracies are not compared.")
    for part in ("train", "test"):
        if data.get(part) is not None and data[part] != paper[part]:
            found.append(f"Data: {data[part]:,} {part} examples; the paper {paper[part]:,}.")
    if data.get("classes") not in (None, paper.get("classes")):
        found.append(f"Data: {data['classes']:,} classes; the paper {paper.get('classes', 0):,}.")
    if data.get("input_shape") and list(data["input_shape"])[-2:] != list(paper.get("image", ())):
        ours, theirs = (" x ".join(map(str, size)) for size in (data["input_shape"][-2:], paper.get("image", ())))
        found.append(f"Data: the network's input is {ours} pixels; the paper's images have {theirs}.")
    if "parameters" in paper and model.get("parameters") is not None and model["parameters"] != paper["parameters"]:
        found.append(
            f"Model: {model['parameters']:,} parameters (inputs of another width); the paper's have "
            f"{paper['parameters']:,}."
        )
    for name in ("workers", "batch"):
        if name in paper and one[name] != paper[name]:
            found.append(f"{name.capitalize()}: {one[name]}; the paper {paper[name]}.")
    warmups = {c["options"].get("warmup_epochs", 0) for c in group.used() if c["strategy"] == "pipe_sgd"}
    if warmups and warmups != {paper.get("warmup_epochs", 0)}:
        shown = " or ".join(f"{epochs:g}" for epochs in sorted(warmups))
        found.append(f"Warm-up: {shown} epochs of D-Sync; the paper {paper.get('warmup_epochs', 0)}.")
    if group.timing_only:
        found.append(
            f"Time only: {max(c['iterations'] for c in group.used()):,} iterations in steady state, without "
            "arithmetic, so without accuracies."
        )
    else:
        found.append(f"Epochs: {one['epochs']:g} (scale {one.get('scale', 'unknown')}); the paper gives no number.")
        found.append(f"Optimizer: {_optimizer(one)}; the paper gives none of these.")
    counts = sorted({len(group.runs(name)) for name in group.covered()})
    found.append(
        f"Seeds: {' to '.join(map(str, dict.fromkeys((counts[0], counts[-1]))))} a variant; the paper prints "
        "single values and names no seeds."
    )
    if missing := [name for name in group.variants if name not in group.covered()]:
        found.append(f"Not run: {', '.join(missing)}.")
    if kind == "measured":
        cores, ranks = hardware.get("cores"), max(c.get("ranks", c["workers"]) for c in group.used())
        found.append(
            f"Hardware: {_machine(one)}, {hardware.get('network') or 'network unknown'}; the paper: "
            f"{paper['hardware']}."
        )
        if cores and not hardware.get("gpu") and ranks > cores:
            found.append(
                f"Up to {ranks} ranks (a parameter server counted in) share {cores} cores: computation "
                "and communication compete for them, so that hiding one behind the other gains less than it "
                "would on machines of their own."
            )
        if hardware.get("gpu") and group.first["workers"] > 1 and " x 1" in str(hardware["gpu"]):
            found.append(f"{one['workers']} workers share one GPU.")
    else:
        computed = "nothing is computed" if group.timing_only else "the gradients are really computed"
        found.append(f"Time is modelled by the testbed {one['testbed']} (parameters below), not measured; {computed}.")
    return found
