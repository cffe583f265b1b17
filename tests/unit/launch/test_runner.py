"""How the runs of a command are carried out: what one that fails does to the others, and where a simulation runs."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace
from unittest import mock

import pytest

from repro.cli import experiments
from repro.cli.main import main
from repro.core.errors import Diverged, FaultError, InputError, NotHere, TooBusy
from repro.core.paths import EVENTS_FILE
from repro.experiment.expand import expand_runs
from repro.launch import run as running
from repro.launch import runner
from repro.launch.listener import Preempted
from repro.launch.plan import Plan
from repro.launch.pool import Pools
from repro.records import store
from repro.records.events import EventLog
from tests.support.cli import EXPERIMENT
from tests.support.records import finished

FAILS = {1: InputError("a library that cannot do that"), 2: FaultError("rank 1 was lost")}


@pytest.fixture
def planned(tmp_path, monkeypatch):
    """Four measured runs, by their seeds, of which `carried` notes those that were begun."""
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path))
    found = expand_runs(EXPERIMENT, ["strategy=dsync", "testbed=here", "dataset.standin=always", "seeds=4"])
    for run in found:
        run.key, run.hardware = str(run.seed), {"gpu": None}
    return found


@pytest.mark.parametrize("fails", [[1], [2], [1, 2]])
def test_a_run_that_fails_does_not_stop_the_others_and_the_command_says_so(planned, monkeypatch, fails, capsys):
    begun = []

    def carry_out(run, *_):
        begun.append(run.seed)
        if run.seed in fails:
            raise FAILS[run.seed]

    monkeypatch.setattr(runner, "run_one", carry_out)
    _, failed = runner.run_unfinished(planned, track=False)
    assert begun == [0, 1, 2, 3]
    first = FAILS[fails[0]]
    assert type(failed) is type(first) and failed.status == first.status and str(first) in str(failed)
    assert all(str(FAILS[seed]) in capsys.readouterr().err for seed in fails[:1])


@pytest.mark.parametrize(("late", "left_out"), [({1: 1}, []), ({1: 9, 2: 1, 3: 9}, [1, 3])], ids=["once", "always"])
def test_a_run_that_came_late_is_tried_once_more_at_the_end_and_left_out(planned, monkeypatch, capsys, late, left_out):
    """late: seed -> how many times the machine is too busy for the run."""
    begun = []

    def carry_out(run, *_):
        begun.append(run.seed)
        if begun.count(run.seed) <= late.get(run.seed, 0):
            raise TooBusy("sleeps were 2 s too long")
        run.folder.mkdir(parents=True)
        store.write(run.folder, finished(run, seed=run.seed))

    monkeypatch.setattr(runner, "run_one", carry_out)
    records, fault = runner.run_unfinished(planned, track=False)
    assert begun == [0, 1, 2, 3, *late]
    assert [record.identity.seed for record in records] == [seed for seed in range(4) if seed not in left_out]
    assert isinstance(fault, TooBusy) is bool(left_out)

    monkeypatch.setattr(running, "plan_runs", lambda *_, **__: Plan(planned, []))
    monkeypatch.setattr(running, "run_unfinished", lambda *_: (records, fault))
    capsys.readouterr()
    command = ["run", EXPERIMENT, "--no-report", "--no-mlflow", "--json"]
    assert main(command) == 0
    assert ("left out" in capsys.readouterr().err) is bool(left_out)
    assert main([*command, "--strict"]) == (FaultError.status if left_out else 0)


def test_another_failure_counts_before_a_busy_machine(planned, monkeypatch):
    faults = [TooBusy("sleeps were 2 s too long"), FaultError("rank 1 was lost")]
    monkeypatch.setattr(runner, "run_one", mock.Mock(side_effect=[*faults, None, None, faults[0]]))
    _, fault = runner.run_unfinished(planned, track=False)
    assert "rank 1 was lost" in str(fault)


def test_a_run_that_diverged_after_a_warning_names_it_in_place_of_a_lower_rate(planned, monkeypatch):
    planned[0].folder.mkdir(parents=True)
    log = EventLog(planned[0].folder / EVENTS_FILE)
    log.append("warning", line="a sum was not divided")
    log.flush()
    monkeypatch.setattr(runner, "run_one", mock.Mock(side_effect=Diverged("a loss is not finite")))
    for runs, warned in ((planned[:1], True), (planned[1:2], False)):
        _, fault = runner.run_unfinished(runs, track=False)
        assert ("a sum was not divided" in str(fault)) is warned is not (Diverged.ADVICE in str(fault))


def test_what_came_late_is_not_continued(planned, monkeypatch):
    """A checkpoint of it would carry its times on, while its sleeps are counted anew."""
    ranks = mock.Mock()
    ranks.return_value = mock.Mock(lines=[], **{"follow.side_effect": TooBusy("sleeps were 2 s too long")})
    monkeypatch.setattr(runner, "Ranks", ranks)
    run = planned[0]
    (run.folder / "checkpoints").mkdir(parents=True)
    with pytest.raises(TooBusy):
        runner.run_one(run, False, mock.Mock(), pools=Pools(fresh=True))
    assert not (run.folder / "checkpoints").exists()


def test_an_input_error_of_the_only_run_is_raised(planned, monkeypatch):
    def carry_out(run, *_):
        raise FAILS[1]

    monkeypatch.setattr(runner, "run_one", carry_out)
    with pytest.raises(InputError, match="cannot do that"):
        runner.run_unfinished(planned[:1], track=False)


@pytest.mark.parametrize(("gpu", "pinned"), [(None, True), ("H100 x 1", False)])
def test_a_simulation_that_computes_on_a_gpu_is_kept_to_no_core(planned, monkeypatch, gpu, pinned):
    """Its backward pass runs on a thread of autograd's own, beside the one that simulates."""

    def start(command, environment, *_, **__):
        started.append(environment)
        raise FaultError("enough")

    started: list[dict] = []
    monkeypatch.setattr(runner, "Ranks", start)
    [run, *_] = expand_runs(EXPERIMENT, ["strategy=dsync", "testbed=virtual", "dataset.standin=always"])
    run.key, run.hardware = "key", {"gpu": gpu}
    with pytest.raises(FaultError, match="enough"):
        runner.run_one(run, False, SimpleNamespace(starting=print, note=print), cores=[0], pools=Pools(fresh=True))
    assert ("REPRO_CORES" in started[0]) is pinned


def test_what_this_machine_lacks_is_no_error_where_other_runs_were_done(planned, monkeypatch, capsys):
    found = {"runs": planned, "left_out": [[EXPERIMENT, True, "Horovod is not installed"]]}
    monkeypatch.setattr(running, "plan_runs", lambda *_, **__: Plan(**found))
    monkeypatch.setattr(running, "run_unfinished", lambda *_: ([], None))
    args = SimpleNamespace(draws=0,
        experiment=EXPERIMENT, overrides=[], scale="quick", inputs=False, force=False, unpublished=False, dry_run=False,
        fresh_ranks=True, no_mlflow=True, no_report=True, json=True,
    )  # fmt: skip
    experiments.cmd_run(args)
    assert "left out some of" in capsys.readouterr().err
    found["runs"] = []
    with pytest.raises(NotHere, match="Horovod is not installed"):
        experiments.cmd_run(args)


def test_simulations_wait_for_what_is_measured_but_on_a_gpu_have_their_turn(planned, monkeypatch):
    begun = []
    monkeypatch.setattr(runner, "run_one", lambda run, *_: begun.append((run.seed, run.config.testbed.name)))
    simulated = expand_runs(EXPERIMENT, ["strategy=dsync", "testbed=virtual", "dataset.standin=always"])
    for gpu, order in ((None, ["here"] * 4 + ["virtual"]), ("H100 x 1", ["here", "virtual", "here", "here", "here"])):
        begun.clear()
        for run in simulated:
            run.key, run.hardware = "simulated", {"gpu": gpu}
        runner.run_unfinished([planned[0], *simulated, *planned[1:]], track=False)
        assert [testbed for _, testbed in begun] == order


@pytest.mark.parametrize("count", [1, 2, 5])
def test_simulations_at_the_same_time_share_all_cores(count, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    at_once, shares = threading.Barrier(min(count, 3)), []

    def carry_out(run, cores):
        shares.append(tuple(cores))
        if len(shares) <= at_once.parties:
            at_once.wait(60)

    simulated = expand_runs(EXPERIMENT, ["strategy=dsync", "testbed=virtual", "dataset.standin=always"]) * count
    for run in simulated:
        run.key, run.hardware = "simulated", {}
    assert not runner.run_all(simulated, carry_out, mock.Mock())
    together = shares[: at_once.parties]
    assert sorted(core for share in together for core in share) == [0, 1, 2]
    assert len(shares) == count and set(shares) == set(together)


def test_the_network_is_given_back_before_simulations(planned, monkeypatch):
    """They may take hours, in which no other command could use one."""
    begun = []
    monkeypatch.setattr(runner, "run_one", lambda run, *_: begun.append(run.config.testbed.name))
    monkeypatch.setattr(runner.network, "give_back", lambda: begun.append("given back"))
    simulated = expand_runs(EXPERIMENT, ["strategy=dsync", "testbed=virtual", "dataset.standin=always"])
    for run in simulated:
        run.key, run.hardware = "simulated", {"gpu": None}
    runner.run_unfinished([*simulated, planned[0]], track=False)
    assert begun[:3] == ["here", "given back", "virtual"]


def test_whoever_asks_a_run_to_leave_gets_the_place(planned):
    """The next run of the job was started in the seconds before the end."""
    begun = []

    def leave(run, core):
        begun.append(run.seed)
        raise Preempted("asked to leave")

    faults = runner.run_all(planned, leave, mock.Mock())
    assert begun == [0] and [run for run, _ in faults] == planned[:1]


def test_ranks_whose_code_exits_end_the_run_as_failed_and_its_mirror(planned, monkeypatch):
    monkeypatch.setattr(runner, "Ranks", mock.Mock())  # end at once, with status 0
    monkeypatch.setattr(runner, "Listener", lambda *_: SimpleNamespace(left_at=None, signalled=False))
    mirrors = mock.Mock()
    [run, *_] = expand_runs(EXPERIMENT, ["strategy=dsync", "testbed=virtual", "dataset.standin=always"])
    run.key = "key"
    monkeypatch.setattr(runner, "as_preemption", lambda error, *_: error)
    with pytest.raises(FaultError, match="without a summary"):
        runner.run_one(run, False, mock.Mock(), mirrors, pools=Pools(fresh=True))
    mirrors.end.assert_called_once_with(run.folder)
    assert "without a summary" in (run.folder / "events.jsonl").read_text()
