"""Emulated runs of the reference beside the closed forms of their testbeds, models and strategies.

The runs send real messages over limited links. They are independent of the forms: the errors in predictions' intervals
come from throughputs that others published (`repro.answers.ranking.calibration`).
"""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, replace
from functools import cache
from typing import Any

from repro.algorithms.pipeline import profiler
from repro.algorithms.timing.setting import Setting
from repro.answers.ranking.against import Emulated
from repro.answers.ranking.candidates import Candidate, read_candidates
from repro.answers.ranking.on_testbed import setting_on
from repro.core.not_none import not_none
from repro.core.registry import PLUGINS
from repro.experiment.testbeds import Emulated as EmulatedTestbed
from repro.experiment.testbeds import testbed_of
from repro.records import reference, variants
from repro.records.identity import Identity, NamedPart
from repro.records.kinds import EMULATED
from repro.records.record import Record, TrainResult

SETTING = ("testbed.", "model.", "imbalance.", "workers", "batch")  # paths in which strategies are equal to be compared
# options in which a run may differ from its candidate: the form reads the first; the others change no iteration's time
FREE = ("selection", "thread", "sync_epochs")


def emulated_rows() -> list[Emulated]:
    """A row for each configuration of a candidate in an experiment: means over its seeds."""
    runs = [record for paper in reference.papers() for record in reference.read(paper) if record.kind == EMULATED]
    configurations: dict[tuple[str, ...], list[Emulated]] = {}
    settings = variants.digest_configurations([record.identity for record in runs], only=SETTING)
    for record, setting in zip(runs, settings, strict=True):
        if row := of_run(record):
            key = row.paper, row.experiment, variants.configuration_of(record.identity)
            configurations.setdefault(key, []).append(replace(row, setting=setting))
    return [
        replace(
            seeds[0],
            emulated_s=statistics.fmean(row.emulated_s for row in seeds),
            predicted_s=statistics.fmean(row.predicted_s for row in seeds),
        )
        for seeds in configurations.values()
    ]


def of_run(record: Record) -> Emulated | None:
    """A run's seconds an iteration beside its form's; None for other runs than emulated trainings of a candidate."""
    identity, result = record.identity, record.result
    if record.kind != EMULATED or not isinstance(result, TrainResult) or identity.workers < 2:
        return None
    candidate, delay_s = candidate_of(identity.strategy), late_s(identity.imbalance)
    if candidate is None or delay_s is None:
        return None
    setting = setting_of(identity)
    setting = replace(setting, late=delay_s / setting.computation_s)
    kind, _ = candidate.in_virtual_time()
    step = kind.step_form(setting, candidate.place(setting), _options(identity.strategy))
    if step is None:
        return None
    beta, last = setting.testbed.beta_s_per_byte, result.curve[-1]
    return Emulated(
        paper=identity.paper,
        experiment=identity.experiment,
        variant=variants.label(identity),
        setting="",  # a digest, equal to those of other runs (`emulated_rows`)
        testbed=identity.testbed.name,
        model=setting.profile.model,
        workers=identity.workers,
        gbit=8e-9 / beta,
        ratio=setting.computation_s / (2 * setting.nbytes * beta),
        late=setting.late,
        candidate=candidate.name,
        emulated_s=not_none(last["train_s"]) / not_none(last["iteration"]),
        predicted_s=step.seconds,
    )


def candidate_of(strategy: NamedPart) -> Candidate | None:
    """The candidate with this strategy and its options."""
    compared = _compared(_options(strategy))
    for each in read_candidates().values():
        kind, options = each.in_virtual_time()
        if each.modelled and kind.name == strategy.name and compared == _compared(options):
            return each
    return None


def _compared(options: Any) -> dict[str, Any]:
    """The options that must agree; to the forms a library's allreduce is a ring."""
    return {key: "ring" if value == "native" else value for key, value in asdict(options).items() if key not in FREE}


def _options(strategy: NamedPart) -> Any:
    return PLUGINS["strategy"].load(strategy.name).parse(strategy.options)


def late_s(imbalance: NamedPart) -> float | None:
    """The delay of one random worker in each iteration; None for any other imbalance."""
    name, options = imbalance.name, imbalance.options
    if name == "none":
        return 0.0
    is_one = name == "random_one" or (name == "random_n" and options["n"] == 1)
    return float(options["delay_s"]) if is_one else None


def setting_of(run: Identity) -> Setting:
    """A run's testbed, model and minibatch, without entries that testbeds no longer have: none of them is a cost."""
    known, model = EmulatedTestbed.model_fields, not_none(run.model)
    entries = run.testbed.model_dump(exclude_unset=True)
    bed = json.dumps({name: value for name, value in entries.items() if name in known}, sort_keys=True)
    return _setting(bed, model.name, tuple(model.options.items()), run.batch // run.workers, run.workers)


@cache
def _setting(bed: str, model: str, options: tuple[tuple[str, Any], ...], batch: int, workers: int) -> Setting:
    """bed: the entries of a testbed, as JSON. Cached because building a model takes longer than all the rest."""
    dataset = profiler.usual_dataset(model)
    return setting_on(testbed_of(json.loads(bed)), model, dict(options), dataset, batch, workers)
