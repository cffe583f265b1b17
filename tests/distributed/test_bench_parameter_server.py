"""The benchmark of parameter servers: every way on every fabric, and a simulated step."""

from __future__ import annotations

import pytest

from repro.bench import parameter_server


@pytest.mark.ranks
def test_every_way_is_timed():
    result = parameter_server.measure(worlds=(2,), sizes=(1 << 16,), calls=1, rounds=2, nodes=3)
    rows = result["rows"]
    assert [(row["fabric"], row["way"]) for row in rows] == [
        (fabric, way) for fabric in ("mpi", "torch") for way in parameter_server.WAYS
    ]
    for row in rows:
        assert len(row["seconds"]["all"]) == 2 and row["seconds"]["median"] > 0
        assert row["way"] != "allreduce" or row["ratio"] == 1.0
    steps = {one["mode"]: one for one in result["simulated"]}
    assert steps["ibatch"]["iteration_s"] < steps["default"]["iteration_s"] and steps["ibatch"]["wall_s"] > 0
    assert "VGG19-22K" in parameter_server.table(result)
