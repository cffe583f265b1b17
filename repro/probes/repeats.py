"""Program `repeats`: whether a repeated and a resumed training end in the same bits.

It trains three times in the same processes: once, again, and with a checkpoint in the middle from which fresh
strategies resume. It compares the weights of all ranks. On a GPU this needs `numerics.deterministic=true`. A strategy
whose order of events is not fixed declares it (`deterministic`), and may differ.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from repro import data, probes, strategies
from repro.core.fields import Model
from repro.data.base import Dataset
from repro.experiment import needs
from repro.experiment.schema import RunConfig
from repro.fabric.base import Fabric
from repro.probes import ResultPart
from repro.probes.shared.steps import run_iterations
from repro.rank.checkpoints import Checkpoints
from repro.rank.factory import build_worker, check_ranks
from repro.strategies.base import Strategy, set_up
from repro.training.evaluation.evaluate import weights_digest

NUMERICS = True


class Options(Model):
    iterations: Annotated[int, Field(ge=2)]  # of each training


class Repetition(ResultPart):
    """what: `again` or `resumed`."""

    what: str
    same: bool
    ranks: int


class Result(ResultPart):
    """deterministic: as the strategy declares. weights_sha256: of rank 0."""

    iterations: int
    rows: list[Repetition]
    same: bool
    deterministic: bool
    weights_sha256: str


ranks = needs.strategy_ranks


def run(fabric: Fabric, config: RunConfig, folder: Path) -> probes.Finding:
    dataset, iterations = data.dataset_for(config), config.probe.iterations
    probes.announce_iterations(3, fabric.rank)
    digests: dict[str, list[str]] = {}
    for number, (what, resume_at) in enumerate((("once", 0), ("again", 0), ("resumed", iterations // 2)), 1):
        digests[what] = fabric.exchange(train_digest(fabric, config, dataset, folder, iterations, resume_at))
        probes.report_progress(number, fabric.rank)
    rows: list[dict[str, Any]] = [
        {"what": what, "same": digests[what] == digests["once"], "ranks": fabric.size} for what in ("again", "resumed")
    ]
    same = all(row["same"] for row in rows)
    result = {
        "iterations": iterations,
        "rows": rows,
        "same": same,
        "deterministic": strategies.load_strategy(config.strategy.name)(config.strategy.options).deterministic,
        "weights_sha256": digests["once"][0],
    }
    differ = " and ".join(row["what"] for row in rows if not row["same"])
    line = f"{iterations} iterations {f'differ when {differ}' if differ else 'end in the same bits, again and resumed'}"
    return probes.Finding(result, {"same": float(same)}, line, config.model.name, 0, dataset)


def train_digest(
    fabric: Fabric, config: RunConfig, dataset: Dataset, folder: Path, iterations: int, resume_at: int
) -> str:
    """The digest of this rank's weights after training; resume_at: save and resume there; 0: never."""
    strategy = start_strategy(fabric, config, dataset, iterations)
    for iteration in range(iterations):
        run_iterations(strategy, iteration, iteration + 1)
        if iteration + 1 == resume_at:
            strategy.settle()
            checkpoints = Checkpoints(folder, fabric.rank)
            state = {"strategy": strategy.state_dict()}  # first, as it may still update the shard
            checkpoints.save(resume_at, {"part": strategy.worker.model_shard.state_dict()} | state)
            strategy.close()
            fabric.exchange(None)  # every rank has closed its listeners
            strategy = start_strategy(fabric, config, dataset, iterations)
            state = checkpoints.load(resume_at)
            strategy.worker.model_shard.load_state_dict(state["part"])
            strategy.load_state_dict(state["strategy"])
            fabric.exchange(None)  # every server has loaded its state before a worker sends a request
    strategy.drain()
    strategy.settle()
    weights = weights_digest(strategy.eval_weights())
    strategy.close()
    return weights


def start_strategy(fabric: Fabric, config: RunConfig, dataset: Dataset, iterations: int) -> Strategy:
    """A fresh strategy on a fresh worker, set up for `iterations` iterations."""
    strategy: Strategy = strategies.load_strategy(config.strategy.name)(config.strategy.options)
    check_ranks(fabric, strategy, config)
    worker = build_worker(fabric, config, dataset)
    worker.iterations = iterations
    set_up(strategy, worker)
    worker.clock.start()
    fabric.exchange(None)
    return strategy
