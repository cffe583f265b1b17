"""Which results the iBatch page shows, and which speak to a claim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from repro.reports import factors, probes
from repro.reports.gathering import AnyGroup, Gathered, read
from repro.reports.groups import Experiment, Group, choose, strangers
from repro.reports.ibatch import derived  # noqa: F401  adds to the functions of claims
from repro.reports.loading import Summary
from repro.reports.sweeps import choose_places, sweep, widened

PAPER = "ibatch"
# of simulated clusters: what an experiment's name begins with; its networks and sizes are one group a testbed
CLUSTERS = ("fig3", "fig5", "fig6", "beyond")
IMPLIED = "-implied"  # after a group's name: on the testbed whose computation one of the paper's results implies
LARGE = 2e8  # parameters: above it a VGG19 is the one with 21,841 classes
PLACES = ("measured-vgg", "measured-googlenet")
SYNC = Experiment(PAPER, "sync", dict.fromkeys(factors.known(PAPER, "sync"), ("ibatch", {})), ("simulated",))
RANDOM = "random-profiles"
SCALES = ("workers", "batch", "train", "test", "checksum")  # in what measured runs of one experiment differ
STRATEGIES = {"default": "ps_default", "layerwise": "ps_layerwise", "ibatch": "ibatch"}


@dataclass(frozen=True)
class Results:
    """(experiment, kind) -> group, in the page's order; of several places of a measured one the first is judged."""

    shown: dict[tuple[str, str], AnyGroup]
    further: list[Group]  # of other places
    others: list[AnyGroup]

    @property
    def used(self) -> list[AnyGroup]:
        return [*self.shown.values(), *self.further]


def gather(summaries: Sequence[Summary], measurements: Sequence[Summary]) -> Results:
    """The groups that the page shows, and all others."""
    summaries, measurements = [named(s) for s in summaries], [named(s) for s in measurements]
    shown: dict[tuple[str, str], AnyGroup] = {}
    further: list[Group] = []
    others: list[AnyGroup] = []
    for family in CLUSTERS:
        for ending in ("", IMPLIED):
            mine = [s for s in summaries if _family(s) == family and s["testbed"].endswith(IMPLIED) == bool(ending)]
            found, rest = sweep(mine)
            shown |= {(family + ending, "simulated"): found} if found else {}
            others += rest
    plain = [s for s in summaries if _family(s) not in CLUSTERS]
    known = [widened(SYNC, plain)]
    groups, rest = choose(plain, known[0])
    shown |= {(SYNC.name, kind): group for kind, group in groups.items()}
    others += rest
    for name in PLACES:
        labels = {label: (STRATEGIES[str(of["method"])], {}) for label, of in factors.known(PAPER, name).items()}
        known.append(widened(Experiment(PAPER, name, labels, ("measured",), SCALES), plain))
        places, rest = choose_places(plain, known[-1])
        for kind, (first, *more) in places.items():
            shown[name, kind] = first
            further += more
        others += rest
    others += strangers(plain, known)
    drawn, rest = probes.choose([s for s in measurements if s["program"] == "batching"], RANDOM)
    shown |= {(RANDOM, kind): group for kind, group in drawn.items()}
    others += [*rest, *probes.groups([s for s in measurements if s["program"] != "batching"])]
    return Results(shown, further, others)


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


def gathered(results: Path | None) -> Gathered:
    """The results of the page, from a folder alone or from workspace and reference."""
    summaries, measurements, ends = read(PAPER, results)
    found = gather(summaries, measurements)
    return Gathered(found, lambda experiment, kind: found.shown.get((experiment, kind)), ends)
