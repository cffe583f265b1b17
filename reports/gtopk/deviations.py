"""How the runs of the convergence figures differ from Table V and section IV-B, as far as the summaries tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from repro.reports.deviations import each_once, measured, not_run
from repro.reports.groups import Group, optimizer
from repro.reports.gtopk.experiments import CONVERGENCE, SHOWN


@dataclass(frozen=True)
class Stated:
    """What the paper states of a model's training (Tables IV and V); batch: a worker's."""

    dataset: str
    train: int | None  # 1.2 million of ImageNet is no exact number
    test: int | None
    epochs: int
    batch: int
    lr: float
    density: float


_CIFAR = ("Cifar-10", 50_000, 10_000, 140, 128, 0.1, 0.001)
STATED = {
    "VGG-16": Stated(*_CIFAR),
    "ResNet-20": Stated(*_CIFAR),
    "AlexNet": Stated("ImageNet", None, None, 45, 64, 0.01, 0.001),
    "ResNet-50": Stated("ImageNet", None, None, 15, 256, 0.01, 0.001),
    "LSTM-PTB": Stated("PTB", 923_000, 73_000, 40, 100, 1.0, 0.005),
}
WORKERS, MOMENTUM, WARMUP = 4, 0.9, [0.25, 0.0725, 0.015, 0.004]
HARDWARE = "32 machines, each a P102-100 and a Celeron N3350, 1 Gbit/s Ethernet"


def run_deviations(training: Mapping[str, Mapping[str, Group]]) -> list[tuple[str, str]]:
    """(how runs differ from the paper, which runs do), each difference once."""
    return each_once(
        (line, f"{SHOWN[name]}, {kind}")
        for name, groups in training.items()
        for kind, group in groups.items()
        for line in of_group(group, STATED[CONVERGENCE[name]])
    )


def of_group(group: Group, paper: Stated) -> list[str]:
    """The differences of one experiment and kind."""
    one, data = group.first, group.first["dataset"]
    found = []
    if data["standin"]:
        found.append(f"Data: {data['name']} stands in for {paper.dataset}; accuracies are not compared.")
    for name, theirs in (("train", paper.train), ("test", paper.test)):
        if theirs and data.get(name) is not None and data[name] != theirs:
            found.append(f"Data: {data[name]:,} {name} examples of {data['name']}; the paper {theirs:,}.")
    if one["epochs"] != paper.epochs:
        found.append(f"Epochs: {one['epochs']:g} (scale {one.get('scale', 'unknown')}); the paper {paper.epochs}.")
    if one["workers"] != WORKERS:
        found.append(f"Workers: {one['workers']}; the paper {WORKERS}.")
    if one["batch"] != WORKERS * paper.batch:
        theirs = f"{WORKERS * paper.batch} ({WORKERS} times {paper.batch})"
        found.append(f"Global batch: {one['batch']}; the paper {theirs}.")
    given = optimizer(one)
    for name, key, theirs in (("Learning rate", "lr", paper.lr), ("Momentum", "momentum", MOMENTUM)):
        ours = given.get(key)
        if ours is not None and ours != theirs:
            found.append(f"{name}: {ours:g}; the paper {theirs:g}.")
    found += _densities(group, paper)
    counts = sorted({len(group.runs(name)) for name in group.covered()})
    some = " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
    found.append(f"Seeds: {some} a variant; the paper shows single curves.")
    return [*found, *not_run(group), *_place(group)]


def _densities(group: Group, paper: Stated) -> list[str]:
    """Density and its warm-up where gTop-k ran with others than the paper."""
    runs = [run for run in group.used() if run["strategy"] == "gtopk" and not run["setting"].startswith("rho")]
    found = []
    densities = {run["options"].get("density") for run in runs} - {paper.density, None}
    if densities:
        shown = ", ".join(f"{density:g}" for density in sorted(densities))
        found.append(f"Density: {shown}; the paper {paper.density:g}.")
    warmups = {tuple(run["options"].get("warmup_densities") or ()) for run in runs}
    for warmup in sorted(warmups - {tuple(WARMUP)}):
        shown = ", ".join(f"{density:g}" for density in warmup) or "none"
        found.append(f"Warm-up densities: {shown}; the paper {', '.join(map(str, WARMUP))}.")
    return found


def _place(group: Group) -> list[str]:
    if group.kind == "simulated":
        what = "nothing is computed" if group.timing_only else "the gradients are really computed"
        return [f"Time is modelled by the testbed {group.first['testbed']} (parameters below); {what}."]
    return measured(group, HARDWARE)
