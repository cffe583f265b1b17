"""The choice of the allreduce `auto`: from measurements, in virtual time, in the record of a run."""

from __future__ import annotations

import pytest
import torch

from repro.fabric.collectives import algorithms
from repro.fabric.collectives.algorithms import decide_crossover
from repro.fabric.collectives.auto import Crossover, Point
from repro.fabric.virtual.fabric import Network, run


def points(*ratios: float) -> list[Point]:
    """Of 1, 4, 16 ... bytes; the library's time over the ring's."""
    return [Point(4**place, 1.0, 1.0 / ratio) for place, ratio in enumerate(ratios)]


@pytest.mark.parametrize(
    ("ratios", "above"),
    [((2, 2, 2), 1), ((0.1, 2, 2), 4), ((2, 0.5, 2), 16), ((2, 2, 0.9), None), ((1.02, 1.02), None), ((2,), 1)],
)
def test_the_ring_is_used_above_the_size_from_which_it_is_always_clearly_faster(ratios, above):
    choice = decide_crossover(points(*ratios))
    assert choice.above_bytes == above
    assert choice.facts()["auto"] == ("native" if above is None else f"ring_pipelined from {above} bytes")
    assert len(choice.facts()["measured"]) == len(ratios)


def test_the_algorithm_depends_on_the_bytes():
    assert Crossover(16, "measured").algorithm(torch.zeros(3)) == "native"
    assert Crossover(16, "measured").algorithm(torch.zeros(4)) == "ring_pipelined"
    assert Crossover(16, "measured").algorithm(torch.zeros(4, dtype=torch.uint8)) == "native"
    assert Crossover(None, "not measured").algorithm(torch.zeros(10**6)) == "native"


class Ranks:
    """Three ranks with different times, whose links take a second for a mebibyte."""

    size = 3

    def exchange(self, mine):
        if mine is None:
            return [None] * 3
        turns, took, before = mine
        faster = [[native / 2, ring / 4] for native, ring in turns]
        return [(turns, took, before), (faster, 2 * took, before), (faster, took, before)]


def test_the_slowest_ranks_times_count_and_a_slow_network_ends_the_measurement_early(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(algorithms.time, "perf_counter", lambda: now[0])

    def timing(fabric, name, nbytes):
        now[0] += 4 * nbytes / 2**20
        return (2.0 if name == "native" else 1.0) * nbytes / 2**20

    choice = algorithms.find_crossover(Ranks(), timing)
    assert choice.measured == (Point(2**16, 2 / 16, 1 / 16),)  # the next would take four times its second
    assert choice.above_bytes == 2**16


def test_in_virtual_time_auto_is_the_textbook_ring_to_the_bit():
    def summed(algorithm):
        def rank(fabric):
            fabric.settle_auto()
            vector = torch.linspace(0, 1 + fabric.rank, 1001)
            fabric.allreduce(vector, algorithm=algorithm).wait()
            return vector, fabric.now()

        return run(3, rank, Network(1e-4, 1e-9))

    for (auto, at), (ring, then) in zip(summed("auto"), summed("ring")):
        assert torch.equal(auto, ring) and at == then
