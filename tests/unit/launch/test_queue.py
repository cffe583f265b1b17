"""The queue of a GPU: its entries, its time, and what is left when everything is killed."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from repro.answers.claims import claims
from repro.cli import queue as command
from repro.cli.main import main
from repro.core.errors import InputError
from repro.core.paths import PROJECT, REPORTS
from repro.experiment.expand import expand_runs
from repro.launch import queue
from repro.records import source
from tests.support.cli import repro
from tests.support.waiting import LIMIT_S, wait_until

ENTRY = {"name": "mnist", "run": "pipesgd/fig4-mnist", "budget": 1, "minutes": 1, "source": "a guess", "decides": []}


def written(path: Path, *entries: dict) -> Path:
    path.write_text(json.dumps(list(entries)))  # JSON is YAML
    return path


@pytest.mark.parametrize(("changes", "words"), [
    ({"run": "pipesgd/fig5"}, "unknown experiment 'pipesgd/fig5'"),
    ({"run": "pipesgd/fig4-mnist --force"}, "'--force': must be EXPERIMENT"),
    ({"run": "pipesgd/fig4-mnist --scale paper epochs"}, "'epochs': must be EXPERIMENT"),
    ({"budget": 0}, "budget=0"), ({"minutes": "ten"}, "minutes="), ({"decides": ["accuracy"]}, "PAPER/CLAIM"),
    ({"epochs": 3}, "epochs"), ({"source": None}, "source"),
    ({"at_once": True, "minutes": 20, "budget": 9}, "minutes=20: runs at once, but its budget is 9 minutes"),
])  # fmt: skip
def test_a_bad_entry_is_one_line(tmp_path, capsys, changes, words):
    path = written(tmp_path / "queue.yaml", ENTRY, ENTRY | {"name": "bad"} | changes)
    assert main(["queue", "--file", str(path)]) == 2
    error = capsys.readouterr().err
    assert "queue.yaml: entry 2: " in error and words in error and error.count("\n") == 1


def test_a_queue_is_a_list_of_entries_with_different_names(tmp_path):
    for content, words in (([], "must be a list"), ([ENTRY, ENTRY], "entry 'mnist' stands there twice")):
        with pytest.raises(InputError, match=words):
            queue.read_queue(written(tmp_path / "queue.yaml", *content))


def test_the_committed_entries_have_runs_and_decide_claims_that_there_are():
    for entry in queue.read_queue():
        experiment, *others = entry.run.split()
        scale = others.pop(others.index("--scale") + 1) if "--scale" in others else None
        overrides = [word for word in others if "=" in word]
        if "/" in experiment:
            assert expand_runs(experiment, ["device=cpu", *overrides], scale, lacking=[]), entry.name
        for paper, claim in (name.split("/") for name in entry.decides):
            assert claim in {each.id for each in claims.read_claims(REPORTS / paper / "claims.yaml").claims}, entry.name


def test_an_entry_is_ended_in_time_and_packed_on_the_way(monkeypatch):
    packed, slow = [], [sys.executable, "-c", "import time; time.sleep(600)"]
    monkeypatch.setattr(queue, "PACK_EVERY_S", 0.1)
    start = subprocess.Popen
    monkeypatch.setattr(queue.subprocess, "Popen", lambda command, **how: start(slow, **how))
    entry = queue.Entry(**ENTRY)
    before = {child.pid for child in psutil.Process().children()}
    assert queue.carry_out(entry, [], time.monotonic() + 1, lambda: packed.append(1)) is None
    assert packed and {child.pid for child in psutil.Process().children()} <= before


def test_a_failure_or_the_end_of_the_time_does_not_lose_the_rest(tmp_path, monkeypatch, capsys):
    packed, statuses = [], iter([1, 0])
    monkeypatch.setattr(command, "pack_workspace", packed.append)
    monkeypatch.setattr(queue, "carry_out", lambda *_: next(statuses))
    entries = [queue.Entry(**ENTRY | {"name": name}) for name in ("first", "second")]
    assert command.work_through(entries, [], time.monotonic() + 60, tmp_path) == ["first"] and len(packed) == 2
    assert command.work_through(entries, [], time.monotonic() + 1, tmp_path) == []
    large = queue.Entry(**ENTRY | {"minutes": 50, "budget": 50, "at_once": True})
    assert command.work_through([large], [], time.monotonic() + 60, tmp_path) == []  # not started
    assert "no time for entries 1 to 2" in capsys.readouterr().out


def test_code_that_is_not_committed_is_refused_at_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("repro.records.provenance.provenance", lambda: {"dirty": True})
    assert main(["queue", "--device", "cpu", "--file", str(written(tmp_path / "queue.yaml", ENTRY))]) == 2
    assert "has uncommitted changes" in capsys.readouterr().err


# --- killed, moved, killed, moved

SMALL = (
    "pipesgd/fig4-mnist testbed=virtual dataset.standin=always strategy=gtopk strategy.density=0.05 workers=3 batch=60"
)
SMALL += " epochs=12 eval_every=3 checkpoint_every=0.5 seeds=1"


class Checkout:
    """A copy of this checkout, as a machine without git has it, with a queue of one small run."""

    def __init__(self, root: Path):
        self.root = root
        for name in ("repro", "strategies", "reports", "paper_configs", "pyproject.toml"):
            if (PROJECT / name).is_dir():
                ignored = shutil.ignore_patterns("*.pyc.*", "out")  # with compiled modules: many processes import them
                shutil.copytree(PROJECT / name, root / name, symlinks=True, ignore=ignored)
            else:
                shutil.copy(PROJECT / name, root / name)
        paths = [path for path in root.rglob("*") if path.is_symlink() or (path.is_file() and path.suffix != ".pyc")]
        files = {path.relative_to(root).as_posix(): source._digest(path, 40) for path in paths}
        (root / source.NAME).write_text(json.dumps({"commit": "c0ffee", "files": files}))
        self.queue = written(root.parent / "queue.yaml", ENTRY | {"run": SMALL, "budget": 60})
        self.environment = os.environ | {"PYTHONPATH": str(root), "XDG_CACHE_HOME": str(root.parent / "cache")}
        self.environment.pop("REPRO_RESULTS", None)

    def start(self, *arguments: str) -> subprocess.Popen:
        command = [sys.executable, "-m", "repro", *arguments]
        return subprocess.Popen(command, cwd=self.root, env=self.environment)

    def repro(self, *arguments: str) -> None:
        assert self.start(*arguments).wait(LIMIT_S) == 0

    def work(self) -> None:
        self.repro("queue", "--file", str(self.queue), "--device", "cpu")

    def work_until_killed(self, moment: float) -> None:
        """Kill every process with SIGKILL, `moment` seconds after the first checkpoint of this attempt."""
        process = self.start("queue", "--file", str(self.queue), "--device", "cpu")
        before = {path.name for path in self.root.glob("results/*/*/*/checkpoints/*.json")}

        def checkpoints() -> bool:
            found = {path.name for path in self.root.glob("results/*/*/*/checkpoints/*rank*.json")}
            return len(found - before) >= 3

        wait_until(checkpoints, "a checkpoint", over=lambda: process.poll() is not None)
        time.sleep(moment)
        everything = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        for each in everything:
            each.kill()
        process.wait()

    def hand_over(self, other: Checkout) -> None:
        self.repro("contribute", "all", "moved.zip")
        other.repro("publish", "pipesgd", "--from", str(self.root / "moved.zip"))

    def summary(self) -> dict:
        return summary(self.root / "results")


def summary(results: Path) -> dict:
    (path,) = results.glob("*/*/*/summary.json")
    return json.loads(path.read_text())


@pytest.mark.ranks
def test_a_queue_killed_twice_and_moved_twice_ends_in_the_same_weights(tmp_path):
    seed = random.randrange(10**6)
    print("seed of the moments:", seed)
    moments = random.Random(seed)
    first, second, third = (Checkout(tmp_path / name) for name in ("first", "second", "third"))
    for one, next_one in ((first, second), (second, third)):
        one.work_until_killed(moments.uniform(0, 0.5))
        one.hand_over(next_one)
    third.work()
    whole = repro(tmp_path / "whole", "run", *SMALL.split(), "device=cpu", "--no-mlflow", "--no-report")
    assert whole.returncode == 0, whole.stderr
    result, undisturbed = third.summary(), summary(tmp_path / "whole")
    assert result["result"]["weights_sha256"] == undisturbed["result"]["weights_sha256"]
    assert result["wall"]["resumes"] == 2 and undisturbed["wall"]["resumes"] == 0
    scores = [
        [(p["iteration"], p["top1"], p["loss"]) for p in each["result"]["curve"]] for each in (result, undisturbed)
    ]
    assert scores[0] == scores[1]
    with pytest.raises(ValueError):
        second.summary()
    assert (third.root / "results" / "packed" / command.ARCHIVE).is_file()
