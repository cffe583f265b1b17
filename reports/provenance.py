"""What a page's numbers were made with, and how that differs from the paper: both computed from the summaries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from reports.groups import Group, Summary, moment
from reports.stats import DASH

if TYPE_CHECKING:
    import pandas as pd

Value = Callable[[Group], str]


def header(groups: Mapping[str, Group]) -> pd.DataFrame:
    """A row a property, a column a kind."""
    import pandas as pd

    rows: list[tuple[str, Value]] = [
        ("clock", lambda g: "wall clock" if g.kind == "measured" else "modelled, virtual"),
        ("hardware", _hardware),
        (
            "network",
            lambda g: (
                str(g.first["hardware"].get("network") or DASH)
                if g.kind == "measured"
                else f"modelled: {g.first['testbed']}"
            ),
        ),
        ("testbed, fabric, launcher", lambda g: ", ".join(_all(g, "testbed", "fabric", "launcher"))),
        ("data set", _dataset),
        ("model", lambda g: f"{g.first['model']['name']}, {_count(g.first['model'].get('parameters'))} parameters"),
        ("workers, global batch", lambda g: f"{g.first['workers']}, {g.first['batch']}"),
        ("optimizer", lambda g: ", ".join(f"{k} {v:g}" for k, v in g.first["optimizer"].items() if v is not None)),
        (
            "epochs, iterations",
            lambda g: (
                f"{g.first['epochs']:g}, " + " or ".join(f"{n:,}" for n in sorted({c["iterations"] for c in g.used()}))
            ),
        ),
        ("scale", lambda g: ", ".join(_all(g, "scale"))),
        ("settings done", lambda g: f"{len(g.covered())} of {len(g.settings)}"),
        ("seeds", _seeds),
        ("commit", _commits),
        ("finished", _dates),
        ("versions", lambda g: "; ".join(sorted({_versions(c) for c in g.used()}))),
    ]
    table = {kind: [value(group) for _, value in rows] for kind, group in groups.items()}
    return pd.DataFrame({"property": [name for name, _ in rows], **table})


def _all(group: Group, *names: str) -> list[str]:
    return [" / ".join(sorted({str(c.get(name, DASH)) for c in group.used()})) for name in names]


def _count(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else DASH


def _machine(cell: Summary) -> str:
    h = cell["hardware"]
    parts = [
        h.get("cpu"),
        f"{h['cores']} cores" if h.get("cores") else None,
        f"{h['memory_gb']:g} GB" if h.get("memory_gb") else None,
        h.get("gpu") or "no GPU",
    ]
    return ", ".join(str(part) for part in parts if part) + f" ({h['class']})"


def _hardware(group: Group) -> str:
    machines = " / ".join(sorted({_machine(cell) for cell in group.used()}))
    if group.kind == "measured":
        return machines
    device = ((group.first.get("testbed_model") or {}).get("device") or {}).get("name")
    return f"modelled: {device or group.first['testbed']}; computed on {machines}"


def _dataset(group: Group) -> str:
    data = group.first["dataset"]
    size = f", {_count(data.get('train'))} training and {_count(data.get('test'))} test examples"
    return data["name"] + (" (STAND-IN)" if data["standin"] else "") + size


def _seeds(group: Group) -> str:
    counts = {name: len(group.runs(name)) for name in group.covered()}
    seeds = ", ".join(str(seed) for seed in group.seeds())
    if len(set(counts.values())) <= 1:
        return f"{max(counts.values(), default=0)} ({seeds})"
    return f"{min(counts.values())} to {max(counts.values())} a setting ({seeds})"


def _commits(group: Group) -> str:
    found = {}
    for cell in group.used():
        commit = str(cell["provenance"].get("commit") or "unknown")[:10]
        found[commit] = found.get(commit, False) or bool(cell["provenance"].get("dirty"))
    return ", ".join(name + (" + uncommitted changes" if dirty else "") for name, dirty in sorted(found.items()))


def _dates(group: Group) -> str:
    ends = sorted(moment(c["provenance"].get("finished_at"))[:19] for c in group.used())
    return ends[0] if ends[0] == ends[-1] else f"{ends[0]} to {ends[-1]}"


def _versions(cell: Summary) -> str:
    return ", ".join(f"{k} {v}" for k, v in sorted((cell["provenance"].get("versions") or {}).items()) if v)


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
    if model.get("parameters") is not None and model["parameters"] != paper["parameters"]:
        found.append(
            f"Model: {model['parameters']:,} parameters (inputs of another width); the paper's have "
            f"{paper['parameters']:,}."
        )
    for name in ("workers", "batch"):
        if one[name] != paper[name]:
            found.append(f"{name.capitalize()}: {one[name]}; the paper {paper[name]}.")
    found.append(f"Epochs: {one['epochs']:g} (scale {one.get('scale', 'unknown')}); the paper gives no number.")
    found.append(
        "Optimizer: "
        + ", ".join(f"{k} {v:g}" for k, v in one["optimizer"].items() if v is not None)
        + "; the paper gives none of these."
    )
    counts = sorted({len(group.runs(name)) for name in group.covered()})
    found.append(
        f"Seeds: {' to '.join(map(str, dict.fromkeys((counts[0], counts[-1]))))} a setting; the paper prints "
        "single values and names no seeds."
    )
    if missing := [name for name in group.settings if name not in group.covered()]:
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
        found.append(
            f"Time is modelled by the testbed {one['testbed']} (parameters below), not measured; the "
            "gradients are really computed."
        )
    return found
