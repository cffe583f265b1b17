"""eager-SGD's steps on numbers of ranks that are no power of two: the recurrence against the simulator's code."""

from __future__ import annotations

import pytest

from repro.algorithms.pipeline.layers import Layer, Profile
from repro.algorithms.timing.collective_forms import recursive_doubling
from repro.algorithms.timing.partial_forms import partial_step
from repro.algorithms.timing.setting import Setting
from repro.answers.ranking import forms, simulate
from repro.answers.ranking.candidates import read_candidates
from repro.answers.ranking.cluster import cluster_entries
from repro.experiment.testbeds import testbed_of as bed_of
from tests.support.forms import staleness_bound

N = 40_000_000  # bytes; 0.32 s at 1 Gbit/s


def steps(name, p, computation, **entries):
    """(the form's, the simulator's) seconds of a model of one layer on a link of 1 Gbit/s."""
    layer = Layer("layer", computation / 3, 2 * computation / 3, 1e4, N)
    profile = Profile("a layer", 32, "", (layer,), None, None, "made up", 1e4)
    where = Setting(profile, p, bed_of(cluster_entries())).with_entries(beta_s_per_byte=8e-9, **entries)
    return forms.closed_form_step(read_candidates()[name], where).seconds, simulate.simulate_step(
        read_candidates()[name], where
    ).seconds


@pytest.mark.parametrize("p", [3, 5, 6, 7, 9, 12, 15])
@pytest.mark.parametrize("computation", [0.003, 0.2, 1.0])
def test_solo_is_exact(p, computation):
    form, simulated = steps("eager_solo", p, computation, gamma_s_per_byte=0.0)
    assert form == pytest.approx(simulated, rel=2e-3)


def test_sums_and_latency_count():
    form, simulated = steps("eager_solo", 6, 0.1, gamma_s_per_byte=2e-9, alpha_s=0.05)
    assert form == pytest.approx(simulated, rel=0.02)


@pytest.mark.parametrize("p", [3, 5, 6, 12])
def test_majority_depends_on_who_is_drawn(p):
    form, simulated = steps("eager_majority", p, 0.2)
    assert form == pytest.approx(simulated, rel=0.06)


@pytest.mark.parametrize("p", [2, 8, 32])
def test_on_powers_of_two_it_is_the_textbook_s_doubling(p):
    wire, work, alpha = 0.3, 0.05, 1e-3
    textbook = recursive_doubling(p, 4, alpha, wire / 4, work / 4)
    for initiator in ("solo", "majority"):
        assert partial_step(initiator, p, 0.2, alpha, wire, work) == pytest.approx(0.2 + textbook)


def test_a_short_message_beside_a_long_computation_ends():
    assert partial_step("solo", 6, 1e3, 0.0, 1e-9, 0.0) == pytest.approx(1e3)


@pytest.mark.parametrize(
    ("delays", "rounds"),
    [
        ([[0.0, 0.0]], 1),  # nobody is late: the latency is part of a round
        ([[0.0, 0.3]], 4),  # 0.3 s behind, rounds of 0.1 s
        ([[0.0, 0.3], [0.0, 0.3]], 7),  # it adds up
        ([[0.0, 0.3], [0.3, 0.0]], 4),  # but another's delay does not count twice
        ([[0.1, 0.3], [0.1, 0.1]], 2),  # all are late: only what one is later counts, and rounds take 0.2 s
        ([[0.3, 0.0], [0.0, 0.0], [0.0, 0.5]], 6),  # the worst of the ranks
    ],
)
def test_bound_is_the_worst_excess_in_rounds(delays, rounds):
    assert staleness_bound(delays, 0.1, 0.0) == rounds
    assert staleness_bound(delays, 0.1, 0.01) == rounds + 1
