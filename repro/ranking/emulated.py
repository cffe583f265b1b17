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
from repro.core.not_none import not_none
from repro.core.registry import PLUGINS
from repro.experiment.testbeds import Emulated as EmulatedTestbed
from repro.experiment.testbeds import testbed_of
from repro.ranking import forms
from repro.ranking.against import Emulated
from repro.ranking.candidates import Candidate, every
from repro.ranking.on_testbed import setting_on
from repro.ranking.setting import Setting
from repro.records import reference
from repro.records.identity import Identity, NamedPart
from repro.records.kinds import EMULATED
from repro.records.record import Record, TrainResult

# options that may differ from a candidate's: its form reads the first, and the others change no iteration's time there
OWN = ("selection", "thread", "sync_epochs")


def rows() -> list[Emulated]:
    """A row a place and candidate; the mean over runs that differ in the seed alone."""
    found: dict[Emulated, list[Emulated]] = {}
    for record in (record for paper in reference.papers() for record in reference.read(paper)):
        if row := of_run(record):
            found.setdefault(replace(row, emulated_s=0.0, predicted_s=0.0), []).append(row)
    return [
        replace(
            place,
            emulated_s=statistics.fmean(row.emulated_s for row in own),
            predicted_s=statistics.fmean(row.predicted_s for row in own),
        )
        for place, own in found.items()
    ]


def of_run(record: Record) -> Emulated | None:
    """A run's seconds an iteration beside its form's; None if it is no emulated training or no candidate's."""
    own, result = record.identity, record.result
    if record.kind != EMULATED or not isinstance(result, TrainResult) or own.workers < 2:
        return None
    candidate, delay_s = candidate_of(own.strategy), late_s(own.imbalance)
    if candidate is None or delay_s is None:
        return None
    where = setting_of(own)
    where = replace(where, late=delay_s / where.computation_s)
    step = forms.FORMS[candidate.form](where, where.place(candidate), _options(own.strategy), own.strategy.name)
    if step is None:
        return None
    beta, last = where.testbed.beta_s_per_byte, result.curve[-1]
    return Emulated(
        paper=own.paper,
        experiment=own.experiment,
        testbed=own.testbed.name,
        model=where.profile.model,
        workers=own.workers,
        gbit=8e-9 / beta,
        ratio=where.computation_s / (2 * where.nbytes * beta),
        late=where.late,
        candidate=candidate.name,
        emulated_s=not_none(last["train_s"]) / not_none(last["iteration"]),
        predicted_s=step.seconds,
    )


def candidate_of(strategy: NamedPart) -> Candidate | None:
    """The candidate that this strategy is, with its options."""
    own = _compared(_options(strategy))
    for one in every().values():
        name, options = one.simulated() if one.modelled else ("", {})
        if name == strategy.name and own == _compared(options):
            return one
    return None


def _compared(options: Mapping[str, Any]) -> dict[str, Any]:
    """A library's own allreduce is a ring to the forms."""
    return {key: "ring" if value == "native" else value for key, value in options.items() if key not in OWN}


def _options(strategy: NamedPart) -> dict[str, Any]:
    return asdict(PLUGINS["strategy"].load(strategy.name).parse(strategy.options))


def late_s(imbalance: NamedPart) -> float | None:
    """By how much one random worker is late in each iteration; None: it is another imbalance."""
    name, options = imbalance.name, imbalance.options
    if name == "none":
        return 0.0
    one = name == "random_one" or (name == "random_n" and options["n"] == 1)
    return float(options["delay_s"]) if one else None


def setting_of(own: Identity) -> Setting:
    """A run's testbed, model and minibatch; entries that testbeds had once (bounds) say no costs."""
    known, model = EmulatedTestbed.model_fields, not_none(own.model)
    entries = own.testbed.model_dump(exclude_unset=True)
    bed = json.dumps({name: value for name, value in entries.items() if name in known}, sort_keys=True)
    return _setting(bed, model.name, tuple(model.options.items()), own.batch // own.workers, own.workers)


@cache
def _setting(bed: str, model: str, options: tuple[tuple[str, Any], ...], batch: int, workers: int) -> Setting:
    """bed: the entries of a testbed, as JSON; building a model takes longer than all the rest."""
    dataset = profiler.usual_dataset(model)
    return setting_on(testbed_of(json.loads(bed)), model, dict(options), dataset, batch, workers)
