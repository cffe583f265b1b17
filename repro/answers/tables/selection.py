"""Which runs stand together: a figure or table never mixes machines, data sets, lengths, testbeds or options."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from repro.answers.tables.loading import KINDS, QUICK, Summary, finished, trains
from repro.answers.tables.runs import Runs, timing_only
from repro.records.kinds import SIMULATED

PREFERRED = ("paper/", "shaped/1g")  # of several testbeds those by which claims are judged
TOGETHER = ("paper", "emulated")  # the papers' testbeds, which one experiment may have several of
ALL = "all"  # of conditions: an experiment whose runs may differ in any of them
Key = tuple[Any, ...]


def optimizer(summary: Summary) -> dict[str, Any]:
    """A run's optimizer without what says nothing: plain SGD has no name, a constant learning rate no schedule."""
    found = {name: value for name, value in summary["optimizer"].items() if value is not None and value != []}
    schedule = found.get("schedule", "constant")
    said_by = {"milestones": ("step",), "every": ("exponential",), "decay": ("step", "exponential"),
               "over": ("cosine", "polynomial"), "power": ("polynomial",)}  # fmt: skip
    silent = {name for name, schedules in said_by.items() if schedule not in schedules}
    silent |= {"schedule"} if schedule == "constant" else set()
    says = {"rmsprop": {"name", "alpha", "eps"}, "adamw": {"name", "betas", "eps"}}.get(found.get("name", "sgd"), set())
    silent |= {"name", "alpha", "eps", "betas"} - says
    return {name: value for name, value in found.items() if name not in silent}


def conditions(run: Summary) -> dict[str, Any]:
    """What is equal in the runs of an experiment that trains, where it does not say that it varies. Simulated time is
    modelled: the testbed's parameters replace hardware, whatever words their sources are told in."""
    model = dict(run.get("testbed_model") or {}) if run["kind"] == SIMULATED else {}
    model.pop("sources", None)
    device, data = model.pop("device", None), run["dataset"]
    return {
        "testbed": run["testbed"],
        "network": json.dumps(model, sort_keys=True),
        "device": json.dumps(device, sort_keys=True),
        "dataset": data["name"],
        **{name: data.get(name) for name in ("checksum", "train", "test")},
        "augmentation": json.dumps(data.get("augmentation"), sort_keys=True),
        "timing_only": timing_only(run),
        **{name: run.get(name) for name in ("epochs", "batch", "workers")},
        "eval_every": run.get("eval_every", 0.25),
        "model": run["model"]["name"],
        "parameters": run["model"].get("parameters"),
        "optimizer": json.dumps(optimizer(run), sort_keys=True),
    }


def key_of(run: Summary, varies: Sequence[str] = ()) -> Key:
    """What is equal in all runs that stand together: experiment, kind, scale and place, and of those that train the
    `conditions` that may not vary."""
    room = run["testbed"].partition("/")[0]
    place: Key = (room if room in TOGETHER else run["testbed"],)
    if run["kind"] != SIMULATED:
        place += (run["hardware"]["class"], run["launcher"], run.get("threads_per_rank") or 1)
    if trains(run) and ALL not in varies:
        place += tuple(value for name, value in conditions(run).items() if name not in varies)
    return (run["experiment"], run["kind"], run.get("scale"), *place)


def grouped(runs: Runs, varies: Sequence[str] = (), variants: Sequence[str] = ()) -> list[Runs]:
    """The runs by `key_of`, in a fixed order; of what differs within a variant that which most seeds have, then the
    latest, and of each seed the latest run. What is left of it are groups of their own.

    variants: their order.
    """
    found: dict[Key, list[int]] = {}
    for number, run in runs.records.items():
        found.setdefault(key_of(run, varies), []).append(number)
    made = []
    for key in sorted(found, key=repr):
        loose = ALL in varies or not trains(runs.records[found[key][0]])
        latest = _of_latest_testbeds(runs.records, found[key]) if loose else found[key]
        kept, differing = _of_each(runs.records, latest)
        order = {name: place for place, name in enumerate(variants)}
        made.append(runs.only(sorted(kept, key=lambda number: _order(runs.records[number], order))))
        made += grouped(runs.only(differing), varies, variants) if differing else []
    return made


def _order(run: Summary, variants: Mapping[str, int]) -> Key:
    own = (run["testbed"], model(run), run["workers"], run["variant"], run.get("breakdown") is True, run["seed"])
    return (variants.get(run["variant"], len(variants)), *own)


def _of_latest_testbeds(records: Mapping[int, Summary], numbers: Sequence[int]) -> list[int]:
    """Without simulated runs whose testbed had other parameters under the same name than in its model's latest run."""
    if records[numbers[0]]["kind"] != SIMULATED:
        return list(numbers)

    def parameters(number: int) -> str:
        return json.dumps(records[number].get("testbed_model"), sort_keys=True)

    places = {n: (run["testbed"], trains(run) and model(run)) for n in numbers for run in [records[n]]}
    latest = {places[n]: parameters(n) for n in sorted(numbers, key=lambda number: finished(records[number]))}
    return [number for number in numbers if latest[places[number]] == parameters(number)]


def _of_each(records: Mapping[int, Summary], numbers: Sequence[int]) -> tuple[list[int], list[int]]:
    """(the runs that count of each variant, testbed, model and number of workers; those with other options)"""
    places: dict[Key, dict[str, dict[int, int]]] = {}
    left: list[int] = []
    for number in sorted(numbers, key=lambda number: finished(records[number])):
        run = records[number]
        place = (run["variant"], run["testbed"], model(run), run["workers"], run.get("breakdown") is True)
        place_of = conditions(run) if trains(run) else run.get("testbed_model")
        made_with = [run.get("strategy"), run.get("options"), place_of]
        of_options = places.setdefault(place, {}).setdefault(json.dumps(made_with, sort_keys=True, default=str), {})
        of_options[run["seed"]] = number
    kept: list[int] = []
    for of_place in places.values():
        best = max(
            of_place, key=lambda one: (len(of_place[one]), max(finished(records[n]) for n in of_place[one].values()))
        )
        kept += of_place[best].values()
        left += [number for one, of in of_place.items() if one != best for number in of.values()]
    return kept, left


def model(run: Summary) -> str:
    """What a run is about: the model among its factors, else its model's name."""
    own, trained = run.get("factors") or {}, run.get("model") or {}
    return str(own.get("model") or trained.get("name") or run["variant"])


def best(found: Iterable[Runs]) -> dict[str, Runs]:
    """kind -> its best group.

    None of scale quick where there are others; then the papers' networks before others; then most variants or runs;
    then runs with accuracies before those without; then the group that finished last. Runs whose times do not count
    are no group.
    """

    def rank(group: Runs) -> Key:
        first, last = group.first, max(map(finished, group.records.values()))
        preferred = first["testbed"].startswith(PREFERRED)
        return first.get("scale") != QUICK, preferred, count(group), not group.timing_only, last

    def count(group: Runs) -> int:
        counted = [run["variant"] for run in group.records.values() if run.get("breakdown") is not True]
        return len(set(counted) if trains(group.first) else counted)

    chosen: dict[str, Runs] = {}
    for group in sorted(filter(count, found), key=rank, reverse=True):
        chosen.setdefault(group.kind, group)
    return {kind: chosen[kind] for kind in KINDS if kind in chosen}
