"""The microbenchmark of eager-SGD's Figure 8, as a probe and as a benchmark."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from repro.bench import partial
from repro.common.errors import InputError
from repro.launch import runs
from repro.probes import _skewed, partial_collectives
from tests.support.probes import check, run

STEP_S = 0.001


@functools.cache
def composed() -> dict[str, Any]:
    return runs.expand("eagersgd/fig9", [], "quick")[0].config.plain()


def configuration(workers: int, **probe: Any) -> dict[str, Any]:
    config = composed()
    record = {"setting": "s", "key": "k", "hardware": {"class": "none"}, "provenance": {}, "workers": workers}
    given = {
        "collectives": ["allreduce", "solo", "majority"],
        "ranks": [workers],
        "bytes": [64, 65536],
        "calls": 40,
        "step_s": STEP_S,
    } | probe
    return config | record | {"batch": workers, "probe": config["probe"] | given}


@pytest.mark.parametrize("workers", [3, 8])
def test_latencies_are_the_waits_that_follow_from_the_skew(workers, tmp_path):
    """Skew is far above a round's own time: each mean latency is its closed form, majority's in expectation."""
    names = ["allreduce", "recursive_doubling", "solo", "majority", "quorum 2", f"quorum {workers}"]
    summary = run(configuration(workers, collectives=names), tmp_path)
    rows = summary["result"]["rows"]
    assert [row["collective"] for row in rows] == names * 2
    for row in rows:
        assert row["skew_s"] == pytest.approx((workers - 1) * STEP_S)
        slack = 0.1 * STEP_S
        if row["collective"] == "majority":
            deviation = workers * STEP_S / row["calls"] ** 0.5
            slack += 3 * deviation
            assert abs(row["nap"] - row["nap_form"]) < 3 * workers / row["calls"] ** 0.5
        else:
            assert row["nap"] == row["nap_form"]
        assert row["latency_s"]["mean"] == pytest.approx(row["waiting_form_s"], abs=slack)
    ratios = {row["collective"]: row["mean"] for row in summary["result"]["ratios"]}
    assert ratios["solo"] > ratios["quorum 2"] > ratios["majority"] > 1
    assert summary["metrics"][f"nap/solo/{workers}/64"] == 1
    assert f"{workers} ranks" in summary["line"] and "majority" in summary["line"]


def test_some_of_the_ranks(tmp_path):
    """Smaller worlds of a larger run; the others wait."""
    rows = run(configuration(4, ranks=[2, 3, 4], collectives=["allreduce", "solo"], calls=2), tmp_path)["result"][
        "rows"
    ]
    assert {(row["ranks"], row["collective"]) for row in rows} == {
        (p, name) for p in (2, 3, 4) for name in ("allreduce", "solo")
    }


@pytest.mark.parametrize(
    ("probe", "words"),
    [
        ({"collectives": ["both"]}, "collective 'both': must be allreduce, recursive_doubling, solo, majority or"),
        ({"collectives": []}, r"probe.collectives=\[\]: must be 1 or more entries"),
        ({"collectives": ["quorum 4"]}, "strategy.quorum=4: must be a whole number from 1 .solo. to workers=3"),
        ({"ranks": [1]}, "probe.ranks.0=1: must be 2 or more"),
        ({"ranks": [2, 4]}, r"probe.ranks=\[4\]: must be 2 to workers=3"),
        ({"calls": 0}, "probe.calls=0: must be 1 or more"),
        ({"bytes": [2]}, "probe.bytes.0=2: must be 4 or more"),
        ({"step_s": -1}, "probe.step_s=-1: must be 0 or more"),
        ({"step_s": 90}, "probe.step_s=90: the last of 3 ranks would come 180 s late, after timeout_s=120"),
    ],
)
def test_bad_parameters(probe, words):
    with pytest.raises(InputError, match=words):
        check(configuration(3, **probe))


def test_a_line_without_partial_collectives():
    assert partial_collectives.line(partial_collectives.ratios([])) == ""
    assert _skewed.initiator("quorum 3", 4) == ("quorum", 3)


@pytest.mark.ranks
def test_the_benchmark_on_real_ranks():
    found = partial.measure(worlds=(3,), sizes=(64,), calls=2, rounds=1, seconds=0.05, turns=1)
    assert len(found["rows"]) == 2 * len(partial.COLLECTIVES)
    for row in found["rows"]:
        assert row["latency_s"]["median"] > 0 and 1 <= row["nap"] <= 3
        assert row["ratio"] == 1 or row["collective"] != "allreduce"
    cost = found["progress"]
    assert cost["with"] > 0 and cost["without"] > 0 and len(cost["cost"]["all"]) == cost["ranks"]
    text = partial.table(found)
    assert "solo" in text and "computing ranks cost" in text
