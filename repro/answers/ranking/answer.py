"""Ranks strategies by their predicted step: intervals, shares of draws, and what would change the order."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from repro.algorithms.timing.setting import Setting
from repro.algorithms.timing.step import Step
from repro.answers.claims.verdict import range_within_90
from repro.answers.ranking import draws, flips, forms, memory, statistical
from repro.answers.ranking.calibration import Calibration
from repro.answers.ranking.candidates import ANY, BETTER, OFTEN, PAYS, SYNCHRONOUS, Candidate, read_candidates
from repro.answers.ranking.own_runs import Run
from repro.answers.ranking.statistical import Cost
from repro.answers.ranking.workload import Workload
from repro.core.errors import InputError
from repro.core.not_none import not_none

SIMULATED = 3  # candidates of a comparison to simulate at most
MESSAGES = 5_000  # in all, after which no further simulation begins: a count, so that no answer depends on the load
OVERHEAD = "overhead"  # the part of a step that frameworks and clusters add
MOST_RANKS = 8  # of a simulation


@dataclass(frozen=True)
class Row:
    """A strategy in the setting.

    low_s, high_s: bounds of the interval. fastest: comparison -> share of the draws in which it is the fastest or ties.
    beaten: comparison -> the largest share of the draws in which one other strategy pays (is faster by PAYS). memory:
    bytes. simulated_s: by the simulator, if it ran. cost: iterations to a target. fits: the memory.
    """

    candidate: Candidate
    step: Step
    low_s: float
    high_s: float
    fastest: Mapping[str, float]
    beaten: Mapping[str, float]
    memory: float
    simulated_s: float | None
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

    flips: comparison -> changes of what to use. errors: the source of the predictions' errors.
    """

    load: Workload
    setting: Setting
    known: Sequence[str]
    rows: Sequence[Row]
    flips: Mapping[str, Sequence[flips.Flip]]
    errors: str
    notes: Sequence[str] = field(default_factory=tuple)

    def best(self, kind: str = ANY) -> Row:
        """What to use: the simplest strategy that no other one replaces."""
        return self.ties(kind)[0]

    def ties(self, kind: str = ANY) -> list[Row]:
        """The rows that fit the memory and that no strategy of the comparison beats in OFTEN of the draws, the simplest
        first, as in the file."""
        order = list(read_candidates())
        fitting = [row for row in self.rows if row.fits and row.candidate.counts(kind)]
        least = min(row.beaten[kind] for row in fitting)
        tied = [row for row in fitting if row.beaten[kind] < max(OFTEN, least + 1e-9)]
        return sorted(tied, key=lambda row: order.index(row.candidate.name))

    @property
    def samples(self) -> int:
        """The global batch."""
        return self.setting.workers * (self.load.profile.batch or 1)


def rank_strategies(
    setting: Setting, load: Workload, known: Sequence[str], most: float | None = None, notes: Sequence[str] = (),
    chosen: Mapping[str, Candidate] | None = None, simulating: bool = True, calibration: Calibration | None = None,
    runs: Sequence[Run] = (),
) -> Answer:  # fmt: skip
    """The answer for a setting; most: bytes of memory; chosen: the only candidates, without flips; calibration: errors
    of predictions; runs: the user's own."""
    among = read_candidates() if chosen is None else chosen
    points = {name: step for name, each in among.items() if (step := forms.closed_form_step(each, setting))}
    nbytes = {name: memory.peak_bytes(among[name], setting, load.activations) for name in points}
    fits = {name: most is None or needed <= most for name, needed in nbytes.items()}
    compared = [name for name in points if among[name].counts(SYNCHRONOUS)]
    if most is not None and not any(fits[name] for name in compared):
        least = format_gigabytes(min(nbytes[name] for name in compared))
        raise InputError(f"memory {format_gigabytes(most)}: no strategy fits; must be {least} or more, as 16G")
    fitting = [name for name in points if fits[name]]
    simulated_s = simulate_best(among, {name: points[name] for name in fitting}, setting) if simulating else {}
    for name, seconds in simulated_s.items():
        points[name] = rescale_step(points[name], seconds)
    chosen_points = {name: among[name] for name in points}
    at = at_draws(chosen_points, points, setting, known, calibration, runs)
    middle = {name: middle_error(step, setting, calibration, runs) for name, step in points.items()}
    points = {name: with_overhead(step, middle[name]) for name, step in points.items()}
    fitting_at = {name: at[name] for name in fitting}
    rows = []
    for name in sorted(points, key=lambda name: (not fits[name], not among[name].ranked, points[name].seconds)):
        candidate, step = among[name], points[name]
        low, high = range_within_90(at[name])
        ends = min(low, step.seconds), max(high, step.seconds)
        cost = statistical.statistical_cost(candidate)
        shares, beaten = (rule(among, fitting_at, candidate, at[name]) for rule in (fastest_shares, beaten_shares))
        rows.append(Row(candidate, step, *ends, shares, beaten, nbytes[name], simulated_s.get(name), cost, fits[name]))
    lead = calibration.lead if calibration else 1 + PAYS
    kinds = [kind for kind in (SYNCHRONOUS, ANY) if chosen is None]
    changes = flips.Changes(among, setting, fits, lead)
    answer = Answer(load, setting, tuple(known), rows, {}, str(calibration or "none"), tuple(notes))
    return replace(answer, flips={kind: changes.find_flips(kind, answer.best(kind).candidate.name) for kind in kinds})


def format_gigabytes(nbytes: float) -> str:
    return f"{nbytes / 1e9:.1f}G" if nbytes >= 5e7 else f"{nbytes / 1e6:.3g}M"


def simulate_best(among: Mapping[str, Candidate], points: Mapping[str, Step], setting: Setting) -> dict[str, float]:
    """Simulated seconds of each comparison's best candidates, if their closed forms cannot tell the fastest."""
    if setting.workers > MOST_RANKS:
        return {}
    seconds: dict[str, float] = {}
    messages = 0
    for name in dict.fromkeys(
        name for kind in (SYNCHRONOUS, ANY) for name in undecided_candidates(among, points, kind)
    ):
        if messages > MESSAGES:
            break
        seconds[name], sent = forms.simulate_seconds(among[name], setting)
        messages += sent
    return seconds


def undecided_candidates(among: Mapping[str, Candidate], points: Mapping[str, Step], kind: str) -> list[str]:
    """The candidates with a simulation that may be a comparison's fastest, as far as their forms err, in the order of
    their forms; none if only one may be."""
    ranked = sorted((name for name in points if among[name].counts(kind)), key=lambda name: points[name].seconds)
    error = {name: not_none(among[name].form_error).usual for name in ranked}
    most = points[ranked[0]].seconds * (1 + error[ranked[0]])
    near = [name for name in ranked if points[name].seconds <= most * (1 + error[name])]
    return [name for name in near if among[name].modelled][:SIMULATED] if len(near) > 1 else []


def rescale_step(step: Step, seconds: float) -> Step:
    """The step with all parts but computation scaled so that it takes `seconds`."""
    fixed = step.phases["computation"]
    rest = step.seconds - fixed
    if rest <= 0 or seconds <= fixed:
        return step
    factor = (seconds - fixed) / rest
    parts = {name: part if name == "computation" else part * factor for name, part in step.phases.items()}
    return Step(seconds, parts, step.hidden_s)


def with_overhead(step: Step, error: float) -> Step:
    """The step that is longer by an error, a part of its own; if it is shorter, all its parts are."""
    more = step.seconds * math.expm1(error)
    if more >= 0:
        return Step(step.seconds + more, {**step.phases, OVERHEAD: more}, step.hidden_s)
    parts = {name: part * math.exp(error) for name, part in step.phases.items()}
    return Step(step.seconds + more, parts, step.hidden_s)


def middle_error(step: Step, setting: Setting, calibration: Calibration | None, runs: Sequence[Run]) -> float:
    """The error of the prediction in the middle: the user's runs', else the median of those that sources show."""
    if runs:
        return statistics.fmean(run.log_ratio(setting) for run in runs)
    return calibration.errors_of(step).shared(0.5) if calibration else 0.0


def at_draws(
    among: Mapping[str, Candidate], points: Mapping[str, Step], setting: Setting, known: Sequence[str],
    calibration: Calibration | None = None, runs: Sequence[Run] = (),
) -> dict[str, list[float]]:  # fmt: skip
    """Candidate -> seconds at each draw of the unknown inputs and of the errors; a pipeline's change as its lower bound
    does."""
    centre = {name: forms.closed_form_step(among[name], setting, least=True) for name in points}
    errors = calibration.drawn(points, draws.DRAWS, shared=not runs) if calibration else {}
    seconds: dict[str, list[float]] = {name: [] for name in points}
    for number, drawn in enumerate(draws.drawn_settings(setting, known)):
        of_runs = statistics.fmean(run.log_ratio(drawn) for run in runs) if runs else 0.0
        for name, point in points.items():
            step, base = forms.closed_form_step(among[name], drawn, least=True), centre[name]
            moved = step.seconds / base.seconds if step and base else 1.0
            error = of_runs + (errors[name][number] if calibration else 0.0)
            seconds[name].append(point.seconds * moved * math.exp(error))
    return seconds


def fastest_shares(
    among: Mapping[str, Candidate], at: Mapping[str, Sequence[float]], candidate: Candidate, seconds: Sequence[float]
) -> dict[str, float]:
    """Comparison that includes the candidate -> share of the draws in which it is the fastest, or ties.

    at: the seconds at each draw of all candidates that count; seconds: the candidate's.
    """
    shares = {}
    for kind in filter(candidate.counts, (SYNCHRONOUS, ANY)):
        least = np.min([times for other, times in at.items() if among[other].counts(kind)], axis=0)
        shares[kind] = float(np.mean(np.asarray(seconds) <= (1 + BETTER) * least))
    return shares


def beaten_shares(
    among: Mapping[str, Candidate], at: Mapping[str, Sequence[float]], candidate: Candidate, seconds: Sequence[float]
) -> dict[str, float]:
    """Comparison that includes the candidate -> the largest share of the draws in which one other candidate pays."""
    needed = (1 - PAYS) * np.asarray(seconds)
    return {
        kind: max(float(np.mean(np.asarray(times) <= needed)) for name, times in at.items() if among[name].counts(kind))
        for kind in filter(candidate.counts, (SYNCHRONOUS, ANY))
    }
