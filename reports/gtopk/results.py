"""Which results the gTop-k page shows, and which speak to a claim."""

from __future__ import annotations

from collections.abc import Sequence

from repro.answers.tables import probes
from repro.answers.tables.groups import best, planned
from repro.answers.tables.loading import Summary
from repro.answers.tables.probes import ProbeGroup
from repro.answers.tables.results import Read, Results
from repro.reports.gtopk import derived  # noqa: F401  what claims name

PAPER = "gtopk"

TRAINING = tuple(
    planned(PAPER, name)
    for name in ("fig5-vgg16", "fig5-resnet20", "fig6-alexnet", "fig6-resnet50", "fig7-lstm", "fig12-vgg16",
                 "fig12-resnet20", "conservation", "beyond")
)  # fmt: skip

# Experiments whose runs differ in model, world size or message and stand in one figure: name -> the program.
FIG8, FIG9, FIG10, FIG10_LINKS, FIG11 = "fig8", "fig9", "fig10", "fig10-measured", "fig11"
SWEEPS = {FIG8: "p2p", FIG9: "sparse_collectives", FIG10: "train", FIG10_LINKS: "validation", FIG11: "selection"}

ALGORITHMS = ("Dense", "Top-k", "gTop-k")
MODELS = ("VGG-16", "ResNet-20", "AlexNet", "ResNet-50")
# Trainable parameters of the models here; the paper states none (Figure 9 takes 100 MB for ResNet-50).
PARAMETERS = {"VGG-16": 14_728_266, "ResNet-20": 269_722, "AlexNet": 60_965_224, "ResNet-50": 25_557_032}
DENSITY = 0.001  # Figures 9 and 10
WORLDS = (1, 2, 4, 8, 16, 32)
MOST = WORLDS[-1]  # workers of Table VII


def gather(read: Read) -> Results:
    """The groups that the page shows, and all others."""
    found, runs = Results(), [*read.trained, *read.probed]
    found.train(TRAINING, [s for s in read.trained if s["experiment"] not in SWEEPS])
    for name, program in SWEEPS.items():
        of_name = [s for s in runs if (s["experiment"], s.get("program", "train")) == (name, program)]
        found.show(name, *choose_sweep(of_name, name))
    found.others += probes.groups([s for s in read.probed if SWEEPS.get(s["experiment"]) != s["program"]])
    return found


def runs_of(found: Results, experiment: str) -> list[Summary]:
    """The runs of an experiment, of every kind."""
    return [run for group in found.of(experiment).values() for run in group.used()]


def choose_sweep(runs: Sequence[Summary], name: str) -> tuple[dict[str, ProbeGroup], list[ProbeGroup]]:
    """(kind -> its best group, what is left out); of Figure 11's selections all machines side by side."""
    found = probes.groups(runs)
    chosen, rest = best(found)
    if name == FIG11:  # each row says on which device it ran
        return {kind: ProbeGroup(one.key, _every(found, kind)) for kind, one in chosen.items()}, []
    return chosen, rest


def _every(groups: Sequence[ProbeGroup], kind: str) -> tuple[Summary, ...]:
    return tuple(run for group in groups if group.kind == kind for run in group.summaries)
