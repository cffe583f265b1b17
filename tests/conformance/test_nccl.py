"""What runs with NCCL comes through by its rules, with the virtual fabric's bits: algorithms, pipelines, the suite."""

from __future__ import annotations

import re
from collections import OrderedDict
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from repro import strategies
from repro.core.errors import InputError
from repro.experiment.expand import expand
from repro.fabric import capabilities
from repro.fabric.base import LIBRARIES, NCCL
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
@pytest.mark.parametrize("size", [1, 2, 3])
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


@pytest.mark.parametrize("name", ["pipedream", "gpipe", "one_f_one_b_flush", "model_parallel"])
@pytest.mark.parametrize("config, cuts", [("1-1-1-1", [1, 2, 3]), ("1-2-1", [1, 3]), ("3-2", [2])])
def test_every_pipeline(name, config, cuts):
    """Also where messages are sent again after a resume."""
    if name == "model_parallel" and config != "1-1-1-1":
        pytest.skip("model parallelism has every stage on one machine")
    workers = sum(map(int, config.split("-")))
    times = BlockSeconds([1e-3] * BLOCKS, [2e-3] * BLOCKS)
    how = {"workers": workers, "steps": 8, "build_model": deep, "blocks": lambda rank: times}
    options = {"config": config, "cuts": cuts}
    here = small.run(name, options, **how)
    there = small.run(name, options, fabric="nccl", **how)
    assert (here.digests, here.bytes_sent) == (there.digests, there.bytes_sent)
    assert small.run(name, options, fabric="nccl", stop_and_resume_at=4, **how).digests == here.digests


OTHERWISE = [
    ("topk", {"allgather": "ring"}),
    ("gtopk", {"aggregation": "allgather"}),
    ("dsync", {"codec": "quantize8", "algorithm": "ring_pipelined"}),
    ("pipe_sgd", {"K": 3, "segments": 2}),
]


@pytest.mark.parametrize("name, options", OTHERWISE)
def test_options_that_exchange_otherwise(name, options):
    here = small.run(name, options, workers=3, steps=5)
    small.assert_same(here, small.run(name, options, workers=3, steps=5, fabric="nccl"))


class Native(NcclRules):
    native_by_default = True


CHOSEN = [({}, "auto"), ({"algorithm": "tree"}, "tree"), ({"codec": "quantize8"}, "ring")]


@pytest.mark.parametrize("chosen, taken", CHOSEN)
def test_the_librarys_allreduce_is_the_default(chosen, taken):
    options = strategies.load("dsync").parse(chosen)

    def main(fabric):
        return options.allreduce(SimpleNamespace(fabric=fabric, seed=0), 8).algorithm

    assert run(2, main, NETWORK, kind=Native) == [taken] * 2
    assert run(2, main, NETWORK, kind=NcclRules)[0] == (taken if chosen else "ring")


def test_what_shows_nccl_with_one_rank_calls_it(monkeypatch):
    """Whose allreduce is left out where nobody else sums, shows nothing of it."""
    called: list[str] = []

    class Counting(Native):
        def _collective(self, name, *given):
            called.append(name)
            return super()._collective(name, *given)

    monkeypatch.setattr(small, "by_nccls_rules", lambda *given: run(*given, kind=Counting))
    alone = [planned.config for planned in expand("gpu/01-smoke", ["dataset.standin=always"])]
    alone = [config for config in alone if config.workers == 1]
    assert alone and all(config.testbed.launcher == "torchrun" for config in alone)
    for config in alone:
        called.clear()
        how = {"workers": 1, "steps": 3, "blocks": lambda rank: BlockSeconds([1e-3] * 2, [2e-3] * 2)}
        small.run(config.strategy.name, config.strategy.plain_options(), fabric="nccl", **how)
        assert called.count("allreduce") >= 3, config.variant


NEEDING = [name for name, each in strategies.REGISTRY.usable().items() if each.requires - NCCL - LIBRARIES.keys()]


@pytest.mark.parametrize("name", NEEDING)
def test_what_cannot_run_with_nccl_says_in_one_line_what_to_take(name):
    """Before ranks start where NCCL is asked for, else when they have found that it is what they have."""
    strategy = strategies.load(name)
    with pytest.raises(InputError) as refused:
        capabilities.check(name, strategy.requires, "torch", "nccl")
    said = str(refused.value)
    assert re.match(rf"{name} needs .*, which fabric nccl lacks; take MPI \(testbed\.launcher=mpirun", said), said
    # gloo cannot test a transfer
    assert ("testbed.backend=gloo" in said) == ("test" not in strategy.requires) and "pinned host memory" in said
    fabric = SimpleNamespace(
        name="torch", backend="nccl", capabilities=NCCL, size=strategy.ranks(strategy.Options(), 2)
    )
    with pytest.raises(InputError, match=re.escape(said)):
        check_ranks(fabric, strategy(), SimpleNamespace(workers=2))
    capabilities.check(name, strategy.requires, "torch", "gloo")
