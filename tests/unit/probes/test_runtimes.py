"""The probes `runtimes` and `lengths`: what they time and count, on made-up data and in virtual time."""

from __future__ import annotations

import statistics
from itertools import pairwise

import pytest
import torch

from repro.common.errors import InputError
from repro.fabric import virtual
from repro.launch import runs
from repro.probes import lengths, runtimes
from repro.rank import factory, programs
from repro.records.store import read_summary

SMALL = ["dataset.videos=404", "dataset.test_videos=101", "dataset.features=8", "model.hidden=8"]


def run(experiment, folder, *overrides):
    """The summary of a run of a probe on the paper's testbed, in this process."""
    testbed = () if any(each.startswith("testbed=") for each in overrides) else ("testbed=paper/eagersgd-lstm",)
    (planned,) = runs.expand(f"eagersgd/{experiment}", [*SMALL, *testbed, *overrides], "quick")
    config = planned.config.model_copy(update={"key": "k", "hardware": {"class": "none"}, "provenance": {}})
    network = virtual.Network(config.testbed.alpha_s, config.testbed.beta_s_per_byte)
    costs = factory.virtual_costs(config.testbed)
    virtual.run(programs.ranks(config), lambda fabric: programs.run(fabric, config, folder), network, costs)
    return read_summary(folder)


def test_in_virtual_time_a_batch_takes_its_length(tmp_path):
    """Published seconds at mean length, in proportion to what the batch is padded to; nothing else is counted."""
    found = run("fig2-runtimes", tmp_path, "probe.batches=20")
    result, mean_length = found["result"], found["dataset"]["input_shape"][0]
    assert result["batches"] == len(result["seconds"]) == len(result["lengths"]) == 20
    for seconds, length in zip(result["seconds"], result["lengths"]):
        assert seconds == pytest.approx(1.235 * length / mean_length, rel=1e-9)
    assert len(set(result["lengths"])) > 5
    said = result["statistics"]
    assert said["n"] == 20 and said["min"] == min(result["seconds"]) and said["max"] == max(result["seconds"])
    assert said["mean"] == pytest.approx(statistics.fmean(result["seconds"]))
    assert said["sd"] == pytest.approx(statistics.stdev(result["seconds"]))
    assert found["program"] == "runtimes" and "20 batches" in found["line"]
    assert found["metrics"]["seconds/mean"] == said["mean"]


def test_lengths_count_every_video_once(tmp_path):
    found = run("fig2-lengths", tmp_path, "probe.bins=7")["result"]["splits"]
    assert set(found) == {"train", "test"} and found["train"]["n"] == 404 and found["test"]["n"] == 101
    for split in found.values():
        bars = split["histogram"]
        assert sum(count for *_, count in bars) == split["n"] and len(bars) <= 7
        assert all(high == low for (_, high, _), (low, _, _) in pairwise(bars))  # no gap, no overlap
        assert bars[0][0] <= split["min"] <= split["median"] <= split["max"] < bars[-1][1]


def test_bars_hold_what_lies_between_their_edges():
    edges = lengths.bars([3, 12], 5)
    assert edges == [(3, 5), (5, 7), (7, 9), (9, 11), (11, 13)]
    found = lengths.describe([3, 4, 5, 12, 12], edges)
    assert [count for *_, count in found["histogram"]] == [2, 1, 0, 0, 2]
    assert found["median"] == 5 and found["sd"] == pytest.approx(statistics.pstdev([3, 4, 5, 12, 12]))
    assert lengths.bars([7, 7], 40) == [(7, 8)]


def test_batches_are_drawn_without_replacement_and_at_most_all():
    class Ten:
        per_epoch = 10

    drawn = runtimes.draw(Ten(), 15, 2, seed=1)
    assert len(set(drawn)) == 15 and drawn == sorted(drawn) and max(drawn) < 20
    assert runtimes.draw(Ten(), 15, 2, seed=1) == drawn != runtimes.draw(Ten(), 15, 2, seed=2)
    assert runtimes.draw(Ten(), 100, 0.5, seed=0) == [0, 1, 2, 3, 4]
    assert runtimes.lengths(Ten(), drawn) is None  # samples of one size


def test_loading_and_delays_are_not_part_of_a_runtime(monkeypatch):
    class Clock:
        def take(self):
            return {"data": 9.0, "forward": 0.25, "backward": 0.5, "imbalance": 7.0, "overlapped": 0.0}

    class Worker:
        clock, asked = Clock(), []

        def gradients(self, minibatch):
            self.asked.append(minibatch)
            return torch.zeros(())

    worker = Worker()
    assert runtimes.passes(worker, 4) == 0.75 and worker.asked == [4]


@pytest.mark.parametrize(
    ("experiment", "overrides", "words"),
    [
        ("fig2-runtimes", ["workers=2"], "workers=2: program runtimes"),
        ("fig2-runtimes", ["probe.batches=0"], "probe.batches=0: must be 1 or more"),
        ("fig2-runtimes", ["probe.epochs=0"], "probe.epochs=0: must be above 0"),
        ("fig2-runtimes", ["probe.warmup=-1"], "probe.warmup=-1: must be 0 or more"),
        ("fig2-runtimes", ["probe.what=3"], "probe.what=3: must be a text"),
        ("fig2-lengths", ["probe.bins=0"], "probe.bins=0: must be 1 or more"),
        ("fig2-lengths", ["workers=2"], "workers=2: program lengths"),
        ("fig4-runtimes", ["program=lengths", "+probe.bins=3"], "program lengths has no option 'batches'; valid: bins"),
        ("fig2-lengths", ["dataset=imagenet"], "data set 'imagenet' have one size; must be of"),
    ],
)
def test_parameters_that_cannot_be_used_are_one_line(experiment, overrides, words):
    with pytest.raises(InputError) as refusal:
        runs.expand(f"eagersgd/{experiment}", overrides, "quick")
    assert words in str(refusal.value) and "\n" not in str(refusal.value)
