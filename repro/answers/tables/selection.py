"""Group runs that one figure or table may show: never of different machines (a busy one is another), data sets, epochs,
testbeds or options."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from repro.answers.tables.runs import Runs, has_real_sizes
from repro.core.choices import QUICK
from repro.records.busy import taken_by_others
from repro.records.kinds import KINDS, SIMULATED
from repro.records.record import Found
from repro.records.variants import comparable, digest_configurations, recency

ALL = "all"  # an experiment's runs may differ in any condition
Key = tuple[Any, ...]


def place_of_group(run: Found) -> Key:
    """What all runs of one group share: experiment, kind, scale and, unless they are simulated, the machine.

    Testbeds that stand for a paper's clusters go together: an experiment may have several.
    """
    testbed = run.identity.testbed
    place: Key = (testbed.folder if testbed.of_paper else testbed.name,)
    if run.kind != SIMULATED:
        place += (run.record.hardware.class_, testbed.launcher, testbed.threads_per_rank, is_busy(run))
    return (run.identity.experiment, run.kind, run.identity.scale, *place)


def keys_of(runs: Mapping[int, Found], varies: Sequence[str] = ()) -> dict[int, Key]:
    """number -> what the runs of a group share: their place; training runs also the conditions that may not vary."""
    keys = {number: place_of_group(run) for number, run in runs.items()}
    if ALL in varies:
        return keys
    trained = {number: run for number, run in runs.items() if run.identity.trains}
    conditions = comparable([*trained.values()], varies)
    return keys | {number: (*keys[number], *shared) for number, shared in zip(trained, conditions, strict=True)}


def grouped(runs: Runs, varies: Sequence[str] = (), variants: Sequence[str] = ()) -> list[Runs]:
    """The runs grouped by `keys_of`, in a fixed order.

    Where runs of one variant differ, the group has those with most seeds, then the newest, and of each seed the newest
    run. The others form groups of their own. variants: their order.
    """
    numbers: dict[Key, list[int]] = {}
    for number, key in keys_of(runs.records, varies).items():
        numbers.setdefault(key, []).append(number)
    order = {name: place for place, name in enumerate(variants)}
    groups = []
    for key in sorted(numbers, key=repr):
        loose = ALL in varies or not runs.records[numbers[key][0]].identity.trains
        newest = _of_newest_testbeds(runs.records, numbers[key]) if loose else numbers[key]
        chosen, differing = _of_each(runs.records, newest)
        groups.append(runs.only(sorted(chosen, key=lambda number: _order(runs.records[number], order))))
        groups += grouped(runs.only(differing), varies, variants) if differing else []
    return groups


def _order(run: Found, variants: Mapping[str, int]) -> Key:
    return (variants.get(run.label, len(variants)), *_place_in_group(run), run.identity.seed)


def _place_in_group(run: Found) -> Key:
    """What the seeds of one mark or cell share."""
    return (run.identity.testbed.name, model(run), run.identity.workers, run.label, run.identity.breakdown)


def _of_newest_testbeds(records: Mapping[int, Found], numbers: Sequence[int]) -> list[int]:
    """Leave out simulated runs whose testbed had other parameters than in the newest run of the same model."""
    if records[numbers[0]].kind != SIMULATED:
        return list(numbers)

    def parameters(number: int) -> str:
        return json.dumps(records[number].identity.testbed.parameters, sort_keys=True)

    runs = {number: records[number] for number in numbers}
    places = {n: (run.identity.testbed.name, run.identity.trains and model(run)) for n, run in runs.items()}
    newest = {places[n]: parameters(n) for n in sorted(numbers, key=lambda number: recency(records[number]))}
    return [number for number in numbers if newest[places[number]] == parameters(number)]


def _of_each(records: Mapping[int, Found], numbers: Sequence[int]) -> tuple[list[int], list[int]]:
    """(the runs that count for each variant, testbed, model and number of workers; those with other options)"""
    places: dict[Key, dict[str, dict[int, int]]] = {}
    made_with = dict(zip(numbers, digest_configurations([records[number].identity for number in numbers]), strict=True))
    for number in sorted(numbers, key=lambda number: recency(records[number])):
        run = records[number]
        of_place = places.setdefault(_place_in_group(run), {})
        of_place.setdefault(made_with[number], {})[run.identity.seed] = number
    chosen: list[int] = []
    others: list[int] = []
    for by_options in places.values():
        best = max(by_options.values(), key=lambda runs: (len(runs), max(recency(records[n]) for n in runs.values())))
        chosen += best.values()
        others += [number for runs in by_options.values() if runs is not best for number in runs.values()]
    return chosen, others


def model(run: Found) -> str:
    """The model that a run is about: a factor, else its model's name, else its variant."""
    return str(run.identity.factors.get("model") or run.model_name or run.label)


def is_busy(run: Found) -> bool:
    return bool(taken_by_others(run.kind, run.record.cpu_taken_share))


def is_quick(run: Found) -> bool:
    """Whether a run is for trying out, so that any other counts before it."""
    return run.identity.scale == QUICK


def best(groups: Iterable[Runs]) -> dict[str, Runs]:
    """kind -> its best group.

    In this order: on data of the real sizes; not on a busy machine; not of scale quick; on a paper's cluster or links
    of a known rate; most variants (of probes: runs); with accuracies; finished last. Groups of breakdown runs alone do
    not count.
    """

    def rank(group: Runs) -> Key:
        first, last = group.first, max(map(recency, group.records.values()))
        testbed = first.identity.testbed
        network = testbed.of_paper or "rate_gbit" in testbed.options
        counts = not is_busy(first), not is_quick(first), network, count(group), not group.timing_only, last
        return has_real_sizes(first), *counts

    def count(group: Runs) -> int:
        counted = [run.label for run in group.records.values() if not run.identity.breakdown]
        return len(set(counted) if group.first.identity.trains else counted)

    chosen: dict[str, Runs] = {}
    for group in sorted(filter(count, groups), key=rank, reverse=True):
        chosen.setdefault(group.kind, group)
    return {kind: chosen[kind] for kind in KINDS if kind in chosen}
