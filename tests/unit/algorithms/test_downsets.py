"""Partitions of graphs against brute force, chains, graphs with too many downsets, files and the command."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.algorithms.pipeline import downsets
from repro.algorithms.pipeline import profile as profiles
from repro.algorithms.pipeline.cost_models import COMBINE
from repro.algorithms.pipeline.layers import Layer, Profile
from repro.algorithms.pipeline.partition import Partition, best_partition
from repro.algorithms.pipeline.profile import check_model
from repro.cli.main import main
from repro.core.errors import InputError
from tests.support.partitions import SAME, Graph, all_downsets, best, leaving, moved, pipelines, stage, summed


@st.composite
def graphs(draw, most: int = 6) -> Graph:
    """Few values, so that many partitions are equally good; the more edges the fewer downsets."""
    layers = draw(st.lists(st.tuples(*[st.integers(0, top) for top in (6, 4, 4)]), min_size=1, max_size=most))
    pairs = list(combinations(range(len(layers)), 2))
    return layers, draw(st.lists(st.sampled_from(pairs), unique=True, max_size=len(pairs))) if pairs else []


def profile(layers, edges) -> Profile:
    named = tuple(Layer(f"l{i}", seconds, 0.0, sent, held) for i, (seconds, sent, held) in enumerate(layers))
    return Profile("graph", 1, "none", named, None, None, "estimated", edges=None if edges is None else tuple(edges))


def stages_of(found: Partition) -> list[frozenset[int]]:
    return [frozenset(found.order[one.first : one.last + 1]) for one in found.stages]


@given(graphs(), st.integers(1, 4), st.sampled_from(list(COMBINE)), st.booleans(), st.booleans(), st.integers(1, 3))
@settings(max_examples=60)
def test_brute_force(graph, machines, model, activations, straight, bandwidth):
    layers, _ = graph
    if straight and machines > len(layers):
        return
    found = best_partition(profile(*graph), (machines,), (bandwidth,), model, activations, straight)
    expected = best(model, graph, machines, bandwidth, activations, straight)
    assert found.pipeline_s == pytest.approx(float(expected.seconds), rel=1e-12, abs=1e-12)
    assert found.optima == len(expected.pipelines)
    ours = [(own, one.replicas) for own, one in zip(stages_of(found), found.stages)]
    best_ones = [[(behind - before, replicas) for before, behind, replicas in one] for one in expected.pipelines]
    assert ours in best_ones and len(ours) == min(map(len, best_ones))


@given(
    graphs(most=4),
    st.sampled_from([(2, 2), (3, 2), (2, 3), (1, 3), (3, 1)]),
    st.sampled_from(list(COMBINE)),
    st.booleans(),
    st.booleans(),
    st.integers(1, 3),
    st.integers(1, 3),
)
@settings(max_examples=40)
def test_brute_force_on_two_levels(graph, machines, model, activations, straight, fast, slow):
    layers, _ = graph
    if straight and math.prod(machines) > len(layers):
        return
    downs = all_downsets(graph)
    found = []
    for pipeline in pipelines(downs, downs[0], downs[-1], machines[1], straight):
        times, ways = moved(model, graph, pipeline, slow) if activations else [], 1
        for before, behind, groups in pipeline:
            group = best(model, graph, machines[0], fast, activations, straight, None, before, behind)
            if group is None:
                break
            share = machines[0] if model != "paper" and not before else 1
            held = Fraction(summed(layers, behind - before, 2), share)
            times.append(stage(model, group.seconds, held, groups, slow))
            ways *= len(group.pipelines)
        else:
            found.append((max(times), ways))
    seconds = min(time for time, _ in found)
    ours = best_partition(profile(*graph), machines, (fast, slow), model, activations, straight)
    assert ours.pipeline_s == pytest.approx(float(seconds), rel=1e-12, abs=1e-12)
    assert ours.optima == sum(ways for time, ways in found if time <= seconds * (1 + SAME))


# --- chains


def linear(layers, edges) -> Profile:
    """The layers in a line, a cut between two of them crossed by all that is used behind it."""
    ends = [leaving((layers, edges), frozenset(range(layer + 1))) for layer in range(len(layers))]
    return profile([(seconds, sent, held) for (seconds, _, held), sent in zip(layers, ends)], None)


@pytest.mark.parametrize("network", [((5,), (1e6,)), ((3, 2), (1e7, 1e6))])
def test_a_graph_may_be_a_chain(network):
    draw = random.Random(3)
    layers = [(draw.random(), draw.randrange(10**6), draw.randrange(10**6)) for _ in range(12)]
    found = best_partition(profile(layers, None), *network)
    assert found == best_partition(profile(layers, pairwise(range(12))), *network)
    assert found.searched == "a chain of 12 layers" and found.order == tuple(range(12))


def test_a_long_chain_is_searched_whole(monkeypatch):
    monkeypatch.setattr(downsets, "LIMIT", 3)
    assert best_partition(profile([(1, 1, 1)] * 9, None), (2,), (1.0,)).searched == "a chain of 9 layers"


# --- what branches


DIAMOND = [(1, 1, 0), (8, 1, 0), (2, 1, 0), (6, 1, 0), (1, 1, 0)], [(0, 1), (0, 2), (2, 3), (1, 4), (3, 4)]


def test_the_stages_of_a_diamond():
    """The 18 seconds make two stages of 9 if the first layer goes with that of 8, whichever branch comes first."""
    found = best_partition(profile(*DIAMOND), (2,), (100.0,), straight=True)
    assert (found.pipeline_s, stages_of(found)) == (9.0, [{0, 1}, {2, 3, 4}])
    layers, edges = DIAMOND
    edges = [(0, 2), (0, 1), (1, 3), (2, 4), (3, 4)]  # the same with the short layer before the long one
    layers = [layers[0], layers[2], layers[1], *layers[3:]]
    found = best_partition(profile(layers, edges), (2,), (100.0,), straight=True)
    assert (found.pipeline_s, found.order, found.layout.cuts) == (9.0, (0, 2, 1, 3, 4), [2])
    assert best_partition(linear(layers, edges), (2,), (100.0,), straight=True).pipeline_s > 9


def side_by_side(branches: int, length: int) -> Graph:
    """From one layer to one layer by so many branches."""
    draw = random.Random(branches)
    count = branches * length + 2
    edges = []
    for start in range(1, count - 1, length):
        edges += [(0, start), *pairwise(range(start, start + length)), (start + length - 1, count - 1)]
    return [(draw.randrange(1, 9), draw.randrange(1, 9), draw.randrange(9)) for _ in range(count)], edges


def test_too_many_downsets_are_searched_in_part():
    graph = side_by_side(8, 4)  # 5 ** 8 + 2 downsets
    found = best_partition(profile(*graph), (4,), (2,))
    assert found.searched.startswith("a graph of 34 layers, 1 of them used by several: more than 635 downsets, ")
    assert found.searched.endswith(" of them searched, at most 18 of each number of layers")
    assert found.pipeline_s <= best_partition(linear(*graph), (4,), (2,)).pipeline_s
    assert sorted(found.order) == list(range(34))


@given(graphs(), st.integers(1, 4), st.integers(0, 40))
@settings(max_examples=40)
def test_a_part_of_the_downsets_is_between_the_line_and_the_best(graph, machines, limit):
    whole, line = (best_partition(one, (machines,), (2,)).pipeline_s for one in (profile(*graph), linear(*graph)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(downsets, "LIMIT", limit)
        assert whole <= best_partition(profile(*graph), (machines,), (2,)).pipeline_s <= line


@given(graphs(), st.integers(0, 40), st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_sums_are_those_in_the_profiles_order_to_the_last_bit(graph, limit, draw):
    values = [draw.random() for _ in graph[0]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(downsets, "LIMIT", limit)
        cuts = downsets.Downsets.of(profile(*graph))
    sums = cuts.sums(values)
    for i, before in enumerate(cuts.members[:-1]):
        for j, behind in enumerate(cuts.members[1:]):
            assert sums[i, j] == sum(value for value, own in zip(values, behind & ~before) if own)


# --- files and the command


def diamond_file(folder):
    path = folder / "diamond.json"
    profiles.write_profile(path, profile(*DIAMOND))
    return path


def test_edges_survive_the_file(tmp_path):
    assert profiles.load_profile(diamond_file(tmp_path)) == profile(*DIAMOND)


@pytest.mark.parametrize(
    ("edges", "words"),
    [
        ({}, "edges={}: must be a list"),
        ([[0, 5]], "edge (0, 5): must be the numbers of two layers, from 0 to 4"),
        ([[1, 0]], "edge (1, 0)"),
        ([[0, True]], "edges.0.1=True: must be a whole number"),
    ],
)
def test_wrong_edges(tmp_path, edges, words):
    path = diamond_file(tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"edges": edges}))
    with pytest.raises(InputError) as refusal:
        profiles.load_profile(path)
    assert words in str(refusal.value) and "\n" not in str(refusal.value)


def test_command(tmp_path, capsys):
    arguments = ["partition", str(diamond_file(tmp_path)), "--machines", "2", "--bandwidth", "100", "--straight"]
    assert main(arguments) == 0
    assert "layers     a graph of 5 layers, 1 of them used by several: all 8 downsets" in capsys.readouterr().out
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [stage["layers"] for stage in found["stages"]] == [["l0", "l1"], ["l2", "l3", "l4"]]
    assert found["searched"] == "a graph of 5 layers, 1 of them used by several: all 8 downsets"


def test_a_graph_fits_no_model_of_blocks():
    names = [f"l{layer}" for layer in range(5)]
    with pytest.raises(InputError, match="its layers are a graph and the model's blocks a chain"):
        check_model(profile(*DIAMOND), names)
    check_model(replace(profile(*DIAMOND), edges=None), names)
    check_model(replace(profile(*DIAMOND), edges=tuple(pairwise(range(5)))), names)
