"""Preemption without Slurm: the agreement on the last iteration, and a run under mpirun that is preempted."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from repro.core.errors import FaultError
from repro.experiment import files
from repro.experiment.compose import Composer
from repro.experiment.launched import config_digest
from repro.launch import listener
from repro.launch.supervise import live_descendants
from repro.rank import ends, preemption
from repro.training.stops import Stop
from tests.support import cli
from tests.support.waiting import LIMIT_S, wait_until

WORKERS, SIZE = 2, 3


class Steps:
    """A strategy that takes a step every `each` iterations."""

    def __init__(self, each=1):
        self.each = each

    def steps(self, minibatches):
        return minibatches // WORKERS // self.each


def notice(folder, rank, step_s=0.1, each=1):
    worker = SimpleNamespace(
        rank=rank,
        workers=WORKERS,
        blocks=None,
        fabric=SimpleNamespace(size=SIZE),
        clock=SimpleNamespace(train_s=lambda: 100 * step_s),
    )
    return preemption.Notice(folder, worker, Steps(each))


@pytest.fixture
def ranks(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRO_PREEMPT", "2")
    monkeypatch.setattr(preemption, "SIGNALLED", True)
    return [notice(tmp_path, rank) for rank in range(SIZE)]


FAR = Stop(1000, True, False)


def test_all_stop_at_the_same_iteration_ahead_of_every_rank(ranks):
    steps = [100, 101, 103]  # rank 2 is ahead of the others
    for rank, (each, step) in enumerate(zip(ranks, steps)):
        assert each.sooner(FAR, step) is FAR, rank
    chosen = [each.sooner(FAR, step + 1) for each, step in zip(ranks, steps)]
    assert len(set(chosen)) == 1
    assert chosen[0].leave and not chosen[0].evaluate and not chosen[0].checkpoint
    # two seconds of steps of 0.1 s, counted from the rank that is most ahead
    assert 103 + 20 <= chosen[0].iteration <= 103 + 25


def test_nothing_is_agreed_before_all_have_had_the_signal(ranks):
    for _ in range(3):
        assert [ranks[rank].sooner(FAR, 100) for rank in (0, 1)] == [FAR, FAR]


def test_a_stop_of_the_plan_that_comes_first_is_kept(ranks):
    near = Stop(105, True, True)
    for each in ranks:
        each.sooner(near, 100)
    assert ranks[0].sooner(near, 101) is near
    at = ranks[0].at
    assert ranks[1].sooner(Stop(at, True, True), 104) == Stop(at, True, True, leave=True)


def test_a_rank_that_is_past_it_says_so(ranks):
    for each in ranks:
        each.sooner(FAR, 100)
    at = ranks[0].sooner(FAR, 101).iteration
    with pytest.raises(FaultError, match=rf"rank 2 had passed iteration {at}, .* it was at iteration {at + 1}"):
        ranks[2].sooner(FAR, at + 1)


def test_iterations_are_found_from_steps(ranks, tmp_path):
    rare = notice(tmp_path, 1, each=4)
    assert rare._iteration(Stop(99, True, False), 10) == 43  # the 11th step is iteration 44's
    assert rare._iteration(Stop(42, True, False), 10) == 42


def test_half_a_line_counts_for_nothing(tmp_path):
    path = tmp_path / "stop"
    assert preemption.read_whole(path) is None
    path.write_text("12")
    assert preemption.read_whole(path) is None
    path.write_text("")
    preemption.write_in_place(path, "123")
    assert preemption.read_whole(path) == "123"


def test_without_a_launcher_that_asks_for_it_there_are_no_files(tmp_path, monkeypatch):
    monkeypatch.delenv("REPRO_PREEMPT", raising=False)
    monkeypatch.setattr(preemption, "SIGNALLED", True)
    assert not notice(tmp_path, 0).given and not list(tmp_path.iterdir())


def test_a_fault_after_the_signal_is_a_preemption():
    fault = FaultError("rank 1 was lost")
    assert listener.as_preemption(fault, False, ["srun: error: node1: task 1: Killed\n"]) is fault
    early = listener.as_preemption(fault, False, ["srun: error: node[0-1]: tasks 0-1: Terminated\n"])
    for judged in (early, listener.as_preemption(fault, True, [])):
        assert isinstance(judged, listener.Preempted) and judged.status == 75 and "rank 1 was lost" in str(judged)


QUICK = ["dataset.standin=always", "batch=60", "epochs=20", "eval_every=1", "checkpoint_every=100", "testbed=here"]


def evaluations(results):
    return sum(path.read_text().count('"evaluation"') for path in results.rglob("events.jsonl"))


def signalled(results, arguments):
    """Exit status and standard error of a run that leaves because its ranks get SIGTERM after their first
    evaluations."""
    command = [sys.executable, "-m", "repro", *arguments]
    variables = {"REPRO_RESULTS": str(results), "REPRO_REPORTS": str(results / "pages")}
    process = subprocess.Popen(
        command, env=os.environ | variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        wait_until(lambda: evaluations(results) > 1, "two evaluations", over=lambda: process.poll() is not None)
        for pid in live_descendants(process.pid):
            words = Path(f"/proc/{pid}/cmdline").read_text()
            if "repro.rank.main" in words and "mpirun" not in words:
                os.kill(pid, signal.SIGTERM)
        _, err = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
    return process.returncode, err


@pytest.mark.ranks
def test_a_preempted_run_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRO_PREEMPT", "0.2")
    overrides = [*QUICK, "workers=2", "strategy=pipe_sgd", "strategy.codec=quantize8"]
    arguments = ["run", "pipesgd/fig4-mnist", "--json", "--no-mlflow", *overrides]
    whole = cli.summary(cli.repro(tmp_path / "whole", *arguments))
    status, err = signalled(tmp_path / "broken", arguments)
    assert status == 75 and "preempted: checkpoint at iteration" in err and "Traceback" not in err
    (log,) = (tmp_path / "broken").rglob("events.jsonl")
    last = json.loads(log.read_text().splitlines()[-1])
    assert last["event"] == "preempted" and 0 < last["iteration"] < whole["iterations"]
    done = cli.repro(tmp_path / "broken", *arguments)
    again = cli.summary(done)
    assert f"at iteration {last['iteration']}" in done.stderr
    assert again["weights_sha256"] == whole["weights_sha256"]
    assert [point["top1"] for point in again["curve"]] == [point["top1"] for point in whole["curve"]]
    assert again["bytes_sent"] == whole["bytes_sent"] and again["wall"]["resumes"] == 1


@pytest.mark.ranks
def test_a_rank_that_waits_for_the_others_ends_at_once(tmp_path):
    """One that took the signal there would wait on for ranks that the same signal has ended."""
    with socket.create_server(("127.0.0.1", 0)) as nobody:  # where rank 0's store would answer
        nobody.settimeout(LIMIT_S)
        configured = Composer("pipesgd/fig4-mnist").compose([*QUICK, "workers=2"])
        files.write_resolved(tmp_path / "config.yaml", configured)
        meeting = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port_of(nobody))}
        variables = os.environ | meeting | {"REPRO_PREEMPT": "0.2", ends.VARIABLE: str(tmp_path)}
        program = ["-m", "repro.rank.main", "torch", config_digest(configured, {}), str(tmp_path)]
        rank = subprocess.Popen([sys.executable, *program], env=variables)
        try:
            connection, _ = nobody.accept()
            with connection:
                rank.send_signal(signal.SIGTERM)
                assert rank.wait(LIMIT_S) == -signal.SIGTERM
        finally:
            rank.kill()
            rank.wait()


def port_of(server):
    return server.getsockname()[1]
