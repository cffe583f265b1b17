"""Emulated runs of the reference beside what the closed forms say of their testbeds, models and strategies.

They are of real messages over limited links, and nothing here was made from them: the forms' errors are drawn from the
paper `validation`'s probes alone.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import cache
from typing import Any

from repro.algorithms.pipeline import profiler
from repro.core.paths import reference_root
from repro.core.registry import PLUGINS, TRAIN
from repro.experiment.testbeds import Emulated as EmulatedTestbed
from repro.experiment.testbeds import testbed_of
from repro.ranking import forms
from repro.ranking.against import Emulated
from repro.ranking.candidates import Candidate, every
from repro.ranking.on_testbed import setting_on
from repro.ranking.setting import Setting
from repro.records import catalogue, reference
from repro.records.kinds import EMULATED

# options that may differ from a candidate's: its form reads the first, and the others change no iteration's time there
OWN = ("selection", "thread", "sync_epochs")


def rows() -> list[Emulated]:
    """A row a place and candidate; the mean over runs that differ in the seed alone."""
    found: dict[Emulated, list[Emulated]] = {}
    for paper in reference.papers(reference_root()):
        for one in catalogue.runs(paper, reference_root()):
            if row := of_run(one.summary):
                found.setdefault(replace(row, emulated_s=0.0, predicted_s=0.0), []).append(row)
    return [
        replace(
            place,
            emulated_s=statistics.fmean(row.emulated_s for row in own),
            predicted_s=statistics.fmean(row.predicted_s for row in own),
        )
        for place, own in found.items()
    ]


def of_run(run: Mapping[str, Any]) -> Emulated | None:
    """A run's seconds an iteration beside its form's; None if it is no emulated training or no candidate's."""
    if run["kind"] != EMULATED or run.get("program") != TRAIN or run["workers"] < 2:
        return None
    candidate, delay_s = candidate_of(run), late_s(run["imbalance"])
    if candidate is None or delay_s is None:
        return None
    where = setting_of(run)
    where = replace(where, late=delay_s / where.computation_s)
    step = forms.FORMS[candidate.form](
        where, where.place(candidate), _options(run["strategy"], run["options"]), run["strategy"]
    )
    if step is None:
        return None
    beta, last = where.testbed.beta_s_per_byte, run["curve"][-1]
    return Emulated(
        paper=run["paper"],
        experiment=run["experiment"],
        testbed=run["testbed"],
        model=run["model"]["name"],
        workers=run["workers"],
        gbit=8e-9 / beta,
        ratio=where.computation_s / (2 * where.nbytes * beta),
        late=where.late,
        candidate=candidate.name,
        emulated_s=last["train_s"] / last["iteration"],
        predicted_s=step.seconds,
    )


def candidate_of(run: Mapping[str, Any]) -> Candidate | None:
    """The candidate whose strategy, with its options, a run has."""
    own = _compared(_options(run["strategy"], run["options"]))
    for one in every().values():
        name, options = one.simulated() if one.modelled else ("", {})
        if name == run["strategy"] and own == _compared(options):
            return one
    return None


def _compared(options: Mapping[str, Any]) -> dict[str, Any]:
    """A library's own allreduce is a ring to the forms."""
    return {key: "ring" if value == "native" else value for key, value in options.items() if key not in OWN}


def _options(strategy: str, given: Mapping[str, Any]) -> dict[str, Any]:
    return asdict(PLUGINS["strategy"].load(strategy).parse(given))


def late_s(imbalance: Mapping[str, Any]) -> float | None:
    """By how much one random worker is late in each iteration; None: it is another imbalance."""
    if imbalance["name"] == "none":
        return 0.0
    one = imbalance["name"] == "random_one" or (imbalance["name"] == "random_n" and imbalance["n"] == 1)
    return float(imbalance["delay_s"]) if one else None


def setting_of(run: Mapping[str, Any]) -> Setting:
    """A run's testbed, model and minibatch, from its record; entries that testbeds had once (bounds) say no costs."""
    known = EmulatedTestbed.model_fields
    bed = json.dumps({name: value for name, value in run["testbed_model"].items() if name in known}, sort_keys=True)
    model = tuple((key, value) for key, value in run["model"].items() if key != "parameters")
    return _setting(bed, model, run["batch"] // run["workers"], run["workers"])


@cache
def _setting(bed: str, model: tuple[tuple[str, Any], ...], batch: int, workers: int) -> Setting:
    """bed: the entries of a testbed, as JSON; building a model takes longer than all the rest."""
    options = dict(model)
    name = options.pop("name")
    return setting_on(testbed_of(json.loads(bed)), name, options, profiler.usual_dataset(name), batch, workers)
