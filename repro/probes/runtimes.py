"""Program `runtimes`: seconds of forward and backward pass, batch by batch, on one rank (eager-SGD section 2).

What the paper draws of an LSTM on videos (Figure 2 b), of a Transformer on sentences (Figure 3) and of a ResNet-50 on
images of one size (Figure 4): nobody communicates, so how runtimes spread is the load imbalance that the data, or the
machine, bring along. Data loading and the update are not in it. Model, data and batch are the configuration's. On a
simulated testbed a batch takes the testbed's time for its length: what lengths alone would do.
"""

from __future__ import annotations

import random
import statistics
from pathlib import Path

from repro import data, probes
from repro.core.fields import Count, Model, Positive, Text, Whole
from repro.data.minibatches import Minibatches
from repro.experiment.schema import RunConfig
from repro.fabric.base import Fabric
from repro.probes.shared.options import needs_one
from repro.rank.factory import build_worker
from repro.training.worker import Worker


class Options(Model):
    """Batches drawn without replacement from so many epochs of the training data (at least one batch)."""

    what: Text  # runs, for people
    batches: Count
    epochs: Positive
    warmup: Whole  # batches before, which do not count


def check(config: RunConfig) -> None:
    """InputError for more workers than it uses."""
    needs_one(config, "times the batches of one worker")


def run(fabric: Fabric, config: RunConfig, folder: Path) -> probes.Finding:
    """All of it."""
    probe, dataset = config.probe, data.of(config)
    worker = build_worker(fabric, config, dataset)
    chosen = draw(worker.batches, probe.batches, probe.epochs, config.seed)
    probes.start(fabric, len(chosen))
    worker.clock.start()
    for minibatch in chosen[: probe.warmup]:
        passes(worker, minibatch)
    seconds = []
    for minibatch in chosen:
        seconds.append(passes(worker, minibatch))
        probes.progress(fabric, len(seconds))
    found = statistic(seconds)
    result = {
        "what": probe.what,
        "batches": len(chosen),
        "seconds": seconds,
        "statistics": found,
        "lengths": lengths(worker.batches, chosen),
        "unit_note": f"seconds of forward and backward pass of a batch of {config.batch}, one rank",
    }
    metrics = {f"seconds/{name}": value for name, value in found.items()}
    line = (
        f"{found['n']} batches, {1e3 * found['min']:.3g} to {1e3 * found['max']:.3g} ms, "
        f"mean {1e3 * found['mean']:.3g}, sd {1e3 * found['sd']:.3g}"
    )
    return probes.Finding(result, metrics, line, config.model.name, worker.model_shard.size, dataset)


def draw(batches: Minibatches, count: int, epochs: float, seed: int) -> list[int]:
    """So many minibatches of the first epochs, at most all of them, in the order of training."""
    there = max(1, round(epochs * batches.per_epoch))
    return sorted(random.Random(f"runtimes/{seed}").sample(range(there), min(count, there)))


def passes(worker: Worker, minibatch: int) -> float:
    """Seconds of the forward and backward pass of a minibatch."""
    worker.clock.take()
    worker.gradients(minibatch)
    taken = worker.clock.take()
    return taken["forward"] + taken["backward"]


def lengths(batches: Minibatches, chosen: list[int]) -> list[int] | None:
    """What each minibatch is padded to; None where all samples are of one size."""
    length = getattr(batches, "length", None)
    return [length(minibatch) for minibatch in chosen] if length else None


def statistic(values: list[float]) -> dict[str, float]:
    """{n, min, max, median, mean, sd}."""
    return {
        "n": len(values),
        "min": min(values),
        "max": max(values),
        "median": statistics.median(values),
        "mean": statistics.fmean(values),
        "sd": statistics.stdev(values) if len(values) > 1 else 0.0,
    }
