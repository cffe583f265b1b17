"""Which results the iBatch page shows, and which speak to a claim."""

from __future__ import annotations

from repro.answers.tables.groups import planned, widened
from repro.answers.tables.loading import Summary
from repro.answers.tables.probes import sweep
from repro.answers.tables.results import Read, Results
from repro.reports.ibatch import derived  # noqa: F401  adds to the functions of claims

PAPER = "ibatch"
# of simulated clusters: what an experiment's name begins with; its networks and sizes are one group a testbed
CLUSTERS = ("fig3", "fig5", "fig6", "beyond")
IMPLIED = "-implied"  # after a group's name: on the testbed whose computation one of the paper's results implies
LARGE = 2e8  # parameters: above it a VGG19 is the one with 21,841 classes
NETWORKS = {"inception_v3": "inception", "vgg16": "vgg"}  # of models: what names of experiments end with, if not so
SCALES = ("workers", "batch", "train", "test", "checksum")  # in what measured runs of one experiment differ
TRAINING = (planned(PAPER, "sync"), *(planned(PAPER, f"measured-{name}", SCALES) for name in ("vgg", "googlenet")))
RANDOM = "random-profiles"


def gather(runs: Read) -> Results:
    """The groups that the page shows, and all others."""
    summaries, found = [named(run) for run in runs.trained], Results()
    for family in CLUSTERS:
        for ending in ("", IMPLIED):
            mine = [s for s in summaries if _family(s) == family and s["testbed"].endswith(IMPLIED) == bool(ending)]
            found.show(family + ending, *sweep(mine))
    plain = [s for s in summaries if _family(s) not in CLUSTERS]
    found.train([widened(experiment, plain) for experiment in TRAINING], plain)
    found.probe({RANDOM: "batching"}, runs.probed)
    return found


def named(run: Summary) -> Summary:
    """A run under the name of the experiment that plans it, where it carries that of several networks."""
    model = run["model"]
    ending = "vgg19-22k" if (model.get("parameters") or 0) > LARGE else NETWORKS.get(model["name"], model["name"])
    joined = run["experiment"] in ("fig5", "fig6", "measured")
    return run | {"experiment": f"{run['experiment']}-{ending}"} if joined else run


def _family(run: Summary) -> str:
    return run["experiment"].partition("-")[0]
