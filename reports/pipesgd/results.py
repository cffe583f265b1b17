"""What the Pipe-SGD page shows: its experiments, in its order, and what figures call the paper's rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from repro.reports import results as shared
from repro.reports.evidence import Court, claims_of
from repro.reports.gathering import Gathered, read
from repro.reports.groups import planned
from repro.reports.loading import Summary
from repro.reports.order import shown
from repro.reports.pipesgd import derived, derived_probes  # noqa: F401  they add to the functions of claims
from repro.reports.results import Results

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

# Experiments whose results stand with another's: what one machine or testbed is too small for.
MORE = {
    TIMING: ("timing-model-cifar100", "timing-model-scaled", "timing-model-large"),
    GRADIENT: ("gradient-communication-large",),
}

# What each experiment is on the page, for the list of what has been run.
SHOWN = shown(PAPER, MORE)


def gather(summaries: Sequence[Summary], measurements: Sequence[Summary]) -> Results:
    """The groups that the page shows, and all others."""
    return shared.gather(TRAINING, PROBES, summaries, measurements)


def gathered(results: Path | None) -> Gathered:
    """The results of the page, from a folder alone or from workspace and reference."""
    summaries, measurements, ends = read(PAPER, results)
    found = gather(summaries, measurements)
    judge = Court(PAPER, claims_of(PAPER), found.find, results, ends)
    return Gathered(replace(found, court=judge), found.find, ends)
