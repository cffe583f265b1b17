"""The shape of a profile: recurrent layers whose steps take longer a FLOP than one large product."""

from __future__ import annotations

import pytest

from repro import models
from repro.core.errors import InputError
from repro.experiment import config as configs
from repro.experiment import testbeds
from repro.training.device_times import block_flops, block_seconds, recurrent
from tests.support import probes

CLIPS = (40, 4097)
RATE = {"peak_flops": 1e12, "utilisation": 0.5, "launch_s": 1e-5}
PUBLISHED = {"iteration_s": 3.0, "batch": 8}


def shares(device: dict, slowdown: float | None = None) -> tuple[list[float], float]:
    """Each block's share of the forward passes, and their seconds."""
    device |= {} if slowdown is None else {"recurrent_slowdown": slowdown}
    built = models.build("s2vt", CLIPS, 12_594, 0, "meta", vocabulary=46_170)
    found = block_seconds(built, CLIPS, 8, testbeds.testbed_of(probes.TESTBED | {"device": device}).device)
    return [s / sum(found.forward) for s in found.forward], sum(found.forward)


def test_which_blocks_are_recurrent() -> None:
    built = models.build("s2vt", CLIPS, 12_594, 0, "meta")
    assert [name for name, block in built.named_children() if recurrent(block)] == ["lstm1", "lstm2"]
    assert not any(map(recurrent, models.build("vgg16", (3, 32, 32), 10, 0, "meta")))


def test_by_rate_recurrent_blocks_alone_take_longer() -> None:
    launch = 0.0
    (usual, all_of_it), (slowed, longer) = (shares(RATE | {"launch_s": launch}, s) for s in (None, 4.0))
    lstms = [1, 3]
    for index, (before, after) in enumerate(zip(usual, slowed)):
        assert after * longer == pytest.approx(before * all_of_it * (4 if index in lstms else 1))
    assert shares(RATE, 1.0) == shares(RATE)


def test_a_published_time_is_kept_and_shared_otherwise() -> None:
    (usual, before), (slowed, after) = shares(PUBLISHED), shares(PUBLISHED, 4.0)
    assert before == pytest.approx(1.0) and after == pytest.approx(1.0)  # a third of the iteration's
    built = models.build("s2vt", CLIPS, 12_594, 0, "meta", vocabulary=46_170)
    flops = block_flops(built, CLIPS, 8)
    work = [4 * count if index in (1, 3) else count for index, count in enumerate(flops)]
    assert slowed == pytest.approx([count / sum(work) for count in work])
    assert slowed[4] < usual[4]  # the softmax


def test_an_override_sets_it_and_a_wrong_one_is_refused() -> None:
    base = ["testbed=paper/pipedream-a"]
    named = "++testbed.device.recurrent_slowdown="
    assert configs.compose("pipedream/table1-s2vt-4a", [*base, named + "3"])["testbed"]["device"]["recurrent_slowdown"]
    with pytest.raises(InputError, match="recurrent_slowdown=0"):
        testbeds.testbed_of(probes.TESTBED | {"device": RATE | {"recurrent_slowdown": 0}})
