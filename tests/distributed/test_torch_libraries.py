"""PyTorch's DistributedDataParallel and its pipelining as strategies: weights, hooks, resume, refusals."""

from __future__ import annotations

import re
from collections import OrderedDict
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from repro import strategies
from repro.core.errors import InputError
from repro.experiment.expand import expand_runs
from repro.experiment.schema import Numerics
from repro.fabric.real.torch_dist import TorchFabric
from repro.strategies import powersgd, torch_pipelining
from repro.strategies.ddp import Options, ring_share, sent_bytes
from repro.strategies.torch_pipelining import OURS
from repro.testing import small
from tests.support.cli import killed_and_resumed, summary
from tests.support.cli import run as run_cli

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


@pytest.mark.parametrize(("workers", "build"), [(2, dropping), (3, normed), (3, frozen), (4, small.model)])
def test_it_is_dsync_up_to_the_order_of_summation(workers, build):
    """Also its minibatches, dropout, momentum, and frozen parameters."""
    how = {"workers": workers, "optimizer": MOMENTUM, "build_model": build}
    result, dsync = small.run("ddp", **how), small.run("dsync", **how)
    torch.testing.assert_close(result.weights[0], dsync.weights[0], rtol=1e-5, atol=1e-6)
    for mine, theirs in zip(result.losses, dsync.losses, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-4)
    assert len(set(map(lambda w: w.numpy().tobytes(), result.weights))) == 1
    if build is not frozen:
        n = sum(p.numel() for p in build().parameters())
        assert result.bytes_sent == [12 * ring_share(4 * n, workers)] * workers


def test_half_precision_is_close_and_half_the_bytes():
    workers = 3
    result, plain = (small.run("ddp", {"hook": hook}, workers=workers) for hook in ("fp16", "none"))
    torch.testing.assert_close(result.weights[0], plain.weights[0], rtol=1e-2, atol=1e-3)
    assert result.digests != plain.digests and len(set(result.digests)) == 1
    assert result.bytes_sent == [12 * ring_share(2 * N, workers)] * workers


def test_powersgd_starts_at_the_configured_step():
    """5 x 6 is sent as factors of 5 + 6 numbers; 3 x 5 would shrink by less than half, and biases are vectors."""
    workers = 3
    plain = small.run("ddp", workers=workers, steps=3)
    before = small.run("ddp", POWERSGD, workers=workers, steps=3)  # the hook divides before it sums
    torch.testing.assert_close(before.weights[0], plain.weights[0], rtol=1e-5, atol=1e-6)
    result = small.run("ddp", POWERSGD, workers=workers, steps=8)
    assert len(set(result.digests)) == 1
    assert result.digests != small.run("ddp", workers=workers, steps=8).digests
    shrunk = 4 * (5 + 6 + 5 + 15 + 3)
    assert result.bytes_sent == [3 * ring_share(4 * N, workers) + 5 * ring_share(shrunk, workers)] * workers
    full = small.run("ddp", POWERSGD | {"powersgd_rank": 3}, workers=workers, steps=8)  # nothing shrinks by half
    torch.testing.assert_close(full.weights[0], small.run("ddp", workers=workers, steps=8).weights[0])


def low_rank() -> nn.Sequential:
    """Matrices of 40 x 6, 24 x 40 and 3 x 24; the last shrinks enough at rank 1 alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        linear = [nn.Linear(small.INPUTS, 40), nn.Linear(40, 24), nn.Linear(24, small.CLASSES)]
    return nn.Sequential(OrderedDict(a=nn.Sequential(linear[0], nn.Tanh()), b=nn.Sequential(*linear[1:])))


@pytest.mark.parametrize("rank", [1, 2])
def test_our_powersgd_is_pytorchs(rank, monkeypatch):
    """PyTorch's hook on two ranks over gloo; ours starts from the Q that it draws, for the last matrix first.

    Up to rounding, for few iterations: at rank 2 PyTorch's Gram-Schmidt, which visits a column once, loses digits as
    the columns of P become dependent, and after a dozen iterations on so small a model the two diverge.
    """

    class Drawn(powersgd.PowerSGD):
        def setup(self, worker):
            super().setup(worker)
            torch.manual_seed(np.random.RandomState(worker.seed).randint(1_000_000_000))
            for q in reversed(self.q):
                q.copy_(torch.randn(q.shape))

    monkeypatch.setattr(powersgd, "PowerSGD", Drawn)
    how = {"workers": 2, "steps": 8, "build_model": low_rank, "optimizer": MOMENTUM}
    theirs = small.run("ddp", {"hook": "powersgd", "powersgd_start": 3, "powersgd_rank": rank}, **how)
    ours = small.run("powersgd", {"rank": rank, "start": 3, "min_compression": 2}, **how)
    dense = small.run("dsync", **how)
    off = (ours.weights[0] - theirs.weights[0]).norm()
    assert off < 1e-3 * (dense.weights[0] - theirs.weights[0]).norm()


def test_error_feedback_loses_nothing():
    """The part that a rank 1 approximation leaves out is sent later: after many steps the weights are near D-Sync's."""
    how = {"workers": 2, "steps": 40, "optimizer": small.SGD.model_copy(update={"lr": 0.02})}
    dsync, result = small.run("dsync", **how), small.run("ddp", POWERSGD, **how)
    moved = (dsync.weights[0] - small.run("dsync", workers=2, steps=3, optimizer=how["optimizer"]).weights[0]).norm()
    assert (result.weights[0] - dsync.weights[0]).norm() < 0.1 * moved


@pytest.mark.parametrize(
    ("options", "build", "stops"),
    [
        ({}, normed, (1, 5)),
        ({"hook": "fp16"}, small.model, (5,)),
        (POWERSGD, small.model, (2, 3, 4)),  # before, at and after its start
        (POWERSGD | {"powersgd_rank": 2, "bucket_mb": 1}, wide, (2, 5)),
        ({"bucket_mb": 1}, wide, (5,)),
    ],
)
def test_it_resumes_to_the_same_bits(options, build, stops):
    """PowerSGD's errors and factors and the buckets are restored; running means are not changed by the resume."""
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
    whole, again = killed_and_resumed(tmp_path, *powersgd)
    assert again["bytes_sent"] == whole["bytes_sent"]
    assert whole["fabric"] == "torch" and whole["phases"]["communicate"] == 0
    assert sum(whole["phases"].values()) == pytest.approx(whole["step"]["mean_s"], rel=1e-9)


def test_a_stopped_rank_ends_the_run_with_its_name(tmp_path):
    done = run_cli(tmp_path, *TORCHRUN, "timeout_s=4", fault="stop:1:5")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "DistributedDataParallel: nothing after 4 s" in done.stderr
    assert re.search(r"no response from rank (0, )?1\b", done.stderr), done.stderr  # rank 0 waits too, and may be late


# --- refusals


def test_its_twin_in_virtual_time():
    ddp = strategies.load_strategy("ddp")
    assert ddp.twin(Options()) == ("wfbp", {"bucket_mb": 25, "first_bucket_mb": 1, "algorithm": "native"})
    assert ddp.twin(Options(bucket_mb=5))[1]["first_bucket_mb"] == 5
    assert ddp.twin(Options(hook="fp16"))[1]["codec"] == "truncate16"
    assert ddp.twin(Options(hook="powersgd")) is None


# --- torch.distributed.pipelining: plain SGD's weights, our pipelines' updates


PIPELINING = "torch_pipelining"


def deep() -> nn.Sequential:
    """Six blocks, with running statistics and dropout."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        widths = [small.INPUTS, 8, 8, 8, 8, 8, small.CLASSES]
        blocks = [nn.Linear(a, b) for a, b in pairwise(widths)]
        blocks[1] = nn.Sequential(blocks[1], nn.BatchNorm1d(8), nn.ReLU())
        blocks[3] = nn.Sequential(blocks[3], nn.Dropout(0.3), nn.Tanh())
    return nn.Sequential(OrderedDict(zip("abcdef", blocks)))


def dropless() -> nn.Sequential:
    """The same without what depends on which samples are together."""
    built = deep()
    built[1], built[3] = built[1][0], nn.Sequential(built[3][0], nn.Tanh())
    return built


@pytest.mark.parametrize(("workers", "options"), [
    (2, {"schedule": "gpipe"}),
    (4, {"schedule": "1f1b", "cuts": [1, 2, 5]}),
    (3, {"schedule": "interleaved_1f1b"}),
    (2, {"schedule": "interleaved_1f1b", "stages": 3, "cuts": [1, 2, 3, 4, 5]}),
], ids=str)  # fmt: skip
def test_it_is_plain_sgd_on_the_global_batch(workers, options):
    """D-Sync's weights, block by block on the rank that has them, up to the order of summation."""
    how = {"workers": workers, "optimizer": MOMENTUM, "build_model": dropless}
    result, dsync = small.run(PIPELINING, options, **how), small.run("dsync", blocks=None, **how).weights[0]
    sizes = {name: sum(p.numel() for p in block.parameters()) for name, block in dropless().named_children()}
    whole = dict(zip(sizes, dsync.split(list(sizes.values()))))
    for mine, held in zip(result.weights, result.held):
        blocks = [name for name in sizes if any(entry.startswith(f"{name}.") for entry in held)]
        torch.testing.assert_close(mine, torch.cat([whole[name] for name in blocks]), rtol=1e-5, atol=1e-6)
    losses = [losses for losses in result.losses if losses]
    assert len(losses) == 1 and len(losses[0]) == 12, "of the last stage's rank"


@pytest.mark.parametrize("schedule", OURS)
def test_it_makes_the_updates_of_our_pipeline_of_that_schedule(schedule):
    """With running statistics and dropout, and the same bytes."""
    how = {"workers": 3, "optimizer": MOMENTUM, "build_model": deep, "blocks": None, "fabric": "torch"}
    result = small.run(PIPELINING, {"schedule": schedule, "cuts": [2, 4]}, **how)
    ours = small.run(OURS[schedule], {"config": "1-1-1", "cuts": [2, 4]}, **how)
    for mine, theirs in zip(result.weights, ours.weights):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)
    assert result.bytes_sent == ours.bytes_sent and result.held == ours.held


@pytest.mark.parametrize(
    ("options", "numerics"),
    [({"schedule": "gpipe"}, Numerics(precision="bf16")), ({"schedule": "interleaved_1f1b"}, Numerics())], ids=str,
)  # fmt: skip
def test_pipelining_resumes_to_the_same_bits(options, numerics):
    how = {"workers": 2, "optimizer": MOMENTUM, "build_model": deep, "steps": 7, "numerics": numerics}
    whole = small.run(PIPELINING, options, **how)
    resumed = small.run(PIPELINING, options, stop_and_resume_at=3, **how)
    assert (resumed.digests, resumed.bytes_sent) == (whole.digests, whole.bytes_sent)


STAGES = (*TORCHRUN[:2], f"strategy={PIPELINING}", "workers=3", "batch=60", "accumulate=2")


def test_the_record_of_pipelining_has_its_phases(tmp_path):
    whole = summary(run_cli(tmp_path, *STAGES))
    assert whole["pipeline"]["schedule"] == "1f1b" and whole["pipeline"]["config"] == "1-1-1"
    phases = whole["phases"]
    assert min(phases[name] for name in ("forward", "backward", "communicate", "update")) > 0
    assert sum(phases.values()) == pytest.approx(whole["step"]["mean_s"], rel=1e-9)


def test_pipelining_a_stopped_rank_ends_the_run_with_a_line(tmp_path):
    done = run_cli(tmp_path, *STAGES, "timeout_s=4", fault="stop:1:5")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "a transfer of torch.distributed.pipelining: nothing after 4 s" in done.stderr, done.stderr


@pytest.mark.parametrize("testbed", ["testbed=here", "testbed=virtual"])
def test_pipelining_on_other_fabrics_is_refused_with_an_alternative(testbed):
    hint = r"testbed=here testbed\.launcher=torchrun"
    with pytest.raises(InputError, match=rf"{PIPELINING} needs torch\.distributed.*{hint}"):
        expand_runs("pipesgd/fig4-mnist", [f"strategy={PIPELINING}", testbed])


def test_pipelining_with_clipped_gradients_is_refused(tmp_path):
    done = run_cli(tmp_path, *STAGES, "optimizer.clip_norm=1.0")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "clip_norm" in done.stderr.strip().splitlines()[-1]


def test_pipelining_its_twin_in_virtual_time_is_our_pipeline():
    twin = strategies.load_strategy(PIPELINING).twin
    name, options = twin(torch_pipelining.Options(schedule="gpipe", cuts=[1, 2]))
    assert name == "gpipe" and options["config"] == "1-1-1" and options["cuts"] == [1, 2]
    assert twin(torch_pipelining.Options())[1]["config"] == "straight"
    assert twin(torch_pipelining.Options(schedule="interleaved_1f1b")) is None
    strategies.load_strategy(name).parse(options)


def test_gloo_is_refused_for_stages_on_gpus(monkeypatch):
    strategy = torch_pipelining.TorchPipelining(torch_pipelining.Options())
    monkeypatch.setattr(torch_pipelining, "check_trainable_in_stages", lambda *_: None)
    fabric = object.__new__(TorchFabric)
    fabric.backend = "gloo"
    worker = SimpleNamespace(fabric=fabric, model_shard=SimpleNamespace(device=torch.device("cuda")))
    with pytest.raises(InputError, match=r"torch_pipelining: .* gloo sends from host memory alone"):
        strategy.setup(worker)
