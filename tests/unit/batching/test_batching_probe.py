"""The probe `batching`: random profiles of every family, and what it says of the greedy algorithms on them."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from repro.batching.exact import gap
from repro.batching.modes import decide
from repro.batching.times import executed_s, exetime_s, meets_constraint
from repro.common.errors import InputError
from repro.experiment import config as configs
from repro.probes import _random_profiles, batching
from tests.support.batching import in_ms
from tests.support.probes import check, run

PROBE = {"families": ["uniform", "computation"], "layers": [2, 5], "startups": [0, 0.5], "profiles": 3}


@functools.cache
def composed(*overrides: str):
    return configs.compose("ibatch/random-profiles", ["testbed=virtual", *overrides])


def configured(probe: dict, *overrides: str, seed: int = 0) -> dict:
    more = {"program": "batching", "probe": probe, "seed": seed, "setting": "random", "key": "k"}
    return composed(*overrides) | more | {"hardware": {"class": "none"}, "provenance": {}}


def test_a_run_sums_up_its_profiles(tmp_path):
    found = run(configured(PROBE, seed=7), tmp_path)
    *rows, total = found["result"]["rows"]
    conditions = [(row["family"], row["layers"], row["startup"]) for row in rows]
    assert conditions == [(f, n, s) for f in PROBE["families"] for n in (2, 5) for s in (0, 0.5)]
    assert (total["family"], total["layers"], total["startup"], total["profiles"]) == (None, None, None, 24)
    for family, layers, startup in conditions[-2:]:
        profiles = list(_random_profiles.draw(family, layers, startup, 3, 7))
        row = rows[conditions.index((family, layers, startup))]
        for mode in ("greedy", "algorithm1", "algorithm2", "default", "layerwise"):
            gaps = [gap(profile, decide(profile, mode)) for profile in profiles]
            of_mode = row["modes"][mode]
            assert of_mode["compared"] == 3 and of_mode["max"] == pytest.approx(max(gaps))
            assert of_mode["median"] == pytest.approx(np.median(gaps))
            assert of_mode["optimal"] == pytest.approx(np.mean([one == 0 for one in gaps]))
        chosen = [(profile, decide(profile, "greedy")) for profile in profiles]
        below = [exetime_s(*one) < executed_s(*one) for one in chosen]
        assert row["exetime_below"] == pytest.approx(np.mean(below))
        assert not any(less and meets_constraint(*one) for less, one in zip(below, chosen))
    assert found["metrics"]["greedy/max"] == max(row["modes"]["greedy"]["max"] for row in rows)
    assert found["program"] == "batching" and found["line"].startswith("24 profiles: greedy is optimal in ")


def test_the_worked_example():
    """Algorithm 1's batches execute in 26 ms where Algorithm 2's take 25 and the optimum 24; EXETime says 22."""
    found = batching.compare(in_ms(1, [2, 1, 2, 3, 6, 4], [2, 3, 4, 6, 3, 1]))
    assert found["gaps"] == pytest.approx(
        {
            "greedy": 2 / 24,
            "algorithm1": 2 / 24,
            "algorithm2": 1 / 24,
            "constrained": 1 / 24,
            "default": 14 / 24,
            "layerwise": 1 / 24,
        }
    )
    assert found["no_pair"] == [False, False] and found["exetime_below"] and found["longer"] == pytest.approx(1 / 25)


def test_no_pair_meets_the_constraint():
    """9 ms of layer 1 against pulls of 3; but layer 2 computes within the pull of layer 3."""
    found = batching.compare(in_ms(1, [1, 1, 1], [9, 1, 1]))
    assert found["no_pair"] == [True, False] and found["gaps"]["constrained"] is None
    found = batching.compare(in_ms(1, [1, 1, 1], [9, 9, 9]))
    assert found["no_pair"] == [True, True] and found["gaps"]["constrained"] is None
    assert found["gaps"]["greedy"] == found["longer"] == 0 and found["exetime_below"]
    row = batching.summed([found])
    assert row["modes"]["constrained"] == {"compared": 0, "optimal": None, "median": None, "p95": None, "max": None}
    assert row["no_pair"] == {"algorithm1": 1.0, "algorithm2": 1.0} and row["prefers_longer"] == 0


def test_metrics_of_what_there_is_none_are_left_out(tmp_path):
    probe = PROBE | {"families": ["computation"], "layers": [2], "startups": [0], "profiles": 1}
    seeds = range(20)
    without = [
        s for s in seeds if batching.compare(next(_random_profiles.draw("computation", 2, 0, 1, s)))["no_pair"][1]
    ]
    found = run(configured(probe, seed=without[0]), tmp_path)
    assert found["result"]["rows"][-1]["modes"]["constrained"]["compared"] == 0
    assert "greedy/max" in found["metrics"] and "constrained/max" not in found["metrics"]


@pytest.mark.parametrize("family", _random_profiles.FAMILIES)
def test_families(family):
    first, again = (list(_random_profiles.draw(family, 12, 0.5, 20, 3)) for _ in range(2))
    assert first == again != list(_random_profiles.draw(family, 12, 0.5, 20, 4))
    rises, falls, ratio = _random_profiles.FAMILIES[family]
    for profile in first:
        assert sum(profile.forward_s) / sum(profile.transfer_s) == pytest.approx(ratio)
        assert profile.startup_s == pytest.approx(0.5 * np.mean(profile.transfer_s))
        assert min(profile.transfer_s) > 0 and min(profile.forward_s) > 0
    transfers = np.mean([profile.transfer_s for profile in first], axis=0)
    forwards = np.mean([profile.forward_s for profile in first], axis=0)
    if rises:
        assert transfers[-3:].sum() > 5 * transfers[:3].sum() and forwards[:3].sum() > 2 * forwards[-3:].sum() and falls


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"families": []}, "probe.families=[]: must be 1 or more entries"),
        ({"families": ["uniform", "uniform"]}, "must be a list of different entries"),
        ({"layers": [2, 3, 2]}, "probe.layers=[2, 3, 2]: must be a list of different entries"),
        ({"startups": [0, 0.0]}, "probe.startups=[0, 0.0]: must be a list of different entries"),
        (
            {"families": ["uniforms"]},
            "probe.families.0=uniforms: must be convolutional, uniform, communication or",
        ),
        ({"families": [3]}, "probe.families.0=3: must be convolutional, uniform,"),
        ({"layers": 4}, "probe.layers=4: must be a list"),
        ({"layers": [1]}, "probe.layers.0=1: must be 2 or more"),
        ({"layers": [2.5]}, "probe.layers.0=2.5: must be a whole number"),
        ({"layers": [True]}, "probe.layers.0=True: must be a whole number"),
        ({"startups": [-0.1]}, "probe.startups.0=-0.1: must be 0 or more"),
        ({"startups": [0, 1001]}, "probe.startups.1=1001: must be 1,000 or less"),
        ({"startups": ["0"]}, "probe.startups.0='0': must be a number"),
        ({"startups": [float("nan")]}, "probe.startups.0=nan: must be"),
        ({"profiles": 0}, "probe.profiles=0: must be 1 or more"),
    ],
)
def test_parameters_that_cannot_be(change, words):
    with pytest.raises(InputError) as refusal:
        check(configured(PROBE | change))
    assert words in str(refusal.value) and "\n" not in str(refusal.value)


def test_one_worker():
    with pytest.raises(InputError, match="workers=2: program batching only computes"):
        check(configured(PROBE, "workers=2", "batch=2"))
