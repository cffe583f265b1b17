"""What the papers' pages share in telling how runs differ from a paper, as far as the summaries tell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from repro.reports.groups import Group, optimizer
from repro.reports.loading import Summary
from repro.reports.provenance import _machine as machine


@dataclass(frozen=True)
class Stated:
    """What a paper states of training, each as its end of a sentence."""

    data: str
    epochs: str
    minibatch: str
    node: str  # what it calls a worker's machine
    hardware: str = ""
    rivals: str = "computation and communication"


def each_once(told: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """(how runs differ from the paper, which runs do), each difference and each run once."""
    found: dict[str, dict[str, None]] = {}
    for line, where in told:
        found.setdefault(line, {})[where] = None
    return [(line, "; ".join(where)) for line, where in found.items()]


def of_training(group: Group, paper: Stated, sized: bool = False) -> list[str]:
    """The differences of a group of training runs on other models and data; sized: the examples are counted."""
    one, data = group.first, group.first["dataset"]
    found = []
    if data["standin"]:
        found.append(f"Data: {data['name']} stands in; accuracies are not compared.")
    else:
        size = f", {data['train']:,} training examples" if sized and data.get("train") is not None else ""
        found.append(f"Data: {data['name']}{size}; the paper {paper.data}.")
    count = one["model"].get("parameters")
    found.append(f"Model: {one['model']['name']}" + (f", {count:,} parameters." if count else "."))
    if group.timing_only:
        found.append("Time only: nothing was computed.")
    else:
        scale = one.get("scale", "unknown")
        found.append(f"Epochs: {one['epochs']:g} (scale {scale}), {optimized(one)}; the paper {paper.epochs}.")
    batches = sorted({run["batch"] / run["workers"] for run in group.used()})
    found.append(f"Minibatch of a {paper.node}: {' or '.join(f'{b:g}' for b in batches)}; the paper {paper.minibatch}.")
    found += not_run(group)
    if group.kind == "simulated":
        return [*found, f"Time is modelled by the testbed {one['testbed']}; the gradients are really computed."]
    return [*found, *measured(group, paper.hardware, paper.rivals)]


def optimized(run: Summary) -> str:
    """The optimizer's numbers and names: `lr 0.1, momentum 0`."""
    given = {key: value for key, value in optimizer(run).items() if isinstance(value, int | float | str)}
    return ", ".join(f"{k} {v:g}" if isinstance(v, int | float) else f"{k} {v}" for k, v in given.items())


def not_run(group: Group) -> list[str]:
    """What there is no run of."""
    missing = [name for name in group.variants if name not in group.covered()]
    return [f"Not run: {', '.join(missing)}."] if missing else []


def measured(group: Group, theirs: str = "", rivals: str = "computation and communication") -> list[str]:
    """What measured runs ran on; theirs: the paper's hardware; rivals: what competes for too few cores."""
    one, hardware = group.first, group.first["hardware"]
    ranks = max(run["ranks"] if "ranks" in run else run["workers"] for run in group.used())
    network = f"{hardware.get('network') or 'network unknown'} (testbed {one['testbed']})"
    found = [f"Hardware: {machine(one)}, {network}{f'; the paper: {theirs}' if theirs else ''}."]
    if hardware.get("cores") and not hardware.get("gpu") and ranks > hardware["cores"]:
        found.append(f"{ranks} ranks share {hardware['cores']} cores: {rivals} compete for them.")
    return found
