"""Horovod's DistributedOptimizer as a strategy; skipped, with the reason, where Horovod is not installed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from repro import strategies
from repro.core.errors import InputError
from repro.experiment.expand import expand_runs
from repro.strategies import horovod
from repro.strategies.horovod import Options
from repro.testing import real, small
from tests.distributed.test_torch_libraries import MOMENTUM, N, dropping, frozen, normed
from tests.support.cli import killed_and_resumed
from tests.support.cli import run as run_cli
from tests.support.waiting import LIMIT_S

SCRIPT = Path(__file__).resolve().parents[2] / "setup" / "horovod.sh"


@pytest.fixture
def installed():
    real.skip_without_library("horovod")


@pytest.mark.parametrize(
    ("workers", "build"), [(2, small.model), (2, dropping), (3, normed), (3, frozen), (4, small.model)]
)
def test_it_is_dsync_up_to_the_order_of_summation(installed, workers, build):
    how = {"workers": workers, "optimizer": MOMENTUM, "build_model": build}
    found, dsync = small.run("horovod", **how), small.run("dsync", **how)
    torch.testing.assert_close(found.weights[0], dsync.weights[0], rtol=1e-5, atol=1e-6)
    if workers == 2:  # two summands have one sum
        assert torch.equal(found.weights[0], dsync.weights[0])
    for mine, theirs in zip(found.losses, dsync.losses, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-4)


def test_half_precision_is_close_and_half_the_bytes(installed):
    workers = 3
    found, plain = (small.run("horovod", {"fp16": fp16}, workers=workers) for fp16 in (True, False))
    torch.testing.assert_close(found.weights[0], plain.weights[0], rtol=1e-2, atol=1e-3)
    assert found.digests != plain.digests and len(set(found.digests)) == 1
    assert found.bytes_sent == [12 * (2 * (workers - 1) * 2 * N // workers)] * workers
    assert plain.bytes_sent == [12 * (2 * (workers - 1) * 4 * N // workers)] * workers


@pytest.mark.parametrize("fp16", [False, True])
def test_two_workers_resume_to_the_same_bits(installed, fp16):
    how = {"workers": 2, "optimizer": MOMENTUM}
    whole = small.run("horovod", {"fp16": fp16}, **how)
    assert small.run("horovod", {"fp16": fp16}, stop_and_resume_at=7, **how).digests == whole.digests


# --- whole runs

HERE = ("testbed=here", "strategy=horovod")


@pytest.mark.ranks
def test_a_killed_run_resumes_to_the_same_bits(installed, tmp_path):
    own = (*HERE, "strategy.fusion_mb=0.01", "strategy.cycle_ms=0.5")
    whole, again = killed_and_resumed(tmp_path, *own)
    assert again["bytes_sent"] == whole["bytes_sent"]
    assert whole["fabric"] == "mpi" and whole["phases"]["communicate"] > 0
    assert sum(whole["phases"].values()) == pytest.approx(whole["step"]["mean_s"], rel=1e-9)


@pytest.mark.ranks
def test_a_stopped_rank_ends_the_run_with_its_name(installed, tmp_path):
    done = run_cli(tmp_path, *HERE, "workers=3", "batch=60", "timeout_s=4", fault="stop:1:5")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "Horovod's allreduce: nothing after 4 s; no response from rank 1" in done.stderr


# --- the set-up


def set_up(code: str, **environment: str) -> subprocess.CompletedProcess:
    """`code` after the functions of setup/horovod.sh."""
    command = ["bash", "-c", f"source {SCRIPT}\n{code}"]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, timeout=LIMIT_S)


def test_the_set_up_is_quick_where_it_is_done(installed):
    done = set_up('build() { die "building again"; }; main')
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")


@pytest.mark.parametrize(
    ("asked", "nccl", "cuda", "ready"),
    [("", 0, False, True), ("NCCL", 0, True, False), ("nccl", 21805, True, True), ("MPI", 0, False, False)],
)
def test_a_build_without_the_gpu_operations_that_are_asked_for_is_built_again(tmp_path, asked, nccl, cuda, ready):
    package = tmp_path / "horovod"
    (package / "torch").mkdir(parents=True)
    (tmp_path / "torch.py").write_text("__version__ = '2.13.0'")
    (package / "__init__.py").touch()
    (package / "metadata.json").write_text('{"pytorch": "2.13.0"}')
    built = f"nccl_built, cuda_built, mpi_built = lambda: {nccl}, lambda: {cuda}, lambda: True"
    (package / "torch" / "__init__.py").write_text(built)
    done = set_up(f"python={sys.executable}; horovod_is_ready", PYTHONPATH=str(tmp_path), HOROVOD_GPU_OPERATIONS=asked)
    assert (done.returncode == 0) is ready, done.stderr


def test_what_the_build_lacks_is_one_line():
    without = 'command() { [[ $2 != g++ ]] && builtin command "$@"; }; mpicxx() { return 1; }; can_apt() { return 1; }'
    done = set_up(f"{without}; ensure_tools")
    assert done.returncode == 2 and "this is missing: g++" in done.stderr and "libopenmpi-dev (names" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("stand_in", "limit", "words"),
    [
        ("sleep 30", "1", "was not built within 1 s: give it more with HOROVOD_BUILD_LIMIT_S="),
        ("echo 'x.cc:3:1: error: no such thing'; exit 1", "60", "could not be built: see above"),
        ("true", "soon", "HOROVOD_BUILD_LIMIT_S is 'soon'; must be a whole number"),
    ],
)
def test_a_build_that_fails_says_why(tmp_path, stand_in, limit, words):
    fake = tmp_path / "python"
    fake.write_text(f'#!/bin/sh\n[ "$1" = -c ] && echo 2.13.0 && exit 0\n{stand_in}\n')
    fake.chmod(0o755)
    work = "[[ $limit =~ ^[0-9]+$ ]] && build || main"
    done = set_up(f"python={fake}; log={tmp_path}/log; touch $log; {work}", HOROVOD_BUILD_LIMIT_S=limit)
    assert done.returncode == 2 and words in done.stderr
    assert ("no such thing" in done.stderr) == ("no such thing" in stand_in)


# --- refusals


def test_other_fabrics_are_refused_with_the_way_out():
    for testbed in (["testbed=here", "testbed.launcher=torchrun"], ["testbed=virtual"]):
        with pytest.raises(InputError, match=r"horovod needs mpi.*testbed=here testbed\.launcher=mpirun"):
            expand_runs("pipesgd/fig4-mnist", ["strategy=horovod", *testbed])


@pytest.mark.parametrize(("found", "lack"), [(False, "Horovod is not installed"), (True, "installed without PyTorch")])
def test_without_horovod_one_line_says_how_to_get_it(monkeypatch, tmp_path, found, lack):
    find = importlib.util.find_spec
    spec = importlib.util.spec_from_loader("horovod", None, is_package=True) if found else None
    if found:
        spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: spec if name == "horovod" else find(name, *rest)
    )
    with pytest.raises(InputError, match=f"strategy horovod: .*{lack}; `make setup-horovod`"):
        expand_runs("pipesgd/fig4-mnist", list(HERE))


def test_a_horovod_that_does_not_load_is_one_line_too(monkeypatch):
    monkeypatch.setattr(horovod, "_configured", False)
    monkeypatch.setitem(sys.modules, "horovod", None)
    with pytest.raises(InputError, match=r"strategy horovod: it does not load .*`make setup-horovod`"):
        horovod.start_horovod(None, Options())


def test_what_horovod_uses_itself_is_not_given_to_it():
    assert horovod.horovod_variables(Options()) == {
        "HOROVOD_FUSION_THRESHOLD": "134217728",
        "HOROVOD_CYCLE_TIME": "1.0",
    }
    assert horovod.horovod_variables(Options(cycle_ms=1)) == horovod.horovod_variables(Options(cycle_ms=1.0))


def test_its_twin_in_virtual_time():
    twin = strategies.load_strategy("horovod").twin
    assert twin(Options(fusion_mb=2)) == ("wfbp", {"bucket_mb": 0, "first_bucket_mb": 0, "algorithm": "native"})
    assert twin(Options(fp16=True))[1]["codec"] == "truncate16"
