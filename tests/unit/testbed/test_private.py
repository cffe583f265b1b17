"""The folder of shaped networks has a name that others can guess: nothing in it is believed that is not ours."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys

import pytest

from repro.common.errors import FaultError, InputError
from repro.testbed import network, private, sweep
from tests.support.cli import refused, repro


@pytest.fixture
def runtime(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRO_RUNTIME", str(tmp_path))
    return tmp_path / "repro-testbed"


def test_a_planted_link_leads_nowhere(tmp_path, runtime):
    victim = tmp_path / "victim"
    victim.mkdir()
    runtime.symlink_to(victim)
    refused(repro(tmp_path, "testbed", "down"), str(runtime), "is a link")
    assert not list(victim.iterdir())


def test_a_planted_lock_overwrites_no_other_file(tmp_path, runtime):
    victim = tmp_path / "victim"
    victim.write_text("kept")
    runtime.mkdir(mode=0o700)
    for name in ("lock", network.KEPT):
        (runtime / name).symlink_to(victim)
        refused(repro(tmp_path, "testbed", "down"), name, "is a link")
        (runtime / name).unlink()
    assert victim.read_text() == "kept"


def test_a_folder_that_others_may_use_or_own_is_refused(runtime, monkeypatch):
    assert network.runtime_folder() == runtime and runtime.stat().st_mode & 0o777 == 0o700
    runtime.chmod(0o777)
    with pytest.raises(InputError, match=r"mode 777.*chmod 700"):
        network.runtime_folder()
    runtime.chmod(0o700)
    (runtime / network.KEPT).write_text("{}")
    another = os.geteuid() + 1
    monkeypatch.setattr(private.os, "geteuid", lambda: another)
    with pytest.raises(InputError, match="belongs to another user"):
        network.runtime_folder()
    with pytest.raises(InputError, match="belongs to another user"):
        private.opened(runtime / network.KEPT, "r")


def test_without_a_folder_of_the_system_it_lies_in_tmp(monkeypatch):
    asked = []
    for name in ("REPRO_RUNTIME", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(network.os, "geteuid", lambda: 4321)
    monkeypatch.setattr(private, "folder", lambda path: asked.append(str(path)))
    network.runtime_folder()
    assert asked == ["/tmp/repro-4321"]  # itself checked, not only a folder within it


def test_down_signals_no_process_but_the_keeper(runtime, monkeypatch):
    """A state whose process number went to another process since: that one lives on."""
    monkeypatch.setattr(network, "STOP_LIMIT_S", 0.0)
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        kept = network.runtime_folder() / network.KEPT
        state = {"id": "0" * 32, "keeper": other.pid, "keeper_started": sweep.started(other.pid) - 1}
        kept.write_text(json.dumps(state))
        with open(kept) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            with pytest.raises(FaultError, match=f"process {other.pid} is not the network's keeper"):
                network.take_down()
        assert other.poll() is None
    finally:
        other.communicate(b"\n")
    assert other.returncode == 0
