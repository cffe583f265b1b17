"""`repro batches`: output and errors; and the probe `batching` on random profiles."""

from __future__ import annotations

import functools
import json

import numpy as np
import pytest

from repro.algorithms.batching.decision import MODES, decide_batches, optimality_gap
from repro.algorithms.batching.profile import write_pulls
from repro.algorithms.batching.times import executed_s, exetime_s, meets_constraint
from repro.cli.main import main
from repro.core.errors import InputError
from repro.experiment import config as configs
from repro.experiment import limits
from repro.probes import batching
from tests.support.batching import in_ms
from tests.support.probes import check, run

# the second example of test_batching_greedy.py
TWO = in_ms(1, [2, 1, 2, 3, 6, 4], [2, 3, 4, 6, 3, 1])


@pytest.fixture
def two(tmp_path):
    write_pulls(tmp_path / "two.json", TWO)
    return str(tmp_path / "two.json")


@pytest.mark.parametrize(
    ("mode", "batches", "exetime", "executed", "meets"),
    [
        ("greedy", [[1, 3], [4, 5], [6, 6]], 0.022, 0.026, False),
        ("algorithm2", [[1, 2], [3, 4], [5, 6]], 0.025, 0.025, True),
        ("exact", [[1, 2], [3, 4], [5, 5], [6, 6]], 0.023, 0.024, False),
    ],
)
def test_json_of_every_mode(two, capsys, mode, batches, exetime, executed, meets):
    assert main(["batches", two, "--mode", mode, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["mode"], found["batches"]) == (mode, batches)
    assert (found["exetime_s"], found["executed_s"], found["meets_constraint"]) == (exetime, executed, meets)
    assert found["exact_s"] == 0.024 and found["gap"] == pytest.approx(executed / 0.024 - 1)
    assert (found["model"], found["hardware"], found["layers"]) == (None, "", ["1", "2", "3", "4", "5", "6"])
    assert found["exetime_optimum"] == {"batches": [[1, 2], [3, 4], [5, 6]], "exetime_s": 0.025, "executed_s": 0.025}


def test_for_people(two, capsys):
    assert main(["batches", two]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "profile    6 layers" and lines[1] == "batches    [1, 3], [4, 5], [6, 6]"
    cells = [line.split() for line in lines]
    assert ["1", "1", "3", "6", "15"] in cells and ["3", "6", "6", "21", "26"] in cells  # pulled by and computed by, ms
    rows = {line.split("  ")[0]: line.split()[-5:] for line in lines}
    assert rows["greedy"] == ["22", "26", "no", "8.33", "%"]
    assert rows["default"] == ["38", "38", "yes", "58.33", "%"]
    assert rows["layerwise"] == ["25", "25", "yes", "4.17", "%"]
    assert rows["exact"] == ["23", "24", "no", "0.00", "%"]
    assert rows["(4) under (5)"] == ["25", "25", "yes", "4.17", "%"]


def test_no_batches_meet_the_constraint(tmp_path, capsys):
    path = tmp_path / "p.yaml"
    path.write_text("startup_s: 1e-3\ntransfer_s: [1e-3, 1e-3, 1e-3]\nforward_s: [9e-3, 8e-3, 9e-3]\n")
    assert main(["batches", str(path)]) == 0
    text = capsys.readouterr().out
    assert text.endswith("that meet (5): none do\n") and "[1, 1], [2, 3]" in text
    assert main(["batches", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["exetime_optimum"] is None


def test_a_profile_that_takes_minutes_is_refused_at_once(tmp_path, capsys):
    path = tmp_path / "long.json"
    many = [1] * (limits.LAYERS + 1)
    path.write_text(json.dumps({"startup_s": 1, "transfer_s": many, "forward_s": many}))
    assert main(["batches", str(path)]) == 2
    assert capsys.readouterr().err == f"repro: error: {path}: layers: 1,001; must be 1,000 or less\n"


@pytest.mark.parametrize("mode", MODES)
def test_edges(tmp_path, capsys, mode):
    """One layer; nothing at all to pull or to compute; no startup time."""
    for transfers, forwards in (([1], [1]), ([0, 0], [0, 0]), ([1, 0], [1, 1])):
        path = tmp_path / "p.json"
        path.write_text(json.dumps({"startup_s": 0, "transfer_s": transfers, "forward_s": forwards}))
        assert main(["batches", str(path), "--mode", mode, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["batches"] == [[1, len(transfers)]] and found["gap"] == 0
        assert main(["batches", str(path), "--mode", mode]) == 0
        assert capsys.readouterr().err == ""


def test_refuses_other_modes_and_no_profile(two, tmp_path, capsys):
    (tmp_path / "bad").write_text('{"startup_s": 1, "transfer_s": [1, -2], "forward_s": [1, 1]}')
    for arguments, words in (
        ([two, "--mode", "optimal"], "unknown mode 'optimal'; valid: "),
        ([str(tmp_path / "none.json")], "none.json: no such profile"),
        ([str(tmp_path / "bad")], f"{tmp_path / 'bad'}: "),
    ):
        assert main(["batches", *arguments]) == 2
        said = capsys.readouterr()
        assert said.out == "" and words in said.err and said.err.count("\n") == 1


# --- the probe `batching`


PROBE = {"families": ["uniform", "computation"], "layers": [2, 5], "startups": [0, 0.5], "profiles": 3}


@functools.cache
def composed(*overrides: str):
    return configs.compose("ibatch/random-profiles", ["testbed=virtual", *overrides])


def configured(probe: dict, *overrides: str, seed: int = 0) -> dict:
    more = {"program": "batching", "probe": probe, "seed": seed, "variant": "random", "key": "k"}
    return composed(*overrides) | more | {"hardware": {"class": "none"}, "provenance": {}}


def test_a_run_sums_up_its_profiles(tmp_path):
    found = run(configured(PROBE, seed=7), tmp_path)
    *rows, total = found["result"]["rows"]
    conditions = [(row["family"], row["layers"], row["startup"]) for row in rows]
    assert conditions == [(f, n, s) for f in PROBE["families"] for n in (2, 5) for s in (0, 0.5)]
    assert (total["family"], total["layers"], total["startup"], total["profiles"]) == (None, None, None, 24)
    for family, layers, startup in conditions[-2:]:
        profiles = list(batching.draw_profiles(family, layers, startup, 3, 7))
        row = rows[conditions.index((family, layers, startup))]
        for mode in ("greedy", "algorithm1", "algorithm2", "default", "layerwise"):
            gaps = [optimality_gap(profile, decide_batches(profile, mode)) for profile in profiles]
            of_mode = row["modes"][mode]
            assert of_mode["compared"] == 3 and of_mode["max"] == pytest.approx(max(gaps))
            assert of_mode["median"] == pytest.approx(np.median(gaps))
            assert of_mode["optimal"] == pytest.approx(np.mean([one == 0 for one in gaps]))
        chosen = [(profile, decide_batches(profile, "greedy")) for profile in profiles]
        below = [exetime_s(*one) < executed_s(*one) for one in chosen]
        assert row["exetime_below"] == pytest.approx(np.mean(below))
        assert not any(less and meets_constraint(*one) for less, one in zip(below, chosen))
    assert found["metrics"]["greedy/max"] == max(row["modes"]["greedy"]["max"] for row in rows)
    assert found["program"] == "batching" and found["line"].startswith("24 profiles: greedy is optimal in ")


def test_the_worked_example():
    """Algorithm 1's batches execute in 26 ms where Algorithm 2's take 25 and the optimum 24; EXETime says 22."""
    compared = batching.compare_batches(in_ms(1, [2, 1, 2, 3, 6, 4], [2, 3, 4, 6, 3, 1]))
    ms = {"greedy": 2, "algorithm1": 2, "algorithm2": 1, "constrained": 1, "default": 14, "layerwise": 1}
    assert compared["gaps"] == pytest.approx({mode: over / 24 for mode, over in ms.items()})
    assert (
        compared["no_pair"] == [False, False]
        and compared["exetime_below"]
        and compared["longer"] == pytest.approx(1 / 25)
    )


def test_no_pair_meets_the_constraint():
    """9 ms of layer 1 against pulls of 3; but layer 2 computes within the pull of layer 3."""
    compared = batching.compare_batches(in_ms(1, [1, 1, 1], [9, 1, 1]))
    assert compared["no_pair"] == [True, False] and compared["gaps"]["constrained"] is None
    compared = batching.compare_batches(in_ms(1, [1, 1, 1], [9, 9, 9]))
    assert compared["no_pair"] == [True, True] and compared["gaps"]["constrained"] is None
    assert compared["gaps"]["greedy"] == compared["longer"] == 0 and compared["exetime_below"]
    row = batching.summarise_profiles([compared])
    assert row["modes"]["constrained"] == {"compared": 0, "optimal": None, "median": None, "p95": None, "max": None}
    assert row["no_pair"] == {"algorithm1": 1.0, "algorithm2": 1.0} and row["prefers_longer"] == 0


@pytest.mark.parametrize("family", batching.FAMILIES)
def test_families(family):
    first, again = (list(batching.draw_profiles(family, 12, 0.5, 20, 3)) for _ in range(2))
    assert first == again != list(batching.draw_profiles(family, 12, 0.5, 20, 4))
    rises, falls, ratio = batching.FAMILIES[family]
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
        ({"families": []}, "probe.families=[]"),
        ({"families": ["uniforms"]}, "probe.families.0=uniforms: must be convolutional, uniform"),
        ({"layers": [2, 3, 2]}, "probe.layers=[2, 3, 2]"),
        ({"layers": [1]}, "probe.layers.0=1: must be 2 or more"),
        ({"startups": [-0.1]}, "probe.startups.0=-0.1"),
        ({"profiles": 0}, "probe.profiles=0"),
    ],
)
def test_wrong_parameters(change, words):
    with pytest.raises(InputError) as refusal:
        check(configured(PROBE | change))
    assert words in str(refusal.value) and "\n" not in str(refusal.value)


def test_one_worker():
    with pytest.raises(InputError, match="workers=2: program batching runs on one rank"):
        check(configured(PROBE, "workers=2", "batch=2"))
