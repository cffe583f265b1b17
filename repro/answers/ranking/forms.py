"""Closed forms of a candidate's step (`step_form` of its strategy); tests compare them with `simulate`, which runs the
strategy's code. A step is an iteration of the global batch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from repro.algorithms.timing.setting import Setting
from repro.algorithms.timing.step import Step, share_exchange
from repro.answers.ranking import simulate
from repro.answers.ranking.candidates import KINDS, Candidate


def closed_form_step(candidate: Candidate, setting: Setting, least: bool = False) -> Step | None:
    """A candidate's step; None if it is impossible (more stages than layers, matrices unknown, two levels of one).

    least: at once, for a form that takes long a lower bound (`Step.bound`).
    """
    if candidate.link == "two_levels" and not setting.has_two_levels:
        return None
    kind, options = candidate.in_virtual_time()
    step = (kind.least_step if least else kind.step_form)(setting, candidate.place(setting), options)
    return step and share_exchange(step, setting, candidate.accumulate)


def simulate_seconds(candidate: Candidate, setting: Setting) -> tuple[float, int]:
    """(seconds of the step, messages of the simulation): the closed form, times simulated over closed-form seconds of
    the coarse profile."""
    rough = replace(setting, profile=setting.stages)
    simulated = simulate.simulate_step(candidate, rough)
    whole, part = closed_form_step(candidate, setting), closed_form_step(candidate, rough)
    assert whole and part
    return whole.seconds * simulated.seconds / part.seconds, simulated.messages


def step_seconds(among: Mapping[str, Candidate], setting: Setting, lead: float = math.inf) -> dict[str, float]:
    """The steps' seconds of the possible candidates, in their order; lower bounds for those that are above `lead` times
    the second fastest of every kind that they count for."""
    seconds: dict[str, float] = {}

    def second_of(kind: str) -> float:
        fastest = sorted(each for name, each in seconds.items() if among[name].counts(kind))
        return fastest[1] if len(fastest) > 1 else math.inf

    for name, each in among.items():
        step = closed_form_step(each, setting, least=True)
        if step and step.bound:
            bound = step.seconds
            if any(bound <= lead * second_of(kind) for kind in KINDS if each.counts(kind)):
                step = closed_form_step(each, setting)
        if step:
            seconds[name] = step.seconds
    return seconds
