"""The experiments that the Pipe-SGD page shows, in its order: variants, their options, and what the paper states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from repro.reports.groups import Experiment, planned
from repro.reports.order import shown

PAPER = "pipesgd"


@dataclass(frozen=True)
class Row:
    """A row of Figure 4: its label in the paper (and in reference/pipesgd.csv), its experiment, the paper's facts."""

    label: str
    experiment: Experiment
    stated: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.experiment.name


# Section 4, "Datasets" and "Metrics and Setup". Parameters: those of 784-500-500-10 with biases; of the other networks
# the paper states none. CIFAR100-Convex's batch is not stated either.
_HARDWARE = "four nodes, each a Titan XP and a Xeon E5-2640, one more as server, 10 Gbit/s Ethernet"
_IMAGENET = {"dataset": "ImageNet", "train": 1_281_167, "test": 50_000, "classes": 1000, "image": (256, 256),
             "workers": 4, "batch": 256, "hardware": _HARDWARE, "warmup_epochs": 4}  # fmt: skip

MNIST = Row("MNIST-MLP", planned(PAPER, "fig4-mnist"), {
    "dataset": "MNIST", "train": 60_000, "test": 10_000, "classes": 10, "image": (28, 28), "workers": 4, "batch": 100,
    "parameters": 648_010, "hardware": _HARDWARE})  # fmt: skip
ALEXNET = Row("AlexNet", planned(PAPER, "fig4-alexnet"), _IMAGENET)
RESNET18 = Row("ResNet18", planned(PAPER, "fig4-resnet18"), _IMAGENET)
CIFAR100 = Row("CIFAR100-Convex", planned(PAPER, "fig4-cifar100-convex"), {
    "dataset": "CIFAR-100", "train": 50_000, "test": 10_000, "classes": 100, "image": (32, 32), "workers": 4,
    "hardware": _HARDWARE})  # fmt: skip
FIGURE4 = (MNIST, ALEXNET, RESNET18, CIFAR100)

FIG1, FIG2 = planned(PAPER, "fig1"), planned(PAPER, "fig2")
K_SPECTRUM = Experiment(PAPER, "k-spectrum", {
    **{f"K = {k}": ("pipe_sgd", {"K": k, "staleness_lr": False}) for k in range(1, 9)},
    **{f"K = {k}, staleness lr": ("pipe_sgd", {"K": k, "staleness_lr": True}) for k in range(1, 9)},
})  # fmt: skip
LOSSY = planned(PAPER, "lossy-parameters", kinds=("simulated",))
RESNET20 = planned(PAPER, "resnet20-cifar10", kinds=("simulated",))
RESNET20_PLAIN = planned(PAPER, "resnet20-cifar10-plain", kinds=("simulated",))
TRAINING = (*(row.experiment for row in FIGURE4), FIG1, FIG2, K_SPECTRUM, LOSSY, RESNET20,
            RESNET20_PLAIN)  # fmt: skip

# Experiments of the probes: name -> (program, what it shows).
RING, TIMING, GRADIENT, CONVERGENCE = "fig3-ring", "timing-model", "gradient-communication", "convergence"
PROBES = {RING: "ring", TIMING: "timing", GRADIENT: "timing", CONVERGENCE: "convergence"}

APART = ("fig4-alexnet-inputs", "fig4-alexnet-emulated")  # shown by `repro.reports.figure4_alexnet`

# Experiments whose results stand with another's: what one machine or testbed is too small for.
MORE = {
    TIMING: ("timing-model-cifar100", "timing-model-scaled", "timing-model-large"),
    GRADIENT: ("gradient-communication-large",),
    ALEXNET.name: APART,
}

# What each experiment is on the page, for the list of what has been run.
SHOWN = shown(PAPER, MORE)
