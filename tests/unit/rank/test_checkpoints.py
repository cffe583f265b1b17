"""Checkpoints are verified before a run resumes; a damaged one is reported, and the run uses the previous one."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
from pathlib import Path

import pytest
import torch

from repro.core.errors import InputError
from repro.rank.checkpoints import Checkpoints, Damaged
from tests.support.cli import run as cli
from tests.support.full_disk import sitecustomize
from tests.support.virtual_runs import killed, run

STATE = {"weights": torch.arange(5000.0), "counts": {3: 4}, "names": ("a", None), "lr": 0.1}


class Planted:
    """Creates a folder when it is unpickled."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def describe(file: Path) -> None:
    """Write a manifest that matches a file."""
    manifest, data = file.with_suffix(".json"), file.read_bytes()
    right = json.loads(manifest.read_text()) | {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    manifest.write_text(json.dumps(right))


def truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def empty(file: Path) -> None:
    os.truncate(file, 0)


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def forget(file: Path) -> None:
    file.with_suffix(".json").unlink()


def confuse(file: Path) -> None:
    file.with_suffix(".json").write_text("[" * 100_000)


def exchange(file: Path) -> None:
    """Replace the manifest by that of another rank."""
    manifest = file.with_suffix(".json")
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"rank": 17}))


def plant(file: Path) -> None:
    file.write_bytes(pickle.dumps(Planted(file.parent / "executed"), protocol=2))
    describe(file)


def plant_as_torch_does(file: Path) -> None:
    torch.save({"part": Planted(file.parent / "executed")}, file)
    describe(file)


DAMAGE = [truncate, empty, flip, forget, confuse, exchange, plant, plant_as_torch_does]


def test_what_is_saved_is_loaded(tmp_path):
    checkpoints = Checkpoints(tmp_path, 2)
    checkpoints.save(7, STATE)
    loaded = checkpoints.load(7)
    assert torch.equal(loaded.pop("weights"), STATE["weights"])
    assert loaded == {name: value for name, value in STATE.items() if name != "weights"}
    names = {path.name for path in checkpoints.folder.iterdir()}
    assert names == {"iteration000000007.rank2.pt", "iteration000000007.rank2.json"}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_is_not_loaded(tmp_path, damage):
    checkpoints = Checkpoints(tmp_path, 0)
    checkpoints.save(7, STATE)
    damage(checkpoints.folder / "iteration000000007.rank0.pt")
    with pytest.raises(Damaged, match=r"iteration000000007\.rank0") as caught:
        checkpoints.load(7)
    assert "\n" not in str(caught.value)
    assert not (checkpoints.folder / "executed").exists()


@pytest.mark.parametrize("state", [{"x": 1}, STATE], ids=["small", "large"])
@pytest.mark.parametrize("suffix", ["pt.tmp", "json.tmp"])
def test_a_full_disk_is_one_line_and_leaves_nothing_behind(tmp_path, monkeypatch, state, suffix):
    checkpoints = Checkpoints(tmp_path, 0)
    checkpoints.save(5, STATE)
    names = {"pt.tmp": "iteration000000007.rank0.tmp", "json.tmp": "iteration000000007.rank0.json.tmp"}
    monkeypatch.setenv(sitecustomize.ROOM, names[suffix])
    with pytest.raises(InputError, match=r"cannot write .*iteration000000007\.rank0.*: disk full") as caught:
        checkpoints.save(7, state)
    assert caught.value.status == 2 and "\n" not in str(caught.value)
    assert checkpoints.available() == [5] and checkpoints.load(5)
    assert len(list(checkpoints.folder.iterdir())) == 2
    monkeypatch.delenv(sitecustomize.ROOM)
    checkpoints.save(7, state)  # there is room again
    assert checkpoints.load(7)


def test_old_generations_go_with_their_manifests(tmp_path):
    checkpoints, other = Checkpoints(tmp_path, 0), Checkpoints(tmp_path, 1)
    for iteration in range(1, 6):
        checkpoints.save(iteration, {})
    other.save(1, {})
    checkpoints.prune()
    checkpoints.discard(after=4)
    assert checkpoints.available() == [4] and other.available() == [1]
    assert len(list(checkpoints.folder.iterdir())) == 4


# --- in whole runs


def notes(capsys) -> list[str]:
    """The notes that the parent shows the user."""
    lines = [json.loads(line[1:]) for line in capsys.readouterr().out.splitlines() if line.startswith("@{")]
    return [message["line"] for message in lines if message["event"] == "note"]


def resumes(folder: Path) -> list[int]:
    lines = map(json.loads, (folder / "events.jsonl").read_text().splitlines())
    return [event["iteration"] for event in lines if event["event"] == "resume"]


def curve(summary: dict) -> list[tuple]:
    return [(point["iteration"], point["top1"], point["loss"]) for point in summary["curve"]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run(tmp_path_factory.mktemp("whole"), "strategy=pipe_sgd")


@pytest.mark.parametrize(("damage", "rank"), [(forget, 0), (plant, 0), (flip, 2)])
def test_a_run_skips_a_damaged_newest_checkpoint(tmp_path, monkeypatch, capsys, whole, damage, rank):
    left = killed(tmp_path, monkeypatch, 3 * 15, "strategy=pipe_sgd")
    newest, before = left
    damage(next(path for path in left[newest] if f"rank{rank}." in path.name))
    capsys.readouterr()
    again = run(tmp_path, "strategy=pipe_sgd")
    (line,) = notes(capsys)
    assert f"rank{rank}." in line and str(newest) in line
    assert resumes(tmp_path) == [before]
    assert again["weights_sha256"] == whole["weights_sha256"] and curve(again) == curve(whole)
    assert again["bytes_sent"] == whole["bytes_sent"]
    assert not (tmp_path / "checkpoints" / "executed").exists()


def test_without_a_usable_checkpoint_the_run_starts_from_the_beginning(tmp_path, monkeypatch, capsys, whole):
    left = killed(tmp_path, monkeypatch, 3 * 15, "strategy=pipe_sgd")
    for generation in left.values():
        empty(generation[1])
    capsys.readouterr()
    again = run(tmp_path, "strategy=pipe_sgd")
    *lines, last = notes(capsys)
    assert len(lines) == 2 and "starting from the beginning" in last
    assert again["weights_sha256"] == whole["weights_sha256"] and curve(again) == curve(whole)


def test_a_run_with_a_full_disk_resumes_when_there_is_room(tmp_path, monkeypatch, whole):
    monkeypatch.setenv(sitecustomize.ROOM, "iteration000000012.rank2.json.tmp")
    with pytest.raises(InputError, match=r"cannot write .*iteration000000012.*: disk full"):
        run(tmp_path, "strategy=pipe_sgd")
    monkeypatch.delenv(sitecustomize.ROOM)
    again = run(tmp_path, "strategy=pipe_sgd")
    assert resumes(tmp_path) == [10]
    assert again["weights_sha256"] == whole["weights_sha256"] and curve(again) == curve(whole)


@pytest.mark.ranks
def test_a_command_reports_damage_and_a_full_disk(tmp_path, monkeypatch):
    overrides = ("strategy=pipe_sgd", "testbed=virtual")
    assert cli(tmp_path / "killed", *overrides, fault="kill:0:18").returncode == 1
    *_, newest = sorted((tmp_path / "killed").rglob("*.rank1.pt"))
    flip(newest)
    monkeypatch.setenv(sitecustomize.ROOM, newest.with_suffix(".tmp").name)
    full = cli(tmp_path / "killed", *overrides)
    assert f"{newest}: was changed after it was written" in full.stderr and "at iteration 10" in full.stderr
    assert full.returncode == 2 and f"cannot write {newest}: disk full" in full.stderr.splitlines()[-1]
    assert "Traceback" not in full.stderr
    monkeypatch.delenv(sitecustomize.ROOM)
    again = cli(tmp_path / "killed", *overrides)
    assert again.returncode == 0 and "at iteration 10" in again.stderr


def test_files_of_two_attempts_are_never_combined(tmp_path, monkeypatch):
    """Rank 2's newest file is damaged; the second attempt ends before rank 0 replaces its own."""
    left = killed(tmp_path, monkeypatch, 3 * 15, "strategy=pipe_sgd")
    newest, before = left
    empty(left[newest][0])
    killed(tmp_path, monkeypatch, 2, "strategy=pipe_sgd")
    assert {path.name[:18] for path in (tmp_path / "checkpoints").glob("*.pt")} == {f"iteration{before:09d}"}
