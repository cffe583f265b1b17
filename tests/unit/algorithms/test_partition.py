"""The partitioner: the authors' answers, brute force, two levels, ties, large models, and wrong input."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.algorithms.pipeline.cost_models import COMBINE
from repro.algorithms.pipeline.layers import Layer, Profile
from repro.algorithms.pipeline.partition import best_partition
from repro.algorithms.pipeline.profile import parse_profile
from repro.core.errors import InputError
from repro.experiment import limits
from tests.support import partitions as brute_force
from tests.support import pipedream_vgg16

MODELS = list(COMBINE)
VGG16 = parse_profile(pipedream_vgg16.text(), "vgg16")


def profile(chain) -> Profile:
    """Of layers (seconds, activation bytes, parameter bytes)."""
    layers = [Layer(f"l{i}", seconds, 0.0, sent, held) for i, (seconds, sent, held) in enumerate(chain)]
    return Profile("chain", 1, "none", tuple(layers), None, None, "estimated")


def graph(chain) -> brute_force.Graph:
    return chain, list(pairwise(range(len(chain))))


def path(found) -> tuple[tuple[int, int], ...]:
    return tuple((stage.last, stage.replicas) for stage in found.stages)


# few values, so that many partitions are equally good
layer = st.tuples(st.integers(0, 6), st.integers(0, 4), st.integers(0, 4))
chains = st.lists(layer, min_size=1, max_size=8)
models = st.sampled_from(MODELS)


@pytest.mark.parametrize("answer", pipedream_vgg16.ANSWERS)
def test_the_authors_answers(answer):
    given = (answer.machines,), (answer.bandwidth,), answer.cost_model, answer.activations, answer.straight
    found = best_partition(VGG16, *given)
    assert found.pipeline_s == pytest.approx(answer.pipeline_s, rel=0, abs=1e-9)
    assert found.data_parallel_s == pytest.approx(answer.data_parallel_s, rel=0, abs=1e-9)
    assert found.single_s == pytest.approx(answer.single_s, rel=0, abs=1e-9)
    assert answer.optima in (None, found.optima)
    if found.optima == 1:
        assert [[stage.first, stage.last, stage.replicas] for stage in found.stages] == answer.stages


@pytest.mark.parametrize("gpu_s", [0.16813, 0.38556])  # of 32 images: the profile's, the slower Titan X's
@pytest.mark.parametrize(("machines", "expected"), [(4, [3, 1]), (16, [15, 1])])
def test_the_authors_profile_of_vgg16_on_cluster_a(machines, expected, gpu_s):
    """PipeDream's Table 1 has 2-1-1 and 9-5-1-1 on 4 and 16 machines; its authors' released profile gives neither."""
    share = gpu_s / sum(layer.forward_s + layer.backward_s for layer in VGG16.layers)
    layers = tuple(
        replace(
            layer,
            forward_s=share * layer.forward_s,
            backward_s=share * layer.backward_s,
            activation_bytes=layer.activation_bytes / 4,  # the profile is of 128 images
        )
        for layer in VGG16.layers
    )
    found = best_partition(replace(VGG16, layers=layers), (machines,), (1 / 3.35e-10,), "paper")
    assert [stage.replicas for stage in found.stages] == expected


@given(chains, st.integers(1, 5), models, st.booleans(), st.booleans(), st.integers(1, 3))
@settings(max_examples=120)
def test_brute_force(chain, machines, model, activations, straight, bandwidth):
    if straight and machines > len(chain):
        return
    found = best_partition(profile(chain), (machines,), (bandwidth,), model, activations, straight)
    expected = brute_force.best(model, graph(chain), machines, bandwidth, activations, straight)
    assert found.pipeline_s == pytest.approx(float(expected.seconds), rel=1e-12, abs=1e-12)
    assert found.optima == len(expected.pipelines)
    assert path(found) == brute_force.path(expected.chosen)
    assert [stage.seconds for stage in found.stages] == pytest.approx([float(one) for one in expected.stage_seconds])
    whole = brute_force.stage(model, sum(one[0] for one in chain), sum(one[2] for one in chain), machines, bandwidth)
    assert found.data_parallel_s == pytest.approx(float(whole), rel=1e-12)


@given(chains, models, st.integers(1, 4))
@settings(max_examples=30)
def test_a_level_of_one_is_none(chain, model, machines):
    one = best_partition(profile(chain), (machines,), (2.0,), model)
    assert best_partition(profile(chain), (machines, 1), (2.0, 1.0), model) == one
    assert best_partition(profile(chain), (1, machines), (1.0, 2.0), model) == one


def test_two_levels_by_hand():
    """Two groups of two machines. The second half of the layers is all parameters: within a group it is not shared."""
    chain = [(9, 1, 0), (7, 1, 0), (5, 1, 0), (4, 0, 100)]
    found = best_partition(profile(chain), (2, 2), (10.0, 1.0), "released-sum")
    # one group: layers 0 and 1 on two replicas, 8 s; the other: a layer on each machine
    stages = [(stage.first, stage.last, stage.replicas, stage.seconds) for stage in found.stages]
    assert stages == [(0, 1, 2, 8.0), (2, 2, 1, 5.0), (3, 3, 1, 4.0)]
    layout = found.layout
    assert found.pipeline_s == 8.0 and (layout.noam, layout.config, layout.cuts) == (2, "2-1-1", [2, 3])
    # 25 s and 4*1*100/(2*10) s in a group, halved; with 4*1*100/(2*1)/2 s between the groups halved again
    assert found.data_parallel_s == ((25 + 20) / 2 + 100) / 2
    alike = best_partition(profile([(8, 1, 2)]), (2, 3), (1.0, 1.0), "released-sum")
    assert [stage.replicas for stage in alike.stages] == [6] and alike.layout.noam == 1
    assert alike.stages[0].seconds == alike.pipeline_s == alike.data_parallel_s


@given(chains, st.lists(st.integers(1, 3), min_size=1, max_size=4), models)
@settings(max_examples=60)
def test_given_replicas_get_the_best_cuts(chain, replicas, model):
    if len(replicas) > len(chain):
        return
    machines = sum(replicas)
    found = best_partition(profile(chain), (machines,), (1.0,), model, replicas=replicas)
    expected = brute_force.best(model, graph(chain), machines, 1, replicas=replicas)
    assert found.layout.config == "-".join(map(str, replicas))
    assert found.pipeline_s == pytest.approx(float(expected.seconds), rel=1e-12, abs=1e-12)
    assert (found.optima, path(found)) == (len(expected.pipelines), brute_force.path(expected.chosen))


@pytest.mark.parametrize(
    ("chain", "machines", "expected"),
    [
        # one stage of all is as good as one a machine: fewer stages
        ([(1, 0, 0)] * 4, 4, ((3, 4),)),
        # the first layer decides; of the other stages neither is to be short
        ([(6, 0, 9), (1, 0, 9), (1, 0, 9), (1, 0, 9), (1, 0, 9)], 3, ((0, 1), (2, 1), (4, 1))),
        # all the same: the first in order
        ([(1, 0, 9), (1, 0, 9), (1, 0, 9)], 2, ((0, 1), (2, 1))),
    ],
)
def test_ties(chain, machines, expected):
    found = best_partition(profile(chain), (machines,), (1.0,), "released-max", straight=len(expected) > 1)
    assert path(found) == expected and found.optima > 1


@pytest.mark.parametrize(
    ("config", "noam"), [((2, 1, 1), 2), ((7, 1), 2), ((9, 5, 1, 1), 2), ((1, 1, 1, 1), 4), ((3,), 1)]
)
def test_minibatches_in_flight(config, noam):
    assert best_partition(profile([(1, 1, 1)] * 4), (sum(config),), (1.0,), replicas=config).layout.noam == noam


@pytest.mark.parametrize("straight", [False, True])
def test_a_hundred_layers_on_64_machines(straight):
    """As large as the issue asks for. Equal layers: a straight pipeline has two of them in its slowest stages."""
    found = best_partition(profile([(1.0, 0, 0)] * 100), (64,), (1.0,), straight=straight)
    assert found.pipeline_s == (2.0 if straight else pytest.approx(100 / 64))
    if straight:  # 36 pairs among 64 stages
        assert found.optima == math.comb(64, 36) and len(found.stages) == 64
        assert path(found)[:28] == tuple((index, 1) for index in range(28))  # the first in lexicographic order


def test_tables_that_no_memory_holds_are_refused(monkeypatch):
    monkeypatch.setattr(limits, "STAGES", 40 * 40 * 4)
    best_partition(VGG16, (4,), (1.0,))
    with pytest.raises(InputError, match="stages to compare"):
        best_partition(VGG16, (5,), (1.0,))


@pytest.mark.parametrize(
    ("machines", "bandwidths", "more", "words"),
    [
        ((9, 5), (1.0, 1.0), {"straight": True}, "45 stages"),
        ((0,), (1.0,), {}, "machines=0"),
        ((4,), (0.0,), {}, "bandwidth=0.0"),
        ((4,), (math.nan,), {}, "bandwidth=nan"),
        ((4, 2), (1.0,), {}, "machines=4,2"),
        ((2, 2, 2), (1.0, 1.0, 1.0), {}, "machines=2,2,2"),
        ((4,), (1.0,), {"cost_model": "released"}, "'released'; valid: released-"),
        ((4,), (1.0,), {"replicas": (2, 1)}, "config 2-1"),
        ((4,), (1.0,), {"replicas": (4, 0)}, "config 4-0"),
        ((41,), (1.0,), {"replicas": (1,) * 41}, "41 stages"),
        ((4,), (1.0,), {"replicas": (3, 1), "straight": True}, "config 3-1"),
        ((2, 2), (1.0, 1.0), {"replicas": (3, 1)}, "one level"),
    ],
)
def test_wrong_arguments(machines, bandwidths, more, words):
    with pytest.raises(InputError) as refusal:
        best_partition(VGG16, machines, bandwidths, **more)
    assert words in str(refusal.value) and "\n" not in str(refusal.value)
