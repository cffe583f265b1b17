"""Each candidate's closed form beside its simulation in random settings; `form_errors` has the rule that judges them.

The settings were fixed with the rule: 2 to 32 ranks, 2 to 12 layers (pipelines at least one a rank), 0.1 to 100 Gbit/s,
a computation of a tenth to ten times what it takes to send the gradient twice, no late workers. A strategy's
`form_options` replace the candidate's.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from random import Random

from repro.algorithms.pipeline.layers import Layer, Profile
from repro.algorithms.timing.setting import Setting
from repro.answers.ranking import forms, simulate
from repro.answers.ranking.candidates import Candidate
from repro.answers.ranking.cluster import cluster_entries
from repro.answers.ranking.form_errors import Checked, is_decided
from repro.experiment.testbeds import testbed_of
from repro.strategies.shared.pipeline import Pipeline

RANKS, LAYERS = 32, (2, 12)


def check_form(candidate: Candidate, cases: int, first: int = 0) -> list[Checked]:
    """The form and the simulation in so many possible settings, or until these decide whether the form is good enough.

    first: the number of the first setting; a form that was mended after a look at settings is checked in others.
    """
    options = candidate.options | dict(candidate.in_virtual_time()[0].form_options)
    candidate = candidate.model_copy(update={"options": options})
    rows: list[Checked] = []
    for case in count(first):
        if len(rows) == cases or is_decided(rows):
            break
        where = random_setting(candidate, case)
        step = forms.closed_form_step(candidate, where)
        if step:
            simulated = simulate.simulate_step(candidate, where)
            rows.append(Checked(candidate.name, case, where.workers, step.seconds, simulated.seconds))
    return rows


def random_setting(candidate: Candidate, case: int) -> Setting:
    """The same for all candidates, as far as these need no layer for each rank or several GPUs a machine."""
    random = Random(case)

    def between(low: float, high: float) -> float:
        return float(low * (high / low) ** random.random())

    workers, number = round(between(2, RANKS)), random.randint(*LAYERS)
    gpus = random.choice([2, 4, 8])
    if candidate.link == "two_levels":
        workers = gpus * max(2, workers // gpus)
    if issubclass(candidate.in_virtual_time()[0], Pipeline):
        number = max(number, workers)
    bits, nbytes, ratio = between(1e8, 1e11), between(1e6, 5e8), between(0.1, 10)
    entries = {
        "beta_s_per_byte": 8 / bits,
        "alpha_s": between(3e-6, 1e-4),
        "gamma_s_per_byte": between(2.5e-12, 1e-10),
        "local_beta_s_per_byte": between(3e-12, 3e-10),
    }
    seconds = ratio * 2 * nbytes * 8 / bits
    sizes, times = ([between(0.1, 10) for _ in range(number)] for _ in range(2))
    rows = 64
    layers, matrices = [], []
    for layer, (size, share) in enumerate(zip(sizes, times)):
        columns = max(1, round(nbytes * size / sum(sizes) / 4 / rows))
        matrices.append((rows, columns))
        part = seconds * share / sum(times) / 3
        layers.append(Layer(f"layer{layer}", part, 2 * part, between(1e4, 1e7), 4.0 * rows * columns))
    profile = Profile("random layers", 32, "", tuple(layers), None, None, "estimated", 1e6)
    bed = testbed_of(cluster_entries())
    setting = Setting(profile, workers, bed, matrices=tuple(matrices), coarse=profile)  # type: ignore[arg-type]
    return replace(setting, gpus_per_node=gpus if candidate.link == "two_levels" else 1).with_entries(**entries)
