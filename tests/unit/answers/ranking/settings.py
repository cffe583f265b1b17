"""A network of eight layers, settings of it, and what is predicted for them."""

from __future__ import annotations

from repro.algorithms.pipeline.layers import Layer, Profile
from repro.algorithms.timing.setting import Setting
from repro.answers.ranking import answer, forms, workload
from repro.answers.ranking.candidates import read_candidates
from repro.answers.ranking.cluster import cluster_entries
from repro.experiment.testbeds import testbed_of as bed_of

LAYERS = tuple(Layer(f"layer{n}", 0.002, 0.004, 2e5 * (9 - n), 1e6 * (1 + n % 5 * 3)) for n in range(8))
PROFILE = Profile("a model", 32, "", LAYERS, None, None, "estimated", 2e6)


def setting(workers=4, bits=1e10, name="", **more):
    """name: of a candidate, which may need several GPUs a machine."""
    two_levels = name and read_candidates()[name].link == "two_levels"
    more = ({"gpus_per_node": 2} if two_levels else {}) | more
    more = {"matrices": tuple((256, round(one.parameter_bytes / 1024)) for one in LAYERS)} | more
    return Setting(PROFILE, workers, bed_of(cluster_entries()), **more).with_entries(beta_s_per_byte=8 / bits)


LOAD = workload.Workload(PROFILE, 1e9, None, 1e8, timed="given")


def rows(known, *sizes):
    """The ranked rows for eight workers, without flips."""
    return answer.rank_strategies(setting(8), LOAD, known, sizes, chosen=read_candidates()).rows


def points_of(where):
    """The candidates that are possible."""
    return set(forms.step_seconds(read_candidates(), where))


def seconds(name, where):
    return forms.closed_form_step(read_candidates()[name], where).seconds
