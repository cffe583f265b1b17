"""Program `runtimes`: seconds of forward and backward pass, batch by batch, on one rank (eager-SGD section 2).

The paper shows an LSTM on videos (Figure 2 b), a Transformer on sentences (Figure 3) and a ResNet-50 on images of one
size (Figure 4). There is no communication, so the spread is the load imbalance of the data or the machine. Data loading
and the update are excluded. On a simulated testbed a batch takes the testbed's time for its length.
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
from repro.probes import ResultPart
from repro.probes.shared.options import needs_one
from repro.rank.factory import build_worker
from repro.training.worker import Worker


class Options(Model):
    """The batches are drawn without replacement."""

    what: Text  # a description of the workload
    batches: Count
    epochs: Positive  # of the training data, from which batches are drawn (one batch or more)
    warmup: Whole  # uncounted batches before


class Statistics(ResultPart):
    """Seconds; sd is divided by n - 1."""

    n: int
    min: float
    max: float
    median: float
    mean: float
    sd: float


class Result(ResultPart):
    """seconds: of each batch's passes, in order of execution; lengths: the length that each batch is padded to."""

    what: str
    batches: int
    seconds: list[float]
    statistics: Statistics
    lengths: list[int] | None
    unit_note: str


def check(config: RunConfig) -> None:
    needs_one(config, "times the batches of one worker")


def run(fabric: Fabric, config: RunConfig, folder: Path) -> probes.Finding:
    probe, dataset = config.probe, data.dataset_for(config)
    worker = build_worker(fabric, config, dataset)
    chosen = draw_minibatches(worker.batches, probe.batches, probe.epochs, config.seed)
    probes.announce_iterations(len(chosen), fabric.rank)
    worker.clock.start()
    for minibatch in chosen[: probe.warmup]:
        time_passes(worker, minibatch)
    seconds = []
    for minibatch in chosen:
        seconds.append(time_passes(worker, minibatch))
        probes.report_progress(len(seconds), fabric.rank)
    summary = summary_statistics(seconds)
    result = {
        "what": probe.what,
        "batches": len(chosen),
        "seconds": seconds,
        "statistics": summary,
        "lengths": padded_lengths(worker.batches, chosen),
        "unit_note": f"seconds of forward and backward pass of a batch of {config.batch}, one rank",
    }
    metrics = {f"seconds/{name}": value for name, value in summary.items()}
    line = (
        f"{summary['n']} batches, {1e3 * summary['min']:.3g} to {1e3 * summary['max']:.3g} ms, "
        f"mean {1e3 * summary['mean']:.3g}, sd {1e3 * summary['sd']:.3g}"
    )
    return probes.Finding(result, metrics, line, config.model.name, worker.model_shard.size, dataset)


def draw_minibatches(batches: Minibatches, count: int, epochs: float, seed: int) -> list[int]:
    """`count` minibatches of the first epochs, or all if there are fewer, in the order of training."""
    available = max(1, round(epochs * batches.per_epoch))
    return sorted(random.Random(f"runtimes/{seed}").sample(range(available), min(count, available)))


def time_passes(worker: Worker, minibatch: int) -> float:
    """Seconds of the forward and backward pass of a minibatch."""
    worker.clock.take()
    worker.gradients(minibatch)
    phases = worker.clock.take()
    return phases["forward"] + phases["backward"]


def padded_lengths(batches: Minibatches, chosen: list[int]) -> list[int] | None:
    """The padded length of each minibatch; None if all samples have one size."""
    length = getattr(batches, "length", None)
    return [length(minibatch) for minibatch in chosen] if length else None


def summary_statistics(values: list[float]) -> dict[str, float]:
    return {
        "n": len(values),
        "min": min(values),
        "max": max(values),
        "median": statistics.median(values),
        "mean": statistics.fmean(values),
        "sd": statistics.stdev(values) if len(values) > 1 else 0.0,
    }
