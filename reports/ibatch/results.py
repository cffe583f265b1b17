"""Which results the iBatch page shows, and which speak to a claim."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from repro.reports import probes
from repro.reports.batched_pulls import implied, network
from repro.reports.gathering import Gathered
from repro.reports.groups import Group, choose, strangers
from repro.reports.ibatch.experiments import FIG5, FIG6, MEASURED, PAPER, PLACES, PROBES, SHOWN, SWEEPS, SYNC, WITH
from repro.reports.loading import KINDS, Summary, load
from repro.reports.probes import ProbeGroup
from repro.reports.sweeps import choose_places, sweep, widened


@dataclass(frozen=True)
class Results:
    """Cluster -> group (simulated); kind -> group of the synchronisations; experiment -> kind -> a group a place."""

    sweeps: dict[str, ProbeGroup]
    sync: dict[str, Group]
    places: dict[str, dict[str, list[Group]]]  # the one that claims are judged by first
    probes: dict[str, dict[str, ProbeGroup]]
    others: list[Group | ProbeGroup]

    @property
    def shown(self) -> dict[tuple[str, str], Group | ProbeGroup]:
        """(experiment, kind) -> group, the first of several places, in the page's order."""
        found: dict[tuple[str, str], Group | ProbeGroup] = {(n, "simulated"): g for n, g in self.sweeps.items()}
        for name, of in (*self.probes.items(), (SYNC.name, self.sync)):
            found |= {(name, kind): of[kind] for kind in KINDS if kind in of}
        found |= {(name, kind): of[kind][0] for name, of in self.places.items() for kind in KINDS if of.get(kind)}
        order = list(SHOWN)
        return {key: found[key] for key in sorted(found, key=lambda key: (order.index(key[0]), KINDS.index(key[1])))}

    @property
    def used(self) -> list[Group | ProbeGroup]:
        """Every group in a figure or table, those of further places too."""
        further = [group for of in self.places.values() for some in of.values() for group in some[1:]]
        return [*self.shown.values(), *further]

    @property
    def decided(self) -> list[Group | ProbeGroup]:
        """The groups whose runs may have batches."""
        return [group for (name, _), group in self.shown.items() if name not in PROBES] + self.used[len(self.shown) :]


def gather(summaries: Sequence[Summary], measurements: Sequence[Summary]) -> Results:
    """The groups that the page shows, and all others."""
    summaries, measurements = ([named(s) for s in some] for some in (summaries, measurements))
    sweeps, places, measured, others = {}, {}, {}, []
    for name, (family, of_implied) in SWEEPS.items():
        found, rest = sweep([s for s in summaries if _family(s) == family and implied(s) == of_implied])
        sweeps |= {name: found} if found else {}
        others += rest
    families = {family for family, _ in SWEEPS.values()}
    plain = [s for s in summaries if _family(s) not in families]
    known = []
    for experiment in PLACES:
        mine = widened(experiment, plain)
        known.append(mine)
        places[experiment.name], rest = choose_places(plain, mine)
        others += rest
    mine = widened(SYNC, plain)
    sync, rest = choose(plain, mine)
    others += rest + strangers(plain, [*known, mine])
    for name, program in PROBES.items():
        measured[name], rest = probes.choose([s for s in measurements if (s["experiment"], s["program"]) ==
                                              (name, program)], name)  # fmt: skip
        others += rest
    others += probes.groups([s for s in measurements if PROBES.get(s["experiment"]) != s["program"]])
    return Results(sweeps, sync, places, measured, others)


def named(summary: Summary) -> Summary:
    """The summary with an experiment of its own for each network of a figure: `fig5` of VGG19 is `fig5-vgg19`."""
    name = summary["experiment"]
    if name in (FIG5, FIG6):
        name = f"{name}-{network(summary)}"
    elif name == MEASURED:
        name = f"{name}-{'googlenet' if network(summary) == 'googlenet' else 'vgg'}"
    return summary | {"experiment": WITH.get(name, name)}


def _family(summary: Summary) -> str:
    name = summary["experiment"]
    return next((family for family in (FIG5, FIG6) if name.startswith(f"{family}-")), name)


def finder(found: Results) -> Callable[[str, str], Group | ProbeGroup | None]:
    """Which results speak to a claim: those that the page shows."""
    return lambda experiment, kind: found.shown.get((experiment, kind))


def gathered(results: Path | None) -> Gathered:
    """The results of the page, from a folder alone or from workspace and reference."""
    summaries, measurements = load(PAPER, results), probes.load(PAPER, results)
    found = gather(summaries, measurements)
    return Gathered(found, finder(found))
