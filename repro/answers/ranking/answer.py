"""Ranks strategies by their predicted step: intervals, shares of draws, and what would change the order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from repro.answers.claims.verdict import range_within_90
from repro.answers.ranking import draws, flips, forms, memory, simulate, statistical
from repro.answers.ranking.candidates import ANY, SYNCHRONOUS, Candidate, read_candidates
from repro.answers.ranking.setting import Setting
from repro.answers.ranking.simulate import Step
from repro.answers.ranking.statistical import Cost
from repro.answers.ranking.workload import Workload
from repro.core.errors import InputError

SIMULATED = 3  # candidates of a comparison to simulate at most
MESSAGES = 20_000  # in all, after which no further simulation begins: a count, so that no answer depends on the load
MOST_RANKS = 8  # of a simulation
OFTEN = 0.5  # a strategy less than 1 % slower ties if it is the fastest at least so often, relative to the first


@dataclass(frozen=True)
class Row:
    """A strategy in the setting.

    low_s, high_s: bounds of the interval. fastest: comparison -> share of the draws in which it is the fastest or ties.
    memory: bytes. simulated_s: by the simulator, if it ran. cost: iterations to a target. fits: the memory.
    """

    candidate: Candidate
    step: Step
    low_s: float
    high_s: float
    fastest: Mapping[str, float]
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
    """Rows by predicted seconds, those that do not fit the memory last; known: names of the inputs that are not drawn.

    flips: comparison -> changes of the fastest; halved: comparison -> (fastest, seconds) at half of the bandwidth.
    errors: the source of the simulation's errors.
    """

    load: Workload
    setting: Setting
    known: Sequence[str]
    rows: Sequence[Row]
    flips: Mapping[str, Sequence[flips.Flip]]
    halved: Mapping[str, tuple[str, float]]
    errors: str
    notes: Sequence[str] = field(default_factory=tuple)

    def best(self, kind: str = ANY) -> Row:
        """The row of a comparison that is the fastest in most draws; among ties the simplest."""
        return self.ties(kind)[0]

    def ties(self, kind: str = ANY) -> list[Row]:
        """The row that fits the memory and is the fastest in most draws, and those less than 1 % slower that are the
        fastest in half as many or more: the simplest first, as in the file."""
        order = list(read_candidates())
        fitting = [row for row in self.rows if row.fits and row.candidate.counts(kind)]
        top = max(fitting, key=lambda row: (row.fastest[kind], -row.seconds))
        tied = [
            row
            for row in fitting
            if row.fastest[kind] >= OFTEN * top.fastest[kind] and row.seconds <= (1 + flips.BETTER) * top.seconds
        ]
        return sorted(tied, key=lambda row: order.index(row.candidate.name))

    @property
    def samples(self) -> int:
        """The global batch."""
        return self.setting.workers * (self.load.profile.batch or 1)


def rank_strategies(
    setting: Setting, load: Workload, known: Sequence[str], most: float | None = None, notes: Sequence[str] = (),
    chosen: Mapping[str, Candidate] | None = None, simulating: bool = True,
) -> Answer:  # fmt: skip
    """The answer for a setting; most: bytes of memory; chosen: the only candidates, without flips."""
    among = read_candidates() if chosen is None else chosen
    points = {name: step for name, each in among.items() if (step := forms.closed_form_step(each, setting))}
    nbytes = {name: memory.peak_bytes(among[name], setting, load.activations) for name in points}
    fits = {name: most is None or needed <= most for name, needed in nbytes.items()}
    if not any(fits.values()):
        least = format_gigabytes(min(nbytes.values()))
        raise InputError(f"memory {most:g}: no strategy fits into {most:g} bytes; must be {least} or more, as 16G")
    fitting = [name for name in points if fits[name]]
    simulated_s = simulate_best(among, {name: points[name] for name in fitting}, setting) if simulating else {}
    for name, seconds in simulated_s.items():
        points[name] = rescale_step(points[name], seconds)
    at, errors = at_draws(among, points, setting, known)
    fitting_at = {name: at[name] for name in fitting}
    rows = []
    for name in sorted(points, key=lambda name: (not fits[name], points[name].seconds)):
        candidate, step = among[name], points[name]
        low, high = range_within_90(at[name])
        ends = min(low, step.seconds), max(high, step.seconds)
        shares, cost = fastest_shares(among, fitting_at, candidate, at[name]), statistical.statistical_cost(candidate)
        rows.append(Row(candidate, step, *ends, shares, nbytes[name], simulated_s.get(name), cost, fits[name]))
    kinds = [kind for kind in (SYNCHRONOUS, ANY) if chosen is None]
    changes = {kind: flips.find_flips(among, setting, fits, kind) for kind in kinds}
    halved = {kind: flips.fastest_at_half(among, setting, fits, kind) for kind in kinds}
    return Answer(load, setting, tuple(known), rows, changes, halved, errors, tuple(notes))


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
        step = simulate.simulate_step(among[name], setting)
        seconds[name], messages = step.seconds, messages + step.messages
    return seconds


def undecided_candidates(among: Mapping[str, Candidate], points: Mapping[str, Step], kind: str) -> list[str]:
    """The candidates with a simulation that may be a comparison's fastest, as far as their forms err, in the order of
    their forms; none if only one may be."""
    ranked = sorted((name for name in points if among[name].counts(kind)), key=lambda name: points[name].seconds)
    most = points[ranked[0]].seconds * (1 + among[ranked[0]].error)
    near = [name for name in ranked if points[name].seconds <= most * (1 + among[name].error)]
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


def at_draws(
    among: Mapping[str, Candidate], points: Mapping[str, Step], setting: Setting, known: Sequence[str]
) -> tuple[dict[str, list[float]], str]:
    """(seconds at each draw of the unknown inputs and of the validation's errors, the source of these errors)"""
    centre = {name: forms.closed_form_step(among[name], setting) for name in points}
    names = {name: among[name].simulated()[0] for name in points}
    residuals = draws.simulation_errors(set(names.values()), setting.nbytes)
    seconds: dict[str, list[float]] = {name: [] for name in points}
    for number, drawn in enumerate(draws.drawn_settings(setting, known)):
        error = residuals.of_draw(number) if residuals else None
        for name, point in points.items():
            step, base = forms.closed_form_step(among[name], drawn), centre[name]
            moved = step.seconds / base.seconds if step and base else 1.0
            seconds[name].append(point.seconds * moved * (error.factor_of(names[name]) if error else 1.0))
    return seconds, residuals.source if residuals else "none: no results of the validation"


def fastest_shares(
    among: Mapping[str, Candidate], at: Mapping[str, Sequence[float]], candidate: Candidate, seconds: Sequence[float]
) -> dict[str, float]:
    """Comparison that includes the candidate -> share of the draws in which it is the fastest, or ties.

    at: the seconds at each draw of all candidates that count; seconds: the candidate's.
    """
    shares = {}
    for kind in filter(candidate.counts, (SYNCHRONOUS, ANY)):
        least = np.min([times for other, times in at.items() if among[other].counts(kind)], axis=0)
        shares[kind] = float(np.mean(np.asarray(seconds) <= (1 + flips.BETTER) * least))
    return shares
