"""PyTorch's DistributedDataParallel as a strategy: D-Sync's weights, hooks, resume, what it says of lost ranks."""

from __future__ import annotations

import re
from collections import OrderedDict

import pytest
import torch
from torch import nn

from repro import strategies
from repro.common.errors import InputError
from repro.launch import runs
from repro.strategies.ddp import Options, ring_share, sent_bytes
from repro.testing import small
from tests.support.cli import run as run_cli
from tests.support.cli import summary

pytestmark = pytest.mark.ranks
N = sum(p.numel() for p in small.model().parameters())
MOMENTUM = small.SGD.model_copy(update={"momentum": 0.9, "weight_decay": 1e-3})
POWERSGD = {"hook": "powersgd", "powersgd_start": 3}


def wide() -> nn.Sequential:
    """4.8 MB of gradients: two buckets of 1 MiB or more."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        first, second = nn.Linear(small.INPUTS, 120_000), nn.Linear(120_000, small.CLASSES)
    return nn.Sequential(OrderedDict(a=first, b=second))


def normed() -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        second = nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, small.CLASSES))
        return nn.Sequential(OrderedDict(a=nn.Linear(small.INPUTS, 5), b=second))


def dropping() -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        first, second = nn.Linear(small.INPUTS, 20), nn.Linear(20, small.CLASSES)
    return nn.Sequential(OrderedDict(a=first, b=nn.Sequential(nn.Dropout(0.5), second)))


def frozen() -> nn.Sequential:
    built = small.model()
    for parameter in built[0].parameters():
        parameter.requires_grad_(False)
    return built


# --- weights


@pytest.mark.parametrize("workers", [2, 3, 4])
@pytest.mark.parametrize("build", [small.model, normed, dropping, frozen])
def test_it_is_dsync_up_to_the_order_of_summation(workers, build):
    """Also its minibatches, dropout and momentum, and a part of the model that does not train."""
    how = {"workers": workers, "optimizer": MOMENTUM, "build_model": build}
    found, dsync = small.run("ddp", **how), small.run("dsync", **how)
    torch.testing.assert_close(found.weights[0], dsync.weights[0], rtol=1e-5, atol=1e-6)
    for mine, theirs in zip(found.losses, dsync.losses, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-4)
    assert len(set(map(lambda w: w.numpy().tobytes(), found.weights))) == 1
    if build is not frozen:
        n = sum(p.numel() for p in build().parameters())
        assert found.bytes_sent == [12 * ring_share(4 * n, workers)] * workers


@pytest.mark.parametrize("workers", [2, 3])
def test_half_precision_is_close_and_half_the_bytes(workers):
    found, plain = (small.run("ddp", {"hook": hook}, workers=workers) for hook in ("fp16", "none"))
    torch.testing.assert_close(found.weights[0], plain.weights[0], rtol=1e-2, atol=1e-3)
    assert found.digests != plain.digests and len(set(found.digests)) == 1
    assert found.bytes_sent == [12 * ring_share(2 * N, workers)] * workers


@pytest.mark.parametrize("workers", [2, 3])
def test_powersgd_begins_where_it_is_told(workers):
    """5 x 6 goes as factors of 5 + 6 numbers; 3 x 5 would shrink by less than half, and biases are vectors."""
    plain = small.run("ddp", workers=workers, steps=3)
    before = small.run("ddp", POWERSGD, workers=workers, steps=3)  # the hook divides before it sums
    torch.testing.assert_close(before.weights[0], plain.weights[0], rtol=1e-5, atol=1e-6)
    found = small.run("ddp", POWERSGD, workers=workers, steps=8)
    assert len(set(found.digests)) == 1
    assert found.digests != small.run("ddp", workers=workers, steps=8).digests
    shrunk = 4 * (5 + 6 + 5 + 15 + 3)
    assert found.bytes_sent == [3 * ring_share(4 * N, workers) + 5 * ring_share(shrunk, workers)] * workers
    full = small.run("ddp", POWERSGD | {"powersgd_rank": 3}, workers=workers, steps=8)  # nothing shrinks by half
    torch.testing.assert_close(full.weights[0], small.run("ddp", workers=workers, steps=8).weights[0])


def test_error_feedback_loses_nothing():
    """What a rank 1 approximation leaves out comes later: after many steps the weights are near D-Sync's."""
    how = {"workers": 2, "steps": 60, "optimizer": small.SGD.model_copy(update={"lr": 0.02})}
    dsync, found = small.run("dsync", **how), small.run("ddp", POWERSGD, **how)
    moved = (dsync.weights[0] - small.run("dsync", workers=2, steps=3, optimizer=how["optimizer"]).weights[0]).norm()
    assert (found.weights[0] - dsync.weights[0]).norm() < 0.1 * moved


@pytest.mark.parametrize(
    ("options", "build", "stops"),
    [
        ({}, normed, (1, 5)),
        ({"hook": "fp16"}, small.model, (1, 5)),
        (POWERSGD, small.model, (1, 2, 3, 4, 7)),
        (POWERSGD | {"powersgd_rank": 2, "bucket_mb": 1}, wide, (2, 5)),
        ({"bucket_mb": 1}, wide, (1, 5)),
        ({}, wide, (5,)),
    ],
)
def test_it_resumes_to_the_same_bits(options, build, stops):
    """Errors and factors of PowerSGD, buckets as they were; running means are not moved by the resume."""
    how = {"workers": 3, "optimizer": MOMENTUM, "build_model": build, "steps": 8}
    whole = small.run("ddp", options, **how)
    for stop in stops:
        resumed = small.run("ddp", options, stop_and_resume_at=stop, **how)
        assert (resumed.digests, resumed.bytes_sent) == (whole.digests, whole.bytes_sent), stop


@pytest.mark.parametrize(
    ("shapes", "rank", "elements"),
    [
        ([(500, 784), (500,)], 1, 1284 + 500),
        ([(500, 784), (500,)], 4, 4 * 1284 + 500),
        ([(64, 32, 3, 3)], 2, 2 * (64 + 288)),
        ([(10, 1)], 4, 10),
        ([()], 1, 1),
    ],
)
def test_powersgd_s_bytes(shapes, rank, elements):
    assert sent_bytes(Options(hook="powersgd", powersgd_rank=rank), shapes) == 4 * elements


# --- whole runs


TORCHRUN = ("testbed=here", "testbed.launcher=torchrun", "strategy=ddp", "workers=3", "batch=60")


def test_a_killed_run_resumes_to_the_same_bits(tmp_path):
    powersgd = (*TORCHRUN, "strategy.hook=powersgd", "strategy.powersgd_start=4", "strategy.powersgd_rank=2")
    whole = summary(run_cli(tmp_path / "whole", *powersgd))
    killed = run_cli(tmp_path / "killed", *powersgd, fault="kill:1:13")
    assert killed.returncode == 1 and "rank 1" in killed.stderr and "Traceback" not in killed.stderr
    again = summary(run_cli(tmp_path / "killed", *powersgd, fault="kill:1:13"))
    assert again["wall"]["resumes"] == 1
    assert (again["weights_sha256"], again["bytes_sent"]) == (whole["weights_sha256"], whole["bytes_sent"])
    assert whole["fabric"] == "torch" and whole["phases"]["communicate"] == 0
    assert sum(whole["phases"].values()) == pytest.approx(whole["step"]["mean_s"], rel=1e-9)


def test_a_stopped_rank_ends_the_run_with_its_name(tmp_path):
    done = run_cli(tmp_path, *TORCHRUN, "timeout_s=4", fault="stop:1:5")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "DistributedDataParallel: nothing after 4 s" in done.stderr
    assert re.search(r"no word from rank (0, )?1\b", done.stderr), done.stderr  # rank 0 waits too, and may be late


# --- refusals


@pytest.mark.parametrize("testbed", ["testbed=here", "testbed=virtual"])
def test_other_fabrics_are_refused_with_the_way_out(testbed):
    with pytest.raises(InputError, match=r"ddp needs torch\.distributed.*testbed=here testbed\.launcher=torchrun"):
        runs.expand("pipesgd/fig4-mnist", ["strategy=ddp", testbed])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"hook": "bf16"}, "strategy.hook=bf16: must be none, fp16 or powersgd"),
        ({"bucket_mb": 0}, "strategy.bucket_mb=0"),
        ({"bucket_mb": 1.5}, "strategy.bucket_mb=1.5: must be a whole number"),
        ({"powersgd_rank": 0}, "strategy.powersgd_rank=0"),
        ({"powersgd_start": 1}, "strategy.powersgd_start=1: must be 2 or more"),
    ],
)
def test_bad_options_are_named(options, words):
    with pytest.raises(InputError, match=words):
        strategies.load("ddp").parse(options)


def test_its_twin_in_virtual_time():
    ddp = strategies.load("ddp")
    assert ddp.twin(Options()) == ("wfbp", {"bucket_mb": 25, "first_bucket_mb": 1, "algorithm": "native"})
    assert ddp.twin(Options(bucket_mb=5))[1]["first_bucket_mb"] == 5
    assert ddp.twin(Options(hook="fp16"))[1]["codec"] == "truncate16"
    assert ddp.twin(Options(hook="powersgd")) is None
