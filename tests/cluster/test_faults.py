"""A part of `make faults`: trials with faults in real runs, and the detection of losses."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path

import pytest
import torch

from repro import strategies
from repro.core.errors import FaultError
from repro.rank.checkpoints import Checkpoints, Damaged
from repro.records.record import Record
from tests.faults import baseline, damage, running, series
from tests.faults.trial import Impossible, Undisturbed, differences
from tests.reports.data.summaries import make
from tests.support.planted.planted_bugs import BUGS, KILLED, Bug
from tests.support.records import record_of

POINT = {"epoch": 1.0, "train_s": 1.0, "loss": 1.0, "test_loss": 1.0, "top1": 0.5}

WHOLE = record_of(make("D-Sync", curve=[POINT | {"iteration": n} for n in (0, 2, 4)], iterations=4, workers=3))


def changed(record: Record, **entries) -> Record:
    return record.model_copy(update={"result": record.result.model_copy(update=entries)})


EAGER = changed(
    WHOLE,
    counters={"accepted": 10.0, "pending": 2.0, "dropped": 0.0, "rounds": 12.0},
    staleness=[{"0": 4}, {"0": 3}, {"0": 2, "1": 1}],
)


@pytest.mark.parametrize(
    "name, whole, found, what",
    [
        ("dsync", WHOLE, changed(WHOLE, weights_sha256="cd"), "weights_sha256"),
        ("dsync", WHOLE, changed(WHOLE, iterations=3), "iterations"),
        ("dsync", WHOLE, changed(WHOLE, curve=[*WHOLE.result.curve, WHOLE.result.curve[-1]]), "evaluations"),
        ("dsync", WHOLE, changed(WHOLE, bytes_sent=11.0), "bytes_sent"),
        ("eager_solo", EAGER, changed(EAGER, counters=EAGER.result.counters | {"pending": 1.0}), "gradients"),
        ("eager_solo", EAGER, changed(EAGER, staleness=EAGER.result.staleness[:2]), "staleness"),
        ("eager_solo", EAGER, changed(EAGER, staleness=[{"0": 4}, {"0": 3}, {"0": 2, "7": 1}]), "bound"),
        ("ps_async", WHOLE, changed(WHOLE, staleness=[{}, {}, {}, {"1": 11}]), "staleness"),
    ],
)
def test_what_a_trial_calls_a_loss(name, whole, found, what):
    assert differences(whole, whole, name) == []
    assert any(what in line for line in differences(found, whole, name))


def test_the_bits_of_strategies_that_depend_on_who_is_faster_do_not_count():
    assert differences(changed(EAGER, weights_sha256="cd"), EAGER, "eager_solo") == []


def test_a_round_has_every_live_fault_on_every_strategy_and_the_seed_decides_it():
    names, faults = strategies.strategy_names(), list(series.FAULTS)
    trials = series.plan_trials(names, faults, 3, None)
    assert trials == series.plan_trials(names, faults, 3, len(trials)) != series.plan_trials(names, faults, 4, None)
    assert trials == series.plan_trials(names, faults, 3, 2 * len(trials))[: len(trials)]
    assert {(name, fault) for _, name, fault in trials} >= set(itertools.product(names, running.FAULTS))
    assert {fault for _, _, fault in trials} == set(series.FAULTS)
    assert len({trial for trial, _, _ in trials}) == len(trials) >= 250


def test_damage_changes_the_file_that_it_names(tmp_path):
    dice = random.Random(1)
    for harm in (damage.cut, damage.empty, damage.flip, damage.remove):
        folder = tmp_path / harm.__name__
        folder.mkdir()
        for iteration in (3, 10):
            (folder / f"iteration{iteration:09d}.rank0.pt").write_bytes(bytes(100))
            (folder / f"iteration{iteration:09d}.rank0.json").write_text("{}")
        path = damage.newest(harm)(folder, dice)
        assert "10" in path.name and (not path.exists() or path.read_bytes() != bytes(100))
        assert (folder / "iteration000000003.rank0.pt").read_bytes() == bytes(100)


def test_only_the_limit_to_plain_values_stops_a_checkpoint_that_executes_code(tmp_path, monkeypatch):
    mark, load = tmp_path / damage.PLANTED, torch.load
    checkpoints = Checkpoints(tmp_path, 0)
    checkpoints.save(3, {"weights": torch.ones(2)})
    damage.planted(tmp_path, random.Random(1))
    with pytest.raises(Damaged):
        checkpoints.load(3)
    assert not mark.exists()
    monkeypatch.setattr(torch, "load", lambda *given, **named: load(*given, **named | {"weights_only": False}))
    checkpoints.load(3)
    assert mark.exists()


def test_a_fault_that_comes_too_late_is_tried_again_and_not_counted_as_survived(tmp_path, monkeypatch):
    def late(trial):
        tries.append(trial.dice.random())
        trial.struck = len(tries) == 3

    tries: list[float] = []
    monkeypatch.setitem(series.FAULTS, "late", late)
    monkeypatch.setattr(series.baseline, "find_baseline", lambda *_: None)
    monkeypatch.setattr(series.Trial, "recover", lambda _: None)
    record = series.attempt_trial(tmp_path, "trial", "dsync", "late", "key")
    assert record["outcome"] == "survived" and record["struck"] and len(set(tries)) == 3
    late_for_ever = series.attempt_trial(tmp_path, "trial", "dsync", "late", "key")
    assert late_for_ever["outcome"] == "too late" and not late_for_ever["struck"]


@pytest.mark.parametrize("outcome", ["too late", "not possible here"])
def test_a_series_in_which_no_fault_struck_has_failed(outcome):
    record = {"trial": "0/0/dsync/x", "outcome": outcome, "why": None}
    with pytest.raises(FaultError, match="no fault struck"):
        series.check_outcomes([record, record])
    series.check_outcomes([record, record | {"outcome": "survived"}])


def test_signals_come_from_the_first_moment_on(tmp_path, monkeypatch):
    slept: list[float] = []
    monkeypatch.setattr(series.Trial, "await_training", lambda *_: slept.append(100.0))
    monkeypatch.setattr("time.sleep", slept.append)
    trial = series.Trial(
        "dsync", tmp_path, random.Random(1), Undisturbed(changed(WHOLE, iterations=100), 10.0, 5.0, tmp_path)
    )
    for _ in range(100):
        trial.moment(None)
    waits = [time for time in slept if time != 100.0]
    assert len(waits) == 100 and 0 < slept.count(100.0) < 100
    assert min(waits) < 1 and max(waits) > 5  # of the start, some


# two commands, besides the two of the strategy's baseline; `make faults` tries all
TRIALS = [("pipe_sgd", "a rank killed (SIGKILL)")]


def test_a_trial_finds_nothing_of_an_earlier_one(tmp_path, monkeypatch):
    left = tmp_path / "workspaces" / "trial" / "results" / "left"
    left.mkdir(parents=True)
    found = []

    def look(trial):
        found.extend(trial.results.iterdir())
        raise Impossible("no more is tried")

    monkeypatch.setitem(series.FAULTS, "look", look)
    monkeypatch.setattr(series.baseline, "find_baseline", lambda *_: None)
    series.attempt_trial(tmp_path, "trial", "dsync", "look", "key")
    assert found == []


@pytest.mark.ranks
def test_a_part_of_the_series_loses_nothing(tmp_path):
    for name, fault in TRIALS:
        (key,) = series.run_keys([name])[0].values()
        series.append_record(tmp_path, series.attempt_trial(tmp_path, f"0/0/{name}/{fault}", name, fault, key))
        stored = json.loads((tmp_path / "baselines" / f"{name}.json").read_text())
        assert stored["record"]["key"] == key  # else each trial would make it again
    records = series.read_records(tmp_path)
    assert [record["why"] for record in records if record["outcome"] == "lost"] == []
    assert {record["outcome"] for record in records} <= set(series.OUTCOMES)
    series.check_outcomes(records)
    assert json.loads((tmp_path / "trials.jsonl").read_text().splitlines()[0])["strategy"] == TRIALS[0][0]
    assert f"| all | {len(TRIALS)} | {len(TRIALS)} |" in " ".join(series.outcome_tables(records).split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("series")


def killed_half_way(trial):
    trial.copy_killed()
    trial.struck = True


@pytest.mark.ranks
@pytest.mark.parametrize("lost", [None, *BUGS])
def test_a_bug_of_resuming_is_reported_as_a_loss_and_nothing_else_is(folder, monkeypatch, lost):
    strategy, _, fault = BUGS.get(lost) or Bug("dsync", lambda: None)
    monkeypatch.setitem(series.FAULTS, KILLED, killed_half_way)
    (key,) = series.run_keys([strategy])[0].values()
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1] / "support" / "planted"))
    monkeypatch.setenv("PLANTED", "")
    baseline.find_baseline(strategy, folder / "baselines", key)
    monkeypatch.setenv("PLANTED", lost or "")
    record = series.attempt_trial(folder, f"0/0/{strategy}/{lost}", strategy, fault, key)
    if lost is None:
        assert record["outcome"] == "survived", record
        return
    assert record["outcome"] == "lost", record
    noticed = "ends with other weights" in record["why"]  # by the run itself, which compares its replicas
    assert noticed == (lost == "one rank's newest generation") and "Traceback" not in record["why"], record["why"]
    assert noticed or "exit status" not in record["why"], record["why"]
    with pytest.raises(FaultError):
        series.check_outcomes([record])
