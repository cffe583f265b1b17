"""A run resumes only from a checkpoint whose iterations the event log contains, and ends only with a complete log."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from repro.core.errors import FaultError
from repro.rank.checkpointer import log_gap
from repro.rank.step_log import StepLog
from repro.training.stops import TrainingPlan
from tests.support.virtual_runs import killed, run
from tests.unit.rank.test_checkpoints import curve, notes, resumes

TOGETHER = ("strategy=pipe_sgd",)
# each stage writes checkpoints independently: 8 iterations between evaluations, 3 between checkpoints
STAGES = ("strategy=pipedream", "strategy.config=1-1-1", "strategy.cuts=[1,2]")
ALONE = (*STAGES, "eval_every=0.33", "checkpoint_every=0.12")


@pytest.fixture(scope="module", params=[(TOGETHER, 3), (ALONE, 9)], ids=["together", "alone"])
def undisturbed(request, tmp_path_factory):
    """The overrides of a run, the steps of all ranks in an iteration, the summary of the undisturbed run."""
    overrides, steps = request.param
    return overrides, steps, run(tmp_path_factory.mktemp("whole"), *overrides)


def lines(log: Path) -> list[bytes]:
    return log.read_bytes().splitlines(keepends=True)


def cut_after_the_start(log: Path) -> None:
    log.write_bytes(lines(log)[0])


def remove(log: Path) -> None:
    log.unlink()


def zeros_in_front(log: Path) -> None:
    first, second, *rest = lines(log)
    log.write_bytes(first + b"\0" * len(second) + b"".join(rest))


def change_a_digit(log: Path) -> None:
    first, *rest = lines(log)
    log.write_bytes(first + b"".join(rest).replace(b'"n":', b'"n":1', 1))


def lose_a_line(log: Path) -> None:
    left = lines(log)
    del left[next(number for number, line in enumerate(left) if b'"event":"steps"' in line)]
    log.write_bytes(b"".join(left))


DAMAGE = [remove, zeros_in_front, change_a_digit, lose_a_line]


def assert_as_if_undisturbed(again: dict, whole: dict) -> None:
    assert again["weights_sha256"] == whole["weights_sha256"] and curve(again) == curve(whole)
    for name in ("bytes_sent", "staleness", "iterations"):
        assert again[name] == whole[name], name
    if again["pipeline"] is None:  # a pipeline fills anew
        for name in ("step", "phases", "communication"):  # in virtual time
            assert again[name] == pytest.approx(whole[name]), name


@pytest.mark.parametrize("damage", DAMAGE)
def test_an_incomplete_log_is_noticed_before_training(tmp_path, monkeypatch, capsys, undisturbed, damage):
    overrides, steps, whole = undisturbed
    killed(tmp_path, monkeypatch, 19 * steps, *overrides)
    damage(tmp_path / "events.jsonl")
    capsys.readouterr()
    again = run(tmp_path, *overrides)
    *others, last = notes(capsys)
    assert "starting from the beginning" in last and all("events.jsonl" in line for line in others)
    assert_as_if_undisturbed(again, whole)


def test_ranks_killed_before_any_checkpoint_start_from_the_beginning(tmp_path, monkeypatch, undisturbed):
    """The log of the killed attempt does not count."""
    overrides, steps, whole = undisturbed
    assert not killed(tmp_path, monkeypatch, steps, *overrides)
    again = run(tmp_path, *overrides)
    assert resumes(tmp_path) == [-1]
    assert_as_if_undisturbed(again, whole)


@pytest.mark.parametrize(("event", "keep"), [("steps", 0), ("checkpoint", 0), ("checkpoint", 2)])
def test_a_log_that_lacks_its_end(tmp_path, monkeypatch, capsys, undisturbed, event, keep):
    """Without the last line of steps, the checkpoints after it are skipped; lines after the last checkpoint may be
    lost."""
    overrides, steps, whole = undisturbed
    left = killed(tmp_path, monkeypatch, 19 * steps, *overrides)
    log = tmp_path / "events.jsonl"
    complete = lines(log)
    cut = keep + max(number for number, line in enumerate(complete) if f'"event":"{event}"'.encode() in line)
    rest = complete[:cut]
    log.write_bytes(b"".join(rest) + b"\0" * 100 + b"\n")
    capsys.readouterr()
    again = run(tmp_path, *overrides)
    first, *skipped = notes(capsys)
    assert f"events.jsonl:{len(rest) + 1}: not an event" in first
    (start,) = resumes(tmp_path)
    common = [iteration for iteration, files in left.items() if len(files) == 3]
    assert start in common and len(skipped) == sum(iteration > start for iteration in common)
    assert bool(skipped) == (event == "steps")
    assert all(f"skipping the checkpoint of iteration {i}" in line for i, line in zip(common, skipped))
    assert_as_if_undisturbed(again, whole)


def test_the_log_is_on_the_disk_before_the_manifest(tmp_path, monkeypatch, undisturbed):
    overrides, *_ = undisturbed
    log, on_disk, complete = tmp_path / "events.jsonl", [0], []
    fsync, replace = os.fsync, os.replace

    def synced(descriptor):
        fsync(descriptor)
        if os.readlink(f"/proc/self/fd/{descriptor}") == str(log):
            on_disk[0] = log.stat().st_size

    def renamed(source, target, **folders):
        if str(target).endswith("rank0.json"):
            complete.append(on_disk[0] == log.stat().st_size)
        replace(source, target, **folders)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", synced)
        patch.setattr(os, "replace", renamed)
        run(tmp_path, *overrides)
    assert len(complete) >= 7 and all(complete)


def test_no_record_is_made_of_a_log_that_lost_steps(tmp_path, monkeypatch, undisturbed):
    overrides, steps, whole = undisturbed
    step, left = StepLog.step, [21 * steps]

    def cuts(self, work):
        left[0] -= 1
        if left[0] == 0:
            cut_after_the_start(tmp_path / "events.jsonl")
        return step(self, work)

    with monkeypatch.context() as patch:
        patch.setattr(StepLog, "step", cuts)
        with pytest.raises(FaultError, match=r"events\.jsonl has \d+ of the \d+ steps"):
            run(tmp_path, *overrides)
    assert not (tmp_path / "summary.json").exists()
    assert_as_if_undisturbed(run(tmp_path, *overrides), whole)


def test_what_a_log_lacks():
    plan = TrainingPlan(iterations=10, eval_every=5, checkpoint_every=2)
    steps = [{"event": "steps", "iteration": at, "n": n} for at, n in ((4, 4), (5, 1), (8, 3))]
    evaluations = [{"event": "evaluation", "iteration": at} for at in (0, 5)]
    assert log_gap(steps + evaluations, plan, 8, 8) is None
    assert log_gap(steps[:2] + evaluations, plan, 8, 8) == "has 5 of the 8 steps up to iteration 8"
    assert log_gap(steps[:2] + evaluations, plan, 8, 8, {"step_s": [0.1] * 3}) is None
    assert log_gap(steps + evaluations, plan, 8, 8, {"step_s": [0.1] * 3}) is None
    assert log_gap(steps + evaluations[:1], plan, 5, 5) == "has no evaluation of iteration 5"
    assert log_gap(steps[:1] + evaluations[:1], plan, 5, 5, {"step_s": [0.1]}) is None


SLOW_ONES = ("imbalance=random_one", "imbalance.delay_s=0.01")  # ranks are apart in time at a checkpoint


@pytest.mark.parametrize(
    "overrides",
    [
        ("strategy=ibatch", "strategy.sync=ssp", "strategy.bound=2"),
        ("strategy=ps_default", "strategy.sync=asp", *SLOW_ONES),
        ("strategy=ps_async", *SLOW_ONES),
    ],
    ids=["ssp", "asp", "ps_async"],
)
def test_updates_in_the_order_of_arrival_resume_to_the_same_bits_in_virtual_time(tmp_path, monkeypatch, overrides):
    whole = run(tmp_path / "whole", *overrides)
    killed(tmp_path / "killed", monkeypatch, 40, *overrides)
    assert_as_if_undisturbed(run(tmp_path / "killed", *overrides), whole)
