"""Every strategy's predicted step for a model on a network, ranked: how sure that is, and what would change it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from repro.core.errors import InputError
from repro.ranking import draws, flips, forms, memory, question, simulate, statistical
from repro.ranking.candidates import ANY, SYNCHRONOUS, Candidate, every
from repro.ranking.setting import Setting
from repro.ranking.simulate import Step
from repro.ranking.statistical import Cost
from repro.ranking.workload import Workload

SIMULATED = 4  # of the best by their closed forms
SIMULATED_S = 6.0  # after which no further simulation begins
MOST_RANKS = 16  # of a simulation here; more ranks take minutes
TAILS = (1 - draws.COVERS) / 2, (1 + draws.COVERS) / 2  # between which the interval's draws lie


@dataclass(frozen=True)
class Row:
    """A strategy in the setting. low_s, high_s: hold 90 % of the draws; fastest: share of the draws in which it is the
    first of those that it is compared with (`Candidate.counts`), or less than 1 % behind; simulated_s: by the
    simulator, where it ran beside the closed form."""

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
        """The part of the step that is largest besides computation, if it is more than a twentieth of the step."""
        parts = {name: seconds for name, seconds in self.step.phases.items() if name != "computation"}
        largest = max(parts, key=lambda name: parts[name])
        return largest if parts[largest] > 0.05 * self.seconds else "computation"


@dataclass(frozen=True)
class Answer:
    """Rows by predicted seconds; those that do not fit the memory last."""

    load: Workload
    setting: Setting
    given: Sequence[str]
    rows: Sequence[Row]
    flips: Mapping[str, Sequence[flips.Flip]]
    halved: Mapping[str, tuple[str, float]]
    errors: str
    notes: Sequence[str] = field(default_factory=tuple)

    def best(self, of: str = ANY) -> Row:
        """The fastest that fits, of those that keep synchronous SGD's updates or of all that are compared; of those
        that are less than 1 % apart the first in the file, which is the simplest."""
        alike = {row.candidate.name: row for row in self.alike(of)}
        return next(alike[name] for name in every() if name in alike)

    def alike(self, of: str = ANY) -> list[Row]:
        """Those that fit and are less than 1 % behind the fastest."""
        own = [row for row in self.rows if row.fits and row.candidate.counts(of)]
        return [row for row in own if row.seconds <= (1 + flips.BETTER) * own[0].seconds]

    @property
    def samples(self) -> int:
        """Of an iteration: the global batch."""
        return self.setting.workers * (self.load.profile.batch or 1)


def recommend(
    model: str,
    bandwidth: float | str,
    workers: int,
    *,
    latency: float | str | None = None,
    gpus_per_node: int = 1,
    step_ms: float | None = None,
    gpu: str | None = None,
    batch: int = 32,
    imbalance: float | None = None,
    memory_bytes: float | str | None = None,
    shape: Sequence[int] | None = None,
) -> Answer:
    """Rank strategies for a model on a network.

    model          a model's name, FILE.py:Class of a module without arguments, or a profile FILE.json
    bandwidth      measured goodput between two machines: bits/s, or a text as "10g"
    workers        GPUs that compute
    latency        of a small message, one way: seconds, or a text as "50us"; None: drawn
    step_ms        forward and backward pass of one worker's minibatch; or `gpu`, one that the papers' testbeds have
    batch          samples of one worker's minibatch
    imbalance      share of its computation by which one random worker is late in each iteration; None: drawn, 0 to 0.05
    memory_bytes   of a GPU: bytes, or a text as "16G"

    InputError for what cannot be.
    """
    setting, load, given, notes = question.of(
        model, bandwidth, workers, latency, gpus_per_node, step_ms, gpu, batch, imbalance, shape
    )
    most = None if memory_bytes is None else question.amount(memory_bytes, "memory", question.SIZES)
    return ranked(setting, load, given, most, notes)


def ranked(
    setting: Setting, load: Workload, given: Sequence[str], most: float | None = None, notes: Sequence[str] = (),
    chosen: Mapping[str, Candidate] | None = None, simulating: bool = True,
) -> Answer:  # fmt: skip
    """The answer for a setting; chosen: other candidates than all, without what would change."""
    among = every() if chosen is None else chosen
    points = {name: step for name, one in among.items() if (step := forms.step(one, setting))}
    fits = {name: most is None or memory.of(among[name], setting, load.kept) <= most for name in points}
    if not any(fits.values()):
        least = min(memory.of(among[name], setting, load.kept) for name in points)
        raise InputError(f"memory: no strategy fits; must be {gigabytes(least)} or more")
    found = simulated(among, points, setting) if simulating else {}
    for name, step in found.items():
        points[name] = rescaled(points[name], step.seconds)
    at, errors = at_draws(among, points, setting, given)
    rows = []
    for name in sorted(points, key=lambda name: (not fits[name], points[name].seconds)):
        one, step = among[name], points[name]
        low, high = (np.sort(at[name])[int(end * draws.DRAWS)] for end in TAILS)
        ends = min(float(low), step.seconds), max(float(high), step.seconds)
        by_code = found[name].seconds if name in found else None
        kept = memory.of(one, setting, load.kept)
        rows.append(Row(one, step, *ends, fastest(among, at, name), kept, by_code, statistical.of(one), fits[name]))
    kinds = [of for of in (SYNCHRONOUS, ANY) if chosen is None]
    changes = {of: flips.of(among, setting, fits, of) for of in kinds}
    halved = {of: flips.halved(among, setting, fits, of) for of in kinds}
    return Answer(load, setting, tuple(given), rows, changes, halved, errors, tuple(notes))


def gigabytes(nbytes: float) -> str:
    return f"{nbytes / 1e9:.1f}G" if nbytes >= 5e7 else f"{nbytes / 1e6:.3g}M"


def simulated(among: Mapping[str, Candidate], points: Mapping[str, Step], setting: Setting) -> dict[str, Step]:
    """The best by their closed forms, by their own code in virtual time, as far as there is time."""
    if setting.workers > MOST_RANKS:
        return {}
    began, found = time.perf_counter(), {}
    best = sorted((name for name in points if among[name].modelled), key=lambda name: points[name].seconds)
    exact = [name for name in best if among[name].keeps == SYNCHRONOUS]
    for name in dict.fromkeys([*best[: SIMULATED // 2], *exact[: SIMULATED // 2]]):
        if time.perf_counter() - began > SIMULATED_S:
            break
        found[name] = of_code(among[name], setting)
    return found


def of_code(candidate: Candidate, setting: Setting) -> Step:
    """A candidate's step, simulated."""
    place = setting.place(candidate)
    name, options = candidate.simulated()
    if place.servers:
        options = options | {"servers": place.servers}
    return simulate.step(name, options, setting.profile, place.workers, place.network, setting.costs, setting.late_s)


def rescaled(step: Step, seconds: float) -> Step:
    """The step with what is besides computation longer or shorter, so that it takes so many seconds."""
    fixed = step.phases["computation"]
    rest = step.seconds - fixed
    if rest <= 0 or seconds <= fixed:
        return step
    factor = (seconds - fixed) / rest
    parts = {name: part if name == "computation" else part * factor for name, part in step.phases.items()}
    return Step(seconds, parts, step.hidden_s)


def at_draws(
    among: Mapping[str, Candidate], points: Mapping[str, Step], setting: Setting, given: Sequence[str]
) -> tuple[dict[str, list[float]], str]:
    """Seconds at each draw of what is not given and of the error that the validation found; what that is from."""
    centre = {name: forms.step(among[name], setting) for name in points}
    names = {name: among[name].simulated()[0] for name in points}
    off = draws.errors(set(names.values()), setting.nbytes)
    found: dict[str, list[float]] = {name: [] for name in points}
    for number, drawn in enumerate(draws.settings(setting, given)):
        error = off.of_draw(number) if off else None
        for name, point in points.items():
            step, base = forms.step(among[name], drawn), centre[name]
            moved = step.seconds / base.seconds if step and base else 1.0
            found[name].append(point.seconds * moved * (error.of({"strategy": names[name]}) if error else 1.0))
    return found, off.source if off else "none: no results of the validation"


def fastest(among: Mapping[str, Candidate], at: Mapping[str, Sequence[float]], name: str) -> dict[str, float]:
    """Kind that the candidate counts for -> the share of the draws in which it is the first, or as good as that."""
    shares = {}
    for kind in filter(among[name].counts, (SYNCHRONOUS, ANY)):
        least = np.min([times for other, times in at.items() if among[other].counts(kind)], axis=0)
        shares[kind] = float(np.mean(np.asarray(at[name]) <= (1 + flips.BETTER) * least))
    return shares
