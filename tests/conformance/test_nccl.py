"""By NCCL's rules, collectives, pipelines and the fabric suite succeed, with the virtual fabric's bits."""

from __future__ import annotations

import re
from collections import OrderedDict
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from repro import strategies
from repro.core.errors import InputError
from repro.experiment.expand import expand_runs
from repro.fabric import capabilities
from repro.fabric.base import GLOO, LIBRARIES, NCCL
from repro.fabric.collectives import dense as collectives
from repro.fabric.sparse.collectives import ALLGATHERS
from repro.fabric.virtual.fabric import run
from repro.rank.factory import check_ranks
from repro.testing import small
from repro.testing.nccl import NcclRules, by_nccls_rules
from repro.training.device_times import BlockSeconds
from tests.support.fabric_checks import suite as fabric_suite
from tests.support.virtual import NETWORK

SIZES = [2, 3, 5]
BLOCKS = 4


@pytest.mark.parametrize("check", fabric_suite.CHECKS)
@pytest.mark.parametrize("size", [2, 3])
def test_the_suite_of_all_fabrics(size, check):
    try:
        by_nccls_rules(size, fabric_suite.CHECKS[check], NETWORK)
    except fabric_suite.Skip as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", [name for name in collectives.ALLREDUCE if name != "server"])
def test_every_allreduce(name, size):
    def main(fabric):
        vector = torch.full((7,), float(fabric.rank))
        for _ in range(2):  # connections are open the second time
            fabric.allreduce(vector, algorithm=name)
        return vector

    for vector in by_nccls_rules(size, main, NETWORK):
        assert torch.equal(vector, torch.full((7,), size * size * (size - 1) / 2))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ALLGATHERS)
def test_every_allgather(name, size):
    def main(fabric):
        return [part.item() for part in ALLGATHERS[name](fabric, torch.full((1,), float(fabric.rank)))]

    assert by_nccls_rules(size, main, NETWORK) == [list(range(size))] * size


def deep() -> nn.Sequential:
    """As many blocks as there are stages."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        hidden = [nn.Sequential(nn.Linear(small.INPUTS, small.INPUTS), nn.Tanh()) for _ in range(BLOCKS - 1)]
        layers = [*hidden, nn.Linear(small.INPUTS, small.CLASSES)]
    return nn.Sequential(OrderedDict((f"block{index}", layer) for index, layer in enumerate(layers)))


@pytest.mark.parametrize(
    ("name", "config", "cuts"),
    [
        ("pipedream", "1-1-1-1", [1, 2, 3]),
        ("pipedream", "3-2", [2]),
        ("gpipe", "1-2-1", [1, 3]),
        ("one_f_one_b_flush", "1-2-1", [1, 3]),
        ("model_parallel", "1-1-1-1", [1, 2, 3]),
    ],
)
def test_every_pipeline(name, config, cuts):
    """Also if messages are sent again after a resume."""
    workers = sum(map(int, config.split("-")))
    times = BlockSeconds([1e-3] * BLOCKS, [2e-3] * BLOCKS)
    how = {"workers": workers, "steps": 8, "build_model": deep, "blocks": lambda rank: times}
    options = {"config": config, "cuts": cuts}
    here = small.run(name, options, **how)
    there = small.run(name, options, fabric="nccl", **how)
    assert (here.digests, here.bytes_sent) == (there.digests, there.bytes_sent)
    assert small.run(name, options, fabric="nccl", stop_and_resume_at=4, **how).digests == here.digests


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("topk", {"allgather": "ring"}),
        ("gtopk", {"aggregation": "allgather"}),
        ("dsync", {"codec": "quantize8", "algorithm": "ring_pipelined"}),
        ("pipe_sgd", {"K": 3, "segments": 2}),
    ],
)
def test_options_that_change_the_exchange(name, options):
    here = small.run(name, options, workers=3, steps=5)
    small.assert_same(here, small.run(name, options, workers=3, steps=5, fabric="nccl"))


class Native(NcclRules):
    native_by_default = True


@pytest.mark.parametrize(
    ("chosen", "algorithm"), [({}, "auto"), ({"algorithm": "tree"}, "tree"), ({"codec": "quantize8"}, "ring")]
)
def test_the_librarys_allreduce_is_the_default(chosen, algorithm):
    options = strategies.load_strategy("dsync").parse(chosen)

    def main(fabric):
        return options.allreduce(SimpleNamespace(fabric=fabric, seed=0), 8).algorithm

    assert run(2, main, NETWORK, kind=Native) == [algorithm] * 2
    assert run(2, main, NETWORK, kind=NcclRules)[0] == (algorithm if chosen else "ring")


def test_the_smoke_test_of_nccl_calls_it_with_one_rank(monkeypatch):
    """A strategy that skips the allreduce with one worker would test nothing."""
    called: list[str] = []

    class Counting(Native):
        def _collective(self, name, *rest):
            called.append(name)
            return super()._collective(name, *rest)

    monkeypatch.setattr(small, "by_nccls_rules", lambda *arguments: run(*arguments, kind=Counting))
    alone = [planned.config for planned in expand_runs("gpu/01-smoke", ["dataset.standin=always"])]
    alone = [config for config in alone if config.workers == 1]
    assert alone and all(config.testbed.launcher == "torchrun" for config in alone)
    for config in alone:
        called.clear()
        how = {"workers": 1, "steps": 3, "blocks": lambda rank: BlockSeconds([1e-3] * 2, [2e-3] * 2)}
        small.run(config.strategy.name, config.strategy.plain_options(), fabric="nccl", **how)
        assert called.count("allreduce") >= 3, config.variant


NEEDING = [name for name, each in strategies.REGISTRY.usable().items() if each.requires - NCCL - LIBRARIES.keys()]


@pytest.mark.parametrize("name", NEEDING)
def test_a_strategy_that_cannot_run_on_nccl_is_refused_with_an_alternative(name):
    """Before ranks start if NCCL is configured, else once the ranks have chosen it."""
    strategy = strategies.load_strategy(name)
    with pytest.raises(InputError) as refused:
        capabilities.check_capabilities(name, strategy.requires, "torch", "nccl")
    message = str(refused.value)
    assert re.match(rf"{name} needs .*, which fabric nccl lacks; take MPI \(testbed\.launcher=mpirun", message), message
    # gloo cannot test a transfer
    assert ("testbed.backend=gloo" in message) == ("test" not in strategy.requires) and "pinned host memory" in message
    fabric = SimpleNamespace(
        name="torch", backend="nccl", capabilities=NCCL, size=strategy.ranks(strategy.Options(), 2)
    )
    with pytest.raises(InputError, match=re.escape(message)):
        check_ranks(fabric, strategy(), SimpleNamespace(workers=2))
    if strategy.requires <= GLOO:
        capabilities.check_capabilities(name, strategy.requires, "torch", "gloo")
        return
    for backend in ("gloo", "auto"):
        with pytest.raises(InputError, match=f"{name} needs .*, which fabric gloo lacks; take MPI"):
            capabilities.check_capabilities(name, strategy.requires, "torch", backend)
