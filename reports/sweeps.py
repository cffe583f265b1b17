"""Results that a page shows together: runs of several experiments in one group, and a group a machine and network."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from repro.reports.groups import QUICK, Experiment, Group, belongs, finished, groups
from repro.reports.loading import KINDS, Summary
from repro.reports.probes import ProbeGroup

PREFERRED = "shaped/1g"  # of several places the one by which claims are judged


def widened(experiment: Experiment, summaries: Sequence[Summary]) -> Experiment:
    """The experiment with whatever other variants are found of it."""
    found = dict(experiment.variants)
    for summary in summaries:
        if summary["experiment"] == experiment.name:
            found.setdefault(summary["setting"], ("", {}))
    return replace(experiment, variants=found)


def sweep(runs: Sequence[Summary]) -> tuple[ProbeGroup | None, list[Group]]:
    """(the simulated runs of several experiments or testbeds as one group, what is left out).

    Of each experiment the scale that is no smoke test, then the latest; of a variant, testbed and seed the latest run;
    no run whose testbed had other parameters under the same name than in its model's latest run.
    """
    good = [s for s in runs if s["kind"] == "simulated" and not s["breakdown"]]
    scales: dict[str, tuple] = {}
    for s in good:
        rank = (s.get("scale") != QUICK, finished(s), str(s.get("scale")))
        scales[s["experiment"]] = max(scales.get(s["experiment"], rank), rank)
    good = [s for s in good if str(s.get("scale")) == scales[s["experiment"]][2]]
    current: dict[tuple, str] = {}
    kept: dict[tuple, Summary] = {}
    for s in sorted(good, key=finished):
        current[_place(s)] = _parameters(s)
    for s in sorted(good, key=finished):
        if _parameters(s) == current[_place(s)]:
            kept[(*_place(s), s["setting"], s["workers"], s["seed"])] = s
    chosen = [kept[key] for key in sorted(kept, key=repr)]
    rest = [s for s in runs if not any(s is one for one in chosen)]
    return ProbeGroup((), tuple(chosen)) if chosen else None, groups(rest, sorted({s["setting"] for s in rest}))


def _place(summary: Summary) -> tuple[str, str, str]:
    return summary["experiment"], summary["testbed"], summary["model"]["name"]


def _parameters(summary: Summary) -> str:
    return json.dumps(summary.get("testbed_model"), sort_keys=True)


def choose_places(summaries: Sequence[Summary], experiment: Experiment) -> tuple[dict[str, list[Group]], list[Group]]:
    """(kind -> a group a machine and network, the one that claims are judged by first; what is left out)."""
    found = groups([s for s in summaries if belongs(s, experiment)], tuple(experiment.variants), experiment.varies)
    best: dict[tuple, Group] = {}
    for group in found:
        first = group.first
        place = (group.kind, first["hardware"]["class"], first["testbed"])
        if group.covered() and (place not in best or _rank(group) > _rank(best[place])):
            best[place] = group
    kinds: dict[str, list[Group]] = {}
    for kind in KINDS:
        mine = [group for group in best.values() if group.kind == kind]
        if mine:
            kinds[kind] = sorted(mine, key=lambda g: (g.first["testbed"].startswith(PREFERRED), *_rank(g)),
                                 reverse=True)  # fmt: skip
    return kinds, [group for group in found if not any(group is one for one in best.values())]


def _rank(group: Group) -> tuple:
    return group.first.get("scale") != QUICK, len(group.covered()), group.latest
