"""Results of the probes (programs other than `train`), grouped by experiment, kind and place.

Simulated testbeds are an axis of a group, not groups of their own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from repro.answers.tables import factors
from repro.answers.tables.groups import QUICK, Group, Together, best, finished
from repro.answers.tables.groups import groups as of_training
from repro.answers.tables.loading import Summary, trains
from repro.records.kinds import EMULATED, SIMULATED


@dataclass(frozen=True)
class ProbeGroup(Together):
    """A probe's runs: of one experiment, kind, place and scale; the latest of each."""

    timing_only = False

    @property
    def program(self) -> str:
        return self.first["program"]

    @property
    def standin(self) -> bool:
        data = [run.get("dataset") for run in self.summaries]
        return any(isinstance(one, Mapping) and bool(one.get("standin")) for one in data)

    def used(self) -> list[Summary]:
        return list(self.summaries)

    covered = used

    def seeds(self) -> list[int]:
        return sorted({run["seed"] for run in self.summaries})

    def of_seed(self, seed: int) -> list[Summary]:
        return [run for run in self.summaries if run["seed"] == seed]


AnyGroup = Group | ProbeGroup


def model(run: Summary) -> str:
    """What a run is about: the model among its factors, else its model's name."""
    if found := factors.of(run).get("model"):
        return str(found)
    known = run.get("model")
    name = known.get("name") if isinstance(known, Mapping) else known
    return str(name or run["variant"])


def key_of(summary: Summary) -> tuple:
    """What must be equal within a group. The papers' testbeds, simulated or emulated, are together, others by
    themselves."""
    room, _, name = summary["testbed"].partition("/")
    testbed = room if room in ("paper", "emulated") else (room, name)
    place: tuple = (testbed,)
    if summary["kind"] != SIMULATED:
        place += (summary["hardware"]["class"], summary["launcher"], summary.get("threads_per_rank"))
    return (summary["experiment"], summary["kind"], place, summary.get("scale"))


def groups(summaries: Sequence[Summary]) -> list[ProbeGroup]:
    """The runs by `key_of`: of each variant, testbed, model, world size and seed the latest."""
    found: dict[tuple, dict[tuple, Summary]] = {}
    for summary in sorted(_latest_parameters(summaries), key=finished):
        place = (summary["variant"], summary["testbed"], model(summary), summary["workers"], summary["seed"])
        found.setdefault(key_of(summary), {})[place] = summary
    order = {key: sorted(by_place, key=lambda c: (c[1:3], c[3], c[0], c[4])) for key, by_place in found.items()}
    return [ProbeGroup(key, tuple(found[key][place] for place in order[key])) for key in sorted(found, key=repr)]


def _latest_parameters(summaries: Sequence[Summary]) -> list[Summary]:
    """Without simulated runs whose testbed had other parameters under the same name than in its model's latest run."""

    def place(summary: Summary) -> tuple[str, ...]:
        return summary["experiment"], summary["testbed"], model(summary) if trains(summary) else ""

    def parameters(summary: Summary) -> str:
        return json.dumps(summary.get("testbed_model"), sort_keys=True)

    current = {place(s): parameters(s) for s in sorted(summaries, key=finished) if s["kind"] == "simulated"}
    return [s for s in summaries if s["kind"] != "simulated" or current[place(s)] == parameters(s)]


def choose(summaries: Sequence[Summary], experiment: str) -> tuple[dict[str, ProbeGroup], list[ProbeGroup]]:
    """(kind -> the group that figures show, the experiment's other groups)"""
    return best(groups([s for s in summaries if s["experiment"] == experiment]))


def sweep(runs: Sequence[Summary]) -> tuple[dict[str, ProbeGroup], list[Group]]:
    """(the runs of several experiments or testbeds as one group a kind, simulated and emulated; what is left out).

    Of each experiment the scale that is no smoke test, then the latest; of a variant, testbed, model, world size and
    seed the latest run; no run whose testbed had other parameters under the same name than in its model's latest run.
    """
    found: dict[str, ProbeGroup] = {}
    for kind in (SIMULATED, EMULATED):
        good = [s for s in runs if s["kind"] == kind and not s["breakdown"]]
        scales: dict[str, tuple[bool, str, str]] = {}
        for s in good:
            rank = (s.get("scale") != QUICK, finished(s), str(s.get("scale")))
            scales[s["experiment"]] = max(scales.get(s["experiment"], rank), rank)
        kept: dict[tuple[Any, ...], Summary] = {}
        for s in _latest_parameters([s for s in good if str(s.get("scale")) == scales[s["experiment"]][2]]):
            place = (s["experiment"], s["testbed"], s["model"]["name"], s["variant"], s["workers"], s["seed"])
            kept[place] = max(kept.get(place, s), s, key=finished)
        if kept:
            found[kind] = ProbeGroup((), tuple(kept[key] for key in sorted(kept, key=repr)))
    chosen = {id(one) for group in found.values() for one in group.used()}
    rest = [s for s in runs if id(s) not in chosen]
    return found, of_training(rest, sorted({s["variant"] for s in rest}))
