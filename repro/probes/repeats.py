"""Program `repeats`: does a run come to the same bits again, and when it is stopped, saved and gone on with?

The configuration's training for some iterations, three times in the same processes: once, again, and with a checkpoint
on the disk in the middle that fresh strategies go on from. What is compared are all ranks' weights. On a GPU it takes
`numerics.deterministic=true`; a strategy whose order of events is not fixed says so (`deterministic`), and may differ.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from repro import data, probes, strategies
from repro.core.fields import Model
from repro.data.base import Dataset
from repro.experiment import programs
from repro.experiment.schema import RunConfig
from repro.fabric.base import Fabric
from repro.probes.shared.steps import advance
from repro.rank.checkpoints import Checkpoints
from repro.rank.factory import build_worker, check_ranks
from repro.strategies.base import Strategy
from repro.training.evaluation.evaluate import digest

NUMERICS = True


class Options(Model):
    """Iterations of each of the three."""

    iterations: Annotated[int, Field(ge=2)]


ranks = programs.strategy_ranks


def run(fabric: Fabric, config: RunConfig, folder: Path) -> probes.Finding:
    """One rank's part."""
    dataset, iterations = data.of(config), config.probe.iterations
    probes.start(fabric, 3)
    found: dict[str, list[str]] = {}
    for number, (what, stop) in enumerate((("once", 0), ("again", 0), ("resumed", iterations // 2)), 1):
        found[what] = fabric.exchange(trained(fabric, config, dataset, folder, iterations, stop))
        probes.progress(fabric, number)
    rows: list[dict[str, Any]] = [
        {"what": what, "same": found[what] == found["once"], "ranks": fabric.size} for what in ("again", "resumed")
    ]
    same = all(row["same"] for row in rows)
    result = {
        "iterations": iterations,
        "rows": rows,
        "same": same,
        "deterministic": strategies.load(config.strategy.name)(config.strategy.options).deterministic,
        "weights_sha256": found["once"][0],
    }
    differ = " and ".join(row["what"] for row in rows if not row["same"])
    line = f"{iterations} iterations {f'differ when {differ}' if differ else 'end in the same bits, again and resumed'}"
    return probes.Finding(result, {"same": float(same)}, line, config.model.name, 0, dataset)


def trained(
    fabric: Fabric, config: RunConfig, dataset: Dataset, folder: Path, iterations: int, stop_and_resume_at: int
) -> str:
    """The digest of what this rank holds after training; 0: without a stop."""
    strategy = started(fabric, config, dataset, iterations)
    for iteration in range(iterations):
        advance(strategy, iteration, iteration + 1)
        if iteration + 1 == stop_and_resume_at:
            strategy.settle()
            checkpoints = Checkpoints(folder, fabric.rank)
            held = strategy.state_dict()  # which may still update the part
            checkpoints.save(stop_and_resume_at, {"part": strategy.worker.model_shard.state_dict(), "strategy": held})
            strategy.close()
            fabric.exchange(None)  # what listens to all ranks is gone on each of them
            strategy = started(fabric, config, dataset, iterations)
            state = checkpoints.load(stop_and_resume_at)
            strategy.worker.model_shard.load_state_dict(state["part"])
            strategy.load_state_dict(state["strategy"])
            fabric.exchange(None)  # nobody asks a server that has not loaded its state
    strategy.drain()
    strategy.settle()
    found = digest(strategy.eval_weights())
    strategy.close()
    return found


def started(fabric: Fabric, config: RunConfig, dataset: Dataset, iterations: int) -> Strategy:
    """A fresh strategy on a fresh worker, for so many iterations."""
    strategy: Strategy = strategies.load(config.strategy.name)(config.strategy.options)
    check_ranks(fabric, strategy, config)
    worker = build_worker(fabric, config, dataset)
    worker.iterations = iterations
    strategy.setup(worker)
    worker.clock.start()
    fabric.exchange(None)
    return strategy
