"""Which runs of an experiment are done, stale or missing."""

import json

import pytest

from repro.cli import main
from repro.common.errors import NotHere
from repro.launch import runs as expansion
from repro.launch.standing import Standing, standing, together
from repro.records.catalogue import REFERENCE, Found
from tests.support.cli import EXPERIMENT

TIMING = ["testbed=paper/pipesgd", "testbed.arithmetic=none"]


@pytest.fixture(scope="module")
def runs():
    found = expansion.expand(EXPERIMENT, TIMING, "quick")
    keys = expansion.Keys()
    for run in found:
        keys.give(run)
    return found


def finished(run, tmp_path, **changes):
    config = run.config
    place = {"paper": config.paper, "experiment": config.figure, "setting": run.variant, "testbed": run.testbed}
    rest = {"seed": run.seed, "scale": config.scale, "breakdown": config.breakdown, "key": run.key}
    return Found(REFERENCE, tmp_path, place | rest | changes)


def test_a_run_is_done_by_its_key_and_stale_by_its_place(runs, tmp_path):
    first, second, *rest = runs
    assert standing(runs, []) == (0, 0, len(runs))
    there = [finished(first, tmp_path), finished(first, tmp_path, key="older"), finished(second, tmp_path, key="older")]
    assert standing(runs, there) == (1, 1, len(rest))
    for changed in ({"seed": 9}, {"scale": "paper"}, {"testbed": "here"}, {"breakdown": True}, {"paper": "other"}):
        assert standing([second], [finished(second, tmp_path, key="older", **changed)]) == (0, 0, 1)
    assert together([Standing(1, 2, 3), Standing(1, 0, 0)]) == (2, 2, 3)
    assert str(Standing(1, 2, 3)) == "1 done, 2 stale, 3 missing"


def test_the_keys_are_those_under_which_it_would_be_run(runs):
    again = expansion.expand(EXPERIMENT, TIMING, "quick")
    expansion.identify(again)
    assert [run.key for run in again] == [run.key for run in runs]
    assert len({run.key for run in runs}) == len(runs)


def test_show_says_it_for_each_experiment(capsys, monkeypatch):
    assert main(["show", EXPERIMENT, *TIMING, "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert sum(shown["runs"].values()) == shown["cells"] > 0 and shown["config"]["scale"] == "quick"
    assert main(["show", EXPERIMENT, *TIMING]) == 0
    out = capsys.readouterr().out
    assert f"# at scale quick: {Standing(**shown['runs'])}\n" in out

    def gone(keys, run):
        raise NotHere("no data here")

    monkeypatch.setattr(expansion.Keys, "give", gone)
    assert main(["show", EXPERIMENT, *TIMING]) == 0
    assert "# left out here: no data here" in capsys.readouterr().out
