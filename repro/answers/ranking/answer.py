"""Ranks strategies by their predicted step: intervals, shares of draws, and what would change the order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from repro.algorithms.timing.setting import Setting
from repro.algorithms.timing.step import Step
from repro.answers.claims.verdict import range_within_90
from repro.answers.ranking import draws, flips, forms, memory, statistical
from repro.answers.ranking.alone import Alone, compare_alone
from repro.answers.ranking.calibration import Calibration
from repro.answers.ranking.candidates import (
    ANY,
    BETTER,
    OFTEN,
    PAYS,
    SYNCHRONOUS,
    Candidate,
    read_candidates,
)
from repro.answers.ranking.own_runs import Run, added_by, log_added
from repro.answers.ranking.statistical import Cost
from repro.answers.ranking.workload import Workload
from repro.core.errors import InputError
from repro.core.not_none import not_none

OVERHEAD = "overhead"  # the part of a step that frameworks and clusters add


@dataclass(frozen=True)
class Row:
    """A strategy in the setting.

    low_s, high_s: bounds of the interval. fastest: the share of the draws in which it is the fastest or ties; None: it
    is not compared. beaten: the largest share of the draws in which one other strategy of those that may be named pays
    (is faster by PAYS); None: it is none of them. memory: bytes. cost: iterations to a target. fits: the memory.
    """

    candidate: Candidate
    step: Step
    low_s: float
    high_s: float
    fastest: float | None
    beaten: float | None
    memory: float
    cost: Cost | None
    fits: bool = True

    @property
    def seconds(self) -> float:
        return self.step.seconds

    @property
    def limit(self) -> str:
        """The largest part of the step besides computation, if it is more than a twentieth of the step."""
        parts = {name: seconds for name, seconds in self.step.phases.items() if name != "computation"}
        largest = max(parts, key=lambda name: parts[name])
        return largest if parts[largest] > 0.05 * self.seconds else "computation"


@dataclass(frozen=True)
class Answer:
    """Rows by predicted seconds, then those that are not ranked, then those that do not fit the memory; known: names of
    the inputs that are not drawn.

    flips: changes of what to use. errors: the source of the predictions' errors. sizes: of the GPU's memory, bytes.
    alone: what fewer workers reach.
    """

    load: Workload
    setting: Setting
    known: Sequence[str]
    rows: Sequence[Row]
    flips: Sequence[flips.Flip]
    errors: str
    notes: Sequence[str] = field(default_factory=tuple)
    sizes: Sequence[float] = ()
    alone: Sequence[Alone] = ()

    @property
    def best(self) -> Row:
        """What to use: the simplest strategy that no other one replaces."""
        return self.ties[0]

    @property
    def fastest_named(self) -> Row:
        """The fastest of the rows that may be named and fit the memory."""
        return min((row for row in self.rows if row.fits and row.beaten is not None), key=lambda row: row.seconds)

    @property
    def faster_alone(self) -> Alone | None:
        """Fewer workers that all workers with the strategy to use do not replace, as they are not faster by PAYS."""
        most = max(self.alone, key=self.rate_of, default=None)
        return most if most and self.rate_of(most) > (1 - PAYS) * self.samples / self.best.seconds else None

    @property
    def by_tree(self) -> Row | None:
        """The usual strategy between two machines with NCCL's tree, which carries the bytes of an allreduce in two
        levels; None elsewhere."""
        rows = (row for row in self.rows if row.candidate.strategy == self.best.candidate.strategy)
        two_levels = (row for row in rows if row.candidate.link == "two_levels" and row.fits)
        return next(two_levels, None) if self.setting.machines == 2 else None

    @property
    def ties(self) -> list[Row]:
        """The rows that may be named, that fit the memory and that no other one beats in OFTEN of the draws, the
        simplest first, as in the file."""
        shares = {row.candidate.name: row.beaten for row in self.rows if row.fits and row.beaten is not None}
        most = max(OFTEN, min(shares.values()) + 1e-9)
        rows = {row.candidate.name: row for row in self.rows}
        return [rows[name] for name in read_candidates() if name in shares and shares[name] < most]

    @property
    def promising(self) -> list[Row]:
        """The rows that pay but may not be named, as they change the updates or are not proven: the simplest, and if
        another one is faster the fastest."""
        least = (1 - PAYS) * self.best.seconds
        rows = {row.candidate.name: row for row in self.rows if row.fits and row.fastest is not None}
        paying = [rows[name] for name in read_candidates() if name in rows and rows[name].seconds <= least]
        others = [row for row in paying if row.beaten is None]
        fastest = [min(others, key=lambda row: row.seconds)] if others else []
        return [each for each in others[:1] if each not in fastest] + fastest

    @property
    def samples(self) -> int:
        """The global batch."""
        return self.setting.workers * (self.load.profile.batch or 1)

    def rate_of(self, alone: Alone) -> float:
        """Samples/s."""
        return alone.workers * (self.load.profile.batch or 1) / alone.seconds


def rank_strategies(
    setting: Setting, load: Workload, known: Sequence[str], sizes: Sequence[float] = (), notes: Sequence[str] = (),
    chosen: Mapping[str, Candidate] | None = None, calibration: Calibration | None = None,
    runs: Sequence[Run] = (),
) -> Answer:  # fmt: skip
    """The answer for a setting; sizes: of a GPU's memory, bytes, of which the largest must suffice; chosen: the only
    candidates, without flips and fewer workers; calibration: errors of predictions; runs: the user's own."""
    among = read_candidates() if chosen is None else chosen
    points = {name: step for name, each in among.items() if (step := forms.closed_form_step(each, setting))}
    nbytes = {name: memory.peak_bytes(among[name], setting, load.activations) for name in points}
    fits = {name: not sizes or needed <= max(sizes) for name, needed in nbytes.items()}
    compared = [name for name in points if among[name].counts(SYNCHRONOUS)]
    if compared and not any(fits[name] for name in compared):
        possible = [among[name].label for name in points if fits[name] and among[name].counts(ANY)]
        raise InputError(refuse_memory(load, max(sizes), min(nbytes[name] for name in compared), possible))
    chosen_points = {name: among[name] for name in points}
    drawn = [*draws.drawn_settings(setting, known)]
    at = at_draws(chosen_points, points, setting, drawn, calibration, runs)
    middle = {name: middle_error(step, setting, calibration, runs) for name, step in points.items()}
    points = {name: with_overhead(step, middle[name]) for name, step in points.items()}
    fitting_at = {name: seconds for name, seconds in at.items() if fits[name]}
    rows = []
    for name in sorted(points, key=lambda name: (not fits[name], not among[name].ranked, points[name].seconds)):
        candidate, step = among[name], points[name]
        low, high = range_within_90(at[name])
        ends = min(low, step.seconds), max(high, step.seconds)
        cost = statistical.statistical_cost(candidate)
        fastest, beaten = (rule(among, fitting_at, candidate, at[name]) for rule in (fastest_share, beaten_share))
        rows.append(Row(candidate, step, *ends, fastest, beaten, nbytes[name], cost, fits[name]))
    answer = Answer(load, setting, tuple(known), rows, (), str(calibration or "none"), tuple(notes), tuple(sizes))
    if chosen is not None:
        return answer
    changes = flips.Changes(among, setting, fits, calibration.lead if calibration else 1 + PAYS)

    def corrected(candidate: Candidate, where: Setting) -> float:
        step = not_none(forms.closed_form_step(candidate, where))
        return step.seconds * math.exp(middle_error(step, where, calibration, runs))

    fewer = sorted({1, min(setting.gpus_per_node, setting.workers)} - {setting.workers})
    best = answer.best.candidate
    alone = [compare_alone(workers, setting, best, at[best.name], drawn, corrected) for workers in fewer]
    return replace(answer, flips=changes.find_flips(), alone=alone)


def refuse_memory(load: Workload, most: float, least: float, possible: Sequence[str]) -> str:
    """The message for a minibatch with which every strategy that may be named needs at least `least` bytes, more than
    `most`. possible: what is unproven but fits."""
    batch, left = load.profile.batch or 1, most - (least - load.activations)
    largest = math.floor(batch * left / load.activations) if load.activations else 0
    allowed = f"the largest batch that fits is {largest}" if largest > 0 else "not even one sample fits"
    others = f"; unproven, but fits: {', '.join(possible)}" if possible else ""
    return (
        f"memory {format_gigabytes(most)}: no proven strategy fits; {batch} samples a worker need "
        f"{format_gigabytes(least)}, {allowed} (--batch, --memory){others}; not ranked here: FSDP, ZeRO, checkpointing"
    )


def format_gigabytes(nbytes: float) -> str:
    return f"{nbytes / 1e9:.1f}G" if nbytes >= 5e7 else f"{nbytes / 1e6:.3g}M"


def with_overhead(step: Step, error: float) -> Step:
    """The step that is longer by an error, a part of its own; if it is shorter, all its parts are."""
    more = step.seconds * math.expm1(error)
    if more >= 0:
        return Step(step.seconds + more, {**step.phases, OVERHEAD: more}, step.hidden_s)
    parts = {name: part * math.exp(error) for name, part in step.phases.items()}
    return Step(step.seconds + more, parts, step.hidden_s)


def middle_error(step: Step, setting: Setting, calibration: Calibration | None, runs: Sequence[Run]) -> float:
    """The error of the prediction in the middle: that of the user's runs in such a place, else the median of those that
    sources show."""
    if alike := added_by(runs, setting):
        return log_added(alike, step, setting)
    return calibration.errors_of(step).middle if calibration else 0.0


def at_draws(
    among: Mapping[str, Candidate], points: Mapping[str, Step], setting: Setting, drawn: Sequence[Setting],
    calibration: Calibration | None = None, runs: Sequence[Run] = (),
) -> dict[str, list[float]]:  # fmt: skip
    """Candidate -> seconds at each draw of the unknown inputs and of the errors; a pipeline's change as its lower bound
    does."""
    runs = added_by(runs, setting)
    centre = {name: forms.closed_form_step(among[name], setting, least=True) for name in points}
    errors = calibration.drawn(points, len(drawn), shared=not runs) if calibration else {}
    seconds: dict[str, list[float]] = {name: [] for name in points}
    for number, where in enumerate(drawn):
        for name, point in points.items():
            step, base = forms.closed_form_step(among[name], where, least=True), centre[name]
            moved = step.seconds / base.seconds if step and base else 1.0
            of_runs = log_added(runs, step, where) if step and runs else 0.0
            error = of_runs + (errors[name][number] if calibration else 0.0)
            seconds[name].append(point.seconds * moved * math.exp(error))
    return seconds


def fastest_share(
    among: Mapping[str, Candidate], at: Mapping[str, Sequence[float]], candidate: Candidate, seconds: Sequence[float]
) -> float | None:
    """The share of the draws in which a candidate is the fastest of all that are compared, or ties; None: it is not.

    at: the seconds at each draw of all candidates that count; seconds: the candidate's.
    """
    if not candidate.counts(ANY):
        return None
    least = np.min([times for name, times in at.items() if among[name].counts(ANY)], axis=0)
    return float(np.mean(np.asarray(seconds) <= (1 + BETTER) * least))


def beaten_share(
    among: Mapping[str, Candidate], at: Mapping[str, Sequence[float]], candidate: Candidate, seconds: Sequence[float]
) -> float | None:
    """The largest share of the draws in which one other candidate that may be named pays; None: this one may not be."""
    if not candidate.counts(SYNCHRONOUS):
        return None
    needed = (1 - PAYS) * np.asarray(seconds)
    others = [times for name, times in at.items() if among[name].counts(SYNCHRONOUS)]
    return max(float(np.mean(np.asarray(times) <= needed)) for times in others)
