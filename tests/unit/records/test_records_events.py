"""The event log survives crashes; provenance suffices to repeat a run."""

from __future__ import annotations

import errno
import getpass
import json
import math
import os
import re
import shutil
import socket
import subprocess
import sys
from datetime import datetime
from importlib import metadata
from pathlib import Path

import numpy
import pytest

from repro.core.errors import InputError
from repro.records import archive, source
from repro.records import provenance as module
from repro.records.events import EventLog, cut_back, line_of, read_events
from repro.records.provenance import command, hardware, provenance
from tests.reports.data.summaries import make
from tests.support.records import record_of

# --- the event log survives crashes, full disks and resumes


def log(*events):
    """The lines of a log."""
    return "".join(line_of(**event) + "\n" for event in events).encode()


def write(path, *events):
    path.write_bytes(log(*events))


A, C = (log({"event": name}) for name in "ac")


def test_append_is_buffered_until_flush(tmp_path):
    log = EventLog(tmp_path / "deep" / "events.jsonl")
    log.append("run_start", key="k")
    assert read_events(log.path) == []
    log.flush()
    assert read_events(log.path) == [{"event": "run_start", "key": "k"}]
    log.append("run_end")
    log.close()
    assert [event["event"] for event in read_events(log.path)] == ["run_start", "run_end"]


def test_fields_are_copied_and_made_plain(tmp_path):
    phases = {"forward": 1.0}
    with EventLog(tmp_path / "e") as log:
        log.append("steps", phases=phases, loss=math.inf, n=numpy.int64(3), x=numpy.float32("nan"), pair=(1, math.nan))
        phases["forward"] = 2.0
    [event] = read_events(log.path)
    assert event == {"event": "steps", "phases": {"forward": 1.0}, "loss": None, "n": 3, "x": None, "pair": [1, None]}


@pytest.mark.parametrize(("before", "torn"), [("a", '{"event":"b","x":"' + "y" * 200_000), ("", '{"ev')])
def test_an_incomplete_last_line_is_ignored_and_removed_on_opening(tmp_path, before, torn):
    path = tmp_path / "e"
    path.write_bytes((A if before else b"") + torn.encode())
    assert [event["event"] for event in read_events(path)] == list(before)
    with EventLog(path) as log:
        log.append("c")
    assert [event["event"] for event in read_events(path)] == [*before, "c"]


@pytest.mark.parametrize(
    "bad",
    ['{"event": "b"', '{"event": "b"}', "[]", "[" * 100_000, "\0" * 9, '{"no": 1}', "", '{"event": "resume"}', "\xff"],
)
def test_a_corrupt_line_is_named_and_can_be_cut_off(tmp_path, bad):
    path = tmp_path / "e"
    path.write_bytes(A + bad.encode("latin-1") + b"\n" + C)
    with pytest.raises(InputError, match=r"e:2: not an event") as caught:
        read_events(path)
    cut = cut_back(path)
    assert cut.startswith(f"{path}:2: not an event") and "\n" not in str(caught.value) + cut
    assert path.read_bytes() == A and cut_back(path) is None and path.read_bytes() == A


def test_every_changed_bit_is_detected(tmp_path):
    path = tmp_path / "e"
    with EventLog(path) as log:
        for n in (8, 9):
            log.append("steps", iteration=n, n=n, loss=0.25, step_s=[1.5])
    first = path.read_bytes().splitlines(keepends=True)[0]
    for place in range(8 * (len(first) - 1)):
        bad = bytearray(path.read_bytes())
        bad[place // 8] ^= 1 << place % 8
        changed = tmp_path / "changed"
        changed.write_bytes(bad)
        with pytest.raises(InputError):
            read_events(changed)


def test_a_resume_supersedes_the_events_after_its_checkpoint(tmp_path):
    path = tmp_path / "e"
    write(
        path,
        {"event": "run_start"},
        {"event": "steps", "iteration": 10, "try": 1},
        {"event": "checkpoint", "iteration": 10},
        {"event": "steps", "iteration": 20, "try": 1},
        {"event": "evaluation", "iteration": 20, "try": 1},
        {"event": "failed", "reason": "killed"},
        {"event": "resume", "iteration": 10},
        {"event": "steps", "iteration": 20, "try": 2},
        {"event": "resume", "iteration": 10},
        {"event": "steps", "iteration": 20, "try": 3},
    )
    events = read_events(path)
    assert [event["try"] for event in events if event["event"] == "steps"] == [1, 3]
    names = ["run_start", "steps", "checkpoint", "failed", "resume", "resume", "steps"]
    assert [event["event"] for event in events] == names
    resumes = [{"event": "resume", "iteration": 5}, {"event": "resume", "iteration": 0}]
    write(path, {"event": "steps", "iteration": 5}, *resumes)
    assert read_events(path) == resumes  # their number is that of the restarts


def test_an_unwritable_place_is_one_line_with_status_2(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write .*events\.jsonl") as caught:
        EventLog(tmp_path / "file" / "events.jsonl")
    assert caught.value.status == 2
    with pytest.raises(InputError, match="cannot read"):
        read_events(tmp_path)


def test_a_full_disk_leaves_no_half_line(tmp_path, monkeypatch):
    log = EventLog(tmp_path / "e")
    log.append("first")
    log.flush()
    before, real = log.path.read_bytes(), os.write

    def full(descriptor, data):
        if len(data) > 10:
            return real(descriptor, data[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    log.append("x" * 7)
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(InputError, match="disk full"):
        log.flush()
    monkeypatch.undo()
    assert log.path.read_bytes() == before


# --- provenance suffices to repeat a run, and names neither user nor place


def test_provenance_has_its_keys_and_imports_no_mlflow():
    code = (
        "import sys, json; from repro.records.provenance import provenance; p = provenance();"
        "assert 'mlflow' not in sys.modules and 'torch' not in sys.modules; print(json.dumps(p))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert set(found) == {"commit", "dirty", "versions", "started_at", "command"}
    assert set(found["versions"]) == {"python", "torch", "numpy", "mpi4py", "mlflow", "mpi"}
    assert found["versions"]["mlflow"] == metadata.version("mlflow")
    assert found["commit"] is None or re.fullmatch("[0-9a-f]{40}", found["commit"])
    assert datetime.fromisoformat(found["started_at"]).utcoffset().total_seconds() == 0


def test_host_user_and_folder_are_not_recorded():
    text = json.dumps([provenance(), hardware("loopback")])
    secrets = [socket.gethostname(), str(Path.home()), os.getcwd()]
    if getpass.getuser() != "root":
        secrets.append(getpass.getuser())
    assert not [secret for secret in secrets if len(secret) > 2 and secret in text]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A copy of a small project without its git, with the manifest of its commit."""
    folder = tmp_path_factory.mktemp("bundle")
    own, there = folder / "own", folder / "there"
    for path, text in {"repro/a.py": "a", "repro/b.py": "b", "results/r": "1", "setup/run": "x", "README": "r"}.items():
        (own / path).parent.mkdir(parents=True, exist_ok=True)
        (own / path).write_text(text)
    (own / "repro" / "link").symlink_to("../setup")
    git = ["git", "-C", str(own), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
        subprocess.run([*git, *words], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    (own / "repro" / "a.py").write_text("not committed")  # the manifest is the commit's
    shutil.copytree(own, there, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    (there / source.NAME).write_text(source.manifest(own))
    (there / "repro" / "a.py").write_text("a")
    return there, commit


@pytest.fixture
def copied(bundle, tmp_path):
    """A copy of that copy, which a test may change."""
    original, commit = bundle
    return shutil.copytree(original, tmp_path / "there", symlinks=True), commit


def test_a_copy_without_git_has_its_commit_from_the_manifest(copied, monkeypatch):
    there, commit = copied
    (there / "repro" / "__pycache__").mkdir()
    (there / "repro" / "__pycache__" / "a.pyc").touch()
    (there / "results" / "r").write_text("runs write here")
    (there / "at the top").touch()  # the bundle, an environment
    assert source.standing(there) == (commit, False)
    monkeypatch.setattr(module, "_by_git", lambda: None)
    monkeypatch.setattr(module.source, "standing", lambda: (commit, False))
    found = provenance()
    assert (found["commit"], found["dirty"]) == (commit, False)
    assert archive.unclean([record_of(make("D-Sync") | {"provenance": found})]) == []


def test_a_matching_manifest_takes_precedence_over_git(copied, monkeypatch):
    there, commit = copied
    monkeypatch.setattr(module, "_by_git", lambda: ("older", True))  # a copy that brought some repository along
    of_the_copy = source.standing
    monkeypatch.setattr(module.source, "standing", lambda: of_the_copy(there))
    assert (provenance()["commit"], provenance()["dirty"]) == (commit, False)
    (there / "repro" / "b.py").write_text("c")
    assert (provenance()["commit"], provenance()["dirty"]) == ("older", True)


@pytest.mark.parametrize("change", [
    lambda there: (there / "repro" / "b.py").write_text("c"),
    lambda there: (there / "README").unlink(),
    lambda there: (there / "repro" / "new.py").touch(),
    lambda there: ((there / "repro" / "link").unlink(), (there / "repro" / "link").symlink_to("../results")),
])  # fmt: skip
def test_a_copy_that_was_changed_is_dirty(copied, change):
    there, commit = copied
    change(there)
    assert source.standing(there) == (commit, True)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"commit": "c"}', '{"commit": "c", "files": 1}', None])
def test_without_a_readable_manifest_the_commit_is_unknown(tmp_path, text):
    if text is not None:
        (tmp_path / source.NAME).write_text(text)
    assert source.standing(tmp_path) == (None, None)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["/home/ann/x/.venv/bin/repro", "run", "pipesgd/fig4-mnist"], "repro run pipesgd/fig4-mnist"),
        (["repro", "data.root=/home/ann/data/mnist"], "repro data.root=mnist"),
        (["repro", "data.root=/home/ann/data/"], "repro data.root=data"),
        (["repro", "--out=~ann/results", "a=/x/one,/y/two"], "repro --out=results a=one,two"),
        (["repro", "testbed=paper/pipesgd", "lr=0.1"], "repro testbed=paper/pipesgd lr=0.1"),
    ],
)
def test_commands_keep_only_the_last_component_of_absolute_paths(given, expected):
    assert command(given) == expected


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("mpirun (Open MPI) 4.1.4\n\nReport bugs", "Open MPI 4.1.4"),
        ("Open MPI v5.0.11, package: Open MPI ann@host Distribution, ident: 5.0.11", "Open MPI 5.0.11"),
        ("HYDRA build details:\n    Version:            4.2.1", "MPICH 4.2.1"),
        ("MPICH Version:      4.2.1\nMPICH Release date: ...", "MPICH 4.2.1"),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.9 Build 20230307", "Intel MPI 2021.9"),
        ("something else", None),
    ],
)
def test_mpi_versions_hold_no_build_host(monkeypatch, text, version):
    monkeypatch.delitem(sys.modules, "mpi4py.MPI", raising=False)
    monkeypatch.setattr(module, "_output", lambda *_: text)
    assert module._mpi_version() == version


def test_hardware_of_a_machine_without_gpu(monkeypatch):
    monkeypatch.setattr(module, "_gpus", list)
    monkeypatch.setattr(module, "cpu_name", lambda: "Intel Xeon Processor")
    monkeypatch.setattr(module.os, "sched_getaffinity", lambda _: {0, 1})
    found = hardware("shared memory")
    assert found["class"] == "cpu-2core-intel-xeon-processor"
    assert found["gpu"] is None and found["network"] == "shared memory" and found["memory_gb"] >= 1
    assert set(found) == {"class", "cpu", "cores", "memory_gb", "gpu", "network"}


def test_hardware_with_gpus_and_the_users_choice_of_them(monkeypatch):
    monkeypatch.setattr(module.metadata, "version", lambda _: "2.13.0+cu128")
    monkeypatch.setattr(module, "_output", lambda *_: "NVIDIA H200\nNVIDIA H200")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert hardware("NVLink")["class"] == "gpu-2x-h200"
    assert hardware("NVLink")["gpu"] == "NVIDIA H200 x 2"
    assert hardware("NVLink", device="cpu")["class"].startswith("cpu-")
    for visible, count in [("1", 1), ("", 0), ("-1", 0), ("GPU-abc,MIG-def", 2)]:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert len(module._gpus()) == count
    monkeypatch.setattr(module, "_output", lambda *_: None)
    assert module._gpus() == []


def test_a_cpu_build_of_torch_has_no_gpu(monkeypatch):
    monkeypatch.setattr(module.metadata, "version", lambda _: "2.13.0+cpu")
    monkeypatch.setattr(module, "_output", lambda *_: "NVIDIA H200")
    assert module._gpus() == []


def testcpu_names_are_plain():
    assert module.cpu_name() and not re.search(r"\(R\)|@|CPU", module.cpu_name())
