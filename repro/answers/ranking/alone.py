"""What fewer workers reach, and from which goodput or batch on more of them are worth it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from repro.algorithms.timing.setting import Setting
from repro.answers.ranking import forms
from repro.answers.ranking.candidates import PAYS, USUAL, Candidate, read_candidates
from repro.answers.ranking.flips import FASTEST, SLOWEST
from repro.core.not_none import not_none

MINIBATCHES = (2, 4, 8, 16)  # of an update
HALVINGS = 20


@dataclass(frozen=True)
class Alone:
    """One GPU or one machine with the usual strategy, beside all workers with the strategy to use.

    seconds: of an iteration. beaten: the share of the draws in which all workers pay (are faster by PAYS). pays_from:
    the goodput from which on they do, bits/s; None: they do at none. minibatches: of an update, with which the usual
    strategy on all workers pays, or a batch that is so much larger; None: with none of MINIBATCHES. gain: its samples/s
    over those of these workers.
    """

    workers: int
    seconds: float
    beaten: float
    pays_from: float | None
    minibatches: int | None = None
    gain: float = 1.0


def compare_alone(
    workers: int,
    setting: Setting,
    best: Candidate,
    at: Sequence[float],
    drawn: Sequence[Setting],
    corrected: Callable[[Candidate, Setting], float],
) -> Alone:
    """at: the best strategy's seconds at each of the drawn settings. corrected: a candidate's predicted seconds."""
    usual, fewer = read_candidates()[USUAL], replace(setting, workers=workers)
    seconds = corrected(usual, fewer)
    longest = seconds * setting.workers / workers  # of an iteration of all workers
    middle = seconds / not_none(forms.closed_form_step(usual, fewer)).seconds
    steps = [not_none(forms.closed_form_step(usual, replace(each, workers=workers))).seconds for each in drawn]
    beaten = np.asarray(at) * workers <= (1 - PAYS) * middle * np.asarray(steps) * setting.workers

    def pays(bits: float) -> bool:
        return corrected(best, setting.with_entries(beta_s_per_byte=8 / bits)) <= (1 - PAYS) * longest

    alone = Alone(workers, seconds, float(np.mean(beaten)), find_lowest_rate(pays) if setting.uses_network else None)
    for count in MINIBATCHES:
        accumulated = corrected(usual.model_copy(update={"accumulate": count}), setting)
        if accumulated <= (1 - PAYS) * longest:
            return replace(alone, minibatches=count, gain=longest / accumulated)
    return alone


def find_lowest_rate(pays: Callable[[float], bool]) -> float | None:
    """The lowest rate (bits/s) from which on something pays; None: at none."""
    low, high = math.log(SLOWEST), math.log(FASTEST)
    if not pays(FASTEST):
        return None
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if pays(math.exp(middle)) else (middle, high)
    return math.exp(high)
