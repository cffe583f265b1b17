"""Errors for unusable options of each strategy, which name the allowed values."""

from __future__ import annotations

import pytest

from repro import strategies
from repro.core.errors import InputError


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("ddp", {"hook": "bf16"}, "strategy.hook=bf16: must be none, fp16 or powersgd"),
        ("ddp", {"bucket_mb": 0}, "strategy.bucket_mb=0"),
        ("diloco", {"H": 0}, "strategy.H=0: must be 1 or more"),
        ("diloco", {"outer_momentum": 1.0}, "strategy.outer_momentum=1.0: must be below 1"),
        ("diloco", {"algorithm": "star"}, "strategy.algorithm=star: must be ring"),
        ("dsync", {"codec": "truncate16", "algorithm": "tree"}, "needs algorithm 'ring'"),
        ("eager_quorum", {"quorum": 0}, "strategy.quorum=0: must be 1 or more"),
        ("eager_solo", {"sync_epochs": 0}, "strategy.sync_epochs=0: must be above 0"),
        ("eager_solo", {"algorithm": "server"}, "strategy.algorithm=server: the server needs a rank of its own"),
        ("eager_solo", {"density": 0.1, "algorithm": "ring"}, "strategy.density: top-k always uses an allgather"),
        ("eager_solo", {"limiter": -1}, "strategy.limiter=-1: must be 0 or more"),
        ("eager_solo", {"layerwise": True, "repeated": "skip"}, "strategy.layerwise: not with density or repeated"),
        ("gtopk", {"K": 0}, "1 or more"),
        ("gtopk", {"codec": "ternary"}, "quantize8"),
        ("gtopk", {"aggregation": "ring"}, "tree"),
        ("ibatch", {"sync": "bulk"}, "sync"),
        ("ibatch", {"placement": "elsewhere"}, "placement"),
        ("ibatch", {"bound": 1.5}, "strategy.bound=1.5"),
        ("ibatch", {"drop": 1.0}, "strategy.drop=1.0"),
        ("parameter_averaging", {"codec": "truncate16", "algorithm": "tree"}, "needs algorithm 'ring'"),
        ("parameter_averaging", {"algorithm": "server"}, "use strategy=ps_sync"),
        ("pipe_sgd", {"K": 0}, "strategy.K=0: must be 1 or more"),
        ("pipe_sgd", {"K": 65}, "strategy.K=65: must be 64 or less"),
        ("gtopk", {"K": 65}, "strategy.K=65: must be 64 or less"),
        ("pipe_sgd", {"pieces": 1025}, "strategy.pieces=1025: must be 1,024 or less"),
        ("pipe_sgd", {"K": 1.5}, "strategy.K=1.5: must be a whole number"),
        ("pipe_sgd", {"segments": 0}, "strategy.segments=0"),
        ("pipe_sgd", {"staleness_lr": 1}, "strategy.staleness_lr=1: must be true or false"),
        ("pipe_sgd", {"algorithm": "server"}, "use strategy=ps_sync"),
        ("pipedream", {"config": "2-0"}, "replicas of each stage"),
        ("pipedream", {"semantics": "none"}, "strategy.semantics"),
        ("pipedream", {"cuts": [1]}, "finds its own"),
        ("powersgd", {"rank": 0}, "strategy.rank=0: must be 1 or more"),
        ("powersgd", {"algorithm": "star"}, "strategy.algorithm=star: must be ring"),
        ("topk", {"K": 2, "thread": False}, "thread=true"),
        ("torch_pipelining", {"schedule": "zero_bubble"}, "must be gpipe, 1f1b or interleaved_1f1b"),
        ("torch_pipelining", {"cuts": "two"}, "strategy.cuts=two: must be a list"),
        ("wfbp", {"bucket_mb": -1}, "strategy.bucket_mb=-1: must be 0 or more"),
        ("wfbp", {"algorithm": "server"}, "use strategy=ps_sync"),
    ],
)
def test_wrong_options_are_named(name, options, words):
    with pytest.raises(InputError, match=words):
        strategies.load_strategy(name).parse(options)
