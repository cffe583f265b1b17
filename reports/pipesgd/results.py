"""What the Pipe-SGD page shows: its experiments, in its order, and what figures call the paper's rows."""

from __future__ import annotations

from repro.answers.tables.groups import planned
from repro.answers.tables.results import Read, Results
from repro.reports.pipesgd import derived  # noqa: F401  adds to the functions of claims

PAPER = "pipesgd"
# Figure 4's rows: experiment -> what the paper (and reference/pipesgd.csv) calls it
FIGURE4 = {
    "fig4-mnist": "MNIST-MLP",
    "fig4-alexnet": "AlexNet",
    "fig4-resnet18": "ResNet18",
    "fig4-cifar100-convex": "CIFAR100-Convex",
}

FIG1, FIG2, K_SPECTRUM, LOSSY = (planned(PAPER, name) for name in ("fig1", "fig2", "k-spectrum", "lossy-parameters"))
RESNET20, RESNET20_PLAIN = planned(PAPER, "resnet20-cifar10"), planned(PAPER, "resnet20-cifar10-plain")
TRAINING = (*(planned(PAPER, name) for name in FIGURE4), FIG1, FIG2, K_SPECTRUM, LOSSY, RESNET20, RESNET20_PLAIN)

# Experiments of the probes: name -> program.
RING, TIMING, GRADIENT, CONVERGENCE = "fig3-ring", "timing-model", "gradient-communication", "convergence"
PROBES = {RING: "ring", TIMING: "timing", GRADIENT: "timing", CONVERGENCE: "convergence"}


def gather(runs: Read) -> Results:
    """The groups that the page shows, and all others."""
    found = Results()
    found.train(TRAINING, runs.trained)
    found.probe(PROBES, runs.probed)
    return found
