"""The pool, a process with PyTorch imported from which ranks are forked: statuses, signals, ends, the same results."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from repro.core.errors import FaultError
from repro.core.paths import PROJECT
from repro.experiment.expand import expand_runs
from repro.experiment.identify import identify_runs
from repro.launch import pool as pools
from repro.launch.local import rank_environment
from repro.launch.pool import Pool, Pools
from repro.launch.runner import run_unfinished
from repro.records.events import read_events
from tests.support.ranks import pool
from tests.support.waiting import LIMIT_S, wait_until

pytestmark = pytest.mark.ranks
TORCHRUN = ["testbed=here", "testbed.launcher=torchrun"]
SMALL = ["dataset.standin=always", "workers=2", "batch=40", "epochs=0.4", "eval_every=0.2"]
PROGRAM = """
    import os, signal, sys, threading, time
    if sys.argv[1] == "wait":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
    print("ready", os.getpid(), threading.active_count(), sys.argv[1:], flush=True)
    if sys.argv[1] == "wait":
        while True:
            time.sleep(0.05)  # a handler runs late that comes just before a sleep
    if sys.argv[1] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if sys.argv[1] == "fails":
        raise ValueError("as it may be")
    if sys.argv[1] == "ends":
        import atexit
        atexit.register(open("atexit", "w").write, "written")
        threading.Thread(target=lambda: [time.sleep(0.2), open("thread", "w").write("written")]).start()
        sys.buffered = open("buffered", "w")
        sys.buffered.write("written")
    if sys.argv[1] == "names":
        import torch
        print(os.readlink("/proc/self/ns/net"), torch.get_num_threads(), os.getcwd(), os.environ["OWN"])
"""


@pytest.fixture
def start(tmp_path):
    (tmp_path / "forked_program.py").write_text(textwrap.dedent(PROGRAM))
    started = []

    def start(*words, before=()):
        command = [*before, pool().python, "-m", "forked_program", *words]
        own = os.environ | {"PYTHONPATH": str(tmp_path), "OWN": "own"}
        started.append(
            subprocess.Popen(command, env=own, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def blocks(pid: int, sign: signal.Signals) -> bool:
    """Whether the process's main thread blocks a signal."""
    blocked = Path(f"/proc/{pid}/status").read_text().partition("SigBlk:")[2].split()[0]
    return bool(int(blocked, 16) >> (sign - 1) & 1)


def test_a_forked_process_has_its_arguments_and_environment_and_one_thread(start, tmp_path):
    out, err = start("names").communicate(timeout=LIMIT_S)
    ready, names = out.splitlines()
    assert ready.split()[2:] == ["1", "['names']"], err
    assert names.split()[1:] == ["1", str(tmp_path), "own"]


def test_a_forked_process_waits_for_its_threads_and_writes_its_buffers_at_its_end(start, tmp_path):
    ends = start("ends")
    _, err = ends.communicate(timeout=LIMIT_S)
    assert ends.returncode == 0 and not err
    assert {name: (tmp_path / name).read_text() for name in ("atexit", "thread", "buffered")} == dict.fromkeys(
        ("atexit", "thread", "buffered"), "written"
    )


def test_statuses_and_signals_are_passed_on(start):
    failing = start("fails")
    _, err = failing.communicate(timeout=LIMIT_S)
    assert failing.returncode == 1 and err.splitlines()[-1] == "ValueError: as it may be"
    killed = start("killed")
    killed.communicate(timeout=LIMIT_S)
    assert killed.returncode == -signal.SIGKILL
    waiting = start("wait")
    waiting.stdout.readline()
    waiting.send_signal(signal.SIGTERM)
    assert waiting.wait(LIMIT_S) == 7


def test_a_signal_during_the_request_is_passed_on(tmp_path):
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as other:
        listener.bind(str(tmp_path / "socket"))
        listener.listen(0)  # one waits; the next one's connect does too
        other.connect(listener.getsockname())
        stands_in = subprocess.Popen([sys.executable, "-IS", pools.__file__, listener.getsockname()])
        wait_until(lambda: blocks(stands_in.pid, signal.SIGTERM), "it is blocked")
        stands_in.send_signal(signal.SIGTERM)
        listener.accept()[0].close()
        link, _ = listener.accept()
        with link:
            for stream in socket.recv_fds(link, 1, 4)[1]:
                os.close(stream)
            assert link.recv(1) == bytes([signal.SIGTERM])
            link.sendall((7).to_bytes(8, "little", signed=True))
            assert stands_in.wait(LIMIT_S) == 7


def test_a_signal_that_does_not_interrupt_the_stand_in_is_passed_on(tmp_path):
    """As just before the stand-in waits: Python runs handlers only after the wait."""
    program = """
        import signal, sys, threading
        from repro.launch import pool
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        def signalled():
            sys.stdin.readline()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
            signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        threading.Thread(target=signalled, daemon=True).start()
        pool.stand_in(sys.argv[1], ["-m", "none"])
    """
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        listener.listen()
        stands_in = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program), listener.getsockname()], stdin=subprocess.PIPE
        )
        link, _ = listener.accept()
        with link:
            link.settimeout(LIMIT_S)
            for stream in socket.recv_fds(link, 1, 4)[1]:
                os.close(stream)
            wait_until(lambda: not blocks(stands_in.pid, signal.SIGTERM), "the stand-in waits for its answer")
            stands_in.stdin.write(b"\n")
            stands_in.stdin.flush()
            assert link.recv(1) == bytes([signal.SIGTERM])
            link.sendall((7).to_bytes(8, "little", signed=True))
            assert stands_in.wait(LIMIT_S) == 7


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_sent_with_the_request_is_passed_on(start, tmp_path, sign):
    (tmp_path / "sleeping.py").write_text("import time; time.sleep(600)")
    with (
        socket.socket(socket.AF_UNIX) as link,
        open(os.devnull, "r+") as null,
        open(tmp_path / "request", "w+") as request,
        open(tmp_path / "err", "w") as err,
    ):
        json.dump([["-m", "sleeping"], os.environ | {"PYTHONPATH": str(tmp_path)}, str(tmp_path)], request)
        request.flush()
        link.connect(str(Path(pool().python).with_name("socket")))
        streams = [null.fileno(), null.fileno(), err.fileno()]
        socket.send_fds(link, [bytes([0, sign])], [*streams, request.fileno()])  # in one piece
        link.settimeout(LIMIT_S)
        status = int.from_bytes(link.recv(8), "little", signed=True)
    interrupted = status == 1 and (tmp_path / "err").read_text().endswith("KeyboardInterrupt\n")  # its module had begun
    assert status == -sign or (sign == signal.SIGINT and interrupted)
    out, err = start("names").communicate(timeout=LIMIT_S)  # and the pool serves others
    assert out, err


def test_a_stopped_pool_ends_within_a_limit_and_is_named(monkeypatch):
    monkeypatch.setattr(pools, "CHECK_EVERY_S", 0.05)
    with Pools() as several:
        with pytest.raises(FaultError, match="SIGSTOP"), several.python(1, rank_environment(1)) as python:
            os.kill(several._pools[1].server.pid, signal.SIGSTOP)
            waits = subprocess.run(
                [python, "-m", "repro", "--version"], capture_output=True, text=True, timeout=LIMIT_S
            )
            assert waits.returncode == -signal.SIGKILL and not waits.stderr
            raise FaultError("a rank was lost")
        with several.python(1, rank_environment(1)):  # another
            monkeypatch.setattr(pools, "CHECK_EVERY_S", LIMIT_S)
            os.kill(several._pools[1].server.pid, signal.SIGSTOP)


def test_a_stopped_forked_process_ends_with_its_stand_in(start):
    waiting = start("wait")
    pid = int(waiting.stdout.readline().split()[1])
    os.kill(pid, signal.SIGSTOP)
    waiting.kill()
    wait_until(lambda: not alive(pid), "the forked process has ended")


def test_a_forked_process_is_in_the_namespaces_of_its_stand_in(start):
    if subprocess.run(["unshare", "--net", "true"], capture_output=True).returncode:
        pytest.skip("no network namespace is permitted here")
    out, err = start("names", before=["unshare", "--net", "--uts", "--ipc", "--pid", "--fork"]).communicate(
        timeout=LIMIT_S
    )
    ready, names = out.splitlines()
    assert names.split()[0] != os.readlink("/proc/self/ns/net"), err
    assert int(ready.split()[1]) < 10  # of process numbers of its own


def test_forked_processes_end_with_their_pool_whose_temporary_folder_may_have_a_long_name(tmp_path, monkeypatch):
    long = tmp_path / ("x" * 120)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    own = Pool(rank_environment(threads=1), preload="json")
    (tmp_path / "forked_program.py").write_text(textwrap.dedent(PROGRAM))
    words = [own.python, "-m", "forked_program", "wait"]
    variables = os.environ | {"PYTHONPATH": str(tmp_path)}
    waiting = subprocess.Popen(words, env=variables, stdout=subprocess.PIPE, text=True)
    pid = int(waiting.stdout.readline().split()[1])
    own.close()
    assert waiting.wait(LIMIT_S) == -signal.SIGKILL
    wait_until(lambda: not alive(pid), "the forked process has ended")
    waiting.stdout.close()
    assert not Path(own.python).parent.exists() and not list(long.iterdir())


@pytest.mark.usefixtures("pooled")
def test_weights_and_losses_are_those_of_fresh_ranks_bit_for_bit(tmp_path, monkeypatch):
    results = []
    for fresh in (False, True):
        monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / str(fresh)))
        own = expand_runs("pipesgd/fig4-mnist", [*SMALL, "strategy=pipe_sgd", "seeds=2", *TORCHRUN])
        own = own[fresh:]  # the one that comes second
        identify_runs(own)
        records, fault = run_unfinished(own, track=False, pools=Pools(fresh))
        assert fault is None
        losses = [
            [each["test_loss"] for each in read_events(run.folder / "events.jsonl") if each["event"] == "evaluation"]
            for run in own
        ]
        results.append([(each.result.weights_sha256, *of_run) for each, of_run in zip(records, losses, strict=True)])
    pooled, fresh_ranks = results
    assert len(pooled) == 2 and pooled[1:] == fresh_ranks and all(len(each) > 1 for each in pooled)


def test_runs_with_the_same_number_of_threads_share_a_pool_until_it_ends(monkeypatch):
    class Fake:
        def __init__(self, environment):
            self.python, self.closed, self.was_stopped, self.server = object(), False, False, self
            self.status = None
            made.append(self)

        def poll(self):
            return self.status

        def close(self):
            self.closed = True

    made: list[Fake] = []
    monkeypatch.setattr(pools, "Pool", Fake)
    with Pools() as several:
        with several.python(1, {}) as first, several.python(1, {}) as same, several.python(2, {}) as other:
            assert first is same and first is not other and len(made) == 2
            made[0].status = -signal.SIGKILL
            with several.python(1, {}) as second:
                assert second is not first
    assert all(each.closed for each in made)
    with Pools(fresh=True) as none, none.python(1, {}) as python:
        assert python == sys.executable and len(made) == 3


def test_the_project_is_found_from_anywhere():
    words = [pool().python, "-m", "repro", "--version"]
    shown = subprocess.run(words, cwd=PROJECT, capture_output=True, text=True, timeout=LIMIT_S)
    assert shown.returncode == 0 and shown.stdout.startswith("repro "), shown.stderr
