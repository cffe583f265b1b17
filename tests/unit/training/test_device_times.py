"""Modelled seconds of blocks with recurrent layers, whose FLOPs take longer."""

from __future__ import annotations

import pytest

from repro import models
from repro.core.errors import InputError
from repro.experiment import config as configs
from repro.experiment import testbeds
from repro.training.device_times import block_flops, block_seconds, is_recurrent
from tests.support import probes

CLIPS = (3, 65)
RATE = {"peak_flops": 1e12, "utilisation": 0.5, "launch_s": 0.0}
PUBLISHED = {"iteration_s": 3.0, "batch": 8}


def s2vt():
    return models.build_model("s2vt", CLIPS, 100, 0, "meta", hidden=32, embedding=16)


def shares(device: dict, slowdown: float) -> tuple[list[float], float]:
    """Each block's share of the forward passes, and their seconds."""
    testbed = testbeds.testbed_of(probes.TESTBED | {"device": device | {"recurrent_slowdown": slowdown}})
    seconds = block_seconds(s2vt(), CLIPS, 8, testbed.device).forward
    return [each / sum(seconds) for each in seconds], sum(seconds)


def test_which_blocks_are_recurrent() -> None:
    assert [name for name, block in s2vt().named_children() if is_recurrent(block)] == ["lstm1", "lstm2"]
    assert not any(map(is_recurrent, models.build_model("vgg16", (3, 32, 32), 10, 0, "meta")))


@pytest.mark.parametrize("device", [RATE, PUBLISHED])
def test_recurrent_blocks_take_longer_by_rate_and_more_of_a_published_time(device) -> None:
    (usual, before), (slowed, after) = shares(device, 1.0), shares(device, 4.0)
    flops = block_flops(s2vt(), CLIPS, 8)
    work = [4 * count if index in (1, 3) else count for index, count in enumerate(flops)]
    assert usual == pytest.approx([count / sum(flops) for count in flops])
    assert slowed == pytest.approx([count / sum(work) for count in work])
    # a published iteration keeps its time, of which forward passes have a third
    expected = (1.0, 1.0) if device is PUBLISHED else (sum(flops) / 0.5e12, sum(work) / 0.5e12)
    assert (before, after) == pytest.approx(expected)


def test_an_override_sets_it_and_a_wrong_one_is_refused() -> None:
    base = ["testbed=paper/pipedream-a"]
    named = "++testbed.device.recurrent_slowdown="
    assert configs.compose("pipedream/table1-s2vt-4a", [*base, named + "3"])["testbed"]["device"]["recurrent_slowdown"]
    with pytest.raises(InputError, match="recurrent_slowdown=0"):
        testbeds.testbed_of(probes.TESTBED | {"device": RATE | {"recurrent_slowdown": 0}})
