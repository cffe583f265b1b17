"""How commands and ranks end: signals, errors in own code, ranks that outlive their command, ranks lost at the end."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from repro.cli import main as cli
from repro.core import command_guard, locks
from repro.core.paths import PROJECT
from repro.experiment.expand import expand_runs
from repro.experiment.identify import identify_runs
from repro.experiment.run import Run
from repro.launch import local, supervise
from repro.launch.runner import run_unfinished
from tests.faults import processes
from tests.support.cli import forked_command
from tests.support.records import summaries
from tests.support.waiting import LIMIT_S, wait_until

pytestmark = pytest.mark.ranks
OVERRIDES = [
    "dataset.standin=always", "workers=2", "batch=40", "epochs=0.857", "checkpoint_every=0.143", "strategy=dsync",
]  # fmt: skip
LONG = ["epochs=200", "eval_every=1"]


FRESH = [sys.executable, "-m", "repro"]


def start(program: list[str], results: Path, *overrides: str, fault: str = "") -> subprocess.Popen:
    """The command, its standard error in a file beside the results."""
    own = {"REPRO_RESULTS": str(results), "REPRO_REPORTS": str(results / "pages"), "REPRO_FAULT": fault}
    own["PYTHONPATH"] = str(PROJECT)  # a forked process has no current folder in it
    command = [*program, "run", "pipesgd/fig4-mnist", "--json", "--no-mlflow", *OVERRIDES]
    results.mkdir(exist_ok=True)
    with open(results / "err", "a") as err:
        return subprocess.Popen([*command, *overrides], env=os.environ | own, stdout=subprocess.PIPE, stderr=err)


def ranks_of(results: Path, states: str = "RSDT") -> list[int]:
    """The ranks that run below a results folder, whoever started them, and whose state is one of these."""
    pids = []
    for pid in processes.ranks(results).values():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in states:
                pids.append(pid)
    return pids


def kill_guard(pid: int) -> str:
    """Kill the guard of the command to which a process belongs; returns the command's temporary folder."""
    environment = dict(line.partition("=")[::2] for line in Path(f"/proc/{pid}/environ").read_text().split("\0"))
    folder = environment[command_guard.VARIABLE]
    for words in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if words.read_text().split("\0")[-2:-1] == [folder]:
                os.kill(int(words.parent.name), signal.SIGKILL)
    return folder


@pytest.mark.parametrize(
    ("program", "sign", "status", "testbed"),
    [
        (lambda: FRESH, signal.SIGTERM, 143, ["testbed=here"]),
        (lambda: forked_command("repro"), signal.SIGHUP, 129, ["testbed=here", "testbed.launcher=torchrun"]),
        (lambda: forked_command("repro"), signal.SIGTERM, 143, ["testbed=virtual"]),
    ],
    ids=["mpirun", "torchrun", "virtual"],
)
def test_a_signal_ends_the_command_with_a_line_and_no_rank_outlives_it(tmp_path, program, sign, status, testbed):
    command = start(program(), tmp_path, *testbed, *LONG)
    try:
        wait_until(lambda: any('"evaluation"' in log.read_text() for log in tmp_path.rglob("events.jsonl")), "a score")
        command.send_signal(sign)
        assert command.wait(LIMIT_S) == status
        assert not ranks_of(tmp_path)
    finally:
        command.kill()
    stderr = (tmp_path / "err").read_text()
    assert stderr.splitlines()[-1] == f"repro: terminated by {sign.name}; the same command resumes"
    assert "Traceback" not in stderr and "failed" not in stderr
    (log,) = tmp_path.rglob("events.jsonl")
    assert '"failed"' not in log.read_text()


def test_a_command_waits_until_the_ranks_of_a_killed_one_are_gone(tmp_path):
    first = start(forked_command("repro"), tmp_path, "testbed=here", "--fresh-ranks", fault="stop:1:17")
    try:
        wait_until(lambda: ranks_of(tmp_path, "T"), "a rank is stopped")
        (launcher,) = {int(Path(f"/proc/{pid}/stat").read_text().split()[3]) for pid in ranks_of(tmp_path)}
        os.kill(launcher, signal.SIGSTOP)  # so that it does not end its ranks when its parent ends
        folder = kill_guard(ranks_of(tmp_path)[0])  # so that it does not either
        first.kill()
        first.wait()
        second = start(forked_command("repro"), tmp_path, "testbed=here")
        message = "ranks of an earlier command are still ending"
        wait_until(lambda: message in (tmp_path / "err").read_text(), message)
        assert second.poll() is None and len(ranks_of(tmp_path)) == 2
        os.kill(launcher, signal.SIGKILL)  # its ranks stay
        out, _ = second.communicate(timeout=LIMIT_S)
    finally:
        first.kill()
        for pid in ranks_of(tmp_path):
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(folder)
    stderr = (tmp_path / "err").read_text()
    assert second.returncode == 0, stderr
    assert summaries(out)[0]["iterations"] == 30 and "resuming" in stderr


@pytest.mark.usefixtures("pooled")
def test_a_rank_lost_after_the_summary_does_no_harm(tmp_path, monkeypatch, capsys):
    def command(ranks, program, python):
        rank = [python, "-m", "mpi4py", "-m"]
        usual, late = [*rank, *program[1:]], [*rank, "tests.support.lost_late", *program[-3:]]
        return [local.find_mpirun(), "-n", "1", *usual, ":", "-n", str(ranks - 1), *late]

    monkeypatch.setattr(local, "mpirun_command", command)
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    own = expand_runs("pipesgd/fig4-mnist", [*OVERRIDES, "testbed=here"])
    identify_runs(own)
    (record,), fault = run_unfinished(own, track=False)
    assert fault is None and record.result.iterations == 30
    assert "rank 1 was lost: ended by SIGKILL; its result was complete by then" in capsys.readouterr().err
    assert not (own[0].folder / "checkpoints").exists()


def test_checkpoints_left_by_a_command_that_was_killed_after_the_summary_are_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path))
    own = expand_runs("pipesgd/fig4-mnist", [*OVERRIDES, "testbed=here", "seeds=2"])
    identify_runs(own)
    monkeypatch.setattr(Run, "finished", True)
    for run in own:
        (run.folder / "checkpoints").mkdir(parents=True)
        (run.folder / "checkpoints" / "iteration000000010.rank0.pt").write_bytes(b"state")
    with locks.take_lock(own[1].folder / locks.RUN):  # another command works on it
        _, fault = run_unfinished(own, track=False)
    assert fault is None
    assert [(run.folder / "checkpoints").exists() for run in own] == [False, True]


OWN = """
from repro.strategies.shared.data_parallel import GradientStrategy

class Own(GradientStrategy):
    {name} = "own"

    def setup(self, worker):
        {setup}

    def exchange(self, gradient):
        {exchange}
        return gradient
"""
RIGHT = "super().setup(worker)"


@pytest.mark.usefixtures("pooled")
@pytest.mark.parametrize(
    ("setup", "exchange", "words"),
    [
        (RIGHT, "unnamed", ["class Own has no attribute 'name'"]),
        (RIGHT, "1 / (3 - self.iteration)", [".py:11: ZeroDivisionError", "fails again"]),
        (RIGHT, "return None", [".py:10: exchange of strategy own must return", "NoneType"]),
        (RIGHT, "self.worker.fabric.recv(gradient, 0)", ["deadlock", "fails again"]),
        ("pass", "pass", ["Own.setup does not call super().setup(worker), which sets self.worker"]),
        ("self.worker.rank", "pass", ["Own.setup does not call super().setup(worker) before it uses self.worker"]),
    ],
)
def test_an_error_in_own_code_names_it_and_promises_no_resume(tmp_path, monkeypatch, capfd, setup, exchange, words):
    file = tmp_path / f"{tmp_path.name}.py"  # a module name of its own: this process may import it
    file.write_text(OWN.format(name="no" if exchange == "unnamed" else "name", setup=setup, exchange=exchange))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "results"))
    command = ["run", "pipesgd/fig4-mnist", "--no-mlflow", "--no-report", *OVERRIDES]
    assert cli.main([*command, f"strategy=./{file.name}:Own", "testbed=virtual"]) in (1, 2)
    last = capfd.readouterr().err.splitlines()[-1]
    assert all(word in last for word in words) and "resumes" not in last and "base.py" not in last


def test_stop_kills_processes_that_ignore_sigterm(monkeypatch):
    monkeypatch.setattr(supervise, "GRACE_S", 0.5)
    deaf = "trap '' TERM; setsid sh -c \"trap '' TERM; echo ready; sleep 100; sleep 100\" & wait; sleep 100"
    ranks = supervise.Ranks(["sh", "-c", deaf], dict(os.environ), None)
    assert ranks.process.stdout.readline() == "ready\n"
    family = supervise.live_descendants(ranks.process.pid)
    assert len(family) >= 2
    ranks.stop()
    assert not supervise.live_descendants(*family)


def test_torchrun_leaves_no_folder_behind(tmp_path):
    (tmp_path / "script.py").write_text("")
    command = [sys.executable, "-m", "repro.launch.torchrun", "--nproc-per-node", "1", str(tmp_path / "script.py")]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    subprocess.run(command, env=os.environ | {"TMPDIR": str(scratch)}, check=True, timeout=LIMIT_S)
    assert not list(scratch.iterdir())
