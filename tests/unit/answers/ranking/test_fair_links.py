"""The simulator behind `repro recommend` shares links between messages: it agrees with the closed forms."""

from __future__ import annotations

from itertools import pairwise

import pytest

from repro.algorithms.pipeline.layers import Layer, Profile
from repro.algorithms.timing.setting import Setting
from repro.answers.ranking import forms, simulate, workload
from repro.answers.ranking.candidates import read_candidates
from repro.answers.ranking.cluster import cluster_entries
from repro.experiment.testbeds import testbed_of as bed_of


def setting(profile, workers, bits, **entries):
    return Setting(profile, workers, bed_of(cluster_entries())).with_entries(beta_s_per_byte=8 / bits, **entries)


def equal_layers(elements):
    layers = tuple(Layer(f"layer{n}", 1e-3, 2e-3, 1e4, 4 * elements) for n in range(4))
    return Profile("equal layers", 32, "", layers, None, None, "estimated", 1e4)


def simulated(name, where):
    return simulate.simulate_step(read_candidates()[name], where).seconds


@pytest.mark.parametrize("name", ["ps", "ps_after", "ps_separate"])
def test_one_element_more_costs_a_sharded_server_next_to_nothing(name):
    fewer, more = (simulated(name, setting(equal_layers(elements), 3, 1e9)) for elements in (300_000, 300_001))
    assert more == pytest.approx(fewer, rel=0.01)


def test_the_simulator_orders_strategies_as_the_closed_forms_do():
    load = workload.workload_of("alexnet", 32).with_seconds(0.1, "given")
    where, names = setting(load.profile, 3, 6.76e9), ("ps", "ps_after", "ddp", "allreduce")
    by_code = {name: simulated(name, where) for name in names}
    by_form = {name: forms.closed_form_step(read_candidates()[name], where).seconds for name in names}
    assert sorted(names, key=by_code.get) == sorted(names, key=by_form.get)
    assert by_code == pytest.approx(by_form, rel=0.03)


@pytest.mark.parametrize("name", ["ps", "ps_after", "ps_separate", "ps_single"])
def test_less_latency_never_makes_a_server_slower(name):
    layer = Layer("layer", 2e-3, 4e-3, 1e4, 4 * 650_333)
    profile = Profile("a layer", 32, "", (layer,), None, None, "estimated", 1e4)
    times = [simulated(name, setting(profile, 4, 1e9, alpha_s=9.4e-4 / 2**n)) for n in range(6)]
    assert all(after <= before for before, after in pairwise(times))


@pytest.mark.parametrize("name", ["ps", "ps_separate", "ps_after"])
@pytest.mark.parametrize("workers", [2, 3, 6])
def test_a_server_s_form_counts_the_latency_of_every_pull(name, workers):
    layers = tuple(Layer(f"layer{n}", 1e-4, 2e-4, 1e4, 40_000) for n in range(24))
    where = setting(Profile("small layers", 32, "", layers, None, None, "estimated", 1e4), workers, 1e10, alpha_s=1e-3)
    form = forms.closed_form_step(read_candidates()[name], where).seconds
    assert form == pytest.approx(simulated(name, where), rel=0.02)
