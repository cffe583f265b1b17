"""Precision, layout, compilation and deterministic algorithms: their effect on weights, keys and records."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.nn import functional

from repro import models
from repro.core.errors import InputError, NotHere
from repro.experiment.expand import expand_runs
from repro.experiment.identify import identify_runs
from repro.experiment.key import keyed_values
from repro.experiment.schema import Numerics
from repro.testing import small
from repro.training import numerics
from repro.training.model_shard import FP32, ModelShard
from tests.support import virtual_runs

CPU, FIG4 = torch.device("cpu"), "pipesgd/fig4-mnist"
BF16, LAST = Numerics(precision="bf16"), Numerics(channels_last=True)
HERE = ["strategy=dsync", "testbed=here", "seeds=1", "dataset.standin=always"]


def planned(*overrides: str):
    (run,) = expand_runs(FIG4, [*HERE, *overrides])
    return run.config


# --- keys and refused combinations


def test_only_entries_that_differ_from_their_default_are_in_the_key():
    plain = keyed_values(planned())
    assert "numerics" not in plain
    assert plain == keyed_values(planned("numerics.precision=fp32", "numerics.deterministic=false"))
    assert keyed_values(planned("numerics.precision=bf16")) == plain | {"numerics": {"precision": "bf16"}}
    assert keyed_values(planned("numerics.compile=true")) == plain | {"numerics": {"compile": True}}


@pytest.mark.parametrize(("overrides", "complaint"), [
    (["numerics.precision=fp16"], "numerics.precision=fp16: must be fp32, tf32 or bf16"),
    (["numerics.precision=tf32"], "numerics.precision=tf32: requires a GPU, and device=auto has none here"),
    (["numerics.cudnn_benchmark=true", "numerics.deterministic=true"], "which contradicts deterministic=true"),
    (["numerics.precision=bf16", "testbed=virtual", "testbed.arithmetic=none"], "testbed virtual has no arithmetic"),
    (["numerics.compile=true", "testbed=virtual"], "computation on testbed virtual takes modelled time"),
    (["numerics.channels_last=true", "model=lstm_ptb", "dataset=ptb", "metric=perplexity", "targets=[100]"],
     "numerics.channels_last=true: requires image input, and model lstm_ptb takes text"),
])  # fmt: skip
def test_refused_combinations_are_one_line(overrides, complaint):
    with pytest.raises(InputError, match=complaint) as error:
        identify_runs([expand_runs(FIG4, [*HERE, *overrides])[0]])
    assert "\n" not in str(error.value)


def test_a_probe_refuses_and_a_gpu_allows_another_precision(monkeypatch):
    with pytest.raises(InputError, match=r"numerics\.precision=bf16: program ring"):
        expand_runs("pipesgd/fig3-ring", ["testbed=here", "numerics.precision=bf16"])
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert planned("numerics.precision=tf32", "breakdown=true").numerics.precision == "tf32"


# --- the process's switches


def switches():
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    deterministic = torch.are_deterministic_algorithms_enabled()
    return matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark, deterministic


def test_every_switch_is_set_whatever_it_was(monkeypatch):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    torch.backends.cudnn.allow_tf32 = True
    try:
        numerics.prepare_process(FP32)
        assert switches() == (False, False, False, False), "fp32 is without TF32, also in convolutions"
        numerics.prepare_process(Numerics(precision="tf32", cudnn_benchmark=True))
        assert switches() == (True, True, True, False)
        numerics.prepare_process(Numerics(deterministic=True))
        assert switches() == (False, False, False, True)
        assert numerics.os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    finally:
        numerics.prepare_process(FP32)


def test_compilation_needs_a_compiler(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(numerics.shutil, "which", lambda name: None)
    with pytest.raises(NotHere, match=r"torch\.compile needs a C\+\+ compiler"):
        numerics.prepare_process(Numerics(compile=True))


# --- weights


def bf16_sgd(steps: int) -> torch.Tensor:
    """A plain training loop, without this project."""
    model = small.model()
    optimizer = torch.optim.SGD(model.parameters(), small.SGD.lr)
    batches = small.Batches(small.split(), 4, 3, 10)
    for step in range(steps):
        x, y = batches[step]
        with torch.autocast("cpu", torch.bfloat16):
            output = model(x)
        optimizer.zero_grad()
        functional.cross_entropy(output.float(), y).backward()
        optimizer.step()
    return torch.cat([p.detach().view(-1) for p in model.parameters()])


def test_bf16_of_one_worker_is_autocast_around_plain_sgd_bit_for_bit():
    weights = small.run("dsync", workers=1, numerics=BF16).weights[0]
    assert weights.dtype == torch.float32 and torch.equal(weights, bf16_sgd(12))
    assert not torch.equal(weights, small.plain_sgd())


@pytest.mark.parametrize("how", [BF16, LAST, Numerics(precision="bf16", channels_last=True)], ids=str)
def test_pipe_sgd_with_K_1_equals_dsync(how):
    dsync = small.run("dsync", workers=3, numerics=how)
    assert small.run("pipe_sgd", {"K": 1}, workers=3, numerics=how).digests == dsync.digests


@pytest.mark.parametrize("name", ["dsync", "pipe_sgd", "wfbp", "gtopk", "ps_sync", "ibatch", "eager_solo", "pipedream"])
def test_bf16_is_close_to_fp32_and_resumes_bit_for_bit(name):
    whole = small.run(name, workers=2, numerics=BF16)
    assert whole.digests == small.run(name, workers=2, numerics=BF16, stop_and_resume_at=5).digests
    plain = small.run(name, workers=2)
    assert whole.digests != plain.digests
    torch.testing.assert_close(whole.weights[0], plain.weights[0], rtol=0.1, atol=0.05)


@pytest.mark.ranks
def test_bf16_of_ddp_equals_dsync():
    ddp, dsync = (small.run(name, workers=2, numerics=BF16).weights[0] for name in ("ddp", "dsync"))
    torch.testing.assert_close(ddp, dsync, rtol=1e-5, atol=1e-6)


@pytest.fixture
def double():
    """Batch norm of few samples amplifies rounding errors; in double precision they stay smaller than mistakes."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def images(name: str, how: Numerics, pieces: int = 1) -> tuple[ModelShard, torch.Tensor]:
    """A shard after a backward pass of so many microbatches, and its gradient (n,)."""
    shard = ModelShard(models.build_model(name, (3, 16, 16), 5, 0), small.SGD, CPU, 1, how)
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(8, 3, 16, 16, generator=generator), torch.randint(5, (8,), generator=generator)
    for piece, part in enumerate(zip(x.chunk(pieces), y.chunk(pieces))):
        place = piece, pieces
        shard.forward_backward(*part, functional.cross_entropy, lambda *_: nullcontext(), microbatch=place)
    return shard, shard.gradient(shard.empty())


@pytest.mark.parametrize("pieces", [1, 2])
@pytest.mark.parametrize("name", ["resnet20", "cifar100_cnn"])
def test_another_layout_is_the_same_gradient_to_rounding(name, pieces, double):
    _, plain = images(name, FP32, pieces)
    shard, gradient = images(name, LAST, pieces)
    assert (gradient - plain).norm() < 1e-10 * plain.norm()
    assert all(p.grad.is_contiguous() for p in shard.parameters)


def test_images_stay_in_that_layout_between_convolutions_and_leave_it_at_the_end():
    blocks = nn.Sequential(OrderedDict(a=nn.Conv2d(3, 8, 3), b=nn.Conv2d(8, 4, 3)))
    shard = ModelShard(blocks, small.SGD, CPU, 1, Numerics(channels_last=True, precision="bf16"))
    between = shard.calls[0](torch.randn(2, 3, 9, 9))
    assert between.is_contiguous(memory_format=torch.channels_last) and between.dtype == torch.bfloat16
    end = shard.calls[1](between)
    assert end.is_contiguous() and end.dtype == torch.float32


def test_a_part_of_the_model_keeps_its_numerics():
    shard = ModelShard(small.model(), small.SGD, CPU, 1, BF16).keep([1])
    assert shard.numerics is BF16 and list(dict(shard.model.named_children())) == ["b"]
    assert shard.calls[0](torch.randn(2, 5)).dtype == torch.float32


def test_compiled_blocks_train_to_the_same_weights(monkeypatch):
    """With gradient hooks, buckets and stashed versions. One thread, because compile workers each import torch."""
    monkeypatch.setattr("torch._inductor.config.compile_threads", 1)
    how = Numerics(compile=True)
    for name, options in (("wfbp", {}), ("pipedream", {"config": "1-1", "cuts": [1]})):
        plain, compiled = (small.run(name, options, workers=2, numerics=each) for each in (FP32, how))
        for mine, theirs in zip(compiled.weights, plain.weights):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0


# --- runs


def test_a_record_has_the_numerics(tmp_path):
    how = ["testbed=virtual", "workers=2", "batch=40", "epochs=0.1", "numerics.precision=bf16"]
    config = virtual_runs.configured(FIG4, [*HERE, *how, "numerics.deterministic=true"])
    try:
        summary = virtual_runs.ended(config, tmp_path)
    finally:
        numerics.prepare_process(FP32)
    assert summary["numerics"] == Numerics(precision="bf16", deterministic=True).model_dump()
