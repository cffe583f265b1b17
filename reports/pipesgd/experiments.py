"""The experiments that the Pipe-SGD page shows, in its order, and what claims and figures call the paper's rows."""

from __future__ import annotations

from repro.reports.groups import planned
from repro.reports.order import shown

PAPER = "pipesgd"
# Figure 4's rows: experiment -> what the paper (and reference/pipesgd.csv) calls it
FIGURE4 = {
    "fig4-mnist": "MNIST-MLP",
    "fig4-alexnet": "AlexNet",
    "fig4-resnet18": "ResNet18",
    "fig4-cifar100-convex": "CIFAR100-Convex",
}
# Row AlexNet again at the ends of its assumed inputs, which verdicts read; and emulated, by the program validation.
EMULATED = "fig4-alexnet-emulated"

FIG1, FIG2, K_SPECTRUM, LOSSY = (planned(PAPER, name) for name in ("fig1", "fig2", "k-spectrum", "lossy-parameters"))
RESNET20, RESNET20_PLAIN = planned(PAPER, "resnet20-cifar10"), planned(PAPER, "resnet20-cifar10-plain")
TRAINING = (*(planned(PAPER, name) for name in FIGURE4), FIG1, FIG2, K_SPECTRUM, LOSSY, RESNET20, RESNET20_PLAIN)

# Experiments of the probes: name -> program.
RING, TIMING, GRADIENT, CONVERGENCE = "fig3-ring", "timing-model", "gradient-communication", "convergence"
PROBES = {EMULATED: "validation", RING: "ring", TIMING: "timing", GRADIENT: "timing", CONVERGENCE: "convergence"}

# Experiments whose results stand with another's: what one machine or testbed is too small for.
MORE = {
    TIMING: ("timing-model-cifar100", "timing-model-scaled", "timing-model-large"),
    GRADIENT: ("gradient-communication-large",),
    "fig4-alexnet": (EMULATED,),
}

# What each experiment is on the page, for the list of what has been run.
SHOWN = shown(PAPER, MORE)
