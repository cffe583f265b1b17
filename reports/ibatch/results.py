"""Which results the iBatch page shows, and which speak to a claim."""

from __future__ import annotations

from repro.reports import factors
from repro.reports.groups import Experiment, choose, strangers, widened
from repro.reports.ibatch import derived  # noqa: F401  adds to the functions of claims
from repro.reports.loading import Summary
from repro.reports.probes import sweep
from repro.reports.results import Read, Results

PAPER = "ibatch"
# of simulated clusters: what an experiment's name begins with; its networks and sizes are one group a testbed
CLUSTERS = ("fig3", "fig5", "fig6", "beyond")
IMPLIED = "-implied"  # after a group's name: on the testbed whose computation one of the paper's results implies
LARGE = 2e8  # parameters: above it a VGG19 is the one with 21,841 classes
PLACES = ("measured-vgg", "measured-googlenet")
SYNC = Experiment(PAPER, "sync", dict.fromkeys(factors.known(PAPER, "sync"), ("ibatch", {})))
RANDOM = "random-profiles"
SCALES = ("workers", "batch", "train", "test", "checksum")  # in what measured runs of one experiment differ
STRATEGIES = {"default": "ps_default", "layerwise": "ps_layerwise", "ibatch": "ibatch"}


def gather(runs: Read) -> Results:
    """The groups that the page shows, and all others."""
    summaries, measurements = [named(s) for s in runs.trained], [named(s) for s in runs.probed]
    found = Results()
    for family in CLUSTERS:
        for ending in ("", IMPLIED):
            mine = [s for s in summaries if _family(s) == family and s["testbed"].endswith(IMPLIED) == bool(ending)]
            found.show(family + ending, *sweep(mine))
    plain = [s for s in summaries if _family(s) not in CLUSTERS]
    known = [widened(SYNC, plain)]
    found.show(SYNC.name, *choose(plain, known[0]))
    for name in PLACES:
        labels = {label: (STRATEGIES[str(of["method"])], {}) for label, of in factors.known(PAPER, name).items()}
        known.append(widened(Experiment(PAPER, name, labels, SCALES), plain))
        found.show(name, *choose(plain, known[-1]))
    found.others += strangers(plain, known)
    found.probe({RANDOM: "batching"}, measurements)
    return found


def named(summary: Summary) -> Summary:
    """The summary under the name of the file that plans it: runs of one figure were once of one experiment."""
    name, model = summary["experiment"], summary["model"]
    if name in ("fig5", "fig6"):
        large = (model.get("parameters") or 0) > LARGE
        ending = "vgg19-22k" if large else str(model["name"]).removesuffix("_v3")
        return summary | {"experiment": f"{name}-{ending}"}
    if name == "measured":
        return summary | {"experiment": f"measured-{'googlenet' if model['name'] == 'googlenet' else 'vgg'}"}
    return summary | {"experiment": RANDOM if name == "gap" else name}


def _family(summary: Summary) -> str:
    return summary["experiment"].partition("-")[0]
